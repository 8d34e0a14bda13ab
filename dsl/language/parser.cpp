// A file as a module: finds the jit functions and parses them; the rest of the file is looked at only for imports,
// decorators and global values.
#include "dsl/language/parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <unordered_map>

#include "dsl/language/grammar.h"
#include "dsl/language/grammar_support.h"
#include "dsl/language/module_statements.h"
#include "dsl/language/splitter.h"

namespace tegula::language {

namespace {

/// Reads the host side of a file: which functions are kernels, imports, globals and the conditions they stand under.
class ModuleParser : private ModuleStatements {
 public:
  ModuleParser(std::string_view text, const std::string* file, Diagnostics& diags)
      : ModuleStatements(split(text, file), diags) {
    module_.file = file;
  }

  Module run() {
    const OnPage on_page(diags_, kStatementsPage);
    find_wrapped();
    scan_host();
    drop_methods();
    return std::move(module_);
  }

  std::optional<Function> signature(std::string_view name) {
    // The last one counts, as it does in Python.
    std::optional<Function> found;
    for (size_t i = 0; i < lines_.size(); ++i) {
      LogicalLine& line = lines_[i];
      if (line.word() != "def" || line.word(word_after(line, 3)) != name || !line.errors.empty()) continue;
      auto s = parse_statement(line, line.pieces[0].first, line.pieces[0].second, diags_);
      if (!s || !s->function) continue;
      found = std::move(s->function);
      for (size_t d = i; d-- > 0 && lines_[d].text[0] == '@' && lines_[d].errors.empty();) {
        auto decorator = parse_statement(lines_[d], 0, lines_[d].text.size(), diags_);
        if (decorator && decorator->decorator)
          found->decorators.insert(found->decorators.begin(),
                                   Decorator{decorator->decorator->loc, std::move(decorator->decorator)});
      }
    }
    return found;
  }

  std::optional<Function> host_function(std::string_view name) {
    std::optional<size_t> at;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const LogicalLine& line = lines_[i];
      if (line.indent == 0 && line.word() == "def" && line.word(word_after(line, 3)) == name) at = i;
    }
    if (!at) return std::nullopt;
    next_ = *at;
    return parse_function(/*host=*/true);
  }

  std::optional<Function> function_at(int line) {
    for (next_ = 0; next_ < lines_.size(); ++next_)
      if (lines_[next_].word() == "def" && lines_[next_].segments.front().line == line) return parse_function();
    return std::nullopt;
  }

  std::optional<Class> host_class(std::string_view name) {
    std::optional<size_t> at;
    for (size_t i = 0; i < lines_.size(); ++i) {
      const LogicalLine& line = lines_[i];
      if (line.word() == "class" && line.word(word_after(line, 5)) == name && line.errors.empty()) at = i;
    }
    if (!at) return std::nullopt;
    const LogicalLine& head = lines_[*at];
    Class out;
    out.name = name;
    out.loc = head.loc(0, head.text.size());
    out.bases = bases_of(head.text);
    out.is_aggregate = is_aggregate(*at);
    next_ = *at + 1;
    const int indent = more(head.indent) ? lines_[next_].indent : 0;
    while (more(head.indent)) {
      const LogicalLine& line = lines_[next_];
      if (line.indent == indent && line.word() == "def" && out.is_aggregate) {
        add_method(out);
        continue;
      }
      if (line.word() == "def" || line.word() == "class" || line.word() == "async") {
        next_ = end_of_block(next_);
        continue;
      }
      ++next_;
      bool is_followed = line.indent == indent && line.errors.empty();
      for (auto [begin, end] : line.pieces) is_followed = is_followed && add_fields(line, begin, end, out);
      if (!is_followed && line.text[0] != '@') {
        const std::vector<std::string> words = words_of(next_ - 1, next_);
        out.not_followed.insert(words.begin(), words.end());
      }
    }
    return out;
  }

 private:
  /// What stands between the brackets of `class X(A, b.C, metaclass=M):`.
  static std::vector<std::string> bases_of(std::string_view head) {
    std::vector<std::string> bases;
    const size_t open = head.find('('), close = head.find(')');
    if (open == head.npos || close == head.npos || close < open) return bases;
    for (std::string_view rest = head.substr(open + 1, close - open - 1); !rest.empty();) {
      const size_t comma = std::min(rest.find(','), rest.size());
      std::string base(rest.substr(0, comma));
      std::erase(base, ' ');
      if (!base.empty() && base.find('=') == base.npos) bases.push_back(std::move(base));
      rest.remove_prefix(std::min(comma + 1, rest.size()));
    }
    return bases;
  }

