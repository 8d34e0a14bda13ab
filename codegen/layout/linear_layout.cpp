#include "codegen/layout/linear_layout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <span>

#include "codegen/layout/gf2.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

bool is_tile_dim(Dim d) { return d >= Dim::Dim0; }
/// Bits of a coordinate inside a block.
int block_bits(int64_t size) { return std::countr_zero(uint64_t(size)); }

/// Coordinates inside a block packed into one word, the first output dimension in the lowest bits.
uint64_t pack(const LinearLayout::Basis& coords, const std::vector<LinearLayout::Out>& outs) {
  uint64_t word = 0;
  int shift = 0;
  for (size_t i = 0; i < outs.size(); ++i) {
    word |= uint64_t(coords[i]) << shift;
    shift += block_bits(outs[i].size);
  }
  return word;
}

LinearLayout::Basis unpack(uint64_t word, const std::vector<LinearLayout::Out>& outs) {
  LinearLayout::Basis coords;
  for (const auto& out : outs) {
    coords.push_back(int32_t(word & uint64_t(block_of(out.size) - 1)));
    word >>= block_bits(out.size);
  }
  return coords;
}

/// Images of all input bits in order, packed.
std::vector<uint64_t> columns_of(const LinearLayout& layout) {
  std::vector<uint64_t> columns;
  for (const auto& in : layout.ins())
    for (const auto& basis : in.bases) columns.push_back(pack(basis, layout.outs()));
  return columns;
}

/// The inputs of a layout as output dimensions of another.
std::vector<LinearLayout::Out> ins_as_outs(const LinearLayout& layout) {
  std::vector<LinearLayout::Out> outs;
  for (const auto& in : layout.ins()) outs.push_back({in.dim, layout.in_size(in.dim)});
  return outs;
}

/// Replaces every image, of bits and repeats, by f of it.
template <class F>
void map_images(std::vector<LinearLayout::In>& ins, F f) {
  for (auto& in : ins) {
    for (auto& basis : in.bases) basis = f(std::move(basis));
    for (auto& repeat : in.repeats) repeat.image = f(std::move(repeat.image));
  }
}

/// The output that an image moves along; -1 for none.
int moved_output(const LinearLayout::Basis& image) {
  auto it = std::find_if(image.begin(), image.end(), [](int32_t c) { return c != 0; });
  return it == image.end() ? -1 : int(it - image.begin());
}

/// The repeats along output `o` as (distance in blocks, count), nearest first.
std::vector<std::pair<int32_t, int32_t>> repeats_along(const LinearLayout& layout, size_t o) {
  std::vector<std::pair<int32_t, int32_t>> found;
  for (const auto& in : layout.ins())
    for (const auto& repeat : in.repeats)
      if (repeat.image[o]) found.emplace_back(int32_t(repeat.image[o] / block_of(layout.outs()[o].size)), repeat.count);
  std::sort(found.begin(), found.end());
  return found;
}

}  // namespace

