// What threads know of each other's accesses: vector clocks (L. Lamport, "Time, Clocks, and the Ordering of Events in a
// Distributed System", 1978; C. Fidge, F. Mattern, 1988), of warps by programs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

namespace tegula::emulator {

/// How far a thread knows each warp of its program to have counted.
using Clock = std::vector<uint32_t>;

void join(Clock& into, const Clock& other);

/// How far threads know the warps of programs to have counted, by the programs' ids. Copies are one until they differ.
class Clocks {
 public:
  /// Null if nothing is known of the program.
  const Clock* of(uint32_t program) const;
  void join(const Clocks& other);
  void join(uint32_t program, const Clock& clock);

 private:
  using Map = std::map<uint32_t, Clock>;
  Map& own();
  bool knows(uint32_t program, const Clock& clock) const;
  bool knows_all_of(const Clocks& other) const;

  std::shared_ptr<Map> map_;
  std::shared_ptr<const Map> within_;  ///< what it has joined last, of which nothing is new
};

/// What threads tell to those who wait for them.
struct Told {
  Clocks all;    ///< of all that was done
  Clocks reads;  ///< of what was read and of bulk copies that are over, but not of what was stored

  void join(const Told& other);
};

/// What a warp knows.
struct Known {
  Clock own;      ///< of its program
  Told programs;  ///< of any
};

/// What atomic operations that order nothing themselves have to do with the fences around them.
struct Fenced {
  Told left;  ///< what the last fence leaves for those who read what is stored behind it
  Told read;  ///< what was read since, for the next fence
};

}  // namespace tegula::emulator
