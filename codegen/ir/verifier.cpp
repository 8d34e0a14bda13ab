// The rules of tile IR.
//
// Function
// - Parameters are scalars; each has a divisibility, a power of two. Attributes are options (options.def), in their
//   ranges, and dependent_launch, a bool.
// Structure
// - Ops, values and blocks know their parents and indices.
// - An op has the operands, attributes, results and regions that its row of ops.def says; only optional operands are
//   absent.
// - An operand is defined above its use, in the same block or an enclosing one; but the region of a Combine sees its
//   own values alone.
// - A block ends with its terminator, and has it nowhere else: return for the function, for a region what its row says.
// - What a terminator passes on has the types of what receives it: block arguments or results, layouts included.
// Types
// - Extents are at least 1; a tile has at most 2^20 elements and rank 20.
// - Same: the result has the type of operand 0. Bool: i1 of its shape.
// - Elementwise: operands and results have one shape. The operands of a row with two or more have one type, but for the
//   condition of select (i1) and the offset of addptr (i32 or i64). Arithmetic is not for pointers, though comparisons
//   are; FloatOnly and IntOnly rows want what they say.
// - constant: `value` is an integer for integer elements, in their range (u64: the same 64 bits), a double for floats.
// - arange: i32 of the one extent end - start. program_id, num_programs, block_id, group_id: i32, axis 0 to 2.
// - cast: neither side is a pointer; `rounding` only from a float to a narrower one. bitcast: same width.
// - splat: from a scalar to a tile. broadcast: same rank, only extents of 1 grow. expand_dims: an extent 1 at `axis`.
//   reshape: as many elements. trans: `order` is a permutation, the shape follows it.
// - Combine (reduce): tiles of one shape; the region takes two groups of scalars, yields one and holds scalar ops
//   without effects alone. reduce: results drop `axis`.
// - dot: M x K, K x N and M x N; a and b of one type, or each of any f8; the accumulator is f32 or f16 for f8 and f16,
//   f32 for bf16 and f32, f64 for f64, i32 for i8 and u8. The result is of the accumulator's type.
// - mma_start: as dot, but b is a place in shared memory, a may be one, and the result is in flight. accumulate is a
//   scalar i1. `columns` divides N. The product of `parts` divides the number of warps.
// - mma_wait: a tile or one in flight, to a tile or one in flight. What is in flight goes through loops and branches to
//   mma_wait, or as accumulator to mma_start, alone.
// - load, store, atomic_rmw: ptr is a pointer; value, other and result have its element type and shape; mask is i1 of
//   its shape. `other` comes with a mask. `vector`: as many elements lie side by side in registers, 16 bytes at most.
// - shared_alloc: barriers are i64. shared_slot: of a shared_alloc; the index is i32, and below the number of slots if
// it
//   is constant; the result has the type of the buffer. async_copy: the place has the shape and elements that the
//   pointers point to. shared_store, shared_read: the place's shape and elements. shared_free: a shared_alloc of
//   barriers. trans: of a place to a place. async_commit: a token<group>, or with barrier (a place) and phase (i32) a
//   token<barrier>. Tokens go through loops and branches to async_wait alone. Places go to these ops and to products,
//   and nothing hands them on.
// - tensor_map: in the function's body; the base is a pointer to the elements of the map, its other operands are i32 or
//   i64: one extent a dimension, one stride for all but the last, and others; they follow from parameters
//   (is_host_computable). Rows of the box have `swizzle` bytes, if that is not 0. bulk_copy: the place is made up of
//   the map's boxes (boxes_of), where it has a layout. phase_arrive with bytes: in copy_warps of one thread, without
//   `exists`.
// - for: lower, upper, step and the induction variable are integer scalars of one type. if: the condition is a scalar
//   i1, two regions without arguments. condition: its first operand is a scalar i1.
// Stage Tile
// - No type has a layout; no convert_layout.
// Stage Planned
// - A dot has the attribute `instruction`.
// Stage LaidOut
// - A scalar has no layout; every tile has one from register, lane (5 bits) and warp (log2 num_warps bits) to dim0,
//   dim1, ... of the tile's extents, surjective. A place in shared memory has one from offset to these, invertible.
// - Operands and results of elementwise and memory ops share one layout; dot's result and accumulator do.
// - Stage Ordered adds what find_shared_hazards says, which is no rule of single ops: verify_order checks it.
// - These follow from the operand's layout, up to registers that hold copies: expand_dims (dropping `axis` gives it
//   back), broadcast (with the grown extents held at coordinate 0), reduce (drops `axis`), trans, and reshape
//   where that leads from one layout to another (LinearLayout::reshape_tile).

