// Keeps what loops take from outside in shared memory, where registers are short.
//
//   w = load(p); for ...: y = x * cast(w)     ->     w = load(p); thread_store w, place
//                                                    for ...: y = x * cast(thread_read place)
//
// A tile that was loaded once for all iterations takes registers all the time. If it were loaded anew in each one, it
// would take as much of the caches' bandwidth as the loop's own data. So each thread stores its part of the tile before
// the loop and reads it back where the loop uses it: no thread waits for another.
//
// Tiles are kept so, the largest first, while more registers are live than a thread may have, and while shared memory
// has room for as many programs as registers do. Where all of them together would free far fewer registers than are
// missing, none is kept: the accesses would only take more. Programs with products are left as they are: their operands
// want the shared memory, and their registers are not known so well.
#include <algorithm>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/own_copies.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int kThreadsPerWarp = 32;
constexpr int64_t kLeastRegisters = 4;  // of a thread, that a tile frees
constexpr double kLeastShare = 0.5;     // of the missing registers, that all tiles of a loop free

class Keeper {
 public:
  Keeper(Func& func, const Target& target) : func_(func), target_(target) {}

  void run() {
    std::vector<Op*> loops;
    bool has_products = false;
    walk(func_.body, [&](Op& op) {
      has_products |= is_product(op);
      if (op.opcode == Opcode::For && op.parent == &func_.body) loops.push_back(&op);
    });
    if (has_products) return;
    for (Op* loop : loops) {
      const std::vector<Value*> tiles = invariant_tiles(*loop);
      if (tiles.empty()) continue;
      int64_t freed = 0;
      for (const Value* tile : tiles) freed += words(tile->type);
      int64_t missing = missing_registers();
      if (double(freed) < kLeastShare * double(missing)) continue;
      for (Value* tile : tiles) {
        if (missing <= 0) return;
        if (!has_room(tile->type)) continue;
        keep(*tile, *loop);
        missing = missing_registers();
      }
    }
  }

 private:
  // Tiles loaded before the loop that only the loop uses, those with the most registers first.
  std::vector<Value*> invariant_tiles(Op& loop) const {
    std::unordered_set<const Value*> inside;
    std::vector<Value*> found;
    walk(*loop.regions[0], [&](Op& op) {
      for (Value* v : op.operands)
        if (v && may_keep(*v) && inside.insert(v).second) found.push_back(v);
    });
    bool behind = false;
    for (const auto& op : func_.body.ops) {
      auto erase_used = [&](const Op& user) {
        for (const Value* v : user.operands) std::erase(found, v);
      };
      if (op.get() == &loop) {
        erase_used(*op);
        behind = true;
      } else if (behind) {
        erase_used(*op);
        for (const auto& region : op->regions) walk(*region, erase_used);
      }
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const Value* a, const Value* b) { return words(a->type) > words(b->type); });
    return found;
  }

  bool may_keep(const Value& v) const {
    if (!v.def || v.def->opcode != Opcode::Load || v.def->parent != &func_.body) return false;
    return v.type.is_tile() && !v.type.pointer && !v.type.is_bool() && words(v.type) >= kLeastRegisters;
  }
  // Registers of 32 bits.
  static int64_t words(const Type& type) { return held_elements(type) * std::max(8, type.bits()) / 32; }

  // The number of live registers a thread beyond the limit.
  int64_t missing_registers() const {
    const AxisAnalysis axis(func_);
    const CostInputs inputs;
    const LaunchValues values(func_, axis, inputs);
    return RegisterPressure(func_, axis, values).peak().words - register_limit(func_, target_);
  }

  Type place_of(const Type& tile) const { return place_of_threads(tile, func_.num_warps()); }

  // Whether with that tile in shared memory too, as many programs run at a time as registers allow.
  bool has_room(const Type& tile) const {
    const int64_t bytes = plan_shared(func_).bytes + place_bytes(place_of(tile));
    if (bytes > target_.shared_per_program) return false;
    const int64_t threads = kThreadsPerWarp * func_.num_warps();
    const int64_t programs = std::min<int64_t>(target_.programs_of(func_.num_warps()),
                                               target_.registers_per_sm / (threads * register_limit(func_, target_)));
    return programs_by_room(func_, target_, bytes) >= programs;
  }

  void keep(Value& tile, Op& loop) {
    Builder here = before(loop, tile.def->loc);
    Value* place = here.create(Opcode::SharedAlloc, {}, {place_of(tile.type)}, {{attr::slots, int64_t(1)}})->result();
    here.create(Opcode::ThreadStore, {&tile, place});
    take_back(*loop.regions[0], tile, place);
  }

  // Reads the place before the first use in the block, and in the regions of its ops.
  void take_back(Block& block, Value& tile, Value* place) {
    Value* read = nullptr;
    for (auto& op : block.ops) {
      if (!read && std::find(op->operands.begin(), op->operands.end(), &tile) != op->operands.end())
        read = before(*op).create(Opcode::ThreadRead, {place}, {tile.type})->result();
      if (read)
        for (Value*& v : op->operands)
          if (v == &tile) v = read;
      if (!op->info().isolates())
        for (auto& region : op->regions) take_back(*region, tile, place);
    }
  }

  Func& func_;
  const Target& target_;
};

}  // namespace

void passes::keep_in_shared(Func& func, PassContext& context) { Keeper(func, context.target).run(); }

}  // namespace tegula
