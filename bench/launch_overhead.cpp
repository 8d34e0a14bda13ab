// Host time of a launch: a ready LaunchHandle, and a tuned Kernel that looks its configuration up by key and asks for
// the grid each time, beside the bare cuLaunchKernel with the same function and arguments.
//
//   launch_overhead [--pairs 51] [--launches 500]
//
// A round times a block of launches of each way, in turn; every other round in reverse order. Blocks are shorter than
// the queue of the driver (1024), which is empty when a block begins: no launch waits for the GPU. The bare call is
// there twice: how far the two differ is how far equal things differ.
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include "dsl/tegula.h"
#include "runtime/cuda_device.h"
#include "runtime/timing.h"

using namespace tegula;

namespace {

constexpr const char* kSoftmax = R"(
import triton
import triton.language as tl

@triton.jit
def softmax(out_ptr, x_ptr, stride, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    offsets = tl.arange(0, BLOCK)
    mask = offsets < cols
    x = tl.load(x_ptr + row * stride + offsets, mask=mask, other=float("-inf"))
    numerator = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * stride + offsets, numerator / tl.sum(numerator, axis=0), mask=mask)
)";

// Copies by tensor maps, where bulk copies are asked for.
constexpr const char* kProduct = R"(
import triton
import triton.language as tl

@triton.jit
def product(c_ptr, a_ptr, b_ptr, K, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    acc = tl.zeros((BLOCK, BLOCK), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + i[:, None] * K + (k + i)[None, :])
        b = tl.load(b_ptr + (k + i)[:, None] * BLOCK + i[None, :])
        acc = tl.dot(a, b, acc)
    tl.store(c_ptr + i[:, None] * BLOCK + i[None, :], acc)
)";

struct Way {
  const char* name;
  std::function<void(int)> launch;  // so many times
  std::vector<double> us = {};      // one launch; a figure a round
};

// Median over rounds of `way` / `base`.
double median_ratio(const Way& way, const Way& base) {
  std::vector<double> ratios;
  for (size_t i = 0; i < way.us.size(); ++i) ratios.push_back(way.us[i] / base.us[i]);
  return median(std::move(ratios));
}

// Each way in turn, forwards and backwards.
void time_in_turns(std::vector<Way>& ways, const Stream& stream, int pairs, int launches) {
  auto time = [&](Way& way) {
    stream.synchronize();
    auto start = std::chrono::steady_clock::now();
    way.launch(launches);
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count() / launches;
  };
  for (int warmup = 0; warmup < 3; ++warmup)
    for (Way& way : ways) time(way);
  for (int round = 0; round < pairs; ++round)
    for (size_t i = 0; i < ways.size(); ++i) {
      Way& way = ways[round % 2 == 0 ? i : ways.size() - 1 - i];
      way.us.push_back(time(way));
    }
  stream.synchronize();
}

// In the order of run()'s list.
void print(const std::vector<Way>& ways, size_t tensor_maps) {
  for (const Way& way : ways)
    fmt::print("  {:38} {:7.3f} us   {:.3f} of the bare call\n", way.name, median(way.us), median_ratio(way, ways[0]));
  fmt::print("{} tensor maps: {:.3f} of the launch without\n", tensor_maps, median_ratio(ways[7], ways[6]));
  const Way &tuned = ways[4], &overlapping = ways[5];
  fmt::print("LaunchHandle / cuLaunchKernel {:.3f}, / cuLaunchKernelEx {:.3f}; ", median_ratio(ways[1], ways[0]),
             median_ratio(ways[1], overlapping));
  fmt::print("tuned Kernel::launch / cuLaunchKernel {:.3f}, / cuLaunchKernelEx {:.3f}; A/A {:.3f}\n",
             median_ratio(tuned, ways[0]), median_ratio(tuned, overlapping), median_ratio(ways.back(), ways[0]));
}

