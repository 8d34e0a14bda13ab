// Runs the programs of a launch: workers (host threads) take programs, and switch between the fibers of those they have
// at a time, without preemption. A fiber gives up control in a rendezvous, in an atomic operation, and at its end.
#pragma once

#include <algorithm>
#include <atomic>
#include <bit>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/exec/emulator/hardware/mbarrier.h"
#include "codegen/exec/emulator/hardware/wgmma.h"
#include "codegen/exec/emulator/interpreter/interpreter.h"
#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/exec/emulator/launch/fibers.h"
#include "codegen/exec/emulator/launch/memory.h"
#include "codegen/exec/emulator/launch/ready_queue.h"
#include "codegen/exec/emulator/races/races.h"
#include "codegen/exec/emulator/races/shared_writes.h"
#include "codegen/exec/emulator/races/stream_order.h"
#include "runtime/device.h"

namespace tegula {
class Recording;
}

namespace tegula::emulator {

namespace ptx {
struct Program;
}

inline constexpr unsigned kLanes = 32;

/// What the lanes of a warp hand each other.
union Exchange {
  struct {
    uint64_t value[kLanes];
  } shuffle;
  struct {
    uint8_t value[kLanes];
    uint32_t lanes_of[256];  ///< masks, of the values that there are
  } match;
  struct {
    uint32_t address[kLanes];
    uint32_t words[kLanes][4];
  } matrix_move;
  struct {
    uint8_t a[16 * 32], b[8 * 32];  ///< lines of 32 bytes along K
    uint32_t sums[kLanes * 4];
  } mma;
  struct {
    uint64_t a[kLanes], b[kLanes];
    const uint32_t* fragment[kLanes];
    const void* accumulators[kLanes];
    bool accumulate[kLanes];
    uint32_t tag;
  } product;
  /// Of a segment (lane_segments.h): 32 of each value side by side.
  alignas(64) uint8_t lanes[8192];
};

/// A rendezvous under way: how many have arrived, and where the first one did.
struct Meeting {
  uint32_t arrived = 0;
  uint32_t first_thread = 0;
  Where where;
};

/// A barrier at which threads wait until as many others have come by.
struct TurnBarrier {
  uint32_t passed = 0;
  std::vector<Fiber*> waiting;
  Told arriving, told;  ///< where races are looked for: of those that come by now; of those before
};

/// The lanes of a warp that a member mask names, and the value of each in their exchange; used in turn as Exchange.
struct LaneGroup {
  Meeting meeting;
  uint32_t round = 0;
  uint64_t values[2][kLanes];
};

struct Warp {
  Meeting meeting;
  uint32_t round = 0;
  /// Used in turn: a lane may enter the next rendezvous before all have read what the last one gave, but that one ends
  /// only when they have.
  Exchange exchange[2];
  WarpProducts products;
  std::map<uint32_t, LaneGroup> groups;  ///< by their masks: of inline assembly
};

/// Lines that a program prints.
class Prints {
 public:
  /// The line of the element number `index` that call number `position` of a thread's print statement number
  /// `statement` prints.
  void add(uint32_t statement, uint32_t position, uint32_t index, std::string line);
  /// All lines by statements, then operands, then elements; forgets them.
  std::string take();

