#include "codegen/analysis/cost.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include "codegen/analysis/axis_info.h"
#include "codegen/analysis/shared_plan.h"

namespace tegula {

namespace {

using ir::Opcode;

// Times in seconds and clocks, of Ampere to Hopper by public microbenchmarks, rounded. What matters is their order of
// magnitude: candidates are compared with one another.
constexpr double kMemoryLatency = 650e-9;    // a load from memory that is busy
constexpr double kProgramOverhead = 400e-9;  // a block's start and end
constexpr double kLaunchOverhead = 2e-6;
constexpr double kClocksPerStep = 2;  // an instruction of a thread behind one that it does not depend on
constexpr double kShuffleClocks = 26;
constexpr double kExchangeClocks = 110;    // through shared memory, barrier included
constexpr double kBarrierWarpClocks = 6;   // more for each warp that has to arrive
constexpr double kIssuePerClock = 4;       // warp instructions, an SM
constexpr double kSpecialPerClock = 0.5;   // warp instructions of the special function units, an SM
constexpr double kMemoryEfficiency = 0.9;  // what a copy reaches of the maker's rate
constexpr double kL2Factor = 2.5;          // rate of the L2 cache by that of memory
constexpr int kMaxPrograms = 32;           // an SM
constexpr int kMaxRegisters = 255;
constexpr int kBaseRegisters = 14;  // addresses, indices and what the assembler needs for itself

int64_t element_bytes(const ir::Type& type) { return std::max(1, type.bits() / 8); }
int words(const ir::Type& type, int64_t count) { return int((count * type.bits() + 31) / 32); }

// Elements that a thread holds, repetitions left out.
int64_t held(const ir::Type& type) {
  if (type.is_scalar() || type.shared) return 1;
  if (!type.layout) return type.num_elements();
  int64_t n = type.layout->in_size(Dim::Register);
  for (int32_t mask = type.layout->free_mask(Dim::Register); mask; mask &= mask - 1) n /= 2;
  return std::max<int64_t>(n, 1);
}

/// What one element of an op takes.
struct OpCost {
  double slots = 1;  ///< instructions to issue
  int flops = 0;
  int special = 0;  ///< instructions of the unit for exponentials, reciprocals and the like
};

OpCost op_cost(const ir::Op& op) {
  const ir::Type& type = op.results.empty() ? op.operand(0)->type : op.result()->type;
  const ir::Type& in = op.operands.empty() || !op.operand(0) ? type : op.operand(0)->type;
  bool real = in.is_float();
  double wide = in.bits() == 64 ? 2 : 1;
  switch (op.opcode) {
    case Opcode::Add:
    case Opcode::Sub:
    case Opcode::Mul:
    case Opcode::Minimum:
    case Opcode::Maximum:
      return {(real ? 1 : 1.5) * wide, real};
    case Opcode::Fma:
      return {wide, 2};
    case Opcode::Neg:
    case Opcode::Abs:
      return {0.5 * wide, real};
    case Opcode::Div:
    case Opcode::DivRn:
      return real ? OpCost{6 * wide, 1, 1} : OpCost{24 * wide, 0};
    case Opcode::Rem:
      return {(real ? 40 : 24) * wide, real, real};
    case Opcode::Exp:
    case Opcode::Exp2:
    case Opcode::FastTanh:
    case Opcode::Rsqrt:
    case Opcode::Sqrt:
    case Opcode::SqrtRn:
      return {2 * wide * wide, 1, 1};
    case Opcode::Log:
    case Opcode::Log2:
    case Opcode::Tanh:
    case Opcode::Erf:
    case Opcode::Sin:
    case Opcode::Cos:
      return {24 * wide * wide, 1, 1};
    case Opcode::Pow:
      return {70 * wide * wide, 1, 2};
    case Opcode::Floor:
    case Opcode::Ceil:
      return {2, 1};
    case Opcode::Cast:
      return {1, 0};
    case Opcode::Constant:
    case Opcode::Bitcast:
    case Opcode::Hint:
    case Opcode::Splat:
    case Opcode::Broadcast:
    case Opcode::ExpandDims:
    case Opcode::Reshape:
    case Opcode::Trans:
    case Opcode::Arange:
    case Opcode::ProgramId:
    case Opcode::NumPrograms:
      return {0, 0};
    default:
      return {wide, 0};
  }
}

class Estimator {
 public:
  Estimator(const ir::Func& func, const Target& target, const CostInputs& inputs)
      : func_(func), target_(target), inputs_(inputs), axis_(func), warps_(func.num_warps()) {}

