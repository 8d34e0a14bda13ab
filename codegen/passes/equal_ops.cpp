#include "codegen/passes/equal_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace tegula {

namespace {

std::string key_of(const ir::Op& op) {
  std::string key = fmt::format("{}", int(op.opcode));
  std::vector<uintptr_t> operands;
  for (const ir::Value* v : op.operands) operands.push_back(reinterpret_cast<uintptr_t>(v));
  if (op.has(ir::Commutative)) std::sort(operands.begin(), operands.begin() + 2);
  for (uintptr_t v : operands) key += fmt::format(" {}", v);
  for (auto& [name, attr] : op.attrs) {
    key += fmt::format(" {}={}:", name, attr.index());
    std::visit(
        [&](auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, double>)
            key += fmt::format("{}", std::bit_cast<uint64_t>(v));
          else if constexpr (std::is_same_v<T, std::vector<int64_t>>)
            key += fmt::format("{}", fmt::join(v, ","));
          else
            key += fmt::format("{}", v);
        },
        attr);
  }
  const ir::Type& type = op.result()->type;
  key += type.to_string();
  if (type.layout) key += type.layout->to_string();
  return key;
}

}  // namespace

void EqualOps::enter(const ir::Op* owner) { scopes_.push_back({!owner || owner->info().isolates(), {}}); }

void EqualOps::leave() { scopes_.pop_back(); }

ir::Value* EqualOps::find_or_add(const ir::Op& op) {
  if (!op.has(ir::Pure) || !op.regions.empty() || op.results.size() != 1) return nullptr;
  std::string key = key_of(op);
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto it = scope->ops.find(key); it != scope->ops.end()) return it->second;
    if (scope->closed) break;
  }
  scopes_.back().ops.emplace(std::move(key), op.result());
  return nullptr;
}

}  // namespace tegula
