#include "codegen/exec/emulator/code/to_bytecode.h"

#include <llvm/ADT/MapVector.h>
#include <llvm/ADT/Sequence.h>
#include <llvm/IR/IntrinsicInst.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>

#include "codegen/exec/emulator/code/bytecode_function.h"
#include "codegen/exec/emulator/code/bytecode_operations.h"
#include "codegen/exec/emulator/code/call_arrays.h"
#include "codegen/exec/emulator/code/lane_segments.h"
#include "codegen/exec/emulator/code/link_bodies.h"
#include "codegen/exec/emulator/interpreter/elementwise.h"
#include "runtime/base/check.h"

namespace tegula::emulator {

namespace bytecode {

namespace {

using llvm::BasicBlock;
using llvm::Type;
using llvm::Value;

/// Makes the code of one function.
class FunctionMaker : private FunctionCode {
 public:
  FunctionMaker(ModuleMaker& module, const llvm::Function& from)
      : FunctionCode(module, from), from_(from), arrays_(from, module.layout) {}

  Function make() {
    for (const BasicBlock& block : from_) {
      starts_[&block] = begin_sequence();
      for (const llvm::Instruction& i : block) {
        if (const auto* store = llvm::dyn_cast<llvm::StoreInst>(&i); store && arrays_.is_taken(*store)) continue;
        translate(i);
        release_operands(i);
      }
    }
    for (auto [number, field, block] : jumps_) instruction(number).*field = starts_[block];
    return finish(callees_bytes_);
  }

 private:
  // ---- Instructions

  static Computation computes(Arithmetic operation, Kind kind) {
    return {Computation::Computes, uint8_t(operation), kind, kind};
  }

  /// Takes away the bits that the integer of an odd type has not.
  void keep_bits(const Type* type, int32_t at) {
    const unsigned bits = odd_bits(type);
    if (!bits) return;
    const Kind kind = kind_of(type);
    apply(computes(Arithmetic::And, kind), 1, at, at, frame().constant(kind, (uint64_t(1) << bits) - 1));
  }
  void compute(const llvm::Instruction& i, Arithmetic operation, llvm::ArrayRef<const Value*> operands) {
    const unsigned odd = odd_bits(operands[0]->getType());
    if (odd && !takes_odd(operation)) throw Missing();
    const Shape shape = shape_of(operands[0]->getType());
    int32_t at[3] = {0, 0, 0};
    for (size_t n = 0; n < operands.size(); ++n) at[n] = read(operands[n]);
    const int32_t to = result(i);
    if (const auto code = short_form(operation, shape))
      emit({.code = *code, .to = to, .a = at[0], .b = at[1], .c = at[2]});
    else
      apply(computes(operation, shape.kind), shape.count, to, at[0], at[1], at[2]);
    if (odd && operation == Arithmetic::BitReverse)
      apply(computes(Arithmetic::LShr, shape.kind), 1, to, to, frame().constant(shape.kind, 8 * shape.bytes() - odd));
    keep_bits(i.getType(), to);
  }

  void translate(const llvm::Instruction& i) {
    if (is_alias(i) || llvm::isa<llvm::PHINode, llvm::AllocaInst>(i)) return;
    if (i.isTerminator()) return end_block(i);
    if (const auto operation = arithmetic_of(i.getOpcode())) {
      llvm::SmallVector<const Value*, 2> operands(i.operand_values());
      return compute(i, *operation, operands);
    }
    switch (i.getOpcode()) {
      case llvm::Instruction::ICmp:
      case llvm::Instruction::FCmp:
        return compare(llvm::cast<llvm::CmpInst>(i));
      case llvm::Instruction::Select:
        return select(i);
      case llvm::Instruction::GetElementPtr:
        return step(llvm::cast<llvm::GetElementPtrInst>(i));
      case llvm::Instruction::Load:
        return load(llvm::cast<llvm::LoadInst>(i));
      case llvm::Instruction::Store:
        return store(llvm::cast<llvm::StoreInst>(i));
      case llvm::Instruction::ExtractElement:
      case llvm::Instruction::InsertElement:
      case llvm::Instruction::ExtractValue:
      case llvm::Instruction::InsertValue:
        return part(i);
      case llvm::Instruction::ShuffleVector:
        return shuffle(llvm::cast<llvm::ShuffleVectorInst>(i));
      case llvm::Instruction::Call:
        return call(llvm::cast<llvm::CallInst>(i));
      default:
        if (llvm::isa<llvm::CastInst>(i)) return convert(llvm::cast<llvm::CastInst>(i));
        throw Missing();
    }
  }

