// Launch arguments: checked against what a kernel image expects, then packed as cuLaunchKernel takes them.
//
//   LaunchHandle softmax(kernel);                          // once
//   softmax(stream, {rows}, out, in, int64_t(stride), n);  // many times: compares, then cuLaunchKernel
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/function.h"
#include "runtime/base/shared.h"
#include "runtime/device.h"
#include "runtime/memory.h"

namespace tegula {

/// The element type of a C++ scalar; none for other types.
template <class T>
constexpr std::optional<Elem> elem_of() {
  using V = std::remove_cv_t<T>;
  if constexpr (std::is_same_v<V, bool>) return Elem::I1;
  if constexpr (std::is_integral_v<V>) {
    constexpr bool is_signed = std::is_signed_v<V>;
    switch (sizeof(V)) {
      case 1:
        return is_signed ? Elem::I8 : Elem::U8;
      case 2:
        return is_signed ? Elem::I16 : Elem::U16;
      case 4:
        return is_signed ? Elem::I32 : Elem::U32;
      case 8:
        return is_signed ? Elem::I64 : Elem::U64;
    }
  }
  if constexpr (requires { V::kElem; }) return V::kElem;  // float16, bfloat16
  if constexpr (std::is_same_v<V, float>) return Elem::F32;
  if constexpr (std::is_same_v<V, double>) return Elem::F64;
  return std::nullopt;
}

struct TensorDescriptor;

/// A launch argument, made without a cast from C++ numbers, pointers to device memory, Buffers and TensorDescriptors.
struct Arg {
  enum class Kind : uint8_t { Pointer, Signed, Unsigned, Float, Bool, Descriptor };

  template <std::signed_integral T>
  Arg(T value) : kind(Kind::Signed), elem(elem_of<T>()), i(value) {}
  template <std::unsigned_integral T>
  Arg(T value) : kind(Kind::Unsigned), elem(elem_of<T>()), u(value) {}
  Arg(bool value) : kind(Kind::Bool), elem(Elem::I1), u(value) {}
  Arg(float value) : kind(Kind::Float), elem(Elem::F32), f(value) {}
  Arg(double value) : kind(Kind::Float), elem(Elem::F64), f(value) {}
  template <class T>
  Arg(T* device_address) : kind(Kind::Pointer), elem(elem_of<T>()), u(reinterpret_cast<uint64_t>(device_address)) {}
  Arg(std::nullptr_t) : kind(Kind::Pointer), u(0) {}
  Arg(const Buffer& buffer) : kind(Kind::Pointer), u(buffer.address()), bytes(buffer.bytes()) {}
  /// The descriptor must live as long as the argument.
  Arg(const TensorDescriptor& descriptor);

  /// A device address as other libraries hold it; with an element type, the kernel's is compared with it. `bytes` is
  /// the size of what may be read and written there, if known.
  static Arg pointer(uint64_t address, std::optional<Elem> elem = std::nullopt, size_t bytes = 0) {
    Arg arg(nullptr);
    arg.u = address;
    arg.elem = elem;
    arg.bytes = bytes;
    return arg;
  }

  Kind kind;
  std::optional<Elem> elem;  ///< type of the value or of what the pointer points to; none if not known
  union {
    uint64_t u;  ///< Pointer, Unsigned, Bool; of a Descriptor its base's address
    int64_t i;   ///< Signed
    double f;    ///< Float
  };
  size_t bytes = 0;  ///< of what a pointer points to; 0: not known
  const TensorDescriptor* descriptor = nullptr;
};

/// An array in device memory for a parameter that the kernel uses as a tensor descriptor, as tl.make_tensor_descriptor
/// makes one in the kernel. The shape of the blocks is compiled in.
struct TensorDescriptor {
  Arg base;                          ///< typed pointer to the first element
  std::vector<int64_t> shape;        ///< 1 to 5 extents
  std::vector<int64_t> strides;      ///< in elements, as many; the last one is 1
  std::vector<int64_t> block_shape;  ///< as many
  bool pad_nan = false;              ///< elements outside of the array are read as NaN, not as 0
};

inline Arg::Arg(const TensorDescriptor& d)
    : kind(Kind::Descriptor), elem(d.base.elem), u(d.base.u), bytes(d.base.bytes), descriptor(&d) {}

/// The arguments as a launch of compiled code takes them, where the parts of a descriptor stand in its place: the
/// pointer, the extents and the strides.
std::vector<Arg> in_parts(std::span<const Arg> args);

/// What a launch compares for one argument: ImageParam or ImageConstant, boiled down.
struct ArgRule {
  explicit ArgRule(const ImageParam& param);
  explicit ArgRule(const ImageConstant& constant);

