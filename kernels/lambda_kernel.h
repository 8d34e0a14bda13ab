// What elementwise_kernel() and row_kernel() have in common: kernels made of a C++ function of Tiles, which the library
// lays out over tensors of any strides. A function takes some Tiles, one an input, and gives a Tile or a std::array of
// them, one an output; after the Tiles it may take Ptr, Int, Float and Bool parameters, which launches pass.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "dsl/cpp_kernel.h"
#include "kernels/iteration_space.h"
#include "kernels/tensor.h"
#include "kernels/tile_functions.h"

namespace tegula::kernels {

/// N tensors of a launch; matrices and vectors are such.
template <size_t N>
struct TensorList {
  template <class... T>
  requires(sizeof...(T) == N && (std::convertible_to<const T&, Tensor> && ...)) TensorList(const T&... tensors)
      : tensors{Tensor(tensors)...} {}

  std::array<Tensor, N> tensors;
};

namespace detail {

/// What is recorded of a kernel for spaces of one rank: its tensors, extents, strides and constants.
class SpaceRecording {
 public:
  SpaceRecording(const tegula::detail::TracedArgs& args, const std::vector<tegula::detail::TracedParam>& params,
                 int rank, size_t outputs, size_t inputs);

  const tegula::detail::TracedArgs& args() const { return args_; }
  size_t outputs() const { return outputs_; }
  size_t tensors() const { return outputs_ + inputs_; }  ///< outputs stand first
  int rank() const { return rank_; }
  Tile extent(int dim) const;
  Tile stride(size_t tensor, int dim) const;
  Tile pointer(size_t tensor) const { return args_.tile(tensor); }
  Elem elem(size_t tensor) const;
  Tile param(std::string_view name) const { return args_.tile(index_of(name)); }
  template <class T>
  T constant(std::string_view name) const {
    const Constexpr* found = args_.constant(index_of(name));
    const T* value = found ? std::get_if<T>(found) : nullptr;
    return value ? *value : T();
  }
  /// Whether the tensor has one element for all places along the last extent, or along all others that tiles have.
  bool same_along_cols(size_t tensor) const { return same_ >> (2 * tensor) & 1; }
  bool same_along_rows(size_t tensor) const { return same_ >> (2 * tensor + 1) & 1; }

 private:
  size_t index_of(std::string_view name) const;

  const tegula::detail::TracedArgs& args_;
  const std::vector<tegula::detail::TracedParam>& params_;
  int rank_;
  size_t outputs_, inputs_;
  int64_t same_;
  bool eights_;
};

/// Kernels of one function, one for each rank of the space that is left when extents are joined; made when first
/// needed.
class SpaceKernel {
 public:
  struct Form {
    std::string name;
    size_t outputs, inputs;
    bool placed;  ///< the function takes its place
    std::vector<tegula::detail::TracedParam> own;
    const char* file;
    int line;
  };

  /// `numbered`: elements' numbers are a tensor without memory after the others.
  SpaceKernel(Form form, bool numbered, std::vector<const char*> constants);
  virtual ~SpaceKernel() = default;
  SpaceKernel(const SpaceKernel&) = delete;

  void launch(Device& device, std::span<const Tensor> outputs, std::span<const Tensor> inputs, StreamHandle stream,
              std::span<const Arg> own) const;

 protected:
  const Form& form() const { return form_; }
  bool numbered() const { return numbered_; }
  /// Whether the last extent, and all strides but those of 1, are multiples of 8: what else than multiples of 16 allows
  /// accesses of 16 bytes.
  static bool in_eights(const IterationSpace& space);
  /// Position of the function's own parameters in those of a kernel.
  size_t first_own(int rank) const;

