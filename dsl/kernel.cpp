#include "dsl/kernel.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <mutex>
#include <set>
#include <system_error>

#include "codegen/compile.h"
#include "codegen/ir/printer.h"
#include "codegen/target/target.h"
#include "dsl/language/checker.h"
#include "dsl/language/parser.h"
#include "runtime/base/check.h"

namespace tegula {

namespace detail {

struct ProgramState;

/// Lives in its program.
struct KernelState {
  ProgramState* program = nullptr;
  const language::Function* function = nullptr;
  std::vector<KernelParam> params;

  std::mutex mutex;  ///< guards what follows
  std::map<std::pair<Device*, std::string>, LaunchHandle> ready;
};

struct ProgramState : std::enable_shared_from_this<ProgramState> {
  std::string text;
  std::string file;
  language::Module module;
  std::shared_ptr<ImageCache> cache;
  std::map<std::string, KernelState, std::less<>>
      kernels;  ///< all of them, made once: what is ready is ready for every Kernel
  std::mutex devices_mutex;
  std::set<Device*> devices;  ///< those that kernels are ready on; guarded by devices_mutex

  /// From now on what is ready on the device goes before the device does.
  void note_device(Device& device) {
    std::lock_guard lock(devices_mutex);
    if (!devices.insert(&device).second) return;
    device.before_end(weak_from_this(), [this, &device] {
      for (auto& [name, kernel] : kernels) {
        std::lock_guard lock(kernel.mutex);
        std::erase_if(kernel.ready, [&](const auto& entry) { return entry.first.first == &device; });
      }
      std::lock_guard lock(devices_mutex);
      devices.erase(&device);
    });
  }
  /// Sources of the text, for diagnostics made later.
  Diagnostics diagnostics() const {
    Diagnostics diags;
    diags.sources().add(module.file, text);
    return diags;
  }
};

}  // namespace detail

namespace {

using detail::KernelState;
using detail::ProgramState;

std::shared_ptr<ImageCache> process_cache() {
  static auto cache = std::make_shared<ImageCache>();
  return cache;
}

// The last name of an annotation: `tl.constexpr` -> "constexpr", `int` -> "int".
std::string annotation_name(const language::Expr* annotation) {
  if (!annotation) return {};
  using Kind = language::Expr::Kind;
  if (annotation->kind == Kind::Name || annotation->kind == Kind::Attribute || annotation->kind == Kind::String) {
    const std::string& text = annotation->text;
    return text.substr(text.rfind('.') + 1);
  }
  return {};
}

KernelParam make_param(const language::Param& param) {
  std::string annotation = annotation_name(param.annotation.get());
  KernelParam out{param.name, annotation == "constexpr", param.default_value != nullptr};
  if (annotation == "int")
    out.annotated = Elem::I32;
  else if (annotation == "float")
    out.annotated = Elem::F32;
  else if (auto elem = elem_from_text(annotation))
    out.annotated = elem;
  return out;
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
  const std::string& name = kernel.function->name;
  std::string mistakes;
  auto wrong = [&](const std::string& what, const std::string& hint = {}) {
    mistakes += fmt::format("{}kernel '{}': {}", mistakes.empty() ? "" : "\n", name, what);
    if (!hint.empty()) mistakes += "\n  hint: " + hint;
  };
  int warps = options.num_warps;
  if (warps < 1 || warps > 32 || (warps & (warps - 1)))
    wrong(fmt::format("num_warps is {}, expected 1, 2, 4, 8, 16 or 32", warps));
  if (options.num_stages < 1 || options.num_stages > 8)
    wrong(fmt::format("num_stages is {}, expected 1 to 8", options.num_stages));
  std::vector<std::string> known, runtime;
  for (const KernelParam& p : kernel.params) (p.is_constexpr ? known : runtime).push_back(p.name);
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
  for (const KernelParam& p : kernel.params)
    if (p.is_constexpr && !p.has_default && !given.contains(p.name))
      wrong(fmt::format("the constexpr parameter '{}' has no value", p.name),
            fmt::format("give it in the launch's options: .constexprs = {{{{\"{}\", value}}}}", p.name));
  if (!mistakes.empty()) fail(mistakes);
}

// The parameters that take a launch argument, with a check that `count` arguments fit: those with a default may be
// missing at the end.
std::vector<const KernelParam*> runtime_params(const KernelState& kernel, size_t count) {
  std::vector<const KernelParam*> params;
  for (const KernelParam& p : kernel.params)
    if (!p.is_constexpr) params.push_back(&p);
  size_t required = params.size();
  while (required > 0 && params[required - 1]->has_default) --required;
  if (count < required || count > params.size()) {
    std::string names;
    for (const KernelParam* p : params) names += (names.empty() ? "" : ", ") + p->name;
    bool has_constexpr = params.size() < kernel.params.size();
    fail(fmt::format("kernel '{}' takes {}{} argument{} ({}), found {}{}", kernel.function->name,
                     required < params.size() ? fmt::format("{} to ", required) : "", params.size(),
                     params.size() == 1 ? "" : "s", names, count,
                     count > params.size() && has_constexpr
                         ? "\n  hint: values of tl.constexpr parameters are no arguments: give them in the options"
                         : ""));
  }
  params.resize(count);
  return params;
}

language::Specialization specialization(const KernelState& kernel, std::span<const ArgType> types,
                                        const LaunchOptions& options) {
  language::Specialization spec;
  spec.num_warps = options.num_warps;
  spec.num_stages = options.num_stages;
  auto params = runtime_params(kernel, types.size());
  for (size_t i = 0; i < types.size(); ++i) {
    const ArgType& type = types[i];
    language::ArgSpec arg;
    arg.name = params[i]->name;
    arg.type = type.pointer ? ir::Type::pointer_to(type.elem) : ir::Type::scalar(type.elem);
    arg.divisible_by = type.divisible_by;
    if (type.constant) arg.constant = type.pointer ? dsl::Val(dsl::None{}) : dsl::Val(dsl::Int(*type.constant));
    spec.args.push_back(std::move(arg));
  }
  for (const ConstexprArg& c : options.constexprs) {
    language::ArgSpec arg;
    arg.name = c.name;
    arg.constant = to_val(c.value);
    spec.args.push_back(std::move(arg));
  }
  return spec;
}

std::unique_ptr<ir::Func> build_tile_ir(const KernelState& kernel, std::span<const ArgType> types,
                                        const LaunchOptions& options) {
  check_options(kernel, options);
  Diagnostics diags = kernel.program->diagnostics();
  auto func =
      language::check(kernel.program->module, kernel.function->name, specialization(kernel, types, options), diags);
  if (!func || diags.has_errors()) throw CompileError(diags);
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
  Diagnostics diags = kernel.program->diagnostics();
  CompileOptions options;
  options.target = target;
  options.emulator = emulator;
  auto image = compile(func, options, diags);
  if (!image || diags.has_errors()) throw CompileError(diags);
  image->constants = image_constants(kernel, types);
  return std::move(*image);
}

std::string specialization_text(std::span<const ArgType> types, const LaunchOptions& options) {
  std::string text = fmt::format("warps {} stages {};", options.num_warps, options.num_stages);
  for (const ArgType& t : types) {
    text += fmt::format(" {}{}/{}", elem_info(t.elem).text, t.pointer ? "*" : "", t.divisible_by);
    if (t.constant) text += fmt::format("={}", *t.constant);
  }
  for (const ConstexprArg& c : options.constexprs) text += fmt::format(" {}={}", c.name, text_of(c.value));
  return text;
}

}  // namespace

// --------------------------------------------------------------------------------------------------------- Kernel

const std::string& Kernel::name() const { return state_->function->name; }
const std::vector<KernelParam>& Kernel::params() const { return state_->params; }

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
  state.program->note_device(device);
  const DeviceInfo& info = device.info();
  const Target& target = target_for_sm(info.sm);
  std::string platform = fmt::format("{} {} driver {} {}", target.name, compiler_version(), info.driver_version,
                                     info.emulator ? "emulator" : "gpu");
  ImageCache* cache = state.program->cache.get();
  std::string source_key = content_key({"source", state.program->text, state.program->file, name(), spec, platform});
  std::optional<KernelImage> image = cache ? cache->find(source_key) : std::nullopt;
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
    cache->link(source_key, image_key);
  }
  LaunchHandle handle(std::move(loaded));
  state.ready.emplace(std::pair(&device, spec), handle);
  return handle;
}

