// Rules of ops on memory: accesses, atomics, places in shared memory and copies to them.
#include <algorithm>

#include "codegen/ir/flow.h"
#include "codegen/ir/host_values.h"
#include "codegen/ir/op_rules.h"
#include "codegen/layout/byte_transpose.h"
#include "codegen/layout/shared_boxes.h"
#include "codegen/layout/warp_boxes.h"

namespace tegula::ir {

namespace {

constexpr int kMaxMapRank = 5;
constexpr size_t kFirstCoordinate = 4, kFirstCoordinateOfStore = 3;  // among the operands of bulk copies

// The number of slots of the place's shared_alloc; 0 if another op defines it.
int64_t alloc_slots(const Value& place) {
  return place.def && place.def->opcode == Opcode::SharedAlloc ? place.def->get(attr::slots) : 0;
}

}  // namespace

void OpRules::memory() {
  const Type& ptr = in(0);
  if (!want(ptr.pointer, [&] { return fmt::format("operand 'ptr' is {}, expected pointers", ptr.to_string()); }))
    return;
  Type value{ptr.elem, false, ptr.shape, nullptr};
  auto is_value = [&](const Type& t, std::string_view what) {
    want(t.same_shape_and_elem(value),
         [&] { return fmt::format("{} is {}, expected {}", what, t.to_string(), value.to_string()); });
  };
  one_layout();
  switch (op_->opcode) {
    case Opcode::Load:
      mask(op_->operand(1), ptr);
      if (op_->operand(2)) {
        is_value(in(2), "operand 'other'");
        want(op_->operand(1), "operand 'other' without a mask");
      }
      is_value(out(), "the result");
      break;
    case Opcode::Store:
      is_value(in(1), "operand 'value'");
      mask(op_->operand(2), ptr);
      break;
    default:
      is_value(in(1), "operand 'value'");
      mask(op_->operand(2), ptr);
      is_value(out(), "the result");
      atomic();
  }
  vector_of_access();
}

// The registers hold `vector` consecutive elements, and one access moves at most 16 bytes. (Whether the elements are
// consecutive in memory is for the analysis of the pointers to say.)
void OpRules::vector_of_access() {
  if (op_->opcode == Opcode::Load && op_->has(attr::repeats)) {
    const Ints repeats = op_->get(attr::repeats);
    auto power = [](int64_t n) { return (n & (n - 1)) == 0; };
    want(int(repeats.size()) == in(0).rank() && std::all_of(repeats.begin(), repeats.end(), power), [&] {
      return fmt::format("attribute 'repeats' is {}, expected a power of two for each axis", shape_to_string(repeats));
    });
  }
  const int64_t vector = op_->get(attr::vector);
  if (vector == 1) return;
  const Type& ptr = in(0);
  const bool power = (vector & (vector - 1)) == 0;
  if (!want(power && vector * elem_bytes(ptr.elem) <= 16, [&] {
        return fmt::format("attribute 'vector' is {}, expected a power of two of at most 16 bytes", vector);
      }))
    return;
  int widest = 0;
  for (int axis = 0; ptr.layout && axis < ptr.rank(); ++axis)
    widest = std::max(widest, ptr.layout->contiguous_registers(axis));
  want(widest >= vector, [&] {
    return fmt::format("attribute 'vector' is {}, but registers hold {} elements side by side", vector,
                       std::max(1, widest));
  });
}

void OpRules::atomic() {
  const std::string kind = op_->get(attr::kind);
  const Type& type = in(1);
  const bool real = type.is_float();
  const bool extreme = kind == "min" || kind == "max";
  const int least = kind == "cas" || ((kind == "add" || extreme) && real) ? 16 : 32;
  want(type.bits() >= least && !type.pointer,
       [&] { return fmt::format("{} of {}, expected elements of {} bits or more", kind, type.to_string(), least); });
  if (extreme)
    want(!real || type.bits() == 16,
         [&] { return fmt::format("{} of {}, expected integers or floats of 16 bits", kind, type.to_string()); });
  else if (kind != "add" && kind != "xchg" && kind != "cas")
    want(!real, [&] { return fmt::format("{} of {}, expected integers", kind, type.to_string()); });
  const Value* compare = op_->operand(3);
  want((compare != nullptr) == (kind == "cas"), "operand 'compare' is for the kind cas, which needs it");
  if (compare) want_same(compare->type, type, "operand 'compare'");
}

bool OpRules::want_place(const Type& t, std::string_view what) {
  return want(t.is_place(),
              [&] { return fmt::format("{} is {}, expected a place in shared memory", what, t.to_string()); });
}

void OpRules::want_barriers(size_t operand) {
  const Type& t = in(int(operand));
  const std::string what = operand_name(operand);
  if (want_place(t, what))
    want(t.elem == Elem::I64, [&] { return fmt::format("{} is {}, expected i64", what, t.to_string()); });
}

void OpRules::allocation() {
  if (op_->opcode == Opcode::SharedAlloc) {
    want_place(out(), "the result");
    want(op_->get(attr::contiguous) >= -1 && op_->get(attr::contiguous) < out().rank(), [&] {
      return fmt::format("attribute 'contiguous' is {}, expected -1 to {}", op_->get(attr::contiguous),
                         out().rank() - 1);
    });
    if (op_->get(attr::barriers))
      want(out().elem == Elem::I64,
           [&] { return fmt::format("the result is {}, expected i64 for barriers", out().to_string()); });
    want(op_->get(attr::arrivals) == 0 || op_->get(attr::barriers), "arrivals are for barriers");
    return;
  }
  const bool place = want_place(in(0), "operand 'buffer'");
  const Op* alloc = op_->operands[0]->def;
  const bool allocated = alloc && alloc->opcode == Opcode::SharedAlloc;
  if (op_->opcode == Opcode::SharedFree) {
    if (place) want(allocated && alloc->get(attr::barriers), "operand 'buffer' is no shared_alloc of barriers");
    return;
  }
  const auto index = constant_integer(op_->operands[1]);
  if (place && want(allocated, "operand 'buffer' is no shared_alloc") && index)
    want(*index >= 0 && *index < alloc->get(attr::slots),
         [&] { return fmt::format("slot {} of {}", *index, alloc->get(attr::slots)); });
  want_same(in(1), Type::scalar(Elem::I32), "operand 'index'");
  want_same(out(), in(0), "the result");
}

void OpRules::barriers() {
  if (op_->opcode == Opcode::TurnPass) {
    want_same(in(0), Type::scalar(Elem::I1), "operand 'first'");
    want_same(in(1), Type::scalar(Elem::I1), "operand 'second'");
    return;
  }
  want_barriers(0);
  if (op_->opcode == Opcode::PhaseWait) {
    want_same(in(1), Type::scalar(Elem::I32), "operand 'phase'");
    return;
  }
  if (op_->operand(1)) want_same(in(1), Type::scalar(Elem::I1), "operand 'exists'");
  if (op_->get(attr::bytes)) {
    want(!op_->operand(1), "operand 'exists' of an arrival that expects bytes");
    want_one_thread("an arrival that expects bytes");
  }
}

void OpRules::async_copy() {
  const Type& ptr = in(0);
  want(ptr.pointer && ptr.is_tile(),
       [&] { return fmt::format("operand 'ptr' is {}, expected a tile of pointers", ptr.to_string()); });
  const bool is_place = want_place(in(1), "operand 'place'");
  if (is_place && op_->get(attr::own)) {
    Type tile = ptr;
    tile.pointer = false;
    want_parts_of_threads(tile, in(1), "what the pointers point to");
  } else if (is_place) {
    want(in(1).elem == ptr.elem && in(1).shape == ptr.shape, [&] {
      return fmt::format("operand 'place' is {}, expected what {} points to", in(1).to_string(), ptr.to_string());
    });
  }
  mask(op_->operand(2), ptr);
  if (op_->operand(2) && laid_out(op_->operands[0], op_->operands[2]))
    want(*ptr.layout == *in(2).layout, "pointers and mask must share one layout");
  vector_of_access();
}

void OpRules::async_commit() {
  const bool barrier = op_->operand(0);
  want_same(out(), Type::token(barrier ? Completion::Barrier : Completion::Group), "the result");
  want(barrier == (op_->operand(1) != nullptr), "operands 'barrier' and 'phase' come together");
  if (barrier) want_barriers(0);
  if (op_->operand(1)) want_same(in(1), Type::scalar(Elem::I32), "operand 'phase'");
  if (op_->operand(2)) want_same(in(2), Type::scalar(Elem::I1), "operand 'exists'");
  want(barrier || (!op_->get(attr::bytes) && !op_->operand(2)), "bytes are expected at a barrier");
}

void OpRules::async_wait() {
  want(!op_->operands.empty(), "async_wait without a token");
  for (size_t i = 0; i < op_->operands.size(); ++i)
    want(in(int(i)).is_token() && in(int(i)) == in(0), [&] {
      return fmt::format("{} is {}, expected {}", operand_name(i), in(int(i)).to_string(),
                         in(0).is_token() ? in(0).to_string() : "a token");
    });
}

void OpRules::shared_memory() {
  switch (op_->opcode) {
    case Opcode::SharedStore:
      if (want_place(in(1), "operand 'place'"))
        want(in(1).elem == in(0).elem && in(1).shape == in(0).shape && in(0).is_tile(), [&] {
          return fmt::format("operand 'value' is {}, expected a tile for {}", in(0).to_string(), in(1).to_string());
        });
      break;
    case Opcode::SharedTranspose:
      if (want_place(in(0), "operand 'from'") && want_place(in(1), "operand 'to'"))
        want(in(0).elem == in(1).elem && in(0).shape == in(1).shape && in(0).bits() == 8 &&
                 can_transpose_bytes(in(0).shape, func_.num_warps()),
             [&] {
               return fmt::format(
                   "the places are {} and {}, expected two of one tile of elements of 8 bits, with extents of 32 "
                   "or a larger power of two, whose blocks of 16 x 32 the warps share evenly",
                   in(0).to_string(), in(1).to_string());
             });
      break;
    case Opcode::ThreadStore:
      if (want_place(in(1), "operand 'place'")) want_parts_of_threads(in(0), in(1), "operand 'value'");
      break;
    case Opcode::ThreadRead:
      if (want_place(in(0), "operand 'place'")) want_parts_of_threads(out(), in(0), "the result");
      break;
    default:
      if (want_place(in(0), "operand 'place'"))
        want(out().elem == in(0).elem && out().shape == in(0).shape && out().is_tile(), [&] {
          return fmt::format("the result is {}, expected the tile in {}", out().to_string(), in(0).to_string());
        });
  }
}

void OpRules::want_parts_of_threads(const Type& tile, const Type& place, std::string_view what) {
  const std::string found = fmt::format("{} is {}", what, tile.to_string());
  if (!want(tile.is_tile() && tile.elem == place.elem,
            [&] { return fmt::format("{}, expected a tile of {}", found, Type::scalar(place.elem).to_string()); }) ||
      !tile.layout)
    return;
  const int64_t held = tile.layout->in_size(Dim::Register) * 32 * func_.num_warps();
  want(place.num_elements() == held, [&] {
    return fmt::format("{}, of which the threads hold {} elements, but the place has {}", found, held,
                       place.num_elements());
  });
}

void OpRules::want_one_thread(std::string_view what) {
  const Op* around = op_->parent->parent;
  while (around && around->opcode != Opcode::CopyWarps) around = around->parent->parent;
  want(around && around->get(attr::one_thread),
       [&] { return fmt::format("{} is for copy_warps of one thread", what); });
}

void OpRules::copy_warps() {
  const size_t registers = op_->get(attr::registers).size();
  want(registers == 0 || registers == 2,
       [&] { return fmt::format("attribute 'registers' has {} numbers, expected none or 2", registers); });
  want(op_->parent == &func_.body, "copy_warps stands in another op");
  want(op_->parent != &func_.body || func_.body.ops.size() < 2 || std::prev(func_.body.ops.end(), 2)->get() == op_,
       "copy_warps is not the last op of the function");
  walk(*op_->regions[0], [&](const Op& inner) {
    for (const Value* v : inner.operands)
      if (v && v->def && v->def->opcode == Opcode::SharedAlloc && v->def->get(attr::barriers))
        want(precedes_copy_warps(*v->def),
             [&] { return fmt::format("{} uses barriers that stand behind other ops", inner.info().text); });
    if (!op_->get(attr::one_thread)) return;
    for (auto& result : inner.results)
      want(!result->type.is_tile(), [&] {
        return fmt::format("one thread runs the region, which has a {} of {}", inner.info().text,
                           result->type.to_string());
      });
  });
}

void OpRules::tensor_map() {
  const Type& map = out();
  if (!want(map.is_map(), [&] { return fmt::format("the result is {}, expected a tensor map", map.to_string()); }))
    return;
  want(op_->parent == &func_.body, "tensor_map stands in another op");
  want_same(in(0), Type::pointer_to(map.elem), "operand 'base'");
  const size_t numbers = size_t(2 * map.rank() - 1);
  want(op_->operands.size() >= 1 + numbers, [&] {
    return fmt::format("{} extents and strides of a map of rank {}, expected {} at least", op_->operands.size() - 1,
                       map.rank(), numbers);
  });
  want(map.rank() <= kMaxMapRank,
       [&] { return fmt::format("a map of rank {}, expected at most {}", map.rank(), kMaxMapRank); });
  for (size_t i = 0; i < op_->operands.size(); ++i) {
    const Type& type = op_->operands[i]->type;
    if (i > 0)
      want(type == Type::scalar(Elem::I32) || type == Type::scalar(Elem::I64),
           [&] { return fmt::format("{} is {}, expected i32 or i64", operand_name(i), type.to_string()); });
    want(is_host_computable(op_->operands[i], func_),
         [&] { return fmt::format("{} does not follow from the parameters alone", operand_name(i)); });
  }
  for (int64_t extent : map.shape)
    want(extent <= kMaxBoxExtent,
         [&] { return fmt::format("a box of extent {}, expected at most {}", extent, kMaxBoxExtent); });
  const int64_t swizzle = op_->get(attr::swizzle), row = map.shape.back() * map.bits() / 8;
  want(swizzle == 0 || swizzle == 32 || swizzle == 64 || swizzle == 128,
       [&] { return fmt::format("attribute 'swizzle' is {}, expected 0, 32, 64 or 128", swizzle); });
  want(row % 16 == 0, [&] { return fmt::format("rows of a box of {} bytes, expected a multiple of 16", row); });
  if (swizzle)
    want(row == swizzle,
         [&] { return fmt::format("rows of a box of {} bytes, expected {} as 'swizzle'", row, swizzle); });
}

// The operands from `first` on, and the attribute 'axes': one for each dimension of the map.
bool OpRules::coordinates(const Type& map, size_t first) {
  want(op_->operands.size() == first + size_t(map.rank()),
       [&] { return fmt::format("{} coordinates, expected {}", op_->operands.size() - first, map.rank()); });
  for (size_t i = first; i < op_->operands.size(); ++i)
    want_same(op_->operands[i]->type, Type::scalar(Elem::I32), operand_name(i));
  const size_t axes = op_->get(attr::axes).size();
  return want(int(axes) == map.rank(),
              [&] { return fmt::format("attribute 'axes' has {} numbers, expected {}", axes, map.rank()); });
}

void OpRules::bulk_copy() {
  const Type &map = in(0), &place = in(1);
  if (!want(map.is_map(), [&] { return fmt::format("operand 'map' is {}, expected a tensor map", map.to_string()); }) ||
      !want(place.is_place() && place.elem == map.elem, [&] {
        return fmt::format("operand 'place' is {}, expected one for {}", place.to_string(), map.to_string());
      }))
    return;
  want(in(2).is_place() && in(2).elem == Elem::I64,
       [&] { return fmt::format("operand 'barrier' is {}, expected i64 in shared memory", in(2).to_string()); });
  if (op_->operand(3)) want_same(in(3), Type::scalar(Elem::I1), "operand 'exists'");
  if (!coordinates(map, kFirstCoordinate) || !place.layout || stage_ == Stage::Tile) return;
  const Ints axes = op_->get(attr::axes);
  const auto boxes = boxes_of(*place.layout, place.bits());
  std::vector<int> order;  // of the axes that a box is longer than 1 along, the fastest first
  Shape box(place.shape.size(), 1);
  for (size_t i = axes.size(); i-- > 0;) {
    if (axes[i] >= place.rank() || (axes[i] < 0 && map.shape[i] != 1))
      return report(fmt::format("attribute 'axes' has {} for an extent of {}", axes[i], map.shape[i]));
    if (axes[i] < 0) continue;
    box[size_t(axes[i])] = map.shape[i];
    if (map.shape[i] > 1) order.push_back(int(axes[i]));
  }
  auto fits = [&](size_t axis) {
    const bool rows = int(axis) != boxes->order[0] && (boxes->extents[axis] == 1 || box[axis] % 8 == 0);
    return boxes->extents[axis] == box[axis] || (rows && boxes->extents[axis] % box[axis] == 0);
  };
  bool same = boxes.has_value();
  for (size_t axis = 0; axis < box.size(); ++axis) same = same && fits(axis);
  same = same && std::equal(order.begin(), order.end(), boxes->order.begin()) &&
         boxes->swizzle == op_->operands[0]->def->get(attr::swizzle);
  if (const int64_t axis = op_->get(attr::multicast); axis >= 0) {
    want(axis < place.rank(),
         [&] { return fmt::format("attribute 'multicast' is {} for {}", axis, place.to_string()); });
    want_one_thread("a multicast");
  }
  want(same, [&] { return fmt::format("boxes of {} do not make up {}", map.to_string(), place.to_string()); });
}

void OpRules::bulk_store() {
  const Type &value = in(0), &map = in(1), &place = in(2);
  if (!want(map.is_map() && map.elem == value.elem && !value.pointer,
            [&] {
              return fmt::format("operand 'map' is {}, expected one for {}", map.to_string(), value.to_string());
            }) ||
      !want(place.is_place() && place.elem == value.elem && place.rank() == value.rank(), [&] {
        return fmt::format("operand 'place' is {}, expected one for {}", place.to_string(), value.to_string());
      }))
    return;
  if (!coordinates(map, kFirstCoordinateOfStore) || !value.layout || stage_ == Stage::Tile) return;
  const Ints axes = op_->get(attr::axes);
  const int64_t room = alloc_slots(*op_->operands[2]) * place.num_elements();
  const bool has_rows = axes.back() >= 0 && axes.back() < value.rank();
  const auto stretch = has_rows ? stretch_with(room, value.shape, int(axes.back())) : std::nullopt;
  const auto boxes = stretch ? warp_boxes(*value.layout, int(axes.back()), value.bits(), *stretch) : std::nullopt;
  Shape box(size_t(value.rank()), 1);
  for (size_t i = 0; i < axes.size(); ++i) {
    if (axes[i] >= value.rank() || (axes[i] < 0 && map.shape[i] != 1))
      return report(fmt::format("attribute 'axes' has {} for an extent of {}", axes[i], map.shape[i]));
    if (axes[i] >= 0) box[size_t(axes[i])] = map.shape[i];
  }
  want(boxes && boxes->extents == box && boxes->swizzle == op_->operands[1]->def->get(attr::swizzle),
       [&] { return fmt::format("the warps hold no boxes of {}", map.to_string()); });
  if (!boxes) return;
  want(alloc_slots(*op_->operands[2]) == int64_t(boxes->pieces.size()), [&] {
    return fmt::format("the place has {} slots, expected one for each of {} pieces", alloc_slots(*op_->operands[2]),
                       boxes->pieces.size());
  });
  want(place.layout && *place.layout == boxes->shared, "the place is not laid out as the warps' boxes");
}

}  // namespace tegula::ir
