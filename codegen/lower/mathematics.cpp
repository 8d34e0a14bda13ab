// Mathematical functions of elements: of fp32 by instructions and polynomials, of fp64 by libclc.
#include <algorithm>
#include <unordered_set>

#include "codegen/lower/elementwise.h"
#include "codegen/lower/float32.h"
#include "codegen/lower/logarithm.h"

namespace tegula::lower {

namespace {

// fp32 through `f32`, fp64 through `f64`; narrower types in fp32.
template <class F32, class F64>
void math(Lowering& l, const ir::Op& op, F32 f32, F64 f64) {
  elementwise(l, op, [&](auto& x) {
    return in_f32(l, x, [&](auto&& y) -> llvm::Value* { return y[0]->getType()->isDoubleTy() ? f64(y) : f32(y); });
  });
}

void libclc_math(Lowering& l, const ir::Op& op, std::string_view name) {
  auto call = [&](auto& x) { return l.libclc(name, x); };
  math(l, op, call, call);
}

void lower_logarithm(Lowering& l, const ir::Op& op, std::string_view name) {
  math(
      l, op, [&](auto& x) { return logarithm(l, name, x[0]); }, [&](auto& x) { return l.libclc(name, x); });
}

void intrinsic_math(Lowering& l, const ir::Op& op, llvm::Intrinsic::ID id) {
  auto call = [&](auto& x) { return l.b.CreateUnaryIntrinsic(id, x[0]); };
  math(l, op, call, call);
}

// The branch of exp keeps all arguments until it has looked at the last: too many for tiles as large as accumulators.
constexpr int kBranchTo = 64;
constexpr double kLog2E = 1.4426950408889634;

// Whether a loop around the op multiplies matrices: its products run beside the arithmetic, which must not branch.
bool beside_products(const ir::Op& op) {
  for (const ir::Op* loop = op.parent->parent; loop; loop = loop->parent->parent) {
    if (loop->opcode != ir::Opcode::For) continue;
    bool found = false;
    ir::walk(*loop->regions[0], [&](const ir::Op& inner) { found |= ir::is_product(inner); });
    if (found) return true;
  }
  return false;
}

// Whether `value` is a constant that does not change when subnormal numbers are added to it.
bool hides_subnormals(const ir::Value* value) {
  constexpr double kLeast = 0x1p-100;
  while (value->def && (value->def->opcode == ir::Opcode::Splat || value->def->opcode == ir::Opcode::ConvertLayout))
    value = value->def->operands[0];
  if (!value->def || value->def->opcode != ir::Opcode::Constant) return false;
  const ir::Attr constant = value->def->get(ir::attr::value);
  const double* number = std::get_if<double>(&constant);
  return number && std::abs(*number) >= kLeast;
}

// Whether the op's result is only ever added to such constants, as that of 1 / (1 + exp(-x)) is.
bool subnormals_vanish(const Lowering& l, const ir::Op& op) {
  const auto users = l.users.find(op.result());
  return users == l.users.end() || std::ranges::all_of(users->second, [&](const ir::Op* user) {
           return user->opcode == ir::Opcode::Add &&
                  (hides_subnormals(user->operand(0)) || hides_subnormals(user->operand(1)));
         });
}

// What a thread has for tiles.
int64_t registers_of_thread(const Lowering& l) {
  constexpr int64_t kMost = 255, kBesideTiles = 8;
  return std::min<int64_t>(kMost, l.target.registers_per_sm / (32 * l.func.num_warps())) - kBesideTiles;
}

// The registers of other tiles of numbers that a branch at the op would have to keep whole: made before it in its block
// and used behind it. Without a branch the assembler orders the computations of a thread's elements as it likes, and
// few of them are live at a time.
int64_t held_across(const Lowering& l, const ir::Op& op) {
  std::unordered_set<const ir::Op*> before;
  std::vector<const ir::Value*> tiles;
  auto add = [&](const ir::Value* v) {
    if (v->type.is_tile() && v->type.is_float() && v != op.operand(0)) tiles.push_back(v);
  };
  for (const auto& arg : op.parent->args) add(arg.get());
  for (const auto& other : op.parent->ops) {
    before.insert(other.get());
    if (other.get() == &op) break;
    if (other->opcode != ir::Opcode::Constant && other->opcode != ir::Opcode::Splat)
      for (const auto& result : other->results) add(result.get());
  }
  int64_t held = 0;
  for (const ir::Value* v : tiles) {
    const auto users = l.users.find(v);
    const bool is_held = users != l.users.end() && std::ranges::any_of(users->second, [&](const ir::Op* user) {
                           while (user->parent != op.parent && user->parent->parent) user = user->parent->parent;
                           return !before.contains(user);
                         });
    if (is_held) held += (int64_t(distinct_registers(v->type).size()) * v->type.bits() + 31) / 32;
  }
  return held;
}

// e^x as 2^(x log2 e). ex2.approx spends three instructions an element on results below the normal numbers, which
// arguments below -126 have, and nothing where these make no difference to what follows. For other fp32 tiles one
// integer maximum tells whether a thread has such, unless a branch would hold more than its registers: among the bits
// of numbers, 0x800000 added, those of finite negative ones are the largest, by size, while infinities and NaNs stay
// out of the way.
void exponential(Lowering& l, const ir::Op& op) {
  auto scaled = [&](llvm::Value* x) { return l.b.CreateFMul(x, llvm::ConstantFP::get(x->getType(), kLog2E)); };
  const ir::Type& type = op.result()->type;
  const std::vector<int> registers = distinct_registers(type);
  if (type.elem == Elem::F32 && subnormals_vanish(l, op))
    return elementwise(l, op, [&](auto& x) { return l.hw("ex2_approx_ftz_f32", {scaled(x[0])}); });
  if (type.elem != Elem::F32 || int(registers.size()) < kBranchFrom || int(registers.size()) > kBranchTo ||
      beside_products(op))
    return math(
        l, op, [&](auto& x) { return l.hw("ex2_approx_f32", {scaled(x[0])}); },
        [&](auto& x) { return l.libclc("exp", x); });
  if (held_across(l, op) + int64_t(registers.size()) > registers_of_thread(l))
    return elementwise(l, op, [&](auto& x) { return l.hw("ex2_approx_f32", {scaled(x[0])}); });
  constexpr uint32_t kShift = 0x800000, kLeast = 0xC2FC0000 /* -126 */ + kShift;
  constexpr size_t kChains = 4;
  const Regs& x = l.get(op.operand(0));
  const Regs arguments = l.map_registers(type, [&](int r) { return scaled(x[r]); });
  llvm::SmallVector<llvm::Value*> largest;
  auto larger = [&](llvm::Value* a, llvm::Value* b) { return l.b.CreateBinaryIntrinsic(llvm::Intrinsic::umax, a, b); };
  for (size_t i = 0; i < registers.size(); ++i) {
    llvm::Value* bits = l.b.CreateBitCast(arguments[registers[i]], l.b.getInt32Ty());
    llvm::Value* shifted = l.b.CreateAdd(bits, l.b.getInt32(kShift));
    if (i < kChains)
      largest.push_back(shifted);
    else
      largest[i % kChains] = larger(shifted, largest[i % kChains]);
  }
  llvm::Value *upper = larger(largest[2], largest[3]), *most = larger(larger(largest[0], largest[1]), upper);
  llvm::Value* all_normal = l.b.CreateICmpULE(most, l.b.getInt32(kLeast));
  l.set(op.result(), branch(
                         l, type, all_normal, [&](int r) { return l.hw("ex2_approx_ftz_f32", {arguments[r]}); },
                         [&](int r) { return l.hw("ex2_approx_f32", {arguments[r]}); }));
}

}  // namespace

void lower_Floor(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::floor); }
void lower_Ceil(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::ceil); }
void lower_SqrtRn(Lowering& l, const ir::Op& op) { intrinsic_math(l, op, llvm::Intrinsic::sqrt); }

