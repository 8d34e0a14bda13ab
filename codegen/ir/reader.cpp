#include "codegen/ir/reader.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <unordered_map>

#include "codegen/layout/linear_layout.h"

namespace tegula::ir {

namespace {

// Thrown at the first error of a line, after it was reported; the reader continues with the next line.
struct LineError {};

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

class Reader {
 public:
  Reader(std::string_view text, std::string_view file, Diagnostics& diags, const ReadOptions& options)
      : text_(text), file_(intern_file(file)), diags_(diags), options_(options) {
    diags_.sources().add(file_, std::string(text));
  }

  std::unique_ptr<Func> run() {
    size_t errors = diags_.size();
    func_ = std::make_unique<Func>();
    attempt([&] { header(); });
    if (in_body_) {
      block(func_->body);
      resolve();
      next_line();
      if (!at_end()) attempt([&] { fail("the end of the text: one text holds one function"); });
    }
    return diags_.size() == errors ? std::move(func_) : nullptr;
  }

 private:
  // ---- Characters
  bool at_end() const { return at_ >= text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool at_comment() const { return text_.substr(at_, 2) == "//"; }

  void blanks() {
    while (peek() == ' ' || peek() == '\t' || peek() == '\r') ++at_;
    if (at_comment())
      while (!at_end() && peek() != '\n') ++at_;
  }
  // Skips to the next token, on this or a later line.
  void next_line() {
    for (blanks(); peek() == '\n'; blanks()) ++at_;
  }
  void skip_line() {
    while (!at_end() && peek() != '\n') ++at_;
  }

  Loc loc_of(size_t begin, size_t end) {
    while (line_start_ > begin) line_ = 1, line_start_ = 0;
    for (size_t newline; (newline = text_.find('\n', line_start_)) < begin; ++line_) line_start_ = newline + 1;
    return {file_, line_, int(begin - line_start_) + 1, int(end - line_start_) + 1};
  }

  // The text at the current position, for messages.
  std::string found(size_t* end) {
    *end = at_ + 1;
    if (at_end()) return "the end of the text";
    if (peek() == '\n') return "the end of the line";
    while (*end < text_.size() && is_word(text_[*end - 1]) && is_word(text_[*end])) ++*end;
    return fmt::format("'{}'", text_.substr(at_, *end - at_));
  }

  [[noreturn]] void fail(std::string_view expected) {
    blanks();
    size_t end;
    std::string what = found(&end);
    diags_.error(loc_of(at_, end), fmt::format("found {}, expected {}", what, expected));
    throw LineError{};
  }
  Diag& error(size_t begin, size_t end, std::string message) {
    return diags_.error(loc_of(begin, end), std::move(message));
  }

  // False if a line could not be read: then the rest of it is skipped.
  bool attempt(const std::function<void()>& read_line) {
    try {
      read_line();
      return true;
    } catch (const LineError&) {
      return false;
    }
  }

  // ---- Tokens
  bool accept(std::string_view token) {
    blanks();
    if (text_.substr(at_, token.size()) != token) return false;
    if (is_word(token.back()) && at_ + token.size() < text_.size() && is_word(text_[at_ + token.size()])) return false;
    at_ += token.size();
    return true;
  }
  void expect(std::string_view token) {
    if (!accept(token)) fail(fmt::format("'{}'", token));
  }
  std::string_view word(std::string_view expected) {
    blanks();
    size_t begin = at_;
    while (is_word(peek())) ++at_;
    if (at_ == begin) fail(expected);
    return text_.substr(begin, at_ - begin);
  }

  std::string string(std::string_view expected) {
    blanks();
    if (peek() != '"') fail(expected);
    size_t begin = at_++;
    std::string out;
    while (peek() != '"') {
      if (at_end() || peek() == '\n') {
        error(begin, at_, "the string has no end: expected '\"' on the same line");
        throw LineError{};
      }
      if (peek() != '\\') {
        out += text_[at_++];
        continue;
      }
      ++at_;
      char c = peek();
      ++at_;
      if (c == 'x') {
        int code = 0;
        auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + std::min(at_ + 2, text_.size()), code, 16);
        if (ec != std::errc()) fail("two hexadecimal digits behind \\x");
        at_ = end - text_.data();
        out += char(code);
      } else if (c == 'n' || c == 't') {
        out += c == 'n' ? '\n' : '\t';
      } else if (c == '"' || c == '\\') {
        out += c;
      } else {
        --at_;
        fail("one of \\\" \\\\ \\n \\t \\x behind a backslash");
      }
    }
    ++at_;
    return out;
  }

