#include "codegen/exec/emulator/races/clocks.h"

#include <algorithm>
#include <functional>

namespace tegula::emulator {

void join(Clock& into, const Clock& other) {
  if (into.size() < other.size()) into.resize(other.size());
  for (size_t i = 0; i < other.size(); ++i) into[i] = std::max(into[i], other[i]);
}

const Clock* Clocks::of(uint32_t program) const {
  if (!map_) return nullptr;
  const auto found = map_->find(program);
  return found == map_->end() ? nullptr : &found->second;
}

Clocks::Map& Clocks::own() {
  if (!map_) {
    map_ = std::make_shared<Map>();
  } else if (map_.use_count() > 1) {
    within_ = map_;
    map_ = std::make_shared<Map>(*map_);
  }
  return *map_;
}

bool Clocks::knows(uint32_t program, const Clock& clock) const {
  const Clock* known = of(program);
  return known && known->size() >= clock.size() &&
         std::equal(clock.begin(), clock.end(), known->begin(), std::less_equal());
}

bool Clocks::knows_all_of(const Clocks& other) const {
  if (!other.map_ || map_ == other.map_ || within_ == other.map_) return true;
  return map_ && map_->size() >= other.map_->size() &&
         std::ranges::all_of(*other.map_, [&](const auto& entry) { return knows(entry.first, entry.second); });
}

/// Those who meet at barriers come to share one map, which is compared no more.
void Clocks::join(const Clocks& other) {
  if (!other.map_ || map_ == other.map_ || within_ == other.map_) return;
  if (other.knows_all_of(*this)) {
    *this = other;
    return;
  }
  for (const auto& [id, clock] : *other.map_) join(id, clock);
  within_ = other.map_;
}

void Clocks::join(uint32_t program, const Clock& clock) {
  if (!knows(program, clock)) emulator::join(own()[program], clock);
}

void Told::join(const Told& other) {
  all.join(other.all);
  reads.join(other.reads);
}

}  // namespace tegula::emulator
