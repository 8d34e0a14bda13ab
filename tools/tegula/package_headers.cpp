#include "tools/tegula/package_headers.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <set>
#include <vector>

namespace tegula::cli {

namespace {

/// An argument of a launch, as a function takes it.
struct Argument {
  std::string name;
  std::optional<Elem> pointee;  ///< of a pointer
  enum class Kind { Pointer, None, Integer, Float, Bool } kind;

  bool operator==(const Argument&) const = default;
};

/// A function for all specialisations of a kernel that take arguments of the same C types.
struct Function {
  std::string name;    ///< of the function
  std::string kernel;  ///< as the package has it
  std::vector<Argument> arguments;
  std::vector<std::string> forms;  ///< signature and configuration of each specialisation
  bool has_grid = true;            ///< each of them
};

std::string identifier(std::string_view text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name[0]))) name.insert(0, "_");
  return name;
}

// Names of the functions' own, and words of C and C++.
constexpr std::string_view kTaken[] = {
    "kernel",  "open",   "detail",   "stream",    "grid",    "grid_x",   "grid_y",   "grid_z",  "args",     "auto",
    "bool",    "break",  "case",     "char",      "class",   "const",    "continue", "default", "delete",   "do",
    "double",  "else",   "enum",     "export",    "extern",  "float",    "for",      "friend",  "goto",     "if",
    "inline",  "int",    "long",     "namespace", "new",     "operator", "private",  "public",  "register", "return",
    "short",   "signed", "sizeof",   "static",    "struct",  "switch",   "template", "this",    "throw",    "try",
    "typedef", "union",  "unsigned", "using",     "virtual", "void",     "volatile", "while"};

std::string argument_name(std::string_view text) {
  std::string name = identifier(text);
  return std::find(std::begin(kTaken), std::end(kTaken), name) == std::end(kTaken) ? name : name + "_";
}

Argument::Kind kind_of(const ImageParam& p) {
  if (p.pointer) return Argument::Kind::Pointer;
  if (p.elem == Elem::I1) return Argument::Kind::Bool;
  return is_float(p.elem) ? Argument::Kind::Float : Argument::Kind::Integer;
}

std::vector<Argument> arguments_of(const KernelImage& image) {
  std::vector<Argument> all;
  size_t param = 0;
  auto constant = image.constants.begin();
  for (size_t i = 0; i < image.params.size() + image.constants.size(); ++i) {
    if (constant != image.constants.end() && size_t(constant->position) == i) {
      all.push_back(
          {argument_name(constant->name), {}, constant->pointer ? Argument::Kind::None : Argument::Kind::Integer});
      ++constant;
      continue;
    }
    const ImageParam& p = image.params[param++];
    all.push_back({argument_name(p.name), p.pointer ? std::optional(p.elem) : std::nullopt, kind_of(p)});
  }
  return all;
}

// Types in the names of functions where a kernel has several: "f16_f32".
std::string suffix(const std::vector<Argument>& arguments) {
  std::string text;
  for (const Argument& a : arguments)
    if (a.pointee) text += std::string("_") + elem_info(*a.pointee).text;
  return text;
}

std::vector<Function> functions_of(const Package& package) {
  std::vector<Function> all;
  for (const PackagedKernel& k : package.kernels()) {
    const KernelImage& image = k.codes.front().image;
    std::vector<Argument> arguments = arguments_of(image);
    auto same = std::find_if(all.begin(), all.end(),
                             [&](const Function& f) { return f.kernel == k.name && f.arguments == arguments; });
    if (same == all.end()) same = all.insert(all.end(), {identifier(k.name), k.name, std::move(arguments), {}});
    same->has_grid = same->has_grid && k.grid;
    same->forms.push_back(fmt::format("{} {}", signature_text(image), k.config));
  }
  for (Function& f : all)
    if (std::count_if(all.begin(), all.end(), [&](const Function& g) { return g.kernel == f.kernel; }) > 1)
      f.name = identifier(f.kernel) + suffix(f.arguments);
  std::set<std::string> taken;
  for (Function& f : all)
    for (int n = 2; !taken.insert(f.name).second; ++n) f.name = fmt::format("{}_{}", identifier(f.kernel), n);
  return all;
}