int run(int pairs, int launches) {
  const cuda::Driver driver = cuda::Driver::open();
  const std::shared_ptr<Device> device = open_cuda_device();
  Stream stream(*device);
  constexpr int kStride = 1024, kCols = 1000;
  Buffer x_buffer(*device, std::vector<float>(kStride, 1.0f), stream);
  Buffer out_buffer(*device, kStride * sizeof(float));
  float* x = x_buffer.as<float>();
  float* out = out_buffer.as<float>();

  const Kernel kernel = Program::parse(kSoftmax, "softmax.py").kernel("softmax");
  const LaunchOptions options{.constexprs = {{"BLOCK", kStride}}, .num_warps = 4, .stream = stream.get()};
  const std::vector<Arg> args{out, x, kStride, kCols};
  const LaunchHandle handle = kernel.prepare(*device, kernel.classify(args, options), options);
  const KernelImage& image = handle.image();

  Autotune tuning;
  tuning.configs = {config({{"BLOCK", kStride}}, num_warps(4))};
  tuning.key = {"stride", "cols"};
  Kernel tuned = kernel.autotune(tuning);
  tuned.set_tuning_store(nullptr);
  const LaunchOptions open{.stream = stream.get()};
  auto grid = [](const Config& c) { return Grid{unsigned((kCols + c["BLOCK"] - 1) / c["BLOCK"])}; };
  tuned.launch(*device, grid, open, out, x, kStride, kCols);

  // A product of 64 x 128 by 128 x 64, whose launches have two tensor maps or none.
  constexpr int kBlock = 64, kDepth = 128;
  Buffer a_buffer(*device, kBlock * kDepth * sizeof(float16)), b_buffer(*device, a_buffer.bytes());
  Buffer c_buffer(*device, kBlock * kBlock * sizeof(float));
  const auto *a = a_buffer.as<float16>(), *b = b_buffer.as<float16>();
  const Kernel product = Program::parse(kProduct, "product.py").kernel("product");
  auto product_handle = [&](int bulk_copies) {
    const LaunchOptions how{.constexprs = {{"BLOCK", kBlock}}, .bulk_copies = bulk_copies, .stream = stream.get()};
    const std::vector<Arg> values{c_buffer.as<float>(), a, b, kDepth};
    return product.prepare(*device, product.classify(values, how), how);
  };
  const LaunchHandle without_maps = product_handle(1), with_maps = product_handle(2);
  auto launch_product = [&](const LaunchHandle& of, int count) {
    for (int i = 0; i < count; ++i) of(stream.get(), {1}, c_buffer.as<float>(), a, b, kDepth);
  };

  // The same code once more, as a program without Tegula would hold it.
  cuda::Module module = nullptr;
  cuda::Function function = nullptr;
  driver.call(driver.module_load_data, &module, static_cast<const void*>(image.cubin.data()));
  driver.call(driver.module_get_function, &function, module, image.kernel.c_str());
  const ArgPack pack(image, args);
  void** params = const_cast<void**>(pack.data());
  const auto native_stream = static_cast<cuda::Stream>(stream.get());
  const unsigned threads = unsigned(image.threads()), shared = unsigned(image.shared_bytes);

  auto bare = [&](int count) {
    for (int i = 0; i < count; ++i)
      driver.call(driver.launch_kernel, function, 1u, 1u, 1u, threads, 1u, 1u, shared, native_stream, params, nullptr);
  };
  // As the library launches a kernel that may overlap the one ahead of it.
  const cuda::LaunchAttribute may_overlap{.id = cuda::LaunchAttributeId::ProgrammaticStreamSerialization, .value = 1};
  auto bare_overlapping = [&](int count) {
    const cuda::LaunchConfig config{1, 1, 1, threads, 1, 1, shared, native_stream, &may_overlap, 1};
    for (int i = 0; i < count; ++i) driver.call(driver.launch_kernel_ex, &config, function, params, nullptr);
  };
  std::vector<Way> ways{
      {"cuLaunchKernel", bare},
      {"LaunchHandle",
       [&](int count) {
         for (int i = 0; i < count; ++i) handle(stream.get(), {1}, out, x, kStride, kCols);
       }},
      {"LaunchHandle, span of arguments",
       [&](int count) {
         for (int i = 0; i < count; ++i) handle.launch(stream.get(), {1}, args);
       }},
      {"Kernel::launch",
       [&](int count) {
         for (int i = 0; i < count; ++i) kernel.launch(*device, {1}, options, out, x, kStride, kCols);
       }},
      {"Kernel::launch, tuned, grid function",
       [&](int count) {
         for (int i = 0; i < count; ++i) tuned.launch(*device, grid, open, out, x, kStride, kCols);
       }},
      {"cuLaunchKernelEx, may overlap", bare_overlapping},
      {"LaunchHandle of a product", [&](int count) { launch_product(without_maps, count); }},
      {"the same with tensor maps", [&](int count) { launch_product(with_maps, count); }},
      {"cuLaunchKernel again", bare},
  };
  time_in_turns(ways, stream, pairs, launches);
  driver.call(driver.module_unload, module);

  const std::vector<float> result = out_buffer.download<float>(stream);
  if (std::abs(result[0] * kCols - 1) > 1e-4f || std::abs(result[kCols - 1] * kCols - 1) > 1e-4f) {
    fmt::print(stderr, "WRONG: a softmax of {} equal numbers gave {}\n", kCols, result[0]);
    return 1;
  }
  fmt::print("{}: host time of a launch, {} arguments, medians of {} blocks of {} launches\n", device->info().name,
             args.size(), pairs, launches);
  print(ways, with_maps.image().tensor_maps.maps.size());
  return 0;
}

}  // namespace

int main(int argc, char** argv) try {
  int pairs = 51, launches = 500;
  for (int i = 1; i < argc; i += 2) {
    const std::string_view name = argv[i];
    int* value = name == "--pairs" ? &pairs : name == "--launches" ? &launches : nullptr;
    if (value && i + 1 < argc) *value = std::atoi(argv[i + 1]);
    if (!value || i + 1 == argc || *value < 1) {
      fmt::print(stderr, "usage: {} [--pairs N] [--launches N]\n", argv[0]);
      return 2;
    }
  }
  return run(pairs, launches);
} catch (const Error& error) {
  fmt::print(stderr, "{}\n", error.what());
  return 1;
}
