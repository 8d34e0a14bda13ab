#include "codegen/pipeline/early_copies.h"

#include <algorithm>
#include <functional>
#include <unordered_set>
#include <vector>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/usual_distance.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kPrograms = 4;  // of those that could run at a time, so many still do

class EarlyCopies {
 public:
  EarlyCopies(Func& func, const Target& target, const std::vector<Op*>& without_room)
      : func_(func),
        target_(target),
        without_room_(without_room.begin(), without_room.end()),
        axes_(func),
        written_(written_by(func)),
        least_programs_(std::min(programs_by_room(func, target, bytes_of_places(func)), kPrograms)) {}

  bool run() {
    if (!target_.has(Feature::CpAsync)) return false;
    std::vector<Op*> loads;  // in their order, as the first ones are waited for first
    find(func_.body, false, loads);
    bool changed = false;
    for (Op* load : loads) changed |= copy(*load);
    return changed;
  }

 private:
  void find(Block& block, bool is_pipelined, std::vector<Op*>& loads) {
    for (auto& op : block.ops) {
      const bool is_candidate = !is_pipelined || without_room_.contains(op.get());
      if (is_candidate && op->opcode == Opcode::Load && store_of(*op)) loads.push_back(op.get());
      if (op->info().isolates()) continue;
      const bool pipelines = is_pipelined || (op->opcode == Opcode::For && stages_of(*op, func_) > 1);
      for (auto& region : op->regions) find(*region, pipelines, loads);
    }
  }

  // The store to a place that a copy can take the place of; null if there is none.
  Op* store_of(const Op& load) const {
    if (!is_copyable(load, func_, axes_) || !no_alias(load.operand(0), written_)) return nullptr;
    Op* store = nullptr;
    for (auto& op : load.parent->ops)
      if (op->opcode == Opcode::SharedStore && op->operand(0) == load.result()) {
        if (store) return nullptr;
        store = op.get();
      }
    if (!store) return nullptr;
    const Op& alloc = *store->operand(1)->def;
    if (alloc.opcode != Opcode::SharedAlloc) return nullptr;
    if (is_used_within(alloc.result(), *load.parent)) return nullptr;
    const int64_t wanted = alloc.get(attr::contiguous);
    return wanted < 0 || wanted == contiguous_axis(load, axes_) ? store : nullptr;
  }

  // Whether a loop or a branch of the block uses the place: the loop's own warps for copies may bring it (partition).
  static bool is_used_within(const Value* place, const Block& block) {
    return std::ranges::any_of(block.ops, [&](const auto& op) { return !op->regions.empty() && uses(*op, place); });
  }

  // The ops of the load's block that take what it loads, or whose regions do.
  static std::vector<Op*> users_of(const Op& load) {
    std::vector<Op*> users;
    for (auto& op : load.parent->ops)
      if (uses(*op, load.result())) users.push_back(op.get());
    return users;
  }

  bool copy(Op& load) {
    Op& store = *store_of(load);
    const std::vector<Op*> users = users_of(load);
    Op& alloc = *store.operand(1)->def;
    Op& next = behind_it(alloc);
    const int64_t slots = alloc.get(attr::slots);
    alloc.set(attr::slots, 1);
    std::vector<Op*> reads;
    for (Op* user : users)
      if (user != &store) {
        Builder here = before(*user, load.loc);
        reads.push_back(here.create(Opcode::SharedRead, {alloc.result()}, {load.result()->type}));
      }
    const std::unordered_set<Op*> computed = pure_sources(load);
    Op& early = early_point(load, computed);
    move_before(alloc, early);
    if (has_room()) {
      move_to(load, computed, early);
    } else {
      move_before(alloc, load);
      if (!has_room()) {
        for (Op* read : reads) erase(*read);
        alloc.set(attr::slots, slots);
        move_before(alloc, next);
        return false;
      }
    }
    replace(load, store, users, reads);
    return true;
  }

  // The load becomes a copy; each of `users` but the store has its read.
  void replace(Op& load, Op& store, const std::vector<Op*>& users, const std::vector<Op*>& reads) {
    Op& alloc = *store.operand(1)->def;
    Builder here = before(load, load.loc);
    here.create(Opcode::AsyncCopy, {load.operand(0), alloc.result(), load.operand(1)});
    Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    Op* wait_at = wait_point(load, *users[0]);
    if (wait_at == users[0] && users[0] != &store) wait_at = reads[0];
    before(*wait_at, load.loc).create(Opcode::AsyncWait, {token});
    auto read = reads.begin();
    for (Op* user : users) {
      if (user == &store) continue;
      Value* value = (*read++)->result();
      std::replace(user->operands.begin(), user->operands.end(), load.result(), value);
      for (auto& region : user->regions) replace_uses(*region, load.result(), value);
    }
    alloc.set(attr::contiguous, int64_t(contiguous_axis(load, axes_)));
    erase(store);
    erase(load);
  }

