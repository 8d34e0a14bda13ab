#!/usr/bin/env python3
"""Runs the kernels of compare_values.py and compare_language.py by Triton and by Tegula and compares their results.

    bench/compare_triton.py --tegula build/release/tegula                       # Triton on the GPU, or its interpreter
    bench/compare_triton.py --record expected.npz                               # where Triton has a GPU: its results alone
    bench/compare_triton.py --tegula build/release/tegula --expected expected.npz       # elsewhere: against those

Needs Triton and NumPy; PyTorch for a GPU. Triton's interpreter differs from its compiler in places (bf16 arithmetic,
float arguments): what it cannot tell is left out there and counted. Exits with 1 if a result differs.
"""

import argparse
import dataclasses
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
KERNEL_FILES = {name: (HERE / f"{name}.py").read_text() for name in ("compare_values", "compare_language")}
N = 32
UNWRITTEN = -0x123456789
CODES = ["unwritten", "i1", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"]
MANTISSA = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}
NUMPY = {"i1": np.bool_, "f16": np.float16, "bf16": np.uint16, "f32": np.float32, "f64": np.float64,
         **{f"{k}{b}": np.dtype(f"{'int' if k == 'i' else 'uint'}{b}").type for k in "iu" for b in (8, 16, 32, 64)}}
INTS = [t for t in NUMPY if t[0] in "iu"]
FLOATS = ["f16", "bf16", "f32", "f64"]
TYPES = INTS + FLOATS


