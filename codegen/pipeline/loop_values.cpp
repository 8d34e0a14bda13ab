#include "codegen/pipeline/loop_values.h"

#include <algorithm>
#include <cmath>

#include "codegen/ir/flow.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

bool is_zero(const Value* v) {
  if (!v->def) return false;
  if (v->def->opcode == Opcode::Splat) return is_zero(v->def->operands[0]);
  if (v->def->opcode != Opcode::Constant) return false;
  const Attr value = v->def->get(attr::value);
  if (auto* real = std::get_if<double>(&value)) return *real == 0 && !std::signbit(*real);
  auto* integer = std::get_if<int64_t>(&value);
  return integer && *integer == 0;
}

Value* splat_as(Builder& build, Value* scalar, const Type& like) {
  Value* tile = build.splat(scalar, like.shape);
  tile->type.layout = like.layout;
  return tile;
}

Value* carry(Op& loop, Value* init) {
  loop.operands.push_back(init);
  loop.results.push_back(std::make_unique<Value>(Value{init->type, &loop, nullptr, int(loop.results.size()), {}}));
  return loop.regions[0]->add_arg(init->type);
}

Value* alloc_place(Builder& builder, const Type& tile, int64_t slots, int contiguous) {
  ir::Attrs attrs{{attr::slots, slots}};
  if (contiguous >= 0) attrs[attr::contiguous] = int64_t(contiguous);
  return builder.create(Opcode::SharedAlloc, {}, {Type::place(tile.elem, tile.shape)}, std::move(attrs))->result();
}

Value* slot_of(Builder& builder, Value* buffer, Value* index) {
  return builder.create(Opcode::SharedSlot, {buffer, index}, {buffer->type})->result();
}

Value* rotate(Op& loop, Value* index, int64_t slots) {
  Block& body = *loop.regions[0];
  Builder top;
  auto number = [&](int64_t value) { return top.constant(Type::scalar(Elem::I32), value); };
  top.set_before(body.ops.front().get()), top.set_loc(loop.loc);
  Value* next = top.add(index, number(1));
  next = top.select(top.eq(next, number(slots)), number(0), next);
  body.terminator()->operands.push_back(next);
  return next;
}

Value* Replay::operator()(Value* v) {
  if (!v) return nullptr;
  if (auto known = values_.find(v); known != values_.end()) return known->second;
  auto among = [&](const std::vector<const Block*>& blocks) {
    return std::find(blocks.begin(), blocks.end(), home(v)) != blocks.end();
  };
  const bool anew = among(blocks_);
  if (!anew && !among(around_)) return v;
  if (!v->def) {
    TEGULA_CHECK(!anew, "nothing stands for an argument of a block");
    return v;
  }
  bool same = !anew;
  for (Value* operand : v->def->operands) same &= (*this)(operand) == operand;
  if (same) return values_[v] = v;
  return build_.insert(clone_op(*v->def, values_))->result(v->index);
}

LoopSources::Source LoopSources::of(const Value* v) {
  if (!v || home(v) != &body_) return Source::Invariant;
  if (auto it = sources_.find(v); it != sources_.end()) return it->second;
  sources_[v] = Source::Other;  // while under way
  Source result = Source::Invariant;
  if (v->def) {
    if ((!v->def->has(Pure) || !v->def->regions.empty()) && !ahead_.contains(v->def)) result = Source::Other;
    for (const Value* operand : v->def->operands) result = std::max(result, of(operand));
  } else {
    const bool known =
        v == ForLoop(*body_.parent).induction() || growth(v) || (reach_ > 0 && int64_t(queue(v).size()) > reach_);
    result = known ? Source::Iteration : Source::Other;
  }
  return sources_[v] = result;
}

const Op* LoopSources::growth(const Value* arg) {
  const ForLoop loop(*body_.parent);
  const Op* op = loop.next(*loop.number(arg))->def;
  while (op && op->opcode == Opcode::Hint) op = op->operands[0]->def;
  if (!op || (op->opcode != Opcode::AddPtr && !(op->opcode == Opcode::Add && op->result()->type.is_integer())))
    return nullptr;
  if (op->operands[0] == arg && of(op->operands[1]) == Source::Invariant) return op;
  if (op->opcode == Opcode::Add && op->operands[1] == arg && of(op->operands[0]) == Source::Invariant) return op;
  return nullptr;
}

std::vector<Value*> LoopSources::queue(const Value* arg) const {
  const ForLoop loop(*body_.parent);
  std::vector<Value*> out;
  for (auto number = loop.number(arg); number; number = loop.number(arg)) {
    Value* here = loop.arg(*number);
    if (std::find(out.begin(), out.end(), here) != out.end()) break;
    out.push_back(here);
    arg = loop.next(*number);
    if (arg->def || home(arg) != &body_ || arg == loop.induction()) break;
  }
  return out;
}

Value* LoopSources::step(const Value* arg) {
  const Op* grow = growth(arg);
  return grow->operands[grow->operands[0] == arg ? 1 : 0];
}

}  // namespace tegula
