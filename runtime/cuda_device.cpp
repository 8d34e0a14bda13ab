#include "runtime/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <future>
#include <map>
#include <mutex>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/cuda_kernel.h"
#include "runtime/cuda_modules.h"
#include "runtime/driver/link.h"
#include "runtime/sealing.h"

namespace tegula {

namespace {

using cuda::CurrentContext;
using cuda::Driver;
using cuda::RelaxedCapture;
using cuda::Result;

cuda::Event as_event(EventHandle event) { return static_cast<cuda::Event>(event); }

class CudaDevice final : public Device, public CudaContext {
 public:
  CudaDevice(Driver driver, int ordinal, CudaOptions options)
      : CudaContext(std::move(driver)), options_(std::move(options)) {
    driver_.call(driver_.init, 0u);
    int count = 0;
    driver_.call(driver_.device_get_count, &count);
    if (count == 0) driver_.fail(driver_.device_get_count.symbol, Result::NoDevice);
    if (ordinal < 0 || ordinal >= count)
      throw DeviceError(
          fmt::format("there is no GPU {}: the driver has {}, counted from 0\n"
                      "  hint: see CUDA_VISIBLE_DEVICES for which GPUs this process may use",
                      ordinal, count));
    driver_.call(driver_.device_get, &device_, ordinal);
    read_info();
    driver_.call(driver_.device_primary_ctx_retain, &context_, device_);
    if (options_.warm_assembler && cuda::keep_loaded(options_.assembler_library)) {
      warm_up_ = std::async(std::launch::async, [this] { warm_assembler(); }).share();
      cuda::finish_before_exit(warm_up_);
    }
  }

  ~CudaDevice() override {
    drop_kept();
    if (warm_up_.valid()) warm_up_.wait();
    driver_.device_primary_ctx_release(device_);
  }

  const DeviceInfo& info() const override { return info_; }

  uint64_t allocate(size_t bytes) override {
    auto scope = current();
    RelaxedCapture relaxed(driver_);
    uint64_t address = 0;
    Result result = driver_.mem_alloc(&address, std::max<size_t>(bytes, 1));  // the driver refuses 0 bytes
    if (result != Result::Success) {
      size_t free = 0, total = 0;
      bool known = result == Result::OutOfMemory && driver_.mem_get_info(&free, &total) == Result::Success;
      driver_.fail(driver_.mem_alloc.symbol, result,
                   fmt::format("asked for {} bytes on {}{}", bytes, info_.name,
                               known ? fmt::format(", which has {} of {} bytes free", free, total) : ""));
    }
    std::lock_guard lock(blocks_mutex_);
    blocks_[address] = bytes;
    return address;
  }

  uint64_t allocate_zeros(size_t bytes) override {
    auto scope = current();
    const uint64_t address = allocate(bytes);
    const Result result =
        on_own_stream([&](cuda::Stream stream) { return driver_.memset_d8_async(address, 0, bytes, stream); });
    if (result == Result::Success) return address;
    free(address);
    driver_.fail(driver_.memset_d8_async.symbol, result, fmt::format("clearing {} bytes on {}", bytes, info_.name));
  }

  size_t allocated_bytes(uint64_t address) override {
    std::lock_guard lock(blocks_mutex_);
    auto after = blocks_.upper_bound(address);
    if (after == blocks_.begin()) return 0;
    auto [begin, bytes] = *std::prev(after);
    return address - begin < bytes ? begin + bytes - address : 0;
  }

  void free(uint64_t address) noexcept override {
    {
      std::lock_guard lock(blocks_mutex_);
      blocks_.erase(address);
    }
    quietly([&] {
      RelaxedCapture relaxed(driver_);
      driver_.mem_free(address);
    });
  }

  // Copies end with a wait: from pinned memory the driver's asynchronous copies return before host memory was read.
  void copy_to_device(uint64_t to, const void* from, size_t bytes, StreamHandle stream) override {
    if (bytes == 0) return;
    auto scope = current();
    driver_.call(driver_.memcpy_to_device_async, to, from, bytes, as_stream(stream));
    driver_.call(driver_.stream_synchronize, as_stream(stream));
    check_asserts();
  }
  void copy_to_host(void* to, uint64_t from, size_t bytes, StreamHandle stream) override {
    if (bytes == 0) return;
    auto scope = current();
    driver_.call(driver_.memcpy_to_host_async, to, from, bytes, as_stream(stream));
    driver_.call(driver_.stream_synchronize, as_stream(stream));
    check_asserts();
  }
  void copy_on_device(uint64_t to, uint64_t from, size_t bytes, StreamHandle stream) override {
    if (bytes == 0) return;
    auto scope = current();
    driver_.call(driver_.memcpy_on_device_async, to, from, bytes, as_stream(stream));
  }
  void fill(uint64_t address, uint8_t value, size_t bytes, StreamHandle stream) override {
    if (bytes == 0) return;
    auto scope = current();
    driver_.call(driver_.memset_d8_async, address, value, bytes, as_stream(stream));
  }

