#include "codegen/analysis/global_order.h"

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "codegen/analysis/iterations_apart.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/repeated_addresses.h"
#include "codegen/ir/flow.h"

namespace tegula {

using namespace ir;

namespace {

using Access = GlobalAccesses::Access;

const Value* mask_of(const Op& op) {
  return op.opcode == Opcode::Load ? op.operand(1) : op.opcode == Opcode::Store ? op.operand(2) : nullptr;
}

std::optional<Access> access_of(const Op& op) {
  switch (op.opcode) {
    case Opcode::Load:
    case Opcode::AsyncCopy:
    case Opcode::BulkCopy:
      return Access{.pointers = op.operand(0)};
    case Opcode::Store:
      return Access{.pointers = op.operand(0), .writes = true};
    case Opcode::AtomicRmw:
      return Access{.pointers = op.operand(0), .writes = true, .atomic = op.get(attr::kind)};
    default:
      return std::nullopt;
  }
}

// Scalars are stored by one thread, always the same one.
bool by_one_thread(const Access& access) { return access.writes && !access.pointers->type.is_tile(); }

// Whether they leave the same in either order.
bool commute(const Access& a, const Access& b) {
  return !a.atomic.empty() && a.atomic == b.atomic && a.atomic != "xchg" && a.atomic != "cas";
}

// One thread does it for the program, and shows other programs what the program has done.
bool releases(const Op& op) {
  if (op.opcode != Opcode::AtomicRmw || op.operand(0)->type.num_elements() > 1) return false;
  const std::string sem = op.get(attr::sem);
  return sem != "relaxed" && sem != "acquire";
}

// What an integer or a pointer is the sum of, less what is taken away again; the value itself if it is no sum. Casts
// are taken to keep numbers.
class Summands {
 public:
  explicit Summands(const Value* value) { add(value, 1); }
  std::vector<const Value*> values() const {
    std::vector<const Value*> values;
    for (const auto& [value, times] : times_) values.push_back(value);
    return values;
  }

 private:
  void add(const Value* value, int64_t times) {
    if (const Op* op = value->def; op && left_-- > 0) switch (op->opcode) {
        case Opcode::Splat:
        case Opcode::Broadcast:
        case Opcode::ExpandDims:
        case Opcode::ConvertLayout:
        case Opcode::Hint:
          return add(op->operand(0), times);
        case Opcode::Cast:
          if (!op->operand(0)->type.is_integer() || op->operand(0)->type.is_bool()) break;
          return add(op->operand(0), times);
        case Opcode::Add:
        case Opcode::Sub:
        case Opcode::AddPtr:
          if (value->type.is_float()) break;
          add(op->operand(0), times);
          return add(op->operand(1), op->opcode == Opcode::Sub ? -times : times);
        default:
          break;
      }
    if ((times_[value] += times) == 0) times_.erase(value);
  }