std::optional<LinearLayout> LinearLayout::try_create(std::vector<In> ins, std::vector<Out> outs, std::string* why) {
  auto fail = [&](std::string reason) {
    if (why) *why = std::move(reason);
    return std::nullopt;
  };
  for (size_t i = 0; i < outs.size(); ++i) {
    if (outs[i].size <= 0) return fail(fmt::format("{} has size {}", dim_name(outs[i].dim), outs[i].size));
    for (size_t j = 0; j < i; ++j)
      if (outs[j].dim == outs[i].dim) return fail(fmt::format("output {} is named twice", dim_name(outs[i].dim)));
  }
  int in_bits = 0, out_bits = 0;
  std::vector<int64_t> reach;  // of bits and repeats, for each output
  for (const Out& out : outs) {
    out_bits += std::bit_width(uint32_t(out.size)) - 1;
    reach.push_back(block_of(out.size));
  }
  for (size_t i = 0; i < ins.size(); ++i) {
    for (size_t j = 0; j < i; ++j)
      if (ins[j].dim == ins[i].dim) return fail(fmt::format("input {} is named twice", dim_name(ins[i].dim)));
    in_bits += int(ins[i].bases.size());
    for (size_t bit = 0; bit < ins[i].bases.size(); ++bit) {
      const Basis& basis = ins[i].bases[bit];
      if (basis.size() != outs.size())
        return fail(fmt::format("bit {} of {} has {} coordinates; there are {} outputs", bit, dim_name(ins[i].dim),
                                basis.size(), outs.size()));
      for (size_t o = 0; o < outs.size(); ++o)
        if (basis[o] < 0 || basis[o] >= block_of(outs[o].size)) {
          std::string blocks;
          if (basis[o] < outs[o].size) blocks = fmt::format(" in blocks of {}", block_of(outs[o].size));
          return fail(fmt::format("bit {} of {} goes to {} in {}, which has size {}{}", bit, dim_name(ins[i].dim),
                                  basis[o], dim_name(outs[o].dim), outs[o].size, blocks));
        }
    }
    for (const Repeat& repeat : ins[i].repeats) {
      in_bits += std::bit_width(uint32_t(std::max(repeat.count, 1)));
      std::string what =
          fmt::format("the repeat {}*[{}] of {}", repeat.count, fmt::join(repeat.image, ","), dim_name(ins[i].dim));
      if (repeat.count < 3 || repeat.count % 2 == 0) return fail(what + ": the count must be odd and more than 1");
      if (repeat.image.size() != outs.size())
        return fail(fmt::format("{} has {} coordinates; there are {} outputs", what, repeat.image.size(), outs.size()));
      int along = moved_output(repeat.image);
      if (along < 0) continue;
      if (std::count(repeat.image.begin(), repeat.image.end(), 0) + 1 < int64_t(outs.size()))
        return fail(what + " moves along more than one output");
      const int64_t distance = repeat.image[along], block = block_of(outs[along].size);
      reach[along] += (repeat.count - 1) * distance;
      if (distance < 0 || distance % block || reach[along] > outs[along].size)
        return fail(fmt::format("{} does not fit {}, which has size {} in blocks of {}", what,
                                dim_name(outs[along].dim), outs[along].size, block));
    }
  }
  if (in_bits > 60 || out_bits > 60)
    return fail(fmt::format("{} input bits, {} output bits: more than 60", in_bits, out_bits));
  LinearLayout layout;
  layout.ins_ = std::move(ins);
  layout.outs_ = std::move(outs);
  return layout;
}

LinearLayout::LinearLayout(std::vector<In> ins, std::vector<Out> outs) {
  std::string why;
  auto layout = try_create(std::move(ins), std::move(outs), &why);
  TEGULA_CHECK(layout, "invalid layout: {}", why);
  *this = std::move(*layout);
}

LinearLayout LinearLayout::identity(int32_t size, Dim in, Dim out) {
  std::vector<Basis> bases;
  for (int32_t i = 1; i < block_of(size); i *= 2) bases.push_back({i});
  std::vector<Repeat> repeats;
  if (repeats_of(size) > 1) repeats.push_back({int32_t(repeats_of(size)), {int32_t(block_of(size))}});
  return LinearLayout({{in, std::move(bases), std::move(repeats)}}, {{out, size}});
}

LinearLayout LinearLayout::zeros(int32_t size, Dim in, Dim out) {
  return LinearLayout({{in, std::vector<Basis>(size_t(block_bits(size)), Basis{0})}}, {{out, 1}});
}

namespace {
const LinearLayout::In* find_in(const std::vector<LinearLayout::In>& ins, Dim dim) {
  for (const auto& in : ins)
    if (in.dim == dim) return &in;
  return nullptr;
}
int find_out(const std::vector<LinearLayout::Out>& outs, Dim dim) {
  for (size_t i = 0; i < outs.size(); ++i)
    if (outs[i].dim == dim) return int(i);
  return -1;
}
}  // namespace

bool LinearLayout::has_out(Dim dim) const { return find_out(outs_, dim) >= 0; }
int LinearLayout::in_bits(Dim dim) const {
  const In* in = find_in(ins_, dim);
  return in ? int(in->bases.size()) : 0;
}
int32_t LinearLayout::in_size(Dim dim) const {
  const In* in = find_in(ins_, dim);
  if (!in) return 1;
  int32_t size = int32_t(1) << in->bases.size();
  for (const Repeat& repeat : in->repeats) size *= repeat.count;
  return size;
}
int32_t LinearLayout::out_size(Dim dim) const {
  int i = find_out(outs_, dim);
  return i < 0 ? 1 : outs_[i].size;
}
int LinearLayout::total_in_bits() const {
  int n = 0;
  for (const In& in : ins_) n += int(in.bases.size());
  return n;
}
int LinearLayout::total_out_bits() const {
  int n = 0;
  for (const Out& out : outs_) n += block_bits(out.size);
  return n;
}
const LinearLayout::Basis& LinearLayout::basis(Dim dim, int bit) const {
  const In* in = find_in(ins_, dim);
  TEGULA_CHECK(in && bit < int(in->bases.size()), "no bit {} of {} in {}", bit, dim_name(dim), to_string());
  return in->bases[bit];
}
int32_t LinearLayout::basis(Dim in, int bit, Dim out) const {
  int i = find_out(outs_, out);
  TEGULA_CHECK(i >= 0, "no output {} in {}", dim_name(out), to_string());
  return basis(in, bit)[i];
}

