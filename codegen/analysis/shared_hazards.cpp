#include "codegen/analysis/shared_hazards.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

// Room that is accessed: an op's scratch or one slot of a shared_alloc. Slots that a loop takes in turn are counted
// from the one that its present iteration calls number 0.
struct Room {
  const Op* op;
  int64_t slot = 0;
  auto operator<=>(const Room&) const = default;
};
constexpr int64_t kAnySlot = -1;
using Rooms = std::set<Room>;

struct State {
  Rooms read;                              // by threads since the last barrier
  Rooms written;                           // by threads since the last barrier, copies that were waited for among it
  Rooms unfenced;                          // written, and not yet ordered for the asynchronous proxy
  Rooms copying;                           // written by copies that nothing has waited for yet
  Rooms begun;                             // by those since the last commit
  std::map<const Value*, Rooms> tokens;    // what the copies of a token write
  std::vector<Rooms> multiplying;          // what products under way read, the latest first
  std::map<const Value*, size_t> started;  // for sums in flight: products started since their latest one
  bool operator==(const State&) const = default;
};

void unite(Rooms& into, const Rooms& more) { into.insert(more.begin(), more.end()); }

void unite(State& into, const State& other) {
  unite(into.read, other.read);
  unite(into.written, other.written);
  unite(into.unfenced, other.unfenced);
  unite(into.copying, other.copying);
  unite(into.begun, other.begun);
  for (const auto& [token, rooms] : other.tokens) unite(into.tokens[token], rooms);
  if (into.multiplying.size() < other.multiplying.size()) into.multiplying.resize(other.multiplying.size());
  for (size_t i = 0; i < other.multiplying.size(); ++i) unite(into.multiplying[i], other.multiplying[i]);
  for (const auto& [sums, age] : other.started) {
    auto known = into.started.try_emplace(sums, age).first;
    known->second = std::min(known->second, age);
  }
}

// The loops that take the slots of a shared_alloc in turn.
class Rotations {
 public:
  explicit Rotations(const Func& func) {
    walk(func.body, [&](const Op& op) {
      if (op.opcode != Opcode::SharedSlot) return;
      if (const Op* loop = rotating_loop(op.operand(1))) allocs_[loop].insert(alloc_of(op.operand(0)));
    });
  }
  const std::unordered_set<const Op*>* of(const Op& loop) const {
    auto it = allocs_.find(&loop);
    return it == allocs_.end() ? nullptr : &it->second;
  }
  /// The slot that an index begins with.
  static int64_t slot_of(const Value* index) {
    for (;;) {
      if (auto number = constant_integer(index)) return *number;
      const Op* loop = for_of(index);
      const auto carried = loop ? ForLoop(*loop).number(index) : std::nullopt;
      if (!carried) return kAnySlot;
      index = ForLoop(*loop).init(*carried);
    }
  }

 private:
  // The innermost loop that moves the index on itself.
  static const Op* rotating_loop(const Value* index) {
    for (const Op* loop = for_of(index); loop; loop = for_of(index)) {
      const ForLoop parts(*loop);
      const auto carried = parts.number(index);
      if (!carried) return nullptr;
      const Value* next = parts.next(*carried);
      if (next != parts.arg(*carried) && !for_of(next)) return loop;
      index = for_of(next) && next->def ? next : parts.init(*carried);
    }
    return nullptr;
  }

  std::unordered_map<const Op*, std::unordered_set<const Op*>> allocs_;
};

class HazardWalk {
 public:
  HazardWalk(const Func& func, const SharedPlan& plan) : plan_(plan), rotations_(func) {
    walk(func.body, [&](const Op& op) {
      if (op.opcode == Opcode::SharedAlloc && op.get(attr::barriers)) barriers_.push_back(&op);
    });
  }

  SharedHazards run(const Func& func) {
    block(func.body, {});
    for (auto& [op, message] : errors_) found_.errors.emplace_back(op, message);
    return std::move(found_);
  }

 private:
  State block(const Block& block, State state) {
    for (auto& op : block.ops) visit(*op, state);
    return state;
  }

