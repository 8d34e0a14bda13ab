// torch's stable C interface of tensors, as the process has it: libtegula needs no torch to be built or loaded. The
// Python package (tegula/torch_interface.py) looks the functions up, and where in an object of Python the tensor lies.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "bindings/cpython.h"
#include "runtime/device.h"

namespace tegula::bindings {

/// What torch says of a strided tensor.
struct TensorFacts {
  uint64_t address;
  int32_t dtype;   ///< torch's number of the element type
  int32_t device;  ///< ordinal of the GPU
};

class TorchInterface {
 public:
  /// The functions, in the order in which the package passes their addresses. Each returns 0 unless it has failed.
  struct Functions {
    int32_t (*data_ptr)(void* tensor, void** address);
    int32_t (*dtype)(void* tensor, int32_t* number);
    int32_t (*device_type)(void* tensor, int32_t* number);
    int32_t (*device_index)(void* tensor, int32_t* ordinal);
    int32_t (*dim)(void* tensor, int64_t* rank);
    int32_t (*sizes)(void* tensor, int64_t** extents);        // borrowed
    int32_t (*strides)(void* tensor, int64_t** in_elements);  // borrowed
    int32_t (*current_stream)(int32_t ordinal, void** stream);
  };
  /// `place`: bytes from the begin of a tensor's object to the tensor; `gpu`: torch's number of the type of devices.
  TorchInterface(std::ptrdiff_t place, int32_t gpu, const Functions& functions)
      : place_(place), gpu_(gpu), functions_(functions) {}

  /// None for a tensor that is on no GPU or has no memory.
  std::optional<TensorFacts> facts_of(PyObject* tensor) const;
  /// Extents and strides in elements; none where torch has no such of the tensor.
  struct Dims {
    int64_t rank;
    const int64_t *extents, *strides;
  };
  std::optional<Dims> dims_of(PyObject* tensor) const;
  /// The stream that torch's operations on a GPU go to.
  std::optional<StreamHandle> current_stream(int device) const;

 private:
  void* tensor_of(PyObject* object) const { return reinterpret_cast<std::byte*>(object) + place_; }

  std::ptrdiff_t place_;
  int32_t gpu_;
  Functions functions_;
};

}  // namespace tegula::bindings
