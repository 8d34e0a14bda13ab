#include "codegen/pipeline/copied_loads.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/layout/makers.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kByte = 8;

// Copies move whole accesses or none, and fill with zeros.
bool is_copyable(const Op& load, const AxisAnalysis& axes) {
  const Type& type = load.result()->type;
  if (is_small_load(load) || type.pointer || type.is_bool() || type.rank() < 2 || type.bits() < kByte) return false;
  for (const auto& [name, value] : load.attrs)
    if (name != std::string(attr::vector)) return false;
  return load.get(attr::vector) * type.bits() / kByte >= kLeastCopyBytes && has_whole_accesses(load, axes);
}

}  // namespace

std::vector<Op*> CopiedLoads::copyable(const Func& func, const Target& target, const std::vector<Op*>& loads) {
  if (!target.has(Feature::CpAsync) || func.num_ctas() > 1) return {};
  const AxisAnalysis axes(func);
  std::vector<Op*> copyable;
  std::ranges::copy_if(loads, std::back_inserter(copyable), [&](const Op* load) { return is_copyable(*load, axes); });
  return copyable;
}

CopiedLoads::CopiedLoads(Op& loop, const std::vector<Op*>& loads) {
  for (Op* load : loads) replace(loop, *load);
}

void CopiedLoads::replace(Op& loop, Op& load) {
  const Type& type = load.result()->type;
  Builder outside = before(loop, load.loc), here = before(load, load.loc);
  Value* place = alloc_place(outside, type, 1, fastest_order(*type.layout)[0]);
  place->type.layout = std::make_shared<LinearLayout>(shared_layout_for_dot_operand(*type.layout, type.bits()));
  copies_.push_back(here.create(Opcode::AsyncCopy, {load.operand(0), place, load.operand(1)}, {},
                                {{attr::vector, load.get(attr::vector)}}));
  Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
  here.create(Opcode::AsyncWait, {token});
  reads_.push_back(here.create(Opcode::SharedRead, {place}, {type}));
  replace_uses(*loop.regions[0], load.result(), reads_.back()->result());
  loads_.push_back(take(load));
}

bool CopiedLoads::replaced(const Op* load) const {
  return std::any_of(loads_.begin(), loads_.end(), [&](const auto& taken) { return taken.get() == load; });
}

void CopiedLoads::keep() {
  for (Op* read : reads_) {
    Value* whole = read->result();
    std::vector<Op*> users;
    walk(*read->parent, [&](Op& op) {
      if (std::find(op.operands.begin(), op.operands.end(), whole) != op.operands.end()) users.push_back(&op);
    });
    const bool converts = !users.empty() && std::all_of(users.begin(), users.end(), [&](const Op* user) {
      return user->opcode == Opcode::ConvertLayout && user->result()->type == users[0]->result()->type;
    });
    if (!converts) continue;
    whole->type = users[0]->result()->type;
    for (Op* user : users) {
      replace_uses(*read->parent, user->result(), whole);
      erase(*user);
    }
  }
}

void CopiedLoads::undo() {
  for (size_t i = 0; i < loads_.size(); ++i) {
    Op *read = reads_[i], *alloc = copies_[i]->operand(1)->def;
    Op& block = *read->parent->parent;
    Op* load = before(*read).insert(std::move(loads_[i]));
    replace_uses(*block.regions[0], read->result(), load->result());
    erase(*read);
    take_copy(*copies_[i]);
    erase(*alloc);
  }
  copies_.clear(), reads_.clear(), loads_.clear();
}

}  // namespace tegula
