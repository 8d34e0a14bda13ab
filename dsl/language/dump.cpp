#include "dsl/language/dump.h"

#include <fmt/format.h>

namespace tegula::language {

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    if (c == '\n') {
      out += "\\n";
    } else if (c == '"' || c == '\\') {
      out += '\\', out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      out += fmt::format("\\x{:02x}", c);
    } else {
      out += c;
    }
  }
  return out + '"';
}

class Dumper {
 public:
  explicit Dumper(bool locations) : locations_(locations) {}

  std::string place(const Loc& loc) const {
    return locations_ ? fmt::format("@{}:{}-{}", loc.line, loc.column, loc.end_column) : std::string();
  }

  std::string operator()(const ExprPtr& e) const { return e ? (*this)(*e) : "_"; }

  std::string operator()(const Expr& e) const {
    switch (e.kind) {
      case Expr::Kind::Name:
        return e.text + place(e.loc);
      case Expr::Kind::Int:
        return fmt::format("{}{}", e.integer, place(e.loc));
      case Expr::Kind::Float:
        return fmt::format("{:#}{}", e.number, place(e.loc));
      case Expr::Kind::String:
        return quote(e.text) + place(e.loc);
      case Expr::Kind::Format: {
        std::string out = "(format " + quote(e.names[0]);
        for (size_t i = 0; i < e.children.size(); ++i)
          out += " " + (*this)(e.children[i]) + e.operators[i] + " " + quote(e.names[i + 1]);
        return out + ")" + place(e.loc);
      }
      case Expr::Kind::True:
        return "True" + place(e.loc);
      case Expr::Kind::False:
        return "False" + place(e.loc);
      case Expr::Kind::None:
        return "None" + place(e.loc);
      case Expr::Kind::Ellipsis:
        return "..." + place(e.loc);
      case Expr::Kind::Tuple:
        return list("tuple", e);
      case Expr::Kind::List:
        return list(e.text.empty() ? "list" : "set", e);
      case Expr::Kind::Dict:
        return list("dict", e);
      case Expr::Kind::Unary:
      case Expr::Kind::Binary:
      case Expr::Kind::BoolOp:
        return list(e.text, e);
      case Expr::Kind::Ternary:
        return list("if", e);
      case Expr::Kind::Starred:
        return list("*", e);
      case Expr::Kind::Named:
        return fmt::format("(:= {} {}){}", e.text, (*this)(e.children[0]), place(e.loc));
      case Expr::Kind::Slice:
        return list("slice", e);
      case Expr::Kind::Subscript:
        return list("index", e);
      case Expr::Kind::Attribute:
        return fmt::format("(. {} {}){}", (*this)(e.children[0]), e.text, place(e.loc));
      case Expr::Kind::Call: {
        std::string out = "(call";
        for (const ExprPtr& c : e.children) out += " " + (*this)(c);
        for (const Keyword& k : e.keywords)
          out += fmt::format(" {}={}", k.name.empty() ? "**" : k.name + place(k.loc), (*this)(k.value));
        return out + ")" + place(e.loc);
      }
      case Expr::Kind::Compare: {
        std::string out = "(compare " + (*this)(e.children[0]);
        for (size_t i = 0; i < e.operators.size(); ++i)
          out += fmt::format(" {} {}", e.operators[i], (*this)(e.children[i + 1]));
        return out + ")" + place(e.loc);
      }
      case Expr::Kind::Lambda:
        return fmt::format("(lambda [{}] {}){}", fmt::join(e.names, " "), (*this)(e.children[0]), place(e.loc));
      case Expr::Kind::Comprehension: {
        std::string out = fmt::format("(comprehension {} {}", e.text, (*this)(e.children[0]));
        size_t i = 1;
        for (const std::string& word : e.operators) {
          out += fmt::format(" {} {}", word, (*this)(e.children[i++]));
          if (word == "for") out += " in " + (*this)(e.children[i++]);
        }
        return out + ")" + place(e.loc);
      }
    }
    return "?";
  }

  void statements(const std::vector<StmtPtr>& body, int depth) {
    for (const StmtPtr& s : body) statement(*s, depth);
  }

  void line(int depth, const std::string& text) { out += std::string(size_t(2 * depth), ' ') + text + "\n"; }

