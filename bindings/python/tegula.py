"""Tegula from Python: kernels in the Triton language, launched as Triton launches them.

    import tegula
    softmax = tegula.load("softmax.py").softmax_kernel
    softmax[(rows,)](out, x, x.stride(0), cols, BLOCK_SIZE=1024, num_warps=4)

Arguments are torch tensors, numpy arrays, anything with __cuda_array_interface__ or __array_interface__, numbers, bools,
None and tensor descriptors (TensorDescriptor, or Triton's own), by position or by name. Data in a GPU's memory is worked on there, on torch's current stream; data in host
memory is worked on where it is, by the emulator. Tuples and named tuples of these are arguments too. The grid is a tuple, or a function of a dictionary of all arguments.

This file needs the library libtegula.so and the standard library alone. It looks for the former in TEGULA_LIBRARY,
beside itself, in the installation or build that it belongs to, and where the system looks.
"""

import atexit
import ctypes
import difflib
import functools
import glob
import itertools
import math
import operator
import os
import pathlib
import struct
import sys
import threading
import warnings

__all__ = [
    "load", "parse", "kernels", "Program", "Kernel", "Image", "Device", "DeviceArray", "TensorDescriptor", "reinterpret", "cdiv",
    "next_power_of_2", "Error", "CompileError", "LaunchError", "DeviceError", "DeviceLostError", "FileError",
    "InternalError", "Diagnostic", "KernelWarning", "version", "dtype"
]

_ABI = 1

# ---- Errors


class Error(Exception):
    """Base of what the library reports; the text is its full diagnostic."""


class Diagnostic:
    """A mistake in a kernel's text: file (None if it has no place), line and column (0: not known), message, hint."""

    def __init__(self, file, line, column, message, hint):
        self.file, self.line, self.column, self.message, self.hint = file, line, column, message, hint

    def __repr__(self):
        return f"<tegula.Diagnostic {self.file}:{self.line}:{self.column}: {self.message}>"


class CompileError(Error):
    """The kernel's text, or what it is compiled for, is wrong. `diagnostics` has the mistakes one by one; file, line,
    column, message and hint are those of the first."""

    def __init__(self, text, diagnostics=()):
        super().__init__(text)
        self.diagnostics = list(diagnostics)
        first = self.diagnostics[0] if self.diagnostics else Diagnostic(None, 0, 0, text, "")
        self.file, self.line, self.column = first.file, first.line, first.column
        self.message, self.hint = first.message, first.hint

    def __reduce__(self):
        return type(self), (self.args[0], self.diagnostics)


class KernelWarning(UserWarning):
    """What the library warns of: something in a kernel that compiles, configurations that do not."""


class LaunchError(Error):
    """The arguments or options of a launch do not fit the kernel."""


class DeviceError(Error):
    """A device or its driver refused."""


class DeviceLostError(DeviceError):
    """A kernel that ran earlier faulted: the GPU cannot be used by this process any more."""


class FileError(Error, OSError):
    """A file could not be read or written."""


class InternalError(Error):
    """A mistake of Tegula itself: its text says what a report should hold. The module works on."""


_ERRORS = {1: CompileError, 2: LaunchError, 3: DeviceError, 4: DeviceLostError, 5: FileError, 8: InternalError}
_USAGE_ERROR = 6


def _check(status):
    if _messages:
        _tell()
    if status:
        raise _last_error(status)


def _last_error(status):
    text = _lib.tegula_last_error().decode(errors="replace")
    if status != 1:
        return _ERRORS.get(status, Error)(text)
    found, d = [], _DiagnosticStruct(ctypes.sizeof(_DiagnosticStruct))
    for i in range(_lib.tegula_num_diagnostics()):
        if _lib.tegula_get_diagnostic(i, ctypes.byref(d)) == 0:
            file = d.file and d.file.decode(errors="replace")
            found.append(
                Diagnostic(file, d.line, d.column, d.message.decode(errors="replace"), d.hint.decode(errors="replace")))
    return CompileError(text, found)


_messages = []  # (kind, text): what the library told while it worked


def _tell():
    """Hands on what the library told: prints, and warnings at the line that called this module."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_code.co_filename == __file__:
        frame, level = frame.f_back, level + 1
    while _messages:
        kind, text = _messages.pop(0)
        if kind == 1:
            print(text)
        else:
            warnings.warn(text, KernelWarning, level)


# ---- The library


def _candidates():
    """(path, why) of each place to look in, in order."""
    if named := os.environ.get("TEGULA_LIBRARY"):
        yield named, "TEGULA_LIBRARY"
        return
    here = pathlib.Path(__file__).resolve().parent
    yield here / "libtegula.so", "beside tegula.py"
    if (here.parent.parent / "CMakeLists.txt").exists():  # a source tree: the build that was made last
        builds = glob.glob(str(here.parent.parent / "build*" / "libtegula.so"))
        builds += glob.glob(str(here.parent.parent / "build*" / "*" / "libtegula.so"))
        yield from ((path, "a build folder") for path in sorted(builds, key=os.path.getmtime, reverse=True))
        if not builds:
            yield here.parent.parent / "build" / "release" / "libtegula.so", "the build folder"
    prefix = here.parent.parent.parent  # of share/tegula/python
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        yield prefix / folder / "libtegula.so.0", "the installation"
    yield "libtegula.so.0", "the system's search path"


def _open_library():
    looked = []
    for path, why in _candidates():
        if os.sep in str(path) and not os.path.exists(path):
            looked.append(f"{path} ({why}): not there")
            continue
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            looked.append(f"{path} ({why}): {error}")
    raise ImportError("libtegula.so was not found; set TEGULA_LIBRARY to its path. Looked for\n  " +
                      "\n  ".join(looked))


class _ConstexprStruct(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("tag", ctypes.c_int64), ("bits", ctypes.c_int64),
                ("bytes", ctypes.c_uint64)]


class _OptionsStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("constexprs", ctypes.POINTER(_ConstexprStruct)),
                ("num_constexprs", ctypes.c_size_t), ("num_warps", ctypes.c_int32), ("num_stages", ctypes.c_int32),
                ("maxnreg", ctypes.c_int32), ("no_dependent_launch", ctypes.c_int32), ("num_ctas", ctypes.c_int32),
                ("cooperative_grid", ctypes.c_int32), ("no_fp_fusion", ctypes.c_int32),
                ("warp_specialize", ctypes.c_int32), ("bulk_copies", ctypes.c_int32), ("debug", ctypes.c_int32)]


class _TupleStruct(ctypes.Structure):
    _fields_ = [("items", ctypes.c_void_p), ("count", ctypes.c_size_t), ("type", ctypes.c_char_p),
                ("names", ctypes.c_char_p)]


class _DeviceStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("target", ctypes.c_char_p),
                ("emulator", ctypes.c_int32), ("sm", ctypes.c_int32), ("num_sms", ctypes.c_int32),
                ("driver_version", ctypes.c_int32), ("memory_bytes", ctypes.c_int64), ("l2_bytes", ctypes.c_int64),
                ("shared_per_program", ctypes.c_int64)]


class _ImageStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("target", ctypes.c_char_p), ("num_warps", ctypes.c_int32),
                ("registers", ctypes.c_int32), ("spill_bytes", ctypes.c_int32), ("shared_bytes", ctypes.c_int64)]


class _DescriptorStruct(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("pad_nan", ctypes.c_int32),
                ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
                ("block_shape", ctypes.POINTER(ctypes.c_int64))]


class _TensorStruct(ctypes.Structure):
    _fields_ = [("address", ctypes.c_uint64), ("rank", ctypes.c_int32), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64))]


class _EntryStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("formula", ctypes.c_char_p),
                ("signature", ctypes.c_char_p), ("num_operands", ctypes.c_size_t)]


class _OperandStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("name", ctypes.c_char_p), ("kind", ctypes.c_int32),
                ("is_written", ctypes.c_int32), ("is_optional", ctypes.c_int32)]


class _ParamStruct(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("is_constexpr", ctypes.c_int32), ("has_default", ctypes.c_int32),
                ("is_zeroed", ctypes.c_int32), ("is_restored", ctypes.c_int32)]


class _DiagnosticStruct(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("file", ctypes.c_char_p), ("line", ctypes.c_int32),
                ("column", ctypes.c_int32), ("message", ctypes.c_char_p), ("hint", ctypes.c_char_p)]


_MessageFunction = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
_Hook = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p)
_GridFunction = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_uint32))


def _declare(lib):
    p, size, u32, i32, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int32, ctypes.c_char_p

    def function(name, result, *args):
        try:
            f = getattr(lib, "tegula_" + name)
        except AttributeError:
            raise ImportError(f"{lib._name} has no function tegula_{name}: it is not of the version that tegula.py is "
                              "of") from None
        f.restype, f.argtypes = result, args

    function("version", text)
    function("abi", i32)
    if lib.tegula_abi() != _ABI:
        raise ImportError(
            f"{lib._name} has ABI {lib.tegula_abi()}, tegula.py expects {_ABI}: they are of different versions")
    function("last_error", text)
    function("set_error", None, text)
    function("num_diagnostics", size)
    function("get_diagnostic", i32, size, p)
    function("set_message_handler", None, _MessageFunction, p)
    function("device_default", i32, p)
    function("device_cuda", i32, i32, p)
    function("device_emulator", i32, text, p)
    function("device_describe", i32, p, p)
    function("device_synchronize", i32, p, p)
    function("device_register_host", i32, p, p, size)
    function("device_unregister_host", i32, p, p)
    function("device_release", None, p)
    function("buffer_create", i32, p, size, p)
    function("buffer_address", ctypes.c_uint64, p)
    function("buffer_upload", i32, p, size, p, size, p)
    function("buffer_download", i32, p, size, p, size, p)
    function("buffer_release", None, p)
    function("program_load", i32, text, p)
    function("program_parse", i32, text, text, p)
    function("program_load_with", i32, text, p, size, p, size, p)
    function("program_parse_with", i32, text, text, p, size, p, size, p)
    function("program_num_kernels", size, p)
    function("program_kernel_name", text, p, size)
    function("program_kernel", i32, p, text, p)
    function("program_release", None, p)
    function("kernel_num_params", size, p)
    function("kernel_param", i32, p, size, p)
    function("kernel_is_tuned", i32, p, p)
    function("kernel_with_hooks", i32, p, _Hook, _Hook, _Hook, p, p)
    function("kernel_is_hooked", i32, p, p)
    function("kernel_release", None, p)
    function("config_num_constexprs", size, p)
    function("config_constexpr", i32, p, size, p)
    function("config_int", i32, p, text, p)
    function("kernel_launch", i32, p, p, u32, u32, u32, p, p, p, size)
    function("kernel_launch_with", i32, p, p, _GridFunction, p, p, p, p, size)
    function("kernel_compile", i32, p, text, p, p, size, p)
    function("kernel_written_args", i32, p, p, p, size, p)
    function("kernel_prepare", i32, p, p, _GridFunction, p, p, p, p, size, p, p)
    function("num_entries", size)
    function("entry", i32, size, p)
    function("entry_operand", i32, size, size, p)
    function("call", i32, p, text, p, p, size)
    function("image_describe", i32, p, p)
    function("image_ptx", text, p)
    function("image_transfers", text, p)
    function("image_release", None, p)
    return lib


_lib = _declare(_open_library())
_kernel_launch = _lib.tegula_kernel_launch


@_MessageFunction
def _message_handler(user, kind, text):
    _messages.append((kind, text.decode(errors="replace")))


_lib.tegula_set_message_handler(_message_handler, None)
atexit.register(lambda: _lib.tegula_set_message_handler(_MessageFunction(), None))


def version():
    """The library's version, such as "0.1.0"."""
    return _lib.tegula_version().decode()