 private:
  struct Line {
    uint32_t statement, operand, index;
    std::string text;
  };
  std::vector<Line> lines_;
};

struct Cluster;

/// A program that is resident on a worker, or one of the thread blocks that run it together.
struct Program {
  uint32_t x = 0, y = 0, z = 0;
  uint64_t number = 0;  ///< x runs fastest
  uint32_t block = 0;   ///< in its cluster
  Cluster* cluster = nullptr;
  uint32_t running = 0;  ///< threads that have not left the kernel
  uint32_t shared_base = 0;
  Meeting barrier;
  std::vector<Warp> warps;
  std::vector<Warpgroup> warpgroups;
  SharedWrites writes;
  std::map<uint32_t, MBarrier> mbarriers;  ///< by their offsets in shared memory
  std::vector<BulkCopy> bulk_copies;       ///< those whose phases have not ended
  Prints prints;
  /// By threads: of the assert that they check next.
  std::map<uint32_t, std::string> failed_elements;
  ProgramClocks clocks;                  ///< where races are looked for
  std::vector<BulkStore> bulk_stores;    ///< those that are not over
  std::map<uint32_t, Meeting> meetings;  ///< of some warps, by the barriers' numbers
  std::map<uint32_t, TurnBarrier> turns;
  std::vector<Fiber*> fibers;
};

/// The blocks that run a program together: one where the kernel has no clusters. They begin at a time; the next program
/// takes their fibers over when all of them have ended.
struct Cluster {
  std::vector<Program*> blocks;
  uint32_t running = 0;      ///< threads that have not left the kernel
  uint64_t waits_since = 0;  ///< the worker's count of changes when it was last seen to do nothing but wait
  Meeting barrier;
  uint64_t barriers = 0;  ///< that all threads have passed
  Told arriving, told;    ///< where races are looked for: of those that arrive by now; of those before
  std::vector<Fiber*> waiting;
};

/// A kernel as what runs it: machine code, or bytecode (interpreter.h).
struct KernelCode {
  /// Runs one thread; `args` as LoadedKernel::launch takes them.
  void (*entry)(void* const* args) = nullptr;
  std::unique_ptr<const bytecode::Module> bytecode{};

  void run(void* const* args) const { bytecode ? bytecode::run(*bytecode, args) : entry(args); }
};

/// One launch, shared by its workers.
struct Launch {
  std::atomic<const KernelCode*> code = nullptr;
  /// Told now and then, while the launch runs, how many seconds a worker has computed for it; may set other `code`.
  std::function<void(double)> goes_on;
  void* const* args = nullptr;
  Grid grid;
  uint64_t programs = 0;
  unsigned blocks = 1;             ///< of a program
  unsigned threads = 0;            ///< of a block; a multiple of 32
  unsigned resident_programs = 1;  ///< of a worker, from the beginning
  /// Of all workers; up to there they begin further ones where all that they have wait for others. 0: those from the
  /// beginning alone.
  int64_t most_programs = 0;
  uint32_t shared_bytes = 0;
  size_t stack_bytes = kUsualStack;  ///< that a thread needs
  std::span<const TensorMap> tensor_maps;
  std::span<const std::unique_ptr<const ptx::Program>> asm_blocks;
  uint64_t seed = 0;  ///< 0: in order
  /// Of two neighbouring programs the later one begins first. In the order of their numbers, atomic operations of all
  /// programs would order what the first one alone has done before it before all others.
  bool exchanges_neighbours = false;
  bool check_bounds = true;
  bool track_writes = false;  ///< of shared memory
  bool check_races = false;   ///< and reads of what nobody has written; by one worker, which runs all programs
  /// Of products of matrices.
  Births births;
  WrittenBytes* written = nullptr;
  std::shared_ptr<const StreamLaunch> on_stream;  ///< where races are looked for
  Recording* recording = nullptr;                 ///< of one program, whose number follows; null: none
  uint64_t recorded_program = 0;
  std::shared_ptr<const RangeTable> ranges;
  /// By parameters: what may be accessed around where each points to. Empty where arrays are not told apart.
  std::vector<Range> arrays;

  std::atomic<uint64_t> next_program{0};
  std::atomic<int64_t> resident{0};  ///< programs of all workers
  std::atomic<int> computing{0};     ///< workers whose programs do not all wait for others
  std::atomic<bool> waited{false};   ///< all programs under way waited for others
  std::atomic<bool> stop{false};     ///< a fault was recorded, or `stopped` is set: start nothing more
  /// Why it is ended from outside: nothing more is done, and a report says where threads are.
  std::atomic<const char*> stopped{nullptr};
  bool report_to_stderr = false;  ///< a handler of signals comes before the error
  double limit_s = 0;             ///< 0: none
  uint64_t limit_steps = 0;       ///< of a worker; 0: none

  /// The number of the program that begins at that turn: neither the first one nor the last one keeps its turn.
  uint64_t program_at(uint64_t turn) const;
  /// That an access by a pointer made of these arguments (bits) is to the array of another one.
  bool leaves_arrays(uint64_t address, uint64_t bytes, uint64_t arguments) const {
    if (arrays.empty()) return false;
    for (uint64_t left = arguments; left; left &= left - 1) {
      const Range& own = arrays[size_t(std::countr_zero(left))];
      if (own.end == own.begin || own.contains(address, 1)) return false;
    }
    return std::ranges::any_of(arrays, [&](const Range& other) { return other.contains(address, bytes); });
  }

