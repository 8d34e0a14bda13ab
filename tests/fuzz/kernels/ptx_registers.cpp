// Says which registers of PTX are read before they are set (tests/ptx_registers.h), text by text: gets "BYTES\n" and
// the text, answers likewise, with no bytes where there are none.
#include "tests/ptx_registers.h"

#include <iostream>
#include <string>

int main() {
  std::ios::sync_with_stdio(false);
  size_t size = 0;
  while (std::cin >> size) {
    std::string text(size, '\0');
    std::cin.ignore();
    std::cin.read(text.data(), std::streamsize(size));
    const std::string found = tegula::ptx::read_too_early(text, 4, false);
    std::cout << found.size() << '\n' << found << std::flush;
  }
}
