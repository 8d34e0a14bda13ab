#include "dsl/tuner.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iterator>
#include <map>
#include <mutex>
#include <span>

#include "codegen/compile.h"
#include "dsl/hooks.h"
#include "dsl/listing/prepared.h"
#include "dsl/shared_timing.h"
#include "dsl/specialize.h"
#include "dsl/timed_buffers.h"
#include "dsl/tuning_candidates.h"
#include "runtime/base/processors.h"
#include "runtime/memory.h"
#include "runtime/sealing.h"
#include "runtime/stream.h"
#include "runtime/timing_turns.h"
#include "runtime/tuning/fleet.h"
#include "runtime/tuning/search.h"

namespace tegula::dsl {

using detail::GridRef;
using detail::KernelState;

namespace {

[[noreturn]] void fail(const KernelSource& kernel, const std::string& message) {
  throw LaunchError(fmt::format("kernel '{}': {}", kernel.name(), message));
}

bool environment_says(std::string_view wanted) {
  const char* mode = std::getenv("TEGULA_TUNING");
  return mode && mode == wanted;
}

void check_environment(const KernelSource& kernel) {
  const char* mode = std::getenv("TEGULA_TUNING");
  if (mode && *mode && !environment_says("pinned") && !environment_says("all") && !environment_says("any"))
    fail(kernel, fmt::format("TEGULA_TUNING is '{}', expected 'pinned', 'all' or 'any'", mode));
}

std::string value_text(const LaunchArgs::Value& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, PointerArg>)
          return v.address ? "pointer" : "None";
        else
          return to_string(Constexpr(v));
      },
      value);
}

// Types, and the values of key arguments and of constexprs that are not tuned.
TuningProblem describe_problem(const KernelState& state, const Device& device, const LaunchOptions& options,
                               std::span<const Arg> args) {
  const std::vector<std::string>& key = state.autotune->key;
  LaunchArgs view = launch_args(*state.source, args, options);
  std::string values;
  for (const std::string& name : key)
    if (const auto* value = view.find(name)) values += fmt::format(" {}={}", name, value_text(*value));
  for (const ConstexprArg& c : options.constexprs)
    if (std::find(key.begin(), key.end(), c.name) == key.end())
      values += fmt::format(" {}={}", c.name, to_string(c.value));
  const std::vector<ArgType> types = tuned_types(classify(*state.source, options, args));
  std::string identity = state.source->identity();
  const DeviceInfo& info = device.info();
  return {state.name() + (identity.empty() ? "" : " " + content_key({identity}).substr(0, 16)),
          fmt::format("{} |{}", types_text(types), values), info.name,
          fmt::format("driver {}, {}", info.driver_version, compiler_version())};
}

std::string chosen_key(const TuningProblem& problem) { return problem.gpu + "\n" + problem.key; }

class Tuning {
  static constexpr size_t kMaxNamed = 10;    ///< configurations in one warning
  static constexpr size_t kFewestTimed = 3;  ///< whatever the model says

 public:
  Tuning(KernelState& state, Device& device, GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
         const TuneOptions& how)
      : launch_{state, device, grid, options, args, classify(*state.source, options, args), ProcessorSlot::next_turn()},
        how_(how) {}

  TuneReport run() {
    auto start = std::chrono::steady_clock::now();
    check_environment(*launch_.state.source);
    candidates_ = candidates_of(launch_);
    report_.problem = describe_problem(launch_.state, launch_.device, launch_.options, launch_.args);
    bool pinned = how_.mode == TuneOptions::Mode::Pinned || environment_says("pinned") || !may_compile();
    if (launch_.device.info().emulator) {
      const Candidate& best = environment_says("any") ? any_that_works() : best_predicted();
      choose(best);
      reset(best);
      for (const Candidate& c : candidates_) {
        if (c.no_grid.empty() && c.unusable.empty()) continue;
        TuningResult& r = report_.results.emplace_back();
        r.config = c.id;
        r.status = TuningResult::Status::Failed;
        r.reason = c.no_grid.empty() ? c.unusable : c.no_grid;
      }
      warn_of_failed();
    } else if (pinned) {
      choose_known();
    } else if (how_.mode == TuneOptions::Mode::Refresh || !remembered()) {
      measure();
    }
    report_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return std::move(report_);
  }

