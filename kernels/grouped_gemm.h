// Products of groups of rows with a matrix for each group, in one launch: the experts of a mixture, each with the rows
// of its tokens. The kernel stands in grouped_gemm.py.
#pragma once

#include "kernels/activation.h"
#include "kernels/entry.h"
#include "kernels/matrix.h"

namespace tegula::kernels {

/// What products of groups may have besides; vectors have an element for each row of all groups.
struct GroupedGemmOptions {
  Vector<const int32_t> gather = {};   ///< the row of a that each row of the groups is; none: rows of a in their order
  Vector<const int32_t> scatter = {};  ///< the row of c that each goes to, none twice; none: in their order
  Vector<const float> scale = {};      ///< a factor of each row of the result, after the activation
  Activation epilogue = Activation::None;
};

namespace detail {
/// Matrices of `rows` rows below one another as groups of transposed ones.
Tensor groups_of(Tensor stacked, int64_t groups);
}  // namespace detail

/// c_i = activation(a_i b_g^T) * scale_i for the rows i of group g, which are those from ends[g - 1] (0 for the first
/// group) to ends[g] - 1; a group may have none. b has the groups' matrices of N x K below one another, as the weights
/// of linear layers are. Rows of c that no row goes to stay as they are. Sums are fp32, rounded once to c's type.
///
/// Throws LaunchError for shapes that do not fit. What `ends`, `gather` and `scatter` hold lies on the device and is
/// not checked: ends must not decrease, the last one be no more than there are rows, and rows be rows of a and c.
/// Traffic: each group's matrix is read once for up to 128 of its rows, a once for each tile of columns.
template <Floating Out, Floating In>
requires(sizeof(In) == 2) void grouped_gemm(Device& device, Matrix<Out> c, Matrix<In> a, MatrixIn<In> b,
                                            Vector<const int32_t> ends, const GroupedGemmOptions& options = {},
                                            StreamHandle stream = nullptr) {
  run<EntryId::grouped_gemm>(device, stream, c, a, detail::groups_of(b, ends.size), ends, options.gather,
                             options.scatter, options.scale, options.epilogue);
}

}  // namespace tegula::kernels
