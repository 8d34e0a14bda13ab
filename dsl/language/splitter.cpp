#include "dsl/language/splitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace tegula::language {

namespace {

constexpr size_t kMaxBrackets = 64;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\f' || c == '\v'; }

bool is_continuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

int count_characters(std::string_view text) {
  return int(text.size()) - int(std::count_if(text.begin(), text.end(), is_continuation));
}

template <size_t N>
bool contains(const std::array<std::string_view, N>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

// Words that begin a statement and can never stand inside brackets.
constexpr std::array<std::string_view, 18> kStatementWords = {
    "def",   "class", "return", "while",  "import",  "pass", "break",  "continue", "assert",
    "raise", "with",  "try",    "except", "finally", "del",  "global", "nonlocal", "elif"};
// Words that may follow an operand inside brackets.
constexpr std::array<std::string_view, 9> kOperatorWords = {"and", "or",   "not", "in",   "is",
                                                            "if",  "else", "for", "async"};

class Splitter {
 public:
  Splitter(std::string_view text, const std::string* file) : text_(text), file_(file) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") pos_ = line_start_ = 3;
  }

  std::vector<LogicalLine> run() {
    while (pos_ < text_.size()) {
      int indent = 0, narrow = 0, tab = 0;
      for (; is_blank(peek()); ++pos_) {
        if (peek() == '\t') indent = (indent / 8 + 1) * 8, ++narrow, tab = tab ? tab : narrow;
        if (peek() == ' ') ++indent, ++narrow;
        if (peek() == '\f') indent = narrow = tab = 0;
      }
      if (peek() == '#') skip_comment();
      if (at_newline()) {
        newline();
      } else if (pos_ < text_.size()) {
        read_line(indent, narrow);
        line_->tab_column = tab;
      }
    }
    return std::move(lines_);
  }

 private:
  struct Open {
    char bracket;
    size_t offset;  // in line_->text
  };

  char peek(size_t ahead = 0) const { return pos_ + ahead < text_.size() ? text_[pos_ + ahead] : '\0'; }
  bool at_newline() const { return pos_ < text_.size() && (peek() == '\n' || peek() == '\r'); }
  bool newline_after_backslash() const { return peek(1) == '\n' || peek(1) == '\r'; }

  void newline() {
    pos_ += peek() == '\r' && peek(1) == '\n' ? 2 : 1;
    ++line_number_;
    line_start_ = pos_;
  }
  void skip_comment() {
    const auto ends = [](char c) { return c == '\n' || c == '\r'; };
    pos_ = size_t(std::find_if(text_.begin() + ptrdiff_t(pos_), text_.end(), ends) - text_.begin());
  }

  void start_segment() {
    int column = count_characters(text_.substr(line_start_, pos_ - line_start_)) + 1;
    line_->segments.push_back({line_->text.size(), line_number_, column});
  }
  void take() {
    if (is_continuation(text_[pos_])) line_->continuations.push_back(line_->text.size());
    line_->text += text_[pos_++];
  }
  // Takes characters of one byte that mean nothing to the end of a line or of a string.
  void take_plain() {
    static constexpr auto kIsPlain = [] {
      std::array<bool, 256> plain{};
      for (int c = ' '; c < 0x7f; ++c)
        plain[size_t(c)] = std::string_view("()[]{}#\\;\"'").find(char(c)) == std::string_view::npos;
      return plain;
    }();
    size_t end = pos_;
    while (end < text_.size() && kIsPlain[static_cast<unsigned char>(text_[end])]) ++end;
    line_->text += text_.substr(pos_, end - pos_);
    pos_ = end;
  }
  // The first mistake of a line is told: later ones mostly follow from it.
  void error(size_t begin, size_t end, std::string message, std::string hint = {}) {
    if (line_->errors.empty())
      line_->errors.push_back({Severity::Error, line_->loc(begin, end), std::move(message), std::move(hint), {}});
  }

  void read_line(int indent, int narrow) {
    line_ = &lines_.emplace_back();
    line_->file = file_;
    line_->indent = indent;
    line_->narrow_indent = narrow;
    open_.clear();
    size_t piece = 0;
    start_segment();
    while (true) {
      if (pos_ >= text_.size() || (at_newline() && open_.empty())) {
        if (pos_ < text_.size()) newline();
        break;
      }
      char c = peek();
      if (at_newline()) {
        if (!continue_line()) break;
      } else if (c == '#') {
        skip_comment();
      } else if (c == '\\' && newline_after_backslash()) {
        ++pos_;
        join();
      } else if (c == '"' || c == '\'') {
        if (!read_string()) break;
      } else if (c == ';' && open_.empty()) {
        add_piece(piece, true);
        take();
        piece = line_->text.size();
      } else {
        if (c == '(' || c == '[' || c == '{') open(c);
        if (c == ')' || c == ']' || c == '}') close(c);
        take();
        take_plain();
      }
    }
    if (!open_.empty()) {
      const Open& o = open_.back();
      error(o.offset, o.offset + 1, fmt::format("'{}' was never closed", o.bracket));
    }
    add_piece(piece, false);
    if (line_->pieces.empty()) line_->pieces.emplace_back(0, line_->text.size());
  }

  void add_piece(size_t begin, bool before_semicolon) {
    const std::string& t = line_->text;
    size_t end = t.size();
    while (begin < end && is_blank(t[begin])) ++begin;
    while (end > begin && is_blank(t[end - 1])) --end;
    if (begin < end) {
      line_->pieces.emplace_back(begin, end);
    } else if (before_semicolon) {
      error(begin, begin + 1, "expected a statement before ';'");
    }
  }

  // Goes on after a line end: one space in the text, then a new segment.
  void join() {
    newline();
    while (is_blank(peek())) ++pos_;
    line_->text += ' ';
    start_segment();
  }

  // At a line end inside brackets. False if what follows shows that a bracket was forgotten: then a new line starts
  // there.
  bool continue_line() {
    size_t pos = pos_, start = line_start_;
    int number = line_number_;
    int indent = 0;
    while (at_newline()) {
      newline();
      indent = 0;
      for (; is_blank(peek()); ++pos_) indent = peek() == '\t' ? (indent / 8 + 1) * 8 : indent + 1;
      if (peek() == '#') skip_comment();
    }
    size_t end = pos_;
    while (end < text_.size() && is_word_char(text_[end])) ++end;
    std::string_view word = text_.substr(pos_, end - pos_);
    size_t last = line_->text.find_last_not_of(" \t\f\v");
    char before = last == std::string::npos ? '\0' : line_->text[last];
    bool after_operand = is_word_char(before) || std::string_view(")]}\"'").find(before) != std::string_view::npos;
    bool starts_statement = contains(kStatementWords, word);
    if (!word.empty() && is_word_start(word[0]) && indent <= line_->indent) {
      size_t next = std::min(text_.find_first_not_of(" \t", end), text_.size());
      bool assigns =
          open_.back().bracket != '(' && next < text_.size() - 1 && text_[next] == '=' && text_[next + 1] != '=';
      size_t line_end = std::min(text_.find_first_of("\r\n#", pos_), text_.size());
      size_t last_char = text_.find_last_not_of(" \t", line_end - 1);
      bool head = (word == "if" || word == "for") && text_[last_char] == ':';
      if (assigns || head || (after_operand && !contains(kOperatorWords, word))) starts_statement = true;
    }
    if (peek() == '@' && indent < line_->indent) starts_statement = true;
    if (starts_statement) {
      pos_ = pos, line_start_ = start, line_number_ = number;
      newline();
      return false;
    }
    if (pos_ < text_.size()) line_->text += ' ', start_segment();
    return true;
  }

  void open(char c) {
    if (open_.size() == kMaxBrackets)
      error(line_->text.size(), line_->text.size() + 1,
            fmt::format("brackets are nested more than {} deep", kMaxBrackets));
    open_.push_back({c, line_->text.size()});
  }

  void close(char c) {
    size_t here = line_->text.size();
    if (open_.empty()) return error(here, here + 1, fmt::format("unbalanced '{}'", c));
    Open o = open_.back();
    open_.pop_back();
    char expected = o.bracket == '(' ? ')' : o.bracket == '[' ? ']' : '}';
    if (c != expected) {
      bool first = line_->errors.empty();
      error(here, here + 1, fmt::format("expected '{}' to close '{}', found '{}'", expected, o.bracket, c));
      if (first)
        line_->errors.back().with_note(line_->loc(o.offset, o.offset + 1), fmt::format("'{}' is here", o.bracket));
    }
  }

  // At a quote: takes the string. False if it is not terminated; the line ends there.
  bool read_string() {
    char quote = peek();
    size_t begin = line_->text.size();
    bool triple = peek(1) == quote && peek(2) == quote;
    for (int i = 0; i < (triple ? 3 : 1); ++i) take();
    while (pos_ < text_.size()) {
      if (peek() == quote && (!triple || (peek(1) == quote && peek(2) == quote))) {
        for (int i = 0; i < (triple ? 3 : 1); ++i) take();
        return true;
      }
      bool escape = peek() == '\\';
      if (escape) take();
      if (at_newline()) {
        if (!triple && !escape) break;
        line_->text += '\n';
        newline();
        start_segment();
      } else if (pos_ < text_.size()) {
        take();
        take_plain();
      }
    }
    error(begin, line_->text.size(), triple ? "unterminated triple-quoted string" : "unterminated string",
          fmt::format("close it with {}", std::string(triple ? 3 : 1, quote)));
    open_.clear();
    if (pos_ < text_.size()) newline();
    return false;
  }

  std::string_view text_;
  const std::string* file_;
  size_t pos_ = 0;
  size_t line_start_ = 0;
  int line_number_ = 1;
  std::vector<LogicalLine> lines_;
  LogicalLine* line_ = nullptr;
  std::vector<Open> open_;
};

}  // namespace

