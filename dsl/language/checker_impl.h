// The checker: an abstract interpreter of the syntax tree. A name stands for a compile-time value, which is computed on
// the spot, or for a value of tile IR, whose ops are emitted through the semantic layer as they are met.
//
//   checker.cpp              entry points, specialisation, diagnostics
//   checker_names.cpp        what a name means: scopes, globals, imports, modules
//   checker_globals.cpp      globals: the statements of a module, run in order
//   checker_imports.cpp      names of other files, classes
//   checker_expressions.cpp  expressions
//   checker_text.cpp         f-strings, methods of strings
//   checker_calls.cpp        arguments, jit functions, builtins
//   checker_statements.cpp   assignments, branches, early returns
//   checker_changes.cpp      what changes lists and dicts
//   checker_loops.cpp        for and while
//   checker_jumps.cpp        break, continue and return in loops
//   checker_reflection.cpp   isinstance, getattr, hasattr, type
//   checker_host.cpp         host code: what decorators have beyond that
//   checker_iterators.cpp    iterators of host code
#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/checker.h"
#include "dsl/language/checker_state.h"
#include "dsl/language/module_plan.h"
#include "dsl/language/parser.h"
#include "dsl/semantics/control.h"
#include "dsl/semantics/loops.h"
#include "dsl/semantics/sema.h"

namespace tegula::language {

using dsl::FunctionRef;
using dsl::Join;

struct ClassObject;
struct DictObject;
struct FunctionObject;
struct PointerObject;

class Checker {
 public:
  enum class Code {
    Kernels,
    Host,  ///< expressions of decorators and what they call
  };
  Checker(const SourceFile& file, Code code);
  Checker(const Checker&) = delete;

  std::unique_ptr<ir::Func> check_kernel(std::string_view kernel, const Specialization& spec);
  /// Null, and a report, if the file has no such kernel.
  const Function* find_kernel(std::string_view kernel);
  /// What a parameter of the kernel stands for.
  Val argument_of(const Param& p, const Specialization& spec);
  void check_function(const Function& function);
  /// Hands over the diagnostics, each once, with notes on the calls that led there.
  void publish(Diagnostics& out);
  void check_constants(const Function& function);
  bool takes(const FunctionRef& combine, size_t count);
  /// What tl.static_print printed.
  std::vector<std::string> take_prints() { return std::move(sema_.prints); }

  // ---- Host code
  /// Runs `body` in a scope of the module.
  Val evaluate(const std::function<Val()>& body);
  /// A name of the module; poison for one that it does not give a value.
  Val value_of(const std::string& name);
  /// Names of the module mean what they do ahead of this place of the file of the kernel.
  void stop_ahead_of(Loc loc) { until_ = loc; }
  Val value_of(const Expr& e) { return eval(e); }
  /// The arguments of a call with their values. False after an error.
  bool eval_arguments(const Expr& e, std::vector<Argument>& args);
  static Val take_keywords(const Function& f, std::vector<Argument>& args);
  Val call_host(const FunctionObject& function, std::vector<Argument> args, Loc loc);
  /// The arguments for `params`, of which the first `required` must be there; null where one is left out. Nothing after
  /// an error, which gives the nearest name for an unknown one.
  std::optional<std::vector<const Argument*>> match_arguments(std::string_view function,
                                                              std::span<const char* const> params, size_t required,
                                                              const std::vector<Argument>& args, Loc loc);
  bool has_errors() const { return diags_.has_errors(); }
  Val error(Loc loc, std::string message, std::string hint = {});

 private:
  // ---- Diagnostics
  /// Runs `body` and adds a note to every diagnostic from it.
  Val with_note(Loc loc, const std::string& message, const std::function<Val()>& body);

  /// Runs `body` where what it emits, reports and prints is dropped. False if it reported anything.
  bool trial(const std::function<void()>& body);
  /// What `body` reports, which is not reported then.
  std::vector<Reported> capture(const std::function<void()>& body);
  void report(const std::vector<Reported>& reported);

