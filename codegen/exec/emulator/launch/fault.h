// What went wrong in a kernel: recorded by a worker while generated code is on the stack, put in words afterwards.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "codegen/exec/emulator/launch/fibers.h"
#include "codegen/exec/emulator/launch/memory.h"
#include "codegen/exec/emulator/races/stream_order.h"
#include "runtime/kernel_image.h"

namespace tegula::emulator {

enum class Access : uint8_t { Read, Write, Atomic };

struct Fault {
  enum Kind : uint8_t {
    None,
    GlobalBounds,
    GlobalAlignment,
    SharedBounds,
    SharedAlignment,
    Divergence,
    Deadlock,
    Misuse,
    Proxy,
    Assert,
    Stopped,
    GlobalRace,
    SharedRace,
    GlobalUnwritten,
    SharedUnwritten,
  };

  /// What a thread waits for in mbarrier_wait.
  struct Phase {
    uint32_t offset = 0;  ///< of the object in the program's shared memory
    uint32_t parity = 0;
    uint32_t arrivals = 0, expected = 0;     ///< those of copies that are not done count
    uint32_t bytes = 0, expected_bytes = 0;  ///< of bulk copies, those that are not done as well
    bool operator==(const Phase&) const = default;
  };
  /// Threads that wait at one place, or run from there on.
  struct Waiters {
    Where where;
    std::optional<Phase> phase;
    std::vector<uint32_t> threads;
    bool waits = true;
  };
  /// Where a program that is under way stands, or one of the thread blocks that run it.
  struct Standing {
    uint32_t x = 0, y = 0, z = 0;
    uint64_t program = 0;
    uint32_t block = 0;
    std::vector<Waiters> waiters;    ///< also threads that run, where they were last
    std::vector<uint32_t> finished;  ///< threads that left the kernel
  };

  Kind kind = None;
  Access access = Access::Read;
  uint32_t x = 0, y = 0, z = 0;  ///< the program
  uint64_t program = 0;          ///< its number, x running fastest
  uint32_t block = 0;            ///< of the program's, where they are several
  uint32_t thread = 0;
  /// Misuse: the message, in which {address}, {bytes} and {other} stand for members and for the place other_where.
  /// Proxy: who uses shared memory, and how.
  const char* what = "";
  Where where;
  uint64_t address = 0;  ///< of an access; Assert: its number; shared ones count from the start of the program's array
  uint32_t bytes = 0;
  bool by_made_pointer = false;  ///< GlobalBounds: may be, as the code makes pointers of numbers
  int argument = -1;             ///< GlobalBounds: by whose pointer, where the address is in another argument's array
  std::string element;           ///< Assert: which one fails it, and by what
  uint32_t other_thread = 0;     ///< Divergence: which thread arrived earlier, and where; Proxy: which one stored
  Where other_where;
  /// Of a race: the earlier access.
  Access other_access = Access::Read;
  uint32_t other_x = 0, other_y = 0, other_z = 0;
  bool between_programs = false;
  std::optional<uint32_t> other_block;         ///< of the program's cluster, if it is another one
  const StreamLaunch* other_launch = nullptr;  ///< of another one, which Races keeps: other_where is of its code
  bool by_bulk_copy = false;                   ///< the earlier one
  bool by_scope = false;                       ///< both are atomic, but for one program alone
  std::vector<Standing> standings;             ///< Deadlock, Stopped: of all programs under way
};

/// What is told of where checks are asked for, and ends no launch (arithmetic_checks.h, number_births.h).
enum class Warning : uint32_t {
  IndexOverflow,
  DivisionByZero,
  WideShift,
  NanIsBorn,
  InfinityIsBorn,
  IndexBeyondExtent
};

/// The taint (access_taints.h) of what is warned of at one of the kernel's places, and the other way round.
inline constexpr uint32_t taint_of(Warning what, uint32_t place) { return place << 4 | (uint32_t(what) + 1); }
inline constexpr Warning warning_of_taint(uint32_t taint) { return Warning((taint & 15) - 1); }
inline constexpr uint32_t place_of_taint(uint32_t taint) { return taint >> 4; }

/// Which births of numbers are warned of.
struct Births {
  bool nans = false, infinities = false;
};

/// The warning without its place.
const char* text_of(Warning what);

/// A call in the code that threads of a warp or program do together, or arithmetic that may be warned of.
struct Place {
  std::string operation;  ///< row of hw.def
  Loc loc;                ///< from the debug information; of use where the row has no `site`
};

/// The fault as text of several lines. `args` are those of the launch: a pointer argument that points into the
/// allocation nearby is named.
std::string describe(const Fault& fault, const KernelImage& image, const std::vector<Place>& places,
                     const GlobalMemory& memory, void* const* args);

/// The same of a copy or a fill that races with a launch.
std::string describe_transfer(const Fault& fault, const StreamLaunch& transfer, const GlobalMemory& memory);

}  // namespace tegula::emulator
