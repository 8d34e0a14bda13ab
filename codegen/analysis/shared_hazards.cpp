#include "codegen/analysis/shared_hazards.h"

#include <algorithm>
#include <boost/container/flat_set.hpp>
#include <map>
#include <optional>
#include <set>
#include <unordered_set>

#include "codegen/analysis/global_order.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/axis_order.h"

namespace tegula {

using namespace ir;

namespace {

// Room that is accessed: an op's scratch or one slot of a shared_alloc. Slots that a loop takes in turn are counted
// from the one that its present iteration calls number 0. Negative: any slot; of a loop that is over kAnySlot - 1 - n,
// where the loop had called it n: a loop that begins anew counts from elsewhere.
struct Room {
  const Op* op;
  int64_t slot = 0;
  auto operator<=>(const Room&) const = default;
};
constexpr int64_t kAnySlot = -1;
using Rooms = boost::container::flat_set<Room>;  // states are copied again and again

struct State {
  Rooms read;                              // by threads since the last barrier
  Rooms written;                           // by threads since the last barrier, copies that were waited for among it
  Rooms unfenced;                          // written, and not yet ordered for the asynchronous proxy
  Rooms copying;                           // written by copies that nothing has waited for yet
  Rooms in_bulk;                           // of these, by bulk copies: not by threads, but by the asynchronous proxy
  Rooms begun;                             // by those since the last commit
  std::map<const Value*, Rooms> tokens;    // what the copies of a token write
  std::vector<Rooms> multiplying;          // what products under way read, the latest first
  std::map<const Value*, size_t> started;  // for sums in flight: products started since their latest one
  GlobalAccesses global;
  bool operator==(const State&) const = default;
};

void unite(Rooms& into, const Rooms& more) {
  if (!std::ranges::includes(into, more)) into.insert(boost::container::ordered_unique_range, more.begin(), more.end());
}

void unite(State& into, const State& other) {
  unite(into.read, other.read);
  unite(into.written, other.written);
  unite(into.unfenced, other.unfenced);
  unite(into.copying, other.copying);
  unite(into.in_bulk, other.in_bulk);
  unite(into.begun, other.begun);
  for (const auto& [token, rooms] : other.tokens) unite(into.tokens[token], rooms);
  if (into.multiplying.size() < other.multiplying.size()) into.multiplying.resize(other.multiplying.size());
  for (size_t i = 0; i < other.multiplying.size(); ++i) unite(into.multiplying[i], other.multiplying[i]);
  for (const auto& [sums, age] : other.started) {
    auto known = into.started.try_emplace(sums, age).first;
    known->second = std::min(known->second, age);
  }
  unite(into.global, other.global);
}

bool encloses(const Op& outer, const Op& op) {
  for (const Op* around = &op; around; around = around->parent->parent)
    if (around == &outer) return true;
  return false;
}

// The shared_allocs whose slots a loop takes in turn, and the slots that indices stand for.
class Rotations {
 public:
  using Allocs = std::unordered_set<const Op*>;

  explicit Rotations(const Func& func) {
    std::unordered_map<const Op*, std::vector<const Op*>> places;  // of an alloc: its shared_slots
    walk(func.body, [&](const Op& op) {
      if (op.opcode == Opcode::SharedSlot) places[alloc_of(op.operand(0))].push_back(&op);
    });
    for (const auto& [alloc, slots] : places) add(*alloc, slots);
  }

  /// Whose slots the next iteration counts from one further on.
  const Allocs& turned_by(const Op& loop) const { return of(turned_by_, loop); }
  /// Whose slots nobody counts from there after the loop.
  const Allocs& left_by(const Op& loop) const { return of(left_by_, loop); }
  /// The slot that the place is of, as the code around counts.
  int64_t slot_of(const Op& place) const {
    auto slot = slots_.find(&place);
    return slot == slots_.end() ? kAnySlot : slot->second;
  }

 private:
  // The loop that moves an index on, and the outermost one that carries it, where it begins with `first`.
  struct Rotation {
    const Op *loop, *root;
    int64_t first;
  };

  static const Allocs& of(const std::unordered_map<const Op*, Allocs>& by, const Op& loop) {
    static const Allocs none;
    auto allocs = by.find(&loop);
    return allocs == by.end() ? none : allocs->second;
  }

