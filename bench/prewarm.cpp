// How long prewarm() takes for 200 specialisations.
//
//   prewarm list FOLDER        compiles the list on the default device; TEGULA_CACHE_DIR says whether a cache helps
//   prewarm build FOLDER       writes FOLDER/prewarm.tgp (sm_90a and, by --emulator, the emulator)
//   prewarm package FOLDER     makes that package ready
#include <fmt/format.h>

#include <chrono>
#include <string>

#include "dsl/kernel_list.h"
#include "dsl/package_writer.h"
#include "dsl/tegula.h"
#include "runtime/base/files.h"

using namespace tegula;

namespace {

constexpr size_t kSpecialisations = 200;

const char* kText = R"(import triton
import triton.language as tl

@triton.jit
def softmax(out_ptr, x_ptr, cols, BLOCK: tl.constexpr):
    row, offsets = tl.program_id(0), tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + offsets, mask=offsets < cols, other=float("-inf")).to(tl.float32)
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * cols + offsets, e / tl.sum(e, axis=0), mask=offsets < cols)
)";

// Rows of 64 to 8192 elements, three types, several numbers of warps, any and even numbers of columns.
std::vector<ListedKernel> list_of(const std::string& file) {
  std::string text;
  size_t count = 0;
  for (int block = 64; block <= 8192; block *= 2)
    for (const char* type : {"f32", "f16", "bf16"})
      for (int warps : {1, 2, 4, 8, 16})
        for (const char* cols : {"i32", "i32:16"})
          if (count < kSpecialisations && ++count)
            text += fmt::format(
                "{0}::softmax --arg out_ptr=*{1} --arg x_ptr=*{1} --arg cols={2} --constexpr BLOCK={3} "
                "--num-warps {4}\n",
                file, type, cols, block, warps);
  return parse_kernel_list(text, "list");
}

template <class Work>
void timed(const char* what, Work work) {
  const auto start = std::chrono::steady_clock::now();
  const size_t ready = work();
  const std::chrono::duration<double, std::milli> ms = std::chrono::steady_clock::now() - start;
  fmt::print("{}: {} specialisations in {:.1f} ms\n", what, ready, ms.count());
}

}  // namespace

int main(int argc, char** argv) try {
  if (argc < 3) return fmt::print("prewarm list|build|package FOLDER\n"), 2;
  const std::string what = argv[1], folder = argv[2], file = folder + "/softmax.py", package = folder + "/prewarm.tgp";
  replace_file(file, kText);
  const auto list = list_of(file);
  if (what == "build") {
    timed("built", [&] {
      write_package(package, list, {.targets = {"sm_90a"}, .emulator = argc > 3});
      return list.size();
    });
    return 0;
  }
  const auto device = default_device();
  fmt::print("on {}\n", device->info().name);
  if (what == "list")
    timed("compiled", [&] { return prewarm(*device, list); });
  else
    timed("read and loaded", [&] { return prewarm(*device, Package::read(package)); });
  const Kernel kernel = Program::load(file).kernel("softmax");
  seal();
  const std::vector<float> ones(1000, 1.0f);
  const Buffer x(*device, ones), out(*device, x.bytes());
  kernel.launch(*device, {1}, {.constexprs = {{"BLOCK", 1024}}, .num_warps = 4}, out.as<float>(), x.as<float>(), 1000);
  fmt::print("sealed launch: {}\n", out.download<float>()[999]);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}\n", e.what());
  return 1;
}
