#include "dsl/kernel.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "codegen/analysis/pointer_base.h"
#include "codegen/compile.h"
#include "codegen/ir/options.h"
#include "codegen/ir/printer.h"
#include "codegen/ir/verifier.h"
#include "codegen/ir/verify_steps.h"
#include "codegen/passes/roll_loops.h"
#include "codegen/target/target.h"
#include "dsl/explain.h"
#include "dsl/hooks.h"
#include "dsl/kernel_state.h"
#include "dsl/listing/assembler.h"
#include "dsl/listing/prepared.h"
#include "dsl/listing/record.h"
#include "dsl/specialize.h"
#include "dsl/tuner.h"
#include "runtime/base/check.h"
#include "runtime/base/std_shared.h"
#include "runtime/kept.h"
#include "runtime/package/package.h"
#include "runtime/sealing.h"

namespace tegula {

using detail::GridRef;
using detail::KernelState;

namespace {

std::shared_ptr<TuningStore> process_store() {
  static auto store = std::make_shared<TuningStore>();
  return store;
}

}  // namespace

// ---------------------------------------------------------------------------------------------------- KernelState

namespace detail {

struct TupleArgs::Forms {
  LaunchOptions options;
  std::vector<std::string> names;    ///< of the parameters that take arguments
  size_t next = 0;                   ///< of these
  std::vector<Arg> args;             ///< of the launch
  std::vector<ConstexprTuple> open;  ///< tuples whose end is still to come, the innermost last

