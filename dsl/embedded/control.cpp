#include "dsl/control.h"

#include <fmt/format.h>

#include <algorithm>
#include <exception>
#include <map>
#include <span>

#include "codegen/ir/flow.h"
#include "codegen/ir/options.h"
#include "dsl/embedded/trace.h"
#include "dsl/semantics/control.h"
#include "runtime/base/error.h"

namespace tegula {

namespace detail {

namespace {

/// The Tiles of the surroundings as a block of a loop sees them: each one's values are arguments of the block until it
/// is known which of them the loop changes.
struct Entry {
  uint64_t id;
  Held before;      ///< outside the block
  dsl::Val inside;  ///< the block's arguments
  std::vector<ir::Value*> leaves;
};

bool holds_values(const dsl::Val& v) {
  const auto* parts = dsl::parts_of(v);
  return parts ? !parts->empty() && std::all_of(parts->begin(), parts->end(), holds_values) : v.is_value();
}

void leaves_of(const dsl::Val& v, std::vector<ir::Value*>& out) {
  if (const auto* parts = dsl::parts_of(v))
    for (const dsl::Val& part : *parts) leaves_of(part, out);
  else
    out.push_back(v.value());
}

/// Every Tile that holds values gets arguments of `block` instead.
std::vector<Entry> enter_block(Trace& trace, ir::Block* block) {
  std::vector<Entry> entries;
  for (auto& [id, slot] : trace.slots()) {
    if (!slot->unusable.empty() || !holds_values(slot->value)) continue;
    Entry entry{id, *slot, {}, {}};
    std::vector<ir::Value*> args;
    leaves_of(entry.before.value, entry.leaves);
    for (ir::Value* leaf : entry.leaves) args.push_back(block->add_arg(leaf->type, leaf->name));
    size_t next = 0;
    entry.inside = dsl::rebuild(entry.before.value, args, next);
    slot->value = entry.inside;
    slot->number = {};
    entries.push_back(std::move(entry));
  }
  return entries;
}

Slot* find(Trace& trace, uint64_t id) {
  auto it = trace.slots().find(id);
  return it == trace.slots().end() ? nullptr : it->second;
}

/// What takes part where control flow meets.
const dsl::Val& joined(const Held& held) { return held.number.is_poison() ? held.value : held.number; }

/// Whether the Tile has another value than when the block began.
bool changed(Trace& trace, const Entry& entry) {
  Slot* slot = find(trace, entry.id);
  if (!slot && !dsl::same(trace.ended(entry.id), entry.inside))
    trace.sema().error("a Tile from before the loop is assigned in its body and then ends there",
                       "the next iteration would use a Tile that is no more");
  return slot && (!slot->unusable.empty() || !dsl::same(slot->value, entry.inside));
}

/// The next values of a changed Tile, of its types, which it holds then; after an error those of its entry.
void next_values(Trace& trace, const Entry& entry, std::vector<ir::Value*>& out) {
  dsl::Sema& s = trace.sema();
  Slot* slot = find(trace, entry.id);
  std::vector<ir::Value*> values;
  Loc loc = s.loc;
  s.at(slot->loc);
  if (!slot->unusable.empty()) {
    s.error(slot->unusable, "the next iteration needs its value");
  } else if (!slot->value.is_poison() && !dsl::match_carried(s, entry.inside, joined(*slot), values)) {
    s.error(fmt::format("the type of a Tile changes in the loop: {} before it, {} at the end of its body",
                        dsl::describe(entry.inside), dsl::with_type(joined(*slot))),
            "give it its final type before the loop, or cast it back with .to(...)");
    values.clear();
  }
  if (values.empty()) leaves_of(entry.inside, values);
  size_t next = 0;
  slot->value = dsl::rebuild(entry.inside, values, next);
  slot->number = {};
  slot->unusable.clear();
  s.at(loc);
  out.insert(out.end(), values.begin(), values.end());
}

/// Removes the arguments of `block` from `first` on that are in `map`, and puts the mapped values in their place.
void remove_arguments(ir::Block* block, const ir::ValueMap& map) {
  ir::replace_uses(*block, map);
  std::erase_if(block->args, [&](const auto& arg) { return map.contains(arg.get()); });
  for (size_t i = 0; i < block->args.size(); ++i) block->args[i]->index = int(i);
}

/// Gives the op a result for each value; the Tiles in `entries` take them where `is_changed`, else their values before.
void leave_block(Trace& trace, ir::Op* op, const std::vector<Entry>& entries, const std::vector<bool>& is_changed) {
  for (size_t i = 0; i < entries.size(); ++i) {
    if (!is_changed[i]) continue;
    for (ir::Value* leaf : entries[i].leaves)
      op->results.push_back(
          std::make_unique<ir::Value>(ir::Value{leaf->type, op, nullptr, int(op->results.size()), leaf->name}));
  }
  const std::vector<ir::Value*> results = dsl::values_behind(*op);
  size_t next = 0;
  for (size_t i = 0; i < entries.size(); ++i) {
    Held held = entries[i].before;
    if (is_changed[i]) held = {dsl::rebuild(held.value, results, next), {}, {}};
    if (Slot* slot = find(trace, entries[i].id)) static_cast<Held&>(*slot) = std::move(held);
  }
  dsl::drop_unchanged(*op);
}

constexpr const char* kOnlyInside = "this Tile has a value only inside the loop or branch that gave it one";

/// Of the Tiles that hold no values of the kernel before a loop, those without any value have none behind it, whatever
/// its body did; compile-time values must not change.
class Valueless {
 public:
  explicit Valueless(Trace& trace) : trace_(trace), loop_(trace.begin_loop()), next_id_(trace.next_id()) {
    for (auto& [id, slot] : trace.slots())
      if (!slot->unusable.empty() || !holds_values(slot->value)) before_[id] = *slot;
  }
  void leave() {
    for (auto& [id, held] : before_) {
      Slot* slot = find(trace_, id);
      if (!slot) continue;
      if (!held.unusable.empty()) {
        if (slot->unusable.empty()) slot->unusable = kOnlyInside;
        continue;
      }
      bool is_changed = !slot->unusable.empty() || !dsl::same(held.value, slot->value);
      if (is_changed && !held.value.is_poison()) {
        trace_.changes_in_loop(loop_, id);
        held.value = {};
      }
      static_cast<Held&>(*slot) = held;
    }
    trace_.retire(next_id_, kOnlyInside);
  }

