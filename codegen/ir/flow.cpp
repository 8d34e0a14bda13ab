#include "codegen/ir/flow.h"

#include "runtime/base/check.h"

namespace tegula::ir {

namespace {

constexpr size_t kForBounds = 3;      // lower, upper, step stand before the initial values
constexpr size_t kInduction = 1;      // stands before the carried arguments
constexpr size_t kConditionTest = 1;  // stands before what a condition passes on

Op* mutable_op(const Op& op) { return const_cast<Op*>(&op); }

class FlowMaker {
 public:
  explicit FlowMaker(const Op& op) : op_(mutable_op(op)) {}

  std::vector<Flow> all() {
    switch (op_->opcode) {
      case Opcode::For:
        flow();
        from(op_, kForBounds, "initial value");
        from_end_of(0, 0, "yielded value");
        to_args_of(0, kInduction, "the body's arguments");
        to_results();
        break;
      case Opcode::While:
        flow();
        from(op_, 0, "initial value");
        from_end_of(1, 0, "yielded value");
        to_args_of(0, 0, "the test's arguments");
        flow();
        from_end_of(0, kConditionTest, "value passed on");
        to_args_of(1, 0, "the body's arguments");
        to_results();
        break;
      case Opcode::If:
        flow();
        from_end_of(0, 0, "yielded value");
        from_end_of(1, 0, "yielded value");
        to_results();
        break;
      default:
        break;
    }
    std::erase_if(flows_, [](const Flow& flow) { return flow.to.empty(); });
    return std::move(flows_);
  }

 private:
  void flow() { flows_.emplace_back(); }
  void from(Op* op, size_t first, const char* what) { flows_.back().from.push_back({op, first, what}); }
  void from_end_of(size_t region, size_t first, const char* what) {
    Op* end = region < op_->regions.size() ? op_->regions[region]->terminator() : nullptr;
    if (end && end->has(Terminator)) from(end, first, what);
  }
  void to_args_of(size_t region, size_t first, const char* what) {
    if (region < op_->regions.size()) flows_.back().to.push_back({&op_->regions[region]->args, first, what});
  }
  void to_results() { flows_.back().to.push_back({&op_->results, 0, "the results"}); }

  Op* op_;
  std::vector<Flow> flows_;
};

// The control op whose flows contain the op's operands: the op itself, or the op whose region it terminates.
const Op* owner_of(const Op& op) {
  if (op.has(Control)) return &op;
  return op.has(Terminator) && op.parent ? op.parent->parent : nullptr;
}

}  // namespace

std::vector<Flow> flows(const Op& op) { return FlowMaker(op).all(); }

std::vector<std::vector<Value*>> circulating(const Op& control) {
  std::vector<std::vector<Value*>> out;
  for (const Flow& flow : flows(control))
    for (size_t i = 0; i < flow.size(); ++i) {
      std::vector<Value*>& members = out.emplace_back();
      for (const Flow::To& to : flow.to) members.push_back(to[i]);
      for (const Flow::From& from : flow.from) members.push_back(from[i]);
    }
  return out;
}

// As flows() tells, without making them: it is asked of every operand of a function.
bool is_handed_on(const Op& op, size_t operand) {
  const Op* owner = owner_of(op);
  if (!owner || (owner != &op && op.parent->terminator() != &op)) return false;
  switch (owner->opcode) {
    case Opcode::For:
      return operand >= (owner == &op ? kForBounds : 0);
    case Opcode::While:
      if (owner == &op) return !owner->regions.empty();
      return operand >= (op.parent == owner->regions[0].get() ? kConditionTest : 0);
    case Opcode::If:
      return owner != &op;
    default:
      return false;
  }
}

std::vector<Value*> handed_on(const Op& op) {
  std::vector<Value*> out;
  for (size_t i = 0; i < op.operands.size(); ++i)
    if (is_handed_on(op, i)) out.push_back(op.operands[i]);
  return out;
}

Value* receiver(const Op& op, size_t operand) {
  if (const Op* owner = owner_of(op))
    for (const Flow& flow : flows(*owner))
      for (const Flow::From& from : flow.from)
        if (from.op == &op && operand >= from.first) return flow.to.back()[operand - from.first];
  return nullptr;
}

std::vector<Value*> origins(const Value* value) {
  std::vector<Value*> out;
  const Op* owner = value->def ? value->def : value->block->parent;
  if (!owner || !owner->has(Control)) return out;
  const auto* list = value->def ? &value->def->results : &value->block->args;
  for (const Flow& flow : flows(*owner))
    for (const Flow::To& to : flow.to)
      if (to.values == list && size_t(value->index) >= to.first)
        for (const Flow::From& from : flow.from) out.push_back(from[size_t(value->index) - to.first]);
  return out;
}

std::vector<Value*> received(const Block& region) {
  std::vector<Value*> out;
  for (const Flow& flow : flows(*region.parent))
    for (const Flow::To& to : flow.to)
      for (size_t i = 0; to.values == &region.args && i < to.size(); ++i) out.push_back(to[i]);
  return out;
}

ForLoop::ForLoop(const Op& op) : op_(mutable_op(op)) {
  TEGULA_CHECK(op.opcode == Opcode::For, "'{}' is no for", op.info().text);
}
size_t ForLoop::carried() const { return op_->results.size(); }
Value*& ForLoop::init(size_t i) const { return op_->operands[kForBounds + i]; }
Value* ForLoop::arg(size_t i) const { return body().args[kInduction + i].get(); }
Value*& ForLoop::next(size_t i) const { return body().terminator()->operands[i]; }

std::optional<size_t> ForLoop::number(const Value* value) const {
  if (value->def == op_) return size_t(value->index);
  if (value->block == &body() && size_t(value->index) >= kInduction) return size_t(value->index) - kInduction;
  return std::nullopt;
}

Op* for_of(const Value* value) {
  Op* op = value->def ? value->def : value->block ? value->block->parent : nullptr;
  return op && op->opcode == Opcode::For ? op : nullptr;
}

WhileLoop::WhileLoop(const Op& op) : op_(mutable_op(op)) {
  TEGULA_CHECK(op.opcode == Opcode::While, "'{}' is no while", op.info().text);
}
Value*& WhileLoop::passed(size_t k) const { return test().terminator()->operands[kConditionTest + k]; }

bool precedes_copy_warps(const Op& op) {
  if (op.parent->parent) return false;
  for (const auto& other : op.parent->ops) {
    if (other->opcode != Opcode::SharedAlloc || !other->get(attr::arrivals)) return false;
    if (other.get() == &op) return true;
  }
  return false;
}

const Op* copy_warps_of(const Func& func) {
  for (const auto& op : func.body.ops)
    if (op->opcode == Opcode::CopyWarps) return op.get();
  return nullptr;
}

bool loops_over_programs(const Func& func) {
  bool loops = false;
  walk(func.body, [&](const Op& op) { loops |= op.opcode == Opcode::NumPrograms && op.get(attr::of_launch); });
  return loops;
}

int groups_of(const Func& func) {
  const Op* copy_warps = copy_warps_of(func);
  return copy_warps ? int(copy_warps->get(attr::groups)) : 1;
}

}  // namespace tegula::ir
