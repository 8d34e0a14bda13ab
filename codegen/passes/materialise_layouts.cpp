#include "codegen/passes/materialise_layouts.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/conversion.h"
#include "codegen/analysis/layout_price.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/axis_order.h"
#include "codegen/layout/layout_hash.h"
#include "codegen/layout/makers.h"
#include "codegen/passes/layout_rules.h"
#include "runtime/base/check.h"

namespace tegula {

using ir::Block;
using ir::Builder;
using ir::Op;
using ir::Opcode;
using ir::Value;

namespace {

class Materialiser {
 public:
  Materialiser(const LayoutMap& layouts, MemoryLayouts& memory) : layouts_(layouts), memory_(memory) {}

  void lay_out_places(ir::Func& func) {
    std::unordered_map<const Value*, LayoutRef> buffers;
    ir::walk(func.body, [&](Op& op) {
      const bool transposes = op.opcode == Opcode::SharedTranspose;
      if (op.opcode != Opcode::AsyncCopy && op.opcode != Opcode::SharedStore && !transposes) return;
      const Value* buffer = op.operands[1];
      if (buffer->def->opcode == Opcode::SharedSlot) buffer = buffer->def->operands[0];
      LayoutRef& layout = buffers[buffer];
      if (layout) return;
      std::vector<int> order = transposes ? std::vector<int>{0, 1} : fastest_order(*layout_of(op.operands[0]));
      // Registers that are accessed one by one may be contiguous along another axis.
      const auto first = std::find(order.begin(), order.end(), int(buffer->def->get(ir::attr::contiguous)));
      if (first != order.end()) std::rotate(order.begin(), first, first + 1);
      layout = intern(shared_layout_for_dot_operand(buffer->type.shape, order, buffer->type.bits()));
    });
    ir::walk(func.body, [&](Op& op) {
      if (op.opcode != Opcode::SharedAlloc && op.opcode != Opcode::SharedSlot) return;
      const Value* buffer = op.opcode == Opcode::SharedAlloc ? op.result() : op.operands[0];
      LayoutRef& layout = buffers[buffer];
      if (!layout)  // of barriers
        layout = intern(swizzled_shared_layout(buffer->type.shape, {0}, 1, 1, 1));
      op.result()->type.layout = layout;
    });
    ir::walk(func.body, [&](Op& op) {
      if (op.opcode != Opcode::Trans || !op.result()->type.is_place()) return;
      const std::vector<int64_t> order = op.get(ir::attr::order);
      op.result()->type.layout = intern(op.operands[0]->type.layout->permute_tile({order.begin(), order.end()}));
    });
  }

  void materialise(Block& block) {
    for (auto& arg : block.args) set_type(arg.get());
    // Insertions go before the current op or after earlier ones, so the walk does not meet them.
    for (auto& op : block.ops) materialise(*op);
  }

 private:
  LayoutRef layout_of(const Value* v) const {
    auto it = layouts_.find(v);
    TEGULA_CHECK(it != layouts_.end(), "a tile without a layout: {}", v->type.to_string());
    return it->second;
  }
  void set_type(Value* v) {
    if (v->type.is_tile()) v->type.layout = intern(*layout_of(v));
  }
  /// One object for equal layouts, so that types are compared quickly.
  LayoutRef intern(const LinearLayout& layout) {
    auto known = interned_.find(layout);
    if (known == interned_.end()) known = interned_.insert(std::make_shared<LinearLayout>(layout)).first;
    return *known;
  }

  /// The value in another layout, available before `user`.
  Value* in_layout(Value* v, const LinearLayout& layout, Op* user) {
    if (!v->type.is_tile() || *v->type.layout == layout) return v;
    LayoutRef wanted = intern(layout);
    Value*& made = converted_[{v, wanted.get()}];
    if (made) return made;
    if (v->def && is_layout_free(*v->def)) {
      ir::ValueMap map;
      Builder builder;
      builder.set_after(v->def);
      made = builder.insert(ir::clone_op(*v->def, map))->result();
      made->type.layout = wanted;
    } else {
      Block* home = v->def ? v->def->parent : v->block;
      Op* before = user;
      while (before->parent != home) before = before->parent->parent;
      Builder builder;
      builder.set_before(before);
      made = builder.convert_layout(v, wanted);
      made->name = v->name;
    }
    return made;
  }
  void need(Op& op, size_t i, const LinearLayout& layout) {
    if (i < op.operands.size() && op.operands[i]) op.operands[i] = in_layout(op.operands[i], layout, &op);
  }

