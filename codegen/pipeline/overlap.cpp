#include "codegen/pipeline/overlap.h"

#include <algorithm>
#include <limits>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/register_pressure.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_bounds.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

int64_t words_of(const Type& type) {
  if (type.is_place()) return 0;
  if (!type.is_tile() && !type.is_in_flight()) return 1;
  return (held_elements(type) * type.bits() + 31) / 32;
}

// Divides a loop's body: what the second product needs is late, and runs an iteration behind the rest.
class Division {
 public:
  explicit Division(const ChainedProducts& products)
      : products_(products), loop_(*products.loop), body_(loop_.body()) {}

  /// Whether the late part can run behind.
  bool find() {
    const Op& loop = *products_.loop;
    if (!goes_up(loop) && !constant_integer(ForLoop(loop).step())) return false;
    if (!find_waits() || !may_move() || !find_late()) return false;
    find_shared_by_both();
    sink_cheap();
    find_crossing();
    // A loop carries no places: where both products read one, they stay in one iteration.
    return std::none_of(crossing_.begin(), crossing_.end(), [](const Value* v) { return v->type.is_place(); });
  }

  bool is_late(const Op& op) const { return late_.contains(&op); }
  bool is_late(const Value* v) const { return v->def ? late_.contains(v->def) : late_args_.contains(v); }
  /// Whether the op is computed from values ahead of the loop alone: each part computes it for itself.
  bool is_of_both(const Op& op) const { return of_both_.contains(&op); }
  const std::vector<Value*>& crossing() const { return crossing_; }

  /// Registers of a thread while both products are under way and the next iteration's values are made.
  int64_t words() const {
    constexpr int64_t kAddresses = 24;
    int64_t words = kAddresses + words_of(products_.first->result()->type);
    for (size_t i = 0; i < loop_.carried(); ++i) words += words_of(loop_.arg(i)->type);
    for (const Value* v : crossing_) words += 2 * words_of(v->type);
    return words;
  }

 private:
  // A barrier belongs to the product that waits for it, or to the product that is over when threads arrive at it.
  bool find_waits() {
    const Op* over = nullptr;
    std::vector<const Op*> waits;
    for (auto& op : body_.ops) {
      if (op->opcode == Opcode::PhaseWait) waits.push_back(op.get());
      if (op->opcode == Opcode::MmaStart) {
        if (op.get() == products_.second) late_.insert(waits.begin(), waits.end());
        waits.clear();
      }
      if (op->opcode == Opcode::MmaWait) over = op.get();
      if (op->opcode == Opcode::PhaseArrive) {
        if (!over) return false;
        if (over->operand(0) == products_.second->result()) late_.insert(op.get());
      }
    }
    return waits.empty();
  }

  bool may_move() const {
    return std::all_of(body_.ops.begin(), body_.ops.end(), [&](auto& op) {
      switch (op->opcode) {
        case Opcode::MmaStart:
          return op.get() == products_.first || op.get() == products_.second;
        case Opcode::MmaWait:
          return op->get(attr::pending) == 0;
        case Opcode::PhaseWait:
        case Opcode::PhaseArrive:
        case Opcode::Load:  // nothing here writes
        case Opcode::Yield:
          return true;
        default:
          return op->has(Pure) && (op->regions.empty() || op->info().isolates());
      }
    });
  }

  // What follows from the second product, in this iteration or the next.
  bool find_late() {
    late_.insert(products_.second);
    for (size_t before = 0; before != late_.size() + late_args_.size();) {
      before = late_.size() + late_args_.size();
      for (auto& op : body_.ops)
        if (!op->has(Terminator) &&
            std::any_of(op->operands.begin(), op->operands.end(), [&](const Value* v) { return v && is_late(v); }))
          late_.insert(op.get());
      for (size_t i = 0; i < loop_.carried(); ++i)
        if (is_late(loop_.next(i))) late_args_.insert(loop_.arg(i));
    }
    return !is_late(*products_.first);
  }

  bool is_outside(const Value* v) const { return home(v) != &body_; }