 private:
  Trace& trace_;
  int loop_;
  uint64_t next_id_;
  std::map<uint64_t, Held> before_;
};

/// Where the user's code records a region. If an exception comes out of it, recording goes on behind the op, in case it
/// is caught.
class Inside {
 public:
  Inside(dsl::Sema& s, ir::Builder outside) : s_(s), outside_(outside) {}
  ~Inside() {
    if (std::uncaught_exceptions() == exceptions_) return;
    s_.builder = outside_;
    s_.error("a loop or branch of the kernel is left by an exception");
  }

 private:
  dsl::Sema& s_;
  ir::Builder outside_;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace

// ---- for

struct Loop {
  Loop(Trace& t, dsl::Val low, dsl::Val high, dsl::Val by, LoopOptions options, Loc loc)
      : trace(t), lower(std::move(low)), upper(std::move(high)), step(std::move(by)), options(options), loc(loc) {}

  void open() {
    dsl::Sema& s = trace.sema();
    s.at(loc);
    bool known = true;
    for (const dsl::Val* v : {&lower, &upper, &step}) {
      if (v->is_poison()) {
        known = false;
      } else if (!v->is<dsl::Int>() && !(v->value() && v->value()->type.is_integer() && v->value()->type.is_scalar())) {
        s.error(fmt::format("range takes integers, found {}", dsl::describe(*v)));
        known = false;
      }
    }
    if (options.num_stages && !ir::option::num_stages.allows(*options.num_stages)) {
      s.error(ir::option::num_stages.wrong(*options.num_stages));
      options.num_stages.reset();
    }
    if (step.is<dsl::Int>() && step.as<dsl::Int>() == 0) known = (s.error("the step of range is 0"), false);
    std::vector<ir::Value*> bounds =
        known ? dsl::for_bounds(s, lower, upper, step) : dsl::for_bounds(s, dsl::Int(0), dsl::Int(1), dsl::Int(1));
    valueless.emplace(trace);
    ir::Attrs attrs;
    if (options.num_stages) attrs[ir::attr::num_stages] = int64_t(*options.num_stages);
    ir::Type type = bounds[0]->type;
    op = s.builder.create(ir::Opcode::For, std::move(bounds), {}, std::move(attrs));
    outside = s.builder;
    const ir::ForLoop loop(*op);
    block = &loop.body();
    induction = block->add_arg(type);
    entries = enter_block(trace, block);
    s.builder.set_end(block);
    is_open = true;
    was_run = false;
  }

