// Bytes that a launch moves, counted from the addresses that its programs touch.
//
// Memory and caches move sectors of 32 bytes. What a program asks the L2 cache for are the sectors of each of its
// accesses, less those that the L1 cache of its multiprocessor still has; what comes from memory are the sectors that
// no program has touched before and those that the L2 cache has given up since, as the programs that run at a time
// touch them in turn.
#pragma once

#include <array>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "codegen/explain/access_trace.h"
#include "codegen/ir/ir.h"

namespace tegula::explaining {

inline constexpr int64_t kSectorBytes = 32;

/// The machine that bytes are counted for.
struct CacheSizes {
  int64_t l2_bytes = 50 << 20;
  int64_t l1_bytes = 0;          ///< of the multiprocessors that run a program
  int64_t places = 1;            ///< multiprocessors, or groups of them where a cluster runs a program
  int64_t programs_a_place = 1;  ///< at a time
};

/// One of the function's pointer parameters.
struct ArrayTraffic {
  int parameter = -1;  ///< -1: pointers that come from several
  std::string name;
  int64_t read = 0, written = 0;                ///< between the multiprocessors and the L2 cache, of the launch
  int64_t unique_read = 0, unique_written = 0;  ///< each sector once
  int64_t from_memory = 0, to_memory = 0;
};

/// An op that accesses memory.
struct AccessTraffic {
  const ir::Op* op;
  int parameter;
  double times = 0;    ///< executions, of the launch
  double useful = 0;   ///< bytes of elements where the mask holds
  double sectors = 0;  ///< bytes of the sectors that these lie in
};

struct Traffic {
  int64_t programs = 0, counted = 0;  ///< counted: programs looked at; the others are taken to be like these
  int64_t read = 0, written = 0;      ///< of the launch, through the L2 cache
  int64_t from_memory = 0, to_memory = 0;
  int64_t useful_read = 0, useful_written = 0;
  std::vector<ArrayTraffic> arrays;     ///< those that are touched, by parameter
  std::vector<AccessTraffic> accesses;  ///< in the order of the function
  ControlCounts control;                ///< what loops and branches did, where that was known
  std::set<std::string> assumptions;    ///< what the counts rest on that arguments do not tell
};

/// `func` is of stage Tile.
Traffic count_traffic(const ir::Func& func, const LaunchFacts& launch, const CacheSizes& caches);

/// The bytes that one program touches of each parameter, as intervals of addresses, in order and apart.
struct Footprint {
  using Intervals = std::vector<std::pair<int64_t, int64_t>>;
  std::vector<Intervals> read, written;  ///< by parameter
};
Footprint footprint(const ir::Func& func, const LaunchFacts& launch, std::array<int64_t, 3> program);

/// The program of that number, x running fastest.
std::array<int64_t, 3> program_of(const std::array<int64_t, 3>& grid, int64_t number);

}  // namespace tegula::explaining
