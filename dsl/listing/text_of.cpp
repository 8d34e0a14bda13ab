// The way back: types and compile-time values as the texts that texts.cpp reads.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "dsl/listing/texts.h"

namespace tegula::dsl {

namespace {

/// The value cannot stand on one line.
struct NoText {};

std::string text_of(const Constexpr& value);

std::string quoted(const std::string& value) {
  if (value.find_first_of("\n\r") != value.npos) throw NoText();
  return fmt::format("{0}{1}{0}", value.find('\'') == value.npos ? '\'' : '"', value);
}

// "Point(x=1, y=2)" or "(1, 2)"; `item` gives the text of each item.
template <class ItemText>
std::string tuple_text(const ConstexprTuple& tuple, ItemText item) {
  std::string out = tuple.names.empty() ? "(" : tuple.type + "(";
  for (size_t i = 0; i < tuple.items.size(); ++i)
    out += (i ? ", " : "") + (i < tuple.names.size() ? tuple.names[i] + "=" : "") + item(tuple.items[i]);
  return out + ")";
}

std::string text_of(const Constexpr& value) {
  if (const auto* text = std::get_if<std::string>(&value)) return quoted(*text);
  if (const auto* tuple = std::get_if<ConstexprTuple>(&value)) return tuple_text(*tuple, text_of);
  if (std::holds_alternative<NextArg>(value)) throw NoText();
  return to_string(value);
}

// Of an argument that is no descriptor, or of a part of one.
std::string text_of(const ArgType& type) {
  if (type.constant) return type.pointer ? "None" : fmt::format("{}", *type.constant);
  std::string text = fmt::format("{}{}", type.pointer ? "*" : "", elem_info(type.elem).text);
  if (type.divisible_by != (type.pointer ? 16 : 1)) text += fmt::format(":{}", type.divisible_by);
  return text;
}

// Of the next argument, with the parts of a descriptor, which it takes away.
std::string take_text(std::span<const ArgType>& types) {
  if (types.empty()) throw NoText();
  const ArgType type = types.front();
  const size_t rank = type.block_shape.size();
  const auto parts = types.subspan(1, std::min(2 * rank, types.size() - 1));
  types = types.subspan(1 + parts.size());
  if (!rank) return text_of(type);
  if (type.constant || parts.size() != 2 * rank) throw NoText();
  std::string text = fmt::format("*{}", elem_info(type.elem).text);
  if (type.divisible_by != 16) text += fmt::format(":{}", type.divisible_by);
  std::vector<std::string> extents, strides;
  for (size_t i = 0; i < rank; ++i) extents.push_back(text_of(parts[i]));
  for (size_t i = rank; i + 1 < 2 * rank; ++i) strides.push_back(text_of(parts[i]));
  return fmt::format("{}[{}]{{{}{}{}}}{}", text, fmt::join(type.block_shape, ","), fmt::join(extents, ","),
                     rank > 1 ? ";" : "", fmt::join(strides, ","), type.pad_nan ? "nan" : "");
}

std::string take_tuple(std::span<const ArgType>& types, const ConstexprTuple& tuple) {
  return tuple_text(tuple, [&](const Constexpr& item) -> std::string {
    if (std::holds_alternative<NextArg>(item)) return take_text(types);
    if (const auto* inner = std::get_if<ConstexprTuple>(&item); inner && inner->num_args())
      return take_tuple(types, *inner);
    return "=" + text_of(item);
  });
}

const ConstexprTuple* tuple_of(const KernelParam& param, const LaunchOptions& options) {
  for (const ConstexprArg& c : options.constexprs)
    if (c.name == param.name) return std::get_if<ConstexprTuple>(&c.value);
  return nullptr;
}

}  // namespace

std::optional<std::string> constexpr_text(const Constexpr& value) try { return text_of(value); } catch (NoText) {
  return std::nullopt;
}

std::optional<std::vector<std::string>> arg_texts(const std::vector<KernelParam>& params,
                                                  const std::vector<ArgType>& types, const LaunchOptions& options) try {
  std::vector<std::string> texts;
  std::span<const ArgType> rest = types;
  for (const KernelParam& param : params) {
    if (param.is_constexpr) continue;
    const ConstexprTuple* tuple = tuple_of(param, options);
    if (!tuple && rest.empty() && param.has_default) break;  // left out, as the launch leaves it out
    texts.push_back(param.name + "=" + (tuple ? take_tuple(rest, *tuple) : take_text(rest)));
  }
  return texts;
} catch (NoText) {
  return std::nullopt;
}

std::string quoted_word(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,+-@%^";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return text;
  std::string out = "'";
  for (char c : text) out += c == '\'' ? std::string("'\"'\"'") : std::string(1, c);
  return out + "'";
}

}  // namespace tegula::dsl
