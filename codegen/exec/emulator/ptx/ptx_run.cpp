// Runs inline PTX: operands, control, memory, and what the threads of a program do together.
#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstring>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/ptx/ptx.h"

namespace tegula::emulator::ptx {

namespace {

uint64_t lane_of(Type type, uint64_t bits, int lane) { return bits >> lane * type.bits & mask(type.bits); }

bool counts_in_program_alone(const Modifiers& mods) {
  using enum Modifiers::Scope;
  return mods.scope == Program || (mods.scope == Cluster && this_worker->launch().blocks == 1);
}

class Runner {
 public:
  Runner(const Program& program, uint64_t* slots, uint32_t site, uint32_t place)
      : program_(program), slots_(slots), site_(site), place_(place) {}

  void run() {
    const uint32_t count = uint32_t(program_.code.size());
    for (uint32_t next = 0; next < count;) {
      const Instruction& i = program_.code[next];
      const uint32_t at = next++;
      if (i.guard >= 0 && bool(slots_[i.guard] & 1) == i.guard_negated) continue;
      if (i.op == Op::Bra) {
        if (i.target <= at) this_worker->yield({site_, place_});
        next = i.target;
      } else {
        step(i);
      }
    }
  }

 private:
  uint64_t get(const Operand& o) const {
    switch (o.kind) {
      case Operand::Register:
        return o.negated ? ~slots_[o.index] & 1 : slots_[o.index];
      case Operand::Special:
        return read_special(Special(o.index));
      default:
        return o.bits;
    }
  }
  uint64_t from(const Instruction& i, size_t n) const { return n < i.from.size() ? get(i.from[n]) : 0; }
  void put(const Operand& o, uint64_t bits) {
    if (o.kind == Operand::Register) slots_[o.index] = bits;
  }

  void step(const Instruction& i) {
    switch (i.op) {
      case Op::Mov:
        return move(i);
      case Op::Cvt:
        return put(i.to[0], extended(i, converted(i)));
      case Op::Cvta:
        return put(i.to[0], from(i, 0));
      case Op::Lop3:
        return put(i.to[0], lookup(from(i, 0), from(i, 1), from(i, 2), from(i, 3)) & mask(i.type.bits));
      case Op::Bfi:
        return put(i.to[0], insert(i.type.bits, from(i, 0), from(i, 1), from(i, 2) & 0xFF, from(i, 3) & 0xFF));
      case Op::Setp:
        return set_predicates(i);
      case Op::Set:
        return put(i.to[0], set(i));
      case Op::Selp:
        return put(i.to[0], (from(i, 2) & 1 ? from(i, 0) : from(i, 1)) & mask(i.type.width()));
      case Op::Slct:
        return put(i.to[0], (not_negative(i.source, from(i, 2)) ? from(i, 0) : from(i, 1)) & mask(i.type.width()));
      case Op::Testp:
        return put(i.to[0], tested(i));
      case Op::Ld:
      case Op::St:
      case Op::Atom:
      case Op::Red:
        return memory(i);
      case Op::CreatePolicy:
        return put(i.to[0], 0);
      case Op::Bar:
      case Op::Barrier:
        if (i.mods.choice == "warp") return together(i);
        return this_worker->barrier(uint32_t(this_worker->fiber().program->fibers.size()), {site_, place_});
      case Op::Shfl:
      case Op::Vote:
      case Op::Match:
      case Op::Redux:
      case Op::Elect:
        return together(i);
      case Op::ActiveMask:
        return put(i.to[0], mask(kLanes));
      case Op::Nanosleep:
        return this_worker->yield({site_, place_});
      case Op::Fence:
      case Op::Membar:
        if (this_worker->races() && !counts_in_program_alone(i.mods))
          Races::fence(*this_worker->fiber().program, this_worker->fiber().thread);
        return;
      case Op::Prefetch:
      case Op::GridDependency:
        return;
      default:
        return put(i.to[0], by_lane(i));
    }
  }