  void convert(const llvm::CastInst& i) {
    const Shape from = shape_of(i.getSrcTy()), to = shape_of(i.getDestTy());
    const int32_t a = read(i.getOperand(0)), at = result(i);
    const bool same = !odd_bits(i.getSrcTy()) && !odd_bits(i.getDestTy());
    const bool extends = i.getOpcode() == llvm::Instruction::ZExt || i.getOpcode() == llvm::Instruction::IntToPtr;
    if (same && !from.vector && from.kind == Kind::I32 && to.kind == Kind::I64) {
      if (extends) return void(emit({.code = Code::ZExt32To64, .to = at, .a = a}));
      if (i.getOpcode() == llvm::Instruction::SExt) return void(emit({.code = Code::SExt32To64, .to = at, .a = a}));
    }
    const bool byte = from.kind == Kind::I1 || from.kind == Kind::I8;
    if (same && !from.vector && byte && to.kind == Kind::I32 && i.getOpcode() == llvm::Instruction::ZExt)
      return void(emit({.code = Code::ZExt8To32, .to = at, .a = a}));
    auto how = [&]() -> std::optional<Conversion> {
      switch (i.getOpcode()) {
        case llvm::Instruction::Trunc:
          return Conversion::Truncate;
        case llvm::Instruction::ZExt:
          return Conversion::ZeroExtend;
        case llvm::Instruction::SExt:
          return Conversion::SignExtend;
        case llvm::Instruction::SIToFP:
          return Conversion::FromSigned;
        case llvm::Instruction::UIToFP:
          return Conversion::FromUnsigned;
        case llvm::Instruction::FPToSI:
          return Conversion::ToSigned;
        case llvm::Instruction::FPToUI:
          return Conversion::ToUnsigned;
        case llvm::Instruction::FPTrunc:
        case llvm::Instruction::FPExt:
          return Conversion::Float;
        default:
          return std::nullopt;
      }
    }();
    if (!how) throw Missing();
    int32_t source = a;
    if (const unsigned bits = odd_bits(i.getSrcTy()); bits && *how == Conversion::SignExtend) {
      // The sign goes to the front of the kind, and from there over the bits that are none of the number's.
      const int32_t by = frame().constant(from.kind, 8 * bytes_of(from.kind) - bits);
      source = frame().temporary(bytes_of(from.kind));
      apply(computes(Arithmetic::Shl, from.kind), 1, source, a, by);
      apply(computes(Arithmetic::AShr, from.kind), 1, source, source, by);
    } else if (bits && *how == Conversion::FromSigned) {
      throw Missing();
    }
    if (odd_bits(i.getDestTy()) && *how != Conversion::Truncate && *how != Conversion::ZeroExtend) throw Missing();
    if (from.kind == to.kind)
      move(at, source, to.bytes());
    else
      apply({Computation::Converts, uint8_t(*how), from.kind, to.kind}, from.count, at, source);
    keep_bits(i.getDestTy(), at);
  }

  void compare(const llvm::CmpInst& i) {
    using P = llvm::CmpInst::Predicate;
    const Value *x = i.getOperand(0), *y = i.getOperand(1);
    P predicate = i.getPredicate();
    switch (predicate) {
      case P::ICMP_UGT:
      case P::ICMP_UGE:
      case P::ICMP_SGT:
      case P::ICMP_SGE:
      case P::FCMP_OGT:
      case P::FCMP_OGE:
      case P::FCMP_UGT:
      case P::FCMP_UGE:
        std::swap(x, y);
        predicate = llvm::CmpInst::getSwappedPredicate(predicate);
        break;
      default:
        break;
    }
    const auto operation = arithmetic_of_comparison(predicate);
    if (!operation) throw Missing();
    compute(i, *operation, {x, y});
  }

  void select(const llvm::Instruction& i) {
    const int32_t condition = read(i.getOperand(0)), a = read(i.getOperand(1)), b = read(i.getOperand(2));
    const int32_t to = result(i);
    if (i.getOperand(0)->getType()->isVectorTy()) {
      const Shape shape = shape_of(i.getType());
      return apply({Computation::Selects, uint8_t(bytes_of(shape.kind))}, shape.count, to, condition, a, b);
    }
    const uint32_t bytes = bytes_of_value(i.getType());
    const Code code = bytes == 1   ? Code::Select8
                      : bytes == 2 ? Code::Select16
                      : bytes == 4 ? Code::Select32
                      : bytes == 8 ? Code::Select64
                                   : Code::SelectAll;
    emit({.code = code, .count = bytes, .to = to, .a = condition, .b = a, .c = b});
  }

