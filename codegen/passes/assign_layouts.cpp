// Gives every tile a layout.
//
// 1. Anchors. A product fixes the layout of its result, as the family of its plan says: that of tensor-core
//    accumulators, or any layout, of which each thread then gets the rows and columns that its sums need. Large memory
//    ops fix their pointers, masks and loaded values
//    (memory_layouts).
// 2. Propagation. From the dots, then from the large memory ops, of each those that run most often first, a layout
// flows to
//    every value that can have it without data movement; the first to arrive stays. Small memory ops (a row of weights
//    beside a matrix) take what has arrived, and are anchors only if nothing has. Constants, splats, aranges and what
//    is read from shared memory take a layout but do not pass it on: they can be had in any. What is computed from
//    shared memory to be stored there, and reached by no other layout, takes the layout of the copies to it.
// 3. Materialisation (materialise_layouts). Types get their layouts, operands that need another one a convert_layout.
//
// The blocks of a cluster divide a tile as warps do: rows, if there are enough of them, so that reductions along rows
// stay inside a block; else what is reduced, so that a row may be as wide as the registers of all blocks. Scans along
// what would be divided, sorts and lookups want tiles whole in each block. Programs with products, and those that
// divide_blocks has divided, are those of one block already.
#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/layout_price.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/makers.h"
#include "codegen/passes/layout_rules.h"
#include "codegen/passes/materialise_layouts.h"
#include "codegen/passes/memory_layouts.h"
#include "codegen/passes/passes.h"
#include "codegen/product/plan.h"

namespace tegula {

using ir::Block;
using ir::Func;
using ir::Op;
using ir::Opcode;
using ir::Shape;
using ir::Value;

namespace {

constexpr int64_t kMostCopied = 64;  ///< registers of a thread

/// How an operand of a product is computed from what is loaded.
struct Computation {
  double slots = 0;  ///< for an element
  std::vector<const Op*> loads;
};

/// The price of a load in a layout, in issue slots; elements that a thread holds.
struct PriceOfLoad {
  double access, conversion, held;
};

/// Such a load in a layout of its own, if it can have one, and in that of its group.
struct PricedLoad {
  int axis;  ///< of its accesses
  std::optional<LinearLayout> layout;
  PriceOfLoad own, shared;
};

/// The price of loads from which an operand is computed, up to the product.
class PriceOfLoads {
 public:
  void add(const PriceOfLoad& load) {
    accesses_ += load.access;
    conversion_ = std::max(conversion_, load.conversion);  // what is computed from all loads is converted
    held_ = std::max(held_, load.held);
  }
  double sum(double slots) const { return accesses_ + conversion_ + slots * held_; }

 private:
  double accesses_ = 0, conversion_ = 0, held_ = 0;
};

class Assigner {
 public:
  Assigner(Func& func, const Target& target) : func_(func), target_(target), memory_(func, target) {}

  void run() {
    ir::walk(func_.body, [&](Op& op) { collect(op); });
    if (products_.empty() && !is_divided(func_)) memory_.divide(func_.num_ctas());
    const ProductPlanner planner(func_, target_);
    for (Op* product : products_)  // what is a dot still has its operands in registers, or reads them from places
      if (product->opcode == Opcode::Dot && (family_of(*product).asynchronous || exchanges_operands(*product)))
        planner.plan(*product, false);
    anchor();
    memory_.find_all();
    materialise_layouts(func_, layouts_, memory_);
  }

 private:
  // ---- Anchors

  void collect(Op& op) {
    for (Value* v : op.operands)
      if (v && v->type.is_tile()) users_[v].push_back(&op);
    // All values at one position of a flow share one layout.
    for (const ir::Flow& flow : ir::flows(op))
      for (size_t i = 0; flow.to.size() == 2 && i < flow.size(); ++i) {
        twins_[flow.to[0][i]] = flow.to[1][i];
        twins_[flow.to[1][i]] = flow.to[0][i];
      }
    if (ir::is_product(op)) products_.push_back(&op);
    if (op.opcode == Opcode::SharedRead) reads_.push_back(&op);
    if (op.opcode == Opcode::AsyncCopy) copied_to_[op.operands[1]] = op.operands[0];
    memory_.add(op);
  }

