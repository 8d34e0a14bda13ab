// Integer polynomials: the normal form of index arithmetic.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

namespace tegula {

/// A polynomial whose unknowns are numbered.
class Polynomial {
 public:
  /// The numbers of a term's factors, in ascending order; empty for the constant term.
  using Factors = std::vector<int>;

  Polynomial() = default;  ///< 0
  static Polynomial constant(int64_t value) { return term({}, value); }
  static Polynomial unknown(int number) { return term({number}, 1); }
  static Polynomial term(Factors factors, int64_t coefficient);

  /// Terms with a coefficient of 0 are left out.
  const std::map<Factors, int64_t>& terms() const { return terms_; }
  bool is_zero() const { return terms_.empty(); }
  bool is_constant(int64_t value) const { return *this == constant(value); }

  Polynomial operator+(const Polynomial& other) const;
  Polynomial operator-(const Polynomial& other) const { return *this + other * constant(-1); }
  Polynomial operator*(const Polynomial& other) const;
  bool operator==(const Polynomial&) const = default;

  /// The quotient by `other`, which has one term; nullopt where the division leaves a remainder.
  std::optional<Polynomial> divided_by(const Polynomial& other) const;

 private:
  void add(const Factors& factors, int64_t coefficient);

  std::map<Factors, int64_t> terms_;
};

}  // namespace tegula