  // ---- Memory

  void step(const llvm::GetElementPtrInst& i) {
    if (array_of(&i)) return;
    const auto& access = llvm::cast<llvm::GEPOperator>(i);
    if (i.getType()->isVectorTy()) return step_vector(i);
    llvm::SmallMapVector<Value*, llvm::APInt, 4> variable;
    llvm::APInt constant_offset(64, 0);
    if (!access.collectOffset(module().layout, 64, variable, constant_offset)) throw Missing();
    int32_t from = read(i.getPointerOperand());
    llvm::SmallVector<std::pair<const Value*, int32_t>> indices;
    for (auto& [index, scale] : variable) indices.push_back({index, read(index)});
    const int32_t to = result(i);
    for (size_t n = 0; n < indices.size(); ++n) {
      const auto [index, at] = indices[n];
      const int32_t scale = fits_32(variable.find(const_cast<Value*>(index))->second.getSExtValue());
      const Kind kind = kind_of(index->getType());
      if ((kind != Kind::I32 && kind != Kind::I64) || odd_bits(index->getType())) throw Missing();
      emit({.code = kind == Kind::I32 ? Code::Step32 : Code::Step64, .to = to, .a = from, .b = at, .c = scale});
      from = to;
    }
    if (!constant_offset.isZero() || indices.empty())
      emit({.code = Code::Offset, .to = to, .a = from, .c = fits_32(constant_offset.getSExtValue())});
  }

  void step_vector(const llvm::GetElementPtrInst& i) {
    if (i.getPointerOperandType()->isVectorTy() || i.getNumIndices() != 1) throw Missing();
    const Value* index = *i.idx_begin();
    const Shape shape = shape_of(index->getType());
    if (shape.kind != Kind::I32 || !shape.vector) throw Missing();
    const uint64_t scale = module().layout.getTypeAllocSize(i.getSourceElementType());
    const int32_t from = read(i.getPointerOperand()), at = read(index);
    emit({.code = Code::Steps32,
          .count = shape.count,
          .to = result(i),
          .a = from,
          .b = at,
          .c = fits_32(int64_t(scale))});
  }

  /// Whether values of the type lie in memory as in a frame.
  uint32_t bytes_in_memory(const Type* type) {
    if (type->isVectorTy() && type->getScalarType()->isIntegerTy(1)) throw Missing();
    return bytes_of_value(type);
  }

  void load(const llvm::LoadInst& i) {
    if (!i.isSimple()) throw Missing();
    if (arrays_.is_given(i)) return;
    const uint32_t bytes = bytes_in_memory(i.getType());
    if (const auto offset = frame_offset(i.getPointerOperand())) return move(result(i), *offset, bytes);
    const int32_t address = read(i.getPointerOperand());
    const Code code = bytes == 1   ? Code::Load8
                      : bytes == 2 ? Code::Load16
                      : bytes == 4 ? Code::Load32
                      : bytes == 8 ? Code::Load64
                                   : Code::LoadMany;
    emit({.code = code, .count = bytes, .to = result(i), .a = address});
  }

  void store(const llvm::StoreInst& i) {
    if (!i.isSimple()) throw Missing();
    const uint32_t bytes = bytes_in_memory(i.getValueOperand()->getType());
    const int32_t value = read(i.getValueOperand());
    if (const auto offset = frame_offset(i.getPointerOperand())) return move(*offset, value, bytes);
    const int32_t address = read(i.getPointerOperand());
    const Code code = bytes == 1   ? Code::Store8
                      : bytes == 2 ? Code::Store16
                      : bytes == 4 ? Code::Store32
                      : bytes == 8 ? Code::Store64
                                   : Code::StoreMany;
    emit({.code = code, .count = bytes, .to = address, .b = value});
  }

  // ---- Parts of vectors and structs

  int32_t offset_of(const Type* type, const Value* index) {
    const auto* number = llvm::dyn_cast<llvm::ConstantInt>(index);
    const Shape shape = shape_of(type);
    if (!number || number->getZExtValue() >= shape.count) throw Missing();
    return int32_t(number->getZExtValue() * bytes_of(shape.kind));
  }
  int32_t offset_of(const Type* type, llvm::ArrayRef<unsigned> indices) {
    const auto* structure = llvm::dyn_cast<llvm::StructType>(type);
    if (!structure || indices.size() != 1) throw Missing();
    return int32_t(uint64_t(
        module().layout.getStructLayout(const_cast<llvm::StructType*>(structure))->getElementOffset(indices[0])));
  }

