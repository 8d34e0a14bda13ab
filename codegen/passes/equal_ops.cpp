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
    add(op.result()->type);
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
  void add(const ir::Ints& numbers) { add_all(numbers); }
  void add(const ir::Type& type) {
    add(type.elem);
    add(type.pointer);
    add(type.kind);
    add(type.completion);
    add_all(type.shape);
    add(bool(type.layout));
    if (type.layout) add(*type.layout);
  }
  void add(const LinearLayout& layout) {
    add(layout.ins().size());
    for (const LinearLayout::In& in : layout.ins()) {
      add(in.dim);
      add(in.bases.size());
      for (const LinearLayout::Basis& basis : in.bases) add_all(basis);
      add(in.repeats.size());
      for (const LinearLayout::Repeat& repeat : in.repeats) {
        add(repeat.count);
        add_all(repeat.image);
      }
    }
    add(layout.outs().size());
    for (const LinearLayout::Out& out : layout.outs()) {
      add(out.dim);
      add(out.size);
    }
  }
  template <class List>
  void add_all(const List& list) {
    add(list.size());
    for (const auto& value : list) add(value);
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
