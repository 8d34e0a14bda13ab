#include "codegen/layout/makers.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "codegen/layout/gf2.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

int log2_of(int64_t n) {
  TEGULA_CHECK(n > 0 && std::has_single_bit(uint64_t(n)), "{} is not a power of two", n);
  return std::countr_zero(uint64_t(n));
}

/// Builds a layout bit by bit: every call appends input bits that take the next bits of a tile dimension.
class Maker {
 public:
  static constexpr int kBeyond = 30;  ///< a bit that no dimension has, hence a free one

  explicit Maker(const std::vector<int64_t>& shape) {
    for (size_t axis = 0; axis < shape.size(); ++axis) outs_.push_back({tile_dim(int(axis)), int32_t(shape[axis])});
    used_.resize(shape.size());
  }

  /// Bit `bit` of dimension `axis`; a free bit where the tile is too small.
  void place(Dim in, int axis, int bit) {
    LinearLayout::Basis basis(outs_.size(), 0);
    int32_t coordinate = int32_t(1) << bit;
    if (coordinate < outs_[axis].size) {
      basis[axis] = coordinate;
      used_[axis] = std::max(used_[axis], bit + 1);
    }
    bases_[in].push_back(std::move(basis));
  }
  /// The next `bits` bits of `axis`.
  void extend(Dim in, int axis, int bits) {
    for (int i = 0; i < bits; ++i) place(in, axis, is_full(axis) ? kBeyond : used_[axis]);
  }
  /// Everything of `axis` that is left.
  void fill(Dim in, int axis) {
    while (!is_full(axis)) place(in, axis, used_[axis]);
  }
  bool is_full(int axis) const { return int32_t(1) << used_[axis] >= outs_[axis].size; }

  LinearLayout threads() { return finish({Dim::Register, Dim::Lane, Dim::Warp}); }
  LinearLayout finish(const std::vector<Dim>& dims) {
    std::vector<LinearLayout::In> ins;
    for (Dim dim : dims) ins.push_back({dim, bases_[dim]});
    return LinearLayout(std::move(ins), outs_);
  }

 private:
  std::vector<LinearLayout::Out> outs_;
  std::vector<int> used_;
  std::map<Dim, std::vector<LinearLayout::Basis>> bases_;
};

/// The last two dimensions repeat in registers in the order given, then those before them, last first.
void repeat_tile(Maker& maker, int rank, int first, int second) {
  maker.fill(Dim::Register, first);
  maker.fill(Dim::Register, second);
  for (int axis = rank - 2; axis-- > 0;) maker.fill(Dim::Register, axis);
}

}  // namespace

LinearLayout blocked_layout(const std::vector<int64_t>& shape, const std::vector<int>& per_thread,
                            const std::vector<int>& lanes, const std::vector<int>& warps,
                            const std::vector<int>& order) {
  Maker maker(shape);
  for (int axis : order) maker.extend(Dim::Register, axis, std::min(log2_of(per_thread[axis]), log2_of(shape[axis])));
  for (int axis : order) maker.extend(Dim::Lane, axis, log2_of(lanes[axis]));
  for (int axis : order) maker.extend(Dim::Warp, axis, log2_of(warps[axis]));
  for (int axis : order) maker.fill(Dim::Register, axis);
  return maker.threads();
}

LinearLayout coalesced_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int per_thread,
                              int num_warps) {
  std::vector<int64_t> left = shape;
  std::vector<int> registers(shape.size(), 1);
  registers[order[0]] = int(std::min<int64_t>(per_thread, shape[order[0]]));
  left[order[0]] /= registers[order[0]];
  // Threads go along the fastest dimension as far as it reaches; those that find no room hold copies along the last.
  auto spread = [&](int64_t threads) {
    std::vector<int> along(shape.size(), 1);
    for (int axis : order) {
      int64_t take = std::min(threads, left[axis]);
      along[axis] = int(take);
      left[axis] /= take;
      threads /= take;
    }
    along[order.back()] *= int(threads);
    return along;
  };
  std::vector<int> lanes = spread(32);
  std::vector<int> warps = spread(num_warps);
  return blocked_layout(shape, registers, lanes, warps, order);
}

LinearLayout mma_accumulator_layout(const std::vector<int64_t>& shape, int warps_m, int warps_n) {
  int rank = int(shape.size()), m = rank - 2, n = rank - 1;
  Maker maker(shape);
  maker.place(Dim::Register, n, 0);
  for (int bit : {1, 2}) maker.place(Dim::Lane, n, bit);
  for (int bit : {0, 1, 2}) maker.place(Dim::Lane, m, bit);
  maker.place(Dim::Register, m, 3);
  maker.extend(Dim::Warp, n, log2_of(warps_n));
  maker.extend(Dim::Warp, m, log2_of(warps_m));
  repeat_tile(maker, rank, n, m);
  return maker.threads();
}

