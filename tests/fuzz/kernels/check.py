"""One case: what a kernel gives on the emulator, or on a GPU, beside the reference."""

import functools
import os
import pathlib
import subprocess
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
    if fill == "count":
        return np.arange(length)
    random, t = np.random.default_rng(seed), BY_NAME[type_]
    if t.is_float:
        values = random.integers(-15, 16, length) / random.choice([1, 2, 4])
        return values if t.digits >= 4 else round_to(values, t)
    if t.kind == "b":
        return random.random(length) < .6
    return random.integers(0 if t.kind == "u" else -20, 100 if random.random() < .5 else 6, length)


@functools.lru_cache(16)
def encoded(seed, type_, fill, length):
    return encode(numbers_of(seed, type_, fill, length), BY_NAME[type_])


def sent(array):
    """What an array of a case holds at first as it lies in memory. Not to be written to."""
    return encoded(array["seed"], array["type"], array["fill"], array["length"])


class Room:
    """An array as the kernel gets it, within one that has guards and begins at `offset` elements: the host's memory, which
    the emulator accesses, or a copy in a GPU's."""

    def __init__(self, array, device=None):
        t = BY_NAME[array["type"]]
        item = storage(t).itemsize
        self.raw = np.zeros((array["length"] + 2 * GUARD) * item + 2 * ALIGNMENT, np.uint8)
        base = 0 if device else self.raw.ctypes.data  # GPUs' memory is aligned
        self.begin = -(base + GUARD * item) % ALIGNMENT + GUARD * item + array["offset"] * item
        self.end = self.begin + array["length"] * item
        self.view = self.raw[self.begin:self.end].view(storage(t))
        self.view[:] = sent(array)
        self.copy = device and device.array(self.raw)
        if device:
            self.__cuda_array_interface__ = {
                "shape": self.view.shape,
                "typestr": self.view.dtype.str,
                "data": (self.copy.address + self.begin, False),
                "version": 3
            }

    def argument(self, type_):
        return tegula.reinterpret(self if self.copy else self.view, type_)

    def fetch(self):
        """What the kernel left; says where it wrote beside the array (the emulator refuses to)."""
        if not self.copy:
            return None
        self.copy.copy_to(self.raw)
        outside = np.concatenate([self.raw[:self.begin], self.raw[self.end:]])
        return None if not outside.any() else f"{np.count_nonzero(outside)} bytes beside the array are written"


def in_memory(array):
    """The array in the host's memory."""
    return Room(array).view


def difference(name, got, before, memory):
    """What is wrong in an array that held `before`, or nothing."""
    if not memory.written and np.array_equal(got, before):
        return None
    values = decode(got, memory.type)
    if memory.type.is_float:
        with np.errstate(invalid="ignore"):
            wrong = ~(np.abs(values - memory.value) <= memory.bound) & (values != memory.value)
        wrong &= ~np.isnan(memory.bound)  # of infinities times zero: nothing is known of these
    else:
        wrong = values != memory.value
    places = np.flatnonzero(wrong)
    if places.size == 0:
        return None
    shown = "; ".join(f"[{i}] {values[i]}, expected {memory.value[i]}" +
                      (f" within {memory.bound[i]:.3g}" if memory.bound[i] else "") for i in places[:4])
    return f"{name}: {places.size} of {values.size} differ: {shown}"


def grid_of(case):
    """Programs along each axis."""
    programs = case["programs"]
    return (programs, 1, 1) if isinstance(programs, int) else tuple(programs)


def expected(case):
    """The arrays behind the kernel, by the reference; raises Undecided."""
    memories = {name: reference.Memory(BY_NAME[a["type"]], numbers(a)) for name, a in case["arrays"].items()}
    scalars = {name: (BY_NAME["int32" if abs(value) < 1 << 31 else "int64"], value) for name, value in case["numbers"].items()}
    with np.errstate(over="ignore"):
        reference.run(case["text"], grid_of(case), {**memories, **scalars})
    return memories


class Registers:
    """The program that looks through PTX for registers that are read before they are set."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def read_too_early(self, ptx):
        """Lines of what is wrong, or ""."""
        text = ptx.encode()
        self.process.stdin.write(b"%d\n%b" % (len(text), text))
        self.process.stdin.flush()
        return self.process.stdout.read(int(self.process.stdout.readline())).decode()

    def close(self):
        with self.process:  # closes its pipes, and waits
            self.process.stdin.close()


@functools.lru_cache(1)
def registers():
    program = os.environ.get("TEGULA_PTX_REGISTERS")
    return Registers(program) if program else None


def options_of(case):
    """Options of the launch; older cases have fewer, and GPUs before sm_90 no clusters."""
    options = {name: case[name] for name in ("num_warps", "num_stages", "maxnreg", "num_ctas") if name in case}
    options.update(case.get("options", {}))
    if tegula.Device.default().sm < 90:
        options.pop("num_ctas", None)
    return options


def check(case, memories):
    """None if the kernel gives what the reference gave, else (kind, text)."""
    device = tegula.Device.default()
    rooms = {name: Room(a, None if device.is_emulator else device) for name, a in case["arrays"].items()}
    given = {name: room.argument(case["arrays"][name]["type"]) for name, room in rooms.items()}
    try:
        kernel = tegula.parse(HEADER + case["text"], "kernel.py").kernel
        launch = {**given, **case["numbers"], **options_of(case)}
        kernel[grid_of(case)](**launch)
        early = registers() and registers().read_too_early(kernel.ptx(**launch))
        wrong = [f"{name}: {text}" for name, room in rooms.items() if (text := room.fetch())]
    except tegula.Error as error:
        text = str(error)  # large tiles are exchanged in much shared memory; assemblers may want more than maxnreg
        is_large = "of shared memory" in text.split("\n")[0] or "Insufficient registers" in text
        return "refused" if is_large else type(error).__name__, text
    if early:
        return "registers", early
    for name, room in rooms.items():
        wrong += filter(None, [difference(name, room.view, sent(case["arrays"][name]), memories[name])])
    return ("wrong", "\n".join(wrong)) if wrong else None


def verdict(case):
    """(kind, text) of a case: "right", "wrong", "undecided", "refused" (too large), "reference" (it lacks something) or an
    error's name."""
    try:
        memories = expected(case)
    except Undecided as why:
        return "undecided", str(why)
    except Exception as error:  # what the reference lacks is a mistake of this folder's
        return "reference", f"{type(error).__name__}: {error}"
    return check(case, memories) or ("right", "")
