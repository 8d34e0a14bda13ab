// Kernels as the C interface hands them out, for the parts of it that launch. Not for users.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "bindings/runtime/common.h"
#include "bindings/tegula.h"
#include "dsl/kernel.h"
#include "dsl/launch_options.h"

struct tegula_config {
  tegula::Config config;
  std::string text;
};

struct tegula_kernel {
  explicit tegula_kernel(tegula::Kernel k) : kernel(std::move(k)) {}

  tegula::Kernel kernel;
  mutable std::mutex mutex = {};
  mutable std::vector<std::unique_ptr<tegula_config>> configs = {};  ///< those that were handed out

  const tegula_config* handle_of(const tegula::Config& config) const {
    std::lock_guard lock(mutex);
    for (const auto& known : configs)
      if (known->config.constexprs == config.constexprs &&
          std::ranges::all_of(tegula::dsl::launch_options(),
                              [&](auto& option) { return known->config.*option.config == config.*option.config; }))
        return known.get();
    configs.push_back(std::make_unique<tegula_config>(tegula_config{config, config.to_string()}));
    return configs.back().get();
  }
};

namespace tegula::bindings {

/// The options of a launch on a stream; null stands for those by default. Throws UsageError.
LaunchOptions options_of(const tegula_options* options, tegula_stream stream);

}  // namespace tegula::bindings
