#include "dsl/listing/resolve.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "dsl/listing/texts.h"
#include "dsl/specialize.h"
#include "runtime/base/files.h"

namespace tegula::dsl {

namespace fs = std::filesystem;

namespace {

// Texts of modules by their names: the .py files of a folder.
std::vector<std::pair<std::string, std::string>> read_modules(const std::string& folder) {
  std::vector<std::pair<std::string, std::string>> modules;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error))
    if (it->path().extension() == ".py") modules.emplace_back(it->path().stem().string(), read_file(it->path()));
  if (error) throw FileError(fmt::format("cannot read the modules of '{}': {}", folder, error.message()));
  std::sort(modules.begin(), modules.end());
  return modules;
}

Program load(const std::string& file, const ListedKernel& listed) {
  if (listed.modules.empty()) return load_program(file, listed.globals, listed.import_folders);
  return Program::parse(read_file(file), file, parse_globals(listed.globals), listed.import_folders,
                        read_modules(listed.modules));
}

// Arguments at the end that a line leaves out and that have defaults are left out of the launch.
void leave_out_defaults(const Kernel& kernel, const ListedKernel& listed, std::vector<ArgType>& types) {
  for (auto p = kernel.params().rbegin(); p != kernel.params().rend() && !types.empty(); ++p) {
    if (p->is_constexpr) continue;
    const bool is_given = std::any_of(listed.args.begin(), listed.args.end(),
                                      [&](const std::string& arg) { return arg.starts_with(p->name + "="); });
    if (is_given || !p->has_default) return;
    types.pop_back();
  }
}

}  // namespace

Kernel Resolver::find(const ListedKernel& listed) {
  if (listed.kernel.starts_with(kFunctionPrefix)) {
    const std::string name = listed.kernel.substr(kFunctionPrefix.size());
    for (const Kernel& kernel : functions_)
      if (kernel.name() == name) return kernel;
    throw TextError(fmt::format(
        "'{}' is a C++ function, which its program alone can compile\n  hint: have the program write the package "
        "itself (write_package), or give the kernel to prewarm()",
        name));
  }
  const KernelName name = parse_kernel_name(listed.kernel);
  const std::string key = fmt::format("{}\n{}\n{}\n{}", name.file, fmt::join(listed.globals, "\n"), listed.modules,
                                      fmt::join(listed.import_folders, ":"));
  std::lock_guard lock(mutex_);
  auto it = programs_.find(key);
  if (it == programs_.end()) it = programs_.emplace(key, load(name.file, listed)).first;
  return find_kernel(it->second, name);
}

ResolvedKernel Resolver::resolve(const ListedKernel& listed) {
  Kernel kernel = find(listed);
  LaunchOptions options = with_constexprs(listed.options, listed.constexprs);
  std::vector<ArgType> types = parse_arg_types(kernel, listed.args, options);
  leave_out_defaults(kernel, listed, types);
  complete_options(kernel, types, options);
  return {std::move(kernel), std::move(types), std::move(options)};
}

std::optional<ListedKernel> listed(const KernelSource& source, const std::vector<ArgType>& types,
                                   const LaunchOptions& options) {
  ListedKernel out;
  out.options = options;
  out.options.constexprs.clear();
  auto args = arg_texts(source.params(), types, options);
  if (!args) return std::nullopt;
  out.args = std::move(*args);
  auto add = [](const ConstexprArg& c, std::vector<std::string>& to) {
    const auto text = constexpr_text(c.value);
    if (text) to.push_back(fmt::format("{}={}", c.name, *text));
    return text.has_value();
  };
  for (const ConstexprArg& c : options.constexprs) {
    const bool is_argument = std::any_of(source.params().begin(), source.params().end(),
                                         [&](const KernelParam& p) { return p.name == c.name && !p.is_constexpr; });
    if (!is_argument && !add(c, out.constexprs)) return std::nullopt;
  }
  if (const auto texts = source.texts()) {
    for (const ConstexprArg& global : texts->globals)
      if (!add(global, out.globals)) return std::nullopt;
    out.import_folders = texts->import_folders;
  }
  return out;
}

PackagedChoice choice_of(const ListedKernel& listed) {
  PackagedChoice choice{listed.gpu, listed.choice, {}};
  for (const std::string& text : listed.when) {
    auto [name, value] = split_assignment(text, "--when");
    const Constexpr parsed = parse_constexpr(value);
    if (const auto* i = std::get_if<int64_t>(&parsed))
      choice.when.push_back({name, *i});
    else if (const auto* b = std::get_if<bool>(&parsed))
      choice.when.push_back({name, int64_t(*b)});
    else if (const auto* f = std::get_if<double>(&parsed))
      choice.when.push_back({name, *f});
    else
      throw TextError(fmt::format("--when '{}': expected a number", text));
  }
  return choice;
}

std::string when_text(const ArgumentValue& value) {
  const auto* f = std::get_if<double>(&value.value);
  return fmt::format("{}={}", value.name,
                     f ? to_string(Constexpr(*f)) : fmt::to_string(std::get<int64_t>(value.value)));
}

}  // namespace tegula::dsl
