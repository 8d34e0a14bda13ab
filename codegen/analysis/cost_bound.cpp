#include "codegen/analysis/cost_bound.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <optional>

#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/cost_rates.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/product_time.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/ir/flow.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

using ir::Opcode;

// Of the time that the model says of the work that is counted here. With more work it may say less, as the clock falls
// less where tensor cores wait: by 1.6 % at most, of 4100 configurations of 84 products.
constexpr double kSurely = 0.98;

bool is_multiplied(const ir::Op& op) { return ir::is_product(op) && plan_of(op).instruction; }

class BoundOfCost {
 public:
  BoundOfCost(const ir::Func& func, const AxisAnalysis& axis, const Target& target, const CostInputs& inputs)
      : func_(func),
        axis_(axis),
        target_(target),
        inputs_(inputs),
        values_(func, axis, inputs),
        blocks_(func.num_ctas()),
        groups_(func.warp_specialize() > 1 ? 2 : 1),
        stages_(std::max(1, func.num_stages())) {
    ir::walk(func.body, [&](const ir::Op& op) {
      if (op.opcode == Opcode::For) look_at_loop(op);
      if (op.operands.empty() || !op.operand(0)->type.pointer) return;
      Array& array = arrays_[pointer_base(op.operand(0))];
      array.is_read |= op.has(ir::ReadsGlobal), array.is_written |= op.has(ir::WritesGlobal);
    });
  }

  double run() {
    const auto sample = sample_of_programs(inputs_);
    for (const auto& program : sample) {
      values_.set_program(program);
      sums_ = {};
      count(func_.body, 1);
      all_steps_ += sums_.steps;
      if (sums_.steps > longest_.steps) longest_ = sums_;
    }
    samples_ = double(sample.size());
    if (longest_.steps == 0) return 0;
    return kSurely * (product_time(launch()).all + kProductLaunch) * 1e6;
  }

 private:
  struct Array {
    bool is_read = false, is_written = false;
    double read = 0, written = 0;  ///< bytes, by all programs of the sample
  };

  // What later passes may make of loops around products.
  void look_at_loop(const ir::Op& loop) {
    if (loop.get(ir::attr::warp_specialize) > 1) groups_ = 2;
    if (loop.has(ir::attr::num_stages)) stages_ = std::max(stages_, loop.get(ir::attr::num_stages));
    if (std::ranges::none_of(loop.regions[0]->ops, [](const auto& op) { return ir::is_product(*op); })) return;
    const ir::ForLoop of_products(loop);
    int64_t sums = 0;
    for (size_t i = 0; i < loop.results.size(); ++i) {
      const ir::Value* next = of_products.next(i);
      if (next->def && ir::is_product(*next->def)) sums += next->type.num_elements() * next->type.bits() / 32;
    }
    sums_of_loop_ = std::max(sums_of_loop_, sums);
  }

  void count(const ir::Block& block, double times, ProductWork* step = nullptr) {
    for (const auto& op : block.ops) {
      if (op->opcode == Opcode::AsyncCopy)
        copy(*op, times, step);
      else if (op->opcode == Opcode::Store)
        store(*op, times);
      else if (step && is_multiplied(*op))
        multiply(*op, *step);
      else if (op->opcode == Opcode::If)
        count_branches(*op, times, step);
      else if (op->info().loops())
        count_loop(*op, times);
    }
  }

  void multiply(const ir::Op& op, ProductWork& step) const {
    const ProductCost cost = family_of(op).cost(op, target_);
    step.tensor_clocks += tensor_clocks(cost.tensor_flops, target_);
    step.shared_bytes += cost.shared_bytes;
  }

  void copy(const ir::Op& op, double times, ProductWork* step) {
    const ir::Type& pointers = op.operand(0)->type;
    const double bytes = double(pointers.num_elements() * std::max(1, op.operand(1)->type.bits() / 8));
    const double part = part_within(op.operand(2), pointers);
    if (step) step->copied_bytes += bytes * part;
    // What blocks of a cluster all want is read once. Tiles that lie in part behind the end of an array count in full
    // for the model, too.
    double elements = 1;
    const AxisInfo& info = axis_.info(op.operand(0));
    for (size_t a = 0; a < pointers.shape.size(); ++a)
      if (std::min(info.constancy[a], pointers.shape[a]) == 1) elements *= double(pointers.shape[a]);
    arrays_[pointer_base(op.operand(0))].read +=
        bytes * part * elements / double(pointers.num_elements()) * times / blocks_;
  }