LinearLayout::Basis LinearLayout::apply(const std::pair<Dim, int32_t>* at, size_t count) const {
  Basis result(outs_.size(), 0), beyond(outs_.size(), 0);
  for (auto [dim, value] : std::span(at, count)) {
    TEGULA_CHECK(value >= 0 && value < in_size(dim), "{} = {} is outside {}", dim_name(dim), value, to_string());
    const In* in = find_in(ins_, dim);
    if (!in) continue;
    for (const Basis& image : in->bases) {
      if (value & 1)
        for (size_t o = 0; o < outs_.size(); ++o) result[o] ^= image[o];
      value >>= 1;
    }
    for (const Repeat& repeat : in->repeats) {
      for (size_t o = 0; o < outs_.size(); ++o) beyond[o] += value % repeat.count * repeat.image[o];
      value /= repeat.count;
    }
  }
  for (size_t o = 0; o < outs_.size(); ++o) result[o] += beyond[o];
  return result;
}

LinearLayout LinearLayout::operator*(const LinearLayout& outer) const {
  std::vector<Out> outs = outs_;
  for (const Out& out : outer.outs_) {
    int i = find_out(outs, out.dim);
    if (i < 0)
      outs.push_back(out);
    else
      outs[i].size *= out.size;
  }
  std::vector<In> ins = ins_, added = outer.ins_;
  map_images(ins, [&](Basis image) {
    image.resize(outs.size(), 0);
    return image;
  });
  map_images(added, [&](const Basis& image) {
    Basis scaled(outs.size(), 0);
    for (size_t o = 0; o < outer.outs_.size(); ++o)
      scaled[find_out(outs, outer.outs_[o].dim)] = image[o] * out_size(outer.outs_[o].dim);
    return scaled;
  });
  for (In& in : added) {
    auto it = std::find_if(ins.begin(), ins.end(), [&](const In& i) { return i.dim == in.dim; });
    if (it == ins.end()) it = ins.insert(ins.end(), In{in.dim, {}});
    it->bases.insert(it->bases.end(), in.bases.begin(), in.bases.end());
    it->repeats.insert(it->repeats.end(), in.repeats.begin(), in.repeats.end());
  }
  return LinearLayout(std::move(ins), std::move(outs));
}

LinearLayout LinearLayout::compose(const LinearLayout& next) const {
  for (const Out& out : outs_)
    TEGULA_CHECK(out.size <= next.in_size(out.dim), "{} does not fit the inputs of {}", to_string(), next.to_string());
  auto through = [&](const Basis& coords, int32_t times) {
    std::vector<std::pair<Dim, int32_t>> at;
    for (size_t o = 0; o < outs_.size(); ++o) at.emplace_back(outs_[o].dim, coords[o] * times);
    return next.apply(at);
  };
  for (const In& in : ins_)
    for (const Repeat& repeat : in.repeats)
      for (int32_t i = 2; i < repeat.count; ++i) {
        Basis once = through(repeat.image, 1), often = through(repeat.image, i);
        for (size_t o = 0; o < often.size(); ++o)
          TEGULA_CHECK(often[o] == i * once[o], "repeats of {} are cut up in {}", to_string(), next.to_string());
      }
  std::vector<In> ins = ins_;
  map_images(ins, [&](const Basis& image) { return through(image, 1); });
  return LinearLayout(std::move(ins), next.outs_);
}

