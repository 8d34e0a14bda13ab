// The rules of tile IR.
//
// Function
// - Parameters are scalars; each has a divisibility, a power of two. num_warps is a power of two from 1 to 32,
//   num_stages is at least 1.
// Structure
// - Ops, values and blocks know their parents and indices.
// - An op has as many operands, results and regions as its row says; only optional operands are absent.
// - An operand is defined above its use, in the same block or an enclosing one.
// - A block ends with its terminator, and has it nowhere else: return for the function, condition for region 0 of
// while,
//   yield for every other region.
// - What a terminator passes on has the types of what receives it: block arguments or results, layouts included.
// Types
// - Extents are powers of two, at least 1; a tile has at most 2^20 elements and rank 5.
// - Same: the result has the type of operand 0. Bool: i1 of its shape.
// - Elementwise: operands and results have one shape. The operands of a row with two or more have one type, but for the
//   condition of select (i1) and the offset of addptr (i32 or i64). Arithmetic is not for pointers, though comparisons
//   are; FloatOnly and IntOnly rows want what they say.
// - constant: `value` is an integer for integer elements, in their range (u64: the same 64 bits), a double for floats.
// - arange: i32 of the one extent end - start. program_id, num_programs: i32, axis 0 to 2.
// - cast: neither side is a pointer; `rounding` only from a float to a narrower one. bitcast: same width.
// - splat: from a scalar to a tile. broadcast: same rank, only extents of 1 grow. expand_dims: an extent 1 at `axis`.
//   reshape: as many elements. trans: `order` is a permutation, the shape follows it.
// - reduce: tiles of one shape; results drop `axis`; the region takes two groups of scalars, yields one and holds pure
//   scalar ops alone.
// - dot: M x K, K x N and M x N; a and b of one type; the accumulator is f32 or f16 for f16, f32 for bf16 and f32, f64
//   for f64, i32 for i8 and u8. The result is of the accumulator's type.
// - load, store, atomic_rmw: ptr is a pointer; value, other and result have its element type and shape; mask is i1 of
//   its shape. `other` comes with a mask. Attributes have the values that the op table names.
// - for: lower, upper, step and the induction variable are integer scalars of one type. if: the condition is a scalar
//   i1, two regions without arguments. condition: its first operand is a scalar i1.
// Stage Tile
// - No type has a layout; no convert_layout.
// Stage LaidOut
// - A scalar has no layout; every tile has one from register, lane (5 bits) and warp (log2 num_warps bits) to dim0,
//   dim1, ... of the tile's extents, surjective.
// - Operands and results of elementwise and memory ops share one layout; dot's result and accumulator do.
// - These follow from the operand's layout, up to registers that hold copies: expand_dims (dropping `axis` gives it
//   back), broadcast (with the grown extents held at coordinate 0), reduce (drops `axis`), reshape, trans.

#include "codegen/ir/verifier.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <unordered_set>
#include <utility>

#include "codegen/ir/printer.h"

namespace tegula::ir {

namespace {

constexpr int64_t kMaxElements = int64_t(1) << 20;
constexpr int kMaxRank = 5;
constexpr int kLaneBits = 5;

bool is_power_of_two(int64_t n) { return n > 0 && std::has_single_bit(uint64_t(n)); }

std::string full_type(const Type& t) {
  return t.layout ? fmt::format("{} with layout {{{}}}", t.to_string(), t.layout->to_string()) : t.to_string();
}

// The layout with coordinates along the axes in `held` at 0: what a tile of extent 1 there shows.
LinearLayout hold_axes(const LinearLayout& layout, const std::vector<bool>& held) {
  auto ins = layout.ins();
  auto outs = layout.outs();
  for (size_t axis = 0; axis < held.size() && axis < outs.size(); ++axis) {
    if (!held[axis]) continue;
    outs[axis].size = 1;
    for (auto& in : ins)
      for (auto& basis : in.bases) basis[axis] = 0;
  }
  return LinearLayout(std::move(ins), std::move(outs));
}

bool same_but_copies(const LinearLayout& a, const LinearLayout& b) {
  return a == b || a.remove_zero_registers() == b.remove_zero_registers();
}

struct AttrKind {
  std::string_view operator()(bool) const { return "a bool"; }
  std::string_view operator()(int64_t) const { return "an integer"; }
  std::string_view operator()(double) const { return "a floating-point number"; }
  std::string_view operator()(const std::string&) const { return "a string"; }
  std::string_view operator()(const std::vector<int64_t>&) const { return "a list of integers"; }
};

class Verifier {
 public:
  Verifier(const Func& func, Stage stage, Diagnostics& diags) : func_(func), stage_(stage), diags_(diags) {}

