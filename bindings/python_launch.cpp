// Launches from Python without ctypes: a function of CPython's calling convention that recognises calls like earlier
// ones. The Python package launches in its general way what is not recognised, and then describes the call by
// tegula_python_learn(). Everything here but the launch itself runs with the interpreter's lock held.
#include <dlfcn.h>

#include <array>
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/cpython.h"
#include "bindings/handles.h"
#include "dsl/kernel.h"

using namespace tegula;
using namespace tegula::bindings;

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

namespace {

const Python* py = nullptr;  ///< set before the first launcher is made

/// A strong reference.
class Ref {
 public:
  Ref() = default;
  static Ref owned(PyObject* object) { return Ref(object); }
  static Ref borrowed(PyObject* object) {
    if (object) py->Py_IncRef(object);
    return Ref(object);
  }
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

/// A Python exception is set, which the launch ends with.
struct PythonError {};

/// What all launchers of the process share.
struct Shared {
  struct Dtype {
    PyObject* object;  ///< torch's, which lives as long as torch
    Elem elem;
  };
  std::vector<PyObject*> tensor_types;
  std::vector<Dtype> dtypes;
  Ref current_stream;  ///< of torch, for the ordinal of a GPU
  Ref dtype_name, data_ptr_name, get_device_name, config_name;
  Ref general;                          ///< general(kernel, grid, *args, **kwargs): launches what is not recognised
  Ref grid_extents;                     ///< the extents of a grid as a tuple of three, or an exception
  Ref check;                            ///< raises what a status stands for
  Ref messages;                         ///< list of what the library told
  std::vector<tegula_device*> devices;  ///< by ordinal; null: not known
};
Shared* shared = nullptr;  // never freed: the interpreter ends before this library

/// Integers of Python's that fit 64 bits with a sign.
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

/// Constexprs and options of a call, and what the library makes of them.
struct Variant {
  std::vector<Ref> values;
  LaunchOptions options;
};

/// Calls with so many values by position and these names.
struct Form {
  std::intptr_t by_position;
  Ref keywords;                     ///< tuple of names, or null
  std::vector<int> runtime, fixed;  ///< positions among the values: arguments of the launch; constexprs and options
  int stream;                       ///< position, or -1
  bool open;                        ///< constexprs are left to configurations, heuristics and defaults
  std::vector<Ref> names;           ///< of all values
  std::vector<std::unique_ptr<Variant>> variants;
  size_t last = 0;  ///< the variant that was found last
};

struct Launcher {
  const tegula_kernel* kernel;
  std::vector<std::unique_ptr<Form>> forms;
};

constexpr const char* kCapsule = "tegula.launcher";
constexpr size_t kMaxForms = 32, kMaxVariants = 256;  // more of them are launched in the general way

// What decides on the code must be the same: 1, 1.0 and True are equal in Python, as are 0.0 and -0.0.
bool same_value(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (a->type != b->type) return false;
  if (a->type == py->float_type)
    return std::bit_cast<uint64_t>(py->PyFloat_AsDouble(a)) == std::bit_cast<uint64_t>(py->PyFloat_AsDouble(b));
  constexpr int kEqual = 2;
  return (a->type == py->int_type || a->type == py->str_type) && py->PyObject_RichCompareBool(a, b, kEqual) == 1;
}

bool same_names(PyObject* a, PyObject* b) {
  if (a == b) return true;
  if (!a || !b || py->PyTuple_Size(a) != py->PyTuple_Size(b)) return false;
  for (std::intptr_t i = 0; i < py->PyTuple_Size(a); ++i)
    if (!same_value(py->PyTuple_GetItem(a, i), py->PyTuple_GetItem(b, i))) return false;
  return true;
}

Form* form_of(Launcher& launcher, std::intptr_t by_position, PyObject* keywords) {
  for (auto& form : launcher.forms)
    if (form->by_position == by_position && same_names(form->keywords.get(), keywords)) return form.get();
  return nullptr;
}

const Variant* variant_of(Form& form, PyObject* const* values) {
  auto fits = [&](const Variant& variant) {
    for (size_t i = 0; i < form.fixed.size(); ++i)
      if (!same_value(variant.values[i].get(), values[form.fixed[i]])) return false;
    return true;
  };
  if (form.last < form.variants.size() && fits(*form.variants[form.last])) return form.variants[form.last].get();
  for (size_t i = 0; i < form.variants.size(); ++i)
    if (fits(*form.variants[i])) return form.variants[form.last = i].get();
  return nullptr;
}

/// The arguments of a launch; none where a value is of another kind than tensors on one GPU and plain numbers.
class Arguments {
 public:
  bool add(PyObject* x) {
    if (x->type == py->int_type) {
      const auto value = small_int(x);
      return value && put(Arg(*value));
    }
    for (PyObject* type : shared->tensor_types)
      if (x->type == type) return add_tensor(x);
    if (x->type == py->float_type) return put(Arg(py->PyFloat_AsDouble(x)));
    if (x->type == py->bool_type) return put(Arg(x == py->true_object));
    return x == py->none && put(Arg(nullptr));
  }
  explicit Arguments(size_t count) {
    if (count > kInline) more_.reserve(count);
    is_long_ = count > kInline;
  }
  std::span<const Arg> span() const {
    return {is_long_ ? more_.data() : std::launder(reinterpret_cast<const Arg*>(inline_)), count_};
  }
  int device() const { return device_; }

