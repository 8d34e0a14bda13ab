// Conversions between compile-time values, literals and IR values; attributes.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <unordered_set>
#include <vector>

#include "codegen/layout/linear_layout.h"
#include "dsl/semantics/control.h"
#include "dsl/semantics/internal.h"
#include "dsl/semantics/other_names.h"

namespace tegula::dsl {

Val Sema::error(std::string message, std::string hint) {
  Diag& diag = diags.error(loc, std::move(message));
  if (!hint.empty()) diag.with_hint(std::move(hint));
  return {};
}

namespace {

std::string type_name(const ir::Type& type) {
  std::string element = elem_info(type.elem).tl;
  if (type.pointer) element = fmt::format("pointer to {}", element);
  return type.is_scalar() ? element : fmt::format("tile of {} {}", ir::shape_to_string(type.shape), element);
}

// Triton's names of types: fp32, int8, uint8, pointer<fp32>.
std::string short_name(const ir::Type& type) {
  std::string element = elem_info(type.elem).tl;
  if (size_t at = element.find("float"); at != std::string::npos) element.replace(at, 5, at == 0 ? "fp" : "f");
  if (type.pointer) element = fmt::format("pointer<{}>", element);
  return type.is_tile() ? fmt::format("<{}, {}>", ir::shape_to_string(type.shape), element) : element;
}

// What messages show of a text. Nested tuples may double in length with each level.
constexpr size_t kLongText = 1000;

// (1, 2.5, 'abc'), as Python writes it; long ones by their number.
std::string describe_items(const TupleVal& tuple) {
  const std::vector<Val>& items = *tuple.items;
  if (items.size() > 8) return fmt::format("a tuple of {}", items.size());
  std::string out = tuple.fields ? tuple.fields->type + "(" : "(";
  for (const Val& item : items) {
    if (out.size() > kLongText) return out + ", ...)";
    if (&item != &items.front()) out += ", ";
    if (tuple.fields) out += tuple.fields->names[size_t(&item - items.data())] + "=";
    if (auto* i = item.get_if<Int>())
      out += fmt::format("{}", *i);
    else if (auto* d = item.get_if<double>())
      out += fmt::format("{}", *d);
    else
      out += describe(item);
  }
  return out + (items.size() == 1 && !tuple.fields ? ",)" : ")");
}

bool is_argument(const ir::Value* v) { return v->block && !v->block->parent && !v->name.empty(); }

// What a float is computed from.
struct FloatSources {
  const ir::Value* argument = nullptr;  ///< of the kernel
  bool load = false, quotient = false;
};

FloatSources sources_of(const ir::Value* v) {
  FloatSources found;
  std::unordered_set<const ir::Value*> seen;
  std::vector<const ir::Value*> open = {v};
  while (!open.empty()) {
    v = open.back(), open.pop_back();
    if (!v || !v->type.is_float() || !seen.insert(v).second) continue;
    if (is_argument(v)) found.argument = v;
    if (!v->def) continue;
    found.load |= v->def->opcode == ir::Opcode::Load;
    found.quotient |= v->def->opcode == ir::Opcode::Div;
    open.insert(open.end(), v->def->operands.begin(), v->def->operands.end());
  }
  return found;
}

}  // namespace

std::string describe(const Val& x) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, Poison>)
          return "an erroneous value";
        else if constexpr (std::is_same_v<T, None>)
          return "None";
        else if constexpr (std::is_same_v<T, Slice>)
          return "a slice";
        else if constexpr (std::is_same_v<T, bool>)
          return v ? "True" : "False";
        else if constexpr (std::is_same_v<T, Int>)
          return fmt::format("the int {}", v);
        else if constexpr (std::is_same_v<T, double>)
          return fmt::format("the float {}", v);
        else if constexpr (std::is_same_v<T, std::string>)
          return fmt::format("'{}'", v.size() <= kLongText ? v : v.substr(0, kLongText) + "...");
        else if constexpr (std::is_same_v<T, DType>)
          return fmt::format("the type {}{}", v.to_block ? "pointer to " : "", type_name(v.type));
        else if constexpr (std::is_same_v<T, BlockView>)
          return fmt::format("{} {}", v.is_pointer() ? "block pointer to" : "descriptor of", type_name(v.form->block));
        else if constexpr (std::is_same_v<T, TupleVal>)
          return describe_items(v);
        else if constexpr (std::is_same_v<T, FunctionRef>)
          return fmt::format("the {} '{}'", v.kind == FunctionRef::Kind::Module ? "module" : "function", v.name);
        else if constexpr (std::is_same_v<T, HostRef>)
          return v->describe();
        else
          return type_name(v->type);
      },
      x.v);
}