  // ---- Names
  Val lookup(const Expr& e);
  const Module& module() const;
  /// Runs `body` where names are those of another file, if there is one.
  template <class Body>
  auto in_file(const SourceFile* file, const Body& body);
  /// That another value of a global counts for want of knowing the condition of the one that stands there.
  /// `given`: the global that decides where it is given.
  void warn_undecided(const std::string& name, Loc loc, const std::string& given);
  /// What a name of the module stands for, imports included; nothing if it has none. `use` is where it is asked for.
  std::optional<Val> module_name(const std::string& name, const Expr& use);
  std::optional<Val> import_value(const ImportBinding& import, const std::string& name, const Expr& use);
  /// A name that an import of this path gives, from a file on disk.
  std::optional<Val> imported(std::string_view path, const Expr& use);
  std::optional<Val> host_function(const std::string& name);
  std::optional<Val> class_value(const std::string& name);
  Val make_named_tuple(const ClassObject& type, const std::vector<Argument>& args, Loc loc);
  /// An object of an aggregate class: its constructor, inlined, gives its fields their values.
  Val make_object(const Val& type, std::vector<Argument> args, Loc loc);
  /// A method of an aggregate; null if it has none of this name. Its mistakes are reported at `use`.
  const Method* find_method(const ClassObject& type, std::string_view name, Loc use);
  /// The result of a method of an object or a class; nothing if it has no such method.
  std::optional<Val> call_own_method(const Val& object, std::string_view name, std::vector<Argument> args, Loc loc);
  /// A call of an operator as a method, `x.__lshift__(y)`; nothing if it is none.
  std::optional<Val> call_operator(const Val& object, const Expr& callee, std::span<const Argument> args, Loc loc);
  /// self.name = value in a constructor. False if that is not what the target is.
  bool assign_field(const Expr& target, const Val& value);
  Val make_named_tuple_class(const std::vector<Argument>& args, Loc loc);
  Val class_attribute(const ClassObject& type, const Expr& e);
  /// What the body of a class gives its names, run once.
  struct Field {
    Val value;
    std::vector<Reported> why;  ///< it has none that is known
  };
  using Fields = std::map<std::string, Field, std::less<>>;
  Fields& fields_of(const ClassObject& type);
  /// Why the class may hold another value by now, by statements of its module; null if it does not.
  const std::vector<Reported>* change_of_field(const ClassObject& type, const std::string& name, const Val& value);
  void keep_field(const std::string& name, const Val& value);
  /// Whether statements of its module that mention the class are being run.
  bool is_run(const ClassObject& type) const;
  /// False after an error: the text of the function, in another file, has mistakes.
  bool check_text(const Function& function, Loc use);
  /// The value that statements of the module give a name. Nothing if none does, or, unless asked for, if a condition
  /// that is not known decides whether one does. While the statements run, what it has then.
  std::optional<Val> global_value(const std::string& name, const Expr& use, bool undecided_too);
  class ModuleRunner;
  /// The group of names that this one of the file at hand belongs to; runs its statements if they have not been.
  ModuleRun& module_run(size_t group);
  /// Nothing if the condition is not evaluated.
  std::optional<bool> condition_value(const Condition& c);
  /// Whether statements of the file at hand behind this place assign names that an expression mentions.
  bool changes_behind(const Expr& e, Loc loc) const;
  /// Whether a name is that of a class or of a file, or of something of a file.
  bool is_of_files(const std::string& name);
  /// The lists, dicts and iterators that a value is made of, and those that its iterators run over.
  /// `reads`, if not null, receives whether functions or iterators are among its parts.
  std::vector<const void*> changeable_in(const Val& value, bool* reads = nullptr) const;
  /// A name of the module `module` ("triton", "tl", "tl.math", "libdevice", "math", ...), if it has it.
  std::optional<Val> find_member(std::string_view module, std::string_view name) const;
  /// A module, or a name imported from one, that a kernel cannot use.
  static bool is_foreign(const FunctionRef& f);
  /// An error: what is not known here, of `module`. `name`, if it could be given. A warning in a check without types,
  /// unless the module is one of the usual libraries.
  Val foreign_name(Loc loc, std::string message, std::string_view module, std::string_view name);
  /// A file that is not there, of which this one imports all names.
  std::optional<std::string> missing_star() const;
  /// A name that a function around the kernel may give a value, which its launches know: warned of without types.
  std::optional<Val> enclosing_name(const Expr& e);
  Val module_member(const FunctionRef& module, const Expr& e, bool called = false);
  std::optional<Val> resolve_path(std::string_view path) const;
  std::vector<std::string> visible_names() const;
  /// The last definition of a kernel or helper whose conditions may hold; those that may be the one too are warned of.
  const Function* find_jit(std::string_view name);
  /// A function's value, or what its name is assigned behind it, where it is not known which of both is done.
  Val kernel_or_undecided(const Function& function, const Expr& use);
  /// A name in the conditions of a definition that other files give, else its own.
  std::string name_in_condition(const Function& function) const;
  /// Whether a global has a value only under a condition that is not known.
  bool is_undecided(const std::string& name);
  /// Whether conditions of the module hold; `if_unknown` is taken for what host code does not tell.
  bool holds(const std::vector<Condition>& conditions, bool if_unknown);
  void bind(const std::string& name, Val value, Loc loc);
  void bind_in_lambdas(const std::string& name, const Binding& binding);
  /// bind() where the program says so: a debugger is told.
  void assign_name(const std::string& name, Val value, Loc loc);
  /// How a debugger calls a name of the function at hand: "helper.x" outside of the kernel.
  /// Empty in the kernel itself.
  std::string watched_function() const;
  std::string watched_name(const std::string& name) const;
  /// Tells a debugger of what the function at hand was called with.
  void watch_parameters();
  /// A misspelt tl.constexpr is an error: the parameter would silently be a run-time one.
  void check_annotation(const Expr& annotation);