  /// Whether an asynchronous product takes A from registers.
  static bool has_fragments(const Op& op) { return op.opcode == Opcode::MmaStart && !op.operands[0]->type.is_place(); }
  LinearLayout operand_of_product(const Op& product, int operand) const {
    return tegula::operand_of_product(product, operand, *layouts_.at(product.result()));
  }

  /// The layout of a value that is computed elementwise from a product's sums, or is these in another shape; null for
  /// other values.
  LayoutRef layout_of_sums(const Value* v) {
    // A loop may compute what it carries from itself: such a value is looked at once.
    if (!v || !without_sums_.insert(v).second) return nullptr;
    LayoutRef layout = v->def ? find_sums(*v) : find_carried_sums(*v);
    if (layout) without_sums_.erase(v);
    return layout;
  }
  /// Whether the program is one warp, which exchanges elements without waiting for others.
  bool is_alone() const { return func_.num_warps() == 1; }

  /// Where several warps store what a loop carries, it has gained as often as it has lost (H200).
  LayoutRef find_carried_sums(const Value& v) {
    const Op* op = v.block ? v.block->parent : nullptr;
    if (!op || op->opcode != Opcode::For || !is_alone()) return nullptr;
    const ir::ForLoop loop(*op);
    const auto number = loop.number(&v);
    return number ? layout_of_sums(loop.next(*number)) : nullptr;
  }
  LayoutRef find_sums(const Value& v) {
    const Op& op = *v.def;
    if (ir::is_product(op)) return layouts_.at(op.result());
    if (op.opcode == Opcode::MmaWait) return layout_of_sums(op.operands[0]);
    if (op.opcode == Opcode::For) return layout_of_sums(ir::ForLoop(op).next(size_t(v.index)));
    if (op.opcode == Opcode::Trans || op.opcode == Opcode::Reshape) {
      const LayoutRef sums = layout_of_sums(op.operands[0]);
      const auto layout = sums ? result_layout(op, *sums) : std::nullopt;
      return layout ? std::make_shared<LinearLayout>(*layout) : nullptr;
    }
    if (!op.has(ir::Elementwise)) return nullptr;
    for (const Value* operand : op.operands)
      if (LayoutRef layout = layout_of_sums(operand)) return layout;
    return nullptr;
  }

  /// For a store of a product's sums: the layout in which each warp stores its own elements, 16 bytes a thread, if that
  /// is cheaper than a conversion to the layout of the op's group; otherwise null.
  LayoutRef store_in_warps(const Op& op) {
    const LayoutRef sums = op.opcode == Opcode::Store ? layout_of_sums(op.operands[1]) : nullptr;
    if (!sums) return nullptr;
    const int axis = memory_.fastest_axis(op), bytes = elem_bytes(op.operands[0]->type.elem), wanted = 16 / bytes;
    const int width = memory_.width_of(op, axis);
    if (width < wanted) return nullptr;
    const auto in_warps = warp_local_layout(*sums, axis, wanted);
    if (!in_warps) return nullptr;
    auto price = [&](const LinearLayout& layout) {
      return conversion_price(op.operands[1]->type, *sums, layout, !is_alone()) +
             access_price(layout, axis, bytes, std::min(width, layout.contiguous_registers(axis)));
    };
    if (price(*in_warps) > price(*memory_.layout_of(op))) return nullptr;
    if (is_alone() && op.parent->parent && price(*in_warps) > price(*sums)) return nullptr;
    return std::make_shared<LinearLayout>(*in_warps);
  }