  /// Checks the tensors and brings the space to the form that record() expects.
  virtual IterationSpace arranged(std::span<const Tensor> outputs, std::span<const Tensor> inputs) const = 0;
  /// Constexprs that follow from the strides: SAME, the bits of SpaceRecording::same_along_..., EIGHTS of in_eights(),
  /// and others.
  virtual std::vector<ConstexprArg> flags(const IterationSpace& space) const = 0;
  /// The arguments `rows` and `cols`, and units of work, by which tuning tells small launches from large ones.
  struct Sizes {
    int64_t rows, cols, work;
  };
  virtual Sizes sizes(const IterationSpace& space) const = 0;
  virtual void record(const SpaceRecording& recording) const = 0;
  virtual Autotune tuning() const = 0;
  virtual std::vector<Heuristic> heuristics() const = 0;
  virtual Grid grid(const IterationSpace& space, const Config& config, int num_sms) const = 0;

 private:
  std::vector<tegula::detail::TracedParam> params(int rank) const;
  Kernel make(int rank, bool in_place) const;
  const Kernel& kernel(int rank, bool in_place) const;
  std::vector<Arg> arguments(const IterationSpace& space, std::span<const Tensor> outputs,
                             std::span<const Tensor> inputs, int num_sms, std::span<const Arg> own) const;

  struct Slot {
    std::once_flag once;
    std::unique_ptr<Kernel> kernel;
  };

  Form form_;
  bool numbered_;
  std::vector<const char*> constants_;
  mutable std::array<std::array<Slot, 2>, IterationSpace::kMaxRank + 1> slots_;  ///< by rank and in_place
};

template <class R>
struct Results {
  static_assert(tegula::detail::kNever<R>, "the function gives a Tile, or a std::array of Tiles: one for each output");
};
template <>
struct Results<Tile> {
  static constexpr size_t kCount = 1;
  static std::vector<Tile> list(const Tile& tile) { return {tile}; }
};
template <size_t N>
struct Results<std::array<Tile, N>> {
  static constexpr size_t kCount = N;
  static std::vector<Tile> list(const std::array<Tile, N>& tiles) { return {tiles.begin(), tiles.end()}; }
};

/// The parameters of a function: perhaps the place, then Tiles, then its own ones.
template <class Place, class... Params>
struct FunctionParams {
  using All = std::tuple<std::remove_cvref_t<Params>...>;
  static constexpr bool is_place(size_t i) {
    constexpr bool places[] = {std::is_same_v<std::remove_cvref_t<Params>, Place>..., false};
    return places[i];
  }
  static constexpr bool is_tile(size_t i) {
    constexpr bool tiles[] = {std::is_same_v<std::remove_cvref_t<Params>, Tile>..., false};
    return tiles[i];
  }
  static constexpr size_t count_tiles(size_t i) { return is_tile(i) ? 1 + count_tiles(i + 1) : 0; }

  static constexpr bool kPlaced = is_place(0);
  static constexpr size_t kInputs = count_tiles(kPlaced);
  static constexpr size_t kFirstOwn = kPlaced + kInputs, kOwn = sizeof...(Params) - kFirstOwn;
  template <size_t I>
  using OwnParam = std::tuple_element_t<kFirstOwn + I, All>;
};

template <class P>
concept RuntimeParameter = requires {
  P::kKind;
}
&&P::kKind != tegula::detail::TracedParam::Kind::Constant;

template <class Place, class Call>
struct FunctionSignature {
  static_assert(tegula::detail::kNever<Call>,
                "the function is a lambda that is not mutable and not generic: Tile(Tile x, ...), or std::array<Tile, "
                "N>(Tile x, ...), which may take the place in front, and Ptr, Int, Float and Bool parameters behind");
};
template <class Place, class F, class R, class... Params>
struct FunctionSignature<Place, R (F::*)(Params...) const noexcept>
    : FunctionSignature<Place, R (F::*)(Params...) const> {};
template <class Place, class F, class R, class... Params>
struct FunctionSignature<Place, R (F::*)(Params...) const> : FunctionParams<Place, Params...> {
  using P = FunctionParams<Place, Params...>;
  using Function = std::function<std::vector<Tile>(const Place&, const std::vector<Tile>& inputs,
                                                   const tegula::detail::TracedArgs&, size_t first_own)>;
  static constexpr size_t kOutputs = Results<R>::kCount;
  static_assert(P::kInputs > 0, "the function takes at least one Tile");
  static_assert(P::kInputs + kOutputs < IterationSpace::kMaxTensors, "at most 15 inputs and outputs");

