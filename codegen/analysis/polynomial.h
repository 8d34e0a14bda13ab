// Sums of products of integers: what index arithmetic comes down to.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tegula {

/// A polynomial in unknowns that have numbers.
class Polynomial {
 public:
  /// What is multiplied, ascending; none: 1.
  using Factors = std::vector<int>;

  Polynomial() = default;  ///< 0
  static Polynomial constant(int64_t value) { return term({}, value); }
  static Polynomial unknown(int number) { return term({number}, 1); }
  static Polynomial term(Factors factors, int64_t coefficient);

  /// Without those whose coefficient is 0.
  const std::map<Factors, int64_t>& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  bool is_constant(int64_t value) const { return *this == constant(value); }

  Polynomial operator+(const Polynomial& other) const;
  Polynomial operator-(const Polynomial& other) const { return *this + other * constant(-1); }
  Polynomial operator*(const Polynomial& other) const;
  bool operator==(const Polynomial&) const = default;

  /// What gives this when it is multiplied by `other`, which has one term; none where there is no such polynomial.
  std::optional<Polynomial> divided_by(const Polynomial& other) const;

 private:
  void add(const Factors& factors, int64_t coefficient);

  std::map<Factors, int64_t> terms_;
};

}  // namespace tegula
