#include "codegen/pipeline/partition.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/integer_bounds.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_hazards.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/barriers.h"
#include "codegen/pipeline/bulk_copies.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/expand.h"
#include "codegen/pipeline/filled_places.h"
#include "codegen/pipeline/fit.h"
#include "codegen/pipeline/halves.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/pipeline/tiles_in_turns.h"
#include "codegen/pipeline/turns.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int kWarpsOfGroup = 4;
constexpr int kMostThreads = 1024;
// Registers of a copying thread: of one that starts bulk copies, the fewest and those that never are too few, and of
// one that computes the addresses of what it copies.
constexpr int64_t kFewestOfBulk = 24, kEnoughOfBulk = 40, kOfAddresses = 72;

int64_t fewest_of_copying(bool bulk) { return bulk ? kFewestOfBulk : kOfAddresses; }

// The loop and those around it, the outermost one first; empty: it stands in something else, too.
std::vector<Op*> nest_of(Op& loop, const Func& func) {
  std::vector<Op*> nest;
  for (Op* around = &loop; around; around = around->parent->parent) {
    if (around->opcode != Opcode::For) return {};
    nest.insert(nest.begin(), around);
  }
  return nest.front()->parent == &func.body ? nest : std::vector<Op*>();
}

// What products of the loop read that the program has stored ahead of it.
std::set<const Op*> stored_before(const Op& loop, const std::vector<Op*>& copies) {
  std::set<const Op*> stored;
  walk(*loop.regions[0], [&](const Op& op) {
    if (op.opcode != Opcode::MmaStart) return;
    for (int i : {0, 1})
      if (op.operand(i)->type.is_place()) stored.insert(alloc_of(op.operand(i)));
  });
  for (const Op* copy : copies) stored.erase(alloc_of(copy->operand(1)));
  for (const auto& op : loop.regions[0]->ops)
    if (op->opcode == Opcode::SharedTranspose) stored.erase(alloc_of(op->operand(1)));
  return stored;
}

// Whether the function uses shared memory, other than for barriers, ahead of an op of its body; also where later passes
// may have it do so, in loops (keep_in_shared) and stores (bulk_stores).
bool uses_shared_ahead(const Op& op) {
  const auto uses = count_uses(*op.parent);
  const auto uses_it = [&](const Op& other) {
    if (is_by_owners(other) && !uses.contains(other.result())) return false;
    const auto is_room = [](const Value* v) {
      return v && v->type.is_place() && !(v->def && v->def->has(attr::barriers));
    };
    if (!other.regions.empty() || other.has(WritesGlobal)) return true;
    return scratch_bytes(other) > 0 || std::ranges::any_of(other.operands, is_room);
  };
  for (const auto& other : op.parent->ops) {
    if (other.get() == &op) return false;
    if (uses_it(*other)) return true;
  }
  return false;
}

using Places = std::vector<std::vector<Value*>>;  // of each fill

Places places_of(const std::vector<Fill>& fills) {
  Places places;
  for (const Fill& fill : fills)
    for (places.emplace_back(); const Op* copy : fill.copies) places.back().push_back(copy->operand(1));
  return places;
}

bool have_same_types(const Places& places, const Places& others) {
  return std::ranges::equal(places, others, [](const auto& some, const auto& other) {
    return std::ranges::equal(some, other, [](const Value* a, const Value* b) { return a->type == b->type; });
  });
}

void replace_places(Op& loop, const Places& from, const Places& to) {
  for (size_t i = 0; i < from.size(); ++i)
    for (size_t k = 0; k < from[i].size(); ++k) replace_uses(*loop.regions[0], from[i][k], to[i][k]);
}

// Inline assembly may hold a barrier of all threads, which the copying warps would never come to; an assert has one.
bool is_understood(const Func& func) {
  bool understood = true;
  walk(func.body,
       [&](const Op& op) { understood &= op.opcode != Opcode::InlineAsmEffects && op.opcode != Opcode::DeviceAssert; });
  return understood;
}