  /// Whether a decorator above the line is Triton's _aggregate, by whatever name it ends with so.
  bool is_aggregate(size_t line) const {
    for (size_t i = line; i-- > 0 && lines_[i].text[0] == '@' && lines_[i].indent == lines_[line].indent;)
      if (std::string_view(lines_[i].text).ends_with("aggregate")) return true;
    return false;
  }

  /// At the line `def` of a class.
  void add_method(Class& out) {
    const size_t before = diags_.size();
    Method method;
    for (size_t i = next_; i-- > 0 && lines_[i].text[0] == '@' && lines_[i].indent == lines_[next_].indent;)
      method.is_static = method.is_static || lines_[i].text == "@staticmethod";
    method.function = parse_function(/*host=*/true);
    for (size_t i = before; i < diags_.size(); ++i) method.mistakes.add(diags_.list()[i]);
    out.methods.push_back(std::move(method));
  }

  /// False where the statement is none that gives names values, or a docstring or `pass`.
  static bool add_fields(const LogicalLine& line, size_t begin, size_t end, Class& out) {
    Diagnostics ignored;
    auto s = parse_statement(line, begin, end, ignored);
    if (!s || !s->stmt || s->form != Statement::Form::Simple) return false;
    Stmt& stmt = *s->stmt;
    if (stmt.kind != Stmt::Kind::Assign && stmt.kind != Stmt::Kind::AnnAssign)
      return stmt.kind == Stmt::Kind::Pass || (stmt.kind == Stmt::Kind::Expr && stmt.value->kind == Expr::Kind::String);
    bool is_followed = true;
    for (const ExprPtr& target : stmt.targets) {
      is_followed = is_followed && target->kind == Expr::Kind::Name;
      if (target->kind == Expr::Kind::Name)
        out.fields.push_back({target->text, target->loc, stmt.annotation ? clone(*stmt.annotation) : nullptr,
                              stmt.value ? clone(*stmt.value) : nullptr});
    }
    return is_followed;
  }

  // ---- The host side of the file.

  /// Before the main pass: imports (they tell what `jit` is) and functions that are wrapped: kernel = triton.jit(fn).
  void find_wrapped() {
    std::vector<int> functions;  // indents of the functions and classes around the line
    for (LogicalLine& line : lines_) {
      while (!functions.empty() && line.indent <= functions.back()) functions.pop_back();
      std::string_view word = line.word();
      if ((word == "import" || word == "from") && line.errors.empty()) add_imports(line, functions.empty());
      if (word == "def" || word == "class" || word == "async") functions.push_back(line.indent);
    }
    module_.imports.insert(module_.imports.end(), inner_imports_.begin(), inner_imports_.end());
    for (LogicalLine& line : lines_) {
      if (line.text.find("jit") == std::string::npos || line.text.find('=') == std::string::npos) continue;
      if (!line.errors.empty() || is_reserved_word(line.word()) || line.word().empty()) continue;
      Diagnostics ignored;
      auto s = parse_statement(line, line.pieces[0].first, line.pieces[0].second, ignored);
      if (s && s->stmt && s->stmt->kind == Stmt::Kind::Assign) collect_wrapped(*s->stmt->value);
    }
  }

  void add_imports(const LogicalLine& line, bool of_module) {
    Diagnostics ignored;
    for (auto [begin, end] : line.pieces) {
      auto s = parse_statement(line, begin, end, ignored);
      if (!s) continue;
      for (ImportBinding& b : s->imports) {
        // Inside a function an import binds less: it counts where the module has no such name.
        if (of_module) {
          paths_[b.name] = b.path;  // the last one counts
          module_.imports.push_back(std::move(b));
        } else if (!import_path(b.name)) {
          inner_paths_.emplace(b.name, b.path);
          inner_imports_.push_back(std::move(b));
        }
      }
    }
  }

