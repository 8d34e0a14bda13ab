#include "dsl/control.h"

#include <algorithm>
#include <exception>
#include <map>
#include <memory>

#include "dsl/embedded/trace.h"
#include "dsl/semantics/control.h"
#include "dsl/semantics/loops.h"
#include "runtime/base/error.h"

namespace tegula {

namespace detail {

namespace {

bool holds_values(const dsl::Val& v) {
  const auto* parts = dsl::parts_of(v);
  return parts ? !parts->empty() && std::all_of(parts->begin(), parts->end(), holds_values) : v.is_value();
}

Slot* find(Trace& trace, uint64_t id) {
  auto it = trace.slots().find(id);
  return it == trace.slots().end() ? nullptr : it->second;
}

/// What takes part where control flow meets.
const dsl::Val& joined(const Held& held) { return held.number.is_poison() ? held.value : held.number; }

constexpr const char* kOnlyInside = "this Tile has a value only inside the loop or branch that gave it one";

/// Of the Tiles that hold no values of the kernel before a loop, those without any value have none after it, whatever
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

/// The Tiles around a loop: those that hold values are its variables, since what the body changes is known at its end.
class LoopTiles {
 public:
  explicit LoopTiles(Trace& trace) : trace_(trace), valueless_(trace) {
    for (auto& [id, slot] : trace.slots())
      if (slot->unusable.empty() && holds_values(slot->value)) before_.emplace_back(id, *slot);
  }

  std::vector<dsl::Variable> variables() const {
    std::vector<dsl::Variable> out;
    for (const auto& [id, held] : before_) out.push_back({"a Tile", held.value});
    return out;
  }
  /// In a region the Tiles hold `values`.
  void enter(std::vector<dsl::Val> values) {
    inside_ = std::move(values);
    for (size_t i = 0; i < before_.size(); ++i) {
      Slot* slot = find(trace_, before_[i].first);
      if (!slot) continue;
      static_cast<Held&>(*slot) = {inside_[i], {}, {}};
    }
  }
  std::vector<dsl::AtEnd> ends() {
    std::vector<dsl::AtEnd> out;
    for (size_t i = 0; i < before_.size(); ++i) {
      const uint64_t id = before_[i].first;
      if (const Slot* slot = find(trace_, id)) {
        out.push_back({joined(*slot), slot->loc, slot->unusable});
        continue;
      }
      out.push_back({inside_[i]});
      if (!dsl::same(trace_.ended(id), inside_[i]))
        trace_.sema().error("a Tile from before the loop is assigned in its body and then ends there",
                            "the next iteration would use a Tile that is no more");
    }
    return out;
  }
  /// The body of a loop sees no other values of its condition.
  void hide_others() {
    auto next = before_.begin();  // both are in the order of ids
    for (auto& [id, slot] : trace_.slots()) {
      while (next != before_.end() && next->first < id) ++next;
      const bool is_variable = next != before_.end() && next->first == id;
      if (!is_variable && slot->unusable.empty() && holds_values(slot->value))
        slot->unusable = "this Tile has a value only inside the condition of the loop";
    }
  }
  /// Behind the loop the Tiles hold `values`, or what they held before.
  void leave(const std::vector<dsl::Val>& values) {
    valueless_.leave();
    for (size_t i = 0; i < before_.size(); ++i) {
      Slot* slot = find(trace_, before_[i].first);
      if (!slot) continue;
      const bool is_unchanged = dsl::same(values[i], before_[i].second.value);
      static_cast<Held&>(*slot) = is_unchanged ? before_[i].second : Held{values[i], {}, {}};
    }
  }

 private:
  Trace& trace_;
  Valueless valueless_;  // its loop begins before the Tiles are looked at
  std::vector<std::pair<uint64_t, Held>> before_;
  std::vector<dsl::Val> inside_;
};

/// Where the user's code records a region. If an exception comes out of it, recording goes on after the op, in case it
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
  Loop(Trace& trace, dsl::Range range, Loc loc) : trace(trace), range(std::move(range)), loc(loc) {}

  void open() {
    dsl::Sema& s = trace.sema();
    s.at(loc);
    dsl::Range checked = range;
    if (!dsl::check_range(s, checked)) checked.upper = {};
    tiles.emplace(trace);
    op.emplace(s, checked, tiles->variables());
    tiles->enter(op->enter_body());
    is_open = true;
    was_run = false;
  }

  void close() {
    is_open = false;
    trace.sema().at(loc);
    tiles->leave(op->end_body(tiles->ends()));
  }

  Trace& trace;
  dsl::Range range;
  Loc loc;
  std::optional<LoopTiles> tiles;
  std::optional<dsl::Loop> op;
  bool is_open = false;
  bool was_run = false;
};

// ---- if

void record_if(const Operand& condition, FunctionRef<void()> then_body, FunctionRef<void()> else_body) {
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

Tile record_choice(const Operand& condition, FunctionRef<Operand()> then_value, FunctionRef<Operand()> else_value) {
  Trace& trace = Trace::current();
  Tile result;
  auto take = [&](FunctionRef<Operand()> value) { trace.assign(result, trace.value_of(value())); };
  record_if(
      condition, [&] { take(then_value); }, [&] { take(else_value); });
  return result;
}

}  // namespace detail

using detail::Loop;
using detail::Trace;

LoopRange range(const Operand& upper, LoopOptions options) {
  return LoopRange(Operand(0, upper.file(), upper.line()), upper, Operand(1, upper.file(), upper.line()), options);
}
LoopRange range(const Operand& lower, const Operand& upper, const Operand& step, LoopOptions options) {
  return LoopRange(lower, upper, step, options);
}

LoopRange::LoopRange(const Operand& lower, const Operand& upper, const Operand& step, LoopOptions options) {
  Trace& trace = Trace::current();
  trace.at(upper.file(), upper.line());
  const Loc loc = trace.sema().loc;
  dsl::Range range;
  range.lower = {trace.value_of(lower), loc};
  range.upper = {trace.value_of(upper), loc};
  range.step = {trace.value_of(step), loc};
  if (options.num_stages) range.num_stages = {dsl::Int(*options.num_stages), loc};
  if (options.warp_specialize) range.warp_specialize = {dsl::Val(*options.warp_specialize), loc};
  if (options.loop_unroll_factor) range.unroll = {dsl::Int(*options.loop_unroll_factor), loc};
  loop_ = new Loop(trace, std::move(range), loc);
}

LoopRange::~LoopRange() {
  const std::unique_ptr<Loop> loop(loop_);
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
  return Iterator(loop_);
}

bool LoopRange::Iterator::operator!=(End) const { return !std::exchange(loop_->was_run, true); }
Tile LoopRange::Iterator::operator*() const { return loop_->trace.make(loop_->op->index()); }
void LoopRange::Iterator::operator++() { loop_->close(); }

void while_(FunctionRef<Tile()> condition, FunctionRef<void()> body, const char* file, int line) {
  Trace& trace = Trace::current();
  dsl::Sema& s = trace.sema();
  trace.at(file, line);
  Loc loc = s.loc;
  detail::LoopTiles tiles(trace);
  dsl::Loop loop(s, tiles.variables());
  detail::Inside inside(s, loop.outside());

  tiles.enter(loop.enter_test());
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
  loop.end_test(holds, tiles.ends());

  tiles.hide_others();
  tiles.enter(loop.enter_body());
  body();
  s.at(loc);
  tiles.leave(loop.end_body(tiles.ends()));
}

}  // namespace tegula