  void visit(const Op& op, State& state) {
    switch (op.opcode) {
      case Opcode::Barrier:
        return barrier(state, op.get(attr::async_proxy));
      case Opcode::AsyncCopy:
        write(op, room_of(op.operand(1)), state);
        state.copying.insert(room_of(op.operand(1)));
        state.begun.insert(room_of(op.operand(1)));
        return;
      case Opcode::AsyncCommit:
        state.tokens[op.result()] = std::exchange(state.begun, {});
        return;
      case Opcode::AsyncWait:
        return wait_for_copies(op, state);
      case Opcode::SharedStore:
        write(op, room_of(op.operand(1)), state);
        state.written.insert(room_of(op.operand(1)));
        state.unfenced.insert(room_of(op.operand(1)));
        return;
      case Opcode::SharedRead:
        read(op, room_of(op.operand(0)), false, state);
        state.read.insert(room_of(op.operand(0)));
        return;
      case Opcode::SharedAlloc:
        // Barriers are set up, and a barrier of threads behind that is a part of it.
        if (!op.get(attr::barriers) || op.get(attr::arrivals)) return;
        write(op, {&op, kAnySlot}, state);
        return barrier(state, false);
      case Opcode::SharedFree:
        return write(op, {op.operand(0)->def, kAnySlot}, state);
      case Opcode::CopyWarps:  // barriers in shared memory order it with the program
        return;
      case Opcode::MmaStart:
        return start_product(op, state);
      case Opcode::MmaWait:
        return wait_for_products(op, state);
      case Opcode::If: {
        State other = block(*op.regions[1], state);
        hand_on(*op.regions[1]->terminator(), other);
        state = block(*op.regions[0], std::move(state));
        hand_on(*op.regions[0]->terminator(), state);
        return unite(state, other);
      }
      case Opcode::For:
        return loop(op, state);
      case Opcode::While:
        loop(op, state);
        state = block(*op.regions[0], std::move(state));  // it ends behind a condition that does not hold
        return hand_on(*op.regions[0]->terminator(), state);
      default:
        if (!op.regions.empty() && !op.info().isolates()) return any_order(op, state);
        if (plan_.offset.contains(&op)) exchange(op, state);
    }
  }

  // ---- Accesses
  void read(const Op& op, const Room& room, bool by_product, State& state) {
    if (touches(state.copying, room)) error(op, "a place is read before the copy into it is waited for");
    const bool unfenced = by_product && touches(state.unfenced, room);
    if (unfenced || touches(state.written, room)) need_barrier(op, unfenced, state);
  }

  void write(const Op& op, const Room& room, State& state) {
    for (const Rooms& rooms : state.multiplying)
      if (touches(rooms, room)) error(op, "a place is written while a product reads it");
    if (touches(state.copying, room)) error(op, "a place is written while a copy writes it");
    if (touches(state.read, room) || touches(state.written, room)) need_barrier(op, false, state);
  }

  // Threads exchange data through scratch, with barriers of their own behind each write.
  void exchange(const Op& op, State& state) {
    write(op, {&op}, state);
    barrier(state, false);
    state.read.insert({&op});
  }

  void start_product(const Op& op, State& state) {
    Rooms operands;
    for (int i : {0, 1}) {
      if (!op.operand(i)->type.is_place()) continue;
      read(op, room_of(op.operand(i)), true, state);
      operands.insert(room_of(op.operand(i)));
    }
    state.multiplying.insert(state.multiplying.begin(), std::move(operands));
    for (auto& [sums, age] : state.started) ++age;
    state.started[op.result()] = 0;
  }

  void wait_for_products(const Op& op, State& state) {
    const size_t pending = size_t(op.get(attr::pending));
    const Value* sums = op.operand(0);
    if (auto age = state.started.find(sums); age != state.started.end()) {
      if (!op.result()->type.is_in_flight() && age->second < pending)
        error(op, "sums are read before the product is waited for");
      state.started[op.result()] = age->second;
    }
    for (; state.multiplying.size() > pending; state.multiplying.pop_back())
      unite(state.read, state.multiplying.back());
  }

  void wait_for_copies(const Op& op, State& state) {
    if (op.operand(0)->type.completion == Completion::Barrier)  // other threads may wait there still
      for (const Op* alloc : barriers_) state.read.insert({alloc, kAnySlot});
    for (const Value* token : op.operands) {
      auto copies = state.tokens.find(token);
      if (copies == state.tokens.end()) continue;
      for (const Room& room : copies->second) {
        if (!state.copying.erase(room)) continue;
        if (token->type.completion == Completion::Group) state.written.insert(room);
        state.unfenced.insert(room);
      }
    }
  }

