// Tutorial 07: dropout, and recomputing instead of storing.
//
// Dropout sets elements to 0 with probability p and scales the others by 1 / (1 - p). The backward pass needs the same
// mask. Stored, it costs a byte an element written and a byte read. But the random numbers are Philox's, a function of
// a seed and of the element's place: whoever knows the seed computes the mask again. That takes some 20 instructions an
// element, which a kernel that waits for memory has to spare: 16 bytes an element forward and backward instead of 18.
// So the gradient of dropout is dropout itself, of dy. (Recomputing instead of storing is also what checkpointing
// does.)
//
// This program checks that both ways give the same bits, in text and in C++, and counts what they move.

#include <cstdio>

#include "dsl/explain.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

constexpr int kBlock = 1024, kSeed = 123;
constexpr float kP = 0.25f;

const auto dropout_in_cpp =
    kernel("dropout", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Float<"p"> p, Int<"seed"> seed, Const<"BLOCK"> BLOCK) {
      Tile offsets = program_id(0) * BLOCK + arange(0, BLOCK);
      Tile v = load(x + offsets, offsets < n);
      store(out + offsets, where(rand(seed, offsets) >= p, v / (1.0 - p), 0.0), offsets < n);
    });

// Divisions of fp32 are within 2 units in the last place.
bool is_near(float found, float exact) { return std::abs(found - exact) <= 3e-7f * std::abs(exact); }

}  // namespace

int main() try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  const int n = gpu ? 1 << 25 : 50'001;
  std::printf("Dropout of %d fp32 elements, p = %g, on %s\n\n", n, double(kP), device->info().name.c_str());
  const std::vector<float> x = tutorial::random_numbers(size_t(n), 1), dy = tutorial::random_numbers(size_t(n), 2);
  const Buffer bx(*device, x), bdy(*device, dy);
  Buffer out(*device, x.size() * 4), dx(*device, x.size() * 4), mask(*device, x.size());
  const Program program = Program::load(TEGULA_TUTORIALS "/07_dropout.py");
  const Grid grid{unsigned((n + kBlock - 1) / kBlock)};
  const LaunchOptions options{.constexprs = {{"BLOCK", kBlock}}, .num_warps = 4};

  struct Step {
    const char* what;
    Kernel kernel;
    std::vector<Arg> args;
  };
  const Kernel dropout = program.kernel("dropout");
  const Step stored[] = {{"forward, mask stored",
                          program.kernel("dropout_and_mask"),
                          {out.as<float>(), mask.as<int8_t>(), bx.as<float>(), n, kP, kSeed}},
                         {"backward by that mask",
                          program.kernel("backward_by_mask"),
                          {dx.as<float>(), mask.as<int8_t>(), bdy.as<float>(), n, kP}}};
  const Step again[] = {{"forward", dropout, {out.as<float>(), bx.as<float>(), n, kP, kSeed}},
                        {"backward, mask again", dropout, {dx.as<float>(), bdy.as<float>(), n, kP, kSeed}}};
  const auto run = [&](const Step& s) {
    s.kernel.launch(*device, detail::GridRef(grid), options, std::span<const Arg>(s.args));
  };

  // Results first: the stored mask decides what is right, and how many elements it keeps.
  for (const Step& s : stored) run(s);
  const std::vector<int8_t> kept = mask.download<int8_t>();
  const std::vector<float> first_out = out.download<float>(), first_dx = dx.download<float>();
  bool right = true;
  int64_t count = 0;
  for (int i = 0; i < n; ++i) {
    count += kept[i];
    right &=
        is_near(first_out[i], kept[i] ? x[i] / (1 - kP) : 0) && is_near(first_dx[i], kept[i] ? dy[i] / (1 - kP) : 0);
  }
  const double share = double(count) / n, deviation = std::sqrt(kP * (1 - kP) / n);
  right &= std::abs(share - (1 - kP)) < 5 * deviation;
  out.fill(0), dx.fill(0);
  for (const Step& s : again) run(s);
  right &= out.download<float>() == first_out && dx.download<float>() == first_dx;
  out.fill(0);
  run({"in C++", dropout_in_cpp, again[0].args});
  right &= out.download<float>() == first_out;
  std::printf("%.4f of the elements are kept; %s\n\n", share, right ? "all ways agree" : "WRONG");

  for (const auto* way : {&stored, &again}) {
    double bytes = 0, predicted = 0, measured = 0;
    for (const Step& s : *way) {
      const Explanation e = explain(s.kernel, grid, options, s.args, {.device = device});
      const double us = gpu ? tutorial::median_us(*device, [&] { run(s); }) : 0;
      std::printf("%-24s %8.3f bytes an element, bound by %s, predicted %8.1f us", s.what,
                  double(e.from_memory + e.to_memory) / n, e.bound.c_str(), e.predicted_us);
      std::printf(gpu ? ", measured %8.1f us\n" : "\n", us);
      bytes += double(e.from_memory + e.to_memory), predicted += e.predicted_us, measured += us;
    }
    std::printf("%-24s %8.3f bytes an element, predicted %.1f us", "  together", bytes / n, predicted);
    std::printf(gpu ? ", measured %.1f us\n\n" : "\n\n", measured);
  }
  return right ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
