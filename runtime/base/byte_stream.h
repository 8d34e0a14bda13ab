// Numbers and texts as bytes and back, for files: little-endian, without padding.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace tegula {

static_assert(std::endian::native == std::endian::little, "files are little-endian");

/// Collects bytes.
class ByteWriter {
 public:
  template <class T>
  void number(T value) {
    out_.append(reinterpret_cast<const char*>(&value), sizeof(T));
  }
  template <class Bytes>
  void bytes(const Bytes& data) {
    number(uint64_t(data.size()));
    out_.append(reinterpret_cast<const char*>(data.data()), data.size());
  }
  std::string take() { return std::move(out_); }

 private:
  std::string out_;
};

/// Takes bytes apart. Reads past the end give zeros and make good() false.
class ByteReader {
 public:
  explicit ByteReader(std::string_view in) : in_(in) {}

  template <class T>
  T number() {
    T value{};
    std::string_view data = take(sizeof(T));
    if (good_) std::memcpy(&value, data.data(), sizeof(T));
    return value;
  }
  template <class Bytes>
  Bytes bytes() {
    std::string_view data = take(number<uint64_t>());
    return Bytes(data.begin(), data.end());
  }
  /// How many items of at least one byte follow.
  size_t count() {
    uint64_t n = number<uint64_t>();
    if (n > in_.size()) good_ = false;
    return good_ ? n : 0;
  }
  void require(bool condition) { good_ = good_ && condition; }
  bool good() const { return good_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::string_view take(uint64_t size) {
    if (size > in_.size()) good_ = false;
    if (!good_) return {};
    std::string_view data = in_.substr(0, size);
    in_.remove_prefix(size);
    return data;
  }

  std::string_view in_;
  bool good_ = true;
};

}  // namespace tegula
