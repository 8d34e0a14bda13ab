// Text at compile time: f-strings and the methods of strings.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "dsl/language/checker_impl.h"
#include "dsl/language/host_values.h"

namespace tegula::language {

namespace {

constexpr size_t kMaxText = 1 << 16;
constexpr int kMaxNested = 1000;

// As repr() writes a string.
std::string quoted(std::string_view text) {
  const char quote = text.find('\'') != text.npos && text.find('"') == text.npos ? '"' : '\'';
  std::string out(1, quote);
  for (const char c : text) {
    if (c == quote || c == '\\')
      out += std::string("\\") + c;
    else if (c == '\n' || c == '\t' || c == '\r')
      out += c == '\n' ? "\\n" : c == '\t' ? "\\t" : "\\r";
    else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
      out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    else
      out += c;
  }
  return out + quote;
}

// A value with this text under a format, as Python writes it. Nothing where the format cannot be applied to it.
std::optional<std::string> under_format(const Val& v, std::string text, std::string spec) {
  const bool real = std::string_view("eEfFgG%").find(spec.back()) != std::string_view::npos;
  const bool percent = spec.back() == '%';
  if (percent) spec.back() = 'f';
  const std::string format = fmt::format("{{:{}}}", spec);
  try {
    const auto* integer = v.get_if<dsl::Int>();
    if (real && (integer || v.is<double>()))
      return fmt::format(fmt::runtime(format),
                         (percent ? 100 : 1) * (integer ? integer->to_double() : v.as<double>())) +
             (percent ? "%" : "");
    if (integer && integer->narrow()) return fmt::format(fmt::runtime(format), *integer->narrow());
    if (v.is<double>()) return fmt::format(fmt::runtime(format), v.as<double>());
    return fmt::format(fmt::runtime(format), text);
  } catch (const fmt::format_error&) {
    return std::nullopt;
  }
}

}  // namespace

Val Checker::too_long(size_t characters, Loc loc) {
  return error(loc, fmt::format("the text has {} characters, more than {}", characters, kMaxText));
}

Val Checker::python_text(const Val& v, bool is_repr, Loc loc, int depth) {
  if (const auto* text = v.get_if<std::string>()) return is_repr ? Val(quoted(*text)) : v;
  const auto* tuple = v.get_if<dsl::TupleVal>();
  const auto* dict = get_host<DictObject>(v);
  const auto* set = get_host<SetObject>(v);
  const bool is_plain = dsl::is_number(v) || v.is<dsl::None>() || (v.is<dsl::DType>() && !is_repr);
  if (is_plain) return dsl::text_of(v);
  if (v.is_poison()) return v;
  if ((!tuple && !dict && !set) || is_view(v) || (tuple && tuple->fields && tuple->fields->methods) ||
      (set && set->items.items.size() > 1))
    return error(loc, fmt::format("the text of {} is not evaluated", is_view(v) ? "an iterator" : dsl::describe(v)));
  if (depth > kMaxNested) return error(loc, fmt::format("the text of what is nested more than {} deep", kMaxNested));
  std::string out;
  auto add = [&](const Val& item, std::string_view ahead) {
    const Val text = python_text(item, true, loc, depth + 1);
    if (text.is_poison() || out.size() > kMaxText) return false;
    out += std::string(ahead) + text.as<std::string>();
    return true;
  };
  for (size_t i = 0; tuple && i < tuple->items->size(); ++i) {
    const std::string name = tuple->fields ? tuple->fields->names[i] + "=" : "";
    if (!add((*tuple->items)[i], (i ? ", " : "") + name))
      return out.size() > kMaxText ? too_long(out.size(), loc) : Val();
  }
  if (dict || set)
    for (const auto& [key, value] : (dict ? *dict : set->items).items)
      if (!add(key, out.empty() ? "" : ", ") || (dict && !add(value, ": ")))
        return out.size() > kMaxText ? too_long(out.size(), loc) : Val();
  if (set) return Val(out.empty() ? "set()" : "{" + out + "}");
  if (dict) return Val("{" + out + "}");
  if (tuple->is_list) return Val("[" + out + "]");
  const dsl::TupleFields* fields = tuple->fields.get();
  return Val((fields ? fields->type : "") + "(" + out + (!fields && tuple->items->size() == 1 ? ",)" : ")"));
}

// What the format cannot be applied to is written without it in a kernel, and an error in host code.
Val Checker::formatted(const Val& v, std::string_view how, Loc loc) {
  const size_t colon = how.find(':');
  const bool is_repr = how.starts_with("!r") || how.starts_with("!a");
  Val text = host_ ? python_text(v, is_repr, loc)
                   : Val(is_repr && v.is<std::string>() ? quoted(v.as<std::string>()) : dsl::text_of(v));
  const std::string spec(colon == std::string_view::npos ? "" : how.substr(colon + 1));
  if (spec.empty() || text.is_poison()) return text;
  if (auto out = under_format(v, text.as<std::string>(), spec)) return Val(std::move(*out));
  return host_ ? error(loc, fmt::format("the format '{}' is not evaluated for {}", spec, dsl::describe(v))) : text;
}

// As in Triton, of compile-time values alone.
Val Checker::eval_format(const Expr& e) {
  std::string text = e.names[0];
  bool ok = true;
  for (size_t i = 0; i < e.children.size(); ++i) {
    Val v = e.children[i] ? eval(*e.children[i]) : error(e.loc, "an f-string takes expressions between its braces");
    if (v.is_value()) {
      const size_t before = diags_.size();
      v = error(e.children[i]->loc, fmt::format("an f-string takes compile-time values, found {}", dsl::describe(v)),
                "print('x', x) prints its elements when the kernel runs, tl.static_print(x) its type");
      if (untyped_ && unknown_) diags_.soften(before);  // compile-time conditions may rule the branch out
    }
    ok = ok && !v.is_poison();
    const Val part = ok ? formatted(v, e.operators[i], e.loc) : Val();
    ok = ok && !part.is_poison();
    if (ok) text += part.as<std::string>() + e.names[i + 1];
    if (text.size() > kMaxText) return too_long(text.size(), e.loc);
  }
  return ok ? Val(std::move(text)) : Val();
}

// ---- Methods

namespace {

constexpr std::string_view kBlanks = " \t\r\n\f\v";

std::string stripped(std::string_view text, std::string_view name, std::string_view characters) {
  const size_t begin = name == "rstrip" ? 0 : std::min(text.find_first_not_of(characters), text.size());
  const size_t end = name == "lstrip" ? text.size() : text.find_last_not_of(characters) + 1;
  return std::string(text.substr(begin, end > begin ? end - begin : 0));
}

/// The parts between separators; of an empty separator the words between blanks.
std::vector<Val> split(std::string_view text, std::string_view separator) {
  std::vector<Val> parts;
  if (separator.empty()) {
    for (size_t at = text.find_first_not_of(kBlanks); at != text.npos;) {
      const size_t end = std::min(text.find_first_of(kBlanks, at), text.size());
      parts.emplace_back(std::string(text.substr(at, end - at)));
      at = text.find_first_not_of(kBlanks, end);
    }
    return parts;
  }
  for (size_t at = 0;;) {
    const size_t end = text.find(separator, at);
    parts.emplace_back(std::string(text.substr(at, end == text.npos ? end : end - at)));
    if (end == text.npos) return parts;
    at = end + separator.size();
  }
}

std::string replaced(std::string_view text, std::string_view what, std::string_view by) {
  std::string out;
  for (size_t at = 0; at < text.size() && out.size() <= kMaxText;) {
    const size_t found = what.empty() ? text.npos : text.find(what, at);
    out += text.substr(at, found == text.npos ? found : found - at);
    if (found == text.npos) break;
    out += by;
    at = found + what.size();
  }
  return out;
}

/// The argument that a field of a format names: the next one, one by its number, or one by its name.
const Argument* field_argument(const std::vector<Argument>& args, std::string_view field, size_t& next) {
  size_t wanted = next;
  if (field.empty()) {
    ++next;
  } else if (std::isdigit(static_cast<unsigned char>(field[0])) && field.size() < 6) {
    wanted = size_t(std::stoi(std::string(field)));
  } else {
    const auto it = std::find_if(args.begin(), args.end(), [&](const Argument& a) { return a.name == field; });
    return it == args.end() ? nullptr : &*it;
  }
  for (const Argument& a : args)
    if (a.name.empty() && wanted-- == 0) return &a;
  return nullptr;
}

/// As str.format() has it; nothing where a field has no argument.
std::optional<std::string> format_text(std::string_view text, const std::vector<Argument>& args,
                                       const std::function<Val(const Val&, std::string_view)>& formatted) {
  std::string out;
  size_t next = 0;
  for (size_t at = 0; at < text.size() && out.size() <= kMaxText; ++at) {
    const char c = text[at];
    if ((c == '{' || c == '}') && text.substr(at + 1).starts_with(c)) {
      out += text[at++];
    } else if (c == '{') {
      const size_t end = text.find('}', at);
      if (end == text.npos) return std::nullopt;
      const std::string_view field = text.substr(at + 1, end - at - 1);
      const size_t how = std::min(field.find_first_of("!:"), field.size());
      const Argument* argument = field_argument(args, field.substr(0, how), next);
      if (!argument || argument->value.is_value()) return std::nullopt;
      const Val part = formatted(argument->value, field.substr(how));
      if (part.is_poison()) return std::nullopt;
      out += part.as<std::string>();
      at = end;
    } else {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::optional<Val> Checker::text_method(const std::string& text, const std::string& name,
                                        const std::vector<Argument>& args, Loc loc) {
  auto made = [&](std::string out) { return out.size() > kMaxText ? too_long(out.size(), loc) : Val(std::move(out)); };
  if (name == "format") {
    auto out = format_text(text, args, [&](const Val& v, std::string_view how) { return formatted(v, how, loc); });
    return out ? made(std::move(*out)) : error(loc, "the fields of the text are not those that format() is given");
  }
  std::vector<std::string> texts;
  for (const Argument& a : args)
    if (a.value.is<std::string>()) texts.push_back(a.value.as<std::string>());
  const bool all = texts.size() == args.size();
  if ((name == "lower" || name == "upper") && args.empty()) {
    std::string out = text;
    for (char& c : out) c = char(name == "lower" ? std::tolower(c) : std::toupper(c));
    return Val(std::move(out));
  }
  if ((name == "startswith" || name == "endswith") && all && args.size() == 1)
    return Val(name == "startswith" ? text.starts_with(texts[0]) : text.ends_with(texts[0]));
  if ((name == "strip" || name == "lstrip" || name == "rstrip") && all && args.size() <= 1)
    return made(stripped(text, name, args.empty() ? kBlanks : std::string_view(texts[0])));
  if (name == "split" && all && args.size() <= 1) {
    if (args.size() == 1 && texts[0].empty()) return error(loc, "the separator of split() is empty");
    return dsl::make_list(split(text, args.empty() ? "" : texts[0]));
  }
  if (name == "replace" && all && args.size() == 2) return made(replaced(text, texts[0], texts[1]));
  if (name != "join" || args.size() != 1) return std::nullopt;
  auto items = iterate(args[0].value, args[0].loc);
  if (!items) return Val();
  std::string out;
  for (const Val& item : *items) {
    if (!item.is<std::string>())
      return error(args[0].loc, fmt::format("join() takes strings, found {}", dsl::describe(item)));
    out += (&item == items->data() ? "" : text) + item.as<std::string>();
    if (out.size() > kMaxText) break;
  }
  return made(std::move(out));
}

}  // namespace tegula::language
