// Puts operands of products into shared memory, and starts products that run beside the program.
//
//   x = load(a(i))                                     async_copy a(i), place; t = async_commit; async_wait t
//   y = cast(load(b(i)))                        ->     y = cast(load(b(i))); shared_store y, other
//   acc = dot(x, y, acc)                               s = mma_start(place, other, acc); acc = mma_wait s
//
// This is written down one iteration at a time: the pass pipeline, after layout assignment, gives places more slots and
// moves ops between iterations. A place is allocated before the pipelined loop that fills it, other places where they
// are stored.
//
// A load goes through a copy if it does nothing but feed products of a pipelined loop, transposed or not, and the
// target has such copies: they move 4, 8 or 16 bytes of a thread and fill with zeros. So does one that other ops take
// too, as in x - dot(x, y), if a product that runs beside the program multiplies from its place: it would be stored
// there otherwise. The others read it from there. Where products multiply from registers, elements of 8 bits may be
// computed with on the way, as weights that are widened: they are copied as they are, and come from their place in the
// layout that the product wants. So are those from which A of a product that runs beside the program is computed, but
// not transposed, if its sums are carried by the loop. Products whose plan has them run beside the program get B from a
// place, and A from there or as fragments in registers (OperandForm); what comes in other registers is stored: once
// before the product's loop where it comes from there, a transposed value before it is transposed, and one that several
// products take once. Elements of 8 bits that lie in their place as the instruction cannot read them, as V of attention
// in rows, are transposed into another one, which is done beside the loop's first product. A product whose operands
// find no room, or cannot be read from their places, stays a dot.
//
// There is room if all places fit a program's shared memory with two slots for each one that a pipelined loop fills
// (with one slot a copy is no better than a load); places that are not needed at a time share it (bytes_of_places).
// Where some products find none so, what is stored has one slot: threads then meet once more an iteration, which costs
// less than to multiply from registers.
//
// What is loaded outside of pipelined loops and stored to a place is copied there in the end (copy_early), for which
// what loops store is counted with one slot: the pipeline gives it two if they are left.
#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/builder.h"
#include "codegen/layout/byte_transpose.h"
#include "codegen/passes/passes.h"
#include "codegen/pipeline/early_copies.h"
#include "codegen/pipeline/edit.h"
#include "codegen/pipeline/loop_stages.h"
#include "codegen/pipeline/loop_values.h"
#include "codegen/product/operands.h"
#include "codegen/product/plan.h"

namespace tegula {

using namespace ir;

namespace {

constexpr int64_t kSlots = 2;

// Whether shared_transpose takes a place with the tile.
bool can_transpose(const Type& tile, const Func& func) {
  return tile.bits() == 8 && can_transpose_bytes(tile.shape, func.num_warps());
}

// The shared memory of places while operands are staged.
class Places {
 public:
  Places(Func& func, const Target& target) : func_(func), limit_(target.shared_per_program) {}
  /// From here on the pipeline decides the number of slots.
  ~Places() {
    for (Op* alloc : allocs_) alloc->set(attr::slots, 1);
  }

  Value* alloc(Builder& outside, const Type& tile, bool moves, int contiguous) {
    Value* place = alloc_place(outside, tile, moves ? kSlots : 1, contiguous);
    allocs_.push_back(place->def);
    return place;
  }

  /// From here on what is stored is counted with one slot.
  void share_stored() {
    walk(func_.body, [](Op& op) {
      if (op.opcode == Opcode::SharedStore) op.operand(1)->def->set(attr::slots, 1);
    });
  }

