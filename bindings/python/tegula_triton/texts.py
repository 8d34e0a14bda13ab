"""The text of a kernel with all that it reaches: helpers and constants of other modules, closures, named tuples.

Tegula reads kernels as text. A function of Triton's in a running process names things by its module's globals and by its
closure; here each of them becomes a definition ahead of the function, under a name of its own.
"""

import ast
import contextlib
import enum
import inspect
import math
import re
import textwrap

import triton
import triton.language as tl
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITCallable

try:
    from triton.runtime.jit import ConstexprFunction
except ImportError:  # of later versions
    ConstexprFunction = ()

MISSING = object()
FOREIGN_MODULES = ("triton", "torch")  # modules whose attributes Tegula knows, or which only the host uses
_FLOATS = {"fp8e4nv": "float8e4nv", "fp8e5": "float8e5", "fp8e4b15": "float8e4b15", "fp8e4b8": "float8e4b8",
           "fp8e5b16": "float8e5b16", "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64"}


def literal(value):
    """The text of a constant. Raises TypeError for what is none."""
    if isinstance(value, tl.constexpr):
        value = value.value
    if isinstance(value, tl.pointer_type):
        return f"tl.pointer_type({literal(value.element_ty)}{', const=True' * value.const})"
    if isinstance(value, tl.block_type):
        return f"tl.block_type({literal(value.element_ty)}, {literal([int(n) for n in value.shape])})"
    if isinstance(value, tl.dtype):
        return "tl." + _FLOATS.get(str(value), str(value))
    if isinstance(value, enum.Enum):
        value = value.value
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else f'float("{value}")'
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    if isinstance(value, (tuple, list)) and not hasattr(value, "_fields"):
        items = "".join(literal(item) + ", " for item in value)
        return f"({items})" if isinstance(value, tuple) else f"[{items}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{literal(k)}: {literal(v)}" for k, v in value.items()) + "}"
    raise TypeError(f"{type(value).__name__} is no constant")


class HostFunction:
    """A plain Python function that kernels call while they are compiled, with what add_function() asks of functions."""

    def __init__(self, function):
        source = textwrap.dedent(inspect.getsource(function))
        self.fn, self.src = function, source[re.search(r"^def\s", source, re.MULTILINE).start():]


def runs_at_compile_time(function):
    return isinstance(function, (HostFunction, ConstexprFunction))


def unwrapped(function):
    """The function of Triton's under autotuners and heuristics."""
    while isinstance(function, (Autotuner, Heuristics)):
        function = function.fn
    return function


def value_of_name(function, name):
    """(whether there is one, the value) of a name that a function uses."""
    code, closure = function.fn.__code__, function.fn.__closure__
    if closure and name in code.co_freevars:
        try:
            return True, closure[code.co_freevars.index(name)].cell_contents
        except ValueError:  # not yet assigned
            return False, None
    globals_ = function.fn.__globals__
    return name in globals_, globals_.get(name)


def dotted(node):
    """["a", "b", "c"] of a.b.c; None for other expressions."""
    names = []
    while isinstance(node, ast.Attribute):
        names.insert(0, node.attr)
        node = node.value
    return [node.id, *names] if isinstance(node, ast.Name) else None


