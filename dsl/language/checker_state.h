// What the checker keeps while it runs: names and what they stand for, activations of functions, loops, and the
// statements of a module.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/source_file.h"
#include "dsl/semantics/sema.h"
#include "runtime/base/diag.h"

namespace tegula::language {

using dsl::Val;

/// What a name of a function stands for.
struct Binding {
  Val value;
  std::string unusable;  ///< why reading the name is an error; empty when it may be read
  Loc loc;               ///< of the last assignment
};
using Scope = std::map<std::string, Binding, std::less<>>;

/// A loop around the current statement.
struct LoopContext {
  /// The name, one that no program can write, of the flag that says whether the loop has been left by a jump; empty
  /// where its body has no such jump.
  std::string left;
  Val items = {};       ///< what an unrolled loop runs over
  int64_t changes = 0;  ///< Checker::changes_ ahead of it
};

/// See held_in().
struct Held {
  long times = 0;
  int64_t visited = 0;  ///< values that were looked at
  Held& operator+=(const Held& other) {
    times += other.times, visited += other.visited;
    return *this;
  }
};

/// What a return gives that is not run, or not yet: a value of which only the form is read, and the types of its parts.
struct ResultForm {
  Val value;
  std::vector<ir::Type> types;
};

/// A lambda or an iterator, and what it reads of the names of a frame.
struct NameReader {
  NameSet names;
  std::weak_ptr<const dsl::HostObject> lambda = {};
  std::weak_ptr<const std::vector<Val>> iterator = {};  ///< its items, of those that have not been asked for
};

struct ModuleRun;

/// One activation of a function, or the evaluation of a module-level expression (function is null).
struct Frame {
  const Function* function = nullptr;
  Frame* parent = nullptr;
  Scope scope;
  std::vector<Val> arguments;      ///< of a jit function, as the call gives them
  std::vector<LoopContext> loops;  ///< the innermost last
  std::vector<NameReader> readers;
  std::vector<const Function*> made;        ///< jit functions that host code has defined in it
  const Scope* captured = nullptr;          ///< names around a jit function that host code has made
  ModuleRun* run = nullptr;                 ///< of which the names are those of the module
  NameSet of_clauses;                       ///< names of the comprehensions that are evaluated
  const dsl::HostObject* lambda = nullptr;  ///< that is called
  bool is_kernel = false;                   ///< returns nothing
  std::optional<ResultForm> ruled_out;      ///< see Checker::note_ruled_out
};

/// How statements end.
struct Outcome {
  enum class Kind {
    Next,    ///< after the last one
    Jump,    ///< at the end of the body of the loop around them, by a jump or because all that follows has been run
    Return,  ///< with a value, None for a bare return
  } kind = Kind::Next;
  Val value = {};

  Val result() const { return kind == Kind::Return ? value : Val(dsl::None{}); }
};

/// The jumps out of statements or of one iteration that compile-time conditions do not rule out.
struct Jumps {
  bool breaks = false, continues = false, returns = false;
  bool values = false;  ///< some return has a value

  bool leave() const { return breaks || returns; }
  bool any() const { return breaks || continues || returns; }
  Jumps& operator|=(const Jumps& other) {
    breaks |= other.breaks, continues |= other.continues, returns |= other.returns, values |= other.values;
    return *this;
  }
};

/// Statements and what comes after them, up to the end of the function: an early return in one branch of a run-time
/// `if` moves the continuation into the other.
struct Continuation {
  std::span<const StmtPtr> statements;
  const Continuation* next = nullptr;
};

/// A choice between two lists of statements.
struct Choice {
  Loc loc, condition_loc;
  Val condition;
  std::span<const StmtPtr> sides[2];  ///< where the condition holds, and where it does not
};

/// An argument of a call.
struct Argument {
  std::string name;  ///< empty for a positional one
  Val value;
  Loc loc;
  bool is_number = false;  ///< a number in the text
};

/// A diagnostic with the notes of the calls that led there.
struct Reported {
  Diag diag;
  std::vector<Note> notes;
};

/// The statements of one group of names of a module: see ModulePlan.
struct ModuleRun {
  using Places = std::vector<std::pair<std::string, Loc>>;

  const SourceFile* file = nullptr;
  Frame frame = {};  ///< with the names that have values that are known
  std::map<std::string, std::vector<Reported>, std::less<>> unknown = {};  ///< of other names, why
  std::map<std::string, NameSet, std::less<>> held = {};  ///< of these, what their values may hold parts of
  NameSet environment = {};  ///< those of them that depend on nothing that the module computes
  std::map<std::string, Loc, std::less<>> undecided = {};    ///< names whose value stands under a condition not known
  std::map<std::string, Places, std::less<>> left_out = {};  ///< values that a name's could depend on
  /// Of the `try` blocks, by their lines: the first statement that is not evaluated, which may raise something.
  struct Failure {
    Loc loc;
    bool of_environment = true;
  };
  std::map<int, Failure> failures = {};
  std::map<std::string, std::vector<Reported>, std::less<>> spoiled = {};  ///< classes that may have changed, why
  /// Of lists, dicts and iterators, the names that may hold them; found anew where names and these have changed.
  std::map<const void*, NameSet> holders = {};
  NameSet bound = {};                  ///< since then
  std::set<const void*> changed = {};  ///< the same
  NameSet readers = {};                ///< names of functions and iterators, which hold what others do
  Places read_left_out = {};           ///< of the names that the statement at hand reads
  Loc at = {};                         ///< of the statement at hand
  bool is_finished = false;
};

}  // namespace tegula::language
