#include "codegen/analysis/work_count.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "codegen/analysis/axis_runs.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/conversion.h"
#include "codegen/analysis/cost_rates.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/ir/pointer_set.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

using ir::Opcode;

constexpr double kTicketRounds = 0.5;  // of a load an atomic operation takes whose result is used: the L2 cache answers
constexpr double kWavefrontBytes = 128;  // of a warp's access, which takes a clock each of an SM
constexpr int64_t kLine = 128;           // bytes, of the L2 cache

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

// What parameters are multiples of in a launch that code is specialised for as far as it tells them apart: strides may
// be multiples of a line, as those are taken to be that are not known. Arrays begin with one, as allocators give them.
std::unordered_map<const ir::Value*, int64_t> divisors_of_launch(const ir::Func& func, const CostInputs& inputs) {
  constexpr int64_t kMostSpecialised = 16;
  std::unordered_map<const ir::Value*, int64_t> divisors;
  for (size_t i = 0; i < std::min(func.body.args.size(), func.divisibility.size()); ++i) {
    if (func.divisibility[i] < kMostSpecialised) continue;
    const ir::Value* param = func.body.args[i].get();
    const auto known = inputs.arguments.find(param->name);
    const bool is_known = known != inputs.arguments.end() && known->second > 0;
    divisors[param] = is_known && !param->type.pointer ? known->second : kLine;
  }
  return divisors;
}

class WorkCounter {
 public:
  WorkCounter(const ir::Func& func, const Target& target, const CostInputs& inputs, const AxisAnalysis& axis,
              LaunchValues& values, RegisterPressure& registers)
      : func_(func),
        target_(target),
        inputs_(inputs),
        axis_(axis),
        divisors_(divisors_of_launch(func, inputs)),
        addresses_(func, {.divisors = &divisors_}),
        values_(values),
        registers_(registers),
        warps_(func.num_warps()),
        groups_(ir::groups_of(func)),
        blocks_(func.num_ctas()) {
    ir::walk(func.body, [&](const ir::Op& op) {
      if (op.info().runs_beside())
        ir::walk(*op.regions[0], [&](const ir::Op& copy) {
          if (copy.opcode == Opcode::AsyncCopy || copy.opcode == Opcode::BulkCopy)
            copied_beside_.emplace(alloc_of(copy.operand(1)), &copy);
        });
      for (const ir::Value* x : op.operands)
        if (x && x->def && x->def->opcode == Opcode::AtomicRmw) answered_.insert(x->def);
      if (op.opcode == Opcode::Div && !op.operand(0)->type.is_float())
        quotients_.insert({op.operand(0), op.operand(1)});
    });
  }

  WorkOfPrograms run() {
    const auto sample = sample_of_programs(inputs_);
    const auto samples = double(sample.size());
    for (size_t i = 0; i < sample.size(); ++i) {
      values_.set_program(sample[i]);
      Work program, first;
      for (group_ = 0; group_ < groups_; ++group_) {
        values_.set_group(group_);
        sums_ = {};
        count(func_.body, 1);
        if (group_ == 0) first = sums_;
        program.add(sums_, 1);
      }
      out_.mean.add(program, 1);
      out_.one_group.add(first, 1);
      if (i == 0 || program.product_steps > out_.longest.product_steps)
        out_.longest = program, out_.one_group_of_longest = first;
    }
    for (Work* work : {&out_.mean, &out_.one_group, &out_.last}) work->scale(1 / samples);
    for (auto& [base, array] : out_.arrays) array.read /= samples, array.written /= samples;
    return std::move(out_);
  }

 private:
  void note_array(const ir::Value* pointer, bool reads, double bytes) {
    ArrayBytes& array = out_.arrays[pointer_base(pointer)];
    (reads ? array.read : array.written) += bytes * arrays_weight_;
  }

