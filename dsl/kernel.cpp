#include "dsl/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <set>

#include "codegen/compile.h"
#include "codegen/ir/printer.h"
#include "codegen/target/target.h"
#include "dsl/kernel_source.h"
#include "runtime/base/check.h"

namespace tegula {

namespace detail {

struct KernelState : std::enable_shared_from_this<KernelState> {
  std::shared_ptr<const dsl::KernelSource> source;
  std::shared_ptr<ImageCache> cache;

  std::mutex mutex;  ///< guards what follows
  std::map<std::pair<Device*, std::string>, LaunchHandle> ready;
  std::set<Device*> devices;  ///< those that the kernel is ready on

  const std::string& name() const { return source->name(); }
  const std::vector<KernelParam>& params() const { return source->params(); }

  /// From now on what is ready on the device goes before the device does. With the mutex held.
  void note_device(Device& device) {
    if (!devices.insert(&device).second) return;
    device.before_end(weak_from_this(), [this, &device] {
      std::lock_guard lock(mutex);
      std::erase_if(ready, [&](const auto& entry) { return entry.first.first == &device; });
      devices.erase(&device);
    });
  }
};

}  // namespace detail

namespace {

using detail::KernelState;

std::shared_ptr<ImageCache> process_cache() {
  static auto cache = std::make_shared<ImageCache>();
  return cache;
}

dsl::Val to_val(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> dsl::Val {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return dsl::None{};
        else if constexpr (std::is_same_v<T, Elem>)
          return dsl::DType{ir::Type::scalar(v)};
        else
          return v;
      },
      value);
}

std::string text_of(const Constexpr& value) {
  return std::visit(
      [](const auto& v) -> std::string {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>)
          return "None";
        else if constexpr (std::is_same_v<T, Elem>)
          return elem_info(v).tl;
        else if constexpr (std::is_same_v<T, double>)
          return fmt::format("{:a}", v);
        else if constexpr (std::is_same_v<T, std::string>)
          return fmt::format("{}:'{}'", v.size(), v);  // with its length, so that no text can imitate another
        else
          return fmt::format("{}", v);
      },
      value);
}

[[noreturn]] void fail(const std::string& message) { throw LaunchError(message); }

// The options of a launch against the kernel's signature: all mistakes in one LaunchError.
void check_options(const KernelState& kernel, const LaunchOptions& options) {
  const std::string& name = kernel.name();
  std::string mistakes;
  auto wrong = [&](const std::string& what, const std::string& hint = {}) {
    mistakes += fmt::format("{}kernel '{}': {}", mistakes.empty() ? "" : "\n", name, what);
    if (!hint.empty()) mistakes += "\n  hint: " + hint;
  };
  int warps = options.num_warps;
  if (warps < 1 || warps > 32 || (warps & (warps - 1)))
    wrong(fmt::format("num_warps is {}, expected 1, 2, 4, 8, 16 or 32", warps));
  if (options.maxnreg < 0 || (options.maxnreg > 0 && options.maxnreg < 16) || options.maxnreg > 255)
    wrong(fmt::format("maxnreg is {}, expected 16 to 255, or 0 for no limit", options.maxnreg));
  if (options.num_stages < 1 || options.num_stages > 8)
    wrong(fmt::format("num_stages is {}, expected 1 to 8", options.num_stages));
  std::vector<std::string> known, runtime;
  for (const KernelParam& p : kernel.params()) (p.is_constexpr ? known : runtime).push_back(p.name);
  std::set<std::string> given;
  for (const ConstexprArg& c : options.constexprs) {
    if (!given.insert(c.name).second) wrong(fmt::format("the constexpr parameter '{}' is given twice", c.name));
    if (std::find(known.begin(), known.end(), c.name) != known.end()) continue;
    bool is_runtime = std::find(runtime.begin(), runtime.end(), c.name) != runtime.end();
    auto near = nearest_name(c.name, known);
    wrong(is_runtime ? fmt::format("the parameter '{}' is no tl.constexpr", c.name)
                     : fmt::format("there is no constexpr parameter '{}'", c.name),
          is_runtime      ? "pass its value with the arguments of the launch, or annotate it with tl.constexpr"
          : near          ? fmt::format("did you mean '{}'?", *near)
          : known.empty() ? "the kernel has none"
                          : fmt::format("the kernel has {}", fmt::join(known, ", ")));
  }
  for (const KernelParam& p : kernel.params())
    if (p.is_constexpr && !p.has_default && !given.contains(p.name))
      wrong(fmt::format("the constexpr parameter '{}' has no value", p.name),
            fmt::format("give it in the launch's options: .constexprs = {{{{\"{}\", value}}}}", p.name));
  if (!mistakes.empty()) fail(mistakes);
}

