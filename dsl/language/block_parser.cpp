// Functions and blocks of statements, by their indentation.
#include "dsl/language/block_parser.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace tegula::language {

namespace {

constexpr int kMaxBlocks = 100;
constexpr int kMaxElif = 300;

// Python statements that kernels cannot have; a compound one takes its block with it.
constexpr std::string_view kForeign[] = {"del",   "global", "nonlocal", "try",   "except", "finally",
                                         "class", "async",  "def",      "yield", "await"};

bool is_foreign(std::string_view word) {
  return std::find(std::begin(kForeign), std::end(kForeign), word) != std::end(kForeign);
}

// What to write in place of such a statement; empty where there is nothing.
const char* hint_for_foreign(std::string_view word) {
  if (word == "try") return "nothing is raised while a kernel runs: test with 'if', or with tl.device_assert";
  if (word == "global" || word == "nonlocal")
    return "what a kernel computes leaves it through memory: tl.store(p, value)";
  if (word == "del") return "a name that is not used any more costs nothing";
  if (word == "class") return "move it out of the kernel: @triton.language.core._aggregate, or a named tuple";
  return "";
}

Loc first_token(const LogicalLine& line) {
  std::string_view word = line.word();
  return line.loc(0, word.empty() ? 1 : word.size());
}

}  // namespace

Function BlockParser::parse_function(bool host) {
  host_ = host;
  LogicalLine& line = lines_[next_];
  Head head = parse_head(line);
  Function f;
  if (head.statement && head.statement->function) {
    f = std::move(*head.statement->function);
  } else {
    f.name = std::string(line.word(word_after(line, 3)));
    f.loc = line.loc(0, 3);
  }
  f.body = parse_suite(head, line, fmt::format("function '{}'", f.name));
  return f;
}

std::vector<StmtPtr> BlockParser::parse_host_line() {
  const size_t at = next_, mistakes = diags_.size();
  std::vector<StmtPtr> statements;
  host_ = true;
  parse_line(statements);
  next_ = at;
  if (diags_.size() == mistakes) return statements;
  diags_.shrink(mistakes);
  return {};
}

BlockParser::Head BlockParser::parse_head(LogicalLine& line) {
  Head head;
  if (!line.errors.empty()) {
    copy_errors(line.errors, diags_);
    return head;
  }
  auto [begin, end] = line.pieces[0];
  head.statement = parse_statement(line, begin, end, diags_);
  if (head.statement && head.statement->end < end) head.suite = word_after(line, head.statement->end);
  return head;
}

void BlockParser::skip_block(int indent) {
  while (more(indent)) ++next_;
}

std::vector<StmtPtr> BlockParser::parse_suite(const Head& head, LogicalLine& line, const std::string& owner) {
  ++next_;
  std::vector<StmtPtr> body;
  if (head.suite) {
    std::vector<std::pair<size_t, size_t>> pieces = line.pieces;
    pieces[0].first = head.suite;
    for (auto [begin, end] : pieces) parse_simple(line, begin, end, body);
    if (more(line.indent)) {
      diags_.error(first_token(lines_[next_]), "unexpected indentation")
          .with_hint(fmt::format("the block of {} stands on its own line already", owner));
      skip_block(line.indent);
    }
    return body;
  }
  if (line.pieces.size() > 1 && head.ok()) {
    parse_other_pieces(line, body);
    return body;
  }
  if (!more(line.indent)) {
    // After an erroneous head nothing is known of a block.
    if (head.ok()) {
      Loc at = next_ < lines_.size() ? first_token(lines_[next_])
                                     : line.loc(line.pieces.back().second - 1, line.pieces.back().second);
      diags_.error(at, fmt::format("expected an indented block after {}", owner))
          .with_note(first_token(line), "it begins here");
    }
    return body;
  }
  if (++depth_ > kMaxBlocks) {
    diags_.error(first_token(lines_[next_]), fmt::format("blocks are nested more than {} deep", kMaxBlocks));
    skip_block(line.indent);
  } else {
    parse_block(line, body);
  }
  --depth_;
  return body;
}

void BlockParser::parse_block(const LogicalLine& head, std::vector<StmtPtr>& body) {
  const int indent = lines_[next_].indent, narrow = lines_[next_].narrow_indent;
  const LogicalLine& first = lines_[next_];
  if (first.narrow_indent <= head.narrow_indent) report_tabs(first, head, false);
  int told = -1;  // one message for a run of lines with the same wrong indentation
  while (more(head.indent)) {
    LogicalLine& line = lines_[next_];
    if (line.indent == indent) {
      if (line.narrow_indent != narrow && told != line.narrow_indent) report_tabs(line, first);
      told = line.narrow_indent != narrow ? line.narrow_indent : -1;
    } else if (line.indent != told) {
      told = line.indent;
      report_indent(line, first, head);
    }
    parse_line(body);
  }
}

