// A GPU that runs nothing: it takes kernels as a GPU does, and its clock moves by what a test says a launch costs.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "runtime/device.h"

namespace tegula {

class FakeGpu : public Device {
 public:
  struct Launch {
    std::string kernel;
    int num_warps;
    Grid grid;
  };

  /// Microseconds of a launch.
  std::function<double(const KernelImage&, Grid)> cost = [](const KernelImage&, Grid) { return 10.0; };
  /// What the assembler says of an image before it is loaded; may throw DeviceError.
  std::function<void(KernelImage&)> assemble = [](KernelImage& image) { image.registers = 32, image.spill_bytes = 0; };

  FakeGpu() {
    info_.name = "Fake GPU";
    info_.sm = 90;
    info_.num_sms = 132;
    info_.driver_version = 13000;
    info_.l2_bytes = 1 << 20;
    info_.shared_per_program = 232448;
  }
  ~FakeGpu() override { drop_kept(); }

  std::vector<Launch> launches() const {
    std::lock_guard lock(mutex_);
    return launches_;
  }
  int fills() const { return fills_; }
  int copies() const { return copies_; }
  bool capturing = false;
  uint64_t generation = 0;  ///< in another one the handles mean other streams

  const DeviceInfo& info() const override { return info_; }
  uint64_t allocate(size_t bytes) override {
    std::lock_guard lock(mutex_);
    uint64_t address = next_;
    next_ += (bytes + 511) / 256 * 256;
    blocks_[address].resize(bytes);
    return address;
  }
  void free(uint64_t address) noexcept override {
    std::lock_guard lock(mutex_);
    blocks_.erase(address);
  }
  size_t allocated_bytes(uint64_t address) override {
    std::lock_guard lock(mutex_);
    auto it = blocks_.find(address);
    return it == blocks_.end() ? 0 : it->second.size();
  }
  void copy_to_device(uint64_t to, const void* from, size_t bytes, StreamHandle) override {
    std::lock_guard lock(mutex_);
    std::memcpy(blocks_.at(to).data(), from, bytes);
  }
  void copy_to_host(void* to, uint64_t from, size_t bytes, StreamHandle) override {
    std::lock_guard lock(mutex_);
    std::memcpy(to, blocks_.at(from).data(), bytes);
  }
  void copy_on_device(uint64_t to, uint64_t from, size_t bytes, StreamHandle) override {
    std::lock_guard lock(mutex_);
    ++copies_;
    std::memcpy(blocks_.at(to).data(), blocks_.at(from).data(), bytes);
  }
  void fill(uint64_t address, uint8_t value, size_t bytes, StreamHandle) override {
    std::lock_guard lock(mutex_);
    ++fills_;
    std::memset(blocks_.at(address).data(), value, bytes);
  }
  Shared<LoadedKernel> load(KernelImage image) override {
    std::lock_guard lock(mutex_);
    assemble(image);
    return std::make_unique<Kernel>(*this, std::move(image));
  }
  StreamHandle create_stream() override { return &capturing; }
  void destroy_stream(StreamHandle stream) noexcept override { drop_workspace(stream); }
  uint64_t stream_id(StreamHandle stream) override { return reinterpret_cast<uint64_t>(stream) + 1000 * generation; }
  void synchronize(StreamHandle) override {}
  EventHandle create_event() override { return new double(0); }
  void destroy_event(EventHandle event) noexcept override { delete static_cast<double*>(event); }
  void record(EventHandle event, StreamHandle) override { *static_cast<double*>(event) = now_us_; }
  double elapsed_ms(EventHandle start, EventHandle stop) override {
    return (*static_cast<double*>(stop) - *static_cast<double*>(start)) / 1000;
  }
  void begin_capture(StreamHandle) override { capturing = true; }
  GraphHandle end_capture(StreamHandle) override { return capturing = false, nullptr; }
  bool is_capturing(StreamHandle) override { return capturing; }
  void launch_graph(GraphHandle, StreamHandle) override {}
  void destroy_graph(GraphHandle) noexcept override {}

 private:
  class Kernel : public LoadedKernel {
   public:
    Kernel(FakeGpu& gpu, KernelImage image) : gpu_(gpu), image_(std::move(image)) {}
    bool try_launch(Grid grid, void* const*, StreamHandle) override {
      std::lock_guard lock(gpu_.mutex_);
      gpu_.now_us_ += gpu_.cost(image_, grid);
      gpu_.launches_.push_back({image_.kernel, image_.num_warps, grid});
      return true;
    }
    const KernelImage& image() const override { return image_; }

   private:
    FakeGpu& gpu_;
    KernelImage image_;
  };

  DeviceInfo info_;
  mutable std::mutex mutex_;
  uint64_t next_ = 0x1000000;
  std::map<uint64_t, std::vector<uint8_t>> blocks_;
  double now_us_ = 0;
  std::vector<Launch> launches_;
  std::atomic<int> fills_{0}, copies_{0};
};

}  // namespace tegula