#include "codegen/ir/verifier.h"

#include <fmt/format.h>

#include <bit>
#include <unordered_set>
#include <utility>

#include "codegen/ir/flow.h"
#include "codegen/ir/op_rules.h"
#include "codegen/ir/options.h"
#include "codegen/ir/pointer_set.h"

namespace tegula::ir {

namespace {

constexpr int64_t kMaxElements = int64_t(1) << 20;
constexpr int kLaneBits = 5;

bool is_power_of_two(int64_t n) { return n > 0 && std::has_single_bit(uint64_t(n)); }

// Functions, blocks and types; the rules of single ops are in op_rules.cpp.
class Verifier : private OpRules {
 public:
  using OpRules::OpRules;

  bool run() {
    function();
    block(func_.body, Opcode::Return);
    return good_;
  }

 private:
  // ---- Function
  void function() {
    for (auto& arg : func_.body.args)
      want(arg->type.is_scalar(),
           [&] { return fmt::format("parameter '{}' is {}, expected a scalar", arg->name, arg->type.to_string()); });
    if (want(func_.divisibility.size() == func_.body.args.size(), [&] {
          return fmt::format("{} divisibilities for {} parameters", func_.divisibility.size(), func_.body.args.size());
        }))
      for (size_t i = 0; i < func_.divisibility.size(); ++i)
        want(is_power_of_two(func_.divisibility[i]), [&] {
          return fmt::format("the divisibility of parameter '{}' is {}, expected a power of two",
                             func_.body.args[i]->name, func_.divisibility[i]);
        });
    for (auto& [name, value] : func_.attrs) function_attribute(name, value);
    warps_ = func_.num_warps();
    warps_good_ = option::num_warps.allows(warps_);
  }

  void function_attribute(const std::string& name, const Attr& value) {
    const OptionInfo* option = find_option(name);
    if (!want(option || name == "dependent_launch" || name == "fp_fusion",
              [&] { return fmt::format("a function has no attribute '{}'", name); }))
      return;
    const Attr example = option ? Attr(int64_t(0)) : Attr(true);
    if (!want(value.index() == example.index(), [&] {
          return fmt::format("attribute '{}' is {}, expected {}", name, attr_kind(value), attr_kind(example));
        }))
      return;
    if (const auto* number = std::get_if<int64_t>(&value)) want(option->allows(*number), option->wrong(*number));
  }

