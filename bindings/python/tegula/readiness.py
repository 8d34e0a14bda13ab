"""What is compiled before a process serves, and nothing behind it."""

import ctypes
import os

from .devices import Device
from .library import check, lib


def prewarm(file, device=None):
    """Makes ready, in parallel, all that the file names, and returns how many kernels are: of a list (TEGULA_RECORD), by
    compiling or from the cache; of a package (`tegula build`), by loading its code. Launches of any program with the same
    text find it. `device`: Device.default() if not given."""
    ready = ctypes.c_size_t()
    device = device or Device.default()
    check(lib.tegula_prewarm(device._handle, os.fsencode(file), ctypes.byref(ready)))
    return ready.value


def seal():
    """From now on nothing is compiled or tuned in this process, and the library opens no file: what is not ready is a
    LaunchError with the line that the list lacks. There is no way back."""
    lib.tegula_seal()
