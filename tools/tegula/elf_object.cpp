#include "tools/tegula/elf_object.h"

#include <elf.h>

#include <cstdint>

#include "runtime/base/byte_stream.h"

namespace tegula::cli {

namespace {

#if defined(__x86_64__)
constexpr Elf64_Half kMachine = EM_X86_64;
#elif defined(__aarch64__)
constexpr Elf64_Half kMachine = EM_AARCH64;
#else
#error "objects are made for x86-64 and aarch64"
#endif

enum Section : Elf64_Half { kNone, kData, kSymbols, kSymbolNames, kSectionNames, kNoExecutableStack, kSections };

/// Texts one after the other, each with its zero byte, as ELF keeps names.
class Names {
 public:
  Elf64_Word add(const std::string& name) {
    const auto offset = Elf64_Word(bytes_.size());
    bytes_ += name + '\0';
    return offset;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_ = std::string(1, '\0');
};

Elf64_Sym symbol_at(Elf64_Word name, uint64_t offset, uint64_t size) {
  Elf64_Sym symbol{};
  symbol.st_name = name;
  symbol.st_info = ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT);
  symbol.st_other = STV_HIDDEN;
  symbol.st_shndx = kData;
  symbol.st_value = offset;
  symbol.st_size = size;
  return symbol;
}

/// Collects sections after the file's header.
class ObjectFile {
 public:
  void add(Section section, const char* name, Elf64_Word type, Elf64_Xword flags, std::string_view content,
           uint64_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    Elf64_Shdr& header = headers_[section];
    header.sh_name = names_.add(name);
    header.sh_type = type;
    header.sh_flags = flags;
    header.sh_offset = bytes_.size();
    header.sh_size = content.size();
    header.sh_addralign = alignment;
    bytes_ += content;
  }
  Elf64_Shdr& header(Section section) { return headers_[section]; }

  std::string finish() {
    const Elf64_Word name = names_.add(".shstrtab");
    add(kSectionNames, "", SHT_STRTAB, 0, names_.bytes(), 1);
    headers_[kSectionNames].sh_name = name;
    bytes_.resize((bytes_.size() + 7) / 8 * 8);
    Elf64_Ehdr file{};
    for (size_t i = 0; i < SELFMAG; ++i) file.e_ident[i] = static_cast<unsigned char>(ELFMAG[i]);
    file.e_ident[EI_CLASS] = ELFCLASS64;
    file.e_ident[EI_DATA] = ELFDATA2LSB;
    file.e_ident[EI_VERSION] = EV_CURRENT;
    file.e_type = ET_REL;
    file.e_machine = kMachine;
    file.e_version = EV_CURRENT;
    file.e_shoff = bytes_.size();
    file.e_ehsize = sizeof(Elf64_Ehdr);
    file.e_shentsize = sizeof(Elf64_Shdr);
    file.e_shnum = kSections;
    file.e_shstrndx = kSectionNames;
    bytes_.replace(0, sizeof file, reinterpret_cast<const char*>(&file), sizeof file);
    return bytes_.append(reinterpret_cast<const char*>(headers_), sizeof headers_);
  }

 private:
  std::string bytes_ = std::string(sizeof(Elf64_Ehdr), '\0');
  Names names_;
  Elf64_Shdr headers_[kSections] = {};
};

}  // namespace

std::string elf_object(std::string_view bytes, const std::string& symbol) {
  std::string data(bytes);
  data.resize((data.size() + 7) / 8 * 8);
  ByteWriter size;
  size.number(uint64_t(bytes.size()));
  const uint64_t size_offset = data.size();
  data += size.take();

  Names names;
  const Elf64_Sym symbols[] = {Elf64_Sym{}, symbol_at(names.add(symbol), 0, bytes.size()),
                               symbol_at(names.add(symbol + "_size"), size_offset, sizeof(uint64_t))};
  ObjectFile file;
  file.add(kData, ".rodata", SHT_PROGBITS, SHF_ALLOC, data, 16);
  file.add(kSymbols, ".symtab", SHT_SYMTAB, 0, {reinterpret_cast<const char*>(symbols), sizeof symbols}, 8);
  file.header(kSymbols).sh_link = kSymbolNames;
  file.header(kSymbols).sh_info = 1;  // the first one that is not local
  file.header(kSymbols).sh_entsize = sizeof(Elf64_Sym);
  file.add(kSymbolNames, ".strtab", SHT_STRTAB, 0, names.bytes(), 1);
  file.add(kNoExecutableStack, ".note.GNU-stack", SHT_PROGBITS, 0, "", 1);
  return file.finish();
}

}  // namespace tegula::cli
