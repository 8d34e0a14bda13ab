// The recording of a kernel that is a C++ function: Tiles are slots of it, which hold what a name holds in the
// language.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "codegen/ir/ir.h"
#include "dsl/semantics/sema.h"
#include "dsl/tile.h"

namespace tegula::detail {

struct Slot {
  explicit Slot(Trace& trace);
  ~Slot();
  Slot(const Slot&) = delete;

  Trace* trace;  ///< null once the recording has ended
  uint64_t id;   ///< in the order of making
  dsl::Val value;
  std::string unusable;  ///< why there is no value to read; empty if there is one
  Loc loc;               ///< of the last assignment
};

class Trace {
 public:
  /// Throws Error if this thread is recording already.
  Trace(std::string kernel, Loc loc);
  ~Trace();
  Trace(const Trace&) = delete;

  /// The recording of this thread. Throws Error if there is none.
  static Trace& current();

  dsl::Sema& sema() { return sema_; }
  ir::Func& func() { return *func_; }
  void at(const char* file, int line) { sema_.at({intern_file(file), line, 0, 0}); }

  /// Tiles alive now, by id.
  const std::map<uint64_t, Slot*>& slots() const { return slots_; }
  uint64_t next_id() const { return next_id_; }
  /// Tiles that were made from `first_id` on have no value from now on.
  void retire(uint64_t first_id, const std::string& why);

  dsl::Val read(const Slot* slot);
  dsl::Val value_of(const Operand& operand);
  Tile make(dsl::Val value);
  void assign(Tile& tile, dsl::Val value);

  /// Ends the function. Null after errors, which are moved to `diags`.
  std::unique_ptr<ir::Func> finish(Diagnostics& diags);

 private:
  friend struct Slot;
  Diagnostics diags_;
  dsl::Sema sema_;
  std::unique_ptr<ir::Func> func_;
  std::map<uint64_t, Slot*> slots_;
  uint64_t next_id_ = 0;
};

struct Access {
  static std::shared_ptr<Slot>& slot(Tile& tile) { return tile.slot_; }
  static const std::shared_ptr<Slot>& slot(const Tile& tile) { return tile.slot_; }
};

}  // namespace tegula::detail
