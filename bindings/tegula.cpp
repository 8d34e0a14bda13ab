// The C interface: handles around the C++ ones, exceptions turned into statuses.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "bindings/handles.h"
#include "bindings/runtime/arguments.h"
#include "codegen/exec/emulator.h"
#include "codegen/target/target.h"
#include "dsl/explain.h"
#include "dsl/hooks.h"
#include "dsl/kernel.h"
#include "dsl/kernel_list.h"
#include "dsl/kernel_source.h"
#include "dsl/launch_options.h"
#include "dsl/program.h"
#include "runtime/base/internal_error.h"
#include "runtime/base/messages.h"

using namespace tegula;
using namespace tegula::bindings;

struct tegula_program {
  Program program;
  std::vector<std::string> kernels;
};

struct tegula_explanation {
  tegula::Explanation explanation;
  std::string text, json, svg;
};

struct tegula_image {
  explicit tegula_image(KernelImage given)
      : image(std::move(given)), transfers(fmt::format("{}", fmt::join(dsl::transfer_lines(image), "\n"))) {}
  KernelImage image;
  std::string transfers;
};

namespace {

constexpr int kMaxNestedTuples = 32;

std::vector<std::string> split_names(const char* names) {
  std::vector<std::string> out;
  for (std::string_view rest = names ? names : ""; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    out.emplace_back(rest.substr(0, comma));
    rest.remove_prefix(std::min(comma + 1, rest.size()));
  }
  return out;
}

Constexpr constexpr_of(const tegula_value& value, int depth = 0) {
  switch (value.kind) {
    case TEGULA_NONE:
      return std::monostate();
    case TEGULA_INT:
      return value.as.i;
    case TEGULA_DOUBLE:
      return value.as.d;
    case TEGULA_BOOL:
      return value.as.i != 0;
    case TEGULA_STRING:
      return std::string(&given(value.as.s, "as.s"));
    case TEGULA_DTYPE:
      return elem_of(value.dtype);
    case TEGULA_NEXT:
      return NextArg();
    case TEGULA_TUPLE: {
      if (depth > kMaxNestedTuples) throw UsageError(fmt::format("tuples nested more than {} deep", kMaxNestedTuples));
      const tegula_tuple& t = given(value.as.p, "as.p");
      ConstexprTuple tuple{{}, t.type ? t.type : "", split_names(t.names)};
      if (t.count) given(t.items, "items");
      for (size_t i = 0; i < t.count; ++i) tuple.items.push_back(constexpr_of(t.items[i], depth + 1));
      if (!tuple.names.empty() && tuple.names.size() != t.count)
        throw UsageError(fmt::format("a tuple of {} items and {} names", t.count, tuple.names.size()));
      return tuple;
    }
  }
  wrong_kind(value.kind, "a constexpr: none, int, double, bool, string, dtype or tuple");
}

tegula_value value_of(const Constexpr& value) {
  return std::visit(
      [](const auto& v) {
        using T = std::decay_t<decltype(v)>;
        if constexpr (std::is_same_v<T, std::monostate>) return tegula_none();
        if constexpr (std::is_same_v<T, bool>) return tegula_bool(v);
        if constexpr (std::is_same_v<T, int64_t>) return tegula_int(v);
        if constexpr (std::is_same_v<T, double>) return tegula_double(v);
        if constexpr (std::is_same_v<T, std::string>) return tegula_string(v.c_str());
        if constexpr (std::is_same_v<T, Elem>) return tegula_type(dtype_of(v));
        if constexpr (std::is_same_v<T, NextArg>) return tegula_value{TEGULA_NEXT, 0, {0}, 0};
        if constexpr (std::is_same_v<T, ConstexprTuple>) return tegula_value{TEGULA_TUPLE, 0, {0}, 0};
      },
      value);
}

std::vector<ConstexprArg> constexprs_of(const tegula_constexpr* values, size_t count, const char* what) {
  std::vector<ConstexprArg> out;
  if (count) given(values, what);
  out.reserve(count);
  for (size_t i = 0; i < count; ++i)
    out.emplace_back(&given(values[i].name, fmt::format("{}[].name", what).c_str()), constexpr_of(values[i].value));
  return out;
}

std::vector<std::string> texts_of(const char* const* texts, size_t count, const char* what) {
  std::vector<std::string> out;
  if (count) given(texts, what);
  for (size_t i = 0; i < count; ++i) out.emplace_back(&given(texts[i], fmt::format("{}[]", what).c_str()));
  return out;
}

// No byte of it is padding, which callers need not set, and which a field of a later version would lie in.
static_assert(offsetof(tegula_options, reserved) + sizeof(int32_t) == sizeof(tegula_options));

// The caller's structure may be of an earlier version, hence shorter: what it lacks is 0. What one of a later version
// has beyond this one, this library could not do.
tegula_options complete(const tegula_options& given) {
  constexpr size_t kFirst = offsetof(tegula_options, num_ctas), kLast = offsetof(tegula_options, reserved),
                   kMost = 4096;
  if (given.struct_size < kFirst || given.struct_size > kMost)
    throw UsageError(fmt::format("tegula_options.struct_size is {}, expected {}: sizeof(tegula_options)",
                                 given.struct_size, sizeof(tegula_options)));
  const auto* bytes = reinterpret_cast<const unsigned char*>(&given);
  if (given.struct_size > kLast &&
      std::any_of(bytes + kLast, bytes + given.struct_size, [](unsigned char x) { return x != 0; }))
    throw UsageError(
        "tegula_options sets a field that this version of Tegula does not have\n  hint: set all of it to 0 first, as "
        "{.struct_size = sizeof options} does, or load the libtegula.so of the tegula.h that the program was compiled "
        "with");
  tegula_options out{};
  std::memcpy(&out, &given, std::min(given.struct_size, sizeof(out)));
  return out;
}

tegula_device* wrap(std::shared_ptr<Device> device) {
  auto* emulator = dynamic_cast<EmulatorDevice*>(device.get());
  return new tegula_device{std::move(device), emulator};
}

EmulatorDevice& emulator_of(tegula_device* device) {
  if (EmulatorDevice* emulator = given(device, "device").emulator) return *emulator;
  throw UsageError(
      fmt::format("host memory is registered with the emulator alone; this device is {}", device->device->info().name));
}

/// The caller's grid function, as Kernel takes it.
auto grid_function(const tegula_kernel& kernel, tegula_grid_function function, void* user) {
  if (!function) throw UsageError("'grid' is NULL");
  return [&kernel, function, user](const Config& config) {
    uint32_t grid[3] = {1, 1, 1};
    if (tegula_status status = function(user, kernel.handle_of(config), grid)) throw CallbackFailed{status};
    return Grid{grid[0], grid[1], grid[2]};
  };
}

}  // namespace

