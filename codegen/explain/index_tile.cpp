#include "codegen/explain/index_tile.h"

#include <algorithm>
#include <numeric>
#include <optional>

namespace tegula::explaining {

using ir::Opcode;
using Term = IndexTile::Term;

namespace {

std::vector<int> united(const std::vector<int>& a, const std::vector<int>& b) {
  std::vector<int> all;
  std::set_union(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(all));
  return all;
}

int64_t size_along(const ir::Shape& shape, const std::vector<int>& axes) {
  int64_t n = 1;
  for (int a : axes) n *= shape[size_t(a)];
  return n;
}

// As the element type holds it: integers wrap around.
int64_t wrapped(int64_t value, const ir::Type& type) {
  const int bits = type.bits();
  if (type.pointer || bits >= 64) return value;
  if (type.elem == Elem::I1) return value & 1;
  const uint64_t low = uint64_t(value) & ((uint64_t(1) << bits) - 1);
  const bool negative = is_signed(type.elem) && (low >> (bits - 1));
  return negative ? int64_t(low) - (int64_t(1) << bits) : int64_t(low);
}

bool holds(Opcode opcode, int64_t difference) {
  switch (opcode) {
    case Opcode::Lt:
      return difference < 0;
    case Opcode::Le:
      return difference <= 0;
    case Opcode::Gt:
      return difference > 0;
    case Opcode::Ge:
      return difference >= 0;
    case Opcode::Eq:
      return difference == 0;
    default:
      return difference != 0;
  }
}

bool is_comparison(Opcode opcode) {
  return opcode == Opcode::Lt || opcode == Opcode::Le || opcode == Opcode::Gt || opcode == Opcode::Ge ||
         opcode == Opcode::Eq || opcode == Opcode::Ne;
}

int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

uint64_t shifted_right(const ir::Type& type, int64_t value, int64_t by) {
  if (by < 0 || by > 63) return 0;
  return is_signed(type.elem) ? uint64_t(value >> by) : uint64_t(value) >> by;
}

uint64_t high_half(int64_t a, int64_t b, const ir::Type& type) {
  const unsigned __int128 mask = type.bits() == 64 ? ~uint64_t(0) : (uint64_t(1) << type.bits()) - 1;
  const unsigned __int128 product = (unsigned __int128)(uint64_t(a) & mask) * (uint64_t(b) & mask);
  return uint64_t(product >> type.bits());
}

// One element of a pure op; nullopt for ops that are none of index arithmetic.
std::optional<int64_t> element(const ir::Op& op, const int64_t* x) {
  const ir::Type& type = op.operand(0)->type;
  switch (op.opcode) {
    case Opcode::Add:
      return int64_t(uint64_t(x[0]) + uint64_t(x[1]));
    case Opcode::Sub:
      return int64_t(uint64_t(x[0]) - uint64_t(x[1]));
    case Opcode::Mul:
      return int64_t(uint64_t(x[0]) * uint64_t(x[1]));
    case Opcode::Div:
      return x[1] == 0 || x[1] == -1 ? -x[0] : x[0] / x[1];
    case Opcode::Rem:
      return x[1] == 0 || x[1] == -1 ? 0 : x[0] % x[1];
    case Opcode::BitAnd:
      return x[0] & x[1];
    case Opcode::BitOr:
      return x[0] | x[1];
    case Opcode::BitXor:
      return x[0] ^ x[1];
    case Opcode::Shl:
      return x[1] < 0 || x[1] > 63 ? 0 : int64_t(uint64_t(x[0]) << x[1]);
    case Opcode::Shr:
      return int64_t(shifted_right(type, x[0], x[1]));
    case Opcode::MulHi:
      return int64_t(high_half(x[0], x[1], type));
    case Opcode::Minimum:
      return std::min(x[0], x[1]);
    case Opcode::Maximum:
      return std::max(x[0], x[1]);
    case Opcode::Neg:
      return -x[0];
    case Opcode::Abs:
      return x[0] < 0 ? -x[0] : x[0];
    case Opcode::Select:
      return x[0] ? x[1] : x[2];
    case Opcode::Cast:
      return op.result()->type.is_bool() ? x[0] != 0 : x[0];
    case Opcode::Bitcast:
    case Opcode::Hint:
    case Opcode::ConvertLayout:
      return x[0];
    case Opcode::AddPtr:
      return x[0] + x[1] * std::max(1, elem_bits(op.result()->type.elem) / 8);
    default:
      if (is_comparison(op.opcode)) return holds(op.opcode, x[0] < x[1] ? -1 : x[0] > x[1]);
      return std::nullopt;
  }
}

}  // namespace

std::optional<int64_t> evaluate(const ir::Op& op, const int64_t* operands) {
  if (op.opcode == Opcode::Constant) {
    const ir::Attr value = op.get(ir::attr::value);
    if (const auto* i = std::get_if<int64_t>(&value)) return *i;
    if (const auto* b = std::get_if<bool>(&value)) return *b;
    return std::nullopt;
  }
  if (op.operands.empty()) return std::nullopt;
  const std::optional<int64_t> value = element(op, operands);
  return value ? std::optional(wrapped(*value, op.result()->type)) : std::nullopt;
}

// -------------------------------------------------------------------------------------------------------- Making

IndexTile IndexTile::scalar(int64_t value, ir::Shape shape, bool is_bool) {
  IndexTile tile;
  tile.known_ = true;
  tile.bool_ = is_bool;
  tile.shape_ = std::move(shape);
  tile.base_ = is_bool ? value != 0 : value;
  return tile;
}

IndexTile IndexTile::arange(int64_t start, int64_t end) {
  IndexTile tile = scalar(start, {end - start});
  tile.add({.form = Term::Form::Affine, .axes = {0}, .step = 1});
  return tile;
}

IndexTile IndexTile::of_table(ir::Shape shape, std::vector<int> axes, std::vector<int64_t> values, bool is_bool) {
  IndexTile tile = scalar(is_bool, std::move(shape), is_bool);
  tile.add({.form = Term::Form::Table,
            .axes = std::move(axes),
            .table = std::make_shared<const std::vector<int64_t>>(std::move(values))});
  return tile;
}

int64_t IndexTile::extent(const Term& term) const { return shape_[size_t(term.axes[0])]; }

// Terms that do not vary go into the base, affine ones along one axis become one.
void IndexTile::add(Term term) {
  if (bool_ && base_ == 0) return;
  if (term.form == Term::Form::Table) {
    const std::vector<int64_t>& values = *term.table;
    if (std::all_of(values.begin(), values.end(), [&](int64_t v) { return v == values[0]; })) {
      if (bool_ ? values.empty() || values[0] != 0 : values.empty()) return;
      base_ = bool_ ? 0 : base_ + values[0];
      if (bool_) terms_.clear();
      return;
    }
  } else if (term.form == Term::Form::Interval) {
    term.low = std::max<int64_t>(term.low, 0);
    term.high = std::min(term.high, extent(term));
    if (term.low >= term.high) {
      base_ = 0;
      terms_.clear();
      return;
    }
    if (term.low == 0 && term.high == extent(term)) return;
    for (Term& other : terms_)
      if (other.form == Term::Form::Interval && other.axes == term.axes) {
        other.low = std::max(other.low, term.low), other.high = std::min(other.high, term.high);
        if (other.low >= other.high) base_ = 0, terms_.clear();
        return;
      }
  } else {
    if (term.step == 0 || extent(term) == 1) return;
    for (Term& other : terms_)
      if (other.form == Term::Form::Affine && other.axes == term.axes) {
        other.step += term.step;
        if (other.step == 0) terms_.erase(terms_.begin() + (&other - terms_.data()));
        return;
      }
  }
  terms_.push_back(std::move(term));
}

// -------------------------------------------------------------------------------------------------------- Reading

std::vector<int> IndexTile::axes() const {
  std::vector<int> all;
  for (const Term& t : terms_) all = united(all, t.axes);
  return all;
}

std::vector<int64_t> IndexTile::table(const std::vector<int>& axes) const {
  std::vector<int64_t> values(size_t(size_along(shape_, axes)), base_);
  for (const Term& term : terms_) {
    // Position in the term's own table: the sum of a stride an axis.
    std::vector<int64_t> strides(axes.size(), 0);
    int64_t stride = 1;
    for (size_t k = term.axes.size(); k-- > 0; stride *= shape_[size_t(term.axes[k])])
      for (size_t j = 0; j < axes.size(); ++j)
        if (axes[j] == term.axes[k]) strides[j] = stride;
    std::vector<int64_t> at(axes.size(), 0);
    int64_t position = 0;
    for (int64_t& value : values) {
      const int64_t own = term.form == Term::Form::Affine     ? term.step * position
                          : term.form == Term::Form::Interval ? term.low <= position && position < term.high
                                                              : (*term.table)[size_t(position)];
      value = bool_ ? value && own : value + own;
      for (size_t j = axes.size(); j-- > 0;) {
        position += strides[j];
        if (++at[j] < shape_[size_t(axes[j])]) break;
        position -= strides[j] * at[j];
        at[j] = 0;
      }
    }
  }
  return values;
}

uint64_t IndexTile::digest() const {
  uint64_t h = 0x9e3779b97f4a7c15u ^ uint64_t(known_);
  const auto mix = [&](uint64_t x) {
    h ^= x + 0x9e3779b97f4a7c15u + (h << 6) + (h >> 2);
    h *= 0xff51afd7ed558ccdu;
    h ^= h >> 32;
  };
  mix(uint64_t(base_));
  for (const Term& t : terms_) {
    mix(uint64_t(t.form));
    for (int a : t.axes) mix(uint64_t(a));
    mix(uint64_t(t.step)), mix(uint64_t(t.low)), mix(uint64_t(t.high));
    if (t.table)
      for (int64_t v : *t.table) mix(uint64_t(v));
  }
  return h;
}

std::pair<int64_t, int64_t> IndexTile::range() const {
  int64_t low = base_, high = base_;
  for (const Term& t : terms_) {
    if (t.form != Term::Form::Affine) return {0, -1};
    const int64_t last = t.step * (extent(t) - 1);
    (last < 0 ? low : high) += last;
  }
  return {low, high};
}

// ----------------------------------------------------------------------------------------------------- Arithmetic

IndexTile IndexTile::sum(const IndexTile& a, const IndexTile& b, int64_t scale) {
  IndexTile out = a;
  out.base_ += b.base_ * scale;
  for (Term t : b.terms_) {
    t.step *= scale;
    if (t.table && scale != 1) {
      std::vector<int64_t> values = *t.table;
      for (int64_t& v : values) v *= scale;
      t.table = std::make_shared<const std::vector<int64_t>>(std::move(values));
    }
    out.add(std::move(t));
  }
  return out;
}

// Along one axis a comparison of an affine sum holds from some position on, up to some position, or at one.
IndexTile IndexTile::compare(Opcode opcode, const IndexTile& a, const IndexTile& b) {
  const IndexTile d = sum(a, b, -1);
  if (d.terms_.empty()) return scalar(holds(opcode, d.base_), d.shape_, true);
  IndexTile out = scalar(1, d.shape_, true);
  if (d.terms_.size() == 1 && d.terms_[0].form == Term::Form::Affine && opcode != Opcode::Ne) {
    const Term& t = d.terms_[0];
    const int64_t n = d.extent(t);
    int64_t step = t.step, base = d.base_;
    if (opcode == Opcode::Eq) {
      const int64_t at = -base % step == 0 ? -base / step : -1;
      out.add({.form = Term::Form::Interval, .axes = t.axes, .low = at < 0 ? n : at, .high = at < 0 ? n : at + 1});
      return out;
    }
    if (opcode == Opcode::Gt || opcode == Opcode::Ge) step = -step, base = -base;
    const int64_t limit = opcode == Opcode::Lt || opcode == Opcode::Gt ? -1 - base : -base;  // step * i <= limit
    if (step > 0)
      out.add({.form = Term::Form::Interval, .axes = t.axes, .low = 0, .high = floor_div(limit, step) + 1});
    else
      out.add({.form = Term::Form::Interval, .axes = t.axes, .low = -floor_div(limit, -step), .high = n});
    return out;
  }
  const std::vector<int> axes = d.axes();
  std::vector<int64_t> values = d.table(axes);
  for (int64_t& v : values) v = holds(opcode, v);
  out.add({.form = Term::Form::Table,
           .axes = axes,
           .table = std::make_shared<const std::vector<int64_t>>(std::move(values))});
  return out;
}

// Quotient and remainder where all elements have one quotient, or every term is a multiple of the divisor.
IndexTile IndexTile::divide(const ir::Op& op, const IndexTile& a, int64_t divisor) {
  const auto [low, high] = a.range();
  const bool quotient = op.opcode == Opcode::Div;
  if (low < 0 || high < low || divisor <= 0) return {};
  if (low / divisor == high / divisor) {
    if (quotient) return scalar(low / divisor, a.shape_);
    IndexTile out = a;
    out.base_ -= low / divisor * divisor;
    return out;
  }
  if (!std::all_of(a.terms_.begin(), a.terms_.end(), [&](const Term& t) { return t.step % divisor == 0; })) return {};
  if (!quotient) return scalar(a.base_ % divisor, a.shape_);
  IndexTile out = a;
  out.base_ /= divisor;
  for (Term& t : out.terms_) t.step /= divisor;
  return out;
}

IndexTile IndexTile::with_axes(const std::vector<int>& renamed, ir::Shape shape) const {
  IndexTile out = scalar(base_, std::move(shape), bool_);
  for (const Term& t : terms_) {
    Term moved = t;
    for (int& a : moved.axes) a = renamed[size_t(a)];
    if (!std::is_sorted(moved.axes.begin(), moved.axes.end())) {  // a table in another order
      std::vector<int> sorted = moved.axes;
      std::sort(sorted.begin(), sorted.end());
      std::vector<int64_t> values(t.table->size()), strides(sorted.size());
      int64_t stride = 1;
      for (size_t k = moved.axes.size(); k-- > 0; stride *= out.shape_[size_t(moved.axes[k])])
        strides[size_t(std::find(sorted.begin(), sorted.end(), moved.axes[k]) - sorted.begin())] = stride;
      for (size_t i = 0; i < values.size(); ++i) {
        int64_t rest = int64_t(i), from = 0;
        for (size_t j = sorted.size(); j-- > 0;) {
          const int64_t n = out.shape_[size_t(sorted[j])];
          from += rest % n * strides[j], rest /= n;
        }
        values[i] = (*t.table)[size_t(from)];
      }
      moved.axes = std::move(sorted);
      moved.table = std::make_shared<const std::vector<int64_t>>(std::move(values));
    }
    out.terms_.push_back(std::move(moved));
  }
  return out;
}

// Axes of extent 1 come and go; other shapes take a table.
IndexTile IndexTile::reshape(const ir::Op& op, const IndexTile& x) {
  const ir::Shape& to = op.result()->type.shape;
  std::vector<int> wide_from, wide_to, renamed(x.shape_.size(), 0);
  for (int a = 0; a < int(x.shape_.size()); ++a)
    if (x.shape_[size_t(a)] != 1) wide_from.push_back(a);
  for (int a = 0; a < int(to.size()); ++a)
    if (to[size_t(a)] != 1) wide_to.push_back(a);
  bool same = wide_from.size() == wide_to.size();
  for (size_t i = 0; same && i < wide_from.size(); ++i) {
    same = x.shape_[size_t(wide_from[i])] == to[size_t(wide_to[i])];
    renamed[size_t(wide_from[i])] = wide_to[i];
  }
  if (same) return x.with_axes(renamed, to);
  std::vector<int> from(x.shape_.size()), all(to.size());
  std::iota(from.begin(), from.end(), 0);
  std::iota(all.begin(), all.end(), 0);
  return of_table(to, all, x.table(from), x.bool_);
}

IndexTile combine(const ir::Op& op, const std::vector<const IndexTile*>& operands) {
  std::vector<int> axes;
  for (const IndexTile* x : operands) axes = united(axes, x->axes());
  const ir::Type& type = op.result()->type;
  std::vector<std::vector<int64_t>> tables;
  for (const IndexTile* x : operands) {
    IndexTile wide = *x;
    wide.shape_ = type.shape;
    tables.push_back(wide.table(axes));
  }
  std::vector<int64_t> values(tables[0].size()), in(tables.size());
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t k = 0; k < in.size(); ++k) in[k] = tables[k][i];
    const std::optional<int64_t> value = evaluate(op, in.data());
    if (!value) return {};
    values[i] = *value;
  }
  if (axes.empty()) return IndexTile::scalar(values[0], type.shape, type.is_bool());
  return IndexTile::of_table(type.shape, axes, std::move(values), type.is_bool());
}