  bool run() {
    function();
    block(func_.body, Opcode::Return);
    return good_;
  }

 private:
  // ---- Reports
  void report(const std::string& message) {
    good_ = false;
    Diag& diag = diags_.error(op_ ? op_->loc : func_.loc, message);
    diag.with_note({}, op_ ? fmt::format("in `{}`", print_line(*op_)) : fmt::format("in function '{}'", func_.name));
  }
  bool want(bool condition, const std::string& message) {
    if (!condition) report(message);
    return condition;
  }
  // Two types that have to be one.
  bool want_same(const Type& found, const Type& expected, std::string_view what) {
    return want(found == expected, fmt::format("{} is {}, expected {}", what, full_type(found), full_type(expected)));
  }
  bool want_same_shape(const Type& found, const Type& expected, std::string_view what) {
    return want(found.shape == expected.shape,
                fmt::format("{} has shape {}, expected {}", what, shape_to_string(found.shape),
                            shape_to_string(expected.shape)));
  }

  // ---- Attributes
  template <class T>
  const T* attr(std::string_view name, bool required = true) {
    auto it = op_->attrs.find(name);
    if (it == op_->attrs.end()) {
      want(!required, fmt::format("attribute '{}' is missing", name));
      return nullptr;
    }
    const T* value = std::get_if<T>(&it->second);
    if (!value)
      report(
          fmt::format("attribute '{}' is {}, expected {}", name, std::visit(AttrKind(), it->second), AttrKind()(T())));
    return value;
  }
  const int64_t* attr_in(std::string_view name, int64_t low, int64_t high) {
    auto* v = attr<int64_t>(name);
    if (!v ||
        want(*v >= low && *v <= high, fmt::format("attribute '{}' is {}, expected {} to {}", name, *v, low, high)))
      return v;
    return nullptr;
  }
  void attr_one_of(std::string_view name, const std::vector<std::string>& choices, bool required = false) {
    auto* v = attr<std::string>(name, required);
    if (v)
      want(std::find(choices.begin(), choices.end(), *v) != choices.end(),
           fmt::format("attribute '{}' is \"{}\", expected {}", name, *v, fmt::join(choices, ", ")));
  }

  // ---- Function
  void function() {
    for (auto& arg : func_.body.args)
      want(arg->type.is_scalar(),
           fmt::format("parameter '{}' is {}, expected a scalar", arg->name, arg->type.to_string()));
    if (want(func_.divisibility.size() == func_.body.args.size(),
             fmt::format("{} divisibilities for {} parameters", func_.divisibility.size(), func_.body.args.size())))
      for (size_t i = 0; i < func_.divisibility.size(); ++i)
        want(is_power_of_two(func_.divisibility[i]),
             fmt::format("the divisibility of parameter '{}' is {}, expected a power of two", func_.body.args[i]->name,
                         func_.divisibility[i]));
    for (const char* name : {"num_warps", "num_stages"}) {
      auto it = func_.attrs.find(name);
      if (it != func_.attrs.end())
        want(std::holds_alternative<int64_t>(it->second),
             fmt::format("attribute '{}' is {}, expected an integer", name, std::visit(AttrKind(), it->second)));
    }
    warps_good_ = want(is_power_of_two(func_.num_warps()) && func_.num_warps() <= 32,
                       fmt::format("num_warps is {}, expected 1, 2, 4, 8, 16 or 32", func_.num_warps()));
    want(func_.num_stages() >= 1, fmt::format("num_stages is {}, expected at least 1", func_.num_stages()));
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
      want(arg.block == &b && !arg.def && arg.index == int(i),
           fmt::format("block argument {} does not know its block and index", i));
      define(&arg);
    }
    const Op* owner = op_;
    for (auto& op : b.ops) {
      op_ = op.get();
      bool last = &op == &b.ops.back();
      want(op->parent == &b, "the op does not know its block");
      if (op->has(Terminator))
        want(last && op->opcode == terminator,
             last ? fmt::format("the block ends with {}, expected {}", op->info().text, op_info(terminator).text)
                  : fmt::format("{} before the end of its block", op->info().text));
      for (size_t i = 0; i < op->results.size(); ++i) {
        const Value& r = *op->results[i];
        want(r.def == op.get() && !r.block && r.index == int(i),
             fmt::format("result {} does not know its op and index", i));
      }
      if (this->operands() && regions()) semantics();
      op_ = op.get();
      for (auto& r : op->results) define(r.get());
    }
    if (b.ops.empty()) op_ = owner;
    if (b.ops.empty() || !b.ops.back()->has(Terminator))
      report(fmt::format("the block does not end with {}", op_info(terminator).text));
    op_ = owner;
    for (const Value* v : local) defined_.erase(v);
  }

