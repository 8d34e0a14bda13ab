// Stores of products' results become bulk stores, and relaxed atomic operations whose results nobody uses bulk
// reductions:
//
//   store pointers, value, mask        ->     bulk_store value, map, place, coordinates
//   atomic_rmw pointers, value, mask   ->     bulk_store value, map, place, coordinates {kind}
//
// where pointers and mask make a tile of an array (AffineTiles) and warps hold boxes of it (WarpBoxes). No thread
// computes addresses, and no data goes between lanes: a warp puts its registers into shared memory as they lie, and
// goes on while the boxes are on their way. In a persistent program they are under way during the next tile's products.
//
// The array is the function's own as long as it runs: nothing else of it reads or writes there, and it orders memory
// for no other program, as the asynchronous proxy's writes would take a fence for that.
//
// Runs after the loops' pipelines, which take the shared memory that they want. Where that leaves no room for a whole
// tile, threads store: to wait until pieces are read takes longer, as measured.
#include <algorithm>
#include <optional>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/occupancy.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/layout/warp_boxes.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/mapped_tile.h"

namespace tegula {

using namespace ir;

namespace {

// Whether the op, or one within, writes to global memory or orders it; or reads it, if that is asked for.
bool touches_memory(const Op& op, bool reads) {
  bool touches = (op.has(WritesGlobal) && !(op.opcode == Opcode::Barrier && op.get(attr::async_proxy))) ||
                 (reads && op.has(ReadsGlobal)) || (op.has(attr::volatile_) && op.get(attr::volatile_));
  for (const auto& region : op.regions)
    for (const auto& inner : region->ops) touches |= touches_memory(*inner, reads);
  return touches;
}

// The ops of the function that may access global memory, and the arrays that they access.
class GlobalAccesses {
 public:
  explicit GlobalAccesses(const Func& func) {
    walk(func.body, [&](const Op& op) { visit(op); });
  }

  // Whether only the store itself accesses its array.
  bool has_alone(const Op& store) const {
    const Value* base = pointer_base(store.operand(0));
    const bool ordered =
        unknown_ || std::any_of(ordering_.begin(), ordering_.end(), [&](const Op* op) { return op != &store; });
    return base && !ordered && std::count(bases_.begin(), bases_.end(), nullptr) == 0 &&
           std::count(bases_.begin(), bases_.end(), base) == 1;
  }

 private:
  void visit(const Op& op) {
    switch (op.opcode) {
      case Opcode::AtomicRmw:
        if (op.get(attr::sem) != "relaxed") ordering_.push_back(&op);
        break;
      case Opcode::Barrier:  // the pipeline's own have async_proxy
        unknown_ |= !op.get(attr::async_proxy);
        return;
      case Opcode::BulkCopy:
        return add(op.operand(0)->def->operand(0));
      case Opcode::BulkStore:
        return add(op.operand(1)->def->operand(0));
      case Opcode::CopyWarps:
        return;
      case Opcode::Load:
      case Opcode::Store:
      case Opcode::AsyncCopy:
        break;
      default:
        unknown_ |= op.has(ReadsGlobal) || op.has(WritesGlobal);
        return;
    }
    unknown_ |= op.has(attr::volatile_) && op.get(attr::volatile_);
    add(op.operand(0));
  }
  void add(const Value* pointer) { bases_.push_back(pointer_base(pointer)); }

