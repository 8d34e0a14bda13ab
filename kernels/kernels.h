// The kernel library: kernels written in the kernel language, each behind a typed C++ function.
//
//   Buffer x(device, host), y(device, x.bytes());
//   kernels::softmax(device, kernels::Matrix<float>(y, rows, cols), kernels::Matrix<float>(x, rows, cols));
//
// The functions may be called from any thread; a launch that finds its kernel ready allocates nothing.
#pragma once

#include <string_view>

#include "dsl/program.h"
#include "kernels/batched_gemm.h"
#include "kernels/conv2d.h"
#include "kernels/elementwise.h"
#include "kernels/elementwise_kernel.h"
#include "kernels/entry.h"
#include "kernels/gemm_kernel.h"
#include "kernels/grouped_gemm.h"
#include "kernels/linear_dropout.h"
#include "kernels/linear_norm.h"
#include "kernels/loss.h"
#include "kernels/matrix.h"
#include "kernels/norm.h"
#include "kernels/optimizer.h"
#include "kernels/order.h"
#include "kernels/quantise.h"
#include "kernels/quantised_gemm.h"
#include "kernels/reduce.h"
#include "kernels/row_kernel.h"
#include "kernels/sample.h"
#include "kernels/scaled_gemm.h"
#include "kernels/softmax.h"

namespace tegula::kernels {

/// A text of the library as a program: "softmax.py". Its kernels can be launched as any other, and the files are
/// installed in share/tegula/kernels. Throws LaunchError for a name that is not there.
Program library_program(std::string_view file);

}  // namespace tegula::kernels
