#include "codegen/analysis/owned_values.h"

#include <vector>

#include "codegen/analysis/conversion.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/axis_order.h"

namespace tegula {

using namespace ir;

namespace {

constexpr uint32_t kAll = ~0u, kLaneBits = 31;

// What of an operand's unused bits an op leaves: those of its results among `of_results`, or, whatever becomes of the
// results, `own`.
struct Left {
  bool follows_results = false;
  uint32_t bits = 0;

  static Left of_results(uint32_t bits) { return {true, bits}; }
  static Left own(uint32_t bits) { return {false, bits}; }
};

// Partial results in shared memory are stored by warps that hold no copies.
Left left_by_reduction(const Op& op, int num_warps) {
  const LinearLayout& layout = *op.operand(0)->type.layout;
  const int axis = int(op.get(attr::axis));
  if (!bits_along(layout, Dim::Block, axis).empty()) return Left::own(0);
  if (!bits_along(layout, Dim::Warp, axis).empty()) return Left::own(bits_of_copies(&layout, num_warps) & ~kLaneBits);
  return Left::of_results(bits_along(layout, Dim::Lane, axis).empty() ? kAll : ~kLaneBits);
}

// Elements go to shared memory from their owners.
Left left_by_move(const Op& op, int num_warps) {
  const Type &from = op.operand(0)->type, &to = op.result()->type;
  if (from.is_place()) return Left::own(0);
  if (!from.layout || !to.layout) return Left::of_results(kAll);
  const auto view = operand_view(op);
  const Conversion::Route route = view ? plan_conversion(*from.layout, *view).route : Conversion::Route::Shared;
  if (route == Conversion::Route::Registers) return Left::of_results(kAll);
  if (goes_through_shared(route)) return Left::own(bits_of_copies(from.layout.get(), num_warps));
  return Left::of_results(~kLaneBits);
}

Left left_by(const Op& op, size_t operand, int num_warps) {
  switch (op.opcode) {
    case Opcode::Store:
    case Opcode::AtomicRmw:
      return Left::own(bits_of_copies(op.operands[operand]->type.layout.get(), num_warps));
    case Opcode::Reduce:
      return left_by_reduction(op, num_warps);
    case Opcode::Splat:
      return Left::of_results(kAll);
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
    case Opcode::Reshape:
    case Opcode::Trans:
    case Opcode::ConvertLayout:
      return left_by_move(op, num_warps);
    default:  // each thread computes with its own registers alone, or anything may follow
      return op.has(Elementwise) && op.has(Pure) ? Left::of_results(kAll) : Left::own(0);
  }
}

}  // namespace

uint32_t bits_of_copies(const LinearLayout* layout, int num_warps) {
  return layout ? uint32_t(layout->free_mask(Dim::Lane)) | uint32_t(layout->free_mask(Dim::Warp)) << 5
                : uint32_t(num_warps * 32 - 1);
}

OwnedValues::OwnedValues(const Func& func) {
  struct Source {
    const Value* value;
    uint32_t bits;  // of the unused ones of what follows from it
  };
  std::unordered_map<const Value*, std::vector<Source>> sources;
  std::vector<const Value*> next;
  const auto limit = [&](const Value* value, uint32_t bits) {
    uint32_t& unused = unused_.try_emplace(value, kAll).first->second;
    if ((unused & bits) == unused) return;
    unused &= bits;
    next.push_back(value);
  };
  walk(func.body, [&](const Op& op) {
    for (const std::vector<Value*>& variable : circulating(op))
      for (const Value* value : variable)
        for (const Value* other : variable) sources[value].push_back({other, kAll});
    for (size_t i = 0; i < op.operands.size(); ++i) {
      const Value* operand = op.operands[i];
      if (!operand || is_handed_on(op, i)) continue;
      const Left left = left_by(op, i, func.num_warps());
      if (!left.follows_results) limit(operand, left.bits);
      for (const auto& result : op.results)
        if (left.follows_results) sources[result.get()].push_back({operand, left.bits});
    }
  });
  // What is derived from a value without any limit at all limits it to the bits that the way there leaves.
  for (const auto& [value, from] : sources)
    for (const Source& source : from) limit(source.value, source.bits);
  while (!next.empty()) {
    const Value* value = next.back();
    next.pop_back();
    for (const Source& source : sources[value]) limit(source.value, unused_.at(value) & source.bits);
  }
}

uint32_t OwnedValues::unused_bits(const Value* value) const {
  const auto found = unused_.find(value);
  return found == unused_.end() ? kAll : found->second;
}

}  // namespace tegula
