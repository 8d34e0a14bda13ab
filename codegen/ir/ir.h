// Tile IR: SSA values on whole tiles, structured control flow, one function a kernel.
//
// A Func owns a tree: Func -> Block -> Op -> Block (the op's regions, one block each). Values are the results of ops
// and the arguments of blocks. Helper functions of the kernel language are inlined by the front end and compile-time
// values are gone, so a module is one function.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "codegen/ir/type.h"
#include "runtime/base/diag.h"

namespace tegula::ir {

enum class Opcode : uint16_t {
#define TEGULA_OP(Name, ...) Name,
#include "codegen/ir/ops.def"
};

enum class ResultRule : uint8_t { Same, Bool, Given, None };

enum Trait : uint32_t {
  Pure = 1,         ///< no effect: may be removed, merged with an equal one, moved
  Commutative = 2,  ///< of its first two operands
  FloatOnly = 4,
  IntOnly = 8,
  Reads = 16,
  Writes = 32,
  Control = 64,
  Terminator = 128,
  Elementwise = 256,  ///< result element depends on the same element of each operand; set on all elementwise rows
};

/// One row of ops.def.
struct OpInfo {
  Opcode opcode;
  const char* text;
  std::vector<std::string> operands;  ///< names, without marks
  int required;                       ///< how many operands must be there
  bool variadic;                      ///< the last name repeats (zero or more times)
  ResultRule rule;
  uint32_t traits;
  const char* language_name;
  const char* doc;
};
const OpInfo& op_info(Opcode opcode);
std::optional<Opcode> opcode_from_text(std::string_view text);
/// All rows in the order of the table.
const std::vector<OpInfo>& op_table();

struct Op;
struct Block;

struct Value {
  Type type;
  Op* def = nullptr;       ///< the op it results from; null for a block argument
  Block* block = nullptr;  ///< the block it is an argument of; null for a result
  int index = 0;           ///< which result or argument
  std::string name;        ///< the user's name for it, for dumps; may be empty
};

/// A For's operands before the initial values of what it carries: lower, upper, step.
inline constexpr int kForBounds = 3;

using Attr = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;
using Attrs = std::map<std::string, Attr, std::less<>>;

struct Op {
  Opcode opcode;
  std::vector<Value*> operands;  ///< null where an optional operand is absent
  std::vector<std::unique_ptr<Value>> results;
  Attrs attrs;
  std::vector<std::unique_ptr<Block>> regions;
  Loc loc;
  Block* parent = nullptr;

  const OpInfo& info() const { return op_info(opcode); }
  bool has(Trait trait) const { return info().traits & trait; }
  Value* result(int i = 0) const { return results[i].get(); }
  Value* operand(int i) const { return i < int(operands.size()) ? operands[i] : nullptr; }
  /// Attribute of a known type, or `fallback` when absent.
  int64_t attr_int(std::string_view name, int64_t fallback = 0) const;
  bool attr_bool(std::string_view name) const;
  std::string attr_string(std::string_view name) const;
  std::vector<int64_t> attr_ints(std::string_view name) const;
};

struct Block {
  std::vector<std::unique_ptr<Value>> args;
  std::list<std::unique_ptr<Op>> ops;
  Op* parent = nullptr;  ///< null for a function's body

  Value* add_arg(Type type, std::string name = {});
  /// Last op, which is the terminator in a finished block; null when empty.
  Op* terminator() const { return ops.empty() ? nullptr : ops.back().get(); }
};

/// A kernel. Arguments are those that are passed at launch.
struct Func {
  std::string name;
  std::vector<int64_t> divisibility;  ///< per argument: the value (or address) is a multiple of it, a power of two
  Attrs attrs;                        ///< num_warps, num_stages, ...
  Block body;
  Loc loc;

  int num_warps() const;   ///< 4 unless said
  int num_stages() const;  ///< 3 unless said; of the loops around a dot that have no number of their own
  Value* add_param(Type type, std::string name, int64_t divisible_by = 1);

  std::unique_ptr<Func> clone() const;
};

/// Calls `visit` on every op, an op before those in its regions.
void walk(Block& block, const std::function<void(Op&)>& visit);
void walk(const Block& block, const std::function<void(const Op&)>& visit);

/// Replaces every use of `from` within `scope` (regions included) by `to`.
void replace_uses(Block& scope, Value* from, Value* to);
/// The same for many values in one walk.
using ValueMap = std::unordered_map<const Value*, Value*>;
void replace_uses(Block& scope, const ValueMap& map);
/// Inline assembly: how many of `pack` elements of a type share a register of 32 bits; and how many results and
/// arguments LLVM's constraints name.
int64_t elements_of_register(const Type& type, int64_t pack);
struct AsmOperands {
  int64_t results = 0, arguments = 0;
};
AsmOperands asm_operands(std::string_view constraints);

/// How often each value is used as an operand.
std::unordered_map<const Value*, int> count_uses(const Block& scope);

/// Copies `op` with its regions; operands found in `map` are replaced, results and inner values are added to it.
std::unique_ptr<Op> clone_op(const Op& op, ValueMap& map);

}  // namespace tegula::ir