 private:
  // Names the configurations that are left out because they do not work, unless none does.
  void warn_of_failed() const {
    std::vector<const TuningResult*> failed;
    for (const TuningResult& r : report_.results)
      if (r.status == TuningResult::Status::Failed) failed.push_back(&r);
    const size_t tried = launch_.device.info().emulator ? candidates_.size() : report_.results.size();
    if (failed.empty() || failed.size() == tried) return;
    std::string text = fmt::format("kernel '{}': {} of {} configurations do not work and are left out",
                                   launch_.state.name(), failed.size(), tried);
    for (size_t i = 0; i < failed.size() && i < kMaxNamed; ++i)
      text += fmt::format("\n  {}: {}", failed[i]->config, failed[i]->reason.substr(0, failed[i]->reason.find('\n')));
    if (failed.size() > kMaxNamed) text += fmt::format("\n  ... and {} more", failed.size() - kMaxNamed);
    launch_.state.tell_once(MessageKind::Warning, text);
  }

  // Of all of them, those too that do not work, unless `alone`.
  const Candidate& best_predicted(bool alone = false) {
    rank(launch_, candidates_, {.most = alone ? size_t(1) : 0});
    return candidates_.front();
  }

  // The same one each time for a problem, and another one for other problems: tests come to many configurations so, for
  // the time that one of them takes.
  const Candidate& any_that_works() {
    const std::string digest = content_key({launch_.state.name(), report_.problem.key});
    return first_that_works(launch_, candidates_, std::stoull(digest.substr(0, 8), nullptr, 16) % candidates_.size());
  }

  const Candidate* find(std::string_view id) const {
    for (const Candidate& c : candidates_)
      if (c.id == id) return &c;
    return nullptr;
  }

  void choose(const Candidate& c) {
    {
      std::lock_guard lock(launch_.state.mutex);
      launch_.state.chosen[chosen_key(report_.problem)] = c.declared;
    }
    report_.best = c.config;
    report_.declared = c.declared;
    report_.winner = c.id;
  }

  std::vector<TuningResult> known() {
    std::vector<TuningResult> all =
        launch_.state.store ? launch_.state.store->results(report_.problem) : std::vector<TuningResult>();
    std::erase_if(all, [&](const TuningResult& r) { return !find(r.config); });
    return all;
  }

  void choose_known() {
    report_.results = known();
    auto winner = launch_.state.store ? launch_.state.store->winner(report_.problem) : std::nullopt;
    const Candidate* best = winner ? find(*winner) : nullptr;
    double least = INFINITY;
    for (const TuningResult& r : report_.results)
      if (!best && r.status == TuningResult::Status::Timed && r.median_us() < least) least = r.median_us();
    for (const TuningResult& r : report_.results)
      if (!best && r.status == TuningResult::Status::Timed && r.median_us() == least) best = find(r.config);
    choose(best ? *best : best_predicted(true));
  }

  // Leaves one of the candidates that become the same code: the first one, or the incumbent.
  void erase_twins(const std::string& incumbent) {
    std::map<std::string, std::string> first;
    for (const Candidate& c : candidates_)
      if (!c.code.empty() && (!first.contains(c.code) || c.id == incumbent)) first[c.code] = c.id;
    std::erase_if(candidates_, [&](const Candidate& c) {
      if (c.code.empty() || first.at(c.code) == c.id) return false;
      twins_.emplace_back(c.id, first.at(c.code));
      return true;
    });
  }

  // Puts the model's best few, with the incumbent, ahead of the others that work, which are the reserve.
  void shorten(const std::string& incumbent) {
    erase_twins(incumbent);
    const size_t most = most_timed(), near = most_timed_by_prediction();
    std::vector<Candidate> best, others;
    for (size_t at = 0; at < candidates_.size(); ++at) {
      Candidate& c = candidates_[at];
      if (c.id == incumbent || ((most == 0 || at < most) && at < near))
        best.push_back(std::move(c));
      else if (std::isfinite(c.predicted_us))
        others.push_back(std::move(c));
    }
    reserve_ = others.size();
    candidates_ = std::move(best);
    std::ranges::move(others, std::back_inserter(candidates_));
  }

