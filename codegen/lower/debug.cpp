// Prints and asserts.
#include <fmt/ranges.h>

#include <array>

#include "codegen/analysis/pointer_base.h"
#include "codegen/lower/lowering.h"

namespace tegula::lower {

namespace {

constexpr int kMostCoordinates = 5;

// How the bits of a value reach the print, as its row in hw.def counts, and the directive that prints them.
struct Printed {
  int kind;
  std::string directive;
};
constexpr int kWord = 0, kLong = 1, kDouble = 2, kNothing = 3;

Printed printed_as(const ir::Type& type, bool hex) {
  const int bits = type.pointer ? 64 : type.bits();
  const bool wide = bits == 64;
  if (hex) return {wide ? kLong : kWord, fmt::format("0x%0{}{}x", std::max(bits / 4, 1), wide ? "ll" : "")};
  if (type.pointer) return {kLong, "%p"};
  if (type.is_float()) return {kDouble, "%f"};
  return {wide ? kLong : kWord, fmt::format("%{}{}", wide ? "ll" : "", is_signed(type.elem) ? "i" : "u")};
}

llvm::Value* bits_of(Lowering& l, const ir::Type& type, llvm::Value* x, bool hex) {
  llvm::Type* i64 = l.b.getInt64Ty();
  if (type.pointer) return l.b.CreatePtrToInt(x, i64);
  if (type.is_float() && !hex) {
    if (is_float8(type.elem)) x = l.widen_float8(type.elem, {x})[0];
    if (!x->getType()->isDoubleTy()) x = l.b.CreateFPExt(x, l.b.getDoubleTy());
    return l.b.CreateBitCast(x, i64);
  }
  x = l.b.CreateBitCast(x, l.b.getIntNTy(unsigned(x->getType()->getPrimitiveSizeInBits())));
  return is_signed(type.elem) && !hex ? l.b.CreateSExt(x, i64) : l.b.CreateZExt(x, i64);
}

// Of a comparison; null: it is none.
const char* sign_of(ir::Opcode opcode) {
  switch (opcode) {
    case ir::Opcode::Lt:
      return "<";
    case ir::Opcode::Le:
      return "<=";
    case ir::Opcode::Gt:
      return ">";
    case ir::Opcode::Ge:
      return ">=";
    case ir::Opcode::Eq:
      return "==";
    case ir::Opcode::Ne:
      return "!=";
    default:
      return nullptr;
  }
}

std::string escaped(const std::string& text) {
  std::string out;
  for (char c : text) out += c == '%' ? std::string("%%") : std::string(1, c);
  return out;
}

// "pid (%u, %u, %u) idx (%2u, %3u) text: (operand 1) %f"
std::string format_of(const ir::Op& op, size_t operand, const std::string& directive) {
  std::string format = "pid (%u, %u, %u)";
  if (!op.operands.empty()) {
    format += " idx (";
    const ir::Type& type = op.operands[operand]->type;
    for (int axis = 0; axis < type.rank(); ++axis)
      format +=
          fmt::format("{}%{}u", axis ? ", " : "", std::to_string(std::max<int64_t>(type.shape[axis] - 1, 1)).size());
    format += ")";
  }
  format += escaped(op.get(ir::attr::text));
  if (op.operands.size() > 1) format += fmt::format("(operand {}) ", operand);
  return format + directive + "\n";
}

llvm::Value* address_of_text(Lowering& l, const std::string& text) {
  llvm::Constant* data = llvm::ConstantDataArray::getString(l.context, text);
  auto* global = new llvm::GlobalVariable(l.module, data->getType(), true, llvm::GlobalValue::InternalLinkage, data,
                                          "tegula_text", nullptr, llvm::GlobalValue::NotThreadLocal, 1);
  return l.b.CreatePtrToInt(l.b.CreateAddrSpaceCast(global, llvm::PointerType::get(l.context, 0)), l.b.getInt64Ty());
}

void push_coordinates(Lowering& l, const ir::Type& type, int r, llvm::SmallVectorImpl<llvm::Value*>& args) {
  TEGULA_CHECK(type.rank() <= kMostCoordinates, "a print of a tile of rank {}", type.rank());
  for (int axis = 0; axis < kMostCoordinates; ++axis)
    args.push_back(axis < type.rank() ? l.coordinate(*type.layout, tile_dim(axis), r) : l.i32(0));
}

// One line; `r`: of a tile's register, else of a scalar.
void print_element(Lowering& l, const ir::Op& op, size_t operand, int r, llvm::Value* format, llvm::Value* owner) {
  const ir::Type& type = op.operands[operand]->type;
  const bool hex = op.get(ir::attr::hex);
  llvm::SmallVector<llvm::Value*> args{format, l.i32(0)};
  if (type.layout) args.back() = l.linear_index(type, r);
  push_coordinates(l, type, r, args);
  args.push_back(bits_of(l, type, l.get(op.operands[operand])[size_t(r)], hex));
  args.push_back(owner ? owner : l.b.getTrue());
  const int position = int(operand) << 16 | r;
  l.hw("print", args, fmt::format(".{}.{}.{}", position, type.rank(), printed_as(type, hex).kind));
}

// The comparison that the condition of an assert is, or that its mask is joined to; null: it is another condition.
const ir::Op* comparison_of(const ir::Value* condition) {
  const ir::Op* op = condition->def;
  if (op && op->opcode == ir::Opcode::BitOr) op = op->operand(0)->def;
  if (!op || !sign_of(op->opcode)) return nullptr;
  const LinearLayout *own = op->operand(0)->type.layout.get(), *wanted = condition->type.layout.get();
  return own == wanted || (own && wanted && *own == *wanted) ? op : nullptr;
}

// "element [%u, %u]: %f < %f", what there is of it.
std::string format_of_failure(const ir::Type& type, const ir::Op* comparison) {
  std::string text;
  for (int axis = 0; axis < type.rank(); ++axis) text += axis ? ", %u" : "element [%u";
  if (type.rank()) text += comparison ? "]: " : "]";
  if (!comparison) return text;
  const std::string value = printed_as(comparison->operand(0)->type, false).directive;
  return fmt::format("{}{} {} {} is false", text, value, sign_of(comparison->opcode), value);
}

void tell_failure(Lowering& l, const ir::Type& type, const ir::Op* comparison, int r, llvm::Value* format,
                  llvm::Value* fails) {
  llvm::SmallVector<llvm::Value*> args{format};
  push_coordinates(l, type, r, args);
  int kind = kNothing;
  for (size_t i = 0; i < 2; ++i) args.push_back(l.b.getInt64(0));
  if (comparison) {
    kind = printed_as(comparison->operand(0)->type, false).kind;
    for (size_t i = 0; i < 2; ++i) {
      const ir::Value* operand = comparison->operand(i);
      args[args.size() - 2 + i] = bits_of(l, operand->type, l.get(operand)[size_t(r)], false);
    }
  }
  args.push_back(fails);
  l.hw("failed_element", args, fmt::format(".{}.{}", type.rank(), kind));
}

// What a recorder reads of an operand, line by line: the op's text, the file, line and column; of values the element
// type, of pointers with the parameter that they are computed from, extents and layout.
std::string described(const ir::Op& op, size_t operand) {
  static constexpr const char* kParts[] = {" pointers", " values", " mask"};
  std::string text = op.get(ir::attr::text);
  if (op.operands.size() > 1) text += kParts[operand];
  text += fmt::format("\n{}\n{}\n{}", op.loc.file ? *op.loc.file : "", op.loc.line, op.loc.column);
  if (op.operands.empty()) return text;
  const ir::Type* type = &op.operands[operand]->type;
  text += fmt::format("\n{}{}", type->pointer ? "*" : "", elem_info(type->elem).text);
  if (type->pointer)
    if (const ir::Value* array = pointer_base(op.operands[operand])) text += " " + array->name;
  return fmt::format("{}\n{}\n{}", text, fmt::join(type->shape, " "), type->layout ? type->layout->to_string() : "");
}

// Memory of the thread for that many pairs, shared by all prints and watches of the function.
llvm::Value* room_for_pairs(Lowering& l, int pairs) {
  llvm::BasicBlock& entry = l.b.GetInsertBlock()->getParent()->getEntryBlock();
  llvm::AllocaInst* room = nullptr;
  for (llvm::Instruction& i : entry)
    if (auto* found = llvm::dyn_cast<llvm::AllocaInst>(&i); found && found->getName() == "watched") room = found;
  if (!room) {
    llvm::IRBuilder<> first(&entry, entry.begin());
    room = first.CreateAlloca(l.b.getInt64Ty(), l.i32(0), "watched");
  }
  const int64_t has = llvm::cast<llvm::ConstantInt>(room->getArraySize())->getSExtValue();
  room->setOperand(0, l.i32(std::max<int64_t>(has, 2 * pairs)));
  return room;
}

}  // namespace

void lower_Watch(Lowering& l, const ir::Op& op) {
  if (op.operands.empty()) l.hw("watch", {address_of_text(l, described(op, 0)), l.b.getInt64(0), l.i32(0)});
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Value* operand = op.operands[i];
    const ir::Type& type = operand->type;
    const int registers = Lowering::num_registers(type);
    llvm::Value* room = room_for_pairs(l, registers);
    llvm::Type* i64 = l.b.getInt64Ty();
    for (int r = 0; r < registers; ++r) {
      llvm::Value* index = type.layout ? l.b.CreateZExt(l.linear_index(type, r), i64) : l.b.getInt64(0);
      l.b.CreateStore(index, l.b.CreateConstGEP1_32(i64, room, unsigned(2 * r)));
      l.b.CreateStore(bits_of(l, type, l.get(operand)[size_t(r)], false),
                      l.b.CreateConstGEP1_32(i64, room, unsigned(2 * r + 1)));
    }
    l.hw("watch", {address_of_text(l, described(op, i)), l.b.CreatePtrToInt(room, i64), l.i32(registers)});
  }
}

