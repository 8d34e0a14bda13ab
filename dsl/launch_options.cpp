#include "dsl/launch_options.h"

namespace tegula::dsl {

namespace {

constexpr LaunchOption kOptions[] = {
#define TEGULA_OPTION(name, ...) {ir::option::name, &LaunchOptions::name, &Config::name},
#include "codegen/ir/options.def"
};

// kernel.h is public and cannot take its defaults from the table.
#define TEGULA_OPTION(name, ...) static_assert(LaunchOptions{}.name == ir::option::name.fallback);
#include "codegen/ir/options.def"

}  // namespace

std::span<const LaunchOption> launch_options() { return kOptions; }

const LaunchOption* find_launch_option(std::string_view name) {
  for (const LaunchOption& option : kOptions)
    if (option.info.name == name) return &option;
  return nullptr;
}

}  // namespace tegula::dsl
