// Tutorial 06: LayerNorm forward and backward.
//
//   forward    y = (x - mean) * rstd * weight + bias, with mean and rstd = 1 / sqrt(variance + eps) of each row
//   backward   with n = (x - mean) * rstd and g = dy * weight:
//              dx = (g - n * mean(n * g) - mean(g)) * rstd      row by row
//              dweight = sum over rows of dy * n,  dbias = sum over rows of dy
//
// dx wants rows, dweight wants columns: two ways through the same matrices. Read twice, that is 4MN elements; this
// program reads them once. Each program of `backward` takes every P-th row, and keeps the sums over its own rows in
// registers; P rows of partial sums are left, which `add_partials` sums up: P N elements, not M N. No atomic operation
// is needed, so the gradients have the same bits in every run.
//
// Forward is written in C++ too. Results are compared with double precision; `explain` says what moves, and on a GPU
// the measured times stand beside its predictions.

#include <cstdio>

#include "dsl/explain.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

constexpr float kEps = 1e-5f;

const auto forward_in_cpp =
    kernel("forward", [](Ptr<"y"> y, Ptr<"mean"> mean_out, Ptr<"rstd"> rstd_out, Ptr<"x"> x, Ptr<"weight"> weight,
                         Ptr<"bias"> bias, Int<"cols"> cols, Float<"eps"> eps, Const<"BLOCK"> BLOCK) {
      Tile row = program_id(0), offsets = arange(0, BLOCK), inside = offsets < cols;
      Tile v = load(x + row * cols + offsets, inside, 0.0);
      Tile w = load(weight + offsets, inside), b = load(bias + offsets, inside);
      Tile mean = sum(v, 0) / cols;
      Tile centred = where(inside, v - mean, 0.0);
      Tile rstd = 1.0 / sqrt(sum(centred * centred, 0) / cols + eps);
      store(y + row * cols + offsets, centred * rstd * w + b, inside);
      store(mean_out + row, mean);
      store(rstd_out + row, rstd);
    });

/// The same in double precision.
struct Exact {
  std::vector<double> y, dx, dw, db;

  Exact(const std::vector<float>& x, const std::vector<float>& dy, const std::vector<float>& w,
        const std::vector<float>& b, int rows, int cols)
      : y(x.size()), dx(x.size()), dw(size_t(cols)), db(size_t(cols)) {
    for (int r = 0; r < rows; ++r) {
      const float *xr = &x[size_t(r) * cols], *gr = &dy[size_t(r) * cols];
      double mean = 0, variance = 0, along = 0, level = 0;
      for (int c = 0; c < cols; ++c) mean += xr[c] / double(cols);
      for (int c = 0; c < cols; ++c) variance += (xr[c] - mean) * (xr[c] - mean) / cols;
      const double rstd = 1 / std::sqrt(variance + kEps);
      for (int c = 0; c < cols; ++c) {
        const double n = (xr[c] - mean) * rstd, g = double(gr[c]) * w[c];
        y[size_t(r) * cols + c] = n * w[c] + b[c];
        along += n * g / cols, level += g / cols;
        dw[c] += gr[c] * n, db[c] += gr[c];
      }
      for (int c = 0; c < cols; ++c)
        dx[size_t(r) * cols + c] = (double(gr[c]) * w[c] - (xr[c] - mean) * rstd * along - level) * rstd;
    }
  }
};

void tell(const Explanation& e, double us) {
  std::printf("%-14s %10.2f MB read %10.2f MB written   predicted %8.1f us", e.kernel.c_str(), e.from_memory / 1e6,
              e.to_memory / 1e6, e.predicted_us);
  if (us > 0) std::printf("   measured %8.1f us, %5.0f GB/s", us, double(e.from_memory + e.to_memory) / us / 1e3);
  std::printf("   bound by %s\n", e.bound.c_str());
}

}  // namespace

int main() try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  const int rows = gpu ? 16384 : 37, cols = gpu ? 4096 : 500, block = gpu ? 4096 : 512, partials = gpu ? 264 : 5;
  std::printf("LayerNorm of %d x %d fp32 on %s\n\n", rows, cols, device->info().name.c_str());
  const size_t size = size_t(rows) * cols;
  const std::vector<float> x = tutorial::random_numbers(size, 1), dy = tutorial::random_numbers(size, 2),
                           w = tutorial::random_numbers(size_t(cols), 3), b = tutorial::random_numbers(size_t(cols), 4);
  const auto bytes = [](size_t n) { return n * sizeof(float); };
  const Buffer bx(*device, x), bdy(*device, dy), bw(*device, w), bb(*device, b);
  Buffer by(*device, bytes(size)), bdx(*device, bytes(size)), mean(*device, bytes(rows)), rstd(*device, bytes(rows)),
      pw(*device, bytes(size_t(partials) * cols)), pb(*device, bytes(size_t(partials) * cols)),
      dw(*device, bytes(cols)), db(*device, bytes(cols));

  const Program program = Program::load(TEGULA_TUTORIALS "/06_layer_norm.py");
  struct Launch {
    Kernel kernel;
    Grid grid;
    LaunchOptions options;
    std::vector<Arg> args;
  };
  const std::vector<Arg> forward_args = {
      by.as<float>(), mean.as<float>(), rstd.as<float>(), bx.as<float>(), bw.as<float>(), bb.as<float>(), cols, kEps};
  const LaunchOptions whole_row{.constexprs = {{"BLOCK", block}}, .num_warps = 8};
  const Launch forward{program.kernel("forward"), {unsigned(rows)}, whole_row, forward_args},
      forward_cpp{forward_in_cpp, {unsigned(rows)}, whole_row, forward_args},
      backward{program.kernel("backward"),
               {unsigned(partials)},
               whole_row,
               {bdx.as<float>(), pw.as<float>(), pb.as<float>(), bdy.as<float>(), bx.as<float>(), bw.as<float>(),
                mean.as<float>(), rstd.as<float>(), rows, cols}},
      add{program.kernel("add_partials"),
          {unsigned((cols + 31) / 32)},
          {.constexprs = {{"ROWS", 32}, {"BLOCK", 32}}, .num_warps = 4},
          {dw.as<float>(), db.as<float>(), pw.as<float>(), pb.as<float>(), partials, cols}};
  const auto run = [&](const Launch& l) {
    l.kernel.launch(*device, detail::GridRef(l.grid), l.options, std::span<const Arg>(l.args));
  };

  const Exact exact(x, dy, w, b, rows, cols);
  double worst = 0;
  const auto check = [&](const Buffer& buffer, const std::vector<double>& expected) {
    const double error = tutorial::largest_error(buffer.download<float>(), expected);
    worst = error > worst || std::isnan(error) ? error : worst;
  };
  run(forward_cpp);
  check(by, exact.y);
  by.fill(0);
  run(forward);
  check(by, exact.y);
  run(backward);
  run(add);
  check(bdx, exact.dx), check(dw, exact.dw), check(db, exact.db);
  for (const Launch* l : {&forward, &backward, &add})
    tell(explain(l->kernel, l->grid, l->options, l->args, {.device = device}),
         gpu ? tutorial::median_us(*device, [&] { run(*l); }) : 0);
  std::printf("\nlargest error %.2g\n", worst);
  return worst < 1e-5 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