  // ---- Structure
  void block(const Block& b, Opcode terminator) {
    std::vector<const Value*> local;
    auto define = [&](const Value* v) {
      type(*v);
      defined_.insert(v);
      local.push_back(v);
    };
    for (size_t i = 0; i < b.args.size(); ++i) {
      const Value& arg = *b.args[i];
      if (arg.block != &b || arg.def || arg.index != int(i))
        report(fmt::format("block argument {} does not know its block and index", i));
      define(&arg);
    }
    const Op* owner = op_;
    for (auto& op : b.ops) {
      op_ = op.get();
      bool last = &op == &b.ops.back();
      want(op->parent == &b, "the op does not know its block");
      if (op->has(Terminator) && !(last && op->opcode == terminator))
        report(last ? fmt::format("the block ends with {}, expected {}", op->info().text, op_info(terminator).text)
                    : fmt::format("{} before the end of its block", op->info().text));
      for (size_t i = 0; i < op->results.size(); ++i) {
        const Value& r = *op->results[i];
        if (r.def != op.get() || r.block || r.index != int(i))
          report(fmt::format("result {} does not know its op and index", i));
      }
      bool good = this->operands();
      good &= attributes();
      if (good && regions()) semantics();
      op_ = op.get();
      for (auto& r : op->results) define(r.get());
    }
    if (b.ops.empty()) op_ = owner;
    if (b.ops.empty() || !b.ops.back()->has(Terminator))
      report(fmt::format("the block does not end with {}", op_info(terminator).text));
    op_ = owner;
    for (const Value* v : local) ended_.insert(v);
  }

  bool operands() {
    const OpInfo& info = op_->info();
    size_t count = op_->operands.size();
    bool good = true;
    if (int(count) < info.required || (!info.variadic && count > info.operands.size()))
      good = want(false, fmt::format("{} operands, expected {}{}", count, info.required,
                                     info.variadic ? " or more"
                                     : info.required == int(info.operands.size())
                                         ? ""
                                         : fmt::format(" to {}", info.operands.size())));
    for (size_t i = 0; i < count; ++i) {
      const Value* v = op_->operands[i];
      const bool repeats = info.variadic && i + 1 >= info.operands.size();
      const bool optional = int(i) >= info.required && !repeats;
      if (!v)
        good &= want(optional, [&] { return fmt::format("{} is absent", operand_name(i)); });
      else
        good &= token_use(*v, i) && in_flight_use(*v, i) && place_use(*v, i) && map_use(*v, i) && in_sight(*v, i);
    }
    return good & results();
  }

  bool in_sight(const Value& v, size_t operand) {
    if (defined_.contains(&v) && !ended_.contains(&v)) return true;
    const bool hidden = hidden_.contains(&v) && !ended_.contains(&v);
    return want(false, fmt::format("{} is {}", operand_name(operand),
                                   hidden ? "a value from outside of the region, which sees its own alone"
                                          : "not defined above its use in this block or an enclosing one"));
  }

  bool results() {
    bool good = true;
    const size_t count = op_->results.size();
    switch (op_->info().rule) {
      case ResultRule::None:
        good = want(count == 0, "results, expected none");
        break;
      case ResultRule::Same:
      case ResultRule::Bool:
      case ResultRule::Given:
        if (count != 1) good = want(false, fmt::format("{} results, expected 1", count));
        break;
      case ResultRule::Several:
        good = want(count > 0, "no results, expected some");
        break;
      case ResultRule::Each:
      case ResultRule::EachSame:
        if (count != op_->operands.size())
          good = want(false, fmt::format("{} results for {} operands", count, op_->operands.size()));
        break;
      case ResultRule::Carried:
        break;
    }
    if (op_->opcode != Opcode::AsyncCommit && !op_->has(Control))
      for (auto& r : op_->results) good &= want(!r->type.is_token(), "a token comes of async_commit alone");
    return good;
  }

  // Sums in flight may only pass from mma_start through loops and branches to the next mma_start or to mma_wait.
  bool in_flight_use(const Value& v, size_t operand) {
    const bool product = op_->opcode == Opcode::MmaStart && operand == 2;
    return !v.type.is_in_flight() || product || op_->opcode == Opcode::MmaWait || is_handed_on(*op_, operand) ||
           want(false, fmt::format("{} is in flight, which mma_wait ends", operand_name(operand)));
  }

  // Tokens may only pass from async_commit through loops and branches to async_wait.
  bool token_use(const Value& v, size_t operand) {
    return !v.type.is_token() || op_->opcode == Opcode::AsyncWait || is_handed_on(*op_, operand) ||
           want(false, fmt::format("{} is a token, which only async_wait takes", operand_name(operand)));
  }

