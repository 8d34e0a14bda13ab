#include "dsl/explain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <map>
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
#include "runtime/timing.h"

namespace tegula {

namespace {

constexpr double kCopyShare = 0.9;          // of the maker's memory rate, as copies reach it
constexpr int64_t kRegistersAtATime = 256;  // that a warp is given
constexpr int64_t kSharedBeside = 1024;     // that a program takes beside its own
constexpr int kMostPrograms = 32;           // an SM
constexpr double kSpecialPerClock = 16;     // operations of the special function units, an SM
constexpr double kLaunchUs = 2;
constexpr double kClear = 1.15;  // a difference between measured and predicted time that wants a reason

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

/// One launch on its way to an Explanation.
struct Study {
  Explanation out;
  Target target;
  Config config;
  Grid grid;
  LaunchOptions options;
  std::unique_ptr<ir::Func> func;  ///< of stage Tile
  explaining::LaunchFacts facts;
  explaining::Traffic traffic;
  CostEstimate cost;
  int64_t on_chip_bytes = 0;
};

class Explainer {
 public:
  Explainer(const Kernel& kernel, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
            const ExplainOptions& how)
      : kernel_(kernel), grid_(grid), options_(options), args_(args), how_(how), memory_(how.device) {
    s_.target = wanted_target(how);
  }

  Study run() {
    choose_config();
    build();
    look_at_code();
    resources();
    traffic();
    predict();
    units();
    if (how_.measure && device() && !device()->info().emulator) measure();
    return std::move(s_);
  }

 private:
  Device* device() const { return how_.device; }
  /// The device, if it is one of the target.
  const DeviceInfo* same_device() const {
    const bool same =
        device() && !device()->info().emulator && target_for_sm(device()->info().sm).name == s_.target.name;
    return same ? &device()->info() : nullptr;
  }

  // What a launch would take: the tuned or predicted configuration where the launch leaves it open.
  void choose_config() {
    s_.options = options_;
    if (leaves_constexprs_open(kernel_, options_)) {
      if (kernel_.autotuning()) {
        std::shared_ptr<Device> stand_in;
        if (!same_device()) stand_in = make_emulator({.target = s_.target.name});
        Device& chooser = stand_in ? *stand_in : *device();
        s_.options = dsl::options_of(*kernel_.ready(chooser, grid_, options_, args_).config, options_);
      } else {
        s_.options = kernel_.with_first_config(args_, options_);
      }
    }
    s_.config = dsl::config_of(s_.options);
    s_.grid = grid_(s_.config);
    s_.out.kernel = kernel_.name();
    s_.out.config = s_.config.to_string();
    s_.out.target = s_.target.name;
    s_.out.programs = int64_t(s_.grid.x) * s_.grid.y * s_.grid.z;
  }

  void build() {
    const std::vector<ArgType> types = kernel_.classify(args_, s_.options);
    s_.func = kernel_.tile_func(types, s_.options, s_.target.name);
    const std::vector<Arg> parts = in_parts(args_);
    s_.facts.grid = {s_.grid.x, s_.grid.y, s_.grid.z};
    for (size_t i = 0; i < types.size() && i < parts.size(); ++i) {
      if (types[i].constant) continue;
      const Arg& a = parts[i];
      s_.facts.arguments.push_back(a.kind == Arg::Kind::Float ? 0 : a.i);
    }
    s_.facts.arguments.resize(s_.func->body.args.size());
    if (device()) s_.facts.read = [this](uint64_t at, void* to, size_t n) { return memory_(at, to, n); };
    types_ = types;
  }

  // Layouts, code and what the assembler makes of it.
  void look_at_code() {
    Diagnostics diags;
    laid_out_ = lay_out(*s_.func, s_.target, diags);
    if (!laid_out_) throw CompileError(diags);
    image_ = kernel_.compile(types_, s_.options, s_.target.name);
    if (const auto ptxas = find_ptxas()) {
      const PtxasRun run = run_ptxas(*ptxas, image_.ptx, s_.target.name);
      image_.registers = run.registers, image_.spill_bytes = run.spill_bytes;
    } else if (same_device()) {
      const auto loaded = device()->load(image_);
      image_.registers = loaded->image().registers, image_.spill_bytes = loaded->image().spill_bytes;
    }
    const explaining::Forms forms = explaining::look_at_forms(*laid_out_);
    for (const explaining::AccessForm& a : forms.accesses)
      s_.out.accesses.push_back({a.loc.to_string(), a.what, a.array, a.bytes, 1, a.limit});
    access_locs_ = forms.accesses;
    for (const explaining::BankConflict& c : forms.conflicts)
      s_.out.bank_conflicts.push_back(
          fmt::format("{}: {} takes {} wavefronts instead of 1", c.loc.to_string(), c.what, c.ways));
    s_.out.shared_accesses = forms.shared_accesses;
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
    if (loop.by.empty() && loop.why_not_more.empty() && loop.stages == 1)
      loop.why_not_more = s_.func->num_stages() > 1 ? "its loads are no operands of a product: a stage is asked for by "
                                                      "tl.range(..., num_stages=)"
                                                    : "num_stages asks for one";
    s_.out.loops.push_back(std::move(loop));
  }