  Shared<LoadedKernel> load(KernelImage image) override;

  StreamHandle create_stream() override {
    auto scope = current();
    cuda::Stream stream = nullptr;
    // A blocking stream: ordered with work on the default stream, as in CUDA C++.
    driver_.call(driver_.stream_create, &stream, unsigned(cuda::kStreamDefault));
    return stream;
  }
  void destroy_stream(StreamHandle stream) noexcept override {
    drop_workspace(stream);
    quietly([&] { driver_.stream_destroy(as_stream(stream)); });
  }
  uint64_t stream_id(StreamHandle stream) override {
    auto scope = current();
    unsigned long long id = 0;
    driver_.call(driver_.stream_get_id, as_stream(stream), &id);
    return id;
  }
  void synchronize(StreamHandle stream) override {
    auto scope = current();
    driver_.call(driver_.stream_synchronize, as_stream(stream));
    check_asserts();
  }

  EventHandle create_event() override {
    auto scope = current();
    cuda::Event event = nullptr;
    driver_.call(driver_.event_create, &event, unsigned(cuda::kEventDefault));
    return event;
  }
  void destroy_event(EventHandle event) noexcept override {
    quietly([&] { driver_.event_destroy(as_event(event)); });
  }
  void record(EventHandle event, StreamHandle stream) override {
    auto scope = current();
    driver_.call(driver_.event_record, as_event(event), as_stream(stream));
  }
  double elapsed_ms(EventHandle start, EventHandle stop) override {
    auto scope = current();
    driver_.call(driver_.event_synchronize, as_event(stop));
    check_asserts();
    float ms = 0;
    driver_.call(driver_.event_elapsed_time, &ms, as_event(start), as_event(stop));
    return ms;
  }

  void begin_capture(StreamHandle stream) override {
    auto scope = current();
    // Relaxed: a first launch inside the capture may have to load its kernel, which the stricter modes forbid.
    driver_.call(driver_.stream_begin_capture, as_stream(stream), cuda::CaptureMode::Relaxed);
  }
  GraphHandle end_capture(StreamHandle stream) override {
    auto scope = current();
    cuda::Graph graph = nullptr;
    driver_.call(driver_.stream_end_capture, as_stream(stream), &graph);
    cuda::GraphExec exec = nullptr;
    Result result = driver_.graph_instantiate(&exec, graph, 0ull);
    driver_.graph_destroy(graph);
    if (result != Result::Success) driver_.fail(driver_.graph_instantiate.symbol, result);
    return exec;
  }
  bool is_capturing(StreamHandle stream) override {
    auto scope = current();
    auto status = cuda::CaptureStatus::None;
    driver_.call(driver_.stream_is_capturing, as_stream(stream), &status);
    return status != cuda::CaptureStatus::None;
  }
  void launch_graph(GraphHandle graph, StreamHandle stream) override {
    auto scope = current();
    driver_.call(driver_.graph_launch, static_cast<cuda::GraphExec>(graph), as_stream(stream));
  }
  void destroy_graph(GraphHandle graph) noexcept override {
    quietly([&] { driver_.graph_exec_destroy(static_cast<cuda::GraphExec>(graph)); });
  }

 private:
  int attribute(cuda::DeviceAttribute which) const {
    int value = 0;
    driver_.call(driver_.device_get_attribute, &value, which, device_);
    return value;
  }

  void read_info() {
    using enum cuda::DeviceAttribute;
    char name[256] = {};
    driver_.call(driver_.device_get_name, name, int(sizeof(name) - 1), device_);
    size_t bytes = 0;
    driver_.call(driver_.device_total_mem, &bytes, device_);
    info_.name = name;
    info_.sm = attribute(ComputeCapabilityMajor) * 10 + attribute(ComputeCapabilityMinor);
    info_.num_sms = attribute(MultiprocessorCount);
    info_.driver_version = driver_.version;
    info_.memory_bytes = int64_t(bytes);
    info_.l2_bytes = attribute(L2CacheSize);
    info_.shared_per_program = attribute(MaxSharedMemoryPerBlockOptin);
    reads_host_memory_ = attribute(PageableMemoryAccess) != 0;
  }

  CudaModules::Made assemble(const KernelImage& image);
  // Where programs of the kernel run.
  cuda::Multiprocessor room_of(const KernelImage& image) const {
    using enum cuda::DeviceAttribute;
    constexpr int64_t kSharedBeside = 1024;  // that a program takes beside its own
    const int64_t programs =
        std::min({int64_t(attribute(MaxThreadsPerMultiprocessor) / image.threads()),
                  int64_t(attribute(MaxBlocksPerMultiprocessor)),
                  attribute(MaxSharedMemoryPerMultiprocessor) / (image.shared_bytes + kSharedBeside)});
    return {attribute(MaxRegistersPerMultiprocessor), programs, image.threads()};
  }