  /// A place that is not there yet: for a tile of that type, before `begin`; whether a loop moves it.
  struct Planned {
    Type tile;
    Op* begin;
    bool moves;
  };
  /// Whether shared memory has room for `planned` too, if they and the existing `places` are used up to `user`.
  bool have_room(const std::vector<Planned>& planned, std::vector<Value*> places, Op& user) {
    std::vector<Op*> tried;
    for (const Planned& place : planned) {
      Builder build = before(*place.begin, place.begin->loc);
      places.push_back(alloc_place(build, place.tile, place.moves ? kSlots : 1, -1));
      tried.push_back(places.back()->def);
    }
    Builder build = before(user, user.loc);
    for (Value* place : places)
      tried.push_back(build.create(Opcode::SharedRead, {place}, {Type::tile(place->type.elem, place->type.shape)}));
    const bool fits = bytes_of_places(func_) <= limit_;
    for (size_t i = tried.size(); i-- > 0;) erase(*tried[i]);
    return fits;
  }

 private:
  Func& func_;
  const int64_t limit_;
  std::vector<Op*> allocs_;
};

// Copies in place of loads.
class CopyStager {
 public:
  CopyStager(Func& func, const Target& target, Places& places)
      : func_(func), target_(target), places_(places), axes_(func) {}