  void statement(const Stmt& s, int depth) {
    std::string at = place(s.loc);
    std::string targets;
    for (const ExprPtr& t : s.targets) targets += " " + (*this)(t);
    std::string value = s.value ? " " + (*this)(s.value) : "";
    switch (s.kind) {
      case Stmt::Kind::Assign:
        return line(depth, fmt::format("assign{}{} ={}", at, targets, value));
      case Stmt::Kind::AugAssign:
        return line(depth, fmt::format("augment{}{} {}={}", at, targets, s.text, value));
      case Stmt::Kind::AnnAssign:
        return line(
            depth, fmt::format("annotate{}{} : {}{}", at, targets, (*this)(s.annotation), s.value ? " =" + value : ""));
      case Stmt::Kind::Expr:
        return line(depth, fmt::format("expr{}{}", at, value));
      case Stmt::Kind::Return:
        return line(depth, fmt::format("return{}{}", at, value));
      case Stmt::Kind::Pass:
        return line(depth, "pass" + at);
      case Stmt::Kind::Break:
        return line(depth, "break" + at);
      case Stmt::Kind::Continue:
        return line(depth, "continue" + at);
      case Stmt::Kind::Import:
        return line(depth, "import" + at);
      case Stmt::Kind::Foreign:
        return line(depth, fmt::format("foreign{}{}: {}", at, targets, s.text));
      case Stmt::Kind::Raise:
        return line(depth, fmt::format("raise{}{}", at, value));
      case Stmt::Kind::Assert:
        return line(depth, fmt::format("assert{}{}{}", at, value, s.message ? ", " + (*this)(s.message) : ""));
      case Stmt::Kind::If:
        line(depth, fmt::format("if{}{}", at, value));
        statements(s.body, depth + 1);
        if (!s.orelse.empty()) line(depth, "else");
        return statements(s.orelse, depth + 1);
      case Stmt::Kind::For:
        line(depth, fmt::format("for{}{} in{}", at, targets, value));
        statements(s.body, depth + 1);
        if (!s.orelse.empty()) line(depth, "else");
        return statements(s.orelse, depth + 1);
      case Stmt::Kind::While:
        line(depth, fmt::format("while{}{}", at, value));
        statements(s.body, depth + 1);
        if (!s.orelse.empty()) line(depth, "else");
        return statements(s.orelse, depth + 1);
      case Stmt::Kind::With:
        line(depth, fmt::format("with{}{}", at, value));
        return statements(s.body, depth + 1);
    }
  }

  void module_statement(const ModuleStatement& s) {
    if (s.kind == ModuleStatement::Kind::Run) statement(*s.statement, 0);
    if (s.kind == ModuleStatement::Kind::Test)
      line(0, fmt::format("test{} {}", place(s.loc), (*this)(*s.conditions.back().value)));
    if (s.kind == ModuleStatement::Kind::NotKnown)
      line(0, fmt::format("not known{}: {}", place(s.loc), fmt::join(s.names, " ")));
  }

  void function(const Function& f) {
    for (const Decorator& d : f.decorators) line(0, "@ " + (*this)(d.value));
    std::string params;
    for (const Param& p : f.params) {
      params += (params.empty() ? "" : ", ") + p.name + place(p.loc);
      if (p.annotation) params += ": " + (*this)(p.annotation);
      if (p.default_value) params += " = " + (*this)(p.default_value);
    }
    if (f.rest) params += (params.empty() ? "*" : ", *") + f.rest->name;
    line(0, fmt::format("def{} {}({}){}", place(f.loc), f.name, params, f.returns ? " -> " + (*this)(f.returns) : ""));
    statements(f.body, 1);
  }

  std::string out;

 private:
  std::string list(std::string_view head, const Expr& e) const {
    std::string out = fmt::format("({}", head);
    for (const ExprPtr& c : e.children) out += " " + (*this)(c);
    return out + ")" + place(e.loc);
  }

  bool locations_;
};

}  // namespace

std::string dump(const Expr& expr, bool locations) { return Dumper(locations)(expr); }

std::string dump(const Module& module, bool locations) {
  Dumper d(locations);
  for (const ImportBinding& b : module.imports)
    d.line(0, fmt::format("import{} {} = {}", d.place(b.loc), b.name, b.path));
  for (const ModuleStatement& s : module.statements) d.module_statement(s);
  for (const Function& f : module.functions) d.function(f);
  return d.out;
}

}  // namespace tegula::language
