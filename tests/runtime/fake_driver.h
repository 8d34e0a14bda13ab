// A CUDA driver that lives in the test: it keeps what it was asked and fails where it is told to.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "runtime/driver/driver.h"

namespace tegula::cuda::fake {

/// What the driver does and what it saw. One at a time in a process: the entries are plain functions.
struct State {
  int version = 12040;
  int device_count = 1;
  int pageable_access = 0;
  bool capturing_globally = false;     ///< another library captures a stream in the mode that forbids most
  std::map<std::string, Result> fail;  ///< symbol: what it returns
  Result sticky = Result::Success;     ///< what every call on the context returns once a kernel has faulted
  std::string info_log, error_log;     ///< what the linker reports
  std::map<std::string, std::string> bounded_logs;  ///< what the linker reports of PTX that has such a text
  std::set<std::string> refused;                    ///< texts that the linker refuses PTX for
  std::set<std::string> absent;                     ///< symbols that the library does not have

  std::mutex mutex;
  std::vector<std::string> calls;  ///< symbols, in order, of all threads
  std::map<uint64_t, std::vector<uint8_t>> memory;
  std::string linked_ptx;  ///< the last one of all threads
  std::vector<JitOption> link_options;
  std::map<FunctionAttribute, int> set_attributes;
  std::atomic<int> links_open{0}, modules_open{0}, contexts_open{0};

  unsigned grid[3] = {}, block[3] = {}, shared_bytes = 0;
  cuda::Stream stream = nullptr;
  std::map<Function, std::string> entries;  ///< names of the functions that were asked for
  std::string entry;                        ///< of the last launch
  void** params = nullptr;
  std::vector<LaunchAttribute> attributes;
  int blocks_at_once = 200;  ///< of clusters

  /// What a tensor map was made of; the map's first number counts the calls.
  struct EncodedMap {
    TensorMapDataType type;
    uint64_t base;
    std::vector<uint64_t> extents, strides;
    std::vector<uint32_t> box, element_strides;
    TensorMapSwizzle swizzle;
    TensorMapL2Promotion promotion;
  };
  std::vector<EncodedMap> encoded;
  size_t map_parameters = 0, first_map_parameter = 0;  ///< of kernels that are launched
  std::vector<uint64_t> launched_maps;                 ///< the first number of each
  size_t first_count_parameter = 0;                    ///< of kernels whose blocks take programs in turns; 0: none
  std::vector<int32_t> launched_counts;                ///< of programs along each axis
  /// The caller holds the mutex.
  void note_params(void** launch_params) {
    launched_counts.clear();
    for (size_t i = 0; i < (first_count_parameter ? 3 : 0); ++i)
      launched_counts.push_back(*static_cast<int32_t*>(launch_params[first_count_parameter + i]));
    launched_maps.clear();
    for (size_t i = 0; i < map_parameters; ++i)
      launched_maps.push_back(static_cast<TensorMap*>(launch_params[first_map_parameter + i])->opaque[0]);
  }