  /// Finds loads that become operands of products in registers through ops that move no data between threads, and for
  /// each the layout in which a thread loads exactly what it multiplies.
  void find_operands() {
    for (const Op* product : products_)
      for (int i : {0, 1})
        if (product->opcode == Opcode::Dot && !exchanges_operands(*product)) {
          const Value* operand = product->operands[size_t(i)];
          find_operands(operand, operand_of_product(*product, i), *product->parent, computations_[operand]);
        }
  }
  void find_operands(const Value* v, const LinearLayout& layout, const Block& home, Computation& all) {
    constexpr double kSpecialUnit = 4;  // slots more, as that unit is so much slower
    const Op* op = v->def;
    if (!op || op->parent != &home || !v->type.is_tile() || !loaded_operands_.emplace(v, layout).second) return;
    if (op->opcode == Opcode::Load) all.loads.push_back(op), computation_of_[op] = &all;
    if (op->has(ir::Elementwise)) all.slots += op_cost(*op).slots + kSpecialUnit * op_cost(*op).special;
    const auto needed = op->opcode == Opcode::Load ? std::nullopt : operand_layout(*op, layout);
    if (!needed) return;
    // If threads would hold copies of a broadcast value, it is better that they divide the result between them.
    if (op->opcode == Opcode::Broadcast && (needed->free_mask(Dim::Lane) || needed->free_mask(Dim::Warp))) return;
    for (const Value* operand : op->operands)
      if (operand) find_operands(operand, *needed, home, all);
  }

  /// For such a load: the layout of its warps' parts of the operand with accesses as wide as its group's, if that is
  /// cheaper than the group's layout and a conversion; otherwise null. Copies of elements stay in registers from the
  /// load to the product, so the loads of a block may hold only few copies together; if they would hold more, each gets
  /// the layout of its group.
  LayoutRef load_for_product(const Op& op) {
    LayoutRef own = cheapest_for_product(op);
    if (own && is_piecemeal(op) && another_waits(op)) own = cheapest_for_product(op, true);
    if (!own || copied_words(op, *own) == 0) return own;
    auto [all, is_new] = copied_.try_emplace(op.parent, 0);
    for (const Op* other : memory_.ops())
      if (is_new && other->parent == op.parent)
        if (LayoutRef layout = cheapest_for_product(*other)) all->second += copied_words(*other, *layout);
    return all->second <= kMostCopied ? own : nullptr;
  }
  /// Whether the load goes element by element: with a layout of its own, each warp would then issue as many
  /// instructions as all warps together otherwise.
  bool is_piecemeal(const Op& load) { return is_piecemeal(load, *memory_.layout_of(load)); }
  bool is_piecemeal(const Op& load, const LinearLayout& layout) {
    constexpr int kWordBytes = 4;
    const int axis = memory_.fastest_axis(load);
    const int width = std::min(memory_.width_of(load, axis), layout.contiguous_registers(axis));
    return width * elem_bytes(load.operands[0]->type.elem) < kWordBytes;
  }
  /// Whether another load of the block feeds a product through an exchange between warps.
  bool another_waits(const Op& load) {
    return std::any_of(memory_.ops().begin(), memory_.ops().end(), [&](const Op* other) {
      return other != &load && other->parent == load.parent && other->opcode == Opcode::Load &&
             loaded_operands_.contains(other->result()) && !cheapest_for_product(*other);
    });
  }
  /// The number of registers a thread that hold copies.
  int64_t copied_words(const Op& load, const LinearLayout& layout) {
    const int64_t held = layout.remove_zero_registers().in_size(Dim::Register),
                  shared = memory_.layout_of(load)->remove_zero_registers().in_size(Dim::Register);
    return std::max<int64_t>(0, held - shared) * std::max(8, load.result()->type.bits()) / 32;
  }
  /// Loads from which one operand is computed decide together: if one must be exchanged between warps, the others gain
  /// nothing by layouts of their own, and what is computed from copies is computed as often.
  LayoutRef cheapest_for_product(const Op& op, bool waits_anyway = false) {
    const auto found = op.opcode == Opcode::Load ? loaded_operands_.find(op.result()) : loaded_operands_.end();
    if (found == loaded_operands_.end()) return nullptr;
    const PricedLoad& own = priced(op, waits_anyway);
    if (!own.layout) return nullptr;
    const Computation& computation = *computation_of_.at(&op);
    PriceOfLoads own_price, shared_price;
    for (const Op* load : computation.loads) {
      if (load != &op && loaded_operands_.at(load->result()) != found->second) continue;
      const PricedLoad& other = priced(*load, waits_anyway);
      if (other.axis != own.axis) continue;
      if (!other.layout) return nullptr;
      own_price.add(other.own);
      shared_price.add(other.shared);
    }
    if (own_price.sum(computation.slots) >= shared_price.sum(computation.slots)) return nullptr;
    return std::make_shared<LinearLayout>(*own.layout);
  }
  /// Every load of a computation asks for the prices of all.
  const PricedLoad& priced(const Op& load, bool waits_anyway) {
    const auto [at, is_new] = priced_.try_emplace({&load, waits_anyway});
    if (!is_new) return at->second;
    const Access access = access_for_product(load);
    // A single warp exchanges elements without waiting for others.
    const auto price = [&](const LinearLayout& layout) {
      const LinearLayout& operand = loaded_operands_.at(load.result());
      return PriceOfLoad{access_price(layout, access),
                         is_alone() ? 0 : conversion_price(load.result()->type, layout, operand, !waits_anyway),
                         double(layout.remove_zero_registers().in_size(Dim::Register))};
    };
    PricedLoad& made = at->second;
    made.axis = access.axis;
    made.layout = own_layout(load);
    if (!made.layout) return made;
    made.own = price(*made.layout);
    made.shared = price(*memory_.layout_of(load));
    return made;
  }
  Access access_for_product(const Op& load) {
    const int axis = memory_.fastest_axis(load);
    Access access = memory_.access_of(load, axis);
    access.width = std::min(access.width, memory_.layout_of(load)->contiguous_registers(axis));
    return access;
  }
  std::optional<LinearLayout> own_layout(const Op& load) {
    const Access access = access_for_product(load);
    return warp_local_layout(loaded_operands_.at(load.result()), access.axis, access.width);
  }