// Whether two groups of warps are asked to take the tiles of the loops.
bool wants_turns(const std::vector<Op*>& nest, int64_t option) {
  return option == 3 || (nest.size() > 1 && nest.front()->get(attr::warp_specialize) >= 2);
}

bool can_copy(const Op& copy, const Target& target) {
  if (copy.opcode == Opcode::BulkCopy) return true;
  const int bytes = copy.operand(1)->type.bits() / 8;
  return target.has(Feature::CpAsync) && copy.get(attr::vector) * bytes >= 4;
}

// ----------------------------------------------------------------------------------------------- the program's warps

// The attributes of the arrivals that tell that a slot is empty.
Attrs readers_of(const Fill& fill) { return fill.multicast ? Attrs{{attr::whole_program, true}} : Attrs{}; }

// The sums of the loop's product stay in flight: slots are empty once the next product has begun and this one is over.
void release_late(Op& loop, Op& product, const std::vector<Fill>& fills, const Turn& turn) {
  Builder outside = before(loop);
  auto& yield = loop.regions[0]->terminator()->operands;
  Value* slot = carry(loop, number(outside, 0));
  yield.push_back(turn.slot);
  Value* begun = carry(loop, truth(outside, false));
  yield.push_back(truth(outside, true));
  keep_in_flight(loop, product);
  const ForLoop parts(loop);
  Builder inside = before(*loop.regions[0]->terminator());
  const Value* sums = parts.result(*parts.number(product.operand(2)));
  Op* over = nullptr;
  walk(*loop.parent, [&](Op& op) {
    if (op.opcode == Opcode::MmaWait && op.operand(0) == sums) over = &op;
  });
  TEGULA_CHECK(over, "nobody waits for the sums of a loop");
  Builder after = behind(*over);
  for (const Fill& fill : fills) {
    inside.create(Opcode::PhaseArrive, {slot_of(inside, fill.empty, slot), begun}, {}, readers_of(fill));
    after.create(Opcode::PhaseArrive,
                 {slot_of(after, fill.empty, parts.result(*parts.number(slot))), parts.result(*parts.number(begun))},
                 {}, readers_of(fill));
  }
}

}  // namespace

std::string Partition::why_not_divided(const LoopSchedule& schedule, const std::vector<Op*>& nest) const {
  if (!target_.has(Feature::Setmaxnreg)) return fmt::format("warps of {} pass each other no registers", target_.name);
  if (func_.num_warps() % kWarpsOfGroup) return fmt::format("num_warps is no multiple of {}", kWarpsOfGroup);
  if (kThreadsPerWarp * (func_.num_warps() + CopyNest::kWarps) > kMostThreads)
    return fmt::format("a program has {} threads at most", kMostThreads);
  if (func_.maxnreg()) return "maxnreg is given";
  if (nest.empty()) return "the loop stands in something else than loops";
  if (!schedule.product) return "its products do not run beside the program";
  if (!schedule.stores.empty()) return "the program's warps store operands of its products";
  if (!is_understood(func_)) return "all threads may have to meet at an assert or in inline assembly";
  // Copies for the next iteration of a loop around would overtake the accesses that this iteration puts in order.
  std::vector<const Value*> written;
  if (nest.size() > 1 && orders_memory(*nest.front()->regions[0], written)) return "a loop around it orders memory";
  // The copying warps begin with the program: they wait neither for what it stores nor for what it acquires.
  if (follows_order(*nest.front())) return "it may read what is acquired ahead of it";
  if (func_.num_ctas() > 1 && copies_pass_others(*nest.front()))
    return "all threads of the cluster meet before its copies are over";
  written = written_by(func_);
  for (const Op* copy : schedule.copies) {
    if (!can_copy(*copy, target_)) return "it copies less than 4 bytes at a time";
    if (copy->opcode != Opcode::BulkCopy && !no_alias(copy->operand(0), written))
      return "the kernel may write what it copies";
  }
  return {};
}

