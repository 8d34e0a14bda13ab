#include "codegen/analysis/product_time.h"

#include <algorithm>
#include <cmath>

namespace tegula {

namespace {

// Fitted to 1787 configurations of 36 products on an H100 as bench/tuning.py times them; of the half of the products
// that a fit had not seen the order was as good.
constexpr double kTensorShare = 0.862;  // of the clocks by the maker's rate, which is of less than the highest clock
constexpr double kThrottle = 0.38;      // more clocks while all tensor cores are busy: power lowers the clock,
constexpr double kL2Throttle = 0.88;    // and more of them as the L2 cache is busy too
constexpr double kCopiedPerClock = 86;  // bytes that copies bring to an SM
constexpr double kOperandsPerClock = 232;
constexpr double kCopiedOperands = 0.76;  // of the bytes that are copied count against these too
constexpr double kL2PerClock = 110;       // bytes, for each SM
constexpr double kStepClocks = 11.6;      // its barrier, waits and the start of its instructions
constexpr double kAloneClocks = 3.7;      // more of a step with no other block or group on its SM
constexpr double kClusterClocks = 11.2;   // more of a step of blocks that wait for each other
constexpr double kCopyLatency = 472e-9;
constexpr double kBlockOverhead = 1.72e-6;  // a block's start, the first of its copies and its end
constexpr double kOtherShare = 0.35;        // of what a block does beside its loops that neighbours do not hide

struct Wave {
  double work, waits;  // seconds
};

// Blocks that run side by side are in step: they share the tensor cores, and all fill their pipelines and store their
// results at the same time.
Wave on_one_sm(const ProductLaunch& l, double tensor_clocks) {
  const ProductWork& w = l.longest;
  const double on_one = std::ceil(l.blocks / l.sms);
  const double together = std::max(1.0, std::min(l.resident, on_one)), waves = std::ceil(on_one / together);
  const double operands = (w.shared_bytes + kCopiedOperands * w.copied_bytes) / kOperandsPerClock;
  const double busy = std::max({tensor_clocks, operands, w.copied_bytes / kCopiedPerClock});
  const double gap = kStepClocks + (l.blocks_of_program > 1 ? kClusterClocks : 0);
  const double beside = together * l.groups_of_block;  // what fills each other's gaps
  const double each = busy + w.steps * (gap / beside + (beside > 1 ? 0 : kAloneClocks));
  const double work = ((on_one - 1) * l.share + 1) * each / l.clock;
  const double ahead = std::max(1.0, w.ahead / std::max(1.0, w.steps));
  const double chain = waves * w.steps * kCopyLatency / (ahead + 1);
  const double ends = waves * (kBlockOverhead + (w.fills + 1) * kCopyLatency + kOtherShare * w.other_clocks / l.clock);
  return {work, std::max(0.0, chain - work) + ends};
}

double together(double a, double b, double c, double d) { return std::sqrt(a * a + b * b + c * c + d * d); }

double l2_seconds(const ProductLaunch& l) { return l.l2_bytes / (kL2PerClock * l.all_sms * l.clock); }

double all_seconds(const ProductLaunch& l, const Wave& wave) {
  return together(l.memory_seconds, l2_seconds(l), wave.work + wave.waits, l.issue_seconds);
}

// The waves of a launch whose tensor cores slow down as in one that takes so many seconds.
Wave throttled(const ProductLaunch& l, double seconds) {
  const double busy = l.blocks * l.share * l.longest.tensor_clocks / l.sms / l.clock / seconds;
  const double slower = 1 + busy * (kThrottle * busy + kL2Throttle * l2_seconds(l) / seconds);
  return on_one_sm(l, l.longest.tensor_clocks * kTensorShare * slower);
}

}  // namespace

ProductTime product_time(const ProductLaunch& l) {
  // At the highest clock first.
  const double first = all_seconds(l, on_one_sm(l, l.longest.tensor_clocks * kTensorShare));
  const Wave wave = throttled(l, first);
  return {std::max(l.memory_seconds, l2_seconds(l)), std::max(wave.work, l.issue_seconds), wave.waits,
          all_seconds(l, wave)};
}

}  // namespace tegula