  Elem elem;
  bool pointer;
  uint64_t low_bits;  ///< must be zero in a pointer or integer
  int64_t divisor;    ///< an integer must be a multiple of it, where low_bits cannot say so; else 1
  bool passed;        ///< the code takes it; else it must equal `constant`
  uint64_t constant = 0;

  /// Packs `arg` into `slot` in the parameter's ABI; false if it does not fit the rule.
  bool pack(const Arg& arg, uint64_t& slot) const;
};

/// The rules of all arguments of a launch, in order.
std::vector<ArgRule> launch_rules(const KernelImage& image);

/// Throws the LaunchError that says why `args`, in parts, do not fit `image`.
[[noreturn]] void refuse_args(const KernelImage& image, std::span<const Arg> args);

/// Arguments packed for a launch, where their number is known at run time only.
class ArgPack {
 public:
  /// Throws LaunchError: wrong count or type, null or misaligned pointer, a value that does not fit its type or that
  /// the code's assumptions exclude.
  ArgPack(const KernelImage& image, std::span<const Arg> args);

  /// As LoadedKernel::launch takes them; valid as long as this object or a copy of it.
  void* const* data() const;

 private:
  struct Packed;
  Shared<Packed> packed_;
};

/// A kernel ready to be launched again and again, from any thread. A launch checks its arguments by compares and packs
/// them on the stack (on the heap only if there are more than 32 in a span); the first one alone asks the device
/// whether it can reach the pointers.
class LaunchHandle {
 public:
  /// Makes the same kernel ready without bulk copies. The result takes the same arguments.
  using MakeOther = Function<Shared<LoadedKernel>()>;

  /// Launches whose arguments allow no tensor map run what `without_bulk_copies` gives, which is called at the first of
  /// them; if it is null they are a LaunchError.
  explicit LaunchHandle(Shared<LoadedKernel> kernel, MakeOther without_bulk_copies = {});
  LaunchHandle(const LaunchHandle& other);
  LaunchHandle& operator=(const LaunchHandle& other);

  const KernelImage& image() const { return kernel_->image(); }

  /// Makes ready now what the first launch that allows no tensor maps would need. Throws what making it ready throws.
  void prepare_other() const;

  /// Whether a launch takes these arguments.
  bool fits(std::span<const Arg> args) const;

  /// Launches on `stream`. Throws LaunchError as ArgPack does, and DeviceError when the device refuses.
  template <class... Args>
  requires(std::convertible_to<const Args&, Arg>&&...) void operator()(StreamHandle stream, Grid grid,
                                                                       const Args&... values) const {
    constexpr size_t kCount = sizeof...(Args);
    const std::array<Arg, kCount> args{Arg(values)...};
    if constexpr ((!std::is_arithmetic_v<Args> || ...))
      if (kCount != rules_.size()) return launch(stream, grid, args);
    std::array<uint64_t, kCount> slots;
    std::array<void*, kCount> pointers;
    pack(args, slots.data(), pointers.data());
    start(grid, pointers.data(), stream);
  }

  /// The same with arguments whose number is known at run time only.
  void launch(StreamHandle stream, Grid grid, std::span<const Arg> args) const;

 private:
  struct Other;  // the kernel without bulk copies, of all copies of the handle

  void pack(std::span<const Arg> args, uint64_t* slots, void** pointers) const;
  void start(Grid grid, void* const* args, StreamHandle stream) const {
    if (!kernel_->try_launch(grid, args, stream)) [[unlikely]]
      start_other(grid, args, stream);
  }
  void start_other(Grid grid, void* const* args, StreamHandle stream) const;
  void check_access(std::span<const Arg> args) const;

  Shared<LoadedKernel> kernel_;
  std::vector<ArgRule> rules_;
  Shared<Other> other_;
  mutable bool access_checked_ = false;  ///< read and written atomically: launches of other threads may check too
};

}  // namespace tegula