  // The reserve in the model's order, which so far may be that of bounds. The candidates ahead of it stay where they
  // are.
  std::vector<SearchCandidate> rank_reserve(const std::string& incumbent) {
    const size_t first = begun().size();
    rank_bounded(launch_, std::span(candidates_).subspan(first));
    while (candidates_.size() > first && !std::isfinite(candidates_.back().predicted_us)) candidates_.pop_back();
    erase_twins(incumbent);
    std::vector<SearchCandidate> reserve;
    for (const Candidate& c : std::span(candidates_).subspan(first))
      reserve.push_back({c.id, c.predicted_us, c.surely_spills});
    reserve_ = reserve.size();
    return reserve;
  }

  std::span<const Candidate> begun() const { return std::span(candidates_).first(candidates_.size() - reserve_); }

  Wanted wanted(const std::string& incumbent) const {
    return {most_timed(), environment_says("all") ? 0 : launch_.state.autotune->within, kFewestTimed, incumbent};
  }

  /// 0: all.
  size_t most_timed() const { return environment_says("all") ? 0 : size_t(launch_.state.autotune->top_k); }

  // How many of the ranked candidates the model has near enough to the first one.
  size_t most_timed_by_prediction() const {
    const double within = launch_.state.autotune->within;
    if (environment_says("all") || within <= 0) return candidates_.size();
    const double limit = within * candidates_.front().predicted_us;
    const auto near = std::ranges::count_if(candidates_, [&](const Candidate& c) { return c.predicted_us <= limit; });
    return std::max(kFewestTimed, size_t(near));
  }

  // What was found out about a candidate holds for those with its code too.
  void store_twins() {
    if (!launch_.state.store) return;
    for (const auto& [id, timed] : twins_)
      for (const TuningResult& r : report_.results) {
        if (r.config != timed) continue;
        TuningResult same = r;
        same.config = id;
        launch_.state.store->put(report_.problem, same);
      }
  }

  // Whether a winner is known that is one of these candidates, of which as many were timed as tuning times at least.
  bool remembered() {
    if (!launch_.state.store) return false;
    auto winner = launch_.state.store->winner(report_.problem);
    const Candidate* best = winner ? find(*winner) : nullptr;
    if (!best) return false;
    std::vector<TuningResult> rows = known();
    size_t enough = candidates_.size();
    if (const size_t most = most_timed(); most > 0) enough = std::min(enough, most);
    if (launch_.state.autotune->within > 0 && !environment_says("all")) enough = std::min(enough, kFewestTimed);
    if (rows.size() < enough) return false;
    report_.results = std::move(rows);
    choose(*best);
    return true;
  }

  void measure() {
    if (launch_.device.is_capturing(launch_.options.stream))
      fail(*launch_.state.source,
           "its configuration is not known yet, and it cannot be tuned while its stream is captured into a graph\n  "
           "hint: "
           "launch it once, or call tune(), before the capture");
    const bool shared = share_timing();
    std::optional<TuningStore::Claim> claim;
    if (launch_.state.store) {
      claim = launch_.state.store->claim(report_.problem);
      if (how_.mode != TuneOptions::Mode::Refresh && remembered()) return;  // another process was first
    }
    std::vector<TuningResult> rows;
    SearchOptions search_options;
    if (how_.mode != TuneOptions::Mode::Refresh) {
      rows = known();
      if (launch_.state.store) search_options.incumbent = launch_.state.store->winner(report_.problem).value_or("");
    }
    if (rows.size() < begun().size()) {
      rank_candidates(search_options.incumbent);
      shorten(search_options.incumbent);
    } else {
      make_grids(launch_, candidates_);
    }
    if (!how_.more_devices.empty() && has_hooks())
      fail(*launch_.state.source,
           "other GPUs cannot share the work: its hooks know the arguments of this launch alone");
    add_worker(launch_.device, launch_.options.stream, {launch_.args.begin(), launch_.args.end()});
    for (Device* device : how_.more_devices)
      add_worker(*device, nullptr, copies_.on(*device, launch_.state, launch_.device, launch_.options, launch_.args));
    if (shared) search_options.end = SearchOptions::End::Compare;
    std::vector<const Candidate*> first;
    for (const Candidate& c : begun()) first.push_back(&c);
    const std::string incumbent = search_options.incumbent;
    if (reserve_ > 0) search_options.reserve = [this, incumbent] { return rank_reserve(incumbent); };
    SearchOutcome outcome = search_among(first, rows, search_options);
    workers_.clear();
    report_.results = std::move(outcome.results);
    report_.timed += outcome.timed;
    if (outcome.best < 0) fail_as_none_works(*launch_.state.source, report_.results);
    warn_of_failed();
    store_twins();
    const Candidate* best = find(report_.results[size_t(outcome.best)].config);
    choose(*best);
    // The launch finds what was timed: to make it ready again may take the driver's assembler.
    if (auto made = prepared_.find(best); made != prepared_.end())
      launch_.state.keep(launch_.device, best->types, best->options, *made->second);
    if (launch_.state.store) launch_.state.store->set_winner(report_.problem, best->id);
    reset(*best);
  }

