"""The kernel library (docs/kernels.md)."""

import ctypes
import difflib
import operator

from .arguments import words_of
from .devices import device_at, lent, raise_places
from .dtypes import POINTER, TENSOR
from .errors import Wrong
from .launcher import entry_function
from .library import check, lib
from .memory import array_of, elements_of, extent_of, is_read_only
from .structs import ConstexprStruct, EntryStruct, OperandStruct, TensorStruct
from .torch_support import stream_of
from .values import constexpr_words


class Entry:
    """An entry of the kernel library: kernels.rms_norm(out, x, weight, residual=r). Operands are tensors or arrays,
    numbers, bools and names of choices (of those that are numbers also ints), by position or by name; None stands for
    one that is left out. `stream`: as of a launch."""

    def __init__(self, index):
        facts, operand = EntryStruct(ctypes.sizeof(EntryStruct)), OperandStruct(ctypes.sizeof(OperandStruct))
        check(lib.tegula_entry(index, ctypes.byref(facts)))
        self.__name__ = self.name = facts.name.decode()
        self.formula, self.signature = facts.formula.decode(), facts.signature.decode()
        self.__doc__ = f"{self.formula}\n\n{self.name}({self.signature})"
        self._function = entry_function(index)
        self._operands = {}
        for i in range(facts.num_operands):
            check(lib.tegula_entry_operand(index, i, ctypes.byref(operand)))
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
        _, item, shape, strides, _ = elements_of(x)
        shape = [operator.index(n) for n in shape]
        if strides is not None:
            if any(s % item for s in strides):
                raise TypeError(f"{self.name}(), operand '{name}': strides that are no multiples of an element's size")
            strides = (ctypes.c_int64 * len(shape))(*[s // item for s in strides])
        extents = (ctypes.c_int64 * len(shape))(*shape)
        made = TensorStruct(address, len(shape), extents, strides)
        keep += (extents, strides, made)
        return TENSOR | tag >> 32 << 32, ctypes.addressof(made)

    def __call__(self, *args, **kwargs):
        return self._function(self, *args, **kwargs)

    def _call(self, *args, stream=None, **kwargs):
        words, keep, arrays = [], [], {}
        for name, value in self._named(args, kwargs).items():
            try:
                if isinstance(value, str):
                    tag, bits = constexpr_words(value, keep)
                else:
                    tag, bits, place = words_of(value)
                    if tag & 0xffffffff == POINTER:
                        arrays[name] = value, place
                        tag, bits = self._tensor(name, value, tag, bits, keep)
            except Wrong as wrong:
                raise TypeError(f"{self.name}(), operand '{name}': {wrong}") from None
            words.append(ConstexprStruct(name.encode(), tag, bits, 0))
        if not arrays:
            raise TypeError(f"{self.name}() got no array or tensor")
        (first, (_, place)), *others = arrays.items()
        for other, (_, another) in others:
            if another != place:
                raise_places(self.name, first, place, other, another)
        device, ranges = device_at(place), []
        if device.is_emulator:
            for name, (x, _) in arrays.items():
                if self._operands[name][1] and is_read_only(x):
                    raise TypeError(f"{self.name}(), operand '{name}': it is written, but the array is read-only; pass a "
                                    "copy")
                ranges.append(extent_of(x))
        elif stream is None:
            stream = stream_of([array_of(x) for x, _ in arrays.values()], device)
        stream = getattr(stream, "cuda_stream", stream)
        operands = (ConstexprStruct * len(words))(*words)
        lent(
            device._handle, [r for r in ranges if r[1]], lambda: check(
                lib.tegula_call(device._handle, self.name.encode(), stream, operands, len(words))))


class Library:
    """The kernel library (docs/kernels.md): its entries are attributes, and repr() of one is its signature."""

    def __init__(self):
        self._entries = {}

    def _all(self):
        if not self._entries:
            entries = {entry.name: entry for entry in map(Entry, range(lib.tegula_num_entries()))}
            vars(self).update(entries)  # from now on found without __getattr__
            self._entries = entries  # all at once: other threads may ask meanwhile
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


kernels = Library()
