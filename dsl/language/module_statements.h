// The statements of a module, beside its functions. A block under `if` holds them under a condition, and so do the
// blocks of a `try`.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/block_parser.h"

namespace tegula::language {

/// Collects them while another goes through the lines of the file.
class ModuleStatements : protected BlockParser {
 protected:
  using BlockParser::BlockParser;

  void leave_branches(const LogicalLine& line);
  /// Whether the line begins a block of the module that lines below it make up.
  bool enter_branch(const LogicalLine& line);
  std::vector<Condition> conditions() const;
  void add_not_known(size_t begin, size_t end, std::vector<std::string> names);
  /// At the line of a function or a class of the module, with its decorators.
  void define(size_t first_decorator, bool is_kernel);
  /// A line of the module that begins no block, and what stands behind the head of a block in its line.
  void module_statement(const LogicalLine& line);
  /// Behind the last line of the block that the line has, if any.
  size_t end_of_block(size_t line) const;
  /// The words of lines, each once.
  std::vector<std::string> words_of(size_t begin, size_t end) const;

  Module module_;

 private:
  /// A block of the module around a line.
  struct Branch {
    int indent;
    std::vector<Condition> conditions;
    bool whole = false;  ///< a loop, which is one statement with its block
  };

  /// The condition that a `try` is for what stands in its blocks.
  static Condition condition_of_try(const LogicalLine& line);
  /// One that is never evaluated.
  static std::shared_ptr<const Expr> unknown_condition(const LogicalLine& line);
  /// Whether the line belongs to a statement that has been taken with its block.
  bool in_whole(bool goes_on) const;
  /// At a line whose block is one statement with it: what it parses to, if it does.
  void begin_whole(const LogicalLine& line, std::vector<StmtPtr> statements);
  static bool holds_foreign(const StmtPtr& s);
  /// `with f(x) as y:` is f(x), and y is not known. Its block is taken to run to its end.
  void enter_context(const LogicalLine& line);
  void add_statement(StmtPtr s);
  static std::vector<std::string_view> words_in(std::string_view text);
  /// Adds what a line of a function declares `global`.
  static void add_globals(const LogicalLine& line, std::vector<std::string>& names);
  /// What lines that are not followed may assign, by their text: what stands ahead of '=', and in heads of statements.
  std::vector<std::string> assigned_in(size_t begin, size_t end) const;
  /// How much of a line that is.
  static size_t end_of_assigned(const LogicalLine& line);
  /// The attributes among these, and what reaches all of them; `words`: all of the lines.
  std::vector<std::string> attributes_in(size_t begin, size_t end, const std::vector<std::string>& words) const;
  /// Behind the ':' of a head, with which the piece of a line begins.
  size_t end_of_head(const LogicalLine& line, size_t begin, size_t end) const;
  void module_piece(const LogicalLine& line, size_t begin, size_t end);

  std::vector<Branch> branches_;
};

}  // namespace tegula::language
