#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "codegen/exec/debug/recording.h"
#include "codegen/exec/emulator.h"
#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/code/tiered_code.h"
#include "codegen/exec/emulator/launch/memory.h"
#include "codegen/exec/emulator/launch/programs_at_once.h"
#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/target/target.h"
#include "runtime/base/error.h"
#include "runtime/base/messages.h"
#include "runtime/base/per_process.h"
#include "runtime/base/processors.h"
#include "runtime/store/image_cache.h"

namespace tegula {

namespace emulator {
namespace {

constexpr unsigned kMostThreads = 1024;  ///< of a program
constexpr unsigned kMostResident = 8;    ///< programs of a worker where they may wait for each other
constexpr unsigned kMostFibers = 2048;   ///< of a worker, by default
constexpr unsigned kMostProgramsX = 0x7FFFFFFF, kMostProgramsYZ = 65535;

/// Seconds and steps of a launch at most; 0: no limit.
std::pair<double, uint64_t> limits(const EmulatorOptions& options) {
  if (options.limit_s > 0 || options.limit_steps > 0) return {options.limit_s, options.limit_steps};
  const char* text = std::getenv("TEGULA_EMULATOR_LIMIT");
  std::pair<double, uint64_t> out{0, 0};
  while (text && *text) {
    char* end = nullptr;
    const double number = std::strtod(text, &end);
    const bool seconds = *end == 's';
    if (seconds) ++end;
    if (end == text || !(number > 0) || (*end && *end != ','))
      throw DeviceError(
          fmt::format("TEGULA_EMULATOR_LIMIT is '{}'\n  hint: seconds as '2.5s', steps as '1000000', or both "
                      "with a comma between",
                      std::getenv("TEGULA_EMULATOR_LIMIT")));
    if (seconds)
      out.first = number;
    else
      out.second = uint64_t(number);
    text = *end ? end + 1 : end;
  }
  return out;
}

/// What is given, or else the number that the variable of the environment has; 0: neither.
uint64_t given_or_in(uint64_t given, const char* variable) {
  const char* text = std::getenv(variable);
  if (given || !text || !*text) return given;
  uint64_t number = 0;
  const char* end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, number);
  if (error != std::errc() || stop != end)
    throw DeviceError(fmt::format("{} is '{}', expected a whole number from 0 on", variable, text));
  return number;
}

std::string_view checks_in_environment() {
  const char* text = std::getenv("TEGULA_EMULATOR_CHECK");
  const std::string_view value = text ? text : "";
  if (!value.empty() && value != "0" && value != "1" && value != "nan" && value != "inf")
    throw DeviceError(fmt::format("TEGULA_EMULATOR_CHECK is '{}', expected '1', 'nan', 'inf' or '0'", value));
  return value == "0" ? "" : value;
}
Births wanted_births(const EmulatorOptions& options) {
  const std::string_view checks = checks_in_environment();
  return {.nans = options.check_nans || checks == "nan" || checks == "inf",
          .infinities = options.check_infinities || checks == "inf"};
}
bool wants_checks(const EmulatorOptions& options) {
  return options.check_races || options.check_nans || options.check_infinities || !checks_in_environment().empty();
}

/// Tells of each line once: registers of a thread are many places.
void tell_warnings(const Launch& launch, const KernelImage& image, const std::vector<Place>& places) {
  std::set<std::string> told;
  for (const auto& [at, who] : launch.warnings) {
    const std::string where = places[at.second].loc.to_string();
    if (!told.insert(fmt::format("{}{}", int(at.first), where)).second) continue;
    tell(MessageKind::Warning, fmt::format("{}: kernel '{}', program ({}, {}, {}), thread {}: {}", where, image.kernel,
                                           who.x, who.y, who.z, who.thread, text_of(at.first)));
  }
}

/// Launch::arrays. A number that leads from one argument's array to another one's, in bytes or elements, may do so in
/// the kernel, too. Of arrays of the host's whose rows have gaps between them nobody tells which rows are theirs.
std::vector<Range> arrays_of(const KernelImage& image, void* const* args, const GlobalMemory& memory) {
  std::vector<Range> arrays(image.params.size());
  std::set<uint64_t> addresses;
  for (size_t i = 0; i < arrays.size(); ++i)
    if (image.params[i].pointer) addresses.insert(*static_cast<const uint64_t*>(args[i]));
  const bool knows_host = memory.host_begins_at(addresses);
  const auto ranges = memory.table();
  for (size_t i = 0; i < arrays.size(); ++i) {
    if (!image.params[i].pointer) continue;
    const uint64_t address = *static_cast<const uint64_t*>(args[i]);
    const Range* range = find_range(*ranges, address, 1);
    if (range && (knows_host || memory.allocated_bytes(address))) arrays[i] = *range;
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const ImageParam& param = image.params[i];
    const auto bytes = size_t(elem_bytes(param.elem));
    if (param.pointer || (param.elem != Elem::I32 && param.elem != Elem::I64)) continue;
    int64_t number = 0;
    std::memcpy(&number, args[i], bytes);
    if (bytes == 4) number = int32_t(number);
    for (const uint64_t from : addresses)
      for (const int64_t step : {1, 2, 4, 8})
        if (number && addresses.contains(from + uint64_t(number * step))) return {};
  }
  return arrays;
}

/// Of a launch that was stopped and of which more programs waited than may run at a time.
std::string hint_of_room(const Launch& launch) {
  if (!launch.waited || launch.most_programs == 0 || launch.programs <= uint64_t(launch.most_programs)) return "";
  return fmt::format(
      "\n  hint: {} of the {} programs run at a time, as on the GPU; where all programs wait for each other, start no "
      "more: launch_cooperative_grid=True (tegula run --cooperative-grid) refuses a larger grid",
      launch.most_programs, launch.programs);
}

struct Graph {
  std::vector<std::function<void(StreamHandle)>> nodes;
};

struct Stream {
  const uint64_t id = next++;
  std::unique_ptr<Graph> capture;  ///< not null while capturing

