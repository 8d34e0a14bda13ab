#include "codegen/analysis/usual_distance.h"

#include <algorithm>
#include <cstdlib>
#include <numeric>
#include <optional>

namespace tegula {

using ir::Op;
using ir::Opcode;
using ir::Value;
using Distances = std::vector<int64_t>;

namespace {

constexpr int64_t kFar = UsualDistances::kFar, kUnknown = UsualDistances::kUnknown;

bool is_far(int64_t distance) { return std::abs(distance) >= kFar; }

/// A distance that is a multiple of `divisor`.
int64_t far(int64_t divisor) { return kFar + std::min(divisor, kFar - 1); }

int64_t divisor_of(int64_t distance) {
  return std::abs(distance) >= kUnknown ? 1 : is_far(distance) ? std::abs(distance) - kFar : std::abs(distance);
}

int64_t times(int64_t distance, int64_t factor) {
  if (distance == 0 || factor == 0) return 0;
  if (std::abs(distance) >= kUnknown) return kUnknown;
  factor = std::abs(factor);
  const bool overflows = divisor_of(distance) > kFar / factor;
  if (is_far(distance) || overflows) return far(overflows ? kFar : divisor_of(distance) * factor);
  return distance * factor;
}

int64_t plus(int64_t a, int64_t b) {
  if (std::abs(a) >= kUnknown || std::abs(b) >= kUnknown) return kUnknown;
  if (a == 0 || b == 0) return a + b;
  if (is_far(a) || is_far(b) || is_far(a + b)) return far(std::gcd(divisor_of(a), divisor_of(b)));
  return a + b;
}

/// Of a few neighbours that are one, as two numbers of 4 bits in a byte, the next ones are near.
int64_t quotient(int64_t distance, int64_t divisor) {
  constexpr int64_t kFew = 8;
  return distance != 0 && std::abs(divisor) <= kFew ? std::max<int64_t>(1, std::abs(distance / divisor))
                                                    : distance / divisor;
}

}  // namespace

const Distances& UsualDistances::of(const Value* v) {
  // What a value follows from comes first: chains of ops may be longer than the stack.
  std::vector<const Value*> open{v};
  while (!open.empty()) {
    const Value* next = open.back();
    const size_t before = open.size();
    if (!known_.contains(next) && next->type.is_tile() && next->def)
      for (const Value* operand : next->def->operands)
        if (operand && operand->type.is_tile() && !known_.contains(operand)) open.push_back(operand);
    if (open.size() > before) continue;
    open.pop_back();
    if (!known_.contains(next)) known_.emplace(next, find(*next));
  }
  return known_.at(v);
}

Distances UsualDistances::find(const Value& v) {
  const size_t rank = v.type.is_tile() ? size_t(v.type.rank()) : 1;
  if (!v.type.is_tile()) return Distances(rank, 0);
  if (!v.def) return Distances(rank, kUnknown);  // carried by a loop, which is not followed
  const Op& op = *v.def;
  switch (op.opcode) {
    case Opcode::Constant:
    case Opcode::Splat:
      return Distances(rank, 0);
    case Opcode::Arange:
      return Distances(rank, 1);
    case Opcode::ExpandDims: {
      Distances found = known_.at(op.operands[0]);
      found.insert(found.begin() + op.get(ir::attr::axis), 0);
      return found;
    }
    case Opcode::Broadcast: {
      Distances found = known_.at(op.operands[0]);
      for (size_t axis = 0; axis < rank; ++axis)
        if (op.operands[0]->type.shape[axis] == 1) found[axis] = 0;
      return found;
    }
    case Opcode::Trans: {
      Distances found;
      for (int64_t axis : op.get(ir::attr::order)) found.push_back(known_.at(op.operands[0])[size_t(axis)]);
      return found;
    }
    case Opcode::Cast:
    case Opcode::Hint:
    case Opcode::ConvertLayout:
      return known_.at(op.operands[0]);
    case Opcode::Select:  // as of indices that are 0 where there is no element
      return known_.at(op.operands[1]);
    default:
      return op.has(ir::Elementwise) && op.operands.size() == 2 ? of_elements(op) : Distances(rank, kUnknown);
  }
}

Distances UsualDistances::of_elements(const Op& op) {
  const Value *x = op.operands[0], *y = op.operands[1];
  const size_t rank = size_t(op.result()->type.rank());
  const Distances scalar(rank, 0);
  const Distances &a = x->type.is_tile() ? known_.at(x) : scalar, &b = y->type.is_tile() ? known_.at(y) : scalar;
  const std::optional<int64_t>&number = axes_.info(y).constant, &first = axes_.info(x).constant;
  // By a number that is the same along the axis, known at run time alone.
  const auto by_stride = [&](int64_t distance, const Value* stride) {
    const Value* one = stride->def && stride->def->opcode == Opcode::Splat ? stride->def->operands[0] : stride;
    const int64_t divisor = one->type.is_tile() ? 1 : axes_.info(one).divisibility[0];
    return distance == 0 ? 0 : far(times(divisor_of(distance), divisor));
  };
  Distances found;
  for (size_t axis = 0; axis < rank; ++axis) {
    const int64_t l = a[axis], r = b[axis];
    switch (op.opcode) {
      case Opcode::Add:
        found.push_back(plus(l, r));
        break;
      case Opcode::Sub:
        found.push_back(plus(l, -r));
        break;
      case Opcode::AddPtr:
        found.push_back(plus(l, times(r, elem_bytes(x->type.elem))));
        break;
      case Opcode::Mul:
        if (number || first)
          found.push_back(number ? times(l, *number) : times(r, *first));
        else
          found.push_back(r == 0 ? by_stride(l, y) : l == 0 ? by_stride(r, x) : kUnknown);
        break;
      case Opcode::Shl:
        found.push_back(number && *number < 40 ? times(l, int64_t(1) << *number) : l == 0 && r == 0 ? 0 : kUnknown);
        break;
      case Opcode::Div:
        if (number && *number != 0)
          found.push_back(is_far(l) ? kUnknown : quotient(l, *number));
        else
          found.push_back(std::abs(l) <= 1 && r == 0 ? 0 : kUnknown);
        break;
      case Opcode::Rem:
        found.push_back(r != 0 ? kUnknown : number && *number != 0 && !is_far(l) ? l % *number : l);
        break;
      case Opcode::Minimum:
      case Opcode::Maximum:
        found.push_back(r == 0 ? l : l == 0 ? r : l == r ? l : kUnknown);
        break;
      default:
        found.push_back(l == 0 && r == 0 ? 0 : kUnknown);
    }
  }
  return found;
}

}  // namespace tegula