  std::string operand_name(size_t i) const {
    const OpInfo& info = op_->info();
    if (i < info.operands.size() && !(info.variadic && i + 1 == info.operands.size()))
      return fmt::format("operand '{}'", info.operands[i]);
    return info.variadic && info.operands.size() == 1
               ? fmt::format("operand {}", i)
               : fmt::format("operand '{}' {}", info.operands.back(), i + 1 - info.operands.size());
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
      bool optional = int(i) >= info.required && !info.variadic;
      if (!v)
        good &= want(optional, fmt::format("{} is absent", operand_name(i)));
      else
        good &= want(defined_.contains(v),
                     fmt::format("{} is not defined above its use in this block or an enclosing one", operand_name(i)));
    }
    if (info.rule == ResultRule::None) good &= want(op_->results.empty(), "results, expected none");
    bool one = info.rule == ResultRule::Same || info.rule == ResultRule::Bool ||
               (info.rule == ResultRule::Given && !op_->has(Control) && op_->opcode != Opcode::Reduce);
    if (one) good &= want(op_->results.size() == 1, fmt::format("{} results, expected 1", op_->results.size()));
    return good;
  }

  // Checks the regions' own contents; then whether there are as many as the op needs.
  bool regions() {
    const Op* op = op_;
    size_t expected = 0;
    switch (op->opcode) {
      case Opcode::Reduce:
      case Opcode::For:
        expected = 1;
        break;
      case Opcode::While:
      case Opcode::If:
        expected = 2;
        break;
      default:
        break;
    }
    bool good =
        want(op->regions.size() == expected, fmt::format("{} regions, expected {}", op->regions.size(), expected));
    for (size_t i = 0; i < op->regions.size(); ++i) {
      want(op->regions[i]->parent == op, "a region does not know its op");
      Opcode terminator = op->opcode == Opcode::While && i == 0 ? Opcode::Condition : Opcode::Yield;
      block(*op->regions[i], terminator);
      op_ = op;
      const Op* end = op->regions[i]->terminator();
      good &= end && end->opcode == terminator;
    }
    return good;
  }

  // ---- Types
  void type(const Value& v) {
    const Type& t = v.type;
    std::string what = v.def ? (v.def->results.size() > 1 ? fmt::format("result {}", v.index) : "the result")
                             : fmt::format("block argument {}", v.index);
    bool extents = true;
    for (int64_t extent : t.shape) extents &= is_power_of_two(extent);
    if (!want(extents, fmt::format("{} is {}: every extent must be a power of two", what, t.to_string()))) return;
    if (!want(t.rank() <= kMaxRank, fmt::format("{} has rank {}, expected at most {}", what, t.rank(), kMaxRank)))
      return;
    int64_t bits = 0;
    for (int64_t extent : t.shape) bits += std::countr_zero(uint64_t(extent));
    if (!want(bits <= 20, fmt::format("{} is {}: more than {} elements", what, t.to_string(), kMaxElements))) return;
    if (stage_ == Stage::Tile || t.is_scalar()) {
      want(!t.layout, fmt::format("{} has a layout, expected none {}", what,
                                  t.is_scalar() ? "on a scalar" : "before layouts are assigned"));
    } else if (want(t.layout != nullptr, fmt::format("{} has no layout", what))) {
      layout(*t.layout, t.shape, what);
    }
  }