  /// Whether the value, and what is computed from it elementwise, goes only into shared memory, whose places take the
  /// layout of what is stored there. `computed` receives all values on the way, in order.
  bool ends_in_places(const Value* v, std::vector<const Value*>& computed, std::unordered_set<const Value*>& seen) {
    if (!seen.insert(v).second) return true;
    computed.push_back(v);
    const auto& users = users_[v];
    return !users.empty() && std::all_of(users.begin(), users.end(), [&](const Op* user) {
      return user->opcode == Opcode::SharedStore ||
             (user->has(ir::Elementwise) && ends_in_places(user->result(), computed, seen));
    });
  }
  /// Gives such a load and all values on its way the layout that suits memory; false for other ops.
  bool anchor_for_place(const Op& op) {
    std::vector<const Value*> computed;
    std::unordered_set<const Value*> seen;
    if (op.opcode != Opcode::Load || !ends_in_places(op.result(), computed, seen)) return false;
    anchor_memory(op, memory_.layout_of(op));
    for (const Value* v : computed) assign(v, memory_.layout_of(op));
    return true;
  }

  void anchor_memory(const Op& op, LayoutRef layout) {
    assign(op.operands[0], layout);
    assign(mask_of(op), layout);
    for (const auto& r : op.results) assign(r.get(), layout);
  }

  /// By how often the ops run: the most frequent ones first.
  using Queues = std::map<double, std::deque<Value*>, std::greater<>>;

  Queues anchor_products() {
    Queues queues;
    for (Op* product : products_) {
      const Shape& shape = product->result()->type.shape;
      queue_ = std::move(queues[memory_.times(*product)]);
      if (auto layout = family_of(*product).sums_layout(plan_of(*product), shape))
        assign(product->result(), std::move(*layout));
      else
        assign(product->result(), exchanges_operands(*product) ? memory_.along_rows(shape) : memory_.default_of(shape));
      queues[memory_.times(*product)] = std::exchange(queue_, {});
    }
    find_operands();
    return queues;
  }

