#include "codegen/pipeline/bulk_copies.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <variant>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/shared_boxes.h"
#include "codegen/pipeline/affine_tile.h"
#include "codegen/pipeline/edit.h"
#include "runtime/tensor_map.h"

namespace tegula {

using namespace ir;

namespace {

// The extent of a dimension that no mask bounds: nothing that 32 bits count is outside.
constexpr int64_t kUnbounded = 0x7fff0000;

// The tile that an async_copy copies, its dimensions in the order in which boxes have them, and these.
struct Plan {
  AffineTile tile;
  SharedBoxes boxes;
};

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

// The function's first op behind the barriers that precede copy_warps.
Op& behind_barriers(Func& func) {
  return **std::find_if(func.body.ops.begin(), func.body.ops.end(), [](auto& op) { return !precedes_copy_warps(*op); });
}

// Host values anew, where nothing of the function but its parameters is in sight.
Value* compute_anew(Builder& build, const Value* v, ValueMap& known) {
  if (!v->def) return const_cast<Value*>(v);
  if (auto at = known.find(v); at != known.end()) return at->second;
  for (const Value* operand : v->def->operands) known[operand] = compute_anew(build, operand, known);
  return known[v] = build.insert(clone_op(*v->def, known))->result(v->index);
}

std::variant<Plan, std::string> plan(AffineTiles& tiles, const Op& copy) {
  auto tile = tiles.tile_of(copy.operand(0), copy.operand(2));
  if (auto* why = std::get_if<std::string>(&tile)) return std::move(*why);
  const Type& place = copy.operand(1)->type;
  auto boxes = boxes_of(*place.layout, place.bits());
  Plan out{std::get<AffineTile>(std::move(tile)), {}};
  if (!boxes || boxes->order[0] != out.tile.dims.back().axis)
    return "its elements lie in another order in shared memory";
  out.boxes = std::move(*boxes);
  auto rank = [&](const AffineDim& dim) {
    const auto& order = out.boxes.order;
    return dim.axis < 0 ? int64_t(order.size()) : std::find(order.begin(), order.end(), dim.axis) - order.begin();
  };
  std::stable_sort(out.tile.dims.begin(), out.tile.dims.end(),
                   [&](const AffineDim& a, const AffineDim& b) { return rank(a) > rank(b); });
  return out;
}

Value* make_map(Builder& build, const AffineTiles& tiles, const Plan& plan) {
  ValueMap known;
  auto evaluated = [&](const Polynomial& p) {
    return evaluate(build, p, Elem::I64, [&](int i) { return compute_anew(build, tiles.unknown(i), known); });
  };
  Value* base = const_cast<Value*>(plan.tile.base);
  if (!plan.tile.base_offset.is_zero()) base = build.addptr(base, evaluated(plan.tile.base_offset));
  std::vector<Value*> operands{base};
  Shape box;
  for (const AffineDim& dim : plan.tile.dims) {
    operands.push_back(dim.extent ? evaluated(*dim.extent) : number(build, Elem::I64, kUnbounded));
    box.push_back(dim.axis < 0 ? 1 : plan.boxes.extents[size_t(dim.axis)]);
  }
  for (size_t i = 0; i + 1 < plan.tile.dims.size(); ++i) operands.push_back(evaluated(plan.tile.dims[i].stride));
  for (const Value* parameter : plan.tile.not_negative)
    operands.push_back(build.cast(const_cast<Value*>(parameter), Elem::I64));
  Attrs attrs;
  if (plan.boxes.swizzle) attrs[attr::swizzle] = int64_t(plan.boxes.swizzle);
  return build
      .create(Opcode::TensorMap, std::move(operands), {Type::map(base->type.elem, std::move(box))}, std::move(attrs))
      ->result();
}

// A tile one of whose conditions does not hold lies outside of the array.
std::vector<Value*> make_coordinates(Builder& build, const AffineTiles& tiles, const Plan& plan, const Shape& shape) {
  auto unknown = [&](int i) { return const_cast<Value*>(tiles.unknown(i)); };
  std::vector<Value*> coordinates;
  for (const AffineDim& dim : plan.tile.dims) coordinates.push_back(evaluate(build, dim.start, Elem::I32, unknown));
  Value*& last = coordinates.back();
  for (const Value* condition : plan.tile.conditions)
    last = build.select(const_cast<Value*>(condition), last,
                        number(build, Elem::I32, -shape[size_t(plan.tile.dims.back().axis)]));
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

}  // namespace

BulkForm::BulkForm(Func& func, std::vector<Op*>& copies) {
  if (follows_order(*copies[0]->parent->parent)) {
    why_not_ = "the kernel orders memory ahead of it";
    return;
  }
  // Bulk copies read through the asynchronous proxy, which does not see what this launch has written before.
  const std::vector<const Value*> written = written_by(func);
  for (const Op* copy : copies)
    if (!apart(copy->operand(0), written)) {
      why_not_ = "the kernel writes to what it copies";
      return;
    }
  AffineTiles tiles(func);
  std::vector<Plan> plans;
  for (const Op* copy : copies) {
    auto found = plan(tiles, *copy);
    if (auto* why = std::get_if<std::string>(&found)) {
      why_not_ = std::move(*why);
      return;
    }
    plans.push_back(std::get<Plan>(std::move(found)));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    Op& copy = *copies[i];
    Builder begin = before(behind_barriers(func), copy.loc), here = before(copy);
    Ints axes;
    for (const AffineDim& dim : plans[i].tile.dims) axes.push_back(dim.axis);
    std::vector<Value*> operands{make_map(begin, tiles, plans[i]), copy.operand(1), nullptr, nullptr};
    for (Value* coordinate : make_coordinates(here, tiles, plans[i], copy.operand(1)->type.shape))
      operands.push_back(coordinate);
    copies[i] = here.create(Opcode::BulkCopy, std::move(operands), {}, {{attr::axes, std::move(axes)}});
    replaced_.push_back(take(copy));
  }
  if (launch_makes_maps(func)) return;
  undo(copies);
  why_not_ = "the kernel would copy from more arrays than a launch makes maps of";
}

void BulkForm::undo(std::vector<Op*>& copies) {
  for (size_t i = 0; i < replaced_.size(); ++i) {
    Op* bulk = copies[i];
    copies[i] = before(*bulk).insert(std::move(replaced_[i]));
    erase(*bulk);
  }
  replaced_.clear();
}

}  // namespace tegula
