#include "codegen/layout/spread_banks.h"

#include <algorithm>
#include <bit>

#include "codegen/layout/gf2.h"

namespace tegula {

std::optional<SpreadBanks> spread_banks(const LinearLayout& reg, const LinearLayout& shared, int vector) {
  constexpr int kBankBits = 5, kWidest = 4;
  if (std::any_of(reg.ins().begin(), reg.ins().end(), [](const auto& in) { return !in.repeats.empty(); })) return {};
  const LinearLayout to_offset = reg.invert_and_compose(shared);
  const int skipped = std::countr_zero(unsigned(vector));
  // Lanes beyond these take turns.
  const int lanes = std::min(kBankBits - skipped, to_offset.in_bits(Dim::Lane));
  auto offset = [&](Dim dim, int bit) { return uint32_t(to_offset.basis(dim, bit, Dim::Offset)); };
  auto bank = [&](uint32_t at) { return gf2::Vector(at >> skipped & ((1u << (kBankBits - skipped)) - 1)); };
  std::vector<int> registers;  // bits that move whole accesses to other banks
  for (int bit = 0; bit < to_offset.in_bits(Dim::Register); ++bit)
    if (bank(offset(Dim::Register, bit)) && offset(Dim::Register, bit) % uint32_t(vector) == 0)
      registers.push_back(bit);
  gf2::Span banks;
  std::vector<int> shared_ones;
  for (int lane = 0; lane < lanes; ++lane)
    if (const uint32_t at = offset(Dim::Lane, lane); at && !banks.insert(bank(at))) shared_ones.push_back(lane);
  SpreadBanks out;
  for (const int lane : shared_ones) {
    const auto found = std::find_if(registers.begin(), registers.end(), [&](int bit) {
      return banks.insert(bank(offset(Dim::Lane, lane) ^ offset(Dim::Register, bit)));
    });
    if (found == registers.end()) continue;
    out.swaps.emplace_back(lane, *found);
    registers.erase(found);
  }
  if (out.swaps.size() < (vector == kWidest ? 2u : 1u)) return {};
  std::vector<LinearLayout::In> ins = reg.ins();
  auto bases_of = [&](Dim dim) -> std::vector<LinearLayout::Basis>& {
    return std::find_if(ins.begin(), ins.end(), [&](const auto& in) { return in.dim == dim; })->bases;
  };
  for (const auto& [lane, bit] : out.swaps)
    for (size_t axis = 0; axis < reg.outs().size(); ++axis)
      bases_of(Dim::Lane)[size_t(lane)][axis] ^= bases_of(Dim::Register)[size_t(bit)][axis];
  out.layout = LinearLayout(std::move(ins), reg.outs());
  return out;
}

}  // namespace tegula
