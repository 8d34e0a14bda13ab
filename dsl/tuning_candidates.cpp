#include "dsl/tuning_candidates.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <mutex>
#include <set>
#include <thread>
#include <tuple>
#include <utility>

#include "codegen/analysis/cost.h"
#include "codegen/analysis/cost_bound.h"
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

/// What the model says of the candidates of one launch. Threads call it for candidates of their own.
class Model {
 public:
  /// `in_parts`: functions are laid out from what bounds were found of.
  Model(const TunedLaunch& launch, CostInputs inputs, bool in_parts)
      : launch_(launch),
        inputs_(std::move(inputs)),
        target_(target_for_sm(launch.device.info().sm)),
        // What a kernel without text builds need not be the same each time.
        is_same_each_time_(!launch.state.source->identity().empty()),
        in_parts_(in_parts && is_same_each_time_) {}

  /// Fills in a bound of the time, as far as one is known.
  void bound(Candidate& c) const {
    c.predicted_us = 0;
    c.only_bounded = true;
    if (!in_parts_ || !c.no_grid.empty()) return;
    try {
      const std::vector<ArgType> types = types_for_model(c);
      const Staged staged = staged_of(c, types);
      if (staged.func) c.predicted_us = least_us(*staged.func, *staged.axis, target_, inputs_of(c));
    } catch (const std::exception&) {  // told by predict()
    }
  }

  /// Fills in the time, or why no tile IR is made of the candidate.
  void predict(Candidate& c) const {
    c.predicted_us = INFINITY;
    c.only_bounded = false;
    if (!c.no_grid.empty()) return;
    try {
      const std::vector<ArgType> types = types_for_model(c);
      auto make = [&] { return lay_out_candidate(c, types); };
      const LaidOut made = is_same_each_time_ ? launch_.state.laid_out.get(key_of(c, types), make) : make();
      if (!made.func) {
        c.unusable = made.unusable;
        return;
      }
      const CostEstimate cost = estimate_cost(*made.func, target_, inputs_of(c));
      c.predicted_us = cost.predicted_us;
      if (cost.dot_flops > 0 && cost.registers > kSurelyTooMany * cost.register_limit)
        c.surely_spills =
            fmt::format("about {} registers a thread, of {}: not tried", cost.registers, cost.register_limit);
      if (!c.declared.pre_hook && !made.code.empty())
        c.code = fmt::format("{} {} {} {}", made.code, c.grid.x, c.grid.y, c.grid.z);
    } catch (const std::exception& e) {  // of ours: no other thread may see it
      c.unusable = e.what();
    }
  }

 private:
  // How far beyond 16 values are divisible changes no code that matters; below, it decides about copies.
  static std::vector<ArgType> types_for_model(const Candidate& c) {
    std::vector<ArgType> types = c.types;
    for (ArgType& type : types) type.divisible_by = std::min<int64_t>(type.divisible_by, 16);
    return types;
  }

  std::string key_of(const Candidate& c, std::span<const ArgType> types) const {
    return fmt::format("{} {}", target_.name, specialization_text(types, c.options));
  }

  CostInputs inputs_of(const Candidate& c) const {
    CostInputs inputs = inputs_;
    inputs.programs = int64_t(c.grid.x) * c.grid.y * c.grid.z;
    inputs.grid = {c.grid.x, c.grid.y, c.grid.z};
    return inputs;
  }

  Staged staged_of(const Candidate& c, std::span<const ArgType> types) const {
    return launch_.state.staged.get(key_of(c, types), [&] {
      Diagnostics diags = launch_.state.source->diagnostics();
      Staged out{stage_products(*launch_.state.build(types, c.options, target_.sm), target_, diags), {}, {}};
      if (out.func)
        out.axis = std::make_shared<AxisAnalysis>(*out.func);
      else
        out.unusable = diags.render();
      return out;
    });
  }

  LaidOut lay_out_candidate(const Candidate& c, std::span<const ArgType> types) const {
    Diagnostics diags = launch_.state.source->diagnostics();
    std::unique_ptr<ir::Func> func;
    if (in_parts_) {
      const Staged staged = staged_of(c, types);
      if (!staged.func) return {{}, {}, staged.unusable};
      func = lay_out_staged(*staged.func, target_, diags);
    } else {
      func = lay_out(*launch_.state.build(types, c.options, target_.sm), target_, diags);
    }
    if (!func) return {{}, {}, diags.render()};
    LaidOut out;
    if (!launch_.device.info().emulator) out.code = code_of(*func);
    out.func = std::move(func);
    return out;
  }

