// In which order the threads of a program get to global memory.
//
// The language has one order for a program: a load sees what the program has stored before, a store does not change
// what the program has loaded before, and the later one of two stores is what stays. Threads keep that order for what
// they access themselves; where one thread accesses what another one stores, a barrier is needed. Two limits, which
// docs/language.md gives too: pointers that follow from different parameters are taken not to overlap, and the stores
// of a loop's iterations are ordered only where addresses come from memory or are the same in each iteration.
#pragma once

#include <map>
#include <set>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// What threads have done in global memory since all of them met.
struct GlobalAccesses {
  struct Access {
    int group = 0;         ///< of accesses that differ in their pointers alone
    bool earlier = false;  ///< in an iteration before, where the pointers were others
    bool apart = false;    ///< iterations access different elements by these pointers
    const ir::Value* pointers = nullptr;
    bool writes = false, atomic = false;
    auto operator<=>(const Access&) const = default;
  };
  /// Two of a group, which say as much as all: an access that conflicts with any of it conflicts with one of them.
  using Accesses = std::set<Access>;
  Accesses since_barrier;
  Accesses copying;  ///< by copies that run beside the program: waits say when they have read

  bool operator==(const GlobalAccesses&) const = default;
};

void unite(GlobalAccesses& into, const GlobalAccesses& other);

/// Answers for a function.
class GlobalOrder {
 public:
  /// `blocks`: that run the program together.
  explicit GlobalOrder(int64_t blocks) : blocks_(blocks) {}

  /// Whether the op must not start before all threads have done what they did before.
  bool needs_barrier(const ir::Op& op, const GlobalAccesses& before);
  /// Adds what the op does.
  void add(const ir::Op& op, GlobalAccesses& accesses);
  /// The loop's next iteration begins: pointers that vary in it are others from here on.
  void next_iteration(const ir::Op& loop, GlobalAccesses& accesses);
  /// Whether the addresses follow from a tile that was loaded, and so may be any.
  bool is_scattered(const ir::Value* pointers);

 private:
  const ir::Value* base_of(const ir::Value* pointers);
  bool is_replicated(const ir::Type& type) const;
  bool varies(const ir::Op& loop, const ir::Value* value);
  bool has_iterations_apart(const ir::Op& op, const ir::Value* pointers, const ir::Value* mask);
  bool conflict(const GlobalAccesses::Access& earlier, const GlobalAccesses::Access& later);
  int group_of(const ir::Op& op, const GlobalAccesses::Access& access);

  const int64_t blocks_;
  std::unordered_map<const ir::Value*, const ir::Value*> bases_;
  std::unordered_map<const ir::Value*, bool> scattered_;
  std::map<std::pair<const ir::Op*, const ir::Value*>, bool> varies_;
  std::map<std::tuple<const ir::Op*, const ir::Value*, const ir::Value*>, bool> apart_;
  /// By what tells accesses apart: base, whether they write, atomically, tiles, at addresses from memory, other
  /// elements in each iteration; the innermost loop, and in which of the loops around the pointers vary.
  using Group = std::tuple<const ir::Value*, bool, bool, bool, bool, bool, const ir::Op*, std::vector<bool>>;
  std::map<Group, int> groups_;
};

}  // namespace tegula
