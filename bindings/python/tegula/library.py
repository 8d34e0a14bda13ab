"""The shared library: where it is found, its functions, its errors and messages."""

import atexit
import ctypes
import glob
import os
import pathlib
import sys
import warnings

from .errors import CompileError, Diagnostic, ERRORS, Error, KernelWarning
from .structs import DiagnosticStruct, GridFunction, Hook, MessageFunction

ABI = 1
HERE = os.path.dirname(__file__) + os.sep


def candidates():
    """(path, why) of each place to look in, in order."""
    if named := os.environ.get("TEGULA_LIBRARY"):
        yield named, "TEGULA_LIBRARY"
        return
    here = pathlib.Path(__file__).resolve().parent
    for name in ("libtegula.so.0", "libtegula.so"):
        yield here / name, "in the package"
    source = here.parents[2]
    if (source / "CMakeLists.txt").exists():  # a source tree: the build that was made last
        builds = glob.glob(str(source / "build*" / "libtegula.so"))
        builds += glob.glob(str(source / "build*" / "*" / "libtegula.so"))
        yield from ((path, "a build folder") for path in sorted(builds, key=os.path.getmtime, reverse=True))
        if not builds:
            yield source / "build" / "release" / "libtegula.so", "the build folder"
    prefix = here.parents[3]  # of share/tegula/python/tegula
    for folder in ("lib", "lib64", "lib/x86_64-linux-gnu"):
        yield prefix / folder / "libtegula.so.0", "the installation"
    yield "libtegula.so.0", "the system's search path"


def open_library():
    looked = []
    for path, why in candidates():
        if os.sep in str(path) and not os.path.exists(path):
            looked.append(f"{path} ({why}): not there")
            continue
        try:
            return ctypes.CDLL(str(path))
        except OSError as error:
            looked.append(f"{path} ({why}): {error}")
    raise ImportError("libtegula.so was not found; set TEGULA_LIBRARY to its path. Looked for\n  " +
                      "\n  ".join(looked))


def declare(lib):
    p, size, u32, i32, text = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_uint32, ctypes.c_int32, ctypes.c_char_p

    def function(name, result, *args):
        try:
            f = getattr(lib, "tegula_" + name)
        except AttributeError:
            raise ImportError(f"{lib._name} has no function tegula_{name}: it is not of the version that this "
                              "package is of") from None
        f.restype, f.argtypes = result, args

    function("version", text)
    function("abi", i32)
    if lib.tegula_abi() != ABI:
        raise ImportError(
            f"{lib._name} has ABI {lib.tegula_abi()}, this package expects {ABI}: they are of different versions")
    function("last_error", text)
    function("set_error", None, text)
    function("num_diagnostics", size)
    function("get_diagnostic", i32, size, p)
    function("set_message_handler", None, MessageFunction, p)
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
    function("kernel_with_hooks", i32, p, Hook, Hook, Hook, p, p)
    function("kernel_is_hooked", i32, p, p)
    function("kernel_release", None, p)
    function("config_num_constexprs", size, p)
    function("config_constexpr", i32, p, size, p)
    function("config_int", i32, p, text, p)
    function("kernel_launch", i32, p, p, u32, u32, u32, p, p, p, size)
    function("kernel_launch_with", i32, p, p, GridFunction, p, p, p, p, size)
    function("kernel_compile", i32, p, text, p, p, size, p)
    function("kernel_written_args", i32, p, p, p, size, p)
    function("kernel_prepare", i32, p, p, GridFunction, p, p, p, p, size, p, p)
    function("kernel_explain", i32, p, p, text, GridFunction, p, p, p, p, size, i32, p)
    function("explanation_text", text, p)
    function("explanation_json", text, p)
    function("explanation_svg", text, p)
    function("explanation_release", None, p)
    function("device_record", i32, p, u32, u32, u32, p)
    function("debugger_execute", i32, p, text, p, p, p)
    function("debugger_release", None, p)
    function("advise_fusion", i32, p, size, p, size, p, p)
    function("prewarm", i32, p, text, p)
    function("seal", None)
    function("may_compile", i32)
    function("num_entries", size)
    function("entry", i32, size, p)
    function("entry_operand", i32, size, size, p)
    function("call", i32, p, text, p, p, size)
    function("image_describe", i32, p, p)
    function("image_ptx", text, p)
    function("image_transfers", text, p)
    function("image_release", None, p)
    return lib


def check(status):
    if messages:
        tell_messages()
    if status:
        raise last_error(status)


def last_error(status):
    text = lib.tegula_last_error().decode(errors="replace")
    if status != 1:
        return ERRORS.get(status, Error)(text)
    found, d = [], DiagnosticStruct(ctypes.sizeof(DiagnosticStruct))
    for i in range(lib.tegula_num_diagnostics()):
        if lib.tegula_get_diagnostic(i, ctypes.byref(d)) == 0:
            file = d.file and d.file.decode(errors="replace")
            found.append(
                Diagnostic(file, d.line, d.column, d.message.decode(errors="replace"), d.hint.decode(errors="replace")))
    return CompileError(text, found)


messages = []  # (kind, text): what the library told while it worked


def tell_messages():
    """Hands on what the library told: prints, and warnings at the line that called this module."""
    frame, level = sys._getframe(), 1
    while frame.f_back and frame.f_code.co_filename.startswith(HERE):
        frame, level = frame.f_back, level + 1
    while messages:
        kind, text = messages.pop(0)
        if kind == 1:
            print(text)
        else:
            warnings.warn(text, KernelWarning, level)


lib = declare(open_library())
kernel_launch = lib.tegula_kernel_launch


@MessageFunction
def message_handler(user, kind, text):
    messages.append((kind, text.decode(errors="replace")))


lib.tegula_set_message_handler(message_handler, None)
atexit.register(lambda: lib.tegula_set_message_handler(MessageFunction(), None))


def version():
    """The library's version, such as "0.1.0"."""
    return lib.tegula_version().decode()


def make(function, *args):
    """The handle that a function of the library makes."""
    handle = ctypes.c_void_p()
    check(function(*args, ctypes.byref(handle)))
    return handle.value