  void part(const llvm::Instruction& i) {
    const Value* whole = i.getOperand(0);
    int32_t offset = 0;
    const Value* inserted = nullptr;
    if (llvm::isa<llvm::InsertElementInst>(i)) {
      offset = offset_of(whole->getType(), i.getOperand(2));
      inserted = i.getOperand(1);
    } else if (const auto* extract = llvm::dyn_cast<llvm::ExtractValueInst>(&i)) {
      offset = offset_of(whole->getType(), extract->getIndices());
    } else {
      offset = offset_of(whole->getType(), llvm::cast<llvm::InsertValueInst>(i).getIndices());
      inserted = i.getOperand(1);
    }
    const bool nothing = llvm::isa<llvm::UndefValue>(whole);
    const int32_t from = nothing && inserted ? 0 : read(whole), value = inserted ? read(inserted) : 0;
    const auto* element = llvm::dyn_cast<llvm::InsertElementInst>(&i);
    const int32_t to = element ? result_in_place(*element) : result(i);
    if (!inserted) return move(to, from + offset, bytes_of_value(i.getType()));
    if (!nothing && to != from) move(to, from, bytes_of_value(i.getType()));
    move(to + offset, value, bytes_of_value(inserted->getType()));
  }

  void shuffle(const llvm::ShuffleVectorInst& i) {
    const Shape from = shape_of(i.getOperand(0)->getType()), shape = shape_of(i.getType());
    const uint32_t bytes = bytes_of(shape.kind);
    const llvm::ArrayRef<int> mask = i.getShuffleMask();
    const bool of_two = llvm::any_of(mask, [&](int m) { return m >= int(from.count); });
    const int32_t a = read(i.getOperand(0)), b = of_two ? read(i.getOperand(1)) : 0, to = result(i);
    if (!of_two) {
      std::string sources(mask.size() * sizeof(uint32_t), '\0');
      for (size_t n = 0; n < mask.size(); ++n) {
        const uint32_t source = uint32_t(std::max(mask[n], 0));
        std::memcpy(sources.data() + n * sizeof source, &source, sizeof source);
      }
      return apply({Computation::Picks, uint8_t(bytes)}, shape.count, to, a, frame().constant(std::move(sources)));
    }
    constexpr size_t kMostMoves = 16;
    if (mask.size() > kMostMoves) throw Missing();
    for (size_t n = 0; n < mask.size(); ++n) {
      if (mask[n] < 0) continue;
      const bool second = mask[n] >= int(from.count);
      const int32_t number = second ? mask[n] - int(from.count) : mask[n];
      move(to + int32_t(n * bytes), (second ? b : a) + number * int32_t(bytes), bytes);
    }
  }

  // ---- Calls

  void call(const llvm::CallInst& i) {
    const llvm::Function* callee = i.getCalledFunction();
    if (!callee) throw Missing();
    if (callee->isIntrinsic()) return call_intrinsic(llvm::cast<llvm::IntrinsicInst>(i));
    if (callee->getName() == kRunSegmentName) return run_segment(i);
    if (!callee->isDeclaration()) return call_function(i, *callee);
    const HwBody* body = find_body(callee->getName().str());
    if (!body) throw Missing();
    BodyCall call{body, {}, 0};
    for (const Value* argument : i.args()) {
      if (const auto* stores = arrays_.taken(i, argument))
        call.operands.push_back({Operand::Address, place_of(*stores)});
      else if (const auto* loads = arrays_.given(i, argument))
        call.operands.push_back({Operand::Address, results(*loads, bytes_of_array(argument))});
      else
        call.operands.push_back(operand_of(argument));
    }
    if (!i.getType()->isVoidTy()) call.result = result(i);
    emit({.code = Code::Body, .a = module().add(std::move(call))});
    hand_results_ahead();
    for (const Value* argument : i.args())
      if (const auto* stores = arrays_.taken(i, argument))
        for (const llvm::StoreInst* store : *stores) release_operands(*store);
  }

  uint32_t bytes_of_array(const Value* array) {
    return uint32_t(module().layout.getTypeAllocSize(llvm::cast<llvm::AllocaInst>(array)->getAllocatedType()));
  }

