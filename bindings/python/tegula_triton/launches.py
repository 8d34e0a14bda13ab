"""Launches of Triton's functions by Tegula."""

import inspect
import re
import weakref
from functools import partial

import tegula
import triton.language as tl
from tegula.dtypes import dtype_of
from tegula.launcher import describe
from tegula.memory import is_descriptor
from triton import knobs
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITCallable, JITFunction, MockTensor, TensorWrapper

from .compiled import MOST, CompiledKernel, specialisation_of
from .counts import count_kernel, count_refusal, counted_seconds
from .names import name_of
from .texts import replaced, text_of

REFUSALS = (tegula.CompileError, tegula.LaunchError, tegula.InternalError, TypeError, ValueError)
run_by_triton = JITFunction.run


def raise_where_sealed(why):
    """In a process that is sealed Triton compiles nothing either: what is not ready is an error."""
    if isinstance(why, tegula.LaunchError) and not tegula.library.lib.tegula_may_compile():
        raise why


def kernel_of(function, functions=None):
    """Tegula's kernel of a function of Triton's, autotuned or not. `functions`: see text_of(). Raises
    tegula.CompileError."""
    return parsed(*text_of(function, functions)[:2])


def parsed(text, name):
    kernel = tegula.parse(text, f"{name}.py")[name]
    count_kernel(name)
    return kernel


def as_argument(x):
    """An argument of Triton's as one of Tegula's."""
    if isinstance(x, TensorWrapper):
        return tegula.reinterpret(x.base, x.dtype)
    if isinstance(x, tl.constexpr):
        return x.value
    if is_descriptor(x) and isinstance(x.base, TensorWrapper):
        return tegula.TensorDescriptor(as_argument(x.base), x.shape, x.strides, x.block_shape,
                                       getattr(x, "padding", "zero"))
    return x


def like(tuple_, items):
    """A tuple or a named one with other items."""
    return tuple_._make(items) if hasattr(tuple_, "_fields") else tuple(items)


def functions_in(x):
    """The function or the functions in a tuple, where None stands for what is none; None if there are no functions."""
    if isinstance(x, tuple):
        items = like(x, map(functions_in, x))
        return items if any(item is not None for item in items) else None
    if isinstance(x, tl.constexpr):
        return functions_in(x.value)
    return x if isinstance(x, (JITCallable, Autotuner, Heuristics)) else None


def identity(functions):
    """What tells one result of functions_in() from another."""
    return (type(functions), *map(identity, functions)) if isinstance(functions, tuple) else id(functions)


def without(functions, x):
    """An argument without the functions in it, which the text holds."""
    if isinstance(functions, tuple):
        return like(functions, map(without, functions, x.value if isinstance(x, tl.constexpr) else x))
    return as_argument(x) if functions is None else None


def stand_in(x):
    """An argument of warmup(): a tensor that has but a type as a text."""
    if isinstance(x, MockTensor):
        found = dtype_of(x.dtype)
        if found is None:
            raise TypeError(f"warmup() is given {x.dtype}, which kernels cannot take")
        return f"*{found.name}"
    return x


def describer(replacement):
    """A function of a launch's arguments for its CompiledKernel; of a Replacement by a weak reference."""

    def of_launch(kernel, grid, *args, **kwargs):
        made = replacement()._compiled_of(kernel, kernel._bind(args, kwargs), kwargs, args, kwargs)
        kernel._results.append(made)
        return made

    return of_launch