  void layout(const LinearLayout& l, const Shape& shape, const std::string& what) {
    if (!warps_good_) return;
    int warp_bits = std::countr_zero(unsigned(func_.num_warps()));
    auto wrong = [&](const std::string& why) {
      return report(fmt::format("{} has layout {{{}}}: {}", what, l.to_string(), why));
    };
    std::vector<Dim> ins;
    for (auto& in : l.ins()) ins.push_back(in.dim);
    if (ins != std::vector<Dim>{Dim::Register, Dim::Lane, Dim::Warp}) return wrong("expected register, lane, warp");
    if (l.in_bits(Dim::Lane) != kLaneBits)
      return wrong(fmt::format("{} lane bits, expected {}", l.in_bits(Dim::Lane), kLaneBits));
    if (l.in_bits(Dim::Warp) != warp_bits)
      return wrong(
          fmt::format("{} warp bits, expected {} for {} warps", l.in_bits(Dim::Warp), warp_bits, func_.num_warps()));
    bool sizes = l.outs().size() == shape.size();
    for (size_t i = 0; sizes && i < shape.size(); ++i)
      sizes = l.outs()[i].dim == tile_dim(int(i)) && l.outs()[i].size == shape[i];
    if (!sizes) return wrong(fmt::format("expected the extents {}", shape_to_string(shape)));
    if (!l.is_surjective()) return wrong("it does not reach every element");
  }

  bool laid_out(const Value* a, const Value* b) const {
    return stage_ == Stage::LaidOut && a->type.layout && b->type.layout;
  }
  // Layouts of operands (from `begin` on) and results are one.
  void one_layout(size_t begin = 0) {
    if (stage_ != Stage::LaidOut) return;
    std::vector<const Value*> values;
    for (size_t i = begin; i < op_->operands.size(); ++i)
      if (op_->operands[i]) values.push_back(op_->operands[i]);
    for (auto& r : op_->results) values.push_back(r.get());
    for (const Value* v : values)
      if (laid_out(values[0], v) && !(*values[0]->type.layout == *v->type.layout))
        return report(fmt::format("operands and results must share one layout, found {{{}}} and {{{}}}",
                                  values[0]->type.layout->to_string(), v->type.layout->to_string()));
  }
  void follows(const LinearLayout& found, const LinearLayout& expected, std::string_view what) {
    want(same_but_copies(found, expected), fmt::format("{} has layout {{{}}}, which does not follow from {{{}}}", what,
                                                       found.to_string(), expected.to_string()));
  }

  const Type& in(int i) const { return op_->operands[i]->type; }
  const Type& out(int i = 0) const { return op_->results[i]->type; }

  void mask(const Value* m, const Type& like, std::string_view what = "the mask") {
    if (!m) return;
    want(m->type.is_bool(), fmt::format("{} is {}, expected i1 elements", what, m->type.to_string()));
    want_same_shape(m->type, like, what);
  }

