// In which order the threads of a program get to global memory.
//
// The language has one order for a program: a load sees what the program has stored before, a store does not change
// what the program has loaded before, and the later one of two stores is what stays. Threads keep that order for what
// they access themselves; where one thread accesses what another one stores, a barrier is needed. Three limits, which
// docs/language.md gives too: pointers that follow from different parameters are taken not to overlap, the stores
// of a loop's iterations are ordered only where addresses come from memory or are the same in each iteration (those of
// a loop within: over all of its iterations), and atomic operations of one kind that leave the same in any order have
// none.
#pragma once

#include <boost/container/flat_set.hpp>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"

namespace tegula {

/// The accesses to global memory since all threads last met at a barrier.
struct GlobalAccesses {
  struct Access {
    int group = 0;         ///< of accesses that differ in their pointers alone
    bool earlier = false;  ///< in an iteration before, where the pointers were others
    bool open = false;     ///< in an iteration before, whose stores have no order with those of this one
    bool apart = false;    ///< iterations access different elements by these pointers
    const ir::Value* pointers = nullptr;
    bool writes = false;
    std::string atomic = "";  ///< the kind of an atomic operation
    auto operator<=>(const Access&) const = default;
  };
  /// Two accesses of each group are enough: an access that conflicts with any access of the group conflicts with one of
  /// these.
  using Accesses = boost::container::flat_set<Access>;
  Accesses since_barrier;
  Accesses copying;  ///< by copies that run beside the program: waits say when they have read

  bool operator==(const GlobalAccesses&) const = default;
};

void unite(GlobalAccesses& into, const GlobalAccesses& other);

/// Answers for a function.
class GlobalOrder {
 public:
  /// `blocks`: the number of blocks that run the program together.
  explicit GlobalOrder(int64_t blocks) : blocks_(blocks) {}

  /// Whether the op must wait until all threads have completed the accesses in `before`.
  bool needs_barrier(const ir::Op& op, const GlobalAccesses& before);
  /// Adds the op's accesses.
  void add(const ir::Op& op, GlobalAccesses& accesses);
  /// The next iteration of the loop begins: from here on, pointers that vary in the loop have other values.
  void next_iteration(const ir::Op& loop, GlobalAccesses& accesses);
  /// The loop is over: stores behind it are of no iteration.
  void leave(const ir::Op& loop, GlobalAccesses& accesses);
  /// Whether the addresses depend on loaded data, so that they may be any.
  bool is_scattered(const ir::Value* pointers);

 private:
  /// What may differ between two iterations: the value; or all that it is in an iteration, in which loops within go
  /// through the same numbers again; or these as addresses, which x + i - i leaves alone.
  enum class Differs { Value, ValuesOfLoopsWithin, Addresses };

  const ir::Value* base_of(const ir::Value* pointers);
  bool is_replicated(const ir::Type& type) const;
  bool repeats(const ir::Value* pointers);
  bool varies(const ir::Op& loop, const ir::Value* value);
  bool depends(Differs how, const ir::Op& loop, const ir::Value* value);
  bool has_iterations_apart(const ir::Op& op, const ir::Value* pointers, const ir::Value* mask);
  bool conflict(const GlobalAccesses::Access& earlier, const GlobalAccesses::Access& later);
  int group_of(const ir::Op& op, const GlobalAccesses::Access& access);

  const int64_t blocks_;
  std::unordered_map<const ir::Value*, const ir::Value*> bases_;
  std::unordered_map<const ir::Value*, bool> scattered_, repeats_;
  std::map<std::tuple<Differs, const ir::Op*, const ir::Value*>, bool> depends_;
  std::map<std::tuple<const ir::Op*, const ir::Value*, const ir::Value*>, bool> apart_;
  /// The key of a group of accesses: the base pointer; whether they write, their atomic kind, whether they are tiles,
  /// depend on loaded data, differ between iterations; the innermost loop; and in which of the enclosing loops the
  /// pointers vary.
  using Group = std::tuple<const ir::Value*, bool, std::string, bool, bool, bool, const ir::Op*, std::vector<bool>>;
  std::map<Group, int> groups_;
};

}  // namespace tegula