  uint64_t by_lane(const Instruction& i) {
    const uint64_t a = from(i, 0), b = from(i, 1), c = from(i, 2);
    if (i.type.form == Form::Predicate) return compute(i, a, b, c, carry_) & 1;
    if (i.type.lanes == 1) return compute(i, a, b, c, carry_);
    uint64_t result = 0;
    for (int lane = 0; lane < i.type.lanes; ++lane)
      result |= compute(i, lane_of(i.type, a, lane), lane_of(i.type, b, lane), lane_of(i.type, c, lane), carry_)
                << lane * i.type.bits;
    return result;
  }

  /// {a, b} = c splits, c = {a, b} joins; the first is the lowest.
  void move(const Instruction& i) {
    const int total = i.type.width();
    if (i.to.size() > 1) {
      const uint64_t all = from(i, 0);
      const int bits = total / int(i.to.size());
      for (size_t k = 0; k < i.to.size(); ++k) put(i.to[k], all >> k * bits & mask(bits));
      return;
    }
    uint64_t all = 0;
    const int bits = total / int(i.from.size());
    for (size_t k = 0; k < i.from.size(); ++k) all |= (from(i, k) & mask(bits)) << k * bits;
    put(i.to[0], all);
  }

  static uint64_t extended(const Instruction& i, uint64_t bits) {
    return i.extended_to ? uint64_t(sign_extended(bits, i.type.bits)) & mask(i.extended_to) : bits;
  }

  /// Two sources make two lanes, the first one the upper; else lane by lane.
  uint64_t converted(const Instruction& i) {
    uint64_t result = 0;
    for (int lane = 0; lane < i.type.lanes; ++lane) {
      const uint64_t bits = i.from.size() == 2 ? from(i, size_t(1 - lane)) : lane_of(i.source, from(i, 0), lane);
      result |= convert(i.type, i.source, bits, i.mods) << lane * i.type.bits;
    }
    return result;
  }

  static uint64_t lookup(uint64_t a, uint64_t b, uint64_t c, uint64_t table) {
    uint64_t result = 0;
    for (int k = 0; k < 8; ++k)
      if (table >> k & 1) result |= (k & 4 ? a : ~a) & (k & 2 ? b : ~b) & (k & 1 ? c : ~c);
    return result;
  }

  static uint64_t insert(int bits, uint64_t a, uint64_t b, uint64_t at, uint64_t length) {
    if (int(at) >= bits) return b & mask(bits);
    const uint64_t field = mask(int(std::min<uint64_t>(length, uint64_t(bits)))) << at;
    return ((b & ~field) | (a << at & field)) & mask(bits);
  }

  bool relation(const Instruction& i, int lane) const {
    const bool holds = compare(i, lane_of(i.source, from(i, 0), lane), lane_of(i.source, from(i, 1), lane));
    const bool other = i.from.size() > 2 && from(i, 2) & 1;
    if (i.mods.combine == "and") return holds && other;
    if (i.mods.combine == "or") return holds || other;
    if (i.mods.combine == "xor") return holds != other;
    return holds;
  }

  /// p|q: of the two lanes, or the relation and its contrary.
  void set_predicates(const Instruction& i) {
    const bool first = relation(i, 0);
    const bool second = i.source.lanes == 2 ? relation(i, 1) : !first;
    put(i.to[0], first);
    if (i.to.size() > 1) put(i.to[1], second);
  }

  uint64_t set(const Instruction& i) const {
    uint64_t result = 0;
    for (int lane = 0; lane < i.type.lanes; ++lane) {
      const uint64_t yes = i.type.is_float() ? from_double(i.type, 1, {}) : mask(i.type.bits);
      result |= (relation(i, lane) ? yes : 0) << lane * i.type.bits;
    }
    return result;
  }

  static bool not_negative(Type type, uint64_t bits) {
    return type.is_float() ? to_double(type, bits) >= 0 : sign_extended(bits, type.bits) >= 0;
  }

