#include "kernels/grouped_gemm.h"

#include <fmt/format.h>

#include <array>

#include "kernels/library.h"
#include "kernels/products.h"

namespace tegula::kernels {

namespace detail {

Tensor groups_of(Tensor stacked, int64_t groups) {
  const int64_t rows = stacked.shape[0], k = stacked.shape[1];
  if (groups > 0 && rows % groups)
    throw LaunchError(
        fmt::format("grouped_gemm: b has {} rows for {} groups\n  hint: the groups' matrices have equal shapes and "
                    "lie below one another",
                    rows, groups));
  const int64_t n = groups > 0 ? rows / groups : 0;
  stacked.rank = 3;
  stacked.shape = {groups, k, n};
  stacked.strides = {n * stacked.strides[0], stacked.strides[1], stacked.strides[0]};
  return stacked;
}

}  // namespace detail

namespace {

// Rows of all groups at most.
int64_t rows_of(const BoundCall& call) {
  for (const char* name : {"gather", "scatter", "scale"})
    if (const Tensor* t = call.tensor(name)) return t->shape[0];
  return call.extent("a_rows");
}

}  // namespace

void run_grouped_gemm(Device& device, const BoundCall& call, StreamHandle stream) {
  using detail::integer, detail::pointer;
  static const auto kernels = detail::by_activation("grouped_gemm.py", "grouped_gemm", "ACTIVATION");
  const int64_t rows = rows_of(call), groups = call.extent("groups"), n = call.extent("n");
  if (!call.tensor("gather") && call.extent("a_rows") != rows)
    call.refuse(
        fmt::format("a has {} rows, but {} rows are scattered or scaled\n  hint: without gather these are a's rows",
                    call.extent("a_rows"), rows));
  if (!call.tensor("scatter") && call.extent("out_rows") != rows)
    call.refuse(
        fmt::format("out has {} rows, but the groups {}\n  hint: without scatter each row of a group is one of out",
                    call.extent("out_rows"), rows));
  if (rows == 0 || groups == 0) return;
  const Tensor &c = *call.tensor("out"), &a = *call.tensor("a"), &b = *call.tensor("b");
  for (size_t d : {1, 2}) detail::check_span(call.entry().name, "b", b.shape[d], b.strides[d]);
  const std::array<Arg, 16> args{pointer(&c),
                                 pointer(&a),
                                 pointer(&b),
                                 pointer(call.tensor("ends")),
                                 pointer(call.tensor("gather")),
                                 pointer(call.tensor("scatter")),
                                 pointer(call.tensor("scale")),
                                 integer(rows),
                                 integer(groups),
                                 integer(n),
                                 integer(call.extent("k")),
                                 integer(a.strides[0]),
                                 integer(b.strides[0]),
                                 integer(b.strides[1]),
                                 integer(b.strides[2]),
                                 integer(c.strides[0])};
  const auto grid = [&](const Config& config) {
    const int64_t block_m = config["BLOCK_M"], block_n = config["BLOCK_N"];
    return Grid{unsigned(((rows + block_m - 1) / block_m + groups) * ((n + block_n - 1) / block_n))};
  };
  kernels[size_t(call.choice("epilogue"))].launch(device, tegula::detail::GridRef(grid), stream, args);
}

}  // namespace tegula::kernels
