#include "codegen/analysis/shared_plan.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/conversion.h"
#include "codegen/analysis/exchange_rounds.h"
#include "codegen/analysis/gather_plan.h"
#include "codegen/analysis/sort_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/axis_order.h"
#include "codegen/product/plan.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

constexpr int64_t kAlignment = 128;
constexpr int64_t kBarrierAlignment = 8, kBarrierBytes = 8;
constexpr int64_t kPlaceAlignment = 1024;  ///< the period of the widest swizzle
/// Up to this many bytes in all, every op has its own area; larger ones share. Fewer bytes where more programs fit a
/// multiprocessor so: of the largest, with threads that take as many registers as there can be; what that gives others
/// costs them a few barriers.
constexpr int64_t kPrivateBytes = 16 << 10, kLeastPrivateBytes = 4 << 10;
constexpr int64_t kSharedOfMultiprocessor = 228 << 10, kSharedBeside = 1024, kWarpsOfMostRegisters = 8;

int64_t round_up(int64_t bytes, int64_t alignment) { return (bytes + alignment - 1) / alignment * alignment; }

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

// Partial results of the warps for each element along the other axes, then those of the blocks of a cluster.
int64_t combine_scratch(const ir::Op& op) {
  const ir::Type& in = op.operand(0)->type;
  const int axis = int(op.get(ir::attr::axis));
  auto partials = [&](Dim dim) { return int64_t(1) << bits_along(*in.layout, dim, axis).size(); };
  int64_t warps = partials(Dim::Warp), blocks = partials(Dim::Block);
  if (op.info().combines_in_order() && warps > 1) warps *= axis_order(*in.layout, axis)->rounds;
  const int64_t elements = in.num_elements() / in.shape[size_t(axis)];
  int64_t bytes = 0;
  for (const ir::Value* x : op.operands) {
    if (warps > 1) bytes += elements * warps * element_bytes(x->type) + 16;
    if (blocks > 1) bytes += exchange_slots(op) * (elements * blocks * bytes_in_other_block(x->type) + 16);
  }
  if (blocks > 1) bytes += exchange_slots(op) * kBarrierBytes;
  return bytes;
}

// Which ops complete what runs beside the program.
class Waits {
 public:
  /// For all ops, in the order of the program, that take tokens or sums in flight.
  void add(const ir::Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (op.operands[i] && (op.operands[i]->type.is_token() || op.operands[i]->type.is_in_flight()))
        uses_[op.operands[i]].emplace_back(&op, i);
  }

  /// The waits to which a token or sums in flight come through loops and branches. Null among them: on some way there
  /// is none.
  std::vector<const ir::Op*> of(const ir::Value* value) const {
    std::vector<const ir::Op*> waits;
    std::unordered_set<const ir::Value*> seen;
    follow(value, seen, waits);
    return waits;
  }

 private:
  void follow(const ir::Value* value, std::unordered_set<const ir::Value*>& seen,
              std::vector<const ir::Op*>& waits) const {
    if (!seen.insert(value).second) return;
    const auto uses = uses_.find(value);
    if (uses == uses_.end()) return waits.push_back(nullptr);
    for (const auto& [op, operand] : uses->second) {
      const bool goes_on =
          op->opcode == ir::Opcode::MmaStart ||
          (op->opcode == ir::Opcode::MmaWait && op->get(ir::attr::pending) > 0 && op->result()->type.is_in_flight());
      if (goes_on)
        follow(op->result(), seen, waits);
      else if (ir::is_handed_on(*op, operand))
        hand_on(*op, operand, seen, waits);
      else
        waits.push_back(op);
    }
  }

  void hand_on(const ir::Op& op, size_t operand, std::unordered_set<const ir::Value*>& seen,
               std::vector<const ir::Op*>& waits) const {
    for (const ir::Flow& flow : ir::flows(op.has(ir::Terminator) ? *op.parent->parent : op))
      for (const ir::Flow::From& from : flow.from)
        for (const ir::Flow::To& to : flow.to)
          if (from.op == &op && operand >= from.first) follow(to[operand - from.first], seen, waits);
  }

  std::unordered_map<const ir::Value*, std::vector<std::pair<const ir::Op*, size_t>>> uses_;
};

// A shared_alloc, and from which op to which it needs its room, in the order of the program: from its first use on, or
// from where its barriers are set up.
struct Room {
  const ir::Op* alloc;
  int begin, end;          ///< end < begin: not used so far
  const ir::Block* block;  ///< whose iterations each begin with the room free
  int64_t bytes = 0, offset = 0;
};