  // Among some of the candidates, behind which the reserve stands if it is used.
  SearchOutcome search_among(const std::vector<const Candidate*>& some, const std::vector<TuningResult>& rows,
                             SearchOptions options) {
    std::vector<std::string> ids;
    std::vector<double> predicted;
    for (const Candidate* c : some) {
      ids.push_back(c->id);
      predicted.push_back(c->predicted_us);
      options.surely_spills.push_back(c->surely_spills);
    }
    options.compile_threads = how_.compile_threads;
    options.turn = launch_.turn;
    options.warmup_ms = launch_.state.autotune->warmup_ms;
    options.rep_ms = launch_.state.autotune->rep_ms;
    options.progress = how_.progress;
    options.workers = int(workers_.size());
    SearchOutcome outcome = search(
        ids, predicted, rows, [&](size_t i) { return prepare(i < some.size() ? *some[i] : candidates_[i]); },
        [&](const TuningResult& r) {
          if (launch_.state.store && !hook_error_) launch_.state.store->put(report_.problem, r);
        },
        options);
    if (hook_error_) std::rethrow_exception(hook_error_);
    return outcome;
  }

  // Whether processes of a job, each on a GPU of its own, have timed the candidates together.
  bool share_timing() {
    const int processes = processes_of_job();
    if (processes < 2 || !launch_.state.store || how_.mode == TuneOptions::Mode::Refresh || has_hooks()) return false;
    const std::string incumbent = launch_.state.store->winner(report_.problem).value_or("");
    rank_candidates(incumbent);
    shorten(incumbent);
    add_worker(launch_.device, launch_.options.stream, {launch_.args.begin(), launch_.args.end()});
    SearchOptions timing;
    timing.end = SearchOptions::End::Time;
    const auto is_chosen = [&] { return remembered(); };
    const auto open = [&] { return without_result(); };
    const auto measure = [&](const std::vector<std::string>& ids) {
      std::vector<const Candidate*> some;
      for (const std::string& id : ids) some.push_back(find(id));
      report_.timed += search_among(some, {}, timing).timed;
    };
    measure_beside_others({*launch_.state.store, report_.problem, is_chosen, open, measure}, processes);
    workers_.clear();
    return true;
  }

  std::vector<std::string> without_result() {
    const std::vector<TuningResult> rows = known();
    std::vector<std::string> open;
    for (const Candidate& c : begun())
      if (std::ranges::none_of(rows, [&](const TuningResult& r) { return r.config == c.id; })) open.push_back(c.id);
    return open;
  }

  PreparedCandidate prepare(const Candidate& c) {
    if (!c.no_grid.empty()) throw LaunchError(c.no_grid);
    PreparedCandidate out;
    out.facts.config = c.id;
    out.facts.predicted_us = c.predicted_us;
    auto handle = std::make_shared<LaunchHandle>(launch_.state.load(launch_.device, c.types, c.options));
    out.facts.registers = handle->image().registers;
    out.facts.spill_bytes = handle->image().spill_bytes;
    out.facts.shared_bytes = handle->image().shared_bytes;
    for (const FewerStages& loop : handle->image().fewer_stages)
      out.facts.reason = fmt::format("{} of {} stages", loop.given, loop.asked);
    {
      std::lock_guard lock(prepared_mutex_);
      prepared_[&c] = handle;
    }
    launch_.state.note_timed(launch_.device, *handle);
    auto handles = std::make_shared<std::vector<std::shared_ptr<LaunchHandle>>>(workers_.size());
    (*handles)[0] = handle;
    out.launches = launches_of_run(*workers_[0], c);
    out.time = [this, handles, &c](int runs, int worker) {
      auto& mine = (*handles)[size_t(worker)];
      Worker& w = *workers_[size_t(worker)];
      if (!mine) mine = std::make_shared<LaunchHandle>(launch_.state.load(w.device, c.types, c.options));
      return time(w, *mine, c, runs);
    };
    return out;
  }

