#include "dsl/semantics/other_names.h"

#include <fmt/format.h>

#include "dsl/semantics/internal.h"

namespace tegula::dsl {

std::optional<std::string> hint_for_other_name(std::string_view name) {
#define TEGULA_OTHER_NAME(other, hint) \
  if (name == #other) return hint;
#include "dsl/semantics/other_names.def"
  if (find_function(fmt::format("libdevice.{}", name))) return fmt::format("write 'tl.math.{}'", name);
  return std::nullopt;
}

}  // namespace tegula::dsl