  int registers = 77, local_bytes = 24;  ///< that functions say they take
  std::string log_of(const std::string& ptx) const {
    for (const auto& [text, log] : bounded_logs)
      if (ptx.find(text) != std::string::npos) return log;
    return info_log;
  }
  bool refuses(const std::string& ptx) const {
    return std::any_of(refused.begin(), refused.end(),
                       [&](const std::string& text) { return ptx.find(text) != std::string::npos; });
  }
  int count(const std::string& symbol) {
    std::lock_guard lock(mutex);
    int n = 0;
    for (const std::string& call : calls) n += call == symbol;
    return n;
  }
};

inline State* state = nullptr;
inline thread_local Context current_context = nullptr;
inline thread_local CaptureMode capture_mode = CaptureMode::Global;

template <class Handle>
Handle handle(uintptr_t value) {
  return reinterpret_cast<Handle>(value);
}
inline const Context kPrimary = handle<Context>(0xc0);

/// Notes the call; the result it must have.
inline Result enter(const char* symbol, bool on_context = true) {
  std::lock_guard lock(state->mutex);
  state->calls.push_back(symbol);
  if (auto it = state->fail.find(symbol); it != state->fail.end()) return it->second;
  return on_context ? state->sticky : Result::Success;
}

/// What a linker that was created was given: several threads may link at once.
struct Link {
  char *info = nullptr, *errors = nullptr;
  std::string ptx;
};

/// Whether a call that a capture in a stricter mode forbids is made.
inline bool forbidden() { return state->capturing_globally && capture_mode != CaptureMode::Relaxed; }

#define ENTER(symbol, ...) \
  if (Result entered = enter(symbol, ##__VA_ARGS__); entered != Result::Success) return entered

inline const char* error_name(Result r) {
  switch (r) {
    case Result::OutOfMemory:
      return "CUDA_ERROR_OUT_OF_MEMORY";
    case Result::NoDevice:
      return "CUDA_ERROR_NO_DEVICE";
    case Result::InvalidValue:
      return "CUDA_ERROR_INVALID_VALUE";
    case Result::InvalidPtx:
      return "CUDA_ERROR_INVALID_PTX";
    case Result::UnsupportedPtxVersion:
      return "CUDA_ERROR_UNSUPPORTED_PTX_VERSION";
    case Result::NoBinaryForGpu:
      return "CUDA_ERROR_NO_BINARY_FOR_GPU";
    case Result::IllegalAddress:
      return "CUDA_ERROR_ILLEGAL_ADDRESS";
    case Result::LaunchOutOfResources:
      return "CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES";
    case Result::NotFound:
      return "CUDA_ERROR_NOT_FOUND";
    case Result::StreamCaptureUnsupported:
      return "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED";
    default:
      return nullptr;
  }
}

/// The functions by symbol. Their types are checked against the table.
inline void* lookup(const char* symbol) {
  if (state->absent.contains(symbol)) return nullptr;
  static const std::map<std::string, void*> functions = [] {
    Driver table;
    std::map<std::string, void*> map;
    auto put = [&](auto& entry, decltype(entry.function) function) {
      map[entry.symbol] = reinterpret_cast<void*>(function);
    };
    put(table.init, [](unsigned) { return enter("cuInit", false); });
    put(table.driver_get_version, [](int* v) { return *v = state->version, Result::Success; });
    put(table.get_error_name, [](Result r, const char** text) {
      *text = error_name(r);
      return *text ? Result::Success : Result::InvalidValue;
    });
    put(table.get_error_string, [](Result r, const char** text) {
      *text = r == Result::OutOfMemory ? "out of memory" : "the driver's words";
      return Result::Success;
    });
    put(table.device_get_count, [](int* n) { return *n = state->device_count, Result::Success; });
    put(table.device_get, [](Device* d, int ordinal) { return *d = ordinal, Result::Success; });
    put(table.device_get_name,
        [](char* name, int bytes, Device) { return std::strncpy(name, "Fake GPU", size_t(bytes)), Result::Success; });
    put(table.device_get_attribute, [](int* v, DeviceAttribute a, Device) {
      static const std::map<DeviceAttribute, int> values = {{DeviceAttribute::MultiprocessorCount, 132},
                                                            {DeviceAttribute::L2CacheSize, 1 << 20},
                                                            {DeviceAttribute::MaxThreadsPerMultiprocessor, 2048},
                                                            {DeviceAttribute::MaxSharedMemoryPerMultiprocessor, 233472},
                                                            {DeviceAttribute::MaxRegistersPerMultiprocessor, 65536},
                                                            {DeviceAttribute::MaxBlocksPerMultiprocessor, 32},
                                                            {DeviceAttribute::ComputeCapabilityMajor, 9},
                                                            {DeviceAttribute::ComputeCapabilityMinor, 0},
                                                            {DeviceAttribute::MaxSharedMemoryPerBlockOptin, 232448}};
      *v = a == DeviceAttribute::PageableMemoryAccess ? state->pageable_access : values.at(a);
      return Result::Success;
    });
    put(table.device_total_mem, [](size_t* n, Device) { return *n = 1 << 30, Result::Success; });
    put(table.device_primary_ctx_retain, [](Context* c, Device) {
      ENTER("cuDevicePrimaryCtxRetain", false);
      ++state->contexts_open;
      return *c = kPrimary, Result::Success;
    });
    put(table.device_primary_ctx_release, [](Device) { return --state->contexts_open, Result::Success; });
    put(table.ctx_get_current, [](Context* c) { return *c = current_context, Result::Success; });
    put(table.ctx_set_current, [](Context c) {
      ENTER("cuCtxSetCurrent", false);
      return current_context = c, Result::Success;
    });
    static thread_local std::vector<Context> stack;
    put(table.ctx_push_current, [](Context c) {
      ENTER("cuCtxPushCurrent_v2", false);
      stack.push_back(current_context);
      return current_context = c, Result::Success;
    });
    put(table.ctx_pop_current, [](Context* c) {
      ENTER("cuCtxPopCurrent_v2", false);
      *c = current_context;
      current_context = stack.back();
      return stack.pop_back(), Result::Success;
    });
    put(table.mem_alloc, [](DevicePtr* p, size_t bytes) {
      ENTER("cuMemAlloc_v2");
      if (forbidden()) return Result::StreamCaptureUnsupported;
      if (bytes == 0) return Result::InvalidValue;
      static uint64_t next = 0x1000000;
      std::lock_guard lock(state->mutex);
      *p = next;
      next += (bytes + 511) / 256 * 256;
      state->memory[*p].resize(bytes);
      return Result::Success;
    });
    put(table.mem_free, [](DevicePtr p) {
      ENTER("cuMemFree_v2");
      if (forbidden()) return Result::StreamCaptureUnsupported;
      std::lock_guard lock(state->mutex);
      return state->memory.erase(p) ? Result::Success : Result::InvalidValue;
    });
    put(table.mem_get_info, [](size_t* free, size_t* total) {
      *free = 4096;
      *total = 1 << 30;
      return Result::Success;
    });
    put(table.memcpy_to_device_async, [](DevicePtr to, const void* from, size_t bytes, cuda::Stream) {
      ENTER("cuMemcpyHtoDAsync_v2");
      std::lock_guard lock(state->mutex);
      return std::memcpy(state->memory.at(to).data(), from, bytes), Result::Success;
    });
    put(table.memcpy_to_host_async, [](void* to, DevicePtr from, size_t bytes, cuda::Stream) {
      ENTER("cuMemcpyDtoHAsync_v2");
      std::lock_guard lock(state->mutex);
      return std::memcpy(to, state->memory.at(from).data(), bytes), Result::Success;
    });
    put(table.memcpy_on_device_async, [](DevicePtr to, DevicePtr from, size_t bytes, cuda::Stream) {
      ENTER("cuMemcpyDtoDAsync_v2");
      std::lock_guard lock(state->mutex);
      return std::memcpy(state->memory.at(to).data(), state->memory.at(from).data(), bytes), Result::Success;
    });
    put(table.memset_d8_async, [](DevicePtr to, unsigned char value, size_t bytes, cuda::Stream) {
      ENTER("cuMemsetD8Async");
      std::lock_guard lock(state->mutex);
      return std::memset(state->memory.at(to).data(), value, bytes), Result::Success;
    });
    put(table.pointer_get_attribute, [](void* value, PointerAttribute attribute, DevicePtr address) {
      ENTER("cuPointerGetAttribute");
      std::lock_guard lock(state->mutex);
      auto it = state->memory.upper_bound(address);
      if (it == state->memory.begin() || address >= (--it)->first + it->second.size()) return Result::InvalidValue;
      if (attribute == PointerAttribute::RangeStartAddress)
        return *static_cast<DevicePtr*>(value) = it->first, Result::Success;
      return *static_cast<unsigned*>(value) = 2, Result::Success;
    });
    put(table.stream_create, [](cuda::Stream* s, unsigned) {
      ENTER("cuStreamCreate");
      return *s = handle<cuda::Stream>(0x51), Result::Success;
    });
    put(table.stream_destroy, [](cuda::Stream) { return enter("cuStreamDestroy_v2"); });
    put(table.stream_synchronize, [](cuda::Stream) {
      ENTER("cuStreamSynchronize");
      return forbidden() ? Result::StreamCaptureUnsupported : Result::Success;
    });
    put(table.stream_get_id, [](cuda::Stream s, unsigned long long* id) {
      ENTER("cuStreamGetId");
      return *id = reinterpret_cast<uintptr_t>(s), Result::Success;
    });
    put(table.thread_exchange_capture_mode, [](CaptureMode* mode) {
      std::swap(*mode, capture_mode);
      return Result::Success;
    });
    put(table.stream_begin_capture, [](cuda::Stream, CaptureMode) { return enter("cuStreamBeginCapture_v2"); });
    put(table.stream_end_capture, [](cuda::Stream, cuda::Graph* g) {
      ENTER("cuStreamEndCapture");
      return *g = handle<cuda::Graph>(0x60), Result::Success;
    });
    put(table.stream_is_capturing, [](cuda::Stream, cuda::CaptureStatus* status) {
      ENTER("cuStreamIsCapturing");
      return *status = cuda::CaptureStatus::None, Result::Success;
    });
    put(table.graph_instantiate, [](GraphExec* e, cuda::Graph, unsigned long long) {
      ENTER("cuGraphInstantiateWithFlags");
      return *e = handle<GraphExec>(0x61), Result::Success;
    });
    put(table.graph_launch, [](GraphExec, cuda::Stream) { return enter("cuGraphLaunch"); });
    put(table.graph_destroy, [](cuda::Graph) { return enter("cuGraphDestroy"); });
    put(table.graph_exec_destroy, [](GraphExec) { return enter("cuGraphExecDestroy"); });
    put(table.event_create, [](cuda::Event* e, unsigned) {
      ENTER("cuEventCreate");
      return *e = handle<cuda::Event>(0xe0), Result::Success;
    });
    put(table.event_destroy, [](cuda::Event) { return enter("cuEventDestroy_v2"); });
    put(table.event_record, [](cuda::Event, cuda::Stream) { return enter("cuEventRecord"); });
    put(table.event_synchronize, [](cuda::Event) { return enter("cuEventSynchronize"); });
    put(table.event_elapsed_time, [](float* ms, cuda::Event, cuda::Event) {
      ENTER("cuEventElapsedTime");
      return *ms = float(state->count("cuEventElapsedTime")), Result::Success;  // 1, 2, 3, ...
    });
    put(table.link_create, [](unsigned n, JitOption* options, void** values, LinkState* s) {
      ENTER("cuLinkCreate_v2");
      auto link = std::make_unique<Link>();
      for (unsigned i = 0; i < n; ++i) {
        if (options[i] == JitOption::InfoLogBuffer) link->info = static_cast<char*>(values[i]);
        if (options[i] == JitOption::ErrorLogBuffer) link->errors = static_cast<char*>(values[i]);
      }
      std::lock_guard lock(state->mutex);
      state->link_options.assign(options, options + n);
      ++state->links_open;
      return *s = reinterpret_cast<LinkState>(link.release()), Result::Success;
    });
    put(table.link_add_data,
        [](LinkState s, JitInputType, void* data, size_t bytes, const char*, unsigned, JitOption*, void**) {
          Link& link = *reinterpret_cast<Link*>(s);
          std::strcpy(link.errors, state->error_log.c_str());
          ENTER("cuLinkAddData_v2");
          link.ptx.assign(static_cast<char*>(data), bytes);
          std::lock_guard lock(state->mutex);
          return state->linked_ptx = link.ptx, Result::Success;
        });
    put(table.link_complete, [](LinkState s, void** cubin, size_t* bytes) {
      Link& link = *reinterpret_cast<Link*>(s);
      std::strcpy(link.info, state->log_of(link.ptx).c_str());
      std::strcpy(link.errors, state->error_log.c_str());
      ENTER("cuLinkComplete");
      if (state->refuses(link.ptx)) return Result::InvalidPtx;
      static char code[] = "cubin";
      *cubin = code;
      *bytes = 5;
      return Result::Success;
    });
    put(table.link_destroy, [](LinkState s) {
      delete reinterpret_cast<Link*>(s);
      return --state->links_open, Result::Success;
    });
    put(table.module_load_data, [](cuda::Module* m, const void* image) {
      ENTER("cuModuleLoadData");
      if (std::memcmp(image, "other", 5) == 0) return Result::NoBinaryForGpu;
      ++state->modules_open;
      return *m = handle<cuda::Module>(0x40), Result::Success;
    });
    put(table.module_load_data_ex,
        [](cuda::Module* m, const void* image, unsigned n, JitOption* options, void** values) {
          for (unsigned i = 0; i < n; ++i) {
            if (options[i] == JitOption::InfoLogBuffer)
              std::strcpy(static_cast<char*>(values[i]), state->info_log.c_str());
            if (options[i] == JitOption::ErrorLogBuffer)
              std::strcpy(static_cast<char*>(values[i]), state->error_log.c_str());
          }
          ENTER("cuModuleLoadDataEx");
          std::lock_guard lock(state->mutex);
          state->linked_ptx = static_cast<const char*>(image);
          state->link_options.assign(options, options + n);
          ++state->modules_open;
          return *m = handle<cuda::Module>(0x41), Result::Success;
        });
    put(table.module_unload, [](cuda::Module) { return --state->modules_open, Result::Success; });
    put(table.module_get_function, [](Function* f, cuda::Module, const char* name) {
      ENTER("cuModuleGetFunction");
      std::lock_guard lock(state->mutex);
      state->entries[*f = handle<Function>(0xf0 + state->entries.size())] = name;
      return Result::Success;
    });
    put(table.func_get_attribute, [](int* v, FunctionAttribute a, Function) {
      ENTER("cuFuncGetAttribute");
      return *v = a == FunctionAttribute::NumRegs ? state->registers : state->local_bytes, Result::Success;
    });
    put(table.func_set_attribute, [](Function, FunctionAttribute a, int v) {
      ENTER("cuFuncSetAttribute");
      std::lock_guard lock(state->mutex);
      return state->set_attributes[a] = v, Result::Success;
    });
    put(table.func_load, [](Function) { return enter("cuFuncLoad"); });
    put(table.launch_kernel, [](Function entry, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by,
                                unsigned bz, unsigned shared, cuda::Stream stream, void** params, void**) {
      ENTER("cuLaunchKernel");
      if (current_context != kPrimary) return Result::InvalidContext;
      std::lock_guard lock(state->mutex);
      state->entry = state->entries.at(entry);
      std::memcpy(state->grid, std::array{gx, gy, gz}.data(), sizeof(state->grid));
      std::memcpy(state->block, std::array{bx, by, bz}.data(), sizeof(state->block));
      state->shared_bytes = shared;
      state->stream = stream;
      state->params = params;
      state->note_params(params);
      return Result::Success;
    });
    put(table.tensor_map_encode,
        [](TensorMap* map, TensorMapDataType type, unsigned rank, void* base, const uint64_t* extents,
           const uint64_t* strides, const uint32_t* box, const uint32_t* element_strides, TensorMapInterleave,
           TensorMapSwizzle swizzle, TensorMapL2Promotion promotion, TensorMapFill) {
          const Result result = enter("cuTensorMapEncodeTiled", false);
          if (result != Result::Success) return result;
          std::lock_guard lock(state->mutex);
          state->encoded.push_back({type,
                                    reinterpret_cast<uint64_t>(base),
                                    {extents, extents + rank},
                                    {strides, strides + rank - 1},
                                    {box, box + rank},
                                    {element_strides, element_strides + rank},
                                    swizzle,
                                    promotion});
          map->opaque[0] = state->encoded.size();
          return Result::Success;
        });
    put(table.occupancy, [](int* programs, Function, int, size_t) {
      ENTER("cuOccupancyMaxActiveBlocksPerMultiprocessor");
      *programs = 2;
      return Result::Success;
    });
    put(table.occupancy_of_clusters, [](int* clusters, Function, const LaunchConfig* c) {
      ENTER("cuOccupancyMaxActiveClusters");
      *clusters = 0;
      for (unsigned i = 0; i < c->attribute_count; ++i)
        if (c->attributes[i].id == LaunchAttributeId::ClusterDimension)
          *clusters = state->blocks_at_once / c->attributes[i].value;
      return Result::Success;
    });
    put(table.launch_kernel_ex, [](const LaunchConfig* c, Function entry, void** params, void**) {
      ENTER("cuLaunchKernelEx");
      if (current_context != kPrimary) return Result::InvalidContext;
      std::lock_guard lock(state->mutex);
      state->entry = state->entries.at(entry);
      std::memcpy(state->grid, &c->grid_x, sizeof(state->grid));
      std::memcpy(state->block, &c->block_x, sizeof(state->block));
      state->shared_bytes = c->shared_bytes;
      state->stream = c->stream;
      state->params = params;
      state->attributes.assign(c->attributes, c->attributes + c->attribute_count);
      return Result::Success;
    });
    return map;
  }();
  auto it = functions.find(symbol);
  return it == functions.end() ? nullptr : it->second;
}
#undef ENTER

}  // namespace tegula::cuda::fake
