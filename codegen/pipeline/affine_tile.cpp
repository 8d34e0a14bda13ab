#include "codegen/pipeline/affine_tile.h"

#include <algorithm>
#include <functional>
#include <unordered_set>

#include "codegen/analysis/axis_facts.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/host_values.h"
#include "codegen/pipeline/loop_values.h"

namespace tegula {

using namespace ir;

// ---------------------------------------------------------------------------------------------------------- forms

const AffineTiles::MaybeForm& AffineTiles::form_of(const Value* v) {
  if (auto known = forms_.find(v); known != forms_.end()) return known->second;
  forms_[v] = std::nullopt;  // while under way
  MaybeForm form = find_form(v);
  if (!form && v->type.is_scalar() && v->type.is_integer()) form = unknown_scalar(v);
  return forms_[v] = std::move(form);
}

AffineTiles::Form AffineTiles::unknown_scalar(const Value* v) {
  const auto [at, added] = numbers_.try_emplace(v, int(unknowns_.size()));
  if (added) unknowns_.push_back(v);
  return {nullptr, Polynomial::unknown(at->second), {}};
}

AffineTiles::MaybeForm AffineTiles::find_form(const Value* v) {
  if (!v->type.pointer && (!v->type.is_integer() || v->type.is_bool())) return std::nullopt;
  if (!v->def) return form_of_argument(v);
  return v->def->results.size() == 1 && v->def->regions.empty() ? form_of_op(*v->def) : std::nullopt;
}

// A value to which a loop adds the same amount in each iteration is init + (i - lower) / step * amount.
AffineTiles::MaybeForm AffineTiles::form_of_argument(const Value* v) {
  if (v->block == &func_.body && v->type.pointer) return Form{v, {}, {}};
  const Op* op = for_of(v);
  if (!op || v == ForLoop(*op).induction()) return std::nullopt;
  const ForLoop loop(*op);
  LoopSources sources(*op);
  const auto step = constant_integer(loop.step());
  if (!step || *step == 0 || !sources.growth(v)) return std::nullopt;
  const MaybeForm &init = form_of(loop.init(*loop.number(v))), &growth = form_of(sources.step(v));
  const MaybeForm &at = form_of(loop.induction()), &lower = form_of(loop.lower());
  if (!init || !growth || growth->base || !at || !lower) return std::nullopt;
  auto per_unit = [&](const Polynomial& p) { return p.divided_by(Polynomial::constant(*step)); };
  const Polynomial passed = at->first - lower->first;
  Form grown;
  const auto first = per_unit(growth->first);
  if (!first) return std::nullopt;
  grown.first = *first * passed;
  for (const Polynomial& along : growth->steps) {
    const auto unit = per_unit(along);
    if (!unit) return std::nullopt;
    grown.steps.push_back(*unit * passed);
  }
  return sum(init, grown);
}

// Whether a cast keeps all bits. (Unsigned numbers stand for the signed ones that they were: see add_comparison.)
static bool keeps_bits(const Op& cast) {
  const Type &from = cast.operand(0)->type, &to = cast.result()->type;
  const bool wraps = to.bits() > from.bits() &&
                     (!is_signed(from.elem) || !axis_facts::stays_in_range(from));  // a difference below 0, say
  return from.is_integer() && !from.is_bool() && to.is_integer() && to.bits() >= from.bits() && !wraps;
}

AffineTiles::MaybeForm AffineTiles::form_of_op(const Op& op) {
  auto in = [&](int i) -> const MaybeForm& { return form_of(op.operand(i)); };
  // Unknowns are numbered as they are met, which decides the order of terms: the second operand comes first.
  auto both = [&](MaybeForm (AffineTiles::*combine)(const MaybeForm&, const MaybeForm&) const) {
    const MaybeForm& second = in(1);
    return (this->*combine)(in(0), second);
  };
  const Value* result = op.result();
  const Form minus_one{nullptr, Polynomial::constant(-1), std::vector<Polynomial>(size_t(result->type.rank()))};
  constexpr int kIndexBits = 32;  // fewer wrap around within arrays
  if (result->type.is_integer() && result->type.bits() < kIndexBits && op.opcode != Opcode::Constant)
    return std::nullopt;
  switch (op.opcode) {
    case Opcode::Constant: {
      const auto value = constant_integer(result);
      if (!value) return std::nullopt;
      const bool stands_for_signed = result->type.elem == Elem::U32;  // as in keeps_bits: x - 64 is x + (2^32 - 64)
      return Form{nullptr, Polynomial::constant(stands_for_signed ? int32_t(*value) : *value),
                  std::vector<Polynomial>(size_t(result->type.rank()))};
    }
    case Opcode::Arange:
      return Form{nullptr, Polynomial::constant(op.get(attr::start)), {Polynomial::constant(1)}};
    case Opcode::Splat:
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
    case Opcode::Trans:
      return in(0) ? MaybeForm(reshaped(op, *in(0))) : std::nullopt;
    case Opcode::ConvertLayout:
    case Opcode::Hint:
      return in(0);
    case Opcode::Cast:
      return keeps_bits(op) ? in(0) : std::nullopt;
    case Opcode::Add:
    case Opcode::AddPtr:
      return both(&AffineTiles::sum);
    case Opcode::Sub: {
      const MaybeForm subtracted = product(in(1), minus_one);
      return sum(in(0), subtracted);
    }
    case Opcode::Neg:
      return product(in(0), minus_one);
    case Opcode::Mul:
      return both(&AffineTiles::product);
    case Opcode::Rem:
      return remainder_form(op);
    default:
      return std::nullopt;
  }
}

AffineTiles::MaybeForm AffineTiles::sum(const MaybeForm& a, const MaybeForm& b) const {
  if (!a || !b || (a->base && b->base)) return std::nullopt;
  Form out{a->base ? a->base : b->base, a->first + b->first, a->steps};
  for (size_t axis = 0; axis < out.steps.size(); ++axis) out.steps[axis] = out.steps[axis] + b->steps[axis];
  return out;
}

AffineTiles::MaybeForm AffineTiles::product(const MaybeForm& a, const MaybeForm& b) const {
  if (!a || !b || a->base || b->base) return std::nullopt;
  auto is_splat = [](const Form& form) {
    return std::all_of(form.steps.begin(), form.steps.end(), [](const Polynomial& step) { return step.is_zero(); });
  };
  if (!is_splat(*b)) return is_splat(*a) ? product(b, a) : std::nullopt;
  Form out{nullptr, a->first * b->first, a->steps};
  for (Polynomial& step : out.steps) step = step * b->first;
  return out;
}

// Row indices modulo the number of rows: a tile that begins at a multiple of its extent does not wrap around within, if
// the number of rows is a multiple of that extent too.
AffineTiles::MaybeForm AffineTiles::remainder_form(const Op& op) {
  const Type& type = op.result()->type;
  if (!type.is_tile()) return std::nullopt;
  const MaybeForm x = form_of(op.operand(0)), modulus = form_of(op.operand(1));
  if (!x || !modulus || x->base || modulus->base || !is_host(modulus->first)) return std::nullopt;
  int64_t extent = 1;
  for (size_t axis = 0; axis < x->steps.size(); ++axis) {
    if (!modulus->steps[axis].is_zero()) return std::nullopt;
    if (x->steps[axis].is_zero()) continue;
    if (extent != 1 || !x->steps[axis].is_constant(1)) return std::nullopt;
    extent = type.shape[axis];
  }
  if (!x->first.divided_by(Polynomial::constant(extent)) || !is_non_negative(x->first, if_positive()))
    return std::nullopt;
  const int number = make_up(Remainder{x->first, modulus->first, extent, type.elem});
  return Form{nullptr, Polynomial::unknown(number), x->steps};
}

int AffineTiles::make_up(Remainder remainder) {
  const int number = int(unknowns_.size());
  unknowns_.push_back(nullptr);
  remainders_.emplace(number, std::move(remainder));
  return number;
}

// The form of the op's result if its operand has this form.
AffineTiles::Form AffineTiles::reshaped(const Op& op, Form form) {
  const Type &from = op.operand(0)->type, &to = op.result()->type;
  switch (op.opcode) {
    case Opcode::Splat:
      form.steps.assign(size_t(to.rank()), {});
      break;
    case Opcode::ExpandDims:
      form.steps.insert(form.steps.begin() + op.get(attr::axis), Polynomial());
      break;
    case Opcode::Broadcast:
      for (size_t axis = 0; axis < form.steps.size(); ++axis)
        if (from.shape[axis] != to.shape[axis]) form.steps[axis] = {};
      break;
    case Opcode::Trans: {
      const std::vector<Polynomial> steps = form.steps;
      const Ints order = op.get(attr::order);
      for (size_t axis = 0; axis < steps.size(); ++axis) form.steps[axis] = steps[size_t(order[axis])];
      break;
    }
    default:
      break;
  }
  return form;
}

// ---------------------------------------------------------------------------------------------------------- masks

// Adds the conditions of a mask; false if it is not understood.
bool AffineTiles::add_bounds(const Value* mask, Bounds& bounds) {
  if (!mask) return true;
  if (mask->type.is_scalar()) return bounds.conditions.push_back(mask), true;
  if (!mask->def) return false;
  const Op& op = *mask->def;
  switch (op.opcode) {
    case Opcode::Constant:
      return constant_integer(mask).value_or(0) != 0;
    case Opcode::BitAnd:
      return add_bounds(op.operand(0), bounds) && add_bounds(op.operand(1), bounds);
    case Opcode::Splat:
    case Opcode::ExpandDims:
    case Opcode::Broadcast:
    case Opcode::Trans:
    case Opcode::ConvertLayout: {
      Bounds inner;
      if (!add_bounds(op.operand(0), inner)) return false;
      for (Form& form : inner.below) bounds.below.push_back(reshaped(op, std::move(form)));
      bounds.conditions.insert(bounds.conditions.end(), inner.conditions.begin(), inner.conditions.end());
      return true;
    }
    default:
      return add_comparison(op, bounds);
  }
}

bool AffineTiles::add_comparison(const Op& op, Bounds& bounds) {
  const bool less = op.opcode == Opcode::Lt || op.opcode == Opcode::Le;
  const bool greater = op.opcode == Opcode::Gt || op.opcode == Opcode::Ge;
  if ((!less && !greater) || !op.operand(0)->type.is_integer()) return false;
  const MaybeForm &small = form_of(op.operand(less ? 0 : 1)), &large = form_of(op.operand(less ? 1 : 0));
  const Form minus_one{nullptr, Polynomial::constant(-1), std::vector<Polynomial>(size_t(op.result()->type.rank()))};
  MaybeForm below = sum(small, product(large, minus_one));
  if (!below) return false;
  const bool or_equal = op.opcode == Opcode::Le || op.opcode == Opcode::Ge;
  if (or_equal) below->first = below->first - Polynomial::constant(1);
  bounds.below.push_back(std::move(*below));
  if (!is_unsigned(op.operand(0)->type.elem)) return true;
  // Below what is not negative, and not negative itself.
  MaybeForm negative = product(small, minus_one);
  negative->first = negative->first - Polynomial::constant(1);
  bounds.below.push_back(std::move(*negative));
  return std::all_of(large->steps.begin(), large->steps.end(), [](auto& step) { return step.is_zero(); }) &&
         is_non_negative(large->first, axes_);
}

// What bounds say of each axis: i + start - upper < 0, where the host knows `upper`, and -i - lower - 1 < 0.
std::string AffineTiles::split_bounds(const Bounds& bounds, const Type& tile, std::vector<AxisBounds>& out) const {
  out.resize(size_t(tile.rank()));
  for (const Form& form : bounds.below) {
    std::vector<size_t> moving;
    for (size_t axis = 0; axis < form.steps.size(); ++axis)
      if (!form.steps[axis].is_zero() && tile.shape[axis] > 1) moving.push_back(axis);
    if (moving.size() != 1) return "its mask does not bound one axis at a time";
    AxisBounds& of = out[moving[0]];
    if (form.steps[moving[0]].is_constant(-1) && !of.lower) {
      of.lower = Polynomial::constant(-1) - form.first;
    } else if (form.steps[moving[0]].is_constant(1) && !of.upper) {
      Polynomial start, upper;
      for (const auto& [factors, coefficient] : form.first.terms()) {
        const Polynomial term = Polynomial::term(factors, coefficient);
        (is_host(term) ? upper : start) = is_host(term) ? upper - term : start + term;
      }
      of.start = start, of.upper = upper;
    } else {
      return "its mask bounds an axis in more ways than one";
    }
  }
  // An axis that is bounded below begins at that bound: a start added to it does not belong to the array's begin.
  for (AxisBounds& of : out) {
    if (!of.lower) continue;
    const std::optional<Polynomial> upper = of.upper ? *of.lower + *of.upper - *of.start : of.upper;
    if (upper && !is_host(*upper)) {
      if (!is_non_negative(*of.lower, axes_)) return "its mask bounds an axis in more ways than one";
      of.lower.reset();  // it always holds
      continue;
    }
    of.start = of.lower, of.upper = upper;
  }
  return {};
}

// ---------------------------------------------------------------------------------------------------------- tiles

// Calls act(scalar) for each scalar that the polynomial depends on.
void AffineTiles::for_each_scalar(const Polynomial& p, const std::function<void(const Value*)>& act) const {
  for (const auto& term : p.terms())
    for (int number : term.first)
      if (const Remainder* r = remainder(number))
        for_each_scalar(r->of, act), for_each_scalar(r->modulus, act);
      else
        act(unknown(number));
}

// Adds the conditions of the polynomial's remainders, which the launch has to check.
void AffineTiles::add_multiples(const Polynomial& p, std::vector<Multiple>& out) const {
  for (const auto& term : p.terms())
    for (int number : term.first) {
      const Remainder* r = remainder(number);
      if (!r) continue;
      add_multiples(r->of, out);
      const Multiple multiple{r->modulus, r->multiple_of};
      if (std::find(out.begin(), out.end(), multiple) == out.end()) out.push_back(multiple);
    }
}

bool AffineTiles::is_host(const Polynomial& p) const {
  return std::all_of(p.terms().begin(), p.terms().end(), [&](const auto& term) {
    return std::all_of(term.first.begin(), term.first.end(),
                       [&](int number) { return unknown(number) && is_host_computable(unknown(number), func_); });
  });
}

bool AffineTiles::is_non_negative(const Polynomial& p, const AxisQuery& axes) const {
  return std::all_of(p.terms().begin(), p.terms().end(), [&](const auto& term) {
    return term.second >= 0 && std::all_of(term.first.begin(), term.first.end(), [&](int number) {
             const Remainder* r = remainder(number);
             return r ? is_non_negative(r->of, axes) : axes.info(unknown(number)).non_negative;
           });
  });
}

const AxisQuery& AffineTiles::if_positive() {
  if (!if_positive_) if_positive_.emplace(func_, AxisPremises{.no_negative_parameters = true});
  return *if_positive_;
}

// A power of two that divides the polynomial's value.
int64_t AffineTiles::divisor(const Polynomial& p) const {
  constexpr int64_t kMost = 1 << 20;
  int64_t all = kMost;
  for (const auto& [factors, coefficient] : p.terms()) {
    int64_t of_term = std::min(kMost, coefficient & -coefficient);
    for (int number : factors) {
      const Remainder* r = remainder(number);
      const int64_t of_factor = r ? r->multiple_of & -r->multiple_of : axes_.info(unknown(number)).divisibility[0];
      of_term = std::min(kMost, of_term * std::min(kMost, of_factor));
    }
    all = std::min(all, of_term);
  }
  return all;
}

bool AffineTile::may_lie_outside() const {
  return !conditions.empty() || std::any_of(dims.begin(), dims.end(), [](const AffineDim& dim) { return dim.bounded; });
}

// The axes as dimensions, with the starts that the mask tells, and what that leaves of the first pointer. The
// contiguous one becomes the last.
std::string AffineTiles::place_axes(const Form& form, const Type& tile, const std::vector<AxisBounds>& bounds,
                                    AffineTile& out) {
  Polynomial rest = form.first;
  int contiguous = 0;
  for (size_t axis = 0; axis < form.steps.size(); ++axis) {
    if (tile.shape[axis] == 1) continue;
    const Polynomial& step = form.steps[axis];
    if (step.terms().size() != 1 || !is_host(step)) return "the distance of its rows does not follow from parameters";
    AffineDim dim{int(axis), step, {}, bounds[axis].upper, bounds[axis].start.has_value()};
    const bool last = step.is_constant(1);
    if (bounds[axis].start) {
      dim.start = *bounds[axis].start;
      rest = rest - dim.start * step;
    }
    contiguous += last;
    out.dims.insert(last ? out.dims.end() : out.dims.begin(), std::move(dim));
  }
  if (contiguous != 1) return "no axis has elements that lie side by side";
  for (const auto& [factors, coefficient] : rest.terms()) place_term(Polynomial::term(factors, coefficient), out);
  return {};
}

// A term of the first pointer's distance from the base is one of the base's own, moves along a dimension that no mask
// bounds, the one of the largest stride if there are several, or is along a dimension of its own.
void AffineTiles::place_term(const Polynomial& term, AffineTile& out) const {
  constexpr int64_t kLongestStep = 1024;  // elements of a row
  if (is_host(term)) {
    out.base_offset = out.base_offset + term;
    return;
  }
  Polynomial stride = Polynomial::constant(1), start = Polynomial::constant(1);
  const auto& [factors, coefficient] = *term.terms().begin();
  for (int number : factors) {
    const Polynomial factor = Polynomial::unknown(number);
    (is_host(factor) ? stride : start) = (is_host(factor) ? stride : start) * factor;
  }
  AffineDim* best = nullptr;
  for (AffineDim& dim : out.dims) {
    if (dim.bounded || !term.divided_by(dim.stride)) continue;
    // A dimension of its own tells more, and counts far less in large arrays: coordinates have 32 bits.
    if (dim.stride.is_constant(1) && (!stride.is_constant(1) || coefficient > kLongestStep)) continue;
    if (!best || dim.stride.divided_by(best->stride)) best = &dim;
  }
  const bool known = best && is_non_negative(*term.divided_by(best->stride), axes_);
  if (best && (known || coefficient < 0 || !is_non_negative(start, axes_))) {
    best->start = best->start + *term.divided_by(best->stride);
    return;
  }
  // The stride is as short as the alignment of rows lets it be.
  const bool of_stride = stride.is_constant(1) || (coefficient > 0 && !keeps_alignment(stride, out));
  Polynomial& scaled = of_stride ? stride : start;
  scaled = scaled * Polynomial::constant(coefficient);
  out.dims.insert(out.dims.begin(), {-1, stride, start, std::nullopt, false});
}

// Whether a scalar may need more than 32 bits; loop counters are taken to stay within their array. Null: a remainder.
static bool may_be_wide(const Value* scalar) {
  if (!scalar || !scalar->def || !scalar->type.is_integer() || scalar->type.bits() <= 32) return false;
  const Op& op = *scalar->def;
  const bool is_no_wider = op.opcode == Opcode::Cast || op.opcode == Opcode::Div || op.opcode == Opcode::Rem;
  return !is_no_wider || !op.operand(0)->type.is_integer() || may_be_wide(op.operand(0));
}

constexpr int64_t kAlignment = 16;  // of rows, in bytes

bool AffineTiles::keeps_alignment(const Polynomial& distance, const AffineTile& tile) const {
  return divisor(distance) * elem_bits(tile.base->type.elem) / 8 % kAlignment == 0;
}

std::string AffineTiles::check(const AffineTile& tile) const {
  constexpr size_t kMostDims = 5;
  if (elem_bits(tile.base->type.elem) < 8) return "its elements are no bytes";
  if (tile.dims.size() > kMostDims) return "it lies along more than five dimensions";
  if (axes_.info(tile.base).divisibility[0] % kAlignment || !keeps_alignment(tile.base_offset, tile))
    return "its array does not begin at a multiple of 16 bytes";
  for (const AffineDim& dim : tile.dims) {
    if (dim.stride.terms().begin()->second < 0) return "its rows go backwards";
    for (const auto& [factors, coefficient] : dim.start.terms())
      if (coefficient != int32_t(coefficient) ||
          std::any_of(factors.begin(), factors.end(), [&](int number) { return may_be_wide(unknown(number)); }))
        return "where it begins may have more than 32 bits";
    if (!dim.stride.is_constant(1) && !keeps_alignment(dim.stride, tile))
      return "the distance of its rows is not known to be a multiple of 16 bytes";
  }
  if (!keeps_alignment(tile.dims.back().start, tile))
    return "where it begins in a row is not known to be a multiple of 16 bytes";
  return {};
}

namespace {

using Visit = std::function<void(const Value*)>;

// Calls `visit` for the value and everything that it depends on.
void walk_sources(const Value* v, std::unordered_set<const Value*>& seen, const Visit& visit) {
  if (!v || !seen.insert(v).second) return;
  visit(v);
  if (!v->def && !v->block->parent) return;
  for (const Value* origin : origins(v)) walk_sources(origin, seen, visit);
  const Op* loop = v->def ? nullptr : for_of(v);
  const std::vector<Value*> sources = v->def ? v->def->operands
                                      : loop ? ForLoop(*loop).bounds()
                                             : std::vector<Value*>();
  for (const Value* source : sources) walk_sources(source, seen, visit);
}

// Adds the integer parameters that the value depends on, each once.
void add_parameters(const Value* value, std::vector<const Value*>& parameters) {
  std::unordered_set<const Value*> seen;
  walk_sources(value, seen, [&](const Value* v) {
    const bool parameter = !v->def && !v->block->parent && v->type.is_integer();
    if (parameter && std::find(parameters.begin(), parameters.end(), v) == parameters.end()) parameters.push_back(v);
  });
}

// The same for divisors only, which are taken to be positive.
void add_parameters_of_divisors(const Value* value, std::vector<const Value*>& parameters) {
  std::unordered_set<const Value*> seen;
  walk_sources(value, seen, [&](const Value* v) {
    if (v->def && v->def->opcode == Opcode::Div) add_parameters(v->def->operand(1), parameters);
  });
}

}  // namespace

// Tiles begin within their dimensions, if none of the parameters that tile.not_negative then has is negative.
std::string AffineTiles::check_starts(AffineTile& tile, const std::vector<AxisBounds>& bounds) {
  for (AffineDim& dim : tile.dims) {
    const size_t multiples = tile.multiples.size();
    add_multiples(dim.start, tile.multiples);
    const bool wraps = tile.multiples.size() > multiples;
    if (dim.axis >= 0 && bounds[size_t(dim.axis)].lower && !wraps) continue;
    const bool plainly = is_non_negative(dim.start, axes_);
    if (!plainly && !is_non_negative(dim.start, if_positive())) {
      if (wraps) return "it may begin before its array";
      if (std::string why = count_from_origin(dim, tile); !why.empty()) return why;
      continue;
    }
    for_each_scalar(dim.start, [&](const Value* scalar) {
      (plainly ? add_parameters_of_divisors : add_parameters)(scalar, tile.not_negative);
    });
  }
  return {};
}

// The mask does not leave out what lies before a dimension's begin: what the pointers say there has to be loaded.
std::string AffineTiles::count_from_origin(AffineDim& dim, AffineTile& tile) const {
  const auto& [factors, elements] = *dim.stride.terms().begin();
  if (factors.empty() && elements * elem_bits(tile.base->type.elem) < 8 * kLongStride)
    return "it may begin before its array";
  // Of a box that lies beyond an end altogether a GPU looks at addresses near the begin of the tensor map's array,
  // which lies outside all memory then: an illegal access.
  if (tile.may_lie_outside()) return "it may begin before its array, and lie outside of it altogether";
  const Polynomial origin = Polynomial::constant(kOrigin);
  dim.start = dim.start + origin;
  if (dim.extent) dim.extent = *dim.extent + origin;
  tile.base_offset = tile.base_offset - origin * dim.stride;
  tile.long_strides.push_back(dim.stride);
  return {};
}

std::optional<Polynomial> AffineTiles::polynomial_of(const Value* scalar) {
  const MaybeForm& form = form_of(scalar);
  if (!form || form->base) return std::nullopt;
  return form->first;
}

std::variant<AffineTile, std::string> AffineTiles::tile_of(const Value* pointers, const Value* mask) {
  const MaybeForm& form = form_of(pointers);
  if (!form) return "its addresses are no sums of products";
  if (!form->base || form->base->block != &func_.body) return "its addresses do not begin at a parameter";
  AffineTile tile{form->base, {}, {}, {}, {}, {}, {}};
  Bounds bounds;
  if (!add_bounds(mask, bounds)) return "its mask does not bound one axis at a time";
  tile.conditions = bounds.conditions;
  std::vector<AxisBounds> of_axes;
  std::string wrong = split_bounds(bounds, pointers->type, of_axes);
  if (wrong.empty()) wrong = place_axes(*form, pointers->type, of_axes, tile);
  if (wrong.empty()) wrong = check(tile);
  if (wrong.empty()) wrong = check_starts(tile, of_axes);
  if (!wrong.empty()) return wrong;
  return tile;
}

}  // namespace tegula