std::string hint_for_pointer(const ir::Value* pointer) {
  if (!is_argument(pointer)) return "load from the pointer first: tl.load(p)";
  return fmt::format(
      "load from the pointer first: tl.load({0}); if '{0}' should be a number, check the order of the launch's "
      "arguments",
      pointer->name);
}

std::string hint_for_float(const ir::Value* number) {
  const FloatSources from = sources_of(number);
  if (from.argument)
    return fmt::format("'{}' is a float at this launch: pass an integer, or convert with .to(tl.int32)",
                       from.argument->name);
  if (from.load && !from.quotient) return "floats are loaded: pass an array of integers, or convert with .to(tl.int32)";
  return "'/' gives a float: divide integers by '//'";
}

std::string text_of(const Val& x) {
  if (auto* text = x.get_if<std::string>()) return *text;
  if (auto* i = x.get_if<Int>()) return fmt::format("{}", *i);
  if (auto* d = x.get_if<double>()) {
    std::string digits = fmt::format("{}", *d);
    return digits.find_first_not_of("-0123456789") == std::string::npos ? digits + ".0" : digits;
  }
  if (auto* type = x.get_if<DType>())
    return type->to_block ? fmt::format("pointer<{}>", short_name(type->type)) : short_name(type->type);
  if (auto* f = x.get_if<FunctionRef>()) return f->name;
  if (auto* tuple = x.get_if<TupleVal>()) {
    constexpr size_t kLong = 1 << 16;  // nested ones may double in length with each level
    std::string out;
    for (const Val& item : *tuple->items) {
      if (out.size() > kLong) return fmt::format("({}, ...)", out);
      out += out.empty() ? "" : ", ";
      if (tuple->fields) out += tuple->fields->names[size_t(&item - tuple->items->data())] + "=";
      out += item.is<std::string>() ? describe(item) : text_of(item);
    }
    if (tuple->is_list) return fmt::format("[{}]", out);
    const TupleFields* fields = tuple->fields.get();
    return fmt::format("{}({}{})", fields ? fields->type : "", out, !fields && tuple->items->size() == 1 ? "," : "");
  }
  if (x.is_value()) {
    const ir::Type& type = x.value()->type;
    std::string extents;
    for (int64_t n : type.shape) extents += fmt::format("{}{}", extents.empty() ? "" : ", ", n);
    return fmt::format("{}[{}]", short_name(type.element()), extents);
  }
  return describe(x);
}

bool truth(const Val& x) {
  if (auto* b = x.get_if<bool>()) return *b;
  if (auto* i = x.get_if<Int>()) return bool(*i);
  if (auto* d = x.get_if<double>()) return *d != 0;
  if (auto* text = x.get_if<std::string>()) return !text->empty();
  if (auto* tuple = x.get_if<TupleVal>()) return !tuple->items->empty();
  if (auto* host = x.get_if<HostRef>()) return (*host)->truth();
  return !x.is<None>();
}

ir::Value* to_value(Sema& s, const Val& x, std::string_view what) {
  if (x.is_poison()) return nullptr;
  if (x.is_value()) return x.value();
  if (is_number(x)) return check_literal(s, x) ? constant(s, ir::Type::scalar(literal_type(x)), x) : nullptr;
  s.error(fmt::format("{} must be a number or a tile, found {}", what, describe(x)));
  return nullptr;
}

ir::Value* to_bool(Sema& s, ir::Value* x) {
  if (x->type.is_bool()) return x;
  if (x->type.pointer) x = s.builder.bitcast(x, ir::Type::scalar(Elem::I64));
  if (is_float8(x->type.elem)) x = cast_to(s, x, Elem::F16);
  ir::Value* zero = x->type.is_float() ? s.builder.constant_float(x->type, 0) : s.builder.constant(x->type, 0);
  return s.builder.ne(x, zero);
}