// The parameters that take a launch argument, with a check that `count` arguments fit: those with a default may be
// missing at the end.
std::vector<const KernelParam*> runtime_params(const KernelState& kernel, size_t count) {
  std::vector<const KernelParam*> params;
  for (const KernelParam& p : kernel.params())
    if (!p.is_constexpr) params.push_back(&p);
  size_t required = params.size();
  while (required > 0 && params[required - 1]->has_default) --required;
  if (count < required || count > params.size()) {
    std::string names;
    for (const KernelParam* p : params) names += (names.empty() ? "" : ", ") + p->name;
    bool has_constexpr = params.size() < kernel.params().size();
    fail(fmt::format("kernel '{}' takes {}{} argument{} ({}), found {}{}", kernel.name(),
                     required < params.size() ? fmt::format("{} to ", required) : "", params.size(),
                     params.size() == 1 ? "" : "s", names, count,
                     count > params.size() && has_constexpr
                         ? "\n  hint: values of tl.constexpr parameters are no arguments: give them in the options"
                         : ""));
  }
  params.resize(count);
  return params;
}

dsl::Specialization specialization(const KernelState& kernel, std::span<const ArgType> types,
                                   const LaunchOptions& options) {
  dsl::Specialization spec;
  spec.num_warps = options.num_warps;
  spec.num_stages = options.num_stages;
  spec.maxnreg = options.maxnreg;
  auto params = runtime_params(kernel, types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ArgType& type = types[i];
    dsl::ArgSpec arg;
    arg.name = params[i]->name;
    arg.type = type.pointer ? ir::Type::pointer_to(type.elem) : ir::Type::scalar(type.elem);
    arg.divisible_by = type.divisible_by;
    if (type.constant) arg.constant = type.pointer ? dsl::Val(dsl::None{}) : dsl::Val(dsl::Int(*type.constant));
    spec.args.push_back(std::move(arg));
  }
  for (const ConstexprArg& c : options.constexprs) {
    dsl::ArgSpec arg;
    arg.name = c.name;
    arg.constant = to_val(c.value);
    spec.args.push_back(std::move(arg));
  }
  return spec;
}

std::unique_ptr<ir::Func> build_tile_ir(const KernelState& kernel, std::span<const ArgType> types,
                                        const LaunchOptions& options) {
  check_options(kernel, options);
  Diagnostics diags = kernel.source->diagnostics();
  auto func = kernel.source->build(specialization(kernel, types, options), diags);
  if (!func || diags.has_errors()) throw CompileError(diags);
  if (!options.dependent_launch) func->attrs["dependent_launch"] = false;
  return func;
}

// Arguments whose values are compiled in: a launch still gives them.
std::vector<ImageConstant> image_constants(const KernelState& kernel, std::span<const ArgType> types) {
  std::vector<ImageConstant> out;
  auto params = runtime_params(kernel, types.size());
  for (size_t i = 0; i < types.size(); ++i)
    if (types[i].constant) out.push_back({int(i), params[i]->name, types[i].pointer, *types[i].constant});
  return out;
}

KernelImage compile_func(const KernelState& kernel, const ir::Func& func, std::span<const ArgType> types,
                         const Target& target, bool emulator) {
  Diagnostics diags = kernel.source->diagnostics();
  CompileOptions options;
  options.target = target;
  options.emulator = emulator;
  auto image = compile(func, options, diags);
  if (!image || diags.has_errors()) throw CompileError(diags);
  image->constants = image_constants(kernel, types);
  return std::move(*image);
}

std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options) {
  std::string text = fmt::format("warps {} stages {} registers {}{};", options.num_warps, options.num_stages,
                                 options.maxnreg, options.dependent_launch ? "" : " alone");
  for (const ArgType& t : types) {
    text += fmt::format(" {}{}/{}", elem_info(t.elem).text, t.pointer ? "*" : "", t.divisible_by);
    if (t.constant) text += fmt::format("={}", *t.constant);
  }
  for (const ConstexprArg& c : options.constexprs) text += fmt::format(" {}={}", c.name, text_of(c.value));
  return text;
}

}  // namespace

// --------------------------------------------------------------------------------------------------------- Kernel

Kernel::Kernel(std::shared_ptr<const dsl::KernelSource> source) : state_(std::make_shared<KernelState>()) {
  state_->source = std::move(source);
  state_->cache = process_cache();
}

const std::string& Kernel::name() const { return state_->name(); }
const std::vector<KernelParam>& Kernel::params() const { return state_->params(); }
void Kernel::set_cache(std::shared_ptr<ImageCache> cache) { state_->cache = std::move(cache); }

