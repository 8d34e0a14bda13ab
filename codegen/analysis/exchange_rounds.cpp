#include "codegen/analysis/exchange_rounds.h"

#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

namespace tegula {

namespace {

/// The largest tile that goes through shared memory at once: what one program has of it on most GPUs, and no less,
/// since rounds keep registers of both layouts in use.
constexpr int64_t kMostExchangeBytes = 192 << 10;

int64_t bytes_of(const LinearLayout& layout, int bits) {
  int64_t elements = 1;
  for (const LinearLayout::Out& out : layout.outs()) elements *= out.size;
  return elements * std::max(8, bits) / 8;
}

// The one bit of the hardware that moves coordinate `out` by 2^bit, where it does nothing else.
struct Holder {
  Dim dim;
  int bit;
  std::optional<int> as_register() const { return dim == Dim::Register ? std::optional(bit) : std::nullopt; }
};

std::optional<Holder> holder_of(const LinearLayout& layout, size_t out, int bit) {
  std::optional<Holder> found;
  for (auto& in : layout.ins()) {
    for (int i = 0; i < int(in.bases.size()); ++i) {
      const LinearLayout::Basis& basis = in.bases[size_t(i)];
      if (!(basis[out] >> bit & 1)) continue;
      for (size_t other = 0; other < basis.size(); ++other)
        if (basis[other] != (other == out ? 1 << bit : 0)) return std::nullopt;
      if (found || in.dim == Dim::Block) return std::nullopt;
      found = Holder{in.dim, i};
    }
  }
  return found;
}

// The layout of the elements whose coordinate `out` has one value of `bit`.
LinearLayout half_of(const LinearLayout& layout, size_t out, int bit, const Holder& holder) {
  const int32_t low = (1 << bit) - 1;
  std::vector<LinearLayout::In> ins = layout.ins();
  for (auto& in : ins) {
    if (in.dim == Dim::Register && holder.dim == Dim::Register) in.bases.erase(in.bases.begin() + holder.bit);
    for (auto& basis : in.bases) basis[out] = (basis[out] & low) | (basis[out] >> 1 & ~low);
    for (auto& repeat : in.repeats) repeat.image[out] /= 2;
  }
  std::vector<LinearLayout::Out> outs = layout.outs();
  outs[out].size /= 2;
  return LinearLayout(std::move(ins), std::move(outs));
}

}  // namespace

std::optional<Halves> halves_of(const LinearLayout& source, const LinearLayout& destination, int bits) {
  if (bytes_of(source, bits) <= kMostExchangeBytes) return std::nullopt;
  std::optional<Halves> best;
  int fewest = 3;  // layouts in which threads say which half
  // High bits of slow dimensions first: what remains together is moved in wide accesses.
  for (size_t out = 0; out < source.outs().size(); ++out) {
    for (int bit = std::countr_zero(uint32_t(source.outs()[out].size)) - 1; bit >= 0; --bit) {
      const auto from = holder_of(source, out, bit), to = holder_of(destination, out, bit);
      if (!from || !to) continue;
      const int by_threads = (from->dim != Dim::Register) + (to->dim != Dim::Register);
      if (by_threads >= fewest) continue;
      fewest = by_threads;
      best = Halves{source.outs()[out].dim,
                    bit,
                    half_of(source, out, bit, *from),
                    half_of(destination, out, bit, *to),
                    from->as_register(),
                    to->as_register()};
    }
  }
  return best;
}

int64_t exchange_bytes(const LinearLayout& source, const LinearLayout& destination, int bits) {
  const auto halves = halves_of(source, destination, bits);
  return halves ? exchange_bytes(halves->source, halves->destination, bits) : bytes_of(source, bits);
}

}  // namespace tegula
