"""Files in the Triton language."""

import ctypes
import os
import sys

from .errors import CompileError, Wrong
from .kernel import Kernel
from .library import lib, make
from .structs import ConstexprStruct
from .values import constexpr_words


def load(path, globals=None):
    """Parses a file in the Triton language. Its kernels are attributes: load("softmax.py").softmax_kernel. Names that
    the file imports are looked up in the files of its package and in sys.path. `globals` are values of module-level
    names, there and here, in place of those that the files give them: load("k.py", {"IS_NPU": False})."""
    array, keep = global_values(globals or {})
    folders = import_folders()
    return Program(
        make(lib.tegula_program_load_with, os.fsencode(path), array, len(array), folders, len(folders)), str(path))


def parse(text, name="<text>", globals=None):
    """The same from text; `name` stands for the file in messages and is where imports are looked for from."""
    if not isinstance(text, str):
        raise TypeError(f"parse() takes the text of a file as a str, found {type(text).__name__}")
    array, keep = global_values(globals or {})
    folders = import_folders()
    return Program(
        make(lib.tegula_program_parse_with, text.encode(), name.encode(), array, len(array), folders, len(folders)),
        name)


def import_folders():
    """The folders of sys.path but for Python's own modules, as C takes them."""
    own = os.path.dirname(os.__file__)
    folders = [os.fsencode(folder or os.getcwd()) for folder in sys.path if folder != own]
    return (ctypes.c_char_p * len(folders))(*folders)


def global_values(globals):
    keep, made = [], []
    for name, value in globals.items():
        try:
            made.append(ConstexprStruct(name.encode(), *constexpr_words(value, keep), 0))
        except Wrong as wrong:
            raise TypeError(f"global '{name}': {wrong}") from None
    return (ConstexprStruct * len(made))(*made), keep


class Program:
    """The @triton.jit functions of a file, as attributes or by program["name"]."""

    def __init__(self, handle, name):
        self._handle, self._name, self._made = handle, name, {}
        self.kernels = [
            lib.tegula_program_kernel_name(handle, i).decode() for i in range(lib.tegula_program_num_kernels(handle))
        ]

    def __getitem__(self, name):
        if name not in self._made:
            self._made[name] = Kernel(make(lib.tegula_program_kernel, self._handle, name.encode()), name)
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

    def __del__(self, release=lib.tegula_program_release):
        release(self._handle)
