#include "codegen/analysis/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <utility>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/cost_rates.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/product_time.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/analysis/work_count.h"
#include "codegen/ir/flow.h"

namespace tegula {

namespace {

// Times in seconds and clocks, of Ampere to Hopper by public microbenchmarks, rounded. What matters is their order of
// magnitude: candidates are compared with one another.
constexpr double kMemoryLatency = 650e-9;    // a load from memory that is busy
constexpr double kProgramOverhead = 400e-9;  // a block's start and end
constexpr double kLaunchOverhead = 2e-6;
constexpr double kClocksPerStep = 2;  // an instruction of a thread after one that it does not depend on
constexpr double kShuffleClocks = 26;
constexpr double kExchangeClocks = 110;    // through shared memory, barrier included
constexpr double kBarrierWarpClocks = 6;   // more for each warp that has to arrive
constexpr double kClusterClocks = 1200;    // more of an exchange between the blocks of a cluster
constexpr double kIssuePerClock = 4;       // warp instructions, an SM
constexpr double kSpecialPerClock = 0.5;   // warp instructions of the special function units, an SM
constexpr double kMemoryEfficiency = 0.9;  // what a copy reaches of the maker's rate
constexpr double kL2Factor = 2.5;          // rate of the L2 cache by that of memory
constexpr double kSecondLine = 1.8;        // of a second line's bytes that copies touch, in bytes
constexpr double kSharedSums = 16400;      // clocks of an exchange of sums between the blocks of a cluster

class Estimator {
 public:
  Estimator(const ir::Func& func, const Target& target, const CostInputs& inputs)
      : func_(func),
        target_(target),
        inputs_(inputs),
        axis_(func),
        values_(func, axis_, inputs),
        registers_(func, axis_, values_),
        warps_(func.num_warps()),
        groups_(ir::groups_of(func)),
        blocks_(func.num_ctas()),
        divided_(is_divided(func)),
        work_(count_work(func, target, inputs, axis_, values_, registers_)) {}

  CostEstimate run() {
    out_.threads = groups_ * warps_ * 32;
    out_.shared_bytes = plan_shared(func_).bytes;
    out_.bytes_read = int64_t(work_.mean.read);
    out_.bytes_written = int64_t(work_.mean.written);
    out_.bytes_shared = int64_t(work_.mean.shared);
    out_.flops = int64_t(work_.mean.flops);
    out_.special = int64_t(work_.mean.special);
    out_.dot_flops = int64_t(work_.mean.dot_flops);
    peak_ = registers_.peak();
    out_.registers = peak_.words;
    predict();
    return std::move(out_);
  }

 private:
  // A thread's way through the work, with nobody else on the SM.
  double seconds_alone(const Work& of, double spilled, double clock) const {
    return of.rounds * kMemoryLatency + (of.steps * kClocksPerStep + of.shuffles * kShuffleClocks +
                                         of.exchange * (kExchangeClocks + kBarrierWarpClocks * warps_) +
                                         of.cluster_exchange * kClusterClocks + 2 * spilled / out_.threads * 8) /
                                            clock;
  }

  /// What is found out about the launch. Blocks count as programs, which share the bytes of theirs.
  struct Launch {
    double programs, sms, all_sms, resident, clock;
    double spilled, slots;         ///< bytes and warp instructions of one
    double rate = 0, traffic = 0;  ///< the maker's rate of memory; bytes from and to it
    double issue = 0;              ///< seconds of instructions
  };

  void predict() {
    const DeviceInfo* device = gpu_of(inputs_);
    const std::optional<int> programs_per_sm = fitting_programs(device);
    if (!programs_per_sm) return;
    out_.programs_per_sm = *programs_per_sm;
    const Launch launch = make_launch(device);
    out_.instructions = launch.programs * launch.slots;
    out_.special_instructions = launch.programs * work_.mean.special_slots;
    const double behind = seconds_alone(work_.last, 0, launch.clock);
    out_.behind_us = behind * 1e6;
    const ProductTime time = work_.longest.product_steps > 0 ? time_of_products(launch) : time_of_programs(launch);
    out_.memory_us = time.memory * 1e6, out_.compute_us = time.compute * 1e6, out_.latency_us = time.waits * 1e6;
    out_.predicted_us = (time.all + behind) * 1e6;
    out_.bound = time.waits > std::max(time.memory, time.compute) ? "latency"
                 : time.compute > time.memory                     ? "compute"
                                                                  : "memory";
    describe(launch, time);
  }

