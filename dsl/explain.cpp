#include "dsl/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <unordered_map>

#include "codegen/analysis/cost.h"
#include "codegen/analysis/shared_plan.h"
#include "codegen/compile.h"
#include "codegen/exec/emulator.h"
#include "codegen/exec/ptxas.h"
#include "codegen/explain/access_forms.h"
#include "codegen/explain/fusion.h"
#include "codegen/explain/traffic.h"
#include "codegen/target/cache.h"
#include "codegen/target/target.h"
#include "dsl/kernel_source.h"
#include "dsl/tuner.h"
#include "runtime/base/messages.h"
#include "runtime/sealing.h"
#include "runtime/timing.h"

namespace tegula {

struct detail::ExplainedLaunch {
  Target target;
  Shared<ir::Func> func;  ///< of stage Tile
  explaining::LaunchFacts facts;
  explaining::Traffic traffic;
  int64_t sums_bytes = 0;  ///< of products, a program
};

namespace {

constexpr double kCopyShare = 0.9;          // of the maker's memory rate, as copies reach it
constexpr int64_t kRegistersAtATime = 256;  // that a warp is given
constexpr int64_t kPartitions = 4;          // of a multiprocessor, with registers of their own
constexpr int64_t kSharedBeside = 1024;     // that a program takes beside its own
constexpr double kSpecialPerClock = 16;     // operations of the special function units, an SM
constexpr double kLaunchUs = 2;
// Of the predicted time, products aside: fitted to the library's kernels on an H200 under Nsight Compute
// (bench/explain.py).
constexpr double kFillUs = 3.75;  // until the first data is there, and the end of the last program
constexpr double kFirstPower = 2.06, kWarpPower = 0.042, kProgramPower = 0.11, kMostPower = 12;
constexpr double kReachedMemory = 0.954;  // of the cost model's time of memory
constexpr double kIssueShare = 0.81;      // of the instructions that could be issued, while programs wait now and then
constexpr double kWaitsShare = 0.48;      // of the cost model's waits, which overlap other programs' work
constexpr double kStartsPerUs = 1630;     // blocks that a GPU begins
constexpr double kAtomicsPerUs = 120e3;   // elements that the L2 cache updates, where each is an operation of its own
constexpr double kClear = 1.15;           // a difference between measured and predicted time that wants a reason

/// Device memory as the trace reads it, in pieces that are kept.
class DeviceMemory {
 public:
  explicit DeviceMemory(Device* device) : device_(device) {}

  bool operator()(uint64_t address, void* to, size_t bytes) {
    if (!device_) return false;
    const uint64_t page = address / kPage * kPage;
    if (address + bytes <= page + kPage)
      if (const std::vector<uint8_t>* data = page_at(page)) {
        std::memcpy(to, data->data() + (address - page), bytes);
        return true;
      }
    return copy(to, address, bytes);
  }

 private:
  static constexpr uint64_t kPage = 4096;

  const std::vector<uint8_t>* page_at(uint64_t page) {
    auto [it, is_new] = pages_.try_emplace(page);
    if (is_new) {
      it->second.resize(kPage);
      if (!copy(it->second.data(), page, kPage)) it->second.clear();
    }
    return it->second.empty() ? nullptr : &it->second;
  }

  bool copy(void* to, uint64_t address, size_t bytes) {
    if (device_->allocated_bytes(address) < bytes && device_->info().emulator) return false;
    try {
      device_->copy_to_host(to, address, bytes);
      return true;
    } catch (const DeviceError&) {
      return false;
    }
  }

  Device* device_;
  std::unordered_map<uint64_t, std::vector<uint8_t>> pages_;
};

Target wanted_target(const ExplainOptions& how) {
  if (!how.target.empty()) {
    if (auto target = find_target(how.target)) return *target;
    std::string names;
    for (const Target& t : targets()) names += (names.empty() ? "" : ", ") + t.name;
    throw LaunchError(fmt::format("unknown target '{}'\n  hint: Tegula knows {}", how.target, names));
  }
  return how.device ? target_for_sm(how.device->info().sm) : *find_target("sm_90a");
}

bool leaves_constexprs_open(const Kernel& kernel, const LaunchOptions& options) {
  return std::any_of(kernel.params().begin(), kernel.params().end(), [&](const KernelParam& p) {
    return p.is_constexpr && !p.has_default &&
           std::none_of(options.constexprs.begin(), options.constexprs.end(),
                        [&](const ConstexprArg& c) { return c.name == p.name; });
  });
}

class Explainer {
 public:
  Explainer(const Kernel& kernel, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
            const ExplainOptions& how)
      : kernel_(kernel), grid_(grid), options_(options), args_(args), how_(how), memory_(how.device) {
    l_->target = wanted_target(how);
  }

