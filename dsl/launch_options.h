// The options of options.def where users give them: fields of a launch's options and of a configuration.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "codegen/ir/options.h"
#include "dsl/config.h"
#include "dsl/kernel.h"

namespace tegula::dsl {

/// A row of options.def and the fields of its name.
struct LaunchOption {
  const ir::OptionInfo& info;
  int LaunchOptions::*launch;
  std::optional<int> Config::*config;
};

/// All rows in the order of the table.
std::span<const LaunchOption> launch_options();
/// Null: there is no such option.
const LaunchOption* find_launch_option(std::string_view name);

}  // namespace tegula::dsl