  void close() {
    is_open = false;
    dsl::Sema& s = trace.sema();
    std::vector<ir::Value*> yields;
    std::vector<bool> is_changed;
    ir::ValueMap unchanged;
    for (const Entry& e : entries) {
      is_changed.push_back(changed(trace, e));
      if (is_changed.back()) {
        next_values(trace, e, yields);
        op->operands.insert(op->operands.end(), e.leaves.begin(), e.leaves.end());
      } else {
        std::vector<ir::Value*> args;
        leaves_of(e.inside, args);
        for (size_t i = 0; i < args.size(); ++i) unchanged[args[i]] = e.leaves[i];
      }
    }
    s.at(loc);
    s.builder.create(ir::Opcode::Yield, std::move(yields));
    remove_arguments(block, unchanged);
    s.builder = outside;
    s.at(loc);
    valueless->leave();
    leave_block(trace, op, entries, is_changed);
  }

  Trace& trace;
  dsl::Val lower, upper, step;
  LoopOptions options;
  Loc loc;
  ir::Op* op = nullptr;
  ir::Block* block = nullptr;
  ir::Value* induction = nullptr;
  ir::Builder outside;
  std::optional<Valueless> valueless;
  std::vector<Entry> entries;
  bool is_open = false;
  bool was_run = false;
};

// ---- if

void record_if(const Operand& condition, const std::function<void()>& then_body,
               const std::function<void()>& else_body) {
  Trace& trace = Trace::current();
  dsl::Sema& s = trace.sema();
  trace.at(condition.file(), condition.line());
  Loc loc = s.loc;
  dsl::Val c = trace.value_of(condition);
  if (c.is_constant()) {
    if (dsl::truth(c))
      then_body();
    else if (else_body)
      else_body();
    return;
  }
  auto states = [&] {
    std::map<uint64_t, Held> out;
    for (auto& [id, slot] : trace.slots()) out[id] = *slot;
    return out;
  };
  ir::Value* value = c.is_poison() ? nullptr : dsl::to_condition(s, c);
  dsl::Join join = dsl::begin_if(s, value);
  uint64_t next_id = trace.next_id();
  std::map<uint64_t, Held> before = states(), after[2];
  for (int side : {0, 1}) {
    for (auto& [id, held] : before)
      if (Slot* slot = find(trace, id)) static_cast<Held&>(*slot) = held;
    dsl::enter(s, join, side);
    Inside inside(s, join.outside);
    if (side == 0)
      then_body();
    else if (else_body)
      else_body();
    after[side] = states();
    trace.retire(next_id, kOnlyInside);
  }
  s.at(loc);
  for (auto& [id, held] : before) {
    Slot* slot = find(trace, id);
    if (!slot) continue;
    const Held &a = after[0][id], &b = after[1][id];
    if (!a.unusable.empty() || !b.unusable.empty()) {
      slot->unusable = a.unusable.empty() || b.unusable.empty() ? kOnlyInside : a.unusable;
      continue;
    }
    if (dsl::same(a.value, b.value)) {
      static_cast<Held&>(*slot) = a;
      continue;
    }
    std::string why;
    std::optional<dsl::Val> merged = dsl::merge(s, join, "value", joined(a), joined(b), why);
    static_cast<Held&>(*slot) = {merged.value_or(dsl::Val()), {}, merged ? "" : "this Tile is " + why};
  }
  dsl::finish_if(s, join);
}

Tile record_choice(const Operand& condition, const std::function<Operand()>& then_value,
                   const std::function<Operand()>& else_value) {
  Trace& trace = Trace::current();
  Tile result;
  auto take = [&](const std::function<Operand()>& value) { trace.assign(result, trace.value_of(value())); };
  record_if(
      condition, [&] { take(then_value); }, [&] { take(else_value); });
  return result;
}

}  // namespace detail

using detail::Loop;
using detail::Trace;

LoopRange::LoopRange(const Operand& lower, const Operand& upper, const Operand& step, LoopOptions options) {
  Trace& trace = Trace::current();
  trace.at(upper.file(), upper.line());
  loop_ = std::make_unique<Loop>(trace, trace.value_of(lower), trace.value_of(upper), trace.value_of(step), options,
                                 trace.sema().loc);
}

LoopRange::~LoopRange() {
  if (!loop_->is_open) return;
  loop_->trace.sema().at(loop_->loc);
  loop_->trace.sema().error("a loop of the kernel is left by break, goto, return or an exception",
                            "its body is recorded once: use while_ for a loop that may end early, or a plain C++ loop "
                            "for one that ends when the kernel is recorded");
  loop_->close();
}

LoopRange::Iterator LoopRange::begin() {
  if (loop_->is_open) throw Error("a range is used for a loop inside its own loop\n  hint: make another range");
  loop_->open();
  return Iterator(loop_.get());
}

bool LoopRange::Iterator::operator!=(End) const { return !std::exchange(loop_->was_run, true); }
Tile LoopRange::Iterator::operator*() const { return loop_->trace.make(loop_->induction); }
void LoopRange::Iterator::operator++() { loop_->close(); }

void while_(const std::function<Tile()>& condition, const std::function<void()>& body, const char* file, int line) {
  Trace& trace = Trace::current();
  dsl::Sema& s = trace.sema();
  trace.at(file, line);
  Loc loc = s.loc;
  detail::Valueless valueless(trace);
  ir::Op* op = s.builder.create(ir::Opcode::While, {});
  ir::Builder outside = s.builder;
  detail::Inside inside(s, outside);

  // Region 0 hands what it has on to region 1; a Tile that neither changes is an argument of none.
  ir::Block* test = &ir::WhileLoop(*op).test();
  std::vector<detail::Entry> entries = detail::enter_block(trace, test);
  s.builder.set_end(test);
  dsl::Val c;
  {
    Tile held = condition();
    const detail::Slot* slot = detail::Access::slot(held).get();
    c = trace.read(slot);
    if (slot->unusable.empty()) c = detail::joined(*slot);  // a number is known now
  }
  s.at(loc);
  if (c.is_constant() && dsl::truth(c))
    s.error("the condition of while_ is always true: the loop would never end",
            "the condition has to depend on a Tile that the body assigns");
  ir::Value* holds = c.is_poison() ? nullptr : dsl::to_condition(s, c);
  std::vector<std::vector<ir::Value*>> passed(entries.size());
  std::vector<bool> is_changed;
  for (size_t i = 0; i < entries.size(); ++i) {
    is_changed.push_back(detail::changed(trace, entries[i]));
    if (is_changed[i])
      detail::next_values(trace, entries[i], passed[i]);
    else
      detail::leaves_of(entries[i].inside, passed[i]);
  }
  ir::Builder end_of_test = s.builder;
  // The body sees no other values of the condition.
  for (auto& [id, slot] : trace.slots()) {
    bool is_passed = std::any_of(entries.begin(), entries.end(), [&, id = id](const auto& e) { return e.id == id; });
    if (!is_passed && slot->unusable.empty() && detail::holds_values(slot->value))
      slot->unusable = "this Tile has a value only inside the condition of the loop";
  }

  ir::Block* block = &ir::WhileLoop(*op).body();
  std::vector<detail::Entry> inner = detail::enter_block(trace, block);
  s.builder.set_end(block);
  body();
  s.at(loc);
  std::vector<ir::Value*> inits, conditions{holds}, yields;
  ir::ValueMap unchanged[2];
  for (size_t i = 0; i < entries.size(); ++i) {
    auto it = std::find_if(inner.begin(), inner.end(), [&](const auto& e) { return e.id == entries[i].id; });
    if (it == inner.end()) {  // it ended in the condition
      std::vector<ir::Value*> args;
      detail::leaves_of(entries[i].inside, args);
      for (size_t k = 0; k < args.size(); ++k) unchanged[0][args[k]] = entries[i].leaves[k];
      continue;
    }
    is_changed[i] = is_changed[i] || detail::changed(trace, *it);
    if (is_changed[i]) {
      inits.insert(inits.end(), entries[i].leaves.begin(), entries[i].leaves.end());
      conditions.insert(conditions.end(), passed[i].begin(), passed[i].end());
      if (detail::changed(trace, *it))
        detail::next_values(trace, *it, yields);
      else
        detail::leaves_of(it->inside, yields);
      continue;
    }
    std::vector<ir::Value*> args[2];
    detail::leaves_of(entries[i].inside, args[0]);
    detail::leaves_of(it->inside, args[1]);
    for (size_t k = 0; k < entries[i].leaves.size(); ++k)
      for (int region : {0, 1}) unchanged[region][args[region][k]] = entries[i].leaves[k];
  }
  s.builder.create(ir::Opcode::Yield, std::move(yields));
  s.builder = end_of_test;
  s.at(loc);
  s.builder.create(ir::Opcode::Condition, std::move(conditions));
  op->operands = std::move(inits);
  detail::remove_arguments(test, unchanged[0]);
  detail::remove_arguments(block, unchanged[1]);
  s.builder = outside;
  s.at(loc);
  valueless.leave();
  detail::leave_block(trace, op, entries, is_changed);
}

}  // namespace tegula