  CostEstimate run() {
    out_.threads = warps_ * 32;
    out_.shared_bytes = plan_shared(func_).bytes;
    find_dependent(func_.body);
    count(func_.body, 1);
    out_.bytes_read = int64_t(read_);
    out_.bytes_written = int64_t(written_);
    out_.bytes_shared = int64_t(shared_);
    out_.flops = int64_t(flops_);
    out_.special = int64_t(special_);
    out_.dot_flops = int64_t(dot_flops_);
    find_streamed(func_.body);
    ir::walk(func_.body, [&](const ir::Op& op) {
      if (op.opcode == Opcode::Dot) fragments_.insert({op.operand(0), op.operand(1)});
    });
    Live live;
    walk_live(func_.body, live, 1);
    out_.registers = kBaseRegisters + peak_;
    predict();
    return std::move(out_);
  }

 private:
  // ---- Integers that are known for this launch

  std::optional<int64_t> integer(const ir::Value* v, int depth = 0) const {
    if (auto constant = axis_.info(v).constant) return constant;
    if (!v->type.is_scalar() || !v->type.is_integer() || depth > 32) return std::nullopt;
    if (!v->def) {
      if (v->block != &func_.body) return std::nullopt;
      auto it = inputs_.arguments.find(v->name);
      return it == inputs_.arguments.end() ? inputs_.extent : it->second;
    }
    const ir::Op& op = *v->def;
    if (op.opcode == Opcode::ProgramId) return 0;
    if (op.opcode == Opcode::NumPrograms) return op.attr_int("axis") == 0 ? inputs_.programs : 1;
    if (op.operands.empty() || !op.regions.empty() || op.has(ir::Reads)) return std::nullopt;
    std::optional<int64_t> a = integer(op.operand(0), depth + 1);
    if (op.opcode == Opcode::Cast || op.opcode == Opcode::Hint) return a;
    if (op.opcode == Opcode::Select) {
      return a ? integer(op.operand(*a ? 1 : 2), depth + 1) : std::nullopt;
    }
    std::optional<int64_t> b = op.operand(1) ? integer(op.operand(1), depth + 1) : std::nullopt;
    if (!a || !b) return std::nullopt;
    switch (op.opcode) {
      case Opcode::Add:
        return int64_t(uint64_t(*a) + uint64_t(*b));
      case Opcode::Sub:
        return int64_t(uint64_t(*a) - uint64_t(*b));
      case Opcode::Mul:
        return int64_t(uint64_t(*a) * uint64_t(*b));
      case Opcode::Div:
        return *b > 0 ? std::optional(*a / *b) : std::nullopt;
      case Opcode::Rem:
        return *b > 0 ? std::optional(*a % *b) : std::nullopt;
      case Opcode::Minimum:
        return std::min(*a, *b);
      case Opcode::Maximum:
        return std::max(*a, *b);
      case Opcode::Lt:
        return *a < *b;
      case Opcode::Le:
        return *a <= *b;
      case Opcode::Gt:
        return *a > *b;
      case Opcode::Ge:
        return *a >= *b;
      case Opcode::Eq:
        return *a == *b;
      case Opcode::Ne:
        return *a != *b;
      default:
        return std::nullopt;
    }
  }

  double trips(const ir::Op& loop) const {
    if (loop.opcode == Opcode::For) {
      auto lower = integer(loop.operand(0)), upper = integer(loop.operand(1)), step = integer(loop.operand(2));
      if (lower && upper && step && *step)
        return std::max(0.0, std::ceil((double(*upper) - double(*lower)) / double(*step)));
    }
    return double(inputs_.trips);
  }

  // ---- Values that differ from program to program

