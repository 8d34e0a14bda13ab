// What of CPython's stable interface the binding calls, without its headers: libtegula is no extension module, needs no
// Python to be built or loaded, and finds these functions in the process that calls it from Python.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tegula::bindings {

/// The head of every object in builds of CPython with a global interpreter lock. Others are refused by the package.
struct PyObject {
  std::intptr_t reference_count;
  PyObject* type;
};

struct PyMethodDef {
  const char* name;
  PyObject* (*function)(PyObject* self, PyObject* const* args, std::intptr_t count, PyObject* keywords);
  int flags;
  const char* doc;
};
constexpr int kFastCallWithKeywords = 0x0080 | 0x0002;  // METH_FASTCALL | METH_KEYWORDS

// TEGULA_PYTHON(result, name, parameters...)
#define TEGULA_PYTHON_FUNCTIONS                                                    \
  TEGULA_PYTHON(void, Py_IncRef, PyObject*)                                        \
  TEGULA_PYTHON(void, Py_DecRef, PyObject*)                                        \
  TEGULA_PYTHON(void*, PyEval_SaveThread, void)                                    \
  TEGULA_PYTHON(void, PyEval_RestoreThread, void*)                                 \
  TEGULA_PYTHON(PyObject*, PyErr_Occurred, void)                                   \
  TEGULA_PYTHON(void, PyErr_Clear, void)                                           \
  TEGULA_PYTHON(PyObject*, PyObject_GetAttr, PyObject*, PyObject*)                 \
  TEGULA_PYTHON(PyObject*, PyObject_CallMethodObjArgs, PyObject*, PyObject*, ...)  \
  TEGULA_PYTHON(PyObject*, PyObject_CallFunctionObjArgs, PyObject*, ...)           \
  TEGULA_PYTHON(PyObject*, PyObject_Call, PyObject*, PyObject*, PyObject*)         \
  TEGULA_PYTHON(int, PyObject_RichCompareBool, PyObject*, PyObject*, int)          \
  TEGULA_PYTHON(int, PyCallable_Check, PyObject*)                                  \
  TEGULA_PYTHON(PyObject*, PyLong_FromLongLong, long long)                         \
  TEGULA_PYTHON(long long, PyLong_AsLongLongAndOverflow, PyObject*, int*)          \
  TEGULA_PYTHON(unsigned long long, PyLong_AsUnsignedLongLong, PyObject*)          \
  TEGULA_PYTHON(double, PyFloat_AsDouble, PyObject*)                               \
  TEGULA_PYTHON(PyObject*, PyUnicode_InternFromString, const char*)                \
  TEGULA_PYTHON(PyObject*, PyTuple_New, std::intptr_t)                             \
  TEGULA_PYTHON(std::intptr_t, PyTuple_Size, PyObject*)                            \
  TEGULA_PYTHON(PyObject*, PyTuple_GetItem, PyObject*, std::intptr_t)              \
  TEGULA_PYTHON(int, PyTuple_SetItem, PyObject*, std::intptr_t, PyObject*)         \
  TEGULA_PYTHON(std::intptr_t, PyList_Size, PyObject*)                             \
  TEGULA_PYTHON(PyObject*, PyDict_New, void)                                       \
  TEGULA_PYTHON(int, PyDict_SetItem, PyObject*, PyObject*, PyObject*)              \
  TEGULA_PYTHON(int, PyDict_Update, PyObject*, PyObject*)                          \
  TEGULA_PYTHON(PyObject*, PyCapsule_New, void*, const char*, void (*)(PyObject*)) \
  TEGULA_PYTHON(void*, PyCapsule_GetPointer, PyObject*, const char*)               \
  TEGULA_PYTHON(PyObject*, PyCFunction_NewEx, PyMethodDef*, PyObject*, PyObject*)

/// Functions and objects of the interpreter in this process.
struct Python {
#define TEGULA_PYTHON(result, name, ...) result (*name)(__VA_ARGS__);
  TEGULA_PYTHON_FUNCTIONS
#undef TEGULA_PYTHON
  PyObject *int_type, *float_type, *bool_type, *str_type, *tuple_type, *true_object, *none;

  /// Null where the process runs no CPython, or one that lacks something.
  static const Python* in_process();
};

}  // namespace tegula::bindings
