// How fast does the emulator run kernels of the library?
//
//   emulator_speed [--runs N] [--only WORD]     N launches of each kernel (7)
//
// Processor seconds of all its workers, the least of N launches behind one that compiles: the wall clock says little on
// a host that others use too. A launch that takes long is compiled once more (TieredCode), which the first ones pay.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"
#include "kernels/kernels.h"

using namespace tegula;
using namespace tegula::kernels;

namespace {

constexpr int64_t kRows = 1024, kCols = 4096, kSide = 512;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return double(now.tv_sec) + 1e-9 * double(now.tv_nsec);
}

template <class T>
Buffer random_numbers(Device& device, int64_t count) {
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  std::vector<T> host(static_cast<size_t>(count));
  for (T& value : host) value = T(uniform(random));
  return {device, host};
}

struct Case {
  const char* name;
  std::function<void()> launch;
};

}  // namespace

int main(int argc, char** argv) {
  int runs = 7;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::string(argv[i]) == "--runs") runs = std::max(1, std::atoi(argv[i + 1]));
    if (std::string(argv[i]) == "--only") only = argv[i + 1];
  }
  const std::unique_ptr<EmulatorDevice> device = make_emulator();
  const Buffer in = random_numbers<float>(*device, kRows * kCols), out(*device, in.bytes());
  const Buffer index(*device, size_t(kRows * kCols) * sizeof(int32_t));
  const Buffer a = random_numbers<float16>(*device, kSide * kSide), c(*device, a.bytes());
  const Matrix<const float> x(in, kRows, kCols);
  const Matrix<float> y(out, kRows, kCols);
  const Matrix<const float16> factor(a, kSide, kSide);
  const Case cases[] = {
      {"affine_gelu",
       [&] {
         affine(*device, y, x, {.bias = {in, kCols}, .activation = Activation::Gelu});
       }},
      {"softmax", [&] { softmax(*device, y, x); }},
      {"rms_norm",
       [&] {
         rms_norm(*device, y, x, {in, kCols});
       }},
      {"reduce_columns", [&] { reduce_columns(*device, Vector<float>(out, kCols), x, Reduction::Sum); }},
      {"scan_rows", [&] { scan_rows(*device, y, x); }},
      {"sort_rows",
       [&] {
         sort_rows(*device, Matrix<float>(out, 64, 1024), Matrix<int32_t>(index, 64, 1024),
                   Matrix<const float>(in, 64, 1024));
       }},
      {"gemm", [&] { gemm(*device, Matrix<float16>(c, kSide, kSide), factor, factor); }},
  };
  for (const Case& kernel : cases) {
    if (std::string(kernel.name).find(only) == std::string::npos) continue;
    double least = 0;
    for (int run = 0; run <= runs; ++run) {
      const double begin = processor_seconds();
      kernel.launch();
      device->synchronize();
      const double seconds = processor_seconds() - begin;
      if (run == 1 || (run > 1 && seconds < least)) least = seconds;
    }
    fmt::print("{}\t{:.1f} ms\n", kernel.name, 1e3 * least);
  }
}