  uint64_t tested(const Instruction& i) const {
    const uint64_t bits = from(i, 0);
    const double x = to_double(i.type, bits);
    const std::string& kind = i.mods.choice;
    const bool below = x != 0 && std::fabs(x) < (i.type.bits == 64 ? 0x1p-1022 : 0x1p-126);
    if (kind == "finite") return std::isfinite(x);
    if (kind == "infinite") return std::isinf(x);
    if (kind == "number") return !std::isnan(x);
    if (kind == "notanumber") return std::isnan(x);
    if (kind == "subnormal") return below;
    return std::isfinite(x) && x != 0 && !below;
  }

  void together(const Instruction& i) {
    std::array<uint64_t, 4> operands{};
    std::array<uint64_t, 2> results{};
    for (size_t k = 0; k < i.from.size(); ++k) operands[k] = from(i, k);
    exchange(i, operands.data(), i.from.size(), results.data(), {site_, place_});
    for (size_t k = 0; k < i.to.size(); ++k) put(i.to[k], results[k]);
  }

  void memory(const Instruction& i) {
    const bool loads = i.op == Op::Ld, stores = i.op == Op::St;
    const uint64_t address = from(i, 0) + uint64_t(i.from[0].offset);
    if (loads && i.mods.strong) this_worker->yield({site_, place_});
    std::array<uint64_t, 4> values{}, results{};
    const size_t count = loads ? 0 : stores ? i.mods.vector : i.from.size() - 1;
    for (size_t k = 0; k < count; ++k) values[k] = from(i, k + 1);
    access_memory(i, address, values.data(), results.data(), site_);
    for (size_t k = 0; k < i.to.size(); ++k) put(i.to[k], extended(i, results[k]));
  }

