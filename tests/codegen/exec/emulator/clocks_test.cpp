// Clocks share maps where they are alike; what they know is what a map of each one's own would hold.
#include "codegen/exec/emulator/races/clocks.h"

#include <gtest/gtest.h>

#include <array>
#include <random>

namespace tegula::emulator {
namespace {

using Plain = std::map<uint32_t, Clock>;

void join_all(Plain& into, const Plain& other) {
  for (const auto& [program, clock] : other) {
    Clock& own = into[program];
    own.resize(std::max(own.size(), clock.size()));
    for (size_t i = 0; i < clock.size(); ++i) own[i] = std::max(own[i], clock[i]);
  }
}

TEST(Clocks, KnowWhatMapsOfTheirOwnWould) {
  constexpr size_t kThreads = 6;
  constexpr uint32_t kPrograms = 5;
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return size_t(random() % n); };
  std::array<Clocks, kThreads> clocks;
  std::array<Plain, kThreads> plain;
  uint32_t now = 0;
  for (int step = 0; step < 20000; ++step) {
    const size_t to = below(kThreads), from = below(kThreads);
    switch (below(8)) {
      case 0:
        clocks[to] = clocks[from], plain[to] = plain[from];
        break;
      case 1:
        clocks[to] = {}, plain[to].clear();
        break;
      case 2: {
        Clock clock(1 + below(3));
        for (uint32_t& count : clock) count = below(2) ? ++now : uint32_t(below(now + 1));
        const auto program = uint32_t(below(kPrograms));
        clocks[to].join(program, clock), join_all(plain[to], {{program, clock}});
        break;
      }
      default:
        clocks[to].join(clocks[from]), join_all(plain[to], plain[from]);
    }
    for (size_t thread : {to, from})
      for (uint32_t program = 0; program < kPrograms; ++program) {
        const Clock* known = clocks[thread].of(program);
        const auto expected = plain[thread].find(program);
        ASSERT_EQ(known != nullptr, expected != plain[thread].end()) << step;
        if (known) ASSERT_EQ(*known, expected->second) << step;
      }
  }
}

}  // namespace
}  // namespace tegula::emulator