  /// Where the numbers lie that the stores put into an array: where they are already, if that is one behind another.
  int32_t place_of(const CallArrays::Stores& stores) {
    const uint32_t bytes = bytes_in_memory(stores[0]->getValueOperand()->getType());
    llvm::SmallVector<int32_t, 8> at;
    for (const llvm::StoreInst* store : stores) at.push_back(read(store->getValueOperand()));
    auto behind = [&](size_t n) { return at[n] == at[0] + int32_t(n * bytes); };
    const auto numbers = llvm::seq<size_t>(0, at.size());
    if (llvm::all_of(numbers, behind)) return at[0];
    const int32_t to = frame().temporary(uint32_t(at.size()) * bytes);
    for (size_t n : numbers) move(to + int32_t(n * bytes), at[n], bytes);
    return to;
  }

  Operand operand_of(const Value* value) {
    if (const auto* number = llvm::dyn_cast<llvm::ConstantInt>(value);
        number && number->getZExtValue() <= std::numeric_limits<uint32_t>::max())
      return {Operand::Number, int32_t(uint32_t(number->getZExtValue()))};
    if (const auto offset = frame_offset(value)) return {Operand::Address, *offset};
    return {Operand::Slot, read(value)};
  }

  void run_segment(const llvm::CallInst& i) {
    const auto* segment = llvm::dyn_cast<llvm::Function>(i.getArgOperand(0));
    const auto* place = llvm::dyn_cast<llvm::ConstantInt>(i.getArgOperand(1));
    if (!segment || !place) throw Missing();
    const uint32_t number = module().number_of(*segment);
    module().is_segment(number);
    emit({.code = Code::Segment, .a = int32_t(number), .c = int32_t(uint32_t(place->getZExtValue()))});
  }

  void call_function(const llvm::CallInst& i, const llvm::Function& callee) {
    FunctionCall call;
    call.callee = module().number_of(callee);
    const Function& made = module().function(call.callee);
    callees_bytes_ = std::max(callees_bytes_, made.most_bytes);
    for (unsigned n = 0; n < i.arg_size(); ++n) {
      const uint32_t bytes = bytes_of_value(i.getArgOperand(n)->getType());
      call.operands.push_back({read(i.getArgOperand(n)), made.parameters[n], bytes});
    }
    if (!i.getType()->isVoidTy()) {
      call.result = result(i);
      call.result_bytes = bytes_of_value(i.getType());
    }
    emit({.code = Code::Call, .a = module().add(std::move(call))});
  }

  void call_intrinsic(const llvm::IntrinsicInst& i) {
    switch (i.getIntrinsicID()) {
      case llvm::Intrinsic::assume:
      case llvm::Intrinsic::lifetime_start:
      case llvm::Intrinsic::lifetime_end:
      case llvm::Intrinsic::experimental_noalias_scope_decl:
        return;
      case llvm::Intrinsic::masked_gather:
        return gather(i);
      default:
        break;
    }
    if (llvm::isa<llvm::DbgInfoIntrinsic>(i)) return;
    const auto operation = arithmetic_of_intrinsic(i.getIntrinsicID());
    if (!operation) throw Missing();
    llvm::SmallVector<const Value*, 3> operands(i.args());
    // What there is besides says what is undefined.
    if (*operation == Arithmetic::Abs || *operation == Arithmetic::Ctlz || *operation == Arithmetic::Cttz)
      operands.resize(1);
    compute(i, *operation, operands);
  }

  void gather(const llvm::IntrinsicInst& i) {
    const auto* mask = llvm::dyn_cast<llvm::Constant>(i.getArgOperand(1));
    if (!mask || !mask->isAllOnesValue()) throw Missing();
    const Shape shape = shape_of(i.getType());
    const int32_t addresses = read(i.getArgOperand(0));
    emit({.code = Code::Gather,
          .count = shape.count,
          .to = result(i),
          .a = addresses,
          .c = int32_t(bytes_of(shape.kind))});
  }

  // ---- Control

  using Field = int32_t Instruction::*;

  /// Where that instruction jumps: to the block, by way of what its phis take along this edge.
  void jump_to(int32_t number, Field field, const BasicBlock& from, const BasicBlock& to) {
    if (to.phis().empty())
      jumps_.push_back({number, field, &to});
    else
      edges_.push_back({number, field, &from, &to});
  }