 private:
  bool put(const Arg& arg) {
    if (is_long_)
      more_.push_back(arg);
    else
      new (inline_ + count_ * sizeof(Arg)) Arg(arg);
    ++count_;
    return true;
  }
  bool add_tensor(PyObject* x) {
    const Ref dtype = Ref::owned(py->PyObject_GetAttr(x, shared->dtype_name.get()));
    const Ref device = Ref::owned(py->PyObject_CallMethodObjArgs(x, shared->get_device_name.get(), nullptr));
    const Ref address = Ref::owned(py->PyObject_CallMethodObjArgs(x, shared->data_ptr_name.get(), nullptr));
    if (!dtype || !device || !address) {
      py->PyErr_Clear();  // the general way says what is wrong
      return false;
    }
    const int where = int(small_int(device.get()).value_or(-1));
    if (where < 0 || (device_ >= 0 && where != device_)) return false;
    device_ = where;
    for (const Shared::Dtype& known : shared->dtypes)
      if (known.object == dtype.get())
        return put(Arg::pointer(py->PyLong_AsUnsignedLongLong(address.get()), known.elem));
    return false;
  }

  static constexpr size_t kInline = 24;
  static_assert(std::is_trivially_destructible_v<Arg>);
  alignas(Arg) std::byte inline_[kInline * sizeof(Arg)];
  std::vector<Arg> more_;
  size_t count_ = 0;
  bool is_long_ = false;
  int device_ = -1;
};

/// The extents of a grid of plain integers.
std::optional<Grid> plain_grid(PyObject* grid) {
  uint32_t extents[3] = {1, 1, 1};
  auto extent = [&](int i, PyObject* x) {
    if (x->type != py->int_type) return false;
    const int64_t value = small_int(x).value_or(-1);
    extents[i] = uint32_t(value);
    return value >= 0 && value <= INT32_MAX;
  };
  if (grid->type == py->tuple_type) {
    const std::intptr_t rank = py->PyTuple_Size(grid);
    if (rank < 1 || rank > 3) return std::nullopt;
    for (int i = 0; i < rank; ++i)
      if (!extent(i, py->PyTuple_GetItem(grid, i))) return std::nullopt;
  } else if (!extent(0, grid)) {
    return std::nullopt;
  }
  return Grid{extents[0], extents[1], extents[2]};
}

/// The same of whatever a grid function returns. Throws PythonError.
Grid checked_grid(const Ref& grid) {
  if (!grid) throw PythonError();
  if (auto plain = plain_grid(grid.get())) return *plain;
  const Ref extents = Ref::owned(py->PyObject_CallFunctionObjArgs(shared->grid_extents.get(), grid.get(), nullptr));
  if (!extents) throw PythonError();
  return plain_grid(extents.get()).value();
}

/// The values of a call by name, for grid functions.
Ref meta_of(const Form& form, PyObject* const* values) {
  Ref meta = Ref::owned(py->PyDict_New());
  for (size_t i = 0; i < form.names.size(); ++i)
    if (py->PyDict_SetItem(meta.get(), form.names[i].get(), values[i])) throw PythonError();
  return meta;
}

/// Calls a grid function with the values of a call and those of the configuration. The lock is held.
Grid call_grid(PyObject* function, const Form& form, PyObject* const* values, PyObject* kernel,
               const tegula_config* config) {
  const Ref meta = meta_of(form, values);
  if (config) {
    const Ref handle = Ref::owned(py->PyLong_FromLongLong(reinterpret_cast<long long>(config)));
    const Ref known =
        Ref::owned(py->PyObject_CallMethodObjArgs(kernel, shared->config_name.get(), handle.get(), nullptr));
    if (!known || py->PyDict_Update(meta.get(), known.get())) throw PythonError();
  }
  return checked_grid(Ref::owned(py->PyObject_CallFunctionObjArgs(function, meta.get(), nullptr)));
}

/// The stream of a launch, or none where the general way must find it.
std::optional<StreamHandle> stream_of(const Form& form, PyObject* const* values, int device) {
  Ref current;
  PyObject* number = form.stream >= 0 ? values[form.stream] : nullptr;
  if (!number) {
    const Ref ordinal = Ref::owned(py->PyLong_FromLongLong(device));
    current = Ref::owned(py->PyObject_CallFunctionObjArgs(shared->current_stream.get(), ordinal.get(), nullptr));
    if (!current) py->PyErr_Clear();
    number = current.get();
  }
  if (!number || number->type != py->int_type) return std::nullopt;
  return reinterpret_cast<StreamHandle>(py->PyLong_AsUnsignedLongLong(number));
}

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

/// A recognised call.
struct Call {
  const tegula_kernel* kernel;
  PyObject* kernel_object;
  PyObject* grid;
  const Form& form;
  PyObject* const* values;
  const LaunchOptions& options;
  Device& device;
  std::span<const Arg> args;
};

void launch(const Call& call) {
  if (auto grid = plain_grid(call.grid)) {
    Unlocked unlocked;
    call.kernel->kernel.launch(call.device, *grid, call.options, call.args);
  } else if (!call.form.open) {
    const bool is_function = py->PyCallable_Check(call.grid);
    const Grid found = is_function ? call_grid(call.grid, call.form, call.values, call.kernel_object, nullptr)
                                   : checked_grid(Ref::borrowed(call.grid));
    Unlocked unlocked;
    call.kernel->kernel.launch(call.device, found, call.options, call.args);
  } else {
    Unlocked unlocked;
    auto grid_of = [&](const Config& config) {
      return unlocked.with_lock([&] {
        if (!py->PyCallable_Check(call.grid)) return checked_grid(Ref::borrowed(call.grid));
        return call_grid(call.grid, call.form, call.values, call.kernel_object, call.kernel->handle_of(config));
      });
    };
    call.kernel->kernel.launch(call.device, tegula::detail::GridRef(grid_of), call.options, call.args);
  }
}

/// Launches a call and returns None, or null with an exception set; none where the call is not recognised.
std::optional<PyObject*> try_launch(Launcher& launcher, PyObject* const* given, std::intptr_t count,
                                    PyObject* keywords) {
  PyObject* const* values = given + 2;  // behind the kernel and the grid
  Form* form = form_of(launcher, count - 2, keywords);
  if (!form) return std::nullopt;
  const Variant* variant = variant_of(*form, values);
  if (!variant) return std::nullopt;
  Arguments args(form->runtime.size());
  for (int position : form->runtime)
    if (!args.add(values[position])) return std::nullopt;
  const size_t ordinal = size_t(args.device());
  if (args.device() < 0 || ordinal >= shared->devices.size() || !shared->devices[ordinal]) return std::nullopt;
  const auto stream = stream_of(*form, values, args.device());
  if (!stream) return std::nullopt;
  std::optional<LaunchOptions> on_stream;
  if (variant->options.stream != *stream) {
    on_stream = variant->options;
    on_stream->stream = *stream;
  }
  bool raised = false;
  const tegula_status status = guarded([&] {
    try {
      launch({launcher.kernel, given[0], given[1], *form, values, on_stream ? *on_stream : variant->options,
              *shared->devices[ordinal]->device, args.span()});
    } catch (const PythonError&) {
      raised = true;
    }
  });
  if (raised) return nullptr;
  // What is refused was not started; the general way reports it, or finds another compiler.
  if (status == TEGULA_COMPILE_ERROR || status == TEGULA_LAUNCH_ERROR) return std::nullopt;
  if (status || py->PyList_Size(shared->messages.get())) {
    const Ref number = Ref::owned(py->PyLong_FromLongLong(status));
    if (!Ref::owned(py->PyObject_CallFunctionObjArgs(shared->check.get(), number.get(), nullptr))) return nullptr;
  }
  py->Py_IncRef(py->none);
  return py->none;
}

PyObject* call_general(PyObject* const* given, std::intptr_t count, PyObject* keywords) {
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
  return py->PyObject_Call(shared->general.get(), args.get(), named.get());
}

PyObject* call_launcher(PyObject* capsule, PyObject* const* given, std::intptr_t count, PyObject* keywords) {
  auto* launcher = static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule, kCapsule));
  if (count >= 2)
    if (auto done = try_launch(*launcher, given, count, keywords)) return *done;
  return call_general(given, count, keywords);
}