std::optional<LinearLayout> LinearLayout::try_invert_and_compose(const LinearLayout& to) const {
  std::vector<Dim> order;
  for (const Out& out : outs_) order.push_back(out.dim);
  LinearLayout target = to.transpose_outs(order);
  TEGULA_CHECK(target.outs_ == outs_, "different tiles: {} and {}", to_string(), to.to_string());
  gf2::Span span(columns_of(target));
  std::vector<Out> outs = ins_as_outs(target);
  // A repeat of this one is some steps of a repeat of the target.
  auto find_repeat = [&](const Repeat& repeat) -> std::optional<Basis> {
    Basis image(outs.size(), 0);
    const int along = moved_output(repeat.image);
    if (along < 0) return image;
    for (size_t i = 0; i < target.ins_.size(); ++i) {
      int32_t place = int32_t(1) << target.ins_[i].bases.size();  // of the target's input when the repeat steps
      for (const Repeat& other : target.ins_[i].repeats) {
        if (int32_t distance = other.image[along]; distance && repeat.image[along] % distance == 0) {
          const int32_t steps = repeat.image[along] / distance;
          if ((repeat.count - 1) * steps < other.count) {
            image[i] = steps * place;
            return image;
          }
        }
        place *= other.count;
      }
    }
    return std::nullopt;
  };
  std::vector<In> ins = ins_;
  for (In& in : ins) {
    for (Basis& basis : in.bases) {
      auto x = span.solve(pack(basis, outs_));
      if (!x) return std::nullopt;
      basis = unpack(*x, outs);
    }
    for (Repeat& repeat : in.repeats) {
      auto image = find_repeat(repeat);
      if (!image) return std::nullopt;
      repeat.image = std::move(*image);
    }
  }
  return LinearLayout(std::move(ins), std::move(outs));
}

LinearLayout LinearLayout::invert_and_compose(const LinearLayout& to) const {
  auto result = try_invert_and_compose(to);
  TEGULA_CHECK(result, "{} does not cover what {} names", to.to_string(), to_string());
  return std::move(*result);
}

LinearLayout LinearLayout::invert() const {
  TEGULA_CHECK(is_invertible(), "not invertible: {}", to_string());
  std::vector<In> ins;
  for (size_t o = 0; o < outs_.size(); ++o) {
    In in{outs_[o].dim, {}};
    auto step = [&](int64_t distance) {
      Basis image(outs_.size(), 0);
      image[o] = int32_t(distance);
      return image;
    };
    const int64_t block = block_of(outs_[o].size);
    for (int64_t i = 1; i < block; i *= 2) in.bases.push_back(step(i));
    if (outs_[o].size > block) in.repeats.push_back({int32_t(outs_[o].size / block), step(block)});
    ins.push_back(std::move(in));
  }
  return LinearLayout(std::move(ins), outs_).invert_and_compose(*this);
}

LinearLayout LinearLayout::sublayout(const std::vector<Dim>& keep_ins, const std::vector<Dim>& keep_outs) const {
  auto kept = [](const std::vector<Dim>& dims, Dim d) { return std::find(dims.begin(), dims.end(), d) != dims.end(); };
  std::vector<Out> outs;
  for (const Out& out : outs_)
    if (kept(keep_outs, out.dim)) outs.push_back(out);
  std::vector<In> ins = ins_;
  std::erase_if(ins, [&](const In& in) { return !kept(keep_ins, in.dim); });
  map_images(ins, [&](const Basis& all) {
    Basis image;
    for (size_t o = 0; o < outs_.size(); ++o)
      if (kept(keep_outs, outs_[o].dim)) image.push_back(all[o]);
    return image;
  });
  return LinearLayout(std::move(ins), std::move(outs));
}

LinearLayout LinearLayout::transpose_outs(const std::vector<Dim>& order) const {
  TEGULA_CHECK(order.size() == outs_.size(), "{} outputs named, there are {}", order.size(), outs_.size());
  std::vector<int> from;
  std::vector<Out> outs;
  for (Dim d : order) {
    from.push_back(find_out(outs_, d));
    TEGULA_CHECK(from.back() >= 0, "no output {} in {}", dim_name(d), to_string());
    outs.push_back(outs_[from.back()]);
  }
  std::vector<In> ins = ins_;
  map_images(ins, [&](const Basis& all) {
    Basis image;
    for (int i : from) image.push_back(all[i]);
    return image;
  });
  return LinearLayout(std::move(ins), std::move(outs));
}

