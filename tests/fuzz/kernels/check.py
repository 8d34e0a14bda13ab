"""One case: what a kernel gives on the emulator beside the reference."""

import functools
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bindings" / "python"))
import reference
import tegula
from element_types import BY_NAME, Undecided, decode, encode, round_to, storage

HEADER = "import triton\nimport triton.language as tl\n\n\n"
ALIGNMENT = 128
GUARD = 64  # elements beside an array that must stay as they are


def numbers(array):
    """What an array of a case holds at first: small numbers, which all types have. Not to be written to."""
    return numbers_of(array["seed"], array["type"], array["fill"], array["length"])


@functools.lru_cache(16)  # the reference and the kernel read the same
def numbers_of(seed, type_, fill, length):
    if fill == "zero":
        return np.zeros(length)
    random, t = np.random.default_rng(seed), BY_NAME[type_]
    if t.is_float:
        values = random.integers(-15, 16, length) / random.choice([1, 2, 4])
        return values if t.digits >= 4 else round_to(values, t)
    return random.integers(0 if t.kind == "u" else -20, 100 if random.random() < .5 else 6, length)


@functools.lru_cache(16)
def encoded(seed, type_, fill, length):
    return encode(numbers_of(seed, type_, fill, length), BY_NAME[type_])


def sent(array):
    """What an array of a case holds at first as it lies in memory. Not to be written to."""
    return encoded(array["seed"], array["type"], array["fill"], array["length"])


def in_memory(array):
    """The array as the kernel gets it, within one that has guards and begins at `offset` elements."""
    t = BY_NAME[array["type"]]
    item = storage(t).itemsize
    raw = np.zeros((array["length"] + 2 * GUARD) * item + 2 * ALIGNMENT, np.uint8)
    begin = -(raw.ctypes.data + GUARD * item) % ALIGNMENT + GUARD * item + array["offset"] * item
    view = raw[begin:begin + array["length"] * item].view(storage(t))
    view[:] = sent(array)
    return view


def difference(name, got, before, memory):
    """What is wrong in an array that held `before`, or nothing."""
    if not memory.written and np.array_equal(got, before):
        return None
    values = decode(got, memory.type)
    if memory.type.is_float:
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(values - memory.value) <= memory.bound) & (values != memory.value)
    else:
        wrong = values != memory.value
    places = np.flatnonzero(wrong)
    if places.size == 0:
        return None
    shown = "; ".join(f"[{i}] {values[i]}, expected {memory.value[i]}" +
                      (f" within {memory.bound[i]:.3g}" if memory.bound[i] else "") for i in places[:4])
    return f"{name}: {places.size} of {values.size} differ: {shown}"


def expected(case):
    """The arrays behind the kernel, by the reference; raises Undecided."""
    memories = {name: reference.Memory(BY_NAME[a["type"]], numbers(a)) for name, a in case["arrays"].items()}
    scalars = {name: (reference.int32, value) for name, value in case["numbers"].items()}
    with np.errstate(over="ignore"):
        reference.run(case["text"], (case["programs"], 1, 1), {**memories, **scalars})
    return memories


def options_of(case):
    """Options of the launch; older cases have fewer, and GPUs before sm_90 no clusters."""
    options = {name: case[name] for name in ("num_warps", "num_stages", "maxnreg", "num_ctas") if name in case}
    if tegula.Device.default().sm < 90:
        options.pop("num_ctas", None)
    return options


def check(case, memories):
    """None if the kernel gives what the reference gave, else (kind, text)."""
    arrays = {name: in_memory(a) for name, a in case["arrays"].items()}
    given = {name: tegula.reinterpret(x, case["arrays"][name]["type"]) for name, x in arrays.items()}
    try:
        kernel = tegula.parse(HEADER + case["text"], "kernel.py").kernel
        kernel[(case["programs"], )](**given,
                                     **case["numbers"],
                                     **options_of(case))
    except tegula.Error as error:
        return type(error).__name__, str(error)
    wrong = [text for name, x in arrays.items() if (text := difference(name, x, sent(case["arrays"][name]), memories[name]))]
    return ("wrong", "\n".join(wrong)) if wrong else None


def verdict(case):
    """(kind, text) of a case: "right", "wrong", "undecided", "reference" (it lacks something) or an error's name."""
    try:
        memories = expected(case)
    except Undecided as why:
        return "undecided", str(why)
    except Exception as error:  # what the reference lacks is a mistake of this folder's
        return "reference", f"{type(error).__name__}: {error}"
    return check(case, memories) or ("right", "")