  bool run() {
    if (!target_.has(Feature::CpAsync)) return false;
    bool changed = false;
    std::vector<Op*> loops;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::For && stages_of(op, func_) > 1) loops.push_back(&op);
    });
    for (Op* loop : loops) changed |= stage(*loop);
    return changed;
  }

  /// Loads of pipelined loops that would be copied if there were room.
  const std::vector<Op*>& without_room() const { return without_room_; }

 private:
  bool stage(Op& loop) {
    const std::vector<Op*> loads = loads_to_copy(loop);
    if (loads.empty()) return false;
    std::vector<Places::Planned> planned = stored(loop, loads);
    for (const Op* load : loads) planned.push_back({load->result()->type, &loop, true});
    if (!places_.have_room(planned, {}, *loop.regions[0]->terminator())) {
      without_room_.insert(without_room_.end(), loads.begin(), loads.end());
      return false;
    }
    for (Op* load : loads) copy(loop, *load);
    return true;
  }

  // Those that nothing but dots take, transposed or not, and those that dots which run beside the program take,
  // whatever else does. Of 8 bits also those from which dots' operands are computed element by element, for dots that
  // multiply from registers (fragments may be regrouped, too): what others take is stored once more, an iteration
  // ahead.
  std::vector<Op*> loads_to_copy(Op& loop) {
    std::unordered_map<const Value*, std::vector<const Op*>> users;
    walk(*loop.regions[0], [&](const Op& op) {
      for (const Value* v : op.operands)
        if (v) users[v].push_back(&op);
    });
    using Answers = std::unordered_map<const Value*, bool>;
    // Whether the value has users in the loop, and something holds of all of them.
    auto of_all_users = [&](const Value* v, Answers& known, auto holds) {
      if (const auto found = known.find(v); found != known.end()) return found->second;
      const std::vector<const Op*>& of = users[v];
      return known[v] = !of.empty() && std::ranges::all_of(of, [&](const Op* op) { return holds(*op); });
    };
    Answers widened, multiplied;
    // Whether only products that read the value as fragments take it, and what follows from it.
    std::function<bool(const Value*)> only_widened = [&](const Value* v) {
      return of_all_users(v, widened, [&](const Op& op) {
        return is_widened(op, v, is_load) ||
               (keeps_elements(op) && op.results.size() == 1 && only_widened(op.result()));
      });
    };
    std::function<bool(const Value*)> only_multiplied = [&](const Value* v) {
      return of_all_users(v, multiplied, [&](const Op& op) {
        if (op.opcode == Opcode::Dot)
          return v != op.operands[2] && (is_loaded(v) || !runs_beside(op) || is_widened(op, v, is_load));
        const bool passes = op.opcode == Opcode::Trans || (op.has(Elementwise) && comes_of_bytes(op)) ||
                            (is_regrouped_bytes(op) && only_widened(op.result()));
        return passes && op.parent == loop.regions[0].get() && only_multiplied(op.result());
      });
    };
    // Whether products that run beside the program would take the value from where it is copied, whatever others do
    // with it.
    std::function<bool(const Value*)> multiplied_too = [&](const Value* v) {
      return std::ranges::any_of(users[v], [&](const Op* op) {
        if (op->parent != loop.regions[0].get()) return false;
        if (op->opcode == Opcode::Trans) return multiplied_too(op->result());
        if (op->opcode != Opcode::Dot || !runs_beside(*op)) return false;
        return std::ranges::any_of(std::array{0, 1},
                                   [&](int i) { return op->operand(i) == v && !is_transposed(*op, i); });
      });
    };
    std::vector<Op*> loads = loads_ahead(loop);
    std::erase_if(loads, [&](Op* load) {
      if (load->opcode != Opcode::Load || !is_copyable(*load, func_, axes_)) return true;
      return !only_multiplied(load->result()) && !multiplied_too(load->result());
    });
    return loads;
  }

  // Whether the op computes one value of elements of 8 bits that are loaded, and of nothing else that is loaded as a
  // tile of that shape.
  bool comes_of_bytes(const Op& op) {
    const auto [known, is_new] = comes_of_bytes_.try_emplace(&op, false);
    if (!is_new) return known->second;
    const bool comes = op.results.size() == 1 && std::all_of(op.operands.begin(), op.operands.end(), [&](Value* v) {
                         const Op* from = v ? v->def : nullptr;
                         if (!from) return true;
                         if (from->opcode == Opcode::Load) return from->result()->type.bits() == 8;
                         return !from->has(Elementwise) || comes_of_bytes(*from);
                       });
    return comes_of_bytes_[&op] = comes;
  }
  // Whether the op puts what is computed from loaded elements of 8 bits into another shape.
  static bool is_regrouped_bytes(const Op& op) {
    return !op.has(Elementwise) && keeps_elements(op) && is_widened_from(op.operand(0), is_load);
  }
  static bool is_load(const Op& op) { return op.opcode == Opcode::Load; }
  // Whether the product reads the value as fragments if it gets the bytes that `is_source` gives from a place.
  static bool is_widened(const Op& dot, const Value* v, const std::function<bool(const Op&)>& is_source) {
    return dot.opcode == Opcode::Dot && dot.operand(0) == v && v != dot.operand(1) &&
           family_of(dot).can_widen(dot, 0) && is_widened_from(v, is_source);
  }
  static bool is_loaded(const Value* v) {
    const Op* op = untransposed(const_cast<Value*>(v))->def;
    return op && op->opcode == Opcode::Load;
  }

  // The places that products of the body will need besides.
  std::vector<Places::Planned> stored(Op& loop, const std::vector<Op*>& loads) const {
    const Block& body = *loop.regions[0];
    auto is_copied = [&](const Value* v) {
      return is_place_read(v) || std::find(loads.begin(), loads.end(), v->def) != loads.end();
    };
    std::unordered_set<const Value*> seen;
    std::vector<Places::Planned> stored;
    for (auto& op : body.ops) {
      if (op->opcode != Opcode::Dot || !runs_beside(*op)) continue;
      for (int i : {0, 1}) {
        const Value* v = untransposed(op->operands[i]);
        const bool is_stored = operand_form(*op, i, is_copied) == OperandForm::Stored || is_transposed(*op, i);
        if (i == 0 && is_widened(*op, v, [&](const Op& from) { return is_copied(from.result()); })) continue;
        if (is_stored && seen.insert(v).second) stored.push_back({v->type, &loop, home(v) == &body});
      }
    }
    return stored;
  }

  // Whether it will run beside the program, which may ask for operands in the right order where they are copied.
  bool runs_beside(const Op& dot) const {
    if (!family_of(dot).asynchronous) return false;
    for (int i : {0, 1})
      if (lies_otherwise(dot, i) && !can_transpose(untransposed(dot.operands[size_t(i)])->type, func_)) return false;
    return true;
  }

  bool is_transposed(const Op& dot, int operand) const {
    return lies_otherwise(dot, operand) && can_transpose(untransposed(dot.operands[size_t(operand)])->type, func_);
  }

  // Whether a copy would bring the operand in another order than the product asks for.
  bool lies_otherwise(const Op& dot, int operand) const {
    const int axis = axis_side_by_side(dot, operand);
    const Op* load = untransposed(dot.operands[size_t(operand)])->def;
    return axis >= 0 && load && load->opcode == Opcode::Load && load->parent == dot.parent &&
           is_copyable(*load, func_, axes_) && contiguous_axis(*load, axes_) != axis;
  }

  void copy(Op& loop, Op& load) {
    Builder outside = before(loop, load.loc), here = before(load, load.loc);
    Value* place = places_.alloc(outside, load.result()->type, true, contiguous_axis(load, axes_));
    here.create(Opcode::AsyncCopy, {load.operands[0], place, load.operand(1)});
    Value* token = here.create(Opcode::AsyncCommit, {}, {Type::token(Completion::Group)})->result();
    here.create(Opcode::AsyncWait, {token});
    Value* read = here.create(Opcode::SharedRead, {place}, {load.result()->type})->result();
    replace_uses(*loop.regions[0], load.result(), read);
    erase(load);
  }

  Func& func_;
  const Target& target_;
  Places& places_;
  AxisAnalysis axes_;
  std::unordered_map<const Op*, bool> comes_of_bytes_;
  std::vector<Op*> without_room_;
};

