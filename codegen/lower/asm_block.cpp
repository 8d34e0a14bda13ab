#include "codegen/lower/asm_block.h"

#include <regex>

#include "codegen/lower/llvm_headers.h"

namespace tegula::lower {

namespace {
constexpr const char* kText = "tegula-asm";
constexpr const char* kConstraints = "tegula-asm-constraints";
constexpr const char* kSite = "tegula-asm-site";
}  // namespace

AsmRegisters asm_registers(std::string_view constraints) {
  AsmRegisters out;
  while (!constraints.empty()) {
    const size_t comma = constraints.find(',');
    std::string_view part = constraints.substr(0, comma);
    constraints = comma == constraints.npos ? std::string_view() : constraints.substr(comma + 1);
    while (part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty() || part[0] == '~') continue;
    if (part[0] == '=') {
      out.results += part.back();
      continue;
    }
    const bool tied = part[0] >= '0' && part[0] <= '9';
    out.ties.push_back(tied ? part[0] - '0' : -1);
    out.arguments += tied ? out.results[size_t(part[0] - '0')] : part[0];
  }
  return out;
}

int ptx_version_of_asm(const std::string& text) {
  struct Row {
    int ptx;
    const char *part, *pattern;
  };
  static constexpr Row kRows[] = {
#define TEGULA_ASM_VERSION(ptx, part, pattern) {ptx, part, pattern},
#include "codegen/lower/asm_versions.def"
  };
  int version = 0;
  for (const Row& row : kRows)
    if (row.ptx > version && text.find(row.part) != text.npos && std::regex_search(text, std::regex(row.pattern)))
      version = row.ptx;
  return version;
}

llvm::Function* declare_asm(llvm::Module& module, std::string_view name, llvm::FunctionType* type,
                            const AsmBlock& block) {
  const std::string full = fmt::format("{}{}", kAsmPrefix, name);
  if (llvm::Function* f = module.getFunction(full)) return f;
  auto* f = llvm::Function::Create(type, llvm::GlobalValue::ExternalLinkage, full, module);
  f->addFnAttr(kText, block.text);
  f->addFnAttr(kConstraints, block.constraints);
  f->addFnAttr(kSite, std::to_string(block.site));
  f->setDoesNotThrow();
  f->addFnAttr(llvm::Attribute::NoCallback);
  if (block.pure) {
    f->setDoesNotAccessMemory();
    f->addFnAttr(llvm::Attribute::WillReturn);
  } else {
    f->setConvergent();  // it may hold a barrier
  }
  return f;
}

std::optional<AsmBlock> asm_of_function(const llvm::Function& function) {
  if (!function.getName().starts_with(llvm::StringRef(kAsmPrefix))) return std::nullopt;
  auto attribute = [&](const char* name) { return function.getFnAttribute(name).getValueAsString().str(); };
  return AsmBlock{attribute(kText), attribute(kConstraints), function.doesNotAccessMemory(),
                  std::stoi(attribute(kSite))};
}

}  // namespace tegula::lower