  void find_shared_by_both() {
    for (auto& op : body_.ops)
      if (op->has(Pure) && !is_late(*op) && std::all_of(op->operands.begin(), op->operands.end(), [&](const Value* v) {
            return !v || is_outside(v) || (v->def && of_both_.contains(v->def));
          }))
        of_both_.insert(op.get());
  }

  // A value that the late part alone uses is computed there if it takes more registers than its operands.
  void sink_cheap() {
    std::unordered_set<const Value*> early_uses;
    for (auto op = body_.ops.rbegin(); op != body_.ops.rend(); ++op) {
      if ((*op)->has(Terminator)) {
        for (size_t i = 0; i < loop_.carried(); ++i)
          if (!is_late(loop_.next(i))) early_uses.insert(loop_.next(i));
        continue;
      }
      const bool unused = std::none_of((*op)->results.begin(), (*op)->results.end(),
                                       [&](auto& v) { return early_uses.contains(v.get()); });
      if (!is_late(**op) && unused && is_cheap(**op)) late_.insert(op->get());
      if (!is_late(**op)) early_uses.insert((*op)->operands.begin(), (*op)->operands.end());
    }
  }

  bool is_cheap(const Op& op) const {
    if (!op.has(Pure) || is_product(op) || op.opcode == Opcode::MmaWait || op.results.size() != 1) return false;
    if (op.result()->type.is_place()) return true;
    int64_t words = 0;
    for (const Value* v : op.operands) words += v ? words_of(v->type) : 0;
    return words_of(op.result()->type) > words;
  }

  void find_crossing() {
    std::unordered_set<const Value*> seen;
    for (auto& op : body_.ops) {
      if (!is_late(*op)) continue;
      for (Value* v : op->operands)
        if (v && !is_outside(v) && !is_late(v) && !(v->def && of_both_.contains(v->def)) && seen.insert(v).second)
          crossing_.push_back(v);
    }
  }

  const ChainedProducts& products_;
  const ForLoop loop_;
  const Block& body_;
  std::unordered_set<const Op*> late_, of_both_;
  std::unordered_set<const Value*> late_args_;
  std::vector<Value*> crossing_;  // what the late part needs of the rest, of its own iteration
};

Value* lookup(const ValueMap& map, Value* v) {
  auto it = map.find(v);
  return it == map.end() ? v : it->second;
}

// Writes the loop anew.
class Writer {
 public:
  Writer(ChainedProducts& products, const Division& division)
      : products_(products), division_(division), loop_(*products.loop), body_(loop_.body()) {}

  void run() {
    Op& old = loop_.op();
    Builder outside = before(old);
    std::vector<Type> types;
    for (const auto& result : old.results) types.push_back(result->type);
    Op* any = outside.create(Opcode::If, {gets_to(outside, old, loop_.lower())}, types);
    Builder here;
    here.set_end(any->regions[1].get()), here.set_loc(old.loc);
    std::vector<Value*> inits;
    for (size_t i = 0; i < loop_.carried(); ++i) inits.push_back(loop_.init(i));
    here.create(Opcode::Yield, inits);
    here.set_end(any->regions[0].get());
    write(here);
    ValueMap results;
    for (size_t i = 0; i < loop_.carried(); ++i) results[loop_.result(i)] = any->result(int(i));
    replace_uses(*old.parent, results);
    erase(old);
  }

 private:
  void write(Builder& here) {
    ValueMap first{{loop_.induction(), loop_.lower()}};
    for (size_t i = 0; i < loop_.carried(); ++i) first[loop_.arg(i)] = loop_.init(i);
    for (auto& op : body_.ops)
      if (is_early(*op)) here.insert(clone_op(*op, first));

    const std::vector<Value*> left = write_loop(here, first);  // what it carries: its own, then what crosses

    ValueMap last;
    for (size_t i = 0; i < loop_.carried(); ++i) last[loop_.arg(i)] = left[i];
    for (size_t i = 0; i < division_.crossing().size(); ++i) last[division_.crossing()[i]] = left[loop_.carried() + i];
    for (auto& op : body_.ops)
      if (is_late(*op)) here.insert(clone_op(*op, last));
    std::vector<Value*> results;
    for (size_t i = 0; i < loop_.carried(); ++i)
      results.push_back(division_.is_late(loop_.next(i)) ? lookup(last, loop_.next(i)) : left[i]);
    here.create(Opcode::Yield, results);
  }

