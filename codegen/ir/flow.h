// Which values enter a region, circulate and leave it: the one place that knows where control ops keep them.
//
// Ops are given as constant and the parts are not, as in walk(): who may change the function may change these.
#pragma once

#include <optional>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula::ir {

/// How values pass between blocks, position by position: each value of `to` receives one value of `from`; which one
/// depends on where control comes from. Parts that a function under construction or an invalid one lacks are left out.
struct Flow {
  struct From {
    Op* op;  ///< the control op itself, or a terminator of one of its regions
    size_t first;
    const char* what;  ///< "initial value"
    Value*& operator[](size_t i) const { return op->operands[first + i]; }
    size_t size() const { return op->operands.size() < first ? 0 : op->operands.size() - first; }
  };
  struct To {
    std::vector<std::unique_ptr<Value>>* values;  ///< arguments of a region, or the op's results
    size_t first;
    const char* what;  ///< "the results"
    Value* operator[](size_t i) const { return (*values)[first + i].get(); }
    size_t size() const { return values->size() < first ? 0 : values->size() - first; }
  };
  std::vector<From> from;
  std::vector<To> to;

  size_t size() const { return to[0].size(); }
};
/// All flows of a control op; none for other ops (what enters and leaves the region of a Combine are single elements).
std::vector<Flow> flows(const Op& op);

/// The values at each position of the flows. Each list is one variable: its values must keep one type.
std::vector<std::vector<Value*>> circulating(const Op& control);
/// Whether the operand is passed to another block: an initial value of a loop, or an operand of a terminator. False for
/// the region of a Combine.
bool is_handed_on(const Op& op, size_t operand);
/// The operands of a control op or terminator that are passed to another block.
std::vector<Value*> handed_on(const Op& op);
/// A value that receives the operand; null for operands that no block receives.
Value* receiver(const Op& op, size_t operand);
/// The operands that the value receives, for a result of a control op or an argument of its regions; none for others.
std::vector<Value*> origins(const Value* value);
/// The arguments of a control op's region that receive values: all but a For's induction variable.
std::vector<Value*> received(const Block& region);

/// The parts of a For. Value number i of those that the loop carries begins as init(i), is arg(i) in the body, next(i)
/// in the next iteration, and result(i) after the loop.
class ForLoop {
 public:
  explicit ForLoop(const Op& op);

  Op& op() const { return *op_; }
  Block& body() const { return *op_->regions[0]; }
  Value* induction() const { return body().args[0].get(); }
  Value*& lower() const { return op_->operands[0]; }
  Value*& upper() const { return op_->operands[1]; }
  Value*& step() const { return op_->operands[2]; }
  std::vector<Value*> bounds() const { return {lower(), upper(), step()}; }

  size_t carried() const;
  Value*& init(size_t i) const;
  Value* arg(size_t i) const;
  Value*& next(size_t i) const;
  Value* result(size_t i) const { return op_->result(int(i)); }
  /// Which carried value this is, as an argument or as a result; nullopt for other values.
  std::optional<size_t> number(const Value* value) const;

 private:
  Op* op_;
};
/// The For that the value is an argument or a result of; null for others.
Op* for_of(const Value* value);

/// Whether the op is a shared_alloc of barriers with arrivals, and so are all ops before it in the function: these
/// barriers are initialised before copy_warps separate from the program's warps.
bool precedes_copy_warps(const Op& op);
/// The function's copy_warps; null if it has none.
const Op* copy_warps_of(const Func& func);
/// Whether blocks take programs of the launch one behind the other (num_programs of_launch).
bool loops_over_programs(const Func& func);
/// The number of groups of num_warps warps that run one program of the function.
int groups_of(const Func& func);

/// The parts of a While. tested(i), an argument of the test, receives init(i) and next(i); taken(k), an argument of the
/// body, and result(k) receive passed(k).
class WhileLoop {
 public:
  explicit WhileLoop(const Op& op);

  Block& test() const { return *op_->regions[0]; }
  Block& body() const { return *op_->regions[1]; }
  Value* condition() const { return test().terminator()->operands[0]; }

  size_t num_tested() const { return test().args.size(); }
  Value*& init(size_t i) const { return op_->operands[i]; }
  Value* tested(size_t i) const { return test().args[i].get(); }
  Value*& next(size_t i) const { return body().terminator()->operands[i]; }

  size_t num_passed() const { return body().args.size(); }
  Value*& passed(size_t k) const;
  Value* taken(size_t k) const { return body().args[k].get(); }
  Value* result(size_t k) const { return op_->result(int(k)); }

 private:
  Op* op_;
};

}  // namespace tegula::ir
