// Arrays in NumPy's .npy files: C order, little-endian, the element types of the language.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/base/elem.h"

namespace tegula::cli {

struct Array {
  Elem elem = Elem::F32;
  std::vector<int64_t> shape;  ///< empty: one element
  std::vector<uint8_t> bytes;  ///< in C order

  int64_t size() const;
  double at(int64_t index) const;  ///< as the nearest double
  void set(int64_t index, double value);
};

/// "float32 [16, 32]"
std::string describe(const Array& array);

/// Parses "f32[16,32]" (any spelling of the element type; no brackets: one element) as an array of zeros; none if it is
/// not of that form.
std::optional<Array> parse_array_type(std::string_view text);

/// Throws FileError: cannot be read, not an .npy file, an element type or order that is not supported, truncated.
/// bfloat16, which NumPy has no name for, is read from and written as '|V2', as ml_dtypes does. The float8 types are
/// written as bytes, '|u1'.
Array read_npy(const std::string& path);
void write_npy(const std::string& path, const Array& array);

}  // namespace tegula::cli
