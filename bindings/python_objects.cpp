#include "bindings/python_objects.h"

#include <dlfcn.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "bindings/runtime/common.h"

namespace tegula::bindings {

const Python* py = nullptr;
Shared* shared = nullptr;  // never freed: the interpreter ends before this library

const Python* Python::in_process() {
  static const std::optional<Python> found = []() -> std::optional<Python> {
    Python p{};
    bool complete = true;
    auto find = [&](const char* name) {
      void* symbol = dlsym(RTLD_DEFAULT, name);
      complete = complete && symbol;
      return symbol;
    };
#define TEGULA_PYTHON(result, name, ...) p.name = reinterpret_cast<decltype(p.name)>(find(#name));
    TEGULA_PYTHON_FUNCTIONS
#undef TEGULA_PYTHON
    auto object = [&](const char* name) { return static_cast<PyObject*>(find(name)); };
    p.int_type = object("PyLong_Type"), p.float_type = object("PyFloat_Type"), p.bool_type = object("PyBool_Type");
    p.str_type = object("PyUnicode_Type"), p.tuple_type = object("PyTuple_Type");
    p.true_object = object("_Py_TrueStruct"), p.none = object("_Py_NoneStruct");
    if (!complete) return std::nullopt;
    return p;
  }();
  return found ? &*found : nullptr;
}

Device* Shared::device(int ordinal) const {
  if (ordinal < 0 || size_t(ordinal) >= devices.size() || !devices[size_t(ordinal)]) return nullptr;
  return devices[size_t(ordinal)]->device.get();
}

std::optional<TensorMemory> memory_of(PyObject* tensor) {
  if (shared->torch) {
    const auto facts = shared->torch->facts_of(tensor);
    if (!facts) return std::nullopt;
    for (const Shared::Dtype& known : shared->dtypes)
      if (known.number == facts->dtype) return TensorMemory{facts->address, known.elem, facts->device};
    return std::nullopt;
  }
  const Ref dtype = Ref::owned(py->PyObject_GetAttr(tensor, shared->dtype_name.get()));
  const Ref device = Ref::owned(py->PyObject_CallMethodObjArgs(tensor, shared->get_device_name.get(), nullptr));
  const Ref address = Ref::owned(py->PyObject_CallMethodObjArgs(tensor, shared->data_ptr_name.get(), nullptr));
  if (!dtype || !device || !address) {
    py->PyErr_Clear();
    return std::nullopt;
  }
  const int where = int(small_int(device.get()).value_or(-1));
  if (where < 0) return std::nullopt;
  for (const Shared::Dtype& known : shared->dtypes)
    if (known.object == dtype.get())
      return TensorMemory{py->PyLong_AsUnsignedLongLong(address.get()), known.elem, where};
  return std::nullopt;
}

std::optional<TensorDims> dims_of(PyObject* tensor) {
  TensorDims dims{};
  if (shared->torch) {
    const auto facts = shared->torch->dims_of(tensor);
    if (!facts || facts->rank > TensorDims::kMaxRank) return std::nullopt;
    dims.rank = int(facts->rank);
    std::copy_n(facts->extents, dims.rank, dims.extents.begin());
    std::copy_n(facts->strides, dims.rank, dims.strides.begin());
    return dims;
  }
  const Ref shape = Ref::owned(py->PyObject_GetAttr(tensor, shared->shape_name.get()));
  const Ref strides = Ref::owned(py->PyObject_CallMethodObjArgs(tensor, shared->stride_name.get(), nullptr));
  if (!shape || !strides) {
    py->PyErr_Clear();
    return std::nullopt;
  }
  const std::intptr_t rank = py->PyTuple_Size(shape.get());
  if (rank > TensorDims::kMaxRank) return std::nullopt;
  dims.rank = int(rank);
  for (std::intptr_t d = 0; d < rank; ++d) {
    dims.extents[size_t(d)] = small_int(py->PyTuple_GetItem(shape.get(), d)).value_or(-1);
    dims.strides[size_t(d)] = small_int(py->PyTuple_GetItem(strides.get(), d)).value_or(-1);
  }
  return dims;
}

std::optional<int64_t> small_int(PyObject* x) {
  int overflow = 0;
  const int64_t value = py->PyLong_AsLongLongAndOverflow(x, &overflow);
  return overflow ? std::nullopt : std::optional(value);
}

std::vector<int> positions_of(PyObject* tuple) {
  std::vector<int> out;
  for (std::intptr_t i = 0; i < py->PyTuple_Size(tuple); ++i)
    out.push_back(int(small_int(py->PyTuple_GetItem(tuple, i)).value_or(0)));
  return out;
}

std::vector<Ref> items_of(PyObject* tuple) {
  std::vector<Ref> out;
  for (std::intptr_t i = 0; i < py->PyTuple_Size(tuple); ++i)
    out.push_back(Ref::borrowed(py->PyTuple_GetItem(tuple, i)));
  return out;
}

bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a->type != b->type) return false;
  if (a->type == py->float_type)
    return std::bit_cast<uint64_t>(py->PyFloat_AsDouble(a)) == std::bit_cast<uint64_t>(py->PyFloat_AsDouble(b));
  constexpr int kEqual = 2;
  return (a->type == py->int_type || a->type == py->str_type) && py->PyObject_RichCompareBool(a, b, kEqual) == 1;
}

