// Functions that the library's kernels can apply to each element of their result.
#pragma once

#include <cstddef>
#include <iterator>
#include <type_traits>
#include <utility>

namespace tegula::kernels {

enum class Activation {
  None,
  Relu,          ///< max(y, 0)
  LeakyRelu,     ///< y, or 0.01 y where y < 0
  Silu,          ///< y * sigmoid(y)
  Gelu,          ///< y * P(X < y) of a standard normal X, by the error function
  GeluTanh,      ///< its approximation 0.5 y (1 + tanh(sqrt(2 / pi) (y + 0.044715 y^3)))
  GeluTanhFast,  ///< likewise by the hardware's tanh, 5e-4 off at most: enough for results of 16 bits
};

namespace detail {
/// By the names of the kernel texts, in the enumeration's order.
inline constexpr const char* kActivations[] = {"none", "relu",      "leaky_relu",    "silu",
                                               "gelu", "gelu_tanh", "gelu_tanh_fast"};

/// Calls f with the activation as a std::integral_constant.
template <class F>
void with_activation(Activation activation, const F& f) {
  auto call = [&]<size_t... I>(std::index_sequence<I...>) {
    ((size_t(activation) == I ? f(std::integral_constant<Activation, Activation(I)>()) : void()), ...);
  };
  call(std::make_index_sequence<std::size(kActivations)>());
}
}  // namespace detail

}  // namespace tegula::kernels