def _make(function, *args):
    """The handle that a function of the library makes."""
    handle = ctypes.c_void_p()
    _check(function(*args, ctypes.byref(handle)))
    return handle.value


def cdiv(a, b):
    """a / b, rounded up: the number of blocks of b that a elements need."""
    return -(-a // b)


def next_power_of_2(n):
    """The power of two at or above n."""
    return 1 << max(0, int(n) - 1).bit_length()


# ---- Element types and values. A value travels as three words: tag (kind, and dtype above it), bits, bytes.

_NONE, _POINTER, _INT, _UINT, _DOUBLE, _BOOL, _STRING, _DTYPE, _DESCRIPTOR, _TUPLE, _NEXT, _TENSOR = range(12)


class dtype:
    """An element type: tegula.float32 and so on. A constexpr, and what reinterpret() takes."""

    def __init__(self, name, number, itemsize, typestr):
        self.name, self.itemsize, self.typestr = name, itemsize, typestr
        self._pointer, self._tag = _POINTER | number << 32, _DTYPE | number << 32
        self._descriptor = _DESCRIPTOR | number << 32

    def __repr__(self):
        return f"tegula.{self.name}"


_DTYPES = {}
for _number, (_name, _typestr) in enumerate([("int1", "|b1"), ("int8", "|i1"), ("int16", "<i2"), ("int32", "<i4"),
                                             ("int64", "<i8"), ("uint8", "|u1"), ("uint16", "<u2"), ("uint32", "<u4"),
                                             ("uint64", "<u8"), ("float16", "<f2"), ("bfloat16", None),
                                             ("float32", "<f4"), ("float64", "<f8"), ("float8e4nv", None),
                                             ("float8e5", None), ("float8e4b15", None), ("float8e4b8", None),
                                             ("float8e5b16", None)], 1):
    _itemsize = int(_typestr[2:]) if _typestr else 1 if "8" in _name else 2
    _DTYPES[_name] = globals()[_name] = dtype(_name, _number, _itemsize, _typestr)
    __all__.append(_name)
_BY_TYPESTR = {d.typestr: d for d in _DTYPES.values() if d.typestr}
# As Triton, torch and PTX say it besides.
_OTHER_NAMES = {
    "bool": "int1", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "i1": "int1",
    "half": "float16", "float": "float32", "double": "float64", "f16": "float16", "f32": "float32", "f64": "float64",
    "float8_e4m3fn": "float8e4nv", "float8_e5m2": "float8e5", "float8_e4m3fnuz": "float8e4b8",
    "float8_e5m2fnuz": "float8e5b16", "f8e4m3": "float8e4nv", "f8e5m2": "float8e5",
    **{f"fp8{k}": f"float8{k}"
       for k in ("e4nv", "e5", "e4b15", "e4b8", "e5b16")},
    **{f"f8{k}": f"float8{k}"
       for k in ("e4b15", "e4b8", "e5b16")},
    **{f"{k[0]}{b}": f"{k}{b}"
       for k in ("int", "uint")
       for b in (8, 16, 32, 64)}
}
_SUPPORTED = "bool, " + ", ".join(list(_DTYPES)[1:])


def _dtype_named(name):
    return _DTYPES.get(_OTHER_NAMES.get(name, name))


def _dtype_of(x):
    """The dtype that an object of ours, torch, numpy or Triton stands for; None if it is none."""
    if isinstance(x, dtype):
        return x
    origin = type(x).__module__.partition(".")[0]
    if origin == "torch" and type(x).__name__ == "dtype":
        return _dtype_named(str(x)[len("torch."):])
    if origin == "numpy" and hasattr(x, "byteorder"):
        return _dtype_named(x.name) if x.byteorder in "=<|" else None
    if isinstance(x, type) and x.__module__ in ("numpy", "ml_dtypes"):
        return _dtype_named(x.__name__)
    if origin == "triton" and type(x).__name__ == "dtype":
        return _dtype_named(x.name)
    return None


_DOUBLE_STRUCT, _WORD_STRUCT = struct.Struct("d"), struct.Struct("q")


def _double_bits(x):
    return _WORD_STRUCT.unpack(_DOUBLE_STRUCT.pack(x))[0]


class _Wrong(Exception):
    """What is wrong with a value, for a sentence that begins with whose it is."""


class _IsTuple(Exception):
    """An argument of a launch is a tuple, which takes more than a word."""


class _NextArgument:
    """In a tuple that stands for an argument of a launch: the next of the arguments."""


_next_argument = _NextArgument()


def _is_constexpr(x):
    """Whether x is Triton's tl.constexpr(value)."""
    return type(x).__name__ == "constexpr" and hasattr(x, "value")


def _form_of(x, leaves, types):
    """A tuple with what is known at compile time; the other items are added to `leaves`. `types`: so are types' names."""
    items = []
    for item in x:
        if _is_constexpr(item):
            items.append(item.value)
        elif isinstance(item, tuple):
            items.append(_form_of(item, leaves, types))
        elif item is None or isinstance(item, str) and not (types and _is_type(item)) or _dtype_of(item):
            items.append(item)
        else:
            leaves.append(item)
            items.append(_next_argument)
    return x._make(items) if hasattr(x, "_make") else tuple(items)


def _kind(x):
    """The type of a compile-time argument, and of a tuple's items: 1 and True are equal."""
    return (type(x), *map(_kind, x)) if isinstance(x, tuple) else type(x)


def _tuple_words(value, keep):
    words = []
    for item in value:
        words += (*_constexpr_words(item, keep), 0)
    fields = getattr(value, "_fields", ())
    items = (ctypes.c_int64 * len(words))(*words)
    made = _TupleStruct(ctypes.addressof(items), len(value),
                        type(value).__name__.encode() if fields else None,
                        ",".join(fields).encode() if fields else None)
    keep += (items, made)
    return _TUPLE, ctypes.addressof(made)


def _constexpr_words(value, keep):
    """(tag, bits) of a compile-time argument. What they point to is added to `keep`."""
    if _is_constexpr(value):
        value = value.value
    if value is None:
        return _NONE, 0
    if value is _next_argument:
        return _NEXT, 0
    if isinstance(value, tuple):
        return _tuple_words(value, keep)
    if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):  # numpy's
        return _BOOL, int(value)
    if isinstance(value, str):
        text = ctypes.create_string_buffer(value.encode())
        keep.append(text)
        return _STRING, ctypes.addressof(text)
    numpy = sys.modules.get("numpy")
    if isinstance(value, float) or numpy and isinstance(value, numpy.floating):
        return _DOUBLE, _double_bits(float(value))
    if found := _dtype_of(value):
        return found._tag, 0
    try:
        number = operator.index(value)
    except TypeError:
        raise _Wrong(
            f"{value!r} ({type(value).__name__}) cannot be a compile-time value; expected None, a bool, an int, a "
            "float, a str, a dtype or a tuple of such") from None
    if not -2**63 <= number < 2**63:
        raise _Wrong(f"{number} does not fit 64 bits")
    return _INT, number