  void elementwise() {
    for (size_t i = 0; i < op_->operands.size(); ++i) want_same_shape(in(int(i)), out(), operand_name(i));
    one_layout();
    switch (op_->opcode) {
      case Opcode::Select:
        want(in(0).is_bool(), fmt::format("the condition is {}, expected i1 elements", in(0).to_string()));
        for (int i : {1, 2})
          want(in(i).elem == out().elem && in(i).pointer == out().pointer,
               fmt::format("{} is {}, expected the result's type {}", operand_name(i), in(i).to_string(),
                           out().to_string()));
        return;
      case Opcode::AddPtr:
        want(in(0).pointer, fmt::format("operand 'ptr' is {}, expected pointers", in(0).to_string()));
        want(!in(1).pointer && (in(1).elem == Elem::I32 || in(1).elem == Elem::I64),
             fmt::format("operand 'offset' is {}, expected i32 or i64", in(1).to_string()));
        return;
      case Opcode::Cast:
        want(!in(0).pointer && !out().pointer, "cast does not take or give pointers (use bitcast)");
        attr_one_of("rounding", {"rtne", "rtz"});
        if (op_->attrs.contains("rounding"))
          want(in(0).is_float() && out().is_float() && out().bits() < in(0).bits(),
               "attribute 'rounding' is for a float to a narrower float");
        return;
      case Opcode::Bitcast:
        want(in(0).bits() == out().bits(), fmt::format("bitcast of {} bits to {}", in(0).bits(), out().bits()));
        return;
      case Opcode::Hint:
        for (const char* name : {"divisibility", "contiguity", "constancy"}) {
          auto* list = attr<std::vector<int64_t>>(name, false);
          if (!list) continue;
          want(int(list->size()) == std::max(1, out().rank()),
               fmt::format("attribute '{}' has {} numbers, expected one a dimension", name, list->size()));
          for (int64_t n : *list)
            want(n >= 1, fmt::format("attribute '{}' has {}, expected positive numbers", name, n));
        }
        return;
      default:
        break;
    }
    for (size_t i = 0; i < op_->operands.size(); ++i) {
      const Type& t = in(int(i));
      std::string what = operand_name(i);
      if (op_->has(FloatOnly) && !want(t.is_float(), fmt::format("{} is {}, expected floats", what, t.to_string())))
        continue;
      if (op_->has(IntOnly) && !want(t.is_integer(), fmt::format("{} is {}, expected integers", what, t.to_string())))
        continue;
      if (op_->info().rule != ResultRule::Bool &&
          !want(!t.pointer, fmt::format("{} is {}, expected numbers", what, t.to_string())))
        continue;
      if (i)
        want(t.elem == in(0).elem && t.pointer == in(0).pointer,
             fmt::format("{} is {}, expected the type of {}, {}", what, t.to_string(), operand_name(0),
                         in(0).to_string()));
    }
    if (op_->opcode == Opcode::Minimum || op_->opcode == Opcode::Maximum) attr<bool>("nan", false);
  }

  void constant() {
    if (!want(!out().pointer, "a constant is a number, not a pointer")) return;
    if (out().is_float()) {
      attr<double>("value");
    } else if (auto* v = attr<int64_t>("value")) {
      int bits = out().bits();
      if (bits == 64) return;
      int64_t low = is_signed(out().elem) ? -(int64_t(1) << (bits - 1)) : 0;
      int64_t high = low + (int64_t(1) << bits) - 1;
      want(*v >= low && *v <= high,
           fmt::format("{} does not fit {}: expected {} to {}", *v, elem_info(out().elem).text, low, high));
    }
  }

