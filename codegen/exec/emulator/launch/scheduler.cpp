#include "codegen/exec/emulator/launch/scheduler.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "codegen/exec/emulator/hardware/access.h"

namespace tegula::emulator {

using boost::context::detail::jump_fcontext;
using boost::context::detail::transfer_t;

__thread Worker* this_worker = nullptr;

// ---- Switching

void Worker::entered(Fiber& self, transfer_t from) {
  auto& left = *static_cast<Fiber*>(from.data);
  left.context = from.fctx;
  self.stack.enter(left.stack);
}

void Worker::switch_to(Fiber* next) {
  Fiber* self = current_;
  current_ = next;
  self->stack.leave(next->stack);
  entered(*self, jump_fcontext(next->context, self));
}

Fiber* Worker::pop() {
  if (random_) {
    // Of a few at random the one whose warp is favoured, so that some warps run far ahead of others.
    constexpr int kCandidates = 4;
    const size_t left = ready_.left_of_round();
    size_t best = 0;
    uint64_t most = 0;
    for (int i = 0; i < kCandidates; ++i) {
      const size_t at = random() % left;
      const Fiber& fiber = *ready_.peek(at);
      const uint64_t block = fiber.program->number * launch_->blocks + fiber.program->block;
      const uint64_t warp = block + fiber.thread / kLanes + 1;
      const uint64_t favour = ((warp * 0x9E3779B97F4A7C15) ^ launch_->seed) * 0xD6E8FEB86659FD93 | 1;
      if (favour > most) best = at, most = favour;
    }
    ready_.bring_forward(best);
  }
  Fiber* next = ready_.pop();
  // By the time that a fiber's turn comes again, its stack has often left the nearest cache.
  if (!ready_.empty()) __builtin_prefetch(ready_.peek(0)->context);
  return next;
}

void Worker::go_on() {
  if (ready_.empty() && active_ == 0) return switch_to(&main_);
  if (ready_.empty() && !end_late_phase()) {
    Fault fault;
    fault.kind = Fault::Deadlock;
    abandon(fault);
  }
  Fiber* next = pop();
  if (next != current_) switch_to(next);
}

/// Ends the launch where it was stopped from outside, or has taken too many steps.
void Worker::check_limits() {
  if (launch_->limit_steps && steps_ > launch_->limit_steps) {
    const char* none = nullptr;
    launch_->stopped.compare_exchange_strong(none, "after the steps of TEGULA_EMULATOR_LIMIT or EmulatorOptions");
  }
  // A thread that has waited computes for long, in place of looking again.
  if (std::exchange(checked_at_, yields_) == yields_) note_computing(true);
  leave_if_stopped();
}

void Worker::leave_if_stopped() {
  if (const char* why = launch_->stopped.load(std::memory_order_relaxed)) {
    Fault fault;
    fault.kind = Fault::Stopped;
    fault.what = why;
    abandon(fault);
  }
  if (launch_->stop.load(std::memory_order_relaxed)) leave();
}

void Worker::yield(Where where, bool may_wait) {
  if (where.site != Where::kNone || where.place != Where::kNone) current_->where = where;
  count_step();
  leave_if_stopped();
  if (may_wait) note_turn();
  // At random a thread may pass on a few times before its turn ends: so a warp is ahead of others by as many atomics.
  constexpr uint64_t kTimes = 8;
  random_&& random() % kTimes ? ready_.push_into_round(current_) : ready_.push_behind(current_);
  // A thread that spins may wait for one that waits for late copies.
  constexpr uint64_t kPatience = 1024;
  if (++yields_ % kPatience == 0) end_late_phase();
  wants_further_ ? switch_to(&main_) : go_on();
}

/// The thread passes on its turn. Where every cluster under way, of all workers, has a thread that has done so again
/// and again while nothing changed, they may wait for programs that have not begun. So they may where something does
/// change, but no program has begun for long: one may count how often it has looked.
void Worker::note_turn() {
  constexpr uint32_t kAgain = 16;
  constexpr uint64_t kForLong = 4096;
  Fiber& fiber = *current_;
  Cluster& cluster = *fiber.program->cluster;
  if (fiber.waits_since != changes_) fiber.waits_since = changes_, fiber.turns = 0;
  if (++fiber.turns >= kAgain && cluster.waits_since != changes_) {
    cluster.waits_since = changes_;
    if (waits_since_ != changes_) waits_since_ = changes_, waiting_ = 0;
    ++waiting_;
  }
  const bool all_wait = waits_since_ == changes_ && waiting_ == active_;
  note_computing(!all_wait);
  if (all_wait ? launch_->computing.load(std::memory_order_acquire) == 0
               : ++turns_ > kForLong * active_ * launch_->threads * launch_->blocks)
    want_further();
}

void Worker::note_computing(bool computes) {
  if (std::exchange(computes_, computes) != computes)
    launch_->computing.fetch_add(computes ? 1 : -1, std::memory_order_release);
}

void Worker::want_further() {
  leave_if_stopped();  // workers that a limit has ended compute no more, and nobody waits for that
  turns_ = 0;
  if (!launch_->waited.load(std::memory_order_relaxed)) launch_->waited.store(true, std::memory_order_relaxed);
  wants_further_ = !host_is_full_ && launch_->next_program.load(std::memory_order_relaxed) < launch_->programs &&
                   launch_->resident.load(std::memory_order_relaxed) < launch_->most_programs;
}

void Worker::step_aside() {
  leave_if_stopped();
  push(current_);
  go_on();
}

void Worker::leave() {
  wants_further_ = false;
  switch_to(&main_);
  __builtin_unreachable();
}

void Worker::abandon(const Fault& fault) {
  Program& program = *current_->program;
  fault_ = fault;
  // Taken over here, as nothing on the stack of a fiber that is left is freed.
  if (fault.kind == Fault::Assert) fault_.element = program.failed_elements[fault.thread];
  fault_.x = program.x, fault_.y = program.y, fault_.z = program.z;
  fault_.program = program.number;
  fault_.block = program.block;
  leave();
}

void Worker::part_ways(const Meeting& meeting, Where where) {
  Fault fault;
  fault.kind = Fault::Divergence;
  fault.thread = current_->thread;
  fault.where = where;
  fault.other_thread = meeting.first_thread;
  fault.other_where = meeting.where;
  abandon(fault);
}

void Worker::perform(const Fiber& fiber, const AsyncCopy& copy) {
  if (copy.from)
    std::memcpy(copy.to, copy.from, copy.bytes);
  else
    std::memset(copy.to, 0, copy.bytes);
  Program& program = *fiber.program;
  if (races_) {
    const uint32_t offset = uint32_t(reinterpret_cast<uint64_t>(copy.to)) - program.shared_base;
    races_->copy_ends(program, offset, copy.bytes);
    races_->shared(fiber, *fiber.program, offset, copy.bytes, Access::Write, {copy.site}, nullptr);
    races_->put_taints(program, offset, copy.bytes, copy.taints);
  }
  if (program.writes.tracks())
    program.writes.store(uint32_t(reinterpret_cast<uint64_t>(copy.to)) - program.shared_base, copy.bytes, fiber.thread,
                         copy.site);
}

/// Of the phases that threads wait for and that only arrivals of copies keep from ending, ends the one whose first such
/// arrival is the oldest, or with a seed any; false if there is none.
bool Worker::end_late_phase() {
  Program* of = nullptr;
  uint32_t offset = 0, candidates = 0;
  uint64_t oldest = 0;
  for (Program& program : programs_)
    for (auto& [at, barrier] : program.mbarriers) {
      if (barrier.waiting.empty() || !barrier.waits_for_copies()) continue;
      const uint64_t since = barrier.since();
      if (random_ ? random() % ++candidates == 0 : !of || since < oldest) of = &program, offset = at, oldest = since;
    }
  if (of) arrive_late(*of, offset);
  return of;
}

void Worker::barrier(uint32_t threads, Where where) {
  Program& program = *current_->program;
  if (!arrive(program.barrier, threads, where)) return wait(where);
  program.barrier.arrived = 0;
  program.writes.barrier();
  if (races_) Races::threads_met(program, 0, threads);
  for (auto& [offset, barrier] : program.mbarriers) barrier.end_seen = true;
  release(program.fibers.data(), threads);
}

void Worker::cluster_arrive(bool relaxed, Where where) {
  Fiber& fiber = *current_;
  Cluster& cluster = *fiber.program->cluster;
  if (fiber.at_cluster_barrier)
    misuse("a thread arrives twice at a barrier of the cluster; a cluster_wait is missing between", where);
  fiber.at_cluster_barrier = true;
  fiber.cluster_barrier = cluster.barriers;
  if (!relaxed) publish_mbarriers();
  if (races_ && !relaxed) Races::arrive(*fiber.program, fiber.thread / kLanes, cluster.arriving);
  if (arrive(cluster.barrier, cluster.running, where)) end_cluster_barrier(cluster);
}

void Worker::end_cluster_barrier(Cluster& cluster) {
  cluster.barrier.arrived = 0;
  ++cluster.barriers;
  for (Program* block : cluster.blocks) {
    block->writes.barrier();
    for (auto& [offset, barrier] : block->mbarriers) barrier.end_seen = true;
  }
  cluster.told = std::exchange(cluster.arriving, {});
  wake(cluster.waiting);
}

void Worker::cluster_wait(Where where) {
  Fiber& fiber = *current_;
  Cluster& cluster = *fiber.program->cluster;
  if (!fiber.at_cluster_barrier)
    misuse("a thread waits at a barrier of the cluster at which it has not arrived", where);
  if (cluster.barriers == fiber.cluster_barrier) sleep(cluster.waiting, where);
  if (races_) Races::wait(*fiber.program, fiber.thread / kLanes, cluster.told);
  fiber.at_cluster_barrier = false;
}

void Worker::barrier_between(uint32_t number, uint32_t threads, Where where) {
  Program& program = *current_->program;
  Meeting& meeting = program.meetings[number];
  if (!arrive(meeting, threads, where)) return wait(where);
  meeting.arrived = 0;
  const uint32_t first = current_->thread / threads * threads, time = program.writes.end_phase();
  if (races_) Races::threads_met(program, first, threads);
  if (program.writes.tracks())
    for (uint32_t thread = first; thread < first + threads; ++thread) program.writes.acquire(thread, time);
  release(program.fibers.data() + first, threads);
}

void Worker::wait_for_turn(uint32_t number, uint32_t threads, Where where) {
  TurnBarrier& turn = current_->program->turns[number];
  if (turn.waiting.size() + turn.passed + 1 < threads)
    sleep(turn.waiting, where);
  else
    end_turn(turn);
  if (races_) Races::wait(*current_->program, current_->thread / kLanes, turn.told);
}

void Worker::end_turn(TurnBarrier& turn) {
  turn.passed = 0;
  turn.told = std::exchange(turn.arriving, {});
  wake(turn.waiting);
}

void Worker::pass_turn(uint32_t number, uint32_t threads, Where where) {
  TurnBarrier& turn = current_->program->turns[number];
  if (turn.passed == threads / 2) misuse("a turn is passed on twice before anybody took it", where);
  if (races_) Races::arrive(*current_->program, current_->thread / kLanes, turn.arriving);
  if (turn.waiting.size() + ++turn.passed == threads) end_turn(turn);
}

bool Worker::may_access_slowly(uint64_t address, unsigned bytes) {
  for (unsigned i = 1; i < std::size(recent_); ++i)
    if (recent_[i].contains(address, bytes)) {
      std::swap(recent_[0], recent_[i]);
      return true;
    }
  const Range* range = find_range(*launch_->ranges, address, bytes);
  if (!range) return false;
  std::swap(recent_[0], recent_[next_recent_]);
  recent_[0] = *range;
  next_recent_ = next_recent_ % (std::size(recent_) - 1) + 1;
  return true;
}

// ---- Programs

void Worker::fiber_main(transfer_t from) {
  Worker& worker = *this_worker;
  entered(worker.fiber(), from);
  for (;;) {
    worker.launch_->code.load(std::memory_order_relaxed)->run(worker.launch_->args);
    worker.finish();
  }
}

/// That the program has no bulk copies left where it ends.
void Worker::check_none_under_way(const Program& program) {
  if (program.bulk_copies.empty()) return;
  const BulkCopy& copy = program.bulk_copies.front();
  Fault fault;
  fault.kind = Fault::Misuse;
  fault.what =
      "a bulk copy to offset {address} of shared memory is under way when the program ends; a wait for its phase is "
      "missing";
  fault.address = copy.offset;
  fault.thread = copy.thread;
  fault.where = copy.where;
  abandon(fault);
}

/// The end of a thread. When it is the last one of its cluster, the next program takes over the fibers.
void Worker::finish() {
  Fiber& fiber = *current_;
  Program& program = *fiber.program;
  if (!is_to_arrive(fiber))
    fiber.copies.complete(fiber.copies.issued(), [&](const AsyncCopy& copy) { perform(fiber, copy); });
  if (program.running == 1) {
    check_none_under_way(program);
    end_bulk_stores(program);
    if (races_ && program.clocks.unwritten.kind != Fault::None) abandon(program.clocks.unwritten);
    print(program);
  }
  Cluster& cluster = *program.cluster;
  if (fiber.at_cluster_barrier)
    misuse("a thread ends that has arrived at a barrier of the cluster and not waited there", {});
  fiber.finished = true;
  --program.running;
  if (--cluster.running == 0) {
    note_change();
    if (!start_next(cluster)) --active_, launch_->resident.fetch_sub(1, std::memory_order_relaxed);
  } else if (cluster.barrier.arrived == cluster.running) {
    end_cluster_barrier(cluster);
  }
  go_on();
}

/// Takes the launch's next program, all threads of its blocks runnable; false if there is none.
bool Worker::start_next(Cluster& cluster) {
  if (launch_->stop.load(std::memory_order_relaxed)) return false;
  const uint64_t turn = launch_->next_program.fetch_add(1, std::memory_order_relaxed);
  if (turn >= launch_->programs) return false;
  const uint64_t number = launch_->program_at(turn);
  note_change();
  note_computing(true);
  turns_ = 0;
  // From seed and program alone, so that with one resident program the order does not depend on the worker.
  if (launch_->seed) random_ = ((launch_->seed + number) * 0x9E3779B97F4A7C15) | 1;
  cluster.running = launch_->threads * launch_->blocks;
  cluster.barriers = 0;
  cluster.arriving = cluster.told = {};
  for (Program* block : cluster.blocks) {
    block->number = number;
    start(*block);
  }
  return true;
}

void Worker::start(Program& program) {
  const Grid& grid = launch_->grid;
  program.x = uint32_t(program.number % grid.x);
  program.y = uint32_t(program.number / grid.x % grid.y);
  program.z = uint32_t(program.number / grid.x / grid.y);
  program.running = launch_->threads;
  program.writes.reset(launch_->track_writes ? launch_->shared_bytes : 0, launch_->threads);
  for (Warp& warp : program.warps) {
    warp.products.clear();
    warp.groups.clear();
  }
  for (Warpgroup& group : program.warpgroups) group.clear();
  program.mbarriers.clear();
  program.bulk_copies.clear();
  program.failed_elements.clear();
  if (races_) races_->begin(program);
  program.bulk_stores.clear();
  program.meetings.clear();
  program.turns.clear();
  if (launch_->shared_bytes)
    std::memset(reinterpret_cast<void*>(uint64_t(program.shared_base)), kPoison, launch_->shared_bytes);
  for (Fiber* fiber : program.fibers) {
    fiber->finished = false;
    fiber->where = {};
    fiber->waits = false;
    fiber->at_cluster_barrier = false;
    fiber->moved = Fiber::Moved::Nothing;
    fiber->prints = 0;
    fiber->order = 0;
    fiber->copies.clear();
    fiber->bulk_groups = 0;
    push(fiber);
  }
}

/// The programs that the launch has from the beginning.
void Worker::prepare() {
  ready_.clear();
  random_ = 0;
  active_ = 0;
  clusters_.clear();
  if (stacks_.widen(launch_->stack_bytes)) {
    programs_.clear();
    fibers_.clear();
  }
  programs_.resize(std::min<size_t>(programs_.size(), launch_->resident_programs * launch_->blocks));
  add_programs(launch_->resident_programs);
  std::fill(std::begin(recent_), std::end(recent_), Range{});
  if (!launch_->check_bounds) recent_[0] = {0, UINT64_MAX};
}

/// Fibers, stacks and shared memory for so many more programs of the launch. Throws, with nothing changed, where the
/// host has no memory.
void Worker::add_programs(size_t count) {
  const size_t blocks = launch_->blocks, threads = launch_->threads;
  const size_t first = clusters_.size() * blocks, programs = first + count * blocks;
  stacks_.reserve(programs * threads);
  while (fibers_.size() < programs * threads) {
    fibers_.emplace_back();
    stacks_.start(fibers_.back(), fibers_.size() - 1, fiber_main);
  }
  ready_.reserve(fibers_.size());
  for (size_t i = first; launch_->shared_bytes && i < programs; ++i) {
    if (i == arenas_.size()) arenas_.emplace_back();
    if (arenas_[i] && arenas_[i]->bytes() < launch_->shared_bytes) arenas_[i].reset();
    if (!arenas_[i]) arenas_[i] = std::make_unique<SharedArena>(launch_->shared_bytes);
  }
  for (size_t i = first; i < programs; ++i) {
    if (i == programs_.size()) programs_.emplace_back();
    Program& program = programs_[i];
    program.block = uint32_t(i % blocks);
    if (program.block == 0) clusters_.emplace_back();
    program.cluster = &clusters_.back();
    program.cluster->blocks.push_back(&program);
    program.shared_base = launch_->shared_bytes ? arenas_[i]->base() : 0;
    program.barrier.arrived = 0;
    program.warps.resize(threads / kLanes);
    program.warpgroups.resize((program.warps.size() + 3) / 4);
    for (Warp& warp : program.warps) warp.meeting.arrived = 0;
    program.fibers.resize(threads);
    for (size_t t = 0; t < threads; ++t) {
      Fiber& fiber = fibers_[i * threads + t];
      fiber.program = &program;
      fiber.thread = uint32_t(t);
      program.fibers[t] = &fiber;
    }
  }
}

int64_t Worker::take_room(int64_t wanted) {
  const int64_t most = launch_->most_programs ? launch_->most_programs : std::numeric_limits<int64_t>::max();
  const int64_t before = launch_->resident.fetch_add(wanted, std::memory_order_relaxed);
  const int64_t granted = std::clamp<int64_t>(most - before, 0, wanted);
  launch_->resident.fetch_sub(wanted - granted, std::memory_order_relaxed);
  return granted;
}

/// Twice as many programs, as far as the GPU runs so many at a time and the host has memory.
void Worker::begin_further() {
  const int64_t granted = take_room(int64_t(active_));
  const size_t first = clusters_.size();
  try {
    add_programs(size_t(granted));
  } catch (const std::exception&) {  // those that there are go on, as the programs may not wait for others
    host_is_full_ = true;
  }
  size_t begun = 0;
  for (size_t i = first; i < clusters_.size(); ++i) begun += start_next(clusters_[i]);
  active_ += begun;
  launch_->resident.fetch_sub(granted - int64_t(begun), std::memory_order_relaxed);
}

void Worker::run(Launch& launch) {
  this_worker = this;
  launch_ = &launch;
  fault_ = {};
  steps_ = turns_ = 0;
  host_is_full_ = false;
  races_ = launch.check_races ? &kept_races() : nullptr;
  if (races_) races_->begin(launch);
  prepare();
  next_printed_ = 0;
  const int64_t granted = take_room(int64_t(clusters_.size()));
  for (int64_t i = 0; i < granted; ++i) active_ += start_next(clusters_[size_t(i)]);
  launch.resident.fetch_sub(granted - int64_t(active_), std::memory_order_relaxed);
  if (active_ == 0) return;
  current_ = &main_;
  switch_to(pop());
  while (std::exchange(wants_further_, false)) {
    begin_further();
    switch_to(pop());
  }
  current_ = nullptr;
  note_computing(false);
  if (fault_.kind != Fault::None) report_fault();
  if (active_ != 0 || fault_.kind != Fault::None) reset_fibers();
  give_back();
}

/// What a launch of unusually many programs at a time has taken of the host's memory.
void Worker::give_back() {
  constexpr size_t kKeptFibers = 16384, kKeptArenas = 256;
  if (arenas_.size() > kKeptArenas) arenas_.resize(kKeptArenas);
  if (fibers_.size() <= kKeptFibers) return;
  ready_.clear();
  clusters_.clear();
  programs_.clear();
  fibers_.resize(kKeptFibers);
  fibers_.shrink_to_fit();
  stacks_.give_back(kKeptFibers);
}

/// Hands the fault to the launch; a deadlock, and a launch that was stopped, with where all programs are.
void Worker::report_fault() {
  if (fault_.kind == Fault::Deadlock || fault_.kind == Fault::Stopped)
    for (const Program& program : programs_)
      if (program.running > 0) fault_.standings.push_back(standing_of(program));
  launch_->record(std::move(fault_));
}

Fault::Standing Worker::standing_of(const Program& program) {
  Fault::Standing standing{program.x, program.y, program.z, program.number, program.block, {}, {}};
  auto& all = standing.waiters;
  for (const Fiber* fiber : program.fibers) {
    if (fiber->finished) {
      standing.finished.push_back(fiber->thread);
      continue;
    }
    const std::optional<Fault::Phase> phase = phase_waited_for(*fiber);
    auto same_place = [&](const Fault::Waiters& w) {
      return w.where.place == fiber->where.place && w.where.site == fiber->where.site && w.phase == phase &&
             w.waits == fiber->waits;
    };
    auto it = std::find_if(all.begin(), all.end(), same_place);
    if (it == all.end()) it = all.insert(it, {fiber->where, phase, {}, fiber->waits});
    it->threads.push_back(fiber->thread);
  }
  return standing;
}

/// Forgets what the fibers were at; their stacks are used anew.
void Worker::reset_fibers() {
  for (size_t i = 0; i < fibers_.size(); ++i) {
    stacks_.start(fibers_[i], i, fiber_main);
    fibers_[i].finished = true;
    fibers_[i].copies.clear();
  }
  for (Program& program : programs_) {
    if (program.running) print(program);
    program.running = 0;
    program.mbarriers.clear();
    program.bulk_copies.clear();
    program.bulk_stores.clear();
    program.meetings.clear();
    program.turns.clear();
  }
  print_ended(true);
}

}  // namespace tegula::emulator
