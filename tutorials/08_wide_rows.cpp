// Tutorial 08: rows that do not fit: softmax of 200000 columns, and cross entropy of a large vocabulary.
//
// A row of 200000 fp32 numbers is 800 KB: more than a multiprocessor's registers and shared memory together. Its
// softmax needs the largest element and the sum before the first result can be written. Taken in pieces, both follow in
// one reading: when a piece has a larger element, the sum so far is scaled by exp(old - new). So a row is read twice
// and written once, 3MN elements; and the second reading comes from the L2 cache as long as the rows under way fit
// there.
//
// With few rows a program a row leaves most of the GPU idle. Then several programs share a row: one kernel finds
// largest element and sum of each piece, the next joins them (the rule is associative) and writes.
//
// Cross entropy is the logarithm of that sum less the target's logit; its gradient, softmax less 1 at the target, goes
// where the logits were, so that nothing of their size is allocated.

#include <cstdio>

#include "dsl/explain.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

// softmax of 08_wide_rows.py in C++.
const auto softmax_in_cpp = kernel("softmax", [](Ptr<"out"> out, Ptr<"x"> x, Int<"cols"> cols, Const<"BLOCK"> BLOCK) {
  Tile row = program_id(0).to(tl::int64) * cols, offsets = arange(0, BLOCK);
  Tile top = full(list({BLOCK}), -1e38, tl::float32), total = zeros(list({BLOCK}), tl::float32);
  for (Tile start : range(0, cols, BLOCK, {.num_stages = 3})) {
    Tile v = load(x + row + start + offsets, start + offsets < cols, -inf);
    Tile largest = maximum(top, v);
    total = total * exp(top - largest) + exp(v - largest);
    top = largest;
  }
  Tile row_top = max(top, 0);
  Tile row_total = sum(total * exp(top - row_top), 0);
  for (Tile start : range(0, cols, BLOCK, {.num_stages = 3})) {
    Tile inside = start + offsets < cols;
    Tile v = load(x + row + start + offsets, inside);
    store(out + row + start + offsets, exp(v - row_top) / row_total, inside);
  }
});

struct Step {
  const char* what;
  Kernel kernel;
  Grid grid;
  LaunchOptions options;
  std::vector<Arg> args;
};

}  // namespace

int main() try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  const int rows = gpu ? 256 : 3, cols = gpu ? 200'000 : 5000, block = gpu ? 4096 : 1024, few = gpu ? 16 : 2;
  const int pieces = gpu ? 16 : 3, piece = (cols / pieces + block) / block * block;
  std::printf("Rows of %d fp32 numbers on %s\n\n", cols, device->info().name.c_str());
  const size_t size = size_t(rows) * cols;
  const std::vector<float> x = tutorial::random_numbers(size, 1);
  std::vector<int32_t> targets(static_cast<size_t>(rows));
  for (int r = 0; r < rows; ++r) targets[size_t(r)] = int((int64_t(r) * 7919 + 13) % cols);
  const Buffer bx(*device, x), btargets(*device, targets);
  Buffer out(*device, size * 4), tops(*device, size_t(rows) * pieces * 4), totals(*device, size_t(rows) * pieces * 4),
      losses(*device, size_t(rows) * 4), logits(*device, x);

  const Program program = Program::load(TEGULA_TUTORIALS "/08_wide_rows.py");
  const LaunchOptions one{.constexprs = {{"BLOCK", block}}, .num_warps = 8};
  LaunchOptions joined = one;
  joined.constexprs.push_back({"PIECES", 16});
  const Grid each{unsigned(rows)}, shared{unsigned(pieces), unsigned(few)};
  const Step softmax{
      "softmax, a program a row", program.kernel("softmax"), each, one, {out.as<float>(), bx.as<float>(), cols}},
      in_cpp{"the same in C++", softmax_in_cpp, each, one, softmax.args},
      alone{"few rows, a program a row", softmax.kernel, {unsigned(few)}, one, softmax.args},
      sums{"few rows, stage 1",
           program.kernel("softmax_sums"),
           shared,
           one,
           {tops.as<float>(), totals.as<float>(), bx.as<float>(), cols, piece}},
      result{"few rows, stage 2",
             program.kernel("softmax_result"),
             shared,
             joined,
             {out.as<float>(), tops.as<float>(), totals.as<float>(), bx.as<float>(), cols, piece}},
      entropy{"cross entropy and gradient",
              program.kernel("cross_entropy"),
              each,
              one,
              {losses.as<float>(), logits.as<float>(), btargets.as<int32_t>(), cols}};
  const auto run = [&](const Step& s) {
    s.kernel.launch(*device, detail::GridRef(s.grid), s.options, std::span<const Arg>(s.args));
  };

  std::vector<double> exact(size), gradient, exact_losses;
  for (int r = 0; r < rows; ++r) {
    const float* row = &x[size_t(r) * cols];
    double top = row[0], total = 0;
    for (int c = 0; c < cols; ++c) top = std::max(top, double(row[c]));
    for (int c = 0; c < cols; ++c) total += exact[size_t(r) * cols + c] = std::exp(row[c] - top);
    for (int c = 0; c < cols; ++c) exact[size_t(r) * cols + c] /= total;
    exact_losses.push_back(std::log(total) + top - row[targets[size_t(r)]]);
  }
  gradient = exact;
  for (int r = 0; r < rows; ++r) gradient[size_t(r) * cols + targets[size_t(r)]] -= 1;
  double worst = 0;
  const auto check = [&](const Buffer& buffer, std::vector<double> expected, int count) {
    expected.resize(size_t(count));
    const double error = tutorial::largest_error(buffer.download<float>(), expected);
    worst = error > worst || std::isnan(error) ? error : worst;
  };
  for (const Step* s : {&softmax, &in_cpp}) {
    out.fill(0);
    run(*s);
    check(out, exact, rows * cols);
  }
  out.fill(0);
  run(sums), run(result);
  check(out, exact, few * cols);
  run(entropy);
  check(losses, exact_losses, rows), check(logits, gradient, rows * cols);

  for (const Step* s : {&softmax, &alone, &sums, &result, &entropy}) {
    const Explanation e = explain(s->kernel, s->grid, s->options, s->args, {.device = device});
    std::printf("%-28s %9.2f MB read (%9.2f through L2) %9.2f MB written  predicted %8.1f us", s->what,
                e.from_memory / 1e6, e.read / 1e6, e.to_memory / 1e6, e.predicted_us);
    if (gpu) std::printf("  measured %8.1f us", tutorial::median_us(*device, [&] { run(*s); }));
    std::printf("  bound by %s\n", e.bound.c_str());
  }
  std::printf("\nlargest error %.2g\n", worst);
  return worst < 1e-5 ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
