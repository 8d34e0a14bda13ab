#include "codegen/pipeline/bulk_copies.h"

#include <algorithm>
#include <variant>

#include "codegen/analysis/pointer_base.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/shared_boxes.h"
#include "codegen/pipeline/affine_tile.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/mapped_tile.h"

namespace tegula {

using namespace ir;

namespace {

std::variant<MappedTile, std::string> plan(AffineTiles& tiles, const Op& copy) {
  auto found = tiles.tile_of(copy.operand(0), copy.operand(2));
  if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
  AffineTile tile = std::get<AffineTile>(std::move(found));
  const Type& place = copy.operand(1)->type;
  auto boxes = boxes_of(*place.layout, place.bits());
  if (!boxes || boxes->order[0] != tile.dims.back().axis) return "its elements lie in another order in shared memory";
  auto rank = [&](const AffineDim& dim) {
    const auto& order = boxes->order;
    return dim.axis < 0 ? int64_t(order.size()) : std::find(order.begin(), order.end(), dim.axis) - order.begin();
  };
  std::stable_sort(tile.dims.begin(), tile.dims.end(),
                   [&](const AffineDim& a, const AffineDim& b) { return rank(a) > rank(b); });
  return MappedTile{std::move(tile), std::move(boxes->extents), boxes->swizzle};
}

// The bases of what the function writes anywhere; null for what is not known. Bulk copies read through the asynchronous
// proxy, which does not see what this launch has written before.
std::vector<const Value*> written_by(const Func& func) {
  std::vector<const Value*> written;
  orders_memory(func.body, written);
  walk(func.body, [&](const Op& op) {
    if (op.opcode == Opcode::InlineAsmEffects) written.push_back(nullptr);
  });
  return written;
}

// Whether what is ordered before the loop runs, acquired from other programs for one, may be what it copies: the
// asynchronous proxy would not see it.
bool follows_order(const Op& loop) {
  std::vector<const Value*> written;
  for (const Op* op = &loop; op; op = op->parent->parent) {
    const Op* around = op->parent->parent;
    if (around && (around->opcode == Opcode::For || around->opcode == Opcode::While) &&
        std::any_of(around->regions.begin(), around->regions.end(),
                    [&](const auto& region) { return orders_memory(*region, written); }))
      return true;
    for (auto& other : op->parent->ops) {
      if (other.get() == op) break;
      if (orders_memory(*other, written)) return true;
    }
  }
  return false;
}

}  // namespace

BulkForm::BulkForm(Func& func, std::vector<Op*>& copies) {
  if (follows_order(*copies[0]->parent->parent)) {
    why_not_ = "the kernel orders memory ahead of it";
    return;
  }
  const std::vector<const Value*> written = written_by(func);
  for (const Op* copy : copies)
    if (!apart(copy->operand(0), written)) {
      why_not_ = "the kernel writes to what it copies";
      return;
    }
  AffineTiles tiles(func);
  std::vector<MappedTile> plans;
  for (const Op* copy : copies) {
    auto found = plan(tiles, *copy);
    if (auto* why = std::get_if<std::string>(&found)) {
      why_not_ = std::move(*why);
      return;
    }
    plans.push_back(std::get<MappedTile>(std::move(found)));
  }
  for (size_t i = 0; i < copies.size(); ++i) {
    Op& copy = *copies[i];
    Builder begin = where_maps_stand(func, copy.loc), here = before(copy);
    std::vector<Value*> operands{make_map(begin, tiles, plans[i]), copy.operand(1), nullptr, nullptr};
    for (Value* coordinate : make_coordinates(here, tiles, plans[i], copy.operand(1)->type.shape))
      operands.push_back(coordinate);
    copies[i] = here.create(Opcode::BulkCopy, std::move(operands), {}, {{attr::axes, axes_of(plans[i])}});
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