void lower_DevicePrint(Lowering& l, const ir::Op& op) {
  if (op.operands.empty()) {
    llvm::SmallVector<llvm::Value*> args{address_of_text(l, format_of(op, 0, "")), l.i32(0)};
    args.append(kMostCoordinates, l.i32(0));
    args.push_back(l.b.getInt64(0));
    args.push_back(l.is_owner_in_cluster(nullptr));
    l.hw("print", args, fmt::format(".0.0.{}", kNothing));
    return;
  }
  for (size_t i = 0; i < op.operands.size(); ++i) {
    const ir::Type& type = op.operands[i]->type;
    llvm::Value* format = address_of_text(l, format_of(op, i, printed_as(type, op.get(ir::attr::hex)).directive));
    llvm::Value* owner = l.is_owner_in_cluster(type.layout.get());
    for (int r = 0; r < Lowering::num_registers(type); ++r)
      if (Lowering::canonical_register(type, r) == r) print_element(l, op, i, r, format, owner);
  }
}

void lower_DeviceAssert(Lowering& l, const ir::Op& op) {
  const ir::Type& type = op.operand(0)->type;
  const ir::Op* comparison = comparison_of(op.operand(0));
  llvm::Value* format = address_of_text(l, format_of_failure(type, comparison));
  llvm::Value* owner = l.is_owner(type.layout.get());
  if (!owner) owner = l.b.getTrue();
  llvm::Value* failed = l.b.getFalse();
  for (int r = 0; r < Lowering::num_registers(type); ++r) {
    if (Lowering::canonical_register(type, r) != r) continue;
    llvm::Value* fails = l.b.CreateAnd(owner, l.b.CreateNot(l.get(op.operand(0))[size_t(r)]));
    failed = l.b.CreateOr(failed, fails);
    tell_failure(l, type, comparison, r, format, fails);
  }
  l.asserts.push_back({op.loc, op.get(ir::attr::text)});
  l.hw("check", {failed, l.i32(int64_t(l.asserts.size()) - 1), l.hw("failure_variable", {}), l.site(op.loc)});
}

}  // namespace tegula::lower
