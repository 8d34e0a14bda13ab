#include "dsl/language/grammar_support.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <utility>

#include "dsl/language/grammar.h"

namespace tegula::language {

namespace {

// Deeper trees would make recursion over them overflow the stack.
constexpr int kMaxHeight = 400;
constexpr int kMaxDepth = 150;
constexpr size_t kMaxDigits = 4000;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\f' || c == '\v' || c == '\n'; }

int precedence(std::string_view op) {
  if (op == "|") return 1;
  if (op == "^") return 2;
  if (op == "&") return 3;
  if (op == "<<" || op == ">>") return 4;
  if (op == "+" || op == "-") return 5;
  return 6;
}

void append_utf8(std::string& out, uint32_t code) {
  if (code < 0x80) {
    out += char(code);
  } else if (code < 0x800) {
    out += char(0xC0 | code >> 6);
    out += char(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += char(0xE0 | code >> 12);
    out += char(0x80 | (code >> 6 & 0x3F));
    out += char(0x80 | (code & 0x3F));
  } else {
    out += char(0xF0 | (code >> 18 & 7));
    out += char(0x80 | (code >> 12 & 0x3F));
    out += char(0x80 | (code >> 6 & 0x3F));
    out += char(0x80 | (code & 0x3F));
  }
}

std::string describe_kind(const Expr& e) {
  switch (e.kind) {
    case Expr::Kind::Call:
      return "a call";
    case Expr::Kind::Int:
    case Expr::Kind::Float:
      return "a number";
    case Expr::Kind::String:
    case Expr::Kind::Format:
      return "a string";
    case Expr::Kind::True:
      return "True";
    case Expr::Kind::False:
      return "False";
    case Expr::Kind::None:
      return "None";
    case Expr::Kind::Ellipsis:
      return "'...'";
    case Expr::Kind::Compare:
      return "a comparison";
    case Expr::Kind::Ternary:
      return "a conditional expression";
    case Expr::Kind::Lambda:
      return "a lambda";
    case Expr::Kind::Dict:
      return "a dict";
    case Expr::Kind::Tuple:
      return "a tuple";
    case Expr::Kind::List:
      return "a list";
    case Expr::Kind::Comprehension:
      return "a comprehension";
    default:
      return "an expression";
  }
}

}  // namespace

Loc LineContext::loc(const char* first, const char* last) const {
  Loc whole = line_.loc(offset(first), offset(last));
  if (last > first && line_.segments.size() > 1 && line_.loc(offset(last - 1), offset(last)).line != whole.line) {
    std::string_view t = token(first);
    return line_.loc(offset(t.data()), offset(t.data() + t.size()));
  }
  return whole;
}

Node LineContext::make(Expr::Kind kind, const char* first, const char* last, std::vector<Node> children) const {
  while (last > first && is_space(last[-1])) --last;
  Node n{std::make_unique<Expr>(), first, last};
  n.expr->kind = kind;
  n.expr->loc = loc(first, last);
  for (Node& c : children) {
    if (c.expr) n.expr->height = std::max(n.expr->height, c.expr->height + 1);
    n.expr->children.push_back(std::move(c.expr));
  }
  check_height(*n.expr);
  return n;
}

void LineContext::append(Node& parent, Node child) const {
  parent.last = child.last;
  parent.expr->loc = loc(parent.first, parent.last);
  parent.expr->height = std::max(parent.expr->height, child.expr->height + 1);
  parent.expr->children.push_back(std::move(child.expr));
  check_height(*parent.expr);
}

void LineContext::check_height(const Expr& e) const {
  if (e.height > kMaxHeight)
    throw SyntaxError{e.loc, "the expression is nested too deeply", "assign parts of it to variables"};
}

Node LineContext::name(std::string_view text) const {
  const char* last = text.data() + text.size();
  if (text == "True") return make(Expr::Kind::True, text.data(), last);
  if (text == "False") return make(Expr::Kind::False, text.data(), last);
  if (text == "None") return make(Expr::Kind::None, text.data(), last);
  Node n = make(Expr::Kind::Name, text.data(), last);
  n.expr->text = std::string(text);
  return n;
}

Node LineContext::number(std::string_view text) const {
  const char *first = text.data(), *last = first + text.size();
  if (last < end() && is_word_char(*last)) {
    while (last < end() && is_word_char(*last)) ++last;
    fail(first, last, fmt::format("'{}' is not a number", std::string_view(first, size_t(last - first))));
  }
  if (text.back() == 'j' || text.back() == 'J')
    fail(first, last, "complex numbers are not part of the kernel language");
  std::string digits;
  std::copy_if(text.begin(), text.end(), std::back_inserter(digits), [](char c) { return c != '_'; });
  int base = 10;
  if (digits.size() > 2 && digits[0] == '0') {
    char c = char(digits[1] | 0x20);
    base = c == 'x' ? 16 : c == 'o' ? 8 : c == 'b' ? 2 : 10;
  }
  if (base == 10 && digits.find_first_of(".eE") != std::string::npos) {
    Node n = make(Expr::Kind::Float, first, last);
    n.expr->number = std::strtod(digits.c_str(), nullptr);
    return n;
  }
  if (base == 10 && digits[0] == '0' && digits.find_first_not_of('0') != std::string::npos)
    fail(first, last, "an integer cannot begin with 0",
         fmt::format("write 0o{} for an octal number", digits.substr(1)));
  Node n = make(Expr::Kind::Int, first, last);
  const char* from = digits.data() + (base == 10 ? 0 : 2);
  auto value = digits.size() <= kMaxDigits ? dsl::Int::parse(from, base) : std::nullopt;
  if (!value) fail(first, last, fmt::format("an integer has at most {} digits", kMaxDigits));
  n.expr->integer = *value;
  return n;
}

Node LineContext::strings(const std::vector<std::string_view>& literals,
                          const std::function<ExprPtr(const char*&, const char*)>& expression) const {
  Node n = make(Expr::Kind::String, literals.front().data(), literals.back().data() + literals.back().size());
  Expr& e = *n.expr;
  for (std::string_view literal : literals) {
    std::string_view prefix = literal.substr(0, literal.find_first_of("'\""));
    if (prefix.find_first_of("fF") == std::string_view::npos) {
      e.text += unescape(literal);
      continue;
    }
    e.kind = Expr::Kind::Format;
    // Of the text between expressions, one piece at a time in the literal's own prefix and quotes.
    std::string_view quotes = literal.substr(prefix.size(), 1);
    if (literal.size() >= prefix.size() + 6 && literal.substr(prefix.size(), 3) == std::string(3, quotes[0]))
      quotes = literal.substr(prefix.size(), 3);
    const char* p = quotes.data() + quotes.size();
    const char* end = literal.data() + literal.size() - quotes.size();
    std::string piece;
    auto finish = [&] { e.text += unescape(fmt::format("{0}{1}{2}{1}", prefix, quotes, std::exchange(piece, {}))); };
    while (p < end) {
      if (*p != '{' || (p + 1 < end && p[1] == '{')) {
        if ((*p == '{' || *p == '}') && p + 1 < end && p[1] == *p) ++p;
        piece += *p++;
        continue;
      }
      finish();
      const char* begin = ++p;
      ExprPtr value = expression(p, end);
      while (p < end && is_space(*p)) ++p;
      if (value && p < end && *p == '=') {  // {x=} writes x= and its value
        while (++p < end && is_space(*p)) {
        }
        e.text += std::string(begin, p);
      }
      std::string how;
      if (value && p < end && (*p == '!' || *p == ':')) {
        const char* from = p;
        while (p < end && *p != '}' && *p != '{') ++p;
        how.assign(from, p);
      }
      if (p == end || *p != '}') value = nullptr;
      for (int open = 1; p < end && (*p != '}' || --open > 0); ++p) open += *p == '{';
      if (p < end) ++p;
      if (value) e.height = std::max(e.height, value->height + 1);
      e.names.push_back(std::exchange(e.text, {}));
      e.children.push_back(std::move(value));
      e.operators.push_back(std::move(how));
    }
    finish();
  }
  if (e.kind == Expr::Kind::Format) e.names.push_back(std::exchange(e.text, {}));
  check_height(e);
  return n;
}

Node LineContext::unary(std::string_view op, Node operand) const {
  const char* last = operand.last;
  std::vector<Node> children;
  children.push_back(std::move(operand));
  Node n = make(Expr::Kind::Unary, op.data(), last, std::move(children));
  n.expr->text = std::string(op);
  return n;
}

Node LineContext::binary(Node left, std::string op, Node right) const {
  const char *first = left.first, *last = right.last;
  std::vector<Node> children;
  children.push_back(std::move(left));
  children.push_back(std::move(right));
  Node n = make(Expr::Kind::Binary, first, last, std::move(children));
  n.expr->text = std::move(op);
  return n;
}

Node LineContext::binary_chain(Chain chain) const {
  if (chain.rest.empty()) return std::move(chain.first);
  // Two stacks: an operator waits until one that does not bind more tightly follows. All are left-associative.
  std::vector<Node> operands;
  std::vector<std::string> waiting;
  operands.push_back(std::move(chain.first));
  auto reduce = [&] {
    Node right = std::move(operands.back());
    operands.pop_back();
    operands.back() = binary(std::move(operands.back()), std::move(waiting.back()), std::move(right));
    waiting.pop_back();
  };
  for (auto& [op, operand] : chain.rest) {
    while (!waiting.empty() && precedence(waiting.back()) >= precedence(op)) reduce();
    waiting.push_back(std::move(op));
    operands.push_back(std::move(operand));
  }
  while (!waiting.empty()) reduce();
  return std::move(operands.front());
}

Node LineContext::compare_chain(Chain chain) const {
  if (chain.rest.empty()) return std::move(chain.first);
  const char *first = chain.first.first, *last = chain.rest.back().second.last;
  std::vector<Node> operands;
  std::vector<std::string> operators;
  operands.push_back(std::move(chain.first));
  for (auto& [op, operand] : chain.rest) {
    operators.push_back(std::move(op));
    operands.push_back(std::move(operand));
  }
  Node n = make(Expr::Kind::Compare, first, last, std::move(operands));
  n.expr->operators = std::move(operators);
  return n;
}

Node LineContext::tuple_or_single(Items items) const {
  if (items.nodes.size() == 1 && !items.comma) {
    if (items.nodes[0].expr->kind == Expr::Kind::Starred)
      fail(items.nodes[0].first, items.nodes[0].last, "a starred expression cannot stand alone here");
    return std::move(items.nodes.front());
  }
  const char *first = items.nodes.front().first, *last = items.comma ? items.comma : items.nodes.back().last;
  return make(Expr::Kind::Tuple, first, last, std::move(items.nodes));
}

Node LineContext::call(Node callee, Arguments arguments, const char* last) const {
  const char* first = callee.first;
  std::vector<Node> children;
  children.push_back(std::move(callee));
  for (Node& a : arguments.positional) children.push_back(std::move(a));
  Node n = make(Expr::Kind::Call, first, last, std::move(children));
  for (const Keyword& k : arguments.keywords) n.expr->height = std::max(n.expr->height, k.value->height + 1);
  n.expr->keywords = std::move(arguments.keywords);
  return n;
}

Node LineContext::subscript(Node base, std::vector<Index> indices, const char* last) const {
  const char* first = base.first;
  std::vector<Node> children;
  children.push_back(std::move(base));
  for (Index& i : indices) {
    if (!i.slice) {
      children.push_back(std::move(i.parts[0]));
      continue;
    }
    const char* begin = i.parts[0].first;
    const char* end = i.parts[2].last;
    std::vector<Node> parts;
    for (Node& p : i.parts) parts.push_back(std::move(p));
    children.push_back(make(Expr::Kind::Slice, begin, end, std::move(parts)));
  }
  return make(Expr::Kind::Subscript, first, last, std::move(children));
}

Node LineContext::comprehension(char bracket, Node element, std::vector<std::pair<std::string, Node>> clauses,
                                const char* first, const char* last) const {
  std::vector<Node> children;
  children.push_back(std::move(element));
  std::vector<std::string> operators;
  for (auto& [word, node] : clauses) {
    if (!word.empty()) operators.push_back(word);
    children.push_back(std::move(node));
  }
  Node n = make(Expr::Kind::Comprehension, first, last, std::move(children));
  n.expr->text = bracket;
  n.expr->operators = std::move(operators);
  return n;
}

void LineContext::check_target(const Expr& target, bool augmented) const {
  switch (target.kind) {
    case Expr::Kind::Name:
    case Expr::Kind::Attribute:
    case Expr::Kind::Subscript:
      return;
    case Expr::Kind::Tuple:
    case Expr::Kind::List:
      if (augmented) break;
      for (const ExprPtr& e : target.children) check_target(*e);
      return;
    case Expr::Kind::Starred:
      if (augmented) break;
      return check_target(*target.children[0]);
    default:
      break;
  }
  std::string hint;
  if (target.kind == Expr::Kind::Compare) hint = "a value is assigned to a name: name = value";
  throw SyntaxError{target.loc, fmt::format("cannot assign to {}", describe_kind(target)), hint};
}

void LineContext::fail(const char* first, const char* last, std::string message, std::string hint) const {
  throw SyntaxError{loc(first, last), std::move(message), std::move(hint)};
}

LineContext::Level LineContext::deeper(const char* where) const {
  if (depth_ == kMaxDepth) {
    std::string_view t = token(where);
    fail(t.data(), t.data() + t.size(), "the expression is nested too deeply", "assign parts of it to variables");
  }
  return Level(*this);
}

std::string_view LineContext::token(const char* at) const {
  while (at < end() && is_space(*at)) ++at;
  const char* p = at;
  if (p == end()) return {p, 0};
  auto left = size_t(end() - p);
  auto string_end = [&](const char* q) {
    char quote = *q;
    bool triple = end() - q >= 3 && q[1] == quote && q[2] == quote;
    q += triple ? 3 : 1;
    while (q < end()) {
      if (*q == '\\' && q + 1 < end()) {
        q += 2;
      } else if (*q == quote && (!triple || (end() - q >= 3 && q[1] == quote && q[2] == quote))) {
        return q + (triple ? 3 : 1);
      } else {
        ++q;
      }
    }
    return q;
  };
  if (is_word_start(*p)) {
    while (p < end() && is_word_char(*p)) ++p;
    if (p < end() && (*p == '"' || *p == '\'') && p - at <= 2) p = string_end(p);
  } else if ((*p >= '0' && *p <= '9') || (*p == '.' && left > 1 && p[1] >= '0' && p[1] <= '9')) {
    while (p < end() && (is_word_char(*p) || *p == '.' || ((*p == '+' || *p == '-') && (p[-1] | 0x20) == 'e'))) ++p;
  } else if (*p == '"' || *p == '\'') {
    p = string_end(p);
  } else if (*p & 0x80) {
    ++p;
    while (p < end() && (*p & 0xC0) == 0x80) ++p;
  } else {
    static const char* const kLong[] = {"**=", "//=", ">>=", "<<=", "...", "**", "//", ">>", "<<",
                                        "==",  "!=",  "<=",  ">=",  "->",  "+=", "-=", "*=", "/=",
                                        "%=",  "&=",  "|=",  "^=",  "@=",  ":=", "&&", "||"};
    ++p;
    for (const char* s : kLong) {
      std::string_view op = s;
      if (std::string_view(at, left).substr(0, op.size()) == op) {
        p = at + op.size();
        break;
      }
    }
  }
  return {at, size_t(p - at)};
}

std::string_view LineContext::token_before(const char* at) const {
  std::string_view before;
  for (const char* p = begin(); p < end();) {
    std::string_view t = token(p);
    if (t.empty() || t.data() >= at) break;
    before = t.substr(0, size_t(at - t.data()));
    p = t.data() + t.size();
  }
  return before;
}

namespace {

std::string quoted(std::string_view token) {
  if (token.empty()) return "end of line";
  if (token.find('\n') != std::string_view::npos || token.size() > 40) {
    bool string = token.back() == '"' || token.back() == '\'';
    return string ? "a string" : fmt::format("'{}...'", token.substr(0, 40));
  }
  if (static_cast<unsigned char>(token[0]) < 0x20 || token[0] == 0x7f)
    return fmt::format("the character 0x{:02x}", static_cast<unsigned char>(token[0]));
  if (token.back() == '"') return std::string(token);
  return fmt::format("'{}'", token);
}

// What other languages begin a declaration with.
bool names_type(std::string_view word) {
  constexpr std::string_view kWords[] = {"int",  "float", "double", "bool", "auto", "const", "unsigned",
                                         "long", "half",  "char",   "let",  "var",  "size_t"};
  return std::find(std::begin(kWords), std::end(kWords), word) != std::end(kWords);
}

std::string hint_for(std::string_view what, std::string_view before, std::string_view found) {
  if (found == "=" && what.find("condition") != std::string_view::npos) return "'==' compares";
  if (before == "match" || before == "case") return "'match' is not part of the kernel language: write if and elif";
  if (found == "if" && before == "else") return "write 'elif'";
  if (found == "&&" || (found == "&" && before == "&")) return "write 'and' for conditions, '&' for tiles";
  if (found == "||" || (found == "|" && before == "|")) return "write 'or' for conditions, '|' for tiles";
  if (found == "!") return "write 'not' for conditions, '~' for tiles";
  if (found == "?") return "write: a if condition else b";
  if (found == "{" && what.find("':'") != std::string_view::npos) return "a block begins with ':' and is indented";
  if (before == "elseif" || before == "elsif") return "write 'elif'";
  if (names_type(before) && !found.empty() && is_word_start(found[0]))
    return before == "int" && what.find("')'") != std::string_view::npos
               ? "a loop that counts is: for i in range(n):"
               : "names have no declared types: write name = value";
  if (found == ":=") return "put brackets around it: (name := value)";
  if (found == "\\") return "a backslash joins lines only as the last character of a line";
  if (is_reserved_word(found) && what.find("name") != std::string_view::npos)
    return fmt::format("'{}' is a word of the language: choose another name", found);
  return {};
}

}  // namespace

SyntaxError LineContext::expected(const std::string& what, const char* where) const {
  std::string_view found = token(where), before = token_before(where);
  std::string wanted = what;
  bool after_opening = before == "(" || before == "[" || before == "{" || before == ",";
  if (wanted.compare(0, 7, "',' or ") == 0 && after_opening) wanted.replace(0, 3, "an expression");
  std::string after;
  if (!before.empty() && wanted.find(" after ") == std::string::npos) after = fmt::format(" after {}", quoted(before));
  std::string hint = hint_for(wanted, before, found);
  const bool twice = before.size() == 1 && before.data() > begin() && before.data()[-1] == before[0];
  if (found.empty() && twice && (before == "+" || before == "-"))
    hint = fmt::format("'{0}{0}' is no operator: write i {0}= 1", before);
  return {loc(found.data(), found.data() + found.size()),
          fmt::format("expected {}{}, found {}", wanted, after, quoted(found)), std::move(hint)};
}

bool LineContext::has_slashes(const char* at) const {
  for (const char* p = begin(); p < at;) {
    const std::string_view t = token(p);
    if (t.empty() || t.data() >= at) break;
    if (t == "//") return true;
    p = t.data() + t.size();
  }
  return false;
}

SyntaxError LineContext::unexpected(const char* where) const {
  std::string_view found = token(where), before = token_before(where);
  std::string hint = hint_for({}, before, found);
  if (hint.empty() && !found.empty() && is_word_start(found[0]) && is_word_start(before[0]) &&
      has_slashes(before.data()))
    hint = "'//' divides: a comment begins with '#'";
  return {loc(found.data(), found.data() + found.size()),
          fmt::format("unexpected {} after {}", quoted(found), quoted(before)), std::move(hint)};
}

std::string unescape(std::string_view s) {
  size_t prefix = s.find_first_of("'\"");
  bool raw = s.substr(0, prefix).find_first_of("rR") != std::string_view::npos;
  s.remove_prefix(prefix);
  size_t quotes = s.size() >= 6 && s[1] == s[0] && s[2] == s[0] ? 3 : 1;
  s = s.substr(quotes, s.size() - 2 * quotes);
  if (raw) return std::string(s);
  std::string out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\\' || i + 1 == s.size()) {
      out += s[i];
      continue;
    }
    char c = s[++i];
    auto digits = [&](size_t from, size_t count, int base) -> bool {
      uint32_t code = 0;
      size_t end = std::min(s.size(), from + count);
      auto [p, error] = std::from_chars(s.data() + from, s.data() + end, code, base);
      if (error != std::errc() || (base == 16 && p != s.data() + from + count)) return false;
      append_utf8(out, code);
      i = size_t(p - s.data()) - 1;
      return true;
    };
    static constexpr std::string_view kFrom = "abfnrtv\\'\"", kTo = "\a\b\f\n\r\t\v\\'\"";
    if (size_t k = kFrom.find(c); k != std::string_view::npos) {
      out += kTo[k];
    } else if (c == '\n') {
      continue;
    } else if ((c >= '0' && c <= '7' && digits(i, 3, 8)) || (c == 'x' && digits(i + 1, 2, 16)) ||
               (c == 'u' && digits(i + 1, 4, 16)) || (c == 'U' && digits(i + 1, 8, 16))) {
      continue;
    } else {
      out += '\\';
      out += c;
    }
  }
  return out;
}

ExprPtr clone(const Expr& e) {
  auto copy = std::make_unique<Expr>();
  copy->kind = e.kind;
  copy->loc = e.loc;
  copy->text = e.text;
  copy->integer = e.integer;
  copy->number = e.number;
  copy->operators = e.operators;
  copy->names = e.names;
  copy->height = e.height;
  for (const ExprPtr& c : e.children) copy->children.push_back(c ? clone(*c) : nullptr);
  for (const Keyword& k : e.keywords) copy->keywords.push_back({k.name, k.loc, clone(*k.value)});
  return copy;
}

}  // namespace tegula::language
