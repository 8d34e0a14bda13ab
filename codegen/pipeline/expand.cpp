#include "codegen/pipeline/expand.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <utility>

#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/ir/flow.h"
#include "codegen/pipeline/barriers.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

// The mask of an access to these pointers, null for none, where the iteration exists.
Value* mask_where(Builder& build, Value* exists, Value* mask, const Type& pointers) {
  Value* here = pointers.is_tile() ? splat_as(build, exists, pointers) : exists;
  return mask ? build.bit_and(here, mask) : here;
}

}  // namespace

// -------------------------------------------------------------------------------------------------- to registers

void expand_loads(Op& loop, const std::vector<Op*>& loads, bool never_negative, int ahead, Op* product) {
  Block& body = *loop.regions[0];
  LoopSources sources(loop, ahead);
  std::vector<std::vector<Value*>> queue;  // iteration, load
  std::vector<Value*> loaded;
  auto load = [&](Builder& build, Op& op, Replay& values, const LoadStream::Exists& exists) {
    Value *pointer = values(op.operand(0)),
          *mask = mask_where(build, exists.iteration, values(op.operand(1)), pointer->type);
    loaded.push_back(build.load(pointer, mask, values(op.operand(2)), op.attrs));
  };
  LoadStream stream(loop, loads, sources, never_negative, ahead);
  Builder build = before(loop, loop.loc);
  stream.begin(build, load, [&](int) { queue.push_back(std::exchange(loaded, {})); });
  if (product)
    build.set_after(product);
  else
    build.set_before(body.ops.front().get());
  stream.go_on(build, load);

  Op& yield = *body.terminator();
  for (size_t i = 0; i < loads.size(); ++i) {
    Value* head = nullptr;
    for (int stage = 0; stage < ahead; ++stage) {
      Value* arg = carry(loop, queue[size_t(stage)][i]);
      if (stage == 0)
        head = arg;
      else
        yield.operands.push_back(arg);
    }
    yield.operands.push_back(loaded[i]);
    replace_uses(body, loads[i]->result(), head);
  }
}

// ---------------------------------------------------------------------------------------------- to shared memory

namespace {

class CopyExpander {
 public:
  CopyExpander(Op& loop, const CopyStream& stream)
      : loop_(loop), body_(*loop.regions[0]), stream_(stream), outermost_(stream.outer ? stream.outer->loop() : loop) {}

  void run() {
    if (stream_.outer) stream_.outer->carry_scalars();
    find_readers();
    Builder first = before(outermost_, loop_.loc);
    for (const Op* copy : stream_.copies) make_slots(*copy, first);
    make_barriers(first);

    LoopSources sources(loop_, stream_.ahead);
    LoadStream loads(loop_, stream_.copies, sources, stream_.never_negative, stream_.ahead, stream_.outer);
    std::vector<Value*> tokens;  // of the iterations whose copies are under way
    write_ = phase_ = number(first, 0);
    loads.begin(first, copy(), [&](int i) {
      tokens.push_back(commit(first));
      write_ = number(first, (i + 1) % stream_.slots);
    });
    Value* read = carry_through(number(first, 0));
    rotate(loop_, read, stream_.slots);
    write_ = carry_through(write_);
    Value* next_write = rotate(loop_, write_, stream_.slots);
    carry_phase(first, next_write);
    std::vector<Value*> under_way;
    for (Value*& token : tokens) {
      token = carry_through(token);
      under_way.push_back(outermost_.results.back().get());
    }
    Op* wait = wait_for(tokens.front());
    read_slots(read);

    Builder build = behind(stream_.behind ? *stream_.behind : *wait, loop_.loc);
    Op& yield = *body_.terminator();
    yield.operands.insert(yield.operands.end(), tokens.begin() + 1, tokens.end());
    const size_t token_at = yield.operands.size();
    loads.go_on(build, copy());
    yield.operands.insert(yield.operands.begin() + int64_t(token_at), commit(build));

    finish(under_way);
  }

 private:
  // Allocates the slots, ahead of all copies.
  void make_slots(const Op& copy, Builder& first) {
    Op* alloc = copy.operand(1)->def;
    alloc->set(attr::slots, stream_.slots);
    if (!stream_.outer) return;
    auto& from = alloc->parent->ops;
    auto at = std::find_if(from.begin(), from.end(), [&](auto& op) { return op.get() == alloc; });
    std::unique_ptr<Op> moved = std::move(*at);
    from.erase(at);
    first.insert(std::move(moved));
  }

  // Barriers are used in turn, as slots are. Their phases end in turn, too, and all threads have waited for the phase
  // before when a slot is written again.
  void make_barriers(Builder& first) {
    if (!in_bulk_ && stream_.completion != Completion::Barrier) return;
    barriers_ = tegula::make_barriers(first, stream_.slots, in_bulk_ ? 1 : 0);
  }