LaunchOptions tegula::bindings::options_of(const tegula_options* as_given, tegula_stream stream) {
  LaunchOptions out;
  out.stream = stream;
  if (!as_given) return out;
  const tegula_options all = complete(*as_given), *options = &all;
  out.constexprs = constexprs_of(options->constexprs, options->num_constexprs, "constexprs");
#define TEGULA_OPTION(name, ...) \
  if (options->name) out.name = options->name;
#include "codegen/ir/options.def"
  out.dependent_launch = !options->no_dependent_launch;
  out.cooperative_grid = options->cooperative_grid != 0;
  out.enable_fp_fusion = !options->no_fp_fusion;
  out.sanitize_overflow = !options->no_sanitize_overflow;
  return out;
}

extern "C" {

void tegula_set_message_handler(tegula_message_function handler, void* user) {
  if (!handler) {
    set_message_handler(nullptr);
    return;
  }
  set_message_handler([=](MessageKind kind, std::string_view text) {
    handler(user, kind == MessageKind::Print ? TEGULA_PRINT : TEGULA_WARNING, std::string(text).c_str());
  });
}

// ---- Devices

tegula_status tegula_device_default(tegula_device** device) {
  return guarded([&] {
    given(device, "device");
    *device = wrap({default_device(), [](Device*) {}});  // which lives as long as the process
  });
}

tegula_status tegula_device_emulator(const char* target, tegula_device** device) {
  return guarded([&] {
    given(device, "device");
    EmulatorOptions options;
    if (!target) target = std::getenv("TEGULA_TARGET");
    if (target && *target) options.target = target;
    *device = wrap(make_emulator(options));
  });
}

tegula_status tegula_device_register_host(tegula_device* device, const void* begin, size_t bytes) {
  return guarded([&] { emulator_of(device).register_host_range(begin, bytes); });
}

tegula_status tegula_device_unregister_host(tegula_device* device, const void* begin) {
  return guarded([&] { emulator_of(device).unregister_host_range(begin); });
}

// ---- Programs

tegula_status tegula_program_load(const char* path, tegula_program** program) {
  return tegula_program_load_with(path, nullptr, 0, nullptr, 0, program);
}

tegula_status tegula_program_parse(const char* text, const char* name, tegula_program** program) {
  return tegula_program_parse_with(text, name, nullptr, 0, nullptr, 0, program);
}

tegula_status tegula_program_load_with(const char* path, const tegula_constexpr* globals, size_t num_globals,
                                       const char* const* import_folders, size_t num_import_folders,
                                       tegula_program** program) {
  return guarded([&] {
    given(program, "program");
    Program loaded = Program::load(&given(path, "path"), constexprs_of(globals, num_globals, "globals"),
                                   texts_of(import_folders, num_import_folders, "import_folders"));
    *program = new tegula_program{loaded, loaded.kernels()};
  });
}

tegula_status tegula_program_parse_with(const char* text, const char* name, const tegula_constexpr* globals,
                                        size_t num_globals, const char* const* import_folders,
                                        size_t num_import_folders, tegula_program** program) {
  return guarded([&] {
    given(program, "program");
    Program parsed =
        Program::parse(&given(text, "text"), name ? name : "<text>", constexprs_of(globals, num_globals, "globals"),
                       texts_of(import_folders, num_import_folders, "import_folders"));
    *program = new tegula_program{parsed, parsed.kernels()};
  });
}

size_t tegula_program_num_kernels(const tegula_program* program) { return program ? program->kernels.size() : 0; }

const char* tegula_program_kernel_name(const tegula_program* program, size_t index) {
  return program && index < program->kernels.size() ? program->kernels[index].c_str() : nullptr;
}

tegula_status tegula_program_kernel(const tegula_program* program, const char* name, tegula_kernel** kernel) {
  return guarded([&] {
    given(kernel, "kernel");
    *kernel = new tegula_kernel{given(program, "program").program.kernel(&given(name, "name"))};
  });
}

void tegula_program_release(tegula_program* program) { delete program; }

// ---- Kernels

const char* tegula_kernel_name(const tegula_kernel* kernel) { return kernel ? kernel->kernel.name().c_str() : ""; }
size_t tegula_kernel_num_params(const tegula_kernel* kernel) { return kernel ? kernel->kernel.params().size() : 0; }

tegula_status tegula_kernel_param(const tegula_kernel* kernel, size_t index, tegula_param* param) {
  return guarded([&] {
    const Kernel& k = given(kernel, "kernel").kernel;
    given(param, "param");
    if (index >= k.params().size())
      throw UsageError(fmt::format("parameter {} of a kernel with {}", index, k.params().size()));
    const KernelParam& p = k.params()[index];
    auto in = [&](const std::vector<std::string>& names) { return std::ranges::find(names, p.name) != names.end(); };
    *param = {p.name.c_str(), p.is_constexpr, p.has_default, 0, 0};
    try {
      if (const Autotune* tuning = k.autotuning()) {
        param->is_zeroed = in(tuning->reset_to_zero);
        param->is_restored = in(tuning->restore_value);
      }
    } catch (const CompileError&) {  // told by launches that need the declaration
    }
  });
}

tegula_status tegula_kernel_is_tuned(const tegula_kernel* kernel, int32_t* tuned) {
  return guarded([&] {
    given(tuned, "tuned");
    *tuned = given(kernel, "kernel").kernel.autotuning() != nullptr;
  });
}

tegula_status tegula_kernel_with_hooks(const tegula_kernel* kernel, tegula_hook config_hook, tegula_hook pre_hook,
                                       tegula_hook post_hook, void* user, tegula_kernel** hooked) {
  return guarded([&] {
    const Kernel& k = given(kernel, "kernel").kernel;
    given(hooked, "hooked");
    if (!k.autotuning()) throw UsageError(fmt::format("kernel '{}' has no configurations, so no hooks", k.name()));
    Autotune tuning = *k.autotuning();
    auto out = std::make_unique<tegula_kernel>(k);
    auto call = [to = out.get(), user](tegula_hook hook, const HookedLaunch& launch, bool reset_only,
                                       const char* error) {
      if (tegula_status status = hook(user, to->handle_of(launch.config()), reset_only, error))
        throw CallbackFailed{status};
    };
    if (config_hook)
      for (Config& config : tuning.configs)
        config.pre_hook = [=](HookedLaunch& launch) { call(config_hook, launch, false, nullptr); };
    if (pre_hook)
      tuning.pre_hook = [=](HookedLaunch& launch, bool reset_only) { call(pre_hook, launch, reset_only, nullptr); };
    if (post_hook)
      tuning.post_hook = [=](HookedLaunch& launch, const char* error) { call(post_hook, launch, false, error); };
    out->kernel = k.autotune(std::move(tuning));
    *hooked = out.release();
  });
}

tegula_status tegula_kernel_is_hooked(const tegula_kernel* kernel, int32_t* hooked) {
  return guarded([&] {
    const Kernel& k = given(kernel, "kernel").kernel;
    given(hooked, "hooked");
    *hooked = 0;
    try {
      if (const Autotune* tuning = k.autotuning())
        *hooked = tuning->pre_hook || tuning->post_hook ||
                  std::ranges::any_of(tuning->configs, [](const Config& c) { return bool(c.pre_hook); });
    } catch (const CompileError&) {  // told by launches that need the declaration
    }
  });
}

void tegula_kernel_release(tegula_kernel* kernel) { delete kernel; }

const char* tegula_config_text(const tegula_config* config) { return config ? config->text.c_str() : ""; }

size_t tegula_config_num_constexprs(const tegula_config* config) {
  return config ? config->config.constexprs.size() : 0;
}

tegula_status tegula_config_constexpr(const tegula_config* config, size_t index, tegula_constexpr* out) {
  return guarded([&] {
    const auto& all = given(config, "config").config.constexprs;
    given(out, "out");
    if (index >= all.size())
      throw UsageError(fmt::format("constexpr {} of a configuration with {}", index, all.size()));
    *out = {all[index].name.c_str(), value_of(all[index].value)};
  });
}

tegula_status tegula_config_int(const tegula_config* config, const char* name, int64_t* value) {
  return guarded([&] {
    const Config& c = given(config, "config").config;
    std::string_view wanted = &given(name, "name");
    given(value, "value");
    const dsl::LaunchOption* option = c.find(wanted) ? nullptr : dsl::find_launch_option(wanted);
    *value = option ? (c.*option->config).value_or(option->info.fallback) : c[wanted];
  });
}

tegula_status tegula_kernel_launch(const tegula_kernel* kernel, tegula_device* device, uint32_t grid_x, uint32_t grid_y,
                                   uint32_t grid_z, const tegula_options* options, tegula_stream stream,
                                   const tegula_value* args, size_t num_args) {
  return guarded([&] {
    given(kernel, "kernel")
        .kernel.launch(*given(device, "device").device, Grid{grid_x, grid_y, grid_z}, options_of(options, stream),
                       Args(args, num_args).span());
  });
}

tegula_status tegula_kernel_launch_with(const tegula_kernel* kernel, tegula_device* device, tegula_grid_function grid,
                                        void* user, const tegula_options* options, tegula_stream stream,
                                        const tegula_value* args, size_t num_args) {
  return guarded([&] {
    auto function = grid_function(given(kernel, "kernel"), grid, user);
    kernel->kernel.launch(*given(device, "device").device, tegula::detail::GridRef(function),
                          options_of(options, stream), Args(args, num_args).span());
  });
}

tegula_status tegula_kernel_compile(const tegula_kernel* kernel, const char* target, const tegula_options* options,
                                    const tegula_value* args, size_t num_args, tegula_image** image) {
  return guarded([&] {
    const Kernel& k = given(kernel, "kernel").kernel;
    given(image, "image");
    LaunchOptions how = options_of(options, nullptr);
    Args list(args, num_args);
    *image = new tegula_image{k.compile(k.classify(list.span(), how), how, &given(target, "target"))};
  });
}

tegula_status tegula_kernel_written_args(const tegula_kernel* kernel, const tegula_options* options,
                                         const tegula_value* args, size_t num_args, uint8_t* written) {
  return guarded([&] {
    const Kernel& k = given(kernel, "kernel").kernel;
    given(written, "written");
    const std::vector<bool> found = k.written_args(Args(args, num_args).span(), options_of(options, nullptr));
    std::copy(found.begin(), found.end(), written);
  });
}

tegula_status tegula_kernel_explain(const tegula_kernel* kernel, tegula_device* device, const char* target,
                                    tegula_grid_function grid, void* user, const tegula_options* options,
                                    tegula_stream stream, const tegula_value* args, size_t num_args, int32_t measure,
                                    tegula_explanation** explanation) {
  return guarded([&] {
    auto function = grid_function(given(kernel, "kernel"), grid, user);
    given(explanation, "explanation");
    tegula::Explanation made = tegula::explain(
        kernel->kernel, tegula::detail::GridRef(function), options_of(options, stream), Args(args, num_args).span(),
        {.target = target ? target : "", .device = &*given(device, "device").device, .measure = measure != 0});
    std::string text = made.text(), json = made.json(), svg = made.roofline_svg();
    *explanation = new tegula_explanation{std::move(made), std::move(text), std::move(json), std::move(svg)};
  });
}

const char* tegula_explanation_text(const tegula_explanation* explanation) {
  return explanation ? explanation->text.c_str() : "";
}
const char* tegula_explanation_json(const tegula_explanation* explanation) {
  return explanation ? explanation->json.c_str() : "";
}
const char* tegula_explanation_svg(const tegula_explanation* explanation) {
  return explanation ? explanation->svg.c_str() : "";
}
void tegula_explanation_release(tegula_explanation* explanation) { delete explanation; }

tegula_status tegula_advise_fusion(const tegula_explanation* const* explanations, size_t num_explanations,
                                   const uint64_t* kept, size_t num_kept, const char** text, const char** json) {
  return guarded([&] {
    static thread_local std::string said_text, said_json;
    std::vector<tegula::Explanation> launches;
    for (size_t i = 0; i < num_explanations; ++i)
      launches.push_back(given(explanations[i], "explanations").explanation);
    const tegula::FusionAdvice advice = tegula::advise_fusion(launches, {kept, num_kept});
    said_text = advice.text(), said_json = advice.json();
    if (text) *text = said_text.c_str();
    if (json) *json = said_json.c_str();
  });
}

tegula_status tegula_kernel_prepare(const tegula_kernel* kernel, tegula_device* device, tegula_grid_function grid,
                                    void* user, const tegula_options* options, tegula_stream stream,
                                    const tegula_value* args, size_t num_args, tegula_image** image,
                                    const tegula_config** config) {
  return guarded([&] {
    auto function = grid_function(given(kernel, "kernel"), grid, user);
    given(image, "image");
    Kernel::Ready ready = kernel->kernel.ready(*given(device, "device").device, tegula::detail::GridRef(function),
                                               options_of(options, stream), Args(args, num_args).span());
    const tegula_config* chosen = kernel->handle_of(*ready.config);
    *image = new tegula_image{ready.handle->image()};
    if (config) *config = chosen;
  });
}

tegula_status tegula_prewarm(tegula_device* device, const char* file, size_t* ready) {
  return guarded([&] {
    Device& to = *given(device, "device").device;
    const std::string path = &given(file, "file");
    const size_t count =
        Package::is_package(path) ? prewarm(to, Package::read(path)) : prewarm(to, read_kernel_list(path));
    if (ready) *ready = count;
  });
}

tegula_status tegula_image_describe(const tegula_image* image, tegula_image_facts* facts) {
  return guarded([&] {
    const KernelImage& i = given(image, "image").image;
    fill(facts, {0, i.target.c_str(), i.num_warps, i.registers, i.spill_bytes, i.shared_bytes});
  });
}

const char* tegula_image_ptx(const tegula_image* image) { return image ? image->image.ptx.c_str() : ""; }
const char* tegula_image_transfers(const tegula_image* image) { return image ? image->transfers.c_str() : ""; }
void tegula_image_release(tegula_image* image) { delete image; }

}  // extern "C"