  /// Whether it is cheaper that what is stored gets the layout of the op's group than that it is stored as it is.
  bool is_converted(const Op& op, const LinearLayout& given) {
    if (op.opcode != Opcode::Store) return false;
    const LinearLayout& own = *memory_.layout_of(op);
    return conversion_price(op.operands[1]->type, given, own) + price_as(op, own) < price_as(op, given);
  }
  /// Whether it is cheaper that a single warp loads a tile for a product of a loop in the layout of the op's group, and
  /// converts it, than that each thread loads what it multiplies, element by element, as it would where the layout of
  /// the product gets there first. Single elements could not be copied ahead either.
  bool is_converted_for_product(const Op& op) {
    const auto found = op.opcode == Opcode::Load ? loaded_operands_.find(op.result()) : loaded_operands_.end();
    if (!is_alone() || !op.parent->parent || found == loaded_operands_.end()) return false;
    const LinearLayout &own = *memory_.layout_of(op), &given = found->second;
    const ir::Type& type = op.result()->type;
    if (std::ranges::count(type.shape, 1) + 2 > type.rank() || !is_piecemeal(op, given)) return false;
    constexpr double kPart = 1;  // to put an element into its word
    const double parts = kPart * double(given.remove_zero_registers().in_size(Dim::Register));
    return conversion_price(type, own, given, false) + price_as(op, own) < price_as(op, given) + parts;
  }
  /// The price of the op's accesses in a layout.
  double price_as(const Op& op, const LinearLayout& layout) {
    Access access = memory_.access_of(op, memory_.fastest_axis(op));
    access.width = std::min(access.width, layout.contiguous_registers(access.axis));
    return access_price(layout, access);
  }

  // Accesses to small tiles take the layouts that have reached them by propagation; the larger ones go first.
  void anchor_small(std::vector<Op*> small) {
    std::stable_sort(small.begin(), small.end(), [](const Op* a, const Op* b) {
      return a->operands[0]->type.num_elements() > b->operands[0]->type.num_elements();
    });
    for (Op* op : small) {
      const Value* known = op->operands[0];
      if (!layouts_.contains(known) && op->opcode == Opcode::Load) known = op->result();
      if (!layouts_.contains(known) && op->opcode != Opcode::Load) known = op->operands[1];
      auto it = layouts_.find(known);
      const bool has_layout =
          it != layouts_.end() && !(known->def && is_layout_free(*known->def)) && !is_converted(*op, *it->second);
      anchor_memory(*op, has_layout ? it->second : memory_.layout_of(*op));
      flow();
    }
  }

  void anchor() {
    Queues from_dots = anchor_products();
    int64_t largest = 0, largest_in_registers = 0;
    for (const Op* dot : products_) largest = std::max(largest, dot->result()->type.num_elements());
    for (const Op* op : memory_.ops())
      if (op->opcode != Opcode::AsyncCopy) largest = std::max(largest, op->operands[0]->type.num_elements());
    largest_in_registers = largest;
    for (const Op* op : memory_.ops()) largest = std::max(largest, op->operands[0]->type.num_elements());
    auto moved = [&](const Op& op) { return double(op.operands[0]->type.num_elements()) * memory_.times(op); };
    double most_moved = 0;
    for (const Op* op : memory_.ops()) most_moved = std::max(most_moved, moved(*op));
    // A load is large or small in comparison with what is loaded to registers as it is; a store in comparison with all
    // that the program moves. A row that a loop loads again and again is not small beside a tile that is loaded once:
    // in the tile's layout most threads might hold copies of the row's elements.
    auto is_large = [&](const Op& op) {
      const int64_t others = op.opcode == Opcode::Load ? largest_in_registers : largest;
      return op.operands[0]->type.num_elements() * 2 > others || moved(op) * 2 > most_moved;
    };

    // Large accesses are fixed before anything propagates; nevertheless the layouts of dots propagate first, then those
    // of the ops that loops run most often. Copies are fixed first too: a place takes their layout, and its products
    // may rely on that.
    std::vector<Op*> small;
    Queues from_memory;
    for (Op* op : memory_.ops()) {
      queue_ = std::move(from_memory[memory_.times(*op)]);
      if (LayoutRef layout = store_in_warps(*op))
        anchor_memory(*op, std::move(layout));
      else if (LayoutRef layout = load_for_product(*op))
        anchor_memory(*op, std::move(layout));
      else if (op->opcode == Opcode::AsyncCopy || is_large(*op) || is_converted_for_product(*op))
        anchor_memory(*op, memory_.layout_of(*op));
      else if (!anchor_for_place(*op))
        small.push_back(op);
      from_memory[memory_.times(*op)] = std::move(queue_);
    }
    flow(std::move(from_dots));
    for (const Op* product : products_)
      if (has_fragments(*product)) assign(product->operands[0], operand_of_product(*product, 0));
    flow();
    flow(std::move(from_memory));

    anchor_small(std::move(small));
    anchor_reads();
    default_layouts(func_.body);
  }