# ---- Arguments: a handler for each Python type. It returns (tag, bits, place); place is where data lies: the ordinal
# of a GPU, _HOST, a Device, or None for what is no data.

_HOST = -1
_torch = None
_torch_types = set()
_torch_tags = {}
_handlers = {}


def _unsupported(what, found):
    return _Wrong(f"{what} of {found}, which kernels cannot take; supported are {_SUPPORTED}")


def _int_words(x):
    if -2**63 <= x < 2**63:
        return _INT, x, None
    if x < 2**64 and x > 0:
        return _UINT, x - 2**64, None
    raise _Wrong(f"{x} does not fit 64 bits")


def _torch_words(x):
    tag = _torch_tags.get(x.dtype)
    if tag is None:
        raise _unsupported("a tensor", x.dtype)
    if x.device.type not in ("cuda", "cpu"):
        raise _Wrong(f"a tensor on {x.device}; expected one on a CUDA GPU or on the CPU")
    if x.layout is not _torch.strided:
        raise _Wrong(f"a tensor with layout {x.layout}; expected torch.strided")
    return tag, x.data_ptr(), x.get_device()


def _numpy_words(x):
    found = _dtype_of(x.dtype)
    if found is None:
        raise _unsupported("an array", f"dtype {x.dtype.str if x.dtype.byteorder == '>' else x.dtype}")
    return found._pointer, x.__array_interface__["data"][0], _HOST


def _interface_words(interface, place):
    found = _BY_TYPESTR.get(interface["typestr"])
    if found is None:
        raise _unsupported("an array", f"type {interface['typestr']!r}")
    if interface.get("mask") is not None:
        raise _Wrong("an array with a mask, which kernels do not see; pass the mask as an argument of its own")
    data = interface.get("data")
    if not isinstance(data, tuple):
        raise _Wrong("an array whose interface names no address")
    return found._pointer, data[0], place