std::vector<ArgType> Kernel::classify(std::span<const Arg> args, const LaunchOptions& options) const {
  check_options(*state_, options);
  auto params = runtime_params(*state_, args.size());
  std::vector<ArgType> types;
  for (size_t i = 0; i < args.size(); ++i) {
    const Arg& arg = args[i];
    const KernelParam& param = *params[i];
    ArgType type;
    switch (arg.kind) {
      case Arg::Kind::Pointer:
        if (param.annotated)
          fail(fmt::format("kernel '{}', argument '{}': expected {}, found a pointer{}", name(), param.name,
                           elem_info(*param.annotated).text,
                           arg.elem ? fmt::format(" to {}", elem_info(*arg.elem).text) : ""));
        type.pointer = true;
        if (arg.u == 0 && !arg.elem) {
          type.constant = 0;  // None
        } else if (!arg.elem) {
          fail(
              fmt::format("kernel '{}', argument '{}': a pointer to elements of unknown type\n"
                          "  hint: pass a typed pointer, such as buffer.as<float>() or Arg::pointer(address, type)",
                          name(), param.name));
        } else {
          type.elem = *arg.elem;
          type.divisible_by = arg.u % 16 == 0 ? 16 : 1;
        }
        break;
      case Arg::Kind::Bool:
        type.elem = param.annotated.value_or(Elem::I1);
        break;
      case Arg::Kind::Float:
        type.elem = param.annotated.value_or(Elem::F32);
        break;
      case Arg::Kind::Signed:
      case Arg::Kind::Unsigned: {
        bool fits_i32 = arg.kind == Arg::Kind::Signed ? arg.i == int32_t(arg.i) : arg.u <= uint64_t(INT32_MAX);
        bool fits_i64 = arg.kind == Arg::Kind::Signed || arg.u <= uint64_t(INT64_MAX);
        type.elem = param.annotated.value_or(fits_i32 ? Elem::I32 : fits_i64 ? Elem::I64 : Elem::U64);
        if (is_float(type.elem)) break;
        if (arg.u == 1 && !param.annotated)
          type.constant = 1;
        else if (arg.u % 16 == 0)
          type.divisible_by = 16;
        break;
      }
    }
    types.push_back(type);
  }
  return types;
}

std::string Kernel::tile_ir(std::span<const ArgType> types, const LaunchOptions& options) const {
  return ir::print(*build_tile_ir(*state_, types, options));
}

std::unique_ptr<ir::Func> Kernel::tile_func(std::span<const ArgType> types, const LaunchOptions& options) const {
  return build_tile_ir(*state_, types, options);
}

KernelImage Kernel::compile(std::span<const ArgType> types, const LaunchOptions& options, std::string_view target,
                            bool emulator) const {
  auto row = find_target(target);
  if (!row) {
    std::vector<std::string> names;
    for (const Target& t : targets()) names.push_back(t.name);
    auto near = nearest_name(target, names);
    fail(fmt::format("unknown target '{}'\n  hint: {}Tegula knows {}", target,
                     near ? fmt::format("did you mean '{}'? ", *near) : "", fmt::join(names, ", ")));
  }
  auto func = build_tile_ir(*state_, types, options);
  return compile_func(*state_, *func, types, *row, emulator);
}

LaunchHandle Kernel::prepare(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const {
  KernelState& state = *state_;
  std::string spec = specialization_text(types, options);
  std::lock_guard lock(state.mutex);
  auto it = state.ready.find({&device, spec});
  if (it != state.ready.end()) return it->second;

  check_options(state, options);
  state.note_device(device);
  const DeviceInfo& info = device.info();
  const Target& target = target_for_sm(info.sm);
  std::string platform = fmt::format("{} {} driver {} {}", target.name, compiler_version(), info.driver_version,
                                     info.emulator ? "emulator" : "gpu");
  ImageCache* cache = state.cache.get();
  std::string identity = state.source->identity();
  std::string source_key = identity.empty() ? "" : content_key({"source", identity, name(), spec, platform});
  std::optional<KernelImage> image = cache && !source_key.empty() ? cache->find(source_key) : std::nullopt;
  if (image) {
    LaunchHandle handle(device.load(std::move(*image)));
    state.ready.emplace(std::pair(&device, spec), handle);
    return handle;
  }

  auto func = build_tile_ir(state, types, options);
  std::string content = ir::print(*func, {.locations = true});
  std::string image_key = content_key({"image", content, spec, platform});
  image = cache ? cache->find(image_key) : std::nullopt;
  bool cached = image.has_value();
  if (!image) image = compile_func(state, *func, types, target, info.emulator);
  std::shared_ptr<LoadedKernel> loaded = device.load(std::move(*image));
  if (cache) {
    if (!cached) cache->store(image_key, loaded->image());
    if (!source_key.empty()) cache->link(source_key, image_key);
  }
  LaunchHandle handle(std::move(loaded));
  state.ready.emplace(std::pair(&device, spec), handle);
  return handle;
}

void Kernel::launch(Device& device, Grid grid, const LaunchOptions& options, std::span<const Arg> args) const {
  prepare(device, classify(args, options), options).launch(options.stream, grid, args);
}

}  // namespace tegula