  std::vector<Value*> write_loop(Builder& here, const ValueMap& first) {
    const Type& index = loop_.induction()->type;
    // The upper bound less a step must not wrap around.
    const bool up = goes_up(loop_.op());
    const int64_t most =
        index.bits() == 64 ? std::numeric_limits<int64_t>::max() : (int64_t(1) << (index.bits() - 1)) - 1;
    Value* end = here.constant(index, !up ? most : is_unsigned(index.elem) ? 0 : -most - 1);
    Value* nearest = here.add(end, loop_.step());
    Value* upper = up ? here.maximum(loop_.upper(), nearest) : here.minimum(loop_.upper(), nearest);
    Op* loop =
        here.create(Opcode::For, {loop_.lower(), here.sub(upper, loop_.step()), loop_.step()}, {}, loop_.op().attrs);
    Block& body = *loop->regions[0];
    Value* iteration = body.add_arg(index);
    Builder inside;
    inside.set_end(&body), inside.set_loc(loop->loc);
    ValueMap early{{loop_.induction(), inside.add(iteration, loop_.step())}}, late;
    for (size_t i = 0; i < loop_.carried(); ++i) {
      Value* arg = loop_.arg(i);
      const bool is_late = division_.is_late(loop_.next(i));
      (is_late ? late : early)[arg] = carry(*loop, is_late ? loop_.init(i) : lookup(first, loop_.next(i)));
    }
    for (Value* v : division_.crossing()) late[v] = carry(*loop, lookup(first, v));
    write_body(inside, early, late);

    std::vector<Value*> next;
    for (size_t i = 0; i < loop_.carried(); ++i)
      next.push_back(lookup(division_.is_late(loop_.next(i)) ? late : early, loop_.next(i)));
    for (Value* v : division_.crossing()) next.push_back(lookup(early, v));
    inside.create(Opcode::Yield, next);
    products_.loop = loop;
    std::vector<Value*> left;
    for (const auto& result : loop->results) left.push_back(result.get());
    return left;
  }

  // The next iteration's first product and this one's second are started, then what is between them, then the end.
  void write_body(Builder& inside, ValueMap& early, ValueMap& late) {
    auto first =
        std::find_if(body_.ops.begin(), body_.ops.end(), [&](auto& op) { return op.get() == products_.first; });
    auto second =
        std::find_if(body_.ops.begin(), body_.ops.end(), [&](auto& op) { return op.get() == products_.second; });
    auto copy = [&](auto from, auto to, bool of_late) {
      Op* last = nullptr;
      for (; from != to; ++from)
        if (of_late ? is_late(**from) : is_early(**from))
          last = inside.insert(clone_op(**from, of_late ? late : early));
      return last;
    };
    const Value* sums = products_.first->result();
    const auto behind_first = std::next(first), behind_second = std::next(second);
    products_.first = copy(body_.ops.begin(), behind_first, false);
    products_.second = copy(body_.ops.begin(), behind_second, true);
    for (auto op = behind_first; op != body_.ops.end(); ++op) {
      if (!is_early(**op)) continue;
      Op* here = inside.insert(clone_op(**op, early));
      if (here->opcode == Opcode::MmaWait && (*op)->operand(0) == sums) here->set(attr::pending, 1);
    }
    copy(behind_second, body_.ops.end(), true);
  }

  bool is_early(const Op& op) const { return !op.has(Terminator) && !division_.is_late(op); }
  bool is_late(const Op& op) const {
    return !op.has(Terminator) && (division_.is_late(op) || division_.is_of_both(op));
  }

  ChainedProducts& products_;
  const Division& division_;
  const ForLoop loop_;
  const Block& body_;
};

}  // namespace

bool overlap_products(ChainedProducts& products, int64_t registers) {
  Division division(products);
  if (!division.find() || division.words() > registers) return false;
  Writer(products, division).run();
  return true;
}

}  // namespace tegula