void BlockParser::report_tabs(const LogicalLine& line, const LogicalLine& first, bool of_block) {
  constexpr const char* kHint = "indent with spaces only: how wide a tab is depends on the reader";
  Loc at = first_token(line);
  if (line.tab_column && !first.tab_column) {
    at.column = line.tab_column, at.end_column = line.tab_column + 1;
    diags_.error(at, fmt::format("a tab in column {} of a line whose block is indented with spaces", at.column))
        .with_hint(of_block ? fmt::format("statements of this block begin in column {}; {}", first.indent + 1, kHint)
                            : kHint);
  } else if (first.tab_column && !line.tab_column) {
    diags_.error(at, "spaces before a line whose block is indented with tabs").with_hint(kHint);
  } else {
    diags_.error(at, "tabs and spaces are mixed in the indentation").with_hint(kHint);
  }
}

void BlockParser::parse_line(std::vector<StmtPtr>& body) {
  LogicalLine& line = lines_[next_];
  std::string_view word = line.word();
  if (host_ && word == "try") return parse_try(body);
  if (is_foreign(word) || line.text[0] == '@' || is_match()) return take_foreign(word, body);
  Head head = parse_head(line);
  if (!head.ok()) {
    if (line.errors.empty()) parse_other_pieces(line, body);
    // The block of a bad head is still looked at.
    parse_suite(head, line, {});
    return;
  }
  switch (head.statement->form) {
    case Statement::Form::If:
    case Statement::Form::Elif:
      if (head.statement->form == Statement::Form::Elif)
        diags_.error(first_token(line), "'elif' without an 'if' before it");
      body.push_back(parse_if(std::move(head)));
      break;
    case Statement::Form::Else:
      diags_.error(first_token(line), "'else' without an 'if' before it");
      parse_suite(head, line, "'else'");
      break;
    case Statement::Form::For:
    case Statement::Form::While:
      body.push_back(parse_loop(std::move(head), line));
      break;
    case Statement::Form::With: {
      StmtPtr s = std::move(head.statement->stmt);
      s->body = parse_suite(head, line, "'with'");
      body.push_back(std::move(s));
      break;
    }
    default:
      body.push_back(std::move(head.statement->stmt));
      parse_other_pieces(line, body);
      ++next_;
  }
}

bool BlockParser::is_match() const {
  const LogicalLine& line = lines_[next_];
  return line.word() == "match" && line.text.ends_with(':') && more_behind(line.indent) &&
         lines_[next_ + 1].word() == "case";
}

StmtPtr BlockParser::foreign(Loc loc, std::string_view what, std::string hint) {
  auto s = std::make_unique<Stmt>();
  s->kind = Stmt::Kind::Foreign;
  s->loc = loc;
  s->text = fmt::format("{} is not part of the kernel language", what);
  s->hint = std::move(hint);
  return s;
}

void BlockParser::take_foreign(std::string_view word, std::vector<StmtPtr>& body) {
  const LogicalLine& line = lines_[next_];
  const Loc loc = first_token(line);
  if (line.text[0] == '@') {
    body.push_back(foreign(loc, "a decorated function"));
    while (next_ < lines_.size() && lines_[next_].indent == line.indent && lines_[next_].text[0] == '@') ++next_;
    if (next_ >= lines_.size() || lines_[next_].indent != line.indent) return;
    word = lines_[next_].word();
  } else if (word == "def") {
    body.push_back(foreign(loc, "a nested function", "move it out of the kernel, with @triton.jit above it"));
  } else if (word == "match") {
    body.push_back(foreign(loc, "'match'", "write if and elif"));
  } else if (word != "except" && word != "finally") {  // these are told at their `try`
    body.push_back(foreign(loc, fmt::format("'{}'", word), hint_for_foreign(word)));
  }
  if (word == "try") return parse_try(body);
  const LogicalLine& last = lines_[next_++];
  if ((word == "def" || word == "class") && !body.empty()) {
    auto name = std::make_unique<Expr>();
    name->kind = Expr::Kind::Name;
    name->loc = loc;
    name->text = last.word(word_after(last, word.size()));
    if (!name->text.empty()) body.back()->targets.push_back(std::move(name));
  }
  skip_block(last.indent);
}

