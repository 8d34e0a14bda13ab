// Tile IR: SSA values on whole tiles, structured control flow, one function a kernel.
//
// A Func owns a tree: Func -> Block -> Op -> Block (the op's regions, one block each). Values are the results of ops
// and the arguments of blocks. Helper functions of the kernel language are inlined by the front end and compile-time
// values are gone, so a module is one function.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
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

using Ints = std::vector<int64_t>;
using Attr = std::variant<bool, int64_t, double, std::string, Ints>;
using Attrs = std::map<std::string, Attr, std::less<>>;

/// The names of attributes with their types: `op.get(attr::axis)`. A key of type Attr holds an integer or a
/// floating-point number.
namespace attr {
template <class T>
struct Key {
  std::string_view name;
  operator std::string() const { return std::string(name); }
};
constexpr std::string_view without_underscore(std::string_view name) {
  return name.substr(0, name.size() - name.ends_with('_'));
}
#define TEGULA_OP(...)
#define TEGULA_ATTRIBUTE(name, type) inline constexpr Key<type> name{without_underscore(#name)};
#include "codegen/ir/ops.def"
}  // namespace attr

/// How many results there are, and how their types follow.
enum class ResultRule : uint8_t { Same, Bool, Given, Several, Each, EachSame, Carried, None };

enum Trait : uint32_t {
  Pure = 1 << 0,         ///< no effect: may be removed, merged with an equal one, moved
  Commutative = 1 << 1,  ///< of its first two operands
  FloatOnly = 1 << 2,
  IntOnly = 1 << 3,
  ReadsGlobal = 1 << 4,
  WritesGlobal = 1 << 5,
  ReadsShared = 1 << 6,
  WritesShared = 1 << 7,
  Synchronizes = 1 << 8,  ///< threads meet, or the state of barriers and copies under way changes
  Control = 1 << 9,
  Terminator = 1 << 10,
  Elementwise = 1 << 11,  ///< result element depends on the same element of each operand; set on all elementwise rows
  Reads = ReadsGlobal | ReadsShared,
  Writes = WritesGlobal | WritesShared | Synchronizes,
};

/// A row of TEGULA_ATTR.
struct AttrInfo {
  std::string_view name;
  bool number;  ///< an integer or a floating-point number; else of the type of `fallback`
  Attr fallback;
  bool required;
  int64_t low = INT64_MIN, high = INT64_MAX;  ///< of an integer or of each one of a list
  std::vector<std::string> choices;           ///< of a string; empty: any
  const char* doc;
};

enum class RegionKind : uint8_t { Combine, Elements, Body, Test, Branch, Beside };

/// A row of TEGULA_REGION.
struct RegionInfo {
  RegionKind kind;
  Opcode terminator;
  const char* doc;
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
  std::vector<AttrInfo> attrs = {};
  std::vector<RegionInfo> regions = {};

  const AttrInfo* attr(std::string_view name) const;  ///< null: the op has no such attribute
  /// Whether its region combines two groups of scalars into one, along the axis that the op names.
  bool combines() const { return !regions.empty() && regions[0].kind == RegionKind::Combine; }
  /// Whether it combines the elements along the axis in their order and gives a result for each of them, as a scan
  /// does. Its operands then need a layout with an axis_order (layout/axis_order.h).
  bool combines_in_order() const { return combines() && rule == ResultRule::EachSame; }
  /// Whether its region computes on scalars and uses no value from outside.
  bool isolates() const { return combines() || (!regions.empty() && regions[0].kind == RegionKind::Elements); }
  /// Whether its regions run once an iteration.
  bool loops() const {
    return !regions.empty() && (regions[0].kind == RegionKind::Body || regions[0].kind == RegionKind::Test);
  }
  /// Whether its region runs on warps of its own.
  bool runs_beside() const { return !regions.empty() && regions[0].kind == RegionKind::Beside; }
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

struct Op {
  Opcode opcode;
  std::vector<Value*> operands;  ///< null where an optional operand is absent
  std::vector<std::unique_ptr<Value>> results;
  Attrs attrs;
  std::vector<std::unique_ptr<Block>> regions;
  Loc loc;
  Block* parent = nullptr;

  const OpInfo& info() const { return op_info(opcode); }
  /// Any of the traits.
  bool has(Trait trait) const { return info().traits & trait; }
  Value* result(int i = 0) const { return results[i].get(); }
  Value* operand(int i) const { return i < int(operands.size()) ? operands[i] : nullptr; }

  /// The attribute, or the default of the op's row. The row must name it.
  template <class T>
  T get(attr::Key<T> key) const {
    const Attr& value = attribute(key.name);
    if constexpr (std::is_same_v<T, Attr>)
      return value;
    else
      return std::get<T>(value);
  }
  template <class T>
  bool has(attr::Key<T> key) const {
    return attrs.contains(key.name);
  }
  template <class T>
  void set(attr::Key<T> key, std::type_identity_t<T> value) {
    attrs[key] = std::move(value);
  }
  template <class T>
  void clear(attr::Key<T> key) {
    attrs.erase(std::string(key.name));
  }

 private:
  const Attr& attribute(std::string_view name) const;
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
  Attrs attrs;                        ///< options (options.def), as far as given
  Block body;
  Loc loc;

  int num_warps() const;
  bool debug() const;      ///< its asserts are carried out
  bool watched() const;    ///< statements and values of names are told of (Opcode::Watch)
  int num_ctas() const;    ///< thread blocks that run a program together
  int num_stages() const;  ///< of the loops around a dot that have no number of their own
  int warp_specialize() const;
  int bulk_copies() const;
  int program_loop() const;
  int maxnreg() const;  ///< registers a thread at most; 0: no limit
  /// Whether the kernel may begin before the one ahead of it in its stream has ended (attribute dependent_launch).
  bool dependent_launch() const;
  /// Whether a product and a sum may become one fma (attribute fp_fusion).
  bool fp_fusion() const;
  Value* add_param(Type type, std::string name, int64_t divisible_by = 1);

  std::unique_ptr<Func> clone() const;
};

/// Calls `visit` on every op, an op before those in its regions.
void walk(Block& block, const std::function<void(Op&)>& visit);
void walk(const Block& block, const std::function<void(const Op&)>& visit);

/// Whether each thread copies what it reads, to a part of the place that is its own.
inline bool is_own_copy(const Op& op) { return op.opcode == Opcode::AsyncCopy && op.get(attr::own); }
/// Whether the op multiplies matrices, at once or beside the program.
inline bool is_product(const Op& op) { return op.opcode == Opcode::Dot || op.opcode == Opcode::MmaStart; }

/// Whether one of the threads that hold an element accesses memory, and passes what it finds to the others.
inline bool is_by_owners(const Op& op) {
  return op.opcode == Opcode::AtomicRmw || (op.opcode == Opcode::Load && op.get(attr::by_owners));
}

/// Whether each block of a cluster accesses elements of its own.
inline bool is_per_block(const Op& op) { return op.has(attr::per_block) && op.get(attr::per_block); }

/// Replaces every use of `from` within `scope`, regions included, with `to`.
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

/// The value of an integer constant; nullopt for other values.
std::optional<int64_t> constant_integer(const Value* value);

/// Copies `op` with its regions; operands found in `map` are replaced, results and inner values are added to it.
std::unique_ptr<Op> clone_op(const Op& op, ValueMap& map);

}  // namespace tegula::ir