  const Program& program_;
  uint64_t* slots_;
  const uint32_t site_, place_;
  bool carry_ = false;
};

uint32_t order_of(const Instruction& i) {
  const bool atomic = i.op == Op::Atom || i.op == Op::Red;
  if (!atomic && !i.mods.strong) return 0;
  return MemoryOrder{true, i.mods.acquires, i.mods.releases, counts_in_program_alone(i.mods)}.bits();
}

template <class T>
void transfer(const Instruction& i, uint64_t address, const uint64_t* values, uint64_t* results, uint32_t site) {
  const unsigned count = i.mods.vector;
  const bool loads = i.op == Op::Ld;
  this_worker->keep_pace(loads ? Fiber::Moved::In : Fiber::Moved::Out);
  std::array<T, 4> moved;
  const unsigned bytes = unsigned(count * sizeof(T));
  for (unsigned k = 0; k < count; ++k) moved[k] = loads ? T{} : T(values[k]);
  this_worker->fiber().order = order_of(i);
  void* memory = loads ? global_access(address, bytes, Access::Read, site)
                       : global_access(address, bytes, Access::Write, site, moved.data());
  this_worker->fiber().order = 0;
  if (!loads) {
    std::memcpy(memory, moved.data(), bytes);
    return;
  }
  std::memcpy(moved.data(), memory, bytes);
  for (unsigned k = 0; k < count; ++k) results[k] = moved[k];
}

/// What an atomic operation leaves in memory.
template <class T>
T updated(const Instruction& i, T old, uint64_t b, uint64_t c) {
  const std::string& kind = i.mods.choice;
  if (kind == "exch") return T(b);
  if (kind == "cas") return old == T(b) ? T(c) : old;
  if (kind == "inc") return old >= T(b) ? 0 : T(old + 1);
  if (kind == "dec") return old == 0 || old > T(b) ? T(b) : T(old - 1);
  Instruction combine = i;
  combine.op = kind == "add"   ? Op::Add
               : kind == "min" ? Op::Min
               : kind == "max" ? Op::Max
               : kind == "and" ? Op::And
               : kind == "or"  ? Op::Or
                               : Op::Xor;
  uint64_t result = 0;
  bool carry = false;
  for (int lane = 0; lane < i.type.lanes; ++lane)
    result |= compute(combine, lane_of(i.type, old, lane), lane_of(i.type, b, lane), 0, carry) << lane * i.type.bits;
  return T(result);
}

template <class T>
void atomic(const Instruction& i, uint64_t address, const uint64_t* values, uint64_t* results, uint32_t site) {
  this_worker->yield({site, Where::kNone});  // one that spins must not keep the one it waits for from running
  this_worker->fiber().order = order_of(i);
  std::atomic_ref<T> target(*static_cast<T*>(global_access(address, sizeof(T), Access::Atomic, site)));
  this_worker->fiber().order = 0;
  T old = target.load(std::memory_order_relaxed);
  T now = updated(i, old, values[0], values[1]);
  while (!target.compare_exchange_weak(old, now)) now = updated(i, old, values[0], values[1]);
  if (now != old) this_worker->note_change();
  results[0] = old;
}

}  // namespace

void access_memory(const Instruction& i, uint64_t address, const uint64_t* values, uint64_t* results, uint32_t site) {
  const bool moves = i.op == Op::Ld || i.op == Op::St;
  auto with = [&](auto tag) {
    using T = decltype(tag);
    moves ? transfer<T>(i, address, values, results, site) : atomic<T>(i, address, values, results, site);
  };
  switch (i.type.width()) {
    case 8:
      return with(uint8_t());
    case 16:
      return with(uint16_t());
    case 32:
      return with(uint32_t());
    default:
      return with(uint64_t());
  }
}

uint64_t read_special(Special which) {
  const Fiber& fiber = this_worker->fiber();
  const Launch& launch = this_worker->launch();
  const uint32_t lane = fiber.thread % kLanes;
  auto ticks = [] { return uint64_t(std::chrono::steady_clock::now().time_since_epoch().count()); };
  auto time = [] { return uint64_t(std::chrono::system_clock::now().time_since_epoch().count()); };
  switch (which) {
    case Special::TidX:
      return fiber.thread;
    case Special::NtidX:
      return launch.threads;
    case Special::NtidY:
    case Special::NtidZ:
      return 1;
    case Special::CtaidX:
      return fiber.program->x;
    case Special::CtaidY:
      return fiber.program->y;
    case Special::CtaidZ:
      return fiber.program->z;
    case Special::NctaidX:
      return launch.grid.x;
    case Special::NctaidY:
      return launch.grid.y;
    case Special::NctaidZ:
      return launch.grid.z;
    case Special::LaneId:
      return lane;
    case Special::WarpId:
      return fiber.thread / kLanes;
    case Special::NwarpId:
      return launch.threads / kLanes;
    case Special::NsmId:
      return 1;
    case Special::Clock:
      return ticks() & mask(32);
    case Special::ClockHigh:
      return ticks() >> 32;
    case Special::Clock64:
      return ticks();
    case Special::GlobalTimer:
      return time();
    case Special::GlobalTimerLow:
      return time() & mask(32);
    case Special::GlobalTimerHigh:
      return time() >> 32;
    case Special::LaneMaskEq:
      return uint64_t(1) << lane;
    case Special::LaneMaskLe:
      return mask(int(lane) + 1);
    case Special::LaneMaskLt:
      return mask(int(lane));
    case Special::LaneMaskGe:
      return mask(32) & ~mask(int(lane));
    case Special::LaneMaskGt:
      return mask(32) & ~mask(int(lane) + 1);
    case Special::TidY:
    case Special::TidZ:
    case Special::SmId:
    case Special::GridId:
      break;
  }
  return 0;
}

void run(const Program& program, uint64_t* slots, uint32_t site, uint32_t place) {
  Runner(program, slots, site, place).run();
}

void run_block(uint32_t number, uint64_t* slots, uint32_t site, uint32_t place) {
  run(*this_worker->launch().asm_blocks[number], slots, site, place);
}

}  // namespace tegula::emulator::ptx
