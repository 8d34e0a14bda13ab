#include "dsl/listing/texts.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <cstdlib>
#include <iostream>
#include <iterator>
#include <map>
#include <sstream>

#include "runtime/base/files.h"

namespace tegula::dsl {

namespace {

std::optional<int64_t> parse_int(std::string_view text) {
  int64_t value = 0;
  int base = 10;
  bool minus = !text.empty() && text[0] == '-';
  if (minus) text.remove_prefix(1);
  if (text.substr(0, 2) == "0x") text.remove_prefix(2), base = 16;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return minus ? -value : value;
}

std::optional<double> parse_double(const std::string& text) {
  char* end = nullptr;
  double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end) return std::nullopt;
  return value;
}

constexpr size_t kMaxTupleText = 1000;

/// "(a, (b, c), d[1,2])", or "Point(x=a, y=b)" of a named tuple.
struct TupleText {
  std::string type;
  std::vector<std::string> names;  ///< of a named tuple
  std::vector<std::string> items;
};

// What stands between the commas, without blanks around it.
std::vector<std::string> split_items(std::string_view text) {
  std::vector<std::string> items;
  std::string item;
  int depth = 0;
  char quote = 0;
  auto end_item = [&] {
    const size_t first = item.find_first_not_of(' ');
    if (first != item.npos) items.push_back(item.substr(first, item.find_last_not_of(' ') - first + 1));
    item.clear();
  };
  for (char c : text) {
    if (quote ? c == quote : c == '\'' || c == '"') quote = quote ? 0 : c;
    if (!quote)
      depth += (c == '(' || c == '[' || c == '<' || c == '{') - (c == ')' || c == ']' || c == '>' || c == '}');
    if (c == ',' && depth == 0 && !quote)
      end_item();
    else
      item += c;
  }
  end_item();
  return items;
}

size_t name_length(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && (std::isalnum(static_cast<unsigned char>(text[n])) || text[n] == '_')) ++n;
  return n && std::isdigit(static_cast<unsigned char>(text[0])) ? 0 : n;
}

// Nothing if the text is no tuple.
std::optional<TupleText> parse_tuple_text(std::string_view text) {
  TupleText tuple;
  const size_t name = name_length(text);
  if (text.size() < name + 2 || text[name] != '(' || text.back() != ')') return std::nullopt;
  tuple.type = text.substr(0, name);
  tuple.items = split_items(text.substr(name + 1, text.size() - name - 2));
  if (!name) return tuple;
  for (std::string& item : tuple.items) {
    const size_t field = name_length(item);
    if (!field || field == item.size() || item[field] != '=') return std::nullopt;
    tuple.names.push_back(item.substr(0, field));
    item.erase(0, field + 1);
  }
  return tuple;
}

std::optional<bool> parse_bool(std::string_view text) {
  if (text == "true" || text == "True") return true;
  if (text == "false" || text == "False") return false;
  return std::nullopt;
}

}  // namespace

KernelName parse_kernel_name(const std::string& text) {
  size_t colons = text.rfind("::");
  if (colons == std::string::npos) return {text, ""};
  KernelName name{text.substr(0, colons), text.substr(colons + 2)};
  if (name.file.empty() || name.kernel.empty())
    throw TextError(fmt::format("'{}': expected FILE::KERNEL, such as softmax.py::softmax", text));
  return name;
}

Kernel find_kernel(const Program& program, const KernelName& name) {
  if (!name.kernel.empty()) return program.kernel(name.kernel);
  std::vector<std::string> kernels = program.kernels();
  if (kernels.empty()) throw TextError(fmt::format("'{}' has no @triton.jit function", name.file));
  if (std::vector<std::string> entries = program.entry_points(); !entries.empty()) kernels = std::move(entries);
  if (kernels.size() > 1)
    throw TextError(
        fmt::format("'{0}' has several kernels: name one as {0}::KERNEL ({1})", name.file, fmt::join(kernels, ", ")));
  return program.kernel(kernels[0]);
}