  // Ops take places directly, never through control flow, so that the shared_alloc of a place is always known.
  bool place_use(const Value& v, size_t operand) {
    return !v.type.is_place() || takes_places(op_->opcode) ||
           want(false, fmt::format("{} is a place in shared memory, which {} does not take", operand_name(operand),
                                   op_->info().text));
  }
  bool map_use(const Value& v, size_t operand) {
    return !v.type.is_map() || op_->opcode == Opcode::BulkCopy || op_->opcode == Opcode::BulkStore ||
           want(false,
                fmt::format("{} is a tensor map, which only bulk_copy and bulk_store take", operand_name(operand)));
  }
  static bool takes_places(Opcode opcode) {
    switch (opcode) {
      case Opcode::SharedSlot:
      case Opcode::Trans:
      case Opcode::AsyncCopy:
      case Opcode::AsyncCommit:
      case Opcode::BulkCopy:
      case Opcode::BulkStore:
      case Opcode::SharedStore:
      case Opcode::SharedRead:
      case Opcode::SharedTranspose:
      case Opcode::ThreadStore:
      case Opcode::ThreadRead:
      case Opcode::SharedFree:
      case Opcode::PhaseArrive:
      case Opcode::PhaseWait:
      case Opcode::TurnWait:
      case Opcode::TurnPass:
      case Opcode::Dot:  // rules of their own
      case Opcode::MmaStart:
        return true;
      default:
        return false;
    }
  }

  // Checks the contents of the regions, then whether they are the ones that the op's row names.
  bool regions() {
    const Op* op = op_;
    const std::vector<RegionInfo>& rows = op->info().regions;
    bool good = op->regions.size() == rows.size();
    if (!good) report(fmt::format("{} regions, expected {}", op->regions.size(), rows.size()));
    for (size_t i = 0; i < op->regions.size(); ++i) {
      want(op->regions[i]->parent == op, "a region does not know its op");
      const Opcode terminator = i < rows.size() ? rows[i].terminator : Opcode::Yield;
      region(*op, *op->regions[i], terminator);
      op_ = op;
      const Op* end = op->regions[i]->terminator();
      good &= end && end->opcode == terminator;
    }
    return good;
  }

  void region(const Op& owner, const Block& b, Opcode terminator) {
    const bool beside = owner.info().runs_beside();
    if (!owner.info().isolates() && !beside) return block(b, terminator);
    PointerSet outside = std::exchange(defined_, {});
    if (beside)
      outside.for_each([&](const void* pointer) {
        const auto* v = static_cast<const Value*>(pointer);
        if (v->type.is_place() || v->type.is_map() || v->block == &func_.body) defined_.insert(v);
      });
    std::swap(hidden_, outside);
    const int warps = std::exchange(warps_, beside ? int(owner.get(attr::warps)) : warps_);
    good_layouts_.clear();
    block(b, terminator);
    good_layouts_.clear();
    warps_ = warps;
    std::swap(hidden_, outside);
    defined_ = std::move(outside);
  }

  // ---- Types
  static std::string name_of(const Value& v) {
    if (!v.def) return fmt::format("block argument {}", v.index);
    return v.def->results.size() > 1 ? fmt::format("result {}", v.index) : "the result";
  }

