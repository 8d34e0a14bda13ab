// What a binary op tells of its result along each axis.
#include <algorithm>
#include <bit>
#include <optional>

#include "codegen/analysis/axis_facts.h"

namespace tegula::axis_facts {

namespace {

using ir::Op;
using ir::Opcode;

void raise(int64_t& fact, int64_t known) { fact = std::max(fact, known); }

class Binary {
 public:
  Binary(const Op& op, const AxisInfo& l, const AxisInfo& r, size_t axis, AxisInfo& out)
      : op_(op),
        l_(l),
        r_(r),
        axis_(axis),
        out_(out),
        l_all_(divisor_at(l, axis, 1, step(op.operands[0]))),
        r_all_(divisor_at(r, axis, 1, step(op.operands[1]))),
        l_run_(std::min(l.contiguity[axis], l.divisibility[axis])),
        r_run_(std::min(r.contiguity[axis], r.divisibility[axis])),
        l_over_r_(std::min({l_run_, r.constancy[axis], r_all_})),
        r_over_l_(std::min({r_run_, l.constancy[axis], l_all_})) {}

  void add() {
    switch (op_.opcode) {
      case Opcode::Add:
      case Opcode::AddPtr:
      case Opcode::Sub:
        return sum();
      case Opcode::Mul:
        if (r_.constant == 1 || l_.constant == 1) return keep(r_.constant == 1 ? l_ : r_);
        divisibility() = multiply(l_all_, r_all_);
        return;
      case Opcode::Div:
        return quotient();
      case Opcode::Rem:
        return remainder();
      case Opcode::Shl:
      case Opcode::Shr:
        return shift();
      case Opcode::BitAnd:
        return bit_and();
      case Opcode::BitOr:
      case Opcode::BitXor:
      case Opcode::Minimum:
      case Opcode::Maximum:
        divisibility() = std::min(l_all_, r_all_);
        return;
      // A run that starts at a multiple of its length cannot cross a bound that is one, if the bound itself goes with
      // what is above it.
      case Opcode::Lt:
      case Opcode::Ge:
        if (!op_.operands[0]->type.pointer) raise(constancy(), l_over_r_);
        return;
      case Opcode::Gt:
      case Opcode::Le:
        if (!op_.operands[0]->type.pointer) raise(constancy(), r_over_l_);
        return;
      default:
        return;
    }
  }

 private:
  int64_t& contiguity() { return out_.contiguity[axis_]; }
  int64_t& divisibility() { return out_.divisibility[axis_]; }
  int64_t& constancy() { return out_.constancy[axis_]; }

  /// The result is that operand.
  void keep(const AxisInfo& operand) {
    contiguity() = operand.contiguity[axis_];
    divisibility() = operand.divisibility[axis_];
  }

  void sum() {
    const int64_t l_step = step(op_.operands[0]), scale = op_.opcode == Opcode::AddPtr ? l_step : 1;
    contiguity() = std::min(l_.contiguity[axis_], r_.constancy[axis_]);
    if (op_.opcode != Opcode::Sub) raise(contiguity(), std::min(r_.contiguity[axis_], l_.constancy[axis_]));
    divisibility() = std::min(divisor_at(l_, axis_, contiguity(), l_step),
                              multiply(divisor_at(r_, axis_, contiguity(), step(op_.operands[1])), scale));
  }

  void quotient() {
    if (r_.constant == 1) return keep(l_);
    if (l_.non_negative) raise(constancy(), l_over_r_);
    if (r_.constant > 0 && std::has_single_bit(uint64_t(*r_.constant)))
      divisibility() = std::max<int64_t>(1, l_all_ / *r_.constant);
  }

  // x = c q + i, 0 <= i < c, where c divides the divisor d. For x >= 0 the run from c q stays within one period of |d|,
  // since that is made of whole runs: c q % d + i, whatever the sign of d. A remainder of x < 0 is in (-|d|, 0], so
  // that a run which starts at a multiple of d is 0, 1 - |d|, 2 - |d|, ...: the sign of x does matter.
  void remainder() {
    if (l_.non_negative) contiguity() = std::max<int64_t>(1, l_over_r_);
    divisibility() = std::min(divisor_at(l_, axis_, contiguity(), 1), r_all_);
  }

  void shift() {
    if (r_.constant == 0) return keep(l_);
    const bool is_known = r_.constant && *r_.constant > 0 && *r_.constant < 40, is_left = op_.opcode == Opcode::Shl;
    const int64_t factor = is_known ? int64_t(1) << *r_.constant : 1;
    if (is_left) {
      divisibility() = multiply(l_all_, factor);
    } else if (is_known) {
      raise(constancy(), std::min(l_run_, factor));
      divisibility() = std::max<int64_t>(1, l_all_ / factor);
    }
  }

  void bit_and() {
    divisibility() = std::max(l_all_, r_all_);
    if (op_.result()->type.is_bool()) return;
    masked(l_, l_run_, r_.constant);
    masked(r_, r_run_, l_.constant);
  }

  void masked(const AxisInfo& x, int64_t run, std::optional<int64_t> mask) {
    if (!mask) return;
    const int64_t low_ones = power_of_two_divisor(~*mask), low_zeros = power_of_two_divisor(*mask);
    // ...0111: the low bits run on below it. ...1000: they vanish.
    if (low_ones > 1) {
      contiguity() = std::min(run, low_ones);
      if (contiguity() > 1) divisibility() = divisor_at(x, axis_, contiguity(), 1);
    }
    raise(constancy(), std::min(run, low_zeros));
  }

  const Op& op_;
  const AxisInfo &l_, &r_;
  const size_t axis_;
  AxisInfo& out_;
  const int64_t l_all_, r_all_;        ///< what divides each element of an operand
  const int64_t l_run_, r_run_;        ///< the length of aligned runs whose first elements are multiples of that length
  const int64_t l_over_r_, r_over_l_;  ///< the same, over which the other operand is one number that the length divides
};

bool never_negative(const Op& op, const AxisInfo& l, const AxisInfo& r) {
  const bool both = l.non_negative && r.non_negative;
  switch (op.opcode) {
    case Opcode::Add:
    case Opcode::Mul:
    case Opcode::Shl:
      return both && stays_in_range(op.result()->type);
    case Opcode::Div:
      return both || (l.non_negative && op.operands[0]->type.is_scalar() && !r.constant);
    case Opcode::Rem:
    case Opcode::Shr:
      return l.non_negative;
    case Opcode::BitAnd:
    case Opcode::Maximum:
      return l.non_negative || r.non_negative;
    case Opcode::BitOr:
    case Opcode::BitXor:
    case Opcode::Minimum:
      return both;
    default:
      return false;
  }
}

}  // namespace

void add_binary(const Op& op, const AxisInfo& l, const AxisInfo& r, AxisInfo& out) {
  out.non_negative |= never_negative(op, l, r);
  for (size_t axis = 0; axis < out.contiguity.size(); ++axis) Binary(op, l, r, axis, out).add();
}

}  // namespace tegula::axis_facts