void Kernel::launch(Device& device, Grid grid, const LaunchOptions& options, std::span<const Arg> args) const {
  prepare(device, classify(args, options), options).launch(options.stream, grid, args);
}

// -------------------------------------------------------------------------------------------------------- Program

Program Program::load(const std::string& path) {
  auto refuse = [&](const std::string& why) { throw FileError(fmt::format("cannot read '{}': {}", path, why)); };
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) refuse("it is a folder, expected a Triton source file");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text;
  if (in) text.assign(std::istreambuf_iterator<char>(in), {});
  if (!in) refuse(std::generic_category().message(errno ? errno : EIO));
  return parse(std::move(text), path);
}

Program Program::parse(std::string text, std::string name) {
  auto state = std::make_shared<ProgramState>();
  Diagnostics diags;
  state->module = language::parse(text, name, diags);
  if (diags.has_errors()) throw CompileError(diags);
  state->text = std::move(text);
  state->file = std::move(name);
  state->cache = process_cache();
  for (const language::Function& f : state->module.functions) {  // the last one of a name counts, as in Python
    KernelState& kernel = state->kernels[f.name];
    kernel.program = state.get();
    kernel.function = &f;
    kernel.params.clear();
    for (const auto& p : f.params) kernel.params.push_back(make_param(p));
  }
  return Program(std::move(state));
}

std::vector<std::string> Program::kernels() const {
  std::vector<std::string> names;
  for (const auto& f : state_->module.functions)
    if (state_->kernels.at(f.name).function == &f) names.push_back(f.name);
  return names;
}

Kernel Program::kernel(std::string_view name) const {
  if (auto it = state_->kernels.find(name); it != state_->kernels.end())
    return Kernel(std::shared_ptr<KernelState>(state_, &it->second));  // shares the program
  Diagnostics diags;
  Diag& diag = diags.error({state_->module.file, 0, 0, 0}, fmt::format("no @triton.jit function '{}'", name));
  if (auto near = nearest_name(name, kernels()))
    diag.with_hint(fmt::format("did you mean '{}'?", *near));
  else if (!kernels().empty())
    diag.with_hint(fmt::format("the file has {}", fmt::join(kernels(), ", ")));
  else
    diag.with_hint("the file has none at all: kernels are functions under @triton.jit");
  throw CompileError(diags);
}

void Program::check() const {
  Diagnostics diags = state_->diagnostics();
  language::check_all(state_->module, diags);
  if (diags.has_errors()) throw CompileError(diags);
}

void Program::set_cache(std::shared_ptr<ImageCache> cache) { state_->cache = std::move(cache); }

}  // namespace tegula
