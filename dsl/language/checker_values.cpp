// Values that meet: at the end of the branches of a run-time condition, and at the back edge of a loop.
#include <fmt/format.h>

#include <cmath>

#include "dsl/language/checker_impl.h"

namespace tegula::language {

void Checker::name_values(const Val& v, const std::string& name) {
  if (ir::Value* value = v.value(); value && value->name.empty() && !name.starts_with('.')) value->name = name;
}

}  // namespace tegula::language