  template <class... Args>
  static constexpr void check(const Args&...) {
    [&]<size_t... I>(std::index_sequence<I...>) {
      tegula::detail::CheckArguments<tegula::detail::Params<typename P::template OwnParam<I>...>, Args...>::check();
    }
    (std::make_index_sequence<P::kOwn>());
  }
  static SpaceKernel::Form form(std::string name, const char* file, int line) {
    return [&]<size_t... I>(std::index_sequence<I...>) {
      static_assert((RuntimeParameter<typename P::template OwnParam<I>> && ...),
                    "behind its Tiles the function takes Ptr, Int, Float and Bool parameters");
      return SpaceKernel::Form{
          std::move(name), kOutputs, P::kInputs, P::kPlaced, {P::template OwnParam<I>::param()...}, file, line};
    }
    (std::make_index_sequence<P::kOwn>());
  }
  static Function function(F f) {
    return [f = std::move(f)](const Place& place, const std::vector<Tile>& in, const tegula::detail::TracedArgs& args,
                              size_t first_own) {
      return call(f, place, in, args, first_own, std::make_index_sequence<P::kInputs>(),
                  std::make_index_sequence<P::kOwn>());
    };
  }

 private:
  template <size_t... I, size_t... Own>
  static std::vector<Tile> call(const F& f, const Place& place, const std::vector<Tile>& in,
                                const tegula::detail::TracedArgs& args, size_t first_own, std::index_sequence<I...>,
                                std::index_sequence<Own...>) {
    // A tuple, so that parameters are made in order.
    std::tuple<typename P::template OwnParam<Own>...> own{typename P::template OwnParam<Own>(args, first_own + Own)...};
    return Results<R>::list([&] {
      if constexpr (P::kPlaced)
        return f(place, in[I]..., std::get<Own>(own)...);
      else
        return f(in[I]..., std::get<Own>(own)...);
    }());
  }
};

/// Of a function object; one that is generic has no signature, and is told so.
template <class Place, class F>
struct SignatureOf : FunctionSignature<Place, F> {};
template <class Place, class F>
requires requires { &F::operator(); }
struct SignatureOf<Place, F> : FunctionSignature<Place, decltype(&F::operator())> {};

}  // namespace detail

/// A kernel that elementwise_kernel() or row_kernel() made. Copies share what was compiled and tuned.
template <class Signature>
class LambdaKernel {
 public:
  explicit LambdaKernel(std::shared_ptr<const detail::SpaceKernel> kernel) : kernel_(std::move(kernel)) {}

  /// Runs the function over the tensors, one an output and one an input; `params` are the function's own parameters.
  /// `outputs` may be inputs themselves, with equal shapes and strides, and must not overlap them otherwise. Where
  /// outputs have no elements nothing is launched. The first launch for some extents and types tunes on a GPU. Throws
  /// LaunchError for shapes that do not fit, and what Kernel::launch throws.
  template <class... Params>
  void launch(Device& device, const TensorList<Signature::kOutputs>& outputs,
              const TensorList<Signature::kInputs>& inputs, StreamHandle stream = nullptr,
              const Params&... params) const {
    Signature::check(params...);
    const std::array<Arg, sizeof...(Params)> own{Arg(params)...};
    kernel_->launch(device, outputs.tensors, inputs.tensors, stream, own);
  }

 private:
  std::shared_ptr<const detail::SpaceKernel> kernel_;
};

}  // namespace tegula::kernels
