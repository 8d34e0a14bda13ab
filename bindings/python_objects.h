// CPython's objects as the bindings of launches and library calls use them: references, tensors of torch, the
// interpreter's lock. Everything but what runs under Unlocked needs that lock. Not for users.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bindings/cpython.h"
#include "bindings/tegula.h"
#include "bindings/torch_interface.h"
#include "runtime/base/elem.h"
#include "runtime/device.h"

namespace tegula::bindings {

extern const Python* py;  ///< set by tegula_python_start(), before anything here is used

/// A strong reference.
class Ref {
 public:
  Ref() = default;
  static Ref owned(PyObject* object) { return Ref(object); }
  static Ref borrowed(PyObject* object) {
    if (object) py->Py_IncRef(object);
    return Ref(object);
  }
  static Ref interned(const char* text) { return Ref(py->PyUnicode_InternFromString(text)); }
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) py->Py_DecRef(object_);
  }
  PyObject* get() const { return object_; }
  explicit operator bool() const { return object_; }

 private:
  explicit Ref(PyObject* object) : object_(object) {}
  PyObject* object_ = nullptr;
};

/// What all recognised calls of the process share.
struct Shared {
  struct Dtype {
    PyObject* object;  ///< torch's, which lives as long as torch
    Elem elem;
    int32_t number;  ///< torch's, where its interface is known
  };
  std::vector<PyObject*> tensor_types;
  std::vector<Dtype> dtypes;
  Ref current_stream;                   ///< of torch, for the ordinal of a GPU
  std::optional<TorchInterface> torch;  ///< none: tensors are asked by their attributes
  Ref dtype_name, data_ptr_name, get_device_name, shape_name, stride_name, config_name;
  Ref general;                          ///< general(kernel, grid, *args, **kwargs): launches what is not recognised
  Ref grid_extents;                     ///< the extents of a grid as a tuple of three, or an exception
  Ref check;                            ///< raises what a status stands for
  Ref messages;                         ///< list of what the library told
  Ref general_entry;                    ///< general_entry(entry, *args, **kwargs): calls what is not recognised
  std::vector<tegula_device*> devices;  ///< by ordinal; null: not known

  bool is_tensor(PyObject* x) const {
    for (PyObject* type : tensor_types)
      if (x->type == type) return true;
    return false;
  }
  /// The device of GPU `ordinal`, or null where none is known.
  Device* device(int ordinal) const;
};
extern Shared* shared;

/// What a call needs of a tensor's memory.
struct TensorMemory {
  uint64_t address;
  Elem elem;
  int device;  ///< ordinal of the GPU
};
/// None for a tensor that is on no GPU or has a type that kernels do not take: the general way says what is wrong.
std::optional<TensorMemory> memory_of(PyObject* tensor);

/// Integers of Python's that fit 64 bits with a sign.
std::optional<int64_t> small_int(PyObject* x);
std::vector<int> positions_of(PyObject* tuple);
std::vector<Ref> items_of(PyObject* tuple);

/// Whether two values decide alike on the code: 1, 1.0 and True are equal in Python, as are 0.0 and -0.0.
bool same_value(PyObject* a, PyObject* b);

/// Extents and strides of a tensor, in elements; none for a sparse one, and for more than kMaxRank dimensions.
struct TensorDims {
  static constexpr int kMaxRank = 8;
  int rank;
  std::array<int64_t, kMaxRank> extents, strides;
};
std::optional<TensorDims> dims_of(PyObject* tensor);

/// The stream that a number or, where it is null, torch's current one on the GPU names; none for other objects.
std::optional<StreamHandle> stream_of(PyObject* number, int device);

/// What a recognised call returns: an object, null with an exception set, or nothing where the general way is to take
/// over, as it reports what was refused before anything was started.
std::optional<PyObject*> result_of(tegula_status status);

/// Calls function(*given[0 .. count), **keywords).
PyObject* call_general(PyObject* function, PyObject* const* given, std::intptr_t count, PyObject* keywords);

/// Releases the interpreter's lock, and takes it again for a while or for good.
class Unlocked {
 public:
  Unlocked() : thread_(py->PyEval_SaveThread()) {}
  ~Unlocked() { py->PyEval_RestoreThread(thread_); }
  template <class Work>
  auto with_lock(Work work) {
    py->PyEval_RestoreThread(thread_);
    struct Release {
      void*& thread;
      ~Release() { thread = py->PyEval_SaveThread(); }
    } release{thread_};
    return work();
  }

 private:
  void* thread_;
};

}  // namespace tegula::bindings