// What the groups of warps that run a program have in common: what copy_warps use, and what one group uses at a time,
// in its turn to store.
class CommonRooms {
 public:
  explicit CommonRooms(const ir::Func& func) : groups_(ir::groups_of(func)) {
    if (groups_ > 1) visit(func.body, false, false);
  }

  bool there_are() const { return groups_ > 1; }
  bool has(const ir::Op& alloc) const { return there_are() && (filled_.contains(&alloc) || !own_.contains(&alloc)); }
  bool is_in_turn(const ir::Op& op) const { return in_turn_.contains(&op); }
  int64_t scratch() const { return scratch_; }  ///< bytes that ops in a turn exchange data through

 private:
  void visit(const ir::Block& block, bool in_turn, bool beside) {
    for (const auto& op : block.ops) {
      const bool turns = op->opcode == ir::Opcode::TurnWait || op->opcode == ir::Opcode::TurnPass;
      if (turns && op->get(ir::attr::of_stores)) in_turn = op->opcode == ir::Opcode::TurnWait;
      if (in_turn) in_turn_.insert(op.get()), scratch_ = std::max(scratch_, scratch_bytes(*op));
      for (const ir::Value* v : op->operands)
        if (v && v->type.is_place() && !in_turn) (beside ? filled_ : own_).insert(alloc_of(v));
      for (const auto& region : op->regions) visit(*region, in_turn, beside || op->info().runs_beside());
    }
  }

  const int groups_;
  std::unordered_set<const ir::Op*> filled_, own_;  // allocs
  std::unordered_set<const ir::Op*> in_turn_;
  int64_t scratch_ = 0;
};

// Finds the rooms of a function and where they lie.
class RoomPlan {
 public:
  explicit RoomPlan(const ir::Func& func) : common(func) {
    number_ops(func.body, false);
    for (const ir::Op* op : users_) visit(*op);
    std::stable_sort(rooms.begin(), rooms.end(), [&](const Room& a, const Room& b) {
      const bool first = common.has(*a.alloc), second = common.has(*b.alloc);
      return first != second ? first : a.begin < b.begin;
    });
    place();
  }

  // Finds where the rooms lie, with the slots that their shared_allocs have now.
  void place() {
    bytes = common_scratch = common_bytes = 0;
    for (size_t i = 0; i < rooms.size(); ++i) {
      Room& room = rooms[i];
      room.bytes = place_bytes(room.alloc->result()->type) * room.alloc->get(ir::attr::slots);
      if (!common.has(*room.alloc)) end_common();
      const int64_t alignment = room.alloc->get(ir::attr::barriers) ? kBarrierAlignment : kPlaceAlignment;
      room.offset = first_gap(taken(room.begin, room.end, i), room.bytes, alignment);
      bytes = std::max(bytes, room.offset + room.bytes);
    }
    end_common();
  }

  std::vector<Room> rooms;
  int64_t bytes = 0;
  CommonRooms common;
  int64_t common_scratch = 0, common_bytes = 0;  ///< where scratch in turns lies; where what is common ends

  /// What rooms take that are in use at the op of this number, in the order of a walk.
  using Areas = std::vector<std::pair<int64_t, int64_t>>;
  Areas taken_at(int number) const { return taken(number, number, rooms.size()); }

  static int64_t first_gap(const Areas& taken, int64_t bytes, int64_t alignment) {
    int64_t at = 0;
    for (const auto& [begin, end] : taken) {
      if (at + bytes <= begin) break;
      at = std::max(at, round_up(end, alignment));
    }
    return at;
  }

 private:
  void end_common() {
    if (!common.there_are() || common_bytes) return;
    common_scratch = round_up(bytes, kAlignment);
    bytes = common_bytes = round_up(common_scratch + common.scratch(), kPlaceAlignment);
  }

  // Whether it takes or gives what is not data in registers.
  static bool uses_rooms(const ir::Op& op) {
    const auto is_other = [](const auto& v) { return v && v->type.kind != ir::Kind::Data; };
    return std::any_of(op.operands.begin(), op.operands.end(), is_other) ||
           std::any_of(op.results.begin(), op.results.end(), is_other);
  }