std::pair<std::string, std::string> split_assignment(const std::string& text, const std::string& option,
                                                     bool may_be_empty) {
  size_t equals = text.find('=');
  if (equals == 0 || equals == std::string::npos || (equals + 1 == text.size() && !may_be_empty))
    throw TextError(fmt::format("{} '{}': expected NAME=VALUE", option, text));
  return {text.substr(0, equals), text.substr(equals + 1)};
}

Constexpr parse_constexpr(const std::string& text) {
  if (text.size() < kMaxTupleText)
    if (auto given = parse_tuple_text(text)) {
      ConstexprTuple tuple{{}, std::move(given->type), std::move(given->names)};
      for (const std::string& item : given->items) tuple.items.push_back(parse_constexpr(item));
      return tuple;
    }
  if (text == "None") return std::monostate();
  if (auto b = parse_bool(text)) return *b;
  if (auto i = parse_int(text)) return *i;
  std::string_view type = text;
  if (type.substr(0, 3) == "tl.") type.remove_prefix(3);
  if (auto elem = elem_from_text(type)) return *elem;
  if (auto d = parse_double(text)) return *d;
  bool quoted = text.size() >= 2 && (text[0] == '\'' || text[0] == '"') && text.back() == text[0];
  return quoted ? text.substr(1, text.size() - 2) : text;
}

std::optional<Arg> parse_scalar(const std::string& text) {
  if (text == "None") return Arg(nullptr);
  if (auto b = parse_bool(text)) return Arg(*b);
  if (auto i = parse_int(text)) return Arg(*i);
  if (auto d = parse_double(text)) return Arg(*d);
  return std::nullopt;
}

void check_argument_name(const Kernel& kernel, const std::string& name) {
  std::vector<std::string> names;
  for (const KernelParam& p : kernel.params()) {
    if (!p.is_constexpr) names.push_back(p.name);
    if (p.name != name) continue;
    if (!p.is_constexpr) return;
    throw TextError(fmt::format("'{0}' is a compile-time argument: give it as --constexpr {0}=VALUE", name));
  }
  throw TextError(
      fmt::format("kernel '{}' has no argument '{}'; it has: {}", kernel.name(), name, fmt::join(names, ", ")));
}

namespace {

// "[64,32]" of a descriptor's blocks.
std::vector<int64_t> parse_block_shape(const std::string& argument, std::string_view text) {
  std::vector<int64_t> shape;
  const bool closed = text.size() > 2 && text.back() == ']';
  for (std::string_view rest = closed ? text.substr(1, text.size() - 2) : ""; !rest.empty();) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const auto extent = parse_int(rest.substr(0, comma));
    if (!extent || *extent < 1) break;
    shape.push_back(*extent);
    if (comma == rest.size()) return shape;
    rest.remove_prefix(comma + 1);
  }
  throw TextError(
      fmt::format("--arg '{}': '{}' are no extents of blocks; expected such as *f16[64,32]", argument, text));
}

// Extents as multiples of 16, strides likewise, the last one 1.
std::vector<ArgType> descriptor_parts(size_t rank) {
  std::vector<ArgType> parts(2 * rank, {.elem = Elem::I32, .divisible_by = 16});
  for (size_t i = rank; i < 2 * rank; ++i) parts[i].elem = Elem::I64;
  parts.back() = {.elem = Elem::I64, .constant = 1};
  return parts;
}

// "tensordesc<bf16[64, 64]>", as Triton writes it, is "*bf16[64,64]".
std::string without_tensordesc(std::string text) {
  constexpr std::string_view kName = "tensordesc<";
  if (!text.starts_with(kName) || text.back() != '>') return text;
  text = "*" + text.substr(kName.size(), text.size() - kName.size() - 1);
  std::erase(text, ' ');
  return text;
}

std::vector<ArgType> parse_type(const std::string& text, std::string value);

