// Makes loops again of statements that a text unrolled, where they are much longer than the instruction cache.
//
// `for i in tl.static_range(n)` stands for n copies of its body, which differ by constants alone:
//
//   x0 = load(p + 0 * 64)                      s = for i = 0, 1, ..., n - 1, s = s0:
//   s1 = s0 + x0                        ->       x = load(p + i * 64)
//   x1 = load(p + 1 * 64)                        s + x
//   s2 = s1 + x1 ...
//
// Thousands of instructions that run once take longer to fetch than to carry out, and to compile. An iteration of the
// loop has several copies where these are short, so that their loads are under way together. What surrounds the loop
// (a first copy without a term, one whose values are used after it) stays as it was.
//
// It comes first: other passes merge what copies have in common and fold their constants, and no two look alike then.
#include "codegen/passes/roll_loops.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "codegen/analysis/op_cost.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/pointer_set.h"
#include "codegen/passes/constant_fold.h"
#include "codegen/passes/constant_steps.h"
#include "codegen/passes/passes.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

namespace {

// Code of more than kLongCode instructions a thread, which fills the instruction cache, is rolled into loops. An
// iteration of several copies has at most kIteration instructions.
constexpr double kLongCode = 1 << 13, kIteration = 1 << 10;
// A loop replaces at least kLeastCopies copies and has at least kLeastIterations iterations.
constexpr size_t kLeastCopies = 8, kLeastIterations = 4;
// The number of distances between copies that are tried.
constexpr size_t kPeriods = 6;
// Ops are distinguished by the ops that they depend on, up to kDepth steps back.
constexpr int kDepth = 3;

using Position = std::list<std::unique_ptr<Op>>::iterator;

bool is_same_constant(const Value* a, const Value* b) {
  const Attr *x = constant_of(a), *y = constant_of(b);
  return x && y && *x == *y && a->type == b->type;
}

double instructions(const Op& op, int64_t threads) {
  const Value* tile = largest_tile(op);
  double sum = 0;
  if (op.opcode != Opcode::Constant)
    sum = tile ? slots_of_element(op) * double(std::max<int64_t>(1, tile->type.num_elements() / threads)) : 1;
  if (op.info().combines()) return sum;
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops) sum += instructions(*inner, threads);
  return sum;
}

double instructions(const Block& block, int64_t threads) {
  double sum = 0;
  for (const auto& op : block.ops) sum += instructions(*op, threads);
  return sum;
}

// Ops that may be in a loop: all but those at which threads synchronise, and products, whose loops are pipelined.
bool may_repeat(const Op& op) {
  bool may = !op.has(Trait(Synchronizes | ReadsShared | WritesShared | Terminator)) && !is_product(op);
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops) may &= inner->has(Terminator) || may_repeat(*inner);
  return may;
}

// ---- Whether two ops look the same, but for values of constants

class Hash {
 public:
  void add(uint64_t x) { bits_ = (bits_ ^ x) * 0x9E3779B97F4A7C15u, bits_ ^= bits_ >> 29; }
  void add(const Type& type) {
    add(uint64_t(type.elem) | uint64_t(type.pointer) << 16 | uint64_t(type.kind) << 20);
    for (int64_t extent : type.shape) add(uint64_t(extent));
  }
  uint64_t bits() const { return bits_; }

 private:
  uint64_t bits_ = 0;
};

void add_op(Hash& hash, const Op& op) {
  hash.add(uint64_t(op.opcode));
  hash.add(op.attrs.size());
  for (const Value* v : op.operands) v ? hash.add(v->type) : hash.add(1);
  for (const auto& result : op.results) hash.add(result->type);
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops)
      if (inner->opcode != Opcode::Constant) add_op(hash, *inner);
}

bool same_types(const std::vector<std::unique_ptr<Value>>& a, const std::vector<std::unique_ptr<Value>>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](auto& x, auto& y) { return x->type == y->type; });
}

