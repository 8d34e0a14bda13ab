#include "runtime/base/diag.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <utility>

#include "runtime/base/error.h"

namespace tegula {

const std::string* intern_file(std::string_view path) {
  static std::mutex mutex;
  static std::set<std::string, std::less<>> files;
  std::lock_guard lock(mutex);
  auto it = files.find(path);
  if (it == files.end()) it = files.emplace(path).first;
  return &*it;
}

std::string Loc::to_string() const {
  std::string name = file ? *file : "<unknown>";
  if (line <= 0) return name;
  if (column <= 0) return fmt::format("{}:{}", name, line);
  return fmt::format("{}:{}:{}", name, line, column);
}

const std::string* SourceMap::find(const std::string* file) const {
  for (const auto& [name, text] : texts_)
    if (name == file) return &text;
  return nullptr;
}

void SourceMap::add(const std::string* file, std::string text) {
  std::erase_if(texts_, [&](const auto& known) { return known.first == file; });
  texts_.emplace_back(file, std::move(text));
}

std::optional<std::string> SourceMap::line(const std::string* file, int number) const {
  if (!file || number <= 0) return std::nullopt;
  const std::string* found = find(file);
  if (!found) {
    std::ifstream in(*file, std::ios::binary);
    found = &texts_.emplace_back(file, std::string(std::istreambuf_iterator<char>(in), {})).second;
  }
  const std::string& text = *found;
  size_t begin = 0;
  for (int i = 1; i < number; ++i) {
    begin = text.find('\n', begin);
    if (begin == std::string::npos) return std::nullopt;
    ++begin;
  }
  if (begin >= text.size()) return std::nullopt;
  std::string line = text.substr(begin, text.find('\n', begin) - begin);
  if (!line.empty() && line.back() == '\r') line.pop_back();
  return line;
}

Diag& Diag::with_hint(std::string text) {
  hint = std::move(text);
  return *this;
}

Diag& Diag::with_note(Loc at, std::string text) {
  notes.push_back({at, std::move(text)});
  return *this;
}

OnPage::OnPage(Diagnostics& diags, std::string page) : diags_(diags), before_(diags.set_page(std::move(page))) {}
OnPage::~OnPage() { diags_.set_page(std::move(before_)); }

CompileError::CompileError(const Diagnostics& diags) : Error(diags.render()), list_(diags.list()) {}

std::string Diagnostics::set_page(std::string page) { return std::exchange(page_, std::move(page)); }

Diag& Diagnostics::error(Loc loc, std::string message) {
  return add({Severity::Error, loc, std::move(message), {}, {}, page_});
}

Diag& Diagnostics::warning(Loc loc, std::string message) {
  return add({Severity::Warning, loc, std::move(message), {}, {}, page_});
}

Diag& Diagnostics::add(Diag diag) {
  errors_ += diag.severity == Severity::Error;
  return list_.emplace_back(std::move(diag));
}

void Diagnostics::shrink(size_t count) {
  for (; list_.size() > count; list_.pop_back()) errors_ -= list_.back().severity == Severity::Error;
}

void Diagnostics::soften(size_t count) {
  for (size_t i = count; i < list_.size(); ++i) {
    errors_ -= list_[i].severity == Severity::Error;
    list_[i].severity = Severity::Warning;
  }
}

namespace {

constexpr size_t kMaxRendered = 50;  // diagnostics
constexpr int kMaxLine = 160;        // characters of a source line
constexpr int kLead = 60;            // of them before the place, where the line is cut

// The bytes of the character that begins at text[at]; 0 if it is no printable UTF-8.
size_t character_bytes(std::string_view text, size_t at) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(at) < 0x80) return byte(at) >= 0x20 && byte(at) != 0x7f ? 1 : 0;
  size_t count = byte(at) >= 0xf0 ? 4 : byte(at) >= 0xe0 ? 3 : byte(at) >= 0xc2 ? 2 : 0;
  if (count == 0 || byte(at) > 0xf4 || at + count > text.size()) return 0;
  for (size_t i = 1; i < count; ++i)
    if ((byte(at + i) & 0xc0) != 0x80) return 0;
  if (count == 2 && byte(at) == 0xc2 && byte(at + 1) < 0xa0) return 0;
  return count;
}

// The characters of a text; what cannot be printed is one '?' a byte, tabs and line ends stay.
std::vector<std::string> characters(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    size_t bytes = character_bytes(text, at);
    bool keep = bytes || text[at] == '\t' || text[at] == '\n';
    bytes = std::max<size_t>(bytes, 1);
    out.emplace_back(keep ? text.substr(at, bytes) : "?");
    at += bytes;
  }
  return out;
}