  void add(const Op& alloc, const std::vector<const Op*>& places) {
    const int64_t slots = alloc.get(attr::slots);
    std::vector<std::pair<const Op*, Rotation>> found;
    for (const Op* place : places)
      if (auto rotation = rotation_of(place->operand(1), slots)) found.emplace_back(place, *rotation);
    // Two loops that count differently at a time: no slot is told from another one.
    for (const auto& [place, one] : found)
      for (const auto& [other_place, other] : found)
        if (one.loop != other.loop && encloses(*one.root, *other.root)) return;
    for (const auto& [place, rotation] : found) {
      turned_by_[rotation.loop].insert(&alloc);
      left_by_[rotation.root].insert(&alloc);
      slots_[place] = rotation.first;
    }
    for (const Op* place : places) {
      const auto number = constant_integer(place->operand(1));
      const bool counted = std::any_of(found.begin(), found.end(),
                                       [&](const auto& other) { return encloses(*other.second.root, *place); });
      if (number && !counted) slots_[place] = *number;
    }
  }

  // Loops around may hand on the index where the inner one has left it.
  static std::optional<Rotation> rotation_of(const Value* index, int64_t slots) {
    const Op* loop = index->def ? nullptr : for_of(index);
    auto carried = loop ? ForLoop(*loop).number(index) : std::nullopt;
    if (!carried || !moves_on(index, ForLoop(*loop).next(*carried), slots)) return std::nullopt;
    for (const Op* root = loop;;) {
      const Value* init = ForLoop(*root).init(*carried);
      if (const auto first = constant_integer(init)) {
        if (*first < 0 || *first >= slots) return std::nullopt;
        return Rotation{loop, root, *first};
      }
      const Op* outer = init->def ? nullptr : for_of(init);
      const auto around = outer ? ForLoop(*outer).number(init) : std::nullopt;
      if (!around || ForLoop(*outer).next(*around) != ForLoop(*root).result(*carried)) return std::nullopt;
      root = outer, carried = around;
    }
  }

  // Whether `next` is the slot after that of `index`, as the pipeline writes it: x == slots ? 0 : x with x = index
  // + 1.
  static bool moves_on(const Value* index, const Value* next, int64_t slots) {
    const Op* select = next->def;
    if (!select || select->opcode != Opcode::Select) return false;
    const Op *wraps = select->operand(0)->def, *add = select->operand(2)->def;
    return wraps && wraps->opcode == Opcode::Eq && wraps->operand(0) == select->operand(2) &&
           constant_integer(wraps->operand(1)) == slots && constant_integer(select->operand(1)) == 0 && add &&
           add->opcode == Opcode::Add && add->operand(0) == index && constant_integer(add->operand(1)) == 1;
  }

  std::unordered_map<const Op*, Allocs> turned_by_, left_by_;
  std::unordered_map<const Op*, int64_t> slots_;  // of shared_slots
};

class HazardWalk {
  using Barriers = decltype(SharedHazards::barrier_before);