LinearLayout wgmma_accumulator_layout(const std::vector<int64_t>& shape, int groups_m, int groups_n) {
  int rank = int(shape.size()), m = rank - 2, n = rank - 1;
  Maker maker(shape);
  maker.place(Dim::Register, n, 0);
  for (int bit : {1, 2}) maker.place(Dim::Lane, n, bit);
  for (int bit : {0, 1, 2}) maker.place(Dim::Lane, m, bit);
  maker.place(Dim::Register, m, 3);
  for (int bit : {4, 5}) maker.place(Dim::Warp, m, bit);
  maker.extend(Dim::Register, n, log2_of(shape[n]) - 3 - log2_of(groups_n));
  maker.extend(Dim::Warp, n, log2_of(groups_n));
  maker.extend(Dim::Warp, m, log2_of(groups_m));
  repeat_tile(maker, rank, n, m);
  return maker.threads();
}

LinearLayout wgmma_operand_layout(const std::vector<int64_t>& shape, int bits, int groups_m, int groups_n) {
  const int m = 0, k = 1, packed = log2_of(32 / bits);
  Maker maker(shape);
  for (int bit = 0; bit < packed; ++bit) maker.place(Dim::Register, k, bit);
  for (int bit : {packed, packed + 1}) maker.place(Dim::Lane, k, bit);
  for (int bit : {0, 1, 2}) maker.place(Dim::Lane, m, bit);
  maker.place(Dim::Register, m, 3);
  maker.place(Dim::Register, k, packed + 2);
  for (int bit : {4, 5}) maker.place(Dim::Warp, m, bit);
  for (int i = 0; i < log2_of(groups_n); ++i) maker.place(Dim::Warp, k, Maker::kBeyond);
  maker.extend(Dim::Warp, m, log2_of(groups_m));
  repeat_tile(maker, 2, k, m);
  return maker.threads();
}

LinearLayout mma_operand_layout(const std::vector<int64_t>& shape, int operand, int bits, int warps_m, int warps_n) {
  TEGULA_CHECK(bits == 8 || bits == 16 || bits == 32, "mma operands of {} bits", bits);
  int rank = int(shape.size());
  int k = operand == 0 ? rank - 1 : rank - 2, other = operand == 0 ? rank - 2 : rank - 1;
  int packed = log2_of(32 / bits);  // a 32-bit register holds 2^packed neighbours along K
  Maker maker(shape);
  for (int bit = 0; bit < packed; ++bit) maker.place(Dim::Register, k, bit);
  for (int bit : {packed, packed + 1}) maker.place(Dim::Lane, k, bit);
  for (int bit : {0, 1, 2}) maker.place(Dim::Lane, other, bit);
  if (operand == 0) maker.place(Dim::Register, other, 3);
  maker.place(Dim::Register, k, packed + 2);
  auto free_warps = [&](int warps) {
    for (int i = 0; i < log2_of(warps); ++i) maker.place(Dim::Warp, k, Maker::kBeyond);
  };
  if (operand == 0) {
    free_warps(warps_n);
    maker.extend(Dim::Warp, other, log2_of(warps_m));
  } else {
    maker.extend(Dim::Warp, other, log2_of(warps_n));
    free_warps(warps_m);
  }
  repeat_tile(maker, rank, k, other);
  return maker.threads();
}

LinearLayout fma_operand_layout(const LinearLayout& sums, int operand, const std::vector<int64_t>& shape) {
  const int rank = int(shape.size()), k = operand == 0 ? rank - 1 : rank - 2;
  std::vector<LinearLayout::Out> outs;
  for (int axis = 0; axis < rank; ++axis) outs.push_back({tile_dim(axis), int32_t(shape[axis])});
  std::vector<LinearLayout::In> ins = sums.ins();
  for (LinearLayout::In& in : ins) {
    for (LinearLayout::Basis& basis : in.bases) basis[k] = 0;
    if (in.dim != Dim::Register) continue;
    for (int bit = 0; bit < log2_of(shape[k]); ++bit) {
      LinearLayout::Basis along(rank, 0);
      along[k] = int32_t(1) << bit;
      in.bases.push_back(std::move(along));
    }
  }
  return LinearLayout(std::move(ins), std::move(outs)).remove_zero_registers();
}