  // `beside`: of copy_warps, which use a room while the program does.
  void number_ops(const ir::Block& block, bool beside) {
    const ir::Op* commit = nullptr;  // the next one, if it is plain to see
    for (auto it = block.ops.rbegin(); it != block.ops.rend(); ++it) {
      const auto& op = *it;
      if (op->opcode == ir::Opcode::AsyncCommit)
        commit = op.get();
      else if (!op->regions.empty() && !op->info().isolates())
        commit = nullptr;
      else if (op->opcode == ir::Opcode::AsyncCopy || op->opcode == ir::Opcode::BulkCopy)
        commit_of_[op.get()] = commit;
    }
    for (const auto& op : block.ops) {
      const int first = next_++;
      const bool uses = uses_rooms(*op);
      if (uses) {
        waits_.add(*op);
        if (!beside) users_.push_back(op.get());
      }
      for (const auto& region : op->regions) number_ops(*region, beside || op->info().runs_beside());
      if (uses || !op->regions.empty()) range_[op.get()] = {first, next_ - 1};
    }
  }

  void visit(const ir::Op& op) {
    if (op.opcode == ir::Opcode::SharedAlloc) {
      room_of_[&op] = rooms.size();
      const int here = range_.at(&op).first;
      rooms.push_back({&op, here, here - 1, op.parent});
      if (op.get(ir::attr::barriers)) rooms.back().end = here;
      if (ir::precedes_copy_warps(op)) rooms.back().end = INT_MAX;
    }
    for (const ir::Value* v : op.operands) {
      if (!v || !v->type.is_place()) continue;
      Room& room = rooms[room_of_.at(alloc_of(v))];
      keep_until(room, &op);
      if (op.opcode == ir::Opcode::MmaStart) keep_until_complete(room, op.result());
    }
    if (op.opcode == ir::Opcode::BulkStore) keep_until(rooms[room_of_.at(alloc_of(op.operand(2)))], nullptr);
    if (op.opcode == ir::Opcode::AsyncCopy || op.opcode == ir::Opcode::BulkCopy) {
      const ir::Op* commit = commit_of_.at(&op);
      keep_until_complete(rooms[room_of_.at(alloc_of(op.operand(1)))], commit ? commit->result() : nullptr);
    }
  }

  void keep_until_complete(Room& room, const ir::Value* under_way) {
    if (!under_way) return keep_until(room, nullptr);
    for (const ir::Op* wait : waits_.of(under_way)) keep_until(room, wait);
  }

  // Keeps the room until the op is over, with the loops around it that the room is not made in anew; null: for good.
  // An op ahead of the room is one of the next iteration.
  void keep_until(Room& room, const ir::Op* op) {
    for (;;) {
      const ir::Op* within = op;
      while (within && within->parent != room.block) within = within->parent->parent;
      if (within) {
        const Range& range = range_.at(within);
        if (range.first >= room.begin) {
          if (room.end < room.begin) room.begin = range.first;
          room.end = std::max(room.end, range.last);
          return;
        }
      }
      const ir::Op* around = room.block->parent;
      room.end = around ? std::max(room.end, range_.at(around).last) : INT_MAX;
      if (!around) return;
      room.begin = range_.at(around).first;
      room.block = around->parent;
    }
  }

  // What the first `count` rooms take that are in use somewhere from one op to another, from below.
  Areas taken(int begin, int end, size_t count) const {
    Areas areas;
    if (common_bytes) areas.emplace_back(0, common_bytes);
    for (size_t i = 0; i < count; ++i)
      if (rooms[i].begin <= end && begin <= rooms[i].end)
        areas.emplace_back(rooms[i].offset, rooms[i].offset + rooms[i].bytes);
    std::sort(areas.begin(), areas.end());
    return areas;
  }

  Waits waits_;
  int next_ = 0;
  struct Range {
    int first = 0, last = 0;  // the numbers of an op and of the last one within
  };
  std::unordered_map<const ir::Op*, Range> range_;  // of those that use rooms, and that others are within
  std::vector<const ir::Op*> users_;
  std::unordered_map<const ir::Op*, const ir::Op*> commit_of_;  // what begins the group of a copy; null: not known
  std::unordered_map<const ir::Op*, size_t> room_of_;
};

}  // namespace

const ir::Op* alloc_of(const ir::Value* place) {
  const ir::Op* op = place->def;
  while (op->opcode != ir::Opcode::SharedAlloc) op = op->operand(0)->def;
  return op;
}