  void emit_edges() {
    for (auto [number, field, from, to] : std::exchange(edges_, {})) {
      instruction(number).*field = begin_sequence();
      take_along(*from, *to);
      jumps_.push_back({position(), &Instruction::a, to});
      emit({.code = Code::Jump});
    }
  }

  /// All phis of a block take their values at a time.
  void take_along(const BasicBlock& from, const BasicBlock& to) {
    struct Copy {
      int32_t to, from;
      uint32_t bytes;
    };
    llvm::SmallVector<Copy> copies;
    for (const llvm::PHINode& phi : to.phis()) {
      const Value* value = phi.getIncomingValueForBlock(&from);
      if (llvm::isa<llvm::UndefValue>(value)) continue;
      const int32_t source = read(value), target = read(&phi);
      if (source != target) copies.push_back({target, source, bytes_of_value(phi.getType())});
    }
    for (size_t n = 0; n < copies.size(); ++n) {
      Copy& copy = copies[n];
      // Read behind a write of an earlier one.
      auto overwrites = [&](const Copy& c) {
        return c.to < copy.from + int32_t(copy.bytes) && copy.from < c.to + int32_t(c.bytes);
      };
      if (std::none_of(copies.begin(), copies.begin() + ptrdiff_t(n), overwrites)) continue;
      const int32_t kept = frame().temporary(copy.bytes);
      move(kept, copy.from, copy.bytes);
      copy.from = kept;
    }
    for (const Copy& copy : copies) move(copy.to, copy.from, copy.bytes);
  }

  void end_block(const llvm::Instruction& i) {
    const BasicBlock& block = *i.getParent();
    if (const auto* branch = llvm::dyn_cast<llvm::BranchInst>(&i)) {
      if (branch->isUnconditional()) {
        const BasicBlock& next = *branch->getSuccessor(0);
        take_along(block, next);
        if (&next == block.getNextNode()) return;
        jumps_.push_back({position(), &Instruction::a, &next});
        emit({.code = Code::Jump});
        return;
      }
      const int32_t condition = read(branch->getCondition()), at = position();
      emit({.code = Code::Branch, .a = condition});
      jump_to(at, &Instruction::b, block, *branch->getSuccessor(0));
      jump_to(at, &Instruction::c, block, *branch->getSuccessor(1));
      return emit_edges();
    }
    if (const auto* choice = llvm::dyn_cast<llvm::SwitchInst>(&i)) {
      const Kind kind = kind_of(choice->getCondition()->getType());
      if (kind != Kind::I32 && kind != Kind::I64) throw Missing();
      const int32_t value = read(choice->getCondition());
      for (const auto& one : choice->cases()) {
        jump_to(position(), &Instruction::c, block, *one.getCaseSuccessor());
        emit({.code = kind == Kind::I32 ? Code::Case32 : Code::Case64,
              .a = value,
              .b = frame().constant(*one.getCaseValue())});
      }
      jump_to(position(), &Instruction::a, block, *choice->getDefaultDest());
      emit({.code = Code::Jump});
      return emit_edges();
    }
    if (const auto* end = llvm::dyn_cast<llvm::ReturnInst>(&i)) {
      if (const Value* value = end->getReturnValue(); value && !llvm::isa<llvm::UndefValue>(value))
        move(returned(), read(value), bytes_of_value(value->getType()));
    } else if (!llvm::isa<llvm::UnreachableInst>(i)) {
      throw Missing();
    }
    emit({.code = Code::Return});
  }

  const llvm::Function& from_;
  const CallArrays arrays_;
  uint32_t callees_bytes_ = 0;
  llvm::DenseMap<const BasicBlock*, int32_t> starts_;
  struct Jump {
    int32_t number;
    Field field;
    const BasicBlock* to;
  };
  std::vector<Jump> jumps_;
  struct Edge {
    int32_t number;
    Field field;
    const BasicBlock *from, *to;
  };
  std::vector<Edge> edges_;
};

}  // namespace

Function make_function(ModuleMaker& module, const llvm::Function& function) {
  return FunctionMaker(module, function).make();
}

}  // namespace bytecode

std::unique_ptr<bytecode::Module> to_bytecode(const llvm::Module& module, const char* entry) {
  auto made = std::make_unique<bytecode::Module>();
  try {
    bytecode::ModuleMaker maker(module, *made);
    made->entry = maker.number_of(*module.getFunction(entry));
  } catch (const bytecode::Missing&) {
    return nullptr;
  }
  TEGULA_CHECK(made->place(), "bytecode that computes what is unknown");
  return made;
}

}  // namespace tegula::emulator
