#include "tools/tegula/npy.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <charconv>
#include <cstring>
#include <fstream>
#include <iterator>

#include "runtime/base/error.h"
#include "runtime/base/float8.h"

namespace tegula::cli {

namespace {

constexpr int64_t kMaxBytes = int64_t(1) << 40;

struct Descr {
  Elem elem;
  const char* text;
};
constexpr Descr kDescr[] = {{Elem::I1, "|b1"},     {Elem::I8, "|i1"},     {Elem::I16, "<i2"},    {Elem::I32, "<i4"},
                            {Elem::I64, "<i8"},    {Elem::U8, "|u1"},     {Elem::U16, "<u2"},    {Elem::U32, "<u4"},
                            {Elem::U64, "<u8"},    {Elem::F16, "<f2"},    {Elem::F32, "<f4"},    {Elem::F64, "<f8"},
                            {Elem::BF16, "|V2"},   {Elem::F8E4M3, "|u1"}, {Elem::F8E5M2, "|u1"}, {Elem::F8E4B15, "|u1"},
                            {Elem::F8E4B8, "|u1"}, {Elem::F8E5B16, "|u1"}};

/// Calls f with a pointer to the element as its C++ type.
template <class Byte, class F>
auto with_element(Elem elem, Byte* p, F f) {
  constexpr bool is_const = std::is_const_v<Byte>;
  auto as = [&]<class T>(T*) { return f(reinterpret_cast<std::conditional_t<is_const, const T, T>*>(p)); };
  switch (elem) {
    case Elem::I1:
      return as(static_cast<bool*>(nullptr));
    case Elem::I8:
      return as(static_cast<int8_t*>(nullptr));
    case Elem::I16:
      return as(static_cast<int16_t*>(nullptr));
    case Elem::I32:
      return as(static_cast<int32_t*>(nullptr));
    case Elem::I64:
      return as(static_cast<int64_t*>(nullptr));
    case Elem::U8:
      return as(static_cast<uint8_t*>(nullptr));
    case Elem::U16:
      return as(static_cast<uint16_t*>(nullptr));
    case Elem::U32:
      return as(static_cast<uint32_t*>(nullptr));
    case Elem::U64:
      return as(static_cast<uint64_t*>(nullptr));
    case Elem::F8E4M3:
      return as(static_cast<float8e4nv*>(nullptr));
    case Elem::F8E5M2:
      return as(static_cast<float8e5*>(nullptr));
    case Elem::F8E4B15:
      return as(static_cast<float8e4b15*>(nullptr));
    case Elem::F8E4B8:
      return as(static_cast<float8e4b8*>(nullptr));
    case Elem::F8E5B16:
      return as(static_cast<float8e5b16*>(nullptr));
    case Elem::F16:
      return as(static_cast<float16*>(nullptr));
    case Elem::BF16:
      return as(static_cast<bfloat16*>(nullptr));
    case Elem::F32:
      return as(static_cast<float*>(nullptr));
    case Elem::F64:
      return as(static_cast<double*>(nullptr));
  }
  return as(static_cast<uint8_t*>(nullptr));
}

/// Elements of the shape; none if their bytes are out of bounds.
std::optional<int64_t> count_elements(const std::vector<int64_t>& shape, Elem elem) {
  int64_t n = 1;
  for (int64_t extent : shape) {
    if (extent < 0 || (extent > 0 && n > kMaxBytes / elem_bytes(elem) / extent)) return std::nullopt;
    n *= extent;
  }
  return n;
}

/// What follows 'key': in the header's dict; empty if the key is not there.
std::string_view header_value(std::string_view header, std::string_view key) {
  size_t at = header.find(fmt::format("'{}'", key));
  if (at == std::string_view::npos) return {};
  at = header.find(':', at);
  if (at == std::string_view::npos) return {};
  at = header.find_first_not_of(' ', at + 1);
  return at == std::string_view::npos ? std::string_view() : header.substr(at);
}

std::optional<std::vector<int64_t>> parse_extents(std::string_view text, char close) {
  std::vector<int64_t> shape;
  while (true) {
    while (!text.empty() && (text[0] == ' ' || text[0] == ',')) text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
    if (text[0] == close) return shape;
    int64_t extent = 0;
    auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), extent);
    if (error != std::errc() || extent < 0) return std::nullopt;
    shape.push_back(extent);
    text.remove_prefix(size_t(end - text.data()));
    if (!text.empty() && text[0] == 'L') text.remove_prefix(1);
  }
}

}  // namespace

int64_t Array::size() const { return int64_t(bytes.size()) / elem_bytes(elem); }

double Array::at(int64_t index) const {
  return with_element(elem, bytes.data() + index * elem_bytes(elem), [](const auto* p) {
    using T = std::remove_cvref_t<decltype(*p)>;
    if constexpr (std::is_class_v<T>)
      return double(float(*p));
    else
      return double(*p);
  });
}