LinearLayout LinearLayout::drop_tile_dim(int axis) const {
  TEGULA_CHECK(has_out(tile_dim(axis)), "no {} in {}", dim_name(tile_dim(axis)), to_string());
  std::vector<Dim> in_dims, out_dims;
  for (const In& in : ins_) in_dims.push_back(in.dim);
  for (const Out& out : outs_)
    if (out.dim != tile_dim(axis)) out_dims.push_back(out.dim);
  LinearLayout rest = sublayout(in_dims, out_dims);
  for (Out& out : rest.outs_)
    if (out.dim > tile_dim(axis)) out.dim = Dim(int(out.dim) - 1);
  return rest;
}

LinearLayout LinearLayout::insert_tile_dim(int axis) const {
  TEGULA_CHECK(!has_out(tile_dim(kMaxRank - 1)), "tiles have at most {} dimensions", kMaxRank);
  LinearLayout result = *this;
  size_t at = 0;
  while (at < outs_.size() && !(is_tile_dim(outs_[at].dim) && outs_[at].dim >= tile_dim(axis))) ++at;
  for (Out& out : result.outs_)
    if (out.dim >= tile_dim(axis)) out.dim = Dim(int(out.dim) + 1);
  result.outs_.insert(result.outs_.begin() + at, Out{tile_dim(axis), 1});
  map_images(result.ins_, [&](Basis image) {
    image.insert(image.begin() + long(at), 0);
    return image;
  });
  return result;
}

LinearLayout LinearLayout::hold_tile_dim(int axis) const {
  const int at = find_out(outs_, tile_dim(axis));
  TEGULA_CHECK(at >= 0, "no {} in {}", dim_name(tile_dim(axis)), to_string());
  LinearLayout result = *this;
  result.outs_[at].size = 1;
  map_images(result.ins_, [&](Basis image) {
    image[at] = 0;
    return image;
  });
  return result;
}

std::vector<int64_t> LinearLayout::tile_shape() const {
  std::vector<int64_t> shape;
  for (int axis = 0; axis < kMaxRank && has_out(tile_dim(axis)); ++axis) shape.push_back(out_size(tile_dim(axis)));
  return shape;
}

std::optional<LinearLayout> LinearLayout::reshape_tile(const std::vector<int64_t>& shape) const {
  const std::vector<int64_t> old_shape = tile_shape();
  TEGULA_CHECK(old_shape.size() == outs_.size() && int(shape.size()) <= kMaxRank, "cannot reshape {} to {} dimensions",
               to_string(), shape.size());
  // Distances in row-major order: of neighbours along each dimension; each bit of a coordinate then has one too.
  auto strides_of = [](const std::vector<int64_t>& of) {
    std::vector<int64_t> strides(of.size() + 1, 1);
    for (size_t axis = of.size(); axis-- > 0;) strides[axis] = strides[axis + 1] * of[axis];
    return strides;  // [0]: of all elements, [axis + 1]: of the dimension
  };
  const std::vector<int64_t> old_strides = strides_of(old_shape), strides = strides_of(shape);
  TEGULA_CHECK(old_strides[0] == strides[0], "cannot reshape {} to [{}]", to_string(), fmt::join(shape, ", "));
  std::map<int64_t, std::pair<size_t, int32_t>> bits;  // by distance
  for (size_t axis = 0; axis < shape.size(); ++axis)
    for (int64_t i = 1; i < block_of(shape[axis]); i *= 2) bits[strides[axis + 1] * i] = {axis, int32_t(i)};

  bool plain = true;
  auto reshaped = [&](const Basis& coords) {
    Basis image(shape.size(), 0);
    for (size_t o = 0; o < outs_.size(); ++o) {
      const int64_t stride = old_strides[size_t(int(outs_[o].dim) - int(Dim::Dim0)) + 1],
                    block = block_of(outs_[o].size);
      for (int64_t i = 1; i < block; i *= 2) {
        auto it = bits.find(stride * i);
        plain &= it != bits.end();
        if (it != bits.end() && (coords[o] & i)) image[it->second.first] ^= it->second.second;
      }
      const int64_t distance = stride * (coords[o] & -block);
      for (size_t axis = 0; distance && axis < shape.size(); ++axis) {
        const int64_t step = strides[axis + 1] * block_of(shape[axis]);
        if (distance >= strides[axis] || distance < step) continue;
        plain &= distance % step == 0;
        image[axis] += int32_t(distance / strides[axis + 1]);
      }
    }
    return image;
  };
  std::vector<Out> outs;
  for (size_t axis = 0; axis < shape.size(); ++axis) outs.push_back({tile_dim(int(axis)), int32_t(shape[axis])});
  std::vector<In> ins = ins_;
  map_images(ins, reshaped);
  // The coordinates of another shape may also overflow where a repeat's values spread over several dimensions.
  return plain ? try_create(std::move(ins), std::move(outs), nullptr) : std::nullopt;
}

