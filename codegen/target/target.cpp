#include "codegen/target/target.h"

#include <utility>

#include "codegen/target/cache.h"

namespace tegula {

namespace {
constexpr uint32_t operator|(Feature a, Feature b) { return uint32_t(a) | uint32_t(b); }
constexpr uint32_t operator|(uint32_t a, Feature b) { return a | uint32_t(b); }
}  // namespace

const std::vector<Target>& targets() {
  using enum Feature;
  static const std::vector<Target> rows = {
#define TEGULA_TARGET(name, sm, ptx, shared, shared_sm, registers, warps, programs, rates, features) \
  {name, sm, ptx, shared, shared_sm, registers, warps, programs, rates, features},
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

int Target::ptx_for(Feature f) const {
  struct Later {
    std::string_view target;
    Feature feature;
    int ptx;
  };
  using enum Feature;
  static constexpr Later kLater[] = {
#define TEGULA_LATER(target, feature, ptx) {target, feature, ptx},
#include "codegen/target/targets.def"
  };
  for (const Later& row : kLater)
    if (row.target == name && row.feature == f) return row.ptx;
  return ptx;
}

int64_t l2_bytes(const Target& target) {
  static constexpr std::pair<std::string_view, int64_t> kSizes[] = {
#define TEGULA_L2(target, megabytes) {target, megabytes},
#include "codegen/target/targets.def"
  };
  for (const auto& [name, megabytes] : kSizes)
    if (name == target.name) return megabytes << 20;
  return kSizes[0].second << 20;
}

std::optional<double> memory_rate(std::string_view device_name) {
  static constexpr std::pair<std::string_view, double> kDevices[] = {
#define TEGULA_DEVICE(name, gb_s) {name, gb_s},
#include "codegen/target/targets.def"
  };
  for (const auto& [name, rate] : kDevices)
    if (device_name.find(name) != std::string_view::npos) return rate;
  return std::nullopt;
}

}  // namespace tegula