bool same_form(const Op& a, const Op& b) {
  if (a.opcode != b.opcode || a.operands.size() != b.operands.size() || a.attrs != b.attrs ||
      a.regions.size() != b.regions.size() || !same_types(a.results, b.results))
    return false;
  for (size_t i = 0; i < a.operands.size(); ++i) {
    const Value *x = a.operands[i], *y = b.operands[i];
    if (!x != !y || (x && x->type != y->type)) return false;
  }
  for (size_t i = 0; i < a.regions.size(); ++i)
    if (!same_types(a.regions[i]->args, b.regions[i]->args)) return false;
  return true;
}

// An op and those of its regions, without constants; `isolated` within a region that sees nothing from outside.
struct Node {
  Op* op;
  bool isolated;
};

void add_nodes(Op& op, bool isolated, std::vector<Node>& nodes) {
  if (op.opcode != Opcode::Constant) nodes.push_back({&op, isolated});
  for (auto& region : op.regions)
    for (auto& inner : region->ops) add_nodes(*inner, isolated || op.info().isolates(), nodes);
}

// Where a value is made: in which item, at which of its nodes, as which result of that op or argument of its regions.
struct Place {
  size_t item, node, number;
  bool operator==(const Place&) const = default;
  Place in_next(size_t period) const { return {item + period, node, number}; }
};

// An op of the block that is no constant.
struct Item {
  Position at;
  size_t nodes = 0, end = 0;      ///< its nodes among those of all items
  uint64_t form = 0, origin = 0;  ///< what it looks like; and what it follows from does
  double cost = 0;
};

// How an operand goes on from copy to copy: the same value; a constant that grows by `step`; a value of the same copy;
// a value of the copy before.
enum class Kind { Same, Growing, Own, Before };
struct Operand {
  Kind kind = Kind::Same;
  Value* first = nullptr;  ///< of the first copy
  Attr step{};
  Place last{};  ///< of the copy that was looked at last, of Own and Before
};

// Copies of `period` ops each, from `begin` on.
struct Run {
  size_t begin, period, copies;
  std::vector<Operand> operands;  ///< of all nodes of the copy, in order
};

class BlockRoller {
 public:
  BlockRoller(Block& block, int64_t threads) : block_(block), threads_(threads) {}

  /// One round; values that loops now give in `replaced`.
  bool run(ValueMap& replaced, std::vector<std::unique_ptr<Op>>& retired) {
    if (instructions(block_, threads_) < kLongCode) return false;
    collect();
    // The shortest of the periods that cover about as much, so that inner loops are found first.
    std::vector<Run> best;
    double most = 0;
    std::vector<size_t> tried = periods();
    std::sort(tried.begin(), tried.end());
    for (size_t period : tried) {
      std::vector<Run> runs = runs_of(period);
      double covered = 0;
      for (const Run& r : runs) covered += cost(r.begin, period) * double(r.copies);
      if (covered > 2 * most) most = covered, best = std::move(runs);
    }
    // The last run first: the operands that a run takes from the one before it are then still in place.
    bool changed = false;
    for (size_t i = best.size(); i-- > 0;) changed |= roll(best[i], replaced, retired);
    return changed;
  }

 private:
  void collect() {
    items_.reserve(block_.ops.size()), places_.reserve(block_.ops.size()), last_use_.reserve(2 * block_.ops.size());
    for (auto it = block_.ops.begin(); it != block_.ops.end(); ++it) {
      Op& op = **it;
      if (op.opcode == Opcode::Constant) continue;
      Item item{it, nodes_.size()};
      add_nodes(op, false, nodes_);
      item.end = nodes_.size();
      Hash hash;
      add_op(hash, op);
      // What may not repeat looks like nothing else.
      if (!may_repeat(op)) hash.add(items_.size() + 1);
      item.form = hash.bits();
      item.cost = instructions(op, threads_);
      for (size_t n = item.nodes; n < item.end; ++n) add_places(*nodes_[n].op, n - item.nodes);
      items_.push_back(item);
    }
    for (size_t t = 0; t < items_.size(); ++t)
      for (const Node& node : nodes(t))
        for (const Value* v : node.op->operands)
          if (v) last_use_[v] = t;
    find_origins();
  }