int64_t bytes_in_other_block(const ir::Type& type) { return std::max<int64_t>(4, element_bytes(type)); }

int exchange_slots(const ir::Op& op) {
  for (const ir::Op* around = op.parent->parent; around; around = around->parent->parent)
    if (around->opcode != ir::Opcode::If) return 2;
  return 1;
}

int64_t place_bytes(const ir::Type& type) { return type.num_elements() * element_bytes(type); }

// Whether the op brings the elements of a tile of registers from one layout to another, or renames their coordinates.
static bool converts(const ir::Op& op) {
  switch (op.opcode) {
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Broadcast:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
    case ir::Opcode::ConvertLayout: {
      const ir::Type& from = op.operand(0)->type;
      return from.layout && op.result()->type.layout && !from.is_place();
    }
    default:
      return false;
  }
}

static int64_t conversion_scratch(const ir::Op& op) {
  const ir::Type& from = op.operand(0)->type;
  const auto view = operand_view(op);
  if (!view) return from.num_elements() * element_bytes(from);
  if (*view == *from.layout) return 0;
  const Conversion::Route route = plan_conversion(*from.layout, *view).route;
  if (!goes_through_shared(route)) return 0;
  return route == Conversion::Route::Shared ? exchange_bytes(*from.layout, *view, from.bits())
                                            : from.num_elements() * element_bytes(from);
}

int64_t ScratchSizes::bytes(const ir::Op& op) {
  if (!converts(op)) return scratch_bytes(op);
  const ir::Type& from = op.operand(0)->type;
  const auto [at, is_new] =
      known_.try_emplace({op.opcode, from.layout, op.result()->type.layout, from.bits(), op.attrs}, 0);
  if (is_new) at->second = conversion_scratch(op);
  return at->second;
}

int64_t scratch_bytes(const ir::Op& op) {
  if (converts(op)) return conversion_scratch(op);
  switch (op.opcode) {
    case ir::Opcode::Reduce:
    case ir::Opcode::Scan:
      return op.operand(0)->type.layout ? combine_scratch(op) : 0;
    case ir::Opcode::ExchangeBlocks:
      return op.operand(0)->type.layout ? place_bytes(op.operand(0)->type) : 0;
    case ir::Opcode::Sort:
      return op.operand(0)->type.layout ? sort_scratch(op) : 0;
    case ir::Opcode::Gather:
      if (plan_gather(op)) return 0;
      return op.operand(0)->type.num_elements() * element_bytes(op.operand(0)->type);
    case ir::Opcode::Dot:
      return op.get(ir::attr::instruction).empty() ? 0 : family_of(op).scratch_bytes(op);
    case ir::Opcode::Histogram:
      return op.result()->type.num_elements() * element_bytes(op.result()->type);
    default: {
      if (!ir::is_by_owners(op)) return 0;
      // Owners of an element pass the value found to the threads that hold copies of it.
      const ir::Type& type = op.result()->type;
      return type.num_elements() * element_bytes(type);
    }
  }
}

int64_t bytes_of_places(const ir::Func& func) { return RoomPlan(func).bytes; }

// Whether several threads of the blocks that run a program hold an element.
static bool has_copies(const ir::Type& type, int num_ctas) {
  if (!type.layout || type.layout->free_mask(Dim::Lane) || type.layout->free_mask(Dim::Warp)) return true;
  return type.layout->in_bits(Dim::Block) ? type.layout->free_mask(Dim::Block) != 0 : num_ctas > 1;
}

namespace {

struct Scratch {
  const ir::Op* op;
  int number;  ///< in the order of a walk
  int64_t bytes;
  bool across;  ///< blocks exchange data
};

// Of all ops that need some, in their order.
std::vector<Scratch> find_scratch(const ir::Func& func, ScratchSizes& sizes) {
  std::vector<Scratch> found;
  std::optional<std::unordered_map<const ir::Value*, int>> uses;  // as few programs ask
  bool beside = false;                                            // copy_warps, which stand last, exchange nothing
  int walked = 0;
  ir::walk(func.body, [&](const ir::Op& op) {
    const int number = walked++;
    beside |= op.info().runs_beside();
    if (beside) return;
    if (ir::is_by_owners(op)) {
      if (!uses) uses = ir::count_uses(func.body);
      if (!uses->contains(op.result()) || !has_copies(op.result()->type, ir::is_per_block(op) ? 1 : func.num_ctas()))
        return;
    }
    if (const int64_t bytes = sizes.bytes(op))
      found.push_back({&op, number, round_up(bytes, kAlignment), crosses_blocks(op, func.num_ctas())});
  });
  return found;
}

// Where ops exchange data, and what the program takes with it.
struct ScratchPlaces {
  int64_t bytes = 0, common_bytes = 0, group_bytes = 0;
  std::vector<int64_t> offsets;
};

}  // namespace

