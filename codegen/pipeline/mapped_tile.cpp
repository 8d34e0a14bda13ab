#include "codegen/pipeline/mapped_tile.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "runtime/tensor_map.h"

namespace tegula {

using namespace ir;

namespace {

// The extent of a dimension that no mask bounds: nothing that 32 bits count is outside.
constexpr int64_t kUnbounded = 0x7fff0000;

Value* number(Builder& build, Elem elem, int64_t value) { return build.constant(Type::scalar(elem), value); }

// The polynomial's value as an integer of that type.
Value* evaluate(Builder& build, const Polynomial& p, Elem elem, const std::function<Value*(int)>& unknown) {
  Value* sum = nullptr;
  for (const auto& [factors, coefficient] : p.terms()) {
    Value* product = coefficient == 1 && !factors.empty() ? nullptr : number(build, elem, coefficient);
    for (int factor : factors) {
      Value* x = unknown(factor);
      if (x->type.elem != elem) x = build.cast(x, elem);
      product = product ? build.mul(product, x) : x;
    }
    sum = sum ? build.add(sum, product) : product;
  }
  return sum ? sum : number(build, elem, 0);
}

// Host values anew, where nothing of the function but its parameters is in sight.
Value* compute_anew(Builder& build, const Value* v, ValueMap& known) {
  if (!v->def) return const_cast<Value*>(v);
  if (auto at = known.find(v); at != known.end()) return at->second;
  for (const Value* operand : v->def->operands) known[operand] = compute_anew(build, operand, known);
  return known[v] = build.insert(clone_op(*v->def, known))->result(v->index);
}

}  // namespace

Builder where_maps_stand(Func& func, const Loc& loc) {
  const auto first =
      std::find_if(func.body.ops.begin(), func.body.ops.end(), [](auto& op) { return !precedes_copy_warps(*op); });
  return before(**first, loc);
}

Ints axes_of(const MappedTile& mapped) {
  Ints axes;
  for (const AffineDim& dim : mapped.tile.dims) axes.push_back(dim.axis);
  return axes;
}

Value* make_map(Builder& build, const AffineTiles& tiles, const MappedTile& mapped) {
  ValueMap known;
  auto evaluated = [&](const Polynomial& p) {
    return evaluate(build, p, Elem::I64, [&](int i) { return compute_anew(build, tiles.unknown(i), known); });
  };
  Value* base = const_cast<Value*>(mapped.tile.base);
  if (!mapped.tile.base_offset.is_zero()) base = build.addptr(base, evaluated(mapped.tile.base_offset));
  std::vector<Value*> operands{base};
  Shape box;
  for (const AffineDim& dim : mapped.tile.dims) {
    operands.push_back(dim.extent ? evaluated(*dim.extent) : number(build, Elem::I64, kUnbounded));
    box.push_back(dim.axis < 0 ? 1 : mapped.box[size_t(dim.axis)]);
  }
  for (size_t i = 0; i + 1 < mapped.tile.dims.size(); ++i) operands.push_back(evaluated(mapped.tile.dims[i].stride));
  for (const Value* parameter : mapped.tile.not_negative)
    operands.push_back(build.cast(const_cast<Value*>(parameter), Elem::I64));
  auto want_not_negative = [&](Value* x, Value* y) { operands.push_back(build.sub(x, y)); };
  for (const Multiple& multiple : mapped.tile.multiples) {
    Value* counted = evaluated(multiple.number);
    want_not_negative(counted, number(build, Elem::I64, 1));
    want_not_negative(number(build, Elem::I64, 0), build.rem(counted, number(build, Elem::I64, multiple.of)));
  }
  for (const Polynomial& stride : mapped.tile.long_strides)
    want_not_negative(evaluated(stride), number(build, Elem::I64, kLongStride * 8 / elem_bits(base->type.elem)));
  Attrs attrs;
  if (mapped.swizzle) attrs[attr::swizzle] = int64_t(mapped.swizzle);
  if (mapped.tile.may_lie_outside()) attrs[attr::may_lie_outside] = true;
  return build
      .create(Opcode::TensorMap, std::move(operands), {Type::map(base->type.elem, std::move(box))}, std::move(attrs))
      ->result();
}

// A tile one of whose conditions does not hold lies outside of the array.
std::vector<Value*> make_coordinates(Builder& build, const AffineTiles& tiles, const MappedTile& mapped,
                                     const Shape& shape) {
  std::function<Value*(int)> unknown = [&](int i) {
    if (const Remainder* r = tiles.remainder(i))
      return build.rem(evaluate(build, r->of, r->elem, unknown), evaluate(build, r->modulus, r->elem, unknown));
    return const_cast<Value*>(tiles.unknown(i));
  };
  std::vector<Value*> coordinates;
  for (const AffineDim& dim : mapped.tile.dims) coordinates.push_back(evaluate(build, dim.start, Elem::I32, unknown));
  Value*& last = coordinates.back();
  for (const Value* condition : mapped.tile.conditions)
    last = build.select(const_cast<Value*>(condition), last,
                        number(build, Elem::I32, -shape[size_t(mapped.tile.dims.back().axis)]));
  return coordinates;
}

// Whether a launch makes so many maps, and computes so much for them.
bool launch_makes_maps(const Func& func) {
  constexpr size_t kStepsOfAddPtr = 4;
  size_t maps = 0, steps = 0;
  std::unordered_set<const Value*> seen;
  std::function<void(const Value*)> visit = [&](const Value* v) {
    if (!seen.insert(v).second) return;
    steps += v->def && v->def->opcode == Opcode::AddPtr ? kStepsOfAddPtr : 1;
    if (!v->def) return;
    for (const Value* operand : v->def->operands) visit(operand);
  };
  for (auto& op : func.body.ops) {
    if (op->opcode != Opcode::TensorMap) continue;
    ++maps;
    for (const Value* operand : op->operands) visit(operand);
  }
  return maps <= TensorMaps::kMost && steps <= TensorMaps::kMostSteps;
}

}  // namespace tegula
