// The devices that a test runs its kernels on.
#pragma once

#include <initializer_list>
#include <memory>
#include <vector>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"

namespace tegula {

using Devices = std::vector<std::shared_ptr<Device>>;

/// The GPU if there is one; else emulators with these options.
inline Devices gpu_or_emulators(std::initializer_list<EmulatorOptions> emulators) {
  // The default device lives as long as the process.
  if (Device* device = default_device(); !device->info().emulator)
    return {std::shared_ptr<Device>(device, [](Device*) {})};
  Devices all;
  for (const EmulatorOptions& options : emulators) all.emplace_back(make_emulator(options));
  return all;
}

}  // namespace tegula
