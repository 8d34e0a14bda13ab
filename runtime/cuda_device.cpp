#include "runtime/cuda_device.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <map>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "runtime/base/check.h"
#include "runtime/cuda_tensor_maps.h"
#include "runtime/driver/link.h"
#include "runtime/driver/threads.h"
#include "runtime/sealing.h"

namespace tegula {

namespace {

using cuda::CurrentContext;
using cuda::Driver;
using cuda::RelaxedCapture;
using cuda::Result;

// Dynamic shared memory that every GPU grants without being asked.
constexpr int64_t kSharedWithoutAsking = 48 << 10;

// The first CUDA version whose drivers capture overlapping launches into graphs.
constexpr int kDependentLaunchVersion = 12030;

// The next kernel of the stream may start before the one ahead of it is done: its code waits.
constexpr cuda::LaunchAttribute kMayOverlap{cuda::LaunchAttributeId::ProgrammaticStreamSerialization, 0, 1};
// All programs run at once.
constexpr cuda::LaunchAttribute kCooperative{cuda::LaunchAttributeId::Cooperative, 0, 1};

// Blocks of a cluster that every GPU with clusters can run; more have to be allowed.
constexpr int kPortableBlocks = 8;
constexpr unsigned kMostBlocksX = 0x7FFFFFFF;

cuda::Stream as_stream(StreamHandle stream) { return static_cast<cuda::Stream>(stream); }
cuda::Event as_event(EventHandle event) { return static_cast<cuda::Event>(event); }

class CudaDevice;

class CudaKernel final : public LoadedKernel {
 public:
  CudaKernel(CudaDevice& device, KernelImage image, cuda::Module module);
  ~CudaKernel() override;
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  bool try_launch(Grid grid, void* const* args, StreamHandle stream) override;
  const KernelImage& image() const override { return image_; }
  std::string why_inaccessible(uint64_t address) const override;
  /// Throws the DeviceError of an assert that has failed in a launch, once.
  void check_asserts();

 private:
  void listen_for_asserts();
  bool launch_with_maps(Grid grid, void* const* args, StreamHandle stream);
  void start(Grid grid, void* const* args, StreamHandle stream);
  cuda::LaunchConfig config_of(Grid grid, StreamHandle stream) const;
  [[noreturn]] void launch_failed(Result result, Grid grid) const;

  // What a launch reads, side by side.
  decltype(Driver::launch_kernel.function) launch_kernel_;
  decltype(Driver::launch_kernel_ex.function) launch_kernel_ex_;
  std::vector<cuda::LaunchAttribute> attributes_;
  unsigned blocks_;  // of a program
  decltype(Driver::ctx_get_current.function) get_current_;
  cuda::Context context_;
  cuda::Function function_ = nullptr;
  cuda::Function function_of_many_ = nullptr;  // of launches of more programs than few_programs_
  uint64_t few_programs_;
  unsigned threads_;
  unsigned shared_bytes_;
  std::unique_ptr<CudaTensorMaps> maps_;  // null: the code takes none
  AssertFailure* failure_ = nullptr;      // in pinned memory; null: the code has no asserts

