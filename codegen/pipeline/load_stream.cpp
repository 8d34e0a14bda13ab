#include "codegen/pipeline/load_stream.h"

#include <algorithm>
#include <unordered_set>

#include "codegen/ir/flow.h"
#include "codegen/pipeline/loop_bounds.h"
#include "runtime/base/check.h"

namespace tegula {

using namespace ir;

namespace {

// The scalar that all elements of a tile equal; null for other tiles.
Value* scalar_of(Builder& build, Value* tile) {
  if (!tile->def) return nullptr;
  if (tile->def->opcode == Opcode::Splat) return tile->def->operands[0];
  const auto number = constant_integer(tile);
  return number ? build.constant(tile->type.element(), *number) : nullptr;
}

// The distance of a tile of pointers from its scalar pointer, in elements; null for zero.
Value* offsets_of(Builder& build, Replay& replay, Value* pointers) {
  const Op& op = *pointers->def;
  if (op.opcode == Opcode::Splat) return nullptr;
  Value* offsets = offsets_of(build, replay, op.operands[0]);
  if (op.opcode == Opcode::AddPtr) {
    Value* more = wide(build, replay(op.operands[1]));
    return offsets ? build.add(offsets, more) : more;
  }
  if (!offsets) return nullptr;
  const Type type = offsets->type.with_shape(pointers->type.shape).with_layout(pointers->type.layout);
  return build.create(op.opcode, {offsets}, {type}, op.attrs)->result();
}

Value* base_of(Value* pointers) {
  while (pointers->def->opcode != Opcode::Splat) pointers = pointers->def->operands[0];
  return pointers->def->operands[0];
}

Value* choose(Builder& build, Value* condition, Value* then, Value* otherwise) {
  if (then == otherwise) return then;
  if (then->type.is_tile()) condition = splat_as(build, condition, then->type);
  return build.select(condition, then, otherwise);
}

}  // namespace

LoadStream::LoadStream(Op& loop, std::vector<Op*> loads, LoopSources& sources, bool never_negative, int ahead,
                       OuterIterations* outer)
    : loop_(loop),
      body_(*loop.regions[0]),
      loads_(std::move(loads)),
      sources_(sources),
      never_negative_(never_negative),
      ahead_(ahead),
      outer_(outer),
      upper_(ForLoop(loop).upper()) {
  TEGULA_CHECK(!outer_ || outer_->next_exists(), "the loop around carries no scalars yet");
  find_parts();
}

// Every iteration of the loop around has as many iterations of the loop as run ahead, at least.
void LoadStream::lengthen_iterations() {
  Builder build;
  build.set_loc(loop_.loc);
  build.set_before(&loop_);
  const ForLoop loop(loop_);
  Value* least = build.add(loop.lower(), build.mul(loop.step(), build.constant(upper_->type, ahead_)));
  loop.upper() = build.maximum(upper_, least);
}

void LoadStream::find_parts() {
  std::unordered_set<const Value*> seen;
  std::function<void(const Value*)> visit = [&](const Value* v) {
    if (!v || !seen.insert(v).second) return;
    const bool inside = home(v) == &body_;
    if (outer_ && outer_->is_scalar_of_iteration(v)) {
      of_outer_.push_back(v);
    } else if (!v->def && inside && v != ForLoop(loop_).induction()) {
      const bool grows = sources_.growth(v);
      (grows ? growing_ : queued_).push_back(v);
      if (grows) visit(sources_.step(v));
    } else if (v->def && (inside || (outer_ && home(v) == &outer_->body()))) {
      for (Value* x : v->def->operands) visit(x);
    }
  };
  for (const Op* load : loads_)
    for (const Value* v : load->operands) visit(v);
  visit(upper_);
}

bool LoadStream::splits(const Value* pointers) const {
  if (!pointers->def) return false;
  const Op& op = *pointers->def;
  switch (op.opcode) {
    case Opcode::Splat:
      return true;
    case Opcode::AddPtr:
      return !(outer_ && outer_->varies(op.operand(1))) && splits(op.operand(0));
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::ConvertLayout:
      return splits(op.operand(0));
    default:
      return false;
  }
}

Value* LoadStream::init_of(const Value* arg) const {
  const ForLoop loop(loop_);
  return loop.init(*loop.number(arg));
}

// The value that the loop already holds for an iteration to come.
Value* LoadStream::queued(const Value* arg, const Iteration& it, bool inside) const {
  const std::vector<Value*> queue = sources_.queue(arg);
  TEGULA_CHECK(size_t(it.number) < queue.size(), "a loop holds {} iterations, and iteration {} is copied", queue.size(),
               it.number);
  Value* held = queue[size_t(it.number)];
  return inside ? held : init_of(held);
}

// Splits pointers into a scalar and invariant offsets: advancing by an iteration, of the outer loop too, then changes
// only scalars.
void LoadStream::split_pointers(Builder& before) {
  Replay replay(before, outer_ ? std::vector<const Block*>{&outer_->body()} : std::vector<const Block*>(), {});
  for (const Value* arg : growing_) {
    Value* first = init_of(arg);
    if (!arg->type.pointer || !arg->type.is_tile() || !splits(first)) continue;
    Value* step = scalar_of(before, sources_.step(arg));
    if (!step) continue;
    Value* offsets = offsets_of(before, replay, first);
    if (!offsets)
      offsets = before.constant(Type::tile(Elem::I64, first->type.shape).with_layout(first->type.layout), 0);
    split_[arg] = {base_of(first), offsets, step};
  }
}

// Without a loop around, the induction variable of an iteration ahead may be beyond what its type holds. With one it is
// never larger than what the loop itself counts to.
Value* LoadStream::in_width(Builder& build, Value* x) const { return outer_ ? x : wide(build, x); }

LoadStream::Iteration LoadStream::start(Builder& build, Replay& replay, Value* of_an_outer) const {
  Iteration it{0, in_width(build, replay(ForLoop(loop_).lower())), {}, {}, of_an_outer};
  for (const Value* arg : growing_) {
    auto split = split_.find(arg);
    it.carried[arg] = replay(split != split_.end() ? split->second.base : init_of(arg));
  }
  for (const Value* v : of_outer_) it.outer[v] = replay(const_cast<Value*>(v));
  return it;
}

LoadStream::Iteration LoadStream::next(Builder& build, const Iteration& it, Replay& replay) const {
  Iteration next = it;
  ++next.number;
  next.at = build.add(it.at, in_width(build, replay(ForLoop(loop_).step())));
  for (const Value* arg : growing_) {
    auto split = split_.find(arg);
    Value* step = replay(split != split_.end() ? split->second.step : sources_.step(arg));
    next.carried[arg] = build.create(sources_.growth(arg)->opcode, {it.carried.at(arg), step})->result();
  }
  return next;
}

// The iteration itself if it exists, else the first one in the next iteration of the loop around.
LoadStream::Iteration LoadStream::wrapped(Builder& build, const Iteration& it) const {
  Builder before;
  before.set_before(&loop_);
  before.set_loc(loop_.loc);
  Replay in_next_outer(before, {}, outer_->next(), {&outer_->body()}), here = replay(build, it, true);
  Iteration first = start(before, in_next_outer, outer_->next_exists()), out = it;
  Value* wraps = build.ge(it.at, here(ForLoop(loop_).upper()));
  std::vector<Value**> from = parts(first), to = parts(out);
  for (size_t i = 0; i < to.size(); ++i) *to[i] = choose(build, wraps, *from[i], *to[i]);
  return out;
}

std::vector<Value**> LoadStream::parts(Iteration& it) const {
  std::vector<Value**> out;
  for (const Value* v : growing_) out.push_back(&it.carried[v]);
  if (!outer_) return out;
  for (const Value* v : of_outer_) out.push_back(&it.outer[v]);
  out.push_back(&it.at);
  out.push_back(&it.of_an_outer);
  return out;
}

// The induction variable of an iteration. A cast hides the sign, which tells whether `% n` leaves runs of elements
// whole; it is known where there is such an iteration, and no mask holds where there is none.
Value* LoadStream::induction_of(Builder& build, const Iteration& it) const {
  const Type& type = ForLoop(loop_).induction()->type;
  if (it.at->type == type) return it.at;
  Value* at = build.cast(it.at, type.elem);
  if (!never_negative_) return at;
  return build.create(Opcode::Hint, {at}, {}, {{attr::non_negative, true}})->result();
}

Replay LoadStream::replay(Builder& build, const Iteration& it, bool inside) const {
  ValueMap known = it.outer;
  known[ForLoop(loop_).induction()] = induction_of(build, it);
  for (const Value* arg : growing_) {
    Value* value = it.carried.at(arg);
    if (auto split = split_.find(arg); split != split_.end())
      value = build.addptr(splat_as(build, value, arg->type), split->second.offsets);
    known[arg] = value;
  }
  for (const Value* arg : queued_) known[arg] = queued(arg, it, inside);
  if (!outer_) return Replay(build, {&body_}, std::move(known));
  if (inside) return Replay(build, {&body_}, std::move(known), {&outer_->body()});
  return Replay(build, {&body_, &outer_->body()}, std::move(known));
}

void LoadStream::issue(Builder& build, const Iteration& it, Replay& replay, const Access& access) const {
  build.set_loc(loop_.loc);
  const Exists exists = outer_ ? Exists{build.bit_and(build.lt(it.at, replay(upper_)), it.of_an_outer), it.of_an_outer}
                               : Exists{within_loop(build, loop_, it.at)};
  for (Op* load : loads_) {
    build.set_loc(load->loc);
    access(build, *load, replay, exists);
  }
}

void LoadStream::begin(Builder& build, const Access& access, const std::function<void(int)>& behind) {
  split_pointers(build);
  if (outer_) lengthen_iterations();
  Replay at_start = outer_ ? Replay(build, {&outer_->body()}, outer_->first()) : Replay(build, {}, {});
  Iteration it = start(build, at_start, outer_ ? outer_->first_exists() : nullptr);
  for (int i = 0; i < ahead_; ++i) {
    Replay values = replay(build, it, false);
    issue(build, it, values, access);
    behind(i);
    it = next(build, it, values);
  }
  if (!outer_) coming_ = std::move(it);
}

// The first iteration whose loads the previous iteration of the loop around has not issued.
LoadStream::Iteration LoadStream::coming_in_outer() const {
  Builder before;
  before.set_before(&loop_);
  before.set_loc(loop_.loc);
  Replay same(before, {}, {});
  Iteration it = start(before, same, before.constant(Type::scalar(Elem::I1), 1));
  for (int i = 0; i < ahead_; ++i) {
    Replay values = replay(before, it, true);
    it = next(before, it, values);
  }
  return it;
}

void LoadStream::go_on(Builder& build, const Access& access) {
  Iteration it = outer_ ? coming_in_outer() : coming_;
  for (Value** part : parts(it)) *part = carry(loop_, *part);
  if (outer_) {
    it = wrapped(build, it);
  } else {
    Value* distance = build.constant(it.at->type, ahead_);
    const ForLoop loop(loop_);
    Value* ahead = build.mul(wide(build, loop.step()), distance);
    it.at = build.add(wide(build, loop.induction()), ahead);
  }
  Replay values = replay(build, it, true);
  issue(build, it, values, access);
  Iteration following = next(build, it, values);
  for (Value** part : parts(following)) body_.terminator()->operands.push_back(*part);
}

}  // namespace tegula
