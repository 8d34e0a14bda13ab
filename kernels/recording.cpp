#include "kernels/recording.h"

#include <fmt/format.h>

#include "dsl/embedded/trace.h"

namespace tegula::kernels {

namespace detail {

using tegula::detail::Access;
using tegula::detail::Trace;

std::optional<ir::Type> recorded_type(const Tile& tile) {
  const dsl::Val value = Trace::current().read(Access::slot(tile).get());
  if (!value.is_value()) return std::nullopt;
  return value.value()->type;
}

std::string described(const Tile& tile) { return dsl::describe(Trace::current().read(Access::slot(tile).get())); }

void refuse_result(const std::string& what, const Tile& found, const std::string& expected, const std::string& hint) {
  Trace& trace = Trace::current();
  if (trace.read(Access::slot(found).get()).is_poison()) return;
  trace.sema().at(trace.func().loc);
  trace.sema().error(
      fmt::format("{} of '{}' gives {}, expected {}", what, trace.func().name, described(found), expected), hint);
}

Tile inside(const Tile& at, const Tile& extent, bool even) {
  return even ? full(at.attribute("shape"), true, tl::int1) : at < extent;
}

Tile widened(const Tile& x) {
  const std::optional<ir::Type> type = recorded_type(x);
  return type && is_float(type->elem) && elem_bits(type->elem) < 32 ? x.to(tl::float32) : x;
}

Tile converted(const Tile& x, Elem to) {
  const std::optional<ir::Type> type = recorded_type(x);
  if (!type || type->elem == to) return x;
  if (!is_float(type->elem) || is_float(to) || to == Elem::I1) return x.to(to);
  Tile y = libdevice::rint(x);
  if (elem_bits(to) <= 16) {
    const double count = double(int64_t(1) << elem_bits(to)), least = is_signed(to) ? -count / 2 : 0;
    y = clamp(y, least, least + count - 1);
  }
  return y.to(to);
}

}  // namespace detail

}  // namespace tegula::kernels
