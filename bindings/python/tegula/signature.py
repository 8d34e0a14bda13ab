"""A kernel's signature, and how the arguments of a call become those of a launch."""

import ctypes
import difflib
import operator
import os

from .arguments import find_handler, handlers, is_memory, words_of
from .devices import Device, device_at, raise_places
from .dtypes import INT
from .errors import IsTuple, Wrong
from .image import Param
from .library import check, lib
from .memory import array_of, elements_of, extent_of, is_read_only, reach_of, runs_of
from .plans import ALL_OPTIONS, WITHOUT_EFFECT, Call, Plan
from .structs import ConstexprStruct, OptionsStruct, ParamStruct
from .torch_support import current_stream, is_tensor, stream_of, torch_tags, torch_types
from .type_texts import type_words
from .values import constexpr_words, form_of, kind_of


class Signature:
    """The parameters of a kernel; calls with them become launches."""
    _handle = None

    def __init__(self, handle, name):
        self._handle, self.__name__, self.name = handle, name, name
        self.params = []
        self._sized = {}  # parameters whose memory tuning zeroes (True) or restores (False)
        for i in range(lib.tegula_kernel_num_params(handle)):
            p = ParamStruct()
            check(lib.tegula_kernel_param(handle, i, ctypes.byref(p)))
            self.params.append(Param(p.name.decode(), bool(p.is_constexpr), bool(p.has_default)))
            if p.is_zeroed or p.is_restored:
                self._sized[self.params[-1].name] = bool(p.is_zeroed)
        self._names = {p.name for p in self.params}
        hooked = ctypes.c_int32()
        check(lib.tegula_kernel_is_hooked(handle, ctypes.byref(hooked)))
        self._is_hooked = bool(hooked.value)
        self._plans = {}
        self._configs = {}

    def _make_plan(self, count, keywords):
        """The plan of calls with `count` values by position and these names."""
        names = [p.name for p in self.params]
        if count > len(names):
            raise TypeError(
                f"{self.name}() takes {len(names)} arguments ({', '.join(names)}), found {count} by position")
        given = {name: i for i, name in enumerate(names[:count])}
        for i, name in enumerate(keywords, count):
            if name in given:
                raise TypeError(f"{self.name}() got two values for '{name}'")
            if name not in self._names and name not in ALL_OPTIONS:
                near = difflib.get_close_matches(name, [*names, *ALL_OPTIONS], 1)
                hint = f"; did you mean '{near[0]}'?" if near else f"; the parameters are {', '.join(names)}"
                raise TypeError(f"{self.name}() has no parameter '{name}'{hint}")
            given[name] = i
        runtime = [p for p in self.params if not p.is_constexpr]
        missing = [p.name for p in runtime if p.name not in given and not p.has_default]
        if missing:
            raise TypeError(f"{self.name}() misses {'argument' if len(missing) == 1 else 'arguments'} " +
                            ", ".join(f"'{name}'" for name in missing))
        while runtime and runtime[-1].name not in given:
            runtime.pop()
        for p in runtime:
            if p.name not in given:
                raise TypeError(
                    f"{self.name}() is given '{runtime[-1].name}' but not '{p.name}' before it: defaults can be "
                    "left to the last arguments alone")
        fixed = [n for n in given if n in ALL_OPTIONS and n != "stream"]
        fixed = [p.name
                 for p in self.params if p.is_constexpr and p.name in given] + [n for n in fixed if n not in names]
        positions = [given[p.name] for p in runtime]
        stream = given.get("stream") if "stream" not in self._names else None
        plan = Plan(None if positions == list(range(count)) else positions, [p.name for p in runtime],
                     [given[n] for n in fixed], fixed, stream, list(given))
        plan.open = any(p.is_constexpr and p.name not in given for p in self.params)
        self._plans[(count, *keywords)] = plan
        return plan

    def _make_options(self, plan, values):
        """The structure of constexprs and options, remembered in the plan."""
        constexprs, options, keep = [], {}, []
        for name, value in zip(plan.fixed_names, values):
            if name in self._names:
                try:
                    tag, bits = constexpr_words(value, keep)
                except Wrong as wrong:
                    raise TypeError(f"{self.name}(), constexpr '{name}': {wrong}") from None
                constexprs.append(ConstexprStruct(name.encode(), tag, bits, 0))
                continue
            if value is None:
                continue
            if name in WITHOUT_EFFECT:
                if not WITHOUT_EFFECT[name](value):
                    raise TypeError(f"{self.name}(): {name} is {value!r}, which Tegula cannot do")
                continue
            try:
                number = operator.index(value)
            except TypeError:
                raise TypeError(f"{self.name}(): {name} is {value!r}, expected an int") from None
            if name == "dependent_launch":
                options["no_dependent_launch"] = not number
            elif name == "enable_fp_fusion":
                options["no_fp_fusion"] = not number
            elif name == "sanitize_overflow":
                options["no_sanitize_overflow"] = not number
            elif name == "launch_cooperative_grid":
                options["cooperative_grid"] = bool(number)
            elif number == 0 and name in ("num_warps", "num_ctas"):  # which to the C interface is the default
                raise ValueError(f"{self.name}(): {name} is 0, expected 1 at least")
            else:
                options[name] = number or (1 if name == "num_stages" else 0)  # stages are one at least
        array = (ConstexprStruct * len(constexprs))(*constexprs)
        made = OptionsStruct(ctypes.sizeof(OptionsStruct), array, len(constexprs), **options)
        made.keep = (array, constexprs, keep)
        return made

    def _bind(self, args, kwargs, types=False):
        """The call, ready for the library. `types`: texts such as "*f32" and "i32:16" may stand for arguments."""
        plan = self._plans.get((len(args), *kwargs))
        if plan is None:
            plan = self._make_plan(len(args), tuple(kwargs))
        values = (*args, *kwargs.values()) if kwargs else args
        fixed = [values[i] for i in plan.fixed]
        runtime = args if plan.runtime is None else [values[i] for i in plan.runtime]
        try:
            return self._bind_values(plan, values, fixed, runtime, types)
        except IsTuple:
            return self._bind_tuples(plan, values, fixed, runtime, types)

    def _bind_tuples(self, plan, values, fixed, runtime, types):
        """The call with the items of tuples as arguments; the tuples' forms are compile-time arguments."""
        names, leaves, forms = [], [], {}
        for name, x in zip(plan.runtime_names, runtime):
            if isinstance(x, tuple):
                before = len(leaves)
                forms[name] = form_of(x, leaves, types)
                names += [f"{name}[{i}]" for i in range(len(leaves) - before)]
            else:
                leaves.append(x)
                names.append(name)
        key = (*forms, *map(kind_of, forms.values()))
        flat = plan.flat.get(key)
        if flat is None:
            flat = plan.flat[key] = Plan(None, names, plan.fixed, [*plan.fixed_names, *forms], plan.stream, plan.names)
            flat.open = plan.open
        return self._bind_values(flat, values, [*fixed, *forms.values()], leaves, types)

    def _bind_values(self, plan, values, fixed, runtime, types):
        options = self._options_of(plan, fixed)
        words, place, foreign = self._words_of(plan, runtime, types)
        call = Call()
        call.options, call.count, call.open = options, plan.count, plan.open
        call.device = Device._cuda.get(place) or (device_at(place) if place is not None else Device.default())
        if plan.stream is not None:
            call.stream = values[plan.stream]
            call.stream = getattr(call.stream, "cuda_stream", call.stream)
        elif place is None or place.__class__ is not int or place < 0:
            call.stream = None
        elif foreign:
            call.stream = stream_of([array_of(x) for x in runtime], call.device)
        else:
            call.stream = current_stream(place)
        call.ranges = ()
        if not types:  # else nothing is accessed
            self._add_extents(plan, runtime, words, call)
        call.words, call.kept = plan.pack(*words), words
        call.meta = lambda: dict(zip(plan.names, values))
        return call

    def _options_of(self, plan, fixed):
        """The address of the structure of constexprs and options, made for values that are new to the plan."""
        key = (*fixed, *map(kind_of, fixed))
        try:
            found = plan.options.get(key)
        except TypeError:  # something that cannot be hashed: no constexpr either
            found = None
        if found is None:
            made = self._make_options(plan, fixed)
            found = plan.options[key] = (ctypes.addressof(made), made)
        return found[0]

    def _words_of(self, plan, runtime, types):
        """Tag, bits and size of each argument in a row; the place that all data lies in, None without any; whether some of
        it is an array that torch does not know."""
        words, place, foreign = [], None, False
        for x in runtime:
            t = type(x)
            if t is int and -2**63 <= x < 2**63:
                words += (INT, x, 0)
                continue
            if t in torch_types and x.is_cuda and (tag := torch_tags.get(x.dtype)):
                where = x.get_device()
                words += (tag, x.data_ptr(), 0)
            else:
                try:
                    if types and t is str:
                        tag, bits, where = type_words(x)
                    else:
                        tag, bits, where = (handlers.get(t) or find_handler(x))(x)
                except Wrong as wrong:
                    raise TypeError(
                        f"{self.name}(), argument '{plan.runtime_names[len(words) // 3]}': {wrong}") from None
                foreign = foreign or where is not None and not is_tensor(array_of(x))
                words += (tag, bits, 0)
            if where != place and where is not None:
                if place is not None:
                    self._refuse_places(plan, runtime)
                place = where
        return words, place, foreign

    def _add_extents(self, plan, runtime, words, call):
        """How far memory reaches: for the emulator, which checks accesses, for tuning and for hooks."""
        if call.device.is_emulator:
            checks = os.environ.get("TEGULA_EMULATOR_CHECK", "0") not in ("", "0")
            call.ranges = [
                run for x, tag in zip(runtime, words[::3]) if is_memory(tag)
                for run in (runs_of(x) if checks else (reach_of(x), )) if run[1]
            ]
            self._refuse_read_only(plan, runtime, words, call)
        elif self._sized and not self._is_hooked:
            for i, (name, x) in enumerate(zip(plan.runtime_names, runtime)):
                if name in self._sized and is_memory(words[3 * i]):
                    words[3 * i + 2] = self._tuned_bytes(name, x)
        if self._is_hooked:
            self._add_sizes(plan, runtime, words)

    def _refuse_read_only(self, plan, runtime, words, call):
        """Raises the TypeError for a read-only array of the host's that the kernel writes into."""
        locked = [i for i, x in enumerate(runtime) if is_memory(words[3 * i]) and is_read_only(x)]
        if not locked:
            return
        key = (call.options, *words[::3])
        written = plan.written.get(key)
        if written is None:
            written = (ctypes.c_uint8 * plan.count)()
            check(
                lib.tegula_kernel_written_args(self._handle, call.options, plan.pack(*words), plan.count, written))
            plan.written[key] = written
        for i in locked:
            if written[i]:
                raise TypeError(f"{self.name}(), argument '{plan.runtime_names[i]}': the kernel writes into it, but the "
                                "array is read-only; pass a copy")

    def _add_sizes(self, plan, runtime, words):
        """The sizes of what hooks may ask for: of buffers whose elements lie side by side, and of what tuning zeroes or
        restores."""
        for i, (name, x) in enumerate(zip(plan.runtime_names, runtime)):
            if not is_memory(words[3 * i]):
                continue
            if name in self._sized:
                words[3 * i + 2] = self._tuned_bytes(name, x)
            elif extent_of(x) == (words_of(array_of(x))[1], elements_of(x)[0]):
                words[3 * i + 2] = extent_of(x)[1]

    def _tuned_bytes(self, name, x):
        """The size of what tuning zeroes or restores."""
        begin, size = extent_of(x)
        if begin != words_of(array_of(x))[1] and size or self._sized[name] and size != elements_of(x)[0]:
            raise TypeError(f"{self.name}(): the elements of '{name}' do not lie side by side, and tuning the kernel "
                            "zeroes or restores all of its memory; pass a contiguous array")
        return size

    def _refuse_places(self, plan, runtime):
        """Raises the TypeError for data in different places."""
        lying = [(name, words_of(x)[2]) for name, x in zip(plan.runtime_names, runtime) if not isinstance(x, str)]
        lying = [(name, place) for name, place in lying if place is not None]
        (first, one), (other, two) = lying[0], next(entry for entry in lying if entry[1] != lying[0][1])

        raise_places(self.name, first, one, other, two)
