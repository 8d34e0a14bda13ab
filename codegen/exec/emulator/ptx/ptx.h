// Inline PTX on the emulator: the text of a block is read once, when its kernel is compiled; threads then run it.
//
// A block has slots of 64 bits: first the operands $0, $1, ... (results, then arguments), then the registers that it
// declares. A slot holds the bits of a register, zeros above them. What an instruction makes of the bits is its Type.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "codegen/exec/emulator/launch/fibers.h"

namespace tegula::emulator::ptx {

/// How bits are read. Below 16 bits: the formats of narrow floats, by exponent and fraction.
enum class Form : uint8_t {
  Bits,
  Unsigned,
  Signed,
  Float,
  BFloat,
  Tf32,
  E4M3,
  E5M2,
  E2M3,
  E3M2,
  E2M1,
  UE8M0,
  Predicate
};

/// `lanes` numbers of `bits` bits each side by side, as in f16x2.
struct Type {
  Form form = Form::Bits;
  uint8_t bits = 0;
  uint8_t lanes = 1;

  int width() const { return bits * lanes; }
  bool is_float() const { return form >= Form::Float && form < Form::Predicate; }
  bool operator==(const Type&) const = default;
};

enum class Op : uint8_t {
#define TEGULA_PTX(Name, text, types, to, from, modifiers) Name,
#include "codegen/exec/emulator/ptx/ptx.def"
};

enum class Round : uint8_t { Nearest, Zero, Down, Up, NearestAway };

/// The modifiers of an instruction that change what it computes.
struct Modifiers {
  Round round = Round::Nearest;
  bool integral = false;  ///< rni, rzi, rmi, rpi: to a whole number
  bool approximate = false;
  bool flush = false;     ///< ftz: denormals are zeros
  bool saturate = false;  ///< sat, satfinite
  bool relu = false;
  bool nan = false;   ///< min, max: a NaN wins
  char part = 0;      ///< l lo, h hi, w wide
  bool left = false;  ///< shf.l
  bool wrap = false;
  bool carry = false;   ///< .cc: sets the carry
  bool shift = false;   ///< bfind.shiftamt
  std::string choice;   ///< a comparison (eq, ltu), the kind of an atom, the mode of a prmt
  std::string combine;  ///< setp: and, or, xor
  uint8_t vector = 1;   ///< v2, v4

  // Of ld, st, atom, red and fences: what they order.
  bool strong = false;  ///< relaxed or more: no part of a data race with others that are
  bool acquires = false, releases = false;
  enum class Scope : uint8_t { Program, Cluster, Gpu } scope = Scope::Gpu;
};

struct Operand {
  /// FloatBits: 0f3F800000, or a Number rounded to the type that the instruction reads.
  enum Kind : uint8_t { Register, Immediate, FloatBits, Number, Special, Sink };
  Kind kind = Sink;
  bool negated = false;  ///< a predicate's
  uint32_t index = 0;    ///< slot, or which special register
  uint64_t bits = 0;     ///< Immediate, FloatBits
  double number = 0;     ///< Number
  int64_t offset = 0;    ///< of an address
};

/// Registers of the hardware that a block may read.
enum class Special : uint8_t {
#define TEGULA_PTX_SPECIAL(Name, text, bits) Name,
#include "codegen/exec/emulator/ptx/ptx.def"
};

struct Instruction {
  Op op;
  Type type;    ///< of the result
  Type source;  ///< of the operands where it is another one
  Modifiers mods;
  std::vector<Operand> to, from;
  std::vector<int> to_groups, from_groups;  ///< how many of them each operand has: {a, b} is one operand of two
  int guard = -1;                           ///< slot of the predicate
  bool guard_negated = false;
  int extended_to = 0;  ///< bits of the result's register where it is wider, and the sign fills the rest; else 0
  uint32_t target = 0;  ///< of a branch
};

struct Program {
  std::string text, constraints;  ///< from which it was read
  std::vector<Instruction> code;
  uint32_t results = 0, operands = 0;
  std::vector<std::pair<uint32_t, uint32_t>> ties;  ///< (argument, result) that share a register
  uint32_t slots = 0;
  bool waits = false;  ///< it may wait for other threads
};

/// Reads a block of inline assembly. `constraints` as LLVM has them. The error is a message that names the instruction.
std::variant<Program, std::string> parse(std::string_view text, std::string_view constraints);

/// Runs the block on `slots`, of which the arguments are set; afterwards the results are. `site` is for faults, `place`
/// for what the threads of a program do together.
void run(const Program& program, uint64_t* slots, uint32_t site, uint32_t place);
/// The same as generated code calls it, by the block's number in the kernel.
void run_block(uint32_t number, uint64_t* slots, uint32_t site, uint32_t place);

// ---- For the files of the interpreter

constexpr uint64_t mask(int bits) { return bits >= 64 ? ~uint64_t(0) : (uint64_t(1) << bits) - 1; }
constexpr int64_t sign_extended(uint64_t value, int bits) {
  return bits >= 64 ? int64_t(value) : int64_t(value << (64 - bits)) >> (64 - bits);
}
/// The number that the bits of one lane are, and back, rounded.
double to_double(Type type, uint64_t bits);
uint64_t from_double(Type type, double value, const Modifiers& mods);
/// cvt of one lane.
uint64_t convert(Type to, Type from, uint64_t bits, const Modifiers& mods);
/// An arithmetic instruction on one lane.
uint64_t compute(const Instruction& i, uint64_t a, uint64_t b, uint64_t c, bool& carry);
/// The relation of setp and set.
bool compare(const Instruction& i, uint64_t a, uint64_t b);
uint64_t read_special(Special which);
/// shfl, vote, match, redux, elect and bar.warp, whose last operand is the member mask.
void exchange(const Instruction& i, const uint64_t* operands, size_t count, uint64_t* results, Where where);
/// ld, st, atom, red: whether the instruction is one of these, done.
void access_memory(const Instruction& i, uint64_t address, const uint64_t* values, uint64_t* results, uint32_t site);

}  // namespace tegula::emulator::ptx
