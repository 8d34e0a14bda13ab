// Which device to use when the user names none.
#include <fmt/format.h>

#include <cstdlib>
#include <string_view>

#include "codegen/exec/emulator.h"
#include "dsl/kernel.h"
#include "dsl/language/default_capability.h"
#include "runtime/cuda_device.h"

namespace tegula {

namespace {

std::shared_ptr<Device> open_emulator() {
  EmulatorOptions options;
  if (const char* target = std::getenv("TEGULA_TARGET"); target && *target) options.target = target;
  return make_emulator(options);
}

std::pair<std::shared_ptr<Device>, std::string> choose() {
  const char* wanted = std::getenv("TEGULA_DEVICE");
  std::string_view choice = wanted ? wanted : "";
  if (choice == "emulator") {
    auto device = open_emulator();
    return {device, fmt::format("{}: TEGULA_DEVICE asks for the emulator", device->info().name)};
  }
  if (choice == "gpu") {
    std::shared_ptr<Device> device = open_cuda_device();
    return {device, fmt::format("{}: TEGULA_DEVICE asks for a GPU", device->info().name)};
  }
  if (!choice.empty()) throw DeviceError(fmt::format("TEGULA_DEVICE is '{}', expected 'gpu' or 'emulator'", choice));
  try {
    std::shared_ptr<Device> device = open_cuda_device();
    return {device, fmt::format("{}: the first GPU", device->info().name)};
  } catch (const DeviceError& error) {
    auto device = open_emulator();
    // Nothing is wrong where there is no driver; of other reasons the first line.
    std::string_view why = error.what();
    why = why.starts_with("no CUDA driver") ? "no CUDA driver" : why.substr(0, why.find('\n'));
    return {device, fmt::format("{}: runs kernels on the CPU, for want of a GPU ({})", device->info().name, why)};
  }
}

}  // namespace

Device* default_device(std::string* why) {
  // Never destroyed: kernels and buffers of static storage may outlive any order of destruction.
  static const auto* chosen = new auto(choose());
  if (why) *why = chosen->second;
  return chosen->first.get();
}

std::optional<int> language::default_capability() {
  try {
    return default_device()->info().sm;
  } catch (const DeviceError&) {
    return std::nullopt;
  }
}

}  // namespace tegula
