// Logical lines to functions and blocks of statements: what indentation means, and the suites of compound statements.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/grammar.h"
#include "dsl/language/splitter.h"
#include "runtime/base/diag.h"

namespace tegula::language {

/// The page of the manual that mistakes in statements point to.
inline constexpr const char* kStatementsPage = "docs/language.md#statements";

/// A position in the lines of a file, and what reads functions from there on. Mistakes go to the diagnostics; the rest
/// of a function is parsed after them.
class BlockParser {
 public:
  BlockParser(std::vector<LogicalLine> lines, Diagnostics& diags) : diags_(diags), lines_(std::move(lines)) {}

 protected:
  /// At the line `def`. Takes the function's lines, its body included. `host`: the function is no kernel.
  Function parse_function(bool host = false);
  /// The statements of the line at hand, which is no kernel's, with their blocks; none if they have mistakes.
  std::vector<StmtPtr> parse_host_line();
  /// Whether the line at hand belongs to a block below a line of this indentation.
  bool more(int indent) const { return next_ < lines_.size() && lines_[next_].indent > indent; }
  /// Whether the line after the one at hand does.
  bool more_behind(int indent) const { return next_ + 1 < lines_.size() && lines_[next_ + 1].indent > indent; }
  /// The offset of the first character at or after `offset` that is no space.
  static size_t word_after(const LogicalLine& line, size_t offset);
  /// Reports what the splitter found wrong with a line.
  static void copy_errors(const std::vector<Diag>& errors, Diagnostics& to);

  Diagnostics& diags_;
  std::vector<LogicalLine> lines_;
  size_t next_ = 0;  ///< the line at hand

 private:
  /// The first statement of a line, and what else stands on the line.
  struct Head {
    std::optional<Statement> statement;
    size_t suite = 0;  ///< offset of what follows the ':'; 0 if nothing does
    bool ok() const { return statement.has_value(); }
  };

  Head parse_head(LogicalLine& line);
  /// What follows a head's ':': statements on the same line, or an indented block. `next_` is at the head's line.
  std::vector<StmtPtr> parse_suite(const Head& head, LogicalLine& line, const std::string& owner);
  void parse_block(const LogicalLine& head, std::vector<StmtPtr>& body);
  /// Parses the statement(s) of one line and what is indented below them.
  void parse_line(std::vector<StmtPtr>& body);
  /// Whether the line begins a `match`, which is no reserved word.
  bool is_match() const;
  /// A statement that kernels cannot have, as one that tells so where it is reached, with its block. What stands in a
  /// `try` follows it, so that the names of its block are known.
  void take_foreign(std::string_view word, std::vector<StmtPtr>& body);
  static StmtPtr foreign(Loc loc, std::string_view what, std::string hint = {});
  /// `try`, which is taken to run to its end: what stands in it, in `else` and in `finally`.
  void parse_try(std::vector<StmtPtr>& body);
  /// At the line of `if`: the statement with all its branches.
  StmtPtr parse_if(Head head);
  StmtPtr parse_loop(Head head, LogicalLine& line);
  /// A piece of a line that can only hold a simple statement.
  void parse_simple(const LogicalLine& line, size_t begin, size_t end, std::vector<StmtPtr>& body);
  /// The pieces of a line after its first.
  void parse_other_pieces(const LogicalLine& line, std::vector<StmtPtr>& body);
  void skip_block(int indent);

  /// The indentation of a line of a block that is not the block's.
  void report_indent(const LogicalLine& line, const LogicalLine& first, const LogicalLine& head);
  /// A line whose tabs make it unclear whether it belongs to the block that `first` begins, or, unless `of_block`, to
  /// the one that `first` heads.
  void report_tabs(const LogicalLine& line, const LogicalLine& first, bool of_block = true);

  int depth_ = 0;
  bool host_ = false;  ///< the function at hand is no kernel
};

}  // namespace tegula::language