ir::Value* to_condition(Sema& s, const Val& x) {
  ir::Value* v = to_value(s, x, "a condition");
  if (!v) return nullptr;
  if (v->type.is_tile() && v->type.num_elements() == 1) v = single_element(s, v);
  if (v->type.is_tile()) {
    s.error(fmt::format("a condition must be one value, found a {}", describe(x)),
            "use tl.where for a choice element by element, or reduce the tile first");
    return nullptr;
  }
  return to_bool(s, v);
}

std::optional<ir::Type> join_types(Sema& s, std::string_view name, const ir::Type& a, const ir::Type& b) {
  if (a.same_shape_and_elem(b)) return a;
  Diag& diag = s.diags.error(
      s.loc, fmt::format("'{}' would be {} on one path and {} on the other", name, type_name(a), type_name(b)));
  diag.with_hint(a.shape == b.shape ? "give it one type on both with .to(...)" : "give it one shape on both");
  return std::nullopt;
}

std::optional<bool> to_flag(Sema& s, const Val& x, std::string_view what) {
  if (x.is<bool>() || x.is<Int>()) return truth(x);
  if (!x.is_poison())
    s.error(fmt::format("{} must be known at compile time, found {}", what, describe(x)),
            "True or False says which it is");
  return std::nullopt;
}

Val convert(Sema& s, const Val& x, const ir::Type& type) {
  if (x.is_poison() || !check_literal(s, x)) return {};
  ir::Value* v = nullptr;
  if (is_number(x)) {
    if (type.pointer) return s.error(fmt::format("cannot convert {} to {}", describe(x), type_name(type)));
    v = constant(s, type.element(), x.typed ? in_own_type(x) : x);
  } else {
    v = to_value(s, x);
    if (!v) return {};
    if (v->type.pointer != type.pointer || (type.pointer && v->type.elem != type.elem))
      return s.error(fmt::format("cannot convert {} to {}", describe(x), type_name(type)));
    v = cast_to(s, v, type.elem);
  }
  if (v->type.shape == type.shape) return v;
  if (type.is_scalar()) return s.error(fmt::format("cannot convert {} to {}", describe(x), type_name(type)));
  v = broadcast_value(s, v, type.shape);
  return v ? Val(v) : Val();
}

// ------------------------------------------------------------------------------------- compile-time arguments

std::optional<int64_t> to_int(Sema& s, const Val& x, std::string_view what) {
  if (auto* b = x.get_if<bool>()) return int64_t(*b);
  if (auto* i = x.get_if<Int>()) {
    if (!i->narrow()) s.error(fmt::format("{} is {}, which does not fit int64", what, *i));
    return i->narrow();
  }
  if (!x.is_poison())
    s.error(fmt::format("{} must be an int known at compile time, found {}", what, describe(x)),
            x.is_value() && x.value()->type.is_scalar() ? "declare the parameter it comes from as tl.constexpr" : "");
  return std::nullopt;
}

namespace {

// Of Python's own types that stand for an element type.
std::string hint_for_type(const Val& x) {
  const auto* f = x.get_if<FunctionRef>();
  if (!f) return "";
  if (f->name == "python.float") return "write tl.float32";
  if (f->name == "python.int") return "write tl.int32";
  return f->name == "python.bool" ? "write tl.int1" : "";
}

}  // namespace

std::optional<Elem> to_elem(Sema& s, const Val& x, std::string_view what) {
  if (auto* t = x.get_if<DType>())
    if (!t->type.pointer && !t->to_block) return t->type.elem;
  if (auto* name = x.get_if<std::string>())
    if (auto elem = elem_from_text(*name)) return elem;
  if (!x.is_poison())
    s.error(fmt::format("{} must be an element type such as tl.float32, found {}", what, describe(x)),
            hint_for_type(x));
  return std::nullopt;
}

std::optional<int> to_axis(Sema& s, const Val& axis, int rank, std::string_view function) {
  const bool of_two = (function == "max" || function == "min") && !axis.is<Int>() && !axis.is<bool>();
  if (of_two && !axis.is_poison()) {
    s.error(fmt::format("the axis of {} must be an int known at compile time, found {}", function, describe(axis)),
            fmt::format("the {} of two values is tl.{}imum(x, y)", function == "max" ? "larger" : "smaller", function));
    return std::nullopt;
  }
  auto i = to_int(s, axis, fmt::format("the axis of {}", function));
  if (!i) return std::nullopt;
  if (*i < -rank || *i >= rank) {
    s.error(fmt::format("axis {} of {} is out of range for a tile of rank {}", *i, function, rank),
            rank > 0 ? fmt::format("axes are 0 to {}, or -{} to -1", rank - 1, rank) : "");
    return std::nullopt;
  }
  return int(*i < 0 ? *i + rank : *i);
}