class TensorDescriptor:
    """An array for a parameter that the kernel uses as a tensor descriptor: base, shape, strides in elements (the last
    one 1), the shape of the blocks that are loaded and stored, and padding ("zero" or "nan"), what lies beyond the
    array. Arguments may be of any class with these attributes, such as triton.tools.tensor_descriptor's."""

    def __init__(self, base, shape, strides, block_shape, padding="zero"):
        self.base, self.shape, self.strides, self.block_shape = base, list(shape), list(strides), list(block_shape)
        self.padding = padding

    @staticmethod
    def from_tensor(tensor, block_shape, padding="zero"):
        """The descriptor of a whole torch tensor or numpy array."""
        _, item, shape, strides, _ = _elements(tensor)
        if strides is None:
            strides = [math.prod(shape[i + 1:]) * item for i in range(len(shape))]
        return TensorDescriptor(tensor, shape, [s // item for s in strides], block_shape, padding)


class _KeptAddress(int):
    """The address of a structure that lives as long as this."""


def _descriptor_at(tag, address, place, shape, strides, block_shape, padding):
    rank = len(shape)
    if not rank == len(strides) == len(block_shape):
        raise _Wrong(f"a descriptor with {rank} extents, {len(strides)} strides and {len(block_shape)} extents of its "
                     "blocks")
    if padding not in ("zero", "nan"):
        raise _Wrong(f"a descriptor with the padding {padding!r}; expected 'zero' or 'nan'")
    lists = [(ctypes.c_int64 * rank)(*map(operator.index, numbers)) for numbers in (shape, strides, block_shape)]
    made = _DescriptorStruct(address, rank, padding == "nan", *lists)
    at = _KeptAddress(ctypes.addressof(made))
    at.kept = made, lists
    return _DESCRIPTOR | tag >> 32 << 32, at, place


def _descriptor_words(x):
    tag, address, place = _words(x.base)
    if tag & 0xffffffff != _POINTER:
        raise _Wrong(f"a descriptor whose base is {x.base!r}; expected an array")
    return _descriptor_at(tag, address, place, x.shape, x.strides, x.block_shape, getattr(x, "padding", "zero"))


def _is_descriptor(x):
    return all(hasattr(x, name) for name in ("base", "shape", "strides", "block_shape"))


def _array_of(x):
    """The array of a descriptor; else x itself."""
    return x.base if _is_descriptor(x) else x


def _gpu_of(x):
    """The ordinal of the GPU that holds an array of another library; the interface does not tell."""
    where = getattr(x, "device", None)
    where = getattr(where, "id", where)
    return where if isinstance(where, int) else 0


def _has_address(x):
    """Whether x is what Triton takes for an array: an object with a dtype and the method data_ptr."""
    return callable(getattr(x, "data_ptr", None)) and _dtype_of(getattr(x, "dtype", None)) is not None


def _address_words(x):
    where = getattr(x, "device", None)
    on_host = getattr(where, "type", where) == "cpu"
    index = getattr(where, "index", None)
    return _dtype_of(x.dtype)._pointer, x.data_ptr(), _HOST if on_host else index if index is not None else _gpu_of(x)


def _find_handler(x):
    """The handler of x's type, remembered. Raises _Wrong for a type that no argument has."""
    global _torch
    t = type(x)
    torch, numpy = sys.modules.get("torch"), sys.modules.get("numpy")
    if t is bool:
        handler = lambda x: (_BOOL, int(x), None)
    elif isinstance(x, float):
        handler = lambda x: (_DOUBLE, _double_bits(x), None)
    elif x is None:
        handler = lambda x: (_NONE, 0, None)
    elif torch and isinstance(x, torch.Tensor):
        if not _torch:
            _torch = torch
            for name in (*_DTYPES, *_OTHER_NAMES):
                if hasattr(torch, name):
                    _torch_tags[getattr(torch, name)] = _dtype_named(name)._pointer
        if t in (torch.Tensor, torch.nn.Parameter):
            _torch_types.add(t)
        handler = _torch_words
    elif numpy and isinstance(x, numpy.ndarray):
        handler = _numpy_words
    elif numpy and isinstance(x, numpy.bool_):
        handler = lambda x: (_BOOL, int(x), None)
    elif numpy and isinstance(x, numpy.floating):
        handler = lambda x: (_DOUBLE, _double_bits(float(x)), None)
    elif numpy and isinstance(x, numpy.integer):
        handler = lambda x: _int_words(int(x))
    elif _is_descriptor(x):
        handler = _descriptor_words
    elif isinstance(x, (DeviceArray, _Reinterpreted)):
        handler = lambda x: x._words()
    elif hasattr(x, "__cuda_array_interface__"):
        handler = lambda x: _interface_words(x.__cuda_array_interface__, _gpu_of(x))
    elif hasattr(x, "__array_interface__"):
        handler = lambda x: _interface_words(x.__array_interface__, _HOST)
    elif hasattr(x, "__index__"):
        handler = lambda x: _int_words(operator.index(x))
    elif _has_address(x):
        handler = _address_words
    elif isinstance(x, tuple):
        raise _IsTuple
    elif isinstance(x, str) or _dtype_of(x):
        raise _Wrong(f"{x!r} is for tl.constexpr parameters, which this one is not")
    else:
        raise _Wrong(
            f"{t.__module__}.{t.__qualname__} is no argument of a kernel; expected a tensor, an array, an int, a "
            "float, a bool, None, a TensorDescriptor or a tuple of such")
    _handlers[t] = handler
    return handler


def _is_memory(tag):
    return tag & 0xffffffff in (_POINTER, _DESCRIPTOR)


def _words(x):
    return (_handlers.get(type(x)) or _find_handler(x))(x)


def _elements(x):
    """An array as bytes of all elements, bytes of one, shape, strides in bytes (None: row-major), address."""
    x = _array_of(x)
    if isinstance(x, _Reinterpreted):
        x = x.array
    if isinstance(x, DeviceArray):
        return x.nbytes, x.dtype.itemsize, x.shape, None, x.address
    if _torch and isinstance(x, _torch.Tensor):
        item = x.element_size()
        return x.numel() * item, item, x.shape, [s * item for s in x.stride()], x.data_ptr()
    if _has_address(x):
        if not hasattr(x, "shape") or not callable(getattr(x, "stride", None)):
            raise TypeError(f"{type(x).__qualname__} has neither shape nor stride(), which tell what of its memory a "
                            "kernel may reach; pass the array itself")
        item = _dtype_of(x.dtype).itemsize
        return math.prod(x.shape) * item, item, x.shape, [s * item for s in x.stride()], x.data_ptr()
    interface = getattr(x, "__cuda_array_interface__", None) or x.__array_interface__
    item = int(interface["typestr"][2:])
    return math.prod(
        interface["shape"]) * item, item, interface["shape"], interface.get("strides"), interface["data"][0]


def _extent(x):
    """(first address, bytes) of the memory that an array's elements span; (0, 0) if it has none."""
    size, item, shape, strides, address = _elements(x)
    if strides is None or size == 0:
        return address if size else 0, size
    low = sum((n - 1) * s for n, s in zip(shape, strides) if s < 0)
    high = sum((n - 1) * s for n, s in zip(shape, strides) if s > 0)
    return address + low, high - low + item


def _is_read_only(x):
    """Whether an array says of its memory on the host that it must not be written to."""
    x = _array_of(x)
    if isinstance(x, _Reinterpreted):
        x = x.array
    if _torch and isinstance(x, _torch.Tensor):
        return False
    interface = getattr(x, "__array_interface__", None)
    return bool(interface and isinstance(interface.get("data"), tuple) and interface["data"][1])


class _Reinterpreted:

    def __init__(self, array, as_dtype):
        self.array, self.dtype = array, as_dtype

    def _words(self):
        _, address, place = _words(self.array)
        return self.dtype._pointer, address, place


def reinterpret(array, as_dtype):
    """The memory of an array, taken as elements of another dtype: bfloat16 in numpy's uint16, say."""
    found = _dtype_of(as_dtype) or isinstance(as_dtype, str) and _dtype_named(as_dtype)
    if not found:
        raise TypeError(f"{as_dtype!r} is no dtype; supported are {_SUPPORTED}")
    return _Reinterpreted(array, found)


# ---- Devices


class Device:
    """A GPU or the emulator: Device.default(), Device.cuda(ordinal), Device.emulator(target)."""

    _cuda = {}
    _emulators = {}

    def __init__(self, handle, place):
        self._handle, self._place = handle, place
        facts = _DeviceStruct(ctypes.sizeof(_DeviceStruct))
        _check(_lib.tegula_device_describe(handle, ctypes.byref(facts)))
        self.name, self.target, self.is_emulator = facts.name.decode(), facts.target.decode(), bool(facts.emulator)
        self.sm, self.num_sms, self.driver_version = facts.sm, facts.num_sms, facts.driver_version
        self.memory_bytes, self.l2_bytes = facts.memory_bytes, facts.l2_bytes
        self.shared_per_program = facts.shared_per_program

    # Devices live as long as the process, since kernels keep what they have made ready on them.

    @staticmethod
    def cuda(ordinal=0):
        """A GPU, in the context that torch and others of this process use."""
        if ordinal not in Device._cuda:
            Device._cuda[ordinal] = Device(_make(_lib.tegula_device_cuda, ordinal), ordinal)
        return Device._cuda[ordinal]

    @staticmethod
    def emulator(target=None):
        """The emulator, standing for a GPU such as "sm_80"; None: TEGULA_TARGET of the environment, else sm_90a."""
        if target not in Device._emulators:
            device = Device(_make(_lib.tegula_device_emulator, target.encode() if target else None), _HOST)
            if target is not None:
                device._place = device
            Device._emulators[target] = device
        return Device._emulators[target]

    @staticmethod
    def default():
        """The first GPU if there is one, else the emulator; the environment's TEGULA_DEVICE decides."""
        wanted = os.environ.get("TEGULA_DEVICE")
        if wanted not in (None, "", "gpu", "emulator"):
            raise DeviceError(f"TEGULA_DEVICE is '{wanted}', expected 'gpu' or 'emulator'")
        if wanted != "emulator":
            try:
                return Device.cuda(0)
            except DeviceError:
                if wanted == "gpu":
                    raise
        return Device.emulator()

    def array(self, source):
        """A copy of a numpy array, or of anything with __array_interface__, in the device's memory."""
        return DeviceArray(self, source)

    def synchronize(self, stream=None):
        """Waits for the work on a stream."""
        _check(_lib.tegula_device_synchronize(self._handle, stream))

    def __repr__(self):
        return f"<tegula.Device {self.name}>"


def _device_at(place):
    if isinstance(place, Device):
        return place
    return Device.emulator() if place == _HOST else Device.cuda(place)


class DeviceArray:
    """Elements in a device's memory, in row-major order, for those without torch. Made by Device.array()."""

    def __init__(self, device, source):
        self._handle = None
        interface = source.__array_interface__
        found = _dtype_of(getattr(source, "dtype", None)) or _BY_TYPESTR.get(interface["typestr"])
        if found is None:
            raise TypeError(f"an array of type {interface['typestr']!r}; supported are {_SUPPORTED}")
        if interface.get("strides") is not None:
            raise TypeError("the array is not contiguous; pass a contiguous copy")
        self.device, self.dtype, self.shape = device, found, tuple(interface["shape"])
        self.nbytes = found.itemsize * math.prod(self.shape)
        self._handle = _make(_lib.tegula_buffer_create, device._handle, self.nbytes)
        self.address = _lib.tegula_buffer_address(self._handle)
        _check(_lib.tegula_buffer_upload(self._handle, 0, interface["data"][0], self.nbytes, None))

    def copy_to(self, target):
        """Copies all elements into a contiguous array of the host's, as large as this one. Waits for them."""
        interface = target.__array_interface__
        if _extent(target)[1] != self.nbytes or interface.get("strides") is not None:
            raise TypeError(f"expected a contiguous array of {self.nbytes} bytes")
        _check(_lib.tegula_buffer_download(self._handle, 0, interface["data"][0], self.nbytes, None))

    def numpy(self):
        """A copy as a numpy array (bfloat16 as uint16, float8 as uint8)."""
        import numpy
        out = numpy.empty(self.shape, self.dtype.typestr or f"<u{self.dtype.itemsize}")
        self.copy_to(out)
        return out

    def _words(self):
        return self.dtype._pointer, self.address, self.device._place

    def __del__(self, release=_lib.tegula_buffer_release):
        if self._handle:
            release(self._handle)


# ---- Programs and kernels


def load(path, globals=None):
    """Parses a file in the Triton language. Its kernels are attributes: load("softmax.py").softmax_kernel. Names that
    the file imports are looked up in the files of its package and in sys.path. `globals` are values of module-level
    names, there and here, in place of those that the files give them: load("k.py", {"IS_NPU": False})."""
    array, keep = _global_values(globals or {})
    folders = _import_folders()
    return Program(
        _make(_lib.tegula_program_load_with, os.fsencode(path), array, len(array), folders, len(folders)), str(path))


def parse(text, name="<text>", globals=None):
    """The same from text; `name` stands for the file in messages and is where imports are looked for from."""
    array, keep = _global_values(globals or {})
    folders = _import_folders()
    return Program(
        _make(_lib.tegula_program_parse_with, text.encode(), name.encode(), array, len(array), folders, len(folders)),
        name)


def _import_folders():
    """The folders of sys.path but for Python's own modules, as C takes them."""
    own = os.path.dirname(os.__file__)
    folders = [os.fsencode(folder or os.getcwd()) for folder in sys.path if folder != own]
    return (ctypes.c_char_p * len(folders))(*folders)


def _global_values(globals):
    keep, made = [], []
    for name, value in globals.items():
        try:
            made.append(_ConstexprStruct(name.encode(), *_constexpr_words(value, keep), 0))
        except _Wrong as wrong:
            raise TypeError(f"global '{name}': {wrong}") from None
    return (_ConstexprStruct * len(made))(*made), keep


class Program:
    """The @triton.jit functions of a file, as attributes or by program["name"]."""

    def __init__(self, handle, name):
        self._handle, self._name, self._made = handle, name, {}
        self.kernels = [
            _lib.tegula_program_kernel_name(handle, i).decode() for i in range(_lib.tegula_program_num_kernels(handle))
        ]

    def __getitem__(self, name):
        if name not in self._made:
            self._made[name] = Kernel(_make(_lib.tegula_program_kernel, self._handle, name.encode()), name)
        return self._made[name]

    def __getattr__(self, name):
        if name.startswith("_") and name not in self.kernels:
            raise AttributeError(name)
        try:
            return self[name]
        except CompileError as error:
            raise AttributeError(str(error)) from None

    def __dir__(self):
        return [*super().__dir__(), *self.kernels]

    def __repr__(self):
        return f"<tegula.Program {self._name}: {', '.join(self.kernels)}>"

    def __del__(self, release=_lib.tegula_program_release):
        release(self._handle)


class Param:
    """A parameter of a kernel: name, is_constexpr, has_default."""

    def __init__(self, name, is_constexpr, has_default):
        self.name, self.is_constexpr, self.has_default = name, is_constexpr, has_default

    def __repr__(self):
        return self.name + (": tl.constexpr" if self.is_constexpr else "") + (" = ..." if self.has_default else "")


class Image:
    """A compiled kernel: target, num_warps, registers and spill_bytes (a thread; -1 where no GPU's driver has assembled
    it), shared_bytes, ptx, transfers (lines: how pipelined loops copy and results of products are stored, and why not in bulk
    where they are not), and for what a launch runs its config: constexprs and options by name."""

    def __init__(self, handle, config=None):
        facts = _ImageStruct(ctypes.sizeof(_ImageStruct))
        try:
            _check(_lib.tegula_image_describe(handle, ctypes.byref(facts)))
            self.ptx = _lib.tegula_image_ptx(handle).decode()
            self.transfers = _lib.tegula_image_transfers(handle).decode().splitlines()
            self.target, self.num_warps = facts.target.decode(), facts.num_warps
            self.registers, self.spill_bytes, self.shared_bytes = facts.registers, facts.spill_bytes, facts.shared_bytes
        finally:
            _lib.tegula_image_release(handle)
        self.config = config

    def __repr__(self):
        facts = [self.target, f"{self.num_warps} warps"]
        if self.registers >= 0:
            facts += [f"{self.registers} registers", f"{self.spill_bytes} bytes spilled"]
        return f"<tegula.Image {', '.join(facts)}, {self.shared_bytes} bytes shared>"


_OPTIONS = ("num_warps", "num_stages", "maxnreg", "warp_specialize", "bulk_copies", "debug", "num_ctas")
_OTHER_OPTIONS = ("dependent_launch", "launch_cooperative_grid", "enable_fp_fusion")
# Options of Triton's that change nothing here, and those of their values that can be taken so.
_WITHOUT_EFFECT = {
    "launch_pdl": (True, False), "sanitize_overflow": (True, False),
    "warp_size": (32, ), "extern_libs": (), "ir_override": (), "instrumentation_mode": ("", )
}
_ALL_OPTIONS = (*_OPTIONS, *_OTHER_OPTIONS, *_WITHOUT_EFFECT, "stream")


class _Plan:
    """How the arguments of a call, given in one order of positions and names, become those of a launch."""

    def __init__(self, runtime, runtime_names, fixed, fixed_names, stream, names):
        self.runtime = runtime  # positions among the values of the call, or None: the first ones
        self.runtime_names = runtime_names
        self.fixed, self.fixed_names = fixed, fixed_names  # constexprs and options
        self.stream = stream  # position, or None
        self.names = names  # of all values of the call
        self.pack = struct.Struct(f"{3 * len(runtime_names)}q").pack
        self.count = len(runtime_names)
        self.open = False  # whether constexprs are left to defaults, configurations and heuristics
        self.options = {}
        self.flat = {}  # plans where tuples are arguments, by their forms
        self.written = {}  # which arguments the kernel writes through, where an array is read-only


class _Call:
    """A launch made ready for the library."""
    __slots__ = ("options", "words", "count", "device", "stream", "ranges", "meta", "open", "kept")


_pending = {}
_tokens = itertools.count(1)


@_GridFunction
def _grid_callback(token, config, out):
    call = _pending[token]
    try:
        kernel, grid, meta = call[:3]
        if callable(grid):
            grid = grid({**meta, **kernel._config(config)})
        out[0], out[1], out[2] = _extents(grid)
        return 0
    except BaseException as error:
        call[3] = error
        _lib.tegula_set_error(str(error).encode())
        return _USAGE_ERROR


def _extents(grid):
    """x, y, z of a grid as the user says it."""
    if not isinstance(grid, (tuple, list)):
        grid = (grid, )
    if not 1 <= len(grid) <= 3:
        raise TypeError(f"the grid {tuple(grid)} has {len(grid)} extents, expected 1 to 3")
    try:
        x, y, z = (*map(operator.index, grid), 1, 1)[:3]
    except TypeError:
        raise TypeError(f"the grid {tuple(grid)} holds something that is no integer") from None
    if (x | y | z) >> 31:
        raise ValueError(f"the grid {tuple(grid)} has an extent that is negative or above {2**31 - 1}")
    return x, y, z


def _raise_places(what, first, one, other, two):

    def text(place):
        return "on the host" if place == _HOST else f"on {place.name}" if isinstance(place, Device) else f"on GPU {place}"

    raise TypeError(f"{what}(): the data of '{first}' is {text(one)}, that of '{other}' {text(two)}; all data of a "
                    "launch belongs on one device")


def _lent(device, ranges, work):
    """Works while the emulator may access ranges of the host's memory."""
    begun = []
    try:
        for begin, size in ranges:
            _check(_lib.tegula_device_register_host(device, begin, size))
            begun.append(begin)
        return work()
    finally:
        for begin in begun:
            _lib.tegula_device_unregister_host(device, begin)


class Kernel:
    """A kernel of a file. kernel[grid](*args, **constexprs_and_options) launches it."""
    _handle = None

    def __init__(self, handle, name):
        self._handle, self.__name__, self.name = handle, name, name
        self.params = []
        self._sized = {}  # parameters whose memory tuning zeroes (True) or restores (False)
        for i in range(_lib.tegula_kernel_num_params(handle)):
            p = _ParamStruct()
            _check(_lib.tegula_kernel_param(handle, i, ctypes.byref(p)))
            self.params.append(Param(p.name.decode(), bool(p.is_constexpr), bool(p.has_default)))
            if p.is_zeroed or p.is_restored:
                self._sized[self.params[-1].name] = bool(p.is_zeroed)
        self._names = {p.name for p in self.params}
        hooked = ctypes.c_int32()
        _check(_lib.tegula_kernel_is_hooked(handle, ctypes.byref(hooked)))
        self._is_hooked = bool(hooked.value)
        self._plans = {}
        self._configs = {}

    def __del__(self, release=_lib.tegula_kernel_release):
        release(self._handle)

    def __repr__(self):
        return f"<tegula.Kernel {self.name}({', '.join(map(repr, self.params))})>"

    def __getitem__(self, grid):
        return lambda *args, **kwargs: self._launch(grid, args, kwargs)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.name} is a kernel and needs a grid: {self.name}[grid](...)")

    @property
    def is_tuned(self):
        """Whether launches choose among configurations (@triton.autotune)."""
        tuned = ctypes.c_int32()
        _check(_lib.tegula_kernel_is_tuned(self._handle, ctypes.byref(tuned)))
        return bool(tuned.value)

    def with_hooks(self, pre_hook=None, post_hook=None, config_hook=None):
        """The same kernel, tuned with hooks in place of those of its file (None: the file's own), which get the arguments
        of the launch by name, with the constexprs and options of the configuration at hand, as Triton's do:

        pre_hook(kwargs, reset_only=False) before each timed run, and once with reset_only=True when the choice is made;
        post_hook(kwargs, exception=None) behind each timed run;
        config_hook(kwargs) as the pre_hook of each triton.Config: before each launch, timed ones too.

        reset_to_zero and restore_value hold besides. On the emulator nothing is timed."""
        return _HookedKernel(self, {"config": config_hook, "pre": pre_hook, "post": post_hook})

    def _launch(self, grid, args, kwargs):
        call = self._bind(args, kwargs)
        if call.open and callable(grid):
            return self._within(call, self._with_callback, call, grid, _lib.tegula_kernel_launch_with)
        if callable(grid):
            grid = grid(call.meta())
        if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int:
            x, y, z = grid[0], 1, 1
            if x >> 31:
                _extents(grid)
        else:
            x, y, z = _extents(grid)
        if call.ranges:
            return self._within(
                call, lambda: _check(
                    _kernel_launch(self._handle, call.device._handle, x, y, z, call.options, call.stream, call.words,
                                   call.count)))
        status = _kernel_launch(self._handle, call.device._handle, x, y, z, call.options, call.stream, call.words,
                                call.count)
        if status or _messages:
            _check(status)

    def _with_callback(self, call, grid, function, *results):
        """Calls a function of the library that asks for the grid."""
        token = next(_tokens)
        _pending[token] = pending = [self, grid, call.meta(), None]
        try:
            status = function(self._handle, call.device._handle, _grid_callback, token, call.options, call.stream,
                              call.words, call.count, *results)
            if pending[3] is not None:
                raise pending[3]
            _check(status)
        finally:
            del _pending[token]

    def _within(self, call, work, *args):
        """Works while the emulator may access the arrays of the call."""
        return _lent(call.device._handle, call.ranges, lambda: work(*args))

    def _config(self, config):
        """A configuration of this kernel as a dictionary."""
        known = self._configs.get(config)
        if known is None:
            known = {}
            for name in _OPTIONS:
                value = ctypes.c_int64()
                _check(_lib.tegula_config_int(config, name.encode(), ctypes.byref(value)))
                known[name] = value.value
            for i in range(_lib.tegula_config_num_constexprs(config)):
                c = _ConstexprStruct()
                _check(_lib.tegula_config_constexpr(config, i, ctypes.byref(c)))
                kind = c.tag & 0xffffffff
                if kind == _TUPLE:  # the call has it
                    continue
                known[c.name.decode()] = (
                    None if kind == _NONE else bool(c.bits) if kind == _BOOL else c.bits if kind == _INT else
                    _DOUBLE_STRUCT.unpack(_WORD_STRUCT.pack(c.bits))[0] if kind == _DOUBLE else ctypes.
                    string_at(c.bits).decode() if kind == _STRING else list(_DTYPES.values())[(c.tag >> 32) - 1])
            self._configs[config] = known
        return known

    # ---- From the arguments of a call to those of a launch

    def _make_plan(self, count, keywords):
        """The plan of calls with `count` values by position and these names."""
        names = [p.name for p in self.params]
        if count > len(names):
            raise TypeError(
                f"{self.name}() takes {len(names)} arguments ({', '.join(names)}), found {count} by position")
        given = {name: i for i, name in enumerate(names[:count])}
        for i, name in enumerate(keywords, count):
            if name in given:
                raise TypeError(f"{self.name}() got two values for '{name}'")
            if name not in self._names and name not in _ALL_OPTIONS:
                near = difflib.get_close_matches(name, [*names, *_ALL_OPTIONS], 1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; the parameters are {', '.join(names)}"
                raise TypeError(f"{self.name}() has no parameter '{name}'{hint}")
            given[name] = i
        runtime = [p for p in self.params if not p.is_constexpr]
        missing = [p.name for p in runtime if p.name not in given and not p.has_default]
        if missing:
            raise TypeError(f"{self.name}() misses {'argument' if len(missing) == 1 else 'arguments'} " +
                            ", ".join(f"'{name}'" for name in missing))
        while runtime and runtime[-1].name not in given:
            runtime.pop()
        for p in runtime:
            if p.name not in given:
                raise TypeError(
                    f"{self.name}() is given '{runtime[-1].name}' but not '{p.name}' before it: defaults can be "
                    "left to the last arguments alone")
        fixed = [n for n in given if n in _ALL_OPTIONS and n != "stream"]
        fixed = [p.name
                 for p in self.params if p.is_constexpr and p.name in given] + [n for n in fixed if n not in names]
        positions = [given[p.name] for p in runtime]
        stream = given.get("stream") if "stream" not in self._names else None
        plan = _Plan(None if positions == list(range(count)) else positions, [p.name for p in runtime],
                     [given[n] for n in fixed], fixed, stream, list(given))
        plan.open = any(p.is_constexpr and p.name not in given for p in self.params)
        self._plans[(count, *keywords)] = plan
        return plan

    def _make_options(self, plan, values):
        """The structure of constexprs and options, remembered in the plan."""
        constexprs, options, keep = [], {}, []
        for name, value in zip(plan.fixed_names, values):
            if name in self._names:
                try:
                    tag, bits = _constexpr_words(value, keep)
                except _Wrong as wrong:
                    raise TypeError(f"{self.name}(), constexpr '{name}': {wrong}") from None
                constexprs.append(_ConstexprStruct(name.encode(), tag, bits, 0))
                continue
            if value is None:
                continue
            if name in _WITHOUT_EFFECT:
                if value not in _WITHOUT_EFFECT[name]:
                    raise TypeError(f"{self.name}(): {name} is {value!r}, which Tegula cannot do")
                continue
            try:
                number = operator.index(value)
            except TypeError:
                raise TypeError(f"{self.name}(): {name} is {value!r}, expected an int") from None
            if name == "dependent_launch":
                options["no_dependent_launch"] = not number
            elif name == "enable_fp_fusion":
                options["no_fp_fusion"] = not number
            elif name == "launch_cooperative_grid":
                options["cooperative_grid"] = bool(number)
            else:
                # To the C interface 0 stands for the default; stages are one at least.
                options[name] = number or (1 if name == "num_stages" else -1 if name in ("num_warps", "num_ctas") else 0)
        array = (_ConstexprStruct * len(constexprs))(*constexprs)
        made = _OptionsStruct(ctypes.sizeof(_OptionsStruct), array, len(constexprs), **options)
        made.keep = (array, constexprs, keep)
        return made

    def _bind(self, args, kwargs, types=False):
        """The call, ready for the library. `types`: texts such as "*f32" and "i32:16" may stand for arguments."""
        plan = self._plans.get((len(args), *kwargs))
        if plan is None:
            plan = self._make_plan(len(args), tuple(kwargs))
        values = (*args, *kwargs.values()) if kwargs else args
        fixed = [values[i] for i in plan.fixed]
        runtime = args if plan.runtime is None else [values[i] for i in plan.runtime]
        try:
            return self._bind_values(plan, values, fixed, runtime, types)
        except _IsTuple:
            return self._bind_tuples(plan, values, fixed, runtime, types)

    def _bind_tuples(self, plan, values, fixed, runtime, types):
        """The call with the items of tuples as arguments; the tuples' forms are compile-time arguments."""
        names, leaves, forms = [], [], {}
        for name, x in zip(plan.runtime_names, runtime):
            if isinstance(x, tuple):
                before = len(leaves)
                forms[name] = _form_of(x, leaves, types)
                names += [f"{name}[{i}]" for i in range(len(leaves) - before)]
            else:
                leaves.append(x)
                names.append(name)
        key = (*forms, *map(_kind, forms.values()))
        flat = plan.flat.get(key)
        if flat is None:
            flat = plan.flat[key] = _Plan(None, names, plan.fixed, [*plan.fixed_names, *forms], plan.stream, plan.names)
            flat.open = plan.open
        return self._bind_values(flat, values, [*fixed, *forms.values()], leaves, types)

    def _bind_values(self, plan, values, fixed, runtime, types):
        key = (*fixed, *map(_kind, fixed))
        try:
            found = plan.options.get(key)
        except TypeError:  # something that cannot be hashed: no constexpr either
            found = None
        if found is None:
            made = self._make_options(plan, fixed)
            found = plan.options[key] = (ctypes.addressof(made), made)

        words, place, foreign = [], None, False
        for x in runtime:
            t = type(x)
            if t is int and -2**63 <= x < 2**63:
                words += (_INT, x, 0)
                continue
            if t in _torch_types and x.is_cuda and (tag := _torch_tags.get(x.dtype)):
                where = x.get_device()
                words += (tag, x.data_ptr(), 0)
            else:
                try:
                    if types and t is str:
                        tag, bits, where = _type_words(x)
                    else:
                        tag, bits, where = (_handlers.get(t) or _find_handler(x))(x)
                except _Wrong as wrong:
                    raise TypeError(
                        f"{self.name}(), argument '{plan.runtime_names[len(words) // 3]}': {wrong}") from None
                foreign = foreign or where is not None and not (_torch and isinstance(_array_of(x), _torch.Tensor))
                words += (tag, bits, 0)
            if where != place and where is not None:
                if place is not None:
                    self._refuse_places(plan, runtime)
                place = where

        call = _Call()
        call.options, call.count, call.open = found[0], plan.count, plan.open
        call.device = Device._cuda.get(place) or (_device_at(place) if place is not None else Device.default())
        call.ranges = ()
        if plan.stream is not None:
            call.stream = values[plan.stream]
            call.stream = getattr(call.stream, "cuda_stream", call.stream)
        elif place is None or place.__class__ is not int or place < 0:
            call.stream = None
        elif foreign:
            call.stream = _stream_of([_array_of(x) for x in runtime], call.device)
        else:
            call.stream = _current_torch_stream(place)
        if types:  # nothing is accessed
            pass
        elif call.device.is_emulator:
            call.ranges = [(begin, size) for begin, size in (_extent(x) for x, tag in zip(runtime, words[::3])
                                                             if _is_memory(tag)) if size]
            self._refuse_read_only(plan, runtime, words, call)
        elif self._sized and not self._is_hooked:
            for i, (name, x) in enumerate(zip(plan.runtime_names, runtime)):
                if name in self._sized and _is_memory(words[3 * i]):
                    words[3 * i + 2] = self._tuned_bytes(name, x)
        if self._is_hooked and not types:
            self._add_sizes(plan, runtime, words)
        call.words, call.kept = plan.pack(*words), words
        call.meta = lambda: dict(zip(plan.names, values))
        return call

    def _refuse_read_only(self, plan, runtime, words, call):
        """Raises the TypeError for a read-only array of the host's that the kernel writes into."""
        locked = [i for i, x in enumerate(runtime) if _is_memory(words[3 * i]) and _is_read_only(x)]
        if not locked:
            return
        key = (call.options, *words[::3])
        written = plan.written.get(key)
        if written is None:
            written = (ctypes.c_uint8 * plan.count)()
            _check(
                _lib.tegula_kernel_written_args(self._handle, call.options, plan.pack(*words), plan.count, written))
            plan.written[key] = written
        for i in locked:
            if written[i]:
                raise TypeError(f"{self.name}(), argument '{plan.runtime_names[i]}': the kernel writes into it, but the "
                                "array is read-only; pass a copy")

    def _add_sizes(self, plan, runtime, words):
        """The sizes of what hooks may ask for: of buffers whose elements lie side by side, and of what tuning zeroes or
        restores."""
        for i, (name, x) in enumerate(zip(plan.runtime_names, runtime)):
            if not _is_memory(words[3 * i]):
                continue
            if name in self._sized:
                words[3 * i + 2] = self._tuned_bytes(name, x)
            elif _extent(x) == (_words(_array_of(x))[1], _elements(x)[0]):
                words[3 * i + 2] = _extent(x)[1]

    def _tuned_bytes(self, name, x):
        """The size of what tuning zeroes or restores."""
        begin, size = _extent(x)
        if begin != _words(_array_of(x))[1] and size or self._sized[name] and size != _elements(x)[0]:
            raise TypeError(f"{self.name}(): the elements of '{name}' do not lie side by side, and tuning the kernel "
                            "zeroes or restores all of its memory; pass a contiguous array")
        return size

    def _refuse_places(self, plan, runtime):
        """Raises the TypeError for data in different places."""
        lying = [(name, _words(x)[2]) for name, x in zip(plan.runtime_names, runtime) if not isinstance(x, str)]
        lying = [(name, place) for name, place in lying if place is not None]
        (first, one), (other, two) = lying[0], next(entry for entry in lying if entry[1] != lying[0][1])

        _raise_places(self.name, first, one, other, two)

    # ---- Looking at what is compiled

    def compile(self, *args, target=None, **kwargs):
        """The Image for a GPU such as "sm_90a" (if None, that of the arguments' device), without launching. Arguments
        are those of a launch, or texts for their types: "*f32" (aligned to 16 bytes; "*f32:1" if not), "i32", "i32:16",
        "f32", "*f32[64,32]" or "tensordesc<fp32[64, 32]>" (a tensor descriptor of such blocks)."""
        call = self._bind(args, kwargs, types=True)
        target = target or call.device.target
        return Image(
            _make(_lib.tegula_kernel_compile, self._handle, target.encode(), call.options, call.words, call.count))

    def ptx(self, *args, target=None, **kwargs):
        """The PTX of compile()."""
        return self.compile(*args, target=target, **kwargs).ptx

    def facts(self, *args, grid=(1, ), **kwargs):
        """The Image that a launch with these arguments runs, made ready on their device (and tuned, if need be):
        registers, spills, shared memory, config."""
        call = self._bind(args, kwargs)
        image, config = ctypes.c_void_p(), ctypes.c_void_p()
        self._within(call, self._with_callback, call, grid, _lib.tegula_kernel_prepare, ctypes.byref(image),
                     ctypes.byref(config))
        return Image(image.value, dict(self._config(config.value)))


_hooked_calls = threading.local()


class _HookedKernel(Kernel):
    """A kernel with hooks of the caller's."""

    def __init__(self, kernel, hooks):
        functions = [_Hook(functools.partial(self._call_hook, kind)) if hook else _Hook() for kind, hook in hooks.items()]
        self._hooks = hooks
        super().__init__(_make(_lib.tegula_kernel_with_hooks, kernel._handle, *functions, None), kernel.name)
        self._functions = functions

    def _call_hook(self, kind, user, config, reset_only, error):
        frame = _hooked_calls.frames[-1]
        try:
            kwargs = {**frame["kwargs"], **self._config(config)}
            if kind == "config":
                self._hooks[kind](kwargs)
            elif kind == "post":
                self._hooks[kind](kwargs, exception=None if error is None else Error(error.decode()))
            elif reset_only:
                self._hooks[kind](kwargs, reset_only=True)
            else:
                self._hooks[kind](kwargs)
            return 0
        except BaseException as raised:
            frame["error"] = raised
            _lib.tegula_set_error(str(raised).encode())
            return _USAGE_ERROR

    def _within_frame(self, args, kwargs, work):
        names = [p.name for p in self.params]
        frame = {"kwargs": {**dict(zip(names, args)), **kwargs}, "error": None}
        frames = _hooked_calls.__dict__.setdefault("frames", [])
        frames.append(frame)
        try:
            return work()
        except BaseException:
            if frame["error"] is not None:
                raise frame["error"] from None
            raise
        finally:
            frames.pop()

    def _launch(self, grid, args, kwargs):
        return self._within_frame(args, kwargs, lambda: Kernel._launch(self, grid, args, kwargs))

    def facts(self, *args, grid=(1, ), **kwargs):
        return self._within_frame(args, kwargs, lambda: Kernel.facts(self, *args, grid=grid, **kwargs))


def _type_words(text):
    """A value that is specialised as the type in the text asks for."""
    if text.startswith("tensordesc<") and text.endswith(">"):  # Triton's own spelling
        text = "*" + text[len("tensordesc<"):-1].replace(" ", "")
    name, _, divisible = text.lstrip("*").partition(":")
    name, bracket, block = name.partition("[")
    found = _dtype_named(name)
    if found and bracket and text.startswith("*") and block.endswith("]") and not divisible:
        block = [int(n) for n in block[:-1].split(",")]
        strides = [1 << 16] * (len(block) - 1) + [1]
        return _descriptor_at(found._pointer, 16, None, [1 << 20] * len(block), strides, block, "zero")
    divisors = ("", "1", "16") if text.startswith("*") else ("", "1", "16", "256")
    if found is None or bracket or divisible not in divisors:
        raise _Wrong(f"'{text}' is no type; expected one such as '*f32', '*f32:1', 'i32', 'i32:16'")
    if text.startswith("*"):
        return found._pointer, 8 if divisible == "1" else 16, None
    if found is int1:
        return _BOOL, 1, None
    if found.name.startswith(("float", "bfloat")):
        return _DOUBLE, _double_bits(0.5), None
    base = {"int64": 1 << 40, "uint64": -1 << 62}.get(found.name, 1 << 20)
    return _UINT if found.name == "uint64" else _INT, base + {"256": 0, "16": 16}.get(divisible, 3), None


def _is_type(text):
    try:
        return bool(_type_words(text))
    except _Wrong:
        return False


# ---- The kernel library


class _Entry:
    """An entry of the kernel library: kernels.rms_norm(out, x, weight, residual=r). Operands are tensors or arrays,
    numbers, bools and names of choices, by position or by name; None stands for one that is left out. `stream`: as of
    a launch."""

    def __init__(self, index):
        facts, operand = _EntryStruct(ctypes.sizeof(_EntryStruct)), _OperandStruct(ctypes.sizeof(_OperandStruct))
        _check(_lib.tegula_entry(index, ctypes.byref(facts)))
        self.__name__ = self.name = facts.name.decode()
        self.formula, self.signature = facts.formula.decode(), facts.signature.decode()
        self.__doc__ = f"{self.formula}\n\n{self.name}({self.signature})"
        self._operands = {}
        for i in range(facts.num_operands):
            _check(_lib.tegula_entry_operand(index, i, ctypes.byref(operand)))
            self._operands[operand.name.decode()] = (operand.kind, bool(operand.is_written), bool(operand.is_optional))

    def __repr__(self):
        return f"<tegula.kernels.{self.name}({self.signature})>"

    def _named(self, args, kwargs):
        if len(args) > len(self._operands):
            raise TypeError(f"{self.name}() takes {len(self._operands)} operands ({', '.join(self._operands)}), found "
                            f"{len(args)} by position")
        named = dict(zip(self._operands, args))
        for name, value in kwargs.items():
            if name in named:
                raise TypeError(f"{self.name}() got two values for '{name}'")
            if name not in self._operands:
                near = difflib.get_close_matches(name, self._operands, 1)
                hint = f"did you mean '{near[0]}'?" if near else f"the operands are {', '.join(self._operands)}"
                raise TypeError(f"{self.name}() has no operand '{name}'; {hint}")
            named[name] = value
        return {name: value for name, value in named.items() if value is not None}

    def _tensor(self, name, x, tag, address, keep):
        _, item, shape, strides, _ = _elements(x)
        shape = [operator.index(n) for n in shape]
        if strides is not None:
            if any(s % item for s in strides):
                raise TypeError(f"{self.name}(), operand '{name}': strides that are no multiples of an element's size")
            strides = (ctypes.c_int64 * len(shape))(*[s // item for s in strides])
        extents = (ctypes.c_int64 * len(shape))(*shape)
        made = _TensorStruct(address, len(shape), extents, strides)
        keep += (extents, strides, made)
        return _TENSOR | tag >> 32 << 32, ctypes.addressof(made)

    def __call__(self, *args, stream=None, **kwargs):
        words, keep, arrays = [], [], {}
        for name, value in self._named(args, kwargs).items():
            try:
                if isinstance(value, str):
                    tag, bits = _constexpr_words(value, keep)
                else:
                    tag, bits, place = _words(value)
                    if tag & 0xffffffff == _POINTER:
                        arrays[name] = value, place
                        tag, bits = self._tensor(name, value, tag, bits, keep)
            except _Wrong as wrong:
                raise TypeError(f"{self.name}(), operand '{name}': {wrong}") from None
            words.append(_ConstexprStruct(name.encode(), tag, bits, 0))
        if not arrays:
            raise TypeError(f"{self.name}() got no array or tensor")
        (first, (_, place)), *others = arrays.items()
        for other, (_, another) in others:
            if another != place:
                _raise_places(self.name, first, place, other, another)
        device, ranges = _device_at(place), []
        if device.is_emulator:
            for name, (x, _) in arrays.items():
                if self._operands[name][1] and _is_read_only(x):
                    raise TypeError(f"{self.name}(), operand '{name}': it is written, but the array is read-only; pass a "
                                    "copy")
                ranges.append(_extent(x))
        elif stream is None:
            stream = _stream_of([x for x, _ in arrays.values()], device)
        stream = getattr(stream, "cuda_stream", stream)
        operands = (_ConstexprStruct * len(words))(*words)
        _lent(
            device._handle, [r for r in ranges if r[1]], lambda: _check(
                _lib.tegula_call(device._handle, self.name.encode(), stream, operands, len(words))))


class _Library:
    """The kernel library (docs/kernels.md): its entries are attributes, and repr() of one is its signature."""

    def __init__(self):
        self._entries = {}

    def _all(self):
        if not self._entries:
            for i in range(_lib.tegula_num_entries()):
                entry = _Entry(i)
                self._entries[entry.name] = entry
        return self._entries

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._all():
            near = difflib.get_close_matches(name, self._all(), 1)
            raise AttributeError(f"the kernel library has no '{name}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return self._entries[name]

    def __dir__(self):
        return list(self._all())

    def __repr__(self):
        return f"<tegula.kernels: {', '.join(self._all())}>"


kernels = _Library()

# ---- Streams


def _current_torch_stream(ordinal):
    try:
        return _torch._C._cuda_getCurrentRawStream(ordinal)
    except AttributeError:
        return _torch.cuda.current_stream(ordinal).cuda_stream


def _stream_of(arrays, device):
    """The stream to launch on, where not all data is torch's: torch's current one if any is, else that of the first
    array whose interface names one. Work on other streams that arrays name is waited for."""
    ours = [_current_torch_stream(device._place) for x in arrays if _torch and isinstance(x, _torch.Tensor)][:1]
    named = [(getattr(x, "__cuda_array_interface__", None) or {}).get("stream") for x in arrays
             if not (_torch and isinstance(x, _torch.Tensor))]
    named = [s for s in dict.fromkeys(named) if s is not None]
    stream = ours[0] if ours else named[0] if named else None
    for other in named:
        if other != stream:
            device.synchronize(other)
    return stream
