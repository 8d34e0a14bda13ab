// Support for the tests of PTX: a kernel text of the tree, compiled as a line of words says.
#pragma once

#include <cctype>
#include <iterator>
#include <map>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "dsl/tegula.h"

namespace tegula::kernel_texts {

/// A kernel with the arguments that it is compiled for. Arguments not named are int32 multiples of 16; "=1" compiles
/// the
// value in, ":1" promises no divisibility. Constexprs look the same.
struct Case {
  const char* file;
  const char* kernel;
  const char* arguments;  ///< empty: a helper that other kernels call
  int num_warps;
  const char* only_on = nullptr;  ///< the one target that it is meant for; null: all
};

inline std::optional<Elem> elem_of_name(const std::string& name) {
  static const std::map<std::string, Elem> names = {
      {"i8", Elem::I8},   {"u8", Elem::U8},   {"i32", Elem::I32}, {"f8e4m3", Elem::F8E4M3}, {"f8e5m2", Elem::F8E5M2},
      {"i64", Elem::I64}, {"f16", Elem::F16}, {"f32", Elem::F32}, {"bf16", Elem::BF16},     {"f64", Elem::F64}};
  auto it = names.find(name);
  return it == names.end() ? std::nullopt : std::optional(it->second);
}

inline ArgType arg_type(std::string text) {
  static const std::regex form(R"((\*?)(\w+)(?:([:=])(\d+))?)");
  std::smatch match;
  if (!std::regex_match(text, match, form)) throw std::invalid_argument(text);
  ArgType type{.elem = elem_of_name(match[2]).value(), .pointer = match[1].length() > 0};
  if (type.pointer || type.elem == Elem::I32) type.divisible_by = 16;
  if (match[3] == ":") type.divisible_by = std::stoll(match[4]);
  if (match[3] == "=") type.constant = std::stoll(match[4]);
  return type;
}

struct Specialisation {
  Kernel kernel;
  std::vector<ArgType> types;
  LaunchOptions options;
};
inline Specialisation specialisation(const Case& c, int num_warps) {
  Specialisation out{
      Program::load(std::string(TEGULA_SOURCE_DIR "/") + c.file).kernel(c.kernel), {}, {.num_warps = num_warps}};
  std::map<std::string, std::string> given;
  std::istringstream words(c.arguments);
  for (std::string word; words >> word;) given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  for (const KernelParam& p : out.kernel.params()) {
    if (p.is_constexpr && !given.contains(p.name)) continue;  // it has a default
    const std::string text = given.contains(p.name) ? given[p.name] : "i32";
    if (!p.is_constexpr)
      out.types.push_back(arg_type(text));
    else if (auto elem = elem_of_name(text))
      out.options.constexprs.emplace_back(p.name, Constexpr(*elem));
    else if (std::isdigit(text[0]))
      out.options.constexprs.emplace_back(p.name, std::stoi(text));
    else
      out.options.constexprs.emplace_back(p.name, text);
  }
  return out;
}

inline KernelImage compile(const Case& c, int num_warps, const char* target, int bulk_copies = 0) {
  Specialisation x = specialisation(c, num_warps);
  x.options.bulk_copies = bulk_copies;
  return x.kernel.compile(x.types, x.options, target);
}

/// How often a regular expression is found in a text.
inline ptrdiff_t count(const std::string& text, const std::string& pattern) {
  const std::regex form(pattern);
  return std::distance(std::sregex_iterator(text.begin(), text.end(), form), std::sregex_iterator());
}

}  // namespace tegula::kernel_texts
