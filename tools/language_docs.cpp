// Writes docs/language.md.
//
//   language_docs FILE           writes the page
//   language_docs --check FILE   exit status 1 if the file is not what would be written

#include <cstring>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>

#include "dsl/semantics/reference.h"

int main(int argc, char** argv) {
  const bool check = argc > 1 && !std::strcmp(argv[1], "--check");
  // An option in the place of FILE is a mistake, never the name of a file to write.
  if (argc != (check ? 3 : 2) || argv[argc - 1][0] == '-') {
    std::cerr << "usage: language_docs [--check] FILE\n";
    return 2;
  }
  const char* path = argv[argc - 1];
  const std::string page = tegula::dsl::language_reference();
  if (check) {
    std::ifstream in(path, std::ios::binary);
    if (std::string(std::istreambuf_iterator<char>(in), {}) == page) return 0;
    std::cerr << path << " does not say what the tables say: run ./dev docs\n";
    return 1;
  }
  std::ofstream out(path, std::ios::binary);
  out << page;
  if (out.flush()) return 0;
  std::cerr << "cannot write " << path << "\n";
  return 1;
}