  void shape_op() {
    const Type &x = in(0), &r = out();
    want(x.elem == r.elem && x.pointer == r.pointer,
         fmt::format("the result is {}, expected elements of {}", r.to_string(), x.element().to_string()));
    if (op_->opcode == Opcode::Splat) {
      want(x.is_scalar(), fmt::format("operand 'x' is {}, expected a scalar", x.to_string()));
      want(r.is_tile(), fmt::format("the result is {}, expected a tile", r.to_string()));
      return;
    }
    if (!want(x.is_tile(), fmt::format("operand 'x' is {}, expected a tile", x.to_string()))) return;
    std::optional<LinearLayout> follow;
    const LinearLayout* source = laid_out(op_->operands[0], op_->result()) ? x.layout.get() : nullptr;
    switch (op_->opcode) {
      case Opcode::Broadcast: {
        bool good = x.rank() == r.rank();
        std::vector<bool> held;
        for (int i = 0; good && i < x.rank(); ++i) {
          good = x.shape[i] == r.shape[i] || x.shape[i] == 1;
          held.push_back(x.shape[i] != r.shape[i]);
        }
        if (!want(good, fmt::format("broadcast of {} to {}: the ranks must be equal and only extents of 1 may grow",
                                    shape_to_string(x.shape), shape_to_string(r.shape))))
          return;
        if (source) follows(*source, hold_axes(*r.layout, held), "operand 'x'");
        return;
      }
      case Opcode::ExpandDims: {
        auto* axis = attr_in("axis", 0, x.rank());
        if (!axis) return;
        Shape shape = x.shape;
        shape.insert(shape.begin() + *axis, 1);
        if (!want(r.shape == shape, fmt::format("the result has shape {}, expected {}", shape_to_string(r.shape),
                                                shape_to_string(shape))))
          return;
        if (source) follows(*source, r.layout->drop_tile_dim(int(*axis)), "operand 'x'");
        return;
      }
      case Opcode::Reshape:
        if (want(x.num_elements() == r.num_elements() && r.is_tile(),
                 fmt::format("reshape of {} elements to {}", x.num_elements(), r.num_elements())) &&
            source)
          follow = source->reshape_tile(r.shape);
        break;
      case Opcode::Trans: {
        auto* order = attr<std::vector<int64_t>>("order");
        if (!order) return;
        std::vector<int64_t> sorted = *order;
        std::sort(sorted.begin(), sorted.end());
        bool permutation = int(sorted.size()) == x.rank();
        for (size_t i = 0; permutation && i < sorted.size(); ++i) permutation = sorted[i] == int64_t(i);
        if (!want(permutation, fmt::format("attribute 'order' is {}, expected a permutation of {} dimensions",
                                           shape_to_string(*order), x.rank())))
          return;
        Shape shape;
        for (int64_t from : *order) shape.push_back(x.shape[from]);
        if (want(r.shape == shape, fmt::format("the result has shape {}, expected {}", shape_to_string(r.shape),
                                               shape_to_string(shape))) &&
            source)
          follow = source->permute_tile(std::vector<int>(order->begin(), order->end()));
        break;
      }
      default:
        break;
    }
    if (follow) follows(*r.layout, *follow, "the result");
  }

  void reduce() {
    size_t n = op_->operands.size();
    if (!want(n > 0, "reduce without operands")) return;
    if (!want(op_->results.size() == n, fmt::format("{} results for {} operands", op_->results.size(), n))) return;
    if (!want(in(0).is_tile(), fmt::format("operand 0 is {}, expected a tile", in(0).to_string()))) return;
    auto* axis = attr_in("axis", 0, in(0).rank() - 1);
    if (!axis) return;
    Shape shape = in(0).shape;
    shape.erase(shape.begin() + *axis);
    const Block& region = *op_->regions[0];
    bool args = want(region.args.size() == 2 * n,
                     fmt::format("the region takes {} values, expected {}", region.args.size(), 2 * n));
    for (size_t i = 0; i < n; ++i) {
      Type element = in(int(i)).element();
      element.layout = nullptr;
      want_same_shape(in(int(i)), in(0), fmt::format("operand {}", i));
      if (laid_out(op_->operands[0], op_->operands[i]))
        want(*in(0).layout == *in(int(i)).layout, "the operands must share one layout");
      want(out(int(i)).same_shape_and_elem(Type{element.elem, element.pointer, shape, nullptr}),
           fmt::format("result {} is {}, expected {} of shape {}", i, out(int(i)).to_string(), element.to_string(),
                       shape_to_string(shape)));
      if (laid_out(op_->operands[i], op_->result(int(i))) && out(int(i)).shape == shape)
        follows(*out(int(i)).layout, in(int(i)).layout->drop_tile_dim(int(*axis)), fmt::format("result {}", i));
      for (size_t side = 0; args && side < 2; ++side)
        want_same(region.args[side * n + i]->type, element, fmt::format("the region's argument {}", side * n + i));
    }
    std::vector<Type> elements;
    for (size_t i = 0; i < n; ++i) elements.push_back(in(int(i)).element());
    for (Type& t : elements) t.layout = nullptr;
    passes_on(*region.terminator(), 0, elements, "the region's value");
    const Op* op = op_;
    walk(region, [&](const Op& inner) {
      bool scalar = inner.has(Pure) || inner.has(Terminator);
      for (auto& r : inner.results) scalar &= r->type.is_scalar();
      op_ = &inner;
      want(scalar, "a reduction's region holds pure scalar ops alone");
    });
    op_ = op;
  }

