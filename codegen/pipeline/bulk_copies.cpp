#include "codegen/pipeline/bulk_copies.h"

#include <algorithm>
#include <variant>

#include "codegen/analysis/cluster_blocks.h"
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

// Where all blocks of a cluster want the same tile at a time: the axis along which they share its copying; the boxes
// are made as small as that takes. -1: each copies for itself.
int multicast_axis(const Func& func, const Op& copy, const std::vector<Value*>& coordinates, MappedTile& mapped) {
  if (!is_divided(func) || !runs_alike_in_blocks(copy) ||
      !std::all_of(coordinates.begin(), coordinates.end(), [](const Value* v) { return same_in_blocks(v); }))
    return -1;
  const Type& place = copy.operand(1)->type;
  auto boxes = boxes_of(*place.layout, place.bits());
  const int axis = axis_of_parts(*place.layout, *boxes, func.num_ctas());
  if (axis >= 0) mapped.box = std::move(boxes->extents);
  return axis;
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
    if (!no_alias(copy->operand(0), written)) {
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
    const std::vector<Value*> coordinates = make_coordinates(here, tiles, plans[i], copy.operand(1)->type.shape);
    Attrs attrs{{attr::axes, axes_of(plans[i])}};
    if (const int axis = multicast_axis(func, copy, coordinates, plans[i]); axis >= 0)
      attrs[attr::multicast] = int64_t(axis);
    std::vector<Value*> operands{make_map(begin, tiles, plans[i]), copy.operand(1), nullptr, nullptr};
    operands.insert(operands.end(), coordinates.begin(), coordinates.end());
    copies[i] = here.create(Opcode::BulkCopy, std::move(operands), {}, std::move(attrs));
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
