// The hot path of a launch: from its arguments to the kernel made ready for them, without a lock, an allocation or a
// string.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "dsl/config.h"
#include "dsl/kernel.h"
#include "runtime/launch.h"

namespace tegula::dsl {

/// What of a launch decides on the kernel to run, as numbers: a class for each argument (type, and the facts that code
/// is specialised for) and the values of key arguments. Two launches with equal keys and equal constexprs run the same
/// kernel; unequal keys may as well.
class LaunchKey {
 public:
  enum class Stage {
    Open,      ///< options as the launch gives them
    Complete,  ///< with what tuning and heuristics add
  };
  /// `key_args`: positions of arguments whose values count.
  LaunchKey(const Device& device, const LaunchOptions& options, std::span<const Arg> args,
            std::span<const int> key_args, Stage stage);

  Stage stage() const { return stage_; }

  const Device* device() const { return device_; }
  std::span<const uint64_t> words() const { return {words_, count_}; }
  uint64_t hash() const { return hash_; }

 private:
  void add(uint64_t word);

  static constexpr size_t kInline = 24;
  const Device* device_;
  Stage stage_;
  uint64_t inline_[kInline];
  std::vector<uint64_t> more_;  ///< used by launches with very many arguments alone
  uint64_t* words_ = inline_;
  size_t count_ = 0;
  uint64_t hash_ = 0;
};

/// A kernel made ready, and what launches find it by.
struct ReadyLaunch {
  ReadyLaunch(const LaunchKey& key, const LaunchOptions& options, std::optional<LaunchHandle> handle, Config config);

  std::atomic<const Device*> device;  ///< null once the device has ended
  uint64_t hash;
  std::vector<uint64_t> words;
  std::vector<ConstexprArg> constexprs;
  std::optional<LaunchHandle> handle;  ///< none once the device has ended
  Config config;                       ///< all constexprs and options that it runs with
  ReadyLaunch* next = nullptr;
};

/// A hash table that only grows, so that readers need no lock. What belongs to a device that ends is emptied, and
/// stays.
class ReadyTable {
 public:
  ReadyTable() = default;
  ~ReadyTable();
  ReadyTable(const ReadyTable&) = delete;

  const ReadyLaunch* find(const LaunchKey& key, const LaunchOptions& options) const;
  /// If another thread was first, its entry stays and is returned.
  const ReadyLaunch* insert(std::unique_ptr<ReadyLaunch> launch);
  /// Drops what is ready on the device, which nobody may be launching on.
  void drop(const Device& device);

 private:
  static constexpr size_t kBuckets = 256;
  std::array<std::atomic<ReadyLaunch*>, kBuckets> buckets_{};
  std::mutex writing_;
};

}  // namespace tegula::dsl
