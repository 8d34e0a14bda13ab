#include "codegen/analysis/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/axis_runs.h"
#include "codegen/analysis/cluster_blocks.h"
#include "codegen/analysis/conversion.h"
#include "codegen/analysis/equal_elements.h"
#include "codegen/analysis/launch_values.h"
#include "codegen/analysis/op_cost.h"
#include "codegen/analysis/pointer_base.h"
#include "codegen/analysis/product_time.h"
#include "codegen/analysis/register_pressure.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/ir/flow.h"
#include "codegen/product/plan.h"

namespace tegula {

namespace {

using ir::Opcode;

// Times in seconds and clocks, of Ampere to Hopper by public microbenchmarks, rounded. What matters is their order of
// magnitude: candidates are compared with one another.
constexpr double kMemoryLatency = 650e-9;  // a load from memory that is busy
constexpr double kTicketRounds = 0.5;      // of it an atomic operation takes whose result is used: the L2 cache answers
constexpr double kProgramOverhead = 400e-9;  // a block's start and end
constexpr double kLaunchOverhead = 2e-6;
constexpr double kClocksPerStep = 2;  // an instruction of a thread behind one that it does not depend on
constexpr double kShuffleClocks = 26;
constexpr double kExchangeClocks = 110;    // through shared memory, barrier included
constexpr double kBarrierWarpClocks = 6;   // more for each warp that has to arrive
constexpr double kClusterClocks = 1200;    // more of an exchange between the blocks of a cluster
constexpr double kIssuePerClock = 4;       // warp instructions, an SM
constexpr double kSpecialPerClock = 0.5;   // warp instructions of the special function units, an SM
constexpr double kMemoryEfficiency = 0.9;  // what a copy reaches of the maker's rate
constexpr double kL2Factor = 2.5;          // rate of the L2 cache by that of memory
constexpr double kOperandReuse = 5;  // how often it gives what is read of operands of products, if that is not known
constexpr double kProductMemory = 0.82;     // what products reach of the maker's rate of memory
constexpr double kHandedOver = 0.3;         // of what programs write for each other that leaves the L2 cache
constexpr double kSecondLine = 4.8;         // of a second line's bytes that a box touches, in bytes
constexpr double kProductLaunch = 1.03e-6;  // of a launch, which overlaps the one before it
constexpr double kSharedSums = 16400;       // clocks of an exchange of sums between the blocks of a cluster
constexpr double kWavefrontBytes = 128;     // of a warp's access, which takes a clock each of an SM
constexpr int kMaxPrograms = 32;            // an SM

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }

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
        divided_(is_divided(func)) {
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

  CostEstimate run() {
    out_.threads = groups_ * warps_ * 32;
    out_.shared_bytes = plan_shared(func_).bytes;
    count_programs();
    out_.bytes_read = int64_t(sums_.read);
    out_.bytes_written = int64_t(sums_.written);
    out_.bytes_shared = int64_t(sums_.shared);
    out_.flops = int64_t(sums_.flops);
    out_.special = int64_t(sums_.special);
    out_.dot_flops = int64_t(sums_.dot_flops);
    peak_ = registers_.peak();
    out_.registers = peak_.words;
    predict();
    return std::move(out_);
  }

 private:
  // ---- Work

  /// What programs take.
  struct Sums {
    double read = 0, written = 0, shared = 0, read_traffic = 0, write_traffic = 0;  ///< bytes
    double flops = 0, special = 0, dot_flops = 0, tensor_flops = 0;
    double slots = 0, special_slots = 0, wavefronts = 0;  ///< of an SM's issue; clocks of its accesses
    double steps = 0, rounds = 0;                         ///< of one thread; of loads that wait for each other
    double shuffles = 0, exchange = 0, cluster_exchange = 0;
    double product_steps = 0;                                  ///< iterations of loops around products; of these:
    double step_tensor = 0, step_shared = 0, step_copied = 0;  ///< clocks of tensor cores; bytes
    double step_ahead = 0;                                     ///< iterations that copies run ahead, summed up
    double split = 0;                                          ///< bytes of second lines that boxes touch
    double fills = 0;                                          ///< rounds of loads before and behind all loops

    void scale(double by) {
      for (double Sums::*sum : kAll) this->*sum *= by;
    }
    void add(const Sums& other, double by) {
      for (double Sums::*sum : kAll) this->*sum += other.*sum * by;
    }

   private:
    static constexpr double Sums::*kAll[] = {
        &Sums::read,          &Sums::written,          &Sums::shared,        &Sums::read_traffic, &Sums::write_traffic,
        &Sums::flops,         &Sums::special,          &Sums::dot_flops,     &Sums::tensor_flops, &Sums::slots,
        &Sums::special_slots, &Sums::wavefronts,       &Sums::steps,         &Sums::rounds,       &Sums::shuffles,
        &Sums::exchange,      &Sums::cluster_exchange, &Sums::product_steps, &Sums::step_tensor,  &Sums::step_shared,
        &Sums::step_copied,   &Sums::step_ahead,       &Sums::split,         &Sums::fills};
  };

  // A thread's way through the work, with nobody else on the SM.
  double seconds_alone(const Sums& of, double spilled, double clock) const {
    return of.rounds * kMemoryLatency + (of.steps * kClocksPerStep + of.shuffles * kShuffleClocks +
                                         of.exchange * (kExchangeClocks + kBarrierWarpClocks * warps_) +
                                         of.cluster_exchange * kClusterClocks + 2 * spilled / out_.threads * 8) /
                                            clock;
  }

  // Programs from all over the grid stand for the others: which branches are taken and how often loops run may follow
  // from a program's number.
  void count_programs() {
    constexpr int64_t kSamples = 8;
    const std::array<int64_t, 3> grid = inputs_.grid.value_or(std::array<int64_t, 3>{1, 1, 1});
    const int64_t programs = std::max<int64_t>(1, grid[0] * grid[1] * grid[2]);
    const int64_t samples = std::min(kSamples, programs);
    for (int64_t i = 0; i < samples; ++i) {
      const int64_t n = (2 * i + 1) * programs / (2 * samples);
      values_.set_program({n % grid[0], n / grid[0] % grid[1], n / grid[0] / grid[1]});
      Sums program, first;
      for (group_ = 0; group_ < groups_; ++group_) {
        values_.set_group(group_);
        const Sums before = std::exchange(sums_, Sums());
        count(func_.body, 1);
        if (group_ == 0) first = sums_;
        program.add(sums_, 1);
        sums_ = before;
      }
      sums_.add(program, 1);
      one_.add(first, 1);
      if (i == 0 || program.product_steps > longest_.product_steps) longest_ = program, longest_one_ = first;
    }
    for (Sums* sums : {&sums_, &one_, &last_}) sums->scale(1 / double(samples));
    for (auto& [base, array] : arrays_) array.read /= double(samples), array.written /= double(samples);
  }

  void note_array(const ir::Value* pointer, bool reads, double bytes) {
    Array& array = arrays_[pointer_base(pointer)];
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
        if (const AxisInfo::Run rows = longest_run(info, size_t(a), bytes); rows.stride == run * bytes)
          run *= std::min(rows.length, type.shape[a]);
      if (!repeated && run * bytes < 32) sector_waste = 32.0 / double(run * bytes);
    }
    bool reads = op.opcode != Opcode::Store;
    double total = elements * double(bytes) * times;
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

  /// What one iteration of a loop takes of an SM beside its instructions.
  struct Step {
    double tensor = 0, shared = 0, copied = 0;  ///< clocks; bytes
    double ahead = 0;                           ///< iterations that copies run ahead
  };

  /// Of the slots one is multiplied and another one may still be, by products under way.
  static double copies_ahead(const ir::Op& copy) {
    return std::max<double>(1, double(alloc_of(copy.operand(1))->get(ir::attr::slots)) - 2);
  }

  /// How much more than they fill rows of a box touch, where the array's rows begin at other places of a line.
  struct Touched {
    double sectors = 1, lines = 1;
  };
  Touched touched_by(const ir::Op& copy) const {
    constexpr int64_t kSector = 32, kLine = 128;
    const ir::Op* map = copy.operand(0)->def;
    if (!map || map->opcode != Opcode::TensorMap) return {};
    const ir::Type& box = map->result()->type;
    const size_t rank = box.shape.size();
    if (rank < 2) return {};
    const auto stride = values_.integer(map->operand(int(2 * rank - 1)));
    if (!stride) return {};
    const int64_t row = box.shape.back() * element_bytes(box);
    const int64_t step = std::gcd(*stride * element_bytes(box), kLine);
    Touched sums{0, 0};
    for (int64_t begin = 0; begin < kLine; begin += step) {
      sums.sectors += double((begin % kSector + row + kSector - 1) / kSector);
      sums.lines += double((begin + row + kLine - 1) / kLine);
    }
    const double rows = double(kLine / step);
    return {sums.sectors / rows / std::ceil(double(row) / kSector), sums.lines / rows / std::ceil(double(row) / kLine)};
  }

  void bulk_copy(const ir::Op& op, double times, Step* step) {
    const ir::Type& place = op.operand(1)->type;
    const double bytes = double(place.num_elements() * element_bytes(place));
    const double own = op.get(ir::attr::multicast) < 0 ? bytes : bytes / blocks_;
    const Touched touched = touched_by(op);
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

  double tensor_clocks(double flops) const {
    const Rates& rates = target_.rates;
    return flops * rates.num_sms * rates.clock_mhz * 1e6 / (rates.tensor_tflop_s * 1e12);
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
        case Opcode::MmaStart: {
          const ProductCost cost = family_of(op).cost(op, target_);
          sums_.dot_flops += cost.flops * times;
          if (step)
            step->tensor += tensor_clocks(cost.tensor_flops), step->shared += cost.shared_bytes,
                copies_beside(op, *step);
          else
            sums_.tensor_flops += cost.tensor_flops * times;
          sums_.steps += (cost.steps / warps_ + cost.fmas / 2) * times;
          sums_.slots += cost.fmas * warps_ * times;
          continue;
        }
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
      if (op.has(ir::Terminator) || op.results.empty()) continue;
      const ir::Type& type = op.result()->type;
      if (crosses_blocks(op, blocks_)) sums_.cluster_exchange += times;
      if (op.opcode == Opcode::ExchangeBlocks) sums_.cluster_exchange += 2 * times;
      if (scratch_bytes(op)) {
        sums_.exchange += times;
        sums_.slots += 2.0 * double(held_elements(type)) * warps_ * times;
      }
      double n = std::min(double(held_elements(type)), double(registers_.variety(op.result())));
      OpCost cost = op_cost(op, few_divisors(op));
      if (is_remainder_of_quotient(op)) cost.slots = 2;
      work(cost, n, double(type.num_elements()), times, cost.slots);
    }
    if (loads) sums_.rounds += times == 1 ? 1 : times / 2;
    if (loads && times == 1) ++sums_.fills;
  }

  // Of a quotient that is computed anyway: what is left is a product and a difference.
  bool is_remainder_of_quotient(const ir::Op& op) const {
    return op.opcode == Opcode::Rem && quotients_.contains({op.operand(0), op.operand(1)});
  }

  bool few_divisors(const ir::Op& op) {
    constexpr double kFew = 4;
    if (op.opcode != Opcode::Div && op.opcode != Opcode::Rem) return false;
    return kFew * double(registers_.variety(op.operand(1))) <= double(held_elements(op.result()->type));
  }

  // Whether the last program to come, as an atomic operation tells it, takes the branch alone: it finishes what all
  // have begun.
  static bool follows_from_ticket(const ir::Value* condition) {
    const ir::Op* op = condition->def;
    while (op && op->opcode != Opcode::AtomicRmw) {
      if (op->operands.empty() || !op->regions.empty() || !op->operand(0)->type.is_scalar()) return false;
      op = op->operand(0)->def;
    }
    return op != nullptr;
  }

  void count_branches(const ir::Op& op, double times, Step* step) {
    const std::optional<int> taken = values_.branch(op);
    if (!taken && follows_from_ticket(op.operand(0))) {
      const double share = 1 / double(std::max<int64_t>(1, inputs_.programs));
      const Sums before = std::exchange(sums_, Sums());
      arrays_weight_ *= share;
      count(*op.regions[0], 1, step);
      arrays_weight_ /= share;
      const Sums finish = std::exchange(sums_, before);
      sums_.add(finish, times * share);
      last_.add(finish, times);
      if (op.regions.size() > 1) count(*op.regions[1], times, step);
      return;
    }
    for (int i = 0; i < int(op.regions.size()); ++i) {
      const double share = !taken ? values_.share_taken(op, i) : *taken == i ? 1 : 0;
      if (share > 0) count(*op.regions[size_t(i)], times * share, step);
    }
  }

  void count_loop(const ir::Op& loop, double times) {
    const std::vector<int64_t> numbers = values_.deciding_numbers(loop);
    for (const int64_t number : numbers) {
      values_.set_number(loop, number);
      count_iterations(*loop.regions[0], times);
    }
    if (!numbers.empty()) return values_.set_number(loop, std::nullopt);
    for (const auto& region : loop.regions) count_iterations(*region, times * values_.trips(loop));
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
    const bool scan = op.info().rule == ir::ResultRule::EachSame;
    double each = 0;
    for (const auto& inner : op.regions[0]->ops) each += op_cost(*inner).slots;
    const double n = double(held_elements(in)), rounds = scan ? 2 : 1;
    const double exchanged = scan ? n / kRun : double(held_elements(op.result()->type));
    work(op_cost(*op.regions[0]->ops.front()), n * rounds, double(in.num_elements()) * rounds, times, each);
    sums_.shuffles += 5 * times;
    sums_.slots += 10 * exchanged * warps_ * times;
    if (scratch_bytes(op)) sums_.exchange += times;
    if (crosses_blocks(op, blocks_)) sums_.cluster_exchange += times;
  }

  void work(const OpCost& cost, double per_thread, double elements, double times, double slots) {
    sums_.flops += cost.flops * elements * times;
    sums_.special += cost.special * elements * times;
    sums_.special_slots += cost.special * per_thread * warps_ * times;
    sums_.slots += slots * per_thread * warps_ * times;
    sums_.steps += (slots / 2 + cost.special) * per_thread * times;
  }

  // ---- The launch

  void predict() {
    const Rates& rates = target_.rates;
    const DeviceInfo* device = inputs_.device && !inputs_.device->emulator ? inputs_.device : nullptr;
    // Multiprocessors that clusters of so many blocks find place on.
    const int all_sms = std::max(1, device ? device->num_sms : rates.num_sms);
    double sms = double(clusters_at_once(all_sms, blocks_) * blocks_);
    double clock = rates.clock_mhz * 1e6;

    out_.register_limit = register_limit(func_, target_);
    int64_t used = (std::min(out_.registers, out_.register_limit) + 7) / 8 * 8;
    int64_t fits = std::min<int64_t>(kMaxPrograms, target_.warps_per_sm / (groups_ * warps_));
    fits = std::min(fits, target_.registers_per_sm / (used * out_.threads));
    if (out_.shared_bytes) fits = std::min(fits, target_.shared_per_sm / (out_.shared_bytes + 1024));
    int64_t shared_limit =
        device && device->shared_per_program ? device->shared_per_program : target_.shared_per_program;
    if (out_.shared_bytes > shared_limit || fits < 1) {
      out_.predicted_us = std::numeric_limits<double>::infinity();
      out_.bound = "does not fit";
      out_.text = out_.shared_bytes > shared_limit
                      ? fmt::format("does not fit: a program needs {} bytes of shared memory, {} are there",
                                    out_.shared_bytes, shared_limit)
                      : fmt::format("does not fit: {} warps with {} registers a thread", warps_, used);
      return;
    }
    if (inputs_.programs_per_sm) fits = std::max(1, *inputs_.programs_per_sm);
    out_.programs_per_sm = int(fits);
    // From here on blocks count, which share the bytes of their program.
    double programs = double(std::max<int64_t>(inputs_.programs, 1)) * blocks_;
    if (!divided_)
      for (double* bytes : {&sums_.read, &sums_.read_traffic, &sums_.write_traffic}) *bytes /= blocks_;
    double at_once = sms * double(fits);
    out_.waves = programs / at_once;
    double resident = std::min(double(fits), std::ceil(programs / sms));
    const double spilled_of_thread =
        double(inputs_.spill_bytes.value_or(4 * std::max(0, out_.registers - out_.register_limit)));
    const double spilled = spilled_of_thread * out_.threads * peak_.times;  // bytes a program

    Launch launch{.programs = programs,
                  .sms = sms,
                  .all_sms = double(all_sms),
                  .resident = resident,
                  .clock = clock,
                  .spilled = spilled,
                  .slots = sums_.slots + 4.0 * spilled / 128 * 2};
    launch.rate = memory_rate(device ? device->name : "").value_or(rates.memory_gb_s) * 1e9;
    launch.traffic = memory_traffic(launch);
    const double clocks =
        std::max({launch.slots / kIssuePerClock, sums_.special_slots / kSpecialPerClock, sums_.wavefronts});
    const double tensor = rates.tensor_tflop_s * 1e12 * sms / rates.num_sms;
    launch.issue = programs * clocks / (clock * sms) + programs * sums_.tensor_flops / tensor;
    out_.instructions = programs * launch.slots;
    out_.special_instructions = programs * sums_.special_slots;
    const double behind = seconds_alone(last_, 0, clock);
    out_.behind_us = behind * 1e6;
    const ProductTime time = longest_.product_steps > 0 ? time_of_products(launch) : time_of_programs(launch);
    out_.memory_us = time.memory * 1e6, out_.compute_us = time.compute * 1e6, out_.latency_us = time.waits * 1e6;
    out_.predicted_us = (time.all + behind) * 1e6;
    out_.bound = time.waits > std::max(time.memory, time.compute) ? "latency"
                 : time.compute > time.memory                     ? "compute"
                                                                  : "memory";
    describe(launch, time);
  }

  /// What predict() finds out about the launch. Blocks count as programs, which share the bytes of theirs.
  struct Launch {
    double programs, sms, all_sms, resident, clock;
    double spilled, slots;         ///< bytes and warp instructions of one
    double rate = 0, traffic = 0;  ///< the maker's rate of memory; bytes from and to it
    double issue = 0;              ///< seconds of instructions
  };

  // Of an array no more comes from memory than it has, where that is known: the L2 cache gives what is read again.
  double memory_traffic(const Launch& l) const {
    const double spilled = l.programs * 2 * l.spilled / kL2Factor;
    if (inputs_.moved) return inputs_.moved->memory + spilled;
    const bool product = sums_.dot_flops > 0;
    const double of_block = divided_ ? 1 : 1.0 / blocks_;
    double traffic = 0, known_read = 0;
    for (const auto& [base, array] : arrays_) {
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
    if (!product && known_read == 0) traffic -= l.programs * sums_.shared / blocks_ - sums_.shared;
    return traffic + spilled;
  }

  ProductTime time_of_products(const Launch& l) const {
    const Sums &w = longest_, &one = longest_one_;
    const double other = kClocksPerStep * one.steps + kShuffleClocks * one.shuffles +
                         one.exchange * (kExchangeClocks + kBarrierWarpClocks * warps_) +
                         one.cluster_exchange * kSharedSums + 2 * l.spilled / out_.threads * 8;
    const double l2 =
        l.programs * (sums_.read_traffic + sums_.write_traffic + kSecondLine * sums_.split + 2 * l.spilled);
    ProductTime time = product_time({.longest = {.steps = w.product_steps,
                                                 .tensor_clocks = w.step_tensor,
                                                 .shared_bytes = w.step_shared,
                                                 .copied_bytes = w.step_copied,
                                                 .ahead = w.step_ahead,
                                                 .fills = one.fills,
                                                 // one group's ends lie under the other's products
                                                 .other_clocks = groups_ > 1 ? 0 : other},
                                     .share = sums_.product_steps / w.product_steps,
                                     .blocks = l.programs,
                                     .blocks_of_program = blocks_,
                                     .sms = l.sms,
                                     .all_sms = l.all_sms,
                                     .resident = l.resident,
                                     .clock = l.clock,
                                     .memory_seconds = l.traffic / (l.rate * kProductMemory),
                                     .l2_bytes = inputs_.moved ? inputs_.moved->l2 : l2,
                                     .issue_seconds = groups_ > 1 ? 0 : l.issue});
    // What one group of warps computes behind a tile's products is under those of the other one.
    if (groups_ > 1) time.compute = std::max(time.compute, l.issue), time.all = std::max(time.all, l.issue);
    time.all += kProductLaunch;
    return time;
  }

  ProductTime time_of_programs(const Launch& l) {
    const double memory = l.rate * kMemoryEfficiency;
    const double l2 =
        inputs_.moved ? inputs_.moved->l2 : l.programs * (sums_.read_traffic + sums_.write_traffic + 2 * l.spilled);
    const double t_memory = std::max(l.traffic, l2 / kL2Factor) / memory;
    // A program alone, and how many of them a second the SMs get through side by side.
    const double alone = kProgramOverhead + seconds_alone(one_, l.spilled, l.clock);
    const double t_latency = alone * std::max(std::ceil(l.programs / l.sms) / l.resident, 1.0);
    out_.bytes_in_flight = l.resident * sums_.read / std::max(1.0, sums_.rounds);
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
    const double alone = kProgramOverhead + seconds_alone(one_, l.spilled, l.clock);
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
  int group_ = 0;       // at hand
  int blocks_;          // of a program
  bool divided_;        // what is counted is of one block
  RegisterPressure::Peak peak_;
  Sums sums_;                   // of one program; of the programs that are looked at while they are counted
  Sums one_;                    // what its first group of warps does
  Sums longest_, longest_one_;  // both of the program with the most steps
  Sums last_;                   // what the last program to come does behind all others
  /// Bytes of one program, by the parameter that the pointers come from; null: several.
  struct Array {
    double read = 0, written = 0;
  };
  std::map<const ir::Value*, Array> arrays_;
  double arrays_weight_ = 1;                                           ///< of what is counted now
  std::unordered_map<const ir::Op*, const ir::Op*> copied_beside_;     ///< by their allocs: copies in copy_warps
  std::set<std::pair<const ir::Value*, const ir::Value*>> quotients_;  ///< of integers: dividend, divisor
  std::unordered_set<const ir::Op*> answered_;                         ///< atomic operations whose results are used
  CostEstimate out_;
};

}  // namespace

CostEstimate estimate_cost(const ir::Func& func, const Target& target, const CostInputs& inputs) {
  return Estimator(func, target, inputs).run();
}

}  // namespace tegula