PyMethodDef launcher_method = {"launch", call_launcher, kFastCallWithKeywords,
                               "launch(kernel, grid, *args, **kwargs): launches the kernel."};

}  // namespace

extern "C" {

/// Readies the process for launchers; `objects`: general, grid_extents, check, messages. 0 where there is no CPython
/// that launchers can work with.
int32_t tegula_python_start(PyObject* objects) {
  py = Python::in_process();
  if (!py) return 0;
  shared = new Shared();
  auto name = [](const char* text) { return Ref::owned(py->PyUnicode_InternFromString(text)); };
  shared->dtype_name = name("dtype"), shared->data_ptr_name = name("data_ptr");
  shared->get_device_name = name("get_device"), shared->config_name = name("_config");
  auto item = [&](int i) { return Ref::borrowed(py->PyTuple_GetItem(objects, i)); };
  shared->general = item(0), shared->grid_extents = item(1), shared->check = item(2), shared->messages = item(3);
  return 1;
}

/// What is known of torch: classes of tensors, dtypes, their numbers in the C interface, and the function that tells
/// the current stream of a GPU.
void tegula_python_know_torch(PyObject* types, PyObject* dtypes, PyObject* numbers, PyObject* current_stream) {
  shared->tensor_types.clear();
  shared->dtypes.clear();
  for (Ref& type : items_of(types)) shared->tensor_types.push_back(type.get());
  const std::vector<int> elems = positions_of(numbers);
  const std::vector<Ref> objects = items_of(dtypes);
  for (size_t i = 0; i < objects.size(); ++i) shared->dtypes.push_back({objects[i].get(), elem_of(elems[i])});
  shared->current_stream = Ref::borrowed(current_stream);
}

/// The device that tensors on GPU `ordinal` lie on.
void tegula_python_know_device(int32_t ordinal, tegula_device* device) {
  if (shared->devices.size() <= size_t(ordinal)) shared->devices.resize(size_t(ordinal) + 1);
  shared->devices[size_t(ordinal)] = device;
}

/// A function launch(kernel, grid, *args, **kwargs) that may be called as long as the handle lives.
PyObject* tegula_python_launcher(const tegula_kernel* kernel) {
  auto destroy = [](PyObject* capsule) { delete static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule, kCapsule)); };
  const Ref capsule = Ref::owned(py->PyCapsule_New(new Launcher{kernel, {}}, kCapsule, destroy));
  return py->PyCFunction_NewEx(&launcher_method, capsule.get(), nullptr);
}

