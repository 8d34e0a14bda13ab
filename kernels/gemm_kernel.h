// Matrix products with a C++ function as epilogue (docs/cpp.md says how kernels are written in C++):
//
//   static const auto linear_gelu = gemm_kernel("linear_gelu", [](Tile acc) { return gelu(acc); });
//   linear_gelu.launch(device, c, a, b, {.bias = bias});
//
//   static const auto scaled_sum = gemm_kernel("scaled_sum", [](Tile acc, const GemmTile& at, Float<"scale"> scale,
//                                                               Ptr<"r"> r, Int<"stride"> stride) {
//     return acc * scale + at.of_matrix(r, stride);
//   });
//   scaled_sum.launch(device, c, a, b, {}, stream, 0.5f, r.data, r.stride);
//
// The kernel and its configurations are those of gemm.py.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <tuple>
#include <utility>

#include "dsl/cpp_kernel.h"
#include "kernels/gemm.h"
#include "kernels/gemm_call.h"
#include "kernels/tile_functions.h"

namespace tegula::kernels {

/// The elements of C that a program computes. Rows and columns may reach beyond C, where what is computed is dropped.
struct GemmTile {
  Tile rows, cols;          ///< int32, those of the accumulator: of a tile of C, or of some rows of one
  Tile row_mask, col_mask;  ///< which of them lie in C

  /// vector[j] of the columns j, in fp32, 1 x BLOCK_N: a bias or a scale.
  Tile of_columns(const Tile& vector) const;
  /// Elements of a matrix of C's shape whose rows lie `stride` elements apart, in fp32: a residual.
  Tile of_matrix(const Tile& matrix, const Tile& stride) const;
};

namespace detail {

/// The kernel's parameters; `even`: of M, N, K.
struct GemmParams {
  Tile c, a, b, bias, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn, partials, counters;
  int64_t BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, PROGRAMS, PARTS, SHARES;
  bool SWAP, STREAM, ATOMIC, TURNS;
  std::array<bool, 3> even;
  bool has_bias;
};
void record_gemm(const GemmParams& params, const std::function<Tile(Tile, const GemmTile&)>& epilogue);
/// With configurations and heuristics of gemm.py.
Kernel tuned_as_gemm(const Kernel& kernel);

/// The kernel function with an epilogue that has `Params` beside the accumulator (and the tile, if kWithTile).
template <class F, bool kWithTile, class... Params>
struct GemmFunction : F {
  void operator()(Ptr<"c_ptr"> c, Ptr<"a_ptr"> a, Ptr<"b_ptr"> b, Ptr<"bias_ptr"> bias, Int<"M"> M, Int<"N"> N,
                  Int<"K"> K, Int<"stride_am"> stride_am, Int<"stride_ak"> stride_ak, Int<"stride_bk"> stride_bk,
                  Int<"stride_bn"> stride_bn, Int<"stride_cm"> stride_cm, Int<"stride_cn"> stride_cn, Int<"m_class">,
                  Ptr<"partials_ptr"> partials, Ptr<"counters_ptr"> counters, Params... params,
                  Const<"BLOCK_M"> BLOCK_M, Const<"BLOCK_N"> BLOCK_N, Const<"BLOCK_K"> BLOCK_K,
                  Const<"GROUP_M"> GROUP_M, Const<"PROGRAMS"> PROGRAMS, Const<"PARTS"> PARTS, Const<"SWAP", bool> SWAP,
                  Const<"EVEN_M", bool> EVEN_M, Const<"EVEN_N", bool> EVEN_N, Const<"EVEN_K", bool> EVEN_K,
                  Const<"HAS_BIAS", bool> HAS_BIAS, Const<"STREAM", bool> STREAM, Const<"ATOMIC", bool> ATOMIC,
                  Const<"SHARES"> SHARES, Const<"TURNS", bool> TURNS) const {
    record_gemm(
        {c,         a,         b,         bias,      M,        N,        K,       stride_am, stride_ak,
         stride_bk, stride_bn, stride_cm, stride_cn, partials, counters, BLOCK_M, BLOCK_N,   BLOCK_K,
         GROUP_M,   PROGRAMS,  PARTS,     SHARES,    SWAP,     STREAM,   ATOMIC,  TURNS,     {EVEN_M, EVEN_N, EVEN_K},
         HAS_BIAS},
        [&](Tile acc, const GemmTile& at) -> Tile {
          const F& epilogue = *this;
          if constexpr (kWithTile)
            return epilogue(acc, at, params...);
          else
            return epilogue(acc, params...);
        });
  }
};

template <class Call>
struct EpilogueSignature {
  static_assert(
      tegula::detail::kNever<Call>,
      "an epilogue is a lambda Tile(Tile acc), which may take a const GemmTile& behind acc, and then Ptr, Int, "
      "Float and Bool parameters");
};
template <class F, class... Params>
struct EpilogueSignature<Tile (F::*)(Tile, Params...) const> {
  using Function = GemmFunction<F, false, Params...>;
};
template <class F, class... Params>
struct EpilogueSignature<Tile (F::*)(Tile, const GemmTile&, Params...) const> {
  using Function = GemmFunction<F, true, Params...>;
};

}  // namespace detail

/// A matrix product with an epilogue of its own; made by gemm_kernel(). `Typed`: the TypedKernel.
template <class Typed>
class GemmKernel {
 public:
  explicit GemmKernel(Typed kernel) : kernel_(std::move(kernel)) {}

