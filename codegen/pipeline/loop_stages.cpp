#include "codegen/pipeline/loop_stages.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/integer_bounds.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/layout/makers.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/product/operands.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kShort = 4;  // iterations, as measured

// The ops of the body that operands of its products are computed from; what is put into a place belongs to those who
// read it.
std::unordered_set<const Op*> feeding_products(const Block& body) {
  std::unordered_set<const Op*> feeding;
  std::unordered_set<const Value*> places;
  auto root = [](const Value* place) {
    while (place->def && place->def->opcode != Opcode::SharedAlloc) place = place->def->operands[0];
    return place;
  };
  for (auto it = body.ops.rbegin(); it != body.ops.rend(); ++it) {
    const Op& op = **it;
    const bool fills =
        (op.opcode == Opcode::SharedStore || op.opcode == Opcode::SharedTranspose || op.opcode == Opcode::AsyncCopy) &&
        places.contains(root(op.operand(1)));
    if (fills) feeding.insert(&op);
    if (!is_product(op) && !feeding.contains(&op)) continue;
    for (const Value* v : op.operands) {
      if (v && v->type.is_place()) places.insert(root(v));
      if (v && v->def) feeding.insert(v->def);
    }
  }
  return feeding;
}

// Whether other loads may go by it: a number or a few, as pages of a table.
bool may_be_index(const Op& op) {
  constexpr int64_t kMost = 512;
  if (op.opcode != Opcode::Load || !op.result()->type.is_integer()) return false;
  if (op.result()->type.is_scalar()) return true;
  const Shape& shape = op.result()->type.shape;
  const int64_t elements = op.result()->type.num_elements();
  return elements <= kMost && elements == *std::max_element(shape.begin(), shape.end());
}

}  // namespace

bool has_product(const Op& loop) {
  const auto& ops = loop.regions[0]->ops;
  return std::any_of(ops.begin(), ops.end(), [](auto& op) { return is_product(*op); });
}

bool is_small_load(const Op& op) {
  constexpr int64_t kRegisters = 4;
  if (op.opcode != Opcode::Load) return false;
  const Type& type = op.result()->type;
  return !type.pointer && (type.is_scalar() || type.layout) && loaded_elements(op) * type.bits() <= 32 * kRegisters;
}

bool has_whole_accesses(const Op& load, const AxisAnalysis& axes) {
  const Value *mask = load.operand(1), *other = load.operand(2);
  if (other && !is_zero(other)) return false;
  // The elements of an access lie along the one axis along which registers hold neighbours.
  const int axis = fastest_order(*load.result()->type.layout)[0];
  return !mask || axes.vector_width(load.operand(0), mask, axis) >= load.get(attr::vector);
}

int64_t stages_of(const Op& loop, const Func& func) {
  if (loop.has(attr::num_stages)) return loop.get(attr::num_stages);
  return has_product(loop) && !is_short(loop) ? func.num_stages() : 1;
}

bool is_short(const Op& loop) {
  if (loop.has(attr::num_stages) || !has_product(loop)) return false;
  std::unordered_map<const Value*, int> multiplied;  // how often what is loaded is an operand
  for (const auto& op : loop.regions[0]->ops) {
    if (op->opcode == Opcode::AsyncCopy) return false;
    if (!is_product(*op)) continue;
    if (op->opcode != Opcode::Dot || !op->has(attr::instruction) || family_of(*op).asynchronous) return false;
    for (int i : {0, 1}) {
      const Value* operand = untransposed(op->operands[size_t(i)]);
      if (operand->def && operand->def->opcode == Opcode::Load && ++multiplied[operand] > 1) return false;
    }
  }
  const auto trips = most_trips(loop);
  return trips && *trips <= kShort;
}

std::vector<Op*> loads_ahead(const Op& loop) {
  const Block& body = *loop.regions[0];
  std::vector<const Value*> written;
  if (orders_memory(body, written)) return {};
  auto loads_of = [&](LoopSources sources) {
    std::vector<Op*> loads;
    for (auto& op : body.ops) {
      if (op->opcode != Opcode::Load && op->opcode != Opcode::AsyncCopy) continue;
      auto of = LoopSources::Source::Invariant;
      for (const Value* v : op->operands)
        if (!v || !v->type.is_place()) of = std::max(of, sources.of(v));
      if (of == LoopSources::Source::Iteration && no_alias(op->operands[0], written)) loads.push_back(op.get());
    }
    return loads;
  };
  std::vector<Op*> loads = loads_of(LoopSources(loop));
  std::unordered_set<const Op*> indices;
  for (const Op* load : loads)
    if (may_be_index(*load)) indices.insert(load);
  if (!indices.empty()) loads = loads_of(LoopSources(loop, std::move(indices)));
  if (loop.has(attr::num_stages)) return loads;
  const std::unordered_set<const Op*> feeding = feeding_products(body);
  const bool beside =
      std::any_of(body.ops.begin(), body.ops.end(), [](auto& op) { return op->opcode == Opcode::MmaStart; });
  std::erase_if(loads, [&](const Op* load) { return !feeding.contains(load) && !(beside && is_small_load(*load)); });
  return loads;
}

int64_t warp_specialize_of(const Op& loop, const Func& func) {
  if (func.num_ctas() > 1 && !is_divided(func)) return 1;  // all threads of a cluster wait for each other
  for (const Op* around = &loop; around; around = around->parent->parent)
    if (around->opcode == Opcode::For)
      if (const int64_t says = around->get(attr::warp_specialize)) return says;
  return func.warp_specialize();
}

}  // namespace tegula