  // Bytes at different addresses that an access touches, and wavefronts of 128 bytes that it takes, for all warps.
  void access(const ir::Op& op, const ir::Type& value, double times) {
    const ir::Value* ptr = op.operand(0);
    const ir::Type& type = ptr->type;
    double elements = double(type.num_elements());
    int64_t bytes = elem_bits(type.elem) / 8 > 0 ? elem_bits(type.elem) / 8 : 1;
    int width = 1;
    double sector_waste = 1;
    if (type.is_tile()) {
      const AxisInfo& info = axis_.info(ptr);
      int64_t run = 1;
      bool repeated = false;
      for (int a = 0; a < type.rank(); ++a) {
        int64_t same = std::min(info.constancy[a], type.shape[a]);
        if (same > 1 && same == block_of(type.shape[a])) same = type.shape[a];  // a splat, as a rule
        if (same > 1) elements /= double(same), repeated = true;
        run = std::max(run, std::min(info.contiguity[a], type.shape[a]));
        if (type.layout)
          width =
              std::max(width, std::min<int>(axis_.vector_width(ptr, nullptr, a), type.layout->contiguous_registers(a)));
      }
      for (int a = 0; a < type.rank(); ++a)  // rows that follow each other in memory
        if (const AxisInfo::Run rows = longest_run(info, size_t(a), bytes);
            rows.stride == run * bytes && rows.repeats == 1)
          run *= std::min(rows.length, type.shape[a]);
      if (!repeated && run * bytes < 32) sector_waste = 32.0 / double(run * bytes);
    }
    bool reads = op.opcode != Opcode::Store;
    double total = elements * double(bytes) * times;
    if (op.opcode == Opcode::AsyncCopy && type.is_tile()) sums_.split += total * (lines_of_copy(ptr) - 1);
    note_array(ptr, reads, total * std::min(sector_waste, 8.0));
    (reads ? sums_.read : sums_.written) += total;
    (reads ? sums_.read_traffic : sums_.write_traffic) += total * std::min(sector_waste, 8.0);
    if (reads && !values_.depends_on_program(ptr)) sums_.shared += total;
    const int64_t held = op.opcode == ir::Opcode::Load && type.layout ? loaded_elements(op) : held_elements(value);
    double instructions = double(held) / width * times;
    sums_.steps += instructions;
    sums_.slots += instructions * warps_;
    sums_.wavefronts += instructions * warps_ * std::max(1.0, double(width) * double(bytes) * 32 / kWavefrontBytes);
  }

  /// How much more lines than they fill asynchronous copies touch: eight threads at a time, of 16 bytes each.
  double lines_of_copy(const ir::Value* ptr) const {
    const ir::Type& type = ptr->type;
    const AxisInfo& info = addresses_.info(ptr);
    int along = 0;
    for (int a = 1; a < type.rank(); ++a)
      if (std::min(info.contiguity[a], type.shape[a]) > std::min(info.contiguity[along], type.shape[along])) along = a;
    const int64_t run = std::min(info.contiguity[along], type.shape[along]) * std::max(1, elem_bits(type.elem) / 8);
    return touched_by(std::min(run, kLine), info.divisibility[along]).lines;
  }

  /// What one iteration of a loop takes of an SM beside its instructions.
  struct Step {
    double tensor = 0, shared = 0, copied = 0;  ///< clocks; bytes
    double ahead = 0;                           ///< iterations that copies run ahead
  };

  /// Of the slots one is multiplied and another one may still be, by products under way.
  static double copies_ahead(const ir::Op& copy) {
    return std::max<double>(1, double(alloc_of(copy.operand(1))->get(ir::attr::slots)) - 2);
  }

  /// How much more than they fill rows of so many bytes touch that begin at any multiple of `step` bytes.
  struct Touched {
    double sectors = 1, lines = 1;
  };
  static Touched touched_by(int64_t row, int64_t step) {
    constexpr int64_t kSector = 32;
    step = std::gcd(step, kLine);
    Touched sums{0, 0};
    for (int64_t begin = 0; begin < kLine; begin += step) {
      sums.sectors += double((begin % kSector + row + kSector - 1) / kSector);
      sums.lines += double((begin + row + kLine - 1) / kLine);
    }
    const double rows = double(kLine / step);
    return {sums.sectors / rows / std::ceil(double(row) / kSector), sums.lines / rows / std::ceil(double(row) / kLine)};
  }