  Explanation run() {
    choose_config();
    build();
    look_at_code();
    resources();
    traffic();
    predict();
    units();
    if (how_.measure && device() && !device()->info().emulator) measure();
    l_->facts.read = nullptr;  // of memory that may end before the explanation does
    out_.launch = std::move(l_);
    return std::move(out_);
  }

 private:
  Device* device() const { return how_.device; }
  /// The device, if it is one of the target.
  const DeviceInfo* same_device() const {
    const bool same =
        device() && !device()->info().emulator && target_for_sm(device()->info().sm).name == l_->target.name;
    return same ? &device()->info() : nullptr;
  }

  // What a launch would take: the tuned or predicted configuration where the launch leaves it open.
  void choose_config() {
    full_ = options_;
    if (leaves_constexprs_open(kernel_, options_)) {
      if (kernel_.autotuning()) {
        std::shared_ptr<Device> stand_in;
        if (!same_device()) stand_in = make_emulator({.target = l_->target.name});
        Device& chooser = stand_in ? *stand_in : *device();
        full_ = dsl::options_of(*kernel_.ready(chooser, grid_, options_, args_).config, options_);
      } else {
        full_ = kernel_.with_first_config(args_, options_);
      }
    }
    const Config config = dsl::config_of(full_);
    extents_ = grid_(config);
    out_.kernel = kernel_.name();
    out_.config = config.to_string();
    out_.target = l_->target.name;
    out_.programs = int64_t(extents_.x) * extents_.y * extents_.z;
  }

  void build() {
    const std::vector<ArgType> types = kernel_.classify(args_, full_);
    l_->func = kernel_.tile_func(types, full_, l_->target.name);
    const std::vector<Arg> parts = in_parts(args_);
    l_->facts.grid = {extents_.x, extents_.y, extents_.z};
    for (size_t i = 0; i < types.size() && i < parts.size(); ++i) {
      if (types[i].constant) continue;
      const Arg& a = parts[i];
      l_->facts.arguments.push_back(a.kind == Arg::Kind::Float ? 0 : a.i);
    }
    l_->facts.arguments.resize(l_->func->body.args.size());
    if (device()) l_->facts.read = [this](uint64_t at, void* to, size_t n) { return memory_(at, to, n); };
    types_ = types;
  }

  // Layouts, code and what the assembler makes of it.
  void look_at_code() {
    Diagnostics diags;
    laid_out_ = lay_out(*l_->func, l_->target, diags);
    if (!laid_out_) throw CompileError(diags);
    if (same_device()) {  // the code that runs there
      image_ = kernel_.prepare(*device(), types_, full_).image();
    } else {
      image_ = kernel_.compile(types_, full_, l_->target.name);
      if (const auto ptxas = may_compile() ? find_ptxas() : std::nullopt) {
        const PtxasRun run = run_ptxas(*ptxas, image_.ptx, l_->target.name);
        image_.registers = run.registers, image_.spill_bytes = run.spill_bytes;
      }
    }
    const explaining::Forms forms = explaining::look_at_forms(*laid_out_);
    for (const explaining::AccessForm& a : forms.accesses)
      out_.accesses.push_back({a.loc.to_string(), a.what, a.array, a.bytes, 1, a.limit});
    access_locs_ = forms.accesses;
    for (const explaining::BankConflict& c : forms.conflicts)
      out_.bank_conflicts.push_back(
          fmt::format("{}: {} takes {} wavefronts instead of 1", c.loc.to_string(), c.what, c.ways));
    out_.shared_accesses = forms.shared_accesses;
    for (const explaining::LoopForm& l : forms.loops) add_loop(l);
  }

  void add_loop(const explaining::LoopForm& form) {
    Explanation::Loop loop{form.loc.to_string(), form.stages, "", ""};
    for (const Transfer& t : image_.transfers)
      if (t.loc == form.loc) loop.by = t.by, loop.why_not_more = t.why_not.empty() ? "" : "not in bulk: " + t.why_not;
    for (const FewerStages& f : image_.fewer_stages)
      if (f.loc == form.loc)
        loop.stages = f.given,
        loop.why_not_more = fmt::format("{} were asked for: shared memory or registers have no room for more", f.asked);
    if (loop.by.empty() && loop.stages > 1) loop.by = "loads to registers";
    if (loop.by.empty() && loop.why_not_more.empty())
      loop.why_not_more = "its loads feed no product, and tl.range(..., num_stages=) does not ask for more";
    out_.loops.push_back(std::move(loop));
  }