class Text:
    """Definitions in the order in which they are needed, each value once."""

    def __init__(self):
        self.imports, self.definitions = ["import triton", "import triton.language as tl"], []
        self._names = {}  # (wanted name, identity): the name that stands for the value
        self._values = {"tl": tl, "triton": triton}  # by their names; keeps them alive
        self._host_functions = {}  # by the functions
        self.constants = {}  # (id of a module's dictionary, name): the dictionary, the name and the value that was taken

    def __str__(self):
        return "\n".join(dict.fromkeys(self.imports)) + "\n\n" + "\n\n".join(self.definitions) + "\n"

    def _name_for(self, wanted, value):
        """A name for the value, and whether it is yet to be defined."""
        key = (wanted, id(value))
        if key in self._names:
            return self._names[key], False
        name, number = wanted, 2
        while name in self._values and self._values[name] is not value:
            name, number = f"{wanted}_{number}", number + 1
        is_new = name not in self._values
        self._values[name] = value
        self._names[key] = name
        return name, is_new

    def _import(self, wanted, value, module, name):
        given, is_new = self._name_for(wanted, value)
        if is_new:
            self.imports.append(f"from {module} import {name}" + (f" as {given}" if given != name else ""))
        return given

    def _constant(self, wanted, value, form):
        try:
            text = literal(value)
        except TypeError:
            return None
        given, is_new = self._name_for(wanted, value)
        if is_new:
            self.definitions.append(form.format(given, text))
        return given

    def add(self, wanted, value):
        """Defines a value; the name under which it stands, or None if a text cannot hold it."""
        value = unwrapped(value)
        if isinstance(value, JITCallable):
            module = value.fn.__module__
            if module.startswith("triton.") and not module.startswith(("triton.tools", "triton.test")):
                return self._import(wanted, value, module, value.fn.__name__)
            return self.add_function(value, wanted)
        if inspect.ismodule(value):
            return self._module(wanted, value)
        if isinstance(value, tl.constexpr):
            if isinstance(value.value, JITCallable):
                return self.add(wanted, value.value)
            if inspect.isfunction(value.value):
                return self._host_function(wanted, value.value)
            return self._constant(wanted, value, "{} = tl.constexpr({})")
        if isinstance(value, tl.dtype):
            return self._constant(wanted, value, "{} = {}")
        if inspect.isclass(value):
            return self._class(wanted, value)
        if value is None or isinstance(value, (bool, int, float, str, tuple, list, dict)):
            return self._constant(wanted, value, "{}: tl.constexpr = {}")
        return self._builtin(wanted, value)

    def _module(self, wanted, value):
        given, is_new = self._name_for(wanted, value)
        if is_new:
            parent, _, leaf = value.__name__.rpartition(".")
            self.imports.append(f"import {leaf}" + (f" as {given}" if given != leaf else "") if not parent else
                                f"import {value.__name__} as {given}" if value is tl else
                                f"from {parent} import {leaf} as {given}")
        return given

    def _class(self, wanted, value):
        if value.__module__.startswith(("triton.", "builtins", "typing")):
            return self._import(wanted, value, value.__module__, value.__name__)
        try:
            source = textwrap.dedent(inspect.getsource(value))
        except (OSError, TypeError):
            return None
        given, is_new = self._name_for(wanted, value)
        if is_new:
            self.definitions.append(source + ("" if given == value.__name__ else f"\n{given} = {value.__name__}"))
            self.imports += ["from typing import NamedTuple", "from enum import Enum, IntEnum",
                             "from dataclasses import dataclass"]
        return given

    def _host_function(self, wanted, function):
        """A function that tl.constexpr holds, or one that such a function calls."""
        if function not in self._host_functions:
            try:
                self._host_functions[function] = HostFunction(function)
            except (OSError, AttributeError):  # no source, or a lambda
                return None
        return self.add_function(self._host_functions[function], wanted)

    def _builtin(self, wanted, value):
        """A function of Triton's that is no kernel: of the language, or of a device library; or one of the program's own for
        Triton's compiler."""
        module, name = getattr(value, "__module__", None) or "", getattr(value, "__name__", "")
        if callable(value) and not module.startswith("triton.") and tl.core.is_builtin(value):
            given, is_new = self._name_for(wanted, value)
            if is_new:  # refused where it is called
                self.definitions.append(f"def {given}(*args, _semantic=None, **kwargs):\n    pass")
            return given
        if not callable(value) or not module.startswith("triton."):
            return None
        if getattr(tl, name, None) is value:
            module = "triton.language"
        elif getattr(tl.math, name, None) is value:
            module = "triton.language.math"
        return self._import(wanted, value, module, name)

    def _tuple_of(self, value, given):
        """An expression for a tuple of functions and of None, which stands for the item of `given` at its place."""
        if not isinstance(value, tuple):
            return given if value is None else self.add(unwrapped(value).__name__, value)
        items = "".join(self._tuple_of(item, f"{given}[{i}]") + ", " for i, item in enumerate(value))
        return (self._class(type(value).__name__, type(value)) if hasattr(value, "_fields") else "") + f"({items})"

    def add_function(self, function, wanted=None, functions=None):
        """Defines a function and all that it needs; its name. `functions`: see text_of()."""
        own = re.search(r"def\s+(\w+)", function.src).group(1)
        given, is_new = self._name_for(wanted or own, function)
        if not is_new:
            return given
        tree = ast.parse(function.src).body[0]
        defaults = constant_defaults(function, tree)
        renames = {own: given} if given != own else {}
        for node, names, value in self._uses(function, tree, own, defaults):
            is_host = runs_at_compile_time(function) and inspect.isfunction(value) and not is_foreign(value)
            found = (self._host_function if is_host else self.add)("_".join(names), value)
            self._note_constant(function, names, value)
            if found and found != ".".join(names):
                renames[".".join(names)] = found
        first = []  # statements
        for name, value in (functions or {}).items():
            if isinstance(value, tuple):
                is_constexpr = any(p.name == name and p.is_constexpr for p in function.params)
                first.append(f"{name}{': tl.constexpr' * is_constexpr} = {self._tuple_of(value, replaced(name))}")
            else:
                renames[name] = self.add(name, value)
        source = renamed(function.src, tree, renames, set(functions or ()), first, defaults)
        self.definitions.append(decorator_of(function) + "\n" + source)
        return given

    def _note_constant(self, function, names, value):
        """Remembers which name of which module a constant was taken from."""
        if is_definition(value):
            return
        values = function.fn.__globals__
        for name in names[:-1]:
            module = values.get(name)
            if not inspect.ismodule(module):
                return
            values = vars(module)
        if values.get(names[-1]) is value:  # not of a closure
            self.constants[id(values), names[-1]] = values, names[-1], value

    def _uses(self, function, tree, own, defaults):
        """(node, dotted name, value) of what a function uses of its surroundings, `defaults` left out."""
        evaluated = {inner for default in defaults for inner in ast.walk(default)}
        local = {a.arg for a in ast.walk(tree) if isinstance(a, ast.arg)}
        local |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        for node in ast.walk(tree):
            if node in evaluated:
                continue
            if isinstance(node, ast.Attribute):
                names = dotted(node)
                if names is None or names[0] in local:
                    continue
                exists, value = value_of_name(function, names[0])
                if not exists or not (inspect.ismodule(value) or inspect.isclass(value)):
                    continue
                if is_foreign(value):
                    continue
                for name in names[1:]:
                    value = getattr(value, name, MISSING)
                if isinstance(unwrapped(value), (JITCallable, tl.constexpr, tl.dtype, int, float, str, type(None))):
                    yield node, names, value
            elif isinstance(node, ast.Name) and node.id not in local and node.id != own:
                exists, value = value_of_name(function, node.id)
                if exists and not (inspect.ismodule(value) and not is_foreign(value)):
                    yield node, [node.id], value


