// Short lists of whole numbers, one for each dimension.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>
#include <vector>

namespace tegula {

/// As std::vector<T> of plain numbers (same names, same meaning), with room for a few of them inside: such lists are
/// made and copied often, and few tiles have more dimensions.
template <class T, uint32_t kInside>
class ShortList {
 public:
  using value_type = T;
  using iterator = T*;
  using const_iterator = const T*;

  ShortList() = default;
  ShortList(size_t count, T value) { resize(count, value); }
  explicit ShortList(const std::vector<T>& values) { copy(values.data(), values.size()); }
  ShortList(std::initializer_list<T> values) { copy(values.begin(), values.size()); }
  ShortList(const ShortList& other) { copy(other.data(), other.size_); }
  ShortList(ShortList&& other) noexcept { take(other); }
  ~ShortList() { delete[] heap_; }
  ShortList& operator=(const ShortList& other) {
    if (this != &other) copy(other.data(), other.size_);
    return *this;
  }
  ShortList& operator=(ShortList&& other) noexcept {
    if (this == &other) return *this;
    delete[] heap_;
    take(other);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const T* data() const { return heap_ ? heap_ : inside_; }
  T* data() { return heap_ ? heap_ : inside_; }
  const T& operator[](size_t i) const { return data()[i]; }
  T& operator[](size_t i) { return data()[i]; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const T& back() const { return data()[size_ - 1]; }
  T& back() { return data()[size_ - 1]; }

  void assign(size_t count, T value) {
    size_ = 0;
    resize(count, value);
  }
  void push_back(T value) { resize(size_ + 1, value); }
  void resize(size_t count, T value) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = uint32_t(count);
  }
  void insert(const_iterator before, T value) {
    const size_t at = size_t(before - data());
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(const_iterator at) {
    std::copy(at + 1, const_iterator(end()), begin() + (at - data()));
    --size_;
  }

  bool operator==(const ShortList& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  bool operator==(const std::vector<T>& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  std::strong_ordering operator<=>(const ShortList& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  void reserve(size_t count) {
    if (count <= capacity_) return;
    const size_t capacity = std::max<size_t>(count, 2 * capacity_);
    auto* const values = new T[capacity];
    std::copy(begin(), end(), values);
    delete[] heap_;
    heap_ = values;
    capacity_ = uint32_t(capacity);
  }
  void copy(const T* values, size_t count) {
    size_ = 0;
    reserve(count);
    std::copy_n(values, count, data());
    size_ = uint32_t(count);
  }
  /// The other's numbers, which has none then; its own storage must be given back.
  void take(ShortList& other) {
    std::copy_n(other.inside_, kInside, inside_);
    heap_ = std::exchange(other.heap_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInside);
  }

  T* heap_ = nullptr;  ///< where there are more than inside
  uint32_t size_ = 0, capacity_ = kInside;
  T inside_[kInside] = {};
};

/// Layouts hold one for each bit.
using Coordinates = ShortList<int32_t, 4>;

}  // namespace tegula