bool is_word_start(char c) {
  // Beyond ASCII only what can begin a letter: not a continuation byte, nor the blocks of signs and punctuation
  // (U+0080..U+00BF, U+2000..U+2FFF).
  auto u = static_cast<unsigned char>(c);
  return is_word_char(c) && !(c >= '0' && c <= '9') && !(u >= 0x80 && u < 0xC3) && u != 0xE2;
}

Loc LogicalLine::loc(size_t begin, size_t end) const {
  auto after = segments.size() == 1
                   ? segments.end()
                   : std::upper_bound(segments.begin(), segments.end(), begin,
                                      [](size_t offset, const Segment& s) { return offset < s.offset; });
  const Segment& s = after == segments.begin() ? segments.front() : *(after - 1);
  if (after != segments.end()) end = std::min(end, after->offset);
  end = std::min(end, text.size());
  while (end > begin && (is_blank(text[end - 1]) || text[end - 1] == '\n')) --end;
  int column = s.column;
  if (begin <= text.size()) column += characters(s.offset, begin);
  int width = begin < end ? characters(begin, end) : 1;
  return {file, s.line, column, column + width};
}

int LogicalLine::characters(size_t begin, size_t end) const {
  if (continuations.empty()) return int(end - begin);
  auto at = [&](size_t offset) { return std::lower_bound(continuations.begin(), continuations.end(), offset); };
  return int(end - begin) - int(at(end) - at(begin));
}

std::string_view LogicalLine::word(size_t offset) const {
  size_t end = offset;
  while (end < text.size() && is_word_char(text[end])) ++end;
  return std::string_view(text).substr(offset, end - offset);
}

std::vector<LogicalLine> split(std::string_view text, const std::string* file) { return Splitter(text, file).run(); }

}  // namespace tegula::language