  void dot() {
    const Type &a = in(0), &b = in(1), &acc = in(2);
    if (want(a.rank() == 2 && b.rank() == 2 && acc.rank() == 2, "dot wants tiles of rank 2"))
      want(a.shape[0] == acc.shape[0] && a.shape[1] == b.shape[0] && b.shape[1] == acc.shape[1],
           fmt::format("dot of {} and {} into {}: expected M x K, K x N, M x N", shape_to_string(a.shape),
                       shape_to_string(b.shape), shape_to_string(acc.shape)));
    want(a.elem == b.elem && !a.pointer && !b.pointer,
         fmt::format("operand 'b' is {}, expected elements as of 'a', {}", b.to_string(), a.to_string()));
    std::vector<Elem> allowed;
    switch (a.elem) {
      case Elem::F16:
        allowed = {Elem::F32, Elem::F16};
        break;
      case Elem::BF16:
      case Elem::F32:
        allowed = {Elem::F32};
        break;
      case Elem::F64:
        allowed = {Elem::F64};
        break;
      case Elem::I8:
      case Elem::U8:
        allowed = {Elem::I32};
        break;
      default:
        report(fmt::format("dot of {}, expected f16, bf16, f32, f64, i8 or u8", elem_info(a.elem).text));
        break;
    }
    if (!allowed.empty())
      want(std::find(allowed.begin(), allowed.end(), acc.elem) != allowed.end() && !acc.pointer,
           fmt::format("operand 'acc' is {}, expected elements {}", acc.to_string(), elem_info(allowed[0]).text));
    want_same(out(), acc, "the result");
  }

  void memory() {
    const Type& ptr = in(0);
    if (!want(ptr.pointer, fmt::format("operand 'ptr' is {}, expected pointers", ptr.to_string()))) return;
    Type value{ptr.elem, false, ptr.shape, nullptr};
    auto is_value = [&](const Type& t, std::string_view what) {
      want(t.same_shape_and_elem(value), fmt::format("{} is {}, expected {}", what, t.to_string(), value.to_string()));
    };
    one_layout();
    switch (op_->opcode) {
      case Opcode::Load:
        mask(op_->operand(1), ptr);
        if (op_->operand(2)) {
          is_value(in(2), "operand 'other'");
          want(op_->operand(1), "operand 'other' without a mask");
        }
        is_value(out(), "the result");
        attr_one_of("cache", {".ca", ".cg", ".cs", ".cv"});
        attr_one_of("evict", {"evict_first", "evict_last", "evict_normal"});
        attr<bool>("volatile", false);
        break;
      case Opcode::Store:
        is_value(in(1), "operand 'value'");
        mask(op_->operand(2), ptr);
        attr_one_of("cache", {".wb", ".cg", ".cs", ".wt"});
        attr_one_of("evict", {"evict_first", "evict_last", "evict_normal"});
        break;
      default:
        is_value(in(1), "operand 'value'");
        mask(op_->operand(2), ptr);
        is_value(out(), "the result");
        attr<std::string>("kind");
        attr_one_of("sem", {"relaxed", "acquire", "release", "acq_rel"});
        attr_one_of("scope", {"cta", "gpu", "sys"});
    }
  }

  // `from` passes on its operands from `begin` on, which have these types.
  void passes_on(const Op& from, size_t begin, const std::vector<Type>& types, std::string_view what) {
    const Op* op = std::exchange(op_, &from);
    size_t count = from.operands.size() < begin ? 0 : from.operands.size() - begin;
    if (want(count == types.size(),
             fmt::format("{} passes on {} values, expected {}", from.info().text, count, types.size())))
      for (size_t i = 0; i < count; ++i)
        if (const Value* v = from.operands[begin + i]) want_same(v->type, types[i], fmt::format("{} {}", what, i));
    op_ = op;
  }
  static std::vector<Type> types_of(const std::vector<std::unique_ptr<Value>>& values, size_t begin = 0) {
    std::vector<Type> types;
    for (size_t i = begin; i < values.size(); ++i) types.push_back(values[i]->type);
    return types;
  }

