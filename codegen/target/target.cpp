#include "codegen/target/target.h"

namespace tegula {

namespace {
constexpr uint32_t operator|(Feature a, Feature b) { return uint32_t(a) | uint32_t(b); }
constexpr uint32_t operator|(uint32_t a, Feature b) { return a | uint32_t(b); }
}  // namespace

const std::vector<Target>& targets() {
  using enum Feature;
  static const std::vector<Target> rows = {
#define TEGULA_TARGET(name, sm, ptx, shared, shared_sm, registers, features) \
  {name, sm, ptx, shared, shared_sm, registers, features},
#include "codegen/target/targets.def"
  };
  return rows;
}

std::optional<Target> find_target(std::string_view name) {
  for (const Target& t : targets())
    if (t.name == name || t.name == std::string(name) + "a") return t;
  return std::nullopt;
}

const Target& target_for_sm(int sm) {
  const Target* best = &targets().front();
  for (const Target& t : targets())
    if (t.sm <= sm) best = &t;
  return *best;
}

}  // namespace tegula