/// Recognises calls like one that has been launched: `by_position` values, then those of the names in `keywords`;
/// positions among them of the launch's arguments, of constexprs and options, and of the stream (-1: none); the values
/// of constexprs and options, and what they mean.
tegula_status tegula_python_learn(PyObject* function, int64_t by_position, PyObject* keywords, PyObject* runtime,
                                  PyObject* fixed, int32_t stream, int32_t open, PyObject* names, PyObject* values,
                                  const tegula_options* options) {
  return guarded([&] {
    static PyObject* const self_name = py->PyUnicode_InternFromString("__self__");
    const Ref capsule = Ref::owned(py->PyObject_GetAttr(function, self_name));
    auto& launcher = *static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule.get(), kCapsule));
    PyObject* keyword_names = py->PyTuple_Size(keywords) ? keywords : nullptr;
    Form* form = form_of(launcher, by_position, keyword_names);
    if (!form) {
      if (launcher.forms.size() == kMaxForms) return;
      form = launcher.forms
                 .emplace_back(std::make_unique<Form>(Form{by_position,
                                                           Ref::borrowed(keyword_names),
                                                           positions_of(runtime),
                                                           positions_of(fixed),
                                                           stream,
                                                           open != 0,
                                                           items_of(names),
                                                           {}}))
                 .get();
    }
    if (form->variants.size() == kMaxVariants) return;
    form->last = form->variants.size();
    form->variants.push_back(std::make_unique<Variant>(Variant{items_of(values), options_of(options, nullptr)}));
  });
}

}  // extern "C"
