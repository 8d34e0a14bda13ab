#include "bindings/torch_interface.h"

namespace tegula::bindings {

std::optional<TensorFacts> TorchInterface::facts_of(PyObject* tensor) const {
  void* const t = tensor_of(tensor);
  int32_t type = 0;
  void* address = nullptr;
  TensorFacts facts{};
  if (functions_.device_type(t, &type) || type != gpu_) return std::nullopt;
  if (functions_.device_index(t, &facts.device) || facts.device < 0) return std::nullopt;
  if (functions_.dtype(t, &facts.dtype) || functions_.data_ptr(t, &address)) return std::nullopt;
  facts.address = reinterpret_cast<uint64_t>(address);
  return facts;
}

std::optional<TorchInterface::Dims> TorchInterface::dims_of(PyObject* tensor) const {
  void* const t = tensor_of(tensor);
  Dims dims{};
  int64_t *extents = nullptr, *strides = nullptr;
  if (functions_.dim(t, &dims.rank) || functions_.sizes(t, &extents) || functions_.strides(t, &strides))
    return std::nullopt;
  dims.extents = extents, dims.strides = strides;
  return dims;
}

std::optional<StreamHandle> TorchInterface::current_stream(int device) const {
  void* stream = nullptr;
  if (functions_.current_stream(device, &stream)) return std::nullopt;
  return static_cast<StreamHandle>(stream);
}

}  // namespace tegula::bindings