std::optional<LinearLayout> warp_local_store_layout(const LinearLayout& reg, int axis, int vector) {
  std::vector<LinearLayout::In> ins = reg.ins();
  auto bases = [&](Dim dim) -> std::vector<LinearLayout::Basis>& {
    return std::find_if(ins.begin(), ins.end(), [&](auto& in) { return in.dim == dim; })->bases;
  };
  auto along = [&](const LinearLayout::Basis& basis) {  // the coordinate of a basis that moves along the axis alone
    int32_t value = 0;
    for (size_t o = 0; o < basis.size(); ++o)
      if (reg.outs()[o].dim == tile_dim(axis))
        value = basis[o];
      else if (basis[o])
        return 0;
    return value;
  };
  auto &registers = bases(Dim::Register), &lanes = bases(Dim::Lane);
  size_t next = 0;  // registers before it are those of the vector
  for (int step = 1; step < vector; step *= 2) {
    auto is_step = [&](auto& basis) { return along(basis) == step; };
    auto held = std::find_if(registers.begin(), registers.end(), is_step);
    if (held == registers.end()) {
      auto lane = std::find_if(lanes.begin(), lanes.end(), is_step);
      held = std::find_if(registers.begin(), registers.end(), [&](auto& basis) { return along(basis) >= vector; });
      if (lane == lanes.end() || held == registers.end()) return std::nullopt;
      std::swap(*lane, *held);
    }
    std::rotate(registers.begin() + next, held, held + 1);
    ++next;
  }
  return LinearLayout(std::move(ins), reg.outs());
}

LinearLayout swizzled_shared_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int vector,
                                    int per_phase, int phases) {
  int column_bits = log2_of(shape[order[0]]), vector_bits = log2_of(vector), phase_row = log2_of(per_phase);
  std::vector<LinearLayout::Out> outs;
  for (size_t axis = 0; axis < shape.size(); ++axis) outs.push_back({tile_dim(int(axis)), int32_t(shape[axis])});
  LinearLayout::In offset{Dim::Offset, {}};
  int row = 0;  // bits of the row number passed
  for (size_t i = 0; i < order.size(); ++i) {
    for (int bit = 0; bit < log2_of(shape[order[i]]); ++bit) {
      LinearLayout::Basis basis(shape.size(), 0);
      basis[order[i]] = int32_t(1) << bit;
      if (i > 0) {
        int group_bit = row++ - phase_row;
        if (group_bit >= 0 && group_bit < log2_of(phases) && vector_bits + group_bit < column_bits)
          basis[order[0]] = int32_t(1) << (vector_bits + group_bit);
      }
      offset.bases.push_back(std::move(basis));
    }
  }
  return LinearLayout({std::move(offset)}, std::move(outs));
}

namespace {

/// Images of the bits of `dim` as words: coordinates packed with Dim0 lowest.
std::vector<gf2::Vector> packed_bases(const LinearLayout& layout, Dim dim) {
  std::vector<gf2::Vector> result;
  for (int bit = 0; bit < layout.in_bits(dim); ++bit) {
    gf2::Vector word = 0;
    int shift = 0;
    for (const auto& out : layout.outs()) {
      word |= gf2::Vector(layout.basis(dim, bit, out.dim)) << shift;
      shift += log2_of(out.size);
    }
    result.push_back(word);
  }
  return result;
}

LinearLayout shared_from_columns(const std::vector<gf2::Vector>& columns, const std::vector<LinearLayout::Out>& outs) {
  LinearLayout::In offset{Dim::Offset, {}};
  for (gf2::Vector word : columns) {
    LinearLayout::Basis basis;
    for (const auto& out : outs) {
      basis.push_back(int32_t(word & gf2::Vector(out.size - 1)));
      word >>= log2_of(out.size);
    }
    offset.bases.push_back(std::move(basis));
  }
  return LinearLayout({std::move(offset)}, outs);
}

/// Whether accesses of 2^vector_bits elements work for `reg`: the low offset bits belong to as many register bits
/// alone.
bool allows_vector(const LinearLayout& reg, const LinearLayout& shared, int vector_bits) {
  LinearLayout offsets = reg.invert_and_compose(shared);
  int32_t low = (int32_t(1) << vector_bits) - 1, seen = 0;
  for (const auto& in : offsets.ins())
    for (const auto& basis : in.bases) {
      int32_t touched = basis[0] & low;
      if (touched == 0) continue;
      if (in.dim != Dim::Register || basis[0] != touched || !std::has_single_bit(uint32_t(touched)) || (seen & touched))
        return false;
      seen |= touched;
    }
  return seen == low;
}

}  // namespace

