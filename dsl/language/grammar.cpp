// The grammar of expressions and statements. Each rule's name is what an error message says was expected.
#include "dsl/language/grammar.h"

#include <algorithm>
#include <array>
#include <boost/fusion/include/at_c.hpp>
#include <unordered_set>

#include "dsl/language/grammar_support.h"
#include "dsl/language/grammar_tokens.h"

namespace tegula::language {

namespace {

using boost::fusion::at_c;

// ---- Expressions.

x3::rule<struct expression_id, Node> const expression{"an expression"};
x3::rule<struct lambda_id, Node> const lambda{"a lambda"};
x3::rule<struct disjunction_id, Node> const disjunction{"an expression"};
x3::rule<struct conjunction_id, Node> const conjunction{"an expression"};
x3::rule<struct inversion_id, Node> const inversion{"an expression"};
x3::rule<struct comparison_id, Node> const comparison{"an expression"};
x3::rule<struct compare_chain_id, Chain> const compare_chain{"an expression"};
x3::rule<struct operation_id, Node> const operation{"an expression"};
x3::rule<struct binary_chain_id, Chain> const binary_chain{"an expression"};
x3::rule<struct factor_id, Node> const factor{"an expression"};
x3::rule<struct power_id, Node> const power{"an expression"};
x3::rule<struct primary_id, Node> const primary{"an expression"};
x3::rule<struct atom_id, Node> const atom{"an expression"};
x3::rule<struct paren_id, Node> const paren{"an expression"};
x3::rule<struct list_id, Node> const list{"a list"};
x3::rule<struct dict_id, Node> const dict{"a dict"};
x3::rule<struct dict_items_id, DictItems> const dict_items{"a key"};
x3::rule<struct strings_id, std::vector<std::string_view>> const strings{"a string"};
x3::rule<struct item_id, Node> const item{"an expression"};
x3::rule<struct named_expression_id, Node> const named_expression{"an expression"};
x3::rule<struct contexts_id, Items> const contexts{"an expression"};
x3::rule<struct items_id, Items> const items{"an expression"};
x3::rule<struct targets_id, Items> const targets{"a variable"};
x3::rule<struct clauses_id, Clauses> const clauses{"'for'"};
x3::rule<struct argument_list_id, Arguments> const argument_list{"arguments"};
x3::rule<struct index_id, Index> const index{"an index"};
x3::rule<struct index_list_id, std::vector<Index>> const index_list{"an index"};
x3::rule<struct names_id, std::vector<std::string>> const lambda_names{"parameters"};

auto const make_name = [](auto& ctx) { _val(ctx) = line(ctx).name(text(_attr(ctx))); };
auto const make_number = [](auto& ctx) { _val(ctx) = line(ctx).number(text(_attr(ctx))); };
/// The expression that an f-string has at `first`, which becomes its end; null if there is none.
ExprPtr embedded_expression(LineContext& context, const char*& first, const char* last);
auto const make_strings = [](auto& ctx) {
  LineContext& context = x3::get<line_tag>(ctx);
  _val(ctx) = context.strings(
      _attr(ctx), [&](const char*& first, const char* last) { return embedded_expression(context, first, last); });
};
auto const make_ellipsis = [](auto& ctx) {
  _val(ctx) = line(ctx).make(Kind::Ellipsis, _attr(ctx).begin(), _attr(ctx).end());
};
auto const push_text = [](auto& ctx) { _val(ctx).push_back(text(_attr(ctx))); };
auto const push_name = [](auto& ctx) { _val(ctx).emplace_back(text(_attr(ctx))); };
/// Keeps where an expression that begins with a bracket or word starts.
auto const start = [](auto& ctx) { _val(ctx).first = _attr(ctx).begin(); };

auto const constant = span(kw("True") | kw("False") | kw("None"));
auto const strings_def = +string_text[push_text];
auto const atom_def = strings[make_strings] | name_text[make_name] | number_text[make_number] | paren[set] | list[set] |
                      dict[set] | span(lit("..."))[make_ellipsis] | constant[make_name];

// Brackets. The elements wait in the node as a tuple's children until it is known what the brackets mean.
auto const item_def = WholeOperandParser()[set] | (span(lit('*')) > operation)[([](auto& ctx) {
                        const char* first = at_c<0>(_attr(ctx)).begin();
                        Node& x = at_c<1>(_attr(ctx));
                        const char* last = x.last;
                        std::vector<Node> children;
                        children.push_back(std::move(x));
                        _val(ctx) = line(ctx).make(Kind::Starred, first, last, std::move(children));
                      })] |
                      named_expression[set];
auto const named_of = [](auto& ctx) {
  const Range& name = at_c<0>(_attr(ctx));
  Node& value = at_c<1>(_attr(ctx));
  const char* last = value.last;
  std::vector<Node> children;
  children.push_back(std::move(value));
  _val(ctx) = line(ctx).make(Kind::Named, name.begin(), last, std::move(children));
  _val(ctx).expr->text = std::string(text(name));
};
auto const named_expression_def = (name_text >> lit(":=") > expression)[named_of] | expression[set];
auto const push_item = [](auto& ctx) { _val(ctx).nodes.push_back(std::move(_attr(ctx))); };
auto const trailing_comma = [](auto& ctx) { _val(ctx).comma = matched_end(ctx); };
auto const items_def = item[push_item] >> *(lit(',') >> item[push_item]) >> -lit(',')[trailing_comma];
auto const targets_def = (primary[push_item] | item[push_item]) >>
                         *(lit(',') >> (primary[push_item] | item[push_item])) >> -lit(',')[trailing_comma];

auto const push_for = [](auto& ctx) {
  Node target = line(ctx).tuple_or_single(std::move(at_c<0>(_attr(ctx))));
  line(ctx).check_target(*target.expr);
  _val(ctx).emplace_back("for", std::move(target));
  _val(ctx).emplace_back("", std::move(at_c<1>(_attr(ctx))));
};
auto const push_if = [](auto& ctx) { _val(ctx).emplace_back("if", std::move(_attr(ctx))); };
auto const for_clause = (kw("for") > targets > in_word > disjunction)[push_for];
auto const clauses_def = for_clause >> *(for_clause | (kw("if") > disjunction)[push_if]);

auto const paren_items = [](auto& ctx) {
  Node& n = _val(ctx);
  Items& all = _attr(ctx);
  if (all.nodes.size() == 1 && !all.comma && all.nodes[0].expr->kind != Kind::Starred) {
    n.expr = std::move(all.nodes[0].expr);
    return;
  }
  n = line(ctx).make(Kind::Tuple, n.first, matched_end(ctx), std::move(all.nodes));
};
auto const comprehension_of = [](char bracket) {
  return [bracket](auto& ctx) {
    Node& n = _val(ctx);
    const char* first = n.first;
    if (bracket == '(' || n.expr->kind != Kind::List) {
      n = line(ctx).comprehension(bracket, std::move(n), std::move(_attr(ctx)), first, matched_end(ctx));
    } else {
      Node element{std::move(n.expr->children.at(0)), first, first};
      n = line(ctx).comprehension(bracket, std::move(element), std::move(_attr(ctx)), first, matched_end(ctx));
    }
  };
};
/// The closing bracket: the node ends here, and a tuple, list or dict has its place up to here.
auto const close = [](auto& ctx) {
  Node& n = _val(ctx);
  n.last = matched_end(ctx);
  if (n.expr && n.expr->kind != Kind::Tuple && n.expr->kind != Kind::List && n.expr->kind != Kind::Dict &&
      n.expr->kind != Kind::Comprehension)
    return;
  if (n.expr && n.expr->loc.column && n.expr->loc != line(ctx).loc(n.first, n.first + 1) &&
      line(ctx).loc(n.first, n.first + 1).column > n.expr->loc.column)
    return;
  if (n.expr) n.expr->loc = line(ctx).loc(n.first, n.last);
};
auto const empty_of = [](Kind kind) {
  return [kind](auto& ctx) { _val(ctx) = line(ctx).make(kind, _val(ctx).first, matched_end(ctx)); };
};
auto const list_items = [](auto& ctx) {
  _val(ctx) = line(ctx).make(Kind::List, _val(ctx).first, matched_end(ctx), std::move(_attr(ctx).nodes));
};

auto const paren_def = span(lit('('))[start] >>
                       (lit(')')[empty_of(Kind::Tuple)] |
                        (x3::eps > items[paren_items] >> -clauses[comprehension_of('(')] > close_paren[close]));
auto const list_def = span(lit('['))[start] >>
                      (lit(']')[empty_of(Kind::List)] |
                       (x3::eps > items[list_items] >> -clauses[comprehension_of('[')] > close_bracket[close]));

auto const push_node = [](auto& ctx) { _val(ctx).nodes.push_back(std::move(_attr(ctx))); };
// `**other` is a pair of the starred expression and None.
auto const push_unpacked = [](auto& ctx) {
  Node& n = _attr(ctx);
  const char *first = n.first, *last = n.last;
  std::vector<Node> child;
  child.push_back(std::move(n));
  _val(ctx).nodes.push_back(line(ctx).make(Kind::Starred, first, last, std::move(child)));
  _val(ctx).nodes.push_back(line(ctx).make(Kind::None, first, last));
};
auto const set_clauses = [](auto& ctx) { _val(ctx).clauses = std::move(_attr(ctx)); };
auto const set_display = [](auto& ctx) {
  const char *first = _val(ctx).nodes.back().first, *last = _val(ctx).nodes.back().last;
  _val(ctx).nodes.push_back(line(ctx).make(Kind::None, first, last));
  ++_val(ctx).lone;
};
// No alternative parses the key again: nested dicts would take twice as long with each level.
auto const set_element = &(lit(',') | lit('}')) >> x3::eps[set_display];
auto const pair = (lit("**") > expression)[push_unpacked] |
                  expression[push_node] >> (set_element | (x3::eps > dict_colon > expression[push_node]));
auto const dict_items_def = pair >> (clauses[set_clauses] | (*(lit(',') >> pair) >> -lit(',')));
auto const make_dict = [](auto& ctx) {
  DictItems& d = _attr(ctx);
  const char* first = _val(ctx).first;
  if (d.lone > 0) {
    if (2 * d.lone != d.nodes.size() || !d.clauses.empty())
      line(ctx).fail(d.nodes[0].first, d.nodes[0].last, "a dict has a value for each key, a set for none");
    std::vector<Node> elements;
    for (size_t i = 0; i < d.nodes.size(); i += 2) elements.push_back(std::move(d.nodes[i]));
    _val(ctx) = line(ctx).make(Kind::List, first, matched_end(ctx), std::move(elements));
    _val(ctx).expr->text = "set";
  } else if (d.clauses.empty()) {
    _val(ctx) = line(ctx).make(Kind::Dict, first, matched_end(ctx), std::move(d.nodes));
  } else {
    if (d.nodes[0].expr->kind == Kind::Starred)
      line(ctx).fail(d.nodes[0].first, d.nodes[0].last, "'**' cannot stand in a comprehension");
    const char *begin = d.nodes[0].first, *end = d.nodes[1].last;  // before the nodes are moved
    Node element = line(ctx).make(Kind::Tuple, begin, end, std::move(d.nodes));
    _val(ctx) = line(ctx).comprehension('{', std::move(element), std::move(d.clauses), first, matched_end(ctx));
  }
};
auto const dict_def = span(lit('{'))[start] >>
                      (lit('}')[empty_of(Kind::Dict)] | (x3::eps > dict_items[make_dict] > close_brace[close]));

// Calls, attributes, subscripts.
auto const positional = [](auto& ctx) {
  Node& n = _attr(ctx);
  if (!_val(ctx).keywords.empty() && n.expr->kind != Kind::Starred)
    line(ctx).fail(n.first, n.last, "a positional argument cannot follow a keyword argument",
                   "name it, or move it before '" + _val(ctx).keywords.back().name + "='");
  _val(ctx).positional.push_back(std::move(n));
};
auto const keyword = [](auto& ctx) {
  const Range& r = at_c<0>(_attr(ctx));
  std::string name(text(r));
  if (!_val(ctx).names.insert(name).second)
    line(ctx).fail(r.begin(), r.end(), "the argument '" + name + "' is given twice");
  _val(ctx).keywords.push_back({name, line(ctx).loc(r.begin(), r.end()), std::move(at_c<1>(_attr(ctx)).expr)});
};
auto const unpacked_dict = [](auto& ctx) {
  Node& n = _attr(ctx);
  _val(ctx).keywords.push_back({"", line(ctx).loc(n.first, n.last), std::move(n.expr)});
};
auto const generator_argument = [](auto& ctx) {
  Node& last = _val(ctx).positional.back();
  const char* first = last.first;
  last = line(ctx).comprehension('(', std::move(last), std::move(_attr(ctx)), first, matched_end(ctx));
};
auto const argument = (name_text >> (lit('=') >> !lit('=')) > expression)[keyword] |
                      (lit("**") > expression)[unpacked_dict] | (item[positional] >> -clauses[generator_argument]);
auto const argument_list_def = lit('(') > -(argument >> *(lit(',') >> argument) >> -lit(',')) > close_paren;

auto const slice_start = [](auto& ctx) {
  Index& i = _val(ctx);
  i.slice = true;
  if (!i.parts[0].first) i.parts[0].first = _attr(ctx).begin();
  i.parts[2].last = _attr(ctx).end();
};
template <int k>
auto const slice_part = [](auto& ctx) {
  Index& i = _val(ctx);
  const char* first = i.parts[0].first;
  i.parts[k] = std::move(_attr(ctx));
  if (i.slice) {
    i.parts[2].last = i.parts[k].last;
    i.parts[0].first = first;
  }
};
auto const slice_step_colon = [](auto& ctx) { _val(ctx).parts[2].last = _attr(ctx).end(); };
auto const slice_rest = span(lit(':'))[slice_start] >> -expression[slice_part<1>] >>
                        -(span(lit(':'))[slice_step_colon] >> -expression[slice_part<2>]);
auto const index_def = slice_rest | (item[slice_part<0>] >> -slice_rest);
auto const push_index = [](auto& ctx) { _val(ctx).push_back(std::move(_attr(ctx))); };
auto const index_list_def = lit('[') > index[push_index] >> *(lit(',') >> index[push_index]) >>
                            -lit(',') > close_bracket;

auto const attribute_of = [](auto& ctx) {
  const Range& r = _attr(ctx);
  const char* first = _val(ctx).first;
  std::vector<Node> children;
  children.push_back(std::move(_val(ctx)));
  _val(ctx) = line(ctx).make(Kind::Attribute, first, r.end(), std::move(children));
  _val(ctx).expr->text = std::string(text(r));
};
auto const call_of = [](auto& ctx) {
  _val(ctx) = line(ctx).call(std::move(_val(ctx)), std::move(_attr(ctx)), matched_end(ctx));
};
auto const subscript_of = [](auto& ctx) {
  _val(ctx) = line(ctx).subscript(std::move(_val(ctx)), std::move(_attr(ctx)), matched_end(ctx));
};
auto const primary_def = atom[set] >>
                         *((lit('.') > name_text[attribute_of]) | argument_list[call_of] | index_list[subscript_of]);

// Operators, from the tightest to the loosest.
auto const power_of = [](auto& ctx) {
  _val(ctx) = line(ctx).binary(std::move(_val(ctx)), "**", std::move(_attr(ctx)));
};
auto const unary_of = [](auto& ctx) {
  _val(ctx) = line(ctx).unary(text(at_c<0>(_attr(ctx))), std::move(at_c<1>(_attr(ctx))));
};
auto const power_def = primary[set] >> -(lit("**") >> !lit('=') > deeper[factor][power_of]);
auto const factor_def = PlainOperandParser()[set] | (span(x3::char_("+~-")) > deeper[factor])[unary_of] | power[set];

auto const first_operand = [](auto& ctx) { _val(ctx).first = std::move(_attr(ctx)); };
auto const next_operand = [](auto& ctx) {
  _val(ctx).rest.emplace_back(std::move(at_c<0>(_attr(ctx))), std::move(at_c<1>(_attr(ctx))));
};
auto const reduce_binary = [](auto& ctx) { _val(ctx) = line(ctx).binary_chain(std::move(_attr(ctx))); };
auto const reduce_compare = [](auto& ctx) { _val(ctx) = line(ctx).compare_chain(std::move(_attr(ctx))); };
auto const binary_operator = !lit("->") >> !lit("**") >> binary_operators >> !lit('=');
auto const binary_chain_def = factor[first_operand] >> *(binary_operator > factor)[next_operand];
auto const operation_def = binary_chain[reduce_binary];
auto const compare_chain_def = operation[first_operand] >> *(compare_operator > operation)[next_operand];
auto const comparison_def = compare_chain[reduce_compare];

auto const not_of = [](auto& ctx) {
  const Range& word = at_c<0>(_attr(ctx));
  _val(ctx) = line(ctx).unary(text(word), std::move(at_c<1>(_attr(ctx))));
};
auto const inversion_def = (span(kw("not")) > deeper[inversion])[not_of] | comparison[set];
auto const bool_of = [](const char* word) {
  return [word](auto& ctx) {
    Node& left = _val(ctx);
    Node& right = _attr(ctx);
    const char *first = left.first, *last = right.last;
    // a and b and c is one node; (a and b) and c, which covers a bracket, stays two.
    if (left.expr->kind == Kind::BoolOp && left.expr->text == word && *first != '(')
      return line(ctx).append(left, std::move(right));
    std::vector<Node> children;
    children.push_back(std::move(left));
    children.push_back(std::move(right));
    left = line(ctx).make(Kind::BoolOp, first, last, std::move(children));
    left.expr->text = word;
  };
};
auto const conjunction_def = inversion[set] >> *(kw("and") > inversion[bool_of("and")]);
auto const disjunction_def = conjunction[set] >> *(kw("or") > conjunction[bool_of("or")]);

auto const ternary = [](auto& ctx) {
  Node& condition = at_c<0>(_attr(ctx));
  Node& otherwise = at_c<1>(_attr(ctx));
  const char *first = _val(ctx).first, *last = otherwise.last;
  std::vector<Node> children;
  children.push_back(std::move(condition));
  children.push_back(std::move(_val(ctx)));
  children.push_back(std::move(otherwise));
  _val(ctx) = line(ctx).make(Kind::Ternary, first, last, std::move(children));
};
auto const make_lambda = [](auto& ctx) {
  const char* first = at_c<0>(_attr(ctx)).begin();
  Node& body = at_c<2>(_attr(ctx));
  const char* last = body.last;
  std::vector<Node> children;
  children.push_back(std::move(body));
  _val(ctx) = line(ctx).make(Kind::Lambda, first, last, std::move(children));
  _val(ctx).expr->names = std::move(at_c<1>(_attr(ctx)));
};
auto const lambda_name = -(lit("**") | lit('*')) >> name_text[push_name] >> -(lit('=') > x3::omit[expression]);
auto const lambda_names_def = -(lambda_name >> *(lit(',') >> lambda_name) >> -lit(','));
auto const lambda_def = (span(kw("lambda")) > lambda_names > lambda_colon > expression)[make_lambda];
auto const expression_def =
    WholeOperandParser()[set] | deeper[lambda][set] |
    (deeper[disjunction][set] >> -((kw("if") > disjunction) > (else_word > deeper[expression]))[ternary]);

// ---- Statements.

struct FromImport {
  std::string path;
  std::vector<ImportBinding> names;
};

x3::rule<struct statement_id, Statement> const statement{"a statement"};
x3::rule<struct expression_statement_id, Statement> const expression_statement{"a statement"};
x3::rule<struct function_id, Function> const function{"a name for the function"};
x3::rule<struct param_id, Param> const param{"a parameter"};
x3::rule<struct path_id, Range> const import_path{"the name of a module"};
x3::rule<struct import_name_id, ImportBinding> const import_name{"the name of a module"};
x3::rule<struct from_name_id, ImportBinding> const from_name{"a name"};
x3::rule<struct from_import_id, FromImport> const from_import{"the name of a module"};
x3::rule<struct function_name_id, Range> const function_name{"a name for the function"};
x3::rule<struct condition_id, Node> const condition{"a condition"};

template <class Context>
Stmt& begin_statement(Context& ctx, StmtKind kind) {
  Statement& s = _val(ctx);
  if (!s.stmt) {
    s.stmt = std::make_unique<Stmt>();
    s.stmt->loc = line(ctx).loc(line(ctx).begin(), line(ctx).end());
  }
  s.stmt->kind = kind;
  return *s.stmt;
}
auto const begins = [](StmtKind kind, Statement::Form form = Statement::Form::Simple) {
  return [kind, form](auto& ctx) {
    begin_statement(ctx, kind);
    _val(ctx).form = form;
  };
};
auto const value_items = [](auto& ctx) {
  _val(ctx).stmt->value = line(ctx).tuple_or_single(std::move(_attr(ctx))).expr;
};
auto const value_node = [](auto& ctx) { _val(ctx).stmt->value = std::move(_attr(ctx).expr); };
auto const message_node = [](auto& ctx) { _val(ctx).stmt->message = std::move(_attr(ctx).expr); };
auto const target_items = [](auto& ctx) {
  ExprPtr target = line(ctx).tuple_or_single(std::move(_attr(ctx))).expr;
  line(ctx).check_target(*target);
  _val(ctx).stmt->targets.push_back(std::move(target));
};

// Expression, assignment, augmented and annotated assignment begin alike.
auto const first_value = [](auto& ctx) {
  begin_statement(ctx, StmtKind::Expr).value = line(ctx).tuple_or_single(std::move(_attr(ctx))).expr;
};
auto const assign_next = [](auto& ctx) {
  Stmt& s = begin_statement(ctx, StmtKind::Assign);
  line(ctx).check_target(*s.value);
  s.targets.push_back(std::move(s.value));
  s.value = line(ctx).tuple_or_single(std::move(_attr(ctx))).expr;
};
auto const augment_by = [](auto& ctx) {
  Stmt& s = begin_statement(ctx, StmtKind::AugAssign);
  line(ctx).check_target(*s.value, true);
  s.text = std::move(at_c<0>(_attr(ctx)));
  s.targets.push_back(std::move(s.value));
  s.value = line(ctx).tuple_or_single(std::move(at_c<1>(_attr(ctx)))).expr;
};
auto const annotate = [](auto& ctx) {
  Stmt& s = begin_statement(ctx, StmtKind::AnnAssign);
  line(ctx).check_target(*s.value, true);
  s.targets.push_back(std::move(s.value));
  s.annotation = std::move(_attr(ctx).expr);
};
auto const equals = lit('=') >> !lit('=');
auto const expression_statement_def = items[first_value] >>
                                      (+(equals > items[assign_next]) | (augmented_operators > items)[augment_by] |
                                       (lit(':') >> !lit('=') > expression[annotate] > -(equals > items[value_items])) |
                                       x3::eps);

// Imports.
auto const import_path_def = raw[lexeme[*lit('.') >> -(WordParser() >> *(lit('.') >> WordParser()))]];
auto const bind_path = [](auto& ctx) {
  std::string_view path = text(_attr(ctx));
  if (path.empty()) return void(x3::_pass(ctx) = false);
  // `import a.b` binds a.
  std::string_view top = path.substr(0, path.find('.'));
  _val(ctx) = {std::string(top), std::string(top), line(ctx).loc(path.data(), path.data() + path.size())};
  _val(ctx).path = std::string(path);
};
auto const bind_as = [](auto& ctx) { _val(ctx).name = std::string(text(_attr(ctx))); };
auto const bind_top = [](auto& ctx) { _val(ctx).path = _val(ctx).name; };
auto const import_name_def = import_path[bind_path] >> ((kw("as") > name_text[bind_as]) | x3::eps[bind_top]);
auto const bind_name = [](auto& ctx) {
  const Range& r = _attr(ctx);
  _val(ctx) = {std::string(text(r)), std::string(text(r)), line(ctx).loc(r.begin(), r.end())};
};
auto const from_name_def = (name_text[bind_name] | span(lit('*'))[bind_name]) >> -(kw("as") > name_text[bind_as]);
auto const set_path = [](auto& ctx) {
  if (_attr(ctx).empty()) return void(x3::_pass(ctx) = false);
  _val(ctx).path = std::string(text(_attr(ctx)));
};
auto const push_from = [](auto& ctx) {
  ImportBinding& b = _attr(ctx);
  const std::string& path = _val(ctx).path;
  b.path = path.back() == '.' ? path + b.path : path + "." + b.path;
  _val(ctx).names.push_back(std::move(b));
};
auto const from_names = from_name[push_from] >> *(lit(',') >> from_name[push_from]) >> -lit(',');
auto const from_import_def = import_path[set_path] > import_word > ((lit('(') > from_names > close_paren) | from_names);
auto const push_import = [](auto& ctx) { _val(ctx).imports.push_back(std::move(_attr(ctx))); };
auto const set_imports = [](auto& ctx) { _val(ctx).imports = std::move(_attr(ctx).names); };

// Function heads.
auto const param_name = [](auto& ctx) {
  const Range& r = _attr(ctx);
  _val(ctx).name = std::string(text(r));
  _val(ctx).loc = line(ctx).loc(r.begin(), r.end());
};
auto const param_annotation = [](auto& ctx) { _val(ctx).annotation = std::move(_attr(ctx).expr); };
auto const param_default = [](auto& ctx) { _val(ctx).default_value = std::move(_attr(ctx).expr); };
auto const param_def = name_text[param_name] >> -(lit(':') > expression[param_annotation]) >>
                       -(lit('=') > expression[param_default]);
auto const push_param = [](auto& ctx) {
  Param& p = _attr(ctx);
  if (!p.default_value && !_val(ctx).params.empty() && _val(ctx).params.back().default_value && !_val(ctx).keyword_only)
    throw SyntaxError{p.loc, "the parameter '" + p.name + "' without a default follows one with a default", {}};
  _val(ctx).params.push_back(std::move(p));
};
auto const star_param = [](auto& ctx) { _val(ctx).keyword_only = _val(ctx).params.size(); };
auto const variadic_param = [](auto& ctx) {
  const Range& r = _attr(ctx);
  const Loc loc = line(ctx).loc(r.begin(), r.end());
  std::string_view name = text(r);
  const bool keywords = name.starts_with("**");
  name.remove_prefix(name.find_first_not_of("* \t"));
  if (keywords) {
    _val(ctx).variadic = loc;
    _val(ctx).keywords = Param{std::string(name), loc, nullptr, nullptr};
    return;
  }
  _val(ctx).keyword_only = _val(ctx).params.size();
  _val(ctx).rest = Param{std::string(name), loc, nullptr, nullptr};
};
auto const any_param = span((lit("**") | lit('*')) >> x3::omit[name_text])[variadic_param] >>
                           -(lit(':') > x3::omit[expression]) |
                       lit('*')[star_param] | lit('/') | param[push_param];
auto const set_function_name = [](auto& ctx) {
  const Range& r = _attr(ctx);
  _val(ctx).name = std::string(text(r));
  _val(ctx).loc = line(ctx).loc(r.begin(), r.end());
};
auto const set_returns = [](auto& ctx) { _val(ctx).returns = std::move(_attr(ctx).expr); };
auto const function_name_def = name_text;
auto const function_def = function_name[set_function_name] > open_paren >
                          -(any_param >> *(lit(',') >> any_param) >> -lit(',')) > close_paren >
                          -(lit("->") > expression[set_returns]) > def_colon;
auto const set_function = [](auto& ctx) {
  std::unordered_set<std::string_view> names;
  for (const Param& p : _attr(ctx).params)
    if (!names.insert(p.name).second) throw SyntaxError{p.loc, "the parameter '" + p.name + "' is there twice", {}};
  _val(ctx).form = Statement::Form::Def;
  _val(ctx).function = std::move(_attr(ctx));
};
auto const set_decorator = [](auto& ctx) {
  _val(ctx).form = Statement::Form::Decorator;
  _val(ctx).decorator = std::move(_attr(ctx).expr);
};
auto const set_else = [](auto& ctx) { _val(ctx).form = Statement::Form::Else; };
auto const end_of_head = [](auto& ctx) { _val(ctx).end = line(ctx).offset(matched_end(ctx)); };

using Form = Statement::Form;
auto const condition_def = named_expression;
auto const context = expression[push_item] >> -(kw("as") > x3::omit[name_text]);
auto const contexts_def = context >> *(lit(',') >> context);
auto const value_contexts = [](auto& ctx) {
  Items& all = _attr(ctx);
  const char *first = all.nodes.front().first, *last = all.nodes.back().last;
  _val(ctx).stmt->value = line(ctx).make(Kind::Tuple, first, last, std::move(all.nodes)).expr;
};
// Most statements begin with a name: then none of the words needs to be looked for.
auto const statement_of_word =
    (kw("if")[begins(StmtKind::If, Form::If)] > condition[value_node] > condition_colon[end_of_head]) |
    (kw("elif")[begins(StmtKind::If, Form::Elif)] > condition[value_node] > condition_colon[end_of_head]) |
    (kw("else")[set_else] > else_colon[end_of_head]) |
    (kw("for")[begins(StmtKind::For, Form::For)] > targets[target_items] > in_word > items[value_items] >
     loop_colon[end_of_head]) |
    (kw("while")[begins(StmtKind::While, Form::While)] > condition[value_node] > condition_colon[end_of_head]) |
    (kw("with")[begins(StmtKind::With, Form::With)] > contexts[value_contexts] > loop_colon[end_of_head]) |
    (kw("return")[begins(StmtKind::Return)] >> -items[value_items]) | kw("pass")[begins(StmtKind::Pass)] |
    kw("break")[begins(StmtKind::Break)] | kw("continue")[begins(StmtKind::Continue)] |
    (kw("assert")[begins(StmtKind::Assert)] > condition[value_node] > -(lit(',') > expression[message_node])) |
    (kw("raise")[begins(StmtKind::Raise)] >> -(expression[value_node] >> -(kw("from") > x3::omit[expression]))) |
    (kw("import")[begins(StmtKind::Import)] > import_name[push_import] >> *(lit(',') > import_name[push_import])) |
    (kw("from")[begins(StmtKind::Import)] > from_import[set_imports]) |
    (kw("def") > function[set_function] > x3::eps[end_of_head]) | (lit('@') > expression[set_decorator]);
auto const statement_def = (&(ReservedParser() | lit('@')) >> statement_of_word) | expression_statement[set];

BOOST_SPIRIT_DEFINE(name_text, number_text, string_text, compare_operator, expression, lambda, disjunction, conjunction,
                    inversion, comparison, compare_chain, operation, binary_chain, factor)
BOOST_SPIRIT_DEFINE(power, primary, atom, paren, list, dict, dict_items, strings, item, items, targets, clauses,
                    argument_list, index, index_list, lambda_names)
BOOST_SPIRIT_DEFINE(statement, expression_statement, function, param, import_path, import_name, from_name, from_import,
                    function_name, condition, named_expression, contexts)

auto const skipper = x3::char_(" \t\f\v\n");

ExprPtr embedded_expression(LineContext& context, const char*& first, const char* last) {
  Node node;
  try {
    if (x3::phrase_parse(first, last, x3::with<line_tag>(context)[expression], skipper, node))
      return std::move(node.expr);
  } catch (const x3::expectation_failure<const char*>&) {
  } catch (const SyntaxError&) {
  }
  return nullptr;
}

}  // namespace

bool is_reserved_word(std::string_view word) {
  // The first of the words that begin with a letter or one behind it: most words of a text have no such word.
  static constexpr auto kFirst = [] {
    std::array<uint8_t, 129> first{};
    for (size_t letter = 0; letter < first.size(); ++letter)
      while (first[letter] < kReserved.size() && size_t(kReserved[first[letter]][0]) < letter) ++first[letter];
    return first;
  }();
  if (word.empty() || (word[0] & 0x80)) return false;
  const auto letter = size_t(word[0]);
  return std::find(kReserved.begin() + kFirst[letter], kReserved.begin() + kFirst[letter + 1], word) !=
         kReserved.begin() + kFirst[letter + 1];
}

std::optional<Statement> parse_statement(const LogicalLine& line, size_t begin, size_t end, Diagnostics& diags) {
  LineContext context(line, begin, end);
  Statement result;
  const char* first = context.begin();
  const char* last = context.end();
  auto report = [&](const SyntaxError& e) { diags.error(e.loc, e.message).with_hint(e.hint); };
  try {
    if (!x3::phrase_parse(first, last, x3::with<line_tag>(context)[statement], skipper, result)) {
      report(context.expected("a statement", context.begin()));
      return std::nullopt;
    }
    bool head = result.end != 0;
    if (!head && first != last) {
      report(context.unexpected(first));
      return std::nullopt;
    }
    if (!head) result.end = end;
  } catch (const x3::expectation_failure<const char*>& e) {
    report(context.expected(e.which(), e.where()));
    return std::nullopt;
  } catch (const SyntaxError& e) {
    report(e);
    return std::nullopt;
  }
  return result;
}

}  // namespace tegula::language