  void add_places(const Op& op, size_t node) {
    size_t number = 0;
    for (const auto& result : op.results) places_[result.get()] = {items_.size(), node, number++};
    for (const auto& region : op.regions)
      for (const auto& arg : region->args) places_[arg.get()] = {items_.size(), node, number++};
  }

  std::span<const Node> nodes(size_t item) const {
    return std::span(nodes_).subspan(items_[item].nodes, items_[item].end - items_[item].nodes);
  }
  Op& op(size_t item) const { return **items_[item].at; }

  const Place* place_of(const Value* v) const { return v ? places_.get(v) : nullptr; }

  void find_origins() {
    for (Item& item : items_) item.origin = item.form;
    std::vector<uint64_t> next(items_.size());
    std::vector<size_t> sources, ends;  // the items that operands come from, item by item
    for (const Item& item : items_) {
      for (const Value* v : (*item.at)->operands)
        if (const Place* place = place_of(v)) sources.push_back(place->item);
      ends.push_back(sources.size());
    }
    for (int depth = 0; depth < kDepth; ++depth) {
      for (size_t t = 0, i = 0; t < items_.size(); ++t) {
        Hash hash;
        hash.add(items_[t].form);
        for (; i < ends[t]; ++i) hash.add(items_[sources[i]].origin);
        next[t] = hash.bits();
      }
      for (size_t t = 0; t < items_.size(); ++t) items_[t].origin = next[t];
    }
  }

  // Distances at which ops look alike most often.
  std::vector<size_t> periods() const {
    std::unordered_map<uint64_t, size_t> seen;
    std::map<size_t, double> votes;
    for (size_t t = 0; t < items_.size(); ++t) {
      auto [it, first] = seen.try_emplace(items_[t].origin, t);
      if (!first) votes[t - it->second] += 1 + items_[t].cost;
      it->second = t;
    }
    std::vector<std::pair<double, size_t>> order;
    for (auto [period, count] : votes) order.emplace_back(-count, period);
    std::sort(order.begin(), order.end());
    std::vector<size_t> out;
    for (size_t i = 0; i < std::min(order.size(), kPeriods); ++i) out.push_back(order[i].second);
    return out;
  }

  double cost(size_t begin, size_t period) const {
    double sum = 0;
    for (size_t t = begin; t < begin + period; ++t) sum += items_[t].cost;
    return sum;
  }

  std::vector<Run> runs_of(size_t period) const {
    std::vector<Run> runs;
    for (size_t t = 0; t + period < items_.size();) {
      size_t alike = 0;
      while (t + alike + period < items_.size() && items_[t + alike].form == items_[t + alike + period].form) ++alike;
      const size_t end = t + alike + period;
      if (alike + period < kLeastCopies * period) {
        t += alike + 1;
        continue;
      }
      for (size_t begin = best_begin(t, period); begin + kLeastCopies * period <= end;) {
        Run r = match(begin, period, (end - begin) / period);
        // A copy whose values are needed after the next one is the last of a run.
        const size_t needed = first_needed(r);
        if (needed + 1 < r.copies) r = match(begin, period, needed + 1);
        const bool enough = r.copies >= kLeastCopies;
        begin += r.copies * period;
        if (enough) runs.push_back(std::move(r));
      }
      t = end;
    }
    return runs;
  }

  size_t first_needed(const Run& run) const {
    for (size_t copy = 0; copy < run.copies; ++copy) {
      const size_t begin = run.begin + copy * run.period;
      for (size_t t = begin; t < begin + run.period; ++t)
        for (const auto& result : op(t).results)
          if (is_used_from(begin + 2 * run.period, result.get())) return copy;
    }
    return run.copies;
  }