  std::map<const Value*, int64_t> times_;
  int left_ = 64;  // of the values that are looked into
};

bool is_in(const Op& loop, const Value* value) {
  const Block* block = value->def ? value->def->parent : value->block;
  for (const Op* around = block ? block->parent : nullptr; around; around = around->parent->parent)
    if (around == &loop) return true;
  return false;
}

void remember(const Access& access, GlobalAccesses::Accesses& all) {
  int known = 0;
  const auto alike = [&](const Access& other) {
    return other.group == access.group && other.earlier == access.earlier && other.open == access.open;
  };
  for (auto it = all.lower_bound({.group = access.group, .earlier = access.earlier, .open = access.open});
       it != all.end() && alike(*it); ++it)
    if (++known == 2 || *it == access) return;
  all.insert(access);
}

void remember(const GlobalAccesses::Accesses& some, GlobalAccesses::Accesses& all) {
  for (const Access& access : some) remember(access, all);
}

template <class Change>
void for_each(GlobalAccesses& accesses, const Change& change) {
  for (auto* all : {&accesses.since_barrier, &accesses.copying}) {
    GlobalAccesses::Accesses changed;
    for (Access access : *all) {
      change(access);
      remember(access, changed);
    }
    *all = std::move(changed);
  }
}

}  // namespace

void unite(GlobalAccesses& into, const GlobalAccesses& other) {
  remember(other.since_barrier, into.since_barrier);
  remember(other.copying, into.copying);
}

// Several threads have the same element: all of them load it, one stores it.
bool GlobalOrder::is_replicated(const Type& type) const {
  if (!type.layout || type.layout->free_mask(Dim::Lane) || type.layout->free_mask(Dim::Warp)) return true;
  return blocks_ > 1 && (!type.layout->in_bits(Dim::Block) || type.layout->free_mask(Dim::Block));
}

const Value* GlobalOrder::base_of(const Value* pointers) {
  auto [it, is_new] = bases_.try_emplace(pointers);
  if (is_new) {
    const Op* map = pointers->def && pointers->def->opcode == Opcode::TensorMap ? pointers->def : nullptr;
    it->second = pointer_base(map ? map->operand(0) : pointers);
  }
  return it->second;
}

bool GlobalOrder::is_scattered(const Value* pointers) {
  auto [it, is_new] = scattered_.try_emplace(pointers, false);
  if (!is_new) return it->second;
  std::unordered_set<const Value*> seen;
  std::vector<const Value*> open{pointers};
  while (!open.empty()) {
    const Value* value = open.back();
    open.pop_back();
    if (!value->type.is_tile() || !seen.insert(value).second) continue;
    const std::vector<Value*> from = origins(value);
    open.insert(open.end(), from.begin(), from.end());
    if (!value->def) continue;
    if (value->def->has(ReadsGlobal)) return scattered_[pointers] = true;
    for (const Value* operand : value->def->operands)
      if (operand) open.push_back(operand);
  }
  return false;
}

bool GlobalOrder::repeats(const Value* pointers) {
  auto [it, is_new] = repeats_.try_emplace(pointers, false);
  if (is_new) it->second = may_repeat(pointers);
  return it->second;
}

bool GlobalOrder::conflict(const Access& earlier, const Access& later) {
  if (!(earlier.writes || later.writes) || commute(earlier, later)) return false;
  const bool both_write = earlier.writes && later.writes;
  // Of the same elements a thread accesses its own, or their owner writes them; unless several are one place.
  const bool same = earlier.pointers == later.pointers && (!earlier.earlier || (earlier.apart && later.apart));
  if (same && (both_write || !is_replicated(later.pointers->type)) && !repeats(later.pointers)) return false;
  if (both_write && by_one_thread(earlier) && by_one_thread(later)) return false;
  const Value *a = base_of(earlier.pointers), *b = base_of(later.pointers);
  if (a && b && a != b) return false;
  if (both_write && earlier.open && earlier.atomic.empty() == later.atomic.empty())
    return is_scattered(earlier.pointers) || is_scattered(later.pointers);
  return true;
}

bool GlobalOrder::needs_barrier(const Op& op, const GlobalAccesses& before) {
  std::optional<Access> access = access_of(op);
  if (!access) return false;
  access->apart = has_iterations_apart(op, access->pointers, mask_of(op));
  const bool releasing = releases(op);
  return std::any_of(before.since_barrier.begin(), before.since_barrier.end(), [&](const Access& earlier) {
    return (releasing && !by_one_thread(earlier)) || conflict(earlier, *access);
  });
}

void GlobalOrder::add(const Op& op, GlobalAccesses& accesses) {
  if (op.opcode == Opcode::AsyncWait) remember(accesses.copying, accesses.since_barrier);
  std::optional<Access> access = access_of(op);
  if (!access) return;
  access->apart = has_iterations_apart(op, access->pointers, mask_of(op));
  access->group = group_of(op, *access);
  remember(*access, accesses.since_barrier);
  if (op.opcode != Opcode::Load && !access->writes) remember(*access, accesses.copying);
}

int GlobalOrder::group_of(const Op& op, const Access& access) {
  const Op* innermost = nullptr;
  std::vector<bool> varying;
  for (const Op* around = op.parent->parent; around; around = around->parent->parent) {
    if (around->opcode != Opcode::For && around->opcode != Opcode::While) continue;
    if (!innermost) innermost = around;
    varying.push_back(varies(*around, access.pointers));
    varying.push_back(depends(Differs::Addresses, *around, access.pointers));
  }
  Group group{base_of(access.pointers),      access.writes, access.atomic, access.pointers->type.is_tile(),
              is_scattered(access.pointers), access.apart,  innermost,     std::move(varying)};
  return groups_.try_emplace(std::move(group), int(groups_.size())).first->second;
}

// Whether the value may be another one in each iteration; what follows from values around the loop alone is not.
bool GlobalOrder::varies(const Op& loop, const Value* value) { return depends(Differs::Value, loop, value); }

bool GlobalOrder::depends(Differs how, const Op& loop, const Value* value) {
  if (!is_in(loop, value)) return false;
  const auto key = std::make_tuple(how, &loop, value);
  auto [it, is_new] = depends_.try_emplace(key, true);
  if (!is_new) return it->second;
  const auto any = [&](const auto& values) {
    return std::any_of(values.begin(), values.end(),
                       [&](const Value* from) { return from && depends(how, loop, from); });
  };
  const Op* inner = how != Differs::Value ? for_of(value) : nullptr;
  if (inner && inner != &loop && value == ForLoop(*inner).induction())
    return depends_[key] = any(ForLoop(*inner).bounds());
  if (!value->def || !value->def->has(Pure) || !value->def->regions.empty()) return true;
  if (how == Differs::Addresses)
    if (const std::vector<const Value*> summands = Summands(value).values(); summands != std::vector{value})
      return depends_[key] = any(summands);
  return depends_[key] = any(value->def->operands);
}

bool GlobalOrder::has_iterations_apart(const Op& op, const Value* pointers, const Value* mask) {
  const Op* varying = nullptr;
  for (const Op* around = op.parent->parent; around; around = around->parent->parent) {
    const bool is_loop = around->opcode == Opcode::For || around->opcode == Opcode::While;
    if (!is_loop || !depends(Differs::ValuesOfLoopsWithin, *around, pointers)) continue;
    if (varying || around->opcode == Opcode::While) return false;
    varying = around;
  }
  if (!varying || !pointers->type.is_tile()) return false;
  auto [it, is_new] = apart_.try_emplace({varying, pointers, mask}, false);
  if (is_new)
    it->second =
        iterations_apart(ForLoop(*varying), pointers, mask, [&](const Value* v) { return varies(*varying, v); });
  return it->second;
}

void GlobalOrder::next_iteration(const Op& loop, GlobalAccesses& accesses) {
  for_each(accesses, [&](Access& access) {
    access.earlier |= varies(loop, access.pointers);
    access.open |= depends(Differs::Addresses, loop, access.pointers);
  });
}

void GlobalOrder::leave(const Op& loop, GlobalAccesses& accesses) {
  for_each(accesses, [&](Access& access) {
    access.earlier &= !is_in(loop, access.pointers);
    access.open &= !is_in(loop, access.pointers);
  });
}

}  // namespace tegula
