// Functions as values and as arguments in the public headers.
//
// std::function would do, but <functional> costs each file of a program that includes Tegula a quarter of what all the
// standard headers of the interface cost together.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>

#include "runtime/base/shared.h"

namespace tegula {

template <class Signature>
class Function;
template <class Signature>
class FunctionRef;

namespace detail {

[[noreturn]] void refuse_empty_function();

/// Whether a function object holds no function: a null pointer, an empty std::function.
template <class F>
bool is_empty_function(const F& f) {
  if constexpr (std::is_pointer_v<F>)
    return f == nullptr;
  else if constexpr (requires { f.operator bool(); })
    return !f.operator bool();
  else
    return false;
}

}  // namespace detail

/// A function with what it holds, or none: as std::function, but copies share what the function holds.
template <class Result, class... Args>
class Function<Result(Args...)> {
 public:
  Function() = default;
  Function(std::nullptr_t) {}
  template <class F>
  requires(!std::is_same_v<std::remove_cvref_t<F>, Function> &&
           std::is_invocable_r_v<Result, std::decay_t<F>&, Args...>) Function(F&& f) {
    using Held = detail::Box<std::decay_t<F>>;
    if (detail::is_empty_function<std::decay_t<F>>(f)) return;
    owner_ = detail::Owner(new Held(std::forward<F>(f)));
    call_ = [](detail::Counted& held, Args... args) -> Result {
      return static_cast<Result>(static_cast<Held&>(held).value(std::forward<Args>(args)...));
    };
  }

  explicit operator bool() const noexcept { return call_; }
  bool operator==(std::nullptr_t) const noexcept { return !call_; }
  Result operator()(Args... args) const {
    if (!call_) detail::refuse_empty_function();
    return call_(*owner_.get(), std::forward<Args>(args)...);
  }

 private:
  detail::Owner owner_;
  Result (*call_)(detail::Counted&, Args...) = nullptr;
};

/// A function that lives elsewhere, for the time of a call; or none.
template <class Result, class... Args>
class FunctionRef<Result(Args...)> {
 public:
  FunctionRef() = default;
  FunctionRef(std::nullptr_t) {}
  template <class F>
  requires(!std::is_same_v<F, FunctionRef> && std::is_object_v<F> && std::is_invocable_r_v<Result, const F&, Args...>)
      FunctionRef(const F& f) {
    if (detail::is_empty_function(f)) return;
    object_ = &f;
    call_ = [](FunctionRef ref, Args... args) -> Result {
      return static_cast<Result>((*static_cast<const F*>(ref.object_))(std::forward<Args>(args)...));
    };
  }
  FunctionRef(Result (&f)(Args...))
      : function_(f),
        call_([](FunctionRef ref, Args... args) -> Result { return ref.function_(std::forward<Args>(args)...); }) {}

  explicit operator bool() const noexcept { return call_; }
  Result operator()(Args... args) const {
    if (!call_) detail::refuse_empty_function();
    return call_(*this, std::forward<Args>(args)...);
  }

 private:
  union {
    const void* object_ = nullptr;
    Result (*function_)(Args...);
  };
  Result (*call_)(FunctionRef, Args...) = nullptr;
};

}  // namespace tegula