// Whether all threads of a cluster would have to meet before the copies are over, also by a barrier that
// insert_barriers puts between accesses to global memory: threads that copy do not get there.
bool Partition::copies_pass_others(const Op& nest) const {
  const auto uses = count_uses(func_.body);
  const SharedHazards hazards = find_shared_hazards(func_, plan_shared(func_));
  for (const auto& op : func_.body.ops) {
    const auto meets_others = [&](const Op& other) {
      return meets_other_blocks(other, uses) || hazards.whole_program.contains(&other);
    };
    bool meets = meets_others(*op);
    for (const auto& region : op->regions) walk(*region, [&](const Op& inner) { meets |= meets_others(inner); });
    std::vector<const Value*> written;
    if (meets || (op.get() == &nest && orders_memory(*op, written))) return true;
    if (op.get() == &nest) return false;
  }
  return false;
}

// Copies that the loop begins to read at one op, and is done with at one op, fill slots together.
std::vector<Fill> Partition::fills_of(Op& loop, const LoopSchedule& schedule) const {
  std::vector<Fill> fills;
  std::vector<Span> spans;
  for (Op* copy : schedule.copies) {
    const Span span = span_of_uses(*loop.regions[0], copy->operand(1));
    auto same = std::find_if(spans.begin(), spans.end(),
                             [&](const Span& other) { return other.first == span.first && other.last == span.last; });
    if (same == spans.end()) {
      spans.push_back(span);
      fills.push_back({{copy}, nullptr, nullptr});
    } else {
      fills[size_t(same - spans.begin())].copies.push_back(copy);
    }
  }
  for (Fill& fill : fills)
    fill.multicast = std::any_of(fill.copies.begin(), fill.copies.end(), [](const Op* copy) {
      return copy->opcode == Opcode::BulkCopy && copy->has(attr::multicast);
    });
  return fills;
}

void Partition::alloc_barriers(std::vector<Fill>& fills, int64_t slots, bool bulk) {
  for (Fill& fill : fills) {
    fill.full = tegula::alloc_barriers(func_, slots, bulk ? 1 : CopyNest::kWarps);
    fill.empty = tegula::alloc_barriers(func_, slots, func_.num_warps() * (fill.multicast ? func_.num_ctas() : 1));
  }
}

// Tells why not.
bool Partition::can_take_turns(const std::vector<Op*>& nest, bool bulk) {
  std::string why_not = !bulk ? "threads copy" : why_not_in_turns(func_, nest);
  if (!why_not.empty() && !nest.empty())
    told_.push_back({nest.back()->loc, "one group of warps takes all tiles, not two in turns: " + why_not, ""});
  return why_not.empty();
}

// A sum in flight holds a slot longer.
int64_t Partition::slots_for(const LoopSchedule& schedule, int64_t wanted, const Target& room) const {
  return fit_slots(func_, sizes_, room, {schedule.copies}, wanted + (schedule.keeps_sums() ? 1 : 0));
}

// Makes the barriers of the fills; the slots that there is room for beside them.
int64_t Partition::make_room(const std::vector<Op*>& nest, const LoopSchedule& schedule, std::vector<Fill>& fills,
                             int64_t wanted, bool bulk, bool in_turns) {
  alloc_barriers(fills, wanted, bulk);
  Target room = target_;
  if (in_turns) room.shared_per_program -= 2 * bytes_of_each_group(nest);  // wherever that lies now
  const int64_t slots = slots_for(schedule, wanted, room);
  for (const Fill& fill : fills)
    for (const Value* barriers : {fill.full, fill.empty}) barriers->def->set(attr::slots, slots);
  return slots;
}