  CudaDevice& device_;
  cuda::Module module_;
  KernelImage image_;
};

class CudaDevice final : public Device {
 public:
  CudaDevice(Driver driver, int ordinal, CudaOptions options)
      : driver_(std::move(driver)), options_(std::move(options)) {
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
  const Driver& driver() const { return driver_; }
  cuda::Context context() const { return context_; }
  /// The GPU reaches ordinary host memory by itself.
  bool reads_host_memory() const { return reads_host_memory_; }
  CurrentContext current() const { return CurrentContext(driver_, context_); }

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

  // On a stream of its own, which waits for nobody.
  uint64_t allocate_zeros(size_t bytes) override {
    auto scope = current();
    RelaxedCapture relaxed(driver_);
    const uint64_t address = allocate(bytes);
    cuda::Stream stream = nullptr;
    Result result = driver_.stream_create(&stream, unsigned(cuda::kStreamNonBlocking));
    if (result == Result::Success) {
      result = driver_.memset_d8_async(address, 0, bytes, stream);
      if (result == Result::Success) result = driver_.stream_synchronize(stream);
      driver_.stream_destroy(stream);
    }
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

  // ---- Kernels with asserts. Those that have failed by then are told by each call that waits for the device.

  void add_asserting(CudaKernel* kernel) {
    std::lock_guard lock(asserting_mutex_);
    asserting_.push_back(kernel);
  }
  void remove_asserting(CudaKernel* kernel) {
    std::lock_guard lock(asserting_mutex_);
    std::erase(asserting_, kernel);
  }
  void check_asserts();

  // On a stream of its own, which waits for nobody.
  void write_before_launches(uint64_t to, const void* from, size_t bytes) {
    RelaxedCapture relaxed(driver_);
    cuda::Stream stream = nullptr;
    driver_.call(driver_.stream_create, &stream, unsigned(cuda::kStreamNonBlocking));
    Result result = driver_.memcpy_to_device_async(to, from, bytes, stream);
    if (result == Result::Success) result = driver_.stream_synchronize(stream);
    driver_.stream_destroy(stream);
    if (result != Result::Success) driver_.fail(driver_.memcpy_to_device_async.symbol, result);
  }

  // Runs `release` in the context. What was wrong with the device has been said by the call that met it; giving things
  // back stays silent.
  template <class Release>
  void quietly(Release release) const noexcept {
    try {
      auto scope = current();
      release();
    } catch (const DeviceError&) {
    }
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

  // On a thread of its own. Whatever stands in the way here is told by the first kernel that meets it.
  void warm_assembler() const noexcept {
    try {
      auto scope = current();
      cuda::link_ptx(driver_, ".version 7.0\n.target sm_75\n.address_size 64\n.visible .entry warm() { ret; }\n",
                     "warm");
    } catch (const std::exception&) {
    }
  }

  Driver driver_;
  CudaOptions options_;
  cuda::Device device_ = 0;
  cuda::Context context_ = nullptr;
  DeviceInfo info_;
  std::shared_future<void> warm_up_;
  bool reads_host_memory_ = false;
  std::mutex blocks_mutex_;
  std::map<uint64_t, size_t> blocks_;  ///< what allocate() gave out: begin -> bytes
  std::mutex asserting_mutex_;
  std::vector<CudaKernel*> asserting_;
};

void CudaDevice::check_asserts() {
  std::lock_guard lock(asserting_mutex_);
  for (CudaKernel* kernel : asserting_) kernel->check_asserts();
}

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
    if (result == Result::Success) return std::make_unique<CudaKernel>(*this, std::move(image), module);
  }
  if (!may_compile())
    throw DeviceError(fmt::format(
        "kernel '{}' is there as PTX alone, which the driver would have to assemble, and the process is sealed\n"
        "  hint: make it ready before seal(), or {} where ptxas is{}",
        image.kernel, image.moves_registers() ? "fill the cache or build the package" : "build the package",
        image.moves_registers() ? ", since drivers hand out no machine code of kernels whose warps pass registers"
                                : ""));
  // Only a program of its own may move registers between its warps; there is no cubin of it to keep.
  const bool moves_registers = image.moves_registers();
  cuda::Linked made = moves_registers ? cuda::load_ptx(driver_, image.ptx, image.kernel, module)
                                      : cuda::link_ptx(driver_, image.ptx, image.kernel);
  if (options_.on_assembled) options_.on_assembled(image.kernel, made.log);
  image.cubin = std::move(made.cubin);
  image.registers = made.registers;
  image.spill_bytes = made.spill_bytes;
  if (!moves_registers) {
    const Result result = driver_.module_load_data(&module, image.cubin.data());
    if (result != Result::Success)
      driver_.fail(driver_.module_load_data.symbol, result, fmt::format("loading kernel '{}'", image.kernel));
  }
  return std::make_unique<CudaKernel>(*this, std::move(image), module);
}

// What launches of the image ask for.
std::vector<cuda::LaunchAttribute> attributes_of(const Driver& driver, const KernelImage& image) {
  std::vector<cuda::LaunchAttribute> attributes;
  if (!driver.launch_kernel_ex) return attributes;
  if (image.cooperative)
    attributes.push_back(kCooperative);
  else if (image.dependent_launch && driver.version >= kDependentLaunchVersion)
    attributes.push_back(kMayOverlap);
  if (image.num_ctas > 1) attributes.push_back({cuda::LaunchAttributeId::ClusterDimension, 0, image.num_ctas, 1, 1});
  return attributes;
}

// Called with the device's context current; takes over `module`, also when it throws.
CudaKernel::CudaKernel(CudaDevice& device, KernelImage image, cuda::Module module)
    : launch_kernel_(device.driver().launch_kernel.function),
      launch_kernel_ex_(device.driver().launch_kernel_ex.function),
      attributes_(attributes_of(device.driver(), image)),
      blocks_(unsigned(image.num_ctas)),
      get_current_(device.driver().ctx_get_current.function),
      context_(device.context()),
      few_programs_(image.few_programs ? uint64_t(image.few_programs) : std::numeric_limits<uint64_t>::max()),
      threads_(unsigned(image.threads())),
      shared_bytes_(unsigned(image.shared_bytes)),
      maps_(image.tensor_maps.empty() ? nullptr : std::make_unique<CudaTensorMaps>(device.driver(), image.tensor_maps)),
      device_(device),
      module_(module),
      image_(std::move(image)) {
  const Driver& driver = device.driver();
  auto checked = [&](const char* symbol, Result result) {
    if (result == Result::Success) return;
    driver.module_unload(module_);
    driver.fail(symbol, result, fmt::format("kernel '{}'", image_.kernel));
  };
  auto entry = [&](const std::string& name) {
    cuda::Function function = nullptr;
    checked(driver.module_get_function.symbol, driver.module_get_function(&function, module_, name.c_str()));
    // Code may be loaded as late as the first launch, which a capture of that launch would not survive.
    if (driver.func_load) checked(driver.func_load.symbol, driver.func_load(function));
    return function;
  };
  function_ = entry(image_.kernel);
  if (image_.few_programs) function_of_many_ = entry(entry_of_many(image_.kernel));
  auto attribute = [&](cuda::FunctionAttribute which) {
    int value = 0;
    checked(driver.func_get_attribute.symbol, driver.func_get_attribute(&value, which, function_));
    return value;
  };
  if (image_.registers < 0) image_.registers = attribute(cuda::FunctionAttribute::NumRegs);
  if (image_.spill_bytes < 0) image_.spill_bytes = attribute(cuda::FunctionAttribute::LocalSizeBytes);
  auto set = [&](cuda::FunctionAttribute which, int value) {
    for (cuda::Function function : {function_, function_of_many_})
      if (function) checked(driver.func_set_attribute.symbol, driver.func_set_attribute(function, which, value));
  };
  if (image_.shared_bytes > kSharedWithoutAsking)
    set(cuda::FunctionAttribute::MaxDynamicSharedSizeBytes, int(image_.shared_bytes));
  if (image_.num_ctas > kPortableBlocks) set(cuda::FunctionAttribute::NonPortableClusterSizeAllowed, 1);
  if (blocks_ > 1) {
    int clusters = 0;
    const cuda::LaunchConfig config = config_of({}, nullptr);
    checked(driver.occupancy_of_clusters.symbol, driver.occupancy_of_clusters(&clusters, function_, &config));
    if (clusters == 0) {
      driver.module_unload(module_);
      throw DeviceError(fmt::format(
          "kernel '{}': {} has no room for a cluster of {} blocks, each of {} threads with {} registers and "
          "{} bytes of shared memory\n  hint: use a smaller num_ctas or num_warps, or smaller tiles",
          image_.kernel, device.info().name, blocks_, threads_, image_.registers, shared_bytes_));
    }
  }
  if (!image_.asserts.empty() && driver.module_get_global && driver.mem_host_alloc && driver.mem_free_host)
    listen_for_asserts();
}

CudaKernel::~CudaKernel() {
  if (failure_) device_.remove_asserting(this);
  device_.quietly([&] {
    device_.driver().module_unload(module_);
    if (failure_) device_.driver().mem_free_host(failure_);
  });
}

// Gives the code memory to write a failure to, which the host reads without a wait.
void CudaKernel::listen_for_asserts() {
  const Driver& driver = device_.driver();
  cuda::DevicePtr variable = 0;
  size_t bytes = 0;
  if (driver.module_get_global(&variable, &bytes, module_, kFailureVariable) != Result::Success) return;
  void* memory = nullptr;
  if (driver.mem_host_alloc(&memory, sizeof(AssertFailure), unsigned(cuda::kHostAllocMapped)) != Result::Success)
    return;
  auto* failure = new (memory) AssertFailure;
  try {
    device_.write_before_launches(variable, &failure, sizeof failure);
  } catch (const DeviceError&) {
    driver.mem_free_host(memory);
    return;
  }
  failure_ = failure;
  device_.add_asserting(this);
}

void CudaKernel::check_asserts() {
  std::atomic_ref<uint32_t> state(failure_->state);
  if (state.load(std::memory_order_acquire) != 2) return;
  const AssertFailure failure = *failure_;
  state.store(0, std::memory_order_release);
  const Loc loc = failure.number < image_.asserts.size() ? image_.asserts[failure.number].loc : Loc();
  throw DeviceError(fmt::format(
      "kernel '{}': {}\n  at {}, program ({}, {}, {}), thread {}", image_.kernel, assert_failed(image_, failure.number),
      loc ? loc.to_string() : "an unknown source place", failure.x, failure.y, failure.z, failure.thread));
}

bool CudaKernel::try_launch(Grid grid, void* const* args, StreamHandle stream) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return true;
  if (failure_) [[unlikely]]
    check_asserts();
  if (maps_) return launch_with_maps(grid, args, stream);
  start(grid, args, stream);
  return true;
}

bool CudaKernel::launch_with_maps(Grid grid, void* const* args, StreamHandle stream) {
  CudaTensorMaps::Found found;
  if (!maps_->find(args, found)) return false;
  constexpr size_t kInline = 64;
  const size_t params = image_.params.size(), all = params + maps_->size();
  std::array<void*, kInline> room;
  std::vector<void*> more(all > kInline ? all : 0);
  void** pointers = more.empty() ? room.data() : more.data();
  std::copy_n(args, params, pointers);
  for (size_t i = params; i < all; ++i) pointers[i] = const_cast<cuda::TensorMap*>(found.maps[i - params]);
  start(grid, pointers, stream);
  return true;
}

cuda::LaunchConfig CudaKernel::config_of(Grid grid, StreamHandle stream) const {
  return {grid.x * blocks_,
          grid.y,
          grid.z,
          threads_,
          1,
          1,
          shared_bytes_,
          as_stream(stream),
          attributes_.data(),
          unsigned(attributes_.size())};
}

void CudaKernel::start(Grid grid, void* const* args, StreamHandle stream) {
  if (grid.x > kMostBlocksX / blocks_) [[unlikely]]
    launch_failed(Result::InvalidValue, grid);
  const bool many = uint64_t(grid.x) * grid.y > few_programs_ / grid.z;
  const cuda::Function function = many ? function_of_many_ : function_;
  auto start = [&] {
    if (!attributes_.empty()) {
      const cuda::LaunchConfig config = config_of(grid, stream);
      return launch_kernel_ex_(&config, function, const_cast<void**>(args), nullptr);
    }
    return launch_kernel_(function, grid.x, grid.y, grid.z, threads_, 1, 1, shared_bytes_, as_stream(stream),
                          const_cast<void**>(args), nullptr);
  };
  cuda::Context current = nullptr;
  Result result;
  if (get_current_(&current) == Result::Success && current == context_) [[likely]] {
    result = start();
  } else {
    auto scope = device_.current();
    result = start();
  }
  if (result != Result::Success) [[unlikely]]
    launch_failed(result, grid);
}

void CudaKernel::launch_failed(Result result, Grid grid) const {
  const Driver& driver = device_.driver();
  if (result == Result::CooperativeLaunchTooLarge) {
    auto scope = device_.current();
    int programs = 0;
    if (const cuda::LaunchConfig config = config_of(grid, nullptr); blocks_ > 1)
      driver.call(driver.occupancy_of_clusters, &programs, function_, &config);
    else
      driver.call(driver.occupancy, &programs, function_, int(threads_), size_t(shared_bytes_));
    const int64_t times = blocks_ > 1 ? 1 : device_.info().num_sms;
    throw LaunchError(cooperative_too_large(image_, grid, programs * times, device_.info()));
  }
  const std::string blocks = blocks_ > 1 ? fmt::format("{} blocks a program, ", blocks_) : "";
  driver.fail(
      attributes_.empty() ? driver.launch_kernel.symbol : driver.launch_kernel_ex.symbol, result,
      fmt::format("kernel '{}', grid {} x {} x {}, {}{} threads and {} bytes of shared memory a {}", image_.kernel,
                  grid.x, grid.y, grid.z, blocks, threads_, shared_bytes_, blocks_ > 1 ? "block" : "program"));
}

std::string CudaKernel::why_inaccessible(uint64_t address) const {
  if (device_.reads_host_memory()) return {};
  auto scope = device_.current();
  unsigned type = 0;
  Result result = device_.driver().pointer_get_attribute(&type, cuda::PointerAttribute::MemoryType, address);
  // The driver knows no such memory: it was neither allocated nor registered through CUDA.
  return result == Result::InvalidValue ? "host memory, or memory that was freed" : "";
}

}  // namespace

std::unique_ptr<Device> open_cuda_device(int ordinal) { return open_cuda_device(Driver::open(), ordinal); }

std::unique_ptr<Device> open_cuda_device(Driver driver, int ordinal, CudaOptions options) {
  return std::make_unique<CudaDevice>(std::move(driver), ordinal, std::move(options));
}

}  // namespace tegula
