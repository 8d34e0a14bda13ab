// Blocks of arrays, and kernels that load and store them by block pointers or tensor descriptors.
#pragma once

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "dsl/tegula.h"
#include "tests/codegen/lower/ops_support.h"

namespace tegula::ops {

inline std::string joined(const std::vector<int64_t>& numbers) {
  std::string text;
  for (int64_t n : numbers) text += fmt::format("{}, ", n);
  return "(" + text + ")";
}

/// A block of an array whose first element is number kOrigin of a buffer.
struct Window {
  std::vector<int64_t> shape, strides, offsets, block;
  std::vector<int> checked;

  static constexpr int64_t kOrigin = 2000, kBuffer = 6000;

  int64_t elements() const {
    int64_t n = 1;
    for (int64_t extent : block) n *= extent;
    return n;
  }
  struct Element {
    int64_t at;  ///< in the buffer
    bool inside;
  };
  /// Element number i of the block, in row-major order.
  Element element(int64_t i) const {
    Element e{kOrigin, true};
    for (size_t axis = block.size(); axis-- > 0; i /= block[axis]) {
      const int64_t position = offsets[axis] + i % block[axis];
      e.at += position * strides[axis];
      const bool is_checked = std::find(checked.begin(), checked.end(), int(axis)) != checked.end();
      if (is_checked && (position < 0 || position >= shape[axis])) e.inside = false;
    }
    return e;
  }
  std::string check_text() const {
    std::string text;
    for (int axis : checked) text += fmt::format("{}, ", axis);
    return "(" + text + ")";
  }
};

/// Every subset of the axes.
inline std::vector<std::vector<int>> subsets(size_t rank) {
  std::vector<std::vector<int>> all;
  for (unsigned bits = 0; bits < 1u << rank; ++bits) {
    all.emplace_back();
    for (size_t axis = 0; axis < rank; ++axis)
      if (bits >> axis & 1) all.back().push_back(int(axis));
  }
  return all;
}

inline const std::vector<Window>& windows() {
  static const std::vector<Window> all = {
      {{21}, {1}, {8}, {16}, {}},
      {{21}, {3}, {-5}, {16}, {}},
      {{0}, {1}, {0}, {8}, {}},
      {{12, 20}, {24, 1}, {8, 8}, {8, 16}, {}},
      {{12, 20}, {1, 12}, {-3, 7}, {8, 16}, {}},  // columns are contiguous
      {{5, 7, 9}, {80, 10, 1}, {2, 4, -2}, {4, 4, 8}, {}},
      {{5, 7, 9}, {1, 5, 40}, {3, -1, 5}, {4, 8, 4}, {}},
  };
  return all;
}

/// Whether numbers are written out, or arguments of the kernel of this type.
enum class Numbers { Literal, Int32, Int64 };

/// The parameters of a kernel for the window's numbers, and the lists of their names or values.
struct Text {
  std::string params, shape, strides, offsets;
};
inline Text text_of(const Window& w, Numbers numbers) {
  if (numbers == Numbers::Literal) return {"", joined(w.shape), joined(w.strides), joined(w.offsets)};
  Text text;
  const char* type = numbers == Numbers::Int32 ? "tl.int32" : "tl.int64";
  for (auto [name, list] : {std::pair("n", &text.shape), {"s", &text.strides}, {"o", &text.offsets}}) {
    *list = "(";
    for (size_t axis = 0; axis < w.block.size(); ++axis) {
      text.params += fmt::format(", {}{}: {}", name, axis, type);
      *list += fmt::format("{}{}, ", name, axis);
    }
    *list += ")";
  }
  return text;
}
inline std::vector<Arg> numbers_of(const Window& w, Numbers numbers) {
  std::vector<Arg> args;
  if (numbers != Numbers::Literal)
    for (const auto* list : {&w.shape, &w.strides, &w.offsets})
      for (int64_t n : *list) args.emplace_back(n);
  return args;
}

inline void launch(const std::string& body, std::vector<Arg> args, const LaunchOptions& options = {}) {
  const std::string text = "import triton\nimport triton.language as tl\n\n" + body;
  try {
    Program::parse(text, "kernel.py").kernel("kernel").launch(device(), Grid{1}, options, args);
    device().synchronize();
  } catch (const Error& error) {
    ADD_FAILURE() << error.what() << "\n" << text;
  }
}

inline std::vector<float> buffer_values() {
  std::vector<float> values(Window::kBuffer);
  for (size_t i = 0; i < values.size(); ++i) values[i] = float(i) + 0.5f;
  return values;
}

}  // namespace tegula::ops
