#include "codegen/passes/part_loops.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "codegen/passes/index_parts.h"

namespace tegula {

using namespace ir;

namespace {

void walk_op(const Op& op, const std::function<void(const Op&)>& visit) {
  visit(op);
  for (const auto& region : op.regions) walk(std::as_const(*region), visit);
}

bool writes_arrays(const Op& op) {
  bool writes = false;
  walk_op(op, [&](const Op& inner) { writes |= inner.has(WritesGlobal); });
  return writes;
}

Value* zero(Builder& build, const Type& type) {
  return type.is_float() ? build.constant_float(type, 0) : build.constant(type, 0);
}

}  // namespace

PartLoops::PartLoops(Func& func, DividedTiles divided) : func_(func), divided_(std::move(divided)), block_(&func.body) {
  find_block();
  for (const auto& op : block_->ops)
    if (!op->has(Terminator)) place(*op);
  for (auto& [op, loop] : loop_of_)
    if (writes_arrays(*op)) loop = inside_.contains(op) ? last_ : last_ + 1;
}

bool PartLoops::is_divided(const Op& op) const {
  bool divided = false;
  walk_op(op, [&](const Op& inner) {
    for (const Value* v : inner.operands) divided |= divided_.contains(v);
    for (const auto& v : inner.results) divided |= divided_.contains(v.get());
  });
  return divided;
}

// The function's body, or the branch in which all tiles are that are divided.
void PartLoops::find_block() {
  for (;;) {
    std::vector<const Op*> ops;
    for (const auto& op : block_->ops)
      if (is_divided(*op)) ops.push_back(op.get());
    if (ops.size() != 1 || ops[0]->opcode != Opcode::If || !ops[0]->results.empty()) return;
    std::vector<Block*> branches;
    for (const auto& region : ops[0]->regions)
      if (std::any_of(region->ops.begin(), region->ops.end(), [&](const auto& op) { return is_divided(*op); }))
        branches.push_back(region.get());
    if (branches.size() != 1) return;
    block_ = branches[0];
  }
}

void PartLoops::place(const Op& op) {
  bool inside = is_divided(op);
  int loop = 0;
  walk_op(op, [&](const Op& inner) {
    for (const Value* v : inner.operands) {
      const auto made = v ? loop_of_.find(v->def) : loop_of_.end();
      if (made == loop_of_.end()) continue;
      loop = std::max(loop, made->second + is_sum(v->def));
      inside |= inside_.contains(v->def) && !is_sum(v->def);
    }
  });
  loop_of_[&op] = loop;
  if (!inside) return;
  inside_.insert(&op);
  last_ = std::max(last_, loop);
  if (op.opcode != Opcode::Reduce) return;
  const auto divided = divided_.find(op.operands[0]);
  if (divided != divided_.end() && divided->second == op.get(attr::axis)) sums_.insert(&op);
}

// Whether an op may run later than it stands, and again for each sum where it is inside a loop.
bool PartLoops::can_be_moved(const Op& op, bool has_uses) const {
  const bool writes = writes_arrays(op);
  if (writes && has_uses) return false;
  if (!inside_.contains(&op)) return true;
  if (op.has(Control) || (writes && !is_divided(op))) return false;
  return op.opcode != Opcode::Load || (op.get(attr::cache) != ".cv" && !op.get(attr::by_owners));
}

bool PartLoops::can_add_up() const {
  const auto uses = count_uses(func_.body);
  const auto is_used = [&](const auto& result) { return uses.contains(result.get()); };
  const auto works_on_tiles = [](const auto& op) {
    return op->has(Elementwise) || op->opcode == Opcode::Constant || op->has(Terminator);
  };
  const auto can_be_added = [&](const Op* sum) {
    const auto& combine = sum->regions[0]->ops;
    return std::all_of(combine.begin(), combine.end(), works_on_tiles) &&
           std::none_of(sum->results.begin(), sum->results.end(), [](const auto& v) { return v->type.pointer; });
  };
  return !sums_.empty() && std::all_of(sums_.begin(), sums_.end(), can_be_added) &&
         std::all_of(loop_of_.begin(), loop_of_.end(), [&](const auto& placed) {
           const auto& results = placed.first->results;
           return can_be_moved(*placed.first, std::any_of(results.begin(), results.end(), is_used));
         });
}

// What several loops compute must be the same number in each of them. A product that one loop makes part of an fma is
// rounded in another, which uses it otherwise.
void PartLoops::keep_products_rounded() {
  std::unordered_map<const Op*, int> loops;
  for (int number = 0; number <= last_; ++number)
    for (const Op* op : needed_for(number)) loops[op] += !is_sum(op);
  bool multiplies = false, adds = false;
  for (const auto& [op, count] : loops) {
    if (count < 2) continue;
    walk_op(*op, [&](const Op& inner) {
      if (inner.results.empty() || !inner.result()->type.is_float()) return;
      multiplies |= inner.opcode == Opcode::Mul;
      adds |= inner.opcode == Opcode::Add || inner.opcode == Opcode::Sub;
    });
  }
  if (multiplies && adds) func_.attrs["fp_fusion"] = false;
}

void PartLoops::write(int64_t parts, int64_t extent) {
  keep_products_rounded();
  for (const auto& [value, axis] : divided_) const_cast<Value*>(value)->type.shape[size_t(axis)] /= parts;
  for (int number = 0; number <= last_; ++number) {
    write_loop(number, parts, extent);
    move_behind(number);
  }
  block_->ops.remove_if([&](const auto& op) { return is_sum(op.get()); });
}

// All ops that a loop computes, of which those ahead of the last one compute sums alone.
std::unordered_set<const Op*> PartLoops::needed_for(int number) const {
  std::unordered_set<const Op*> needed;
  for (auto at = block_->ops.rbegin(); at != block_->ops.rend(); ++at) {
    const Op* op = at->get();
    if (!inside_.contains(op)) continue;
    const bool wanted = is_sum(op) ? loop_of_.at(op) == number : number == last_;
    if (!wanted && !needed.contains(op)) continue;
    needed.insert(op);
    if (number == last_) continue;
    for (const Value* v : op->operands)
      if (v && inside_.contains(v->def) && !is_sum(v->def)) needed.insert(v->def);
  }
  return needed;
}

void PartLoops::write_loop(int number, int64_t parts, int64_t extent) {
  Builder build;
  build.set_before(block_->terminator());
  for (const auto& op : block_->ops)
    if (inside_.contains(op.get())) {
      build.set_loc(op->loc);
      break;
    }
  const auto count = [&](int64_t value) { return build.constant(Type::scalar(Elem::I32), value); };
  std::vector<Value*> operands = {count(0), count(extent), count(extent / parts)}, sums;
  std::vector<Type> types;
  for (const auto& op : block_->ops)
    if (is_sum(op.get()) && loop_of_.at(op.get()) == number)
      for (const auto& result : op->results) sums.push_back(result.get());
  for (const Value* sum : sums) {
    types.push_back(sum->type);
    operands.push_back(zero(build, sum->type));
  }
  Op* loop = build.create(Opcode::For, operands, types, {{attr::num_stages, int64_t(1)}});
  Block* region = loop->regions[0].get();
  region->add_arg(Type::scalar(Elem::I32));
  for (const Type& type : types) region->add_arg(type);
  Builder body(region);
  body.set_loc(loop->loc);
  body.create(Opcode::Yield, fill(number, *loop, body));
  number_parts(*loop);
  ValueMap added;
  for (size_t i = 0; i < sums.size(); ++i) added[sums[i]] = loop->result(int(i));
  replace_uses(func_.body, added);
}

// Copies what a loop computes into it, or moves it into the last one; the sums that it has with this part.
std::vector<Value*> PartLoops::fill(int number, Op& loop, Builder& body) {
  const auto needed = needed_for(number);
  Block* region = loop.regions[0].get();
  ValueMap copies;
  std::vector<const Op*> sums;
  std::vector<Value*> parts;
  for (auto next = block_->ops.begin(); next != block_->ops.end();) {
    const auto at = next++;
    if (!needed.contains(at->get())) continue;
    if (number == last_ && !is_sum(at->get())) {
      (*at)->parent = region;
      region->ops.splice(region->ops.end(), block_->ops, at);
      continue;
    }
    const Op* copy = body.insert(clone_op(**at, copies));
    if (!is_sum(at->get())) continue;
    sums.push_back(at->get());
    for (const auto& result : copy->results) parts.push_back(result.get());
  }
  for (const auto& [value, copy] : copies)
    if (const auto divided = divided_.find(value); divided != divided_.end()) divided_[copy] = int(divided->second);

  Value* number_of_part = region->args[0].get();
  Value* is_first = parts.empty() ? nullptr : body.eq(number_of_part, body.constant(number_of_part->type, 0));
  std::vector<Value*> next;
  for (const Op* sum : sums) {
    const size_t count = sum->results.size(), first = next.size();
    std::vector<Value*> both;
    for (size_t i = 0; i < count; ++i) both.push_back(region->args[1 + first + i].get());
    both.insert(both.end(), parts.begin() + ptrdiff_t(first), parts.begin() + ptrdiff_t(first + count));
    const std::vector<Value*> added = add(body, *sum, both);
    for (size_t i = 0; i < count; ++i) {
      Value* part = parts[first + i];
      Value* here = part->type.is_tile() ? body.splat(is_first, part->type.shape) : is_first;
      next.push_back(body.select(here, part, added[i]));
    }
  }
  return next;
}

// The ops that combine two groups of elements, here on tiles of them.
std::vector<Value*> PartLoops::add(Builder& body, const Op& sum, const std::vector<Value*>& both) const {
  const Block& combine = *sum.regions[0];
  ValueMap map;
  for (size_t i = 0; i < both.size(); ++i) map[combine.args[i].get()] = both[i];
  std::vector<Value*> added;
  for (const auto& op : combine.ops) {
    if (op->has(Terminator)) {
      for (const Value* v : op->operands) {
        const auto found = map.find(v);
        added.push_back(found->second);
      }
      continue;
    }
    const Op* copy = body.insert(clone_op(*op, map));
    for (const auto& result : copy->results) result->type.shape = both[0]->type.shape;
  }
  return added;
}

// Ranges begin at the part's first number.
void PartLoops::number_parts(Op& loop) {
  Value* first = loop.regions[0]->args[0].get();
  std::vector<Op*> ops;
  walk(*loop.regions[0], [&](Op& op) { ops.push_back(&op); });
  for (Op* op : ops) {
    const auto divided = op->results.empty() ? divided_.end() : divided_.find(op->result());
    if (divided == divided_.end()) continue;
    if (op->opcode == Opcode::Arange) begin_range(func_, *op, [&](Builder&) { return first; });
    if (op->opcode == Opcode::Hint) weaken_hint(*op, size_t(divided->second));
  }
}

// What follows from a loop's sums, ahead of the next loop.
void PartLoops::move_behind(int number) {
  std::vector<std::list<std::unique_ptr<Op>>::iterator> moved;
  for (auto at = block_->ops.begin(); at != block_->ops.end(); ++at) {
    const auto loop = loop_of_.find(at->get());
    if (loop != loop_of_.end() && loop->second == number + 1 && !inside_.contains(at->get())) moved.push_back(at);
  }
  for (const auto& at : moved) block_->ops.splice(std::prev(block_->ops.end()), block_->ops, at);
}

}  // namespace tegula