  /// The tensor map at this address; null if there is none.
  const TensorMap* tensor_map(uint64_t address) const {
    for (const TensorMap& map : tensor_maps)
      if (reinterpret_cast<uint64_t>(&map) == address) return &map;
    return nullptr;
  }
  /// The first thread that was warned, by what it was warned of and where.
  struct Warned {
    uint32_t x = 0, y = 0, z = 0, thread = 0;
  };
  std::map<std::pair<Warning, uint32_t>, Warned> warnings;
  void warn(Warning what, uint32_t place, const Warned& who);
  /// Keeps the fault of the lowest program number.
  void record(Fault fault);
  std::optional<Fault> fault;
  std::exception_ptr host_error;  ///< the host refused memory

 private:
  std::mutex mutex_;
  friend class WorkerPool;
};

class Worker {
 public:
  /// Takes programs of the launch until there are no more. Called on the worker's own host thread.
  void run(Launch& launch);

  // ---- For the bodies of hardware functions, on a fiber.

  Fiber& fiber() { return *current_; }
  const Launch& launch() const { return *launch_; }
  Warp& warp() { return current_->program->warps[current_->thread / kLanes]; }

  /// Of all its launches in which races are looked for.
  Races& kept_races() {
    if (!kept_races_) kept_races_ = std::make_unique<Races>();
    return *kept_races_;
  }
  /// Null where races are not looked for.
  Races* races() { return races_; }

  Warpgroup& warpgroup() { return current_->program->warpgroups[current_->thread / kLanes / 4]; }

  /// Every global access passes here: true if all of [address, address + bytes) may be accessed.
  bool may_access(uint64_t address, unsigned bytes) {
    return recent_[0].contains(address, bytes) || may_access_slowly(address, bytes);
  }

  /// Room for the frames of a segment of bytecode, of which one runs at a time.
  char* segment_frames(uint32_t bytes) {
    if (segment_frames_.size() * sizeof(SegmentRoom) < bytes) segment_frames_.resize(bytes / sizeof(SegmentRoom) + 1);
    return segment_frames_.front().bytes;
  }

  /// Does a copy that the fiber issued.
  void perform(const Fiber& fiber, const AsyncCopy& copy);

  /// Waits until the first `threads` threads of the program are here.
  void barrier(uint32_t threads, Where where);
  /// Waits until all of the `threads` threads, a multiple of which come before them, are at the barrier of that number.
  void barrier_between(uint32_t number, uint32_t threads, Where where);

  /// Half of the `threads` threads wait for their turn, which the others pass on to them. What one has written is not
  /// for the other by that. Fault: it is passed on twice.
  void wait_for_turn(uint32_t number, uint32_t threads, Where where);
  void end_turn(TurnBarrier& turn);
  void pass_turn(uint32_t number, uint32_t threads, Where where);

  /// The thread is at a barrier of the cluster, and waits there for all others. A `relaxed` arrival tells nothing of
  /// what was done before. Faults: it arrives twice, or waits without having arrived.
  void cluster_arrive(bool relaxed, Where where);
  void cluster_wait(Where where);

  /// The rendezvous of a warp: the last lane to arrive calls `compute`, then all go on. `exchange` has been filled by
  /// each lane, and holds the results for it until it arrives again.
  template <class Compute>
  void meet(Warp& warp, Where where, Compute&& compute) {
    if (!arrive(warp.meeting, kLanes, where)) return wait(where);
    compute();
    warp.meeting.arrived = 0;
    ++warp.round;
    if (races_) Races::warp_met(*current_->program, current_->thread / kLanes);
    Fiber** lanes = &current_->program->fibers[current_->thread / kLanes * kLanes];
    release(lanes, kLanes);
  }

  /// The rendezvous of some lanes of a warp, the calling one among them.
  void meet(LaneGroup& group, uint32_t members, Where where) {
    if (!arrive(group.meeting, uint32_t(std::popcount(members)), where)) return wait(where);
    group.meeting.arrived = 0;
    ++group.round;
    if (races_) Races::warp_met(*current_->program, current_->thread / kLanes);
    Fiber** lanes = &current_->program->fibers[current_->thread / kLanes * kLanes];
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      if (members >> lane & 1) release(lanes + lane, 1);
  }