  int64_t integer(std::string_view expected) {
    blanks();
    int64_t value = 0;
    auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), value);
    if (ec == std::errc::invalid_argument) fail(expected);
    if (ec == std::errc::result_out_of_range) fail(fmt::format("{} of at most 64 bits", expected));
    at_ = end - text_.data();
    return value;
  }

  Attr number() {
    blanks();
    bool negative = accept("-");
    if (accept("inf")) return negative ? -HUGE_VAL : HUGE_VAL;
    if (accept("nan")) {
      if (!accept("(")) return std::numeric_limits<double>::quiet_NaN();
      if (text_.substr(at_, 2) != "0x") fail("0x and the bits of a NaN");
      at_ += 2;
      uint64_t bits = 0;
      auto [end, ec] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), bits, 16);
      if (ec != std::errc()) fail("the bits of a NaN in hexadecimal");
      at_ = end - text_.data();
      expect(")");
      return std::bit_cast<double>(bits);
    }
    size_t end = at_;
    while (end < text_.size() && (is_digit(text_[end]) || text_[end] == '.' || text_[end] == 'e' ||
                                  ((text_[end] == '+' || text_[end] == '-') && text_[end - 1] == 'e')))
      ++end;
    std::string_view digits = text_.substr(at_, end - at_);
    if (negative) --at_;
    if (digits.find_first_of(".e") == digits.npos) return integer("a value");
    double value = 0;
    auto [stop, ec] = std::from_chars(text_.data() + at_, text_.data() + end, value);
    if (ec != std::errc() || stop != text_.data() + end) fail("a floating-point number of 64 bits");
    at_ = end;
    return value;
  }

  Attr attr_value() {
    blanks();
    if (accept("true")) return true;
    if (accept("false")) return false;
    if (peek() == '"') return string("a string");
    if (accept("[")) {
      std::vector<int64_t> list;
      while (!accept("]")) {
        if (!list.empty()) expect(",");
        list.push_back(integer("an integer or ']'"));
      }
      return list;
    }
    char c = peek();
    if (!is_digit(c) && c != '-' && c != 'i' && c != 'n')
      fail("a value: a number, a \"string\", true, false or [integers]");
    return number();
  }

  // `{name = value, ...}` if there is one; a region's `{ ^(` is none.
  Attrs attrs() {
    Attrs out;
    blanks();
    if (peek() != '{' || opens_block(at_)) return out;
    ++at_;
    while (!accept("}")) {
      if (!out.empty()) expect(",");
      size_t begin = (blanks(), at_);
      std::string name(word("an attribute's name or '}'"));
      expect("=");
      if (!out.emplace(name, attr_value()).second) {
        error(begin, begin + name.size(), fmt::format("attribute '{}' is given twice", name));
        throw LineError{};
      }
    }
    return out;
  }

  // Whether the brace at `at` begins a block (`{ ^(` or `{` at the end of the line).
  bool opens_block(size_t at) const {
    size_t next = text_.find_first_not_of(" \t\r", at + 1);
    return next == text_.npos || text_[next] == '^' || text_[next] == '\n' || text_.substr(next, 2) == "//";
  }

  Loc location(size_t begin) {
    if (!accept("loc(")) {
      if (!options_.text_locations) return {};
      size_t end = at_;
      while (end > begin && (text_[end - 1] == ' ' || text_[end - 1] == '\r')) --end;
      return loc_of(begin, end);
    }
    Loc loc;
    loc.file = intern_file(string("a file name in quotes"));
    expect(":");
    loc.line = int(integer("a line number"));
    expect(":");
    loc.column = int(integer("a column number"));
    expect(")");
    return loc;
  }

  Type element_type() {
    size_t begin = (blanks(), at_);
    if (accept("ptr")) {
      expect("<");
      Type type = element_type();
      type.pointer = true;
      expect(">");
      return type;
    }
    std::string name(word("a type: i32, ptr<f32>, tile<16x32xf32>"));
    for (int i = 0; i <= int(Elem::F64); ++i)
      if (name == elem_info(Elem(i)).text) return Type::scalar(Elem(i));
    std::vector<std::string> names;
    for (int i = 0; i <= int(Elem::F64); ++i) names.push_back(elem_info(Elem(i)).text);
    Diag& diag = error(begin, begin + name.size(), fmt::format("unknown element type '{}'", name));
    if (auto near = nearest_name(name, names)) diag.with_hint(fmt::format("did you mean '{}'?", *near));
    throw LineError{};
  }

  Type token_type() {
    expect("<");
    const size_t begin = at_;
    std::string_view kind = word("a completion: group, barrier");
    if (kind != "group" && kind != "barrier") {
      error(begin, at_, fmt::format("unknown completion '{}'", kind)).with_hint("it is group or barrier");
      throw LineError{};
    }
    expect(">");
    return Type::token(kind == "group" ? Completion::Group : Completion::Barrier);
  }

  Type type() {
    if (accept("token")) return token_type();
    const Kind kind = accept("shared")       ? Kind::Place
                      : accept("in_flight")  ? Kind::InFlight
                      : accept("tensor_map") ? Kind::Map
                                             : Kind::Data;
    if (kind == Kind::Data && !accept("tile")) return element_type();
    expect("<");
    Shape shape;
    while (is_digit(peek()) || peek() == '-') {
      shape.push_back(integer("an extent"));
      blanks();
      if (peek() != 'x') fail("'x' behind an extent");
      ++at_;
    }
    if (shape.empty()) fail("an extent: tile<16x32xf32>");
    Type type = element_type();
    type.shape = std::move(shape);
    type.kind = kind;
    if (accept(",")) {
      expect("#");
      size_t begin = at_;
      int64_t alias = integer("the number of a layout");
      auto it = layouts_.find(alias);
      if (it == layouts_.end()) {
        error(begin - 1, at_, fmt::format("layout #{} is not defined above the function", alias));
        throw LineError{};
      }
      type.layout = it->second;
    }
    expect(">");
    return type;
  }

  // ---- Values
  int64_t value_number(std::string_view expected) {
    blanks();
    if (peek() != '%') fail(expected);
    ++at_;
    return integer("a value's number");
  }

  void define(int64_t number, Value* value, size_t begin) {
    if (!values_.emplace(number, value).second && value) {
      error(begin, at_, fmt::format("%{} is defined twice", number));
      throw LineError{};
    }
  }

  // ---- Structure
  void header() {
    for (next_line(); accept("#"); next_line()) {
      if (!attempt([&] { alias(); })) skip_line();
    }
    expect("func");
    size_t begin = at_;
    expect("@");
    func_->name = peek() == '"' ? string("a name") : std::string(word("the function's name"));
    expect("(");
    for (bool first = true; !accept(")"); first = false) {
      if (!first) expect(",");
      size_t start = (blanks(), at_);
      int64_t number = value_number("a parameter (%0: ptr<f32> \"name\" div 16) or ')'");
      expect(":");
      Type t = type();
      std::string name = string("the parameter's name in quotes");
      Value* param = func_->add_param(t, name, accept("div") ? integer("a power of two") : 1);
      define(number, param, start);
    }
    func_->attrs = attrs();
    func_->loc = location(begin);
    expect("{");
    in_body_ = true;
  }

  void alias() {
    size_t start = at_ - 1;
    int64_t number = integer("the number of a layout");
    expect("=");
    expect("layout");
    expect("{");
    size_t begin = at_, end = text_.find_first_of("}\n", begin);
    if (end == text_.npos || text_[end] == '\n') at_ = std::min(end, text_.size()), fail("'}' behind the layout");
    at_ = end + 1;
    std::string why;
    auto layout = LinearLayout::parse(text_.substr(begin, end - begin), &why);
    if (!layout) error(begin, end, fmt::format("not a layout: {}", why));
    LayoutRef ref = layout ? std::make_shared<LinearLayout>(std::move(*layout)) : nullptr;
    if (!layouts_.emplace(number, ref).second) error(start, begin, fmt::format("layout #{} is defined twice", number));
  }

  // The ops up to the closing brace, which is consumed.
  void block(Block& b) {
    for (;;) {
      next_line();
      if (at_end()) {
        attempt([&] { fail("'}' that closes the block"); });
        return;
      }
      if (accept("}")) return;
      line(b);
    }
  }

  void line(Block& b) {
    auto op = std::make_unique<Op>();
    Op* raw = op.get();
    raw->parent = &b;
    defined_.clear();
    size_t begin = at_;
    bool good = attempt([&] { op_header(*raw, begin); });
    if (!good) {
      // The values that the line would have defined count as known, so that their uses are not reported too.
      for (int64_t number : defined_) values_.emplace(number, nullptr);
      size_t end = std::min(text_.find('\n', at_), text_.size());
      size_t brace = text_.substr(begin, end - begin).find("{ ^(");
      at_ = brace == text_.npos ? end : begin + brace;
    }
    while (accept("{")) {
      raw->regions.push_back(std::make_unique<Block>());
      Block& region = *raw->regions.back();
      region.parent = raw;
      if (!attempt([&] { region_args(region); })) skip_line();
      block(region);
    }
    if (good) {
      attempt([&] { end_of_line(); });
      b.ops.push_back(std::move(op));
    } else {
      broken_.push_back(std::move(op));
    }
    skip_line();
  }

  void end_of_line() {
    blanks();
    if (!at_end() && peek() != '\n' && peek() != '}') fail("the end of the line");
    if (peek() == '}') fail("'}' on a line of its own");
  }

  void region_args(Block& region) {
    expect("^");
    expect("(");
    for (bool first = true; !accept(")"); first = false) {
      if (!first) expect(",");
      size_t begin = (blanks(), at_);
      int64_t number = value_number("an argument (%0: i32) or ')'");
      expect(":");
      define(number, region.add_arg(type()), begin);
    }
    expect(":");
  }

  void op_header(Op& op, size_t begin) {
    std::vector<size_t> places;
    blanks();
    if (peek() == '%') {
      do {
        places.push_back((blanks(), at_));
        defined_.push_back(value_number("a value"));
      } while (accept(","));
      expect("=");
    }
    size_t name_at = (blanks(), at_);
    std::string name(word("an operation"));
    auto opcode = opcode_from_text(name);
    if (!opcode) {
      std::vector<std::string> names;
      for (const OpInfo& info : op_table()) names.push_back(info.text);
      Diag& diag = error(name_at, at_, fmt::format("unknown operation '{}'", name));
      if (auto near = nearest_name(name, names)) diag.with_hint(fmt::format("did you mean '{}'?", *near));
      throw LineError{};
    }
    op.opcode = *opcode;
    blanks();
    if (peek() == '%' || peek() == '_') {
      do {
        operand(op);
      } while (accept(","));
    }
    if (!op.info().variadic)
      while (op.operands.size() < op.info().operands.size()) op.operands.push_back(nullptr);
    op.attrs = attrs();
    std::vector<Type> types;
    if (accept(":")) {
      do types.push_back(type());
      while (accept(","));
    }
    op.loc = location(begin);
    blanks();
    if (!at_end() && peek() != '\n' && peek() != '{')
      fail("attributes, ': type', loc(...), a region or the end of the line");
    if (types.size() != defined_.size()) {
      error(begin, at_,
            fmt::format("{} result{} but {} type{} behind ':'", defined_.size(), defined_.size() == 1 ? "" : "s",
                        types.size(), types.size() == 1 ? "" : "s"));
      throw LineError{};
    }
    for (size_t i = 0; i < types.size(); ++i) {
      op.results.push_back(std::make_unique<Value>(Value{types[i], &op, nullptr, int(i), {}}));
      define(defined_[i], op.results.back().get(), places[i]);
    }
  }

  void operand(Op& op) {
    blanks();
    size_t begin = at_;
    op.operands.push_back(nullptr);
    if (accept("_")) return;
    int64_t number = value_number("a value (%0) or '_'");
    uses_.push_back({&op, op.operands.size() - 1, number, begin, at_});
  }

  // Operands are resolved at the end, so that the verifier can report a use above its definition.
  void resolve() {
    for (const Use& use : uses_) {
      auto it = values_.find(use.number);
      if (it == values_.end())
        error(use.begin, use.end, fmt::format("%{} is not defined", use.number));
      else
        use.op->operands[use.index] = it->second;
    }
  }

  struct Use {
    Op* op;
    size_t index;
    int64_t number;
    size_t begin, end;
  };

  std::string_view text_;
  const std::string* file_;
  Diagnostics& diags_;
  ReadOptions options_;
  size_t at_ = 0;
  size_t line_start_ = 0;  // of line_: the last place asked for
  int line_ = 1;
  bool in_body_ = false;
  std::unique_ptr<Func> func_;
  std::unordered_map<int64_t, LayoutRef> layouts_;
  std::unordered_map<int64_t, Value*> values_;  // null: its line is broken
  std::vector<int64_t> defined_;                // results of the line being read
  std::vector<Use> uses_;
  std::vector<std::unique_ptr<Op>> broken_;  // lines with errors, kept for what refers into them
};

}  // namespace

std::unique_ptr<Func> read(std::string_view text, std::string_view file, Diagnostics& diags,
                           const ReadOptions& options) {
  return Reader(text, file, diags, options).run();
}

}  // namespace tegula::ir
