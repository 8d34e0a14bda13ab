// Loops over the parts of tiles that are divided along an axis.
#pragma once

#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "codegen/ir/builder.h"

namespace tegula {

/// Tiles that are divided, and along which axis each.
using DividedTiles = std::unordered_map<const ir::Value*, int>;

/// Rewrites a program so that it computes divided tiles part by part. One loop does, unless elements are combined along
/// the axis that is divided. What follows from such a sum waits for the loop that adds up all parts, and the next loop
/// computes once more what it needs of the tiles:
///
///   x = load(p)                  for each part: s = s + sum(load(part of p))
///   s = sum(x)                   for each part: store(part of q, load(part of p) / s)
///   store(q, x / s)        ->    store(r, s)
///   store(r, s)
///
/// Arrays are written in the last loop and behind it, so that each loop loads the same.
class PartLoops {
 public:
  PartLoops(ir::Func& func, DividedTiles divided);

  /// Whether elements are combined along the axis, and loops can do that.
  bool can_add_up() const;

  /// Writes loops over `parts` parts of ranges of `extent` numbers.
  void write(int64_t parts, int64_t extent);

 private:
  bool is_divided(const ir::Op& op) const;
  bool is_sum(const ir::Op* op) const { return sums_.contains(op); }
  bool can_be_moved(const ir::Op& op, bool has_uses) const;
  void find_block();
  void place(const ir::Op& op);
  std::unordered_set<const ir::Op*> needed_for(int number) const;
  void keep_products_rounded();
  void write_loop(int number, int64_t parts, int64_t extent);
  std::vector<ir::Value*> fill(int number, ir::Op& loop, ir::Builder& body);
  std::vector<ir::Value*> add(ir::Builder& body, const ir::Op& sum, const std::vector<ir::Value*>& both) const;
  void number_parts(ir::Op& loop);
  void move_behind(int number);

  ir::Func& func_;
  DividedTiles divided_;
  ir::Block* block_;                                ///< where the loops stand
  std::unordered_set<const ir::Op*> inside_;        ///< ops of the block that loops compute
  std::unordered_set<const ir::Op*> sums_;          ///< those of them that combine elements of all parts
  std::unordered_map<const ir::Op*, int> loop_of_;  ///< the first loop that computes an op, or that it stands ahead of
  int last_ = 0;                                    ///< the number of the last loop
};

}  // namespace tegula
