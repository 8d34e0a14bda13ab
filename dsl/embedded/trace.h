// The recording of a kernel that is a C++ function: Tiles are slots of it, which hold what a name holds in the
// language.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "codegen/ir/ir.h"
#include "dsl/semantics/sema.h"
#include "dsl/tile.h"

namespace tegula::detail {

/// What a Tile holds.
struct Held {
  dsl::Val value;
  dsl::Val number;       ///< the number that it was made from, which takes the type of what it meets; else poison
  std::string unusable;  ///< why there is no value to read; empty if there is one
};

struct Slot : Held {
  explicit Slot(Trace& trace);
  ~Slot();
  Slot(const Slot&) = delete;

  Trace* trace;                  ///< null once the recording has ended
  const uint64_t birth;          ///< in the order of making
  uint64_t id;                   ///< the same, or that of the slot whose heir it is
  Loc loc;                       ///< of the last assignment
  std::optional<uint64_t> heir;  ///< the birth of what it was moved to; at its end that one is what it was
};

class Trace {
 public:
  /// Compile-time Tiles that are values of the kernel in a loop, because its body changes them: numbers of loops and
  /// of Tiles. That is known only when the body was recorded; the kernel is then recorded once more.
  using LoopTiles = std::set<std::pair<int, uint64_t>>;

  /// Throws Error if this thread is recording already.
  Trace(std::string kernel, Loc loc, LoopTiles loop_tiles = {});
  ~Trace();
  Trace(const Trace&) = delete;

  /// The recording of this thread. Throws Error if there is none.
  static Trace& current();

  dsl::Sema& sema() { return sema_; }
  ir::Func& func() { return *func_; }
  void at(const char* file, int line) { sema_.at({intern_file(file), line, 0, 0}); }

  /// Tiles alive now, by id.
  const std::map<uint64_t, Slot*>& slots() const { return slots_; }
  /// What a Tile held when it ended.
  const dsl::Val& ended(uint64_t id) const { return ended_.at(id); }
  uint64_t next_id() const { return next_id_; }
  /// Tiles that were made from `first_id` on have no value from now on.
  void retire(uint64_t first_id, const std::string& why);

  /// The number of a loop that is about to begin, whose compile-time Tiles that it changes become values.
  int begin_loop();
  /// The body of the loop changes a Tile that had a compile-time value before.
  void changes_in_loop(int loop, uint64_t id) { changed_.emplace(loop, id); }
  /// If the recording has to be repeated: for which Tiles.
  std::optional<LoopTiles> repeat_with() const;

  dsl::Val read(const Slot* slot);
  dsl::Val value_of(const Operand& operand);
  Tile make(dsl::Val value);
  void assign(Tile& tile, dsl::Val value, dsl::Val number = {});

  /// Ends the function. Null after errors, which are moved to `diags`.
  std::unique_ptr<ir::Func> finish(Diagnostics& diags);

 private:
  friend struct Slot;
  dsl::Val combine(const Combine& function, std::vector<dsl::Val> values);
  Diagnostics diags_;
  dsl::Sema sema_;
  std::unique_ptr<ir::Func> func_;
  std::map<uint64_t, Slot*> slots_;
  std::map<uint64_t, dsl::Val> ended_;
  uint64_t next_id_ = 0;
  int next_loop_ = 0;
  LoopTiles loop_tiles_, changed_;
};

struct Access {
  static Shared<Slot>& slot(Tile& tile) { return tile.slot_; }
  static const Shared<Slot>& slot(const Tile& tile) { return tile.slot_; }
};

}  // namespace tegula::detail
