#include "codegen/exec/module_stash.h"

#include <algorithm>
#include <deque>
#include <mutex>
#include <utility>

namespace tegula {

namespace {

constexpr size_t kMostModules = 4;

struct Stash {
  std::mutex mutex;
  std::deque<std::pair<std::vector<uint8_t>, StashedModule>> modules;

  auto find(const std::vector<uint8_t>& bitcode) {
    return std::ranges::find(
        modules, bitcode, [](const auto& entry) -> auto& { return entry.first; });
  }
};

/// Never destroyed: the end of the process is no time to free modules.
Stash& stash() {
  static Stash& one = *new Stash;
  return one;
}

}  // namespace

void stash_module(std::vector<uint8_t> bitcode, StashedModule module) {
  StashedModule oldest;  // destroyed without the lock
  std::lock_guard lock(stash().mutex);
  auto& modules = stash().modules;
  modules.emplace_back(std::move(bitcode), std::move(module));
  if (modules.size() <= kMostModules) return;
  oldest = std::move(modules.front().second);
  modules.pop_front();
}

bool has_module(const std::vector<uint8_t>& bitcode) {
  std::lock_guard lock(stash().mutex);
  return stash().find(bitcode) != stash().modules.end();
}

StashedModule take_module(const std::vector<uint8_t>& bitcode) {
  std::lock_guard lock(stash().mutex);
  auto& modules = stash().modules;
  const auto it = stash().find(bitcode);
  if (it == modules.end()) return {};
  StashedModule found = std::move(it->second);
  modules.erase(it);
  return found;
}

}  // namespace tegula
