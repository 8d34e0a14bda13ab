// How a laid-out kernel moves data: the width of each access and what limits it, conflicts of banks in shared memory,
// and what its loops have under way.
#pragma once

#include <string>
#include <vector>

#include "codegen/ir/ir.h"
#include "runtime/base/diag.h"

namespace tegula::explaining {

/// An op that accesses global memory.
struct AccessForm {
  Loc loc;
  std::string what;   ///< "load", "store", "atomic", "copy to shared memory", "bulk copy", "bulk store"
  std::string array;  ///< the parameter that its pointers come from; empty: not one alone
  int bytes = 0;      ///< that one instruction of a thread covers; of bulk copies and stores, those of a box
  std::string limit;  ///< why these are not 16; empty where they are, or nothing can be gained
};

/// An op that stores to shared memory or reads from it with conflicts of banks.
struct BankConflict {
  Loc loc;
  std::string what;
  int ways = 1;  ///< wavefronts for each 128 bytes that a warp asks for
};

/// A loop with copies or loads in it.
struct LoopForm {
  Loc loc;
  int stages = 1;  ///< iterations that data is there for or on its way at a time
};

struct Forms {
  std::vector<AccessForm> accesses;
  std::vector<BankConflict> conflicts;
  int shared_accesses = 0;  ///< ops that were looked at for conflicts
  std::vector<LoopForm> loops;
};

/// `func` has its layouts (stage LaidOut).
Forms look_at_forms(const ir::Func& func);

/// Bytes of the sums of products that one program of a function of stage Tile keeps.
int64_t bytes_of_sums(const ir::Func& func);

}  // namespace tegula::explaining