  void for_loop() {
    const Block& body = *op_->regions[0];
    for (int i = 0; i < 3; ++i) {
      want(in(i).is_scalar() && in(i).is_integer() && !in(i).is_bool(),
           fmt::format("{} is {}, expected a scalar integer", operand_name(i), in(i).to_string()));
      want(in(i) == in(0), fmt::format("{} is {}, expected the type of 'lower', {}", operand_name(i), in(i).to_string(),
                                       in(0).to_string()));
    }
    size_t carried = op_->operands.size() - 3;
    if (want(body.args.size() == carried + 1,
             fmt::format("the body takes {} values, expected the induction variable and {} carried ones",
                         body.args.size(), carried))) {
      want_same(body.args[0]->type, in(0), "the induction variable");
      passes_on(*op_, 3, types_of(body.args, 1), "initial value");
    }
    passes_on(*op_, 3, types_of(op_->results), "initial value for result");
    passes_on(*body.terminator(), 0, types_of(op_->results), "yielded value");
    if (auto* stages = attr<int64_t>("num_stages", false))
      want(*stages >= 1, fmt::format("num_stages is {}, expected at least 1", *stages));
  }

  void while_loop() {
    const Block &before = *op_->regions[0], &after = *op_->regions[1];
    passes_on(*op_, 0, types_of(before.args), "initial value");
    passes_on(*before.terminator(), 1, types_of(after.args), "value for the body");
    passes_on(*before.terminator(), 1, types_of(op_->results), "value for the result");
    passes_on(*after.terminator(), 0, types_of(before.args), "yielded value");
  }

  void semantics() {
    const Op& op = *op_;
    if (op.info().rule == ResultRule::Same) want_same(out(), in(0), "the result");
    if (op.info().rule == ResultRule::Bool) want_same(out(), in(0).with_elem(Elem::I1), "the result");
    if (op.has(Elementwise)) return elementwise();
    switch (op.opcode) {
      case Opcode::Constant:
        return constant();
      case Opcode::ProgramId:
      case Opcode::NumPrograms:
        attr_in("axis", 0, 2);
        want_same(out(), Type::scalar(Elem::I32), "the result");
        return;
      case Opcode::Arange: {
        auto *start = attr_in("start", INT32_MIN, INT32_MAX), *end = attr_in("end", INT32_MIN, INT32_MAX);
        if (start && end)
          want(out().same_shape_and_elem(Type::tile(Elem::I32, {*end - *start})),
               fmt::format("the result is {}, expected tile<{}xi32>", out().to_string(), *end - *start));
        return;
      }
      case Opcode::Splat:
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
      case Opcode::Trans:
        return shape_op();
      case Opcode::Reduce:
        return reduce();
      case Opcode::Dot:
        return dot();
      case Opcode::Load:
      case Opcode::Store:
      case Opcode::AtomicRmw:
        return memory();
      case Opcode::For:
        return for_loop();
      case Opcode::While:
        return while_loop();
      case Opcode::If:
        want(in(0) == Type::scalar(Elem::I1),
             fmt::format("the condition is {}, expected a scalar i1", in(0).to_string()));
        for (auto& region : op.regions) {
          want(region->args.empty(), "a region of if takes no arguments");
          passes_on(*region->terminator(), 0, types_of(op.results), "yielded value");
        }
        return;
      case Opcode::Condition:
        want(in(0) == Type::scalar(Elem::I1),
             fmt::format("the condition is {}, expected a scalar i1", in(0).to_string()));
        return;
      case Opcode::ConvertLayout:
        if (want(stage_ == Stage::LaidOut, "convert_layout before layouts are assigned"))
          want(in(0).same_shape_and_elem(out()) && in(0).is_tile(),
               fmt::format("the result is {}, expected the operand's type {}", out().to_string(), in(0).to_string()));
        return;
      default:
        return;
    }
  }

  const Func& func_;
  Stage stage_;
  Diagnostics& diags_;
  const Op* op_ = nullptr;  // the op being checked; null: the function
  std::unordered_set<const Value*> defined_;
  bool warps_good_ = true;
  bool good_ = true;
};

}  // namespace

bool verify(const Func& func, Stage stage, Diagnostics& diags) { return Verifier(func, stage, diags).run(); }

}  // namespace tegula::ir
