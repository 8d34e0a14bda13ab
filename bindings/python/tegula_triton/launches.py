"""Launches of Triton's functions by Tegula."""

import inspect
from functools import partial

import tegula
import triton.language as tl
from tegula.kernel import Kernel
from tegula.memory import is_descriptor
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITCallable, JITFunction, TensorWrapper

from .counts import count_kernel, count_refusal, counted_seconds
from .texts import replaced, text_of

REFUSALS = (tegula.CompileError, tegula.LaunchError, tegula.InternalError, TypeError, ValueError)
run_by_triton = JITFunction.run


def kernel_of(function, functions=None):
    """Tegula's kernel of a function of Triton's, autotuned or not. `functions`: see text_of(). Raises
    tegula.CompileError."""
    return kernel_and_constants(function, functions)[0]


def kernel_and_constants(function, functions=None):
    text, name, constants = text_of(function, functions)
    kernel = tegula.parse(text, f"{name}.py")[name]
    count_kernel(name)
    return kernel, constants


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


class Replacement:
    """What launches a function of Triton's: function[grid](...) becomes replacement[grid](...)."""

    def __init__(self, function):
        self.function, self.source = function, function.src
        self.parameters = frozenset(function.arg_names)
        given = inspect.signature(function.fn).parameters.items()
        self._defaults = {name: as_argument(p.default) for name, p in given if p.default is not p.empty}
        self.kernel = None  # from the first launch on, if Tegula takes the text
        self._refused_text = None  # why it does not
        self._refused = set()  # forms of calls that Tegula has refused
        self._with_functions = {}  # kernels by the functions among their arguments
        self._constants = ()  # (dictionary, name, value) of what the text holds as constants

    def __getitem__(self, grid):
        if self._defaults and callable(grid):  # Triton's functions of the grid are given these too
            asked, defaults = grid, self._defaults
            grid = lambda meta: asked({**defaults, **meta})
        kernel = self.kernel
        if kernel is None:
            return partial(self._launch_first, grid)
        for values, name, value in self._constants:
            if values.get(name) is not value:
                raise RuntimeError(f"global variable {name} has changed since {self.function.__name__} was compiled, "
                                   f"from {value} to {values.get(name)}")
        if self.function.pre_run_hooks:  # which the library knows nothing of
            return lambda *args, **kwargs: self._launch(grid, args, kwargs)
        return partial(kernel._launcher, kernel, grid)

    def _launch_first(self, grid, *args, **kwargs):
        if self._refused_text is None:
            with counted_seconds():
                try:
                    kernel, self._constants = kernel_and_constants(self.function)
                except REFUSALS as why:
                    self._refused_text = str(why)
                else:
                    kernel._launch = self._launch
                    self.kernel = kernel
                    return kernel._launcher(kernel, grid, *args, **kwargs)
        return self._launch_by_triton(self._refused_text, grid, args, kwargs)

    def _launch(self, grid, args, kwargs):
        """A launch that the library does not recognise; takes the place of Kernel._launch()."""
        for hook in self.function.pre_run_hooks:
            hook(*args, **kwargs)
        form = self._form(args, kwargs) if self._refused else None
        if form is not None and form in self._refused:
            return self._launch_by_triton(None, grid, args, kwargs)
        try:
            given = {**dict(zip(self.function.arg_names, args)), **kwargs}
            functions = {name: found for name, x in given.items() if (found := functions_in(x)) is not None}
            if functions:
                self._launch_with_functions(grid, given, functions)
            else:
                Kernel._launch(self.kernel, grid, tuple(map(as_argument, args)),
                               {name: as_argument(x) for name, x in kwargs.items()})
        except REFUSALS as why:
            if not isinstance(why, (TypeError, ValueError)):  # those are of this call's values, and found at once
                self._refused.add(self._form(args, kwargs))
            self._launch_by_triton(str(why), grid, args, kwargs)

    def _launch_with_functions(self, grid, given, functions):
        """Functions among the arguments become part of the text."""
        key = tuple((name, identity(x)) for name, x in functions.items())
        if key not in self._with_functions:  # which keeps the functions alive
            self._with_functions[key] = kernel_of(self.function, functions), functions
        values = {replaced(name) if name in functions else name: without(functions.get(name), x) for name, x in given.items()}
        Kernel._launch(self._with_functions[key][0], grid, (), values)

    def _launch_by_triton(self, why, grid, args, kwargs):
        if self.kernel is not None:
            self.kernel._learns = False  # the form of this call must not be recognised
        count_refusal(self.function.__name__, why)
        run_by_triton(self.function, *args, grid=grid, warmup=False, **kwargs)

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


class Launched:
    """What JITFunction.run() returns in place of Triton's compiled kernel: launched[grid](*args) launches the function
    again with the same options; args are all of its parameters in order, constexprs included."""
    __slots__ = ("_replacement", "_options")

    def __init__(self, replacement, options):
        self._replacement, self._options = replacement, options

    def __getitem__(self, grid):
        return partial(self._replacement[grid], **self._options)


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
    if warmup or grid is None:
        return run_by_triton(self, *args, grid=grid, warmup=warmup, **kwargs)
    replacement = replacement_of(self)
    replacement[grid](*args, **kwargs)
    return Launched(replacement, {name: x for name, x in kwargs.items() if name not in replacement.parameters})
