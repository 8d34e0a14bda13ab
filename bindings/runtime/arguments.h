// Arguments of a launch as the C interface gives them. Not for users.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <vector>

#include "bindings/runtime/common.h"
#include "runtime/launch.h"

namespace tegula::bindings {

[[noreturn]] void wrong_kind(tegula_kind kind, const char* expected);

/// The argument; a descriptor lives among `descriptors`. Throws UsageError.
Arg arg_of(const tegula_value& value, std::vector<std::unique_ptr<TensorDescriptor>>& descriptors);

/// Arguments of a launch; few of them need no memory.
class Args {
 public:
  Args(const tegula_value* values, size_t count) : count_(count) {
    if (count) given(values, "args");
    if (count > kInline) more_.reserve(count);
    for (size_t i = 0; i < count; ++i) {
      if (count > kInline)
        more_.push_back(arg_of(values[i], descriptors_));
      else
        new (inline_ + i * sizeof(Arg)) Arg(arg_of(values[i], descriptors_));
    }
  }
  std::span<const Arg> span() const {
    return {count_ > kInline ? more_.data() : std::launder(reinterpret_cast<const Arg*>(inline_)), count_};
  }

 private:
  static constexpr size_t kInline = 24;
  static_assert(std::is_trivially_destructible_v<Arg>);
  alignas(Arg) std::byte inline_[kInline * sizeof(Arg)];
  std::vector<Arg> more_;
  std::vector<std::unique_ptr<TensorDescriptor>> descriptors_;
  size_t count_;
};

}  // namespace tegula::bindings
