#include "bindings/runtime/arguments.h"

#include <fmt/format.h>

#include <algorithm>

namespace tegula::bindings {

void wrong_kind(tegula_kind kind, const char* expected) {
  throw UsageError(fmt::format("a value of tegula_kind {}, expected {}", kind, expected));
}

namespace {

TensorDescriptor descriptor_of(const tegula_value& value) {
  const tegula_descriptor& d = given(value.as.t, "as.t");
  auto list = [&](const int64_t* numbers, const char* what) {
    return std::vector<int64_t>(&given(numbers, what), numbers + std::clamp(d.rank, 0, 8));
  };
  return {Arg::pointer(d.address, elem_of(value.dtype), value.bytes), list(d.shape, "shape"),
          list(d.strides, "strides"), list(d.block_shape, "block_shape"), d.pad_nan != 0};
}

}  // namespace

Arg arg_of(const tegula_value& value, std::vector<std::unique_ptr<TensorDescriptor>>& descriptors) {
  switch (value.kind) {
    case TEGULA_NONE:
      return Arg(nullptr);
    case TEGULA_POINTER:
      return Arg::pointer(value.as.u, elem_of(value.dtype), value.bytes);
    case TEGULA_INT:
      return Arg(value.as.i);
    case TEGULA_UINT:
      return Arg(value.as.u);
    case TEGULA_DOUBLE:
      return Arg(value.as.d);
    case TEGULA_BOOL:
      return Arg(value.as.i != 0);
    case TEGULA_DESCRIPTOR:
      return Arg(*descriptors.emplace_back(std::make_unique<TensorDescriptor>(descriptor_of(value))));
  }
  wrong_kind(value.kind, "an argument: none, pointer, int, uint, double, bool or descriptor");
}

}  // namespace tegula::bindings