  std::vector<const Value*> bases_;
  std::vector<const Op*> ordering_;
  bool unknown_ = false;
};

// Whether an atomic operation has nothing to order: the program writes nothing else, and reads nothing after it. (The
// reads of warps that copy are ahead of it.)
bool orders_nothing(const Op& atomic, const Func& func) {
  bool orders = atomic.parent != &func.body, behind = false;
  for (const auto& op : func.body.ops) {
    if (op.get() == &atomic)
      behind = true;
    else if (op->opcode != Opcode::CopyWarps)
      orders |= touches_memory(*op, behind);
  }
  return !orders;
}

// The op of the innermost loop's body that the given one is or stands in; null: no loop is around.
const Op* step_of_loop(const Op& op) {
  for (const Op* step = &op; const Op* around = step->parent->parent; step = around)
    if (around->opcode == Opcode::For || around->opcode == Opcode::While) return step;
  return nullptr;
}

// Whether iterations of the loop around the store multiply, and load tiles of the kind that it stores: what an
// iteration loads, maybe from the same array by another parameter, the one before has stored. (Loops over tiles of
// results multiply in loops of their own.)
bool loads_in_each_step(const Op& store) {
  const Op* step = step_of_loop(store);
  if (!step) return false;
  bool multiplies = false, loads = false;
  const Type& stored = store.operand(0)->type;
  for (const auto& op : step->parent->ops) {
    multiplies |= op->opcode == Opcode::MmaStart;
    if (op->opcode != Opcode::Load) continue;
    const Type& loaded = op->operand(0)->type;
    loads |= loaded.is_tile() && loaded.shape == stored.shape && elem_bits(loaded.elem) == elem_bits(stored.elem);
  }
  return multiplies && loads;
}

// Whether the hardware reduces boxes of such elements in such a way.
bool is_bulk_reduction(const std::string& kind, Elem elem) {
  const bool whole = elem == Elem::U32 || elem == Elem::I32 || elem == Elem::U64;
  const bool half = elem == Elem::F16 || elem == Elem::BF16;
  if (kind == "add") return whole || half || elem == Elem::F32;
  if (kind == "min" || kind == "max") return whole || half || elem == Elem::I64;
  return (kind == "and" || kind == "or" || kind == "xor") && (whole || elem == Elem::I64);
}

constexpr int kMostRowBytes = 128;  // of a box
// Of warps that wait for each other: by a barrier each of the hardware's 16, 2 to 13. Pairs and groups of four, which
// have barriers of their own, are as many of 16 warps; 32 warps make no pairs then.
constexpr int kMostGroups = 12;

// Whether the function multiplies beside the program, anywhere or in a loop.
bool has_products_beside(const Func& func, bool in_loops) {
  bool found = false;
  walk(func.body, [&](const Op& op) { found |= op.opcode == Opcode::MmaStart && (!in_loops || step_of_loop(op)); });
  return found;
}

// The boxes that warps hold of a tile, or of each of the stretches of its rows.
struct Part {
  Stretch stretch;
  WarpBoxes boxes;
};

// Rows of other lengths than powers of two have boxes of short rows, or none; stretches of them have longer ones.
std::vector<Part> parts_of(const Type& tile, int fast) {
  auto whole = warp_boxes(*tile.layout, fast, tile.bits());
  std::vector<Part> parts;
  const std::vector<Stretch> stretches = stretches_of(tile.shape[size_t(fast)]);
  if (stretches.size() > 1 && (!whole || whole->swizzle < kMostRowBytes))
    for (const Stretch& stretch : stretches)
      if (auto boxes = warp_boxes(*tile.layout, fast, tile.bits(), stretch); boxes && boxes->warps == 1)
        parts.push_back({stretch, std::move(*boxes)});
  if (parts.size() == stretches.size()) return parts;
  parts.clear();
  if (whole) parts.push_back({{}, std::move(*whole)});
  return parts;
}

// The stored value before its layout conversion, if warps hold boxes of that; otherwise the value itself.
struct Source {
  Value* value;
  std::vector<Part> parts;
};
std::optional<Source> source_of(const Op& store, int fast) {
  Value* value = store.operand(1);
  std::vector<Value*> candidates{value};
  if (value->def && value->def->opcode == Opcode::ConvertLayout)
    candidates.insert(candidates.begin(), value->def->operand(0));
  for (Value* candidate : candidates)
    if (auto parts = parts_of(candidate->type, fast); !parts.empty()) return Source{candidate, std::move(parts)};
  return std::nullopt;
}

class BulkStores {
 public:
  BulkStores(Func& func, PassContext& context) : func_(func), context_(context) {}

