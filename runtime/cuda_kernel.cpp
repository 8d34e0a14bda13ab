#include "runtime/cuda_kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <limits>
#include <new>
#include <utility>

namespace tegula {

using cuda::Driver;
using cuda::Result;

namespace {

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

}  // namespace

void CudaContext::check_asserts() {
  std::lock_guard lock(asserting_mutex_);
  for (CudaKernel* kernel : asserting_) kernel->check_asserts();
}

CudaKernel::CudaKernel(CudaContext& context, KernelImage image, CudaModules::Made module)
    : launch_kernel_(context.driver().launch_kernel.function),
      launch_kernel_ex_(context.driver().launch_kernel_ex.function),
      attributes_(attributes_of(context.driver(), image)),
      blocks_(unsigned(image.num_ctas)),
      get_current_(context.driver().ctx_get_current.function),
      handle_(context.handle()),
      few_programs_(image.few_programs ? uint64_t(image.few_programs) : std::numeric_limits<uint64_t>::max()),
      threads_(unsigned(image.threads())),
      shared_bytes_(unsigned(image.shared_bytes)),
      maps_(image.tensor_maps.empty() ? nullptr : std::make_unique<CudaTensorMaps>(context, image.tensor_maps)),
      context_(context),
      module_(std::move(module)),
      image_(std::move(image)) {
  const Driver& driver = context.driver();
  auto checked = [&](const char* symbol, Result result) {
    if (result != Result::Success) driver.fail(symbol, result, fmt::format("kernel '{}'", image_.kernel));
  };
  auto entry = [&](const std::string& name) {
    cuda::Function function = nullptr;
    checked(driver.module_get_function.symbol, driver.module_get_function(&function, module_->get(), name.c_str()));
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
    if (clusters == 0)
      throw DeviceError(fmt::format(
          "kernel '{}': {} has no room for a cluster of {} blocks, each of {} threads with {} registers and "
          "{} bytes of shared memory\n  hint: use a smaller num_ctas or num_warps, or smaller tiles",
          image_.kernel, context.device_info().name, blocks_, threads_, image_.registers, shared_bytes_));
  }
  if (image_.program_loop) {
    int programs = 0;
    checked(driver.occupancy.symbol, driver.occupancy(&programs, function_, int(threads_), size_t(shared_bytes_)));
    most_blocks_ = unsigned(std::max(1, programs) * context.device_info().num_sms);
  }
  if (!image_.asserts.empty() && driver.module_get_global && driver.mem_host_alloc && driver.mem_free_host)
    listen_for_asserts();
}

CudaKernel::~CudaKernel() {
  if (!failure_) return;
  context_.remove_asserting(this);
  module_ = nullptr;  // its code writes to that memory
  context_.quietly([&] { context_.driver().mem_free_host(failure_); });
}

// Gives the code memory to write a failure to, which the host reads without a wait.
void CudaKernel::listen_for_asserts() {
  const Driver& driver = context_.driver();
  cuda::DevicePtr variable = 0;
  size_t bytes = 0;
  if (driver.module_get_global(&variable, &bytes, module_->get(), kFailureVariable) != Result::Success) return;
  void* memory = nullptr;
  if (driver.mem_host_alloc(&memory, sizeof(AssertFailure), unsigned(cuda::kHostAllocMapped)) != Result::Success)
    return;
  auto* failure = new (memory) AssertFailure;
  const Result written = context_.on_own_stream(
      [&](cuda::Stream stream) { return driver.memcpy_to_device_async(variable, &failure, sizeof failure, stream); });
  if (written != Result::Success) {
    driver.mem_free_host(memory);
    return;
  }
  failure_ = failure;
  context_.add_asserting(this);
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
  if (maps_ || most_blocks_) return launch_with_more(grid, args, stream);
  start(grid, args, stream);
  return true;
}

// With tensor maps, and the numbers of programs, behind the arguments.
bool CudaKernel::launch_with_more(Grid grid, void* const* args, StreamHandle stream) {
  if (!takes_in_turns(image_, grid)) return false;
  CudaTensorMaps::Found found;
  if (maps_ && !maps_->find(args, found)) return false;
  constexpr size_t kInline = 64;
  std::array<unsigned, 3> programs{grid.x, grid.y, grid.z};
  const size_t params = image_.params.size(), maps = maps_ ? maps_->size() : 0;
  const size_t all = params + maps + (most_blocks_ ? programs.size() : 0);
  std::array<void*, kInline> room;
  std::vector<void*> more(all > kInline ? all : 0);
  void** pointers = more.empty() ? room.data() : more.data();
  std::copy_n(args, params, pointers);
  for (size_t i = 0; i < maps; ++i) pointers[params + i] = const_cast<cuda::TensorMap*>(found.maps[i]);
  for (size_t i = params + maps; i < all; ++i) pointers[i] = &programs[i - params - maps];
  if (most_blocks_ && uint64_t(grid.x) * grid.y * grid.z > most_blocks_) grid = {most_blocks_};
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
  if (get_current_(&current) == Result::Success && current == handle_) [[likely]] {
    result = start();
  } else {
    auto scope = context_.current();
    result = start();
  }
  if (result != Result::Success) [[unlikely]]
    launch_failed(result, grid);
}

void CudaKernel::launch_failed(Result result, Grid grid) const {
  const Driver& driver = context_.driver();
  if (result == Result::CooperativeLaunchTooLarge) {
    auto scope = context_.current();
    int programs = 0;
    if (const cuda::LaunchConfig config = config_of(grid, nullptr); blocks_ > 1)
      driver.call(driver.occupancy_of_clusters, &programs, function_, &config);
    else
      driver.call(driver.occupancy, &programs, function_, int(threads_), size_t(shared_bytes_));
    const int64_t times = blocks_ > 1 ? 1 : context_.device_info().num_sms;
    throw LaunchError(cooperative_too_large(image_, grid, programs * times, context_.device_info()));
  }
  const std::string blocks = blocks_ > 1 ? fmt::format("{} blocks a program, ", blocks_) : "";
  driver.fail(
      attributes_.empty() ? driver.launch_kernel.symbol : driver.launch_kernel_ex.symbol, result,
      fmt::format("kernel '{}', grid {} x {} x {}, {}{} threads and {} bytes of shared memory a {}", image_.kernel,
                  grid.x, grid.y, grid.z, blocks, threads_, shared_bytes_, blocks_ > 1 ? "block" : "program"));
}

std::string CudaKernel::why_inaccessible(uint64_t address) const {
  if (context_.reads_host_memory()) return {};
  auto scope = context_.current();
  unsigned type = 0;
  Result result = context_.driver().pointer_get_attribute(&type, cuda::PointerAttribute::MemoryType, address);
  // The driver knows no such memory: it was neither allocated nor registered through CUDA.
  return result == Result::InvalidValue ? "host memory, or memory that was freed" : "";
}

}  // namespace tegula