 public:
  HazardWalk(const Func& func, const SharedPlan& plan)
      : plan_(plan), cluster_(func.num_ctas() > 1), order_(func.num_ctas()), rotations_(func) {
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
    if (order_.needs_barrier(op, state.global)) need_barrier(op, false, state, true);
    order_.add(op, state.global);
    switch (op.opcode) {
      case Opcode::Barrier:
        return barrier(state, op.get(attr::async_proxy), op.get(attr::whole_program));
      case Opcode::AsyncCopy:
      case Opcode::BulkCopy:
        return begin_copy(op, room_of(op.operand(1)), state);
      case Opcode::AsyncCommit:
        state.tokens[op.result()] = std::exchange(state.begun, {});
        return;
      case Opcode::AsyncWait:
        return wait_for_copies(op, state);
      case Opcode::SharedStore:
        return write_by_threads(op, room_of(op.operand(1)), state);
      case Opcode::SharedTranspose:
        read_by_threads(op, room_of(op.operand(0)), state);
        if (!op.get(attr::phases))  // else barriers in shared memory order it with the products
          write_by_threads(op, room_of(op.operand(1)), state);
        return;
      case Opcode::BulkStore:  // nobody but the warps that hold a box uses its part of the place from here on
        return write(op, room_of(op.operand(2)), false, state);
      case Opcode::SharedRead:
        return read_by_threads(op, room_of(op.operand(0)), state);
      case Opcode::ThreadStore:
        write(op, room_of(op.operand(1)), false, state);
        state.written.insert(room_of(op.operand(1)));
        return;
      case Opcode::ThreadRead:  // by the threads that have stored it
        state.read.insert(room_of(op.operand(0)));
        return;
      case Opcode::SharedAlloc:
        // Barriers are set up, and a barrier of threads after that is a part of it.
        if (!op.get(attr::barriers) || precedes_copy_warps(op)) return;
        write(op, {&op, kAnySlot}, false, state);
        return barrier(state, op.get(attr::arrivals) > 0);
      case Opcode::SharedFree:  // one thread ends the barriers
        return write_by_threads(op, {op.operand(0)->def, kAnySlot}, state);
      case Opcode::CopyWarps:  // barriers in shared memory order it with the program
        return;
      case Opcode::MmaStart:
        return start_product(op, state);
      case Opcode::MmaWait:
        return wait_for_products(op, state);
      case Opcode::If:
        return branches(op, state);
      case Opcode::For:
        return loop(op, state);
      case Opcode::While:
        loop(op, state);
        state = block(*op.regions[0], std::move(state));  // it ends after a condition that does not hold
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

  void write(const Op& op, const Room& room, bool in_bulk, State& state) {
    for (const Rooms& rooms : state.multiplying)
      if (touches(rooms, room)) error(op, "a place is written while a product reads it");
    if (touches(state.copying, room)) error(op, "a place is written while a copy writes it");
    const bool unfenced = in_bulk && touches(state.unfenced, room);
    if (unfenced || touches(state.read, room) || touches(state.written, room)) need_barrier(op, unfenced, state);
  }

  void write_own(const Op& op, const Room& room, State& state) {
    auto of_others = [&](const Rooms& rooms) {
      Rooms others;
      for (const Room& other : rooms)
        if (other.op != room.op) others.insert(others.end(), other);
      return others;
    };
    if (touches(state.copying, room)) error(op, "a place is written while a copy writes it");
    if (touches(of_others(state.read), room) || touches(of_others(state.written), room)) need_barrier(op, false, state);
  }

  void read_by_threads(const Op& op, const Room& room, State& state) {
    read(op, room, false, state);
    state.read.insert(room);
  }

  void write_by_threads(const Op& op, const Room& room, State& state) {
    write(op, room, false, state);
    state.written.insert(room);
    state.unfenced.insert(room);
  }

  void begin_copy(const Op& op, const Room& room, State& state) {
    const bool in_bulk = op.opcode == Opcode::BulkCopy;
    // A thread has read its part before it copies there again.
    if (is_own_copy(op))
      write_own(op, room, state);
    else
      write(op, room, in_bulk, state);
    state.copying.insert(room);
    state.begun.insert(room);
    if (in_bulk) state.in_bulk.insert(room);
  }

  // Threads exchange data through scratch, with barriers of their own after each write.
  void exchange(const Op& op, State& state) {
    if (plan_.across.contains(&op)) {                                       // its scratch is its own
      if (op.opcode != Opcode::Reduce) return barrier(state, false, true);  // all blocks wait for each other
      // Warps meet to reduce among each other; then threads wait for data alone.
      if (bits_along(*op.operand(0)->type.layout, Dim::Warp, int(op.get(attr::axis))).empty()) return;
    }
    write(op, {&op}, false, state);
    state.unfenced.insert({&op});
    // Other blocks read it, and all of them meet before and after.
    if (op.opcode == Opcode::ExchangeBlocks) return barrier(state, false, true);
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
        if (!state.copying.erase(room) || state.in_bulk.erase(room)) continue;
        if (token->type.completion == Completion::Group) state.written.insert(room);
        state.unfenced.insert(room);
      }
    }
  }

  // `whole_program`: of all its blocks.
  void need_barrier(const Op& op, bool async_proxy, State& state, bool whole_program = false) {
    if (!searching_) found_.barrier_before[&op] |= async_proxy;
    if (!searching_ && whole_program && cluster_) found_.whole_program.insert(&op);
    barrier(state, async_proxy, whole_program);
  }

  void barrier(State& state, bool async_proxy, bool whole_program = false) const {
    state.read.clear();
    state.written.clear();
    if (whole_program || !cluster_) state.global.since_barrier.clear();
    if (async_proxy) state.unfenced.clear();
  }

  void error(const Op& op, const char* message) {
    if (!searching_) errors_.emplace(&op, message);
  }

  // ---- Rooms
  Room room_of(const Value* place) const {
    int64_t slot = kAnySlot;
    const Op* op = place->def;
    for (; op->opcode != Opcode::SharedAlloc; op = op->operand(0)->def)
      if (op->opcode == Opcode::SharedSlot) slot = rotations_.slot_of(*op);
    return {op, op->get(attr::slots) == 1 ? 0 : slot};
  }

  bool touches(const Rooms& rooms, const Room& room) const {
    return std::any_of(rooms.begin(), rooms.end(), [&](const Room& other) {
      if (other.op == room.op) return other.slot == room.slot || other.slot < 0 || room.slot < 0;
      const int64_t a = plan_.offset.at(room.op), b = plan_.offset.at(other.op);
      return a < b + plan_.size.at(other.op) && b < a + plan_.size.at(room.op);
    });
  }

  // ---- Control
  void branches(const Op& op, State& state) {
    State other = block(*op.regions[1], state);
    hand_on(*op.regions[1]->terminator(), other);
    state = block(*op.regions[0], std::move(state));
    hand_on(*op.regions[0]->terminator(), state);
    unite(state, other);
  }

