"""The names of kernels, which @triton.jit(repr=...) makes of specialisations."""

import collections
import re

from triton.backends.compiler import GPUTarget
from triton.compiler.compiler import make_backend
from triton.runtime.jit import create_function_from_signature

Specialization = collections.namedtuple("SpecializationProxy", ["constants", "signature"])


def name_of(function, args, kwargs):
    """The name of the kernel that a launch runs, as Triton has it; None where no `repr` makes one."""
    if getattr(function, "_repr", None) is None:
        return None
    backend = make_backend(GPUTarget("cuda", 90, 32))  # specialises for all GPUs alike
    bound, specialization, _ = create_function_from_signature(function.signature, function.params, backend)(*args, **kwargs)
    signature = {name: kind for name, (kind, _) in zip(bound, specialization)}
    constants = {name: bound[name] for name, kind in signature.items() if kind == "constexpr"}
    return function.repr(Specialization(constants, signature)).rpartition(".")[2]


def renamed_ptx(ptx, name, given):
    """PTX whose one entry `name` is called `given`. Of two entries, for launches of few programs and of many, it has the
    first one."""
    ptx = re.sub(rf"^\.visible \.entry {re.escape(name)}_of_many_programs\(.*?^}}\n", "", ptx, flags=re.DOTALL | re.MULTILINE)
    return ptx if given == name else re.sub(rf"(?<![\w$.\"]){re.escape(name)}(?=_param_\d+\b|\b(?!\.))", given, ptx)
