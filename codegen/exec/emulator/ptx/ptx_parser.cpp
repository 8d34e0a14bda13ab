// Reads inline PTX: declarations, scopes, labels, instructions and their operands.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "codegen/exec/emulator/ptx/ptx.h"

namespace tegula::emulator::ptx {

namespace {

struct OpRow {
  std::string_view text;
  int types;
  int results;
  std::string_view operands;
  std::string_view modifiers;
};

constexpr OpRow kOps[] = {
#define TEGULA_PTX(Name, text, types, to, from, modifiers) {text, types, to, from, modifiers},
#include "codegen/exec/emulator/ptx/ptx.def"
};

struct SpecialRow {
  std::string_view text;
  int bits;
};
constexpr SpecialRow kSpecials[] = {
#define TEGULA_PTX_SPECIAL(Name, text, bits) {text, bits},
#include "codegen/exec/emulator/ptx/ptx.def"
};

struct TypeName {
  std::string_view text;
  Type type;
};
constexpr TypeName kTypes[] = {
    {"pred", {Form::Predicate, 1, 1}}, {"b8", {Form::Bits, 8, 1}},        {"b16", {Form::Bits, 16, 1}},
    {"b32", {Form::Bits, 32, 1}},      {"b64", {Form::Bits, 64, 1}},      {"u8", {Form::Unsigned, 8, 1}},
    {"u16", {Form::Unsigned, 16, 1}},  {"u32", {Form::Unsigned, 32, 1}},  {"u64", {Form::Unsigned, 64, 1}},
    {"s8", {Form::Signed, 8, 1}},      {"s16", {Form::Signed, 16, 1}},    {"s32", {Form::Signed, 32, 1}},
    {"s64", {Form::Signed, 64, 1}},    {"f16", {Form::Float, 16, 1}},     {"f16x2", {Form::Float, 16, 2}},
    {"bf16", {Form::BFloat, 16, 1}},   {"bf16x2", {Form::BFloat, 16, 2}}, {"f32", {Form::Float, 32, 1}},
    {"f64", {Form::Float, 64, 1}},     {"tf32", {Form::Tf32, 32, 1}},     {"e4m3x2", {Form::E4M3, 8, 2}},
    {"e5m2x2", {Form::E5M2, 8, 2}},    {"e2m3x2", {Form::E2M3, 8, 2}},    {"e3m2x2", {Form::E3M2, 8, 2}},
    {"e2m1x2", {Form::E2M1, 4, 2}},    {"ue8m0x2", {Form::UE8M0, 8, 2}},  {"u16x2", {Form::Unsigned, 16, 2}},
    {"s16x2", {Form::Signed, 16, 2}},
};

std::optional<Type> find_type(std::string_view text) {
  for (const TypeName& t : kTypes)
    if (t.text == text) return t.type;
  return std::nullopt;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == text.npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool has_word(std::string_view list, std::string_view word) {
  for (std::string_view w : split(list, ' '))
    if (w == word) return !word.empty();
  return false;
}

std::string without_comments(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text.substr(i, 2) == "//") {
      i = std::min(text.find('\n', i), text.size() - 1);
      out += '\n';
      continue;
    } else if (text.substr(i, 2) == "/*") {
      size_t end = text.find("*/", i + 2);
      if (end == text.npos) break;
      out.append(size_t(std::count(text.begin() + long(i), text.begin() + long(end), '\n')), '\n');
      i = end + 1;
    } else if (text.substr(i, 2) == "$$") {  // LLVM's way to write $
      out += '$', ++i;
      continue;
    } else {
      out += text[i];
      continue;
    }
    out += ' ';
  }
  return out;
}

std::string trimmed(std::string_view text) {
  std::string out;
  for (char c : text) {
    bool space = std::isspace(static_cast<unsigned char>(c));
    if (space && (out.empty() || out.back() == ' ')) continue;
    out += space ? ' ' : c;
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

struct Failure {
  std::string message;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view constraints) : text_(without_comments(text)) {
    read_constraints(constraints);
    scopes_.emplace_back();
  }

  Program run() {
    while (skip_space(), at_ < text_.size()) {
      if (text_[at_] == '{') {
        ++at_;
        scopes_.emplace_back();
      } else if (text_[at_] == '}') {
        ++at_;
        if (scopes_.size() == 1) throw Failure{"a '}' without its '{'"};
        scopes_.pop_back();
      } else if (text_[at_] == ';') {
        ++at_;
      } else {
        statement();
      }
    }
    if (scopes_.size() > 1) throw Failure{"a '{' without its '}'"};
    for (auto& [instruction, label] : branches_) {
      auto it = labels_.find(label);
      if (it == labels_.end()) throw Failure{fmt::format("the label '{}' is not in the block", label)};
      program_.code[instruction].target = it->second;
      program_.waits |= it->second <= instruction;
    }
    program_.slots = uint32_t(widths_.size());
    return std::move(program_);
  }

 private:
  void read_constraints(std::string_view constraints) {
    for (std::string_view part : split(constraints, ',')) {
      std::string c = trimmed(part);
      if (c.empty() || c[0] == '~') continue;
      bool early = c.starts_with("=&");
      if (c[0] == '=') {
        ++program_.results;
        c = c.substr(early ? 2 : 1);
      } else if (std::isdigit(static_cast<unsigned char>(c[0]))) {
        program_.ties.emplace_back(program_.operands, uint32_t(std::stoul(c)));
        c = "r";
      }
      if (c.size() != 1 || std::string_view("bchrlfdq").find(c[0]) == std::string_view::npos || c == "q")
        throw Failure{fmt::format("the constraint '{}'", trimmed(part))};
      ++program_.operands;
      widths_.push_back(c[0] == 'b' ? 1 : c[0] == 'c' || c[0] == 'h' ? 16 : c[0] == 'l' || c[0] == 'd' ? 64 : 32);
    }
  }

  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
  }

  void statement() {
    begin_ = at_;
    size_t end = at_;
    while (end < text_.size() && text_[end] != ';' && text_[end] != ':') ++end;
    // A label, unless the colon belongs to a modifier as .L1::evict_last does.
    while (end + 1 < text_.size() && text_[end] == ':' && text_[end + 1] == ':') {
      end += 2;
      while (end < text_.size() && text_[end] != ';' && text_[end] != ':') ++end;
    }
    statement_ = trimmed(std::string_view(text_).substr(at_, end - at_));
    bool label = end < text_.size() && text_[end] == ':';
    at_ = std::min(end + 1, text_.size());
    if (label) {
      labels_[statement_] = uint32_t(program_.code.size());
    } else if (statement_.starts_with(".reg")) {
      declare();
    } else {
      instruction();
    }
  }

  [[noreturn]] void refuse(std::string_view why = {}) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + long(begin_), '\n');
    throw Failure{fmt::format("the instruction '{};'{}{}{}", statement_,
                              line > 1 ? fmt::format(" in line {} of the assembly", line) : "", why.empty() ? "" : ": ",
                              why)};
  }

  /// .reg .b32 a, b<4>
  void declare() {
    size_t at = statement_.find_last_of('.');
    size_t space = statement_.find(' ', at);
    if (at == std::string::npos || space == std::string::npos) refuse();
    const auto type = find_type(std::string_view(statement_).substr(at + 1, space - at - 1));
    if (!type) refuse();
    auto add = [&](const std::string& name) {
      scopes_.back()[name] = uint32_t(widths_.size());
      widths_.push_back(type->width());
    };
    for (std::string_view part : split(std::string_view(statement_).substr(space + 1), ',')) {
      std::string name = trimmed(part);
      size_t open = name.find('<');
      if (open == std::string::npos) {
        add(name);
        continue;
      }
      uint32_t count = 0;
      std::from_chars(name.data() + open + 1, name.data() + name.size(), count);
      if (count > 4096) refuse();
      for (uint32_t i = 0; i < count; ++i) add(name.substr(0, open) + std::to_string(i));
    }
  }

  uint32_t slot_of_operand(std::string_view number) const {
    uint32_t n = 0;
    auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), n);
    if (error != std::errc() || end != number.data() + number.size() || n >= program_.operands)
      refuse(fmt::format("there is no operand ${}", number));
    for (auto [argument, result] : program_.ties)
      if (argument == n) return result;
    return n;
  }

  std::optional<uint32_t> find_register(std::string_view name) const {
    if (name.starts_with("${") && name.ends_with('}')) return slot_of_operand(name.substr(2, name.size() - 3));
    if (name.starts_with('$')) return slot_of_operand(name.substr(1));
    for (size_t i = scopes_.size(); i-- > 0;)
      if (auto it = scopes_[i].find(std::string(name)); it != scopes_[i].end()) return it->second;
    return std::nullopt;
  }

  void instruction() {
    Instruction out{};
    std::string_view rest = statement_;
    if (rest.starts_with('@')) {
      rest.remove_prefix(1);
      out.guard_negated = rest.starts_with('!');
      if (out.guard_negated) rest.remove_prefix(1);
      size_t space = rest.find(' ');
      auto slot = find_register(rest.substr(0, space));
      if (!slot || space == rest.npos) refuse();
      out.guard = int(*slot);
      rest.remove_prefix(space + 1);
    }
    size_t space = std::min(rest.find(' '), rest.size());
    const OpRow& row = opcode(out, rest.substr(0, space));
    rest.remove_prefix(std::min(space + 1, rest.size()));
    if (out.op == Op::Bra) {
      branches_.emplace_back(program_.code.size(), trimmed(rest));
      program_.code.push_back(std::move(out));
      return;
    }
    std::vector<std::string> operands = split_operands(rest);
    const size_t results = size_t(row.results), least = size_t(row.operands[0] - '0'),
                 most = size_t(row.operands.back() - '0');
    if (operands.size() < results + least || operands.size() > results + most) refuse();
    for (size_t i = 0; i < operands.size(); ++i) {
      std::vector<Operand>& list = i < results ? out.to : out.from;
      size_t before = list.size();
      read_operand(operands[i], list);
      (i < results ? out.to_groups : out.from_groups).push_back(int(list.size() - before));
    }
    check(out);
    program_.waits |=
        out.op == Op::Atom || out.op == Op::Red || (out.op == Op::Ld && out.mods.strong) || out.op == Op::Nanosleep;
    program_.code.push_back(std::move(out));
  }

  /// The name of an instruction with its modifiers and types.
  const OpRow& opcode(Instruction& out, std::string_view text) {
    std::vector<std::string_view> parts = split(text, '.');
    auto row = std::find_if(std::begin(kOps), std::end(kOps), [&](const OpRow& r) { return r.text == parts[0]; });
    if (row == std::end(kOps)) refuse();
    out.op = Op(row - std::begin(kOps));
    std::vector<Type> types;
    for (size_t i = 1; i < parts.size(); ++i) {
      if (auto type = find_type(parts[i])) {
        types.push_back(*type);
      } else if (!has_word(row->modifiers, parts[i])) {
        refuse();
      } else {
        modifier(out, parts[i]);
      }
    }
    if (int(types.size()) != row->types) refuse();
    if (!types.empty()) out.type = types.front(), out.source = types.back();
    return *row;
  }

  static void modifier(Instruction& out, std::string_view m) {
    Modifiers& mods = out.mods;
    static constexpr std::pair<std::string_view, Round> kRounds[] = {{"rn", Round::Nearest},
                                                                     {"rz", Round::Zero},
                                                                     {"rm", Round::Down},
                                                                     {"rp", Round::Up},
                                                                     {"rna", Round::NearestAway}};
    for (auto& [name, round] : kRounds) {
      if (m != name && !(m.size() == 3 && m.substr(0, 2) == name && m[2] == 'i')) continue;
      mods.round = round;
      mods.integral = m.size() == 3 && m[2] == 'i';
      return;
    }
    const bool moves = out.op == Op::Ld || out.op == Op::St;
    if (orders(out, m)) return;
    if (m == "approx" || m == "full")
      mods.approximate = true;
    else if (m == "ftz")
      mods.flush = true;
    else if (m == "sat" || m == "satfinite")
      mods.saturate = true;
    else if (m == "relu")
      mods.relu = true;
    else if (m == "NaN")
      mods.nan = true;
    else if (m == "cc")
      mods.carry = true;
    else if (m == "shiftamt")
      mods.shift = true;
    else if (m == "wrap")
      mods.wrap = true;
    else if (m == "l")
      mods.left = true;
    else if (m == "v2" || m == "v4")
      mods.vector = uint8_t(m[1] - '0');
    else if ((out.op == Op::Setp || out.op == Op::Set) && (m == "and" || m == "or" || m == "xor"))
      mods.combine = m;
    else if ((m == "lo" || m == "hi" || m == "wide") && out.op != Op::Setp && out.op != Op::Set)
      mods.part = m[0];
    else if (!moves && out.op != Op::Prefetch)
      choose(out, m);
  }

  /// What says which accesses of other threads an access or a fence orders.
  static bool orders(Instruction& out, std::string_view m) {
    Modifiers& mods = out.mods;
    const bool fences = out.op == Op::Fence || out.op == Op::Membar;
    if (!fences && out.op != Op::Ld && out.op != Op::St && out.op != Op::Atom && out.op != Op::Red) return false;
    if (m == "cta")
      mods.scope = Modifiers::Scope::Program;
    else if (m == "cluster")
      mods.scope = Modifiers::Scope::Cluster;
    else if (m == "relaxed" || m == "mmio")
      mods.strong = true;
    else if (m == "volatile")  // a load acquires, as tl.load(volatile=True) does
      mods.strong = true, mods.acquires = out.op == Op::Ld;
    else if (m == "acquire")
      mods.strong = mods.acquires = true;
    else if (m == "release")
      mods.strong = mods.releases = true;
    else if (m == "acq_rel")
      mods.strong = mods.acquires = mods.releases = true;
    else
      return false;
    return true;
  }

  /// What names the function of an instruction rather than how it is done.
  static void choose(Instruction& out, std::string_view m) {
    static constexpr std::string_view kManner =
        " r clamp to global cta gpu sys noftz uni sc gl sync aligned "
        "fractional wait "
        "launch_dependents ";
    const bool is_choice = !has_word(kManner, m) || (out.op == Op::Vote && m == "uni");
    if (is_choice && m.find("::") == m.npos) out.mods.choice = m;
  }

  /// At commas outside of braces and brackets; `p|q` is two results.
  std::vector<std::string> split_operands(std::string_view text) const {
    std::vector<std::string> parts;
    int depth = 0;
    std::string part;
    for (char c : text) {
      depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      if (c == ',' && depth == 0) {
        parts.push_back(trimmed(part));
        part.clear();
      } else {
        part += c;
      }
    }
    if (std::string last = trimmed(part); !last.empty() || !parts.empty()) parts.push_back(last);
    return parts;
  }

  void read_operand(const std::string& text, std::vector<Operand>& list) {
    if (text.starts_with('{') && text.ends_with('}')) {
      for (std::string_view part : split(std::string_view(text).substr(1, text.size() - 2), ','))
        list.push_back(single(trimmed(part)));
    } else if (text.starts_with('[') && text.ends_with(']')) {
      std::string inner = trimmed(std::string_view(text).substr(1, text.size() - 2));
      size_t plus = inner.find_first_of("+-", 1);
      Operand base = single(trimmed(std::string_view(inner).substr(0, plus)));
      if (plus != std::string::npos) {
        auto offset = integer(trimmed(std::string_view(inner).substr(plus + 1)));
        if (!offset) refuse();
        base.offset = inner[plus] == '-' ? -int64_t(*offset) : int64_t(*offset);
        if (inner[plus] == '+' && int64_t(*offset) < 0) base.offset = int64_t(*offset);
      }
      list.push_back(base);
    } else if (size_t bar = text.find('|'); bar != std::string::npos) {
      list.push_back(single(trimmed(std::string_view(text).substr(0, bar))));
      list.push_back(single(trimmed(std::string_view(text).substr(bar + 1))));
    } else {
      list.push_back(single(text));
    }
  }

  Operand single(std::string text) const {
    Operand out;
    if (text == "_") return out;
    if (text.starts_with('!')) out.negated = true, text = trimmed(std::string_view(text).substr(1));
    if (auto slot = find_register(text)) {
      out.kind = Operand::Register;
      out.index = *slot;
      return out;
    }
    for (size_t i = 0; i < std::size(kSpecials); ++i)
      if (kSpecials[i].text == text) {
        out.kind = Operand::Special;
        out.index = uint32_t(i);
        return out;
      }
    if (text == "WARP_SZ") return {Operand::Immediate, false, 0, 32};
    std::string digits = text;
    bool hexadecimal_float =
        digits.size() > 2 && digits[0] == '0' && std::string_view("fFdD").find(digits[1]) != std::string_view::npos;
    if (hexadecimal_float) digits[1] = 'x';
    if (auto value = integer(digits)) {
      out.kind = hexadecimal_float ? Operand::FloatBits : Operand::Immediate;
      out.bits = *value;
      return out;
    }
    char* end = nullptr;
    out.number = std::strtod(text.c_str(), &end);
    if (text.empty() || *end ||
        !(std::isdigit(static_cast<unsigned char>(text[0])) || text[0] == '-' || text[0] == '.'))
      refuse(fmt::format("'{}' is no register", text));
    out.kind = Operand::Number;
    return out;
  }

  static std::optional<uint64_t> integer(std::string text) {
    bool negative = text.starts_with('-') || text.starts_with('~');
    bool inverted = text.starts_with('~');
    if (negative || text.starts_with('+')) text.erase(0, 1);
    if (text.ends_with('U') || text.ends_with('u')) text.pop_back();
    int base = 10;
    if (text.starts_with("0x") || text.starts_with("0X"))
      base = 16, text.erase(0, 2);
    else if (text.starts_with("0b") || text.starts_with("0B"))
      base = 2, text.erase(0, 2);
    else if (text.size() > 1 && text[0] == '0')
      base = 8;
    uint64_t value = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
    if (text.empty() || error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    if (inverted) return ~value;
    return negative ? uint64_t(-int64_t(value)) : value;
  }

  /// What a row cannot say; numbers get the type that reads them.
  void check(Instruction& i) {
    auto all_single = [](const std::vector<int>& groups) {
      return std::all_of(groups.begin(), groups.end(), [](int n) { return n == 1; });
    };
    const bool moves = i.op == Op::Mov, memory = i.op == Op::Ld || i.op == Op::St;
    const bool pairs = i.op == Op::Setp || i.op == Op::Shf || i.op == Op::Lop3 || i.op == Op::Shfl ||
                       i.op == Op::Match || i.op == Op::Elect;
    if (!moves && !memory && !all_single(i.from_groups)) refuse();
    if (!moves && !memory && !pairs && !all_single(i.to_groups)) refuse();
    if (i.op == Op::Ld && i.to.size() != i.mods.vector) refuse();
    if (i.op == Op::St && i.from_groups[1] != i.mods.vector) refuse();
    if (moves && i.to.size() > 1 && i.from.size() > 1) refuse();
    if (i.op == Op::Cvt && (i.from.size() == 2) != (i.type.lanes == 2 && i.source.lanes == 1)) refuse();
    const bool text_choice = i.op == Op::Setp || i.op == Op::Set || i.op == Op::Testp || i.op == Op::Atom ||
                             i.op == Op::Red || i.op == Op::Shfl || i.op == Op::Vote || i.op == Op::Match ||
                             i.op == Op::Redux;
    if (text_choice && i.mods.choice.empty()) refuse();
    // A register may be wider than what cvt and ld give.
    if ((i.op == Op::Cvt || i.op == Op::Ld) && i.type.form == Form::Signed && i.to[0].kind == Operand::Register)
      if (const int bits = widths_[i.to[0].index]; bits > i.type.width()) i.extended_to = bits;
    const bool floats = i.type.is_float();
    const bool only_floats = i.op >= Op::Sqrt && i.op <= Op::CopySign;
    const bool only_bits = (i.op >= Op::And && i.op <= Op::Szext) || i.op == Op::Dp4a || i.op == Op::Rem;
    if ((only_floats && !floats) || (only_bits && floats)) refuse();
    Type read = i.op == Op::Cvt || i.op == Op::Set ? i.source : i.type;
    for (Operand& o : i.from) {
      if (o.kind == Operand::Immediate && read.is_float() && !memory && !moves && i.op != Op::Selp &&
          i.op != Op::Slct && i.op != Op::Atom)
        refuse(fmt::format("{} is no floating-point number", int64_t(o.bits)));
      if (o.kind == Operand::Number) {
        if (!read.is_float() && read.form != Form::Bits) refuse();
        Type rounded = read.is_float() ? read : Type{Form::Float, read.bits, 1};
        o.bits = from_double(rounded, o.number, {});
        o.kind = Operand::FloatBits;
      }
    }
  }

  std::string text_;
  size_t at_ = 0;
  std::string statement_;
  size_t begin_ = 0;  ///< of the statement
  Program program_;
  std::vector<int> widths_;  ///< of the registers, in bits, by slot
  std::vector<std::map<std::string, uint32_t>> scopes_;
  std::map<std::string, uint32_t> labels_;
  std::vector<std::pair<size_t, std::string>> branches_;
};

}  // namespace

std::variant<Program, std::string> parse(std::string_view text, std::string_view constraints) {
  try {
    Program program = Parser(text, constraints).run();
    program.text = text, program.constraints = constraints;
    return program;
  } catch (Failure& failure) {
    return std::move(failure.message);
  }
}

}  // namespace tegula::emulator::ptx
