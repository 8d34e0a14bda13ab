#include "codegen/ir/op_rules.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "codegen/ir/flow.h"
#include "codegen/ir/libdevice.h"
#include "codegen/ir/printer.h"
#include "codegen/layout/axis_order.h"

namespace tegula::ir {

namespace {

std::string full_type(const Type& t) {
  return t.layout ? fmt::format("{} with layout {{{}}}", t.to_string(), t.layout->to_string()) : t.to_string();
}

// The layout with the coordinates along the axes in `held` set to 0: how a tile with extent 1 along them looks.
LinearLayout hold_axes(LinearLayout layout, const std::vector<bool>& held) {
  for (size_t axis = 0; axis < held.size() && axis < layout.outs().size(); ++axis)
    if (held[axis]) layout = layout.hold_tile_dim(int(axis));
  return layout;
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

}  // namespace

std::string_view attr_kind(const Attr& attr) { return std::visit(AttrKind(), attr); }

Diag& OpRules::diagnose(const std::string& message) {
  good_ = false;
  Diag& diag = diags_.error(op_ ? op_->loc : func_.loc, message);
  diag.with_note({}, op_ ? fmt::format("in `{}`", print_line(*op_)) : fmt::format("in function '{}'", func_.name));
  return diag;
}

bool OpRules::want_same(const Type& found, const Type& expected, std::string_view what) {
  return found == expected ||
         want(false, fmt::format("{} is {}, expected {}", what, full_type(found), full_type(expected)));
}

bool OpRules::want_same_shape(const Type& found, const Type& expected, std::string_view what) {
  return found.shape == expected.shape ||
         want(false, fmt::format("{} has shape {}, expected {}", what, shape_to_string(found.shape),
                                 shape_to_string(expected.shape)));
}

namespace {

// Why a value of the attribute's type is not allowed; empty if it is.
std::string out_of_limits(const AttrInfo& row, const Attr& value) {
  auto text = [&] {
    if (row.low == INT64_MIN && row.high == INT64_MAX) return std::string();
    return row.high == INT64_MAX ? fmt::format("at least {}", row.low) : fmt::format("{} to {}", row.low, row.high);
  };
  auto inside = [&](int64_t n) { return row.low <= n && n <= row.high; };
  if (const auto* n = std::get_if<int64_t>(&value); n && !inside(*n))
    return fmt::format("attribute '{}' is {}, expected {}", row.name, *n, text());
  if (const auto* list = std::get_if<Ints>(&value))
    for (int64_t n : *list)
      if (!inside(n)) return fmt::format("attribute '{}' has {}, expected {}", row.name, n, text());
  const auto* word = std::get_if<std::string>(&value);
  if (word && !row.choices.empty() && std::find(row.choices.begin(), row.choices.end(), *word) == row.choices.end())
    return fmt::format("attribute '{}' is \"{}\", expected {}", row.name, *word, fmt::join(row.choices, ", "));
  return {};
}

}  // namespace

bool OpRules::attributes() {
  bool good = true;
  const OpInfo& info = op_->info();
  for (auto& [name, value] : op_->attrs) {
    const AttrInfo* row = info.attr(name);
    if (!row) {
      std::vector<std::string> names;
      for (const AttrInfo& known : info.attrs) names.emplace_back(known.name);
      Diag& diag = diagnose(fmt::format("{} has no attribute '{}'", info.text, name));
      if (auto near = nearest_name(name, names)) diag.with_hint(fmt::format("did you mean '{}'?", *near));
      good = false;
      continue;
    }
    const bool typed = row->number ? std::holds_alternative<int64_t>(value) || std::holds_alternative<double>(value)
                                   : row->fallback.index() == value.index();
    if (!typed) {
      good = want(false, fmt::format("attribute '{}' is {}, expected {}", name, attr_kind(value),
                                     row->number ? "a number" : attr_kind(row->fallback)));
      continue;
    }
    std::string wrong = out_of_limits(*row, value);
    good &= want(wrong.empty(), wrong);
  }
  for (const AttrInfo& row : info.attrs)
    if (row.required && !op_->attrs.contains(row.name))
      good = want(false, fmt::format("attribute '{}' is missing", row.name));
  return good;
}

std::optional<int> OpRules::axis_below(int count) {
  const int64_t axis = op_->get(attr::axis);
  if (!want(axis >= 0 && axis < count,
            [&] { return fmt::format("attribute 'axis' is {}, expected 0 to {}", axis, count - 1); }))
    return std::nullopt;
  return int(axis);
}

std::string OpRules::operand_name(size_t i) const {
  const OpInfo& info = op_->info();
  if (i < info.operands.size() && !(info.variadic && i + 1 == info.operands.size()))
    return fmt::format("operand '{}'", info.operands[i]);
  return info.variadic && info.operands.size() == 1
             ? fmt::format("operand {}", i)
             : fmt::format("operand '{}' {}", info.operands.back(), i + 1 - info.operands.size());
}

bool OpRules::laid_out(const Value* a, const Value* b) const {
  return stage_ >= Stage::LaidOut && a->type.layout && b->type.layout;
}

void OpRules::one_layout(size_t begin) {
  if (stage_ < Stage::LaidOut) return;
  std::vector<const Value*> values;
  for (size_t i = begin; i < op_->operands.size(); ++i)
    if (op_->operands[i]) values.push_back(op_->operands[i]);
  for (auto& r : op_->results) values.push_back(r.get());
  for (const Value* v : values)
    if (laid_out(values[0], v) && !(*values[0]->type.layout == *v->type.layout))
      return report(fmt::format("operands and results must share one layout, found {{{}}} and {{{}}}",
                                values[0]->type.layout->to_string(), v->type.layout->to_string()));
}

void OpRules::follows(const LinearLayout& found, const LinearLayout& expected, std::string_view what) {
  if (same_but_copies(found, expected)) return;
  report(fmt::format("{} has layout {{{}}}, which does not follow from {{{}}}", what, found.to_string(),
                     expected.to_string()));
}

const Type& OpRules::in(int i) const { return op_->operands[i]->type; }

const Type& OpRules::out(int i) const { return op_->results[i]->type; }

void OpRules::mask(const Value* m, const Type& like, std::string_view what) {
  if (!m) return;
  if (!m->type.is_bool()) report(fmt::format("{} is {}, expected i1 elements", what, m->type.to_string()));
  want_same_shape(m->type, like, what);
}

void OpRules::elementwise() {
  for (size_t i = 0; i < op_->operands.size(); ++i)
    if (in(int(i)).shape != out().shape) want_same_shape(in(int(i)), out(), operand_name(i));
  one_layout();
  switch (op_->opcode) {
    case Opcode::Select:
      want(in(0).is_bool(),
           [&] { return fmt::format("the condition is {}, expected i1 elements", in(0).to_string()); });
      for (int i : {1, 2})
        want(in(i).elem == out().elem && in(i).pointer == out().pointer, [&] {
          return fmt::format("{} is {}, expected the result's type {}", operand_name(i), in(i).to_string(),
                             out().to_string());
        });
      return;
    case Opcode::InlineAsm:
    case Opcode::InlineAsmEffects:
      return inline_asm();
    case Opcode::Libdevice:
      return libdevice();
    case Opcode::AddPtr:
      if (!in(0).pointer) report(fmt::format("operand 'ptr' is {}, expected pointers", in(0).to_string()));
      if (in(1).pointer || (in(1).elem != Elem::I32 && in(1).elem != Elem::I64))
        report(fmt::format("operand 'offset' is {}, expected i32 or i64", in(1).to_string()));
      return;
    case Opcode::Cast:
      want(!in(0).pointer && !out().pointer, "cast does not take or give pointers (use bitcast)");
      if (op_->has(attr::rounding))
        want(in(0).is_float() && out().is_float() && out().bits() < in(0).bits(),
             "attribute 'rounding' is for a float to a narrower float");
      if (is_float8(out().elem)) want(op_->get(attr::rounding) != "rtz", "casts to f8 round to nearest");
      return;
    case Opcode::Bitcast:
      want(in(0).bits() == out().bits(),
           [&] { return fmt::format("bitcast of {} bits to {}", in(0).bits(), out().bits()); });
      return;
    case Opcode::Hint:
      for (auto key : {attr::divisibility, attr::contiguity, attr::constancy})
        if (op_->has(key))
          want(int(op_->get(key).size()) == std::max(1, out().rank()), [&] {
            return fmt::format("attribute '{}' has {} numbers, expected one a dimension", key.name,
                               op_->get(key).size());
          });
      if (op_->get(attr::non_negative))
        want(out().is_integer(),
             [&] { return fmt::format("the result is {}, expected integers for 'non_negative'", out().to_string()); });
      return;
    default:
      break;
  }
  for (size_t i = 0; i < op_->operands.size(); ++i) {
    const Type& t = in(int(i));
    auto wrong = [&](std::string_view why) {
      report(fmt::format("{} is {}, {}", operand_name(i), t.to_string(), why));
    };
    if (op_->has(FloatOnly) && !t.is_float())
      wrong("expected floats");
    else if (op_->has(IntOnly) && !t.is_integer())
      wrong("expected integers");
    else if (!t.pointer && is_float8(t.elem))
      wrong("which has no arithmetic");
    else if (op_->info().rule != ResultRule::Bool && t.pointer)
      wrong("expected numbers");
    else if (t.elem != in(0).elem || t.pointer != in(0).pointer)
      wrong(fmt::format("expected the type of {}, {}", operand_name(0), in(0).to_string()));
  }
}

void OpRules::inline_asm() {
  const int64_t pack = op_->get(attr::pack);
  const std::string constraints = op_->get(attr::constraints);
  want((pack & (pack - 1)) == 0, [&] { return fmt::format("attribute 'pack' is {}, expected a power of two", pack); });
  int64_t results = 0, arguments = 0;
  for (const auto& r : op_->results) results += pack / elements_of_register(r->type, pack);
  for (const Value* x : op_->operands) arguments += pack / elements_of_register(x->type, pack);
  const AsmOperands found = asm_operands(constraints);
  want(found.results == results && found.arguments == arguments, [&] {
    return fmt::format("the constraints '{}' name {} results and {} arguments, expected {} and {}", constraints,
                       found.results, found.arguments, results, arguments);
  });
}

void OpRules::libdevice() {
  const std::string name = op_->get(attr::function);
  std::vector<Elem> elems;
  for (size_t i = 0; i < op_->operands.size(); ++i) {
    elems.push_back(in(int(i)).elem);
    want(!in(int(i)).pointer,
         [&] { return fmt::format("{} is {}, expected numbers", operand_name(i), in(int(i)).to_string()); });
  }
  if (!want(!libdevice_functions(name).empty(),
            [&] { return fmt::format("there is no function '{}' in libdevice.def", name); }))
    return;
  const LibdeviceFunction* f = find_libdevice(name, elems);
  if (want(f, [&] { return fmt::format("libdevice.def has no function '{}' of such operands", name); }))
    want(out() == in(0).with_elem(f->result) || out().to_string() == in(0).with_elem(f->result).to_string(), [&] {
      return fmt::format("the result is {}, expected {}", out().to_string(), in(0).with_elem(f->result).to_string());
    });
}

void OpRules::constant() {
  if (!want(!out().pointer, "a constant is a number, not a pointer")) return;
  const Attr value = op_->get(attr::value);
  if (value.index() != (out().is_float() ? Attr(0.0) : Attr(int64_t(0))).index()) {
    report(fmt::format("attribute 'value' is {}, expected {}", attr_kind(value),
                       out().is_float() ? "a floating-point number" : "an integer"));
  } else if (auto* v = std::get_if<int64_t>(&value)) {
    int bits = out().bits();
    if (bits == 64) return;
    int64_t low = is_signed(out().elem) ? -(int64_t(1) << (bits - 1)) : 0;
    int64_t high = low + (int64_t(1) << bits) - 1;
    want(*v >= low && *v <= high, [&] {
      return fmt::format("{} does not fit {}: expected {} to {}", *v, elem_info(out().elem).text, low, high);
    });
  }
}

void OpRules::shape_op() {
  const Type &x = in(0), &r = out();
  if (x.elem != r.elem || x.pointer != r.pointer)
    report(fmt::format("the result is {}, expected elements of {}", r.to_string(), x.element().to_string()));
  if (op_->opcode == Opcode::Splat) {
    if (!x.is_scalar()) report(fmt::format("operand 'x' is {}, expected a scalar", x.to_string()));
    if (!r.is_tile()) report(fmt::format("the result is {}, expected a tile", r.to_string()));
    return;
  }
  const bool place = op_->opcode == Opcode::Trans && x.is_place() && r.is_place();
  if (!x.is_tile() && !place) return report(fmt::format("operand 'x' is {}, expected a tile", x.to_string()));
  const LinearLayout* source = laid_out(op_->operands[0], op_->result()) ? x.layout.get() : nullptr;
  switch (op_->opcode) {
    case Opcode::Broadcast:
      return broadcast(source);
    case Opcode::ExpandDims:
      return expand_dims(source);
    case Opcode::Trans:
      return trans(source);
    default:
      if (want(x.num_elements() == r.num_elements() && r.is_tile(),
               [&] { return fmt::format("reshape of {} elements to {}", x.num_elements(), r.num_elements()); }) &&
          source && r.layout->reshape_tile(x.shape))
        if (const auto follow = source->reshape_tile(r.shape)) follows(*r.layout, *follow, "the result");
  }
}

void OpRules::broadcast(const LinearLayout* source) {
  const Type &x = in(0), &r = out();
  bool good = x.rank() == r.rank();
  std::vector<bool> held;
  for (int i = 0; good && i < x.rank(); ++i) {
    good = x.shape[i] == r.shape[i] || x.shape[i] == 1;
    held.push_back(x.shape[i] != r.shape[i]);
  }
  if (!good)
    return report(fmt::format("broadcast of {} to {}: the ranks must be equal and only extents of 1 may grow",
                              shape_to_string(x.shape), shape_to_string(r.shape)));
  if (source) follows(*source, hold_axes(*r.layout, held), "operand 'x'");
}

void OpRules::expand_dims(const LinearLayout* source) {
  const Type &x = in(0), &r = out();
  auto axis = axis_below(x.rank() + 1);
  if (!axis) return;
  Shape shape = x.shape;
  shape.insert(shape.begin() + *axis, 1);
  if (r.shape != shape)
    return report(
        fmt::format("the result has shape {}, expected {}", shape_to_string(r.shape), shape_to_string(shape)));
  if (source) follows(*source, r.layout->drop_tile_dim(*axis), "operand 'x'");
}

void OpRules::trans(const LinearLayout* source) {
  const Type &x = in(0), &r = out();
  const Ints order = op_->get(attr::order);
  Ints sorted = order;
  std::sort(sorted.begin(), sorted.end());
  bool permutation = int(sorted.size()) == x.rank();
  for (size_t i = 0; permutation && i < sorted.size(); ++i) permutation = sorted[i] == int64_t(i);
  if (!want(permutation, [&] {
        return fmt::format("attribute 'order' is {}, expected a permutation of {} dimensions", shape_to_string(order),
                           x.rank());
      }))
    return;
  Shape shape;
  for (int64_t from : order) shape.push_back(x.shape[from]);
  if (want(r.shape == shape,
           [&] {
             return fmt::format("the result has shape {}, expected {}", shape_to_string(r.shape),
                                shape_to_string(shape));
           }) &&
      source)
    follows(*r.layout, source->permute_tile(std::vector<int>(order.begin(), order.end())), "the result");
}

void OpRules::passes_on(const Op& from, size_t begin, const std::vector<Type>& types, std::string_view what) {
  const Op* op = std::exchange(op_, &from);
  size_t count = from.operands.size() < begin ? 0 : from.operands.size() - begin;
  if (want(count == types.size(),
           [&] { return fmt::format("{} passes on {} values, expected {}", from.info().text, count, types.size()); }))
    for (size_t i = 0; i < count; ++i)
      if (const Value* v = from.operands[begin + i]) want_same(v->type, types[i], fmt::format("{} {}", what, i));
  op_ = op;
}

std::vector<Type> OpRules::types_of(const std::vector<std::unique_ptr<Value>>& values, size_t begin) {
  std::vector<Type> types;
  for (size_t i = begin; i < values.size(); ++i) types.push_back(values[i]->type);
  return types;
}

void OpRules::flow() {
  for (const Flow& flow : flows(*op_)) {
    const Flow::To& last = flow.to.back();
    for (const Flow::To& to : flow.to) {
      if (!want(to.size() == last.size(),
                [&] { return fmt::format("{}: {} take values, expected {}", to.what, to.size(), last.size()); }))
        return;
      for (size_t i = 0; i < to.size(); ++i)
        want_same(to[i]->type, last[i]->type, fmt::format("number {} of {}", i, to.what));
    }
    for (const Flow::From& from : flow.from)
      passes_on(*from.op, from.first, types_of(*last.values, last.first), from.what);
  }
}

void OpRules::for_loop() {
  const ForLoop loop(*op_);
  const std::vector<Value*> bounds = loop.bounds();
  for (size_t i = 0; i < bounds.size(); ++i) {
    const Type& bound = bounds[i]->type;
    want(bound.is_scalar() && bound.is_integer() && !bound.is_bool(),
         [&] { return fmt::format("{} is {}, expected a scalar integer", operand_name(i), bound.to_string()); });
    want(bound == loop.lower()->type, [&] {
      return fmt::format("{} is {}, expected the type of 'lower', {}", operand_name(i), bound.to_string(),
                         loop.lower()->type.to_string());
    });
  }
  if (want(!loop.body().args.empty(), "the body takes no values, expected the induction variable"))
    want_same(loop.induction()->type, loop.lower()->type, "the induction variable");
}

void OpRules::types_of_results() {
  const Op& op = *op_;
  if (op.info().rule == ResultRule::Same) want_same(out(), in(0), "the result");
  if (op.info().rule == ResultRule::Bool) want_same(out(), in(0).with_elem(Elem::I1), "the result");
  if (op.info().rule == ResultRule::EachSame)
    for (size_t i = 0; i < op.results.size(); ++i) want_same(out(int(i)), in(int(i)), fmt::format("result {}", i));
}

void OpRules::arange() {
  const int64_t extent = op_->get(attr::end) - op_->get(attr::start);
  want(out().same_shape_and_elem(Type::tile(Elem::I32, {extent})),
       [&] { return fmt::format("the result is {}, expected tile<{}xi32>", out().to_string(), extent); });
}

void OpRules::product_wait() {
  want(in(0).is_tile() && out().same_shape_and_elem(in(0).with_kind(out().kind)), [&] {
    return fmt::format("the result is {}, expected the tile {}, in flight or not", out().to_string(),
                       in(0).to_string());
  });
  one_layout();
}

void OpRules::condition() {
  want(in(0) == Type::scalar(Elem::I1),
       [&] { return fmt::format("the condition is {}, expected a scalar i1", in(0).to_string()); });
}

void OpRules::convert_layout() {
  if (want(stage_ >= Stage::LaidOut, "convert_layout before layouts are assigned"))
    want(in(0).same_shape_and_elem(out()) && in(0).is_tile(), [&] {
      return fmt::format("the result is {}, expected the operand's type {}", out().to_string(), in(0).to_string());
    });
}

void OpRules::semantics() {
  const Op& op = *op_;
  types_of_results();
  if (op.has(Control)) flow();
  if (op.info().combines()) combine();
  if (op.info().combines_in_order() && in(0).layout && op.get(attr::axis) >= 0 && op.get(attr::axis) < in(0).rank())
    want(axis_order(*in(0).layout, int(op.get(attr::axis))).has_value(), [&] {
      return fmt::format("layout {{{}}} has the elements along dimension {} in another order than a scan needs",
                         in(0).layout->to_string(), op.get(attr::axis));
    });
  if (op.has(Elementwise)) return elementwise();
  switch (op.opcode) {
    case Opcode::Constant:
      return constant();
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
    case Opcode::BlockId:
    case Opcode::GroupId:
      want_same(out(), Type::scalar(Elem::I32), "the result");
      return;
    case Opcode::Arange:
      return arange();
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Reshape:
    case Opcode::Trans:
      return shape_op();
    case Opcode::Reduce:
      return reduce();
    case Opcode::ExchangeBlocks:
      return exchange_blocks();
    case Opcode::Sort:
      return sort();
    case Opcode::Gather:
      return gather();
    case Opcode::Histogram:
      return histogram();
    case Opcode::MapElementwise:
      return map_elementwise();
    case Opcode::Dot:
    case Opcode::MmaStart:
      return dot();
    case Opcode::MmaWait:
      return product_wait();
    case Opcode::Load:
    case Opcode::Store:
    case Opcode::AtomicRmw:
      return memory();
    case Opcode::SharedAlloc:
    case Opcode::SharedFree:
    case Opcode::SharedSlot:
      return allocation();
    case Opcode::PhaseArrive:
    case Opcode::PhaseWait:
    case Opcode::TurnPass:
      return barriers();
    case Opcode::AsyncCopy:
      return async_copy();
    case Opcode::AsyncCommit:
      return async_commit();
    case Opcode::SharedStore:
    case Opcode::SharedRead:
    case Opcode::SharedTranspose:
    case Opcode::ThreadStore:
    case Opcode::ThreadRead:
      return shared_memory();
    case Opcode::TensorMap:
      return tensor_map();
    case Opcode::BulkCopy:
      return bulk_copy();
    case Opcode::BulkStore:
      return bulk_store();
    case Opcode::AsyncWait:
      return async_wait();
    case Opcode::CopyWarps:
      return copy_warps();
    case Opcode::For:
      return for_loop();
    case Opcode::If:
      condition();
      for (auto& region : op.regions) want(region->args.empty(), "a region of if takes no arguments");
      return;
    case Opcode::Condition:
      return condition();
    case Opcode::ConvertLayout:
      return convert_layout();
    default:
      return;
  }
}

}  // namespace tegula::ir