  // Where copies begin so that the fewest values go from one to the next.
  size_t best_begin(size_t begin, size_t period) const {
    std::vector<double> handed(period + 1);  // differences, by where a copy would begin
    for (size_t t = begin + period; t < begin + 2 * period; ++t)
      for (const auto& result : op(t).results) {
        const size_t* use = last_use_.get(result.get());
        if (!use) continue;
        const double weight = double(result->type.num_elements());
        for (size_t c = t + 1; c <= std::min(*use, t + period); ++c) handed[(c - begin) % period] += weight;
      }
    return begin + size_t(std::min_element(handed.begin(), handed.end() - 1) - handed.begin());
  }

  // The longest run of copies from there on that follow one rule.
  Run match(size_t begin, size_t period, size_t most) const {
    Run run{begin, period, 1, {}};
    std::vector<Operand> next;
    for (; run.copies < most; ++run.copies) {
      if (!match_copy(run, next)) break;
      run.operands = next;
    }
    return run;
  }

  // The operands of copy number run.copies into `next`.
  bool match_copy(const Run& run, std::vector<Operand>& next) const {
    next.clear();
    for (size_t t = run.begin; t < run.begin + run.period; ++t) {
      const std::span<const Node> first = nodes(t), copied = nodes(t + run.copies * run.period);
      if (first.size() != copied.size()) return false;
      for (size_t n = 0; n < first.size(); ++n) {
        if (!same_form(*first[n].op, *copied[n].op)) return false;
        for (size_t i = 0; i < first[n].op->operands.size(); ++i) {
          Operand operand;
          if (run.copies > 1)
            operand = run.operands[next.size()];
          else
            operand.first = first[n].op->operands[i];
          if (!follow(operand, run, copied[n], i)) return false;
          next.push_back(operand);
        }
      }
    }
    return true;
  }

  // Whether the operand of a copy continues the rule; the second copy defines it.
  bool follow(Operand& operand, const Run& run, const Node& node, size_t i) const {
    Value* v = node.op->operands[i];
    const size_t begin = run.begin + run.copies * run.period;
    if (run.copies == 1) {
      const Place* place = place_of(v);
      const bool inside = place && place->item >= run.begin;
      const Place* first = place_of(operand.first);
      if (!inside) {
        if (v == operand.first || is_same_constant(v, operand.first)) return true;
        operand.kind = Kind::Growing;
        if (!may_grow(node, i) || !constant_of(v) || !constant_of(operand.first)) return false;
        const auto step = step_between(*constant_of(operand.first), *constant_of(v), v->type.elem);
        if (!step) return false;
        operand.step = *step;
        return has_grown(*constant_of(v), *constant_of(operand.first), *step, 1, v->type.elem);
      }
      operand.last = *place;
      operand.kind = place->item >= begin ? Kind::Own : Kind::Before;
      if (operand.kind == Kind::Own) return first && first->in_next(run.period) == *place;
      return place->node == 0 && (!first || first->item < run.begin);
    }
    if (operand.kind == Kind::Same) return v == operand.first || is_same_constant(v, operand.first);
    if (operand.kind == Kind::Growing)
      return constant_of(v) &&
             has_grown(*constant_of(v), *constant_of(operand.first), operand.step, run.copies, v->type.elem);
    const Place* place = place_of(v);
    const Place expected = operand.last.in_next(run.period);
    operand.last = expected;
    return place && *place == expected;
  }

  // Divisors and bounds of loops stay constants, which makes better code; a region that combines sees no index.
  static bool may_grow(const Node& node, size_t i) {
    const Value* v = node.op->operands[i];
    if (!v || node.isolated) return false;
    const Elem elem = v->type.elem;
    if ((!v->type.is_integer() || v->type.is_bool()) && elem != Elem::F32 && elem != Elem::F64) return false;
    const Opcode opcode = node.op->opcode;
    return opcode != Opcode::For && !((opcode == Opcode::Div || opcode == Opcode::Rem) && i == 1);
  }

