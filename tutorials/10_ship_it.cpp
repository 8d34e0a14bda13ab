// Tutorial 10: ship it. A server-like program on libtegula_runtime alone: its kernels come from a package that was
// built ahead of time (`tegula build --from 10_ship_it.list`, for three architectures) and linked in. It makes them
// ready, seals itself, and serves with 64 threads.
//
// On a machine without a GPU the same program, linked with libtegula, runs on the emulator (10_ship_it_emulated).
#include <runtime/cuda_device.h>
#include <runtime/sealing.h>
#include <runtime/stream.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <memory>
#include <thread>
#include <vector>

#include "ship_it.hpp"  // written by `tegula build --cpp-header`
#ifdef SHIP_IT_EMULATED
#include <dsl/kernel.h>
#endif

namespace {

constexpr unsigned kThreads = 64, kRequests = 8, kRows = 4, kCols = 200;

std::shared_ptr<tegula::Device> open_device() {
#ifdef SHIP_IT_EMULATED
  return {tegula::default_device(), [](tegula::Device*) {}};  // which lives as long as the process
#else
  return tegula::open_cuda_device();
#endif
}

double ms_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

// One request: numbers of its own, checked against double precision.
bool serve(tegula::Device& device, const ship_it::softmax& softmax, tegula::StreamHandle stream, unsigned seed) {
  std::vector<float> host(kRows * kCols);
  for (size_t i = 0; i < host.size(); ++i) host[i] = float((i * 37 + seed * 11) % 101) / 10;
  tegula::Buffer x(device, host), out(device, x.bytes());
  softmax(stream, tegula::Grid{kRows}, out.as<float>(), x.as<float>(), kCols);
  device.synchronize(stream);
  const std::vector<float> found = out.download<float>();
  for (size_t row = 0; row < kRows; ++row) {
    double sum = 0;
    for (size_t c = 0; c < kCols; ++c) sum += std::exp(double(host[row * kCols + c]));
    for (size_t c = 0; c < kCols; ++c)
      if (std::abs(found[row * kCols + c] - std::exp(double(host[row * kCols + c])) / sum) > 1e-6) return false;
  }
  return true;
}

}  // namespace

int main() try {
  const auto start = std::chrono::steady_clock::now();
  const tegula::Package package = ship_it::open();
  const double read_ms = ms_since(start);
  const std::shared_ptr<tegula::Device> device = open_device();
  const double device_ms = ms_since(start);
  const ship_it::softmax softmax(package, *device);
  tegula::seal();  // from here on nothing is compiled, and the library opens no file
  const double ready_ms = ms_since(start);
  if (!serve(*device, softmax, nullptr, 0)) throw tegula::Error("the first result is wrong");
  const double first_ms = ms_since(start);

  std::atomic<unsigned> served{0}, wrong{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t)
    threads.emplace_back([&, t] {
      tegula::Stream stream(*device);
      for (unsigned i = 0; i < kRequests; ++i) ++(serve(*device, softmax, stream, t * kRequests + i) ? served : wrong);
    });
  for (std::thread& t : threads) t.join();

  std::printf("on %s\n", device->info().name.c_str());
  std::printf("package read      %8.3f ms\n", read_ms);
  std::printf("device opened     %8.3f ms later\n", device_ms - read_ms);
  std::printf("kernels ready     %8.3f ms later\n", ready_ms - device_ms);
  std::printf("first result      %8.3f ms later\n", first_ms - ready_ms);
  std::printf("%u requests by %u threads: %u right, %u wrong\n", kThreads * kRequests, kThreads, served.load(),
              wrong.load());
  return wrong == 0 ? 0 : 1;
} catch (const tegula::DeviceError& error) {
  std::printf("no GPU: %s\n", error.what());
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
