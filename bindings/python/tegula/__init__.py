"""Tegula from Python: kernels in the Triton language, launched as Triton launches them.

    import tegula
    softmax = tegula.load("softmax.py").softmax_kernel
    softmax[(rows,)](out, x, x.stride(0), cols, BLOCK_SIZE=1024, num_warps=4)

Arguments are torch tensors, numpy arrays, anything with __cuda_array_interface__ or __array_interface__, numbers, bools,
None and tensor descriptors (TensorDescriptor, or Triton's own), by position or by name. Data in a GPU's memory is worked
on there, on torch's current stream; data in host memory is worked on where it is, by the emulator. Tuples and named
tuples of these are arguments too. The grid is a tuple, or a function of a dictionary of all arguments.

This package needs the library libtegula.so and the standard library alone. It looks for the former in TEGULA_LIBRARY,
beside itself, in the installation or build that it belongs to, and where the system looks.
"""

from . import dtypes as _dtypes
from .arguments import reinterpret
from .debugging import Debugger
from .descriptors import TensorDescriptor
from .devices import Device, DeviceArray
from .dtypes import dtype
from .entries import kernels
from .errors import (CompileError, DeviceError, DeviceLostError, Diagnostic, Error, FileError, InternalError,
                     KernelWarning, LaunchError)
from .explanation import Explanation, FusionAdvice, advise_fusion
from .image import Image
from .kernel import Kernel
from .library import version
from .programs import Program, load, parse
from .readiness import prewarm, seal

__all__ = [
    "load", "parse", "prewarm", "seal", "kernels", "Program", "Kernel", "Image", "Debugger", "Explanation", "FusionAdvice", "advise_fusion", "Device",
    "DeviceArray", "TensorDescriptor", "reinterpret", "cdiv", "next_power_of_2", "Error", "CompileError", "LaunchError",
    "DeviceError", "DeviceLostError", "FileError", "InternalError", "Diagnostic", "KernelWarning", "version", "dtype",
    *_dtypes.DTYPES
]
globals().update(_dtypes.DTYPES)


def cdiv(a, b):
    """a / b, rounded up: the number of blocks of b that a elements need."""
    return -(-a // b)


def next_power_of_2(n):
    """The power of two at or above n."""
    return 1 << max(0, int(n) - 1).bit_length()


for _name in __all__:  # messages and pickles name what users import
    if getattr(globals()[_name], "__module__", "").startswith("tegula."):
        globals()[_name].__module__ = "tegula"
