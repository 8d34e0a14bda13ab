#include "codegen/ir/options.h"

#include <fmt/format.h>

namespace tegula::ir {

namespace {
constexpr OptionInfo kOptions[] = {
#define TEGULA_OPTION(name, ...) option::name,
#include "codegen/ir/options.def"
};
}  // namespace

std::string OptionInfo::wrong(int64_t value) const {
  return fmt::format("{} is {}, expected {}", name, value, expected);
}

const OptionInfo* find_option(std::string_view name) {
  for (const OptionInfo& option : kOptions)
    if (option.name == name) return &option;
  return nullptr;
}

}  // namespace tegula::ir