  void default_layouts(Block& block) {
    auto settle = [&](Value* v) {
      if (!v->type.is_tile() || layouts_.contains(v)) return;
      std::optional<LinearLayout> repeated;
      if (v->def && v->def->opcode == Opcode::Broadcast)
        if (auto from = layouts_.find(v->def->operands[0]); from != layouts_.end())
          repeated = repeated_in_registers(*v->def, *from->second);
      assign(v, repeated ? std::make_shared<LinearLayout>(*repeated) : memory_.default_of(v->type.shape));
      flow();
    };
    for (auto& arg : block.args) settle(arg.get());
    for (auto& op : block.ops) {
      for (auto& region : op->regions) default_layouts(*region);
      for (auto& r : op->results) settle(r.get());
    }
  }

  /// What is computed from a place on the way to other places, and has no layout so far, gets that in which threads
  /// copy to the place, whose accesses there are wide.
  void anchor_reads() {
    for (const Op* read : reads_) {
      const auto copied = copied_to_.find(read->operands[0]);
      if (copied == copied_to_.end()) continue;
      for (const Op* user : users_[read->result()]) {
        std::vector<const Value*> computed;
        std::unordered_set<const Value*> seen;
        if (!user->has(ir::Elementwise) || !ends_in_places(user->result(), computed, seen)) continue;
        for (const Value* v : computed) assign(v, layouts_.at(copied->second));
      }
    }
    flow();
  }

  // ---- Propagation

  void assign(const Value* value, LayoutRef layout) {
    auto* v = const_cast<Value*>(value);
    if (!v || !v->type.is_tile() || !layouts_.emplace(v, std::move(layout)).second) return;
    if (!v->def || !is_layout_free(*v->def)) queue_.push_back(v);
    if (auto it = twins_.find(v); it != twins_.end()) assign(it->second, layouts_.at(v));
    if (v->type.is_in_flight()) follow_to_waits(v);
    share_with_results(v);
  }
  /// The results of an op that computes them element by element have one layout, whatever reaches the others.
  void share_with_results(const Value* v) {
    if (!v->def || v->def->results.size() < 2 || !(keeps_layout(*v->def) || v->def->info().combines())) return;
    for (const auto& r : v->def->results) assign(r.get(), layouts_.at(v));
  }
  /// Sums in flight stay in their registers until a wait makes a tile of them. So the wait's result gets their layout
  /// first, before other values that the tile meets can pass theirs to it.
  void follow_to_waits(Value* sums) {
    for (Op* user : users_[sums]) {
      const bool ends_region = user->has(ir::Terminator) && user->parent->parent;
      if (ends_region || user->opcode == Opcode::MmaWait) spread(ends_region ? *user->parent->parent : *user, sums);
    }
  }
  void assign(const Value* v, LinearLayout layout) {
    if (v && v->type.is_tile() && !layouts_.contains(v)) assign(v, std::make_shared<LinearLayout>(std::move(layout)));
  }