  inline static std::atomic<uint64_t> next = 1;
};

struct Event {
  bool recorded = false;
  std::chrono::steady_clock::time_point time;
  StreamClock launches;
};

class EmulatorDeviceImpl;

/// A kernel's code with its image; a captured graph shares it with the LoadedKernel.
struct Code {
  Code(KernelImage of, Jit& jit, const Target& target, const EmulatorOptions& options)
      : image(std::move(of)), tiers(jit, image, target, options.optimised_at_once) {}
  const KernelImage image;
  mutable TieredCode tiers;
};

class EmulatedKernel : public LoadedKernel {
 public:
  EmulatedKernel(EmulatorDeviceImpl& device, std::shared_ptr<const Code> code)
      : device_(device), code_(std::move(code)) {}
  bool try_launch(Grid grid, void* const* args, StreamHandle stream) override;
  const KernelImage& image() const override { return code_->image; }

 private:
  EmulatorDeviceImpl& device_;
  std::shared_ptr<const Code> code_;
};

class EmulatorDeviceImpl : public EmulatorDevice {
 public:
  EmulatorDeviceImpl(const EmulatorOptions& options, const Target& target)
      : options_(options),
        seed_(given_or_in(options.seed, "TEGULA_EMULATOR_SEED")),
        program_loop_blocks_(given_or_in(uint64_t(options.program_loop_blocks), "TEGULA_EMULATOR_BLOCKS")),
        check_races_(wants_checks(options)),
        births_(wanted_births(options)),
        target_(target),
        jit_(options.baseline_cpu, check_races_, births_,
             !options.keep_code   ? nullptr
             : options.code_cache ? options.code_cache
                                  : ImageCache::of_process()),
        pool_([threads = options.threads > 0 ? unsigned(options.threads) : processors()] {
          return std::make_unique<WorkerPool>(threads);
        }) {
    info_.name = fmt::format("emulator ({})", target.name);
    info_.emulator = true;
    info_.sm = target.sm;
    info_.num_sms = int(pool_.get().size());
    info_.memory_bytes = int64_t(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
    info_.l2_bytes = std::max<int64_t>(0, sysconf(_SC_LEVEL2_CACHE_SIZE));
    info_.shared_per_program = target.shared_per_program;
  }

  ~EmulatorDeviceImpl() override { drop_kept(); }

  const DeviceInfo& info() const override { return info_; }

  // ---- Memory

  uint64_t allocate(size_t bytes) override {
    const uint64_t address = memory_.allocate(bytes);
    if (check_races_) written_.allocate(address, bytes);
    return address;
  }
  void free(uint64_t address) noexcept override {
    written_.free(address);
    memory_.free(address);
    wait_for_all_streams();
  }
  size_t allocated_bytes(uint64_t address) override { return memory_.allocated_bytes(address); }

  void copy_to_device(uint64_t to, const void* from, size_t bytes, StreamHandle stream) override {
    check_copy("copy to the device", to, bytes, stream);
    check_transfer("copy to the device", stream, {{to, bytes, Access::Write}}, false);
    wait_for(stream);
    written_.mark(to, bytes);
    if (bytes) std::memcpy(reinterpret_cast<void*>(to), from, bytes);
  }
  void copy_to_host(void* to, uint64_t from, size_t bytes, StreamHandle stream) override {
    check_copy("copy to the host", from, bytes, stream);
    check_transfer("copy to the host", stream, {{from, bytes, Access::Read}}, false);
    wait_for(stream);
    if (bytes) std::memcpy(to, reinterpret_cast<const void*>(from), bytes);
  }
  void copy_on_device(uint64_t to, uint64_t from, size_t bytes, StreamHandle stream) override {
    check_range("copy on the device", to, bytes);
    check_range("copy on the device", from, bytes);
    run_or_capture(stream, [=, this](StreamHandle of) {
      check_transfer("copy on the device", of, {{from, bytes, Access::Read}, {to, bytes, Access::Write}}, true);
      written_.mark(to, bytes);
      if (bytes) std::memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
    });
  }
  void fill(uint64_t address, uint8_t value, size_t bytes, StreamHandle stream) override {
    check_range("fill", address, bytes);
    run_or_capture(stream, [=, this](StreamHandle of) {
      check_transfer("fill", of, {{address, bytes, Access::Write}}, true);
      written_.mark(address, bytes);
      if (bytes) std::memset(reinterpret_cast<void*>(address), value, bytes);
    });
  }

  void register_host_range(const void* begin, size_t bytes) override {
    memory_.add_host(reinterpret_cast<uint64_t>(begin), bytes);
  }
  void unregister_host_range(const void* begin) override { memory_.remove_host(reinterpret_cast<uint64_t>(begin)); }

  void set_seed(uint64_t seed) override { seed_ = seed; }
  void record_program(Recording* recording, Grid program) override {
    recording_ = recording;
    recorded_ = program;
  }

  // ---- Kernels

  Shared<LoadedKernel> load(KernelImage image) override {
    if (image.num_warps < 1 || image.copy_warps < 0 || unsigned(image.threads()) > kMostThreads)
      throw DeviceError(fmt::format("kernel '{}' has {} warps; a program has 1 to {}", image.kernel,
                                    image.num_warps + image.copy_warps, kMostThreads / kLanes));
    if (image.shared_bytes < 0 || image.shared_bytes > info_.shared_per_program)
      throw DeviceError(fmt::format("kernel '{}' needs {} bytes of shared memory; a program of {} has {}", image.kernel,
                                    image.shared_bytes, target_.name, info_.shared_per_program));
    if (image.num_ctas > 1 && !target_.has(Feature::Cluster))
      throw DeviceError(fmt::format("kernel '{}' runs in clusters of {} blocks, which {} does not have", image.kernel,
                                    image.num_ctas, target_.name));
    for (const ImageTensorMap& map : image.tensor_maps.maps)
      if (std::string why = why_invalid(map); !why.empty())
        throw DeviceError(fmt::format("kernel '{}' cannot copy in bulk: {}", image.kernel, why));
    return std::make_unique<EmulatedKernel>(*this, std::make_shared<Code>(std::move(image), jit_, target_, options_));
  }

  /// Runs the kernel to its end, or records the launch with a copy of its arguments if the stream captures. False where
  /// the arguments allow no tensor map, or the code cannot count so many programs.
  bool launch(const std::shared_ptr<const Code>& code, Grid grid, void* const* args, StreamHandle stream) {
    if (grid.x == 0 || grid.y == 0 || grid.z == 0) return true;
    if (grid.x > kMostProgramsX / unsigned(code->image.num_ctas) || grid.y > kMostProgramsYZ ||
        grid.z > kMostProgramsYZ)
      throw DeviceError(fmt::format("kernel '{}': a grid of {} x {} x {} programs; at most {} x {} x {} can be",
                                    code->image.kernel, grid.x, grid.y, grid.z,
                                    kMostProgramsX / unsigned(code->image.num_ctas), kMostProgramsYZ, kMostProgramsYZ));
    if (const int64_t most = programs_at_once(code->image, target_);
        code->image.cooperative && uint64_t(grid.x) * grid.y * grid.z > uint64_t(most))
      throw LaunchError(cooperative_too_large(code->image, grid, most, info_));
    std::vector<MappedArray> arrays(code->image.tensor_maps.maps.size());
    if (!takes_in_turns(code->image, grid) || !find_arrays(code->image.tensor_maps, args, arrays.data()) ||
        !begin_within(code->image.tensor_maps, args, arrays))
      return false;
    if (!capturing(stream)) return run(*code, grid, args, arrays, stream), true;
    const auto& params = code->image.params;
    std::vector<uint64_t> values(params.size());
    for (size_t i = 0; i < params.size(); ++i)
      std::memcpy(&values[i], args[i], params[i].pointer ? 8 : size_t(elem_bytes(params[i].elem)));
    run_or_capture(stream, [this, code, grid, values, arrays](StreamHandle launched_on) mutable {
      std::vector<void*> pointers;
      for (uint64_t& value : values) pointers.push_back(&value);
      run(*code, grid, pointers.data(), arrays, launched_on);
    });
    return true;
  }

  // ---- Streams, events, graphs

  StreamHandle create_stream() override {
    auto stream = std::make_unique<Stream>();
    const StreamHandle handle = stream.get();
    std::lock_guard lock(streams_mutex_);
    streams_[handle] = std::move(stream);
    return handle;
  }
  void destroy_stream(StreamHandle stream) noexcept override {
    drop_workspace(stream);
    std::lock_guard lock(streams_mutex_);
    streams_.erase(stream);
  }
  uint64_t stream_id(StreamHandle stream) override {
    const Stream* known = find(stream);
    return known ? known->id : 0;
  }
  void synchronize(StreamHandle stream) override {
    refuse_in_capture("synchronize", stream);
    wait_for(stream);
  }

  EventHandle create_event() override { return new Event; }
  void destroy_event(EventHandle event) noexcept override { delete static_cast<Event*>(event); }
  void record(EventHandle event, StreamHandle stream) override {
    auto* e = static_cast<Event*>(event);
    run_or_capture(stream, [e, this](StreamHandle of) {
      const uint64_t number = number_of(of);
      std::lock_guard lock(order_mutex_);
      *e = {true, std::chrono::steady_clock::now(), order_.now(number)};
    });
  }
  double elapsed_ms(EventHandle start, EventHandle stop) override {
    auto *from = static_cast<Event*>(start), *to = static_cast<Event*>(stop);
    if (!from->recorded || !to->recorded) throw DeviceError("elapsed time of an event that was not recorded");
    std::lock_guard lock(order_mutex_);
    order_.waited_for(to->launches);
    return std::chrono::duration<double, std::milli>(to->time - from->time).count();
  }

  void begin_capture(StreamHandle stream) override {
    if (!stream) throw DeviceError("the default stream cannot capture a graph; create a stream for it");
    if (capturing(stream)) throw DeviceError("the stream captures a graph already");
    Stream* known = find(stream);
    if (!known) throw DeviceError("a stream that is none of the emulator's cannot capture a graph");
    known->capture = std::make_unique<Graph>();
  }
  GraphHandle end_capture(StreamHandle stream) override {
    if (!capturing(stream)) throw DeviceError("end of a capture that did not begin");
    return find(stream)->capture.release();
  }
  bool is_capturing(StreamHandle stream) override { return capturing(stream); }
  void launch_graph(GraphHandle graph, StreamHandle stream) override {
    refuse_in_capture("launch of a graph", stream);
    for (auto& node : static_cast<Graph*>(graph)->nodes) node(stream);
  }
  void destroy_graph(GraphHandle graph) noexcept override { delete static_cast<Graph*>(graph); }

 private:
  /// Null for the default stream, which others than the emulator's own stand for.
  Stream* find(StreamHandle stream) {
    if (!stream) return nullptr;
    std::lock_guard lock(streams_mutex_);
    auto it = streams_.find(stream);
    return it == streams_.end() ? nullptr : it->second.get();
  }
  bool begin_within(const TensorMaps& maps, void* const* args, const std::vector<MappedArray>& arrays) const {
    constexpr uint64_t kLooksAt = 16;  // bytes
    for (size_t i = 0; i < arrays.size(); ++i) {
      const uint64_t* argument = maps.must_begin_within(maps.maps[i], args);
      if (!argument) continue;
      const auto table = memory_.table();
      const Range* range = find_range(*table, arrays[i].base, kLooksAt);
      if (!range || range != find_range(*table, *argument, 1)) return false;
    }
    return true;
  }
  bool capturing(StreamHandle stream) {
    const Stream* known = find(stream);
    return known && known->capture;
  }

  void refuse_in_capture(const char* what, StreamHandle stream) {
    if (capturing(stream)) throw DeviceError(fmt::format("{} on a stream that captures a graph", what));
  }

  template <class Node>
  void run_or_capture(StreamHandle stream, Node node) {
    if (capturing(stream))
      find(stream)->capture->nodes.push_back(std::move(node));
    else
      node(stream);
  }

  /// Of StreamOrder. Streams of others are the default one.
  uint64_t number_of(StreamHandle stream) {
    const Stream* known = find(stream);
    return known ? known->id : StreamOrder::kDefault;
  }
  void wait_for(StreamHandle stream) {
    const uint64_t number = number_of(stream);
    std::lock_guard lock(order_mutex_);
    order_.waited_for(order_.now(number));
  }
  void wait_for_all_streams() {
    std::lock_guard lock(order_mutex_);
    order_.waited_for_all();
  }

  void check_copy(const char* what, uint64_t address, size_t bytes, StreamHandle stream) {
    refuse_in_capture(what, stream);
    check_range(what, address, bytes);
  }

  void check_range(const char* what, uint64_t address, size_t bytes) {
    if (!options_.check_bounds || bytes == 0 || find_range(*memory_.table(), address, bytes)) return;
    throw DeviceError(
        fmt::format("{} of {} bytes at {:#x}, {}", what, bytes, address, memory_.describe(address, bytes)));
  }

  /// That no launch on another stream may still write what is copied, or use what is written. `goes_on`: the host does
  /// not wait for it.
  void check_transfer(const char* what, StreamHandle stream, std::initializer_list<Transferred> parts, bool goes_on) {
    if (!check_races_) return;
    const uint64_t number = number_of(stream);
    std::shared_ptr<const StreamLaunch> transfer;
    {
      std::lock_guard lock(order_mutex_);
      transfer = order_.transfer(number, what);
    }
    const std::string error = pool_.get().with_races([&](Races& races) {
      const std::optional<Fault> fault = races.transfer(transfer, parts, goes_on);
      return fault ? describe_transfer(*fault, *transfer, memory_) : std::string();
    });
    if (!error.empty()) throw DeviceError(error);
  }

  /// How many programs a worker has at a time from the beginning. One is fastest; where programs may wait for each
  /// other there are more.
  unsigned resident(const Code& code, uint64_t programs) const {
    unsigned threads = unsigned(code.image.threads() * code.image.num_ctas);
    uint64_t wanted = 1;
    if (code.image.cooperative)
      wanted = programs;
    else if (options_.resident_programs > 0)
      wanted = uint64_t(options_.resident_programs);
    else if (code.tiers.facts().may_spin)
      wanted = std::clamp(kMostFibers / threads, 1u, kMostResident);
    const uint64_t workers = check_races_ ? 1 : pool_.get().size();
    uint64_t share = (programs + workers - 1) / workers;
    return unsigned(std::min(wanted, share));
  }

  void run(const Code& code, Grid grid, void* const* args, const std::vector<MappedArray>& arrays,
           StreamHandle stream) {
    std::vector<TensorMap> maps;
    for (size_t i = 0; i < arrays.size(); ++i) maps.emplace_back(code.image.tensor_maps.maps[i], arrays[i]);
    std::vector<void*> parameters(args, args + code.image.params.size());
    for (TensorMap& map : maps) parameters.push_back(&map);
    std::array<unsigned, 3> programs{grid.x, grid.y, grid.z};
    if (code.image.program_loop) {
      for (unsigned& along : programs) parameters.push_back(&along);
      if (program_loop_blocks_ && uint64_t(grid.x) * grid.y * grid.z > program_loop_blocks_)
        grid = {unsigned(program_loop_blocks_)};
    }
    Launch launch;
    launch.code = code.tiers.code();
    launch.goes_on = [&](double seconds) {
      code.tiers.optimise_if_due(seconds);
      launch.code = code.tiers.code();
    };
    launch.args = parameters.data();
    launch.tensor_maps = maps;
    launch.stack_bytes = code.tiers.stack_bytes();
    launch.asm_blocks = code.tiers.facts().blocks;
    launch.grid = grid;
    launch.programs = uint64_t(grid.x) * grid.y * grid.z;
    launch.blocks = unsigned(code.image.num_ctas);
    launch.threads = unsigned(code.image.threads());
    launch.resident_programs = resident(code, launch.programs);
    if (options_.resident_programs == 0) launch.most_programs = programs_at_once(code.image, target_);
    launch.shared_bytes = uint32_t(code.image.shared_bytes);
    launch.seed = seed_;
    launch.check_bounds = options_.check_bounds;
    launch.check_races = check_races_;
    // Programs without atomic operations have nothing to order them by: no order hides their races. A worker that was
    // told how many to run at a time could not begin the one that another waits for.
    launch.exchanges_neighbours =
        check_races_ && !seed_ && options_.resident_programs == 0 && code.tiers.facts().may_spin;
    launch.births = births_;
    launch.written = &written_;
    if (check_races_) {
      const uint64_t number = number_of(stream);
      std::lock_guard lock(order_mutex_);
      launch.on_stream = order_.launch(number, code.image, grid);
    }
    if (recording_ && recorded_.x < grid.x && recorded_.y < grid.y && recorded_.z < grid.z) {
      recording_->begin({code.image.kernel, recorded_, grid, launch.threads * launch.blocks, launch.blocks});
      launch.recording = recording_;
      launch.recorded_program = (uint64_t(recorded_.z) * grid.y + recorded_.y) * grid.x + recorded_.x;
    }
    std::tie(launch.limit_s, launch.limit_steps) = limits(options_);
    launch.track_writes = code.tiers.facts().async_proxy;
    launch.ranges = memory_.table();
    if (check_races_) launch.arrays = arrays_of(code.image, args, memory_);
    launch.goes_on(0);
    code.tiers.add_seconds(pool_.get().run(launch));
    tell_warnings(launch, code.image, code.tiers.facts().places);
    const char* stopped = launch.stopped;
    if (!launch.fault && !stopped) return;
    std::vector<uint64_t> addresses;
    const auto& params = code.image.params;
    for (size_t i = 0; i < params.size(); ++i)
      if (params[i].pointer) addresses.push_back(*static_cast<const uint64_t*>(args[i]));
    reset_counters(addresses);
    if (launch.fault) launch.fault->by_made_pointer = code.tiers.facts().makes_pointers;
    std::string message = launch.fault ? describe(*launch.fault, code.image, code.tiers.facts().places, memory_, args)
                                       : fmt::format("kernel '{}': stopped {}", code.image.kernel, stopped);
    if (stopped) message += hint_of_room(launch);
    if (launch.recording) launch.recording->end(message);
    if (launch.report_to_stderr) fmt::print(stderr, "{}\n", message);
    throw DeviceError(message);
  }

  std::mutex streams_mutex_;
  std::map<StreamHandle, std::unique_ptr<Stream>> streams_;
  EmulatorOptions options_;
  uint64_t seed_;
  const uint64_t program_loop_blocks_;
  const bool check_races_;
  const Births births_;
  Target target_;
  DeviceInfo info_;
  GlobalMemory memory_;
  WrittenBytes written_;  ///< where races are looked for
  Jit jit_;
  PerProcess<WorkerPool> pool_;
  StreamOrder order_;  ///< of launches where races are looked for
  std::mutex order_mutex_;
  Recording* recording_ = nullptr;
  Grid recorded_;  ///< the program's indices
};

bool EmulatedKernel::try_launch(Grid grid, void* const* args, StreamHandle stream) {
  return device_.launch(code_, grid, args, stream);
}

}  // namespace
}  // namespace emulator

std::unique_ptr<EmulatorDevice> make_emulator(const EmulatorOptions& options) {
  std::optional<Target> target = find_target(options.target);
  if (!target) {
    std::string known;
    for (const Target& t : targets()) known += (known.empty() ? "" : ", ") + t.name;
    throw DeviceError(fmt::format("the emulator knows no target '{}'; it knows {}", options.target, known));
  }
  return std::make_unique<emulator::EmulatorDeviceImpl>(options, *target);
}

}  // namespace tegula
