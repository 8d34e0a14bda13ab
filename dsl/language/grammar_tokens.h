// The tokens of the grammar, and what its semantic actions use. Included by grammar.cpp alone: X3 is slow to compile.
#pragma once

#include <algorithm>
#include <array>
#include <boost/spirit/home/x3.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "dsl/language/grammar.h"
#include "dsl/language/grammar_support.h"

namespace tegula::language {
namespace {
template <class Subject>
struct DeeperDirective;
}
}  // namespace tegula::language

// An expectation names what was expected; one on an action, a directive or a sequence means its first part.
namespace boost::spirit::x3 {

template <class Subject>
struct get_info<tegula::language::DeeperDirective<Subject>> {
  using result_type = std::string;
  std::string operator()(tegula::language::DeeperDirective<Subject> const& p) const { return what(p.subject); }
};
template <class Subject>
struct get_info<omit_directive<Subject>> {
  std::string operator()(const omit_directive<Subject>& p) const { return what(p.subject); }
};
template <class Subject, class Action>
struct get_info<action<Subject, Action>> {
  using result_type = std::string;
  std::string operator()(action<Subject, Action> const& p) const { return what(p.subject); }
};
template <class Left, class Right>
struct get_info<sequence<Left, Right>> {
  using result_type = std::string;
  std::string operator()(sequence<Left, Right> const& p) const { return what(p.left); }
};
template <class Left, class Right>
struct get_info<alternative<Left, Right>> {
  using result_type = std::string;
  std::string operator()(alternative<Left, Right> const& p) const { return what(p.left); }
};

}  // namespace boost::spirit::x3

namespace tegula::language {

namespace {

namespace x3 = boost::spirit::x3;
using x3::_attr;
using x3::_val;
using x3::lexeme;
using x3::lit;
using x3::raw;

using Kind = Expr::Kind;
using StmtKind = Stmt::Kind;
using Range = boost::iterator_range<const char*>;
using Clauses = std::vector<std::pair<std::string, Node>>;

constexpr std::array<std::string_view, 35> kReserved = {  // in order
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

// ---- What actions use.

struct line_tag;

template <class Context>
const LineContext& line(Context& ctx) {
  return x3::get<line_tag>(ctx);
}
std::string_view text(const Range& r) { return {r.begin(), size_t(r.end() - r.begin())}; }

/// Where the match that an action belongs to ends.
template <class Context>
const char* matched_end(Context& ctx) {
  return x3::_where(ctx).begin();
}

auto const set = [](auto& ctx) { _val(ctx) = std::move(_attr(ctx)); };

// ---- Tokens.

struct WordParser : x3::parser<WordParser> {
  using attribute_type = x3::unused_type;
  static bool const has_attribute = false;
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const&, RuleContext&, Attribute&) const {
    if (first == last || !is_word_start(*first)) return false;
    while (first != last && is_word_char(*first)) ++first;
    return true;
  }
};
struct ReservedParser : x3::parser<ReservedParser> {
  using attribute_type = x3::unused_type;
  static bool const has_attribute = false;
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const&, RuleContext&, Attribute&) const {
    Iterator end = first;
    while (end != last && is_word_char(*end)) ++end;
    if (!is_reserved_word({first, size_t(end - first)})) return false;
    first = end;
    return true;
  }
};
/// A name, a name with attributes or a decimal integer that is all of what is looked for, as the text behind it tells
/// (`End::at`): most operands are that, and the rules of an expression take many levels to find out.
template <class End>
struct OperandParser : x3::parser<OperandParser<End>> {
  using attribute_type = Node;
  static bool const has_attribute = true;
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const& context, RuleContext&, Attribute& node) const {
    x3::skip_over(first, last, context);
    const LineContext& line = x3::get<line_tag>(context);
    Iterator end = word_end(first, last);
    if (end == first || (!is_word_start(*first) && !is_number(first, end))) return false;
    const std::string_view word(first, size_t(end - first));
    const bool constant = word == "True" || word == "False" || word == "None";
    if (is_word_start(*first) && !constant && is_reserved_word(word)) return false;
    std::vector<std::pair<Iterator, Iterator>> attributes;
    while (is_word_start(*first) && end != last && *end == '.') {
      Iterator name = end + 1, name_end = word_end(name, last);
      if (name_end == name || !is_word_start(*name) || is_reserved_word({name, size_t(name_end - name)})) return false;
      attributes.push_back({name, name_end});
      end = name_end;
    }
    if (!is_end(end, last, context)) return false;
    Node made = is_word_start(*first) ? line.name(word) : line.number(word);
    for (auto [name, name_end] : attributes) {
      std::vector<Node> children;
      children.push_back(std::move(made));
      made = line.make(Expr::Kind::Attribute, first, name_end, std::move(children));
      made.expr->text.assign(name, name_end);
    }
    node = std::move(made);
    first = end;
    return true;
  }