// What C and C++ call the elements of an array; void: they have no name for them.
std::string element_type(Elem elem) {
  if (elem == Elem::F32) return "float";
  if (elem == Elem::F64) return "double";
  if (is_float(elem) || elem == Elem::I1) return "void";
  return fmt::format("{}int{}_t", is_signed(elem) ? "" : "u", elem_bits(elem));
}

std::string parameter_type(const Argument& a) {
  switch (a.kind) {
    case Argument::Kind::Pointer:
      return element_type(*a.pointee) + "* ";
    case Argument::Kind::None:
      return "const void* ";
    case Argument::Kind::Integer:
      return "int64_t ";
    case Argument::Kind::Float:
      return "double ";
    case Argument::Kind::Bool:
      return "int ";
  }
  return {};
}

// "F32" of Elem::F32.
std::string_view enumerator(Elem elem) {
  constexpr std::string_view kNames[] = {
#define TEGULA_ELEM(Name, ...) #Name,
#include "runtime/base/elem.def"
  };
  return kNames[size_t(elem)];
}

std::string dtype(Elem elem) {
  std::string name = elem_info(elem).tl;
  for (char& c : name) c = char(std::toupper(static_cast<unsigned char>(c)));
  return "TEGULA_" + name;
}

std::string c_value(const Argument& a) {
  switch (a.kind) {
    case Argument::Kind::Pointer:
      return fmt::format("{0} ? tegula_pointer((uint64_t)(uintptr_t){0}, {1}) : tegula_none()", a.name,
                         dtype(*a.pointee));
    case Argument::Kind::None:
      return fmt::format("{0} ? tegula_pointer((uint64_t)(uintptr_t){0}, TEGULA_INT8) : tegula_none()", a.name);
    case Argument::Kind::Integer:
      return fmt::format("tegula_int({})", a.name);
    case Argument::Kind::Float:
      return fmt::format("tegula_double({})", a.name);
    case Argument::Kind::Bool:
      return fmt::format("tegula_bool({})", a.name);
  }
  return {};
}

std::string cpp_value(const Argument& a) {
  if (a.kind == Argument::Kind::Pointer)
    return fmt::format("detail::pointer({}, tegula::Elem::{})", a.name, enumerator(*a.pointee));
  if (a.kind == Argument::Kind::None)
    return fmt::format("tegula::Arg::pointer(reinterpret_cast<uint64_t>({}))", a.name);
  if (a.kind == Argument::Kind::Bool) return fmt::format("tegula::Arg({} != 0)", a.name);
  return fmt::format("tegula::Arg({})", a.name);
}

std::string parameters(const Function& f) {
  std::string text;
  for (const Argument& a : f.arguments) text += fmt::format(", {}{}", parameter_type(a), a.name);
  return text;
}

template <class Value>
std::string values(const Function& f, Value value) {
  std::vector<std::string> texts;
  for (const Argument& a : f.arguments) texts.push_back(value(a));
  return fmt::format("{}", fmt::join(texts, ",\n      "));
}

std::string forms(const Function& f, std::string_view begin) {
  std::string text;
  for (const std::string& form : f.forms) text += fmt::format("{}{}\n", begin, form);
  return text;
}

constexpr const char* kCHead =
    R"(/* Kernels of a package, with the types of their arguments. Written by `tegula build --header`.
 * Pointers are addresses on the device; NULL stands for None. */
#ifndef {0}_TGP_H
#define {0}_TGP_H

#include <tegula/tegula_runtime.h>

#ifdef __cplusplus
extern "C" {{
#endif

)";

constexpr const char* kCppHead =
    R"(// Kernels of a package, with the types of their arguments. Written by `tegula build --cpp-header`.
// Pointers are addresses on the device; null stands for None.
#pragma once

#include <runtime/base/float16.h>
#include <runtime/package/package.h>
#include <runtime/sealing.h>

#include <array>
#include <cstdint>
#include <string_view>

)";

constexpr const char* kCppOpen = R"(/// The package as the object file holds it.
inline tegula::Package open() {{
  return tegula::Package::from_bytes({{reinterpret_cast<const char*>({0}_tgp), {0}_tgp_size}}, "{0}");
}}

)";

constexpr const char* kCppPointer = R"(namespace detail {
inline tegula::Arg pointer(const void* address, tegula::Elem elem) {
  return address ? tegula::Arg::pointer(reinterpret_cast<uint64_t>(address), elem) : tegula::Arg(nullptr);
}
}  // namespace detail

)";