  /// Waits among the `sleepers` until one wakes them. The place is for the report of a deadlock.
  void sleep(std::vector<Fiber*>& sleepers, Where where) {
    sleepers.push_back(current_);
    wait(where);
  }
  void wake(std::vector<Fiber*>& sleepers) {
    for (Fiber* fiber : sleepers) push(fiber);
    sleepers.clear();
  }
  /// True half of the times; never without a seed.
  bool flip() { return random_ && random() >> 63; }
  /// Another order, where there is a seed.
  template <class Iterator>
  void shuffle(Iterator begin, Iterator end) {
    if (!random_) return;
    for (auto left = end - begin; left > 1; --left)
      std::swap(begin[left - 1], begin[decltype(left)(random() % uint64_t(left))]);
  }
  /// A number that grows.
  uint64_t tick() { return ++ticks_; }

  /// The program uses what has this taint; 0: none.
  void use_taint(Program& program, uint32_t taint) {
    if (taint & kUnwrittenTaint)
      Races::use_unwritten(program, taint);
    else if (taint)
      warn(warning_of_taint(taint), place_of_taint(taint));
  }
  void warn(Warning what, uint32_t place) {
    const Program& program = *current_->program;
    launch_->warn(what, place, {program.x, program.y, program.z, current_->thread});
  }

  /// Counts an iteration of a loop, at whose end that place is.
  void tick_loop(uint32_t place) {
    current_->where = {Where::kNone, place};
    count_step();
  }

  /// Lets the worker's other fibers run. Where threads wait for each other through memory; `may_wait`: the thread may
  /// wait for what another one does, in place of doing something itself.
  void yield(Where where = {}, bool may_wait = true);
  /// Global memory changes, which may be what others wait for.
  void note_change() { ++changes_; }

  /// Called before a load from global memory or a store to it, done or masked: between loads and stores the worker's
  /// other fibers come as far. The threads of a GPU keep about the same pace, and programs rely on it where a thread
  /// stores what others of the program have loaded, or will load, without a barrier. With a seed they do not.
  void keep_pace(Fiber::Moved next) {
    const Fiber::Moved last = std::exchange(current_->moved, next);
    if (last != next && last != Fiber::Moved::Nothing && !random_) step_aside();
  }

  /// Ends the launch: the calling fiber never goes on. The program in `fault` is filled in here.
  [[noreturn]] void abandon(const Fault& fault);

 private:
  bool may_access_slowly(uint64_t address, unsigned bytes);

  void count_step() {
    constexpr uint64_t kStepsPerCheck = 256;
    if (++steps_ % kStepsPerCheck == 0) [[unlikely]]
      check_limits();
  }
  void check_limits();
  void leave_if_stopped();

  /// True for the last of `count`. Another place than that of the first one is a fault.
  bool arrive(Meeting& meeting, uint32_t count, Where where) {
    if (meeting.arrived == 0) {
      meeting.where = where;
      meeting.first_thread = current_->thread;
    } else if (meeting.where.place != where.place) {
      part_ways(meeting, where);
    }
    return ++meeting.arrived == count;
  }
  [[noreturn]] void part_ways(const Meeting& meeting, Where where);

  void push(Fiber* fiber) { random_ ? ready_.push_into_round(fiber) : ready_.push_behind(fiber); }
  Fiber* pop();
  uint64_t random() {
    random_ ^= random_ << 13, random_ ^= random_ >> 7, random_ ^= random_ << 17;
    return random_;
  }
  bool end_late_phase();
  void release(Fiber* const* fibers, uint32_t count) {
    for (uint32_t i = 0; i < count; ++i)
      if (fibers[i] != current_) push(fibers[i]);
  }
  void wait(Where where) {
    current_->where = where;
    current_->waits = true;
    go_on();
    current_->waits = false;
  }
  void go_on();
  void step_aside();
  void note_turn();
  void note_computing(bool computes);
  void want_further();
  void switch_to(Fiber* next);
  /// What a fiber does first when it runs (again): keeps what is to be known of the one that was left.
  static void entered(Fiber& self, boost::context::detail::transfer_t from);
  [[noreturn]] void leave();