void BlockParser::parse_try(std::vector<StmtPtr>& body) {
  const int indent = lines_[next_].indent;
  for (bool first = true; next_ < lines_.size() && lines_[next_].indent == indent; first = false) {
    LogicalLine& line = lines_[next_];
    const std::string_view word = line.word();
    if (first ? word != "try" : word != "except" && word != "else" && word != "finally") return;
    ++next_;
    if (word == "except")
      skip_block(indent);
    else if (more(indent))
      parse_block(line, body);
  }
}

StmtPtr BlockParser::parse_loop(Head head, LogicalLine& line) {
  const bool is_for = head.statement->form == Statement::Form::For;
  StmtPtr s = std::move(head.statement->stmt);
  s->body = parse_suite(head, line, is_for ? "'for'" : "'while'");
  if (next_ < lines_.size() && lines_[next_].indent == line.indent && lines_[next_].word() == "else") {
    LogicalLine& other = lines_[next_];
    s->orelse = parse_suite(parse_head(other), other, "'else'");
  }
  return s;
}

StmtPtr BlockParser::parse_if(Head head) {
  StmtPtr first;
  std::vector<StmtPtr>* into = nullptr;
  int branches = 0;
  while (true) {
    LogicalLine& line = lines_[next_];
    bool elif = head.ok() && head.statement->form == Statement::Form::Elif;
    StmtPtr s = head.ok() && head.statement->stmt ? std::move(head.statement->stmt) : nullptr;
    std::vector<StmtPtr> block = parse_suite(head, line, elif ? "'elif'" : into && !s ? "'else'" : "'if'");
    std::vector<StmtPtr>* orelse = into;
    if (s) {
      s->body = std::move(block);
      orelse = &s->orelse;
      if (into) {
        into->push_back(std::move(s));
      } else {
        first = std::move(s);
      }
    } else if (into && head.ok()) {
      *into = std::move(block);
      return first;
    }
    into = orelse;
    if (next_ >= lines_.size() || lines_[next_].indent != line.indent) return first;
    std::string_view word = lines_[next_].word();
    if (word != "elif" && word != "else") return first;
    head = parse_head(lines_[next_]);
    if (++branches == kMaxElif) {
      diags_.error(first_token(lines_[next_]), fmt::format("more than {} branches in one 'if'", kMaxElif));
      head = {};
    }
  }
}

void BlockParser::parse_simple(const LogicalLine& line, size_t begin, size_t end, std::vector<StmtPtr>& body) {
  std::string_view word = line.word(begin);
  if (is_foreign(word)) {
    body.push_back(foreign(line.loc(begin, begin + word.size()), fmt::format("'{}'", word), hint_for_foreign(word)));
    return;
  }
  auto s = parse_statement(line, begin, end, diags_);
  if (!s) return;
  if (s->form != Statement::Form::Simple) {
    diags_.error(line.loc(begin, begin + std::max<size_t>(1, word.size())),
                 fmt::format("'{}' must begin a line of its own", word.empty() ? line.text.substr(begin, 1) : word));
    return;
  }
  body.push_back(std::move(s->stmt));
}

void BlockParser::parse_other_pieces(const LogicalLine& line, std::vector<StmtPtr>& body) {
  for (size_t i = 1; i < line.pieces.size(); ++i) parse_simple(line, line.pieces[i].first, line.pieces[i].second, body);
}

void BlockParser::report_indent(const LogicalLine& line, const LogicalLine& first, const LogicalLine& head) {
  if (!line.tab_column != !first.tab_column) {
    report_tabs(line, first);
  } else if (line.indent > first.indent) {
    diags_.error(first_token(line), "unexpected indentation")
        .with_hint(fmt::format("statements of this block begin in column {}", first.indent + 1));
  } else {
    diags_.error(first_token(line), "unindent does not match any outer indentation level")
        .with_hint(fmt::format("the block around it begins in column {}, the one outside it in column {}",
                               first.indent + 1, head.indent + 1));
  }
}

size_t BlockParser::word_after(const LogicalLine& line, size_t offset) {
  offset = line.text.find_first_not_of(" \t", offset);
  return offset == std::string::npos ? line.text.size() : offset;
}

void BlockParser::copy_errors(const std::vector<Diag>& errors, Diagnostics& to) {
  for (const Diag& d : errors) to.add(d).page = kStatementsPage;
}

}  // namespace tegula::language
