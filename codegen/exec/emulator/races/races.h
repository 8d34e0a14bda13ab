// Races: two accesses to the same bytes, one of them a store, between which nothing orders the threads.
//
// Each warp counts what orders it (a meeting of its lanes, a barrier, an arrival, an atomic operation that releases)
// and knows how far every other warp had counted when it last heard of that one, directly or by way of others. An
// access is ordered before another one if the later warp knows of a count behind it; lanes of a warp know each other's
// accesses from before their last meeting. Programs learn of each other by atomic operations that acquire what another
// one released at that address; blocks of a cluster by its barriers. What blocks exchange by asynchronous stores, and
// arrivals at other blocks' mbarriers, tells what was read before, since it follows from that, but not what was stored.
// Launches that StreamOrder does not know to be over may run beside this one. What bulk copies write is an access of a
// warp of its own, of which waits for their phase tell.
//
// Where lanes or programs store what stands there already, nothing is reported: any order gives the same. Only a store
// of something else races with one of those.
//
// Reads of bytes that nobody has written are found too: of shared memory by the program, of global memory by anybody
// since it was allocated.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "codegen/exec/emulator/launch/access_taints.h"
#include "codegen/exec/emulator/launch/fault.h"
#include "codegen/exec/emulator/launch/memory.h"
#include "codegen/exec/emulator/races/cells.h"
#include "codegen/exec/emulator/races/clocks.h"

namespace tegula::emulator {

struct Fiber;
struct Program;
struct Launch;

/// What the warps of a program know.
struct ProgramClocks {
  uint32_t id = 0;             ///< of the program, never given twice; those of a cluster's blocks follow each other
  std::vector<Known> known;    ///< by each warp
  uint32_t bulk_copies = 1;    ///< the count of the copies' own warp
  std::vector<Fenced> fenced;  ///< by thread
  std::vector<Fault> unwritten_reads;  ///< of the cluster's first block: those of all, by the numbers of their taints
  Fault unwritten;                     ///< the first one that is
};

/// What a copy or a fill does with memory.
struct Transferred {
  uint64_t address;
  uint64_t bytes;
  Access access;
};

/// What an atomic operation or a volatile load orders.
struct MemoryOrder {
  bool strong = false;  ///< it is one of these
  bool acquires = false, releases = false;
  bool program_only = false;  ///< its scope is 'cta'

  uint32_t bits() const { return uint32_t(strong) | acquires << 1 | releases << 2 | program_only << 3; }
  static MemoryOrder of_bits(uint32_t bits) { return {bool(bits & 1), bool(bits & 2), bool(bits & 4), bool(bits & 8)}; }
};

/// The detector of a worker. Accesses that race end the launch.
class Races {
 public:
  /// The programs that begin from here on are those of this launch; all earlier ones are over.
  void begin(const Launch& launch);
  void begin(Program& program);
  /// A copy or a fill, which `goes_on` when the host does. Returns its first race with an earlier launch, which Races
  /// keeps.
  std::optional<Fault> transfer(std::shared_ptr<const StreamLaunch> what, std::span<const Transferred> parts,
                                bool goes_on);

  /// `hands_on`: Fiber::loaded gets the taints of what nobody has written, of a long read at its beginning. Else a read
  /// uses that.
  void global(Fiber& fiber, uint64_t address, uint32_t bytes, Access access, Where where, const void* stored,
              bool hands_on = false);
  /// The program uses what has the taint of such a read.
  static void use_unwritten(Program& program, uint32_t taint);
  /// Of the shared memory of the program, or of the block of its cluster, `of`. `loaded`, if not null, gets the taints
  /// of what is read; else a read uses that.
  void shared(const Fiber& fiber, const Program& of, uint32_t offset, uint32_t bytes, Access access, Where where,
              const void* stored, AccessTaints* loaded = nullptr);
  /// Of what was just stored there, and what stands there.
  void put_taints(const Program& of, uint32_t offset, uint32_t bytes, const AccessTaints& taints);
  uint32_t taint(const Program& of, uint32_t offset, uint32_t bytes);
  /// An asynchronous copy to the program's shared memory, which the current thread has issued; and where it is over.
  /// Between, nobody may access these bytes.
  void copy_begins(const Program& of, uint32_t offset, uint32_t bytes, Where where);
  void copy_ends(const Program& of, uint32_t offset, uint32_t bytes);
  /// The box of a bulk copy to the shared memory of `of`, when the current thread issues it.
  void bulk_copy(const Program& of, uint32_t offset, uint32_t bytes, Where where);

  /// Numbers of 32 bits whose sums and products did not fit, as what they would be: those in shared memory until
  /// something else is stored there, and counters.
  void note_exact(const Program& of, uint32_t address, uint64_t exact);
  uint64_t exact_of(const Program& of, uint32_t address, uint32_t value);
  /// An atomic sum; returns what stood at the address before.
  uint64_t note_sum(uint64_t address, uint32_t old, uint32_t added);

  static void warp_met(Program& program, uint32_t warp);
  /// The threads [first, first + threads) of the program.
  static void threads_met(Program& program, uint32_t first, uint32_t threads);
  /// The warp arrives at a barrier of which others will learn, by `told`.
  static void arrive(Program& program, uint32_t warp, Told& told);
  /// The same to another block by what is no release to the cluster, or an asynchronous store. What the warp has read
  /// it has; what it stored may come later than that.
  static void arrive_having_read(Program& program, uint32_t warp, Told& told);
  static void wait(Program& program, uint32_t warp, const Told& told) { learn(program, warp, told, false); }
  /// A fence of the thread.
  static void fence(Program& program, uint32_t thread);
  /// Bulk copies have ended, as the clock tells.
  static void end_bulk_copies(Program& program, Told& told);

