// For tests of what a user reads who makes a mistake: a kernel that works, and the check that afterwards the device,
// the program and the cache serve on.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/store/image_cache.h"
#include "tests/message_of.h"

namespace tegula {

namespace fs = std::filesystem;

inline const std::string kHead = "import triton\nimport triton.language as tl\n\n@triton.jit\n";

// out[i] = x[i] + n
inline const std::string kAdd = R"(def add(out, x, n, size, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < size)
    tl.store(out + i, v + n, mask=i < size)
)";

/// A program of one or more kernels; the first line of `text` is line 5 of k.py.
inline Program program_of(const std::string& text) { return Program::parse(kHead + text, "k.py"); }

class ErrorsTest : public testing::Test {
 protected:
  ErrorsTest() : device_(default_device()), x_(*device_, iota()), out_(*device_, 1000 * sizeof(float)) {
    root_ = fs::temp_directory_path() / ("tegula-errors-" + std::to_string(getpid()));
    fs::remove_all(root_);
    fs::create_directories(root_);
  }
  ~ErrorsTest() override { fs::remove_all(root_); }

  static std::vector<float> iota() {
    std::vector<float> values(1000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = float(i);
    return values;
  }

  std::shared_ptr<ImageCache> cache_at(const fs::path& folder) {
    return std::make_shared<ImageCache>(
        ImageCache::Options{folder, -1, [this](const std::string& text) { warnings_.push_back(text); }});
  }

  /// Whether `add` of the program gives right results on the device. Each call asks for another number to be added, so
  /// that no earlier result passes for this one's.
  void expect_works(const Program& program, Device& device, const Buffer& x, const Buffer& out) {
    int n = ++number_ * 4 - 2;  // one specialisation for all: a multiple of 2, not of 4
    program.kernel("add").launch(device, {8}, {.constexprs = {{"BLOCK", 128}}}, out.as<float>(), x.as<float>(), n,
                                 1000);
    std::vector<float> values = out.download<float>();
    for (int i = 0; i < 1000; ++i) ASSERT_EQ(values[i], float(i + n)) << i;
  }
  void expect_works(const Program& program) { expect_works(program, *device_, x_, out_); }
  void expect_works() { expect_works(good_); }

  /// The message of compiling and launching `kernel` of a text with x (float), y (float), n = 192 and BLOCK = 64 by
  /// the names of its parameters; then the device has to work.
  std::string refusal(const std::string& text, LaunchOptions options = {}) {
    std::string message = message_of([&] {
      Program program = program_of(text);
      Kernel kernel = program.kernel(program.kernels().back());
      std::vector<Arg> args;
      for (const KernelParam& p : kernel.params()) {
        if (p.is_constexpr && !p.has_default)
          options.constexprs.push_back({p.name, 64});
        else if (!p.is_constexpr)
          args.push_back(p.name == "x" ? Arg(x_.as<float>()) : p.name == "y" ? Arg(out_.as<float>()) : Arg(192));
      }
      kernel.launch(*device_, {1}, options, args);
    });
    expect_works();
    return message;
  }

  Device* device_;
  Buffer x_, out_;
  Program good_ = program_of(kAdd);
  fs::path root_;
  std::vector<std::string> warnings_;
  int number_ = 0;
};

}  // namespace tegula