  void run() {
    const auto uses = count_uses(func_.body);
    std::vector<Op*> stores;
    walk(func_.body, [&](Op& op) {
      const bool stores_only =
          op.opcode == Opcode::Store || (op.opcode == Opcode::AtomicRmw && !uses.contains(op.result()));
      if (stores_only && op.operand(0)->type.is_tile()) stores.push_back(&op);
    });
    const GlobalAccesses accesses(func_);
    const bool pays = func_.bulk_copies() == 2 || has_products_beside(func_, true);
    bool replaced = false;
    for (Op* store : stores) {
      const Loc loc = store->loc;
      const bool combines = store->opcode == Opcode::AtomicRmw;
      const std::string why_not = func_.bulk_copies() == 1          ? "the option bulk_copies forbids it"
                                  : !pays                           ? kNoLoop
                                  : combines && !is_reduced(*store) ? kNoReduction
                                  : !accesses.has_alone(*store)     ? kNotAlone
                                  : copies_by_threads(*store)       ? "threads copy in the loop around it"
                                  : loads_in_each_step(*store)      ? kLoaded
                                  : is_of_all_blocks(*store)        ? "one block of the cluster stores for all"
                                                                    : replace(*store);
      const char* bulk = combines ? "bulk reductions" : "bulk stores";
      const char* by_threads = combines ? "atomic operations by threads" : "stores by threads";
      context_.transfers.push_back({loc, why_not.empty() ? bulk : by_threads, why_not});
      replaced |= why_not.empty();
    }
    if (replaced) wait_at_the_end();
    if (tried_) passes::canonicalize(func_, context_);  // what nobody uses any more
  }

 private:
  static constexpr const char* kNotAlone =
      "the kernel reads the array, writes it elsewhere too, or orders memory for other programs";

  // Without such a loop a program has nothing else to do while boxes are on their way, and is over sooner if its
  // threads store, as measured.
  static constexpr const char* kNoLoop = "no loop multiplies beside the program";

  static constexpr const char* kLoaded =
      "each step of the products' loop loads such a tile, which another parameter may have of the same array";

  static constexpr const char* kNoReduction =
      "bulk reductions order no memory (sem='relaxed' says so), have scope 'gpu' or 'cta', and types that a "
      "descriptor's atomic functions take";

  bool is_reduced(const Op& atomic) const {
    return (atomic.get(attr::sem) == "relaxed" || orders_nothing(atomic, func_)) && atomic.get(attr::scope) != "sys" &&
           is_bulk_reduction(atomic.get(attr::kind), atomic.operand(1)->type.elem);
  }

  // Measured: such a loop's iteration takes up to half as long again by bulk stores, unless they are asked for.
  bool copies_by_threads(const Op& store) const {
    const auto& ops = store.parent->ops;
    return func_.bulk_copies() != 2 && store.parent->parent &&
           std::any_of(ops.begin(), ops.end(), [](const auto& op) { return op->opcode == Opcode::AsyncCopy; });
  }

  bool is_of_all_blocks(const Op& store) const { return func_.num_ctas() > 1 && !store.get(attr::per_block); }

  // The hardware omits only whole chunks of 16 bytes of a row: it writes the last chunk that begins within the array's
  // extent completely.
  static bool ends_between_chunks(const AffineTile& tile, const AffineTiles& tiles) {
    const std::optional<Polynomial>& extent = tile.dims.back().extent;
    return !extent || tiles.divisor(*extent) * elem_bits(tile.base->type.elem) % (16 * 8) == 0;
  }

  // Whether a loop around may store tiles that are neither the same nor apart: a warp waits for its own boxes alone.
  static bool overlaps_in_loop(const Op& store, const AffineTile& tile, const AffineTiles& tiles) {
    if (!store.parent->parent) return false;
    return std::any_of(tile.dims.begin(), tile.dims.end(), [&](const AffineDim& dim) {
      if (dim.axis < 0) return false;
      const int64_t extent = store.operand(0)->type.shape[size_t(dim.axis)];
      return tiles.divisor(dim.start) % extent != 0 &&
             std::any_of(dim.start.terms().begin(), dim.start.terms().end(),
                         [&](const auto& term) { return term.second % extent != 0; });
    });
  }