// "[64,32]{i32:16,i32;i64:8}nan" of a descriptor; returns the types of its parts.
std::vector<ArgType> parse_descriptor(const std::string& text, std::string_view value, ArgType& type) {
  if (value.ends_with("nan")) {
    type.pad_nan = true;
    value.remove_suffix(3);
  }
  const size_t brace = std::min(value.find('{'), value.size());
  type.block_shape = parse_block_shape(text, value.substr(0, brace));
  std::vector<ArgType> parts = descriptor_parts(type.block_shape.size());
  if (brace == value.size()) return parts;
  std::vector<std::string> given;
  if (value.back() == '}') {
    std::string inside(value.substr(brace + 1, value.size() - brace - 2));
    std::replace(inside.begin(), inside.end(), ';', ',');
    given = split_items(inside);
  }
  if (given.size() + 1 != parts.size())
    throw TextError(fmt::format("--arg '{}': expected the types of {} extents and {} strides in braces", text,
                                type.block_shape.size(), type.block_shape.size() - 1));
  for (size_t i = 0; i < given.size(); ++i) parts[i] = parse_type(text, given[i]).front();
  return parts;
}

// The type of one argument with, of a descriptor, those of its parts. `text` is the whole of "NAME=TYPE".
std::vector<ArgType> parse_type(const std::string& text, std::string value) {
  ArgType type;
  if (value == "None") {
    type.pointer = true;
    type.constant = 0;
    return {type};
  }
  if (auto constant = parse_int(value)) {
    type.constant = *constant;
    return {type};
  }
  value = without_tensordesc(std::move(value));
  std::vector<ArgType> parts;
  std::string_view rest = value;
  type.pointer = rest.starts_with('*');
  if (type.pointer) rest.remove_prefix(1);
  if (const size_t bracket = rest.find('['); type.pointer && bracket != rest.npos) {
    parts = parse_descriptor(text, rest.substr(bracket), type);
    rest = rest.substr(0, bracket);  // "f16", or "f16:4"
  }
  const size_t colon = rest.find(':');
  std::string_view elem_text = rest.substr(0, colon);
  if (elem_text.substr(0, 3) == "tl.") elem_text.remove_prefix(3);
  auto elem = elem_from_text(elem_text);
  if (!elem)
    throw TextError(
        fmt::format("--arg '{}': '{}' is no type; expected f32, i64, *bf16, ..., *f32:4 with a divisor, a "
                    "descriptor's *f16[64,32] or a tuple (*f32, i32)",
                    text, value));
  type.elem = *elem;
  type.divisible_by = type.pointer ? 16 : 1;
  if (colon != rest.npos) {
    auto divisor = parse_int(rest.substr(colon + 1));
    if (!divisor || *divisor < 1 || !std::has_single_bit(uint64_t(*divisor)))
      throw TextError(fmt::format("--arg '{}': the divisor behind ':' must be a power of two", text));
    type.divisible_by = *divisor;
  }
  parts.insert(parts.begin(), type);
  return parts;
}

constexpr int kMaxNestedTuples = 32;

ConstexprTuple parse_tuple(const std::string& text, TupleText given, std::vector<ArgType>& types, int depth = 0) {
  if (depth > kMaxNestedTuples) throw TextError(fmt::format("--arg '{}': tuples are nested too deep", text));
  ConstexprTuple tuple{{}, std::move(given.type), std::move(given.names)};
  for (const std::string& item : given.items) {
    if (item.starts_with('=')) {
      tuple.items.push_back(parse_constexpr(item.substr(1)));
    } else if (auto inner = parse_tuple_text(item)) {
      tuple.items.emplace_back(parse_tuple(text, std::move(*inner), types, depth + 1));
    } else {
      tuple.items.emplace_back(NextArg());
      const std::vector<ArgType> parts = parse_type(text, item);
      types.insert(types.end(), parts.begin(), parts.end());
    }
  }
  return tuple;
}

}  // namespace

