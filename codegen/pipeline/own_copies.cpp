#include "codegen/pipeline/own_copies.h"

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/makers.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_stages.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kBytesOfCopy = 16;

// Whether threads copy whole vectors, and none of them an element twice.
bool is_copied_whole(const Op& load, const AxisAnalysis& axis) {
  const Type& type = load.result()->type;
  if (!type.is_tile() || type.pointer || type.is_bool() || load.get(attr::volatile_)) return false;
  const int64_t vector = load.get(attr::vector);
  if (vector * type.bits() < 8 * kBytesOfCopy || load.get(attr::alignment_promised)) return false;
  if (held_elements(type) != loaded_elements(load) || held_elements(type) != type.layout->in_size(Dim::Register))
    return false;
  return has_whole_accesses(load, axis);
}

// What the loop takes of tiles that were loaded before it, which registers or shared memory keep.
int64_t bytes_kept(const Op& loop, int num_warps) {
  std::unordered_set<const Value*> kept;
  walk(*loop.regions[0], [&](const Op& op) {
    for (const Value* v : op.operands)
      if (v && v->def && v->def->opcode == Opcode::Load && v->def->parent == loop.parent && v->type.is_tile())
        kept.insert(v);
  });
  int64_t bytes = 0;
  for (const Value* v : kept) bytes += place_bytes(place_of_threads(v->type, num_warps));
  return bytes;
}

}  // namespace

Type place_of_threads(const Type& tile, int num_warps) {
  const int64_t elements = tile.layout->in_size(Dim::Register) * kThreadsPerWarp * num_warps;
  const LinearLayout in_line = swizzled_shared_layout({elements}, {0}, 1, 1, 1);
  return Type::place(tile.elem, {elements}).with_layout(std::make_shared<LinearLayout>(in_line));
}

bool may_be_own_copies(const Func& func, const Target& target, const Op& loop, const std::vector<Op*>& loads,
                       int64_t ahead) {
  if (!target.has(Feature::CpAsync)) return false;
  const AxisAnalysis axis(func);
  int64_t bytes = plan_shared(func).bytes + bytes_kept(loop, func.num_warps());
  for (const Op* load : loads) {
    if (!is_copied_whole(*load, axis)) return false;
    bytes += (ahead + 1) * place_bytes(place_of_threads(load->result()->type, func.num_warps()));
  }
  if (bytes > target.shared_per_program) return false;
  const int64_t threads = kThreadsPerWarp * func.num_warps();
  const int64_t programs = target.registers_per_sm / (threads * register_limit(func, target));
  return programs_by_room(func, target, bytes) >= std::min(programs, target.programs_of(func.num_warps()));
}

void make_own_copies(Op& loop, const Func& func, const std::vector<Op*>& loads) {
  for (Op* load : loads) {
    const Type& type = load->result()->type;
    Builder outside = before(loop, load->loc), here = before(*load, load->loc);
    const Type to = place_of_threads(type, func.num_warps());
    Value* place = outside.create(Opcode::SharedAlloc, {}, {to}, {{attr::slots, int64_t(1)}})->result();
    Attrs attrs{{attr::own, true}, {attr::vector, load->get(attr::vector)}};
    here.create(Opcode::AsyncCopy, {load->operand(0), place, load->operand(1)}, {}, std::move(attrs));
    Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    here.create(Opcode::AsyncWait, {token});
    Value* read = here.create(Opcode::ThreadRead, {place}, {type})->result();
    replace_uses(*loop.regions[0], load->result(), read);
    erase(*load);
  }
}

}  // namespace tegula