 private:
  template <class Iterator>
  static Iterator word_end(Iterator at, Iterator last) {
    while (at != last && is_word_char(*at)) ++at;
    return at;
  }
  template <class Iterator>
  static bool is_number(Iterator first, Iterator end) {
    return (*first != '0' || end - first == 1) && std::all_of(first, end, [](char c) { return c >= '0' && c <= '9'; });
  }
  template <class Iterator, class Context>
  static bool is_end(Iterator at, Iterator last, Context const& context) {
    x3::skip_over(at, last, context);
    return at == last || End::at(*at, at + 1 == last ? '\0' : at[1]);
  }
};
/// Where an argument, an element or a target ends; `next` is the character behind.
struct EndOfExpression {
  static bool at(char c, char next) {
    if (c == '=' || c == ':') return next != '=';
    return std::string_view(",)]}").find(c) != std::string_view::npos;
  }
};
/// Where an operand of a binary operator ends: no call, subscript, attribute, power or string goes on.
struct EndOfOperand {
  static bool at(char c, char next) {
    return std::string_view("([{.\"'").find(c) == std::string_view::npos && (c != '*' || next != '*');
  }
};
using WholeOperandParser = OperandParser<EndOfExpression>;
using PlainOperandParser = OperandParser<EndOfOperand>;
/// A string with prefix and quotes; the splitter has seen to it that it ends.
struct StringParser : x3::parser<StringParser> {
  using attribute_type = x3::unused_type;
  static bool const has_attribute = false;
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const&, RuleContext&, Attribute&) const {
    Iterator p = first;
    for (int i = 0; i < 2 && p != last && std::string_view("rRbBfFuU").find(*p) != std::string_view::npos; ++i) ++p;
    if (p == last || (*p != '"' && *p != '\'')) return false;
    char quote = *p;
    std::ptrdiff_t width = last - p >= 3 && p[1] == quote && p[2] == quote ? 3 : 1;
    auto closes = [&](Iterator q) {
      return last - q >= width && std::all_of(q, q + width, [&](char c) { return c == quote; });
    };
    for (p += width; p < last; ++p) {
      if (closes(p)) return first = p + width, true;
      if (*p == '\\') ++p;
    }
    return false;
  }
};

struct WordEndParser : x3::parser<WordEndParser> {
  using attribute_type = x3::unused_type;
  static bool const has_attribute = false;
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const&, RuleContext&, Attribute&) const {
    return first == last || !is_word_char(*first);
  }
};

/// Parses the subject one level deeper; too many levels end the parse before they end the stack.
template <class Subject>
struct DeeperDirective : x3::unary_parser<Subject, DeeperDirective<Subject>> {
  using base_type = x3::unary_parser<Subject, DeeperDirective<Subject>>;
  static bool const is_pass_through_unary = true;
  static bool const handles_container = Subject::handles_container;
  explicit DeeperDirective(Subject const& subject) : base_type(subject) {}
  template <class Iterator, class Context, class RuleContext, class Attribute>
  bool parse(Iterator& first, Iterator const& last, Context const& context, RuleContext& rule,
             Attribute& attribute) const {
    auto level = x3::get<line_tag>(context).deeper(first);
    return this->subject.parse(first, last, context, rule, attribute);
  }
};
struct DeeperGenerator {
  template <class Subject>
  auto operator[](Subject const& subject) const {
    return DeeperDirective<typename x3::extension::as_parser<Subject>::value_type>(x3::as_parser(subject));
  }
} const deeper;