std::vector<ArgType> parse_arg_types(const Kernel& kernel, const std::vector<std::string>& texts,
                                     LaunchOptions& options) {
  std::vector<std::string> names;
  std::vector<std::vector<ArgType>> types;
  for (const KernelParam& p : kernel.params()) {
    if (p.is_constexpr) continue;
    names.push_back(p.name);
    types.push_back({{.elem = p.annotated.value_or(Elem::I32)}});
  }
  for (const std::string& text : texts) {
    auto [name, value] = split_assignment(text, "--arg");
    check_argument_name(kernel, name);
    std::vector<ArgType>& given = types[size_t(std::find(names.begin(), names.end(), name) - names.begin())];
    if (auto tuple = parse_tuple_text(value)) {
      given.clear();
      options.constexprs.emplace_back(name, parse_tuple(text, std::move(*tuple), given));
    } else {
      given = parse_type(text, value);
    }
  }
  std::vector<ArgType> all;
  for (const auto& of_one : types) all.insert(all.end(), of_one.begin(), of_one.end());
  return all;
}

std::vector<ConstexprArg> parse_globals(const std::vector<std::string>& globals) {
  std::vector<ConstexprArg> values;
  for (const std::string& text : globals) {
    auto [name, value] = split_assignment(text, "--global", true);
    values.emplace_back(name, parse_constexpr(value));
  }
  return values;
}

Program load_program(const std::string& file, const std::vector<std::string>& globals,
                     std::vector<std::string> folders) {
  if (const char* path = std::getenv("PYTHONPATH")) {
    std::istringstream parts(path);
    for (std::string folder; std::getline(parts, folder, ':');)
      if (!folder.empty()) folders.push_back(folder);
  }
  if (file == "-") return Program::parse(read_text(file), "<stdin>", parse_globals(globals), std::move(folders));
  return Program::load(file, parse_globals(globals), std::move(folders));
}

std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words;
  bool inside = false;  // of a word
  char quote = 0;
  for (char c : line) {
    if (!quote && std::isspace(static_cast<unsigned char>(c))) {
      inside = false;
      continue;
    }
    if (!inside) words.emplace_back();
    inside = true;
    if (quote ? c == quote : c == '\'' || c == '"')
      quote = quote ? 0 : c;
    else
      words.back() += c;
  }
  if (quote) throw TextError(fmt::format("the quote {} has no end", quote));
  return words;
}

std::string read_text(const std::string& file) {
  return file == "-" ? std::string(std::istreambuf_iterator<char>(std::cin), {}) : read_file(file);
}

bool complete_options(const Kernel& kernel, const std::vector<ArgType>& types, LaunchOptions& options) {
  auto is_open = [&](const KernelParam& p) {
    return p.is_constexpr && !p.has_default &&
           std::none_of(options.constexprs.begin(), options.constexprs.end(),
                        [&](const ConstexprArg& c) { return c.name == p.name; });
  };
  if (std::none_of(kernel.params().begin(), kernel.params().end(), is_open)) return false;
  std::vector<Arg> args;
  for (size_t i = 0; i < types.size(); i += 1 + 2 * types[i].block_shape.size()) {  // a descriptor as its pointer
    const ArgType& t = types[i];
    const int64_t assumed = t.divisible_by >= 16 ? kAssumedInteger : kAssumedInteger + 1;
    if (t.pointer)
      args.push_back(t.constant ? Arg(nullptr) : Arg::pointer(uint64_t(assumed), t.elem));
    else if (is_float(t.elem))
      args.emplace_back(1.0);
    else if (t.elem == Elem::I1)
      args.emplace_back(true);
    else
      args.emplace_back(t.constant.value_or(assumed));
  }
  LaunchOptions full = kernel.with_first_config(args, options);
  if (full.constexprs.size() == options.constexprs.size()) return false;
  options = std::move(full);
  return true;
}

LaunchOptions with_constexprs(LaunchOptions options, const std::vector<std::string>& texts) {
  for (const std::string& text : texts) {
    auto [name, value] = split_assignment(text, "--constexpr", true);
    options.constexprs.emplace_back(name, parse_constexpr(value));
  }
  return options;
}

}  // namespace tegula::dsl