  /// A device that candidates are timed on, with the arguments of the launch in its memory.
  struct Worker {
    Worker(const KernelState& state, Device& device, const LaunchOptions& options, StreamHandle stream,
           std::vector<Arg> arguments)
        : device(device), stream(stream), args(std::move(arguments)), buffers(state, device, options, args, stream) {
      if (device.info().l2_bytes > 0) flush = Buffer(device, size_t(2 * device.info().l2_bytes));
    }
    Device& device;
    StreamHandle stream;
    std::vector<Arg> args;
    TimedBuffers buffers;
    Buffer flush;
  };

  void add_worker(Device& device, StreamHandle stream, std::vector<Arg> args) {
    if (device.info().name != launch_.device.info().name)
      fail(*launch_.state.source, fmt::format("GPUs of one kind share the work of tuning, found {} and {}",
                                              launch_.device.info().name, device.info().name));
    workers_.push_back(std::make_unique<Worker>(launch_.state, device, launch_.options, stream, std::move(args)));
  }

  std::vector<double> time(Worker& w, const LaunchHandle& handle, const Candidate& c, int runs) {
    // Others wait for nothing that hooks launch and tune: a hook runs outside of the turn.
    std::unique_lock turn(w.device.timing_turns(), std::defer_lock);
    if (!is_hooked(c)) turn.lock();
    std::vector<Event> starts, stops;
    for (int i = 0; i < runs; ++i) {
      starts.emplace_back(w.device);
      stops.emplace_back(w.device);
    }
    for (size_t i = 0; i < size_t(runs); ++i) {
      w.buffers.before_run();
      if (is_hooked(c))
        run_hooked(w, handle, c, starts[i], stops[i]);
      else
        run(w, handle, c, w.args, starts[i], stops[i]);
    }
    w.device.synchronize(w.stream);
    const double launches = launches_of_run(w, c);
    std::vector<double> us;
    for (int i = 0; i < runs; ++i) us.push_back(1000 * stops[size_t(i)].ms_since(starts[size_t(i)]) / launches);
    return us;
  }

  /// Launches between the events of a run. In a program's step a kernel starts under the end of the one before, which
  /// one launch alone does not show; the first of the row finds a cold L2 cache. Neither matters where launches take
  /// long: these are launched once, and so is what has to be prepared.
  int launches_of_run(const Worker& w, const Candidate& c) const {
    constexpr int kRow = 3;
    return takes_long_ || is_hooked(c) || w.buffers.any() ? 1 : kRow;
  }

  void rank_candidates(const std::string& incumbent) {
    constexpr double kLong = 100;  // microseconds
    rank(launch_, candidates_, wanted(incumbent));
    const double least = candidates_.front().predicted_us;
    takes_long_ = std::isfinite(least) && least > kLong;
  }

  void run(Worker& w, const LaunchHandle& handle, const Candidate& c, std::span<const Arg> args, Event& start,
           Event& stop) {
    w.flush.fill(uint8_t(++runs_), w.stream);
    start.record(w.stream);
    for (int i = 0; i < launches_of_run(w, c); ++i) handle.launch(w.stream, c.grid, args);
    stop.record(w.stream);
  }

  // ---- Hooks

  bool is_hooked(const Candidate& c) const {
    return c.declared.pre_hook || launch_.state.autotune->pre_hook || launch_.state.autotune->post_hook;
  }

  bool has_hooks() const {
    return std::any_of(candidates_.begin(), candidates_.end(), [&](const Candidate& c) { return is_hooked(c); });
  }

  // A candidate's errors are told and leave the others; those of hooks end the tuning.
  template <class Call>
  void call_hook(Call call) {
    try {
      call();
    } catch (...) {
      hook_error_ = std::current_exception();
      throw LaunchError("a hook fails");
    }
  }