  // On a thread of its own. Whatever stands in the way here is told by the first kernel that meets it.
  void warm_assembler() const noexcept {
    try {
      auto scope = current();
      cuda::link_ptx(driver_, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry warm() { ret; }\n",
                     "warm");
    } catch (const std::exception&) {
    }
  }

  CudaOptions options_;
  cuda::Device device_ = 0;
  std::shared_future<void> warm_up_;
  CudaModules modules_;
  std::mutex blocks_mutex_;
  std::map<uint64_t, size_t> blocks_;  ///< what allocate() gave out: begin -> bytes
};

Shared<LoadedKernel> CudaDevice::load(KernelImage image) {
  TEGULA_CHECK(!image.ptx.empty() || !image.cubin.empty(), "image of kernel '{}' holds no GPU code", image.kernel);
  if (image.shared_bytes > info_.shared_per_program)
    throw DeviceError(fmt::format(
        "kernel '{}' needs {} bytes of shared memory a program, {} has {}\n  hint: try smaller tiles or fewer stages",
        image.kernel, image.shared_bytes, info_.name, info_.shared_per_program));
  if (image.cooperative && !driver_.launch_kernel_ex)
    throw DeviceError(fmt::format(
        "kernel '{}': the driver has no cooperative launches\n  hint: install one of CUDA 12 or later", image.kernel));
  if (image.num_ctas > 1 && !(driver_.launch_kernel_ex && driver_.occupancy_of_clusters))
    throw DeviceError(
        fmt::format("kernel '{}': the driver has no clusters of thread blocks\n  hint: install one of CUDA "
                    "12 or later, or use num_ctas=1",
                    image.kernel));
  auto scope = current();
  cuda::Module module = nullptr;
  if (!image.cubin.empty()) {
    Result result = driver_.module_load_data(&module, image.cubin.data());
    bool other_gpu = result == Result::NoBinaryForGpu || result == Result::InvalidImage;
    if (result != Result::Success && !(other_gpu && !image.ptx.empty()))
      driver_.fail(driver_.module_load_data.symbol, result,
                   fmt::format("loading kernel '{}', built for {}, on {} (compute capability {}.{})", image.kernel,
                               image.target, info_.name, info_.sm / 10, info_.sm % 10));
    if (result == Result::Success)
      return std::make_unique<CudaKernel>(*this, std::move(image), std::make_shared<const CudaModule>(*this, module));
  }
  if (!may_compile())
    throw DeviceError(fmt::format(
        "kernel '{}' is there as PTX alone, which the driver would have to assemble, and the process is sealed\n"
        "  hint: make it ready before seal(), or {} where ptxas is{}",
        image.kernel, image.moves_registers() ? "fill the cache or build the package" : "build the package",
        image.moves_registers() ? ", since drivers hand out no machine code of kernels whose warps pass registers"
                                : ""));
  const CudaModules::Made assembled = assemble(image);
  if (options_.on_assembled) options_.on_assembled(image.kernel, assembled->made.log);
  image.cubin = assembled->made.cubin;
  image.registers = assembled->made.registers;
  image.spill_bytes = assembled->made.spill_bytes;
  return std::make_unique<CudaKernel>(*this, std::move(image), assembled);
}

CudaModules::Made CudaDevice::assemble(const KernelImage& image) {
  auto make = [&]() -> CudaModules::Made {
    cuda::Module module = nullptr;
    // Only a program of its own may move registers between its warps; there is no cubin of it to keep.
    if (image.moves_registers()) {
      cuda::Linked made = cuda::load_ptx(driver_, image.ptx, image.kernel, module);
      return std::make_shared<const CudaModule>(*this, module, std::move(made));
    }
    cuda::Linked made = cuda::link_ptx_for(room_of(image), driver_, image.ptx, image.kernel);
    const Result result = driver_.module_load_data(&module, made.cubin.data());
    if (result != Result::Success)
      driver_.fail(driver_.module_load_data.symbol, result, fmt::format("loading kernel '{}'", image.kernel));
    return std::make_shared<const CudaModule>(*this, module, std::move(made));
  };
  if (!image.asserts.empty()) return make();  // whose module knows where this kernel's failures are written
  return modules_.get(fmt::format("{} {} {}\n{}", image.kernel, image.threads(), image.shared_bytes, image.ptx), make);
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(int ordinal) { return open_cuda_device(Driver::open(), ordinal); }

std::unique_ptr<Device> open_cuda_device(Driver driver, int ordinal, CudaOptions options) {
  return std::make_unique<CudaDevice>(std::move(driver), ordinal, std::move(options));
}

}  // namespace tegula
