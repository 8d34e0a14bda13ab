// Launches from Python without ctypes: a function of CPython's calling convention that recognises calls like earlier
// ones. The Python package launches in its general way what is not recognised, and then describes the call by
// tegula_python_learn(). Everything here but the launch itself runs with the interpreter's lock held.
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "bindings/handles.h"
#include "bindings/python_objects.h"
#include "dsl/kernel.h"

using namespace tegula;
using namespace tegula::bindings;

namespace {

/// A Python exception is set, which the launch ends with.
struct PythonError {};

/// Constexprs and options of a call, and what the library makes of them.
struct Variant {
  std::vector<Ref> values;
  LaunchOptions options;
  struct Result {
    const Config* ran;  ///< what Kernel::launch() gave
    PyObject* object;   ///< which the kernel's object keeps
  };
  std::vector<Result> results = {};  ///< of launches, where there is somebody to make them
  size_t last = 0;                   ///< the result that was found last
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
  PyObject* describe = nullptr;  ///< makes the results of launches; the kernel's object keeps it and what it makes
};

constexpr const char* kCapsule = "tegula.launcher";
constexpr size_t kMaxForms = 32, kMaxVariants = 256;  // more of them are launched in the general way

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

Variant* variant_of(Form& form, PyObject* const* values) {
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
    if (shared->is_tensor(x)) return add_tensor(x);
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
    const auto memory = memory_of(x);
    if (!memory || (device_ >= 0 && memory->device != device_)) return false;
    device_ = memory->device;
    return put(Arg::pointer(memory->address, memory->elem));
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

const Config& launch(const Call& call) {
  const Kernel& kernel = call.kernel->kernel;
  if (auto grid = plain_grid(call.grid)) {
    Unlocked unlocked;
    return kernel.launch(call.device, tegula::detail::GridRef(*grid), call.options, call.args);
  }
  if (!call.form.open) {
    const bool is_function = py->PyCallable_Check(call.grid);
    const Grid found = is_function ? call_grid(call.grid, call.form, call.values, call.kernel_object, nullptr)
                                   : checked_grid(Ref::borrowed(call.grid));
    Unlocked unlocked;
    return kernel.launch(call.device, tegula::detail::GridRef(found), call.options, call.args);
  }
  Unlocked unlocked;
  auto grid_of = [&](const Config& config) {
    return unlocked.with_lock([&] {
      if (!py->PyCallable_Check(call.grid)) return checked_grid(Ref::borrowed(call.grid));
      return call_grid(call.grid, call.form, call.values, call.kernel_object, call.kernel->handle_of(config));
    });
  };
  return kernel.launch(call.device, tegula::detail::GridRef(grid_of), call.options, call.args);
}

/// The object that stands for what was launched, or null with an exception set. One is made for each specialisation.
PyObject* described(Launcher& launcher, Variant& variant, const Config* ran, PyObject* const* given,
                    std::intptr_t count, PyObject* keywords) {
  auto give = [&](const Variant::Result& result) {
    py->Py_IncRef(result.object);
    return result.object;
  };
  std::vector<Variant::Result>& results = variant.results;
  if (variant.last < results.size() && results[variant.last].ran == ran) return give(results[variant.last]);
  for (size_t i = 0; i < results.size(); ++i)
    if (results[i].ran == ran) return give(results[variant.last = i]);
  PyObject* made = call_general(launcher.describe, given, count, keywords);
  if (made) results.push_back({ran, made});
  return made;
}

/// Launches a call and returns None or what stands for it, or null with an exception set; none where the call is not
/// recognised.
std::optional<PyObject*> try_launch(Launcher& launcher, PyObject* const* given, std::intptr_t count,
                                    PyObject* keywords) {
  PyObject* const* values = given + 2;  // after the kernel and the grid
  Form* form = form_of(launcher, count - 2, keywords);
  if (!form) return std::nullopt;
  Variant* variant = variant_of(*form, values);
  if (!variant) return std::nullopt;
  Arguments args(form->runtime.size());
  for (int position : form->runtime)
    if (!args.add(values[position])) return std::nullopt;
  Device* device = shared->device(args.device());
  if (!device) return std::nullopt;
  const auto stream = stream_of(form->stream >= 0 ? values[form->stream] : nullptr, args.device());
  if (!stream) return std::nullopt;
  std::optional<LaunchOptions> on_stream;
  if (variant->options.stream != *stream) {
    on_stream = variant->options;
    on_stream->stream = *stream;
  }
  bool raised = false;
  const Config* ran = nullptr;
  const tegula_status status = guarded([&] {
    try {
      ran = &launch({launcher.kernel, given[0], given[1], *form, values, on_stream ? *on_stream : variant->options,
                     *device, args.span()});
    } catch (const PythonError&) {
      raised = true;
    }
  });
  if (raised) return nullptr;
  auto result = result_of(status);
  if (!launcher.describe || !ran || !result || !*result) return result;
  py->Py_DecRef(*result);
  return described(launcher, *variant, ran, given, count, keywords);
}

PyObject* call_launcher(PyObject* capsule, PyObject* const* given, std::intptr_t count, PyObject* keywords) {
  auto* launcher = static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule, kCapsule));
  if (count >= 2)
    if (auto done = try_launch(*launcher, given, count, keywords)) return *done;
  return call_general(shared->general.get(), given, count, keywords);
}

/// What stands after a function of tegula_python_launcher().
Launcher& launcher_at(PyObject* function) {
  static PyObject* const self_name = py->PyUnicode_InternFromString("__self__");
  const Ref capsule = Ref::owned(py->PyObject_GetAttr(function, self_name));
  return *static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule.get(), kCapsule));
}

PyMethodDef launcher_method = {"launch", call_launcher, kFastCallWithKeywords,
                               "launch(kernel, grid, *args, **kwargs): launches the kernel."};

}  // namespace

extern "C" {

/// A function launch(kernel, grid, *args, **kwargs) that may be called as long as the handle lives.
PyObject* tegula_python_launcher(const tegula_kernel* kernel) {
  auto destroy = [](PyObject* capsule) { delete static_cast<Launcher*>(py->PyCapsule_GetPointer(capsule, kCapsule)); };
  const Ref capsule = Ref::owned(py->PyCapsule_New(new Launcher{kernel, {}}, kCapsule, destroy));
  return py->PyCFunction_NewEx(&launcher_method, capsule.get(), nullptr);
}

/// From now on recognised calls return describe(kernel, grid, *args, **kwargs) of the first one of a specialisation.
/// The kernel's object keeps `describe` and what it returns.
void tegula_python_describe(PyObject* function, PyObject* describe) { launcher_at(function).describe = describe; }

/// Recognises calls like one that has been launched: `by_position` values, then those of the names in `keywords`;
/// positions among them of the launch's arguments, of constexprs and options, and of the stream (-1: none); the values
/// of constexprs and options, and what they mean.
tegula_status tegula_python_learn(PyObject* function, int64_t by_position, PyObject* keywords, PyObject* runtime,
                                  PyObject* fixed, int32_t stream, int32_t open, PyObject* names, PyObject* values,
                                  const tegula_options* options) {
  return guarded([&] {
    Launcher& launcher = launcher_at(function);
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