  /// Whether lanes hold copies of what the op stores, as of rows' sums, and it takes less to have each select and store
  /// an element of its own.
  bool stores_apart(const Op& op, const LinearLayout& layout) {
    const Value* value = op.opcode == Opcode::Store ? op.operands[1] : nullptr;
    if (!value || !value->type.layout || !value->type.layout->free_mask(Dim::Lane) || layout.in_bits(Dim::Block))
      return false;
    const LinearLayout &from = *value->type.layout, &apart = *memory_.layout_of(op);
    if (apart.in_bits(Dim::Block) || from == apart || layout == apart) return false;
    for (const LinearLayout* held : {&from, &layout})
      if (plan_conversion(*held, apart).route != Conversion::Route::Registers) return false;
    const int axis = memory_.fastest_axis(op);
    auto price = [&](const LinearLayout& to) {
      Access access = memory_.access_of(op, axis);
      access.width = std::min(access.width, to.contiguous_registers(axis));
      return conversion_price(value->type, from, to) + access_price(to, access);
    };
    return price(apart) < price(layout);
  }

  void materialise(Op& op) {
    if (op.info().isolates()) {
      if (!op.operands[0]->type.is_tile()) return;
      LinearLayout layout = *op.operands[0]->type.layout;
      if (op.info().combines_in_order() && !axis_order(layout, int(op.get(ir::attr::axis)))) {
        layout = *memory_.default_of(op.operands[0]->type.shape);
        if (!axis_order(layout, int(op.get(ir::attr::axis)))) layout = memory_.whole_in_each_block(layout);
      }
      for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, layout);
      for (auto& r : op.results)
        if (auto result = result_layout(op, layout)) r->type.layout = intern(*result);
      return;
    }
    for (auto& r : op.results) set_type(r.get());
    if (op.opcode == Opcode::Sort || op.opcode == Opcode::Gather || op.opcode == Opcode::Histogram)
      need(op, 0, memory_.whole_in_each_block(*op.operands[0]->type.layout));
    if (op.opcode == Opcode::Histogram)
      op.result()->type.layout = intern(memory_.whole_in_each_block(*op.result()->type.layout));
    if (ir::is_product(op)) {
      for (int i : {0, 1})
        if (!exchanges_operands(op) && !op.operands[size_t(i)]->type.is_place())
          need(op, size_t(i), operand_of_product(op, i, *op.result()->type.layout));
      need(op, 2, *op.result()->type.layout);
    } else if (op.opcode == Opcode::Gather) {
      need(op, 1, *op.result()->type.layout);
    } else if (accesses_memory(op)) {
      if (op.operands[0]->type.is_scalar()) return;
      LinearLayout layout = *layout_of(op.operands[0]);
      if (stores_apart(op, layout)) layout = *memory_.layout_of(op);
      memory_.note_accesses(op, layout);
      for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, layout);
      for (auto& r : op.results) r->type.layout = intern(layout);
    } else if (op.has(ir::Control)) {
      hand_on(op);
      for (auto& region : op.regions) materialise(*region);
    } else if (op.has(ir::Terminator)) {
      hand_on(op);
    } else if (!op.results.empty() && op.result()->type.is_tile()) {
      if (auto needed = operand_layout(op, *op.result()->type.layout))
        for (size_t i = 0; i < op.operands.size(); ++i) need(op, i, *needed);
    }
  }

  /// What a control op or a terminator hands on, in the layouts of what receives it.
  void hand_on(Op& op) {
    for (size_t i = 0; i < op.operands.size(); ++i)
      if (const Value* receiver = ir::receiver(op, i); receiver && receiver->type.is_tile())
        need(op, i, *layout_of(receiver));
  }

  const LayoutMap& layouts_;
  MemoryLayouts& memory_;
  std::unordered_set<LayoutRef, LayoutHash, EqualLayouts> interned_;
  std::map<std::pair<Value*, const LinearLayout*>, Value*> converted_;
};

}  // namespace

void materialise_layouts(ir::Func& func, const LayoutMap& layouts, MemoryLayouts& memory) {
  Materialiser materialiser(layouts, memory);
  materialiser.lay_out_places(func);
  materialiser.materialise(func.body);
}

}  // namespace tegula
