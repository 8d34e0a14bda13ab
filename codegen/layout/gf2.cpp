#include "codegen/layout/gf2.h"

#include <algorithm>

#include "runtime/base/check.h"

namespace tegula::gf2 {

Vector apply(const std::vector<Vector>& columns, Vector x) {
  Vector result = 0;
  for (size_t i = 0; i < columns.size(); ++i)
    if (x >> i & 1) result ^= columns[i];
  return result;
}

Span::Span(const std::vector<Vector>& generators) {
  for (Vector v : generators) insert(v);
}

std::pair<Vector, Vector> Span::reduce(Vector v) const {
  Vector combination = 0;
  for (const Row& row : rows_)
    if ((v ^ row.value) < v) v ^= row.value, combination ^= row.combination;
  return {v, combination};
}

bool Span::insert(Vector v) {
  int index = generators_++;
  TEGULA_CHECK(index < 64, "a span of more than 64 generators");
  auto [rest, combination] = reduce(v);
  if (rest == 0) return false;
  Row row{rest, combination ^ (Vector(1) << index)};
  rows_.insert(std::find_if(rows_.begin(), rows_.end(), [&](const Row& r) { return r.value < row.value; }), row);
  return true;
}

std::optional<Vector> Span::solve(Vector v) const {
  auto [rest, combination] = reduce(v);
  if (rest != 0) return std::nullopt;
  return combination;
}

int rank(const std::vector<Vector>& columns) { return Span(columns).dimension(); }

std::vector<Vector> intersection(const std::vector<Vector>& a, const std::vector<Vector>& b) {
  // A dependent generator of b equals a sum of generators of a and of earlier ones of b; the part from b is common.
  std::vector<Vector> common;
  Span span(a);
  for (Vector v : b) {
    auto combination = span.solve(v);
    span.insert(v);
    if (!combination) continue;
    Vector in_a = 0;
    for (size_t i = 0; i < a.size(); ++i)
      if (*combination >> i & 1) in_a ^= a[i];
    common.push_back(in_a);
  }
  return common;
}

std::vector<Vector> common_complement(const std::vector<Vector>& a, const std::vector<Vector>& b, int n) {
  TEGULA_CHECK(a.size() == b.size(), "subspaces of dimensions {} and {}", a.size(), b.size());
  std::vector<Vector> shared = intersection(a, b);
  // With a = I + a' and b = I + b', the sums a'_i + b'_i meet neither a nor b.
  auto rest = [&](const std::vector<Vector>& of) {
    Span span(shared);
    std::vector<Vector> out;
    for (Vector v : of)
      if (span.insert(v)) out.push_back(v);
    return out;
  };
  std::vector<Vector> a_only = rest(a), b_only = rest(b);
  std::vector<Vector> result;
  for (size_t i = 0; i < a_only.size(); ++i) result.push_back(a_only[i] ^ b_only[i]);
  Span both(a);
  for (Vector v : b) both.insert(v);
  for (int i = 0; i < n; ++i)
    if (both.insert(Vector(1) << i)) result.push_back(Vector(1) << i);
  return result;
}

}  // namespace tegula::gf2
