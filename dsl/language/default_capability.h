// What decorators may ask of the device that a launch would go to.
#pragma once

#include <optional>

namespace tegula::language {

/// The compute capability of the default device, 90 for sm_90; nothing where there is none. The front end knows no
/// devices: dsl/device.cpp tells it, and a program that links the front end alone tells it itself.
std::optional<int> default_capability();

}  // namespace tegula::language