  void find_readers() {
    std::unordered_set<const Value*> places;
    for (const Op* copy : stream_.copies) places.insert(copy->operand(1));
    walk(body_, [&](Op& op) {
      if (std::any_of(op.operands.begin(), op.operands.end(), [&](const Value* v) { return places.contains(v); }))
        readers_.push_back(&op);
    });
  }

  // Where the body first reads what was copied.
  Op* wait_for(Value* token) {
    Op* first = readers_.front();
    while (first->parent != &body_) first = first->parent->parent;
    return before(*first, loop_.loc).create(Opcode::AsyncWait, {token});
  }

  void read_slots(Value* index) {
    for (Op* op : readers_)
      for (Value*& v : op->operands)
        for (const Op* copy : stream_.copies)
          if (v == copy->operand(1)) {
            Builder here = before(*op, op->loc);
            v = slot_of(here, v, index);
          }
  }

  LoadStream::Access copy() {
    return [this](Builder& build, Op& op, Replay& values, const LoadStream::Exists& exists) {
      if (in_bulk_) return copy_in_bulk(build, op, values, exists);
      Value *pointer = values(op.operand(0)),
            *mask = mask_where(build, exists.iteration, values(op.operand(2)), pointer->type);
      build.create(Opcode::AsyncCopy, {pointer, slot_of(build, op.operand(1), write_), mask}, {}, op.attrs);
    };
  }

  // Elements outside of the array are read as zeros.
  void copy_in_bulk(Builder& build, const Op& op, Replay& values, const LoadStream::Exists& exists) {
    copies_ = exists.outer ? exists.outer : exists.iteration;
    Value *place = slot_of(build, op.operand(1), write_), *barrier = slot_of(build, barriers_, write_);
    std::vector<Value*> operands{op.operand(0), place, barrier, copies_};
    for (size_t i = operands.size(); i < op.operands.size(); ++i) operands.push_back(values(op.operands[i]));
    if (exists.outer) {
      const int64_t row = place->type.shape[size_t(op.get(attr::axes).back())];
      operands.back() = build.select(exists.iteration, operands.back(), number(build, -row));
    }
    Attrs attrs = op.attrs;
    attrs.erase(std::string(attr::multicast));
    build.create(Opcode::BulkCopy, std::move(operands), {}, std::move(attrs));
  }

  Value* commit(Builder& build) {
    std::vector<Value*> how;
    Attrs attrs;
    if (barriers_) how = {slot_of(build, barriers_, write_), phase_};
    if (in_bulk_) {
      how.push_back(copies_);
      int64_t bytes = 0;
      for (const Op* copy : stream_.copies) bytes += place_bytes(copy->operand(1)->type);
      attrs[attr::bytes] = bytes;
    }
    const Completion completion = barriers_ ? Completion::Barrier : Completion::Group;
    return build.create(Opcode::AsyncCommit, std::move(how), {Type::token(completion)}, std::move(attrs))->result();
  }

  // Lets the loop carry one more value, and the loops around it that the copies run through as well; the caller appends
  // what the body yields. `first` is the value ahead of all of them.
  Value* carry_through(Value* first) {
    if (!stream_.outer) return carry(loop_, first);
    Value* here = carry(loop_, carry(outermost_, first));
    outermost_.regions[0]->terminator()->operands.push_back(loop_.results.back().get());
    return here;
  }

  void carry_phase(Builder& first, Value* next_write) {
    if (!barriers_) return;
    phase_ = carry_through(number(first, stream_.ahead / stream_.slots));
    Builder top = behind(*next_write->def, loop_.loc);
    Value* wraps = top.lt(next_write, write_);
    body_.terminator()->operands.push_back(top.bit_xor(phase_, top.cast(wraps, Elem::I32)));
  }

  void finish(const std::vector<Value*>& under_way) {
    Builder after = behind(outermost_, loop_.loc);
    after.create(Opcode::AsyncWait, under_way);
    if (barriers_) after.create(Opcode::SharedFree, {barriers_});
  }

  Op& loop_;
  Block& body_;
  const CopyStream& stream_;
  Op& outermost_;
  Value *barriers_ = nullptr, *write_ = nullptr, *phase_ = nullptr;
  Value* copies_ = nullptr;  // whether bulk copies of the iteration at hand are issued
  const bool in_bulk_ = stream_.copies[0]->opcode == Opcode::BulkCopy;
  std::vector<Op*> readers_;  // in the order of the program
};

}  // namespace

void expand_copies(Op& loop, const CopyStream& stream) { CopyExpander(loop, stream).run(); }

// --------------------------------------------------------------------------------------------------------- stores

