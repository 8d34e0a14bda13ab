"""The fast way to launch: functions of the library's that recognise calls like those that were launched before."""

import ctypes
import sys
import sysconfig

from . import torch_interface, torch_support
from .devices import Device
from .grids import grid_extents
from .library import check, lib, messages
from .torch_support import torch_tags, torch_types
from .values import kind_of

NUMBERS = (int, float, bool, type(None))


def general(kernel, grid, *args, **kwargs):
    """Launches in the general way, and describes the call to the kernel's launcher, which recognises the next one."""
    result = kernel._launch(grid, args, kwargs)
    if kernel._launcher is not general and kernel._learns:
        learn(kernel, args, kwargs)
    return result


def general_entry(entry, *args, **kwargs):
    """Calls an entry of the kernel library in the general way, and tells what is needed to recognise the next call."""
    entry._call(*args, **kwargs)
    for x in (*args, *kwargs.values()):
        if type(x) in torch_types and x.is_cuda:
            return know(x.get_device())


def declare():
    """The library's functions that take Python's objects; None where the interpreter is none that they work with."""
    if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
        return None
    functions = ctypes.PyDLL(lib._name, handle=lib._handle)
    p, i32, i64, obj = ctypes.c_void_p, ctypes.c_int32, ctypes.c_int64, ctypes.py_object
    for name, result, args in [("start", i32, (obj, )), ("know_torch", None, (obj, obj, obj, obj, obj)),
                               ("know_device", None, (i32, p)), ("launcher", obj, (p, )), ("describe", None, (obj, obj)),
                               ("learn", i32, (obj, i64, obj, obj, obj, i32, i32, obj, obj, p)),
                               ("entry", obj, (ctypes.c_size_t, ))]:
        function = getattr(functions, "tegula_python_" + name)
        function.restype, function.argtypes = result, args
    started = functions.tegula_python_start((general, grid_extents, check, messages, general_entry))
    return functions if started else None


functions = declare()
_told = [0]  # how many classes of tensors the library knows


def launcher_of(kernel):
    """A function launch(kernel, grid, *args, **kwargs) for this kernel alone."""
    if functions is None or kernel._is_hooked or kernel._sized:  # these need the sizes of buffers
        return general
    return functions.tegula_python_launcher(kernel._handle)


def describe(kernel, function):
    """From now on launches that the library recognises return function(kernel, grid, *args, **kwargs) of the first one of
    a specialisation, which the kernel has to keep."""
    if kernel._launcher is not general:
        kernel._describe = function  # kept
        functions.tegula_python_describe(kernel._launcher, function)


def learn(kernel, args, kwargs):
    """Describes a call that was launched, if all of its data is in torch tensors on a GPU."""
    plan = kernel._plans.get((len(args), *kwargs))
    if plan is None:
        return
    values = (*args, *kwargs.values())
    runtime = range(len(args)) if plan.runtime is None else plan.runtime
    tensor = None
    for i in runtime:
        kind = type(values[i])
        if kind in torch_types:
            tensor = values[i]
        elif kind not in NUMBERS:
            return
    if tensor is None or not tensor.is_cuda:
        return
    fixed = tuple(values[i] for i in plan.fixed)
    try:
        options, _ = plan.options[(*fixed, *map(kind_of, fixed))]
    except (KeyError, TypeError):  # tuples among the arguments; what cannot be hashed
        return
    know(tensor.get_device())
    check(
        functions.tegula_python_learn(kernel._launcher, len(args), tuple(kwargs), tuple(runtime), tuple(plan.fixed),
                                      -1 if plan.stream is None else plan.stream, plan.open, tuple(plan.names), fixed,
                                      options))


def entry_function(index):
    """A function call(entry, *args, **kwargs) for entry number `index` of the kernel library."""
    return functions.tegula_python_entry(index) if functions else general_entry


def know(place):
    """Tells the library of torch and of the device of GPU `place`, so that it recognises calls with tensors there."""
    if functions is None:
        return
    if _told[0] != len(torch_types):
        tell_torch()
    functions.tegula_python_know_device(place, Device.cuda(place)._handle)


def tell_torch():
    stream = getattr(torch_support.torch._C, "_cuda_getCurrentRawStream", torch_support.current_stream)
    numbers = tuple(tag >> 32 for tag in torch_tags.values())
    interface = torch_interface.find(torch_support.torch, torch_tags)
    functions.tegula_python_know_torch(tuple(torch_types), tuple(torch_tags), numbers, stream, interface)
    _told[0] = len(torch_types)