// As divide(), as far as that asks where nothing is divided yet: both ask the same functions.
Partition::Expected Partition::expect(Op& loop, const LoopSchedule& schedule, int64_t wanted) {
  const std::vector<Op*> nest = nest_of(loop, func_);
  if (!why_not_divided(schedule, nest).empty()) return {0, false};
  const int64_t option = warp_specialize_of(loop, func_);
  const bool in_turns = wants_turns(nest, option) && why_not_in_turns(func_, nest).empty();
  if (!products_fit(func_, share_registers(kFewestOfBulk, in_turns ? 2 : 1).at_start)) return {0, false};
  std::vector<Fill> fills = fills_of(loop, schedule);
  const MovedAllocs allocs(schedule.copies, *nest.front());
  const int64_t slots = make_room(nest, schedule, fills, wanted, true, in_turns);
  const bool divides =
      slots >= 2 && (option >= 2 || pays(loop, schedule, slots, true)) && nest_.can_compute(nest, fills);
  const Expected expected{divides ? slots : 0, divides && is_alone(schedule, slots)};
  for (const Fill& fill : fills)
    for (const Value* barriers : {fill.full, fill.empty}) erase(*barriers->def);
  return expected;
}

Division Partition::divide(Op& loop, const LoopSchedule& schedule, int64_t wanted, int64_t option) {
  const std::vector<Op*> nest = nest_of(loop, func_);
  if (std::string why_not = why_not_divided(schedule, nest); !why_not.empty()) return {0, why_not};
  std::vector<Fill> fills = fills_of(loop, schedule);
  const Op* others = nest_.copy_warps();
  const bool bulk = schedule.copies[0]->opcode == Opcode::BulkCopy;
  if (others && bulk != bool(others->get(attr::one_thread))) return {0, "those of another loop copy in another way"};
  if (!bulk && nest.size() > 1) return {0, "only bulk copies go on while the loop around it does other things"};
  // The assembler compiles no instruction that takes more registers than a thread has at its start.
  const bool in_turns = wants_turns(nest, option) && can_take_turns(nest, bulk);
  if (!products_fit(func_, share_registers(fewest_of_copying(bulk), in_turns ? 2 : 1).at_start))
    return {0, "a product takes more registers than each thread of so many has at the start"};
  if (bulk && !schedule.keeps_sums())
    if (const int64_t slots = go_on(nest, schedule, fills)) return {slots, ""};

  MovedAllocs allocs(schedule.copies, *nest.front());
  for (Fill& fill : fills) fill.empty_at_first = !uses_shared_ahead(*nest.front());
  const int64_t slots = make_room(nest, schedule, fills, wanted, bulk, in_turns);
  // Threads tell that a copy is over when they have issued the next one, and a sum in flight holds its slot until the
  // next product has begun: with two slots each would wait for the other.
  const int64_t least = !bulk && schedule.keeps_sums() ? 3 : 2;
  const char* why_not = slots < least ? least == 3 ? "no three slots of what it copies fit shared memory"
                                                   : "no two slots of what it copies fit shared memory"
                        : option < 2 && !pays(loop, schedule, slots, bulk) ? "it does not pay"
                        : !nest_.add(nest, fills, slots, nullptr)
                            ? "what it copies does not follow from parameters and the loops' iterations"
                            : nullptr;
  if (why_not) {
    for (const Fill& fill : fills) erase(*fill.full->def), erase(*fill.empty->def);
    return {0, why_not};
  }
  allocs.keep();
  Divided divided{nest, fills, places_of(fills), stored_before(loop, schedule.copies), slots, {}, {}, in_turns};
  divided.turn = begin_fills(divided, bulk);
  read_fills(loop, schedule, fills, slots, divided.turn);
  order_transposes(divided, loop);
  divided_.push_back(std::move(divided));
  return {slots, ""};
}