  // Programs that a multiprocessor holds, and what keeps it from more.
  void resources() {
    CostInputs inputs = cost_inputs();
    const CostEstimate estimate = estimate_cost(*laid_out_, s_.target, inputs);
    Explanation& out = s_.out;
    out.threads = image_.threads() * image_.num_ctas;
    out.shared_bytes = image_.shared_bytes;
    out.registers_estimated = image_.registers < 0;
    out.registers = image_.registers >= 0 ? image_.registers : std::min(estimate.registers, estimate.register_limit);
    out.spill_bytes = image_.spill_bytes;
    const int warps = image_.threads() / 32;
    const int64_t of_warp =
        (int64_t(out.registers) * 32 + kRegistersAtATime - 1) / kRegistersAtATime * kRegistersAtATime;
    const std::pair<int64_t, std::string> limits[] = {
        {s_.target.warps_per_sm / warps,
         fmt::format("warps ({} of {} are one program's)", warps, s_.target.warps_per_sm)},
        {s_.target.registers_per_sm / std::max<int64_t>(1, of_warp * warps),
         fmt::format("registers ({} a thread, {} threads)", out.registers, image_.threads())},
        {s_.target.shared_per_sm / (out.shared_bytes + kSharedBeside),
         fmt::format("shared memory ({} bytes a program)", out.shared_bytes)},
        {kMostPrograms, "the number of programs"},
    };
    const auto least = std::min_element(std::begin(limits), std::end(limits),
                                        [](const auto& a, const auto& b) { return a.first < b.first; });
    out.programs_per_sm = int(least->first);
    out.occupancy_limit = least->second;
    out.occupancy = double(least->first * warps) / s_.target.warps_per_sm;
    out.waves = out.programs_per_sm ? double(out.programs) * image_.num_ctas / double(num_sms() * out.programs_per_sm)
                                    : std::numeric_limits<double>::infinity();
    s_.on_chip_bytes = out.shared_bytes + explaining::bytes_of_sums(*s_.func);
  }

  int64_t num_sms() const { return same_device() ? same_device()->num_sms : s_.target.rates.num_sms; }

  CostInputs cost_inputs() {
    CostInputs inputs;
    inputs.programs = s_.out.programs;
    inputs.device = same_device();
    for (size_t i = 0; i < s_.func->body.args.size(); ++i)
      if (const ir::Value& p = *s_.func->body.args[i]; p.type.is_integer())
        inputs.arguments[p.name] = s_.facts.arguments[i];
    return inputs;
  }

  void traffic() {
    Explanation& out = s_.out;
    explaining::CacheSizes caches;
    caches.l2_bytes = same_device() && same_device()->l2_bytes ? same_device()->l2_bytes : l2_bytes(s_.target);
    const int64_t programs = std::max<int64_t>(1, out.programs_per_sm);
    caches.l1_bytes = std::max<int64_t>(0, s_.target.shared_per_sm / programs - out.shared_bytes) * image_.num_ctas;
    caches.resident_programs = std::max<int64_t>(1, num_sms() * programs / image_.num_ctas);
    s_.traffic = explaining::count_traffic(*s_.func, s_.facts, caches);
    const explaining::Traffic& t = s_.traffic;
    out.counted_programs = t.counted;
    out.read = t.read, out.written = t.written, out.from_memory = t.from_memory, out.to_memory = t.to_memory;
    out.useful_read = t.useful_read, out.useful_written = t.useful_written;
    for (const explaining::ArrayTraffic& a : t.arrays)
      out.arrays.push_back({a.name, a.read, a.written, a.from_memory, a.to_memory});
    out.assumptions.assign(t.assumptions.begin(), t.assumptions.end());
    for (size_t i = 0; i < out.accesses.size(); ++i)
      for (const explaining::AccessTraffic& a : t.accesses)
        if (a.op->loc == access_locs_[i].loc && a.sectors > 0) out.accesses[i].efficiency = a.useful / a.sectors;
  }

  // ---- Time

  void predict() {
    Explanation& out = s_.out;
    CostInputs inputs = cost_inputs();
    inputs.moved = CostInputs::Moved{double(out.from_memory + out.to_memory), double(out.read + out.written)};
    s_.cost = estimate_cost(*laid_out_, s_.target, inputs);
    const CostEstimate& c = s_.cost;
    const double rate = memory_rate(same_device() ? same_device()->name : "").value_or(s_.target.rates.memory_gb_s);
    out.bandwidth = rate * 1e9 * kCopyShare;
    out.predicted_us = c.predicted_us;
    out.memory_us = c.memory_us, out.compute_us = c.compute_us, out.latency_us = c.latency_us;
    out.bound = c.bound;
    out.bound_text = c.text;
    const double work = std::max({c.memory_us, c.compute_us, c.latency_us});
    if (c.bound != "does not fit" && work < kLaunchUs) {
      out.bound = "launch";
      out.bound_text = fmt::format(
          "bound by its launch: the work takes {:.3g} us, a launch about {:.0f} us; put several "
          "into one kernel, or into a CUDA graph",
          work, kLaunchUs);
    }
  }