constexpr const char* kCppClass = R"(class {0} {{
 public:
  {0}(const tegula::Package& package, tegula::Device& device) : kernel_(package, "{1}", device) {{}}
  void operator()(tegula::StreamHandle stream, tegula::Grid grid{2}) const {{
    const std::array<tegula::Arg, {4}> args{{{3}}};
    kernel_.launch(stream, grid, args);
  }}
  /// `grid`: a function of what is compiled in, of tegula::PackagedConfig.
  template <class F>
  requires std::is_invocable_r_v<tegula::Grid, const F&, const tegula::PackagedConfig&>
  void operator()(tegula::StreamHandle stream, const F& grid{2}) const {{
    const std::array<tegula::Arg, {4}> args{{{3}}};
    kernel_.launch(stream, grid, args);
  }}
{5}
 private:
  tegula::PackagedLaunch kernel_;
}};

)";

constexpr const char* kCppOwnGrid = R"(  /// With the grid that the package has.
  void operator()(tegula::StreamHandle stream, tegula::OwnGrid grid{0}) const {{
    const std::array<tegula::Arg, {2}> args{{{1}}};
    kernel_.launch(stream, grid, args);
  }}
)";

constexpr const char* kCOpen = R"(/* The package as the object file holds it. */
extern const unsigned char {0}_tgp[];
extern const uint64_t {0}_tgp_size;
static inline tegula_status {0}_open(tegula_package** package) {{
  return tegula_package_from_bytes({0}_tgp, (size_t){0}_tgp_size, "{0}", package);
}}

)";

// A function that launches with these parameters for the grid by this call, whose last arguments are added.
std::string c_function(const Function& f, const std::string& name, std::string_view grid, std::string_view call) {
  std::string text =
      fmt::format("static inline tegula_status {}(const tegula_packaged* kernel{},\n    tegula_stream stream{}) {{\n",
                  name, grid, parameters(f));
  if (f.arguments.empty()) return text + fmt::format("  return {}, NULL, 0);\n}}\n\n", call);
  return text + fmt::format("  const tegula_value args[] = {{\n      {}}};\n  return {}, args, {});\n}}\n\n",
                            values(f, c_value), call, f.arguments.size());
}

}  // namespace

std::string package_symbol(const std::string& output) {
  return identifier(std::filesystem::path(output).stem().string());
}

std::string c_header(const Package& package, const std::string& symbol, bool has_object) {
  std::string text = fmt::format(kCHead, symbol);
  if (has_object) text += fmt::format(kCOpen, symbol);
  for (const Function& f : functions_of(package)) {
    text += fmt::format("/* {}, loaded by tegula_package_load():\n{} */\n", f.kernel, forms(f, " *   "));
    text += c_function(f, symbol + "_" + f.name, ", uint32_t grid_x, uint32_t grid_y, uint32_t grid_z",
                       "tegula_packaged_launch(kernel, grid_x, grid_y, grid_z, stream");
    if (f.has_grid)
      text += c_function(f, symbol + "_" + f.name + "_own_grid", "", "tegula_packaged_launch_own_grid(kernel, stream");
  }
  return text + fmt::format("#ifdef __cplusplus\n}}\n#endif\n\n#endif /* {}_TGP_H */\n", symbol);
}

std::string cpp_header(const Package& package, const std::string& symbol, bool has_object) {
  std::string text = kCppHead;
  if (has_object)
    text += fmt::format(
        "extern \"C\" {{\nextern const unsigned char {0}_tgp[];\nextern const uint64_t {0}_tgp_size;\n}}\n\n", symbol);
  text += fmt::format("namespace {} {{\n\n", symbol);
  if (has_object) text += fmt::format(kCppOpen, symbol);
  text += kCppPointer;
  for (const Function& f : functions_of(package)) {
    text += forms(f, "/// ");
    const std::string own_grid = f.has_grid
                                     ? fmt::format(kCppOwnGrid, parameters(f),
                                                   f.arguments.empty() ? "" : values(f, cpp_value), f.arguments.size())
                                     : "";
    text += fmt::format(kCppClass, argument_name(f.name), f.kernel, parameters(f),
                        f.arguments.empty() ? "" : values(f, cpp_value), f.arguments.size(), own_grid);
  }
  return text + fmt::format("}}  // namespace {}\n", symbol);
}

}  // namespace tegula::cli
