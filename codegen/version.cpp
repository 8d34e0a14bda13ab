// The identity of this build: the linker's build ids, hashes of everything linked in, of the compiler and of the
// runtime, which says how the driver is to assemble what the compiler made.
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <cstring>

#include "codegen/compile.h"
#include "runtime/base/check.h"
#include "runtime/sealing.h"

namespace tegula {

namespace {

struct Search {
  uintptr_t address;  ///< within the object wanted
  std::string build_id;
};

// Called for each loaded object: looks for the GNU build-id note of the one that contains the address.
int visit(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool contains = false;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    uintptr_t begin = object->dlpi_addr + segment.p_vaddr;
    contains |= segment.p_type == PT_LOAD && search.address >= begin && search.address < begin + segment.p_memsz;
  }
  if (!contains) return 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& segment = object->dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const char* end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      ElfW(Nhdr) note;
      std::memcpy(&note, at, sizeof note);
      const char* name = at + sizeof note;
      const char* value = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        for (unsigned k = 0; k < note.n_descsz; ++k) search.build_id += fmt::format("{:02x}", uint8_t(value[k]));
      at = value + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return 1;
}

// The build id of the loaded object that contains the address.
std::string build_id_at(uintptr_t address) {
  Search search{address, {}};
  dl_iterate_phdr(visit, &search);
  TEGULA_CHECK(!search.build_id.empty(), "linked without --build-id");
  return search.build_id;
}

}  // namespace

std::string compiler_version() {
  static const std::string version = [] {
    const std::string compiler = build_id_at(reinterpret_cast<uintptr_t>(&compiler_version));
    const std::string runtime = build_id_at(reinterpret_cast<uintptr_t>(&may_compile));
    return "tegula " + (runtime == compiler ? compiler : compiler + "+" + runtime);
  }();
  return version;
}

}  // namespace tegula