namespace {

// Whether the value depends, in each iteration, only on what the loop carries and on values from outside, through pure
// ops.
bool can_advance(const Value* v, const Op& loop, std::unordered_set<const Value*>& seen) {
  if (!v || home(v) != loop.regions[0].get() || !v->def || !seen.insert(v).second) return true;
  return v->def->has(Pure) && v->def->regions.empty() && !is_product(*v->def) &&
         std::all_of(v->def->operands.begin(), v->def->operands.end(),
                     [&](const Value* x) { return can_advance(x, loop, seen); });
}

// The last op, the product or one after it, that defines something that the next iteration's values follow from.
Op* last_needed(Op& product, const std::vector<Value*>& values, const ValueMap& next) {
  std::unordered_set<const Op*> needed{&product};
  std::unordered_set<const Value*> seen;
  std::function<void(const Value*)> visit = [&](const Value* v) {
    if (!v || !seen.insert(v).second) return;
    if (auto it = next.find(v); it != next.end()) {
      if (it->second->def) needed.insert(it->second->def);
    } else if (v->def) {
      for (const Value* x : v->def->operands) visit(x);
    }
  };
  for (const Value* v : values) visit(v);
  Op* last = nullptr;
  for (auto& op : product.parent->ops)
    if (needed.contains(op.get())) last = op.get();
  return last;
}

}  // namespace

void expand_stores(Op& loop, const std::vector<Op*>& stores, Op& product) {
  constexpr int64_t kSlots = 2;
  Block& body = *loop.regions[0];
  Builder outside = before(loop, loop.loc);
  Value* read = carry(loop, number(outside, 0));
  rotate(loop, read, kSlots);
  std::vector<Value*> values, places;
  for (const Op* store : stores) {
    values.push_back(store->operand(0));
    places.push_back(store->operand(1));
    places.back()->def->set(attr::slots, kSlots);
  }
  // Readers alternate between the slots, and so do the stores unless they run ahead.
  std::vector<Op*> users;
  walk(body, [&](Op& op) {
    for (const Value* v : op.operands)
      if (std::find(places.begin(), places.end(), v) != places.end()) users.push_back(&op);
  });
  for (Op* op : users)
    for (Value*& v : op->operands)
      if (std::find(places.begin(), places.end(), v) != places.end()) {
        Builder here = before(*op, op->loc);
        v = slot_of(here, v, read);
      }
  std::unordered_set<const Value*> seen;
  if (!std::all_of(values.begin(), values.end(), [&](const Value* v) { return can_advance(v, loop, seen); })) return;

  Value* write = carry(loop, number(outside, 1));
  rotate(loop, write, kSlots);
  const ForLoop parts(loop);
  ValueMap first{{parts.induction(), parts.lower()}}, next;
  for (size_t i = 0; i < parts.carried(); ++i) {
    first[parts.arg(i)] = parts.init(i);
    next[parts.arg(i)] = parts.next(i);
  }
  Replay at_first(outside, {&body}, first);
  for (size_t i = 0; i < values.size(); ++i)
    outside.create(Opcode::SharedStore, {at_first(values[i]), slot_of(outside, places[i], number(outside, 0))});
  Builder ahead = behind(*last_needed(product, values, next), product.loc);
  next[parts.induction()] = ahead.add(parts.induction(), parts.step());
  Replay at_next(ahead, {&body}, next);
  for (size_t i = 0; i < values.size(); ++i)
    ahead.create(Opcode::SharedStore, {at_next(values[i]), slot_of(ahead, places[i], write)});
  for (Op* store : stores) erase(*store);
}

// ----------------------------------------------------------------------------------------------------------- sums

void keep_in_flight(Op& loop, Op& product, bool waits_at_once) {
  const ForLoop parts(loop);
  const size_t carried = *parts.number(product.operand(2));
  Value *arg = parts.arg(carried), *sums = parts.result(carried);
  Op* wait = parts.next(carried)->def;
  const Type tile = arg->type, in_flight = tile.with_kind(Kind::InFlight);
  // A no-op wait before the loop forces the initial sums into registers; the assembler would otherwise set the
  // constants between the products.
  const Attrs complete = wait->attrs;
  Builder first = before(loop, product.loc);
  parts.init(carried) = first.create(Opcode::MmaWait, {parts.init(carried)}, {in_flight}, complete)->result();
  arg->type = sums->type = wait->result()->type = in_flight;
  wait->set(attr::pending, 1);
  if (!waits_at_once) {
    auto& ops = product.parent->ops;
    auto at = std::find_if(ops.begin(), ops.end(), [&](auto& op) { return op.get() == wait; });
    ops.splice(std::prev(ops.end()), ops, at);
  }
  Builder after = behind(loop, product.loc);
  Op* over = after.create(Opcode::MmaWait, {sums}, {tile}, complete);
  replace_uses(*loop.parent, sums, over->result());
  over->operands[0] = sums;
}

void begin_with_product(Op& loop, Op& product) {
  const ForLoop parts(loop);
  Value*& begin = parts.init(*parts.number(product.operand(2)));
  if (!is_zero(begin)) return;
  Builder build = before(loop, product.loc);
  begin = build.create(Opcode::Unset, {}, {begin->type})->result();
  build = before(product, product.loc);
  product.operands.resize(4);
  product.operands[3] = build.ne(parts.induction(), parts.lower());
}

}  // namespace tegula