  static Touched touched_by(const LaunchValues& values, const ir::Op& copy) {
    const ir::Op* map = copy.operand(0)->def;
    if (!map || map->opcode != Opcode::TensorMap) return {};
    const ir::Type& box = map->result()->type;
    const size_t rank = box.shape.size();
    if (rank < 2) return {};
    const auto stride = values.integer(map->operand(int(2 * rank - 1)));
    if (!stride) return {};
    return touched_by(box.shape.back() * element_bytes(box), *stride * element_bytes(box));
  }

  /// The part of a box that lies in an array which is smaller than it: the rest is zeros that come from nowhere.
  double part_within(const ir::Op& copy) const {
    const ir::Op* map = copy.operand(0)->def;
    if (!map || map->opcode != Opcode::TensorMap) return 1;
    const ir::Type& box = map->result()->type;
    double part = 1;
    for (size_t i = 0; i < box.shape.size(); ++i)
      if (const auto extent = values_.integer(map->operand(int(i + 1))); extent && *extent > 0)
        part *= std::min(1.0, double(*extent) / double(box.shape[i]));
    return part;
  }

  void bulk_copy(const ir::Op& op, double times, Step* step) {
    const ir::Type& place = op.operand(1)->type;
    const double bytes = double(place.num_elements() * element_bytes(place)) * part_within(op);
    const double own = op.get(ir::attr::multicast) < 0 ? bytes : bytes / blocks_;
    const Touched touched = touched_by(values_, op);
    sums_.read += own * times;
    sums_.read_traffic += own * touched.sectors * times;
    sums_.split += own * (touched.lines - 1) * times;
    if (const ir::Op* map = op.operand(0)->def) note_array(map->operand(0), true, own * touched.sectors * times);
    if (std::none_of(op.operands.begin() + 2, op.operands.end(),
                     [&](const ir::Value* v) { return v && values_.depends_on_program(v); }))
      sums_.shared += own * times;
    if (!step) return;
    step->copied += bytes;
    step->ahead = copies_ahead(op);
  }

  // Threads store to shared memory 16 bytes at a time.
  void bulk_store(const ir::Op& op, double times) {
    const ir::Type& value = op.operand(0)->type;
    // Of a stretch of the tile's rows, its place has room for that.
    times *= double(op.operand(2)->def->get(ir::attr::slots) * op.operand(2)->type.num_elements()) /
             double(value.num_elements());
    const double bytes = double(value.num_elements() * element_bytes(value)) * times;
    sums_.written += bytes;
    sums_.write_traffic += bytes;
    if (const ir::Op* map = op.operand(1)->def) note_array(map->operand(0), false, bytes);
    const double instructions = double(held_elements(value) * element_bytes(value)) / 16 * times;
    sums_.steps += instructions;
    sums_.slots += instructions * warps_;
    sums_.wavefronts += instructions * warps_ * 16 * 32 / kWavefrontBytes;
  }

  // What warps of their own copy for a product.
  void copies_beside(const ir::Op& product, Step& step) const {
    for (int i : {0, 1}) {
      const ir::Value* place = product.operand(i);
      const auto at = place->type.is_place() ? copied_beside_.find(alloc_of(place)) : copied_beside_.end();
      if (at == copied_beside_.end()) continue;
      step.copied += double(place->type.num_elements() * element_bytes(place->type));
      step.ahead = copies_ahead(*at->second);
    }
  }