  static void fiber_main(boost::context::detail::transfer_t from);
  void prepare();
  void add_programs(size_t count);
  void begin_further();
  /// Counts programs that are to begin among those under way: as many of the wanted ones as may run at a time.
  int64_t take_room(int64_t wanted);
  void give_back();
  bool start_next(Cluster& cluster);
  void start(Program& program);
  void end_cluster_barrier(Cluster& cluster);
  void finish();
  void check_none_under_way(const Program& program);
  void print(Program& program);
  void print_ended(bool all);
  void report_fault();
  static Fault::Standing standing_of(const Program& program);
  void reset_fibers();

  struct alignas(64) SegmentRoom {
    char bytes[64];
  };
  std::vector<SegmentRoom> segment_frames_;

  Fiber* current_ = nullptr;
  Range recent_[4];  ///< ranges that were hit lately, the last one first
  unsigned next_recent_ = 1;
  Launch* launch_ = nullptr;

  ReadyQueue ready_;
  uint64_t random_ = 0;  ///< state of the generator; 0: in order
  uint64_t ticks_ = 0, yields_ = 0, steps_ = 0;
  uint64_t turns_ = 0;       ///< passed on by threads that may wait, while something changed, since a program began
  uint64_t checked_at_ = 0;  ///< yields when limits were last checked

  std::unique_ptr<Races> kept_races_;  ///< made when first asked for
  Races* races_ = nullptr;             ///< in this launch

  Fiber main_;
  Fault fault_;
  size_t active_ = 0;                        ///< clusters that run
  uint64_t changes_ = 0;                     ///< of global memory, and programs' beginnings and ends
  size_t waiting_ = 0;                       ///< clusters that do nothing but wait since the latest change
  uint64_t waits_since_ = 0;                 ///< that change
  bool wants_further_ = false;               ///< programs to wait for
  bool host_is_full_ = false;                ///< it has no memory for more programs of the launch
  bool computes_ = false;                    ///< some of its clusters do more than wait; counted in Launch::computing
  std::map<uint64_t, std::string> printed_;  ///< by ended programs' blocks that are not `next_printed_`
  uint64_t next_printed_ = 0;
  std::deque<Program> programs_;
  std::deque<Cluster> clusters_;
  std::deque<Fiber> fibers_;  ///< fiber i runs on stack i
  std::vector<std::unique_ptr<SharedArena>> arenas_;
  StackPool stacks_;
};

/// The worker whose host thread this is. A plain TLS slot: read in every hardware function.
extern __thread Worker* this_worker __attribute__((tls_model("initial-exec")));

/// Host threads, started when first needed.
class WorkerPool {
 public:
  explicit WorkerPool(unsigned threads);
  ~WorkerPool();

  unsigned size() const { return unsigned(workers_.size()); }
  /// Runs the launch to its end, and tells how many seconds of processor time a worker took, on average. One at a time;
  /// more callers wait.
  double run(Launch& launch);
  /// The detector of the worker that runs all programs where races are looked for, while nothing runs.
  template <class Use>
  auto with_races(Use use) {
    std::lock_guard run_lock(run_mutex_);
    return use(workers_.front()->kept_races());
  }

 private:
  struct HostThread {
    HostThread(WorkerPool& pool, Worker& worker)
        : thread(&WorkerPool::work, &pool, std::ref(worker), std::ref(*this)) {}
    std::condition_variable begin;
    Launch* launch = nullptr;  ///< that it is to work on
    std::thread thread;        ///< uses what stands above
  };
  void work(Worker& worker, HostThread& host);
  void want(Launch& launch, size_t workers);
  void wait_for_end(std::unique_lock<std::mutex>& lock, Launch& launch);
  /// Of all workers, since they exist. On a loaded machine time passes in which nobody computes.
  double processor_seconds();

  std::vector<std::unique_ptr<Worker>> workers_;
  std::deque<HostThread> threads_;
  double seconds_before_ = 0;  ///< this launch
  std::mutex run_mutex_;
  std::mutex mutex_;
  std::condition_variable done_;
  size_t wanted_ = 0, left_ = 0;  ///< workers of the launch, and those that have not ended
  bool quit_ = false;
};

}  // namespace tegula::emulator