def is_foreign(value):
    """Whether a module, class or function is one that Tegula knows by its name."""
    name = value.__name__ if inspect.ismodule(value) else value.__module__
    return name.partition(".")[0] in FOREIGN_MODULES and not name.startswith("torch._inductor") or name in ("math", "numpy")


def is_definition(value):
    """Whether a value is no constant: a module, a class or a function."""
    return not isinstance(value, tl.constexpr) and (inspect.ismodule(value) or callable(value) or
                                                    isinstance(value, (Autotuner, Heuristics)))


def constant_defaults(function, tree):
    """{expression: its text} of defaults of parameters that name things, are constants and stand on one line. Python has
    evaluated them when it defined the function, with objects that a text cannot hold, as in torch.finfo(dtype).min."""
    given, by_name = tree.args, function.fn.__kwdefaults__ or {}
    values = list(zip(given.defaults, function.fn.__defaults__ or ()))
    values += [(node, by_name[arg.arg]) for arg, node in zip(given.kwonlyargs, given.kw_defaults) if node]
    texts = {}
    for node, value in values:
        if node.lineno == node.end_lineno and any(isinstance(inner, ast.Name) for inner in ast.walk(node)):
            with contextlib.suppress(TypeError):  # a function or the like, which add() defines
                texts[node] = literal(value)
    return texts


def decorator_of(function):
    if runs_at_compile_time(function):
        return "@triton.constexpr_function"
    options = []
    for name in ("do_not_specialize", "do_not_specialize_on_alignment"):
        if getattr(function, name, None):
            options.append(f"{name}={list(getattr(function, name))!r}")
    if getattr(function, "noinline", None):
        options.append("noinline=True")
    return "@triton.jit" + (f"({', '.join(options)})" if options else "")


def replaced(parameter):
    """The name under which a kernel takes a parameter whose own name stands for something else."""
    return parameter + "_given"


def renamed(source, tree, renames, parameters, first, expressions):
    """The source with other names for what `renames` says, `parameters` taken under other names, the statements `first`
    ahead of its own, and other texts for `expressions`."""
    lines = source.split("\n")
    places = [(node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, text) for node, text in expressions.items()]
    if first:
        line, column = tree.body[0].lineno, tree.body[0].col_offset
        follows_def = lines[line - 1].encode()[:column].strip()
        end = "; " if follows_def else "\n" + " " * column
        places.append((line, column, line, column, "".join(statement + end for statement in first)))
    for node in ast.walk(tree):
        names = dotted(node) if isinstance(node, (ast.Attribute, ast.Name)) else None
        if names and ".".join(names) in renames:
            places.append((node.lineno, node.col_offset, node.end_lineno, node.end_col_offset, renames[".".join(names)]))
        elif isinstance(node, ast.arg) and node.arg in parameters:
            places.append((node.lineno, node.col_offset, node.lineno, node.col_offset + len(node.arg.encode()),
                           replaced(node.arg)))
    taken = None  # the place behind; of a dotted name and its first part the former counts
    for line, begin, last, end, text in sorted(set(places), key=lambda p: (-p[0], -p[1], -p[3])):
        if line != last or ((line, begin) == taken and end > begin):
            continue
        taken = line, begin
        encoded = lines[line - 1].encode()
        lines[line - 1] = (encoded[:begin] + text.encode() + encoded[end:]).decode()
    if tree.name in renames:
        lines[tree.lineno - 1] = re.sub(r"def\s+\w+", f"def {renames[tree.name]}", lines[tree.lineno - 1], 1)
    return "\n".join(lines)


def text_of(function, functions=None):
    """(text, name, constants) of a kernel with all that it needs; constants are (dictionary of a module, name, value).
    `functions`: values of parameters that are functions, or tuples of functions and of None for other items."""
    text = Text()
    name = text.add_function(unwrapped(function), functions=functions)
    return str(text), name, tuple(text.constants.values())