  // Replaces the store; returns the reason if it cannot, otherwise an empty string.
  std::string replace(Op& store) {
    AffineTiles tiles(func_);
    auto found = tiles.tile_of(store.operand(0), store.operand(2));
    if (auto* why = std::get_if<std::string>(&found)) return std::move(*why);
    AffineTile& tile = std::get<AffineTile>(found);
    const bool combines = store.opcode == Opcode::AtomicRmw;  // in any order
    if (!combines && overlaps_in_loop(store, tile, tiles)) return "tiles of different iterations may overlap";
    if (!ends_between_chunks(tile, tiles))
      return "its rows may end within 16 bytes, which a bulk store writes all or none of";
    auto source = source_of(store, tile.dims.back().axis);
    if (!source || std::ranges::any_of(source->parts, [&](const Part& part) {
          return part.boxes.warps > 1 && func_.num_warps() / part.boxes.warps > kMostGroups;
        }))
      return "warps hold no boxes of it with rows of 32 bytes or more";
    tried_ = true;
    const int64_t bytes_before = plan_shared(func_).bytes;
    std::vector<Op*> bulk, allocs;
    for (const Part& part : source->parts) {
      bulk.push_back(store_part(store, *source->value, part, tile, tiles));
      allocs.push_back(bulk.back()->operand(2)->def);
    }
    // The room of a conversion that nothing else uses is free, too.
    Op* converts = source->value == store.operand(1) ? nullptr : store.operand(1)->def;
    std::unique_ptr<Op> taken = take(store), conversion;
    if (converts && !count_uses(func_.body).contains(converts->result())) conversion = take(*converts);
    if (launch_makes_maps(func_) && fits(bytes_before)) return {};
    if (conversion) before(*bulk[0]).insert(std::move(conversion));
    before(*bulk[0]).insert(std::move(taken));
    for (Op* op : bulk) erase(*op);
    for (Op* alloc : allocs) erase(*alloc);
    return "shared memory has no room for it, or the kernel has more arrays than a launch makes maps of";
  }

  // Creates the bulk store of a part ahead of the store.
  Op* store_part(Op& store, Value& value, const Part& part, const AffineTile& tile, const AffineTiles& tiles) {
    const MappedTile mapped{tile, part.boxes.extents, part.boxes.swizzle};
    Builder begin = where_maps_stand(func_, store.loc), here = before(store);
    Type place = Type::place(value.type.elem, part.boxes.shared.tile_shape());
    place.layout = std::make_shared<LinearLayout>(part.boxes.shared);
    Op* alloc = begin.create(Opcode::SharedAlloc, {}, {place}, {{attr::slots, int64_t(part.boxes.pieces.size())}});
    std::vector<Value*> operands{&value, make_map(begin, tiles, mapped), alloc->result()};
    for (Value* coordinate : make_coordinates(here, tiles, mapped, value.type.shape)) operands.push_back(coordinate);
    Attrs how{{attr::axes, axes_of(mapped)}};
    if (store.opcode == Opcode::AtomicRmw) how[attr::kind] = store.get(attr::kind);
    return here.create(Opcode::BulkStore, std::move(operands), {}, std::move(how));
  }

  // Whether there is room for it, beside as many programs as before unless bulk stores are wanted wherever possible.
  bool fits(int64_t bytes_before) const {
    const int64_t bytes = plan_shared(func_).bytes;
    return bytes <= context_.target.shared_per_program &&
           (func_.bulk_copies() == 2 ||
            programs_by_room(func_, context_.target, bytes) >= programs_by_room(func_, context_.target, bytes_before));
  }

  // The room of places goes when the program ends.
  void wait_at_the_end() {
    Op* last = func_.body.terminator();
    for (auto& op : func_.body.ops)
      if (op->opcode == Opcode::CopyWarps) last = op.get();
    before(*last).create(Opcode::BulkStoreWait, {});
  }

  Func& func_;
  PassContext& context_;
  bool tried_ = false;
};

}  // namespace

void passes::bulk_stores(Func& func, PassContext& context) {
  if (!context.target.has(Feature::Tma) || (func.num_ctas() > 1 && !is_divided(func)) ||
      (func.bulk_copies() != 2 && !has_products_beside(func, false)))
    return;
  BulkStores(func, context).run();
}

}  // namespace tegula