  // ---- Expressions
  Val eval(const Expr& e);
  Val eval_node(const Expr& e);  ///< without counting what it makes
  Val eval_binary(std::string_view op, Val lhs, Val rhs, Loc loc);
  /// The divisor `e` of an operator, where it is 0: an error for a 0 in the text, but only a warning where compile-time
  /// values make it so, as in Triton; the kernel may not use the quotient.
  Val divisor(std::string_view op, const Val& lhs, Val rhs, const Expr& e);
  Val eval_compare(const Expr& e);
  Val compare_pair(const Expr& e, const std::string& op, const Val& lhs, const Val& rhs);
  Val chain_error(const Expr& e);
  Val eval_bool_op(const Expr& e);
  Val eval_ternary(const Expr& e);
  Val eval_attribute(const Expr& e);
  /// What stands before a dot: eval, and any module.
  Val eval_base(const Expr& e);
  Val eval_subscript(const Expr& e);
  Val eval_format(const Expr& e);
  /// A method of a string; nothing if it has no such method, or not for these arguments.
  std::optional<Val> text_method(const std::string& text, const std::string& name, const std::vector<Argument>& args,
                                 Loc loc);
  Val too_long(size_t characters, Loc loc);
  /// The text of a value in host code, or Python's repr() of it; poison after an error.
  Val python_text(const Val& v, bool is_repr, Loc loc, int depth = 0);
  /// A value as f-strings have it under a conversion and format.
  Val formatted(const Val& v, std::string_view how, Loc loc);
  Val eval_named(const Expr& e);
  std::optional<std::vector<Val>> eval_index(const Expr& e);
  Val eval_tuple(const Expr& e);
  /// What a name or the caller gets of a value: in a kernel, numbers become scalars (Val::typed). Host code and
  /// constructors are Python's, where they stay as they are.
  Val assigned(const Val& v);
  /// The compile-time value of `e` if it has one whatever happens to the names `unstable`; reports and emits nothing.
  std::optional<Val> peek(const Expr& e, const NameSet& unstable);

  // ---- Calls
  Val eval_call(const Expr& e);
  Val call_value(const Val& callee, std::vector<Argument> args, const Expr& e);
  Val call_table(const dsl::FunctionInfo& info, std::vector<Argument> args, Loc loc);
  Val call_method(const Val& object, const Expr& callee, std::vector<Argument> args, Loc loc);
  Val call_builtin(const std::string& name, std::vector<Argument>& args, Loc loc);
  Val call_min_max(const std::string& name, const std::vector<Argument>& args, Loc loc);
  Val call_language(const std::string& name, const Val& x, Loc loc);
  Val call_number(const std::string& name, const Val& x, Loc loc);
  Val call_math(const std::string& name, const std::vector<Argument>& args, Loc loc);
  Val call_slice(const std::vector<Argument>& args, Loc loc);
  Val static_assert_(const std::vector<Argument>& args, Loc loc);
  Val call_jit(const FunctionRef& function, std::vector<Argument> args, Loc loc);
  /// `first`, if not null, receives what the first parameter stands for in the end.
  Val inline_jit(const Function& function, std::vector<Argument> args, Loc loc, Val* first = nullptr);
  /// Whether no argument of a function that is marked noinline is a tile; else reports it.
  bool passes_scalars(const Function& function, const Scope& arguments, Loc loc);
  Val noinline_error(const Function& function, const std::string& does, Loc loc);
  /// Whether a call of a function that calls itself ends at compile time, as far as can be told here; else reports it.
  bool check_recursion(const Frame& call, Loc loc);
  bool bind_arguments(const Function& function, std::vector<Argument>& args, Loc loc, Scope& scope);
  Val default_value(const Param& param);
  /// isinstance, getattr, hasattr and type, which look at their arguments' expressions. Nothing for other functions.
  std::optional<Val> reflect(const FunctionRef& function, const Expr& call);
  /// The compute capability of the target; for decorators, which choose for a launch, of the default device. Nothing
  /// where it is not known.
  std::optional<int> capability() const;
  Val target_query(const std::string& name, const std::vector<Argument>& args, Loc loc);