  // Operations by the unit that carries them out; bytes are those from and to memory.
  void units() {
    const CostEstimate& c = s_.cost;
    const Rates& rates = s_.target.rates;
    const double programs = double(s_.out.programs), bytes = double(s_.out.from_memory + s_.out.to_memory);
    const auto add = [&](std::string name, double operations, double peak) {
      if (operations > 0)
        s_.out.units.push_back(
            {std::move(name), operations, peak, bytes > 0 ? operations / bytes : 0, peak / s_.out.bandwidth});
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
    Explanation& out = s_.out;
    const auto launch = [&] { kernel_.launch(*device(), detail::GridRef(s_.grid), s_.options, args_); };
    out.measured_us =
        time_on_device(*device(), launch, {.flush_l2 = true, .stream = s_.options.stream}).median_ms * 1e3;
    const double ratio = *out.measured_us / out.predicted_us;
    if (ratio < kClear && ratio > 1 / kClear) return;
    std::string why = fmt::format("{:.2f} times the predicted time: ", ratio);
    const double rate = double(out.from_memory + out.to_memory) / *out.measured_us * 1e6;
    if (!same_device())
      why += "the prediction is for another GPU";
    else if (ratio < 1)
      why += out.bound == "memory" && rate > out.bandwidth
                 ? "part of the data stays in the L2 cache, so less comes from memory"
                 : "the model takes too much for instructions or waits";
    else if (out.spill_bytes > 0)
      why +=
          fmt::format("registers are spilled ({} bytes a thread), which the traffic above leaves out", out.spill_bytes);
    else if (out.bound == "launch" || *out.measured_us < 3 * kLaunchUs)
      why += "launch and end of the programs take most of so short a time";
    else if (std::ceil(out.waves) / out.waves > kClear && out.waves > 1)
      why += fmt::format("the last of {:.2f} waves of programs leaves most multiprocessors idle", out.waves);
    else if (rate < 0.6 * out.bandwidth && out.bound == "memory")
      why += fmt::format(
          "{:.0f} GB/s of {:.0f} reached: not bound by memory but by waits, between loads and what depends on them",
          rate / 1e9, out.bandwidth / 1e9);
    else
      why += "not explained by traffic, spills or waves: look at it with a profiler";
    out.why_measured_differs = why;
  }

  const Kernel& kernel_;
  detail::GridRef grid_;
  const LaunchOptions& options_;
  std::span<const Arg> args_;
  const ExplainOptions& how_;
  DeviceMemory memory_;
  Study s_;
  std::vector<ArgType> types_;
  std::unique_ptr<ir::Func> laid_out_;
  KernelImage image_;
  std::vector<explaining::AccessForm> access_locs_;
};

}  // namespace

Explanation explain(const Kernel& kernel, detail::GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
                    const ExplainOptions& how) {
  return Explainer(kernel, grid, options, args, how).run().out;
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
  std::ofstream(file, std::ios::app) << line << "\n";
} catch (...) {  // it must not stand in the launch's way
}

FusionAdvice explain_fusion(std::span<const LaunchToExplain> launches, std::span<const uint64_t> kept,
                            const ExplainOptions& how) {
  std::vector<Study> studies;
  for (const LaunchToExplain& l : launches)
    studies.push_back(Explainer(l.kernel, detail::GridRef(l.grid), l.options, l.args, how).run());
  std::vector<explaining::FusionStep> steps;
  FusionAdvice advice;
  int64_t shared = 0;
  for (Study& s : studies) {
    s.facts.read = nullptr;  // its memory is gone; partitions follow from arguments
    steps.push_back(
        {s.out.kernel, s.func.get(), &s.facts, &s.traffic, s.out.bound, s.on_chip_bytes, s.out.predicted_us});
    shared = s.target.shared_per_program;
    advice.kernels.push_back(s.out);
  }
  const std::vector<int64_t> addresses(kept.begin(), kept.end());
  explaining::FusionVerdict verdict = explaining::judge_fusion(steps, addresses, shared);
  for (explaining::FusionRule& r : verdict.rules)
    advice.rules.push_back({r.number, r.question, r.speaks_for_fusion, r.figures});
  advice.fuse = verdict.fuse;
  advice.verdict = verdict.text;
  advice.separate_bytes = verdict.separate_bytes;
  advice.fused_bytes = verdict.fused_bytes;
  return advice;
}

}  // namespace tegula
