#include "codegen/exec/emulator/interpreter/bytecode.h"

#include <algorithm>
#include <cstring>

#include "codegen/exec/emulator/interpreter/elementwise.h"

namespace tegula::emulator::bytecode {

bool Module::place() {
  elementwise.clear();
  for (const Computation& computation : computations) elementwise.push_back(function_of(computation));
  bool known = std::ranges::find(elementwise, nullptr) == elementwise.end();
  auto fill_in = [&](Constants& constants) {
    for (const auto& [at, global, offset] : constants.addresses) {
      if (global >= globals.size() || at + sizeof(uint64_t) > constants.bytes.size()) {
        known = false;
        continue;
      }
      const uint64_t address = reinterpret_cast<uint64_t>(globals[global].bytes.data()) + offset;
      std::memcpy(constants.bytes.data() + at, &address, sizeof address);
    }
  };
  for (Function& function : functions) fill_in(function.constants);
  for (Constants& global : globals) fill_in(global);
  return known;
}

}  // namespace tegula::emulator::bytecode
