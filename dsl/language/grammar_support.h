// What the grammar's semantic actions are made of; knows nothing of X3.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include "dsl/language/ast.h"
#include "dsl/language/splitter.h"

namespace tegula::language {

/// A mistake found in the middle of a parse; ends the parse of the line.
struct SyntaxError {
  Loc loc;
  std::string message;
  std::string hint;
};

/// An expression on the way through the grammar, with the text that it covers (parentheses included).
struct Node {
  ExprPtr expr;
  const char* first = nullptr;
  const char* last = nullptr;
};

/// a, *b, c: the elements of a tuple, list or subscript, and the end of the comma after the last one (or null).
struct Items {
  std::vector<Node> nodes;
  const char* comma = nullptr;
};

/// operand op operand op operand ..., before precedence is applied.
struct Chain {
  Node first;
  std::vector<std::pair<std::string, Node>> rest;  ///< operators, each with the operand behind it
};

/// key: value pairs in a row; or a dict comprehension.
struct DictItems {
  std::vector<Node> nodes;
  std::vector<std::pair<std::string, Node>> clauses;
  size_t lone = 0;  ///< how many are elements of a set: keys, with None after each
};

struct Arguments {
  std::vector<Node> positional;
  std::vector<Keyword> keywords;
  std::unordered_set<std::string> names;  ///< of the keywords
};

struct Index {
  Node parts[3];
  bool slice = false;
};

/// The line being parsed, and the makers of nodes.
class LineContext {
 public:
  LineContext(const LogicalLine& line, size_t begin, size_t end) : line_(line), begin_(begin), end_(end) {}

  const char* begin() const { return line_.text.data() + begin_; }
  const char* end() const { return line_.text.data() + end_; }
  size_t offset(const char* p) const { return size_t(p - line_.text.data()); }
  const std::string* file() const { return line_.file; }

  /// The place of [first, last); of its first token if it spans several source lines.
  Loc loc(const char* first, const char* last) const;

  Node make(Expr::Kind kind, const char* first, const char* last, std::vector<Node> children = {}) const;
  /// Makes `child`, which follows it in the text, the last child of `parent`.
  void append(Node& parent, Node child) const;
  Node name(std::string_view text) const;
  Node number(std::string_view text) const;
  /// String, or Format if one of them is an f-string. `expression` parses the expression that begins at its first
  /// argument, sets that to its end and gives null if there is none.
  Node strings(const std::vector<std::string_view>& literals,
               const std::function<ExprPtr(const char*& first, const char* last)>& expression) const;
  Node unary(std::string_view op, Node operand) const;
  Node binary(Node left, std::string op, Node right) const;
  /// Applies the precedence of Python's binary operators to a chain.
  Node binary_chain(Chain chain) const;
  /// Compare, or the operand itself where there is no operator.
  Node compare_chain(Chain chain) const;
  /// One expression as it is, several or one with a comma as a tuple.
  Node tuple_or_single(Items items) const;
  Node call(Node callee, Arguments arguments, const char* last) const;
  Node subscript(Node base, std::vector<Index> indices, const char* last) const;
  Node comprehension(char bracket, Node element, std::vector<std::pair<std::string, Node>> clauses, const char* first,
                     const char* last) const;

  /// Throws SyntaxError unless `target` can be assigned to.
  void check_target(const Expr& target, bool augmented = false) const;
  [[noreturn]] void fail(const char* first, const char* last, std::string message, std::string hint = {}) const;
  /// What to say when `expected` does not stand at `where`.
  SyntaxError expected(const std::string& what, const char* where) const;
  /// The same for text left over after a complete statement.
  SyntaxError unexpected(const char* where) const;

  /// Counts a level of nesting while the result lives; throws SyntaxError at `where` past the limit.
  struct Level {
    const LineContext& context;
    explicit Level(const LineContext& c) : context(c) { ++context.depth_; }
    Level(const Level&) = delete;
    ~Level() { --context.depth_; }
  };
  Level deeper(const char* where) const;

 private:
  void check_height(const Expr& e) const;        ///< throws SyntaxError past the greatest height of a tree
  std::string_view token(const char* at) const;  ///< the token at `at` (blanks before it are skipped); empty at the end
  std::string_view token_before(const char* at) const;
  /// Whether '//' stands before `at`.
  bool has_slashes(const char* at) const;

  const LogicalLine& line_;
  size_t begin_, end_;
  mutable int depth_ = 0;
};

/// The value of a string literal with its prefix and quotes.
std::string unescape(std::string_view literal);

ExprPtr clone(const Expr& expr);

}  // namespace tegula::language
