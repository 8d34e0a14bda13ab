// Rules of ops on memory: accesses, atomics, places in shared memory and copies to them.
#include <algorithm>

#include "codegen/ir/op_rules.h"

namespace tegula::ir {

void OpRules::memory() {
  const Type& ptr = in(0);
  if (!want(ptr.pointer, fmt::format("operand 'ptr' is {}, expected pointers", ptr.to_string()))) return;
  Type value{ptr.elem, false, ptr.shape, nullptr};
  auto is_value = [&](const Type& t, std::string_view what) {
    want(t.same_shape_and_elem(value), fmt::format("{} is {}, expected {}", what, t.to_string(), value.to_string()));
  };
  one_layout();
  switch (op_->opcode) {
    case Opcode::Load:
      mask(op_->operand(1), ptr);
      if (op_->operand(2)) {
        is_value(in(2), "operand 'other'");
        want(op_->operand(1), "operand 'other' without a mask");
      }
      is_value(out(), "the result");
      break;
    case Opcode::Store:
      is_value(in(1), "operand 'value'");
      mask(op_->operand(2), ptr);
      break;
    default:
      is_value(in(1), "operand 'value'");
      mask(op_->operand(2), ptr);
      is_value(out(), "the result");
      atomic();
  }
  vector_of_access();
}

// As many elements lie side by side in registers, and one access moves 16 bytes at most. (Whether they do in memory is
// for the analysis of the pointers to say.)
void OpRules::vector_of_access() {
  const int64_t vector = op_->get(attr::vector);
  if (vector == 1) return;
  const Type& ptr = in(0);
  const bool power = (vector & (vector - 1)) == 0;
  if (!want(power && vector * elem_bytes(ptr.elem) <= 16,
            fmt::format("attribute 'vector' is {}, expected a power of two of at most 16 bytes", vector)))
    return;
  int widest = 0;
  for (int axis = 0; ptr.layout && axis < ptr.rank(); ++axis)
    widest = std::max(widest, ptr.layout->contiguous_registers(axis));
  want(widest >= vector, fmt::format("attribute 'vector' is {}, but registers hold {} elements side by side", vector,
                                     std::max(1, widest)));
}

void OpRules::atomic() {
  const std::string kind = op_->get(attr::kind);
  const Type& type = in(1);
  const bool real = type.is_float();
  const bool extreme = kind == "min" || kind == "max";
  const int least = kind == "cas" || ((kind == "add" || extreme) && real) ? 16 : 32;
  want(type.bits() >= least && !type.pointer,
       fmt::format("{} of {}, expected elements of {} bits or more", kind, type.to_string(), least));
  if (extreme)
    want(!real || type.bits() == 16,
         fmt::format("{} of {}, expected integers or floats of 16 bits", kind, type.to_string()));
  else if (kind != "add" && kind != "xchg" && kind != "cas")
    want(!real, fmt::format("{} of {}, expected integers", kind, type.to_string()));
  const Value* compare = op_->operand(3);
  want((compare != nullptr) == (kind == "cas"), "operand 'compare' is for the kind cas, which needs it");
  if (compare) want_same(compare->type, type, "operand 'compare'");
}

void OpRules::shared_memory() {
  auto place = [&](const Type& t, std::string_view what) {
    return want(t.is_place(), fmt::format("{} is {}, expected a place in shared memory", what, t.to_string()));
  };
  auto barrier = [&](const Type& t) {
    const std::string what = operand_name(0);
    if (place(t, what)) want(t.elem == Elem::I64, fmt::format("{} is {}, expected i64", what, t.to_string()));
  };
  switch (op_->opcode) {
    case Opcode::SharedAlloc:
      place(out(), "the result");
      want(
          op_->get(attr::contiguous) >= -1 && op_->get(attr::contiguous) < out().rank(),
          fmt::format("attribute 'contiguous' is {}, expected -1 to {}", op_->get(attr::contiguous), out().rank() - 1));
      if (op_->get(attr::barriers))
        want(out().elem == Elem::I64, fmt::format("the result is {}, expected i64 for barriers", out().to_string()));
      want(op_->get(attr::arrivals) == 0 || (op_->get(attr::barriers) && op_->parent == &func_.body),
           "arrivals are for barriers in the function's body");
      if (op_->get(attr::arrivals)) {
        const auto& ops = func_.body.ops;
        const auto other = std::find_if(ops.begin(), ops.end(), [&](const auto& op) {
          return op.get() == op_ || op->opcode != Opcode::SharedAlloc || !op->get(attr::arrivals);
        });
        want(other == ops.end() || other->get() == op_, "barriers with arrivals stand behind other ops");
      }
      break;
    case Opcode::SharedFree:
      if (place(in(0), "operand 'buffer'")) {
        const Op* alloc = op_->operands[0]->def;
        want(alloc && alloc->opcode == Opcode::SharedAlloc && alloc->get(attr::barriers),
             "operand 'buffer' is no shared_alloc of barriers");
      }
      break;
    case Opcode::SharedSlot:
      if (place(in(0), "operand 'buffer'")) {
        const Op* alloc = op_->operands[0]->def;
        const auto index = constant_integer(op_->operands[1]);
        if (want(alloc && alloc->opcode == Opcode::SharedAlloc, "operand 'buffer' is no shared_alloc") && index)
          want(*index >= 0 && *index < alloc->get(attr::slots),
               fmt::format("slot {} of {}", *index, alloc->get(attr::slots)));
      }
      want_same(in(1), Type::scalar(Elem::I32), "operand 'index'");
      want_same(out(), in(0), "the result");
      break;
    case Opcode::PhaseArrive:
      barrier(in(0));
      if (op_->operand(1)) want_same(in(1), Type::scalar(Elem::I1), "operand 'exists'");
      break;
    case Opcode::PhaseWait:
    case Opcode::TurnWait:
      barrier(in(0));
      want_same(in(1), Type::scalar(Elem::I32), "operand 'phase'");
      break;
    case Opcode::TurnPass:
      barrier(in(0));
      want_same(in(1), Type::scalar(Elem::I1), "operand 'others'");
      want_same(in(2), Type::scalar(Elem::I1), "operand 'last'");
      break;
    case Opcode::AsyncCopy: {
      const Type& ptr = in(0);
      want(ptr.pointer && ptr.is_tile(),
           fmt::format("operand 'ptr' is {}, expected a tile of pointers", ptr.to_string()));
      if (place(in(1), "operand 'place'"))
        want(in(1).elem == ptr.elem && in(1).shape == ptr.shape,
             fmt::format("operand 'place' is {}, expected what {} points to", in(1).to_string(), ptr.to_string()));
      mask(op_->operand(2), ptr);
      if (op_->operand(2) && laid_out(op_->operands[0], op_->operands[2]))
        want(*ptr.layout == *in(2).layout, "pointers and mask must share one layout");
      vector_of_access();
      break;
    }
    case Opcode::AsyncCommit: {
      const bool barrier = op_->operand(0);
      want_same(out(), Type::token(barrier ? Completion::Barrier : Completion::Group), "the result");
      want(barrier == (op_->operand(1) != nullptr), "operands 'barrier' and 'phase' come together");
      if (barrier && place(in(0), "operand 'barrier'"))
        want(in(0).elem == Elem::I64, fmt::format("operand 'barrier' is {}, expected i64", in(0).to_string()));
      if (op_->operand(1)) want_same(in(1), Type::scalar(Elem::I32), "operand 'phase'");
      break;
    }
    case Opcode::SharedStore:
      if (place(in(1), "operand 'place'"))
        want(in(1).elem == in(0).elem && in(1).shape == in(0).shape && in(0).is_tile(),
             fmt::format("operand 'value' is {}, expected a tile for {}", in(0).to_string(), in(1).to_string()));
      break;
    default:
      if (place(in(0), "operand 'place'"))
        want(out().elem == in(0).elem && out().shape == in(0).shape && out().is_tile(),
             fmt::format("the result is {}, expected the tile in {}", out().to_string(), in(0).to_string()));
  }
}

}  // namespace tegula::ir