  // ---- The loop

  // A value that one copy hands to the next: what makes it in the first copy, and its value ahead of that one.
  struct Carried {
    Place place;
    Value* init;
    bool is(const Place& p, const Value* v) const { return place == p && (init == v || is_same_constant(init, v)); }
  };

  bool roll(const Run& run, ValueMap& replaced, std::vector<std::unique_ptr<Op>>& retired) {
    const size_t each = copies_of_iteration(run);
    std::vector<Carried> carried = carried_of(run);
    size_t rolled = run.copies - run.copies % each;
    if (!leaves_alone(run, rolled, carried)) rolled -= each;
    if (rolled < kLeastIterations * each || !leaves_alone(run, rolled, carried)) return false;

    Builder build;
    build.set_at(&block_, items_[run.begin].at);
    const Type index = Type::scalar(Elem::I32);
    std::vector<Value*> operands = {build.constant(index, 0), build.constant(index, int64_t(rolled)),
                                    build.constant(index, int64_t(each))};
    std::vector<Type> types;
    for (const Carried& c : carried) operands.push_back(ahead_of_loop(build, c.init)), types.push_back(c.init->type);
    Op* loop = build.create(Opcode::For, operands, types);
    Block& body = *loop->regions[0];
    body.add_arg(index);
    for (const Type& type : types) body.add_arg(type);
    fill(run, each, carried, body);
    for (size_t i = 0; i < carried.size(); ++i) {
      const Op& last = op(carried[i].place.item + (rolled - 1) * run.period);
      replaced[last.result(int(carried[i].place.number))] = loop->result(int(i));
    }
    move_ops(run, each, rolled, *loop, retired);
    Builder end(&body);
    std::vector<Value*> next;
    for (const Carried& c : carried)
      next.push_back(op(c.place.item + (each - 1) * run.period).result(int(c.place.number)));
    end.create(Opcode::Yield, next);
    return true;
  }

  // The value where the loop begins: a constant may be one of a region of the first copy.
  Value* ahead_of_loop(Builder& build, Value* v) const {
    if (!constant_of(v) || v->def->parent == &block_) return v;
    return build.create(Opcode::Constant, {}, {v->type}, v->def->attrs)->result();
  }

  // As many as divide the number of copies, if these are not much fewer than there may be.
  size_t copies_of_iteration(const Run& run) const {
    const double length = std::max(1.0, cost(run.begin, run.period));
    const size_t most = std::clamp<size_t>(size_t(kIteration / length), 1, run.copies / kLeastIterations);
    for (size_t each = most; 2 * each > most; --each)
      if (run.copies % each == 0) return each;
    return most;
  }

  static std::vector<Carried> carried_of(const Run& run) {
    std::vector<Carried> carried;
    for (const Operand& o : run.operands) {
      if (o.kind != Kind::Before) continue;
      Place place = o.last;  // of the copy before the last one
      place.item -= (run.copies - 2) * run.period;
      auto same = [&](const Carried& c) { return c.is(place, o.first); };
      if (std::none_of(carried.begin(), carried.end(), same)) carried.push_back({place, o.first});
    }
    return carried;
  }

  // Whether what follows the run needs nothing of the rolled copies but what the last one hands on.
  bool leaves_alone(const Run& run, size_t rolled, const std::vector<Carried>& carried) const {
    const size_t behind = run.begin + run.copies * run.period;
    for (size_t t = run.begin; t < run.begin + rolled * run.period; ++t)
      for (const auto& result : op(t).results) {
        if (!is_used_from(behind, result.get())) continue;
        const Place* place = place_of(result.get());
        auto hands_on = [&](const Carried& c) { return c.place.in_next((rolled - 1) * run.period) == *place; };
        if (std::none_of(carried.begin(), carried.end(), hands_on)) return false;
      }
    return true;
  }

