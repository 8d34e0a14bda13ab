// The one semantic layer: what the operators and the tl functions of both front ends mean.
//
// Type promotion, broadcasting, shape rules and all error messages live here. Functions take and return Val; operands
// known at compile time fold to compile-time results, in the way Python evaluates them. After a mistake they report it
// at sema.loc and return Poison. Semantics are Triton's.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "codegen/ir/builder.h"
#include "dsl/semantics/val.h"
#include "runtime/base/diag.h"

namespace tegula::dsl {

/// Where the documentation tells of the language, for hints.
namespace page {
inline constexpr const char *kStatements = "docs/language.md#statements", *kDecorators = "docs/language.md#decorators",
                            *kNames = "docs/language.md#names-of-other-files",
                            *kTypes = "docs/language.md#element-types", *kExtents = "docs/language.md#extents-of-tiles",
                            *kOperators = "docs/language.md#operators", *kFloat8 = "docs/language.md#float8",
                            *kFunctions = "docs/language.md#functions", *kLibdevice = "docs/language.md#libdevice",
                            *kDescriptors = "docs/language.md#methods-of-tensor-descriptors", *kCpp = "docs/cpp.md";
}

struct Sema {
  ir::Builder builder;
  Diagnostics& diags;
  Loc loc;  ///< place of the expression being evaluated; also the location of the ops made

  /// Calls a jit function value with arguments, inlining it (combine functions of tl.reduce); set by the front end.
  std::function<Val(const FunctionRef&, std::vector<Val>)> call;
  /// Asserts of values are carried out.
  bool debug = false;
  /// Integers that overflow are failed asserts.
  bool sanitizes_overflow = false;
  /// Statements, and what names are given, are told to who records the program (ir::Opcode::Watch).
  bool watched = false;
  bool maps_elements = false;  ///< in the function of a map_elementwise, whose op comes behind it
  /// Lines of tl.static_print so far.
  std::vector<std::string> prints = {};

  Val error(std::string message, std::string hint = {});  ///< reports at `loc`, returns Poison
  void at(Loc where) { loc = where, builder.set_loc(where); }
};

// ---- Operators. `op` as the language writes it.

/// + - * / // % ** & | ^ << >> @
Val binary(Sema& s, std::string_view op, const Val& lhs, const Val& rhs);
/// The divisor of integers that come at run time: a 0 that compile-time values make is warned of at `where`, since
/// Triton compiles kernels that do not use the result, and becomes a value. Others as they are.
Val divisor_of_values(Sema& s, const Val& dividend, const Val& divisor, Loc where);
/// == != < <= > >= is "is not"
Val compare(Sema& s, std::string_view op, const Val& lhs, const Val& rhs);
/// - + ~ not
Val unary(Sema& s, std::string_view op, const Val& x);
/// `and`, `or` where at least one side is a run-time value (the front end short-circuits compile-time ones).
Val logical(Sema& s, std::string_view op, const Val& lhs, const Val& rhs);
/// x[...]: each index is None (a new axis), a Slice, or an integer: known at compile time, or for a tile an integer
/// scalar, which has to lie in its extent.
Val subscript(Sema& s, const Val& x, const std::vector<Val>& indices);
/// x.name where it is no call: dtype, shape, type, T, element_ty, primitive_bitwidth, numel, rank ...
Val attribute(Sema& s, const Val& x, std::string_view name);

// ---- Conversions that the front ends need.

/// The IR value for x: literals become constants of the type Triton gives them (int32, else int64, else uint64; float32
/// for floats; int1 for bools). Tuples, strings and None are errors that name `what`.
ir::Value* to_value(Sema& s, const Val& x, std::string_view what = "value");
/// x as a scalar i1 for a run-time branch or loop condition; null after an error.
ir::Value* to_condition(Sema& s, const Val& x);
/// Truth of a compile-time value, as Python has it.
bool truth(const Val& x);
/// Brings two values that meet at a join (branches of an if, a loop's entry and back edge) to one type, or reports that
/// `name` has two types. Returns the common type.
std::optional<ir::Type> join_types(Sema& s, std::string_view name, const ir::Type& a, const ir::Type& b);
/// x converted to `type` (element type by cast, scalar to tile by splat, extent 1 by broadcast).
Val convert(Sema& s, const Val& x, const ir::Type& type);
/// "int32", "pointer<float32>", "tile of [16, 32] float32", "'abc'": for messages.
std::string describe(const Val& x);
/// As Python's str() has it; a value of the kernel by its type, "fp32[64, 64]".
std::string text_of(const Val& x);

// ---- What a debugger is told; nothing where the kernel is not watched, and in regions that see nothing from outside.

/// That a statement begins, at the builder's place.
void watch_statement(Sema& s, const std::string& function = {});
/// That the function is called: what its names have got before was in an earlier call.
void watch_call(Sema& s, const std::string& function);
/// That a name has got this value; of a tuple each part by a name of its own, "name[0]" or "name.field".
void watch_name(Sema& s, const std::string& name, const Val& value);
/// That the values are about to be stored; `what` is "store" or "atomic". The mask may be null.
void watch_access(Sema& s, const char* what, ir::Value* pointers, ir::Value* values, ir::Value* mask);

// ---- The tl functions.

/// One parameter of a table function.
struct FunctionParam {
  std::string name;
  bool required;
  bool rest = false;  ///< *name: takes all further positional arguments as a tuple
  Val fallback;       ///< the default
};

struct FunctionInfo {
  std::string name;  ///< "load", "sum", "math.exp" has the name "exp"
  std::vector<FunctionParam> params;
  Val (*call)(Sema&, std::span<const Val> args);  ///< args: one for each parameter, defaults filled in
  std::string doc;
  bool method;                 ///< may be written x.name(...): x is the first argument
  bool method_widens = false;  ///< written so of floats of 16 bits it computes in float32 and rounds, as in Triton
};

/// All functions: the rows of functions.def and those of ops.def with a language name.
const std::vector<FunctionInfo>& function_table();
const FunctionInfo* find_function(std::string_view name);
/// The methods of tensor descriptors.
const std::vector<FunctionInfo>& descriptor_methods();
/// What x.name(...) calls, with x as the first argument; null if there is no such method.
const FunctionInfo* find_method(const Val& x, std::string_view name);
/// The names of all methods of x.
std::vector<std::string> method_names(const Val& x);
/// Checks argument count and names (with the nearest known name), fills defaults, calls.
Val call_function(Sema& s, const FunctionInfo& function, std::vector<Val> positional,
                  std::vector<std::pair<std::string, Val>> keywords);

}  // namespace tegula::dsl
