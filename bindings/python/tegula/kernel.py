"""Kernels: launched, tuned with hooks, looked at."""

import ctypes
from functools import partial

from .devices import lent
from .dtypes import BOOL, DOUBLE, DOUBLE_STRUCT, DTYPES, INT, NONE, STRING, TUPLE, WORD_STRUCT
from .explanation import Explanation
from .grids import grid_callback, grid_extents, pending_calls, tokens
from .image import Image
from .launcher import launcher_of
from .library import check, kernel_launch, lib, make, messages
from .plans import OPTIONS
from .signature import Signature
from .structs import ConstexprStruct


class Kernel(Signature):
    """A kernel of a file. kernel[grid](*args, **constexprs_and_options) launches it."""
    _learns = True  # whether the launcher is to recognise calls like those that are launched

    def __init__(self, handle, name):
        super().__init__(handle, name)
        self._launcher = launcher_of(self)

    def __del__(self, release=lib.tegula_kernel_release):
        release(self._handle)

    def __repr__(self):
        return f"<tegula.Kernel {self.name}({', '.join(map(repr, self.params))})>"

    def __getitem__(self, grid):
        return partial(self._launcher, self, grid)

    def __call__(self, *args, **kwargs):
        raise TypeError(f"{self.name} is a kernel and needs a grid: {self.name}[grid](...)")

    @property
    def is_tuned(self):
        """Whether launches choose among configurations (@triton.autotune)."""
        tuned = ctypes.c_int32()
        check(lib.tegula_kernel_is_tuned(self._handle, ctypes.byref(tuned)))
        return bool(tuned.value)

    def with_hooks(self, pre_hook=None, post_hook=None, config_hook=None):
        """The same kernel, tuned with hooks in place of those of its file (None: the file's own), which get the arguments
        of the launch by name, with the constexprs and options of the configuration at hand, as Triton's do:

        pre_hook(kwargs, reset_only=False) before each timed run, and once with reset_only=True when the choice is made;
        post_hook(kwargs, exception=None) behind each timed run;
        config_hook(kwargs) as the pre_hook of each triton.Config: before each launch, timed ones too.

        reset_to_zero and restore_value hold besides. On the emulator nothing is timed."""
        from .hooks import HookedKernel  # which is a Kernel itself
        return HookedKernel(self, {"config": config_hook, "pre": pre_hook, "post": post_hook})

    def _launch(self, grid, args, kwargs):
        self._launch_call(self._bind(args, kwargs), grid)

    def _launch_call(self, call, grid):
        if call.open and callable(grid):
            return self._within(call, self._with_callback, call, grid, lib.tegula_kernel_launch_with)
        if callable(grid):
            grid = grid(call.meta())
        if type(grid) is tuple and len(grid) == 1 and type(grid[0]) is int:
            x, y, z = grid[0], 1, 1
            if x >> 31:
                grid_extents(grid)
        else:
            x, y, z = grid_extents(grid)
        if call.ranges:
            return self._within(
                call, lambda: check(
                    kernel_launch(self._handle, call.device._handle, x, y, z, call.options, call.stream, call.words,
                                   call.count)))
        status = kernel_launch(self._handle, call.device._handle, x, y, z, call.options, call.stream, call.words,
                                call.count)
        if status or messages:
            check(status)

    def _with_callback(self, call, grid, function, *results):
        """Calls a function of the library that asks for the grid."""
        token = next(tokens)
        pending_calls[token] = pending = [self, grid, call.meta(), None]
        try:
            status = function(self._handle, call.device._handle, grid_callback, token, call.options, call.stream,
                              call.words, call.count, *results)
            if pending[3] is not None:
                raise pending[3]
            check(status)
        finally:
            del pending_calls[token]

    def _within(self, call, work, *args):
        """Works while the emulator may access the arrays of the call."""
        return lent(call.device._handle, call.ranges, lambda: work(*args))

    def _config(self, config):
        """A configuration of this kernel as a dictionary."""
        known = self._configs.get(config)
        if known is None:
            known = {}
            for name in OPTIONS:
                value = ctypes.c_int64()
                check(lib.tegula_config_int(config, name.encode(), ctypes.byref(value)))
                known[name] = value.value
            for i in range(lib.tegula_config_num_constexprs(config)):
                c = ConstexprStruct()
                check(lib.tegula_config_constexpr(config, i, ctypes.byref(c)))
                kind = c.tag & 0xffffffff
                if kind == TUPLE:  # the call has it
                    continue
                known[c.name.decode()] = (
                    None if kind == NONE else bool(c.bits) if kind == BOOL else c.bits if kind == INT else
                    DOUBLE_STRUCT.unpack(WORD_STRUCT.pack(c.bits))[0] if kind == DOUBLE else ctypes.
                    string_at(c.bits).decode() if kind == STRING else list(DTYPES.values())[(c.tag >> 32) - 1])
            self._configs[config] = known
        return known

    # ---- Looking at what is compiled

    def compile(self, *args, target=None, **kwargs):
        """The Image for a GPU such as "sm_90a" (if None, that of the arguments' device), without launching. Arguments
        are those of a launch, or texts for their types: "*f32" (aligned to 16 bytes; "*f32:1" if not), "i32", "i32:16",
        "f32", "*f32[64,32]" or "tensordesc<fp32[64, 32]>" (a tensor descriptor of such blocks)."""
        call = self._bind(args, kwargs, types=True)
        target = target or call.device.target
        return self._compiled_image(target, call.options, call.words, call.count)

    def ptx(self, *args, target=None, **kwargs):
        """The PTX of compile()."""
        return self.compile(*args, target=target, **kwargs).ptx

    def prepare(self, *args, device=None, **kwargs):
        """Makes ready what a launch with such arguments runs, without launching, and gives its Image; texts may stand for
        arguments as in compile(). `device`: where there is no array to tell it. For kernels that are not tuned."""
        call = self._bind(args, kwargs, types=True)
        call.device = device or call.device
        image = ctypes.c_void_p()
        self._with_callback(call, (1, ), lib.tegula_kernel_prepare, ctypes.byref(image), None)
        return Image(image.value)

    def _compiled_image(self, target, options, words, count):
        """The Image for a GPU of a call that _bind() has made ready."""
        return Image(make(lib.tegula_kernel_compile, self._handle, target.encode(), options, words, count))

    def _prepared_image(self, device, options, words, count):
        """The Image that such a call runs, made ready on the device. For kernels that are not tuned."""
        image, config = ctypes.c_void_p(), ctypes.c_void_p()
        check(
            lib.tegula_kernel_prepare(self._handle, device._handle, grid_callback, 0, options, None, words, count,
                                      ctypes.byref(image), ctypes.byref(config)))
        return Image(image.value, dict(self._config(config.value)))

    def facts(self, *args, grid=(1, ), **kwargs):
        """The Image that a launch with these arguments runs, made ready on their device (and tuned, if need be):
        registers, spills, shared memory, config."""
        call = self._bind(args, kwargs)
        image, config = ctypes.c_void_p(), ctypes.c_void_p()
        self._within(call, self._with_callback, call, grid, lib.tegula_kernel_prepare, ctypes.byref(image),
                     ctypes.byref(config))
        return Image(image.value, dict(self._config(config.value)))

    def explain(self, *args, grid=(1, ), target=None, measure=False, **kwargs):
        """The Explanation of a launch with these arguments: what it costs and why, without running it. `target` names
        a GPU such as "sm_90a" (if None, that of the arguments' device). `measure`: launch and time it as well, several
        times, on a GPU."""
        call = self._bind(args, kwargs)
        explanation = ctypes.c_void_p()

        def work():
            token = next(tokens)
            pending_calls[token] = pending = [self, grid, call.meta(), None]
            try:
                status = lib.tegula_kernel_explain(self._handle, call.device._handle, target and target.encode(),
                                                   grid_callback, token, call.options, call.stream, call.words, call.count,
                                                   measure, ctypes.byref(explanation))
                if pending[3] is not None:
                    raise pending[3]
                check(status)
            finally:
                del pending_calls[token]

        self._within(call, work)
        return Explanation(explanation.value)
