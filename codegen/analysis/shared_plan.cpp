#include "codegen/analysis/shared_plan.h"

#include <algorithm>
#include <climits>
#include <iterator>
#include <vector>

#include "codegen/analysis/conversion.h"

namespace tegula {

namespace {

constexpr int64_t kAlignment = 128;
constexpr int64_t kPlaceAlignment = 1024;  ///< the period of the widest swizzle
/// Up to this many bytes in all, every op has its own area; larger ones share.
constexpr int64_t kPrivateBytes = 16 << 10;

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

int64_t reduce_scratch(const ir::Op& op, int num_warps) {
  const ir::Type& in = op.operand(0)->type;
  Dim axis = tile_dim(int(op.attr_int("axis")));
  int64_t partials = in.num_elements() / in.shape[op.attr_int("axis")];
  bool across = false;
  for (int bit = 0; bit < in.layout->in_bits(Dim::Warp); ++bit)
    if (in.layout->basis(Dim::Warp, bit, axis)) partials *= 2, across = true;
  if (!across || num_warps == 1) return 0;
  int64_t bytes = 0;
  for (const ir::Value* x : op.operands) bytes += partials * element_bytes(x->type) + 16;
  return bytes;
}

// Walks the program with the set of areas read since the last barrier.
class BarrierWalk {
 public:
  BarrierWalk(SharedPlan& plan, const std::unordered_map<const ir::Op*, int64_t>& bytes) : plan_(plan), bytes_(bytes) {}

  using Areas = std::vector<std::pair<int64_t, int64_t>>;  // [begin, end)

  Areas block(const ir::Block& block, Areas read) {
    for (auto& op : block.ops) read = visit(*op, std::move(read));
    return read;
  }

 private:
  Areas visit(const ir::Op& op, Areas read) {
    if (op.opcode == ir::Opcode::Barrier || op.opcode == ir::Opcode::AsyncWait) return {};
    if (op.opcode == ir::Opcode::If) {
      Areas a = block(*op.regions[0], read), b = block(*op.regions[1], read);
      a.insert(a.end(), b.begin(), b.end());
      return a;
    }
    if (op.opcode == ir::Opcode::For || op.opcode == ir::Opcode::While) {
      for (int round = 0; round < 2; ++round) {
        Areas after = read;
        for (auto& region : op.regions) after = block(*region, std::move(after));
        read.insert(read.end(), after.begin(), after.end());
      }
      return read;
    }
    auto it = bytes_.find(&op);
    if (it == bytes_.end()) return read;
    std::pair<int64_t, int64_t> area{plan_.offset[&op], plan_.offset[&op] + it->second};
    for (auto& [begin, end] : read)
      if (begin < area.second && area.first < end) plan_.barrier_before.insert(&op);
    if (op.opcode == ir::Opcode::SharedAlloc) return plan_.barrier_before.contains(&op) ? Areas{} : read;
    return {area};  // the op's own barrier separates it from all earlier reads
  }

  SharedPlan& plan_;
  const std::unordered_map<const ir::Op*, int64_t>& bytes_;
};

// A shared_alloc, and from which op to which it needs its room, in the order of the program.
struct Room {
  const ir::Op* alloc;
  int begin, end;
  int64_t bytes, offset = 0;
};

std::vector<Room> find_rooms(const ir::Func& func, std::unordered_map<const ir::Op*, int>& number) {
  std::vector<Room> rooms;
  std::unordered_map<const ir::Value*, size_t> room_of;
  ir::walk(func.body, [&](const ir::Op& op) {
    int here = int(number.size());
    number[&op] = here;
    if (op.opcode == ir::Opcode::SharedAlloc) {
      const ir::Type& type = op.result()->type;
      room_of[op.result()] = rooms.size();
      rooms.push_back({&op, here, here, type.num_elements() * element_bytes(type) * op.attr_int("slots")});
    }
    for (const ir::Value* v : op.operands) {
      auto it = room_of.find(v);
      if (it == room_of.end()) continue;
      if (op.opcode == ir::Opcode::SharedSlot) room_of[op.result()] = it->second;
      rooms[it->second].end = here;
    }
  });
  for (Room& room : rooms) {
    // Up to the end of the op of the same block that holds the last use, and to the wait behind it.
    const auto& ops = room.alloc->parent->ops;
    bool waits = false;
    for (auto op = ops.begin(); op != ops.end() && !waits; ++op) {
      auto next = std::next(op);
      int last = next == ops.end() ? INT_MAX : number.at(next->get()) - 1;
      if (last < room.end || number.at(op->get()) < room.begin) continue;
      waits = (*op)->opcode == ir::Opcode::AsyncWait && (*op)->attr_int("pending") == 0;
      if (waits || number.at(op->get()) <= room.end) room.end = last;
    }
  }
  return rooms;
}

}  // namespace

int64_t scratch_bytes(const ir::Op& op, int num_warps) {
  switch (op.opcode) {
    case ir::Opcode::Reduce:
      return op.operand(0)->type.layout ? reduce_scratch(op, num_warps) : 0;
    case ir::Opcode::ExpandDims:
    case ir::Opcode::Broadcast:
    case ir::Opcode::Reshape:
    case ir::Opcode::Trans:
    case ir::Opcode::ConvertLayout: {
      const ir::Type& from = op.operand(0)->type;
      const ir::Type& to = op.result()->type;
      if (!from.layout || !to.layout) return 0;
      auto view = operand_view(op);
      if (view && plan_conversion(*from.layout, *view).route != Conversion::Route::Shared) return 0;
      return from.num_elements() * element_bytes(from);
    }
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
  std::unordered_map<const ir::Op*, int64_t> bytes;
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
  for (Room& room : rooms) room.offset = -1;
  for (Room& room : rooms) {
    room.offset = (in_use(room.begin) + kPlaceAlignment - 1) / kPlaceAlignment * kPlaceAlignment;
    bytes[room.alloc] = room.bytes;
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
    bytes[&op] = size;
    plan.offset[&op] = base + next;
    plan.bytes = std::max(plan.bytes, base + next + size);
    next += size;
  });
  BarrierWalk(plan, bytes).block(func.body, {});
  return plan;
}

}  // namespace tegula