std::optional<StreamHandle> stream_of(PyObject* number, int device) {
  if (!number && shared->torch) return shared->torch->current_stream(device);
  Ref current;
  if (!number) {
    const Ref ordinal = Ref::owned(py->PyLong_FromLongLong(device));
    current = Ref::owned(py->PyObject_CallFunctionObjArgs(shared->current_stream.get(), ordinal.get(), nullptr));
    if (!current) py->PyErr_Clear();
    number = current.get();
  }
  if (!number || number->type != py->int_type) return std::nullopt;
  return reinterpret_cast<StreamHandle>(py->PyLong_AsUnsignedLongLong(number));
}

std::optional<PyObject*> result_of(tegula_status status) {
  if (status == TEGULA_COMPILE_ERROR || status == TEGULA_LAUNCH_ERROR) return std::nullopt;
  if (status || py->PyList_Size(shared->messages.get())) {
    const Ref number = Ref::owned(py->PyLong_FromLongLong(status));
    if (!Ref::owned(py->PyObject_CallFunctionObjArgs(shared->check.get(), number.get(), nullptr))) return nullptr;
  }
  py->Py_IncRef(py->none);
  return py->none;
}

PyObject* call_general(PyObject* function, PyObject* const* given, std::intptr_t count, PyObject* keywords) {
  const Ref args = Ref::owned(py->PyTuple_New(count));
  for (std::intptr_t i = 0; i < count; ++i) {
    py->Py_IncRef(given[i]);
    py->PyTuple_SetItem(args.get(), i, given[i]);
  }
  Ref named;
  if (keywords) {
    named = Ref::owned(py->PyDict_New());
    for (std::intptr_t i = 0; i < py->PyTuple_Size(keywords); ++i)
      py->PyDict_SetItem(named.get(), py->PyTuple_GetItem(keywords, i), given[count + i]);
  }
  return py->PyObject_Call(function, args.get(), named.get());
}

}  // namespace tegula::bindings

using namespace tegula;
using namespace tegula::bindings;

extern "C" {

/// Readies the process for recognised calls; `objects`: general, grid_extents, check, messages, general_entry. 0 where
/// there is no CPython that they can work with.
int32_t tegula_python_start(PyObject* objects) {
  py = Python::in_process();
  if (!py) return 0;
  shared = new bindings::Shared();
  shared->dtype_name = Ref::interned("dtype"), shared->data_ptr_name = Ref::interned("data_ptr");
  shared->get_device_name = Ref::interned("get_device"), shared->config_name = Ref::interned("_config");
  shared->shape_name = Ref::interned("shape"), shared->stride_name = Ref::interned("stride");
  auto item = [&](int i) { return Ref::borrowed(py->PyTuple_GetItem(objects, i)); };
  shared->general = item(0), shared->grid_extents = item(1), shared->check = item(2), shared->messages = item(3);
  shared->general_entry = item(4);
  return 1;
}

/// What is known of torch: classes of tensors, dtypes, their numbers in the C interface, the function that tells the
/// current stream of a GPU, and torch's own C interface: None, or (place, gpu, numbers of the dtypes, functions), as
/// bindings::TorchInterface has them.
void tegula_python_know_torch(PyObject* types, PyObject* dtypes, PyObject* numbers, PyObject* current_stream,
                              PyObject* interface) {
  shared->tensor_types.clear();
  shared->dtypes.clear();
  shared->torch.reset();
  for (Ref& type : items_of(types)) shared->tensor_types.push_back(type.get());
  const std::vector<int> elems = positions_of(numbers);
  const std::vector<Ref> objects = items_of(dtypes);
  for (size_t i = 0; i < objects.size(); ++i) shared->dtypes.push_back({objects[i].get(), elem_of(elems[i]), -1});
  shared->current_stream = Ref::borrowed(current_stream);
  if (interface == py->none) return;
  auto item = [&](int i) { return py->PyTuple_GetItem(interface, i); };
  const std::vector<int> of_torch = positions_of(item(2));
  for (size_t i = 0; i < of_torch.size(); ++i) shared->dtypes[i].number = of_torch[i];
  std::vector<uint64_t> addresses;
  for (const Ref& address : items_of(item(3))) addresses.push_back(py->PyLong_AsUnsignedLongLong(address.get()));
  TorchInterface::Functions functions;
  static_assert(sizeof functions % sizeof(uint64_t) == 0);
  if (addresses.size() * sizeof(uint64_t) != sizeof functions) return;
  std::memcpy(&functions, addresses.data(), sizeof functions);
  shared->torch.emplace(std::ptrdiff_t(*small_int(item(0))), int32_t(*small_int(item(1))), functions);
}

/// The device that tensors on GPU `ordinal` lie on.
void tegula_python_know_device(int32_t ordinal, tegula_device* device) {
  if (shared->devices.size() <= size_t(ordinal)) shared->devices.resize(size_t(ordinal) + 1);
  shared->devices[size_t(ordinal)] = device;
}

}  // extern "C"