@dataclasses.dataclass
class Array:
    """A kernel's array: elements of `type`, bf16 as uint16."""
    data: np.ndarray
    type: str

    def values(self):
        if self.type == "bf16":
            return (self.data.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        return self.data


@dataclasses.dataclass
class Case:
    """One launch. The results of emit are in `out`, `size` values a slot; floats may differ by `ulps` of their type plus
    `atol`. `interpreter`: whether Triton's interpreter tells the "values", only the "types", or "nothing"."""
    name: str
    kernel: str
    args: dict
    constexprs: dict
    size: int = N
    slots: int = 48
    grid: tuple = (1, )
    ulps: float = 0
    atol: float = 0
    interpreter: str = "values"
    rejected: bool = False  # both have to reject the kernel

    def arrays(self):
        out = Array(np.full(self.slots * (self.size + 1), UNWRITTEN, np.int64), "i64")
        return {"out": out, **{k: v for k, v in self.args.items() if isinstance(v, Array)}}


# ------------------------------------------------------------------------------------------------------------ data


def array(values, type):
    values = np.asarray(values)
    if type == "bf16":
        bits = values.astype(np.float32).view(np.uint32)
        rounded = (bits + 0x7fff + (bits >> 16 & 1)) >> 16
        return Array(np.where(np.isnan(values.astype(np.float32)), 0x7fc0, rounded).astype(np.uint16), type)
    if type == "i1":
        return Array(values.astype(np.int64) % 2 != 0, type)
    with np.errstate(over="ignore"):
        return Array(values.astype(NUMPY[type]), type)


def plain(type, seed=0, zero=True, exact=False):
    """Small numbers of both signs (of an unsigned type: up to 100), some of them equal whatever the seed; eighths only if
    exact."""
    random = np.random.default_rng(seed)
    x = random.integers(-100, 100, N)
    x[:8] = [0, 1, 2, 3, -1, -7, 7, 100]
    if type[0] == "u":
        x = np.abs(x)
    if type in FLOATS:
        x = x / 8 + random.integers(0, 2, N) * (0 if exact else 0.1)
        x[:3] = [0, 1, -0.5]
    if not zero:
        x = np.where(x == 0, 3, x)
        if type == "i1":
            x = np.ones(N)
    return array(x, type)


def extreme(type, seed=0, zero=True):
    """Integers from the whole range of the type."""
    if type == "i1" or type in FLOATS:
        return plain(type, seed, zero)
    info = np.iinfo(NUMPY[type])
    random = np.random.default_rng(seed)
    x = random.integers(info.min, info.max, N, dtype=NUMPY[type], endpoint=True)
    x[8:12] = [info.max, info.max - 1, 1, info.max // 2]
    if info.min < 0 and zero:
        x[12:15] = [info.min, -1, info.min + 1]
    x[15:20] = plain(type, seed).data[15:20]
    if not zero:
        x[x == 0] = 3
    return Array(x, type)


def normal(count, type, seed=0):
    return array(np.random.default_rng(seed).standard_normal(count), type)


def pair_flags(a, b):
    ints = a in INTS and b in INTS
    unsigned = [t == "i1" or t[0] == "u" for t in (a, b)]
    return {"N": N, "BOTH_INT": ints, "DIVIDE": not ints or unsigned[0] == unsigned[1]}


def trust(*types):
    return "types" if "bf16" in types else "values"


def add_pairs(add, i, a):
    """Operators between a type and every other one, and numbers."""
    for j, b in enumerate(TYPES):
        # Between floats eighths, of which % is exact: near a multiple any rounding of it may give 0 or the divisor.
        ints = a in INTS and b in INTS
        args = {"x_ptr": extreme(a, i) if ints else plain(a, i, exact=True),
                "y_ptr": extreme(b, 20 + j, zero=False) if ints else plain(b, 20 + j, zero=False, exact=True)}
        rest = dict(ulps=2, atol=1e-4 if {a, b} & set(FLOATS) else 0, slots=18, interpreter=trust(a, b))
        add("pair_tiles", f"{a},{b}", args, pair_flags(a, b), **rest)
        if b in ("i1", "i16", "f16", "f32"):
            add("pair_tile_and_loaded_scalar", f"{a},{b}", args, pair_flags(a, b), **rest)
    x = {"x_ptr": plain(a, i)}
    for s, b in ((5, "i32"), (-3, "i32"), (2**33, "i64"), (1.25, "f32"), (1, "i32")):
        add("tile_and_argument", f"{a},{s}", {**x, "s": s}, pair_flags(a, b), ulps=2, atol=1e-4, slots=21,
            interpreter="nothing" if isinstance(s, float) or s == 1 or a == "bf16" else "values")


def add_of_type(add, i, a):
    """What takes one tile, of any type."""
    x = {"x_ptr": plain(a, i)}
    add("literals", a, x, {"N": N, "INT": a in INTS, "SIGNED": a[0] != "u" and a != "i1", "BOOL": a == "i1"}, ulps=2,
        atol=1e-3, interpreter=trust(a))
    sums = dict(ulps=4, atol=1e-4 if a != "bf16" else 2, interpreter=trust(a))
    if a == "f16":
        sums["atol"] = 0.25
    add("reductions", a, x, slots=14, **sums)
    if a in INTS and a != "i1":
        add("reductions", a + ",extreme", {"x_ptr": extreme(a, i)}, slots=14, ulps=8, atol=1e-4 if a[-2:] != "64" else 1e14)
        add("reductions_of_ints", a, x, slots=4)
        add("shifts", a, {"x_ptr": extreme(a, i), "y_ptr": array(np.arange(N) % 8, a)}, slots=5)
    for A, B in ((8, 4), (2, 16)):
        add("reduce_rank2", f"{a},{A}x{B}", {"x_ptr": plain(a, i)}, {"A": A, "B": B}, slots=10, **sums)
    add("casts", a, {"x_ptr": extreme(a, i)}, slots=11, interpreter=trust(a))
    positive = plain(a, i)
    add("casts_unsigned", a, {"x_ptr": extreme(a, i) if a in INTS else array(np.abs(positive.values()), a)}, slots=4)
    floating = a in FLOATS
    add("masks", a, {"y_ptr": plain(a), "x_ptr": plain(a, i), "n": 11}, {"N": N, "FLOAT": floating}, slots=9)


def add_shapes(add):
    """Shapes, broadcasting, helper functions."""
    for a in ("i8", "i32", "f32", "f16"):
        add("reduce_rank3", a, {"x_ptr": array(np.arange(64) * 7 % 23 - 5, a)}, {"A": 4, "B": 2, "C": 8}, size=64, slots=6,
            ulps=2)
        add("shapes", a, {"x_ptr": array(np.arange(64) * 7 % 23 - 5, a)}, {"A": 4, "B": 2, "C": 8}, size=64, slots=11, ulps=2)
        add("broadcasting", a, {"x_ptr": array(np.arange(64) * 7 % 23 - 5, a)}, {"A": 8, "B": 8}, size=64, slots=10, ulps=2)
        add("helpers", a, {"x_ptr": plain(a), "n": 12}, slots=9, ulps=2)
        add("plain_locals", a, {"x_ptr": plain(a), "n": 12}, slots=17, ulps=2, interpreter="nothing")
        add("plain_locals", a + ",2", {"x_ptr": plain(a), "n": 2}, slots=17, ulps=2, interpreter="nothing")
    add("helpers", "i32,-12", {"x_ptr": plain("i32"), "n": -12}, slots=9)


def add_values(add):
    """Arguments and literals, conversions of bits and by stores, bools, NaNs."""
    add("arguments", "", {"a": 7, "b": 0.3}, slots=14, ulps=2, interpreter="nothing")
    add("arguments", "wide", {"a": 2**35, "b": 1.5}, slots=14, ulps=2, interpreter="nothing")
    add("wide_literals", "", {"x_ptr": array(np.arange(N), "i32")}, slots=15, ulps=1, interpreter="types")
    add("bitcasts", "", {"x_ptr": normal(N, "f32")}, slots=7, interpreter="types")
    targets = {k: array(np.zeros(N), t) for k, t in (("i8", "i8"), ("u8", "u8"), ("i32", "i32"), ("f16", "f16"),
                                                    ("bf16", "bf16"), ("f32", "f32"), ("f64", "f64"), ("b", "i1"))}
    add("store_converts", "", {**targets, "x_ptr": plain("f32", 3)}, slots=0)
    add("bools", "", {"b_ptr": array(np.arange(N) // 2, "i1"), "c_ptr": array(np.arange(N) // 3, "i1")}, slots=17)
    add("bools", "ones", {"b_ptr": array(np.ones(N), "i1"), "c_ptr": array(np.arange(N), "i1")}, slots=17)
    for n in (2, 3, 9):
        add("bool_words", str(n), {"b_ptr": array(np.arange(N) // 2, "i1"), "c_ptr": array(np.arange(N) // 3, "i1"), "n": n},
            slots=9, interpreter="nothing")
    special = np.array([np.nan, 1, np.nan, -np.inf, np.inf, 0, -1, 2, -0.25, 3, 0.5, np.inf, -np.inf, 1, 7, np.nan] * 2)
    for a in FLOATS:
        add("nan_rules", a, {"x_ptr": array(special, a), "y_ptr": array(np.roll(special, 5), a)}, slots=14,
            interpreter="types")


def add_math(add):
    """Mathematical functions."""
    for a in ("f32", "f64"):
        add("math_functions", a, {"x_ptr": normal(N, a)}, slots=19, ulps=2**30 if a == "f64" else 8, atol=1e-6)
    add("math_functions", "f32,large", {"x_ptr": array(np.linspace(-40, 40, N), "f32")}, slots=19, ulps=64, atol=1e-6)
    add("math_single", "", {"x_ptr": normal(N, "f32")}, slots=4, ulps=1,
        interpreter="types")
    for a in ("f16", "bf16"):  # x * x + 1 may be one rounding or two
        add("math_half", a, {"x_ptr": normal(N, a)}, slots=9, ulps=2, atol=1e-3 if a == "f16" else 8e-3, interpreter="types")
    for a in ("i32", "i64", "u32", "u64"):
        add("math_integers", a, {"x_ptr": plain(a)}, slots=5)
    for a in ("i32", "i64"):
        add("math_integers", a + ",extreme", {"x_ptr": extreme(a)}, slots=5, interpreter="types")


def add_control(add):
    """Control flow and what is known at compile time."""
    add("ceiling_division", "", {"n": 30, "m": 7}, {"N": N, "K": 11}, slots=7)
    for n in (0, 1, 5, 9):
        add("loops", str(n), {"x_ptr": normal(N + 3, "f32"), "n": n}, slots=10, ulps=2, atol=1e-5, interpreter="nothing")
        add("early_return", str(n), {"n": n}, slots=3, grid=(3, ))
    add("compile_time", "", {}, {"N": N, "K": 11, "X": 0.25, "FLAG": True, "T": "tl.float16"}, slots=14, ulps=0)
    for a in ("f32", "i32"):
        for n in (1, 3, 8):
            add("language", f"{a},{n}", {"x_ptr": plain(a), "n": n}, {"N": N, "NOTHING": None}, slots=26, ulps=1,
                interpreter="nothing")
    for n, step in ((6, 2), (3, 1), (9, 4)):
        add("more_control", str(n), {"x_ptr": plain("f32"), "n": n, "wide": 2**34 + 5, "step": step}, slots=23, ulps=4, atol=1e-3,
            interpreter="nothing")


def add_rows(add):
    """Softmax along rows, and which of equal elements is found."""
    for A, B in ((4, 8), (8, 8), (1, 32)):
        add("softmax_rank2", f"{A}x{B}", {"x_ptr": normal(64, "f32")}, {"A": A, "B": B}, size=A * B, slots=5, ulps=8, atol=1e-6)
        for a in ("i8", "u8", "i64", "f16", "f32"):
            add("ties", f"{a},{A}x{B}", {"x_ptr": array(np.arange(64) * 7 % 5, a)}, {"A": A, "B": B}, size=A * B, slots=7)


def add_float_casts(add):
    """Casts of numbers at the edges of the float types."""
    edges = [1 + 2**-11, 1 + 3 * 2**-11, 1 + 2**-8, 1 + 3 * 2**-8, 65519, 65520, 65504, 6e-8, 2.9e-8, 3e-8, 1e-8, 6.1e-5, 3.3e38,
             3.4e38, 1e-40, np.inf, -np.inf, np.nan, -0.0, 0.1, 1 / 3, -2.7, 1 + 2**-8 + 2**-40, 1 + 2**-11 + 2**-40]
    for a in FLOATS:
        add("float_casts", a, {"x_ptr": array(edges + [1, 2, 3, 4, 5, 6, 7, 8], a)}, slots=9, interpreter="nothing")
    # Beyond the target's range the result is open, in LLVM as well as here.
    limits = [0, -0.0, 0.49, 0.5, 0.99, 1, 1.5, 2.5, 99.9, 2.0**24 - 1, 2.0**24 + 2, 1e9, 2.0**30, 2.0**31 - 128, -0.5, -0.99] * 2
    for a in ("f32", "f64"):
        add("float_to_int_limits", a, {"x_ptr": array(limits, a)}, slots=4, interpreter="types")


def add_memory(add):
    """Atomics, programs, pointers, products."""
    add("atomics", "", {"f32": array(np.arange(64), "f32"), "i32": array(np.arange(64), "i32"),
                        "f16": array(np.arange(N) / 4, "f16"), "x_ptr": array(np.arange(N) / 8, "f32")}, slots=2)
    add("programs", "", {"x_ptr": array(np.arange(6 * N), "i32"), "n": 5 * N + 3}, slots=12, grid=(3, 2))
    big = array(np.arange(4 * N), "i32")
    add("pointers", "", {"x_ptr": big, "y_ptr": array(-np.arange(4 * N), "i32"), "n": 16}, slots=9)
    for a in ("f16", "bf16"):
        for M, K in ((16, 16), (32, 64)):
            add("dots", f"{a},{M}x16x{K}", {"a_ptr": normal(M * K, a), "b_ptr": normal(16 * K, a, 1)},
                {"M": M, "N": 16, "K": K}, size=M * 16, slots=5, ulps=2, atol=3e-5 * K, interpreter=trust(a))


def add_rejected(add):
    """Kernels that neither side may take, and one that both do."""
    for mistake in range(34):
        add("rejected", str(mistake), {f"{k}_ptr": plain(t) for k, t in (("x", "i32"), ("f", "f32"), ("h", "f16"), ("u", "u32"))} |
            {"n": 5}, {"N": N, "CASE": mistake}, slots=2, interpreter="nothing", rejected=mistake > 0)


def make_cases():
    cases = []

    def add(kernel, label="", args=None, constexprs=None, **rest):
        constexprs = {"N": rest.get("size", N)} if constexprs is None else constexprs
        cases.append(Case(kernel + (f"[{label}]" if label else ""), kernel, args or {}, constexprs, **rest))

    for i, a in enumerate(TYPES):
        add_pairs(add, i, a)
        add_of_type(add, i, a)
    for add_group in (add_shapes, add_values, add_math, add_control, add_rows, add_float_casts, add_memory, add_rejected):
        add_group(add)
    names = [c.name for c in cases]
    assert len(set(names)) == len(names)
    return cases


# ---------------------------------------------------------------------------------------------------------- Triton


class HostArray:
    """What Triton's interpreter needs of a tensor, over a NumPy array, so that it runs without PyTorch."""

    def __init__(self, array):
        import triton.language as tl
        self.array = array
        names = {"i1": "int1", "f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
        name = names.get(array.type, array.type.replace("i", "int").replace("u", "uint") if array.type[0] in "iu" else "")
        self.dtype = getattr(tl, name)

    def data_ptr(self):
        return self.array.data.ctypes.data


def run_interpreted(case, arrays):
    from triton.runtime import interpreter

    # The arguments are already where the interpreter reads them: nothing to copy.
    interpreter.GridExecutor._init_args_hst = lambda self, args, kwargs: (args, kwargs)
    interpreter.GridExecutor._restore_args_dev = lambda *args: None
    convert = interpreter._implicit_cvt

    def convert_array(x):
        if not isinstance(x, HostArray):
            return convert(x)
        import triton.language as tl
        type = tl.pointer_type(x.dtype)
        return tl.tensor(interpreter.TensorHandle(np.array([x.data_ptr()], dtype=np.uint64), type), type)

    interpreter._implicit_cvt = convert_array
    try:
        hosts = {k: HostArray(v) for k, v in arrays.items()}
        launch(case, hosts)
    finally:
        interpreter._implicit_cvt = convert


def run_on_gpu(case, arrays):
    import torch
    names = {"i1": torch.bool, "f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "f64": torch.float64}
    tensors = {}
    for k, v in arrays.items():
        dtype = names[v.type] if v.type in names else getattr(torch, np.dtype(NUMPY[v.type]).name)
        tensors[k] = torch.from_numpy(v.data.view(np.uint8)).cuda().view(dtype)
    launch(case, tensors)
    torch.cuda.synchronize()
    for k, v in arrays.items():
        v.data = tensors[k].view(torch.uint8).cpu().numpy().view(v.data.dtype)


def module_of(case):
    """The name of the module that defines the kernel of a case."""
    return next(name for name, text in KERNEL_FILES.items() if f"\ndef {case.kernel}(" in text)


def launch(case, arrays):
    import triton.language as tl
    kernel = getattr(importlib.import_module(module_of(case)), case.kernel)
    args = {**{k: v for k, v in case.args.items() if not isinstance(v, Array)}, **arrays}
    for k, v in case.constexprs.items():
        args[k] = getattr(tl, v[3:]) if isinstance(v, str) and v.startswith("tl.") else v
    kernel[case.grid](**{k: args[k] for k in kernel.arg_names if k in args}, **({"num_warps": 4}))


# ---------------------------------------------------------------------------------------------------------- Tegula


def run_tegula(options, case, arrays):
    with tempfile.TemporaryDirectory() as folder:
        command = [options.tegula, "run", f"{HERE / module_of(case)}.py::{case.kernel}"]
        command += ["--grid", ",".join(map(str, case.grid))]
        if options.device:
            command += ["--device", options.device]
        for k, v in arrays.items():
            if k == "out" and not case.slots:
                continue
            path = f"{folder}/{k}.npy"
            np.save(path, v.data.view("V2") if v.type == "bf16" else v.data)
            command += ["--in", f"{k}={path}", "--out", f"{k}={path}"]
        for k, v in case.args.items():
            if not isinstance(v, Array):
                command += ["--arg", f"{k}={v}"]
        for k, v in case.constexprs.items():
            command += ["--constexpr", f"{k}={v}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise RuntimeError((done.stderr or done.stdout).strip() or f"exit status {done.returncode}")
        for k, v in arrays.items():
            if k != "out" or case.slots:
                v.data = np.load(f"{folder}/{k}.npy").view(v.data.dtype)


# ------------------------------------------------------------------------------------------------------ comparison


def compare_values(a, b, type, case):
    """Where a and b, both as float64 or both as integers, differ by more than is allowed."""
    if type not in MANTISSA:
        return a != b
    with np.errstate(invalid="ignore", over="ignore"):
        exponent = np.frexp(np.where(np.isfinite(a), a, 0))[1]
        bound = case.ulps * np.ldexp(1.0, exponent - MANTISSA[type]) + case.atol * (case.ulps > 0)
        same = (a == b) | (np.isnan(a) & np.isnan(b)) | (np.abs(a - b) <= bound)
    return ~same


def first_difference(bad, wanted, got):
    i = int(np.argmax(bad))
    return f"{int(bad.sum())} of {bad.size} differ, first [{i}]: Triton {wanted[i]}, Tegula {got[i]}"


def compare(case, wanted, got, trust):
    """The differences, as texts."""
    problems = []
    for k, w in wanted.items():
        if k == "out" or trust != "values":
            continue
        a, b = w.values(), got[k].values()
        bad = compare_values(a, b, w.type, case)
        if bad.any():
            problems.append(f"{k}: " + first_difference(bad, a, b))
    rows = [r["out"].data.reshape(case.slots, case.size + 1) for r in (wanted, got)]
    for slot in range(case.slots):
        a, b = rows[0][slot], rows[1][slot]
        types = [CODES[r[0]] if 0 < r[0] < len(CODES) else "unwritten" for r in (a, b)]
        if types[0] != types[1]:
            problems.append(f"result {slot}: Triton {types[0]}, Tegula {types[1]}")
            continue
        if trust != "values":
            continue
        a, b = a[1:], b[1:]
        if types[0] in MANTISSA:
            a, b = a.view(np.float64), b.view(np.float64)
        bad = compare_values(a, b, types[0], case)
        if bad.any():
            problems.append(f"result {slot} ({types[0]}): " + first_difference(bad, a, b))
    return problems


class Triton:
    """Triton's side: results of another run, or the kernels on the GPU, or without one by its interpreter."""

    def __init__(self, expected):
        self.recorded = np.load(expected) if expected else None
        self.on_gpu = False
        if self.recorded is None:
            try:
                import torch
                self.on_gpu = torch.cuda.is_available()
            except ImportError:
                pass
            if not self.on_gpu:
                os.environ["TRITON_INTERPRET"] = "1"
            sys.dont_write_bytecode = True
            sys.path.insert(0, str(HERE))
        self.name = f"results in {expected}" if expected else "Triton on the GPU" if self.on_gpu else "Triton's interpreter"
        self.is_exact = self.on_gpu or self.recorded is not None

    def trust(self, case):
        return "values" if self.is_exact else case.interpreter

    def run(self, case):
        arrays = copies(case)
        if self.recorded is not None:
            if f"{case.name}:error" in self.recorded:
                raise RuntimeError(str(self.recorded[f"{case.name}:error"]))
            for k, v in arrays.items():
                v.data = self.recorded[f"{case.name}:{k}"]
        elif self.on_gpu:
            run_on_gpu(case, arrays)
        elif case.interpreter != "nothing":
            with np.errstate(all="ignore"):
                run_interpreted(case, arrays)
        return arrays


def copies(case):
    return {k: Array(v.data.copy(), v.type) for k, v in case.arrays().items()}


def attempt(function, case):
    """The arrays that it leaves and None, or None and its error."""
    try:
        return function(case), None
    except Exception as error:  # a kernel that one side rejects is a difference like any other
        return None, f"{type(error).__name__}: {error}"


def record(cases, triton, file):
    results = {}
    with ThreadPoolExecutor(os.cpu_count() if triton.on_gpu else 1) as pool:
        for case, (arrays, error) in zip(cases, pool.map(lambda c: attempt(triton.run, c), cases)):
            results.update({f"{case.name}:error": error} if error else {f"{case.name}:{k}": v.data for k, v in arrays.items()})
            if error and not case.rejected:
                print(f"{case.name}: {error}")
    np.savez_compressed(file, **results)


def problems_of(case, trust, triton, tegula):
    """What differs between the sides' attempts, as texts."""
    wanted, wanted_error = triton
    got, error = tegula
    if case.rejected:
        accepted = [side for side, e in (("Triton", wanted_error or trust == "nothing"), ("Tegula", error)) if not e]
        return [f"{side} accepts what has to be rejected" for side in accepted]
    if error or wanted_error:
        return [f"{side}: {e}" for side, e in (("Triton", wanted_error), ("Tegula", error)) if e]
    return compare(case, wanted, got, trust) if trust != "nothing" else []


def compare_all(cases, triton, options):
    """Prints what differs; the number of cases in which something does."""

    def by_tegula(case):
        arrays = copies(case)
        run_tegula(options, case, arrays)
        return arrays

    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        tegula = [pool.submit(attempt, by_tegula, c) for c in cases]
        for case, future in zip(cases, tegula):
            problems = problems_of(case, triton.trust(case), attempt(triton.run, case), future.result())
            failed += bool(problems)
            if problems or options.verbose:
                print(f"{'DIFFERS' if problems else 'same   '} {case.name}")
            for p in problems:
                print("        " + p.replace("\n", "\n        "))
    return failed


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tegula", help="the tegula command")
    parser.add_argument("--device", choices=["gpu", "emulator"], help="of Tegula")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--record", metavar="FILE", help="write Triton's results to FILE (.npz) and stop")
    parser.add_argument("--expected", metavar="FILE", help="compare with results written by --record")
    parser.add_argument("--verbose", action="store_true", help="list the cases that agree as well")
    options = parser.parse_args()
    if not options.tegula and not options.record:
        parser.error("--tegula PATH is needed, unless --record")
    cases = [c for c in make_cases() if options.only in c.name]
    begin = time.time()
    triton = Triton(options.expected)
    if options.record:
        record(cases, triton, options.record)
        print(f"{len(cases)} cases by {triton.name} in {time.time() - begin:.0f} s")
        return 0
    failed = compare_all(cases, triton, options)
    counts = f"{len(cases)} cases against {triton.name} in {time.time() - begin:.0f} s: {len(cases) - failed} agree, {failed} differ"
    if not triton.is_exact:
        trusts = [case.interpreter for case in cases]
        counts += (f"; {trusts.count('types')} compared by types only, {trusts.count('nothing')} not compared (the interpreter "
                   "does not tell)")
    print(counts)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