  void flow(Queues queues) {
    for (auto& [runs, values] : queues) {
      queue_ = std::move(values);
      flow();
    }
  }
  void flow() {
    while (!queue_.empty()) {
      Value* v = queue_.front();
      queue_.pop_front();
      if (v->def) spread(*v->def, v);
      if (v->block && v->block->parent) spread(*v->block->parent, v);
      for (Op* user : users_[v]) {
        bool ends_region = user->has(ir::Terminator) && user->parent->parent;
        spread(ends_region ? *user->parent->parent : *user, v);
      }
    }
  }

  /// Propagates the layout of `from`, an operand, result or carried value of `op`, to the values that can share it.
  void spread(const Op& op, Value* from) {
    const LayoutRef layout = layouts_.at(from);
    bool is_result = from->def == &op;
    if (op.has(ir::Control)) {
      for (const auto& members : ir::circulating(op))
        if (std::find(members.begin(), members.end(), from) != members.end())
          for (Value* v : members) assign(v, layout);
      return;
    }
    if (ir::is_product(op)) {
      if (is_result) assign(op.operands[2], layout);
      return;
    }
    if (accesses_memory(op)) {
      const Value* value = op.opcode == Opcode::Load ? nullptr : op.operands[1];
      if (from == value) return;  // a value may be converted before it is stored
      assign(op.operands[0], layout);
      assign(mask_of(op), layout);
      assign(value, layout);
      if (op.opcode == Opcode::Load) assign(op.operand(2), layout);
      if (op.opcode == Opcode::AtomicRmw) assign(op.operand(3), layout);
      for (const auto& r : op.results) assign(r.get(), layout);
      return;
    }
    if (op.opcode == Opcode::Sort || op.opcode == Opcode::Gather) {
      // A sort takes its operand, and a gather what it looks up, in any layout; their results may come in any.
      Value* other = op.operands[op.opcode == Opcode::Gather ? 1 : 0];
      if (is_result && other->type.shape == op.result()->type.shape) assign(other, layout);
      if (from == other && other->type.shape == op.result()->type.shape) assign(op.result(), layout);
      return;
    }
    if (is_result) {
      if (auto needed = operand_layout(op, *layout))
        for (Value* v : op.operands) assign(v, *needed);
      if (keeps_layout(op) || op.info().combines())
        for (const auto& r : op.results) assign(r.get(), layout);
    } else {
      if (keeps_layout(op) || op.info().combines())
        for (Value* v : op.operands) assign(v, layout);
      if (auto result = result_layout(op, *layout))
        for (const auto& r : op.results) assign(r.get(), *result);
    }
  }

  Func& func_;
  const Target& target_;
  MemoryLayouts memory_;
  std::vector<Op*> products_;
  std::unordered_set<const Value*> without_sums_;                     ///< that layout_of_sums() looked at in vain
  std::unordered_map<const Value*, LinearLayout> loaded_operands_;    ///< of products: how their threads hold them
  std::unordered_map<const Value*, Computation> computations_;        ///< by operands
  std::unordered_map<const Op*, const Computation*> computation_of_;  ///< by loads
  std::map<std::pair<const Op*, bool>, PricedLoad> priced_;           ///< by loads, and whether threads wait anyway
  std::unordered_map<const Block*, int64_t> copied_;  ///< registers that copies of what it loads for products take
  std::unordered_map<const Value*, std::vector<Op*>> users_;
  std::vector<const Op*> reads_;                              ///< of places
  std::unordered_map<const Value*, const Value*> copied_to_;  ///< by places: the pointers of what is copied there
  std::unordered_map<const Value*, Value*> twins_;
  LayoutMap layouts_;
  std::deque<Value*> queue_;
};

}  // namespace

void passes::assign_layouts(Func& func, PassContext& context) { Assigner(func, context.target).run(); }

}  // namespace tegula
