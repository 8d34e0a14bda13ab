#include "kernels/iteration_space.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace tegula::kernels::detail {

namespace {

/// Tensors by their names in messages: "output 0".
class Operands {
 public:
  Operands(std::string_view kernel, std::span<const Tensor> outputs, std::span<const Tensor> inputs)
      : kernel_(kernel), outputs_(outputs), inputs_(inputs) {}

  size_t count() const { return outputs_.size() + inputs_.size(); }
  bool is_output(size_t i) const { return i < outputs_.size(); }
  const Tensor& operator[](size_t i) const { return is_output(i) ? outputs_[i] : inputs_[i - outputs_.size()]; }
  std::string name(size_t i) const {
    return is_output(i) ? fmt::format("output {}", i) : fmt::format("input {}", i - outputs_.size());
  }
  [[noreturn]] void refuse(const std::string& why) const { throw LaunchError(fmt::format("{}: {}", kernel_, why)); }

 private:
  std::string_view kernel_;
  std::span<const Tensor> outputs_, inputs_;
};

void check_tensor(const Operands& all, size_t i) {
  const Tensor& t = all[i];
  if (!t.given()) all.refuse(fmt::format("{} is not given", all.name(i)));
  for (size_t d = 0; d < size_t(t.rank); ++d) {
    if (t.shape[d] < 0 || t.shape[d] > IterationSpace::kLargestJoined)
      all.refuse(fmt::format("{} {}, expected extents from 0 to 2^30", all.name(i), shape_text(t)));
    if (t.strides[d] < 0) all.refuse(fmt::format("{} has the negative stride {}", all.name(i), t.strides[d]));
  }
  if (!t.address && t.elements() > 0) all.refuse(fmt::format("{} has no address", all.name(i)));
}

/// Whether each element has one place: along extents in the order of their strides each step is after all before.
bool has_overlap(const Tensor& t) {
  std::array<size_t, Tensor::kMaxRank> order;
  std::iota(order.begin(), order.end(), 0);
  std::sort(order.begin(), order.begin() + t.rank, [&](size_t a, size_t b) { return t.strides[a] < t.strides[b]; });
  int64_t last = 0;
  for (size_t i = 0; i < size_t(t.rank); ++i) {
    const size_t d = order[i];
    if (t.shape[d] > 1 && t.strides[d] <= last) return true;
    last += (t.shape[d] - 1) * t.strides[d];
  }
  return false;
}

void check_sharing(const Operands& all) {
  for (size_t i = 0; i < all.count(); ++i) {
    if (!all.is_output(i) || all[i].elements() == 0) continue;
    if (has_overlap(all[i])) all.refuse(fmt::format("{} has several places in one element", all.name(i)));
    for (size_t k = i + 1; k < all.count(); ++k) {
      if (all[k].address != all[i].address || all[k].elements() == 0) continue;
      if (all.is_output(k)) all.refuse(fmt::format("{} and {} are the same memory", all.name(i), all.name(k)));
      if (!all[i].same_layout(all[k]))
        all.refuse(
            fmt::format("{} is {} in place, which needs equal types, shapes and strides", all.name(i), all.name(k)));
    }
  }
}

/// Extent `d` of the shape of `rank` extents that the tensor is broadcast to; 1 where it has none.
int64_t extent_of(const Tensor& t, int rank, int d) {
  const int own = d - (rank - t.rank);
  return own < 0 ? 1 : t.shape[size_t(own)];
}

}  // namespace

IterationSpace IterationSpace::broadcast(std::string_view kernel, std::span<const Tensor> outputs,
                                         std::span<const Tensor> inputs, bool row_results) {
  const Operands all(kernel, outputs, inputs);
  IterationSpace space;
  space.tensors = all.count();
  for (size_t i = 0; i < all.count(); ++i) {
    check_tensor(all, i);
    space.rank = std::max(space.rank, all[i].rank);
  }
  for (int d = 0; d < space.rank; ++d) {
    size_t from = 0;  // the first tensor that has more than one element there
    while (from + 1 < all.count() && extent_of(all[from], space.rank, d) == 1) ++from;
    const int64_t extent = space.extents[size_t(d)] = extent_of(all[from], space.rank, d);
    for (size_t i = 0; i < all.count(); ++i) {
      const int64_t own = extent_of(all[i], space.rank, d);
      const bool one_a_row = row_results && d == space.rank - 1;
      if (own != extent && (own != 1 || (all.is_output(i) && !one_a_row)))
        all.refuse(fmt::format(
            "{} {}, but {} {}\n  hint: extents, the last ones under each other, are equal, or 1 in an input{}",
            all.name(i), shape_text(all[i]), all.name(from), shape_text(all[from]),
            row_results ? " and at the end of an output" : ""));
      if (own > 1) space.strides[i][size_t(d)] = all[i].strides[size_t(d - (space.rank - all[i].rank))];
    }
  }
  check_sharing(all);
  return space;
}

int64_t IterationSpace::elements() const {
  return std::accumulate(extents.begin(), extents.begin() + rank, int64_t(1), std::multiplies<>());
}

void IterationSpace::add_numbers() {
  int64_t stride = 1;
  for (int d = rank - 1; d >= 0; --d) {
    strides[tensors][size_t(d)] = stride;
    stride *= extents[size_t(d)];
  }
  ++tensors;
}

template <class F>
void IterationSpace::permute(const F& reorder) {
  reorder(extents);
  for (size_t i = 0; i < tensors; ++i) reorder(strides[i]);
}

void IterationSpace::erase(int dim) {
  permute([&](auto& values) { std::copy(values.begin() + dim + 1, values.begin() + rank, values.begin() + dim); });
  --rank;
}

void IterationSpace::move_back(int from, int to) {
  permute(
      [&](auto& values) { std::rotate(values.begin() + from, values.begin() + from + 1, values.begin() + to + 1); });
}

void IterationSpace::sort() {
  std::array<size_t, kMaxRank> order;
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.begin() + rank,
                   [&](size_t a, size_t b) { return strides[0][a] > strides[0][b]; });
  permute([&](auto& values) {
    const auto old = values;
    for (size_t d = 0; d < size_t(rank); ++d) values[d] = old[order[d]];
  });
}

bool IterationSpace::joins(int dim) const {
  const size_t outer = size_t(dim), inner = outer + 1;
  if (extents[outer] * extents[inner] > kLargestJoined) return false;
  for (size_t i = 0; i < tensors; ++i)
    if (strides[i][outer] != strides[i][inner] * extents[inner]) return false;
  return true;
}

void IterationSpace::join(int count) {
  for (int d = count - 1; d >= 0; --d)
    if (extents[size_t(d)] == 1) erase(d), --count;
  for (int d = count - 2; d >= 0; --d) {
    if (!joins(d)) continue;
    extents[size_t(d) + 1] *= extents[size_t(d)];
    erase(d);
  }
}

void IterationSpace::pad(int count) {
  for (; rank < count; ++rank) {
    permute([&](auto& values) {
      std::copy_backward(values.begin(), values.begin() + rank, values.begin() + rank + 1);
      values[0] = 0;
    });
    extents[0] = 1;
  }
}

}  // namespace tegula::kernels::detail
