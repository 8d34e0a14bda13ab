#include "kernels/signature.h"

#include <algorithm>
#include <charconv>

#include "kernels/activation.h"
#include "runtime/base/check.h"

namespace tegula::kernels::detail {

namespace {

constexpr std::string_view kSpace = " \n";

std::string_view trimmed(std::string_view text) {
  const size_t first = text.find_first_not_of(kSpace);
  if (first == text.npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

// The parts between separators that stand in no brackets.
std::vector<std::string_view> parts_of(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i <= text.size(); ++i) {
    if (i < text.size()) depth += text[i] == '[' || text[i] == '{' ? 1 : text[i] == ']' || text[i] == '}' ? -1 : 0;
    if (i < text.size() && (text[i] != separator || depth > 0)) continue;
    if (const auto part = trimmed(text.substr(begin, i - begin)); !part.empty()) parts.push_back(part);
    begin = i + 1;
  }
  return parts;
}

template <class T>
std::optional<T> number_of(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// One reading of a signature.
class Reader {
 public:
  explicit Reader(Entry& entry) : entry_(entry) {}

  void operand(std::string_view text) {
    OperandInfo info;
    info.written = text.starts_with('&');
    info.alone = text.starts_with("&!");
    const size_t colon = text.find(':'), marks = size_t(info.written) + size_t(info.alone);
    check(colon != text.npos, text);
    info.name = trimmed(text.substr(marks, colon - marks));
    std::string_view type = text.substr(colon + 1), fallback;
    if (const size_t equals = type.find('='); equals != type.npos) {
      fallback = trimmed(type.substr(equals + 1));
      type = type.substr(0, equals);
    }
    type = trimmed(type);
    info.optional = !fallback.empty();
    if (type.ends_with('?')) {
      info.optional = true;
      type.remove_suffix(1);
    }
    read_type(info, type);
    if (!fallback.empty()) info.fallback = default_of(info, fallback);
    entry_.operands.push_back(std::move(info));
  }

 private:
  void check(bool right, std::string_view text) const {
    TEGULA_CHECK(right, "signature of the library's entry '{}': '{}' is not understood", entry_.name, text);
  }

  void read_type(OperandInfo& info, std::string_view type) {
    using Kind = OperandInfo::Kind;
    if (read_number(info, type)) return;
    if (type == "bool") return void(info.kind = Kind::Bool);
    const size_t open = type.find_first_of("[{");
    if (open != type.npos) return read_tensor(info, type.substr(0, open), type.substr(open));
    info.kind = Kind::Choice;
    if (type == "activation") return void(info.choices.assign(std::begin(kActivations), std::end(kActivations)));
    for (const std::string_view choice : parts_of(type, '|')) info.choices.emplace_back(choice);
    check(info.choices.size() > 1, type);
  }

  // "int", "int 1..", "float 0..1": a number with its bounds.
  bool read_number(OperandInfo& info, std::string_view type) {
    const size_t space = type.find(' ');
    const std::string_view name = type.substr(0, space);
    if (name != "int" && name != "float") return false;
    info.kind = name == "int" ? OperandInfo::Kind::Int : OperandInfo::Kind::Float;
    if (space == type.npos) return true;
    const std::string_view bounds = trimmed(type.substr(space));
    const size_t dots = bounds.find("..");
    check(dots != bounds.npos, type);
    const auto least = number_of<double>(bounds.substr(0, dots));
    check(least.has_value(), type);
    info.least = *least;
    if (bounds.ends_with("..")) return true;
    const auto most = number_of<double>(bounds.substr(dots + 2));
    check(most.has_value(), type);
    info.most = *most;
    return true;
  }

  void read_tensor(OperandInfo& info, std::string_view elems, std::string_view extents) {
    for (const std::string_view elem : parts_of(elems, '|')) {
      if (elem.size() == 1) {
        check(elem[0] >= 'A' && elem[0] <= 'Z', elems);
        info.variable = elem[0];
        continue;
      }
      const std::optional<Elem> found = elem_from_text(elem);
      check(found.has_value(), elems);
      info.elems.push_back(*found);
    }
    info.any_strides = extents[0] == '{';
    check(extents.back() == (info.any_strides ? '}' : ']'), extents);
    for (const std::string_view extent : parts_of(extents.substr(1, extents.size() - 2), ',')) {
      if (const auto count = number_of<int64_t>(extent)) {
        info.extents.push_back({-1, *count});
        continue;
      }
      int dim = entry_.find_dim(extent);
      if (dim < 0) {
        dim = int(entry_.dims.size());
        entry_.dims.emplace_back(extent);
      }
      info.extents.push_back({dim});
    }
    check(info.extents.size() <= Tensor::kMaxRank && entry_.dims.size() <= BoundCall::kMaxDims, extents);
  }

  Operand default_of(const OperandInfo& info, std::string_view text) const {
    switch (info.kind) {
      case OperandInfo::Kind::Bool:
        check(text == "True" || text == "False", text);
        return Operand(text == "True");
      case OperandInfo::Kind::Int:
        check(number_of<int64_t>(text).has_value(), text);
        return Operand(*number_of<int64_t>(text));
      case OperandInfo::Kind::Float:
        check(number_of<double>(text).has_value(), text);
        return Operand(*number_of<double>(text));
      case OperandInfo::Kind::Choice: {
        const auto at = std::ranges::find(info.choices, text);
        check(at != info.choices.end(), text);
        Operand choice;
        choice.value = Operand::Choice{at - info.choices.begin()};
        return choice;
      }
      case OperandInfo::Kind::Tensor:
        check(false, text);
    }
    return {};
  }

  Entry& entry_;
};

}  // namespace

void read_signature(Entry& entry) {
  Reader reader(entry);
  for (const std::string_view operand : parts_of(entry.signature, ',')) reader.operand(operand);
  TEGULA_CHECK(entry.operands.size() <= BoundCall::kMaxOperands, "the library's entry '{}' has {} operands", entry.name,
               entry.operands.size());
}

}  // namespace tegula::kernels::detail
