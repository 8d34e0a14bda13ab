#include "codegen/ir/libdevice.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "runtime/base/check.h"

namespace tegula::ir {

namespace {

std::string replace_all(std::string text, std::string_view what, std::string_view by) {
  for (size_t at = 0; (at = text.find(what, at)) != std::string::npos; at += by.size())
    text.replace(at, what.size(), by);
  return text;
}

/// A type of a signature; of the letters F, I and U the one of `bits` bits.
Elem type_of(std::string_view text, int bits) {
  if (text == "F") return bits == 32 ? Elem::F32 : Elem::F64;
  if (text == "I") return bits == 32 ? Elem::I32 : Elem::I64;
  if (text == "U") return bits == 32 ? Elem::U32 : Elem::U64;
  std::optional<Elem> elem = elem_from_text(text);
  TEGULA_CHECK(elem, "libdevice.def: unknown type '{}'", text);
  return *elem;
}

/// As PTX names it: s32 for i32.
std::string ptx_type(Elem elem) {
  return fmt::format("{}{}", is_float(elem) ? 'f' : is_signed(elem) ? 's' : 'u', elem_bits(elem));
}

LibdeviceFunction make_function(const char* name, std::string_view signature, std::string_view body, const char* doc,
                                int bits) {
  using Body = LibdeviceFunction::Body;
  LibdeviceFunction f{name, {}, {}, Body::Own, {}, doc};
  const size_t open = signature.find('(');
  f.result = type_of(signature.substr(0, open), bits);
  std::string_view params = signature.substr(open + 1, signature.size() - open - 2);
  while (!params.empty()) {
    const size_t comma = params.find(", ");
    f.params.push_back(type_of(params.substr(0, comma), bits));
    params = comma == params.npos ? std::string_view() : params.substr(comma + 2);
  }
  if (body.starts_with("clc ")) f.kind = Body::Libclc;
  if (body.starts_with("ptx ")) f.kind = Body::Ptx;
  f.body = replace_all(std::string(body.substr(4)), "{t}", ptx_type(f.params[0]));
  f.body = replace_all(std::move(f.body), "{b}", fmt::format("b{}", elem_bits(f.params[0])));
  return f;
}

std::vector<LibdeviceFunction> make_table() {
  std::vector<LibdeviceFunction> table;
  auto add = [&](const char* name, std::string_view signature, std::string_view body, const char* doc) {
    const bool both = signature.find_first_of("FIU") != signature.npos;
    for (int bits : {32, 64})
      if (both || bits == 32) table.push_back(make_function(name, signature, body, doc, bits));
  };
#define TEGULA_LIBDEVICE(name, signature, body, doc) add(#name, signature, body, doc);
#include "codegen/ir/libdevice.def"
  // By name; rows of one name stay in their order.
  std::stable_sort(table.begin(), table.end(), [](auto& a, auto& b) { return a.name < b.name; });
  return table;
}

}  // namespace

std::string LibdeviceFunction::signature() const {
  std::vector<std::string> types;
  for (Elem elem : params) types.push_back(elem_info(elem).tl);
  return fmt::format("{}({})", elem_info(result).tl, fmt::join(types, ", "));
}

const std::vector<LibdeviceFunction>& libdevice_functions() {
  static const std::vector<LibdeviceFunction> table = make_table();
  return table;
}

std::span<const LibdeviceFunction> libdevice_functions(std::string_view name) {
  const std::vector<LibdeviceFunction>& table = libdevice_functions();
  auto first = std::lower_bound(table.begin(), table.end(), name, [](auto& f, auto n) { return f.name < n; });
  auto last = std::upper_bound(first, table.end(), name, [](auto n, auto& f) { return n < f.name; });
  return {first, last};
}

const LibdeviceFunction* find_libdevice(std::string_view name, std::span<const Elem> arguments) {
  for (const LibdeviceFunction& f : libdevice_functions(name))
    if (std::equal(f.params.begin(), f.params.end(), arguments.begin(), arguments.end())) return &f;
  return nullptr;
}

}  // namespace tegula::ir
