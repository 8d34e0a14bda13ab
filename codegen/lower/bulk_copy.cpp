// Bulk copies, the maps of arrays that they take, and bulk stores.
#include "codegen/layout/shared_boxes.h"
#include "codegen/layout/warp_boxes.h"
#include "codegen/lower/lowering.h"
#include "codegen/lower/tensor_maps.h"

namespace tegula::lower {

namespace {

constexpr uint64_t kMapBytes = 128, kMapAlignment = 64;

// The arithmetic behind the operands of tensor maps, each value once.
class StepWriter {
 public:
  StepWriter(const ir::Func& func, TensorMaps& maps) : func_(func), maps_(maps) {}

  int32_t step(const ir::Value* value) {
    auto [it, is_new] = steps_.try_emplace(value, 0);
    if (!is_new) return it->second;
    const int32_t index = value->def ? result(*value->def) : argument(*value);
    return steps_[value] = index;
  }

 private:
  static Elem elem_of(const ir::Type& type) { return type.pointer ? Elem::U64 : type.elem; }

  int32_t add(LaunchStep step) {
    maps_.steps.push_back(step);
    return int32_t(maps_.steps.size() - 1);
  }

  int32_t argument(const ir::Value& value) {
    TEGULA_CHECK(value.block == &func_.body, "a tensor map of what is no parameter");
    return add({LaunchStep::Argument, elem_of(value.type), {}, value.index});
  }

  int32_t result(const ir::Op& op) {
    const Elem elem = elem_of(op.result()->type);
    auto binary = [&](LaunchStep::Kind kind) {
      const int32_t a = step(op.operand(0)), b = step(op.operand(1));
      return add({kind, elem, {a, b}, 0});
    };
    switch (op.opcode) {
      case ir::Opcode::Constant:
        return add({LaunchStep::Constant, elem, {}, *ir::constant_integer(op.result())});
      case ir::Opcode::Hint:
        return step(op.operand(0));
      case ir::Opcode::Cast: {
        const int32_t from = step(op.operand(0));
        return add({LaunchStep::Cast, elem, {from}, 0});
      }
      case ir::Opcode::AddPtr: {
        const int32_t base = step(op.operand(0)), offset = step(op.operand(1));
        const int32_t size = add({LaunchStep::Constant, Elem::I64, {}, elem_bytes(op.result()->type.elem)});
        const int32_t bytes = add({LaunchStep::Mul, Elem::I64, {offset, size}, 0});
        return add({LaunchStep::Add, Elem::U64, {base, bytes}, 0});
      }
      case ir::Opcode::Add:
        return binary(LaunchStep::Add);
      case ir::Opcode::Sub:
        return binary(LaunchStep::Sub);
      case ir::Opcode::Mul:
        return binary(LaunchStep::Mul);
      case ir::Opcode::Div:
        return binary(LaunchStep::Div);
      case ir::Opcode::Rem:
        return binary(LaunchStep::Rem);
      case ir::Opcode::Minimum:
        return binary(LaunchStep::Minimum);
      case ir::Opcode::Maximum:
        return binary(LaunchStep::Maximum);
      default:
        TEGULA_UNREACHABLE("a launch computes no {}", op.info().text);
    }
  }