  void collect_wrapped(const Expr& e) {
    if (e.kind == Expr::Kind::Call && e.children.size() == 2 && is_jit(*e.children[0]) &&
        e.children[1]->kind == Expr::Kind::Name)
      wrapped_.insert(e.children[1]->text);
    for (const ExprPtr& c : e.children)
      if (c) collect_wrapped(*c);
    for (const Keyword& k : e.keywords) collect_wrapped(*k.value);
  }

  const std::string* import_path(const std::string& name) const {
    for (const auto* paths : {&paths_, &inner_paths_})
      if (auto it = paths->find(name); it != paths->end()) return &it->second;
    return nullptr;
  }

  /// triton.jit under whatever name it was imported; not the jit of another library or dialect.
  bool is_jit(const Expr& e) const {
    if (e.kind == Expr::Kind::Call) return is_jit(*e.children[0]);
    std::string name = dotted_name(e);
    size_t dot = name.find('.');
    std::string top = name.substr(0, dot), rest = dot == std::string::npos ? "" : name.substr(dot);
    const std::string* path = import_path(top);
    if (!path && name == "jit") return true;
    std::string full = "." + (path ? *path : top) + rest + ".";
    bool ends_in_jit = full.size() >= 5 && full.compare(full.size() - 5, 5, ".jit.") == 0;
    bool relative = path && path->front() == '.';  // inside a package: taken as Triton's
    return ends_in_jit && (relative || full.find(".triton.") != std::string::npos) &&
           full.find(".gluon.") == std::string::npos;
  }

  /// A name alone does not mean a function of a class where the module has one of that name.
  void drop_methods() {
    std::set<std::string> names;
    for (size_t i = 0; i < module_.functions.size(); ++i)
      if (!methods_.contains(i)) names.insert(module_.functions[i].name);
    std::vector<Function> kept;
    for (size_t i = 0; i < module_.functions.size(); ++i)
      if (!methods_.contains(i) || !names.contains(module_.functions[i].name))
        kept.push_back(std::move(module_.functions[i]));
    module_.functions = std::move(kept);
  }

  /// Adds the decorator in the line. Returns whether it makes a kernel function, as far as can be told after an error.
  bool add_decorator(LogicalLine& line, std::vector<Decorator>& decorators, Diagnostics& errors) {
    std::optional<Statement> s;
    if (line.errors.empty())
      s = parse_statement(line, line.pieces[0].first, line.pieces.back().second, errors);
    else
      copy_errors(line.errors, errors);
    if (!s || !s->decorator) return line.text.find("triton.jit") != std::string::npos;
    const bool jit = is_jit(*s->decorator);
    decorators.push_back({s->decorator->loc, std::move(s->decorator)});
    return jit;
  }

  /// The function of the language that begins in the current line.
  Function kernel_function(std::vector<Decorator> decorators, bool of_module) {
    Function f = parse_function();
    f.decorators = std::move(decorators);
    if (f.variadic) {
      auto s = std::make_unique<Stmt>();
      s->kind = Stmt::Kind::Foreign;
      s->loc = f.variadic;
      s->text = "a kernel function cannot take '**' parameters";
      s->hint = "name each parameter";
      f.body.insert(f.body.begin(), std::move(s));
    }
    if (of_module) f.conditions = conditions();
    return f;
  }

  void scan_host() {
    std::vector<int> scopes;     // indents of the functions and classes around the line
    std::vector<bool> in_class;  // which of them are classes
    std::vector<Decorator> decorators;
    Diagnostics decorator_errors;
    bool jit = false;
    size_t first_decorator = SIZE_MAX;  // its line
    while (next_ < lines_.size()) {
      LogicalLine& line = lines_[next_];
      while (!scopes.empty() && line.indent <= scopes.back()) scopes.pop_back();
      in_class.resize(scopes.size());
      if (scopes.empty()) leave_branches(line);
      std::string_view word = line.word();
      if (line.text[0] == '@') {
        first_decorator = std::min(first_decorator, next_++);
        jit |= add_decorator(line, decorators, decorator_errors);
        continue;
      }
      const bool is_kernel = word == "def" && (jit || is_wrapped(line));
      const bool scope = word == "def" || word == "class" || word == "async";
      if (scope && scopes.empty()) define(first_decorator, is_kernel);
      if (is_kernel) {
        copy_errors(decorator_errors.list(), diags_);
        Function f = kernel_function(std::move(decorators), scopes.empty());
        if (!in_class.empty() && in_class.back()) methods_.insert(module_.functions.size());
        module_.functions.push_back(std::move(f));
      } else {
        if (scopes.empty() && !scope && !enter_branch(line)) module_statement(line);
        if (scopes.size() == 1 && in_class.back() && !scope && line.text.find('(') != line.text.npos)
          add_not_known(next_, next_ + 1, {});  // the body of a class runs as the module does
        if (scope) {
          scopes.push_back(line.indent);
          in_class.push_back(word == "class");
        }
        ++next_;
        // A line that swallows the rest of the file may hide kernels: told even though it is no kernel's.
        if (next_ == lines_.size() && !line.errors.empty() && line.segments.size() > 1)
          copy_errors(line.errors, diags_);
      }
      decorators.clear();
      decorator_errors = {};
      jit = false;
      first_decorator = SIZE_MAX;
    }
  }

