// Kernels made ready, found by the facts about arguments that their code relies on.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "dsl/kernel.h"
#include "runtime/launch.h"

namespace tegula::dsl {

/// Text of the types without facts about values (multiples, integers of 1): equal for all variants of a kernel that may
/// serve one launch.
std::string types_without_facts(std::span<const ArgType> types);

/// Variants of kernels by device and by a key, which names everything that is compiled in but the facts about values.
/// Not for several threads at once.
class Variants {
 public:
  /// Takes the place of a variant that relies on the same facts.
  void put(const Device& device, const std::string& key, const LaunchHandle& handle);
  /// The variant that is compiled for exactly these types.
  std::optional<LaunchHandle> find(const Device& device, const std::string& key, std::span<const ArgType> types) const;
  /// Of the variants whose facts hold for these types, the one that relies on most.
  std::optional<LaunchHandle> find_fitting(const Device& device, const std::string& key,
                                           std::span<const ArgType> types) const;
  /// Drops what is ready on the device.
  void drop(const Device& device);

 private:
  struct Variant {
    std::vector<ArgType> facts;  ///< of the arguments in parts, without the forms of descriptors
    LaunchHandle handle;
  };
  const std::vector<Variant>* of(const Device& device, const std::string& key) const;

  std::map<std::pair<const Device*, std::string>, std::vector<Variant>> variants_;
};

}  // namespace tegula::dsl