// Products that run beside the program in place of dots.
class ProductStager {
 public:
  ProductStager(Func& func, Places& places) : func_(func), room_(places) {}

  bool run() {
    std::vector<Op*> dots;
    walk(func_.body, [&](Op& op) {
      if (op.opcode == Opcode::Dot && family_of(op).asynchronous && can_have_places(op)) dots.push_back(&op);
    });
    const size_t all = dots.size();
    auto stage_all = [&] { std::erase_if(dots, [&](Op* dot) { return stage(*dot); }); };
    stage_all();
    if (!dots.empty()) {
      share_room_ = true;
      for (const auto& [tile, stored] : places_) stored.place->def->set(attr::slots, 1);
      stage_all();
    }
    return dots.size() < all;
  }

 private:
  /// What is stored, and the axis whose elements must lie side by side; -1 where any may.
  using Tile = std::pair<Value*, int>;
  struct Stored {
    Value* place;
    Op* store;
  };
  /// An op that has been moved, and what stood behind it.
  struct Moved {
    Op *op, *next;
  };

  bool can_have_places(const Op& dot) const {
    for (int i : {0, 1})
      if (!can_read_place(dot, i) && !can_transpose(untransposed(dot.operands[size_t(i)])->type, func_)) return false;
    return true;
  }

  bool stage(Op& dot) {
    std::vector<Tile> tiles;
    std::vector<Value*> there;
    std::vector<Moved> moved;
    for (int i : {0, 1}) {
      if (operand_form(dot, i) != OperandForm::Stored && can_read_place(dot, i)) continue;
      const Tile tile = tile_of(dot, i);
      if (auto stored = places_.find(tile); stored != places_.end()) {
        there.push_back(stored->second.place);
        store_ahead(stored->second, *user_of(tile.first, dot), moved);
      } else if (std::find(tiles.begin(), tiles.end(), tile) == tiles.end()) {
        tiles.push_back(tile);
      }
    }
    std::vector<Places::Planned> planned;
    for (const Tile& tile : tiles)
      planned.push_back({tile.first->type, begin_of(tile.first, dot), moves(tile.first, dot)});
    if (!room_.have_room(planned, there, dot)) {
      for (size_t i = moved.size(); i-- > 0;) move_before(*moved[i].op, *moved[i].next);
      return false;
    }
    for (const Tile& tile : tiles) store(tile, dot);
    start(dot);
    return true;
  }