  const ir::Func& func_;
  TensorMaps& maps_;
  std::unordered_map<const ir::Value*, int32_t> steps_;
};

// Calls act(offset in elements, first coordinates) for each box of the first `part` of a place.
template <class Act>
void for_each_box(const ir::Type& place, const ir::Shape& part, const ir::Shape& box, const Act& act) {
  const LinearLayout to_offset = place.layout->invert();
  ir::Shape at(place.shape.size(), 0);
  for (;;) {
    act(offset_at(to_offset, at), at);
    size_t axis = at.size();
    while (axis > 0 && (at[axis - 1] += box[axis - 1]) >= part[axis - 1]) at[--axis] = 0;
    if (axis == 0) return;
  }
}

}  // namespace

std::vector<const ir::Op*> tensor_maps_in(const ir::Func& func) {
  std::vector<const ir::Op*> maps;
  for (const auto& op : func.body.ops)
    if (op->opcode == ir::Opcode::TensorMap) maps.push_back(op.get());
  return maps;
}

TensorMaps launch_maps(const ir::Func& func) {
  TensorMaps out;
  StepWriter steps(func, out);
  for (const ir::Op* op : tensor_maps_in(func)) {
    const ir::Type& type = op->result()->type;
    ImageTensorMap map;
    map.elem = type.elem;
    map.swizzle = int32_t(op->get(ir::attr::swizzle));
    map.box.assign(type.shape.rbegin(), type.shape.rend());
    map.base = steps.step(op->operand(0));
    map.may_lie_outside = op->get(ir::attr::may_lie_outside);
    const int rank = type.rank();
    for (int d = rank; d > 0; --d) map.extents.push_back(steps.step(op->operand(d)));
    for (int d = 2 * rank - 1; d > rank; --d) map.strides.push_back(steps.step(op->operand(d)));
    for (int i = 2 * rank; i < int(op->operands.size()); ++i) map.non_negative.push_back(steps.step(op->operand(i)));
    out.maps.push_back(std::move(map));
  }
  TEGULA_CHECK(out.are_valid(func.body.args.size()), "the tensor maps of '{}' are more than a launch makes", func.name);
  return out;
}

llvm::Type* tensor_map_parameter(llvm::LLVMContext& context) { return llvm::PointerType::get(context, 0); }

void describe_tensor_map_parameter(llvm::Argument& arg) {
  llvm::LLVMContext& context = arg.getContext();
  auto* bytes = llvm::ArrayType::get(llvm::Type::getInt8Ty(context), kMapBytes);
  arg.addAttr(llvm::Attribute::getWithByValType(context, bytes));
  arg.addAttr(llvm::Attribute::getWithAlignment(context, llvm::Align(kMapAlignment)));
  arg.addAttr(llvm::Attribute::NoUndef);
  arg.addAttr(llvm::Attribute::get(context, "nvvm.grid_constant"));
}

// A parameter of the kernel, whose address stands for the map from the beginning.
void lower_TensorMap(Lowering&, const ir::Op&) {}

void lower_BulkCopy(Lowering& l, const ir::Op& op) {
  const ir::Type &map = op.operand(0)->type, &place = op.operand(1)->type;
  const ir::Ints axes = op.get(ir::attr::axes);
  ir::Shape box(place.shape.size(), 1);
  for (size_t d = 0; d < axes.size(); ++d)
    if (axes[d] >= 0) box[size_t(axes[d])] = map.shape[d];
  // In a multicast each block copies every so many boxes along the axis.
  const int64_t divided = op.get(ir::attr::multicast), blocks = divided < 0 ? 1 : l.func.num_ctas();
  ir::Shape part = place.shape;
  int64_t boxes = 1, distance = 0;
  if (divided >= 0) {
    const int64_t extent = box[size_t(divided)];
    boxes = part[size_t(divided)] / extent;
    part[size_t(divided)] = extent;
    ir::Shape second(part.size(), 0);
    if (boxes > 1) second[size_t(divided)] = extent;
    distance = offset_at(place.layout->invert(), second) * place.bits() / 8;
  }
  const std::string row = fmt::format("bulk_copy_{}{}d", divided < 0 ? "" : "multicast_", map.rank());
  llvm::Value* elected = l.is_elected();
  if (op.operand(3)) elected = l.b.CreateAnd(elected, l.scalar(op.operand(3)));
  for (int64_t before = 0; before < boxes; before += blocks) {
    llvm::Value *base = l.scalar(op.operand(1)), *predicate = elected, *own = nullptr;
    if (divided >= 0) {
      llvm::Value* number = l.b.CreateAdd(l.block_of_cluster(), l.i32(before));
      own = l.b.CreateMul(number, l.i32(box[size_t(divided)]));
      base = l.b.CreateAdd(base, l.b.CreateMul(number, l.i32(distance)));
      if (before + blocks > boxes) predicate = l.b.CreateAnd(predicate, l.b.CreateICmpULT(number, l.i32(boxes)));
    }
    for_each_box(place, part, box, [&](int64_t offset, const ir::Shape& first) {
      llvm::Value* to = l.b.CreateAdd(base, l.i32(offset * place.bits() / 8));
      llvm::SmallVector<llvm::Value*> args{to, l.scalar(op.operand(0)), l.scalar(op.operand(2))};
      for (int d = map.rank() - 1; d >= 0; --d) {
        llvm::Value* at = l.scalar(op.operand(4 + d));
        const int64_t axis = axes[size_t(d)];
        if (axis >= 0) at = l.b.CreateAdd(at, l.i32(first[size_t(axis)]));
        if (axis >= 0 && axis == divided) at = l.b.CreateAdd(at, own);
        args.push_back(at);
      }
      if (divided >= 0) args.push_back(l.b.getInt16(uint16_t((1u << blocks) - 1)));
      args.push_back(predicate);
      args.push_back(l.site(op.loc));
      l.hw(row, args);
    });
  }
}

namespace {

// The boxes that the groups of warps write, one piece of the tile after the other.
class BoxWriter {
 public:
  BoxWriter(Lowering& l, const ir::Op& op)
      : l_(l),
        op_(op),
        value_(op.operand(0)->type),
        axes_(op.get(ir::attr::axes)),
        stretch_(*stretch_with(op.operand(2)->def->get(ir::attr::slots) * op.operand(2)->type.num_elements(),
                               value_.shape, int(axes_.back()))),
        boxes_(*warp_boxes(*value_.layout, int(axes_.back()), value_.bits(), stretch_)) {}