struct SharedNeeds::Found {
  Found(const ir::Func& of, ScratchSizes& sizes) : func(of), rooms(of), scratch(find_scratch(of, sizes)) {}

  // With the slots that places have now; takes the best way to divide areas among the ops that exchange data.
  ScratchPlaces place() {
    rooms.place();
    std::vector<RoomPlan::Areas> taken;
    for (const Scratch& of : scratch) taken.push_back(rooms.taken_at(of.number));
    ScratchPlaces best = place_scratch(taken, kPrivateBytes);
    const auto programs = [&](const ScratchPlaces& places) {
      return std::min(kWarpsOfMostRegisters / func.num_warps(),
                      kSharedOfMultiprocessor / (places.bytes + kSharedBeside));
    };
    for (int64_t most = kPrivateBytes / 2; rooms.bytes && most >= kLeastPrivateBytes; most /= 2)
      if (ScratchPlaces tried = place_scratch(taken, most); programs(tried) > programs(best)) best = std::move(tried);
    return best;
  }

  // Ops have areas of their own up to `most` bytes. `taken`: by rooms, at each of them.
  ScratchPlaces place_scratch(const std::vector<RoomPlan::Areas>& taken, int64_t most) const {
    ScratchPlaces places;
    places.bytes = rooms.bytes;
    places.offsets.resize(scratch.size());
    bool any_across = false;
    int64_t next = 0;
    for (size_t i = 0; i < scratch.size(); ++i) {
      const auto& [op, number, size, across] = scratch[i];
      any_across |= across;
      if (across) continue;
      if (rooms.common.is_in_turn(*op)) {
        places.offsets[i] = rooms.common_scratch;
        continue;
      }
      if (next + size > most) next = 0;
      // Behind all rooms in use, in an area of its own, unless that takes more memory than a gap between them.
      int64_t end = 0;
      for (const auto& area : taken[i]) end = std::max(end, round_up(area.second, kAlignment));
      const int64_t gap = RoomPlan::first_gap(taken[i], size, kAlignment);
      const int64_t offset = end + next + size > places.bytes && gap < end ? gap : end + next;
      places.offsets[i] = offset;
      places.bytes = std::max(places.bytes, offset + size);
      next += size;
    }
    if (rooms.common.there_are()) {
      TEGULA_CHECK(!any_across, "groups of warps exchange data with other blocks");
      places.common_bytes = rooms.common_bytes;
      places.group_bytes = round_up(places.bytes - places.common_bytes, kPlaceAlignment);
      places.bytes += (ir::groups_of(func) - 1) * places.group_bytes;
    }
    for (size_t i = 0; i < scratch.size(); ++i) {
      if (!scratch[i].across) continue;
      places.offsets[i] = round_up(places.bytes, kAlignment);
      places.bytes = places.offsets[i] + scratch[i].bytes;
    }
    return places;
  }

  const ir::Func& func;
  RoomPlan rooms;
  const std::vector<Scratch> scratch;
};

SharedNeeds::SharedNeeds(const ir::Func& func, ScratchSizes& sizes) : found_(std::make_unique<Found>(func, sizes)) {}
SharedNeeds::~SharedNeeds() = default;

int64_t SharedNeeds::bytes() { return found_->place().bytes; }

SharedPlan plan_shared(const ir::Func& func) {
  ScratchSizes sizes;
  SharedNeeds::Found found(func, sizes);
  const ScratchPlaces places = found.place();
  SharedPlan plan{places.bytes, places.common_bytes, places.group_bytes, {}, {}, {}};
  for (const Room& room : found.rooms.rooms) {
    plan.size[room.alloc] = room.bytes;
    plan.offset[room.alloc] = room.offset;
  }
  for (size_t i = 0; i < found.scratch.size(); ++i) {
    const Scratch& of = found.scratch[i];
    plan.size[of.op] = of.bytes;
    plan.offset[of.op] = places.offsets[i];
    if (of.across) plan.across.insert(of.op);
  }
  return plan;
}

}  // namespace tegula