// The loop goes on to use the slots of one before it; so copies for the one are under way while the program is at the
// other.
int64_t Partition::go_on(const std::vector<Op*>& nest, const LoopSchedule& schedule, std::vector<Fill>& fills) {
  Op& loop = *nest.back();
  const Places own = places_of(fills);
  const std::set<const Op*> stored = stored_before(loop, schedule.copies);
  auto other = std::find_if(divided_.begin(), divided_.end(), [&](const Divided& divided) {
    const bool around =
        std::equal(nest.begin(), std::prev(nest.end()), divided.nest.begin(), std::prev(divided.nest.end()));
    return around && divided.nest.back()->parent == loop.parent && have_same_types(own, divided.places) &&
           std::includes(divided.stored.begin(), divided.stored.end(), stored.begin(), stored.end()) &&
           std::ranges::equal(fills, divided.fills, {}, &Fill::multicast, &Fill::multicast);
  });
  if (other == divided_.end()) return 0;
  replace_places(loop, own, other->places);
  for (size_t i = 0; i < fills.size(); ++i)
    fills[i].full = other->fills[i].full, fills[i].empty = other->fills[i].empty;
  if (!nest_.add(nest, fills, other->slots, other->nest.back())) {
    replace_places(loop, other->places, own);
    return 0;
  }
  for (const auto& places : own)
    for (const Value* place : places) erase(*place->def);
  other->turn = go_on_with_turn(other->turn, loop, other->slots);
  other->nest = nest;
  read_fills(loop, schedule, fills, other->slots, other->turn);
  order_transposes(*other, loop);
  return other->slots;
}

// What stands ahead of all: barriers, and the turn that the loops carry.
Turn Partition::begin_fills(const Divided& divided, bool bulk) {
  Op& loop = *divided.nest.back();
  Builder first = before(*divided.nest.front()), outside = before(loop);
  if (!divided.stored.empty()) outside.create(Opcode::Barrier, {}, {}, {{attr::async_proxy, true}});
  // Where the room may have been used for something else before, the copies wait until all warps are here. Behind that
  // no warp is to wait for another one.
  for (const Fill& fill : divided.fills)
    for (int64_t slot = 0; slot < divided.slots && !fill.empty_at_first; ++slot) {
      Attrs how = readers_of(fill);
      if (bulk) how[attr::async_proxy] = true;
      first.create(Opcode::PhaseArrive, {slot_of(first, fill.empty, number(first, slot))}, {}, std::move(how));
    }
  return carry_turn(divided.nest, {number(first, 0), number(first, 0)}, divided.slots);
}

void Partition::read_fills(Op& loop, const LoopSchedule& schedule, const std::vector<Fill>& fills, int64_t slots,
                           const Turn& turn) {
  Block& body = *loop.regions[0];
  const Op* over = schedule.keeps_sums() ? wait_of(*schedule.product) : nullptr;
  std::vector<Fill> late, early;
  std::vector<std::vector<const Value*>> early_places;
  for (const Fill& fill : fills) {
    const Span span = span_of_uses(body, fill.copies[0]->operand(1));
    Builder begin = before(*span.first);
    begin.create(Opcode::PhaseWait, {slot_of(begin, fill.full, turn.slot), turn.phase});
    if (schedule.sums_up || (over && span.last == over)) {
      late.push_back(fill);
    } else {
      Builder end = behind(*span.last);
      end.create(Opcode::PhaseArrive, {slot_of(end, fill.empty, turn.slot)}, {}, readers_of(fill));
      early.push_back(fill);
      early_places.emplace_back();
      for (const Op* copy : fill.copies) early_places.back().push_back(copy->operand(1));
    }
    for (Op* copy : fill.copies) {
      Value* place = copy->operand(1);
      place->def->set(attr::slots, slots);
      take_copy(*copy);
      read_slot(body, place, turn.slot);
    }
  }
  if (late.empty()) return;
  release_late(loop, *schedule.product, late, turn);
  if (!schedule.in_halves) return;
  multiply_in_halves(loop, *schedule.product);
  const int64_t registers = share_registers(kEnoughOfBulk, 1).program;
  for (size_t i = 0; i < early.size(); ++i)
    read_ahead(loop, *schedule.product, early_places[i], early[i], turn, registers);
}