  // Has the copies of an iteration take what the loop carries, and its index.
  void fill(const Run& run, size_t each, const std::vector<Carried>& carried, Block& body) {
    Builder build(&body);
    std::map<std::tuple<std::string, Attr, Attr>, Value*> made;
    for (size_t copy = 0; copy < each; ++copy) {
      size_t number = 0;
      for (size_t t = run.begin; t < run.begin + run.period; ++t)
        for (const Node& node : nodes(t + copy * run.period))
          for (Value*& v : node.op->operands) {
            const Operand& operand = run.operands[number++];
            if (operand.kind == Kind::Growing) {
              Value*& value = made[{v->type.to_string(), *constant_of(v), operand.step}];
              if (!value) value = growing(build, v->type, *constant_of(v), operand.step, body.args[0].get());
              v = value;
            } else if (operand.kind == Kind::Before && copy == 0) {
              Place place = operand.last;
              place.item -= (run.copies - 2) * run.period;
              auto it = std::find_if(carried.begin(), carried.end(),
                                     [&](const Carried& c) { return c.is(place, operand.first); });
              v = body.args[size_t(it - carried.begin()) + 1].get();
            }
          }
    }
  }

  static Value* growing(Builder& build, const Type& type, const Attr& first, const Attr& step, Value* index) {
    const Type scalar = Type::scalar(type.elem);
    Value* number = scalar == index->type ? index : build.cast(index, type.elem);
    auto constant = [&](const Attr& value) {
      return build.create(Opcode::Constant, {}, {scalar}, {{attr::value, value}})->result();
    };
    Value* step_value = constant(step);
    Value* distance = build.mul(number, step_value);
    Value* first_value = constant(first);
    Value* value = build.add(distance, first_value);
    return type.is_tile() ? build.splat(value, type.shape) : value;
  }

  // The first copies into the loop, other ones out of the block with their constants, and other constants ahead of the
  // loop.
  void move_ops(const Run& run, size_t each, size_t rolled, Op& loop, std::vector<std::unique_ptr<Op>>& retired) {
    Block& body = *loop.regions[0];
    const Position where = std::prev(items_[run.begin].at);  // the loop
    const size_t end = run.begin + rolled * run.period;
    size_t t = run.begin;
    for (Position it = items_[run.begin].at; t < end;) {
      const Position at = it++;
      Op& op = **at;
      const bool in_loop = t < run.begin + each * run.period;
      const bool constant = op.opcode == Opcode::Constant;
      t += !constant;
      if (constant && (in_loop || is_used_from(end, op.result()))) {
        block_.ops.splice(where, block_.ops, at);
      } else if (in_loop) {
        op.parent = &body;
        body.ops.splice(body.ops.end(), block_.ops, at);
      } else {
        retired.push_back(std::move(*at));
        block_.ops.erase(at);
      }
    }
  }

  bool is_used_from(size_t item, const Value* v) const {
    const size_t* use = last_use_.get(v);
    return use && *use >= item;
  }

  Block& block_;
  int64_t threads_;
  std::vector<Item> items_;
  PointerMap<Place> places_;
  PointerMap<size_t> last_use_;
  std::vector<Node> nodes_;  ///< of all items, in order
};

bool roll_block(Block& block, int64_t threads, ValueMap& replaced, std::vector<std::unique_ptr<Op>>& retired) {
  bool changed = BlockRoller(block, threads).run(replaced, retired);
  for (auto& op : block.ops)
    if (!op->info().isolates())
      for (auto& region : op->regions) changed |= roll_block(*region, threads, replaced, retired);
  return changed;
}

}  // namespace

void roll_loops(Func& func) {
  if (func.watched()) return;
  for (bool changed = true; changed;) {
    ValueMap replaced;
    std::vector<std::unique_ptr<Op>> retired;
    changed = roll_block(func.body, 32 * func.num_warps(), replaced, retired);
    if (changed) replace_uses(func.body, replaced);
  }
}

void passes::roll_loops(Func& func, PassContext&) { tegula::roll_loops(func); }

}  // namespace tegula