  // ---- Statements
  /// Runs the statements and what follows them. The value returned, None for a bare return; nothing when the end is
  /// reached without one.
  Outcome execute(const Continuation& k);
  void execute_simple(const Stmt& s);
  void keep_hint(const Expr& statement, const Val& result);
  /// Runs a side, or both under a run-time condition. `go_on`: the statements that follow are still to be run.
  Outcome choose(const Choice& choice, const Continuation& rest, bool& go_on);
  /// Both sides under a run-time condition; afterwards names have what the sides give them.
  void branch(const Choice& choice, const std::function<void(int side)>& run);
  Outcome branch_to_end(const Choice& choice, const Continuation& rest);
  Outcome execute_return(const Stmt& s);
  Outcome execute_jump(const Stmt& s);
  void check_with(const Stmt& s);
  void merge_scopes(Join* join, Loc loc, Scope then_scope, Scope else_scope);
  void assign(const Expr& target, const Val& value);
  void assign_statement(const Stmt& s);
  Val augmented_name(const Expr& name);
  Val augmented_item(const Stmt& s);
  void augmented_assign(const Stmt& s);
  std::string message_text(const Expr* e);
  void check_assert(const Stmt& s);
  void check_raise(const Stmt& s);
  bool assign_item(const Expr& target, const Val& value);
  void unpack(const Expr& target, const Val& value);

  // ---- Loops
  struct Carried {
    std::string name;
    Val value;     ///< before the loop
    bool carried;  ///< else its value cannot be a run-time one, and it is usable after the loop only if it is the same
  };
  /// A loop, and what follows where it was left by a return.
  Outcome execute_loop(const Stmt& s, const Continuation& rest, bool& go_on);
  /// What follows a loop with an `else`, a break and a return; `left`: whether it was left by either.
  Outcome else_of_left_loop(const Stmt& s, const Val& left, const Continuation& rest, bool& go_on);
  void execute_for(const Stmt& s, const Continuation& rest);
  void execute_while(const Stmt& s);
  /// The arguments of range, tl.range or tl.static_range; a range that is not known after an error.
  dsl::Range parse_range(const std::string& name, const std::vector<Argument>& args, Loc loc);
  void run_time_for(const Stmt& s, const dsl::Range& range);
  /// A loop that may be left before its range ends: a While op.
  void run_time_for_with_break(const Stmt& s, const dsl::Range& range);
  ir::Value* while_condition(const Stmt& s, bool always);
  /// The value of the loop's variable after it; nothing where it is not simply that of the last iteration.
  std::optional<Val> last_index(const Stmt& s, const dsl::Range& range, const Val& before);
  void static_for(const Stmt& s, const dsl::Range& range);
  /// Compile-time values that the loop's body assigns are unknown: how often it runs is.
  void forget_assigned(const Stmt& loop);
  void unroll(const Stmt& s, std::span<const Val> values, int depth = 0);
  /// Whether the name stands for None, a type or the like, which no loop carries.
  bool is_no_value(const std::string& name) const;
  /// The names live before the loop that its body or condition assigns; its variable is one if `with_target`.
  std::vector<Carried> find_carried(const Stmt& loop, bool with_target = false);
  class NamesOfNoValue;
  void collect_assigned(std::span<const StmtPtr> statements, const NameSet* unstable, bool constexpr_too,
                        std::vector<std::string>& names);
  static std::vector<dsl::Variable> variables_of(const std::vector<Carried>& carried);
  /// Binds the names to what they hold in a region, the carried ones to `values`.
  void bind_carried(const std::vector<Carried>& carried, std::span<const Val> values);
  std::vector<dsl::AtEnd> ends_of(const std::vector<Carried>& carried);
  /// What the names that the loop does not carry hold at the end of its body, in words: when the loop is finished, the
  /// values may be gone.
  std::vector<std::string> forms_of(const std::vector<Carried>& carried) const;
  void leave_loop(const Stmt& loop, const std::vector<Carried>& carried, const Scope& before,
                  std::span<const std::string> forms, std::span<const Val> values);

