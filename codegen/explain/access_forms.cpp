#include "codegen/explain/access_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/conversion.h"
#include "codegen/analysis/mask_runs.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/makers.h"

namespace tegula::explaining {

using ir::Opcode;

namespace {

constexpr int kWidest = 16;  // bytes of an instruction

const ir::Value* mask_of(const ir::Op& op) { return op.operand(op.opcode == Opcode::Load ? 1 : 2); }

class Reader {
 public:
  explicit Reader(const ir::Func& func)
      : func_(func), axes_(func), without_promises_(func, AxisPremises{.promises = false}) {}

  Forms run() {
    ir::walk(func_.body, [&](const ir::Op& op) { look_at(op); });
    return std::move(out_);
  }

 private:
  void look_at(const ir::Op& op) {
    switch (op.opcode) {
      case Opcode::Load:
        return by_threads(op, "load", op.result()->type);
      case Opcode::Store:
        return by_threads(op, "store", op.operand(1)->type);
      case Opcode::AtomicRmw:
        return by_threads(op, "atomic", op.operand(1)->type);
      case Opcode::AsyncCopy:
        return by_threads(op, "copy to shared memory", op.operand(0)->type);
      case Opcode::BulkCopy:
        return by_boxes(op, "bulk copy", op.operand(0));
      case Opcode::BulkStore:
        return by_boxes(op, op.get(ir::attr::kind).empty() ? "bulk store" : "bulk reduction", op.operand(1));
      case Opcode::SharedStore:
        return conflicts(op, "a store to shared memory", op.operand(0)->type, op.operand(1)->type);
      case Opcode::SharedRead:
        return conflicts(op, "a read of shared memory", op.result()->type, op.operand(0)->type);
      case Opcode::ConvertLayout:
        return conversion(op);
      case Opcode::For:
        return loop(op);
      default:
        return;
    }
  }

  // ---- Global memory

  static std::string array_of(const ir::Value* pointer) {
    const ir::Value* base = pointer_base(pointer);
    return base ? base->name : "";
  }

  void by_boxes(const ir::Op& op, const char* what, const ir::Value* map) {
    const ir::Type& type = map->type;
    out_.accesses.push_back({op.loc, what, map->def ? array_of(map->def->operand(0)) : "",
                             int(type.num_elements() * std::max(1, elem_bits(type.elem) / 8)), ""});
  }

  void by_threads(const ir::Op& op, const char* what, const ir::Type& value) {
    const ir::Value* pointers = op.operand(0);
    const int element = std::max(1, elem_bits(pointers->type.elem) / 8);
    AccessForm form{op.loc, what, array_of(pointers), element, ""};
    if (pointers->type.is_tile()) {
      int by_pointers = 1, by_mask = 1, axis = 0, held = 1;
      for (int a = 0; a < pointers->type.rank(); ++a) {
        const int width = axes_.vector_width(pointers, nullptr, a);
        if (width > by_pointers) by_pointers = width, axis = a;
        if (value.layout) held = std::max(held, int(value.layout->contiguous_registers(a)));
      }
      by_mask = width_under_mask(op, axis);
      const bool has_width = op.info().attr(ir::attr::vector.name) != nullptr;
      const int width = has_width ? int(op.get(ir::attr::vector)) : std::min(by_mask, held);
      form.bytes = width * element;
      if (form.bytes < kWidest) form.limit = limit(op, axis, width, by_pointers, by_mask, held);
    }
    out_.accesses.push_back(std::move(form));
  }

  // Elements along the axis that an access can cover.
  int width_under_mask(const ir::Op& op, int axis) const {
    const ir::Value *pointers = op.operand(0), *mask = mask_of(op);
    if (op.opcode != Opcode::Load && op.opcode != Opcode::Store) return axes_.vector_width(pointers, mask, axis);
    const AxisInfo known = axes_.info(pointers, mask), without = without_promises_.info(pointers, mask);
    return masked_access_width({known, axes_}, {without, without_promises_}, elem_bytes(pointers->type.elem), mask,
                               size_t(axis));
  }

  // What to change for wider accesses, the first thing first.
  std::string limit(const ir::Op& op, int axis, int width, int by_pointers, int by_mask, int held) const {
    const AxisInfo& info = axes_.info(op.operand(0));
    const int element = std::max(1, elem_bits(op.operand(0)->type.elem) / 8);
    if (op.opcode == Opcode::AtomicRmw) return {};
    if (by_pointers <= width) {
      const int64_t run = *std::max_element(info.contiguity.begin(), info.contiguity.end());
      if (run == 1) return "elements do not lie side by side along any axis: strided, gathered or repeated";
      const int64_t divisor = info.divisibility[size_t(axis)];
      if (divisor < kWidest && run * element > divisor)
        return fmt::format(
            "addresses are known to be multiples of {} bytes only: strides that are multiples of {} and aligned "
            "pointers "
            "make accesses of 16 bytes",
            divisor, kWidest / element);
      return fmt::format("{} elements lie side by side at a time", run);
    }
    if (by_mask <= width)
      return fmt::format("the mask may end {}: an extent that is a multiple of {} makes accesses of 16 bytes",
                         by_mask == 1 ? "between any two elements" : fmt::format("behind every {} elements", by_mask),
                         kWidest / element);
    return fmt::format("a thread holds {} elements in a row: fewer warps or larger tiles give it more", held);
  }