LinearLayout shared_layout_for_conversion(const LinearLayout& src, const LinearLayout& dst_any_order, int bits,
                                          int* vector) {
  bits = std::max(bits, 8);
  std::vector<Dim> dims;
  for (const auto& out : src.outs()) dims.push_back(out.dim);
  LinearLayout dst = dst_any_order.transpose_outs(dims);
  int n = src.total_out_bits();

  // Neighbouring elements of an access: coordinates that are registers on both sides.
  std::vector<gf2::Vector> common;
  auto dst_registers = packed_bases(dst, Dim::Register);
  for (gf2::Vector v : packed_bases(src, Dim::Register))
    if (v && int(common.size()) < log2_of(std::max(1, 128 / bits)) &&
        std::find(dst_registers.begin(), dst_registers.end(), v) != dst_registers.end())
      common.push_back(v);

  for (;; common.pop_back()) {
    int vector_bits = int(common.size());
    int bank_bits = std::min(n, log2_of(std::max(1, 1024 / bits)));  // one element in each place of a 128-byte row
    // Lanes served together: a warp's access goes out 128 bytes at a time.
    int together = std::clamp(log2_of(1024 / bits) - vector_bits, 0, 5);
    auto row = [&](const LinearLayout& layout) {
      gf2::Span span;
      std::vector<gf2::Vector> basis;
      auto add = [&](gf2::Vector v) {
        if (int(basis.size()) < bank_bits && span.insert(v)) basis.push_back(v);
      };
      for (gf2::Vector v : common) add(v);
      auto lanes = packed_bases(layout, Dim::Lane);
      for (int i = 0; i < std::min(together, int(lanes.size())); ++i) add(lanes[i]);
      return basis;
    };
    // Both sides' rows, made equally large; each takes the other's directions first, so that little is left to swizzle.
    std::vector<gf2::Vector> a = row(src), b = row(dst);
    auto grow = [&](std::vector<gf2::Vector>& basis, std::vector<gf2::Vector> from) {
      for (int i = 0; i < n; ++i) from.push_back(gf2::Vector(1) << i);
      gf2::Span span(basis);
      for (gf2::Vector v : from)
        if (int(basis.size()) < bank_bits && span.insert(v)) basis.push_back(v);
    };
    grow(a, b);
    grow(b, a);
    // Rows of 128 bytes are numbered by a space that both sides' simultaneous lanes meet only in 0.
    std::vector<gf2::Vector> columns = a;
    for (gf2::Vector v : gf2::common_complement(a, b, n)) columns.push_back(v);
    LinearLayout shared = shared_from_columns(columns, src.outs());
    if (vector_bits > 0 && !(allows_vector(src, shared, vector_bits) && allows_vector(dst, shared, vector_bits)))
      continue;
    if (vector) *vector = 1 << vector_bits;
    return shared;
  }
}

std::vector<int> fastest_order(const LinearLayout& reg) {
  int rank = int(reg.outs().size());
  std::vector<int> order;
  auto add = [&](int axis) {
    if (std::find(order.begin(), order.end(), axis) == order.end()) order.push_back(axis);
  };
  for (int axis = rank; axis-- > 0;)
    if (reg.contiguous_registers(axis) > 1) add(axis);
  for (Dim dim : {Dim::Lane, Dim::Warp, Dim::Register})
    for (int bit = 0; bit < reg.in_bits(dim); ++bit)
      for (int axis = rank; axis-- > 0;)
        if (reg.basis(dim, bit, tile_dim(axis))) add(axis);
  for (int axis = rank; axis-- > 0;) add(axis);
  return order;
}

LinearLayout shared_layout_for_dot_operand(const LinearLayout& src, int bits) {
  return shared_layout_for_dot_operand(src.tile_shape(), fastest_order(src), bits);
}

