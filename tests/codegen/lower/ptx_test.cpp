// label: unit
// heavy: Ptx.AcceptedByTheAssemblerWithoutSpills
// heavy: Ptx.RegistersAreSetBeforeTheyAreRead
// heavy: Ptx.WaitsForEarlierKernelsBeforeItTouchesMemory Ptx.SameBytesEveryTime
// heavy: Ptx.LineTableNamesTheUsersLines
// The PTX of every kernel text in the tree: an assembler accepts it for all targets, nothing spills, equal inputs give
// equal bytes, and its line table names the user's lines.
#include <fmt/ranges.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "codegen/target/target.h"
#include "dsl/tegula.h"
#include "tests/assembler.h"
#include "tests/codegen/lower/ptx_support.h"
#include "tests/in_parallel.h"
#include "tests/ptx_registers.h"
#include "tests/random_count.h"
#include "tests/run_command.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;

using kernel_texts::Case;
using kernel_texts::compile;

constexpr Case kCases[] = {
    {"tutorials/01_vector_add.py", "vector_add", "x_ptr=*f32 y_ptr=*f32 out_ptr=*f32 BLOCK=1024", 4},
    {"tutorials/02_fused_softmax.py", "load_row", "", 0},
    {"tutorials/02_fused_softmax.py", "store_row", "", 0},
    {"tutorials/02_fused_softmax.py", "row_max", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/02_fused_softmax.py", "subtract", "out_ptr=*f32 x_ptr=*f32 max_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/02_fused_softmax.py", "exponential", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/02_fused_softmax.py", "row_sum", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/02_fused_softmax.py", "divide", "out_ptr=*f32 x_ptr=*f32 sum_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/02_fused_softmax.py", "softmax_of_tile", "", 0},
    {"tutorials/02_fused_softmax.py", "softmax_in_pieces", "", 0},
    {"tutorials/02_fused_softmax.py", "softmax_of_long_row", "", 0},
    {"tutorials/02_fused_softmax.py", "softmax", "out_ptr=*f32 x_ptr=*f32 ROWS=1 BLOCK_SIZE=4096 WHOLE=1", 4},
    {"tutorials/02_fused_softmax.py", "softmax", "out_ptr=*f32 x_ptr=*f32 ROWS=16 BLOCK_SIZE=256 WHOLE=1", 4},
    {"tutorials/02_fused_softmax.py", "softmax", "out_ptr=*f32 x_ptr=*f32 ROWS=1 BLOCK_SIZE=4096 WHOLE=0", 8},
    {"tutorials/04_matmul.py", "nothing", "", 0},
    {"tutorials/04_matmul.py", "leaky_relu", "", 0},
    {"tutorials/04_matmul.py", "gelu", "", 0},
    {"tutorials/04_matmul.py", "matmul",
     "c_ptr=*f16 a_ptr=*f16 b_ptr=*f16 bias_ptr=*f16 EPILOGUE=gelu BLOCK_M=128 BLOCK_N=128 BLOCK_K=64 GROUP_M=8", 8},
    {"tutorials/04_matmul.py", "add_bias", "c_ptr=*f16 bias_ptr=*f16 BLOCK=1024", 4},
    {"tutorials/04_matmul.py", "apply", "c_ptr=*f16 EPILOGUE=gelu BLOCK=1024", 4},
    {"tutorials/03_your_own_fusion.py", "load_row", "", 0},
    {"tutorials/03_your_own_fusion.py", "load_vector", "", 0},
    {"tutorials/03_your_own_fusion.py", "store_row", "", 0},
    {"tutorials/03_your_own_fusion.py", "add", "out_ptr=*f32 x_ptr=*f32 y_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "rms_norm", "out_ptr=*f32 x_ptr=*f32 weight_ptr=*f32 eps=f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "silu", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "exponential", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "add_one", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "row_sum", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "row_max", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "subtract", "out_ptr=*f32 x_ptr=*f32 column_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "divide", "out_ptr=*f32 x_ptr=*f32 column_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "multiply", "out_ptr=*f32 x_ptr=*f32 scale=f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "add_vector", "out_ptr=*f32 x_ptr=*f32 bias_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "residual_rms_norm_silu",
     "out_ptr=*f32 x_ptr=*f32 residual_ptr=*f32 weight_ptr=*f32 eps=f32 BLOCK=4096", 8},
    {"tutorials/03_your_own_fusion.py", "exp_normalize", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/03_your_own_fusion.py", "softmax_scale_bias",
     "out_ptr=*f32 x_ptr=*f32 scale=f32 bias_ptr=*f32 BLOCK=4096", 4},
    {"tutorials/05_roofline.py", "double_often", "out_ptr=*f32 x_ptr=*f32 n=i32:1 REPEATS=64 BLOCK=1024", 4},
    {"tutorials/05_roofline.py", "cosine", "out_ptr=*f32 x_ptr=*f32 n=i32:1 TIMES=2 BLOCK=1024", 4},
    {"tutorials/06_layer_norm.py", "forward",
     "y_ptr=*f32 mean_ptr=*f32 rstd_ptr=*f32 x_ptr=*f32 weight_ptr=*f32 bias_ptr=*f32 eps=f32 BLOCK=4096", 8},
    {"tutorials/06_layer_norm.py", "backward",
     "dx_ptr=*f32 partial_dw_ptr=*f32 partial_db_ptr=*f32 dy_ptr=*f32 x_ptr=*f32 weight_ptr=*f32 mean_ptr=*f32 "
     "rstd_ptr=*f32 BLOCK=4096",
     8},
    {"tutorials/06_layer_norm.py", "add_partials",
     "dw_ptr=*f32 db_ptr=*f32 partial_dw_ptr=*f32 partial_db_ptr=*f32 ROWS=32 BLOCK=64", 4},
    {"tutorials/07_dropout.py", "kept", "", 0},
    {"tutorials/07_dropout.py", "dropout", "out_ptr=*f32 x_ptr=*f32 n=i32:1 p=f32 seed=i32:1 BLOCK=1024", 4},
    {"tutorials/07_dropout.py", "dropout_and_mask",
     "out_ptr=*f32 mask_ptr=*i8 x_ptr=*f32 n=i32:1 p=f32 seed=i32:1 BLOCK=1024", 4},
    {"tutorials/07_dropout.py", "backward_by_mask", "dx_ptr=*f32 mask_ptr=*i8 dy_ptr=*f32 n=i32:1 p=f32 BLOCK=1024", 4},
    {"tutorials/08_wide_rows.py", "join", "", 0},
    {"tutorials/08_wide_rows.py", "piece_of", "", 0},
    {"tutorials/08_wide_rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=4096", 8},
    {"tutorials/08_wide_rows.py", "softmax_sums", "tops_ptr=*f32 totals_ptr=*f32 x_ptr=*f32 BLOCK=4096", 8},
    {"tutorials/08_wide_rows.py", "softmax_result",
     "out_ptr=*f32 tops_ptr=*f32 totals_ptr=*f32 x_ptr=*f32 PIECES=16 BLOCK=4096", 8},
    {"tutorials/08_wide_rows.py", "cross_entropy", "losses_ptr=*f32 logits_ptr=*f32 targets_ptr=*i32 BLOCK=4096", 8},
    {"tutorials/09_a_fusion_that_loses.py", "product", "c_ptr=*f32 a_ptr=*f16 b_ptr=*f16 BLOCK=128 BLOCK_K=32", 8},
    {"tutorials/09_a_fusion_that_loses.py", "four_products", "", 0},  // it spills, as the tutorial shows
    {"tutorials/10_ship_it.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=1024", 4},
    {"tests/kernels/elementwise.py", "vector_add", "x_ptr=*f16 y_ptr=*f16 out_ptr=*f16 n=i32:1 BLOCK=1024", 4},
    {"tests/kernels/elementwise.py", "swiglu", "gate_ptr=*bf16 up_ptr=*bf16 out_ptr=*bf16 BLOCK=4096", 8},
    {"tests/kernels/elementwise.py", "math", "x_ptr=*f32 out_ptr=*f32 BLOCK=512", 4},
    {"tests/kernels/elementwise.py", "math", "x_ptr=*f64 out_ptr=*f64 BLOCK=128", 4},
    {"tests/kernels/elementwise.py", "powers", "x_ptr=*f32 out_ptr=*f32 iterations=i32:1 BLOCK=1024 LEAKY=1", 4},
    {"tests/kernels/elementwise.py", "histogram", "x_ptr=*i32 counts_ptr=*i32 total_ptr=*f32 BINS=64 BLOCK=1024", 4},
    {"tests/kernels/rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=1024", 4},
    {"tests/kernels/rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 cols=i32:1 BLOCK=4096", 8},
    {"tests/kernels/rows.py", "softmax", "out_ptr=*f32 x_ptr=*f32 BLOCK=16384", 16},
    {"tests/kernels/rows.py", "softmax_rows", "out_ptr=*f32 x_ptr=*f32 rows=i32:1 ROWS=16 BLOCK=128", 4},
    {"tests/kernels/rows.py", "softmax_persistent", "out_ptr=*f32 x_ptr=*f32 rows=i32:1 BLOCK=4096 num_stages=3", 8},
    {"tests/kernels/rows.py", "rms_norm", "x_ptr=*f16 w_ptr=*f16 out_ptr=*f16 eps=f32 BLOCK=4096", 8},
    {"tests/kernels/rows.py", "add_rms_norm_silu",
     "x_ptr=*bf16 residual_ptr=*bf16 w_ptr=*bf16 out_ptr=*bf16 eps=f32 BLOCK=4096", 8},
    {"tests/kernels/rows.py", "layer_norm",
     "x_ptr=*f16 w_ptr=*f16 b_ptr=*f16 out_ptr=*f16 mean_ptr=*f32 rstd_ptr=*f32 eps=f32 BLOCK=1024", 4},
    {"tests/kernels/rows.py", "cross_entropy", "logits_ptr=*bf16 target_ptr=*i64 loss_ptr=*f32 ignore=i32:1 BLOCK=4096",
     8},
    {"tests/kernels/rows.py", "argmax", "x_ptr=*f32 value_ptr=*f32 index_ptr=*i32 BLOCK=4096", 8},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 "
     "BLOCK_K=32 GROUP_M=8 OUT=f16",
     4},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*bf16 b_ptr=*bf16 c_ptr=*f32 stride_ak=i32=1 stride_bk=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=64 "
     "BLOCK_K=64 GROUP_M=8 OUT=f32",
     8},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f32 b_ptr=*f32 c_ptr=*f32 stride_am=i32:16 stride_ak=i32=1 stride_bk=i32=1 stride_bn=i32:16 "
     "stride_cn=i32=1 "
     "BLOCK_M=64 BLOCK_N=64 BLOCK_K=64 GROUP_M=8 OUT=f32 SUMS=f32 PRECISION=tf32",
     4},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f32 b_ptr=*f32 c_ptr=*f32 stride_am=i32:16 stride_ak=i32=1 stride_bk=i32=1 stride_bn=i32:16 "
     "stride_cn=i32=1 "
     "BLOCK_M=64 BLOCK_N=64 BLOCK_K=32 GROUP_M=8 OUT=f32 SUMS=f32 PRECISION=tf32x3",
     4},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*i8 b_ptr=*i8 c_ptr=*i32 stride_am=i32:16 stride_ak=i32=1 stride_bk=i32=1 stride_bn=i32:16 stride_cn=i32=1 "
     "BLOCK_M=64 BLOCK_N=64 BLOCK_K=64 GROUP_M=8 OUT=i32 SUMS=i32 PRECISION=ieee",
     4},
    {"tests/kernels/matmul.py", "leaky_relu", "", 0},
    {"tests/kernels/matmul.py", "wrapped_matmul",
     "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=128 "
     "BLOCK_K=64 GROUP_M=8 OUT=f16 ACTIVATION=leaky_relu",
     8},
    {"tests/kernels/matmul.py", "attention",
     "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 scale=f32 ROWS=64 KEYS=64 DEPTH=64", 4},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=192 "
     "BLOCK_K=64 GROUP_M=8 OUT=f16",
     8},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*bf16 b_ptr=*bf16 c_ptr=*bf16 stride_ak=i32=1 stride_bk=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=224 "
     "BLOCK_K=64 GROUP_M=8 OUT=bf16",
     4},
    {"tests/kernels/blocks.py", "matmul",
     "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=128 "
     "BLOCK_K=64",
     8},
    {"tests/kernels/blocks.py", "attention",
     "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 scale=f32 ROWS=128 COLS=64 DEPTH=64", 8},
    {"tests/kernels/attention.py", "attend", "", 0},
    {"tests/kernels/attention.py", "forward",
     "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 scale=f32 GROUP=4 FORM=masked MASK=window WINDOW=256 ROWS=64 "
     "COLS=32 D=64 DV=64",
     4},
    {"tests/kernels/attention.py", "forward_of_lengths",
     "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f16 begins_ptr=*i32 scale=f32 CAUSAL=1 FORM=block ROWS=64 COLS=32 D=64",
     4},
    {"tests/kernels/attention.py", "forward_persistent",
     "q_ptr=*bf16 k_ptr=*bf16 v_ptr=*bf16 out_ptr=*bf16 scale=f32 CAUSAL=1 ROWS=64 COLS=32 D=64", 4},
    {"tests/kernels/widths.py", "statistics",
     "x_ptr=*f32 softmax_ptr=*f32 transposed_ptr=*f32 columns_ptr=*f32 numbers_ptr=*f32 BM=12 BN=192", 4},
    {"tests/kernels/widths.py", "slanted", "x_ptr=*i32 y_ptr=*i32 ROWS=96 COLUMNS=16", 4},
    {"tests/kernels/widths.py", "shapes", "x_ptr=*i32 y_ptr=*i32 A=3 B=5 C=64", 4},
    {"tests/kernels/widths.py", "product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 M=64 N=24 K=128", 4},
    {"tests/kernels/dot_types.py", "product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 BATCH=2 M=4 N=16 K=8 OUT=f32", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 M=32 N=32 BLOCK_K=32 ZERO=f32", 4},
    {"tests/kernels/dot_types.py", "product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 BATCH=2 M=4 N=16 K=8 OUT=f16", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 M=32 N=32 BLOCK_K=32 ZERO=f32", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 M=64 N=64 BLOCK_K=32 ZERO=f16", 4},
    {"tests/kernels/dot_types.py", "added_products", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 M=64 N=64 BLOCK_K=64 OUT=f16",
     4},
    {"tests/kernels/dot_types.py", "product",
     "a_ptr=*f32 b_ptr=*f32 c_ptr=*f32 BATCH=2 M=4 N=16 K=8 OUT=f32 PRECISION=tf32x3", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*f32 b_ptr=*f32 c_ptr=*f32 M=32 N=32 BLOCK_K=32 ZERO=f32", 4},
    {"tests/kernels/dot_types.py", "long_product",
     "a_ptr=*f32 b_ptr=*f32 c_ptr=*f32 M=32 N=32 BLOCK_K=32 ZERO=f32 PRECISION=tf32", 4},
    {"tests/kernels/dot_types.py", "product", "a_ptr=*f64 b_ptr=*f64 c_ptr=*f64 BATCH=2 M=4 N=16 K=8 OUT=f64", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*f64 b_ptr=*f64 c_ptr=*f64 M=32 N=32 BLOCK_K=16 ZERO=f64", 4},
    {"tests/kernels/dot_types.py", "product", "a_ptr=*i8 b_ptr=*i8 c_ptr=*i32 BATCH=2 M=4 N=16 K=8 OUT=i32", 4},
    {"tests/kernels/dot_types.py", "long_product", "a_ptr=*i8 b_ptr=*i8 c_ptr=*i32 M=32 N=32 BLOCK_K=32 ZERO=i32", 4},
    {"tests/kernels/operands.py", "summed_products",
     "a_ptr=*f16 b_ptr=*f16 c_ptr=*f16 bias_ptr=*f32 out_ptr=*f32 between_ptr=*f32 behind_ptr=*f32 M=128 N=64 K=64", 8},
    {"tests/kernels/operands.py", "masked_by_sums", "a=*f16 b=*f16 out=*f32 depth=i32 N=32 K=32", 8},
    {"tests/kernels/operands.py", "paged_product", "a_ptr=*f16 b_ptr=*f16 pages_ptr=*i32 c_ptr=*f32 M=64 N=64 K=64", 4},
    {"tests/kernels/operands.py", "triangle_products", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 d_ptr=*f32 M=64 N=128", 4},
    {"tests/kernels/operands.py", "permuted_product", "a_ptr=*f16 b_ptr=*f16 c_ptr=*f32 M=64 N=64 K=64", 4},
    {"tests/kernels/operands.py", "flash_attention",
     "q_ptr=*f16 k_ptr=*f16 v_ptr=*f16 out_ptr=*f32 scale=f32 ROWS=64 KEYS=64 DEPTH=64 CAUSAL=0", 4},
    {"tests/kernels/operands.py", "flash_attention",
     "q_ptr=*bf16 k_ptr=*bf16 v_ptr=*bf16 out_ptr=*f32 scale=f32 ROWS=128 KEYS=64 DEPTH=64 CAUSAL=1", 8},
    {"tests/kernels/operands.py", "scaled",
     "a_ptr=*f16 b_ptr=*i8 a_scale_ptr=*f32 b_scale_ptr=*f32 c_ptr=*f32 BLOCK_M=64 BLOCK_N=64 BLOCK_K=32 TYPE=f16", 4},
    {"tests/kernels/operands.py", "widened",
     "a_ptr=*bf16 b_ptr=*i8 c_ptr=*f32 stride_bk=i32=1 TYPE=bf16 TURNED=0 BLOCK_M=16 BLOCK_N=64 BLOCK_K=128", 4},
    {"tests/kernels/operands.py", "widened",
     "a_ptr=*bf16 b_ptr=*i8 c_ptr=*f32 stride_bk=i32=1 TYPE=bf16 TURNED=1 BLOCK_M=16 BLOCK_N=64 BLOCK_K=128", 4},
    {"tests/kernels/dot_types.py", "product", "a_ptr=*f8e4m3 b_ptr=*f8e5m2 c_ptr=*f32 BATCH=2 M=4 N=16 K=8 OUT=f32", 4},
    {"tests/kernels/dot_types.py", "long_product",
     "a_ptr=*f8e5m2 b_ptr=*f8e5m2 c_ptr=*f32 M=32 N=32 BLOCK_K=64 ZERO=f32", 4},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f8e4m3 b_ptr=*f8e4m3 c_ptr=*f16 stride_ak=i32=1 stride_bk=i32=1 stride_cn=i32=1 BLOCK_M=128 BLOCK_N=128 "
     "BLOCK_K=64 GROUP_M=8 OUT=f16",
     8},
    {"tests/kernels/matmul.py", "matmul",
     "a_ptr=*f8e5m2 b_ptr=*f8e4m3 c_ptr=*f32 stride_ak=i32=1 stride_bn=i32=1 stride_cn=i32=1 BLOCK_M=64 BLOCK_N=64 "
     "BLOCK_K=128 GROUP_M=8 OUT=f32",
     4},
    {"tests/kernels/dot_types.py", "float8_sums",
     "a_ptr=*f8e4m3 b_ptr=*f8e4m3 c_ptr=*f32 M=64 N=64 BLOCK_K=64 ADD=0 LIMIT=32", 4},
    {"tests/kernels/dot_types.py", "float8_sums",
     "a_ptr=*f8e4m3 b_ptr=*f8e4m3 c_ptr=*f32 M=64 N=64 BLOCK_K=64 ADD=1 LIMIT=0", 4},
    {"tests/kernels/dot_types.py", "scaled_blocks",
     "a_ptr=*f8e4m3 b_ptr=*f8e4m3 a_scale_ptr=*f32 b_scale_ptr=*f32 c_ptr=*f32 BLOCK_M=128 BLOCK_N=128 BLOCK_K=128 "
     "GROUP=128",
     8, "sm_90a"},
    {"tests/kernels/dot_types.py", "scaled_blocks",
     "a_ptr=*f8e4m3 b_ptr=*f8e4m3 a_scale_ptr=*f32 b_scale_ptr=*f32 c_ptr=*f32 BLOCK_M=64 BLOCK_N=128 BLOCK_K=128 "
     "GROUP=128",
     4, "sm_90a"},
    {"tests/kernels/dot_types.py", "begun_sums", "x_ptr=*f16 y_ptr=*f16 begin_ptr=*f32 out_ptr=*f32 FORM=given", 4},
    {"tests/kernels/dot_types.py", "begun_sums", "x_ptr=*f16 y_ptr=*f16 begin_ptr=*f32 out_ptr=*f32 FORM=number", 4},
    {"tests/kernels/dot_types.py", "begun_sums", "x_ptr=*f16 y_ptr=*f16 begin_ptr=*f32 out_ptr=*f32 FORM=row", 4},
    {"tests/kernels/float8.py", "convert", "x_ptr=*f32 out_ptr=*f8e4m3 TYPE=f8e4m3 BLOCK=4096", 4},
    {"tests/kernels/float8.py", "convert", "x_ptr=*f8e4m3 out_ptr=*bf16 TYPE=bf16 BLOCK=4096", 4},
    {"tests/kernels/float8.py", "scale", "x_ptr=*f8e4m3 out_ptr=*f8e5m2 factor=f32 BLOCK=4096", 4},
    {"tests/kernels/float8.py", "bits",
     "out_ptr=*f8e4m3 byte_ptr=*u8 largest_ptr=*f32 sum_ptr=*f32 x_ptr=*f8e4m3 BLOCK=1024", 4},
    {"tests/kernels/matmul.py", "gram", "x_ptr=*f16 c_ptr=*f32 out_ptr=*f32 R=64 C=64", 4},
};

constexpr const char* kTargets[] = {"sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120a"};

std::string label(const Case& c, int num_warps) {
  return fmt::format("{}::{} ({}) with {} warps", c.file, c.kernel, c.arguments, num_warps);
}

struct Job {
  int num_warps;
  const char* target;
};

// `count` of them: each case begins with the next one, so that few of each case are all of them over the cases.
template <class T>
std::vector<T> some_of(const std::vector<T>& all, size_t number_of_case, size_t count) {
  std::vector<T> some;
  for (size_t i = 0; i < std::min(count, all.size()); ++i) some.push_back(all[(number_of_case + i) % all.size()]);
  return some;
}

// A case with its own number of warps for the two targets that differ most in what they multiply by; and one job of
// those for other targets and other numbers of warps, at night all of them.
std::vector<Job> jobs(const Case& c, size_t number_of_case) {
  std::vector<Job> list, others{{c.num_warps * 2, "sm_80"}, {1, "sm_120a"}};
  for (std::string_view target : kTargets) {
    if (c.only_on && c.only_on != target) continue;
    (c.only_on || target == "sm_80" || target == "sm_90a" ? list : others).push_back({c.num_warps, target.data()});
  }
  for (const Job& job : some_of(others, number_of_case, random_count(1))) list.push_back(job);
  return list;
}

// What the assembler is to be asked about: the code, and the generation of GPUs. Those of one generation that have the
// same code have the same registers.
std::string question(std::string ptx, std::string_view target) {
  for (const char* line : {"\n.version ", "\n.target "})
    if (const size_t at = ptx.find(line); at != std::string::npos) ptx.erase(at, ptx.find('\n', at + 1) - at);
  return ptx + std::string(target.substr(0, target.size() - 1 - target.ends_with('a')));
}

TEST(Ptx, EveryKernelTextHasACase) {
  for (const char* folder : {"tutorials", "tests/kernels"})
    for (const auto& entry : fs::directory_iterator(fs::path(TEGULA_SOURCE_DIR) / folder)) {
      if (entry.path().extension() != ".py") continue;
      const std::string file = fmt::format("{}/{}", folder, entry.path().filename().string());
      for (const std::string& kernel : Program::load(entry.path().string()).kernels()) {
        const bool found = std::any_of(std::begin(kCases), std::end(kCases),
                                       [&](const Case& c) { return c.file == file && c.kernel == kernel; });
        EXPECT_TRUE(found) << file << "::" << kernel << " needs a row in kCases of tests/codegen/lower/ptx_test.cpp";
      }
    }
}

TEST(Ptx, AcceptedByTheAssemblerWithoutSpills) {
  SKIP_WITHOUT_PTXAS();
  std::mutex mutex;
  std::vector<std::string> problems;
  std::set<std::string> unknown_targets;
  auto ask = [&](const Case& c, const Job& job, const KernelImage& image) -> std::string {
    const PtxasRun run = assemble(image.ptx, job.target);
    if (knows_not_the_target(run)) {
      std::lock_guard lock(mutex);
      unknown_targets.insert(job.target);
      return "";
    }
    if (run.status) return "ptxas refuses it: " + run.log;
    for (const char* code : {"C75", "serializ"})
      if (run.log.find(code) != std::string::npos) return "products in flight are waited for: " + run.log;
    return job.num_warps == c.num_warps && spills(run) ? "uses local memory: " + run.log : "";
  };
  in_parallel(std::size(kCases), [&](size_t i) {
    const Case& c = kCases[i];
    if (!*c.arguments) return;
    std::set<std::string> asked;
    for (const Job& job : jobs(c, i)) {
      std::string problem;
      try {
        const KernelImage image = compile(c, job.num_warps, job.target);
        if (asked.insert(question(image.ptx, job.target)).second) problem = ask(c, job, image);
      } catch (const Error& error) {
        problem = error.what();
      }
      if (problem.empty()) continue;
      std::lock_guard lock(mutex);
      problems.push_back(fmt::format("{} for {}: {}", label(c, job.num_warps), job.target, problem));
    }
  });
  EXPECT_TRUE(problems.empty()) << fmt::format("{}", fmt::join(problems, "\n"));
  EXPECT_LT(unknown_targets.size(), std::size(kTargets));
}

// The PTX of all cases for one target.
std::vector<std::string> all_ptx() {
  std::vector<std::string> texts;
  for (const Case& c : kCases)
    if (*c.arguments) texts.push_back(compile(c, c.num_warps, "sm_90a").ptx);
  return texts;
}

// The emulator does not run what is made of a kernel for GPUs.
TEST(Ptx, RegistersAreSetBeforeTheyAreRead) {
  std::vector<std::string> problems(2 * std::size(kCases));
  in_parallel(problems.size(), [&](size_t i) {
    const Case& c = kCases[i / 2];
    const char* target = i % 2 ? "sm_80" : "sm_90a";
    if (!*c.arguments || (c.only_on && c.only_on != std::string_view(target))) return;
    problems[i] = ptx::read_too_early(compile(c, c.num_warps, target).ptx);
  });
  EXPECT_EQ(fmt::format("{}", fmt::join(problems, "")), "");
}

// Not a test of its own: what a second process runs for SameBytesEveryTime.
TEST(Ptx, DISABLED_WriteAll) {
  const char* file = std::getenv("TEGULA_TEST_OUTPUT");
  ASSERT_TRUE(file);
  std::ofstream out(file);
  for (const std::string& text : all_ptx()) out << text;
}

TEST(Ptx, SameBytesEveryTime) {
  const std::vector<std::string> first = all_ptx();
  std::vector<std::string> in_threads(first.size());
  std::vector<const Case*> cases;
  for (const Case& c : kCases)
    if (*c.arguments) cases.push_back(&c);
  in_parallel(cases.size(), [&](size_t i) {
    const size_t backwards = cases.size() - 1 - i;
    in_threads[backwards] = compile(*cases[backwards], cases[backwards]->num_warps, "sm_90a").ptx;
  });
  std::string together;
  for (size_t i = 0; i < cases.size(); ++i) {
    EXPECT_EQ(first[i], in_threads[i]) << label(*cases[i], cases[i]->num_warps);
    together += first[i];
  }

  std::string file = (fs::temp_directory_path() / "tegula-ptx-XXXXXX").string();
  const int descriptor = mkstemp(file.data());
  ASSERT_GE(descriptor, 0);
  close(descriptor);
  int status = 0;
  const std::string log = run_command(
      fmt::format("TEGULA_TEST_OUTPUT={} '{}' --gtest_filter=Ptx.DISABLED_WriteAll --gtest_also_run_disabled_tests",
                  file, fs::read_symlink("/proc/self/exe").string()),
      &status);
  EXPECT_EQ(status, 0) << log;
  std::stringstream second;
  second << std::ifstream(file).rdbuf();
  fs::remove(file);
  EXPECT_TRUE(second.str() == together) << "another process compiled other bytes";
}

// 1-based lines of a kernel's body with memory accesses, reductions or mathematical functions.
std::set<int> lines_with_work(const Case& c) {
  static const std::regex work(R"(tl\.(load|store|atomic_add|dot|sum|max|exp|log|sin|cos|erf|sqrt|rsqrt|sigmoid)\()");
  std::ifstream in(std::string(TEGULA_SOURCE_DIR "/") + c.file);
  std::set<int> lines;
  std::string text;
  bool inside = false;
  for (int line = 1; std::getline(in, text); ++line) {
    if (text.starts_with("def ")) inside = text.starts_with(fmt::format("def {}(", c.kernel));
    if (inside && std::regex_search(text, work)) lines.insert(line);
  }
  return lines;
}

// A line that one case's compile-time values leave out is in another case of that kernel.
TEST(Ptx, LineTableNamesTheUsersLines) {
  std::map<std::string, std::set<int>> missing;
  for (const Case& c : kCases) {
    if (!*c.arguments) continue;
    const std::string ptx = compile(c, c.num_warps, "sm_90a").ptx;
    std::smatch file;
    ASSERT_TRUE(std::regex_search(ptx, file, std::regex(R"re(\.file\s+(\d+)\s+"([^"]*)")re"))) << ptx;
    EXPECT_EQ(file[2].str(), std::string(TEGULA_SOURCE_DIR "/") + c.file);
    std::set<int> lines;
    const std::regex loc(fmt::format(R"(\.loc\s+{}\s+(\d+)\s+\d+)", file[1].str()));
    for (std::sregex_iterator it(ptx.begin(), ptx.end(), loc), end; it != end; ++it) lines.insert(std::stoi((*it)[1]));
    const auto found = missing.try_emplace(std::string(c.file) + "::" + c.kernel, lines_with_work(c)).first;
    std::erase_if(found->second, [&](int line) { return lines.contains(line); });
  }
  for (const auto& [kernel, without] : missing)
    EXPECT_EQ(without, std::set<int>()) << kernel << ": no .loc names these";
}

// Before a kernel touches memory it waits for those ahead of it, on GPUs where launches overlap; then the next may
// start, unless programs share what loops around products read.
TEST(Ptx, WaitsForEarlierKernelsBeforeItTouchesMemory) {
  for (size_t number = 0; number < std::size(kCases); ++number) {
    const Case& c = kCases[number];
    if (!*c.arguments) continue;
    // Without that the first one, with it all others.
    std::vector<const char*> targets = some_of<const char*>({"sm_89", "sm_100a", "sm_120a"}, number, random_count(1));
    targets.push_back("sm_90a");
    for (const char* target : targets) {
      const KernelImage image = compile(c, c.num_warps, target);
      const std::string what = label(c, c.num_warps) + " for " + target + "\n" + image.ptx;
      const bool overlaps = find_target(target)->sm >= 90;
      EXPECT_EQ(image.dependent_launch, overlaps) << what;
      const size_t wait = image.ptx.find("griddepcontrol.wait");
      const size_t next = image.ptx.find("griddepcontrol.launch_dependents");
      ASSERT_EQ(wait != std::string::npos, overlaps) << what;
      if (!overlaps) continue;
      EXPECT_LT(wait, next) << what;
      std::smatch access;
      ASSERT_TRUE(std::regex_search(image.ptx, access, std::regex(R"((ld|st|atom|cp\.async)[.\w]*\.global)"))) << what;
      EXPECT_LT(wait, size_t(access.position())) << what;
      // In the first block, which every thread runs; where warps of their own copy, these wait as well.
      const size_t first_end = std::min(image.ptx.find("bra"), image.ptx.find("ret;"));
      const bool multiplies = image.ptx.find("mma") != std::string::npos;
      if (image.copy_warps) {
        EXPECT_NE(image.ptx.find("griddepcontrol.wait", wait + 1), std::string::npos) << what;
      } else {
        EXPECT_LT(wait, first_end) << what;
        if (!multiplies) {
          EXPECT_LT(next, first_end) << what;
        }
      }
    }
  }
}

}  // namespace
}  // namespace tegula
