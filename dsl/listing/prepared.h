// Kernels made ready ahead of the launches that need them, for every Program of the same text.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>

#include "dsl/kernel_source.h"
#include "dsl/listing/variants.h"
#include "runtime/launch.h"

namespace tegula::dsl {

/// Text of the options with the constexprs in the order of their names.
std::string options_text(const LaunchOptions& options);
/// Names the variants of a kernel that differ in facts about values alone, by the text of its source, wherever that
/// lies; empty for a C++ function. What a kernel imports from files is not in it.
std::string variants_key(const KernelSource& source, std::span<const ArgType> types, const LaunchOptions& options);
/// Names a problem of tuning likewise.
std::string choice_key(const KernelSource& source, std::string_view gpu, std::string_view problem);

class PreparedKernels {
 public:
  static PreparedKernels& of_process();

  /// Whether there is nothing at all, so that no key is worth making.
  bool empty() const { return empty_; }

  void put(Device& device, const std::string& key, const LaunchHandle& handle);
  /// As of Variants.
  std::optional<LaunchHandle> find(const Device& device, const std::string& key, std::span<const ArgType> types) const;
  std::optional<LaunchHandle> find_fitting(const Device& device, const std::string& key,
                                           std::span<const ArgType> types) const;

  /// The options that were chosen for a problem of tuning, as options_text().
  void choose(const std::string& key, const std::string& options);
  std::optional<std::string> choice(const std::string& key) const;

 private:
  struct Tables {
    mutable std::mutex mutex;
    Variants handles;
    std::map<std::string, std::string> choices;
    std::set<const Device*> devices;
  };
  std::shared_ptr<Tables> tables_ = std::make_shared<Tables>();
  std::atomic<bool> empty_{true};
};

}  // namespace tegula::dsl
