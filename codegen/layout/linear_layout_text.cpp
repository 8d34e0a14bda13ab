// The text form of linear layouts.
#include <fmt/format.h>

#include <charconv>

#include "codegen/layout/linear_layout.h"

namespace tegula {

namespace {

const std::vector<std::string>& dim_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all = {"register", "lane", "warp", "block", "offset"};
    for (int axis = 0; axis < kMaxRank; ++axis) all.push_back(fmt::format("dim{}", axis));
    return all;
  }();
  return names;
}

}  // namespace

const char* dim_name(Dim dim) { return dim_names()[size_t(dim)].c_str(); }

// The text is a key of maps as well: it is put together without fmt, which takes ten times as long.
std::string LinearLayout::to_string() const {
  std::string text;
  auto list = [&](const auto& elements, const char* separator, auto print) {
    for (size_t i = 0; i < elements.size(); ++i) {
      if (i) text += separator;
      print(elements[i]);
    }
  };
  auto number = [&](int32_t n) { text += fmt::format_int(n).c_str(); };
  auto coordinates = [&](const Basis& basis) {
    text += '[';
    list(basis, ",", number);
    text += ']';
  };
  list(ins_, ", ", [&](const In& in) {
    (text += dim_name(in.dim)) += "=[";
    list(in.bases, ",", coordinates);
    if (!in.bases.empty() && !in.repeats.empty()) text += ',';
    list(in.repeats, ",", [&](const Repeat& repeat) {
      number(repeat.count);
      text += '*';
      coordinates(repeat.image);
    });
    text += ']';
  });
  text += " -> ";
  list(outs_, ", ", [&](const Out& out) {
    (text += dim_name(out.dim)) += ':';
    number(out.size);
  });
  return text;
}

namespace {

/// Reader of to_string()'s form. Every method says whether it succeeded; the first failure is kept.
class LayoutReader {
 public:
  explicit LayoutReader(std::string_view text) : text_(text) {}

  bool read(std::vector<LinearLayout::In>& ins, std::vector<LinearLayout::Out>& outs) {
    if (!eat("->")) {
      do {
        LinearLayout::In in;
        if (!dim(in.dim) || !expect("=") || !images(in)) return false;
        ins.push_back(std::move(in));
      } while (eat(","));
      if (!expect("->")) return false;
    }
    skip();
    if (text_.empty()) return true;
    do {
      LinearLayout::Out out;
      if (!dim(out.dim) || !expect(":") || !number(out.size)) return false;
      outs.push_back(out);
    } while (eat(","));
    skip();
    return text_.empty() || fail("the end");
  }
  const std::string& error() const { return error_; }

 private:
  void skip() { text_.remove_prefix(std::min(text_.find_first_not_of(" \t\n"), text_.size())); }
  bool fail(std::string_view wanted) {
    skip();
    if (error_.empty())
      error_ = fmt::format("expected {} before '{}'", wanted, text_.empty() ? "the end" : text_.substr(0, 20));
    return false;
  }
  bool eat(std::string_view token) {
    skip();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  bool expect(std::string_view token) { return eat(token) || fail(fmt::format("'{}'", token)); }
  bool dim(Dim& result) {
    skip();
    for (int i = int(dim_names().size()); i-- > 0;)  // dim12 before dim1
      if (eat(dim_names()[size_t(i)])) return result = Dim(i), true;
    return fail("a dimension (register, lane, warp, block, offset, dim0, ...)");
  }
  bool number(int32_t& result) {
    skip();
    auto [end, code] = std::from_chars(text_.data(), text_.data() + text_.size(), result);
    if (code != std::errc()) return fail("a number");
    text_.remove_prefix(size_t(end - text_.data()));
    return true;
  }
  bool images(LinearLayout::In& in) {
    if (!expect("[")) return false;
    if (eat("]")) return true;
    do {
      skip();
      if (in.repeats.empty() && text_.starts_with("[")) {
        if (!coordinates(in.bases.emplace_back())) return false;
      } else {
        LinearLayout::Repeat& repeat = in.repeats.emplace_back();
        if (!number(repeat.count) || !expect("*") || !coordinates(repeat.image)) return false;
      }
    } while (eat(","));
    return expect("]");
  }
  bool coordinates(LinearLayout::Basis& result) {
    if (!expect("[")) return false;
    if (eat("]")) return true;
    do {
      result.push_back(0);
      if (!number(result.back())) return false;
    } while (eat(","));
    return expect("]");
  }

  std::string_view text_;
  std::string error_;
};

}  // namespace

std::optional<LinearLayout> LinearLayout::parse(std::string_view text, std::string* why) {
  std::vector<In> ins;
  std::vector<Out> outs;
  LayoutReader reader(text);
  if (!reader.read(ins, outs)) {
    if (why) *why = reader.error();
    return std::nullopt;
  }
  return try_create(std::move(ins), std::move(outs), why);
}

}  // namespace tegula