  // ---- Jumps in loops
  std::optional<ResultForm> form_of(const Val& v);
  /// Values that nothing depends on.
  Val unset(const ResultForm& form);
  Jumps find_jumps(std::span<const StmtPtr> statements, const NameSet& unstable);
  Jumps find_jumps(const Stmt& loop);
  /// Whether the condition of a `while` always holds.
  bool is_endless(const Stmt& loop);
  /// The flag of the innermost loop: false before anything left it. Poison where it has none or its value is unknown.
  Val left_flag() const;
  /// Gives a loop that returns values a first value for them, of their types.
  void prepare_result(const Stmt& loop, const std::function<void()>& run);
  void note_result();
  /// A plain number as a condition (`a = False`) counts as one of the run time in Triton. So a return that it rules out
  /// still says what the function gives where its end is reached: a value that nothing may depend on.
  void note_ruled_out(const Stmt& branch, const Val& condition);
  /// What the sides of a branch return: where one returns nothing, nobody reads it.
  void complete_results(Join& join, Val& a, Val& b);
  bool count_step(Loc loc);
  /// No further statement is looked at: what would be found has been reported.
  void skip_the_rest();

  // ---- Host code (only where host_ is set)
  enum class Flow { Next, Break, Continue, Return };
  /// How an iterator's items are asked for.
  enum class Use {
    All,    ///< now: it has none afterwards
    Later,  ///< or not all of them: which ones it has afterwards is not followed
  };
  std::optional<Val> host_name(const std::string& name);
  /// Where else a function of the module is defined that may count in place of the one that stands there.
  std::optional<Loc> other_definition(std::string_view name, Loc chosen);
  /// The variable of the environment, or `otherwise`; an error where the file gives it a value.
  Val environment(const std::string& name, const Val& otherwise, Loc loc);
  std::optional<Val> host_member(std::string_view module, std::string_view name) const;
  /// Dict, Lambda, Comprehension.
  Val host_expression(const Expr& e);
  /// Runs `element` for each combination of the clauses from `clause` on, until it returns false. `source`: of the
  /// first.
  bool comprehend(const Expr& e, size_t clause, const Val& source, const std::function<bool()>& element);
  std::optional<std::vector<Val>> iterate(const Val& v, Loc loc, Use how = Use::All);
  /// What zip(), map() and their kin give, in Python an iterator over `sources`: its items come once (of keys() and
  /// the like, `once` is false), and not if a source changes before. `in_order`: see Iterator.
  Val make_iterator(Val items, std::vector<Val> sources, bool once, bool in_order);
  /// The same of what a generator, or a function that map() calls, makes when an item is asked for: an error where what
  /// it reads, names or what they hold, changes before.
  Val make_late_iterator(Val items, std::vector<Val> sources, NameSet names);
  /// Whether the value is an iterator that gives its items once.
  bool is_iterator(const Val& v) const;
  /// Whether it is one or a range or what keys() and the like give, which no tuple equals.
  bool is_view(const Val& v) const;
  /// Python's truth, which of an iterator is True.
  bool host_truth(const Val& v) const { return is_iterator(v) || dsl::truth(v); }
  /// False after an error: another has begun with its items, or a source has changed. `starts`: they are asked for.
  bool may_iterate(const Val& items, bool starts, Loc loc);
  /// What has the items that are asked for: the value, but of an iterator that has been used up an empty tuple. Poison
  /// after an error.
  Val use(const Val& items, Loc loc, Use how = Use::All);
  /// Runs `element` for each item, until it returns false; also for those that a list gets meanwhile, as in Python.
  /// False if it did, and after an error.
  bool for_each(const Val& items, Loc loc, const std::function<bool(const Val&)>& element);
  Val host_attribute(const dsl::HostRef& object, const Expr& e);
  Val host_subscript(const dsl::HostRef& object, const Expr& e);
  bool host_equal(const Val& a, const Val& b);
  std::optional<bool> host_contains(const Val& container, const Val& key);
  Val make_config(const std::vector<Argument>& args, Loc loc);
  /// Nothing if it is no method or function of host code.
  std::optional<Val> host_method(const Val& object, const Expr& callee, const std::vector<Argument>& args, Loc loc);
  /// Whether a method has so many arguments; reports it if not.
  bool takes_arguments(size_t low, size_t high, const std::string& name, const std::vector<Argument>& args, Loc loc);
  std::optional<Val> dict_method(const Val& object, const DictObject& dict, const Expr& callee,
                                 const std::vector<Argument>& args, Loc loc);
  std::optional<Val> tensor_method(const Val& object, const PointerObject& tensor, const std::string& name,
                                   const std::vector<Argument>& args, Loc loc);
  struct HostBuiltin;
  std::optional<Val> host_builtin(const std::string& name, const std::vector<Argument>& args, Loc loc);
  /// Runs `body` as host code of the file, where that is known.
  Val as_host(const std::function<Val()>& body);
  /// Runs statements of host code. `result`: what `return` gives; a poison value after an error.
  Flow host_execute(std::span<const StmtPtr> body, Val& result);
  /// The definition of a jit function in a function of host code. False if the statement is none.
  bool host_define(const Stmt& s);
  Flow host_for(const Stmt& s, Val& result);
  Flow host_while(const Stmt& s, Val& result);
  bool host_assign_attribute(const Expr& target, const Expr& value);
  bool host_step(Loc loc);
  /// Counts what a compile-time value takes that was made just now: memory is bounded as steps are. An error and
  /// poison past the limit.
  Val within_memory(Val made, Loc loc);
  bool count_made(int64_t items, Loc loc);

