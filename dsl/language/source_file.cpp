#include "dsl/language/source_file.h"

#include "dsl/language/parser.h"

namespace tegula::language {

SourceFile::SourceFile(std::string text, std::string_view name, Diagnostics& diags)
    : text_(std::move(text)), module_(parse(text_, name, diags)) {}

Diagnostics SourceFile::diagnostics() const {
  Diagnostics diags;
  diags.sources().add(module_.file, text_);
  return diags;
}

const SourceFile::HostFunction* SourceFile::host_function(std::string_view name) const {
  std::lock_guard lock(mutex_);
  auto it = host_functions_.find(name);
  if (it == host_functions_.end()) {
    std::optional<HostFunction> found;
    Diagnostics diags;
    if (auto function = parse_host_function(text_, *module_.file, name, diags))
      found = HostFunction{std::move(*function), std::move(diags)};
    it = host_functions_.emplace(std::string(name), std::move(found)).first;
  }
  return it->second ? &*it->second : nullptr;
}

}  // namespace tegula::language
