"""What tests of the kernel library's entries through tegula.kernels have in common: arrays, and references in double precision."""

import math
import os
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bindings" / "python"))

try:
    import numpy as np
except ImportError:
    print(f"[  SKIPPED ]\n{pathlib.Path(sys.argv[0]).name}: Skipped\nnumpy is not installed for", sys.executable)
    sys.exit(77)

import tegula
from tegula import kernels

DEVICE = tegula.Device.default()
SHAPES = [(1, 1), (5, 1), (7, 3), (3, 781), (37, 64), (2, 4096), (300, 3), (130, 16), (45, 33)]
TOLERANCE = {"f32": 2e-5, "f16": 1e-3, "bf16": 8e-3}
random = np.random.default_rng(0)


def by_day(cases, step):
    """Each `step`-th case from the first one on; all of them where ./dev nightly sets TEGULA_RANDOM, and on a GPU."""
    return cases if int(os.environ.get("TEGULA_RANDOM", "1")) > 1 or not DEVICE.is_emulator else cases[::step]


def rounded(x, kind):
    """x as the values of an element type, in double precision."""
    if kind == "f32":
        return x.astype(np.float32).astype(np.float64)
    if kind == "f16":
        return x.astype(np.float16).astype(np.float64)
    return (bf16_bits(x).astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def bf16_bits(x):
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return np.where(np.isnan(x), 0x7FC0, (bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype(np.uint16)


class Array:
    """An array on the device, its values in double precision, and how a call takes it."""

    def __init__(self, values, kind):
        self.kind = kind
        self.exact = values if kind in ("i8", "i32", "i64", "u8") else rounded(np.asarray(values, np.float64), kind)
        as_type = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i16": np.int16, "i64": np.int64, "u8": np.uint8}
        host = bf16_bits(self.exact) if kind == "bf16" else np.asarray(values).astype(as_type[kind])
        self.memory = DEVICE.array(np.ascontiguousarray(host))
        self.given = tegula.reinterpret(self.memory, tegula.bfloat16) if kind == "bf16" else self.memory

    def now(self):
        found = self.memory.numpy()
        return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64) if self.kind == "bf16" else found.astype(
            np.float64)


def normal(shape, kind="f32", scale=1.0):
    return Array(random.standard_normal(shape) * scale, kind)


def empty(shape, kind="f32"):
    return Array(np.full(shape, 77.0), kind)


def call(entry, *args, **kwargs):
    entry(*(a.given if isinstance(a, Array) else a for a in args),
          **{k: v.given if isinstance(v, Array) else v
             for k, v in kwargs.items()})


def softmax(x, axis=1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def log_softmax(x):
    x = x - x.max(1, keepdims=True)
    return x - np.log(np.exp(x).sum(1, keepdims=True))


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "none": lambda x: x, "relu": lambda x: np.maximum(x, 0), "leaky_relu": lambda x: np.where(x < 0, 0.01 * x, x),
    "silu": lambda x: x * sigmoid(x), "gelu": lambda x: x * 0.5 * (1 + np.vectorize(math.erf)(x / math.sqrt(2))),
    "gelu_tanh": lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))
}


def float8_values(x):
    """The numbers that the bits of an array of uint8 are as float8e4nv."""
    bits = x.memory.numpy().astype(np.int64)
    e, m = bits >> 3 & 15, bits & 7
    return np.where(bits > 127, -1, 1) * np.where(e > 0, 2.0**(e - 7) * (1 + m / 8), m / 512)


def norm(h, weight=1.0, bias=0.0, eps=1e-6, center=False):
    if center:
        h = h - h.mean(1, keepdims=True)
    return h / np.sqrt((h * h).mean(1, keepdims=True) + eps) * weight + bias


def gradient_of(function, x, dy, step=1e-5):
    """What sum(function(x) * dy) grows by, by differences."""
    found = np.zeros_like(x)
    for at in np.ndindex(*x.shape):
        up, down = x.copy(), x.copy()
        up[at] += step
        down[at] -= step
        found[at] = ((function(up) - function(down)) * dy).sum() / (2 * step)
    return found

class Case(unittest.TestCase):

    def near(self, found, exact, kind="f32", scale=1.0, what=""):
        exact = np.asarray(exact, np.float64)
        found = found.now() if isinstance(found, Array) else found
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact), what)
        found, exact = np.nan_to_num(found), np.nan_to_num(exact)
        allowed = TOLERANCE[kind] * np.maximum(np.abs(exact), scale)
        worst = np.max(np.abs(found - exact) - allowed, initial=-1)
        self.assertLessEqual(worst, 0, f"{what} {found.shape} {kind}")

    def refused(self, text, entry, *args, **kwargs):
        with self.assertRaises(tegula.LaunchError) as caught:
            call(entry, *args, **kwargs)
        self.assertEqual(str(caught.exception), text)

    def over(self, test, shapes=SHAPES):
        for i, shape in enumerate(shapes):
            kind = ("f32", "bf16", "f32", "f16")[i % 4]
            with self.subTest(shape=shape, kind=kind):
                test(shape, kind)
