// What the statements of a module have to do with each other, by their text alone.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/language/ast.h"

namespace tegula::language {

/// Adds the names that stand in an expression.
void names_in(const Expr& e, NameSet& names);

/// What a statement may do to names.
struct Effects {
  NameSet mentions;  ///< all that stand in it, and in functions and classes that it mentions, and so on: it may use up
                     ///< the iterators that these hold
  NameSet changes;   ///< those of them whose lists and dicts it may change
  NameSet assigns;   ///< those that may have another value behind it, `global` of such functions included
  NameSet touches;   ///< those of which it assigns a part or calls a method that changes what it is called on
};

/// Statements and names of a module in groups, no one of which has to do with another: each is run by itself, where one
/// of its names is asked for. Made once a file.
class ModulePlan {
 public:
  explicit ModulePlan(const Module& module);

  /// Which names a statement may change.
  const Effects& effects_of(size_t statement) const { return effects_[statement]; }
  /// The group of a name that statements assign; nothing for others.
  std::optional<size_t> group_of(std::string_view name) const;
  /// The statements of a group, in order.
  const std::vector<size_t>& statements_of(size_t group) const { return statements_[group]; }
  /// The names that statements assign, in the order of their first assignments.
  const std::vector<std::string>& assigned() const { return assigned_; }
  /// Of the names: the names that statements assign, those included that functions and classes among them mention.
  NameSet reached(const NameSet& names) const;
  /// Whether functions and classes of the file may assign an attribute of this name.
  bool assigns_attribute(std::string_view name) const;
  /// Whether an expression has the name of a function or a class of the file, or changes what a name holds.
  bool calls_own(const Expr& e) const;
  /// The statements that define classes of this name, and functions that are no kernels.
  std::vector<size_t> functions_of(std::string_view name) const;

 private:
  struct Definition {
    NameSet words;  ///< those of its text that matter to statements
    NameSet sets;
    std::vector<size_t> functions;
    bool is_import = false;  ///< and nothing else
    bool is_class = false;
  };
  /// All that the names lead to by definitions.
  NameSet closure(NameSet names) const;
  /// What the statement's own text does.
  static Effects own_effects(const ModuleStatement& statement);
  /// Adds what functions and classes do that the statement mentions.
  void add_mentioned(const ModuleStatement& statement, Effects& effects) const;
  void add_definitions(const Module& module);
  void add_sets(const NameSet& mentions, Effects& effects) const;
  NameSet changes_of(const ModuleStatement& statement, const Effects& effects) const;
  void add_changes(const Expr& e, NameSet& names) const;
  bool only_reads(const Expr& call) const;
  /// Whether any is a function or a class of the file.
  bool has_own(const std::vector<std::string>& words) const;
  /// Statements that mention a name that may hold a function or an object of a class may assign what these set.
  void add_sets_by_value(const Module& module);
  void find_known();
  void make_groups(const Module& module);

  std::vector<Effects> effects_;
  std::map<std::string, Definition, std::less<>> definitions_;
  NameSet given_;          ///< names that statements assign
  NameSet known_;          ///< names of the module that have a group
  NameSet attributes_;     ///< that functions and classes may assign
  NameSet class_methods_;  ///< methods by which values are read, as far as the file's classes have them
  std::vector<std::string> assigned_;
  std::map<std::string, size_t, std::less<>> groups_;  ///< of what is assigned or touched
  std::vector<std::vector<size_t>> statements_;
};

/// Adds the names that `:=` in an expression assigns, those in lambdas left out.
void assigned_by(const Expr& e, NameSet& names);
/// The name that an expression is a part of, `x` of x[0].y; null if it is none's.
const Expr* root_of(const Expr& e);

}  // namespace tegula::language
