// Which addresses a launch touches: the index arithmetic of a kernel carried out program by program, and nothing else
// of it. What loads bring is looked at only where addresses, masks, bounds of loops or branches follow from it.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/cost.h"
#include "codegen/explain/index_tile.h"
#include "codegen/ir/ir.h"

namespace tegula::explaining {

/// The arguments of a launch as the function of a kernel takes them.
struct LaunchFacts {
  std::array<int64_t, 3> grid = {1, 1, 1};
  /// One a parameter: an integer's value, a pointer's address; of others, 0.
  std::vector<int64_t> arguments;
  /// Copies bytes of device memory; false where they cannot be had. Null: no data is there.
  std::function<bool(uint64_t address, void* to, size_t bytes)> read = {};
};

/// Whether the op accesses global memory, by the pointers that are its first operand. (Tile IR before any pass has no
/// other such ops.)
inline bool is_access(const ir::Op& op) {
  return op.opcode == ir::Opcode::Load || op.opcode == ir::Opcode::Store || op.opcode == ir::Opcode::AtomicRmw;
}

/// One execution of an op that accesses global memory.
struct Access {
  const ir::Op* op;
  int array;  ///< the parameter that its pointers come from; -1: not one alone
  int64_t element_bytes;
  const IndexTile* pointers;  ///< not known: where data decides that is not there
  const IndexTile* mask;      ///< null: everywhere
};

class AccessTrace {
 public:
  /// `func` is of stage Tile. Both must outlive it.
  AccessTrace(const ir::Func& func, const LaunchFacts& launch);

  /// Calls `visit` for each access of one program, in order.
  void run(std::array<int64_t, 3> program, const std::function<void(const Access&)>& visit);

  /// Elements of loads that were looked at so far, as addresses, masks or control follow from them.
  int64_t elements_read() const { return elements_read_; }
  /// What loops and branches did whose conditions were known.
  const ControlCounts& control() const { return control_; }
  /// What could not be told from the arguments, a sentence each: assumptions that counts rest on.
  const std::set<std::string>& assumptions() const { return assumptions_; }

 private:
  void find_needed();
  bool need(const ir::Value* value);
  void run_block(const ir::Block& block);
  void run_op(const ir::Op& op);
  void run_for(const ir::Op& op);
  void run_while(const ir::Op& op);
  void run_combine(const ir::Op& op);
  void access(const ir::Op& op);
  IndexTile loaded(const Access& access, const ir::Type& type);
  void stored(const Access& access, const ir::Op& op);
  int64_t read_element(uint64_t address, const ir::Type& type);
  std::vector<IndexTile> handed_on(const ir::Block& block, size_t first, size_t count);
  const IndexTile& get(const ir::Value* value) const;
  void assume(const ir::Op& op, const char* text);

  const ir::Func& func_;
  const LaunchFacts& launch_;
  std::unordered_set<const ir::Value*> needed_;
  std::unordered_map<const ir::Value*, IndexTile> values_;
  std::unordered_map<const ir::Value*, int> parameters_;
  std::unordered_map<const ir::Op*, int> arrays_;
  std::unordered_map<uint64_t, int64_t> written_;  ///< elements that programs stored, where loads need them
  std::array<int64_t, 3> program_ = {};
  const std::function<void(const Access&)>* visit_ = nullptr;
  std::set<std::string> assumptions_;
  ControlCounts control_;
  bool loads_needed_ = false;
  int64_t elements_read_ = 0;
};

}  // namespace tegula::explaining