  // Moves what a later dot had stored, with its place, ahead of `user`: a dot that finds room only now takes it there.
  static void store_ahead(const Stored& stored, Op& user, std::vector<Moved>& moved) {
    const auto& ops = user.parent->ops;
    const size_t first = moved.size();
    bool behind = false;
    for (auto at = ops.begin(); at != ops.end(); ++at) {
      Op* op = at->get();
      behind |= op == &user;
      if (behind && (op == stored.place->def || op == stored.store)) moved.push_back({op, std::next(at)->get()});
    }
    for (size_t i = first; i < moved.size(); ++i) move_before(*moved[i].op, user);
  }

  static Tile tile_of(const Op& dot, int operand) {
    return {untransposed(dot.operands[operand]), axis_side_by_side(dot, operand)};
  }

  // Whether a pipelined loop around the dot makes the value anew in each iteration, for which two slots are kept.
  bool moves(const Value* v, const Op& dot) const {
    const Op* loop = dot.parent->parent;
    return !share_room_ && home(v) == dot.parent && loop && loop->opcode == Opcode::For && stages_of(*loop, func_) > 1;
  }

  // The dot, or what holds it in the block of the value: where the value is stored.
  static Op* user_of(const Value* v, Op& dot) {
    Op* user = &dot;
    while (user->parent != home(v)) user = user->parent->parent;
    return user;
  }
  // Before which op the value is stored: its user, or, if it can be transposed beside the block's first product, the
  // wait for that.
  static Op* store_point(const Value* v, Op& dot) {
    Op* user = user_of(v, dot);
    if (!is_place_read(v)) return user;
    Op* beside = product_before(*user);
    return beside && comes_with(*v->def, *beside) ? beside : user;
  }
  // Before which op the value has its place: where a loop moves it, before the loop. Other places begin where they are
  // stored, so that dots of one iteration that follow each other share memory.
  Op* begin_of(const Value* v, Op& dot) const { return moves(v, dot) ? dot.parent->parent : store_point(v, dot); }

  void store(const Tile& tile, Op& dot) {
    Value* value = tile.first;
    Op* point = store_point(value, dot);
    if (is_place_read(value)) {
      const std::vector<Op*> with = *comes_with(*value->def, *point);
      for (Op* op : with) move_before(*op, *point);
    }
    Builder outside = before(*begin_of(value, dot), dot.loc), here = before(*point, dot.loc);
    Value* place = room_.alloc(outside, value->type, moves(value, dot), tile.second);
    Op* store = is_place_read(value) ? here.create(Opcode::SharedTranspose, {value->def->operand(0), place})
                                     : here.create(Opcode::SharedStore, {value, place});
    places_[tile] = {place, store};
  }

  // The wait for the first product that the block starts ahead of the op, if there is one.
  static Op* product_before(const Op& op) {
    for (auto& other : op.parent->ops) {
      if (other.get() == &op) return nullptr;
      if (other->opcode == Opcode::MmaWait && other->operand(0)->def->parent == op.parent) return other.get();
    }
    return nullptr;
  }

  // What moves ahead of `where` if a tile is to be in its place by then: ops that bring it into the place that is read,
  // and that it is computed from, in their order. Nothing where more than computations would come with it.
  static std::optional<std::vector<Op*>> comes_with(Op& read, Op& where) {
    Block& block = *where.parent;
    std::vector<Op*> later;  // from `where` to the read
    bool behind = false, reached = false;
    for (auto& op : block.ops) {
      behind |= op.get() == &where;
      if (behind) later.push_back(op.get());
      if (reached = op.get() == &read; reached) break;
    }
    if (!reached) return std::nullopt;
    if (!behind) return std::vector<Op*>();  // it is there already
    // The copy, its commit, the wait and the read follow one another.
    if (later.size() < 5 || later[later.size() - 4]->opcode != Opcode::AsyncCopy) return std::nullopt;
    std::unordered_set<const Op*> comes(later.end() - 4, later.end());
    for (size_t i = later.size(); i-- > 0;) {
      if (!comes.contains(later[i])) continue;
      const bool is_copy = i + 4 >= later.size();
      if (!is_copy && (!later[i]->has(Pure) || !later[i]->regions.empty() || later[i] == &where)) return std::nullopt;
      for (const Value* v : later[i]->operands)
        if (v && v->def && std::find(later.begin(), later.end(), v->def) != later.end()) comes.insert(v->def);
    }
    std::erase_if(later, [&](const Op* op) { return !comes.contains(op); });
    return later;
  }

