// Tutorial 01: adding two vectors.
//
// The smallest whole program: a kernel is loaded from a file of kernel text, compiled for the device at hand, launched
// on real data, checked, and timed. Run it with
//
//   ./dev build 01_vector_add && build/release/tutorials/01_vector_add
//
// On a machine with an NVIDIA GPU it runs there; elsewhere on the emulator, which runs the same compiled kernel on the
// CPU, only slower.

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "dsl/tegula.h"

using namespace tegula;

int main() try {
  // The device: the first GPU whose driver answers, else the emulator.
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  std::printf("Running on %s\n", device->info().name.c_str());

  // Two vectors on the host, and their copies on the device. A Buffer owns device memory and frees it. The length is
  // no multiple of the tile below, so that the mask in the kernel has something to do.
  const int n = gpu ? 50'000'016 : 200'016;
  std::vector<float> x(n), y(n);
  std::mt19937 random(1);
  std::uniform_real_distribution<float> uniform(-1, 1);
  for (float& value : x) value = uniform(random);
  for (float& value : y) value = uniform(random);
  Buffer device_x(*device, x);
  Buffer device_y(*device, y);
  Buffer out(*device, n * sizeof(float));

  // The kernel's text is an ordinary Triton file; read 01_vector_add.py now. Loading it parses it: a mistake in the
  // text is thrown as a CompileError that shows the line.
  Program program = Program::load(TEGULA_TUTORIALS "/01_vector_add.py");
  Kernel vector_add = program.kernel("vector_add");

  // Each program of the grid adds one tile of BLOCK elements. BLOCK is a tl.constexpr: the kernel is compiled for its
  // value. The other arguments are passed at each launch, in the order of the kernel's parameters; as<float>() says
  // what the memory holds. The first launch compiles; later ones with arguments of the same kinds find the result.
  const int block = 1024;
  const LaunchOptions options{.constexprs = {{"BLOCK", block}}, .num_warps = 4};
  const Grid grid{unsigned((n + block - 1) / block)};
  auto launch = [&] {
    vector_add.launch(*device, grid, options, device_x.as<float>(), device_y.as<float>(), out.as<float>(), n);
  };
  launch();

  // The result, against a sum in double precision: one rounding to float is all that may differ.
  const std::vector<float> sum = out.download<float>();
  double worst = 0;
  for (int i = 0; i < n; ++i) {
    const double exact = double(x[i]) + double(y[i]);
    const double error = std::abs(sum[i] - exact);
    if (!(error <= std::ldexp(std::abs(exact), -24))) {
      std::printf("WRONG: element %d is %.9g, expected %.9g\n", i, sum[i], exact);
      return 1;
    }
    worst = std::max(worst, error);
  }

  // Two reads and a write of 4 bytes an element: the kernel does so little arithmetic that memory is all its time. What
  // there is to reach is the memory's bandwidth.
  const Timing timing = time_on_device(*device, launch, {.warmup = gpu ? 3 : 0, .runs = gpu ? 21 : 1, .flush_l2 = gpu});
  const double bytes = 3.0 * n * sizeof(float);
  std::printf("%12s %12s %12s %12s %14s\n", "elements", "MB moved", "time (ms)", "GB/s", "largest error");
  std::printf("%12d %12.1f %12.4f %12.1f %14.2g\n", n, bytes / 1e6, timing.median_ms, bytes / timing.median_ms / 1e6,
              worst);
  if (!gpu) std::printf("(The emulator checks results; its times say nothing about a GPU.)\n");
  return 0;
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