  // Programs that a multiprocessor holds, and what keeps it from more.
  void resources() {
    CostInputs inputs = cost_inputs();
    const CostEstimate estimate = estimate_cost(*laid_out_, l_->target, inputs);
    out_.threads = image_.threads() * image_.num_ctas;
    out_.shared_bytes = image_.shared_bytes;
    out_.registers_estimated = image_.registers < 0;
    out_.registers = image_.registers >= 0 ? image_.registers : std::min(estimate.registers, estimate.register_limit);
    out_.spill_bytes = image_.spill_bytes;
    const int warps = image_.threads() / 32;
    const int64_t of_warp =
        (int64_t(out_.registers) * 32 + kRegistersAtATime - 1) / kRegistersAtATime * kRegistersAtATime;
    const std::pair<int64_t, std::string> limits[] = {
        {l_->target.warps_per_sm / warps,
         fmt::format("warps ({} of {} are one program's)", warps, l_->target.warps_per_sm)},
        {l_->target.registers_per_sm / kPartitions / std::max<int64_t>(1, of_warp) * kPartitions / warps,
         fmt::format("registers ({} a thread, {} threads)", out_.registers, image_.threads())},
        {l_->target.shared_per_sm / (out_.shared_bytes + kSharedBeside),
         fmt::format("shared memory ({} bytes a program)", out_.shared_bytes)},
        {l_->target.programs_per_sm, "the number of programs"},
    };
    const auto least = std::min_element(std::begin(limits), std::end(limits),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
    out_.programs_per_sm = int(least->first);
    out_.occupancy_limit = least->second;
    out_.occupancy = double(least->first * warps) / l_->target.warps_per_sm;
    out_.waves = out_.programs_per_sm
                     ? double(out_.programs) * image_.num_ctas / double(num_sms() * out_.programs_per_sm)
                     : std::numeric_limits<double>::infinity();
    l_->sums_bytes = explaining::bytes_of_sums(*l_->func);
  }

  int64_t num_sms() const { return same_device() ? same_device()->num_sms : l_->target.rates.num_sms; }

  CostInputs cost_inputs() {
    CostInputs inputs;
    inputs.programs = out_.programs;
    inputs.grid = l_->facts.grid;
    inputs.device = same_device();
    for (size_t i = 0; i < l_->func->body.args.size(); ++i)
      if (const ir::Value& p = *l_->func->body.args[i]; p.type.is_integer())
        inputs.arguments[p.name] = l_->facts.arguments[i];
    return inputs;
  }

  void traffic() {
    explaining::CacheSizes caches;
    caches.l2_bytes = same_device() && same_device()->l2_bytes ? same_device()->l2_bytes : l2_bytes(l_->target);
    const int64_t programs = std::max<int64_t>(1, out_.programs_per_sm);
    caches.l1_bytes = std::max<int64_t>(0, l_->target.shared_per_sm - programs * out_.shared_bytes) * image_.num_ctas;
    caches.places = std::max<int64_t>(1, num_sms() / image_.num_ctas);
    caches.programs_a_place = programs;
    l_->traffic = explaining::count_traffic(*l_->func, l_->facts, caches);
    const explaining::Traffic& t = l_->traffic;
    out_.counted_programs = t.counted;
    out_.read = t.read, out_.written = t.written, out_.from_memory = t.from_memory, out_.to_memory = t.to_memory;
    out_.useful_read = t.useful_read, out_.useful_written = t.useful_written;
    for (const explaining::ArrayTraffic& a : t.arrays)
      out_.arrays.push_back({a.name, a.read, a.written, a.from_memory, a.to_memory});
    out_.assumptions.assign(t.assumptions.begin(), t.assumptions.end());
    for (size_t i = 0; i < out_.accesses.size(); ++i)
      for (const explaining::AccessTraffic& a : t.accesses)
        if (a.op->loc == access_locs_[i].loc && a.sectors > 0) out_.accesses[i].efficiency = a.useful / a.sectors;
  }

  // ---- Time

  void predict() {
    CostInputs inputs = cost_inputs();
    inputs.programs_per_sm = out_.programs_per_sm;
    if (out_.spill_bytes >= 0) inputs.spill_bytes = out_.spill_bytes;
    inputs.control = &l_->traffic.control;
    inputs.moved = CostInputs::Moved{double(out_.from_memory + out_.to_memory), double(out_.read + out_.written)};
    cost_ = estimate_cost(*laid_out_, l_->target, inputs);
    const CostEstimate& c = cost_;
    const double rate = memory_rate(same_device() ? same_device()->name : "").value_or(l_->target.rates.memory_gb_s);
    out_.bandwidth = rate * 1e9 * kCopyShare;
    out_.memory_us = c.memory_us, out_.compute_us = c.compute_us, out_.latency_us = c.latency_us;
    out_.bound = c.bound;
    out_.bound_text = c.text;
    const double updated = atomics(), us = updated / kAtomicsPerUs;
    if (us > std::max({c.memory_us, c.compute_us, c.latency_us})) {
      out_.memory_us = us;
      out_.bound = "memory";
      out_.bound_text =
          fmt::format("bound by memory: atomic operations on {:.3g} M elements take {:.3g} us", updated / 1e6, us);
    }
    out_.predicted_us = predicted_time(c, us);
    const double work = std::max({out_.memory_us, c.compute_us, c.latency_us});
    if (c.bound != "does not fit" && work < kLaunchUs) {
      out_.bound = "launch";
      out_.bound_text = fmt::format(
          "bound by its launch: the work takes {:.3g} us, a launch about {:.0f} us; put several "
          "into one kernel, or into a CUDA graph",
          work, kLaunchUs);
    }
  }

  // The more warps there are, the more they overlap what they wait for. So the power of the mean grows with them; 1
  // would be a sum, infinity the greatest alone.
  double predicted_time(const CostEstimate& c, double atomics_us) const {
    if (c.bound == "does not fit" || c.dot_flops > 0) return c.predicted_us;
    const double blocks = double(out_.programs) * image_.num_ctas;
    const double together = std::min(double(out_.programs_per_sm), std::ceil(blocks / double(num_sms())));
    const double power = std::min(
        kFirstPower + kWarpPower * together * image_.threads() / 32 + kProgramPower * (out_.programs_per_sm - 1),
        kMostPower);
    double sum = 0;
    for (double us : {std::max(c.memory_us * kReachedMemory, atomics_us), c.compute_us / kIssueShare,
                      c.latency_us * kWaitsShare, blocks / kStartsPerUs})
      sum += std::pow(us, power);
    return std::pow(sum, 1 / power) + c.behind_us + kFillUs;
  }

  // Elements of atomic operations that threads carry out.
  double atomics() const {
    bool by_threads = false;
    ir::walk(laid_out_->body, [&](const ir::Op& op) { by_threads |= op.opcode == ir::Opcode::AtomicRmw; });
    double elements = 0;
    for (const explaining::AccessTraffic& a : l_->traffic.accesses)
      if (by_threads && a.op->opcode == ir::Opcode::AtomicRmw)
        elements += a.useful / std::max(1, elem_bits(a.op->operand(0)->type.elem) / 8);
    return elements;
  }

  // Operations by the unit that carries them out; bytes are those from and to memory.
  void units() {
    const CostEstimate& c = cost_;
    const Rates& rates = l_->target.rates;
    out_.instructions = c.instructions, out_.special_instructions = c.special_instructions;
    const double programs = double(out_.programs), bytes = double(out_.from_memory + out_.to_memory);
    const auto add = [&](std::string name, double operations, double peak) {
      if (operations > 0)
        out_.units.push_back(
            {std::move(name), operations, peak, bytes > 0 ? operations / bytes : 0, peak / out_.bandwidth});
    };
    const double sms = rates.num_sms, clock = rates.clock_mhz * 1e6;
    add("fp32", double(c.flops - c.special) * programs, rates.fp32_tflop_s * 1e12);
    add("special functions", double(c.special) * programs, kSpecialPerClock * sms * clock);
    std::string types;
    double factor = 1;
    ir::walk(laid_out_->body, [&](const ir::Op& op) {
      if (!ir::is_product(op)) return;
      const std::string instruction = op.get(ir::attr::instruction);
      const Elem elem = op.operand(0)->type.elem;
      types = instruction;
      factor = elem_bits(elem) == 8 ? 2 : elem_bits(elem) == 32 ? 0.5 : 1;
    });
    const bool threads = types.empty() || types.starts_with("fma");
    add(threads ? "fp32, products by threads" : "tensor cores, " + types, double(c.dot_flops) * programs,
        threads ? rates.fp32_tflop_s * 1e12 : rates.tensor_tflop_s * 1e12 * factor);
  }

  void measure() {
    const auto launch = [&] { kernel_.launch(*device(), detail::GridRef(extents_), full_, args_); };
    out_.measured_us = time_on_device(*device(), launch, {.flush_l2 = true, .stream = full_.stream}).median_ms * 1e3;
    const double ratio = *out_.measured_us / out_.predicted_us;
    if (ratio < kClear && ratio > 1 / kClear) return;
    std::string why = fmt::format("{:.2f} times the predicted time: ", ratio);
    const double rate = double(out_.from_memory + out_.to_memory) / *out_.measured_us * 1e6;
    if (!same_device())
      why += "the prediction is for another GPU";
    else if (ratio < 1)
      why += out_.bound == "memory" && rate > out_.bandwidth
                 ? "part of the data stays in the L2 cache, so less comes from memory"
                 : "the model takes too much for instructions or waits";
    else if (out_.spill_bytes > 0)
      why += fmt::format("registers are spilled ({} bytes a thread), which the traffic above leaves out",
                         out_.spill_bytes);
    else if (out_.bound == "launch" || *out_.measured_us < 3 * kLaunchUs)
      why += "launch and end of the programs take most of so short a time";
    else if (std::ceil(out_.waves) / out_.waves > kClear && out_.waves > 1)
      why += fmt::format("the last of {:.2f} waves of programs leaves most multiprocessors idle", out_.waves);
    else if (rate < 0.6 * out_.bandwidth && out_.bound == "memory")
      why += fmt::format(
          "{:.0f} GB/s of {:.0f} reached: not bound by memory but by waits, between loads and what depends on them",
          rate / 1e9, out_.bandwidth / 1e9);
    else
      why += "not explained by traffic, spills or waves: look at it with a profiler";
    out_.why_measured_differs = why;
  }

  const Kernel& kernel_;
  detail::GridRef grid_;
  const LaunchOptions& options_;
  std::span<const Arg> args_;
  const ExplainOptions& how_;
  DeviceMemory memory_;
  Explanation out_;
  std::shared_ptr<detail::ExplainedLaunch> l_ = std::make_shared<detail::ExplainedLaunch>();
  LaunchOptions full_;  ///< with what the launch leaves open
  Grid extents_;
  CostEstimate cost_;
  std::vector<ArgType> types_;
  std::unique_ptr<ir::Func> laid_out_;
  KernelImage image_;
  std::vector<explaining::AccessForm> access_locs_;
};

}  // namespace

Explanation explain(const Kernel& kernel, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
                    const ExplainOptions& how) {
  return Explainer(kernel, grid, options, args, how).run();
}

void explain_if_asked(const Kernel& kernel, Device& device, Grid grid, const LaunchOptions& options,
                      std::span<const Arg> args) noexcept try {
  const char* file = std::getenv("TEGULA_EXPLAIN");
  if (!file || !*file) return;
  std::string line;
  try {
    line = explain(kernel, grid, options, args, {.device = &device}).json();
  } catch (const std::exception& e) {
    line = detail::json_of_failure(kernel.name(), e.what());
  }
  std::ofstream out(file, std::ios::app);
  static std::once_flag told;
  if (!(out << line << "\n").flush())
    std::call_once(told, [&] {
      tell(MessageKind::Warning, fmt::format("TEGULA_EXPLAIN: cannot write '{}': {}", file, std::strerror(errno)));
    });
} catch (...) {  // it must not stand in the launch's way
}

FusionAdvice advise_fusion(std::span<const Explanation> launches, std::span<const uint64_t> kept) {
  std::vector<explaining::FusionStep> steps;
  int64_t shared = 0;
  for (const Explanation& e : launches) {
    const detail::ExplainedLaunch& l = *e.launch;
    steps.push_back(
        {e.kernel, l.func.get(), &l.facts, &l.traffic, e.bound, e.shared_bytes, l.sums_bytes, e.predicted_us});
    shared = l.target.shared_per_program;
  }
  const std::vector<int64_t> addresses(kept.begin(), kept.end());
  const explaining::FusionVerdict verdict = explaining::judge_fusion(steps, addresses, shared);
  FusionAdvice advice;
  for (const explaining::FusionRule& r : verdict.rules)
    advice.rules.push_back({r.number, r.question, r.speaks_for_fusion, r.figures});
  advice.fuse = verdict.fuse;
  advice.verdict = verdict.text;
  advice.separate_bytes = verdict.separate_bytes;
  advice.fused_bytes = verdict.fused_bytes;
  return advice;
}

}  // namespace tegula
