// What a kernel writes for names that other libraries have.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tegula::dsl {

/// A hint for a name that the language lacks: what other_names.def says, else where libdevice has a function of the
/// name; none of others.
std::optional<std::string> hint_for_other_name(std::string_view name);

}  // namespace tegula::dsl