  // Turns what holds before a loop into what holds after it, which is what holds wherever an iteration may begin.
  // Only an iteration from there on tells what is needed: with less known, barriers would come later.
  void loop(const Op& op, State& state) {
    hand_on(op, state);
    if (!searching_) order_what_precedes(op, state);
    until_stable(state, [&](State& next) { iteration(op, next); });
    order_.leave(op, state.global);
    forget_inside(op, state);
    number_slots(state, rotations_.left_by(op), [](int64_t slot, int64_t) { return kAnySlot - 1 - slot; });
  }

  // What is known of tokens and sums of the loop's regions, which nobody can use behind it: else the state of a
  // function would grow with the number of its loops.
  static void forget_inside(const Op& op, State& state) {
    const auto is_inside = [&](const auto& known) {
      const Value& value = *known.first;
      const Op* around = (value.def ? value.def->parent : value.block)->parent;
      return around && encloses(op, *around);
    };
    std::erase_if(state.tokens, is_inside);
    std::erase_if(state.started, is_inside);
  }

  // What threads did ahead of the loop alone is ordered there, by one barrier, rather than in each iteration.
  void order_what_precedes(const Op& op, State& state) {
    const Barriers inside = barriers_inside(op, state);
    if (inside.empty()) return;
    auto behind = [&](bool async_proxy, bool whole_program) {
      State ordered = state;
      barrier(ordered, async_proxy, whole_program);
      return barriers_inside(op, std::move(ordered));
    };
    const Barriers behind_all = behind(true, true);
    if (behind_all == inside) return;
    const bool whole_program = cluster_ && behind(true, false) != behind_all;
    need_barrier(op, behind(false, whole_program) != behind_all, state, whole_program);
  }

  // Those that the loop needs if it begins in that state.
  Barriers barriers_inside(const Op& op, State state) {
    Barriers before = std::exchange(found_.barrier_before, {});
    auto errors = errors_;
    until_stable(state, [&](State& next) { iteration(op, next); });
    errors_ = std::move(errors);
    return std::exchange(found_.barrier_before, std::move(before));
  }

  void iteration(const Op& op, State& state) {
    for (auto& region : op.regions) {
      state = block(*region, std::move(state));
      hand_on(*region->terminator(), state);
    }
    number_slots(state, rotations_.turned_by(op),
                 [](int64_t slot, int64_t slots) { return (slot + slots - 1) % slots; });
    order_.next_iteration(op, state.global);
  }

  // Regions of other ops may run any number of times, in any order.
  void any_order(const Op& op, State& state) {
    until_stable(state, [&](State& next) {
      const State before = next;
      for (auto& region : op.regions) unite(next, block(*region, before));
    });
  }

  template <class Step>
  void until_stable(State& state, Step step) {
    ++searching_;
    for (State before;;) {
      State next = before = state;
      step(next);
      unite(state, next);
      if (state == before) break;
    }
    --searching_;
    State last = state;
    if (!searching_) step(last);
  }

  // Counts the slots of these allocs from elsewhere.
  template <class Number>
  static void number_slots(State& state, const Rotations::Allocs& allocs, Number number) {
    if (allocs.empty()) return;
    auto change = [&](Rooms& rooms) {
      Rooms out;
      for (Room room : rooms) {
        if (allocs.contains(room.op) && room.slot >= 0) room.slot = number(room.slot, room.op->get(attr::slots));
        out.insert(room);
      }
      rooms = std::move(out);
    };
    for (Rooms* rooms : {&state.read, &state.written, &state.unfenced, &state.copying, &state.in_bulk, &state.begun})
      change(*rooms);
    for (auto& [token, rooms] : state.tokens) change(rooms);
    for (Rooms& rooms : state.multiplying) change(rooms);
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
  const bool cluster_;  // several blocks run a program
  GlobalOrder order_;
  Rotations rotations_;
  std::vector<const Op*> barriers_;  // allocs of barriers in shared memory
  int searching_ = 0;                // for what holds where an iteration begins: nothing is recorded
  SharedHazards found_;
  std::set<std::pair<const Op*, std::string>> errors_;
};

}  // namespace

SharedHazards find_shared_hazards(const Func& func, const SharedPlan& plan) { return HazardWalk(func, plan).run(func); }

bool verify_order(const Func& func, Diagnostics& diags) {
  const SharedHazards found = find_shared_hazards(func, plan_shared(func));
  for (const auto& [op, message] : found.errors) diags.error(op->loc, op->info().text + (": " + message));
  walk(func.body, [&](const Op& op) {
    if (found.barrier_before.contains(&op))
      diags.error(op.loc, op.info().text + std::string(": no barrier between it and an access of other threads"));
  });
  return found.errors.empty() && found.barrier_before.empty();
}

}  // namespace tegula