  void find_dependent(const ir::Block& block) {
    for (int round = 0; round < 2; ++round) {  // twice: what a loop carries
      ir::walk(block, [&](const ir::Op& op) {
        bool depends = op.opcode == Opcode::ProgramId || op.opcode == Opcode::AtomicRmw;
        for (const ir::Value* x : op.operands) depends = depends || (x && dependent_.contains(x));
        for (const auto& region : op.regions) {
          size_t skip = op.opcode == Opcode::For ? 3 : 0;
          size_t first = op.opcode == Opcode::For ? 1 : 0;
          if (op.opcode == Opcode::For && depends && dependent_.contains(op.operand(0)))
            dependent_.insert(region->args[0].get());
          for (size_t i = first; i < region->args.size(); ++i)
            if (size_t at = skip + i - first; at < op.operands.size() && dependent_.contains(op.operands[at]))
              dependent_.insert(region->args[i].get());
          if (const ir::Op* end = region->terminator(); end && op.opcode != Opcode::Reduce)
            for (size_t i = 0; i < end->operands.size(); ++i) {
              if (!dependent_.contains(end->operands[i])) continue;
              depends = true;
              if (first + i < region->args.size()) dependent_.insert(region->args[first + i].get());
            }
        }
        if (depends)
          for (const auto& r : op.results) dependent_.insert(r.get());
      });
    }
  }