  // Most of the verifier's time is spent here, so messages are formatted only when something is wrong.
  void type(const Value& v) {
    const Type& t = v.type;
    auto wrong = [&](const std::string& why) { report(fmt::format("{} {}", name_of(v), why)); };
    int64_t elements = 1;
    for (int64_t extent : t.shape) {
      if (extent <= 0) return wrong(fmt::format("is {}: every extent must be at least 1", t.to_string()));
      elements = std::min(elements * std::min(extent, kMaxElements + 1), kMaxElements + 1);
    }
    if (t.rank() > kMaxRank) return wrong(fmt::format("has rank {}, expected at most {}", t.rank(), kMaxRank));
    if (elements > kMaxElements) return wrong(fmt::format("is {}: more than {} elements", t.to_string(), kMaxElements));
    if (t.is_place() && (t.pointer || t.is_scalar()))
      wrong(fmt::format("is {}: no place in shared memory", t.to_string()));
    if (t.is_map() && (t.pointer || t.is_scalar())) wrong(fmt::format("is {}: no tensor map", t.to_string()));
    if (stage_ < Stage::LaidOut || t.is_scalar() || t.is_map()) {
      if (t.layout)
        wrong(fmt::format("has a layout, expected none {}", t.is_scalar() ? "on a scalar"
                                                            : t.is_map()  ? "on a tensor map"
                                                                          : "before layouts are assigned"));
    } else if (!t.layout) {
      wrong("has no layout");
    } else if (!good_layouts_.contains(t.layout.get()) || t.layout->tile_shape() != t.shape) {
      t.is_place() ? shared_layout(*t.layout, t.shape, name_of(v)) : layout(*t.layout, t.shape, name_of(v));
    }
  }

  void shared_layout(const LinearLayout& l, const Shape& shape, const std::string& what) {
    bool good = l.ins().size() == 1 && l.ins()[0].dim == Dim::Offset && l.tile_shape() == shape && l.is_invertible();
    want(good, [&] {
      return fmt::format("{} has layout {{{}}}: expected offset, one for each element of {}", what, l.to_string(),
                         shape_to_string(shape));
    });
  }

  void layout(const LinearLayout& l, const Shape& shape, const std::string& what) {
    if (!warps_good_) return;
    int warp_bits = std::countr_zero(unsigned(warps_));
    auto wrong = [&](const std::string& why) {
      return report(fmt::format("{} has layout {{{}}}: {}", what, l.to_string(), why));
    };
    std::vector<Dim> ins;
    for (auto& in : l.ins()) ins.push_back(in.dim);
    const int block_bits = std::countr_zero(unsigned(func_.num_ctas()));
    std::vector<Dim> expected = {Dim::Register, Dim::Lane, Dim::Warp};
    if (block_bits && l.in_bits(Dim::Block)) expected.push_back(Dim::Block);
    if (ins != expected) return wrong("expected register, lane, warp");
    if (expected.size() > 3 && l.in_bits(Dim::Block) != block_bits)
      return wrong(fmt::format("{} block bits, expected {} for a cluster of {}", l.in_bits(Dim::Block), block_bits,
                               func_.num_ctas()));
    if (l.in_bits(Dim::Lane) != kLaneBits)
      return wrong(fmt::format("{} lane bits, expected {}", l.in_bits(Dim::Lane), kLaneBits));
    if (l.in_bits(Dim::Warp) != warp_bits)
      return wrong(fmt::format("{} warp bits, expected {} for {} warps", l.in_bits(Dim::Warp), warp_bits, warps_));
    bool sizes = l.outs().size() == shape.size();
    for (size_t i = 0; sizes && i < shape.size(); ++i)
      sizes = l.outs()[i].dim == tile_dim(int(i)) && l.outs()[i].size == shape[i];
    if (!sizes) return wrong(fmt::format("expected the extents {}", shape_to_string(shape)));
    if (!l.is_surjective()) return wrong("it does not reach every element");
    good_layouts_.insert(&l);
  }

  PointerSet defined_;                                    // above this line
  PointerSet hidden_;                                     // defined outside of a region that sees its own values alone
  PointerSet ended_;                                      // of blocks that have ended
  std::unordered_set<const LinearLayout*> good_layouts_;  // many values share one
  int warps_ = 0;                                         // of the region at hand
  bool warps_good_ = true;
};

}  // namespace

bool verify(const Func& func, Stage stage, Diagnostics& diags) { return Verifier(func, stage, diags).run(); }

}  // namespace tegula::ir