// The only op but the shared_transpose that uses its place, if it is a product that the body waits for.
static Op* product_of_transposed(const Func& func, const Op& transpose) {
  std::vector<Op*> users;
  walk(const_cast<Func&>(func).body, [&](Op& op) {
    if (std::find(op.operands.begin(), op.operands.end(), transpose.operand(1)) != op.operands.end())
      users.push_back(&op);
  });
  const bool one = users.size() == 2 && users[0] == &transpose && users[1]->opcode == Opcode::MmaStart &&
                   users[1]->parent == transpose.parent;
  return one ? users[1] : nullptr;
}

// Room and barriers for the place of a shared_transpose: those that a loop before has left, or its own.
bool Partition::give_slots(Op& transpose, Divided& divided, std::vector<Transposed>& left) {
  Value* place = transpose.operand(1);
  auto same = std::find_if(left.begin(), left.end(), [&](const Transposed& x) { return x.place->type == place->type; });
  if (same != left.end()) {
    replace_uses(func_.body, place, same->place);
    erase(*place->def);
    divided.transposed.push_back(*same);
    left.erase(same);
    return true;
  }
  MovedAllocs allocs({&transpose}, *divided.nest.front());
  const auto barriers = [&] { return tegula::alloc_barriers(func_, divided.slots, func_.num_warps()); };
  const Transposed made{place, barriers(), barriers()};
  place->def->set(attr::slots, divided.slots);
  if (plan_shared(func_).bytes > target_.shared_per_program) {
    place->def->set(attr::slots, 1);
    erase(*made.full->def), erase(*made.empty->def);
    return false;
  }
  allocs.keep();
  Builder first = before(*divided.nest.front());
  for (int64_t slot = 0; slot < divided.slots; ++slot)
    first.create(Opcode::PhaseArrive, {slot_of(first, made.empty, number(first, slot))});
  divided.transposed.push_back(made);
  return true;
}

//   shared_transpose v, place              phase_wait empty[slot]
//   ..                                     shared_transpose v, place[slot];  phase_arrive full[slot]
//   s = mma_wait(mma_start p, place)  ->   ..
//                                          phase_wait full[slot]
//                                          s = mma_wait(mma_start p, place[slot]);  phase_arrive empty[slot]
//
// A warpgroup may be an iteration ahead of another one then, where a barrier would have all of them begin the product
// together.
void Partition::order_transposes(Divided& divided, Op& loop) {
  std::vector<Op*> transposes;
  for (auto& op : loop.regions[0]->ops)
    if (op->opcode == Opcode::SharedTranspose) transposes.push_back(op.get());
  std::vector<Transposed> left = std::exchange(divided.transposed, {});
  for (Op* transpose : transposes) {
    Op *product = product_of_transposed(func_, *transpose), *over = product ? wait_of(*product) : nullptr;
    if (!over || over->get(attr::pending) || !give_slots(*transpose, divided, left)) continue;
    const auto [place, full, empty] = divided.transposed.back();
    const auto& [slot, phase] = divided.turn;
    Builder ahead = before(*transpose), done = behind(*transpose), begin = before(*product), end = behind(*over);
    ahead.create(Opcode::PhaseWait, {slot_of(ahead, empty, slot), phase});
    done.create(Opcode::PhaseArrive, {slot_of(done, full, slot)}, {}, {{attr::async_proxy, true}});
    begin.create(Opcode::PhaseWait, {slot_of(begin, full, slot), phase});
    end.create(Opcode::PhaseArrive, {slot_of(end, empty, slot)});
    transpose->set(attr::phases, true);
    read_slot(*loop.regions[0], place, slot);
  }
}

// -------------------------------------------------------------------------------------------------------- balance

Partition::Registers Partition::share_registers(int64_t copying, int64_t groups) const {
  const int64_t threads = kThreadsPerWarp * func_.num_warps() * groups,
                copying_threads = kThreadsPerWarp * CopyNest::kWarps;
  auto whole = [](int64_t registers) { return std::min<int64_t>(registers, 255) / 8 * 8; };
  const int64_t at_start = whole(target_.registers_per_sm / (threads + copying_threads));
  return {at_start, whole((at_start * (threads + copying_threads) - copying * copying_threads) / threads), copying};
}

