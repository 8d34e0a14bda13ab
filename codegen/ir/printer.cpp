#include "codegen/ir/printer.h"

#include <fmt/format.h>

#include <bit>
#include <cmath>
#include <unordered_map>

namespace tegula::ir {

namespace {

std::string quote(std::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\t':
        out += "\\t";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f)
          out += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        else
          out += c;
    }
  }
  return out + '"';
}

// A double never reads as an integer, and a NaN keeps its sign and payload.
std::string double_text(double value) {
  if (std::isnan(value)) {
    uint64_t bits = std::bit_cast<uint64_t>(value);
    return bits == 0x7ff8000000000000u ? "nan" : fmt::format("nan({:#x})", bits);
  }
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::string text = fmt::format("{}", value);
  return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
}

struct AttrText {
  std::string operator()(bool v) const { return v ? "true" : "false"; }
  std::string operator()(int64_t v) const { return fmt::format("{}", v); }
  std::string operator()(double v) const { return double_text(v); }
  std::string operator()(const std::string& v) const { return quote(v); }
  std::string operator()(const std::vector<int64_t>& v) const { return fmt::format("[{}]", fmt::join(v, ", ")); }
};

std::string attrs_text(const Attrs& attrs) {
  if (attrs.empty()) return {};
  std::string out;
  for (auto& [name, value] : attrs)
    out += fmt::format("{}{} = {}", out.empty() ? " {" : ", ", name, std::visit(AttrText{}, value));
  return out + "}";
}

bool plain_name(std::string_view name) {
  for (char c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '.') return false;
  return !name.empty();
}

class Printer {
 public:
  Printer(const Block& body, bool locations) : locations_(locations) { number(body); }

  std::string func(const Func& f) {
    std::string text = fmt::format("func @{}(", plain_name(f.name) ? f.name : quote(f.name));
    for (size_t i = 0; i < f.body.args.size(); ++i) {
      const Value& arg = *f.body.args[i];
      text += fmt::format("{}{}: {} {}", i ? ", " : "", value(&arg), type(arg.type), quote(arg.name));
      int64_t divisor = i < f.divisibility.size() ? f.divisibility[i] : 1;
      if (divisor != 1) text += fmt::format(" div {}", divisor);
    }
    text += ")" + attrs_text(f.attrs) + location(f.loc) + " {\n";
    out_ = std::move(text);
    block(f.body, 1);
    std::string aliases;
    for (size_t i = 0; i < layouts_.size(); ++i)
      aliases += fmt::format("#{} = layout {{{}}}\n", i, layouts_[i]->to_string());
    return aliases + out_ + "}\n";
  }

  std::string op_line(const Op& op) {
    std::string text;
    for (auto& r : op.results) text += (text.empty() ? "" : ", ") + value(r.get());
    if (!op.results.empty()) text += " = ";
    text += op.info().text;
    size_t count = op.operands.size();
    while (!op.info().variadic && count > 0 && !op.operands[count - 1]) --count;
    for (size_t i = 0; i < count; ++i) text += (i ? ", " : " ") + value(op.operands[i]);
    text += attrs_text(op.attrs);
    for (auto& r : op.results) text += (r->index ? ", " : " : ") + type(r->type);
    return text + location(op.loc);
  }

 private:
  void number(const Block& b) {
    for (auto& arg : b.args) numbers_.emplace(arg.get(), int(numbers_.size())), note_layout(arg->type);
    for (auto& op : b.ops) {
      for (auto& r : op->results) numbers_.emplace(r.get(), int(numbers_.size())), note_layout(r->type);
      for (auto& region : op->regions) number(*region);
    }
  }

  void note_layout(const Type& t) {
    if (!t.layout || aliases_.contains(t.layout.get())) return;
    size_t i = 0;
    while (i < layouts_.size() && !(*layouts_[i] == *t.layout)) ++i;
    if (i == layouts_.size()) layouts_.push_back(t.layout.get());
    aliases_[t.layout.get()] = int(i);
  }

  std::string value(const Value* v) const {
    if (!v) return "_";
    auto it = numbers_.find(v);
    return it == numbers_.end() ? "%?" : fmt::format("%{}", it->second);
  }

  std::string type(const Type& t) const {
    std::string text = t.to_string();
    if (!t.layout || t.is_scalar()) return text;
    auto it = aliases_.find(t.layout.get());
    text.pop_back();
    return fmt::format("{}, #{}>", text, it == aliases_.end() ? "?" : std::to_string(it->second));
  }

  std::string location(const Loc& loc) const {
    if (!locations_ || !loc) return {};
    return fmt::format(" loc({}:{}:{})", quote(loc.file ? *loc.file : ""), loc.line, loc.column);
  }

  void block(const Block& b, int depth) {
    for (auto& op : b.ops) {
      out_.append(2 * depth, ' ');
      out_ += op_line(*op);
      for (auto& region : op->regions) {
        out_ += " { ^(";
        for (auto& arg : region->args)
          out_ += fmt::format("{}{}: {}", arg->index ? ", " : "", value(arg.get()), type(arg->type));
        out_ += "):\n";
        block(*region, depth + 1);
        out_.append(2 * depth, ' ');
        out_ += '}';
      }
      out_ += '\n';
    }
  }

  bool locations_;
  std::string out_;
  std::unordered_map<const Value*, int> numbers_;
  std::vector<const LinearLayout*> layouts_;
  std::unordered_map<const LinearLayout*, int> aliases_;
};

}  // namespace

std::string print(const Func& func, const PrintOptions& options) {
  return Printer(func.body, options.locations).func(func);
}

std::string print_line(const Op& op) {
  const Block* root = op.parent;
  while (root && root->parent) root = root->parent->parent;
  if (root) return Printer(*root, false).op_line(op);
  return Printer(Block(), false).op_line(op);
}

}  // namespace tegula::ir
