#include "codegen/passes/equal_ops.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace tegula {

namespace {

// Operands in an order that does not tell those of a commutative op apart.
std::pair<const ir::Value*, const ir::Value*> first_two(const ir::Op& op) {
  const ir::Value *a = op.operand(0), *b = op.operand(1);
  if (op.has(ir::Commutative) && std::less<>()(b, a)) std::swap(a, b);
  return {a, b};
}

// A hash over most of what makes two ops equal; layouts, which are long, usually follow from the operands.
class Hash {
 public:
  explicit Hash(const ir::Op& op) {
    const auto [a, b] = first_two(op);
    add(size_t(op.opcode));
    add(std::hash<const void*>()(a));
    add(std::hash<const void*>()(b));
    for (size_t i = 2; i < op.operands.size(); ++i) add(std::hash<const void*>()(op.operands[i]));
    for (auto& [name, attr] : op.attrs) {
      add(std::hash<std::string_view>()(name));
      std::visit([&](auto& value) { add_value(value); }, attr);
    }
    add(size_t(op.result()->type.elem));
    add_value(op.result()->type.shape);
  }
  size_t value() const { return hash_; }

 private:
  void add(size_t part) { hash_ = (std::rotl(hash_, 5) ^ part) * 0x9E3779B97F4A7C15u; }
  template <class T>
  void add_value(const T& value) {
    if constexpr (std::is_same_v<T, double>)
      add(std::bit_cast<uint64_t>(value));
    else if constexpr (std::is_same_v<T, std::string>)
      add(std::hash<std::string_view>()(value));
    else if constexpr (std::is_same_v<T, ir::Ints>)
      for (int64_t number : value) add(size_t(number));
    else
      add(size_t(value));
  }

  size_t hash_ = 0;
};

bool same(const ir::Attr& a, const ir::Attr& b) {
  const double *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
  if (x && y) return std::bit_cast<uint64_t>(*x) == std::bit_cast<uint64_t>(*y);
  return a == b;
}

bool same(const ir::Type& a, const ir::Type& b) {
  return a.elem == b.elem && a.pointer == b.pointer && a.kind == b.kind && a.completion == b.completion &&
         a.shape == b.shape && (a.layout == b.layout || (a.layout && b.layout && *a.layout == *b.layout));
}

bool same(const ir::Op& a, const ir::Op& b) {
  return a.opcode == b.opcode && a.operands.size() == b.operands.size() && first_two(a) == first_two(b) &&
         (a.operands.size() <= 2 || std::equal(a.operands.begin() + 2, a.operands.end(), b.operands.begin() + 2)) &&
         std::equal(a.attrs.begin(), a.attrs.end(), b.attrs.begin(), b.attrs.end(),
                    [](const auto& x, const auto& y) { return x.first == y.first && same(x.second, y.second); }) &&
         same(a.result()->type, b.result()->type);
}

}  // namespace

template <class IsIt>
const ir::Op* EqualOps::Table::find(size_t hash, IsIt is_it) const {
  if (entries_.empty()) return nullptr;
  const size_t mask = entries_.size() - 1;
  for (size_t at = hash >> 32 & mask; entries_[at].op; at = (at + 1) & mask)
    if (entries_[at].hash == hash && is_it(*entries_[at].op)) return entries_[at].op;
  return nullptr;
}

void EqualOps::Table::add(size_t hash, const ir::Op* op) {
  if (2 * (size_ + 1) > entries_.size()) {
    std::vector<Entry> old(std::max<size_t>(16, 2 * entries_.size()));
    old.swap(entries_);
    size_ = 0;
    for (const Entry& entry : old)
      if (entry.op) add(entry.hash, entry.op);
  }
  const size_t mask = entries_.size() - 1;
  size_t at = hash >> 32 & mask;
  while (entries_[at].op) at = (at + 1) & mask;
  entries_[at] = {hash, op};
  ++size_;
}

void EqualOps::enter(const ir::Op* owner) {
  scopes_.push_back({!owner || owner->info().isolates() || owner->info().runs_beside(), {}});
}

void EqualOps::leave() { scopes_.pop_back(); }

ir::Value* EqualOps::find_or_add(const ir::Op& op) {
  if (!op.has(ir::Pure) || !op.regions.empty() || op.results.size() != 1) return nullptr;
  const size_t hash = Hash(op).value();
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (const ir::Op* found = scope->ops.find(hash, [&](const ir::Op& other) { return same(other, op); }))
      return found->result();
    if (scope->closed) break;
  }
  scopes_.back().ops.add(hash, &op);
  return nullptr;
}

}  // namespace tegula