  // The least part of a tile that lies in an array which is smaller than it: what the mask compares with may bound any
  // of its axes.
  double part_within(const ir::Value* mask, const ir::Type& tile) const {
    double least = std::numeric_limits<double>::infinity(), part = 1;
    std::function<void(const ir::Value*)> look = [&](const ir::Value* v) {
      if (!v || !v->def || v->type.is_scalar()) return;
      const bool bool_operands = !v->def->operands.empty() && v->def->operand(0)->type.is_bool();
      for (const ir::Value* operand : v->def->operands) {
        if (bool_operands)
          look(operand);
        else if (operand->def && operand->def->opcode == Opcode::Splat)
          least = std::min(least, double(std::max<int64_t>(0, values_.integer(operand->def->operand(0)).value_or(0))));
      }
    };
    look(mask);
    for (int64_t extent : tile.shape) part *= std::min(1.0, least / double(extent));
    return part;
  }

  void store(const ir::Op& op, double times) {
    const ir::Type& value = op.operand(1)->type;
    arrays_[pointer_base(op.operand(0))].written +=
        double(value.num_elements() * std::max(1, value.bits() / 8)) * times / blocks_;
  }

  void count_branches(const ir::Op& op, double times, ProductWork* step) {
    const std::optional<int> taken = values_.branch(op);
    const bool is_last = !taken && follows_from_ticket(op.operand(0));
    for (int i = is_last ? 1 : 0; i < int(op.regions.size()); ++i) {
      const double share = is_last ? 1 : !taken ? values_.share_taken(op, i) : *taken == i ? 1 : 0;
      if (share > 0) count(*op.regions[size_t(i)], times * share, step);
    }
  }

  void count_loop(const ir::Op& loop, double times) {
    values_.for_each_iteration(loop, [&](const ir::Block& body, double each) { count_iterations(body, times * each); });
  }

  void count_iterations(const ir::Block& body, double times) {
    ProductWork step;
    count(body, times, &step);
    if (step.tensor_clocks == 0) return;
    sums_.steps += times;
    sums_.tensor_clocks += times * step.tensor_clocks;
    sums_.shared_bytes += times * step.shared_bytes;
    sums_.copied_bytes += times * step.copied_bytes;
  }

  ProductLaunch launch() {
    const DeviceInfo* gpu = gpu_of(inputs_);
    const int all_sms = multiprocessors(target_, gpu);
    longest_.ahead = longest_.steps * double(stages_);
    ProductLaunch l{.longest = longest_,
                    .share = all_steps_ / samples_ / longest_.steps,
                    .blocks = blocks_of_launch(inputs_, blocks_),
                    .blocks_of_program = blocks_,
                    .groups_of_block = groups_,
                    .sms = multiprocessors_of_clusters(all_sms, blocks_),
                    .all_sms = double(all_sms),
                    .resident = most_resident(),
                    .clock = target_.rates.clock_mhz * 1e6};
    double traffic = 0;
    for (const auto& [base, array] : arrays_) {
      const double read = l.blocks * array.read / samples_, written = l.blocks * array.written / samples_;
      l.l2_bytes += read + written;
      traffic += memory_traffic(base, array, read, written);
    }
    l.memory_seconds = traffic / (memory_bytes_per_second(target_, gpu) * kProductMemory);
    return l;
  }

  // As the model has it, of what is counted here.
  double memory_traffic(const ir::Value* base, const Array& array, double read, double written) const {
    const auto known = base ? inputs_.array_bytes.find(base->name) : inputs_.array_bytes.end();
    const bool is_known = known != inputs_.array_bytes.end() && known->second > 0;
    const double size = is_known ? double(known->second) : std::numeric_limits<double>::infinity();
    const bool handed_over = array.is_read && array.is_written;
    return (handed_over ? kHandedOver : 1) *
           (std::min(is_known ? read : read / kOperandReuse, size) + std::min(written, size));
  }

  // Programs that an SM has warps for, and registers for the sums that a loop carries.
  double most_resident() const {
    const int threads = 32 * func_.num_warps();
    const int64_t sums = std::min<int64_t>(sums_of_loop_ / threads, register_limit(func_, target_));
    int64_t fits = target_.programs_of(func_.num_warps());
    if (sums > 0) fits = std::min(fits, target_.registers_per_sm / (sums * threads));
    return double(std::max<int64_t>(1, fits));
  }

  const ir::Func& func_;
  const AxisAnalysis& axis_;
  const Target& target_;
  const CostInputs& inputs_;
  LaunchValues values_;
  const int blocks_;          // of a program
  int groups_;                // of warps, at most
  int64_t stages_;            // of loops around products, at most
  int64_t sums_of_loop_ = 0;  // of products, that one of them carries: registers of all threads
  ProductWork sums_;          // of the program at hand
  ProductWork longest_;
  double all_steps_ = 0, samples_ = 1;
  std::map<const ir::Value*, Array> arrays_;  // by the parameter that pointers come from; null: several
};

}  // namespace

double least_us(const ir::Func& func, const AxisAnalysis& axis, const Target& target, const CostInputs& inputs) {
  return BoundOfCost(func, axis, target, inputs).run();
}

}  // namespace tegula
