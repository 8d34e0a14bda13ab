#include "dsl/tuning_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <set>
#include <thread>

#include "codegen/analysis/cost.h"
#include "codegen/compile.h"
#include "codegen/ir/printer.h"
#include "dsl/hooks.h"
#include "dsl/specialize.h"
#include "dsl/tuner.h"
#include "runtime/base/error.h"
#include "runtime/base/processors.h"

namespace tegula::dsl {

namespace {

constexpr double kSurelyTooMany = 1.5;  ///< times the registers that there are, by the model

// Tile IR tells apart kernels that have no text.
void identify(const TunedLaunch& launch, Candidate& c) {
  if (!launch.state.source->identity().empty()) return;
  try {
    c.id += " @" + content_key({ir::print(*launch.state.build(c.types, c.options))}).substr(0, 12);
  } catch (const CompileError&) {  // told when it is compiled
  }
}

// Behind the pipeline the number of stages asked for shows in nothing but what was made of it.
std::string code_of(ir::Func& func) {
  const ir::Attrs attrs = func.attrs;
  func.attrs.erase("num_stages");
  std::string code = content_key({ir::print(func)});
  func.attrs = attrs;
  return code;
}

LaidOut lay_out_candidate(const TunedLaunch& launch, const Candidate& c, std::span<const ArgType> types,
                          const Target& target) {
  Diagnostics diags = launch.state.source->diagnostics();
  LaidOut out;
  if (std::unique_ptr<ir::Func> func = lay_out(*launch.state.build(types, c.options, target.sm), target, diags)) {
    if (!launch.device.info().emulator) out.code = code_of(*func);
    out.func = std::move(func);
  } else {
    out.unusable = diags.render();
  }
  return out;
}

// What the model takes of this launch beside a candidate's code.
CostInputs cost_inputs(const TunedLaunch& launch) {
  CostInputs inputs;
  inputs.device = &launch.device.info();
  const LaunchArgs named = launch_args(*launch.state.source, launch.args, launch.options);
  const auto params = runtime_params(*launch.state.source, launch.options, launch.args.size());
  for (size_t i = 0; i < launch.args.size(); ++i)
    if (const Arg& arg = launch.args[i]; arg.kind == Arg::Kind::Pointer && arg.u)
      inputs.array_bytes[params[i]->name] = int64_t(arg.bytes ? arg.bytes : launch.device.allocated_bytes(arg.u));
  for (const auto& [name, value] : named.items())
    if (const auto* i = std::get_if<int64_t>(&value)) inputs.arguments[name] = *i;
  return inputs;
}

// Fills in what the model says of a candidate, or why no tile IR is made of it. Threads call it for candidates of their
// own.
void predict(const TunedLaunch& launch, Candidate& c, CostInputs inputs) {
  c.predicted_us = INFINITY;
  try {
    const Target& target = target_for_sm(launch.device.info().sm);
    inputs.programs = int64_t(c.grid.x) * c.grid.y * c.grid.z;
    inputs.grid = {c.grid.x, c.grid.y, c.grid.z};
    if (!c.no_grid.empty()) return;
    // How far beyond 16 values are divisible changes no code that matters; below, it decides about copies.
    std::vector<ArgType> types = c.types;
    for (ArgType& type : types) type.divisible_by = std::min<int64_t>(type.divisible_by, 16);
    auto make = [&] { return lay_out_candidate(launch, c, types, target); };
    // What a kernel without text builds need not be the same each time.
    const LaidOut made =
        launch.state.source->identity().empty()
            ? make()
            : launch.state.laid_out.get(fmt::format("{} {}", target.name, specialization_text(types, c.options)), make);
    if (made.func) {
      const CostEstimate cost = estimate_cost(*made.func, target, inputs);
      c.predicted_us = cost.predicted_us;
      if (cost.dot_flops > 0 && cost.registers > kSurelyTooMany * cost.register_limit)
        c.surely_spills =
            fmt::format("about {} registers a thread, of {}: not tried", cost.registers, cost.register_limit);
      if (!c.declared.pre_hook && !made.code.empty())
        c.code = fmt::format("{} {} {} {}", made.code, c.grid.x, c.grid.y, c.grid.z);
    } else {
      c.unusable = made.unusable;
    }
  } catch (const std::exception& e) {  // of ours: no other thread may see it
    c.unusable = e.what();
  }
}

// Configurations of clusters stand in texts for the GPUs that have these: elsewhere nothing is wrong, unless all are
// so.
void leave_out_clusters(const TunedLaunch& launch, std::vector<Candidate>& candidates) {
  if (target_for_sm(launch.device.info().sm).has(Feature::Cluster)) return;
  auto asks = [](const Candidate& c) { return c.options.num_ctas > 1; };
  if (!std::all_of(candidates.begin(), candidates.end(), asks)) std::erase_if(candidates, asks);
}

}  // namespace

std::vector<ArgType> tuned_types(std::vector<ArgType> types) {
  for (ArgType& type : types) type.divisible_by = type.divisible_by >= 16 ? 16 : 1;
  return types;
}

std::vector<Candidate> candidates_of(const TunedLaunch& launch) {
  const KernelSource& source = *launch.state.source;
  const Autotune& tuning = *launch.state.autotune;
  const LaunchArgs view = launch_args(source, launch.args, launch.options);
  std::vector<Config> configs = tuning.prune ? tuning.prune(tuning.configs, view) : tuning.configs;
  if (configs.empty())
    throw LaunchError(fmt::format("kernel '{}': no configuration is left after pruning", source.name()));
  std::vector<Candidate> candidates;
  std::set<std::string> seen;
  for (const Config& config : configs) {
    Candidate c;
    c.options = with_heuristics(launch.state, launch.args, options_of(config, launch.options));
    c.config = config_of(c.options);
    c.declared = config;
    c.id = config.to_string();
    if (!seen.insert(c.id).second) continue;
    c.types = launch.types;
    if (config.pre_hook) {
      HookedLaunch hooked(source, launch.device, launch.options.stream, launch.args, c.config);
      config.pre_hook(hooked);
      c.types = classify(source, launch.options, hooked.values());
    }
    identify(launch, c);
    candidates.push_back(std::move(c));
  }
  leave_out_clusters(launch, candidates);
  return candidates;
}

void make_grids(const TunedLaunch& launch, std::vector<Candidate>& candidates) {
  for (Candidate& c : candidates) try {
      c.grid = launch.grid(c.config);
    } catch (const std::exception& e) {
      c.no_grid = e.what();
    }
}

void rank(const TunedLaunch& launch, std::vector<Candidate>& candidates) {
  make_grids(launch, candidates);
  const CostInputs inputs = cost_inputs(launch);
  std::atomic<size_t> next{0};
  auto work = [&] {
    for (size_t i; (i = next++) < candidates.size();) {
      ProcessorSlot slot(launch.turn);
      predict(launch, candidates[i], inputs);
    }
  };
  unsigned threads = std::min(processors(), unsigned(candidates.size()));
  std::vector<std::thread> others;
  for (unsigned i = 1; i < threads; ++i) others.emplace_back(work);
  work();
  for (std::thread& t : others) t.join();
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& a, const Candidate& b) { return a.predicted_us < b.predicted_us; });
}

const Candidate& first_that_works(const TunedLaunch& launch, std::vector<Candidate>& candidates, size_t first) {
  make_grids(launch, candidates);
  for (size_t i = 0; i < candidates.size(); ++i) {
    Candidate& c = candidates[(first + i) % candidates.size()];
    if (!c.no_grid.empty()) continue;
    try {
      launch.state.handle_for(launch.device, c.types, c.options);
      return c;
    } catch (const std::exception& e) {
      c.unusable = e.what();
    }
  }
  return candidates.front();
}

}  // namespace tegula::dsl
