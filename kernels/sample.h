// Tokens drawn from rows of logits. The kernel stands in sample.py.
#pragma once

#include "kernels/entry.h"

namespace tegula::kernels {

/// One element a row each.
struct SampleOptions {
  Vector<const float> temperature = {};  ///< none: 1; 0 takes the largest logit
  Vector<const int32_t> top_k = {};      ///< how many of the largest logits are kept; none, 0 or less: all
  Vector<const float> top_p = {};        ///< the probability that is kept of these; none, 1 or more: all of it
};

/// out[r] = a column of row r, drawn with the probabilities of softmax(x[r] / temperature[r]) over the columns that are
/// kept: the top_k largest logits, and of these the largest ones whose probabilities together reach top_p. Logits equal
/// to the smallest of those kept are kept too. NaN counts as -infinity; a row whose largest logit is not finite has -1.
/// The same seed and shape give the same columns in every run.
///
/// Traffic: rows cols sizeof(T) bytes, again from a cache for each search of a row too wide for the registers. Where
/// top_k is 1024 at most, and seldom more logits come into question, these alone are sorted; otherwise thresholds are
/// found bit by bit. Holtzman et al.: The Curious Case of Neural Text Degeneration, 2020; Gumbel: Statistical Theory of
/// Extreme Values, 1954.
template <std::signed_integral Index, Floating T>
void sample_rows(Device& device, Vector<Index> out, Matrix<T> x, int64_t seed, const SampleOptions& options = {},
                 StreamHandle stream = nullptr) {
  run<EntryId::sample_rows>(device, stream, out, x, options.temperature, options.top_k, options.top_p, seed);
}

}  // namespace tegula::kernels