  // How many programs an SM holds at a time; nothing where it has no room for one, which the estimate then says.
  std::optional<int> fitting_programs(const DeviceInfo* device) {
    out_.register_limit = register_limit(func_, target_);
    const int64_t used = (std::min(out_.registers, out_.register_limit) + 7) / 8 * 8;
    int64_t fits = target_.programs_of(groups_ * warps_);
    fits = std::min(fits, target_.registers_per_sm / (used * out_.threads));
    if (out_.shared_bytes) fits = std::min(fits, target_.shared_per_sm / (out_.shared_bytes + 1024));
    const int64_t shared_limit =
        device && device->shared_per_program ? device->shared_per_program : target_.shared_per_program;
    if (out_.shared_bytes <= shared_limit && fits >= 1)
      return inputs_.programs_per_sm ? std::max(1, *inputs_.programs_per_sm) : int(fits);
    out_.predicted_us = std::numeric_limits<double>::infinity();
    out_.bound = "does not fit";
    out_.text = out_.shared_bytes > shared_limit
                    ? fmt::format("does not fit: a program needs {} bytes of shared memory, {} are there",
                                  out_.shared_bytes, shared_limit)
                    : fmt::format("does not fit: {} warps with {} registers a thread", warps_, used);
    return std::nullopt;
  }

  Launch make_launch(const DeviceInfo* device) {
    const Rates& rates = target_.rates;
    const int all_sms = multiprocessors(target_, device);
    const double sms = multiprocessors_of_clusters(all_sms, blocks_);
    const double clock = rates.clock_mhz * 1e6;
    // From here on blocks count, which share the bytes of their program.
    const double programs = blocks_of_launch(inputs_, blocks_);
    if (!divided_)
      for (double* bytes : {&work_.mean.read, &work_.mean.read_traffic, &work_.mean.write_traffic}) *bytes /= blocks_;
    out_.waves = programs / (sms * out_.programs_per_sm);
    const double spilled_of_thread =
        double(inputs_.spill_bytes.value_or(4 * std::max(0, out_.registers - out_.register_limit)));
    const double spilled = spilled_of_thread * out_.threads * peak_.times;  // bytes a program

    Launch launch{.programs = programs,
                  .sms = sms,
                  .all_sms = double(all_sms),
                  .resident = std::min(double(out_.programs_per_sm), std::ceil(programs / sms)),
                  .clock = clock,
                  .spilled = spilled,
                  .slots = work_.mean.slots + 4.0 * spilled / 128 * 2};
    launch.rate = memory_bytes_per_second(target_, device);
    launch.traffic = memory_traffic(launch);
    const double clocks =
        std::max({launch.slots / kIssuePerClock, work_.mean.special_slots / kSpecialPerClock, work_.mean.wavefronts});
    const double tensor = rates.tensor_tflop_s * 1e12 * sms / rates.num_sms;
    launch.issue = programs * clocks / (clock * sms) + programs * work_.mean.tensor_flops / tensor;
    return launch;
  }

  // Of an array no more comes from memory than it has, where that is known: the L2 cache gives what is read again.
  double memory_traffic(const Launch& l) const {
    const double spilled = l.programs * 2 * l.spilled / kL2Factor;
    if (inputs_.moved) return inputs_.moved->memory + spilled;
    const bool product = work_.mean.dot_flops > 0;
    const double of_block = divided_ ? 1 : 1.0 / blocks_;
    double traffic = 0, known_read = 0;
    for (const auto& [base, array] : work_.arrays) {
      const auto known = base ? inputs_.array_bytes.find(base->name) : inputs_.array_bytes.end();
      const bool is_known = known != inputs_.array_bytes.end() && known->second > 0;
      const double size = is_known ? double(known->second) : std::numeric_limits<double>::infinity();
      double read = l.programs * of_block * array.read;
      const double written = l.programs * of_block * array.written;
      if (is_known) known_read += array.read;
      if (!is_known && product) read /= kOperandReuse;
      const bool handed_over = product && array.read > 0 && array.written > 0;
      traffic += (handed_over ? kHandedOver : 1) * (std::min(read, size) + std::min(written, size));
    }
    // What all programs read at the same address, of arrays whose size is not known.
    if (!product && known_read == 0) traffic -= l.programs * work_.mean.shared / blocks_ - work_.mean.shared;
    return traffic + spilled;
  }