  const TunedLaunch& launch_;
  const CostInputs inputs_;
  const Target& target_;
  const bool is_same_each_time_, in_parts_;
};

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

// Calls `work` by as many threads as there are processors, of which one holds each while it computes, until it returns
// false.
void in_parallel(const TunedLaunch& launch, size_t count, tegula::FunctionRef<bool()> work) {
  auto loop = [&] {
    bool more = true;
    while (more) {
      ProcessorSlot slot(launch.turn);
      more = work();
    }
  };
  std::vector<std::thread> others;
  for (size_t i = 1; i < std::min<size_t>(processors(), count); ++i) others.emplace_back(loop);
  loop();
  for (std::thread& t : others) t.join();
}

/// The times that are known, as far as they tell which others may be wanted.
class KnownTimes {
 public:
  explicit KnownTimes(const Wanted& wanted) : wanted_(wanted) {}

  void add(const Candidate& c) {
    if (!std::isfinite(c.predicted_us) || (!c.code.empty() && !codes_.insert(c.code).second)) return;
    times_.insert(std::ranges::upper_bound(times_, c.predicted_us), c.predicted_us);
  }
  /// What takes longer is not wanted.
  double limit() const {
    const double near = wanted_.within > 0 ? wanted_.within * time(1) : INFINITY;
    return std::min(time(wanted_.most), std::max(near, wanted_.fewest ? time(wanted_.fewest) : 0));
  }

 private:
  // The time of the one at this place; infinity if there are not so many.
  double time(size_t place) const { return place > 0 && place <= times_.size() ? times_[place - 1] : INFINITY; }

  const Wanted& wanted_;
  std::vector<double> times_;  // in order
  std::set<std::string> codes_;
};

// Whether one comes before another one. Stages beyond those that the model sees a use for still help as a rule: of 87
// pairs of products with equal predictions that differed by these alone, the one with more was faster in 77.
bool is_faster(const Candidate& a, const Candidate& b) {
  return std::tuple(a.predicted_us, -a.options.num_stages, a.number) <
         std::tuple(b.predicted_us, -b.options.num_stages, b.number);
}

// Predicts the candidates in the order of their bounds, until what is left is slower than what is wanted.
void predict_wanted(const TunedLaunch& launch, const Model& model, std::span<Candidate> candidates,
                    const Wanted& wanted) {
  KnownTimes known(wanted);
  std::mutex mutex;  // guards these two
  size_t next = 0;
  in_parallel(launch, candidates.size(), [&] {
    Candidate* mine = nullptr;
    {
      std::lock_guard lock(mutex);
      if (next == candidates.size() || candidates[next].predicted_us > known.limit()) return false;
      mine = &candidates[next++];
    }
    if (mine->only_bounded) model.predict(*mine);
    std::lock_guard lock(mutex);
    known.add(*mine);
    return true;
  });
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
    c.number = candidates.size();
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

void rank(const TunedLaunch& launch, std::vector<Candidate>& candidates, const Wanted& wanted) {
  make_grids(launch, candidates);
  const Model model(launch, cost_inputs(launch), !wanted.is_all());
  std::atomic<size_t> next{0};
  in_parallel(launch, candidates.size(), [&] {
    const size_t i = next++;
    if (i >= candidates.size()) return false;
    if (wanted.is_all() || candidates[i].id == wanted.besides)
      model.predict(candidates[i]);
    else
      model.bound(candidates[i]);
    return true;
  });
  std::ranges::sort(candidates, is_faster);
  if (wanted.is_all()) return;
  predict_wanted(launch, model, candidates, wanted);
  std::ranges::sort(candidates, is_faster);
}

void rank_bounded(const TunedLaunch& launch, std::span<Candidate> candidates) {
  const Model model(launch, cost_inputs(launch), true);
  std::atomic<size_t> next{0};
  in_parallel(launch, candidates.size(), [&] {
    const size_t i = next++;
    if (i >= candidates.size()) return false;
    if (candidates[i].only_bounded) model.predict(candidates[i]);
    return true;
  });
  std::ranges::sort(candidates, is_faster);
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
