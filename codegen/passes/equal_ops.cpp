#include "codegen/passes/equal_ops.h"

#include <algorithm>
#include <functional>
#include <type_traits>

namespace tegula {

namespace {

// The bytes of what makes two ops the same; counts stand before lists, so that no two ops share a key.
class Key {
 public:
  explicit Key(const ir::Op& op) {
    add(op.opcode);
    add(op.operands.size());
    std::vector<const ir::Value*> operands(op.operands.begin(), op.operands.end());
    if (op.has(ir::Commutative)) std::sort(operands.begin(), operands.begin() + 2, std::less<>());
    for (const ir::Value* v : operands) add(v);
    add(op.attrs.size());
    for (auto& [name, attr] : op.attrs) {
      add(name);
      add(attr.index());
      std::visit([&](auto& value) { add(value); }, attr);
    }
    const ir::Type& type = op.result()->type;
    add(type.to_string());
    add(type.layout ? type.layout->to_string() : std::string());
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_scalar_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void add(const std::string& text) {
    add(text.size());
    bytes_ += text;
  }
  void add(const ir::Ints& numbers) {
    add(numbers.size());
    for (int64_t n : numbers) add(n);
  }

  std::string bytes_;
};

}  // namespace

void EqualOps::enter(const ir::Op* owner) {
  scopes_.push_back({!owner || owner->info().isolates() || owner->info().runs_beside(), {}});
}

void EqualOps::leave() { scopes_.pop_back(); }

ir::Value* EqualOps::find_or_add(const ir::Op& op) {
  if (!op.has(ir::Pure) || !op.regions.empty() || op.results.size() != 1) return nullptr;
  std::string key = Key(op).take();
  for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
    if (auto it = scope->ops.find(key); it != scope->ops.end()) return it->second;
    if (scope->closed) break;
  }
  scopes_.back().ops.emplace(std::move(key), op.result());
  return nullptr;
}

}  // namespace tegula
