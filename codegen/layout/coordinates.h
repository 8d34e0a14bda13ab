// A short list of whole numbers, one for each dimension.
#pragma once

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <utility>

namespace tegula {

/// As std::vector<int32_t> (same names, same meaning), with room for a few numbers inside: layouts hold one for each
/// bit and are copied often, and most have four dimensions at most.
class Coordinates {
 public:
  using value_type = int32_t;
  using iterator = int32_t*;
  using const_iterator = const int32_t*;

  Coordinates() = default;
  Coordinates(size_t count, int32_t value) { resize(count, value); }
  Coordinates(std::initializer_list<int32_t> values) { assign(values.begin(), values.size()); }
  Coordinates(const Coordinates& other) { assign(other.data(), other.size_); }
  Coordinates(Coordinates&& other) noexcept { take(other); }
  ~Coordinates() { delete[] heap_; }
  Coordinates& operator=(const Coordinates& other) {
    if (this != &other) assign(other.data(), other.size_);
    return *this;
  }
  Coordinates& operator=(Coordinates&& other) noexcept {
    if (this == &other) return *this;
    delete[] heap_;
    take(other);
    return *this;
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const int32_t* data() const { return heap_ ? heap_ : inside_; }
  int32_t* data() { return heap_ ? heap_ : inside_; }
  const int32_t& operator[](size_t i) const { return data()[i]; }
  int32_t& operator[](size_t i) { return data()[i]; }
  const_iterator begin() const { return data(); }
  const_iterator end() const { return data() + size_; }
  iterator begin() { return data(); }
  iterator end() { return data() + size_; }
  const int32_t& back() const { return data()[size_ - 1]; }
  int32_t& back() { return data()[size_ - 1]; }

  void push_back(int32_t value) { resize(size_ + 1, value); }
  void resize(size_t count, int32_t value) {
    reserve(count);
    if (count > size_) std::fill(data() + size_, data() + count, value);
    size_ = uint32_t(count);
  }
  void insert(const_iterator before, int32_t value) {
    const size_t at = size_t(before - data());
    push_back(value);
    std::rotate(begin() + at, end() - 1, end());
  }
  void erase(const_iterator at) {
    std::copy(at + 1, const_iterator(end()), begin() + (at - data()));
    --size_;
  }

  bool operator==(const Coordinates& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }
  std::strong_ordering operator<=>(const Coordinates& other) const {
    return std::lexicographical_compare_three_way(begin(), end(), other.begin(), other.end());
  }

 private:
  static constexpr uint32_t kInside = 4;

  void reserve(size_t count) {
    if (count <= capacity_) return;
    const size_t capacity = std::max<size_t>(count, 2 * capacity_);
    auto* const values = new int32_t[capacity];
    std::copy(begin(), end(), values);
    delete[] heap_;
    heap_ = values;
    capacity_ = uint32_t(capacity);
  }
  void assign(const int32_t* values, size_t count) {
    size_ = 0;
    reserve(count);
    std::copy_n(values, count, data());
    size_ = uint32_t(count);
  }
  /// The other's numbers, which has none then; its own storage must be given back.
  void take(Coordinates& other) {
    std::copy_n(other.inside_, kInside, inside_);
    heap_ = std::exchange(other.heap_, nullptr);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, kInside);
  }

  int32_t* heap_ = nullptr;  ///< where there are more than inside
  uint32_t size_ = 0, capacity_ = kInside;
  int32_t inside_[kInside] = {};
};

}  // namespace tegula
