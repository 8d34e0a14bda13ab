#include "codegen/analysis/polynomial.h"

#include <algorithm>
#include <iterator>

namespace tegula {

Polynomial Polynomial::term(Factors factors, int64_t coefficient) {
  Polynomial out;
  out.add(factors, coefficient);
  return out;
}

void Polynomial::add(const Factors& factors, int64_t coefficient) {
  int64_t& sum = terms_[factors];
  sum = int64_t(uint64_t(sum) + uint64_t(coefficient));
  if (sum == 0) terms_.erase(factors);
}

Polynomial Polynomial::operator+(const Polynomial& other) const {
  Polynomial out = *this;
  for (const auto& [factors, coefficient] : other.terms_) out.add(factors, coefficient);
  return out;
}

Polynomial Polynomial::operator*(const Polynomial& other) const {
  Polynomial out;
  for (const auto& [a, ca] : terms_)
    for (const auto& [b, cb] : other.terms_) {
      Factors both;
      std::merge(a.begin(), a.end(), b.begin(), b.end(), std::back_inserter(both));
      out.add(both, int64_t(uint64_t(ca) * uint64_t(cb)));
    }
  return out;
}

std::optional<Polynomial> Polynomial::divided_by(const Polynomial& other) const {
  if (other.terms_.size() != 1) return std::nullopt;
  const auto& [divisor, coefficient] = *other.terms_.begin();
  if (coefficient < 0) {
    const auto negative = divided_by(other * constant(-1));
    return negative ? std::optional(*negative * constant(-1)) : std::nullopt;
  }
  Polynomial out;
  for (const auto& [factors, c] : terms_) {
    if (c % coefficient || !std::includes(factors.begin(), factors.end(), divisor.begin(), divisor.end()))
      return std::nullopt;
    Factors rest;
    std::set_difference(factors.begin(), factors.end(), divisor.begin(), divisor.end(), std::back_inserter(rest));
    out.add(rest, c / coefficient);
  }
  return out;
}

}  // namespace tegula