Val checked_rank(Sema& s, Val x, std::string_view function) {
  if (!x.is_value() || x.value()->type.rank() <= kMaxRank) return x;
  const OnPage on_page(s.diags, page::kExtents);
  return s.error(fmt::format("{} gives a tile of {} dimensions, tiles have at most {}", function,
                             x.value()->type.rank(), kMaxRank),
                 "join dimensions by tl.reshape");
}

std::string next_extents(int64_t extent) {
  int64_t above = std::max<int64_t>(extent, 1), below = above;
  while (!is_tile_extent(above)) ++above;
  while (!is_tile_extent(below)) --below;
  return below < above ? fmt::format("the nearest are {} and {}: ", below, above) : "";
}

std::optional<ir::Shape> to_shape(Sema& s, const Val& shape, std::string_view function) {
  constexpr int64_t kMaxElements = 1 << 20;
  std::vector<Val> one{shape};
  const std::vector<Val>* items = shape.is<TupleVal>() ? shape.as<TupleVal>().items.get() : &one;
  if (items->size() > size_t(kMaxRank)) {
    const OnPage on_page(s.diags, page::kExtents);
    s.error(fmt::format("the shape of {} has {} dimensions, tiles have at most {}", function, items->size(), kMaxRank));
    return std::nullopt;
  }
  ir::Shape out;
  int64_t total = 1;
  for (const Val& item : *items) {
    auto extent = to_int(s, item, fmt::format("each extent in the shape of {}", function));
    if (!extent) return std::nullopt;
    if (!is_tile_extent(*extent)) {
      const OnPage on_page(s.diags, page::kExtents);
      s.error(
          fmt::format("extent {} in the shape of {} is no q * 2^k with odd q up to {}", *extent, function, kMaxRepeats),
          *extent == -1 ? "write the extent out: none follows from the others"
                        : next_extents(*extent) + "mask what is too much; triton.next_power_of_2(n) always works");
      return std::nullopt;
    }
    out.push_back(*extent);
    total = std::min<int64_t>(total * *extent, kMaxElements + 1);
  }
  if (total > kMaxElements) {
    s.error(
        fmt::format("a tile of {} in {} has more than {} elements", ir::shape_to_string(out), function, kMaxElements),
        "take smaller blocks, by more programs or in a loop");
    return std::nullopt;
  }
  return out;
}

std::optional<ir::Shape> to_shape_varargs(Sema& s, const Val& rest, std::string_view function) {
  if (rest.is<TupleVal>() && rest.as<TupleVal>().items->size() == 1)
    return to_shape(s, rest.as<TupleVal>().items->front(), function);
  return to_shape(s, rest, function);
}

// --------------------------------------------------------------------------------------- attributes

namespace {

Val shape_of(const ir::Type& type) {
  std::vector<Val> items;
  for (int64_t extent : type.shape) items.emplace_back(Int(extent));
  return make_tuple(std::move(items));
}

// Nothing if there is no such attribute.
std::optional<Val> attribute_of(const BlockView& view, std::string_view name) {
  if (view.is_pointer()) {
    if (name == "dtype" || name == "type") return DType{view.form->block, true};
    return std::nullopt;
  }
  auto all = [&](ir::Value* (BlockView::*part)(int) const) {
    std::vector<Val> items;
    for (int axis = 0; axis < view.rank(); ++axis) items.emplace_back((view.*part)(axis));
    return make_tuple(std::move(items));
  };
  if (name == "dtype") return DType{view.form->block.element()};
  if (name == "block_type" || name == "type") return DType{view.form->block};
  if (name == "block_shape") return shape_of(view.form->block);
  if (name == "shape") return all(&BlockView::extent);
  if (name == "strides") return all(&BlockView::stride);
  return std::nullopt;
}

struct FloatForm {
  int fraction_bits, exponent_bias;
};

FloatForm float_form(Elem e) {
  switch (e) {
    case Elem::F8E4M3:
      return {3, 7};
    case Elem::F8E4B8:
      return {3, 8};
    case Elem::F8E4B15:
      return {3, 15};
    case Elem::F8E5M2:
      return {2, 15};
    case Elem::F8E5B16:
      return {2, 16};
    case Elem::F16:
      return {10, 15};
    case Elem::BF16:
      return {7, 127};
    case Elem::F32:
      return {23, 127};
    default:
      return {52, 1023};
  }
}

std::optional<Val> attribute_of(const DType& pointer_to_block, std::string_view name) {
  if (name == "element_ty") return DType{pointer_to_block.type};
  if (name == "scalar" || name == "dtype") return pointer_to_block;
  if (name == "primitive_bitwidth") return Int(64);
  if (name == "itemsize") return Int(8);
  if (name == "name") return text_of(pointer_to_block);
  return std::nullopt;
}

}  // namespace