  // Where the copy must be over: at its first use, or where memory is ordered before that.
  static Op* wait_point(const Op& load, Op& first_user) {
    bool behind = false;
    for (auto& op : load.parent->ops) {
      if (op.get() == &first_user) break;
      if (behind && orders_memory(*op)) return op.get();
      behind |= op.get() == &load;
    }
    return &first_user;
  }

  static bool orders_memory(const Op& op) {
    std::vector<const Value*> written;
    return tegula::orders_memory(op, written);
  }

  // The pure ops of the load's block that its operands follow from.
  static std::unordered_set<Op*> pure_sources(const Op& load) {
    std::unordered_set<Op*> sources;
    std::function<void(const Op&)> visit = [&](const Op& op) {
      for (const Value* v : op.operands) {
        Op* from = v ? v->def : nullptr;
        if (from && from->parent == load.parent && from->has(Pure) && from->regions.empty() &&
            sources.insert(from).second)
          visit(*from);
      }
    };
    visit(load);
    return sources;
  }

  // Before which op the copy may stand at the earliest, behind earlier copies, if `computed` come with it. Not ahead of
  // a loop, whose own copies have the room.
  static Op& early_point(Op& load, const std::unordered_set<Op*>& computed) {
    std::unordered_set<const Op*> needed;
    auto need = [&](const Op& op) {
      for (const Value* v : op.operands)
        if (v && v->def && !computed.contains(v->def)) needed.insert(v->def);
    };
    need(load);
    for (const Op* op : computed) need(*op);
    Op* point = nullptr;
    for (auto& op : load.parent->ops) {
      if (op.get() == &load) break;
      const bool is_copy = op->opcode == Opcode::AsyncCopy || op->opcode == Opcode::AsyncCommit;
      const bool is_loop = op->opcode == Opcode::For || op->opcode == Opcode::While;
      if (is_copy || is_loop || needed.contains(op.get()) || orders_memory(*op))
        point = nullptr;
      else if (!point && !op->has(Pure))
        point = op.get();
    }
    return point ? *point : load;
  }

  static void move_to(Op& load, const std::unordered_set<Op*>& computed, Op& point) {
    if (&point == &load) return;
    std::vector<Op*> later;
    bool behind = false;
    for (auto& op : load.parent->ops) {
      behind |= op.get() == &point;
      if (behind && computed.contains(op.get())) later.push_back(op.get());
      if (op.get() == &load) break;
    }
    later.push_back(&load);
    for (Op* op : later) move_before(*op, point);
  }

  static Op& behind_it(Op& op) {
    auto& ops = op.parent->ops;
    return **std::next(std::ranges::find_if(ops, [&](auto& other) { return other.get() == &op; }));
  }

  bool has_room() const {
    const int64_t bytes = bytes_of_places(func_);
    return bytes <= target_.shared_per_program && programs_by_room(func_, target_, bytes) >= least_programs_;
  }

  Func& func_;
  const Target& target_;
  const std::unordered_set<const Op*> without_room_;
  const AxisAnalysis axes_;
  const std::vector<const Value*> written_;
  const int64_t least_programs_;
};

}  // namespace

bool is_copyable(const Op& load, const Func& func, const AxisAnalysis& axes) {
  const Value *ptr = load.operand(0), *mask = load.operand(1), *other = load.operand(2);
  const Type& type = load.result()->type;
  if (type.rank() < 2 || type.is_bool() || type.pointer || (other && !is_zero(other))) return false;
  int64_t width = 1;
  for (int axis = 0; axis < type.rank(); ++axis) width = std::max<int64_t>(width, axes.vector_width(ptr, mask, axis));
  width = std::min(width, type.num_elements() / (kThreadsPerWarp * func.num_warps()));
  return width * elem_bytes(type.elem) >= kLeastCopyBytes;
}

int contiguous_axis(const Op& load, const AxisAnalysis& axes) {
  return fastest_axes(axes.info(load.operand(0)), UsualDistances(axes).of(load.operand(0)))[0];
}

bool copy_early(Func& func, const Target& target, const std::vector<Op*>& without_room) {
  return EarlyCopies(func, target, without_room).run();
}

}  // namespace tegula