  void write() {
    // Earlier bulk stores to the same memory must not arrive later. Further stretches of a tile are no such ones.
    if (stretch_.first == 0) {
      l_.hw("bulk_store_wait_all", {});
      meet();
    }
    for (size_t i = 0; i < boxes_.pieces.size(); ++i) fill(boxes_.pieces[i], slot(i));
    l_.hw("fence_async_shared", {});
    meet();
    for (size_t i = 0; i < boxes_.pieces.size(); ++i) issue(boxes_.pieces[i], slot(i));
    l_.hw("bulk_store_commit", {});
  }

 private:
  // The warps that hold a box together wait for each other.
  void meet() {
    if (boxes_.warps == 1) return void(l_.hw("warp_barrier", {}));
    const int threads = 32 * boxes_.warps;
    llvm::Value* number = l_.b.CreateUDiv(l_.first_thread_of_warp(), l_.i32(threads));
    // Behind a store by pairs of warps some may be at one by four already, whose barriers are others therefore. Of 32
    // warps no pairs store (bulk_stores).
    const int pairs = l_.num_warps() <= 16 ? l_.num_warps() / 2 : 0, fours = l_.num_warps() / 4;
    llvm::Value* first = l_.barriers_of_group(kBarriersOfBoxes + (boxes_.warps == 2 ? 0 : pairs), pairs + fours);
    l_.hw("barrier_between", {l_.b.CreateAdd(number, first), l_.site(op_.loc)}, fmt::format(".{}", threads));
  }

  llvm::Value* slot(size_t number) {
    const ir::Type& place = op_.operand(2)->type;
    return l_.b.CreateAdd(l_.scalar(op_.operand(2)), l_.i32(int64_t(number) * place.num_elements() * place.bits() / 8));
  }

  void fill(const WarpBoxes::Piece& piece, llvm::Value* base) {
    const Regs& all = l_.get(op_.operand(0));
    Regs regs;
    for (int r : piece.registers) regs.push_back(all[size_t(r)]);
    l_.store_to_place(regs, value_.element(), boxes_.piece, boxes_.shared, base, op_);
  }

  // Where the box of the thread's group begins: the first lane of its first warp holds the first element.
  llvm::Value* address(llvm::Value* base) {
    LinearLayout::In warps{Dim::Warp, {}};
    for (int bit = 0; bit < boxes_.piece.in_bits(Dim::Warp); ++bit)
      warps.bases.push_back(1 << bit < boxes_.warps ? LinearLayout::Basis(size_t(value_.rank()), 0)
                                                    : boxes_.piece.basis(Dim::Warp, bit));
    const LinearLayout first({std::move(warps)}, boxes_.piece.outs());
    return l_.element_address(base, first.invert_and_compose(boxes_.shared), 0, value_.bits() / 8);
  }

  void issue(const WarpBoxes::Piece& piece, llvm::Value* base) {
    const int rank = int(axes_.size());
    llvm::SmallVector<llvm::Value*> args{address(base), l_.scalar(op_.operand(1))};
    for (int d = rank - 1; d >= 0; --d) {
      llvm::Value* at = l_.scalar(op_.operand(3 + d));
      if (const int64_t axis = axes_[size_t(d)]; axis >= 0) {
        at = l_.b.CreateAdd(at, l_.thread_part(boxes_.groups, tile_dim(int(axis))));
        at = l_.b.CreateAdd(at, l_.i32(piece.first[size_t(axis)]));
      }
      args.push_back(at);
    }
    args.push_back(l_.is_elected_of(boxes_.warps));
    args.push_back(l_.site(op_.loc));
    const std::string combine = op_.get(ir::attr::kind);
    l_.hw(fmt::format("bulk_{}_{}d", combine.empty() ? "store" : combine, rank), args);
  }

  Lowering& l_;
  const ir::Op& op_;
  const ir::Type& value_;
  const ir::Ints axes_;
  const Stretch stretch_;
  const WarpBoxes boxes_;
};

}  // namespace

void lower_BulkStore(Lowering& l, const ir::Op& op) { BoxWriter(l, op).write(); }

void lower_BulkStoreWait(Lowering& l, const ir::Op&) { l.hw("bulk_store_wait", {}, ".0"); }

}  // namespace tegula::lower
