#include "codegen/layout/makers.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>

#include "codegen/layout/gf2.h"
#include "codegen/layout/layout_builder.h"
#include "runtime/base/check.h"

namespace tegula {

namespace {

/// The repeats of a tile whose rows lie along order[0]: rows repeat first, so that as many as possible lie at one
/// distance.
std::vector<LinearLayout::Repeat> repeats_of_rows(const std::vector<int64_t>& shape, std::vector<int> order) {
  if (order.size() > 1) std::swap(order[0], order[1]);
  return repeats_of_tile(shape, order);
}

}  // namespace

LinearLayout blocked_layout(const std::vector<int64_t>& shape, const std::vector<int>& per_thread,
                            const std::vector<int>& lanes, const std::vector<int>& warps,
                            const std::vector<int>& order) {
  return blocked_layout(shape, per_thread, lanes, warps, std::vector<int>(shape.size(), 1), order);
}

LinearLayout blocked_layout(const std::vector<int64_t>& shape, const std::vector<int>& per_thread,
                            const std::vector<int>& lanes, const std::vector<int>& warps,
                            const std::vector<int>& blocks, const std::vector<int>& order) {
  LayoutBuilder layout(shape);
  for (int axis : order)
    layout.extend(Dim::Register, axis, std::min(log2_of(per_thread[axis]), block_bits(shape[axis])));
  for (int axis : order) layout.extend(Dim::Lane, axis, log2_of(lanes[axis]));
  for (int axis : order) layout.extend(Dim::Warp, axis, log2_of(warps[axis]));
  for (int axis : order) layout.extend(Dim::Block, axis, log2_of(blocks[axis]));
  for (int axis : order) layout.fill(Dim::Register, axis);
  return layout.threads();
}

LinearLayout coalesced_layout(const std::vector<int64_t>& shape, const std::vector<int>& order, int per_thread,
                              int num_warps) {
  std::vector<int64_t> left;
  for (int64_t extent : shape) left.push_back(block_of(extent));
  std::vector<int> registers(shape.size(), 1);
  registers[order[0]] = int(std::min<int64_t>(per_thread, left[order[0]]));
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

std::optional<LinearLayout> warp_local_layout(const LinearLayout& reg, int axis, int vector) {
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
      if (held == registers.end())  // a row's vectors are fewer than its lanes, which take rows
        held = std::find_if(registers.begin(), registers.end(), [&](auto& basis) { return along(basis) == 0; });
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
  int column_bits = block_bits(shape[order[0]]), vector_bits = log2_of(vector), phase_row = log2_of(per_phase);
  std::vector<LinearLayout::Out> outs;
  for (size_t axis = 0; axis < shape.size(); ++axis) outs.push_back({tile_dim(int(axis)), int32_t(shape[axis])});
  LinearLayout::In offset{Dim::Offset, {}};
  int row = 0;  // bits of the row number passed
  for (size_t i = 0; i < order.size(); ++i) {
    for (int bit = 0; bit < block_bits(shape[order[i]]); ++bit) {
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
  offset.repeats = repeats_of_rows(shape, order);
  return LinearLayout({std::move(offset)}, std::move(outs));
}

namespace {

/// Images of the bits of `dim` as words: coordinates inside a block packed with Dim0 lowest.
std::vector<gf2::Vector> packed_bases(const LinearLayout& layout, Dim dim) {
  std::vector<gf2::Vector> result;
  for (int bit = 0; bit < layout.in_bits(dim); ++bit) {
    gf2::Vector word = 0;
    int shift = 0;
    for (const auto& out : layout.outs()) {
      word |= gf2::Vector(layout.basis(dim, bit, out.dim)) << shift;
      shift += block_bits(out.size);
    }
    result.push_back(word);
  }
  return result;
}

/// Offsets whose bits have these images; blocks follow each other.
LinearLayout shared_from_columns(const std::vector<gf2::Vector>& columns, const std::vector<LinearLayout::Out>& outs) {
  LinearLayout::In offset{Dim::Offset, {}};
  for (gf2::Vector word : columns) {
    LinearLayout::Basis basis;
    for (const auto& out : outs) {
      basis.push_back(int32_t(word & gf2::Vector(block_of(out.size) - 1)));
      word >>= block_bits(out.size);
    }
    offset.bases.push_back(std::move(basis));
  }
  std::vector<int64_t> sizes;
  for (const auto& out : outs) sizes.push_back(out.size);
  offset.repeats = repeats_of_tile(sizes);
  return LinearLayout({std::move(offset)}, outs);
}

/// Images of the offset's n bits such that neither the elements of `a` nor those of `b`, which each side accesses at a
/// time, meet in a bank: of the lowest ones, the place in a row of 128 bytes, first those of `a`.
std::vector<gf2::Vector> columns_of_rows(std::vector<gf2::Vector> a, std::vector<gf2::Vector> b, int bank_bits, int n) {
  // Made equally large; each takes the other's directions first, so that little is left to swizzle.
  auto grow = [&](std::vector<gf2::Vector>& basis, std::vector<gf2::Vector> from) {
    for (int i = 0; i < n; ++i) from.push_back(gf2::Vector(1) << i);
    gf2::Span span(basis);
    for (gf2::Vector v : from)
      if (int(basis.size()) < bank_bits && span.insert(v)) basis.push_back(v);
  };
  grow(a, b);
  grow(b, a);
  // Rows are numbered by a space that both sides' simultaneous elements meet only in 0.
  std::vector<gf2::Vector> columns = a;
  for (gf2::Vector v : gf2::common_complement(a, b, n)) columns.push_back(v);
  return columns;
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
    LinearLayout shared = shared_from_columns(columns_of_rows(row(src), row(dst), bank_bits, n), src.outs());
    if (vector_bits > 0 && !(allows_vector(src, shared, vector_bits) && allows_vector(dst, shared, vector_bits)))
      continue;
    if (vector) *vector = 1 << vector_bits;
    return shared;
  }
}

std::optional<LinearLayout> shared_layout_for_matrices(const LinearLayout& reg, const LinearLayout& other_any_order) {
  constexpr int kRowBits = 3, kBankBits = 6;  // elements of 16 bits in 16 and 128 bytes
  std::vector<Dim> dims;
  for (const auto& out : reg.outs()) dims.push_back(out.dim);
  const LinearLayout other = other_any_order.transpose_outs(dims);
  const int n = reg.total_out_bits();
  const auto registers = packed_bases(reg, Dim::Register), lanes = packed_bases(reg, Dim::Lane),
             held = packed_bases(other, Dim::Register), others = packed_bases(other, Dim::Lane);
  if (n < kBankBits || registers.empty() || lanes.size() != 5 || others.size() != 5) return std::nullopt;
  const std::vector<gf2::Vector> pairs{registers[0], lanes[0], lanes[1]}, groups{lanes[2], lanes[3], lanes[4]};
  for (const auto& [in_row, rows] : {std::pair{groups, pairs}, std::pair{pairs, groups}}) {
    auto is_held = [&](gf2::Vector v) { return v && std::find(held.begin(), held.end(), v) != held.end(); };
    if (!std::all_of(in_row.begin(), in_row.end(), is_held)) continue;
    std::vector<gf2::Vector> a = in_row, b = in_row;
    gf2::Span in_a(in_row), in_b(in_row);
    for (int bit = 0; bit < kRowBits; ++bit) {
      if (in_a.insert(others[size_t(bit)])) a.push_back(others[size_t(bit)]);
      if (in_b.insert(rows[size_t(bit)])) b.push_back(rows[size_t(bit)]);
    }
    LinearLayout shared = shared_from_columns(columns_of_rows(std::move(a), std::move(b), kBankBits, n), reg.outs());
    if (plan_matrices(reg, shared, 16) && allows_vector(other, shared, kRowBits)) return shared;
  }
  return std::nullopt;
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
  return shared_layout_of_rows(shape, order, bits);
}

LinearLayout shared_layout_of_rows(const std::vector<int64_t>& shape, const std::vector<int>& order, int bits) {
  const int64_t extent = block_of(shape[order[0]]);
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
  outs[order[0]].size = int32_t(shape[order[0]]);
  offset.repeats = repeats_of_rows(shape, order);
  return LinearLayout({std::move(offset)}, std::move(outs));
}

std::optional<MatrixPlan> plan_matrices(const LinearLayout& reg, const LinearLayout& shared, int bits) {
  if (bits != 8 && bits != 16 && bits != 32) return std::nullopt;
  const int packed = log2_of(32 / bits), row = 128 / bits;  // bits of the place in a word, elements of a matrix's row
  LinearLayout offsets = reg.invert_and_compose(shared);
  int registers = offsets.in_bits(Dim::Register);
  if (registers < packed || offsets.in_bits(Dim::Lane) != 5) return std::nullopt;
  auto at = [&](Dim dim, int bit) { return offsets.basis(dim, bit)[0]; };
  // A matrix has three bits of row number and those of the place in the row. Its elements are told apart by the lowest
  // register bits, which are those of a word, and the lane's bits.
  std::vector<int32_t> words, in_row;
  for (int bit = 0; bit < packed; ++bit) words.push_back(at(Dim::Register, bit));
  for (int bit : {0, 1}) words.push_back(at(Dim::Lane, bit));
  for (int32_t place = 1; place < row; place *= 2) in_row.push_back(place);
  const std::vector<int32_t> groups = {at(Dim::Lane, 2), at(Dim::Lane, 3), at(Dim::Lane, 4)};
  auto aligned = [&](const std::vector<int32_t>& v) {
    return std::all_of(v.begin(), v.end(), [&](int32_t x) { return x % row == 0; });
  };
  bool transposed;
  if (words == in_row && aligned(groups))
    transposed = false;
  else if (bits == 16 && groups == in_row && aligned(words))
    transposed = true;
  else
    return std::nullopt;
  for (const auto& in : offsets.ins()) {
    for (size_t bit = 0; bit < in.bases.size(); ++bit) {
      bool inside = in.dim == Dim::Lane || (in.dim == Dim::Register && int(bit) < packed);
      if (!inside && in.bases[bit][0] % row != 0) return std::nullopt;
    }
    for (const auto& repeat : in.repeats)
      if (repeat.image[0] % row != 0) return std::nullopt;
  }

  int matrix_bits = std::min(registers - packed, 2);
  const std::vector<int32_t>& rows = transposed ? words : groups;
  std::vector<LinearLayout::In> ins = offsets.ins();
  for (auto& in : ins) {
    if (in.dim == Dim::Register)
      for (int bit = 0; bit < packed + matrix_bits; ++bit) in.bases[bit] = {0};
    if (in.dim == Dim::Lane)
      for (int bit = 0; bit < 5; ++bit) {
        if (bit < 3)
          in.bases[bit] = {rows[bit]};
        else
          in.bases[bit] = {bit - 3 < matrix_bits ? at(Dim::Register, packed + bit - 3) : 0};
      }
  }
  return MatrixPlan{transposed, 1 << matrix_bits, 1 << packed, LinearLayout(std::move(ins), offsets.outs())};
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