  ProductTime time_of_products(const Launch& l) const {
    const Work &w = work_.longest, &one = work_.one_group_of_longest;
    const double other = kClocksPerStep * one.steps + kShuffleClocks * one.shuffles +
                         one.exchange * (kExchangeClocks + kBarrierWarpClocks * warps_) +
                         one.cluster_exchange * kSharedSums + 2 * l.spilled / out_.threads * 8;
    const double l2 = l.programs * (work_.mean.read_traffic + work_.mean.write_traffic +
                                    kSecondLine * work_.mean.split + 2 * l.spilled);
    ProductTime time = product_time({.longest = {.steps = w.product_steps,
                                                 .tensor_clocks = w.step_tensor,
                                                 .shared_bytes = w.step_shared,
                                                 .copied_bytes = w.step_copied,
                                                 .ahead = w.step_ahead,
                                                 .fills = one.fills,
                                                 // one group's ends lie under the other's products
                                                 .other_clocks = groups_ > 1 ? 0 : other},
                                     .share = work_.mean.product_steps / w.product_steps,
                                     .blocks = l.programs,
                                     .blocks_of_program = blocks_,
                                     .groups_of_block = groups_,
                                     .sms = l.sms,
                                     .all_sms = l.all_sms,
                                     .resident = l.resident,
                                     .clock = l.clock,
                                     .memory_seconds = l.traffic / (l.rate * kProductMemory),
                                     .l2_bytes = inputs_.moved ? inputs_.moved->l2 : l2,
                                     .issue_seconds = groups_ > 1 ? 0 : l.issue});
    // What one group of warps computes after a tile's products is under those of the other one.
    if (groups_ > 1) time.compute = std::max(time.compute, l.issue), time.all = std::max(time.all, l.issue);
    time.all += kProductLaunch;
    return time;
  }

  ProductTime time_of_programs(const Launch& l) {
    const double memory = l.rate * kMemoryEfficiency;
    const double l2 = inputs_.moved ? inputs_.moved->l2
                                    : l.programs * (work_.mean.read_traffic + work_.mean.write_traffic + 2 * l.spilled);
    const double t_memory = std::max(l.traffic, l2 / kL2Factor) / memory;
    // A program alone, and how many of them a second the SMs get through side by side.
    const double alone = kProgramOverhead + seconds_alone(work_.one_group, l.spilled, l.clock);
    const double t_latency = alone * std::max(std::ceil(l.programs / l.sms) / l.resident, 1.0);
    out_.bytes_in_flight = l.resident * work_.mean.read / std::max(1.0, work_.mean.rounds);
    out_.bytes_needed = memory / l.sms * kMemoryLatency;
    // The greatest counts most, yet the others are felt: they do not overlap in full.
    constexpr double kPower = 3;
    const double t =
        std::pow(std::pow(t_memory, kPower) + std::pow(l.issue, kPower) + std::pow(t_latency, kPower), 1 / kPower);
    // The first and the last programs have the GPU to themselves.
    return {.memory = t_memory, .compute = l.issue, .waits = t_latency, .all = t + alone + kLaunchOverhead};
  }

  void describe(const Launch& l, const ProductTime& time) {
    const double t_memory = time.memory, t_compute = time.compute;
    const double alone = kProgramOverhead + seconds_alone(work_.one_group, l.spilled, l.clock);
    if (out_.bound == "memory")
      out_.text = fmt::format("bound by memory: {:.3g} MB at {:.0f} GB/s take {:.3g} us", l.traffic / 1e6,
                              l.traffic / time.memory / 1e9, t_memory * 1e6);
    else if (out_.bound == "compute")
      out_.text = fmt::format("bound by compute: {:.3g} us of instructions, {:.3g} us of memory traffic",
                              t_compute * 1e6, t_memory * 1e6);
    else
      out_.text = fmt::format(
          "bound by latency: {} programs an SM, {:.3g} KB in flight of the {:.3g} KB that memory "
          "takes, {:.3g} us a program",
          out_.programs_per_sm, out_.bytes_in_flight / 1e3, out_.bytes_needed / 1e3, alone * 1e6);
    if (out_.spills())
      out_.text += fmt::format("; spills: {} registers of at most {}", out_.registers, out_.register_limit);
  }

  const ir::Func& func_;
  const Target& target_;
  const CostInputs& inputs_;
  AxisAnalysis axis_;
  LaunchValues values_;
  RegisterPressure registers_;
  int warps_, groups_;  // of a group; that run a program
  int blocks_;          // of a program
  bool divided_;        // what is counted is of one block
  RegisterPressure::Peak peak_;
  WorkOfPrograms work_;
  CostEstimate out_;
};

}  // namespace

CostEstimate estimate_cost(const ir::Func& func, const Target& target, const CostInputs& inputs) {
  return Estimator(func, target, inputs).run();
}

}  // namespace tegula