void lower_Sqrt(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("sqrt_approx_f32", {x[0]}); },
      [&](auto& x) { return l.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]); });
}

void lower_Rsqrt(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("rsqrt_approx_f32", {x[0]}); },
      [&](auto& x) {
        return l.b.CreateFDiv(llvm::ConstantFP::get(x[0]->getType(), 1.0),
                              l.b.CreateUnaryIntrinsic(llvm::Intrinsic::sqrt, x[0]));
      });
}

void lower_Exp(Lowering& l, const ir::Op& op) { exponential(l, op); }
void lower_Exp2(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("ex2_approx_ftz_f32", {x[0]}); }, [&](auto& x) { return l.libclc("exp2", x); });
}
void lower_Log(Lowering& l, const ir::Op& op) { lower_logarithm(l, op, "log"); }
void lower_Log2(Lowering& l, const ir::Op& op) { lower_logarithm(l, op, "log2"); }
void lower_Sin(Lowering& l, const ir::Op& op) { libclc_math(l, op, "sin"); }
void lower_Cos(Lowering& l, const ir::Op& op) { libclc_math(l, op, "cos"); }
void lower_Tanh(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return tanh_f32(l, x[0]); }, [&](auto& x) { return l.libclc("tanh", x); });
}
void lower_FastTanh(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return l.hw("tanh_approx_f32", {x[0]}); }, [&](auto& x) { return l.libclc("tanh", x); });
}
void lower_Erf(Lowering& l, const ir::Op& op) {
  math(
      l, op, [&](auto& x) { return erf_f32(l, x[0]); }, [&](auto& x) { return l.libclc("erf", x); });
}

void lower_Pow(Lowering& l, const ir::Op& op) {
  auto call = [&](auto& x) { return l.pow(x[0], x[1]); };
  math(l, op, call, call);
}

}  // namespace tegula::lower