/// A word of the language.
auto kw(const char* word) { return lexeme[lit(word) >> WordEndParser()]; }

/// The text that `parser` matches, as a Range.
template <class Parser>
auto span(Parser const& parser) {
  return x3::rule<struct span_id, Range>{"a token"} = raw[parser];
}

/// A parser whose absence is reported as `what`.
template <class Id, class Parser>
auto named(const char* what, Parser const& parser) {
  return x3::rule<Id>{what} = parser;
}
#define TEGULA_TOKEN(name, character, text) \
  struct name##_id {};                      \
  auto const name = named<name##_id>(text, lit(character))
TEGULA_TOKEN(close_paren, ')', "',' or ')'");
TEGULA_TOKEN(close_bracket, ']', "',' or ']'");
TEGULA_TOKEN(close_brace, '}', "',' or '}'");
TEGULA_TOKEN(open_paren, '(', "'('");
TEGULA_TOKEN(dict_colon, ':', "':'");
TEGULA_TOKEN(lambda_colon, ':', "':' after the parameters");
TEGULA_TOKEN(condition_colon, ':', "':' after the condition");
TEGULA_TOKEN(loop_colon, ':', "':' after the values to loop over");
TEGULA_TOKEN(else_colon, ':', "':'");
TEGULA_TOKEN(def_colon, ':', "':' after the parameters");
#undef TEGULA_TOKEN
struct in_word_id {};
auto const in_word = named<in_word_id>("'in'", kw("in"));
struct else_word_id {};
auto const else_word = named<else_word_id>("'else'", kw("else"));
struct import_word_id {};
auto const import_word = named<import_word_id>("'import'", kw("import"));

x3::rule<struct name_id, Range> const name_text{"a name"};
auto const name_text_def = !ReservedParser() >> raw[lexeme[WordParser()]];

auto const digit = x3::char_('0', '9');
auto const digits = digit >> *(-lit('_') >> digit);
auto const exponent = x3::omit[x3::char_("eE")] >> -x3::omit[x3::char_("+-")] >> digits;
x3::rule<struct number_id, Range> const number_text{"a number"};
auto const number_text_def =
    raw[lexeme[(lit('0') >> x3::omit[x3::char_("xXoObB")] >> +(-lit('_') >> x3::omit[x3::char_("0-9a-fA-F")])) |
               (((x3::omit[digits] >> -(lit('.') >> -x3::omit[digits])) | (lit('.') >> x3::omit[digits])) >>
                -x3::omit[exponent] >> -x3::omit[x3::char_("jJ")])]];

x3::rule<struct string_id, Range> const string_text{"a string"};
auto const string_text_def = raw[lexeme[StringParser()]];

struct BinaryOperators : x3::symbols<std::string> {
  BinaryOperators() {
    for (const char* op : {"|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%", "@"}) add(op, op);
  }
} const binary_operators;
struct AugmentedOperators : x3::symbols<std::string> {
  AugmentedOperators() {
    for (std::string op : {"|", "^", "&", "<<", ">>", "+", "-", "*", "/", "//", "%", "@", "**"}) add(op + "=", op);
  }
} const augmented_operators;
struct CompareOperators : x3::symbols<std::string> {
  CompareOperators() {
    for (const char* op : {"==", "!=", "<", "<=", ">", ">="}) add(op, op);
  }
} const compare_operators;

x3::rule<struct compare_operator_id, std::string> const compare_operator{"a comparison"};
auto const word_operator = [](const char* op) { return [op](auto& ctx) { _val(ctx) = op; }; };
auto const compare_operator_def = (!lit("<<=") >> !lit(">>=") >> compare_operators)[set] |
                                  kw("in")[word_operator("in")] | (kw("not") >> kw("in"))[word_operator("not in")] |
                                  (kw("is") >> kw("not"))[word_operator("is not")] | kw("is")[word_operator("is")];

}  // namespace

}  // namespace tegula::language