void Array::set(int64_t index, double value) {
  with_element(elem, bytes.data() + index * elem_bytes(elem), [&](auto* p) {
    using T = std::remove_cvref_t<decltype(*p)>;
    if constexpr (std::is_class_v<T>)
      *p = T(float(value));
    else
      *p = T(value);
  });
}

std::string describe(const Array& array) {
  return fmt::format("{} [{}]", elem_info(array.elem).tl, fmt::join(array.shape, ", "));
}

std::optional<Array> parse_array_type(std::string_view text) {
  size_t bracket = text.find('[');
  auto elem = elem_from_text(text.substr(0, bracket));
  if (!elem) return std::nullopt;
  Array array;
  array.elem = *elem;
  if (bracket != std::string_view::npos) {
    auto shape = parse_extents(text.substr(bracket + 1), ']');
    if (!shape || text.back() != ']') return std::nullopt;
    array.shape = std::move(*shape);
  }
  auto count = count_elements(array.shape, *elem);
  if (!count) return std::nullopt;
  array.bytes.resize(size_t(*count * elem_bytes(*elem)));
  return array;
}

Array read_npy(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) throw FileError(fmt::format("cannot read '{}': {}", path, std::strerror(errno)));
  std::string file((std::istreambuf_iterator<char>(in)), {});
  auto fail = [&](std::string why) -> FileError { return FileError(fmt::format("'{}' {}", path, why)); };
  if (file.size() < 10 || file.compare(0, 6, "\x93NUMPY") != 0) throw fail("is not an .npy file");
  auto byte = [&](size_t i) { return size_t(static_cast<unsigned char>(file[i])); };
  int version = file[6];
  if (version < 1 || version > 3) throw fail(fmt::format("has .npy version {}, expected 1 to 3", version));
  size_t start = version == 1 ? 10 : 12;
  if (file.size() < start) throw fail("is truncated: its header is incomplete");
  size_t length = version == 1 ? byte(8) | byte(9) << 8 : byte(8) | byte(9) << 8 | byte(10) << 16 | byte(11) << 24;
  if (file.size() - start < length) throw fail("is truncated: its header is incomplete");
  std::string_view header = std::string_view(file).substr(start, length);

  Array array;
  std::string_view descr = header_value(header, "descr");
  if (descr.size() < 2 || descr[0] != '\'') throw fail("has elements of a structured type, which is not supported");
  descr = descr.substr(1, descr.find('\'', 1) - 1);
  bool known = false;
  for (const Descr& d : kDescr) {
    std::string_view text = d.text;
    bool order = descr.size() == 3 && (descr[0] == text[0] || text[0] == '|' || (text[0] == '<' && descr[0] == '='));
    if (!known && order && descr.substr(1) == text.substr(1)) array.elem = d.elem, known = true;
  }
  if (!known) throw fail(fmt::format("has elements of type '{}', which is not supported", descr));

  std::string_view shape_text = header_value(header, "shape");
  std::optional<std::vector<int64_t>> shape;
  if (!shape_text.empty() && shape_text[0] == '(') shape = parse_extents(shape_text.substr(1), ')');
  if (!shape) throw fail("has a header without a shape");
  array.shape = std::move(*shape);
  if (array.shape.size() > 1 && header_value(header, "fortran_order").substr(0, 4) == "True")
    throw fail("is in Fortran order; save it with numpy.ascontiguousarray");
  auto count = count_elements(array.shape, array.elem);
  if (!count) throw fail(fmt::format("is too large: [{}]", fmt::join(array.shape, ", ")));
  size_t bytes = size_t(*count * elem_bytes(array.elem)), have = file.size() - start - length;
  if (have < bytes) throw fail(fmt::format("is truncated: {} of {} bytes of data are there", have, bytes));
  const char* data = file.data() + start + length;
  array.bytes.assign(data, data + bytes);
  return array;
}

void write_npy(const std::string& path, const Array& array) {
  std::string descr;
  for (const Descr& d : kDescr)
    if (d.elem == array.elem) descr = d.text;
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}{}), }}", descr,
                                   fmt::join(array.shape, ", "), array.shape.size() == 1 ? "," : "");
  // Data begin at a multiple of 64; the header ends in a line end.
  size_t length = (10 + header.size() + 1 + 63) / 64 * 64 - 10;
  header.resize(length - 1, ' ');
  header += '\n';
  std::ofstream out(path, std::ios::binary);
  out.write("\x93NUMPY\x01\x00", 8);
  out.put(char(length & 255)).put(char(length >> 8));
  out << header;
  out.write(reinterpret_cast<const char*>(array.bytes.data()), std::streamsize(array.bytes.size()));
  out.close();
  if (!out) throw FileError(fmt::format("cannot write '{}': {}", path, std::strerror(errno)));
}

}  // namespace tegula::cli
