// Calls of the kernel library from Python without ctypes: operands that are plain numbers, texts and torch tensors on
// one GPU are read here; what is anything else goes the general way. Runs with the interpreter's lock held, but for the
// call itself.
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/python_objects.h"
#include "bindings/runtime/common.h"
#include "kernels/entry.h"

using namespace tegula;
using namespace tegula::bindings;

namespace {

using kernels::Operand;
using kernels::OperandInfo;

/// An entry with its names as Python's.
struct EntryFunction {
  struct Name {
    Ref name;
    std::vector<Ref> choices;
  };

  explicit EntryFunction(const kernels::Entry& e) : entry(e), stream_name(Ref::interned("stream")) {
    for (const OperandInfo& info : e.operands) {
      Name& made = operands.emplace_back(Name{Ref::interned(info.name.c_str()), {}});
      for (const std::string& choice : info.choices) made.choices.push_back(Ref::interned(choice.c_str()));
    }
  }
  /// Number of the operand, or none.
  std::optional<size_t> find(PyObject* name) const {
    for (size_t i = 0; i < operands.size(); ++i)
      if (same_value(operands[i].name.get(), name)) return i;
    return std::nullopt;
  }

  const kernels::Entry& entry;
  std::vector<Name> operands;
  Ref stream_name;
};

/// Operands of a call as they are found; a function that returns false has met something unusual.
class Operands {
 public:
  explicit Operands(const EntryFunction& function) : function_(function) {}

  bool set(size_t i, PyObject* x) {
    if (values_[i].given()) return false;
    if (shared->is_tensor(x)) return set_tensor(i, x);
    if (x == py->none) return true;
    if (x->type == py->bool_type) return put(i, Operand(x == py->true_object));
    if (x->type == py->float_type) return put(i, Operand(py->PyFloat_AsDouble(x)));
    if (x->type == py->str_type) return set_choice(i, x);
    if (x->type != py->int_type) return false;
    const auto number = small_int(x);
    return number && put(i, Operand(*number));
  }
  std::span<const Operand> span() const { return std::span(values_).first(function_.operands.size()); }
  int device() const { return device_; }

 private:
  bool put(size_t i, Operand value) {
    values_[i] = value;
    return true;
  }
  bool set_choice(size_t i, PyObject* text) {
    const std::vector<Ref>& choices = function_.operands[i].choices;
    for (size_t c = 0; c < choices.size(); ++c)
      if (same_value(choices[c].get(), text)) {
        values_[i].value = Operand::Choice{int64_t(c)};
        return true;
      }
    return false;
  }
  bool set_tensor(size_t i, PyObject* x) {
    const auto memory = memory_of(x);
    if (!memory || (device_ >= 0 && memory->device != device_)) return false;
    device_ = memory->device;
    const auto dims = dims_of(x);
    if (!dims || dims->rank > kernels::Tensor::kMaxRank) return false;
    kernels::Tensor t;
    t.address = memory->address, t.elem = memory->elem, t.rank = std::max(1, dims->rank);
    t.shape[0] = t.strides[0] = 1;  // a number in memory
    std::copy_n(dims->extents.begin(), dims->rank, t.shape.begin());
    std::copy_n(dims->strides.begin(), dims->rank, t.strides.begin());
    values_[i].value = t;
    return true;
  }

  const EntryFunction& function_;
  std::array<Operand, kernels::BoundCall::kMaxOperands> values_;
  int device_ = -1;
};

constexpr const char* kCapsule = "tegula.entry";

/// Calls the entry and returns None, or null with an exception set; none where the call is not recognised.
std::optional<PyObject*> try_call(const EntryFunction& function, PyObject* const* given, std::intptr_t count,
                                  PyObject* keywords) {
  PyObject* const* values = given + 1;  // after the entry
  const size_t by_position = size_t(count - 1);
  if (by_position > function.operands.size()) return std::nullopt;
  Operands operands(function);
  for (size_t i = 0; i < by_position; ++i)
    if (!operands.set(i, values[i])) return std::nullopt;
  PyObject* number = nullptr;
  const size_t named = keywords ? size_t(py->PyTuple_Size(keywords)) : 0;
  for (size_t k = 0; k < named; ++k) {
    PyObject* name = py->PyTuple_GetItem(keywords, std::intptr_t(k));
    PyObject* value = values[by_position + k];
    if (same_value(name, function.stream_name.get())) {
      number = value == py->none ? nullptr : value;
      continue;
    }
    const auto i = function.find(name);
    if (!i || *i < by_position || !operands.set(*i, value)) return std::nullopt;
  }
  Device* device = shared->device(operands.device());
  if (!device) return std::nullopt;
  const auto stream = stream_of(number, operands.device());
  if (!stream) return std::nullopt;
  return result_of(guarded([&] {
    Unlocked unlocked;
    kernels::run(*device, function.entry, operands.span(), *stream);
  }));
}

PyObject* call_entry(PyObject* capsule, PyObject* const* given, std::intptr_t count, PyObject* keywords) {
  const auto& function = *static_cast<EntryFunction*>(py->PyCapsule_GetPointer(capsule, kCapsule));
  if (count >= 1)
    if (auto done = try_call(function, given, count, keywords)) return *done;
  return call_general(shared->general_entry.get(), given, count, keywords);
}

PyMethodDef entry_method = {"call", call_entry, kFastCallWithKeywords,
                            "call(entry, *args, **kwargs): calls an entry of the kernel library."};

}  // namespace

extern "C" {

/// A function call(entry, *args, **kwargs) for entry number `index`.
PyObject* tegula_python_entry(size_t index) {
  auto destroy = [](PyObject* capsule) {
    delete static_cast<EntryFunction*>(py->PyCapsule_GetPointer(capsule, kCapsule));
  };
  const Ref capsule = Ref::owned(py->PyCapsule_New(new EntryFunction(kernels::entries()[index]), kCapsule, destroy));
  return py->PyCFunction_NewEx(&entry_method, capsule.get(), nullptr);
}

}  // extern "C"