  void add(Constexpr form) {
    if (!open.empty())
      open.back().items.push_back(std::move(form));
    else
      ++next;
  }
};

TupleArgs::TupleArgs(const std::vector<KernelParam>& params, const LaunchOptions& options)
    : forms_(Shared<Forms>::make()) {
  forms_->options = options;
  for (const KernelParam& p : params)
    if (!p.is_constexpr) forms_->names.push_back(p.name);
}

const LaunchOptions& TupleArgs::options() const { return forms_->options; }
std::span<const Arg> TupleArgs::args() const { return forms_->args; }

void TupleArgs::begin_tuple() { forms_->open.emplace_back(); }

void TupleArgs::end_tuple() {
  ConstexprTuple form = std::move(forms_->open.back());
  forms_->open.pop_back();
  const bool is_argument = forms_->open.empty();
  if (is_argument && forms_->next < forms_->names.size())
    forms_->options.constexprs.emplace_back(forms_->names[forms_->next], form);
  forms_->add(std::move(form));
}

void TupleArgs::add_none() { forms_->add(std::monostate()); }
void TupleArgs::add_known(Elem value) { forms_->add(value); }
void TupleArgs::add_known(std::string_view text) { forms_->add(std::string(text)); }
void TupleArgs::add_arg(const Arg& arg) {
  forms_->args.push_back(arg);
  forms_->add(NextArg());
}

void KernelState::read_declarations() {
  std::lock_guard lock(mutex);
  if (declarations_read) return;
  try {
    if (!autotune) {
      autotune = source->autotune();
      if (autotune) dsl::check_autotune(*source, *autotune);
    }
    if (heuristics.empty()) heuristics = source->heuristics();
    key_args = dsl::key_positions(*source, autotune ? &*autotune : nullptr, !heuristics.empty());
  } catch (const Error&) {
    autotune.reset();
    declaration_error = std::current_exception();
  }
  declarations_read.store(true, std::memory_order_release);
}

KernelState::TuningLock::TuningLock(KernelState& state, std::string problem)
    : state_(state), problem_(std::move(problem)) {
  std::unique_lock lock(state.tuning);
  const auto me = std::this_thread::get_id();
  if (std::ranges::any_of(state.tuners, [&](const auto& held) { return held.second == me; }))
    throw LaunchError(
        fmt::format("kernel '{}' is launched while it is being tuned, by a function that tuning calls\n  "
                    "hint: its grid, pruning, heuristic and progress functions and its hooks cannot launch it",
                    state.name()));
  state.tuned.wait(lock, [&] { return !state.tuners.contains(problem_); });
  state.tuners[problem_] = me;
}

KernelState::TuningLock::~TuningLock() {
  {
    std::lock_guard lock(state_.tuning);
    state_.tuners.erase(problem_);
  }
  state_.tuned.notify_all();
}

void KernelState::note_device(Device& device) {
  std::lock_guard lock(mutex);
  if (!devices.insert(&device).second) return;
  device.kept().before_end(weak_from_this(), [this, &device] {
    ready.drop(device);
    std::lock_guard lock(mutex);
    handles.drop(device);
    std::erase_if(timed, [&](const auto& handle) { return handle.first == &device; });
    devices.erase(&device);
  });
}

void KernelState::tell_once(MessageKind kind, const std::string& text) const {
  {
    std::lock_guard lock(telling);
    if (!told.insert(text).second) return;
  }
  tell(kind, text);
}

std::unique_ptr<ir::Func> KernelState::build(std::span<const ArgType> types, const LaunchOptions& options,
                                             int capability, bool* has_messages) const {
  dsl::check_options(*source, options);
  Diagnostics diags = source->diagnostics();
  std::vector<std::string> prints;
  dsl::Specialization spec = dsl::specialization(*source, types, options);
  spec.capability = capability;
  auto func = source->build(spec, diags, prints);
  if (!prints.empty()) tell_once(MessageKind::Print, fmt::format("{}", fmt::join(prints, "\n")));
  if (!func || diags.has_errors()) throw CompileError(diags);
  roll_loops(*func);
  Diagnostics broken;  // what is wrong now is no mistake of the user's
  TEGULA_CHECK(!ir::kVerifyEachStep || ir::verify(*func, ir::Stage::Tile, broken),
               "the front end made a wrong function of kernel '{}'\n{}", name(), broken.render());
  for (const Diag& d : diags.list()) tell_once(MessageKind::Warning, dsl::warning_text(d, source->diagnostics()));
  if (has_messages) *has_messages = !prints.empty() || diags.size() > 0;
  if (!options.dependent_launch || options.cooperative_grid) func->attrs["dependent_launch"] = false;
  if (options.cooperative_grid) func->attrs[std::string(ir::option::program_loop.name)] = int64_t(1);
  if (!options.enable_fp_fusion) func->attrs["fp_fusion"] = false;
  return func;
}

KernelImage KernelState::compile(const ir::Func& func, std::span<const ArgType> types, const LaunchOptions& launch,
                                 const Target& target, bool emulator) const {
  Diagnostics diags = source->diagnostics();
  CompileOptions options;
  options.target = target;
  options.emulator = emulator;
  auto image = tegula::compile(func, options, diags);
  if (!image || diags.has_errors()) throw CompileError(diags);
  auto params = dsl::runtime_params(*source, launch, types);
  for (size_t i = 0; i < types.size(); ++i)  // compiled in: a launch still gives them
    if (types[i].constant) image->constants.push_back({int(i), params[i]->name, types[i].pointer, *types[i].constant});
  return std::move(*image);
}

namespace {

[[noreturn]] void refuse_to_compile(const dsl::KernelSource& source, std::span<const ArgType> types,
                                    const LaunchOptions& options) {
  throw LaunchError(
      fmt::format("kernel '{}' is not ready for these arguments, and the process is sealed: nothing is compiled\n"
                  "  hint: add this line to the list that prewarm() or `tegula build --from` takes:\n  {}",
                  source.name(), dsl::line_of(source, {types.begin(), types.end()}, options)));
}

}  // namespace

namespace {

// Names the variants of one kernel that differ in facts about values alone.
std::string key_of_variants(std::span<const ArgType> types, const LaunchOptions& options) {
  return dsl::types_without_facts(types) + dsl::specialization_text({}, options);
}

}  // namespace

LaunchHandle KernelState::handle_for(Device& device, std::span<const ArgType> types, const LaunchOptions& options) {
  const std::string key = key_of_variants(types, options);
  {
    std::lock_guard lock(mutex);
    if (auto handle = handles.find(device, key, types)) return *handle;
  }
  LaunchHandle handle = load(device, types, options);
  keep(device, types, options, handle);
  return handle;
}

void KernelState::keep(Device& device, std::span<const ArgType> types, const LaunchOptions& options,
                       const LaunchHandle& handle) {
  const KernelImage& image = handle.image();
  if (std::string text = dsl::spill_warning(image.kernel, image.spill_bytes, image.num_warps); !text.empty())
    tell_once(MessageKind::Warning, text);
  if (std::string text = dsl::stages_warning(image); !text.empty()) tell_once(MessageKind::Warning, text);
  note_device(device);
  std::lock_guard lock(mutex);
  handles.put(device, key_of_variants(types, options), handle);
}

void KernelState::note_timed(Device& device, const LaunchHandle& handle) {
  constexpr size_t kMost = 32;
  note_device(device);
  std::optional<LaunchHandle> last;  // ends without the lock
  std::lock_guard lock(mutex);
  timed.emplace_back(&device, handle);
  if (timed.size() <= kMost) return;
  last = std::move(timed.front().second);
  timed.pop_front();
}

LaunchHandle KernelState::load(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const {
  const auto& prepared = dsl::PreparedKernels::of_process();
  const std::string prepared_key = prepared.empty() ? "" : dsl::variants_key(*source, types, options);
  if (!prepared.empty())
    if (auto handle = prepared.find(device, prepared_key, types)) return *handle;
  Shared<LoadedKernel> kernel = load_kernel(device, types, options);
  if (!kernel) {
    const auto listed = prepared.find_fitting(device, prepared_key, types);
    std::lock_guard lock(mutex);
    const auto own = handles.find_fitting(device, key_of_variants(types, options), types);
    if (!listed && !own) refuse_to_compile(*source, types, options);
    return !own || (listed && assumptions(listed->image()) >= assumptions(own->image())) ? *listed : *own;
  }
  if (kernel->image().tensor_maps.empty()) return LaunchHandle(std::move(kernel));
  // A state of its own: this one may hold the handle.
  auto state = std::make_shared<KernelState>();
  state->source = source;
  state->cache = cache;
  {
    std::lock_guard lock(telling);
    state->told = told;
  }
  LaunchOptions without = options;
  without.bulk_copies = 1;
  return LaunchHandle(std::move(kernel), [state, &device, types = std::vector(types.begin(), types.end()), without] {
    auto other = state->load_kernel(device, types, without);
    if (!other) refuse_to_compile(*state->source, types, without);
    return other;
  });
}

Shared<LoadedKernel> KernelState::load_kernel(Device& device, std::span<const ArgType> types,
                                              const LaunchOptions& options) const {
  dsl::check_options(*source, options);
  if (sealed()) return nullptr;
  const DeviceInfo& info = device.info();
  const Target& target = target_for_sm(info.sm);
  std::string spec = dsl::specialization_text(types, options);
  std::string platform = fmt::format("{} {} driver {} {}", target.name, compiler_version(), info.driver_version,
                                     info.emulator ? "emulator" : "gpu");
  std::string identity = source->identity();
  std::string source_key = identity.empty() ? "" : content_key({"source", identity, name(), spec, platform});
  const bool look = cache && !dump_requested();
  std::optional<ImageCache::Making> making;
  if (look && !source_key.empty()) {
    const auto find = [&] {
      auto image = cache->find(source_key);
      return image && !dsl::wants_ptxas(*image) ? std::move(image) : std::nullopt;
    };
    auto image = find();
    if (!image) {
      making.emplace(*cache, source_key);
      image = find();
    }
    if (image) return device.load(std::move(*image));
  }

  bool has_messages = false;  // then the kernel is checked again by the next process, which tells them again
  auto func = build(types, options, target.sm, &has_messages);
  std::string image_key = content_key({"image", ir::print(*func, {.locations = true}), spec, platform});
  std::optional<KernelImage> image = look ? cache->find(image_key) : std::nullopt;
  bool cached = image.has_value();
  if (!image && !may_compile()) return nullptr;
  if (!image) image = compile(*func, types, options, target, info.emulator);
  image->cooperative = options.cooperative_grid;
  // Of most kernels the driver's code is kept; what it hands out no code of is made by ptxas, where that is.
  const bool by_ptxas = cache && dsl::wants_ptxas(*image) && dsl::assemble_to_keep(*image);
  if (by_ptxas) cached = false;
  Shared<LoadedKernel> loaded = device.load(std::move(*image));
  if (by_ptxas && loaded->image().cubin.empty()) dsl::leave_ptxas_alone();
  if (cache) {
    if (!cached) cache->store(image_key, loaded->image());
    if (!source_key.empty() && !has_messages && !source->reads_others()) cache->link(source_key, image_key);
  }
  return loaded;
}

}  // namespace detail

// --------------------------------------------------------------------------------------------------------- Kernel

Kernel::Kernel(Shared<const dsl::KernelSource> source) : state_(std::make_shared<KernelState>()) {
  state_->source = std::move(source);
  state_->cache = ImageCache::of_process();
  state_->store = process_store();
}

Kernel Kernel::copy() const {
  Kernel other(state_->source);
  other.state_->cache = state_->cache;
  other.state_->store = state_->store;
  other.state_->autotune = state_->autotune;
  other.state_->heuristics = state_->heuristics;
  return other;
}

Kernel Kernel::autotune(Autotune tuning) const {
  Kernel other = copy();
  dsl::check_autotune(*state_->source, tuning);
  other.state_->autotune = std::move(tuning);
  return other;
}

Kernel Kernel::heuristics(std::vector<Heuristic> heuristics) const {
  Kernel other = copy();
  dsl::check_heuristics(*state_->source, heuristics);
  other.state_->heuristics = std::move(heuristics);
  return other;
}

const Autotune* Kernel::autotuning() const {
  state_->read_declarations();
  if (state_->declaration_error) std::rethrow_exception(state_->declaration_error);
  return state_->autotune ? &*state_->autotune : nullptr;
}

const dsl::KernelSource& Kernel::source() const { return *state_->source; }
const std::string& Kernel::name() const { return state_->name(); }
const std::vector<KernelParam>& Kernel::params() const { return state_->params(); }
void Kernel::set_cache(Shared<ImageCache> cache) { state_->cache = std_shared(std::move(cache)); }
void Kernel::set_tuning_store(Shared<TuningStore> store) { state_->store = std_shared(std::move(store)); }

std::vector<ArgType> Kernel::classify(std::span<const Arg> args, const LaunchOptions& options) const {
  dsl::check_options(*state_->source, options);
  return dsl::classify(*state_->source, options, args);
}

std::vector<ConstexprArg> Kernel::globals() const { return state_->source->globals(); }

LaunchOptions Kernel::with_first_config(std::span<const Arg> args, const LaunchOptions& options) const {
  state_->read_declarations();
  LaunchOptions full = options;
  if (dsl::leaves_open(*state_, options)) {
    const Autotune& tuning = *state_->autotune;
    std::vector<Config> configs = tuning.configs;
    if (tuning.prune) configs = tuning.prune(configs, dsl::launch_args(*state_->source, args, options));
    if (!configs.empty()) full = dsl::options_of(configs.front(), options);
  }
  return dsl::with_heuristics(*state_, args, full);
}

std::vector<bool> Kernel::written_args(std::span<const Arg> args, const LaunchOptions& options) const {
  const LaunchOptions full = with_first_config(args, options);
  auto func = state_->build(classify(args, full), full);
  const std::vector<const KernelParam*> params = dsl::runtime_params(*state_->source, full, args.size());
  std::vector<bool> written(args.size());
  ir::walk(func->body, [&](ir::Op& op) {
    if (!op.has(ir::WritesGlobal) || op.opcode == ir::Opcode::Barrier) return;
    // Of an op that nothing is known of here: any.
    const bool known = op.opcode == ir::Opcode::Store || op.opcode == ir::Opcode::AtomicRmw;
    const ir::Value* base = known ? pointer_base(op.operands[0]) : nullptr;
    for (size_t i = 0; i < args.size(); ++i)
      if ((args[i].kind == Arg::Kind::Pointer || args[i].kind == Arg::Kind::Descriptor) &&
          (!base || base->name == params[i]->name || base->name.starts_with(params[i]->name + ".")))  // of a tuple: all
        written[i] = true;
  });
  return written;
}

LaunchArgs Kernel::named(std::span<const Arg> args) const { return dsl::launch_args(*state_->source, args, {}); }

Target dsl::target_named(std::string_view target) {
  if (auto row = find_target(target)) return *row;
  std::vector<std::string> names;
  for (const Target& t : targets()) names.push_back(t.name);
  auto near = nearest_name(target, names);
  throw LaunchError(fmt::format("unknown target '{}'\n  hint: {}Tegula knows {}", target,
                                near ? fmt::format("did you mean '{}'? ", *near) : "", fmt::join(names, ", ")));
}

std::string Kernel::tile_ir(std::span<const ArgType> types, const LaunchOptions& options,
                            std::string_view target) const {
  return ir::print(*tile_func(types, options, target));
}

Shared<ir::Func> Kernel::tile_func(std::span<const ArgType> types, const LaunchOptions& options,
                                   std::string_view target) const {
  return state_->build(types, options, dsl::target_named(target).sm);
}

KernelImage Kernel::compile(std::span<const ArgType> types, const LaunchOptions& options, std::string_view target,
                            bool emulator) const {
  const Target row = dsl::target_named(target);
  auto func = state_->build(types, options, row.sm);
  KernelImage image = state_->compile(*func, types, options, row, emulator);
  image.cooperative = options.cooperative_grid;
  return image;
}

LaunchHandle Kernel::prepare(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const {
  LaunchHandle handle = state_->handle_for(device, types, options);
  if (dsl::is_recording()) dsl::record(*state_->source, {types.begin(), types.end()}, options, nullptr);
  return handle;
}

void Kernel::prewarm(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const {
  const LaunchHandle handle = state_->handle_for(device, types, options);
  handle.prepare_other();
  const std::string key = dsl::variants_key(source(), types, options);
  if (!key.empty()) dsl::PreparedKernels::of_process().put(device, key, handle);
}

void Kernel::choose(std::string_view gpu, std::string_view problem, const LaunchOptions& options) const {
  const std::string text = dsl::options_text(options);
  const std::string key = dsl::choice_key(*state_->source, gpu, problem);
  if (!key.empty()) return dsl::PreparedKernels::of_process().choose(key, text);
  std::lock_guard lock(state_->mutex);
  state_->listed_choices[fmt::format("{}\n{}", gpu, problem)] = text;
}

TuneReport Kernel::tune(Device& device, GridRef grid, const LaunchOptions& options, std::span<const Arg> args,
                        const TuneOptions& tuning) const {
  if (!autotuning())
    throw LaunchError(
        fmt::format("kernel '{}' has no configurations to choose from\n  hint: give them with autotune(), "
                    "with @triton.autotune in the file, or with --space to `tegula tune`",
                    name()));
  KernelState::TuningLock lock(*state_, dsl::tuned_alone(*state_, device, options, args));
  TuneReport report = dsl::tune(*state_, device, grid, options, args, tuning);
  // Where nothing is timed a launch tells of the mistake itself.
  for (const TuningResult& r : report.results)
    if (device.info().emulator && r.config == report.winner) dsl::fail_as_none_works(*state_->source, report.results);
  return report;
}

namespace {

/// What a launch found, and the launch as the configuration's hook left it, where that has been called.
struct Found {
  const dsl::ReadyLaunch* ready;
  std::unique_ptr<HookedLaunch> hooked = {};
  bool is_new = false;  ///< made ready just now
};

std::unique_ptr<HookedLaunch> call_hook(const KernelState& state, const Config& config, Device& device,
                                        StreamHandle stream, std::span<const Arg> args) {
  auto launch = std::make_unique<HookedLaunch>(*state.source, device, stream, args, config);
  config.pre_hook(*launch);
  return launch;
}

/// The configuration that tuning chooses, with the problem's lock held.
Config choose_config(KernelState& state, Device& device, GridRef grid, const LaunchOptions& options,
                     std::span<const Arg> args) {
  if (auto known = dsl::chosen_before(state, device, options, args)) return *known;
  if (auto listed = dsl::listed_choice(state, device, options, args)) return *listed;
  return dsl::tune(state, device, grid, options, args, {}).declared;
}

// Writes the specialisation down, with what its options follow from: values of arguments that are a key of tuning or
// that heuristics looked at (`asked`).
void record_launch(const KernelState& state, const std::vector<ArgType>& types, const LaunchOptions& full,
                   const Device& device, const LaunchOptions& options, std::span<const Arg> args,
                   const std::vector<std::string>& asked) {
  if (state.key_args.empty() && !state.autotune) return dsl::record(*state.source, types, full, nullptr);
  if (dsl::has_tuple_arguments(options))
    return dsl::record_missing(*state.source, "it is tuned or has heuristics, and tuples as arguments");
  PackagedChoice choice;
  if (state.autotune && dsl::leaves_open(state, options)) {
    TuningProblem problem = dsl::problem_of(state, device, options, args);
    choice.gpu = std::move(problem.gpu);
    choice.key = std::move(problem.key);
  }
  const auto params = dsl::runtime_params(*state.source, options, args.size());
  auto decides = [&](const std::string& name) {
    auto is_name = [&](const std::vector<std::string>& names) {
      return std::find(names.begin(), names.end(), name) != names.end();
    };
    return is_name(asked) || (state.autotune && is_name(state.autotune->key));
  };
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    if (arg.kind == Arg::Kind::Pointer || arg.kind == Arg::Kind::Descriptor || !decides(params[i]->name)) continue;
    choice.when.push_back({params[i]->name, arg.kind == Arg::Kind::Float ? Number(arg.f) : Number(arg.i)});
  }
  dsl::record(*state.source, types, full, &choice);
}

Found make_ready(const Kernel& kernel, KernelState& state, const dsl::LaunchKey& key, const Config& declared,
                 Device& device, const LaunchOptions& options, std::span<const Arg> args) {
  std::vector<std::string> asked;
  const bool recording = dsl::is_recording();
  const LaunchOptions full =
      dsl::with_heuristics(state, args, dsl::options_of(declared, options), recording ? &asked : nullptr);
  Config config = dsl::config_of(full);
  config.pre_hook = declared.pre_hook;
  Found found{};
  if (config.pre_hook) found.hooked = call_hook(state, config, device, options.stream, args);
  const std::vector<ArgType> types = kernel.classify(found.hooked ? found.hooked->values() : args, full);
  LaunchHandle handle = state.handle_for(device, types, full);
  if (recording) record_launch(state, types, full, device, options, args, asked);
  found.ready =
      state.ready.insert(std::make_unique<dsl::ReadyLaunch>(key, options, std::move(handle), std::move(config)));
  found.is_new = true;
  return found;
}

Found find(const Kernel& kernel, KernelState& state, Device& device, GridRef grid, const LaunchOptions& options,
           std::span<const Arg> args) {
  if (!state.declarations_read.load(std::memory_order_acquire)) [[unlikely]]
    state.read_declarations();
  std::vector<int> all;
  if (dsl::has_tuple_arguments(options)) [[unlikely]] {  // positions of arguments are not those of parameters
    all.resize(state.key_args.empty() ? 0 : args.size());
    std::iota(all.begin(), all.end(), 0);
  }
  const dsl::LaunchKey key(device, options, args, all.empty() ? state.key_args : all);
  if (const dsl::ReadyLaunch* ready = state.ready.find(key, options)) [[likely]]
    return {ready};
  Config declared;
  if (dsl::leaves_open(state, options)) {
    KernelState::TuningLock lock(
        state, dsl::tuned_alone(state, device, options, args));  // other threads wait for what this one finds
    if (const dsl::ReadyLaunch* ready = state.ready.find(key, options)) return {ready};
    declared = choose_config(state, device, grid, options, args);
  }
  return make_ready(kernel, state, key, declared, device, options, args);
}

}  // namespace

Kernel::Ready Kernel::ready(Device& device, GridRef grid, const LaunchOptions& options,
                            std::span<const Arg> args) const {
  const dsl::ReadyLaunch* ready = find(*this, *state_, device, grid, options, args).ready;
  return {&*ready->handle, &ready->config};
}

const Config& Kernel::launch(Device& device, GridRef grid, const LaunchOptions& options,
                             std::span<const Arg> args) const {
  Found found = find(*this, *state_, device, grid, options, args);
  const Config& config = found.ready->config;
  if (config.pre_hook) [[unlikely]] {
    if (!found.hooked) found.hooked = call_hook(*state_, config, device, options.stream, args);
    args = found.hooked->values();
  }
  const Grid extents = grid(config);  // asked once: it may be a function of the caller's
  if (found.is_new) [[unlikely]]
    explain_if_asked(*this, device, extents, dsl::options_of(config, options), args);
  found.ready->handle->launch(options.stream, extents, args);
  return config;
}

}  // namespace tegula