  bool is_wrapped(const LogicalLine& def) const {
    return !wrapped_.empty() && wrapped_.count(std::string(def.word(word_after(def, 3))));
  }

  std::vector<ImportBinding> inner_imports_;
  std::unordered_map<std::string, std::string> paths_, inner_paths_;  // of imports, by name
  std::set<std::string> wrapped_;
  std::set<size_t> methods_;  // which of the functions stand in a class
};

// Where the text stops being UTF-8 without NULs; its size if it does not.
size_t first_bad_byte(std::string_view text) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const auto is_plain = [](char c) { return static_cast<unsigned char>(c) - 1u < 0x7f; };
  constexpr size_t kChunk = 32;  // looked at without a branch for each byte
  for (size_t at = 0; at < text.size();) {
    if (at + kChunk <= text.size()) {
      bool plain = true;
      for (size_t i = 0; i < kChunk; ++i) plain &= is_plain(text[at + i]);
      if (plain) {
        at += kChunk;
        continue;
      }
    }
    if (is_plain(text[at])) {
      ++at;
      continue;
    }
    size_t count = byte(at) < 0x80 ? 1 : byte(at) >= 0xf0 ? 4 : byte(at) >= 0xe0 ? 3 : byte(at) >= 0xc2 ? 2 : 0;
    if (count == 0 || byte(at) == 0 || byte(at) > 0xf4 || at + count > text.size()) return at;
    for (size_t i = 1; i < count; ++i)
      if ((byte(at + i) & 0xc0) != 0x80) return at;
    at += count;
  }
  return text.size();
}

}  // namespace

Module parse(std::string_view text, std::string_view file, Diagnostics& diags) {
  const std::string* name = intern_file(file);
  diags.sources().add(name, std::string(text));
  if (size_t bad = first_bad_byte(text); bad < text.size()) {
    std::string_view before = text.substr(0, bad);
    auto line = 1 + int(std::count(before.begin(), before.end(), '\n'));
    size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    diags
        .error({name, line,
                1 + int(std::count_if(before.begin() + start, before.end(),
                                      [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; })),
                0},
               fmt::format("the byte 0x{:02x} is no UTF-8 text", static_cast<unsigned char>(text[bad])))
        .with_hint("is this a kernel file? It has to be a Triton source file in UTF-8");
    Module empty;
    empty.file = name;
    return empty;
  }
  return ModuleParser(text, name, diags).run();
}

std::optional<Function> parse_signature(std::string_view text, std::string_view file, std::string_view name) {
  Diagnostics ignored;
  return ModuleParser(text, intern_file(file), ignored).signature(name);
}

std::optional<Function> parse_host_function(std::string_view text, std::string_view file, std::string_view name,
                                            Diagnostics& diags) {
  return ModuleParser(text, intern_file(file), diags).host_function(name);
}

std::optional<Function> parse_function_at(std::string_view text, std::string_view file, int line) {
  Diagnostics ignored;
  return ModuleParser(text, intern_file(file), ignored).function_at(line);
}

std::optional<Class> parse_class(std::string_view text, std::string_view file, std::string_view name) {
  Diagnostics ignored;
  return ModuleParser(text, intern_file(file), ignored).host_class(name);
}

std::string dotted_name(const Expr& e) {
  if (e.kind == Expr::Kind::Name) return e.text;
  if (e.kind != Expr::Kind::Attribute) return {};
  std::string base = dotted_name(*e.children[0]);
  return base.empty() ? base : base + "." + e.text;
}

}  // namespace tegula::language