  // ---- Work

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
        if (same > 1) elements /= double(same), repeated = true;
        run = std::max(run, std::min(info.contiguity[a], type.shape[a]));
        if (type.layout)
          width =
              std::max(width, std::min<int>(axis_.vector_width(ptr, nullptr, a), type.layout->contiguous_registers(a)));
      }
      if (!repeated && run * bytes < 32) sector_waste = 32.0 / double(run * bytes);
    }
    bool reads = op.opcode != Opcode::Store;
    double total = elements * double(bytes) * times;
    (reads ? read_ : written_) += total;
    (reads ? read_traffic_ : write_traffic_) += total * std::min(sector_waste, 8.0);
    if (reads && !dependent_.contains(ptr)) shared_ += total;
    double instructions = double(held(value)) / width * times;
    steps_ += instructions;
    slots_ += instructions * warps_ * std::max(1.0, 4.0 * width * double(bytes) * 32 / 128);  // 128 bytes a clock
  }

  void count(const ir::Block& block, double times) {
    bool loads = false;
    for (const auto& pointer : block.ops) {
      const ir::Op& op = *pointer;
      switch (op.opcode) {
        case Opcode::For:
        case Opcode::While:
          for (const auto& region : op.regions) count(*region, times * trips(op));
          continue;
        case Opcode::If:
          for (const auto& region : op.regions) count(*region, times);
          continue;
        case Opcode::Load:
          access(op, op.result()->type, times);
          loads = true;
          continue;
        case Opcode::AsyncCopy:
          access(op, op.operand(0)->type, times);
          loads = true;
          continue;
        case Opcode::Store:
          access(op, op.operand(1)->type, times);
          continue;
        case Opcode::AtomicRmw:
          access(op, op.operand(1)->type, times);
          written_ += double(op.operand(1)->type.num_elements() * element_bytes(op.operand(1)->type)) * times;
          continue;
        case Opcode::Barrier:
        case Opcode::AsyncWait:
          exchange_ += times;
          continue;
        case Opcode::Dot: {
          const ir::Type &a = op.operand(0)->type, &c = op.result()->type;
          dot_flops_ += 2.0 * double(c.num_elements()) * double(a.shape.back()) * times;
          steps_ += 2.0 * double(c.num_elements()) * double(a.shape.back()) / (4096.0 * warps_) * times;
          dot_bits_ = std::max(dot_bits_, a.bits());
          continue;
        }
        case Opcode::Reduce: {
          const ir::Type& in = op.operand(0)->type;
          double each = 0;
          for (const auto& inner : op.regions[0]->ops) each += op_cost(*inner).slots;
          double n = double(held(in));
          double kept = double(held(op.result()->type));
          work(op_cost(*op.regions[0]->ops.front()), n, double(in.num_elements()), times, each);
          shuffles_ += 5 * times;
          slots_ += 10 * kept * warps_ * times;
          if (scratch_bytes(op, warps_)) exchange_ += times;
          continue;
        }
        default:
          break;
      }
      if (op.has(ir::Terminator) || op.results.empty()) continue;
      const ir::Type& type = op.result()->type;
      if (scratch_bytes(op, warps_)) {
        exchange_ += times;
        slots_ += 2.0 * double(held(type)) * warps_ * times;
      }
      double n = std::min(double(held(type)), double(variety(op.result())));
      OpCost cost = op_cost(op);
      work(cost, n, double(type.num_elements()), times, cost.slots);
    }
    if (loads) rounds_ += times == 1 ? 1 : times / 2;
  }

  void work(const OpCost& cost, double per_thread, double elements, double times, double slots) {
    flops_ += cost.flops * elements * times;
    special_ += cost.special * elements * times;
    special_slots_ += cost.special * per_thread * warps_ * times;
    slots_ += slots * per_thread * warps_ * times;
    steps_ += (slots / 2 + cost.special) * per_thread * times;
  }

  // ---- Registers

  // How many different registers an index or pointer tile takes, when those that differ by a constant are one: the
  // constant goes into the instruction. Other values take one a register of their layout.
  int64_t variety(const ir::Value* v) {
    if (auto it = variety_.find(v); it != variety_.end()) return it->second;
    int64_t all = held(v->type);
    variety_[v] = all;  // for what a loop carries around
    int64_t n = all;
    if (!v->def) {
      const ir::Op* loop = v->block ? v->block->parent : nullptr;
      size_t at = size_t(v->index) + 2;
      bool index = v->type.pointer || (v->type.is_integer() && !v->type.is_bool());
      if (loop && index && loop->opcode == Opcode::For && v->index > 0 && at < loop->operands.size())
        n = variety(loop->operands[at]);
      return variety_[v] = n;
    }
    const ir::Op& op = *v->def;
    auto of = [&](int i) { return variety(op.operand(i)); };
    switch (op.opcode) {
      case Opcode::Constant:
      case Opcode::Arange:
      case Opcode::Splat:
        n = 1;
        break;
      case Opcode::Broadcast:
      case Opcode::ExpandDims:
      case Opcode::Reshape:
      case Opcode::Trans:
      case Opcode::ConvertLayout:
      case Opcode::Hint:
        n = std::min(all, of(0));
        break;
      case Opcode::Cast:  // a constant does not go through to a float
        if (v->type.is_integer() || op.operand(0)->type.is_float()) n = std::min(all, of(0));
        break;
      case Opcode::Add:
      case Opcode::Sub:
      case Opcode::AddPtr:
      case Opcode::BitAnd:
      case Opcode::BitOr:
      case Opcode::Lt:
      case Opcode::Le:
      case Opcode::Gt:
      case Opcode::Ge:
      case Opcode::Eq:
      case Opcode::Ne:
        n = std::min(all, of(0) * of(1));
        break;
      case Opcode::Mul: {
        bool constant = axis_.info(op.operand(0)).constant || axis_.info(op.operand(1)).constant;
        bool both = op.operand(0)->def && op.operand(1)->def && op.operand(0)->def->opcode == Opcode::Splat &&
                    op.operand(1)->def->opcode == Opcode::Splat;
        if (constant || both) n = std::min(all, of(0) * of(1));
        break;
      }
      default:
        break;
    }
    return variety_[v] = n;
  }

  // Values that go from one elementwise op to the next and end in a reduction or a store are never there as a whole.
  void find_streamed(const ir::Block& block) {
    std::unordered_map<const ir::Value*, int> uses = ir::count_uses(func_.body);
    for (auto it = block.ops.rbegin(); it != block.ops.rend(); ++it) {
      const ir::Op& op = **it;
      for (const auto& region : op.regions)
        if (op.opcode != Opcode::Reduce) find_streamed(*region);
      bool sink = op.opcode == Opcode::Reduce || op.opcode == Opcode::Store ||
                  (op.has(ir::Elementwise) && streamed_.contains(op.result()));
      if (!sink) continue;
      for (const ir::Value* x : op.operands)
        if (x && x->def && x->def->parent == &block && x->def->has(ir::Elementwise) && !x->type.pointer && uses[x] == 1)
          streamed_.insert(x);
    }
  }

  int registers(const ir::Value* v) {
    const ir::Type& type = v->type;
    if (streamed_.contains(v)) return 0;
    if (type.is_scalar() || type.shared) {
      bool param = !v->def && v->block == &func_.body;  // stays in constant memory
      return param ? 0 : words(type, 1);
    }
    if (v->def && v->def->opcode == Opcode::Constant) return 0;
    if (type.is_bool()) return int((std::min(variety(v), held(type)) + 15) / 16);
    int all = words(type, std::min(variety(v), held(type)));
    // The fragments of a product are fetched step by step.
    return fragments_.contains(v) ? (all + 1) / 2 : all;
  }

  using Live = std::unordered_set<const ir::Value*>;

  int sum(const Live& live) {
    int total = 0;
    for (const ir::Value* v : live) total += registers(v);
    return total;
  }

  void note_peak(int words, double times) {
    if (words <= peak_) return;
    peak_ = words;
    peak_times_ = times;
  }

  // `live`: behind the block, which runs `times` times; becomes what is live before it.
  void walk_live(const ir::Block& block, Live& live, double times) {
    for (auto it = block.ops.rbegin(); it != block.ops.rend(); ++it) {
      const ir::Op& op = **it;
      Live after = live;
      for (const auto& r : op.results) live.erase(r.get());
      for (const ir::Value* x : op.operands)
        if (x) live.insert(x);
      bool loop = op.opcode == Opcode::For || op.opcode == Opcode::While;
      if (op.opcode == Opcode::If || loop) {
        Live used = live;
        if (loop)  // what the body uses from outside is live all the time
          for (const auto& region : op.regions) collect_outer(*region, used);
        for (const auto& region : op.regions) {
          Live inner = used;
          walk_live(*region, inner, loop ? times * trips(op) : times);
          for (const auto& arg : region->args) inner.erase(arg.get());
          live.insert(inner.begin(), inner.end());
        }
      }
      bool together = op.opcode == Opcode::ConvertLayout || op.opcode == Opcode::Dot;
      if (together) {  // results are written while operands are still read
        Live both = live;
        both.insert(after.begin(), after.end());
        note_peak(sum(both), times);
      }
      note_peak(std::max(sum(live), sum(after)), times);
    }
  }

  static void collect_outer(const ir::Block& block, Live& used) {
    Live inside;
    for (const auto& arg : block.args) inside.insert(arg.get());
    ir::walk(block, [&](const ir::Op& op) {
      for (const auto& region : op.regions)
        for (const auto& arg : region->args) inside.insert(arg.get());
      for (const auto& r : op.results) inside.insert(r.get());
    });
    ir::walk(block, [&](const ir::Op& op) {
      for (const ir::Value* x : op.operands)
        if (x && !inside.contains(x)) used.insert(x);
    });
  }

  // ---- The launch

  void predict() {
    const Rates& rates = target_.rates;
    const DeviceInfo* device = inputs_.device && !inputs_.device->emulator ? inputs_.device : nullptr;
    double sms = std::max(1, device ? device->num_sms : rates.num_sms);
    double memory = memory_rate(device ? device->name : "").value_or(rates.memory_gb_s) * 1e9 * kMemoryEfficiency;
    double clock = rates.clock_mhz * 1e6;

    int64_t file = target_.registers_per_sm / out_.threads / 8 * 8;
    out_.register_limit = int(std::min<int64_t>(kMaxRegisters, file));
    if (int64_t maximum = attr("maxnreg"); maximum > 0)
      out_.register_limit = int(std::min<int64_t>(out_.register_limit, maximum));
    int64_t used = (std::min(out_.registers, out_.register_limit) + 7) / 8 * 8;
    int64_t fits = std::min<int64_t>(kMaxPrograms, target_.warps_per_sm / warps_);
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
    out_.programs_per_sm = int(fits);
    double programs = double(std::max<int64_t>(inputs_.programs, 1));
    double at_once = sms * double(fits);
    out_.waves = programs / at_once;
    double resident = std::min(double(fits), std::ceil(programs / sms));
    double spilled =
        std::max(0, out_.registers - out_.register_limit) * 4.0 * out_.threads * peak_times_;  // bytes a program

    // Of what is read again and again the L2 cache gives most: with dots, the operands that other programs read too.
    double own = read_traffic_ - shared_ + write_traffic_;
    if (dot_flops_ > 0) own = read_traffic_ / kL2Factor + write_traffic_;
    double traffic = programs * (own + 2 * spilled / kL2Factor) + shared_;
    double t_memory =
        std::max(traffic / memory, programs * (read_traffic_ + write_traffic_ + 2 * spilled) / (kL2Factor * memory));
    double slots = slots_ + 4.0 * spilled / 128 * 2;
    double tensor = rates.tensor_tflop_s * 1e12 * (dot_bits_ >= 32 ? 0.5 : 1) * sms / rates.num_sms;
    double instructions = std::max(slots / kIssuePerClock, special_slots_ / kSpecialPerClock);
    double t_compute = programs * instructions / (clock * sms) + programs * dot_flops_ / tensor;

    // A program alone, and how many of them a second the SMs get through side by side.
    double alone = kProgramOverhead + rounds_ * kMemoryLatency +
                   (steps_ * kClocksPerStep + shuffles_ * kShuffleClocks +
                    exchange_ * (kExchangeClocks + kBarrierWarpClocks * warps_) + 2 * spilled / out_.threads * 8) /
                       clock;
    double t_latency = alone * std::max(std::ceil(programs / sms) / resident, 1.0);
    out_.bytes_in_flight = resident * read_ / std::max(1.0, rounds_);
    out_.bytes_needed = memory / sms * kMemoryLatency;

    // The greatest counts most, yet the others are felt: they do not overlap in full.
    constexpr double kPower = 3;
    double t =
        std::pow(std::pow(t_memory, kPower) + std::pow(t_compute, kPower) + std::pow(t_latency, kPower), 1 / kPower);
    out_.predicted_us = (t + alone + kLaunchOverhead) * 1e6;
    out_.bound = t_latency > std::max(t_memory, t_compute) ? "latency" : t_compute > t_memory ? "compute" : "memory";
    describe(traffic, memory, t_memory, t_compute, alone);
  }

  void describe(double traffic, double memory, double t_memory, double t_compute, double alone) {
    if (out_.bound == "memory")
      out_.text = fmt::format("bound by memory: {:.3g} MB at {:.0f} GB/s take {:.3g} us", traffic / 1e6, memory / 1e9,
                              t_memory * 1e6);
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

  int64_t attr(std::string_view name) const {
    auto it = func_.attrs.find(name);
    const auto* value = it == func_.attrs.end() ? nullptr : std::get_if<int64_t>(&it->second);
    return value ? *value : 0;
  }

  const ir::Func& func_;
  const Target& target_;
  const CostInputs& inputs_;
  AxisAnalysis axis_;
  int warps_;
  std::unordered_set<const ir::Value*> dependent_, streamed_, fragments_;
  std::unordered_map<const ir::Value*, int64_t> variety_;
  int peak_ = 0;           // words live at once, at most
  double peak_times_ = 1;  // how often a program comes to that place
  int dot_bits_ = 16;
  // One program: bytes; slots of an SM's issue; steps of one thread; rounds of loads that wait for each other.
  double read_ = 0, written_ = 0, shared_ = 0, read_traffic_ = 0, write_traffic_ = 0;
  double flops_ = 0, special_ = 0, dot_flops_ = 0;
  double slots_ = 0, special_slots_ = 0, steps_ = 0, rounds_ = 0, shuffles_ = 0, exchange_ = 0;
  CostEstimate out_;
};

}  // namespace

CostEstimate estimate_cost(const ir::Func& func, const Target& target, const CostInputs& inputs) {
  return Estimator(func, target, inputs).run();
}

}  // namespace tegula