  const Kernel& kernel() const { return kernel_.kernel(); }

  /// The same, which sets back what the pointer parameter held after each run that is timed: for epilogues that read
  /// what they write.
  GemmKernel restoring(std::string param) const {
    Autotune tuning = *kernel().autotuning();
    tuning.restore_value.push_back(std::move(param));
    return GemmKernel(Typed(kernel().autotune(std::move(tuning))));
  }

  /// c = epilogue(a b + bias), as gemm() has it; `params` are those of the epilogue. Throws what gemm() does.
  template <Floating Out, Floating In, class... Params>
  requires(sizeof(In) == 2) void launch(Device& device, Matrix<Out> c, Matrix<In> a, MatrixIn<In> b,
                                        const std::type_identity_t<GemmOptions<std::remove_const_t<In>>>& options = {},
                                        StreamHandle stream = nullptr, const Params&... params) const {
    if (options.epilogue != Activation::None)
      throw LaunchError(kernel().name() + ": the kernel has an epilogue; expected Activation::None");
    launch_any(device, c, a, b, options, stream, params...);
  }

  /// The same with element types as values.
  template <class... Params>
  void launch_any(Device& device, const detail::AnyMatrix& c, const detail::AnyMatrix& a, const detail::AnyMatrix& b,
                  const detail::AnyGemmOptions& options, StreamHandle stream, const Params&... params) const {
    const auto call = detail::gemm_call(device, c, a, b, options, stream);
    if (!call) return;
    const LaunchOptions how{.constexprs = {{"HAS_BIAS", options.bias.given()}, {"ATOMIC", options.atomic_sums}},
                            .stream = stream};
    std::apply([&](const auto&... args) { kernel_.launch(device, *call, how, args..., params...); }, call->args);
  }

 private:
  Typed kernel_;
};

/// A matrix product whose accumulator goes through `epilogue`, a lambda Tile(Tile acc) on the fp32 accumulator that
/// gives a tile of its shape (else launches throw CompileError). Behind `acc` it may take a const GemmTile&, which
/// tells the tile's place, and then Ptr, Int, Float and Bool parameters, which launches pass. Tuned as gemm.py is.
template <class F>
auto gemm_kernel(std::string name, F epilogue, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  using Function = typename detail::EpilogueSignature<decltype(&F::operator())>::Function;
  auto made = kernel(std::move(name), Function{std::move(epilogue)}, file, line);
  using Typed = decltype(made);
  return GemmKernel<Typed>(Typed(detail::tuned_as_gemm(made)));
}

}  // namespace tegula::kernels
