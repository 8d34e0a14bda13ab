// Text to logical lines: what Python's grammar sees as one line, with the place of every character.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "runtime/base/diag.h"

namespace tegula::language {

/// A statement, or several between semicolons, as one string: comments are gone, and a line end inside brackets or
/// after a backslash is one space. Line ends inside strings stay, as '\n'.
struct LogicalLine {
  /// From `offset` on (up to the next segment) text stands on this source line, its first character in this column.
  struct Segment {
    size_t offset;
    int line;
    int column;
  };

  const std::string* file = nullptr;
  std::string text;
  std::vector<Segment> segments;
  std::vector<size_t> continuations;  ///< offsets of bytes that do not begin a character, ascending
  int indent = 0;                     ///< columns of leading space, a tab reaching to the next multiple of 8
  int narrow_indent = 0;              ///< the same with a tab as one column: the two orders must agree
  int tab_column = 0;                 ///< of the first tab in the indentation; 0: there is none
  /// Offsets [begin, end) of the statements between semicolons, without the space around them. Never empty.
  std::vector<std::pair<size_t, size_t>> pieces;
  /// What is wrong with the line as text: a bracket, a string. Such a line has no use for a grammar.
  std::vector<Diag> errors;

  /// The place of [begin, end); when it spans several source lines, of its part on the first.
  Loc loc(size_t begin, size_t end) const;
  /// Characters in [begin, end) of the text.
  int characters(size_t begin, size_t end) const;
  /// The word (letters, digits, underscores) at `offset`; empty if there is none.
  std::string_view word(size_t offset = 0) const;
};

/// Splits a source text. Columns count characters (UTF-8), not bytes; LF, CRLF and CR end a line; blank lines and
/// comments are dropped. Never fails: mistakes are in the lines' errors.
std::vector<LogicalLine> split(std::string_view text, const std::string* file);

/// Letters, digits, underscores, and what lies beyond ASCII.
constexpr bool is_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || (c & 0x80);
}
/// A word's first character.
bool is_word_start(char c);

}  // namespace tegula::language
