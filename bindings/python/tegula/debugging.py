"""Recorded programs, and questions about them."""

import ctypes
import json

from .devices import Device
from .errors import Error
from .library import check, lib


class Debugger:
    """What one program of a launch on the emulator did, statement by statement. While it is a context, launches with
    debug=2 that have the program are recorded, each in place of the one before; behind it commands look at the last one:

        with tegula.Debugger(program=(1, 0, 0)) as debugger:
            kernel[(2, )](y, x, 3, ROWS=16, debug=2)
        print(debugger("break 21"), debugger("continue"), debugger("print acc[0:2]"))

    `program` are its indices, or the first one alone; `device` is an emulator, Device.emulator() if None. A launch that
    fails raises as always, and what it did until then is there."""

    def __init__(self, program=0, device=None):
        indices = tuple(program) if isinstance(program, (tuple, list)) else (program, )
        if not 1 <= len(indices) <= 3:
            raise ValueError(f"a program has one to three indices, found {program!r}")
        self._program = indices + (0, ) * (3 - len(indices))
        self._device, self._handle = device or Device.emulator(), None

    def __enter__(self):
        handle = ctypes.c_void_p()
        check(lib.tegula_device_record(self._device._handle, *self._program, ctypes.byref(handle)))
        self._handle = handle.value
        return self

    def __exit__(self, *_):
        self._execute("where")  # the first command ends the recording

    def _execute(self, command):
        if self._handle is None:
            raise ValueError("nothing was recorded: launch within 'with tegula.Debugger(...) as debugger:'")
        text, facts, refused = ctypes.c_char_p(), ctypes.c_char_p(), ctypes.c_int32()
        check(
            lib.tegula_debugger_execute(self._handle, command.encode(), ctypes.byref(text), ctypes.byref(facts),
                                        ctypes.byref(refused)))
        return text.value.decode(), json.loads(facts.value.decode()), refused.value

    def __call__(self, command):
        """The text that `tegula debug` answers the command with. Raises Error for one that means nothing."""
        text, _, refused = self._execute(command)
        if refused:
            raise Error(text.removeprefix("error: ").rstrip("\n"))
        return text

    def facts(self, command):
        """The same as a dictionary: facts("print acc")["values"]."""
        _, facts, refused = self._execute(command)
        if refused:
            raise Error(facts["error"])
        return facts

    def value(self, name):
        """What the name stands for at the place: nested lists of numbers, None for elements that no thread came to.
        NaNs and infinities are floats; pointers are texts."""

        def number(x):
            return [number(y) for y in x] if isinstance(x, list) else float(x) if x in ("nan", "inf", "-inf") else x

        return number(self.facts(f"print {name}")["values"])

    def __del__(self, release=lib.tegula_debugger_release):
        if self.__dict__.get("_handle"):
            release(self._handle)