  // ---- Shared memory

  void add_conflict(const ir::Op& op, const char* what, int ways) {
    ++out_.shared_accesses;
    if (ways > 1) out_.conflicts.push_back({op.loc, what, ways});
  }

  // The widest access whose registers lie side by side in shared memory.
  static int width_in(const LinearLayout& offsets, int bits) {
    int width = 1;
    const int registers = offsets.in_size(Dim::Register);
    for (int w = 2; w <= registers && w * bits <= 8 * kWidest; w *= 2) {
      for (int r = 0; r < registers; ++r)
        if (offsets.apply({{Dim::Register, r}})[0] != offsets.apply({{Dim::Register, r / w * w}})[0] + r % w)
          return width;
      width = w;
    }
    return width;
  }

  void conflicts(const ir::Op& op, const char* what, const ir::Type& tile, const ir::Type& place) {
    if (func_.num_ctas() > 1 || !tile.layout || !place.layout) return;
    const int bits = std::max(8, tile.bits());
    if (plan_matrices(*tile.layout, *place.layout, bits)) return add_conflict(op, what, 1);
    const auto offsets = tile.layout->try_invert_and_compose(*place.layout);
    if (offsets) add_conflict(op, what, bank_conflicts(*tile.layout, *place.layout, bits, width_in(*offsets, bits)));
  }

  void conversion(const ir::Op& op) {
    const ir::Type &from = op.operand(0)->type, &to = op.result()->type;
    if (func_.num_ctas() > 1 || !from.layout || !to.layout) return;
    if (plan_conversion(*from.layout, *to.layout).route != Conversion::Route::Shared) return;
    const int bits = std::max(8, from.bits());
    int width = 1;
    const LinearLayout shared = shared_layout_for_conversion(*from.layout, *to.layout, bits, &width);
    add_conflict(
        op, "an exchange between threads",
        std::max(bank_conflicts(*from.layout, shared, bits, width), bank_conflicts(*to.layout, shared, bits, width)));
  }

  // ---- Loops

  void loop(const ir::Op& op) {
    if (op.loc == func_.loc && ir::loops_over_programs(func_)) return;  // over programs: no loop of the text
    LoopForm form{op.loc, 1 + loads_ahead(op)};
    bool moves = false;
    for (const auto& inner : op.regions[0]->ops) {
      moves |= inner->opcode == Opcode::Load;
      for (const ir::Value* x : inner->operands)
        if (x && x->type.is_place())
          if (const ir::Op* alloc = alloc_of(x)) {
            form.stages = std::max(form.stages, int(alloc->get(ir::attr::slots)));
            moves = true;
          }
    }
    if (!moves) return;
    for (LoopForm& known : out_.loops)  // warps that copy run a loop of their own at the same place
      if (known.loc == form.loc) {
        known.stages = std::max(known.stages, form.stages);
        return;
      }
    out_.loops.push_back(form);
  }

  // How many iterations loads to registers run ahead: what one loads is carried, from variable to variable.
  static int loads_ahead(const ir::Op& op) {
    const ir::ForLoop loop(op);
    int most = 0;
    for (size_t i = 0; i < loop.carried(); ++i) {
      int ahead = 1;
      const ir::Value* v = loop.next(i);
      while (v && !v->def && ahead <= int(loop.carried())) {
        const auto number = loop.number(v);
        v = number ? loop.next(*number) : nullptr;
        ++ahead;
      }
      if (v && v->def && v->def->opcode == Opcode::Load && v->def->parent == op.regions[0].get())
        most = std::max(most, ahead);
    }
    return most;
  }

  const ir::Func& func_;
  AxisAnalysis axes_, without_promises_;
  Forms out_;
};

}  // namespace

Forms look_at_forms(const ir::Func& func) { return Reader(func).run(); }

int64_t bytes_of_sums(const ir::Func& func) {
  int64_t bytes = 0;
  ir::walk(func.body, [&](const ir::Op& op) {
    if (op.opcode == Opcode::Dot) bytes += op.result()->type.num_elements() * std::max(1, op.result()->type.bits() / 8);
  });
  return bytes;
}

}  // namespace tegula::explaining