 private:
  static constexpr uint64_t kPageBytes = 4096;
  /// Of global memory.
  struct Page {
    Cells cells = Cells::of(kPageBytes);
    uint32_t launch = 0;  ///< the first program of the one that found what follows; 0: none
    WrittenAllocation* written =
        nullptr;   ///< what was accessed there last, of which written_ has a part; null: no allocation
    Range beside;  ///< around what was accessed, if it is of no allocation: where there is none
  };
  /// Of a program's shared memory.
  struct SharedCells {
    struct Written {
      uint32_t by = 0;  ///< the program whose bytes these are
      uint8_t bytes = 0;
    };
    /// By a copy under way, of this program; 0: there is none.
    struct Copied {
      uint32_t by = 0;
      uint32_t thread = 0, site = 0;
    };
    Cells cells;
    std::vector<Written> written;
    std::vector<Copied> copied;          ///< empty where nothing was ever copied
    std::map<uint32_t, uint64_t> exact;  ///< by cells
    std::vector<uint32_t> taints;        ///< by bytes; empty where there never was one
  };
  struct Access_ {
    Program& program;
    uint32_t warp, lane;
    Access access;
    MemoryOrder order;
    Where where;
    bool is_shared;
  };

  /// A launch that may run beside later ones.
  struct EarlierLaunch {
    std::shared_ptr<const StreamLaunch> launch;
    std::unordered_map<uint32_t, uint64_t> numbers;  ///< of its programs, by their ids
  };
  static constexpr size_t kMostEarlier = 64;

  void begin_next(std::shared_ptr<const StreamLaunch> launch);
  /// Of these bytes of the cell.
  const Slot* beside_transfer(const Cells& cells, size_t cell, const Slot& slot) const;
  std::optional<Fault> transfer(const Transferred& part, uint32_t id, bool goes_on);
  std::optional<Fault> transfer(Cells& cells, const Transferred& part, uint32_t id, bool goes_on);

  Page& page(uint64_t number);
  /// The allocation that the address of the page is of; null: it is of none.
  WrittenAllocation* written_at(Page& page, uint64_t address);
  SharedCells& shared_cells(const Program& program);
  /// The launch of a program that is none of this one's; null where it is sure to be over.
  const EarlierLaunch* beside(uint32_t program) const;
  static bool in_cluster(uint32_t id, const Program& program);
  bool is_ordered(const Slot& before, const Access_& now) const;
  static bool lies_beneath(const Slot& before, const Slot& now);
  bool is_past(const Slot& before, const Slot& slot, const Access_& now) const;
  bool conflicts(const Slot& before, const Access_& now, uint8_t bytes) const;
  /// Of [address, address + bytes), which lie in the cells from `first` on.
  void access(Cells& cells, size_t first, const Access_& now, uint64_t address, uint32_t bytes, bool same_value);
  void check(Cells& cells, size_t cell, const Access_& now, const Slot& slot, uint64_t address, bool same_value);
  void record_write(Cells& cells, size_t cell, const Slot& slot, const Access_& now);
  void record_read(Cells& cells, size_t cell, const Slot& slot, const Access_& now);
  Fault fault_of(const Slot& before, uint64_t cell, uint32_t bytes) const;
  /// Of these bytes of the cell at that address.
  [[noreturn]] void report(const Slot& before, const Access_& now, uint64_t cell, uint32_t bytes);
  static void note_written(SharedCells::Written& cell, uint32_t of, const Access_& now, uint64_t address,
                           uint8_t bytes);
  [[noreturn]] static void check_copied(const SharedCells::Copied& copied, const Access_& now, uint64_t address);
  static Fault unwritten_read(const Access_& now, uint64_t address, uint32_t bytes);
  static void note_unwritten(const Access_& now, uint64_t address, uint32_t bytes);
  static AccessTaints hold_unwritten(const Access_& now, uint64_t address, uint32_t bytes,
                                     const WrittenAllocation& written);
  void order(Program& program, uint32_t thread, uint64_t address, MemoryOrder order, Access access);
  static void learn(Program& program, uint32_t warp, const Told& told, bool program_only);
  static void tell(Program& program, uint32_t warp, Told& told);

  const Launch* launch_ = nullptr;
  std::shared_ptr<const StreamLaunch> last_launch_;  ///< or transfer
  uint32_t next_id_ = 1, first_id_ = 1;              ///< of programs; the launch's first one
  std::unordered_map<uint32_t, uint64_t> numbers_;   ///< of the launch's programs, by their ids
  std::map<uint32_t, EarlierLaunch> earlier_;        ///< by the first of their programs' ids
  std::unordered_map<uint64_t, Page> pages_;
  struct KnownPage {
    uint64_t number = ~uint64_t(0);
    Page* page = nullptr;
  };
  std::array<KnownPage, 4096> known_pages_;  ///< by bits of their numbers
  /// Allocations that pages know of in this launch.
  std::vector<std::shared_ptr<WrittenAllocation>> written_;
  std::unordered_map<uint32_t, SharedCells> shared_;  ///< by the addresses of programs' shared memory
  uint32_t last_shared_base_ = 0;                     ///< of `last_shared_`
  SharedCells* last_shared_ = nullptr;
  std::map<uint64_t, uint64_t> exact_counters_;  ///< at these addresses
  struct Released {
    Told told;
    Clocks in_program;  ///< what is for the same program alone
  };
  std::map<uint64_t, Released> released_;  ///< at these addresses
};

}  // namespace tegula::emulator