IndexTile IndexTile::apply(const ir::Op& op, const std::vector<const IndexTile*>& operands) {
  const ir::Type& type = op.result()->type;
  if (op.opcode == Opcode::Select && operands[0]->is_uniform()) {
    IndexTile chosen = *operands[operands[0]->base() ? 1 : 2];
    chosen.shape_ = type.shape;
    return chosen;
  }
  if (op.opcode == Opcode::BitAnd && type.is_bool())
    for (const IndexTile* x : operands)
      if (x->is_uniform() && !x->base()) return scalar(0, type.shape, true);
  for (const IndexTile* x : operands)
    if (!x->known_) return {};
  const IndexTile& a = *operands[0];
  const IndexTile* b = operands.size() > 1 ? operands[1] : nullptr;
  const bool both_scalar = a.terms_.empty() && (!b || b->terms_.empty());
  if (!both_scalar && !type.is_bool()) {
    if (op.opcode == Opcode::Add) return sum(a, *b, 1);
    if (op.opcode == Opcode::Sub) return sum(a, *b, -1);
    if (op.opcode == Opcode::AddPtr) return sum(a, *b, std::max(1, elem_bits(type.elem) / 8));
    if (op.opcode == Opcode::Mul && (a.terms_.empty() || b->terms_.empty())) {
      IndexTile out = sum(scalar(0, type.shape), b->terms_.empty() ? a : *b, (b->terms_.empty() ? *b : a).base_);
      return out;
    }
    if ((op.opcode == Opcode::Div || op.opcode == Opcode::Rem) && b->terms_.empty())
      if (IndexTile out = divide(op, a, b->base_); out.known_) return out;
    const bool widens = op.opcode == Opcode::Cast && !a.bool_ && type.bits() >= op.operand(0)->type.bits();
    if (widens || op.opcode == Opcode::Hint || op.opcode == Opcode::ConvertLayout) return a;
  }
  if (is_comparison(op.opcode) && !op.operand(0)->type.is_bool()) return compare(op.opcode, a, *b);
  if (op.opcode == Opcode::BitAnd && type.is_bool()) {
    IndexTile out = a;
    if (!b->base_) return *b;
    for (const Term& t : b->terms_) out.add(t);
    return out;
  }
  switch (op.opcode) {
    case Opcode::Splat:
    case Opcode::Broadcast: {
      IndexTile out = a;
      out.shape_ = type.shape;
      return out;
    }
    case Opcode::ExpandDims:
    case Opcode::Reshape:
      return reshape(op, a);
    case Opcode::Trans: {
      const ir::Ints order = op.get(ir::attr::order);
      std::vector<int> renamed(order.size());
      for (size_t i = 0; i < order.size(); ++i) renamed[size_t(order[i])] = int(i);
      return a.with_axes(renamed, type.shape);
    }
    default:
      return combine(op, operands);
  }
}

}  // namespace tegula::explaining
