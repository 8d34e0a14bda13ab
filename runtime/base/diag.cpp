#include "runtime/base/diag.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>

#include "runtime/base/check.h"

namespace tegula {

void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::fprintf(stderr, "tegula: internal error at %s:%d: %s: %s\n", file, line, condition, message.c_str());
  std::abort();
}

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

void SourceMap::add(const std::string* file, std::string text) { text_[file] = std::move(text); }

std::optional<std::string> SourceMap::line(const std::string* file, int number) const {
  if (!file || number <= 0) return std::nullopt;
  auto it = text_.find(file);
  if (it == text_.end()) {
    std::ifstream in(*file, std::ios::binary);
    std::string text((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    it = text_.emplace(file, std::move(text)).first;
  }
  const std::string& text = it->second;
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

Diag& Diagnostics::error(Loc loc, std::string message) {
  ++errors_;
  return list_.emplace_back(Diag{Severity::Error, loc, std::move(message), {}, {}});
}

Diag& Diagnostics::warning(Loc loc, std::string message) {
  return list_.emplace_back(Diag{Severity::Warning, loc, std::move(message), {}, {}});
}

namespace {

// The source line and a caret line under the token. Tabs are kept so that the caret stays under its column.
std::string excerpt(const SourceMap& sources, const Loc& loc) {
  auto line = sources.line(loc.file, loc.line);
  if (!line || loc.column <= 0) return {};
  std::string pad;
  for (int i = 0; i + 1 < loc.column; ++i) pad += (i < int(line->size()) && (*line)[i] == '\t') ? '\t' : ' ';
  int width = std::max(1, std::min(loc.end_column, int(line->size()) + 1) - loc.column);
  return fmt::format("    {}\n    {}^{}\n", *line, pad, std::string(width - 1, '~'));
}

}  // namespace

std::string Diagnostics::render() const {
  std::vector<const Diag*> order;
  for (const Diag& d : list_) order.push_back(&d);
  std::stable_sort(order.begin(), order.end(), [](const Diag* a, const Diag* b) {
    auto key = [](const Diag* d) {
      return std::tuple(d->loc.file ? std::string_view(*d->loc.file) : std::string_view(), d->loc.line, d->loc.column);
    };
    return key(a) < key(b);
  });
  std::string out;
  for (const Diag* d : order) {
    const char* kind = d->severity == Severity::Error ? "error" : "warning";
    out += d->loc.file ? fmt::format("{}: {}: {}\n", d->loc.to_string(), kind, d->message)
                       : fmt::format("{}: {}\n", kind, d->message);
    out += excerpt(sources_, d->loc);
    for (const Note& n : d->notes) {
      out += n.loc ? fmt::format("  {}: note: {}\n", n.loc.to_string(), n.message)
                   : fmt::format("  note: {}\n", n.message);
      out += excerpt(sources_, n.loc);
    }
    if (!d->hint.empty()) out += fmt::format("  hint: {}\n", d->hint);
  }
  return out;
}

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  std::optional<std::string> best;
  size_t best_distance = std::max<size_t>(1, name.size() / 3) + 1;
  for (const std::string& c : candidates) {
    std::vector<size_t> row(c.size() + 1);
    for (size_t j = 0; j <= c.size(); ++j) row[j] = j;
    for (size_t i = 1; i <= name.size(); ++i) {
      size_t diagonal = row[0];
      row[0] = i;
      for (size_t j = 1; j <= c.size(); ++j) {
        size_t above = row[j];
        row[j] = std::min({above + 1, row[j - 1] + 1, diagonal + (name[i - 1] != c[j - 1])});
        diagonal = above;
      }
    }
    if (row[c.size()] < best_distance) best_distance = row[c.size()], best = c;
  }
  return best;
}

}  // namespace tegula