  // ---- What changes lists and dicts
  /// Has `how` change the list or dict that `base` gives, or a copy of it that becomes the value of the name `base`.
  /// `taken`: what it is to hold. `place`: where the only item stands that is another one then. False after an error.
  bool change(const Val& object, std::span<const Val> taken, const Expr& base,
              const std::function<void(const Val&)>& how, std::optional<size_t> place = {});
  bool holds_from(const Frame* frame, const Val& object);
  void note_change(const Val& source, std::optional<size_t> place);
  bool change_in_kernel(const Val& list, std::span<const Val> taken, const Expr& base,
                        const std::function<void(const Val&)>& how);
  /// How often all but the name of the function at hand hold a list of a kernel.
  Held held_elsewhere(const void* list, std::string_view name) const;
  /// Whether something else may hold a list that the name's value is made of.
  bool may_share(std::string_view name, const Val& value) const;
  /// A branch or a loop gives a name the value `after`, with lists of its own, in place of `before`. Those that
  /// something else holds, which one a run-time condition decides, do not change from now on.
  void keep_shared(std::string_view name, const Val& before, const Val& after);
  /// From now on it is an error to change what the value is made of, of which `what` says in words what it is.
  void keep(const Val& value, const std::string& what);
  /// append() and extend().
  Val grow_list(const Val& list, const Expr& callee, const std::vector<Argument>& args, Loc loc);
  std::optional<std::vector<Val>> items_for(const Val& list, const Val& value, Loc loc);
  bool extend_list(const Val& list, std::vector<Val> more, const Expr& base);
  /// list[index] = item, where `target` stands; an error for a tuple.
  void set_element(const Val& list, const Val& index, Val item, const Expr& target);
  Val update_dict(const Val& object, const Expr& target, const std::vector<Argument>& args, Loc loc);
  void join_dict(const Val& dict, const Val& other, const Expr& base);
  void set_item(const Val& dict, Val key, Val item, const Expr& base);
  /// container[key], as the target of an assignment.
  struct Entry {
    Val container, key;
  };
  std::optional<Entry> host_entry(const Expr& target);
  void set_entry(const Entry& entry, Val item, const Expr& target);
  /// Assigns an entry of a list or dict; false where the target is none.
  bool host_assign_item(const Expr& target, const Val& item);
  bool host_augment_item(const Stmt& s);
  Val host_key(const Val& object, const Expr& target);
  /// An operator that changes the list or dict that the target is; false where it is none, or is assigned anew.
  bool host_augment_in_place(const Stmt& s);
  bool augment_in_place(const Val& object, std::string_view op, const Val& value, const Expr& base);

