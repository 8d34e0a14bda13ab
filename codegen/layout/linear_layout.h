// Linear layouts: maps over F2 from hardware bits to tile coordinates.
//
// The question. A tile of 4 x 4 elements is to live in the registers of four threads ("lanes"), four elements each.
// Which register of which lane holds which element? One possible answer, with r = register, l = lane:
//
//              column 0   column 1   column 2   column 3
//     row 0     l0 r0      l0 r1      l1 r0      l1 r1
//     row 1     l0 r2      l0 r3      l1 r2      l1 r3
//     row 2     l2 r0      l2 r1      l3 r0      l3 r1
//     row 3     l2 r2      l2 r3      l3 r2      l3 r3
//
// The picture has 16 entries, but it is built from four facts. Write register and lane in binary and ask where each
// single bit leads, starting from (0, 0):
//
//     register bit 0 (r1)  ->  row 0, column 1
//     register bit 1 (r2)  ->  row 1, column 0
//     lane bit 0     (l1)  ->  row 0, column 2
//     lane bit 1     (l2)  ->  row 2, column 0
//
// Every other entry follows: combine the images of the bits that are set, by xor. Lane 3, register 1 has lane bits 0
// and 1 and register bit 0: rows 0 ^ 2 ^ 0 = 2, columns 2 ^ 0 ^ 1 = 3; the picture agrees. The four images are the
// *bases*, and the layout is written
//
//     register=[[0,1],[1,0]], lane=[[0,2],[2,0]] -> dim0:4, dim1:4
//
// Why xor and not addition. Where no two bases share a set bit, as here, both give the same. Xor allows more: let
// register bit 1 lead to row 1, column 1 instead. Then row 1 holds l0 r3, l0 r2, l1 r3, l1 r2: pairs change places in
// odd rows. That is a *swizzle*, the standard way to spread a column over different memory banks, and with xor it is
// nothing special. Bits with xor are the vector space over F2, the field with two elements, and a layout is a linear
// map, that is a 0/1 matrix with one column for each input bit. So questions about layouts are questions of linear
// algebra:
//
//     Does every element have a holder?               Is the matrix of full row rank (surjective)?
//     Does someone hold a copy?                       Is there a kernel (injective if not)? A base that is zero, or a
//     sum
//                                                     of earlier ones, is a *free* bit: broadcast.
//     Layout of a row maximum?                        Forget the column coordinate: drop_tile_dim(1). Above, it gives
//                                                     register=[[0],[1]], lane=[[0],[2]]: lane bit 0 becomes free, so
//                                                     both lanes of a row hold its result.
//     How do I get from layout A to layout B?         Solve B x = A: x tells which register of which lane of B an
//                                                     element of A must go to (invert_and_compose). Where x keeps the
//                                                     lane, registers are renamed; where it keeps the warp, a shuffle
//                                                     does; else the way is through shared memory.
//     Where in shared memory?                         A layout too, from the bits of an offset to coordinates.
//     How wide can an access be?                      Count the lowest register bits that lead to the lowest bits of
//                                                     the address.
//     Do lanes hit one bank?                          Intersect two subspaces.
//
// Layouts go from the hardware to coordinates, not back: a register holds exactly one element, whereas an element may
// have many holders, so only this direction is always a function.
//
// Sizes that are not powers of two. An extent of 192 is three blocks of 64: in general q blocks of 2^k, q odd. The bits
// speak of one block, and an input repeats it: its values go on above those of its bits, and each further block is
// *added*, as it lies beyond what bits can reach. Three registers for each of 64 lanes' elements are written
//
//     register=[3*[64]], lane=[[1],[2],[4],[8],[16]], warp=[[32]] -> dim0:192
//
// Register r of a thread holds coordinate (lane and warp bits) + 64 r. Bits of a whole tile and repeats never mix, so
// the algebra stays that of F2 and the repeats are matched one by one. An input may have several; the first one varies
// fastest. A repeat of [0] is a free one, as a free bit is: copies.
//
// Bits of an input are listed lowest first, and the order of the inputs is that of the list.

#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "codegen/layout/coordinates.h"

namespace tegula {

/// The named dimensions of a layout. The hardware side has Register, Lane, Warp and, where the blocks of a cluster
/// divide a tile, Block, or Offset (an element index in shared memory); the tile side has Dim0, Dim1, ... Without Block
/// each block of a cluster holds the whole tile.
enum class Dim : uint8_t { Register, Lane, Warp, Block, Offset, Dim0, Dim1, Dim2, Dim3, Dim4 /* and so on */ };
/// The most dimensions that a tile has: as many as 2^20 elements fill.
constexpr int kMaxRank = 20;

inline Dim tile_dim(int axis) { return Dim(int(Dim::Dim0) + axis); }
const char* dim_name(Dim dim);

/// The power of two in an extent: 64 of 192.
inline int64_t block_of(int64_t extent) { return extent & -extent; }
/// How often that is repeated: 3 for 192.
inline int64_t repeats_of(int64_t extent) { return extent / block_of(extent); }
/// The extents that users may give a tile: q * 2^k with q odd and at most kMaxRepeats, since threads hold a register
/// for each repeat. Where a tile is flattened, q may become larger.
constexpr int64_t kMaxRepeats = 31;
inline bool is_tile_extent(int64_t extent) { return extent > 0 && repeats_of(extent) <= kMaxRepeats; }

class LinearLayout {
 public:
  /// Image of one input bit: one coordinate for each output dimension, in the order of out_dims().
  using Basis = Coordinates;
  /// A digit of an input above its bits: value i of `count` adds i times the image, which moves along one output at
  /// most, by whole blocks (block_of its size).
  struct Repeat {
    int32_t count;  ///< odd, more than 1
    Basis image;
    bool operator==(const Repeat&) const = default;
  };
  /// Images of all bits of one input dimension, lowest bit first, then its repeats, the fastest first.
  struct In {
    Dim dim;
    std::vector<Basis> bases;
    std::vector<Repeat> repeats = {};
    bool operator==(const In&) const = default;
  };
  struct Out {
    Dim dim;
    int32_t size;  ///< bits reach block_of(size), repeats the rest
    bool operator==(const Out&) const = default;
  };