  void need_barrier(const Op& op, bool async_proxy, State& state) {
    found_.barrier_before[&op] |= async_proxy;
    barrier(state, async_proxy);
  }

  static void barrier(State& state, bool async_proxy) {
    state.read.clear();
    state.written.clear();
    if (async_proxy) state.unfenced.clear();
  }

  void error(const Op& op, const char* message) { errors_.emplace(&op, message); }

  // ---- Rooms
  static Room room_of(const Value* place) {
    int64_t slot = kAnySlot;
    const Op* op = place->def;
    for (; op->opcode != Opcode::SharedAlloc; op = op->operand(0)->def)
      if (op->opcode == Opcode::SharedSlot) slot = Rotations::slot_of(op->operand(1));
    return {op, op->get(attr::slots) == 1 ? 0 : slot};
  }

  bool touches(const Rooms& rooms, const Room& room) const {
    return std::any_of(rooms.begin(), rooms.end(), [&](const Room& other) {
      if (other.op == room.op) return other.slot == room.slot || other.slot == kAnySlot || room.slot == kAnySlot;
      const int64_t a = plan_.offset.at(room.op), b = plan_.offset.at(other.op);
      return a < b + plan_.size.at(other.op) && b < a + plan_.size.at(room.op);
    });
  }

  // ---- Control
  // Turns what holds before a loop into what holds wherever an iteration may begin.
  void loop(const Op& op, State& state) {
    hand_on(op, state);
    for (;;) {
      State after = state;
      for (auto& region : op.regions) {
        after = block(*region, std::move(after));
        hand_on(*region->terminator(), after);
      }
      if (const auto* allocs = rotations_.of(op)) after = turned(std::move(after), *allocs);
      const State before = state;
      unite(state, after);
      if (state == before) return;
    }
  }

  // Regions of other ops may run any number of times, in any order.
  void any_order(const Op& op, State& state) {
    for (;;) {
      const State before = state;
      for (auto& region : op.regions) unite(state, block(*region, state));
      if (state == before) return;
    }
  }

  // The state as the next iteration counts slots.
  static State turned(State state, const std::unordered_set<const Op*>& allocs) {
    auto turn = [&](Rooms& rooms) {
      Rooms out;
      for (Room room : rooms) {
        if (allocs.contains(room.op) && room.slot != kAnySlot) {
          const int64_t slots = room.op->get(attr::slots);
          room.slot = (room.slot + slots - 1) % slots;
        }
        out.insert(room);
      }
      rooms = std::move(out);
    };
    for (Rooms* rooms : {&state.read, &state.written, &state.unfenced, &state.copying, &state.begun}) turn(*rooms);
    for (auto& [token, rooms] : state.tokens) turn(rooms);
    for (Rooms& rooms : state.multiplying) turn(rooms);
    return state;
  }

  // Tokens and sums in flight that the op passes on, to what receives them.
  static void hand_on(const Op& op, State& state) {
    std::vector<std::pair<const Value*, Rooms>> tokens;  // at a time: one may move on to where another one was
    std::vector<std::pair<const Value*, size_t>> sums;
    for (const Flow& flow : flows(op.has(Terminator) ? *op.parent->parent : op))
      for (const Flow::From& source : flow.from)
        for (size_t i = 0; source.op == &op && i < source.size(); ++i)
          for (const Flow::To& to : flow.to) {
            if (auto it = state.tokens.find(source[i]); it != state.tokens.end())
              tokens.emplace_back(to[i], it->second);
            if (auto it = state.started.find(source[i]); it != state.started.end())
              sums.emplace_back(to[i], it->second);
          }
    for (auto& [value, rooms] : tokens) state.tokens[value] = rooms;
    for (auto& [value, age] : sums) state.started[value] = age;
  }

  const SharedPlan& plan_;
  Rotations rotations_;
  std::vector<const Op*> barriers_;  // allocs of barriers in shared memory
  SharedHazards found_;
  std::set<std::pair<const Op*, std::string>> errors_;
};

}  // namespace

SharedHazards find_shared_hazards(const Func& func, const SharedPlan& plan) { return HazardWalk(func, plan).run(func); }

}  // namespace tegula