  const SourceFile& root_;  ///< the file of the kernel
  const SourceFile* file_;  ///< that of the function at hand
  bool host_ = false;       ///< host code is evaluated
  bool lost_ = false;       ///< the statement of host code at hand has to do with what is not known
  /// An iterator is being made whose items Python makes when they are asked for.
  struct Late {
    const Frame* frame = nullptr;    ///< in which
    int64_t since = 0;               ///< iterators_made_ ahead of it
    std::set<const void*> own = {};  ///< what it runs over
  } late_;
  int64_t iterators_made_ = 0;
  int imports_ = 0;                            ///< files between the one at hand and the use of a name
  ir::Block scratch_;                          ///< takes what host code may emit; unused
  Diagnostics diags_;                          ///< private, so that a trial can be taken back
  std::map<size_t, std::vector<Note>> notes_;  ///< by index in diags_
  dsl::Sema sema_;
  Frame* frame_ = nullptr;
  std::unique_ptr<ir::Func> func_;
  std::map<std::pair<const SourceFile*, size_t>, ModuleRun> runs_;  ///< by file and group
  std::map<const Expr*, std::optional<bool>> conditions_;
  std::optional<Loc> until_;         ///< see stop_ahead_of()
  const Expr* statement_ = nullptr;  ///< a call that stands as a statement: what it gives is not used
  bool untyped_ = false;             ///< a check without types: what only a launch needs to know is warned of
  int unknown_ = 0;  ///< conditions around the current statement that are unknown: it may never be reached
  std::set<std::string> undecided_;                   ///< globals that warn_undecided() told of
  std::optional<int> capability_;                     ///< of the target: 90 for sm_90; nothing where it is not known
  std::optional<ResultForm>* result_form_ = nullptr;  ///< receives what the loop at hand returns
  std::deque<std::vector<StmtPtr>> made_;             ///< statements that no program has
  struct Iterator {
    Val self;
    std::vector<Val> sources = {};
    bool once = true;
    bool in_order = true;  ///< an item is made of one item of each source, at the same place
    int64_t number = 0;    ///< iterators_made_ when it was made
    enum class State { Fresh, Partly, UsedUp } state = State::Fresh;  ///< which of its items have been asked for
    bool changed = false;                                             ///< a source has
    bool changed_ahead = false;                                       ///< other than behind the loops that run over it
    size_t given = SIZE_MAX;  ///< items, to the loop over it that has fewest; more than there are where none runs
  };
  std::map<const void*, Iterator> iterators_;  ///< by what identity_of() gives
  size_t most_iterators_ = 64;                 ///< beyond so many, those that nobody holds are dropped
  struct Kept {
    std::string what;
    Val value;  ///< keeps the addresses of its parts from being taken again
  };
  std::map<const void*, Kept> kept_;  ///< by what identity_of() gives
  std::map<const Class*, Fields> classes_;
  std::deque<Function> made_functions_;        ///< jit functions that functions of host code define and return
  std::map<const Function*, Scope> captured_;  ///< what these read of the names around them
  std::map<const Param*, Val> defaults_;       ///< of functions of host code, which share them among all calls
  std::map<const void*, Val> shared_;          ///< lists of the kernel that other names may have too, by identity_of()
  int64_t changes_ = 0;                        ///< of lists of the kernel up to now
  int64_t host_changes_ = 0;  ///< of lists and dicts of host code up to now, and iterators that were used
  int64_t steps_ = 0;
  int64_t made_items_ = 0;  ///< of tuples, lists and dicts, and pieces of strings, made at compile time
};

inline constexpr int64_t kMaxHostSteps = 1'000'000;
inline constexpr int64_t kMaxMade = 1 << 21;  ///< items, of some 50 bytes

template <class Body>
auto Checker::in_file(const SourceFile* file, const Body& body) {
  const SourceFile* before = std::exchange(file_, file ? file : file_);
  auto result = body();
  file_ = before;
  return result;
}

/// Names, which no program can write, of what a function returns from within a loop: whether it does, and the value.
inline constexpr const char* kReturned = ".returned";
inline constexpr const char* kResult = ".result";

/// Before the names of functions of the module triton, which gives constexprs where that of tl gives scalars.
inline constexpr std::string_view kOfTriton = "triton.";

/// `tl.constexpr`, `constexpr` or the string of it.
bool is_constexpr_annotation(const Expr* annotation);
/// "; did you mean 'x'?" as a hint, or `fallback`.
std::string nearest_hint(std::string_view name, const std::vector<std::string>& candidates, std::string fallback = {});

}  // namespace tegula::language
