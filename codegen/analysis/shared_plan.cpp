#include "codegen/analysis/shared_plan.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/async_groups.h"
#include "codegen/analysis/conversion.h"
#include "codegen/analysis/gather_plan.h"
#include "codegen/analysis/sort_plan.h"
#include "codegen/layout/axis_order.h"

namespace tegula {

namespace {

constexpr int64_t kAlignment = 128;
constexpr int64_t kBarrierAlignment = 8;
constexpr int64_t kPlaceAlignment = 1024;  ///< the period of the widest swizzle
/// Up to this many bytes in all, every op has its own area; larger ones share.
constexpr int64_t kPrivateBytes = 16 << 10;

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

// Partial results of the warps for each element along the other axes.
int64_t combine_scratch(const ir::Op& op, int num_warps) {
  const ir::Type& in = op.operand(0)->type;
  Dim axis = tile_dim(int(op.get(ir::attr::axis)));
  int64_t partials = in.num_elements() / in.shape[op.get(ir::attr::axis)];
  bool across = false;
  for (int bit = 0; bit < in.layout->in_bits(Dim::Warp); ++bit)
    if (in.layout->basis(Dim::Warp, bit, axis)) partials *= 2, across = true;
  if (!across || num_warps == 1) return 0;
  if (op.opcode == ir::Opcode::Scan) partials *= axis_order(*in.layout, int(op.get(ir::attr::axis)))->rounds;
  int64_t bytes = 0;
  for (const ir::Value* x : op.operands) bytes += partials * element_bytes(x->type) + 16;
  return bytes;
}

// Whether what the product reads may still be read behind the block that it stands in: no wait there ends it.
bool outlives_block(const ir::Op& product) {
  for (const auto& op : product.parent->ops)
    if (op->opcode == ir::Opcode::MmaWait && op->operand(0) == product.result()) return op->get(ir::attr::pending) > 0;
  return true;
}

// A shared_alloc, and from which op to which it needs its room, in the order of the program.
struct Room {
  const ir::Op* alloc;
  int begin, end;
  int64_t bytes;
  int64_t offset = -1;                      ///< none yet
  bool copied = false, multiplied = false;  ///< asynchronously, with a wait outside of the op that holds the last use
};

std::vector<Room> find_rooms(const ir::Func& func, std::unordered_map<const ir::Op*, int>& number) {
  const auto groups = groups_since(func);
  // Whether a wait for copies, or one for dots, leaves none under way. Behind a loop all tokens of barriers are waited
  // for together.
  auto waits_for_all_copies = [&](const ir::Op& op) {
    auto copies = groups.find(&op);
    return op.opcode == ir::Opcode::AsyncWait && (copies == groups.end() || copies->second == 0);
  };
  auto waits_for_all_products = [](const ir::Op& op) {
    return op.opcode == ir::Opcode::MmaWait && op.get(ir::attr::pending) == 0;
  };
  std::vector<Room> rooms;
  std::unordered_map<const ir::Op*, size_t> room_of;
  std::unordered_set<const ir::Op*> beside;  // ops of copy_warps, which use a room while the program does
  ir::walk(func.body, [&](const ir::Op& op) {
    int here = int(number.size());
    number[&op] = here;
    if (op.opcode == ir::Opcode::CopyWarps)
      ir::walk(*op.regions[0], [&](const ir::Op& inner) { beside.insert(&inner); });
    if (beside.contains(&op)) return;
    if (op.opcode == ir::Opcode::SharedAlloc) {
      room_of[&op] = rooms.size();
      rooms.push_back({&op, here, here, place_bytes(op.result()->type) * op.get(ir::attr::slots)});
    }
    for (const ir::Value* v : op.operands) {
      if (!v || !v->type.is_place()) continue;
      Room& room = rooms[room_of.at(alloc_of(v))];
      room.end = here;
      room.copied |= op.opcode == ir::Opcode::AsyncCopy;
      room.multiplied |= op.opcode == ir::Opcode::MmaStart && (op.parent == room.alloc->parent || outlives_block(op));
    }
  });
  for (Room& room : rooms) {
    if (room.alloc->get(ir::attr::arrivals)) {
      room.end = INT_MAX;
      continue;
    }
    // Up to the end of the op of the same block that holds the last use, and to the waits behind it.
    const auto& ops = room.alloc->parent->ops;
    for (auto op = ops.begin(); op != ops.end() && (room.copied || room.multiplied || number.at(op->get()) <= room.end);
         ++op) {
      auto next = std::next(op);
      int last = next == ops.end() ? INT_MAX : number.at(next->get()) - 1;
      if (last < room.end || number.at(op->get()) < room.begin) continue;
      const bool copies = room.copied && waits_for_all_copies(**op);
      const bool products = room.multiplied && waits_for_all_products(**op);
      if (copies || products || number.at(op->get()) <= room.end) room.end = last;
      if (copies) room.copied = false;
      if (products) room.multiplied = false;
    }
  }
  return rooms;
}

}  // namespace

const ir::Op* alloc_of(const ir::Value* place) {
  const ir::Op* op = place->def;
  while (op->opcode != ir::Opcode::SharedAlloc) op = op->operand(0)->def;
  return op;
}

int64_t place_bytes(const ir::Type& type) { return type.num_elements() * element_bytes(type); }

int64_t scratch_bytes(const ir::Op& op, int num_warps) {
  switch (op.opcode) {
    case ir::Opcode::Reduce:
    case ir::Opcode::Scan:
      return op.operand(0)->type.layout ? combine_scratch(op, num_warps) : 0;
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Broadcast:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
    case ir::Opcode::ConvertLayout: {
      const ir::Type& from = op.operand(0)->type;
      const ir::Type& to = op.result()->type;
      if (!from.layout || !to.layout || from.is_place()) return 0;
      auto view = operand_view(op);
      if (view && plan_conversion(*from.layout, *view).route != Conversion::Route::Shared) return 0;
      return from.num_elements() * element_bytes(from);
    }
    case ir::Opcode::Sort:
      return op.operand(0)->type.layout ? sort_scratch(op) : 0;
    case ir::Opcode::Gather:
      if (plan_gather(op)) return 0;
      return op.operand(0)->type.num_elements() * element_bytes(op.operand(0)->type);
    case ir::Opcode::Histogram:
      return op.result()->type.num_elements() * element_bytes(op.result()->type);
    case ir::Opcode::AtomicRmw: {
      // Owners of an element hand the old value to the threads that hold copies of it.
      const ir::Type& type = op.result()->type;
      return type.num_elements() * element_bytes(type);
    }
    default:
      return 0;
  }
}

SharedPlan plan_shared(const ir::Func& func) {
  SharedPlan plan;
  auto uses = ir::count_uses(func.body);
  std::unordered_map<const ir::Op*, int> number;
  std::vector<Room> rooms = find_rooms(func, number);
  // The end of the rooms that are in use at that op.
  auto in_use = [&](int at) {
    int64_t end = 0;
    for (const Room& room : rooms)
      if (room.offset >= 0 && room.begin <= at && at <= room.end) end = std::max(end, room.offset + room.bytes);
    return end;
  };
  for (Room& room : rooms) {
    const int64_t alignment = room.alloc->get(ir::attr::barriers) ? kBarrierAlignment : kPlaceAlignment;
    room.offset = (in_use(room.begin) + alignment - 1) / alignment * alignment;
    plan.size[room.alloc] = room.bytes;
    plan.offset[room.alloc] = room.offset;
    plan.bytes = std::max(plan.bytes, room.offset + room.bytes);
  }
  int64_t next = 0;
  ir::walk(func.body, [&](const ir::Op& op) {
    if (op.opcode == ir::Opcode::AtomicRmw && !uses.count(op.result())) return;
    int64_t size = scratch_bytes(op, func.num_warps());
    if (size == 0) return;
    size = (size + kAlignment - 1) / kAlignment * kAlignment;
    if (next + size > kPrivateBytes) next = 0;
    int64_t base = (in_use(number.at(&op)) + kAlignment - 1) / kAlignment * kAlignment;
    plan.size[&op] = size;
    plan.offset[&op] = base + next;
    plan.bytes = std::max(plan.bytes, base + next + size);
    next += size;
  });
  return plan;
}

}  // namespace tegula