  void count(const ir::Block& block, double times, Step* step = nullptr) {
    bool loads = false;
    for (const auto& pointer : block.ops) {
      const ir::Op& op = *pointer;
      switch (op.opcode) {
        case Opcode::Load:
          if (values_.is_off(op.operand(1))) continue;
          access(op, op.result()->type, times);
          loads = true;
          continue;
        case Opcode::AsyncCopy:
          access(op, op.operand(0)->type, times);
          if (step) {
            step->copied += double(op.operand(0)->type.num_elements() * element_bytes(op.operand(1)->type));
            step->ahead = copies_ahead(op);
          } else {
            loads = true;
          }
          continue;
        case Opcode::BulkCopy:
          bulk_copy(op, times, step);
          loads |= !step;
          continue;
        case Opcode::BulkStore:
          bulk_store(op, times);
          continue;
        case Opcode::Store:
          access(op, op.operand(1)->type, times);
          continue;
        case Opcode::AtomicRmw:
          access(op, op.operand(1)->type, times);
          if (answered_.contains(&op)) sums_.rounds += kTicketRounds * times;
          sums_.written += double(op.operand(1)->type.num_elements() * element_bytes(op.operand(1)->type)) * times;
          continue;
        case Opcode::Barrier:
          sums_.exchange += times;
          continue;
        case Opcode::Dot:
        case Opcode::MmaStart:
          product(op, times, step);
          continue;
        default:
          break;
      }
      if (op.info().combines()) {
        combine(op, times);
        continue;
      }
      if (!op.regions.empty() && !op.info().isolates()) {
        if (op.opcode == Opcode::If)
          count_branches(op, times, step);
        else if (!op.info().runs_beside() || group_ == 0)
          count_loop(op, times);
        continue;
      }
      if (!op.has(ir::Terminator) && !op.results.empty()) compute(op, times);
    }
    if (loads) sums_.rounds += times == 1 ? 1 : times / 2;
    if (loads && times == 1) ++sums_.fills;
  }

  void product(const ir::Op& op, double times, Step* step) {
    const ProductCost cost = family_of(op).cost(op, target_);
    sums_.dot_flops += cost.flops * times;
    if (step)
      step->tensor += tensor_clocks(cost.tensor_flops, target_), step->shared += cost.shared_bytes,
          copies_beside(op, *step);
    else
      sums_.tensor_flops += cost.tensor_flops * times;
    sums_.steps += (cost.steps / warps_ + cost.fmas / 2) * times;
    sums_.slots += cost.fmas * warps_ * times;
  }

  // An op that computes its result in registers, with exchanges where its operands lie otherwise.
  void compute(const ir::Op& op, double times) {
    const OpFacts facts = facts_of(op);
    if (facts.crosses_blocks) sums_.cluster_exchange += times;
    if (op.opcode == Opcode::ExchangeBlocks) sums_.cluster_exchange += 2 * times;
    if (facts.has_scratch) {
      sums_.exchange += times;
      sums_.slots += 2.0 * double(facts.held) * warps_ * times;
    }
    const double elements = double(op.result()->type.num_elements());
    work(facts.cost, facts.computed, elements, times, facts.cost.slots);
  }

  /// What is the same in all programs, and takes algebra of layouts.
  struct OpFacts {
    bool crosses_blocks = false, has_scratch = false;
    int64_t held = -1;    ///< elements of the result that a thread holds; -1: not yet looked at
    double computed = 0;  ///< of these, those that it computes
    OpCost cost = {};     ///< of one
  };

  const OpFacts& facts_of(const ir::Op& op) {
    OpFacts& facts = facts_[&op];
    if (facts.held >= 0) return facts;
    facts.crosses_blocks = crosses_blocks(op, blocks_);
    facts.has_scratch = scratch_bytes(op) > 0;
    facts.held = held_elements(op.result()->type);
    facts.computed = std::min(double(facts.held), double(registers_.distinct_registers(op.result())));
    facts.cost = op_cost(op, few_divisors(op));
    if (is_remainder_of_quotient(op)) facts.cost.slots = 2;
    return facts;
  }

  // Of a quotient that is computed anyway: what is left is a product and a difference.
  bool is_remainder_of_quotient(const ir::Op& op) const {
    return op.opcode == Opcode::Rem && quotients_.contains({op.operand(0), op.operand(1)});
  }

  bool few_divisors(const ir::Op& op) {
    constexpr double kFew = 4;
    if (op.opcode != Opcode::Div && op.opcode != Opcode::Rem) return false;
    return kFew * double(registers_.distinct_registers(op.operand(1))) <= double(held_elements(op.result()->type));
  }