// Where the addresses of bulk copies take some arithmetic, the fewest registers are a few too few, which the assembler
// spills, and tuning leaves out what spills. A program that sums up one product can do without what is more; one with
// several products takes what it can get.
Partition::Registers Partition::balanced_registers(bool bulk) const {
  const int64_t groups = groups_of(func_);
  const Registers most = share_registers(fewest_of_copying(bulk), groups),
                  even = share_registers(kEnoughOfBulk, groups);
  return bulk && !has_chained_products(func_) && products_fit(func_, even.program) ? even : most;
}

bool Partition::is_alone(const LoopSchedule& schedule, int64_t slots) const {
  return programs_by_room(func_, target_, shared_bytes_with(func_, sizes_, schedule.copies, slots)) <= 1;
}

// How many programs an SM would run at a time without warps that copy.
int64_t Partition::programs_of(const LoopSchedule& schedule, int64_t slots) const {
  const int64_t by_room = programs_by_room(func_, target_, shared_bytes_with(func_, sizes_, schedule.copies, slots));
  return std::min(by_room, programs_by_registers(func_, target_, expected_registers(func_)));
}

// Measured on an H200. A loop that only sums up gains if its copies are bulk copies: they then cost its warps nothing,
// not even a barrier, while threads that copy keep no more of them under way than the warps themselves would; so does
// one that computes its product's fragments, whose warpgroups then need not wait for each other. Others gain with two
// warpgroups or more that share an SM with no other program: one computes while the other one multiplies.
// Warps that copy take registers as well, and what the program then spills costs more than they gain: so a program that
// takes nearly all registers is left alone. (Registers of products' operands are not counted in full.)
// A loop that has no more iterations than slots copies all it needs at its begin, whoever does; more programs at a
// time, which have the registers of copying warps, are worth more than those. So are many programs at a time where the
// loop has few iterations: each begins and ends beside others, while a program with copying warps is alone.
bool Partition::pays(Op& loop, const LoopSchedule& schedule, int64_t slots, bool bulk) const {
  if (const auto trips = most_trips(loop); trips && nest_of(loop, func_).size() == 1) {
    constexpr int64_t kFewTrips = 8, kManyPrograms = 4;
    if (*trips <= slots) return false;
    if (*trips <= kFewTrips && programs_of(schedule, slots) >= kManyPrograms) return false;
  }
  constexpr int kLeastWarps = 2 * kWarpsOfGroup;
  const bool gains =
      schedule.sums_up || schedule.has_fragments
          ? bulk
          : func_.num_warps() > kLeastWarps || (func_.num_warps() == kLeastWarps && is_alone(schedule, slots));
  return gains && 8 * expected_registers(func_) <= 7 * share_registers(fewest_of_copying(bulk), 1).program;
}

std::vector<Transfer> Partition::balance() {
  Op* copy_warps = nest_.copy_warps();
  if (!copy_warps) return std::move(told_);
  std::vector<Transfer> told = std::move(told_);
  for (const Divided& divided : divided_) {
    if (divided.in_turns) {
      take_tiles_in_turns(func_, *copy_warps, divided.nest, divided.turn, divided.slots);
      told.push_back({divided.nest.back()->loc, "two groups of warps take tiles in turns", ""});
    } else if (copy_warps->get(attr::one_thread)) {
      feed_loops_around(divided.nest, told);
    }
  }
  const Registers registers = balanced_registers(copy_warps->get(attr::one_thread));
  if (registers.program > registers.at_start) copy_warps->set(attr::registers, {registers.program, registers.copying});
  // No block may end while warps of others arrive at its barriers.
  for (const Divided& divided : divided_)
    if (std::any_of(divided.fills.begin(), divided.fills.end(), [](const Fill& fill) { return fill.multicast; }))
      nest_.wait_for_readers(*divided.nest.back(), divided.fills, divided.slots);
  for (Transfer& of_products : schedule_chained_products(func_, registers.program))
    told.push_back(std::move(of_products));
  return told;
}

}  // namespace tegula