class Replacement:
    """What launches a function of Triton's: function[grid](...) becomes replacement[grid](...)."""

    def __init__(self, function):
        self.function, self.source = function, function.src
        self.parameters = frozenset(function.arg_names)
        given = inspect.signature(function.fn).parameters.items()
        self._defaults = {name: as_argument(p.default) for name, p in given if p.default is not p.empty}
        self.kernel = None  # from the first launch on, if Tegula takes the text
        self._refused_text = None  # why it does not
        self._refused = {}  # forms of calls that Tegula has refused: why
        self._with_functions = {}  # kernels by the functions among their arguments
        self._multiplies = self._asks_for_target = False  # what the text does
        self._compiled = {}  # what stands for launches, by specialisation_of()
        self._constants = ()  # (dictionary, name, value) of what the text holds as constants

    def __getitem__(self, grid):
        if self._defaults and callable(grid):  # Triton's functions of the grid are given these too
            asked, defaults = grid, self._defaults
            grid = lambda meta: asked({**defaults, **meta})
        kernel = self.kernel
        if kernel is None:
            return partial(self._launch_first, grid)
        for values, name, value in self._constants:
            if (now := values.get(name)) is not value and now != value:
                if value is None:  # as in Triton, it may become something else
                    self._forget()
                    return partial(self._launch_first, grid)
                raise RuntimeError(f"global variable {name} has changed since {self.function.__name__} was compiled, "
                                   f"from {value} to {values.get(name)}")
        if self.function.pre_run_hooks:  # which the library knows nothing of
            return lambda *args, **kwargs: self._launch(grid, args, kwargs)
        return partial(kernel._launcher, kernel, grid)

    def _forget(self):
        """The text is made anew."""
        self.kernel = self._refused_text = None
        self._refused, self._with_functions, self._compiled, self._constants = {}, {}, {}, ()

    def _launch_first(self, grid, *args, **kwargs):
        with counted_seconds():
            if self._take_text():
                return self.kernel._launcher(self.kernel, grid, *args, **kwargs)
        return self._launch_by_triton(self._refused_text, grid, args, kwargs)

    def _take_text(self):
        """Makes the kernel, unless that has failed. Whether there is one."""
        if self.kernel is None and self._refused_text is None:
            try:
                text, name, self._constants = text_of(self.function)
                self._multiplies = re.search(r"\bdot\b|@ ", text) is not None
                self._asks_for_target = re.search(r"target|capability|\bis_(cuda|hip)", text) is not None
                kernel = parsed(text, name)
            except REFUSALS as why:
                self._refused_text = str(why)
            else:
                kernel._launch = self._launch
                kernel._results = []  # what the library hands out
                describe(kernel, describer(weakref.ref(self)))
                self.kernel = kernel
        return self.kernel is not None

    def _launch(self, grid, args, kwargs):
        """A launch that the library does not recognise; takes the place of Kernel._launch()."""
        for hook in self.function.pre_run_hooks:
            hook(*args, **kwargs)
        return self._by_tegula(args, kwargs, lambda kernel, call: kernel._launch_call(call, grid),
                               lambda why: self._launch_by_triton(why, grid, args, kwargs))

    def warm_up(self, grid, args, kwargs):
        """What a launch would run, without launching. Arguments may stand for others, as in JITFunction.warmup()."""
        by_triton = lambda why: self._run_by_triton(why, grid, args, kwargs, warmup=True)
        with counted_seconds():
            if self._take_text():
                stand_ins = tuple(map(stand_in, args)), {name: stand_in(x) for name, x in kwargs.items()}
                return self._by_tegula(*stand_ins, lambda kernel, call: None, by_triton, stands_for=(args, kwargs))
        return by_triton(self._refused_text)

    def _by_tegula(self, args, kwargs, work, by_triton, stands_for=None):
        """Does work(kernel, call) and gives what stands for the call, or by_triton(why) if Tegula refuses it. `stands_for`:
        the call's own arguments, where types stand for some."""
        form = self._form(args, kwargs) if self._refused else None
        if form is not None and form in self._refused:
            return by_triton(self._refused[form])
        try:
            options = self._options(kwargs)
            kernel, args_, kwargs_ = self._without_functions(args, options)
            call = kernel._bind(args_, kwargs_, stands_for is not None)
            work(kernel, call)
            compiled = self._compiled_of(kernel, call, options, *(stands_for or (args, kwargs)))
            if stands_for:
                compiled.asm
            return compiled
        except REFUSALS as why:
            raise_where_sealed(why)
            if not isinstance(why, (TypeError, ValueError)):  # those are of this call's values, and found at once
                self._refused[self._form(args, kwargs)] = str(why)
            return by_triton(str(why))

    def _without_functions(self, args, kwargs):
        """(kernel, args, kwargs) of Tegula's: functions among the arguments become part of the text."""
        given = {**dict(zip(self.function.arg_names, args)), **kwargs}
        functions = {name: found for name, x in given.items() if (found := functions_in(x)) is not None}
        if not functions:
            return self.kernel, tuple(map(as_argument, args)), {name: as_argument(x) for name, x in kwargs.items()}
        key = tuple((name, identity(x)) for name, x in functions.items())
        if key not in self._with_functions:  # which keeps the functions alive
            text, name, constants = text_of(self.function, functions)
            self._with_functions[key] = parsed(text, name), functions
            self._constants += tuple(c for c in constants if c not in self._constants)
        values = {replaced(name) if name in functions else name: without(functions.get(name), x) for name, x in given.items()}
        return self._with_functions[key][0], (), values

    def _options(self, kwargs):
        """Arguments with the options as Tegula has them. Raises TypeError for what it lacks."""
        if knobs.language.fp32_default not in (None, "tf32") and self._multiplies:
            raise TypeError(f"TRITON_F32_DEFAULT is {knobs.language.fp32_default!r}, which Tegula does not follow")
        if kwargs.get("arch") is not None and self._asks_for_target:
            raise TypeError(f"arch is {kwargs['arch']!r}, and the kernel asks for its target")
        if "arch" in kwargs:
            kwargs = {name: x for name, x in kwargs.items() if name != "arch" or name in self.parameters}
        if "extern_libs" in kwargs and not kwargs["extern_libs"]:
            kwargs = {**kwargs, "extern_libs": None}  # a dictionary cannot be a key
        if not knobs.language.default_fp_fusion and "enable_fp_fusion" not in self.parameters:
            kwargs = {"enable_fp_fusion": False, **kwargs}
        return kwargs

    def _compiled_of(self, kernel, call, kwargs, *given):
        """The CompiledKernel of a call, one for each specialisation; `given` are the positional and the named arguments of
        Triton's."""
        key = (id(kernel), *specialisation_of(call))
        found = self._compiled.get(key)
        if found is None:
            if len(self._compiled) == MOST:
                self._compiled.clear()
            options = {name: x for name, x in kwargs.items() if name not in self.parameters and name != "stream"}
            name = name_of(self.function, *given) or kernel.name
            found = self._compiled[key] = CompiledKernel(self, kernel, call, options, name)
        return found

    def _launch_by_triton(self, why, grid, args, kwargs):
        if self.kernel is not None:
            self.kernel._learns = False  # the form of this call must not be recognised
        count_refusal(self.function.__name__, why)
        return self._run_by_triton(why, grid, args, kwargs, warmup=False)

    def _run_by_triton(self, why, grid, args, kwargs, warmup):
        try:
            return run_by_triton(self.function, *args, grid=grid, warmup=warmup, **kwargs)
        except RuntimeError as error:
            if "active drivers" not in str(error):
                raise
            # Without a GPU Triton says no more than that, and nobody would know what is wrong with the launch.
            raise RuntimeError(f"{why.strip()}\n(so Tegula refuses this launch of {self.function.__name__}(), and "
                               "Triton, which it goes to then, finds no GPU)") from None

    def _form(self, args, kwargs):
        """What of a call decides on whether Tegula takes it: constexprs, options, types and devices."""
        constexprs = {p.name for p in self.function.params if p.is_constexpr}
        form = []
        for name, x in (*zip(self.function.arg_names, args), *kwargs.items()):
            if name in constexprs or name not in self.parameters:
                form.append((name, type(x).__name__, repr(x)))
            else:
                form.append((name, type(x).__name__, str(getattr(x, "dtype", "")), str(getattr(x, "device", ""))))
        return tuple(form)


def replacement_of(function):
    found = function.__dict__.get("_tegula_replacement")
    if found is None or found.source is not function.src:
        found = function.__dict__["_tegula_replacement"] = Replacement(function)
    return found


def launch_item(function, grid):
    """function[grid]."""
    return replacement_of(function)[grid]


def run(self, *args, grid, warmup, **kwargs):
    """JITFunction.run()."""
    replacement = replacement_of(self)
    return replacement.warm_up(grid, args, kwargs) if warmup else replacement[grid](*args, **kwargs)