LinearLayout LinearLayout::permute_tile(const std::vector<int>& order) const {
  std::vector<Dim> dims;
  for (int axis : order) dims.push_back(tile_dim(axis));
  LinearLayout result = transpose_outs(dims);
  for (size_t i = 0; i < order.size(); ++i) result.outs_[i].dim = tile_dim(int(i));
  return result;
}

LinearLayout LinearLayout::remove_zero_registers() const {
  LinearLayout result = *this;
  for (In& in : result.ins_) {
    if (in.dim != Dim::Register) continue;
    gf2::Span span;
    std::erase_if(in.bases, [&](const Basis& basis) { return !span.insert(pack(basis, outs_)); });
    std::erase_if(in.repeats, [](const Repeat& repeat) { return moved_output(repeat.image) < 0; });
  }
  return result;
}

bool LinearLayout::is_surjective() const {
  for (size_t o = 0; o < outs_.size(); ++o) {
    int64_t blocks = 1;
    for (auto [distance, count] : repeats_along(*this, o)) {
      if (distance > blocks) return false;
      blocks += int64_t(distance) * (count - 1);
    }
    if (blocks != repeats_of(outs_[o].size)) return false;
  }
  return gf2::rank(columns_of(*this)) == total_out_bits();
}

bool LinearLayout::is_injective() const {
  for (const In& in : ins_)
    for (const Repeat& repeat : in.repeats)
      if (moved_output(repeat.image) < 0) return false;
  for (size_t o = 0; o < outs_.size(); ++o) {
    int64_t blocks = 1;
    for (auto [distance, count] : repeats_along(*this, o)) {
      if (distance < blocks) return false;
      blocks += int64_t(distance) * (count - 1);
    }
  }
  return gf2::rank(columns_of(*this)) == total_in_bits();
}

int32_t LinearLayout::free_mask(Dim dim) const {
  std::array<uint64_t, 64> rows{};  // by the highest bit of each
  auto depends = [&](uint64_t v) {
    while (v) {
      uint64_t& row = rows[size_t(std::bit_width(v)) - 1];
      if (!row) {
        row = v;
        return false;
      }
      v ^= row;
    }
    return true;
  };
  int32_t mask = 0;
  for (const In& in : ins_) {
    for (size_t bit = 0; bit < in.bases.size(); ++bit)
      if (depends(pack(in.bases[bit], outs_)) && in.dim == dim) mask |= int32_t(1) << bit;
    if (in.dim == dim) break;
  }
  return mask;
}

int32_t LinearLayout::canonical(Dim dim, int32_t value) const {
  const In* in = find_in(ins_, dim);
  if (!in) return value;
  int32_t result = value & ~free_mask(dim) & ((int32_t(1) << in->bases.size()) - 1);
  int32_t place = int32_t(1) << in->bases.size();
  for (const Repeat& repeat : in->repeats) {
    if (moved_output(repeat.image) >= 0) result += value / place % repeat.count * place;
    place *= repeat.count;
  }
  return result;
}

int32_t LinearLayout::contiguous_registers(int axis) const {
  int at = find_out(outs_, tile_dim(axis));
  if (at < 0) return 1;
  int bits = 0;
  for (; bits < in_bits(Dim::Register); ++bits) {
    Basis expected(outs_.size(), 0);
    expected[at] = int32_t(1) << bits;
    if (expected[at] >= block_of(outs_[at].size) || basis(Dim::Register, bits) != expected) break;
  }
  // Nothing else may move the low bits, or the elements of other threads' groups would be permuted.
  for (const In& in : ins_)
    for (size_t bit = 0; bit < in.bases.size(); ++bit)
      if (int32_t c = in.bases[bit][at]; c && !(in.dim == Dim::Register && int(bit) < bits))
        bits = std::min(bits, std::countr_zero(uint32_t(c)));
  return int32_t(1) << bits;
}

}  // namespace tegula
