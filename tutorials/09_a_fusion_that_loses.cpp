// Tutorial 09: a fusion that loses, and how to know beforehand.
//
// Four products of one matrix A, C_i = A B_i, as four kernels or as one. The one reads A once instead of four times, so
// it moves less. But each program keeps four 128x128 fp32 sums at a time: 256 KB, all the registers that a
// multiprocessor has. They are spilled to memory and read back in each step, only one program runs at a time, and
// nothing hides its waits. Nor was there anything to gain: products of this size wait for the tensor cores.
//
// The rules of advise_fusion() say so without running anything: several kernels bound by compute, and more memory on
// the chip than 0.6 of what there is. On a GPU this program measures it.
//
// The product is written in C++ too.

#include <cstdio>

#include "dsl/explain.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

const auto product_in_cpp = kernel("product", [](Ptr<"c"> c, Ptr<"a"> a, Ptr<"b"> b, Int<"N"> N, Int<"K"> K,
                                                 Const<"BLOCK"> BLOCK, Const<"BLOCK_K"> BLOCK_K) {
  Tile rows = program_id(0) * BLOCK + arange(0, BLOCK), cols = program_id(1) * BLOCK + arange(0, BLOCK);
  Tile k = arange(0, BLOCK_K);
  Tile acc = zeros(list({BLOCK, BLOCK}), tl::float32);
  for (Tile start : range(0, K, BLOCK_K)) {
    Tile left = load(a + rows[{all, none}] * K + start + k[{none, all}]);
    Tile right = load(b + (start + k[{all, none}]) * N + cols[{none, all}]);
    acc = dot(left, right, acc);
  }
  store(c + rows[{all, none}] * N + cols[{none, all}], acc.to(tl::float16));
});

std::vector<float16> halves(const std::vector<float>& x) {
  std::vector<float16> out;
  for (float v : x) out.push_back(float16(v));
  return out;
}

}  // namespace

int main() try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  const int n = gpu ? 4096 : 128, depth = gpu ? 4096 : 64;
  std::printf("C_i = A B_i, i = 0 .. 3, %d x %d x %d fp16 on %s\n\n", n, n, depth, device->info().name.c_str());
  const size_t in_size = size_t(n) * depth, out_size = size_t(n) * n;
  const std::vector<float16> a = halves(tutorial::random_numbers(in_size, 1));
  const Buffer ba(*device, a);
  std::vector<std::vector<float16>> b;
  std::vector<Buffer> bb, bc;
  for (unsigned i = 0; i < 4; ++i) {
    b.push_back(halves(tutorial::random_numbers(in_size, 2 + i)));
    bb.emplace_back(*device, b[i]);
    bc.emplace_back(*device, out_size * 2);
  }
  const Program program = Program::load(TEGULA_TUTORIALS "/09_a_fusion_that_loses.py");
  const Kernel product = program.kernel("product"), fused = program.kernel("four_products");
  const Grid grid{unsigned(n / 128), unsigned(n / 128)};
  const LaunchOptions options{.constexprs = {{"BLOCK", 128}, {"BLOCK_K", 64}}, .num_warps = 8, .num_stages = 2};
  const auto args_of = [&](int i) {
    return std::vector<Arg>{bc[size_t(i)].as<float16>(), ba.as<float16>(), bb[size_t(i)].as<float16>(), n, depth};
  };
  std::vector<Arg> all_args;
  for (const Buffer& c : bc) all_args.push_back(c.as<float16>());
  all_args.push_back(ba.as<float16>());
  for (const Buffer& m : bb) all_args.push_back(m.as<float16>());
  all_args.push_back(n), all_args.push_back(depth);
  const auto apart = [&] {
    for (int i = 0; i < 4; ++i)
      product.launch(*device, detail::GridRef(grid), options, std::span<const Arg>(args_of(i)));
  };
  const auto together = [&] { fused.launch(*device, detail::GridRef(grid), options, std::span<const Arg>(all_args)); };

  // Some rows of each product against double precision; fp16 results have a relative error of 2^-11.
  double worst = 0;
  const auto check = [&] {
    for (size_t i = 0; i < 4; ++i) {
      const std::vector<float16> c = bc[i].download<float16>();
      for (int r = 0; r < n; r += n / 4)
        for (int col = 0; col < n; col += 7) {
          double sum = 0;
          for (int k = 0; k < depth; ++k)
            sum += double(float(a[size_t(r) * depth + k])) * double(float(b[i][size_t(k) * n + col]));
          const double error = std::abs(float(c[size_t(r) * n + col]) - sum) / std::sqrt(double(depth));
          worst = error > worst || std::isnan(error) ? error : worst;
        }
      bc[i].fill(0);
    }
  };
  apart(), check();
  together(), check();
  for (int i = 0; i < 4; ++i)
    product_in_cpp.launch(*device, grid, options, bc[size_t(i)].as<float16>(), ba.as<float16>(),
                          bb[size_t(i)].as<float16>(), n, depth);
  check();

  std::vector<Explanation> kernels;
  for (int i = 0; i < 4; ++i) kernels.push_back(explain(product, grid, options, args_of(i), {.device = device}));
  const Explanation one = explain(fused, grid, options, all_args, {.device = device});
  std::printf("%s\n", advise_fusion(kernels).text().c_str());
  for (const Explanation* e : {static_cast<const Explanation*>(&kernels[0]), &one})
    std::printf(
        "%-14s %3d registers a thread, %5d bytes spilled, %7.1f KB of shared memory, %d programs an SM, bound by %s\n",
        e->kernel.c_str(), e->registers, e->spill_bytes, double(e->shared_bytes) / 1024, e->programs_per_sm,
        e->bound.c_str());
  if (gpu) {
    const double us = tutorial::median_us(*device, apart), us_fused = tutorial::median_us(*device, together);
    std::printf("\nfour kernels %.1f us, one kernel %.1f us: %.2f times as long\n", us, us_fused, us_fused / us);
  }
  std::printf("\nlargest error %.2g of the square root of the depth\n", worst);
  return worst < 4e-3 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
