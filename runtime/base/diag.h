// Diagnostics: what a user did wrong, where, and what to write instead.
//
// A front end or pass reports into a Diagnostics list and goes on, so that one run tells of as many mistakes as can be
// told apart. render() prints them with the source line and carets:
//
//   softmax.py:7:9: error: unknown function 'tl.sofmax'
//       y = tl.sofmax(x)
//           ^~~~~~~~~
//     hint: did you mean 'tl.softmax'?
//     see docs/language.md#functions
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace tegula {

/// A position in a user's source. Lines and columns count from 1; line 0 means "unknown".
/// end_column is one past the last character of the token on the same line (0: a single caret).
struct Loc {
  const std::string* file = nullptr;  ///< interned by intern_file(), never freed
  int line = 0;
  int column = 0;
  int end_column = 0;

  explicit operator bool() const { return line > 0; }
  bool operator==(const Loc&) const = default;
  /// "file:line:column", without the parts that are unknown.
  std::string to_string() const;
};

/// One shared copy of a path for the life of the process, so that a Loc stays small.
const std::string* intern_file(std::string_view path);

enum class Severity { Error, Warning };

struct Note {
  Loc loc;
  std::string message;
};

struct Diag {
  Severity severity = Severity::Error;
  Loc loc;
  std::string message;
  std::string hint = {};  ///< what the user can do; empty if nothing useful is known
  std::vector<Note> notes = {};
  std::string page = {};  ///< of the documentation on the hint: "docs/language.md#operators"; empty if none is known

  Diag& with_hint(std::string text);
  Diag& with_note(Loc at, std::string text);
};

/// Source text by file, for the caret lines. A file that was never added is read from disk when it is there.
class SourceMap {
 public:
  void add(const std::string* file, std::string text);
  std::optional<std::string> line(const std::string* file, int number) const;

 private:
  const std::string* find(const std::string* file) const;

  mutable std::vector<std::pair<const std::string*, std::string>> texts_;
};

class Diagnostics {
 public:
  Diag& error(Loc loc, std::string message);
  Diag& warning(Loc loc, std::string message);
  /// A diagnostic of another list.
  Diag& add(Diag diag);
  /// Sets the page that new diagnostics refer to and returns the previous one.
  std::string set_page(std::string page);

  bool has_errors() const { return errors_ > 0; }
  size_t size() const { return list_.size(); }
  /// Removes all but the first `count` diagnostics: those that a trial has added.
  void shrink(size_t count);
  /// Turns all but the first `count` diagnostics into warnings.
  void soften(size_t count);
  const std::vector<Diag>& list() const { return list_; }
  SourceMap& sources() { return sources_; }

  /// The diagnostics in order of position, with source lines and carets; of very many the first, and how many more.
  std::string render() const;

 private:
  std::vector<Diag> list_;
  SourceMap sources_;
  std::string page_;
  size_t errors_ = 0;
};

/// While it lives, the hints of new diagnostics refer to a page of the documentation.
class OnPage {
 public:
  OnPage(Diagnostics& diags, std::string page);
  ~OnPage();
  OnPage(const OnPage&) = delete;

 private:
  Diagnostics& diags_;
  std::string before_;
};

/// The candidate nearest to `name` by edit distance, if it is near enough to be a likely typing error.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace tegula
