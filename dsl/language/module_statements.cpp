#include "dsl/language/module_statements.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "dsl/language/grammar.h"
#include "dsl/language/splitter.h"

namespace tegula::language {

void ModuleStatements::leave_branches(const LogicalLine& line) {
  const std::string_view word = line.word();
  const bool goes_on = word == "elif" || word == "else" || word == "except" || word == "finally";
  while (!branches_.empty() &&
         (line.indent < branches_.back().indent || (line.indent == branches_.back().indent && !goes_on)))
    branches_.pop_back();
}

bool ModuleStatements::enter_branch(const LogicalLine& line) {
  const std::string_view word = line.word();
  static constexpr std::string_view kWords[] = {"if",      "elif", "else",  "try", "except",
                                                "finally", "for",  "while", "with"};
  const bool has_block = more_behind(line.indent);
  const bool goes_on = !branches_.empty() && branches_.back().indent == line.indent;
  if (in_whole(goes_on)) return true;
  if (std::find(std::begin(kWords), std::end(kWords), word) == std::end(kWords)) {
    if (has_block) begin_whole(line, {});  // `match`, `async for`
    return has_block;
  }
  if (word == "for" || word == "while") {
    begin_whole(line, parse_host_line());
    return true;
  }
  Branch branch{line.indent, {}};
  if (goes_on) {
    branch = std::move(branches_.back());
    branches_.pop_back();
    if (word == "finally")
      branch.conditions.clear();
    else if (!branch.conditions.empty())
      branch.conditions.back().holds = branch.conditions.back().of_try && word == "else";
  }
  if (word == "try") branch.conditions.push_back(condition_of_try(line));
  if (word == "if" || word == "elif") {
    Diagnostics ignored;
    auto s = line.errors.empty() ? parse_statement(line, line.pieces[0].first, line.pieces[0].second, ignored)
                                 : std::nullopt;
    const bool is_found = s && s->stmt && s->stmt->value;
    std::shared_ptr<const Expr> condition;
    if (is_found)
      condition = std::move(s->stmt->value);
    else
      condition = unknown_condition(line);
    branch.conditions.push_back({std::move(condition), true});
    branches_.push_back(std::move(branch));
    module_.statements.push_back(
        {.kind = ModuleStatement::Kind::Test, .loc = line.loc(0, word.size()), .conditions = conditions()});
    if (!is_found) add_not_known(next_, next_ + 1, {});
    return has_block;
  }
  if (word == "with") enter_context(line);
  branches_.push_back(std::move(branch));
  return has_block;
}

Condition ModuleStatements::condition_of_try(const LogicalLine& line) {
  auto e = std::make_shared<Expr>();
  e->kind = Expr::Kind::True;
  e->loc = line.loc(0, line.word().size());
  return {.value = std::move(e), .of_try = true};
}

std::shared_ptr<const Expr> ModuleStatements::unknown_condition(const LogicalLine& line) {
  auto e = std::make_shared<Expr>();
  e->kind = Expr::Kind::Ellipsis;
  e->loc = line.loc(0, line.text.size());
  return e;
}

bool ModuleStatements::in_whole(bool goes_on) const {
  for (const Branch& b : branches_)
    if (b.whole && (&b != &branches_.back() || !goes_on || lines_[next_].word() == "else")) return true;
  return false;
}

void ModuleStatements::begin_whole(const LogicalLine& line, std::vector<StmtPtr> statements) {
  const size_t end = end_of_block(next_);
  const bool is_followed = !statements.empty() && std::none_of(statements.begin(), statements.end(), holds_foreign);
  if (!is_followed) {
    add_not_known(next_, end, assigned_in(next_, end));
  } else {
    for (StmtPtr& s : statements) add_statement(std::move(s));
  }
  branches_.push_back({line.indent, {}, true});
}

bool ModuleStatements::holds_foreign(const StmtPtr& s) {
  return s->kind == Stmt::Kind::Foreign || std::any_of(s->body.begin(), s->body.end(), holds_foreign) ||
         std::any_of(s->orelse.begin(), s->orelse.end(), holds_foreign);
}

void ModuleStatements::enter_context(const LogicalLine& line) {
  Diagnostics ignored;
  auto s =
      line.errors.empty() ? parse_statement(line, line.pieces[0].first, line.pieces[0].second, ignored) : std::nullopt;
  std::vector<std::string> given;
  const auto words = words_in(std::string_view(line.text).substr(0, line.text.find(':')));
  for (size_t i = 1; i < words.size(); ++i)
    if (words[i - 1] == "as") given.emplace_back(words[i]);
  if (!s || !s->stmt) return add_not_known(next_, next_ + 1, std::move(given));
  s->stmt->kind = Stmt::Kind::Expr;
  add_statement(std::move(s->stmt));
  if (!given.empty()) {
    add_not_known(next_, next_ + 1, std::move(given));
    module_.statements.back().words.clear();
  }
}

std::vector<Condition> ModuleStatements::conditions() const {
  std::vector<Condition> all;
  for (const Branch& b : branches_) all.insert(all.end(), b.conditions.begin(), b.conditions.end());
  return all;
}

void ModuleStatements::add_statement(StmtPtr s) {
  const Loc loc = s->loc;
  module_.statements.push_back(
      {.kind = ModuleStatement::Kind::Run, .loc = loc, .statement = std::move(s), .conditions = conditions()});
}

void ModuleStatements::add_not_known(size_t begin, size_t end, std::vector<std::string> names) {
  const LogicalLine& line = lines_[begin];
  module_.statements.push_back({.kind = ModuleStatement::Kind::NotKnown,
                                .loc = line.loc(0, line.text.size()),
                                .conditions = conditions(),
                                .names = std::move(names),
                                .words = words_of(begin, end)});
}

size_t ModuleStatements::end_of_block(size_t line) const {
  size_t end = line + 1;
  while (end < lines_.size() && lines_[end].indent > lines_[line].indent) ++end;
  return end;
}

namespace {

void append_words(std::string_view text, std::vector<std::string_view>& words) {
  for (size_t at = 0; at < text.size();) {
    size_t end = at;
    while (end < text.size() && is_word_char(text[end])) ++end;
    if (end > at && is_word_start(text[at])) words.push_back(text.substr(at, end - at));
    at = std::max(end, at + 1);
  }
}

/// In order.
std::vector<std::string> each_once(std::vector<std::string_view> words) {
  std::sort(words.begin(), words.end());
  return {words.begin(), std::unique(words.begin(), words.end())};
}

}  // namespace

std::vector<std::string_view> ModuleStatements::words_in(std::string_view text) {
  std::vector<std::string_view> words;
  append_words(text, words);
  return words;
}

std::vector<std::string> ModuleStatements::words_of(size_t begin, size_t end) const {
  std::vector<std::string_view> words;
  for (size_t i = begin; i < end; ++i) append_words(lines_[i].text, words);
  return each_once(std::move(words));
}

size_t ModuleStatements::end_of_assigned(const LogicalLine& line) {
  static constexpr std::string_view kHeads[] = {"for", "with", "case", "del", "import", "from", "async"};
  const std::string& text = line.text;
  if (std::find(std::begin(kHeads), std::end(kHeads), line.word()) != std::end(kHeads)) return text.size();
  size_t last = 0;
  for (size_t at = text.find('='); at != text.npos; at = text.find('=', at + 1)) {
    const bool compares =
        (at + 1 < text.size() && text[at + 1] == '=') ||
        (at > 0 && (text[at - 1] == '=' || text[at - 1] == '!' || text[at - 1] == '<' || text[at - 1] == '>'));
    if (!compares) last = at;
  }
  return last;
}

std::vector<std::string> ModuleStatements::assigned_in(size_t begin, size_t end) const {
  std::vector<std::string_view> names;
  for (size_t i = begin; i < end; ++i)
    append_words(std::string_view(lines_[i].text).substr(0, end_of_assigned(lines_[i])), names);
  return each_once(std::move(names));
}

std::vector<std::string> ModuleStatements::attributes_in(size_t begin, size_t end,
                                                         const std::vector<std::string>& words) const {
  std::vector<std::string_view> attributes;
  for (const char* all : {"setattr", "delattr", "__dict__", "vars"})
    if (std::binary_search(words.begin(), words.end(), all)) attributes.push_back(all);
  std::vector<std::string_view> names;
  for (size_t i = begin; i < end; ++i) {
    const std::string_view text = lines_[i].text;
    if (text.find('.') == text.npos) continue;
    names.clear();
    append_words(text.substr(0, end_of_assigned(lines_[i])), names);
    for (std::string_view name : names)
      if (text.find("." + std::string(name)) != text.npos) attributes.push_back(name);
  }
  return each_once(std::move(attributes));
}

// `global a, b` is a statement of its own, perhaps behind a head; texts may have the word too.
void ModuleStatements::add_globals(const LogicalLine& line, std::vector<std::string>& names) {
  static constexpr std::string_view kWord = "global";
  for (const auto& [begin, end] : line.pieces) {
    const std::string_view piece = std::string_view(line.text).substr(begin, end - begin);
    for (size_t at = piece.find(kWord); at != piece.npos; at = piece.find(kWord, at + 1)) {
      const size_t ahead = at == 0 ? piece.npos : piece.find_last_not_of(" \t\n", at - 1);
      const std::string_view behind = piece.substr(at + kWord.size());
      const bool is_word = !behind.empty() && !is_word_char(behind[0]);
      const bool is_list = std::all_of(behind.begin(), behind.end(), [](char c) {
        return is_word_char(c) || std::string_view(", \t\n\\").find(c) != std::string_view::npos;
      });
      if (!is_word || !is_list || (ahead != piece.npos && piece[ahead] != ':')) continue;
      for (std::string_view name : words_in(behind)) names.emplace_back(name);
    }
  }
}

void ModuleStatements::define(size_t first_decorator, bool is_kernel) {
  using Of = ModuleStatement::Of;
  const LogicalLine& line = lines_[next_];
  const bool is_class = line.word() == "class";
  const size_t name = word_after(line, line.word().size()), end = end_of_block(next_);
  if (first_decorator < next_ && !is_kernel) {
    add_not_known(first_decorator, next_, {});
    module_.statements.back().decorated = std::exchange(module_.statements.back().words, {});
  }
  ModuleStatement s{.kind = ModuleStatement::Kind::Define, .loc = line.loc(0, line.word().size())};
  s.conditions = conditions();
  s.of = is_kernel ? Of::Kernel : is_class ? Of::Class : Of::Function;
  s.names.emplace_back(line.word(line.word() == "async" ? word_after(line, name + 3) : name));
  const bool is_followed = !in_whole(false);  // so is the loop around it, if any
  // A kernel runs on the device: what stands in it counts only where it decides about a `try` or a loop.
  if (!is_kernel || !is_followed || !s.conditions.empty()) s.words = words_of(next_, end);
  if (!is_kernel) {
    s.head = words_of(next_, next_ + 1);
    s.attributes = attributes_in(next_, end, s.words);
    for (const std::string& word : s.head)
      if (word != s.names[0] && line.text.find(word + "(") != line.text.npos) s.called.push_back(word);
  }
  for (size_t i = next_; i < end && !is_kernel; ++i) add_globals(lines_[i], s.sets);
  if (!is_followed) {
    s.kind = ModuleStatement::Kind::NotKnown;
    s.of = Of::Nothing;
  }
  module_.statements.push_back(std::move(s));
  if (first_decorator < next_) module_.statements.back().decorated = words_of(first_decorator, next_);
}

void ModuleStatements::module_statement(const LogicalLine& line) {
  if (in_whole(false)) return;
  if (!line.errors.empty()) return add_not_known(next_, next_ + 1, assigned_in(next_, next_ + 1));
  const std::string_view word = line.word();
  static constexpr std::string_view kHeads[] = {"if", "elif", "else", "try", "except", "finally", "with"};
  bool is_head = std::find(std::begin(kHeads), std::end(kHeads), word) != std::end(kHeads);
  for (auto [begin, end] : line.pieces) {
    if (std::exchange(is_head, false)) begin = end_of_head(line, begin, end);
    if (begin < end) module_piece(line, begin, end);
  }
}

size_t ModuleStatements::end_of_head(const LogicalLine& line, size_t begin, size_t end) const {
  Diagnostics ignored;
  const auto s = parse_statement(line, begin, end, ignored);
  if (s && s->form != Statement::Form::Simple) return s->end < end ? word_after(line, s->end) : end;
  const size_t colon = line.text.find(':', begin);  // `try:` and the like
  return colon < end ? std::min(end, word_after(line, colon + 1)) : end;
}

void ModuleStatements::module_piece(const LogicalLine& line, size_t begin, size_t end) {
  Diagnostics ignored;
  auto s = parse_statement(line, begin, end, ignored);
  const Loc loc = line.loc(begin, end);
  if (s && !s->imports.empty()) {
    ModuleStatement import{.kind = ModuleStatement::Kind::Define, .loc = loc};
    import.conditions = conditions();
    import.of = ModuleStatement::Of::Import;
    for (const ImportBinding& b : s->imports) import.names.push_back(b.name);
    module_.statements.push_back(std::move(import));
    return;
  }
  if (s && s->form == Statement::Form::Simple && s->stmt) {
    const Stmt& stmt = *s->stmt;
    const bool is_text = stmt.kind == Stmt::Kind::Expr && stmt.value->kind == Expr::Kind::String;
    if (stmt.kind != Stmt::Kind::Pass && !is_text) add_statement(std::move(s->stmt));
    return;
  }
  const std::string_view text = std::string_view(line.text).substr(begin, end - begin);
  add_not_known(next_, next_ + 1,
                text.starts_with("global") ? std::vector<std::string>() : assigned_in(next_, next_ + 1));
}

}  // namespace tegula::language
