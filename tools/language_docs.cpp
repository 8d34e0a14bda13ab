// Writes the tables of a page of the documentation, docs/language.md. What stands between
//
//   <!-- table: NAME -->
//   <!-- end of table -->
//
// becomes the table of that name; the rest of the page stays as it is.
//
//   language_docs FILE           writes the tables
//   language_docs --check FILE   exit status 1 if the file is not what would be written
//
// A page that lacks a table, or asks for one that there is not, is an error, and stays as it is.

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

#include "dsl/semantics/reference.h"

namespace {

constexpr std::string_view kEnd = "<!-- end of table -->";

/// The page with one table written anew; null where the page has no place for it.
std::optional<std::string> with_table(std::string page, const tegula::dsl::ReferenceTable& table) {
  const std::string begin = "<!-- table: " + table.name + " -->\n";
  size_t from = page.find(begin);
  if (from == page.npos) return std::nullopt;
  from += begin.size();
  const size_t to = page.find(kEnd, from);
  if (to == page.npos || page.substr(from, to - from).find("<!-- table: ") != page.npos) return std::nullopt;
  return page.replace(from, to - from, table.markdown);
}

size_t count(std::string_view text, std::string_view what) {
  size_t found = 0;
  for (size_t at = 0; (at = text.find(what, at)) != text.npos; at += what.size()) ++found;
  return found;
}

}  // namespace

int main(int argc, char** argv) {
  const bool check = argc > 1 && !std::strcmp(argv[1], "--check");
  // An option in the place of FILE is a mistake, never the name of a file to write.
  if (argc != (check ? 3 : 2) || argv[argc - 1][0] == '-') {
    std::cerr << "usage: language_docs [--check] FILE\n";
    return 2;
  }
  const char* path = argv[argc - 1];
  std::ifstream in(path, std::ios::binary);
  if (!in) {
    std::cerr << "cannot read " << path << "\n";
    return 1;
  }
  const std::string before(std::istreambuf_iterator<char>(in), {});
  std::string page = before;
  const auto tables = tegula::dsl::reference_tables();
  for (const auto& table : tables) {
    auto next = with_table(page, table);
    if (!next) {
      std::cerr << path << " has no place for the table '" << table.name << "': write '<!-- table: " << table.name
                << " -->' and '" << kEnd << "'\n";
      return 1;
    }
    page = std::move(*next);
  }
  if (count(page, "<!-- table: ") != tables.size()) {
    std::cerr << path << " asks for " << count(page, "<!-- table: ") << " tables, and there are " << tables.size()
              << "\n";
    return 1;
  }
  if (page == before) return 0;
  if (check) {
    std::cerr << path << " does not say what the tables say: run ./dev docs\n";
    return 1;
  }
  std::ofstream out(path, std::ios::binary);
  out << page;
  if (out.flush()) return 0;
  std::cerr << "cannot write " << path << "\n";
  return 1;
}