Val attribute(Sema& s, const Val& x, std::string_view name) {
  if (x.is_poison()) return {};
  if (const auto* tuple = x.get_if<TupleVal>())
    if (const Val* field = tuple->field(name)) return *field;
  if (const auto* view = x.get_if<BlockView>())
    if (auto found = attribute_of(*view, name)) return *found;
  if (x.is_value() || is_number(x)) {
    // A number is a scalar of the type that it has by itself.
    const ir::Type type = x.is_value() ? x.value()->type : ir::Type::scalar(literal_type(x));
    if (name == "dtype") return DType{type.element()};
    if (name == "type") return DType{type};
    if (name == "shape") return shape_of(type);
    if (name == "numel") return Int(type.num_elements());
    if (name == "rank") return Int(type.rank());
    if (name == "T" && x.is_value()) return fn_trans(s, std::vector<Val>{x, make_tuple({})});
  }
  if (auto* dtype = x.get_if<DType>(); dtype && dtype->to_block) {
    if (auto found = attribute_of(*dtype, name)) return *found;
  } else if (dtype) {
    const ir::Type& type = dtype->type;
    if (name == "element_ty") {
      if (type.is_tile()) return DType{type.element()};
      if (type.pointer) return DType{ir::Type::scalar(type.elem)};
      return s.error(fmt::format("{} has no element_ty", type_name(type)),
                     "element_ty belongs to pointer types: p.dtype.element_ty");
    }
    if (name == "scalar" || name == "dtype") return DType{type.element()};
    if (name == "primitive_bitwidth") return Int(type.bits());
    if (name == "itemsize") return Int(type.pointer ? 8 : elem_bytes(type.elem));
    if (name == "shape") return shape_of(type);
    if (name == "numel") return Int(type.num_elements());
    if (name == "rank") return Int(type.rank());
    if (name == "int_bitwidth" && type.is_integer()) return Int(type.bits());
    if (name == "fp_mantissa_width" && type.is_float()) return Int(float_form(type.elem).fraction_bits);
    if (name == "exponent_bias" && type.is_float()) return Int(float_form(type.elem).exponent_bias);
    if (name == "name") return short_name(type);
  }
  if (name == "value" && x.is_constant()) return x;  // constexpr.value
  if (x.is_value() && (name == "primitive_bitwidth" || name == "itemsize" || name == "element_ty" || name == "scalar"))
    return s.error(fmt::format("{} has no attribute '{}'", describe(x), name),
                   fmt::format("its type has: x.dtype.{}", name));
  if (find_method(x, name))
    return s.error(fmt::format("'{}' is a method", name), fmt::format("call it: x.{}(...)", name));
  if (const auto* tuple = x.get_if<TupleVal>(); tuple && tuple->fields) {
    auto near = nearest_name(name, tuple->fields->names);
    return s.error(fmt::format("'{}' has no field '{}'", tuple->fields->type, name),
                   near ? fmt::format("did you mean '{}'?", *near)
                        : fmt::format("its fields are {}", fmt::join(tuple->fields->names, ", ")));
  }
  static const std::vector<std::string> known = {"dtype",  "type", "shape",    "numel",        "rank",
                                                 "T",      "name", "itemsize", "int_bitwidth", "element_ty",
                                                 "scalar", "to",   "sum",      "max",          "primitive_bitwidth"};
  auto near = nearest_name(name, known);
  const auto other = x.is_value() ? hint_for_other_name(name) : std::nullopt;
  return s.error(fmt::format("{} has no attribute '{}'", describe(x), name),
                 other                   ? *other
                 : near && *near != name ? fmt::format("did you mean '{}'?", *near)
                                         : "");
}

}  // namespace tegula::dsl
