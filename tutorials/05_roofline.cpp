// Tutorial 05: three bottlenecks, told apart by measurement.
//
// A kernel waits for one of three things. Memory: it moves bytes, at a few TB/s. Compute: a unit is busy with
// operations. Overhead: the launch takes longer than the work. Operations by bytes, the arithmetic intensity, tell the
// first two apart: below the ridge, the unit's peak by the memory's rate, memory is the limit.
//
// x = x * 2, r times in one kernel, moves 8 bytes an element whatever r is, for r operations: intensity r / 8. For
// small r the time does not change with r; beyond the ridge it doubles with r. cos(cos(x)) costs what cos(x) costs,
// while two kernels would cost twice as much. And 64 kernels on few elements cost 64 launches, unless a graph launches
// them.
//
// `explain` predicts all of that from the kernels; with a GPU the measured figures stand beside it.
//
//   05_roofline [FILE]      the plot's file, roofline.svg if not given (on a GPU)

#include <cstdio>
#include <functional>
#include <string>

#include "dsl/explain.h"
#include "tools/svg_plot.h"
#include "tutorials/tutorial.h"

using namespace tegula;

namespace {

constexpr int kBlock = 1024;

// double_often of 05_roofline.py in C++. The loop is one of C++: it runs while the kernel is recorded.
const auto double_often_in_cpp =
    kernel("double_often", [](Ptr<"out"> out, Ptr<"x"> x, Int<"n"> n, Const<"REPEATS"> REPEATS, Const<"BLOCK"> BLOCK) {
      Tile offsets = program_id(0) * BLOCK + arange(0, BLOCK);
      Tile v = load(x + offsets, offsets < n);
      for (int i = 0; i < REPEATS; ++i) v = v * 2.0;
      store(out + offsets, v, offsets < n);
    });

struct Arrays {
  Device& device;
  std::vector<float> x;
  Buffer in, out;
  Arrays(Device& on, int n)
      : device(on), x(tutorial::random_numbers(size_t(n), 1)), in(on, x), out(on, size_t(n) * sizeof(float)) {}
  int n() const { return int(x.size()); }
  Grid grid() const { return {unsigned((n() + kBlock - 1) / kBlock)}; }
  std::vector<Arg> args() const { return {out.as<float>(), in.as<float>(), n()}; }
};

LaunchOptions options(const char* count_name, int count) {
  return {.constexprs = {{count_name, count}, {"BLOCK", kBlock}}, .num_warps = 4};
}

// Runs a kernel, compares with `exact`, and prints a line of the table. The time: measured on a GPU, else predicted.
double study(const Kernel& kernel, const Arrays& a, const char* count_name, int count, bool gpu,
             const std::function<double(double)>& exact) {
  const LaunchOptions how = options(count_name, count);
  const std::vector<Arg> args = a.args();
  auto launch = [&] { kernel.launch(a.device, detail::GridRef(a.grid()), how, std::span<const Arg>(args)); };
  launch();
  std::vector<double> expected;
  for (float x : a.x) expected.push_back(exact(x));
  const double error = tutorial::largest_error(a.out.download<float>(), expected);
  if (!(error < 1e-5)) throw Error(kernel.name() + " is wrong");
  // Nothing is run to explain: without a GPU, of a larger launch.
  constexpr int kLarge = 1 << 24;
  std::vector<Arg> larger = args;
  larger.back() = kLarge;
  const Explanation e = gpu ? explain(kernel, a.grid(), how, args, {.device = &a.device})
                            : explain(kernel, Grid{kLarge / kBlock}, how, larger);
  const double us = gpu ? tutorial::median_us(a.device, launch) : e.predicted_us;
  double operations = 0;
  for (const Explanation::Unit& u : e.units) operations += u.operations;
  const double bytes = double(e.from_memory + e.to_memory);
  std::printf("%-14s %6d %12.3g %12.1f %12.1f %10.0f %10.0f  %s\n", kernel.name().c_str(), count, operations / bytes,
              e.predicted_us, us, bytes / us / 1e3, operations / us / 1e3, e.bound.c_str());
  return us;
}

// The same small kernel 64 times: launched one by one, and as a graph.
void study_overhead(const Kernel& kernel, Device& device) {
  constexpr int kLaunches = 64;
  const Arrays small(device, 4096);
  const std::vector<Arg> args = small.args();
  const StreamHandle stream = device.create_stream();
  LaunchOptions how = options("REPEATS", 1);
  how.stream = stream;
  auto all = [&] {
    for (int i = 0; i < kLaunches; ++i)
      kernel.launch(device, detail::GridRef(small.grid()), how, std::span<const Arg>(args));
  };
  all();
  device.synchronize(stream);
  device.begin_capture(stream);
  all();
  const GraphHandle graph = device.end_capture(stream);
  const TimingOptions timing{.warmup = 3, .runs = 21, .stream = stream};
  const double apart = time_on_device(device, all, timing).median_ms * 1e3;
  const double together = time_on_device(
                              device, [&] { device.launch_graph(graph, stream); }, timing)
                              .median_ms *
                          1e3;
  std::printf("\n%d kernels on 4096 elements: %.1f us launched one by one, %.1f us as a graph; %.2f and %.2f us each\n",
              kLaunches, apart, together, apart / kLaunches, together / kLaunches);
  device.destroy_graph(graph);
  device.destroy_stream(stream);
}

}  // namespace

int main(int argc, char** argv) try {
  Device* const device = default_device();
  const bool gpu = !device->info().emulator;
  std::printf("On %s%s\n\n", device->info().name.c_str(),
              gpu ? "" : " (times are predicted, of 2^24 elements on such a GPU)");
  const Program program = Program::load(TEGULA_TUTORIALS "/05_roofline.py");
  const Kernel double_often = program.kernel("double_often"), cosine = program.kernel("cosine");
  const Arrays arrays(*device, gpu ? 1 << 25 : 20'000);

  std::printf("%-14s %6s %12s %12s %12s %10s %10s  %s\n", "kernel", "times", "op / byte", "predicted us", "us", "GB/s",
              "GFLOP/s", "bound");
  PlotSeries time{"x = x * 2, r times", {}}, flat{"memory alone", {}, true};
  for (int r = 1; r <= (gpu ? 512 : 64); r *= gpu ? 2 : 8) {
    const double us = study(double_often, arrays, "REPEATS", r, gpu, [&](double x) { return std::ldexp(x, r); });
    time.points.push_back({r, us});
    flat.points.push_back({r, time.points[0].second});
  }
  study(double_often_in_cpp, arrays, "REPEATS", 8, gpu, [](double x) { return 256 * x; });
  study(cosine, arrays, "TIMES", 1, gpu, [](double x) { return std::cos(x); });
  study(cosine, arrays, "TIMES", 2, gpu, [](double x) { return std::cos(std::cos(x)); });
  if (!gpu) return 0;

  study_overhead(double_often, *device);
  const std::string file = argc > 1 ? argv[1] : "roofline.svg";
  write_svg_plot(
      file,
      {.title = "From memory to compute", .x_label = "multiplications an element", .y_label = "us", .log_x = true},
      {time, flat});
  std::printf("plot: %s\n", file.c_str());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