  void count_branches(const ir::Op& op, double times, Step* step) {
    const std::optional<int> taken = values_.branch(op);
    if (!taken && follows_from_ticket(op.operand(0))) {
      const double share = 1 / double(std::max<int64_t>(1, inputs_.programs));
      const Work before = std::exchange(sums_, Work());
      arrays_weight_ *= share;
      count(*op.regions[0], 1, step);
      arrays_weight_ /= share;
      const Work finish = std::exchange(sums_, before);
      sums_.add(finish, times * share);
      out_.last.add(finish, times);
      if (op.regions.size() > 1) count(*op.regions[1], times, step);
      return;
    }
    for (int i = 0; i < int(op.regions.size()); ++i) {
      const double share = !taken ? values_.share_taken(op, i) : *taken == i ? 1 : 0;
      if (share > 0) count(*op.regions[size_t(i)], times * share, step);
    }
  }

  void count_loop(const ir::Op& loop, double times) {
    values_.for_each_iteration(loop, [&](const ir::Block& body, double each) { count_iterations(body, times * each); });
  }

  void count_iterations(const ir::Block& body, double times) {
    Step step;
    count(body, times, &step);
    if (step.tensor == 0) return;
    sums_.product_steps += times;
    sums_.step_tensor += times * step.tensor, sums_.step_shared += times * step.shared;
    sums_.step_copied += times * step.copied, sums_.step_ahead += times * step.ahead;
    if (step.ahead > 0) sums_.rounds += 1 + times / step.ahead;
  }

  // Where each element has a result, it is combined twice: in its run, and with what comes before that.
  void combine(const ir::Op& op, double times) {
    constexpr double kRun = 4;
    const ir::Type& in = op.operand(0)->type;
    const bool scan = op.info().combines_in_order();
    double each = 0;
    for (const auto& inner : op.regions[0]->ops) each += op_cost(*inner).slots;
    const double n = double(held_elements(in)), rounds = scan ? 2 : 1;
    const double exchanged = scan ? n / kRun : double(held_elements(op.result()->type));
    work(op_cost(*op.regions[0]->ops.front()), n * rounds, double(in.num_elements()) * rounds, times, each);
    sums_.shuffles += 5 * times;
    sums_.slots += 10 * exchanged * warps_ * times;
    const OpFacts facts = facts_of(op);
    if (facts.has_scratch) sums_.exchange += times;
    if (facts.crosses_blocks) sums_.cluster_exchange += times;
  }

  void work(const OpCost& cost, double per_thread, double elements, double times, double slots) {
    sums_.flops += cost.flops * elements * times;
    sums_.special += cost.special * elements * times;
    sums_.special_slots += cost.special * per_thread * warps_ * times;
    sums_.slots += slots * per_thread * warps_ * times;
    sums_.steps += (slots / 2 + cost.special) * per_thread * times;
  }

  const ir::Func& func_;
  const Target& target_;
  const CostInputs& inputs_;
  const AxisAnalysis& axis_;
  const std::unordered_map<const ir::Value*, int64_t> divisors_;
  const AxisQuery addresses_;  ///< of this launch
  LaunchValues& values_;
  RegisterPressure& registers_;
  const int warps_, groups_;                                           // of a group; that run a program
  const int blocks_;                                                   // of a program
  int group_ = 0;                                                      // at hand
  Work sums_;                                                          // of the group at hand
  double arrays_weight_ = 1;                                           // of what is counted now
  std::unordered_map<const ir::Op*, const ir::Op*> copied_beside_;     // by their allocs: copies in copy_warps
  std::set<std::pair<const ir::Value*, const ir::Value*>> quotients_;  // of integers: dividend, divisor
  ir::PointerMap<OpFacts> facts_;                                      // by op
  std::unordered_set<const ir::Op*> answered_;                         // atomic operations whose results are used
  WorkOfPrograms out_;
};

}  // namespace

WorkOfPrograms count_work(const ir::Func& func, const Target& target, const CostInputs& inputs,
                          const AxisAnalysis& axis, LaunchValues& values, RegisterPressure& registers) {
  return WorkCounter(func, target, inputs, axis, values, registers).run();
}

}  // namespace tegula