std::string printable(std::string_view text) { return fmt::format("{}", fmt::join(characters(text), "")); }

// The source line, and where the column is known a caret line under the token. Tabs are kept so that the caret stays
// under its column; of a long line the part around the token is shown.
std::string excerpt(const SourceMap& sources, const Loc& loc) {
  auto text = sources.line(loc.file, loc.line);
  if (!text) return {};
  std::vector<std::string> line = characters(*text);
  int size = int(line.size()), from = 0, to = size;
  if (size > kMaxLine) {
    from = std::max(0, std::min(loc.column - 1 - kLead, size - kMaxLine));
    to = std::min(size, from + kMaxLine);
  }
  std::string shown = from > 0 ? "..." : "", pad(shown.size(), ' ');
  for (int i = from; i < to; ++i) shown += line[i];
  for (int i = from; i + 1 < loc.column; ++i) pad += i < size && line[i] == "\t" ? '\t' : ' ';
  if (to < size) shown += "...";
  if (loc.column <= 0) return fmt::format("    {}\n", shown);
  int width = std::max(1, std::min(loc.end_column, to + 1) - loc.column);
  return fmt::format("    {}\n    {}^{}\n", shown, pad, std::string(width - 1, '~'));
}

}  // namespace

// Of very many diagnostics the first ones and how many more there are; of a long line the part around the place; as
// printable text, whatever the source holds.
std::string Diagnostics::render() const {
  std::vector<const Diag*> order;
  for (const Diag& d : list_) order.push_back(&d);
  std::stable_sort(order.begin(), order.end(), [](const Diag* a, const Diag* b) {
    auto key = [](const Diag* d) {
      return std::tuple(d->loc.file ? std::string_view(*d->loc.file) : std::string_view(), d->loc.line, d->loc.column);
    };
    return key(a) < key(b);
  });
  // Warnings give way to errors where there are too many.
  size_t left_out = 0;
  if (order.size() > kMaxRendered) {
    if (errors_ > 0) std::erase_if(order, [](const Diag* d) { return d->severity != Severity::Error; });
    if (order.size() > kMaxRendered) {
      left_out = order.size() - kMaxRendered;
      order.erase(order.begin() + kMaxRendered, order.end());
    }
  }
  std::string out;
  for (const Diag* d : order) {
    const char* kind = d->severity == Severity::Error ? "error" : "warning";
    out += d->loc.file ? fmt::format("{}: {}: {}\n", d->loc.to_string(), kind, printable(d->message))
                       : fmt::format("{}: {}\n", kind, printable(d->message));
    out += excerpt(sources_, d->loc);
    for (const Note& n : d->notes) {
      out += n.loc ? fmt::format("  {}: note: {}\n", n.loc.to_string(), printable(n.message))
                   : fmt::format("  note: {}\n", printable(n.message));
      out += excerpt(sources_, n.loc);
    }
    if (!d->hint.empty()) out += fmt::format("  hint: {}\n", printable(d->hint));
    if (!d->hint.empty() && !d->page.empty()) out += fmt::format("  see {}\n", d->page);
  }
  if (left_out > 0) out += fmt::format("... and {} more {}\n", left_out, errors_ > 0 ? "errors" : "warnings");
  return out;
}

namespace {

size_t common_prefix(std::string_view a, std::string_view b) {
  size_t n = 0;
  while (n < a.size() && n < b.size() && a[n] == b[n]) ++n;
  return n;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? char(c + ('a' - 'A')) : c; };
  std::optional<std::string> best;
  // One or two letters are near to everything: there only upper and lower case may differ.
  size_t best_distance = name.size() < 3 ? 1 : std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& c : candidates) {
    if (c.size() > name.size() + best_distance || name.size() > c.size() + best_distance) continue;
    // Edits: a letter more, less or another one, two neighbours swapped.
    std::vector<size_t> before, last, row(c.size() + 1);
    for (size_t j = 0; j <= c.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      before = std::exchange(last, row);
      row[0] = i;
      for (size_t j = 1; j <= c.size(); ++j) {
        char a = lower(name[i - 1]), b = lower(c[j - 1]);
        row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (a != b)});
        if (i > 1 && j > 1 && a == lower(c[j - 2]) && lower(name[i - 2]) == b)
          row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    // Of names that are equally near the one that begins alike: 'sun' is 'sum' rather than 'sin'.
    const size_t distance = row[c.size()];
    const bool alike = best && distance == best_distance && common_prefix(name, c) > common_prefix(name, *best);
    if (distance < best_distance || alike) best_distance = distance, best = c;
  }
  return best;
}

}  // namespace tegula
