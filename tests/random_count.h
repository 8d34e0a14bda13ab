// How many random programs a test makes.
#pragma once

#include <algorithm>
#include <cstdlib>

namespace tegula {

/// `quick` times TEGULA_RANDOM, a factor that `./dev nightly` sets; 1 where it is not set.
inline unsigned random_count(unsigned quick) {
  const char* factor = std::getenv("TEGULA_RANDOM");
  return quick * unsigned(factor ? std::max(1, std::atoi(factor)) : 1);
}

}  // namespace tegula
