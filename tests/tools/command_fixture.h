// The tegula command, run as a user runs it.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

#include "tests/build_folder.h"

namespace tegula {

namespace fs = std::filesystem;

struct CommandResult {
  int status = -1;
  std::string out, err;
};

inline std::string read(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

inline const std::string kSource = R"(import triton
import triton.language as tl


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    m = i < n
    tl.store(out + i, tl.load(x + i, mask=m) + tl.load(y + i, mask=m), mask=m)


@triton.jit
def scale(x, factor, n, BLOCK: tl.constexpr, TYPE: tl.constexpr = tl.float32):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, (tl.load(x + i, mask=i < n).to(TYPE) * factor), mask=i < n)


@triton.jit
def leave(x):
    pass
)";

/// A kernel with configurations, of which one does not compile, and a helper.
inline const std::string kTuned = R"(import triton
import triton.language as tl


@triton.jit
def doubled(x):
    return x + x


@triton.autotune(configs=[triton.Config({"BLOCK": b}) for b in (32, 48, 4096)], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def double(x, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    tl.static_assert(BLOCK != 48, f"{BLOCK=} is not for {x.dtype}")
    tl.static_print("even", EVEN)
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(x + i, doubled(tl.load(x + i, mask=i < n)), mask=i < n)
)";

inline const std::string kNoPrograms = "/nonexistent";  ///< a PATH

/// A folder of its own with add.py in it, and the command run there.
class Command : public testing::Test {
 protected:
  Command() {
    std::string name = (fs::temp_directory_path() / "tegula-cli-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    write("add.py", kSource);
  }
  ~Command() override {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }

  void SetUp() override {
    if (!fs::exists(command_)) GTEST_SKIP() << "the tegula command is not built (TEGULA_TOOLS is off)";
  }

  void write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name, std::ios::binary) << text;
  }
  std::string file(const std::string& name) { return read(folder_ / name); }

  /// Without a GPU, with a cache of its own and, unless said otherwise, no program in PATH and no ptxas.
  CommandResult tegula(const std::string& arguments, const std::string& path = kNoPrograms) {
    std::string command = fmt::format(
        "cd '{0}' && {3} PATH='{1}' TEGULA_DEVICE=emulator TEGULA_CACHE_DIR='{0}/cache' '{4}' {2} >out.txt 2>err.txt",
        folder_.string(), path, arguments, path == kNoPrograms ? "TEGULA_PTXAS=" : "", command_.string());
    int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, file("out.txt"), file("err.txt")};
  }

  const fs::path command_ = build_folder() / "tegula";
  fs::path folder_;
};

inline bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

#define EXPECT_HAS(text, part) EXPECT_TRUE(has(text, part)) << text

inline const std::string kTypes = " --arg x='*f32' --arg y='*f32' --arg out='*f32' ";

}  // namespace tegula