  void run_hooked(Worker& w, const LaunchHandle& handle, const Candidate& c, Event& start, Event& stop) {
    const Autotune& tuning = *launch_.state.autotune;
    HookedLaunch launch(*launch_.state.source, w.device, w.stream, w.args, c.config);
    call_hook([&] {
      if (c.declared.pre_hook) c.declared.pre_hook(launch);
      if (tuning.pre_hook) tuning.pre_hook(launch, false);
    });
    auto after = [&](const char* error) {
      if (tuning.post_hook) call_hook([&] { tuning.post_hook(launch, error); });
    };
    try {
      std::lock_guard turn(w.device.timing_turns());
      run(w, handle, c, launch.values(), start, stop);
      w.device.synchronize(w.stream);
    } catch (const std::exception& e) {
      after(e.what());
      throw;
    }
    after(nullptr);
  }

  // The arguments as the launch is to find them, now that the choice is made.
  void reset(const Candidate& best) {
    if (!launch_.state.autotune->pre_hook) return;
    HookedLaunch launch(*launch_.state.source, launch_.device, launch_.options.stream, launch_.args, best.config);
    launch_.state.autotune->pre_hook(launch, true);
  }

  TunedLaunch launch_;
  const TuneOptions& how_;

  std::vector<Candidate> candidates_;
  size_t reserve_ = 0;  ///< of the candidates the last ones, which are timed in the place of others that do not work
  bool takes_long_ = false;                                 ///< by the model, whatever the candidate
  std::vector<std::pair<std::string, std::string>> twins_;  ///< candidates and those that were timed in their place
  BufferCopies copies_;                                     ///< on other devices; outlive the workers
  std::vector<std::unique_ptr<Worker>> workers_;
  std::mutex prepared_mutex_;
  std::map<const Candidate*, std::shared_ptr<LaunchHandle>> prepared_;  ///< on the launch's device
  std::exception_ptr hook_error_;
  std::atomic<unsigned> runs_{0};
  TuneReport report_;
};

}  // namespace

std::string tuned_alone(const KernelState& state, const Device& device, const LaunchOptions& options,
                        std::span<const Arg> args) {
  return chosen_key(describe_problem(state, device, options, args));
}

std::optional<Config> chosen_before(KernelState& state, const Device& device, const LaunchOptions& options,
                                    std::span<const Arg> args) {
  const std::string key = tuned_alone(state, device, options, args);
  std::lock_guard lock(state.mutex);
  auto it = state.chosen.find(key);
  if (it == state.chosen.end()) return std::nullopt;
  return it->second;
}

std::optional<Config> listed_choice(KernelState& state, const Device& device, const LaunchOptions& options,
                                    std::span<const Arg> args) {
  const PreparedKernels& prepared = PreparedKernels::of_process();
  const TuningProblem problem = describe_problem(state, device, options, args);
  std::optional<std::string> wanted;
  if (!prepared.empty())
    if (const std::string key = choice_key(*state.source, problem.gpu, problem.key); !key.empty())
      wanted = prepared.choice(key);
  {
    std::lock_guard lock(state.mutex);
    if (auto it = state.listed_choices.find(chosen_key(problem)); it != state.listed_choices.end()) wanted = it->second;
  }
  if (!wanted) return std::nullopt;
  for (const Config& config : state.autotune->configs)
    if (options_text(with_heuristics(state, args, options_of(config, options))) == *wanted) return config;
  return std::nullopt;
}

TuningProblem problem_of(const KernelState& state, const Device& device, const LaunchOptions& options,
                         std::span<const Arg> args) {
  return describe_problem(state, device, options, args);
}

void fail_as_none_works(const KernelSource& kernel, const std::vector<TuningResult>& failed) {
  std::string reasons;
  for (const TuningResult& r : failed) reasons += fmt::format("\n  {}: {}", r.config, r.reason);
  fail(kernel, fmt::format("none of its {} configurations works{}", failed.size(), reasons));
}

TuneReport tune(KernelState& state, Device& device, GridRef grid, const LaunchOptions& options,
                std::span<const Arg> args, const TuneOptions& tuning) {
  if (sealed())
    throw LaunchError(fmt::format(
        "kernel '{}' has no configuration for these arguments yet, and the process is sealed: nothing is tuned\n"
        "  hint: run this launch once with TEGULA_RECORD=app.list, and prewarm() that list before seal()",
        state.name()));
  return Tuning(state, device, grid, options, args, tuning).run();
}

}  // namespace tegula::dsl
