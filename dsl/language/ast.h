// Syntax tree of the kernel language: Triton's Python, every node with its place.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dsl/semantics/integer.h"
#include "runtime/base/diag.h"

namespace tegula::language {

using NameSet = std::set<std::string, std::less<>>;

struct Expr;
using ExprPtr = std::unique_ptr<Expr>;

struct Keyword {
  std::string name;  ///< empty for **value
  Loc loc;
  ExprPtr value;
};

struct Expr {
  enum class Kind {
    Name,    ///< text
    Int,     ///< integer
    Float,   ///< number
    String,  ///< text, unescaped
    True,
    False,
    None,
    Ellipsis,
    Tuple,      ///< children
    List,       ///< children; text: empty, or "set" for {a, b}
    Dict,       ///< children: key, value, key, value, ...
    Unary,      ///< text: - + ~ not; children[0]
    Binary,     ///< text: + - * / // % ** @ & | ^ << >>; children[0], children[1]
    Compare,    ///< operators[i] stands between children[i] and children[i + 1]; "is not" and "not in" are one operator
    BoolOp,     ///< text: and, or; children (two or more)
    Ternary,    ///< children: condition, then, otherwise
    Call,       ///< children[0] is the callee, the rest positional arguments; keywords
    Attribute,  ///< children[0] . text
    Subscript,  ///< children[0] [ the rest ]
    Slice,      ///< children: lower, upper, step; null where absent (within Subscript only)
    Starred,    ///< *children[0]
    Lambda,     ///< names are the parameters; children[0] the body
    Comprehension,  ///< text: ( [ {; children[0] the element (a Tuple of key and value in a dict); then operators[i]
                    ///< ("for", "if") with its children: target and iterable, or condition
    Named,          ///< (text := children[0])
    Format,  ///< an f-string: names[i] before children[i], names.back() after the last; operators[i] is the child's
             ///< conversion and format, "!r:>8"; a child is null where it is no expression
  };
  Kind kind;
  Loc loc;  ///< the whole expression if it fits on one line, else its first token
  std::string text;
  dsl::Int integer;
  double number = 0;
  std::vector<ExprPtr> children;
  std::vector<Keyword> keywords;
  std::vector<std::string> operators;
  std::vector<std::string> names;
  int height = 0;  ///< of the tree below; the parser bounds it, so that recursion over a tree is safe
};

struct Stmt;
using StmtPtr = std::unique_ptr<Stmt>;

struct Stmt {
  enum class Kind {
    Assign,     ///< targets (a = b = value has two) = value; a target is Name, Tuple, List, Attribute or Subscript
    AugAssign,  ///< targets[0] text= value; text: + - * ...
    AnnAssign,  ///< targets[0] : annotation = value (value may be null)
    Expr,       ///< value, for its effect; docstrings too
    Return,     ///< value may be null
    If,         ///< value is the condition; body, orelse (elif: one nested If)
    For,        ///< targets[0] in value: body; orelse
    While,      ///< value: body; orelse
    Pass,
    Break,
    Continue,
    Assert,   ///< value; message may be null
    With,     ///< value: a Tuple of what the block runs under; body
    Raise,    ///< legal only where it is never reached at compile time
    Import,   ///< skipped inside functions; bindings of a module are in Module::imports
    Foreign,  ///< a statement of Python's that kernels lack: message and hint are told where it is reached; targets are
              ///< the names that it would define
  };
  Kind kind;
  Loc loc;
  std::string text;
  std::vector<ExprPtr> targets;
  ExprPtr annotation;
  ExprPtr value;
  ExprPtr message;
  std::vector<StmtPtr> body;
  std::vector<StmtPtr> orelse;
  std::string hint;  ///< of Foreign, whose message is the text
};

struct Param {
  std::string name;
  Loc loc;
  ExprPtr annotation;     ///< may be null
  ExprPtr default_value;  ///< may be null
};

/// A condition of an `if` of the module around a definition, and which of its sides that is on. Of a `try`: that its
/// block raises nothing, which its `except` has on the other side.
struct Condition {
  std::shared_ptr<const Expr> value;
  bool holds = true;
  bool of_try = false;  ///< `value` is True, in the line of the `try`
};

struct Decorator {
  Loc loc;
  ExprPtr value;  ///< triton.jit, triton.autotune(configs=..., key=...), ...
};

/// A function decorated with @triton.jit (or @jit), kernel or helper.
struct Function {
  std::string name;
  Loc loc;
  std::vector<Decorator> decorators;
  std::vector<Param> params;
  std::optional<size_t> keyword_only;  ///< how many parameters stand before a '*' or *args
  std::optional<Param> rest;           ///< *args
  std::optional<Param> keywords;       ///< **kwargs
  Loc variadic;                        ///< of *args or **kwargs
  std::vector<Condition> conditions;   ///< of the module, under which the function is defined
  ExprPtr returns;                     ///< annotation; may be null
  std::vector<StmtPtr> body;
};

/// `import a.b as c`: name c, path a.b. `from a import b as c`: name c, path a.b.
struct ImportBinding {
  std::string name;
  std::string path;
  Loc loc;
};

/// A name that the body of a class annotates or assigns.
struct Global {
  std::string name;
  Loc loc;
  ExprPtr annotation;
  ExprPtr value;  ///< null: annotated alone
};

/// A method of a class, and what is wrong with its text.
struct Method {
  Function function;
  bool is_static = false;  ///< called without an object
  Diagnostics mistakes;
};

/// A class of the module: the names that its body annotates or assigns, in order. Where the class is decorated with
/// triton.language.core._aggregate, also its methods.
struct Class {
  std::string name;
  Loc loc;
  std::vector<std::string> bases;  ///< as written: "typing.NamedTuple"
  std::vector<Global> fields;      ///< without a value: annotated alone
  bool is_aggregate = false;
  std::vector<Method> methods;
  NameSet not_followed;  ///< what other statements of its body mention
};

/// A statement of the module, which names of kernels may depend on. They are run in their order where a name is asked
/// for that has to do with them.
struct ModuleStatement {
  enum class Kind {
    Run,       ///< `statement`; a loop with all that it holds
    Test,      ///< of an `if`: the last of the conditions is evaluated here, where those ahead of it hold
    Define,    ///< def, class or import: the names mean what the file's functions, classes and imports say
    NotKnown,  ///< its text is not followed
  } kind;
  Loc loc;
  StmtPtr statement = {};
  std::vector<Condition> conditions = {};
  std::vector<std::string> names = {};   ///< what it defines; of what is not followed, what it may assign
  std::vector<std::string> words = {};   ///< of its text: of definitions and of what is not followed, blocks included
  std::vector<std::string> sets = {};    ///< of a function: what stands behind `global`
  std::vector<std::string> head = {};    ///< words of its head, which has defaults
  std::vector<std::string> called = {};  ///< words of its head before a bracket, but the name
  std::vector<std::string> attributes = {};  ///< to which its text may assign
  std::vector<std::string> decorated = {};   ///< of its decorators, which stand ahead of it as NotKnown too
  enum class Of { Nothing, Kernel, Function, Class, Import } of = Of::Nothing;  ///< what is defined
};

struct Module {
  const std::string* file = nullptr;
  std::vector<Function> functions;
  std::vector<ImportBinding> imports;
  std::vector<ModuleStatement> statements;  ///< in order
};

}  // namespace tegula::language