  void start(Op& dot) {
    Builder here = before(dot, dot.loc);
    Value* a = operand_form(dot, 0) == OperandForm::Fragment ? dot.operands[0] : place_of(dot, 0, here);
    Value *b = place_of(dot, 1, here), *acc = dot.operands[2];
    const int64_t depth = a->type.shape.back(), imprecise = dot.get(attr::imprecise);
    if (!imprecise) {
      acc = multiply(here, dot, a, b, acc, {0, 0});
    } else {
      for (int64_t first = 0; first < depth; first += imprecise) {
        const int64_t size = std::min(imprecise, depth - first);
        Value* sums = multiply(here, dot, a, b, nullptr, {first, size == depth ? 0 : size});
        acc = is_zero(acc) ? sums : here.add(acc, sums);
      }
    }
    acc->name = dot.result()->name;
    replace_uses(func_.body, dot.result(), acc);
  }

  // acc, or 0 if it is null, + the product of a part of K: where it begins and how long it is.
  Value* multiply(Builder& here, const Op& dot, Value* a, Value* b, Value* acc, std::pair<int64_t, int64_t> part) {
    const Type& tile = dot.result()->type;
    Value* accumulate = nullptr;
    if (!acc || is_zero(acc)) {  // the instructions leave it out, and no register is set to zero
      acc = here.create(Opcode::Unset, {}, {tile})->result();
      accumulate = here.constant(Type::scalar(Elem::I1), 0);
    }
    Attrs attrs = dot.attrs;
    attrs.erase(std::string(attr::imprecise));
    if (part.first) attrs[attr::first] = part.first;
    if (part.second) attrs[attr::depth] = part.second;
    Op* start = here.create(Opcode::MmaStart, {a, b, acc, accumulate}, {tile.with_kind(Kind::InFlight)}, attrs);
    return here
        .create(Opcode::MmaWait, {start->result()}, {tile},
                {{attr::instruction, dot.get(attr::instruction)}, {attr::pending, int64_t(0)}})
        ->result();
  }

  // The place that an operand is read from, transposed as the operand is.
  Value* place_of(const Op& dot, int operand, Builder& here) {
    auto stored = places_.find(tile_of(dot, operand));
    return view(dot.operands[operand], stored == places_.end() ? nullptr : stored->second.place, here);
  }
  static Value* view(Value* operand, Value* place, Builder& here) {
    if (operand->def && operand->def->opcode == Opcode::Trans)
      return here.trans(view(operand->def->operands[0], place, here), operand->def->get(attr::order));
    return place ? place : operand->def->operands[0];
  }

  Func& func_;
  Places& room_;
  std::map<Tile, Stored> places_;
  bool share_room_ = false;  // what is stored has one slot, from where it is stored on
};

}  // namespace

void passes::stage_operands(Func& func, PassContext& context) {
  bool changed = false;
  {
    Places places(func, context.target);
    CopyStager copies(func, context.target, places);
    changed |= copies.run();
    changed |= ProductStager(func, places).run();
    places.share_stored();
    changed |= copy_early(func, context.target, copies.without_room());
  }
  if (changed) canonicalize(func, context);
}

}  // namespace tegula
