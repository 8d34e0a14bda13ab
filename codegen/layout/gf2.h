// Linear algebra over F2, the field of two elements: vectors are bits of a word, addition is xor.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tegula::gf2 {

/// A vector of up to 64 coordinates, one a bit.
using Vector = uint64_t;

/// The matrix whose columns are `columns`, times `x`: the xor of the columns that x selects.
Vector apply(const std::vector<Vector>& columns, Vector x);

/// A subspace that grows one generator at a time and remembers how its vectors come from the generators.
class Span {
 public:
  Span() = default;
  explicit Span(const std::vector<Vector>& generators);

  /// Adds a generator. True if it was independent of those before; a dependent one is counted but never used.
  bool insert(Vector v);
  bool contains(Vector v) const { return reduce(v).first == 0; }
  /// Which generators sum to `v` (bit i: the i-th inserted), using only those that were independent when inserted;
  /// nullopt if v lies outside.
  std::optional<Vector> solve(Vector v) const;
  int dimension() const { return int(rows_.size()); }

 private:
  struct Row {
    Vector value;        ///< no two rows share their highest set bit
    Vector combination;  ///< generators that sum to `value`
  };
  /// The remainder of v, and the generators that were subtracted to get there.
  std::pair<Vector, Vector> reduce(Vector v) const;

  std::vector<Row> rows_;  ///< by descending highest bit
  int generators_ = 0;
};

/// Dimension of the span of `columns`.
int rank(const std::vector<Vector>& columns);

/// A basis of the intersection of the spans of `a` and `b` (each independent).
std::vector<Vector> intersection(const std::vector<Vector>& a, const std::vector<Vector>& b);

/// A subspace of F2^n that meets the spans of `a` and `b` only in 0 and completes each of them to the whole space.
/// `a` and `b` are independent and of equal size; such a subspace then always exists. Completing vectors are taken from
/// the unit vectors where possible.
std::vector<Vector> common_complement(const std::vector<Vector>& a, const std::vector<Vector>& b, int n);

}  // namespace tegula::gf2