  LinearLayout() = default;
  /// A layout from its bases. The result must lie inside the output sizes; otherwise an internal error that says which
  /// basis does not.
  LinearLayout(std::vector<In> ins, std::vector<Out> outs);
  /// The same, or nullopt and a sentence in `why` where the constructor would fail.
  static std::optional<LinearLayout> try_create(std::vector<In> ins, std::vector<Out> outs, std::string* why);

  /// in -> out, i -> i, for `size` (a power of two) values.
  static LinearLayout identity(int32_t size, Dim in, Dim out);
  /// in -> out, i -> 0: broadcast over `size` values of `in`; `out` has size 1.
  static LinearLayout zeros(int32_t size, Dim in, Dim out);

  const std::vector<In>& ins() const { return ins_; }
  const std::vector<Out>& outs() const { return outs_; }
  bool has_out(Dim dim) const;
  int in_bits(Dim dim) const;       ///< 0 if the dimension is absent
  int32_t in_size(Dim dim) const;   ///< repeats included; 1 if the dimension is absent
  int32_t out_size(Dim dim) const;  ///< 1 if the dimension is absent
  int total_in_bits() const;
  int total_out_bits() const;  ///< of the blocks
  /// Image of bit `bit` of `in`, coordinate `out`.
  int32_t basis(Dim in, int bit, Dim out) const;
  const Basis& basis(Dim in, int bit) const;

  /// Coordinates (in the order of outs()) of the given input; dimensions not named are 0.
  Basis apply(std::initializer_list<std::pair<Dim, int32_t>> in) const { return apply(in.begin(), in.size()); }
  Basis apply(const std::vector<std::pair<Dim, int32_t>>& in) const { return apply(in.data(), in.size()); }

  /// Product: this one for the low bits, `outer` for the high bits of every dimension they share. Where `outer` has
  /// bits, this one has no repeats.
  LinearLayout operator*(const LinearLayout& outer) const;
  /// First this, then `next` (whose inputs are this one's outputs, by name).
  LinearLayout compose(const LinearLayout& next) const;
  /// For a surjective `to` with the same outputs: a map x from this one's inputs to those of `to` with
  /// this(i) == to(x(i)). Broadcast bits of `to` get 0, so each coordinate is read from one canonical owner.
  LinearLayout invert_and_compose(const LinearLayout& to) const;
  /// The same, or nullopt where `to` does not cover this one or cuts its repeats up in another way.
  std::optional<LinearLayout> try_invert_and_compose(const LinearLayout& to) const;
  /// The inverse of a bijective layout that has one repeat for each extent at most.
  LinearLayout invert() const;

  /// Keeps only the named dimensions.
  LinearLayout sublayout(const std::vector<Dim>& ins, const std::vector<Dim>& outs) const;
  /// Reorders the output dimensions.
  LinearLayout transpose_outs(const std::vector<Dim>& order) const;
  /// Drops output dimension `axis` (a slice for reductions) and renumbers the tile dimensions above it; the input bits
  /// that moved along it become broadcast bits.
  LinearLayout drop_tile_dim(int axis) const;
  /// Inserts a tile dimension of size 1 at `axis`, renumbering those from there on.
  LinearLayout insert_tile_dim(int axis) const;
  /// The layout with coordinate `axis` held at 0, of extent 1: what moved along it becomes copies.
  LinearLayout hold_tile_dim(int axis) const;
  /// Tile of another shape with the same elements in row-major order (the last dimension is the fastest). nullopt where
  /// blocks and repeats of one shape are not those of the other (64 x 192 as 12288).
  std::optional<LinearLayout> reshape_tile(const std::vector<int64_t>& shape) const;
  /// Tile with its dimensions permuted: result dimension i is this one's dimension order[i].
  LinearLayout permute_tile(const std::vector<int>& order) const;
  /// Removes register bits and repeats that are broadcast (their image is in the span of the lower register bits).
  LinearLayout remove_zero_registers() const;

  bool is_surjective() const;
  bool is_injective() const;
  bool is_invertible() const { return is_surjective() && is_injective(); }
  /// Bits of `in` that do not change the coordinates given lower dimensions and bits (broadcast): a mask.
  int32_t free_mask(Dim in) const;
  /// `value` of `in` without its free bits and repeats. Where all free bits are broadcast bits ([0]), as in registers,
  /// that is the lowest value with the same coordinates.
  int32_t canonical(Dim in, int32_t value) const;
  /// How many consecutive registers hold consecutive elements along tile dimension `axis`, in every aligned group of
  /// that many registers of every thread.
  int32_t contiguous_registers(int axis) const;
  /// Sizes of the tile dimensions in order Dim0, Dim1, ...
  std::vector<int64_t> tile_shape() const;

  bool operator==(const LinearLayout&) const = default;

  /// "register=[[1],[2],3*[16]], lane=[[4],[8]], warp=[] -> dim0:48"; parse() reads it back.
  std::string to_string() const;
  static std::optional<LinearLayout> parse(std::string_view text, std::string* why);

 private:
  Basis apply(const std::pair<Dim, int32_t>* in, size_t count) const;

  std::vector<In> ins_;
  std::vector<Out> outs_;
};

using LayoutRef = std::shared_ptr<const LinearLayout>;

}  // namespace tegula