LinearLayout shared_layout_for_dot_operand(const std::vector<int64_t>& shape, std::vector<int> order, int bits) {
  // A batch dimension must not come between the rows of a matrix.
  std::stable_partition(order.begin(), order.end(), [&](int axis) { return axis >= int(shape.size()) - 2; });
  int64_t extent = shape[order[0]];
  int vector = int(std::min<int64_t>(128 / bits, extent));
  int row = std::max(1024 / bits, vector);  // elements in 128 bytes
  int per_phase = int(std::max<int64_t>(1, row / extent));
  int64_t panel = std::min<int64_t>(extent, row);
  int phases = int(std::min<int64_t>(row / vector / std::min(per_phase, row / vector), panel / vector));
  std::vector<int64_t> panel_shape = shape;
  panel_shape[order[0]] = panel;
  LinearLayout one = swizzled_shared_layout(panel_shape, order, vector, per_phase, std::max(phases, 1));
  LinearLayout::In offset = one.ins()[0];
  for (int64_t at = panel; at < extent; at *= 2) {
    LinearLayout::Basis basis(shape.size(), 0);
    basis[order[0]] = int32_t(at);
    offset.bases.push_back(std::move(basis));
  }
  std::vector<LinearLayout::Out> outs = one.outs();
  outs[order[0]].size = int32_t(extent);
  return LinearLayout({std::move(offset)}, std::move(outs));
}

std::optional<LdmatrixPlan> plan_ldmatrix(const LinearLayout& reg, const LinearLayout& shared) {
  LinearLayout offsets = reg.invert_and_compose(shared);
  int registers = offsets.in_bits(Dim::Register);
  if (registers < 1 || offsets.in_bits(Dim::Lane) != 5) return std::nullopt;
  auto at = [&](Dim dim, int bit) { return offsets.basis(dim, bit)[0]; };
  // A matrix has three bits of row number and three of place in the row. The 64 elements are told apart by register bit
  // 0 and the lane's bits.
  const std::vector<int32_t> pairs = {at(Dim::Register, 0), at(Dim::Lane, 0), at(Dim::Lane, 1)};
  const std::vector<int32_t> groups = {at(Dim::Lane, 2), at(Dim::Lane, 3), at(Dim::Lane, 4)};
  auto aligned = [](const std::vector<int32_t>& v) {
    return std::all_of(v.begin(), v.end(), [](int32_t x) { return x % 8 == 0; });
  };
  const std::vector<int32_t> in_row = {1, 2, 4};
  bool transposed;
  if (pairs == in_row && aligned(groups))
    transposed = false;
  else if (groups == in_row && aligned(pairs))
    transposed = true;
  else
    return std::nullopt;
  for (const auto& in : offsets.ins())
    for (size_t bit = 0; bit < in.bases.size(); ++bit) {
      bool inside = in.dim == Dim::Lane || (in.dim == Dim::Register && bit == 0);
      if (!inside && in.bases[bit][0] % 8 != 0) return std::nullopt;
    }

  int matrix_bits = std::min(registers - 1, 2);
  const std::vector<int32_t>& rows = transposed ? pairs : groups;
  std::vector<LinearLayout::In> ins = offsets.ins();
  for (auto& in : ins) {
    if (in.dim == Dim::Register)
      for (int bit = 0; bit <= matrix_bits; ++bit) in.bases[bit] = {0};
    if (in.dim == Dim::Lane)
      for (int bit = 0; bit < 5; ++bit) {
        if (bit < 3)
          in.bases[bit] = {rows[bit]};
        else
          in.bases[bit] = {bit - 3 < matrix_bits ? at(Dim::Register, bit - 2) : 0};
      }
  }
  return LdmatrixPlan{transposed, 1 << matrix_bits, LinearLayout(std::move(ins), offsets.outs())};
}

int bank_conflicts(const LinearLayout& reg, const LinearLayout& shared, int bits, int vector) {
  bits = std::max(bits, 8);
  LinearLayout offsets = reg.invert_and_compose(shared);
  int access_bytes = vector * bits / 8;
  int together = std::min(32, 128 / std::max(access_bytes, 4));
  int worst = 1;
  for (int32_t r = 0; r < offsets.in_size(Dim::Register); ++r) {
    if (offsets.apply({{Dim::Register, r}})[0] % vector != 0) continue;
    for (int first = 0; first < offsets.in_size(Dim::Lane); first += together) {
      std::map<int64_t, std::set<int64_t>> words_of_bank;
      for (int lane = first; lane < std::min(first + together, offsets.in_size(Dim::Lane)); ++lane) {
        int64_t offset = offsets.apply({{Dim::Register, r}, {Dim::Lane, lane}})[0];
        int64_t byte = offset / vector * access_bytes;
        for (int64_t word = byte / 4; word * 4 < byte + access_bytes; ++word) words_of_bank[word % 32].insert(word);
      }
      for (const auto& [bank, words] : words_of_bank) worst = std::max(worst, int(words.size()));
    }
  }
  return worst;
}

}  // namespace tegula
