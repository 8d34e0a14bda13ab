// A set of pointers, and a map from pointers, for walks over all ops of a function.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace tegula::ir {

/// One table for all elements. (std::unordered_set allocates each element, which took a third of the time of dead-code
/// elimination.)
class PointerSet {
 public:
  /// False if the pointer, which must not be null, is there already.
  bool insert(const void* pointer) {
    if (2 * (size_ + 1) > table_.size()) grow();
    const void*& place = table_[find(pointer)];
    if (place) return false;
    place = pointer;
    ++size_;
    return true;
  }
  bool contains(const void* pointer) const { return !table_.empty() && table_[find(pointer)]; }
  size_t size() const { return size_; }
  /// Calls `visit` with every pointer, in no order.
  template <class Visit>
  void for_each(Visit visit) const {
    for (const void* pointer : table_)
      if (pointer) visit(pointer);
  }

 private:
  /// Where it is, or may be put.
  size_t find(const void* pointer) const {
    const size_t mask = table_.size() - 1;
    size_t at = (std::bit_cast<uintptr_t>(pointer) * 0x9E3779B97F4A7C15u) >> 32 & mask;
    while (table_[at] && table_[at] != pointer) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<const void*> old(table_.empty() ? 64 : 2 * table_.size(), nullptr);
    old.swap(table_);
    for (const void* pointer : old)
      if (pointer) table_[find(pointer)] = pointer;
  }

  std::vector<const void*> table_;
  size_t size_ = 0;
};

/// The same with a value for each pointer. Values move when another pointer is added.
template <class Value>
class PointerMap {
 public:
  /// Makes room for so many pointers.
  void reserve(size_t count) {
    if (2 * (count + 1) > table_.size()) grow(std::bit_ceil(2 * (count + 1)));
  }
  /// The value of the pointer, which must not be null; one that is not there yet gets Value().
  Value& operator[](const void* pointer) {
    reserve(size_ + 1);
    auto& [key, value] = table_[find(pointer)];
    size_ += !key;
    key = pointer;
    return value;
  }
  /// Null: the pointer is not there.
  const Value* get(const void* pointer) const {
    if (table_.empty()) return nullptr;
    const auto& [key, value] = table_[find(pointer)];
    return key ? &value : nullptr;
  }

 private:
  size_t find(const void* pointer) const {
    const size_t mask = table_.size() - 1;
    size_t at = (std::bit_cast<uintptr_t>(pointer) * 0x9E3779B97F4A7C15u) >> 32 & mask;
    while (table_[at].first && table_[at].first != pointer) at = (at + 1) & mask;
    return at;
  }
  void grow(size_t size) {
    std::vector<std::pair<const void*, Value>> old(size);
    old.swap(table_);
    for (auto& [key, value] : old)
      if (key) table_[find(key)] = {key, std::move(value)};
  }

  std::vector<std::pair<const void*, Value>> table_;
  size_t size_ = 0;
};

}  // namespace tegula::ir
