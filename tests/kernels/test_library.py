"""The kernel library's entries through tegula.kernels against numpy in double precision: shapes, types, strides, extreme
values, and gradients beside differences of the functions that they belong to."""

import math
import pathlib
import sys
import unittest

SOURCE = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(SOURCE / "bindings" / "python"))

try:
    import numpy as np
except ImportError:
    print("[  SKIPPED ]\ntest_library.py: Skipped\nnumpy is not installed for", sys.executable)
    sys.exit(77)

import tegula
from tegula import kernels

DEVICE = tegula.Device.default()
SHAPES = [(1, 1), (5, 1), (7, 3), (3, 781), (37, 64), (2, 4096)]
TOLERANCE = {"f32": 2e-5, "f16": 1e-3, "bf16": 8e-3}
random = np.random.default_rng(0)


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
        as_type = {"f32": np.float32, "f16": np.float16, "i8": np.int8, "i32": np.int32, "i64": np.int64, "u8": np.uint8}
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


class Library(unittest.TestCase):

    def near(self, found, exact, kind="f32", scale=1.0, what=""):
        exact = np.asarray(exact, np.float64)
        found = found.now() if isinstance(found, Array) else found
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact), what)
        found, exact = np.nan_to_num(found), np.nan_to_num(exact)
        allowed = TOLERANCE[kind] * np.maximum(np.abs(exact), scale)
        worst = np.max(np.abs(found - exact) - allowed, initial=-1)
        self.assertLessEqual(worst, 0, f"{what} {found.shape} {kind}")

    def over(self, test, shapes=SHAPES):
        for i, shape in enumerate(shapes):
            kind = ("f32", "bf16", "f32", "f16")[i % 4]
            with self.subTest(shape=shape, kind=kind):
                test(shape, kind)

    # ---- Softmax

    def test_log_softmax(self):

        def test(shape, kind):
            x, y = normal(shape, kind, 3), empty(shape, kind)
            call(kernels.log_softmax, y, x)
            self.near(y, log_softmax(x.exact), kind)

        self.over(test, [*SHAPES, (1, 40000)])

    def test_masked_softmax(self):

        def test(shape, kind):
            x, y = normal(shape, kind), empty(shape, kind)
            mask = Array(random.integers(0, 2, (1, shape[1])), "u8")
            mask = Array(np.maximum(mask.exact, np.arange(shape[1]) == 0), "u8")
            call(kernels.softmax, y, x, mask=mask)
            self.near(y, softmax(np.where(mask.exact, x.exact, -np.inf)), kind)

        self.over(test, [*SHAPES, (1, 40000)])

    def test_causal_softmax(self):
        for queries, shape in ((0, (5, 9)), (4, (12, 6)), (3, (3, 20000))):
            x, y = normal(shape), empty(shape)
            call(kernels.softmax, y, x, causal=True, queries=queries)
            each = queries or shape[0]
            seen = np.arange(shape[1]) <= (np.arange(shape[0]) % each)[:, None] + shape[1] - each
            self.near(y, softmax(np.where(seen, x.exact, -np.inf)))

    def test_rows_without_numbers(self):
        x = random.standard_normal((5, 300))
        x[0], x[1, 7], x[2, 3], x[3] = -np.inf, np.inf, np.nan, 1e-42
        for cols in (300, 20000):
            wide = np.tile(x, (1, -(-cols // 300)))[:, :cols]
            y = empty(wide.shape)
            with np.errstate(invalid="ignore"):
                for entry, exact in ((kernels.softmax, softmax), (kernels.log_softmax, log_softmax)):
                    call(entry, y, Array(wide, "f32"))
                    self.near(y, exact(rounded(wide, "f32")), what=entry.name)
                call(kernels.rms_norm, y, Array(wide, "f32"))
                self.near(y.now()[2:], norm(rounded(wide, "f32"))[2:], what="rms_norm")

    def test_softmax_of_divided_rows(self):
        text = tegula.load(str(SOURCE / "kernels" / "softmax.py"))["softmax"]
        for kind, cols, blocks, stages in (("bf16", 2048, 2, 2), ("f32", 1999, 2, 0)):
            for function in ("softmax", "log_softmax"):
                x, out = normal((3, cols), kind, 30), empty((3, cols), kind)
                text[(2 if stages else 3,)](out.given, x.given, None, None, cols, cols, 0, 3, cols, 1, 0, 1.0, 2, ROWS=1, STAGES=stages,
                                            PIECE=0, EVICTION="", KIND=function, CAUSAL=False, num_warps=2,
                                            num_ctas=blocks if DEVICE.sm >= 90 else 1)
                self.near(out, {"softmax": softmax, "log_softmax": log_softmax}[function](x.exact), kind, 4, function)

    def test_softmax_of_rows_that_begin_anywhere(self):
        """Their tiles begin at multiples of 16 bytes, before the first column."""

        def test(shape, kind):
            x, y = normal(shape, kind, 3), empty(shape, kind)
            for entry, function in ((kernels.softmax, softmax), (kernels.log_softmax, log_softmax)):
                call(entry, y, x)
                self.near(y, function(x.exact), kind)
            x, y = normal(shape, kind), empty(shape, kind)
            call(kernels.softmax, y, x, causal=True, mask=Array(np.ones((1, shape[1]), np.uint8), "u8"))
            seen = np.arange(shape[1]) <= np.arange(shape[0])[:, None] + shape[1] - shape[0]
            self.near(y, softmax(np.where(seen, x.exact, -np.inf)), kind)

        self.over(test, [(3, 16385), (2, 70001)])
        text = tegula.load(str(SOURCE / "kernels" / "softmax.py"))["softmax"]
        for rows, cols, kind, how in (3, 8193, "f32", 0), (2, 20001, "bf16", 4096), (2, 16389, "f16", 2048), (2, 16999, "bf16", -2):
            for function in "softmax", "log_softmax":
                x, out = normal((rows, cols), kind, 30), empty((rows, cols), kind)
                text[(rows,)](out.given, x.given, None, None, cols, cols, 0, rows, cols, 1, 0, 1.0, 2, ROWS=2 if how == 0 else 1,
                              STAGES=0, PIECE=max(how, 0), EVICTION="", KIND=function, CAUSAL=False, num_warps=2,
                              num_ctas=2 if how < 0 and DEVICE.sm >= 90 else 1)
                self.near(out, {"softmax": softmax, "log_softmax": log_softmax}[function](x.exact), kind, 4, function)

    def test_softmax_backward(self):

        def test(shape, kind):
            dout, dx = normal(shape, kind), empty(shape, kind)
            for entry, function in ((kernels.softmax_backward, softmax), (kernels.log_softmax_backward, log_softmax)):
                out = Array(function(random.standard_normal(shape)), kind)
                call(entry, dx, dout, out)
                d, o = dout.exact, out.exact
                exact = (o * (d - (d * o).sum(1, keepdims=True)) if function is softmax else d -
                         np.exp(o) * d.sum(1, keepdims=True))
                self.near(dx, exact, kind, max(1, math.sqrt(shape[1]) / 8), entry.name)

        self.over(test, [*SHAPES, (1, 40000)])
        x, dout, dx = normal((3, 7)), normal((3, 7)), empty((3, 7))
        for entry, function in ((kernels.softmax_backward, softmax), (kernels.log_softmax_backward, log_softmax)):
            call(entry, dx, dout, Array(function(x.exact), "f32"))
            self.near(dx, gradient_of(function, x.exact, dout.exact), scale=5, what=entry.name)

    # ---- Norms

    def test_activations_of_norms(self):
        x, weight, y = normal((3, 200)), normal(200), empty((3, 200))
        for name, function in ACTIVATIONS.items():
            call(kernels.rms_norm, y, x, weight, activation=name)
            self.near(y, function(norm(x.exact, weight.exact)), what=name)

    def test_l2_norm_backward(self):

        def test(shape, kind):
            dy, x, dx = normal(shape, kind), normal(shape, kind), empty(shape, kind)
            call(kernels.l2_norm_backward, dx, dy, x)
            r = 1 / np.sqrt((x.exact**2).sum(1, keepdims=True))
            exact = r * (dy.exact - x.exact * r * r * (dy.exact * x.exact).sum(1, keepdims=True))
            self.near(dx, exact, kind, r.max() * 4)

        self.over(test, [(5, 2), (7, 3), (3, 781), (37, 64), (2, 4096), (1, 40000)])
        x, dy, dx = normal((3, 7)), normal((3, 7)), empty((3, 7))
        call(kernels.l2_norm_backward, dx, dy, x)
        self.near(dx, gradient_of(lambda x: x / np.sqrt((x * x).sum(1, keepdims=True)), x.exact, dy.exact), scale=5)
        call(kernels.l2_norm_backward, dx, dy, Array(x.exact * 1e-9, "f32"), eps=1e-3)
        self.near(dx, dy.exact * 1e3, scale=1e3)

    def test_group_norm_backward(self):

        def normed(x, groups):
            y = x.reshape(x.shape[0], groups, -1)
            y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)
            return y.reshape(x.shape)

        for batch, channels, spatial, groups, kind in ((2, 4, 3, 2, "f32"), (3, 12, 50, 4, "bf16"), (1, 6, 700, 1, "f16")):
            x, dy, weight = normal((batch, channels, spatial), kind), normal((batch, channels, spatial), kind), normal(channels)
            dx, dweight, dbias = empty(x.exact.shape, kind), empty(channels), empty(channels)
            call(kernels.group_norm_backward, dx, dweight, dbias, dy, x, groups, weight)
            n, g = normed(x.exact, groups), dy.exact * weight.exact[:, None]
            grouped = lambda a: a.reshape(batch, groups, -1)
            r = 1 / np.sqrt(grouped(x.exact).var(2, keepdims=True) + 1e-5)
            exact = r * (grouped(g) - grouped(g).mean(2, keepdims=True) - grouped(n) * grouped(g * n).mean(2, keepdims=True))
            self.near(dx, exact.reshape(x.exact.shape), kind, 4)
            self.near(dweight, (dy.exact * n).sum((0, 2)), scale=30)
            self.near(dbias, dy.exact.sum((0, 2)), scale=30)
            if kind == "f32":
                self.near(dx, gradient_of(lambda x: normed(x, groups) * weight.exact[:, None], x.exact, dy.exact), scale=5)
            call(kernels.group_norm_backward, dx, None, None, dy, x, groups)
        with self.assertRaises(tegula.LaunchError) as caught:
            call(kernels.group_norm_backward, empty((0, 2, 2)), empty(2), None, normal((0, 2, 2)), normal((0, 2, 2)), 1)
        self.assertEqual(str(caught.exception), "group_norm_backward: x has no image, expected one at least")

    def test_weights_of_another_type(self):
        x, weight, bias, y = normal((3, 200), "bf16"), normal(200), normal(200), empty((3, 200), "bf16")
        call(kernels.layer_norm, y, x, weight, bias)
        self.near(y, norm(x.exact, weight.exact, bias.exact, center=True), "bf16")

    def test_quantised_norms(self):
        for shape in ((3, 200), (2, 40000)):
            x, r, weight, scales = normal(shape), normal(shape), normal(shape[1]), empty(shape[0])
            q, total = empty(shape, "i8"), empty(shape)
            exact = norm(x.exact + r.exact, weight.exact)
            call(kernels.rms_norm, q, x, weight, residual=r, sum=total, scales=scales)
            self.near(total, x.exact + r.exact)
            self.near(scales, np.abs(exact).max(1) / 127, scale=0)
            self.assertLessEqual(np.abs(q.now() - exact / scales.now()[:, None]).max(), 0.501)
            call(kernels.rms_norm, q, x, weight, residual=r, scale=Array(np.array([0.01]), "f32"))
            self.assertLessEqual(np.abs(q.now() - np.clip(exact / 0.01, -128, 127)).max(), 0.51)
            eight = Array(np.zeros(shape), "u8")
            kernels.layer_norm(tegula.reinterpret(eight.memory, tegula.float8e4nv), x.given, scales=scales.given)
            exact = norm(x.exact, center=True)
            self.near(scales, np.abs(exact).max(1) / 448, scale=0)
            self.assertLess(np.abs(float8_values(eight) * scales.now()[:, None] - exact).max(), 2**-4 * np.abs(exact).max())

    def test_l2_norm(self):

        def test(shape, kind):
            x, y = normal(shape, kind), empty(shape, kind)
            call(kernels.l2_norm, y, x)
            self.near(y, x.exact / np.maximum(np.sqrt((x.exact**2).sum(1, keepdims=True)), 1e-12), kind)

        self.over(test, [*SHAPES, (1, 40000)])
        y = empty((2, 40))
        call(kernels.l2_norm, y, Array(np.zeros((2, 40)), "f32"))
        self.near(y, np.zeros((2, 40)))

    def test_norms_of_images(self):
        for n, c, s, groups, kind in ((2, 6, 35, 3, "f32"), (1, 4, 5000, 2, "bf16"), (3, 7, 8, 1, "f32"), (2, 310, 9, 2, "f16"), (3, 1, 1, 1, "f32")):
            x, weight, bias, y = normal((n, c, s), kind), normal(c), normal(c), empty((n, c, s), kind)
            call(kernels.group_norm, y, x, groups, weight, bias, activation="silu")
            h = x.exact.reshape(n * groups, -1)
            exact = norm(h, eps=1e-5, center=True).reshape(n, c, s) * weight.exact[:, None] + bias.exact[:, None]
            self.near(y, ACTIVATIONS["silu"](exact), kind)
            residual = normal((n, c, s), kind)
            both = x.exact + residual.exact
            call(kernels.group_norm, y, x, groups, weight, residual=residual, sum=residual)
            exact = norm(both.reshape(n * groups, -1), eps=1e-5, center=True).reshape(n, c, s) * weight.exact[:, None]
            self.near(y, exact, kind)
            self.near(residual, both, kind)
            mean, variance = normal(c), Array(random.uniform(0.1, 2, c), "f32")
            call(kernels.batch_norm, y, x, mean, variance, weight, bias, activation="relu")
            h = (x.exact - mean.exact[:, None]) / np.sqrt(variance.exact[:, None] + 1e-5)
            self.near(y, np.maximum(h * weight.exact[:, None] + bias.exact[:, None], 0), kind, 4)
        with self.assertRaisesRegex(tegula.LaunchError, "group_norm: 1 channels cannot be divided into 2 groups"):
            call(kernels.group_norm, y, x, 2)
        with self.assertRaisesRegex(tegula.LaunchError, "group_norm: scales are those of int8 or float8, but out is float32"):
            call(kernels.group_norm, y, x, 1, scales=empty((3, 1)))
        with self.assertRaisesRegex(tegula.LaunchError, "rms_norm: scales are those of int8 or float8, but out is float16"):
            call(kernels.rms_norm, empty((3, 8), "f16"), empty((3, 8), "f16"), scales=empty(3))

    def test_quantised_group_norm(self):
        for n, c, s, groups in ((2, 6, 35, 3), (1, 4, 5001, 2), (3, 1, 1, 1)):
            x, r, weight, bias = normal((n, c, s)), normal((n, c, s)), normal(c), normal(c)
            both, q, total, scales = x.exact + r.exact, empty((n, c, s), "i8"), empty((n, c, s)), empty((n, groups))
            exact = norm(both.reshape(n * groups, -1), eps=1e-5, center=True).reshape(n, c, s) * weight.exact[:, None] + bias.exact[:, None]
            exact = ACTIVATIONS["silu"](exact)
            call(kernels.group_norm, q, x, groups, weight, bias, activation="silu", residual=r, sum=total, scales=scales)
            self.near(total, both)
            groupwise = exact.reshape(n, groups, -1)
            self.near(scales, np.abs(groupwise).max(2) / 127, scale=np.abs(exact).max() / 127)
            self.assertLessEqual(np.abs(q.now().reshape(groupwise.shape) - groupwise / scales.now()[:, :, None]).max(), 0.501)
            call(kernels.group_norm, q, x, groups, weight, bias, activation="silu", residual=r, scale=Array(np.array([0.01]), "f32"))
            self.assertLessEqual(np.abs(q.now() - np.clip(exact / 0.01, -128, 127)).max(), 0.51)
            eight = Array(np.zeros((n, c, s)), "u8")
            kernels.group_norm(tegula.reinterpret(eight.memory, tegula.float8e4nv), x.given, groups, scales=scales.given)
            exact = norm(x.exact.reshape(n * groups, -1), eps=1e-5, center=True)
            values = float8_values(eight).reshape(exact.shape)
            self.assertLess(np.abs(values * scales.now().reshape(-1, 1) - exact).max(), 2**-4 * np.abs(exact).max() + 1e-6)
        zeros = Array(np.zeros((1, 2, 3)), "f32")
        q, scales = empty((1, 2, 3), "i8"), empty((1, 2))
        call(kernels.group_norm, q, zeros, 2, scales=scales)
        self.assertEqual((np.abs(q.now()).max(), np.abs(scales.now()).max()), (0, 0))
        with self.assertRaisesRegex(tegula.LaunchError, "group_norm: scales has 2 columns, expected 1: one for each group"):
            call(kernels.group_norm, q, zeros, 1, scales=scales)

    def norm_backward(self, shape, kind, center, with_sum=False):
        x, dy, weight = normal(shape, kind), normal(shape, kind), normal(shape[1], kind)
        dx, dweight, dbias = empty(shape, kind), empty(shape[1], "f32"), empty(shape[1], "f32")
        dsum = normal(shape, kind) if with_sum else None
        if center:
            call(kernels.layer_norm_backward, dx, dweight, dbias, dy, x, weight, eps=1e-3, dsum=dsum)
        else:
            call(kernels.rms_norm_backward, dx, dweight, dy, x, weight, eps=1e-3, dsum=dsum)
        h = x.exact - x.exact.mean(1, keepdims=True) * center
        r = 1 / np.sqrt((h * h).mean(1, keepdims=True) + 1e-3)
        n, g = h * r, dy.exact * weight.exact
        exact = r * (g - g.mean(1, keepdims=True) * center - n * (g * n).mean(1, keepdims=True))
        self.near(dx, exact + (dsum.exact if with_sum else 0), kind, 4, "dx")
        self.near(dweight, (dy.exact * n).sum(0), "f32", 10, "dweight")
        if center:
            self.near(dbias, dy.exact.sum(0), "f32", 10, "dbias")
        return x, dy, weight, dx

    def test_norm_backward(self):
        self.over(lambda shape, kind: self.norm_backward(shape, kind, False), [*SHAPES, (700, 33), (3, 12672), (2, 40000), (1, 40000)])
        self.over(lambda shape, kind: self.norm_backward(shape, kind, True, True), [(7, 3), (3, 781), (300, 40), (2, 40000)])
        for center in (False, True):
            x, dy, weight, dx = self.norm_backward((3, 8), "f32", center)
            function = lambda v: norm(v, weight.exact, eps=1e-3, center=center)
            self.near(dx, gradient_of(function, x.exact, dy.exact), scale=10)

    def test_norm_backward_is_the_same_in_every_run(self):
        x, dy, weight, dx = normal((999, 40)), normal((999, 40)), normal(40), empty((999, 40))
        runs = []
        for _ in range(3):
            dweight = empty(40)
            call(kernels.rms_norm_backward, dx, dweight, dy, x, weight)
            runs.append(dweight.now().tobytes())
        self.assertEqual(len(set(runs)), 1)

    def test_norm_backward_of_no_rows(self):
        for cols in (40, 20000):
            x, dx, dweight, dbias = normal((0, cols)), empty((0, cols)), empty(cols), empty(cols)
            call(kernels.layer_norm_backward, dx, dweight, dbias, x, x)
            self.near(dweight, np.zeros(cols))
            self.near(dbias, np.zeros(cols))

    # ---- Losses

    def loss(self, x, targets, smoothing, z_loss, cap):
        z = cap * np.tanh(x / cap) if cap else x
        lse = np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1)
        kept = targets != -100
        at = z[np.arange(len(x)), np.where(kept, targets, 0)]
        return np.where(kept, (1 - smoothing) * (lse - at) + smoothing * (lse - z.mean(1)) + z_loss * lse**2, 0), lse

    LOSSES = ({}, {"smoothing": 0.1, "z_loss": 0.01, "cap": 5.0}, {"mean": True})

    def cross_entropy(self, shape, kind, launch, how):
        logits = normal(shape, kind, 3)
        targets = random.integers(0, shape[1], shape[0])
        targets[shape[0] // 2] = -100 if shape[0] > 1 else targets[0]
        losses, lse = empty(shape[0]), empty(shape[0])
        call(launch, losses, logits, Array(targets, "i64"), lse, **how)
        s, q, cap = how.get("smoothing", 0), how.get("z_loss", 0), how.get("cap", 0)
        exact, exact_lse = self.loss(logits.exact, targets, s, q, cap)
        factor = 1 / (targets != -100).sum() if how.get("mean") else 1
        self.near(losses, exact * factor, "f32", 1, "losses")
        self.near(lse, np.where(targets != -100, exact_lse, 0), "f32", 1, "lse")
        z = cap * np.tanh(logits.exact / cap) if cap else logits.exact
        kept = (targets != -100)[:, None]
        p = np.exp(z - exact_lse[:, None]) * (1 + 2 * q * exact_lse[:, None])
        p -= s / shape[1] + (1 - s) * (np.arange(shape[1]) == targets[:, None])
        p *= 1 - (z / cap)**2 if cap else 1
        self.near(logits, np.where(kept, p, 0) * factor, kind, 1e-2, "gradient")

    def test_cross_entropy(self):

        def test(shape, kind):
            for how in self.LOSSES:
                self.cross_entropy(shape, kind, kernels.cross_entropy, how)

        self.over(test, [(1, 1), (5, 3), (3, 781), (4, 4096), (2, 40000)])

    def test_cross_entropy_of_divided_rows(self):
        text = tegula.load(str(SOURCE / "kernels" / "cross_entropy.py"))["cross_entropy"]
        for shape, kind, blocks, stages, at_once in (((5, 2048), "bf16", 2, 2, 1), ((3, 1999), "f32", 2, 1, 1), ((4, 1000), "f16", 1, 2, 1),
                                                     ((5, 300), "f32", 1, 2, 2)):

            def launch(losses, logits, targets, lse, smoothing=0.0, z_loss=0.0, cap=0.0, mean=False):
                rows, cols = shape
                text[(2,)](losses, logits, targets, lse, cols, rows, cols, -100, smoothing, z_loss, cap, 1.0, 2, None, 0, MEAN=mean,
                           GRADIENT=True, ROWS=at_once, PIECE=0, PROGRAMS=1, STAGES=stages, num_warps=2,
                           num_ctas=blocks if DEVICE.sm >= 90 else 1)

            for how in self.LOSSES:
                self.cross_entropy(shape, kind, launch, how)

    def test_cross_entropy_of_rows_that_begin_anywhere(self):
        """Their tiles begin at multiples of 16 bytes, before the first column."""

        def test(shape, kind):
            for how in self.LOSSES:
                self.cross_entropy(shape, kind, kernels.cross_entropy, how)

        self.over(test, [(3, 16385), (2, 70001)])
        text = tegula.load(str(SOURCE / "kernels" / "cross_entropy.py"))["cross_entropy"]
        for shape, kind, piece in ((2, 8193), "f32", 1024), ((2, 16385), "bf16", 4096), ((2, 16387), "f16", 2048):

            def launch(losses, logits, targets, lse, smoothing=0.0, z_loss=0.0, cap=0.0, mean=False):
                rows, cols = shape
                text[(2,)](losses, logits, targets, lse, cols, rows, cols, -100, smoothing, z_loss, cap, 1.0, 2, None, 0, MEAN=mean,
                           GRADIENT=True, ROWS=1, PIECE=piece, PROGRAMS=1, STAGES=1, num_warps=2)

            for how in self.LOSSES:
                self.cross_entropy(shape, kind, launch, how)

    def test_cross_entropy_gradient(self):
        x, targets, how = normal((3, 7)), np.array([2, 6, 0]), dict(smoothing=0.2, z_loss=0.05, cap=4.0)
        losses = empty(3)
        call(kernels.cross_entropy, losses, x, Array(targets, "i32"), **how)
        function = lambda v: self.loss(v, targets, 0.2, 0.05, 4.0)[0]
        self.near(x, gradient_of(lambda v: function(v)[:, None] + 0 * v, x.exact, np.eye(1, 7)), scale=3)

    def test_cross_entropy_without_gradient(self):
        x, losses = normal((3, 70)), empty(3)
        call(kernels.cross_entropy, losses, x, Array(np.array([2, 69, 70]), "i64"), gradient=False)
        np.testing.assert_array_equal(x.now(), x.exact)
        self.assertEqual(list(np.isnan(losses.now())), [False, False, True])  # 70 is no column

    def test_divergences(self):

        def test(shape, kind):
            t = Array(log_softmax(random.standard_normal(shape)), kind)
            for entry, beta in ((kernels.kl_divergence, 0.5), (kernels.js_divergence, 0.3)):
                x, losses = Array(log_softmax(random.standard_normal(shape)), kind), empty(shape[0])
                call(entry, losses, x, t, beta=beta, factor=0.5)
                p, q = np.exp(x.exact), np.exp(t.exact)
                m = np.log(beta * q + (1 - beta) * p)
                if entry.name == "kl_divergence":
                    exact, dx = q * (t.exact - x.exact), -q
                else:
                    dx = (1 - beta) * p * (x.exact - m)
                    exact = beta * q * (t.exact - m) + dx
                self.near(losses, exact.sum(1) * 0.5, "f32", 1, entry.name)
                self.near(x, dx * 0.5, kind, 0.1, entry.name)

        self.over(test, [(1, 1), (5, 3), (3, 781), (2, 12672)])
        x, t, losses = Array(log_softmax(random.standard_normal((2, 6))), "f32"), normal((2, 6)), empty(2)
        call(kernels.js_divergence, losses, x, t, beta=0.3)

        def js(v):
            m = np.log(0.3 * np.exp(t.exact) + 0.7 * np.exp(v))
            return 0.3 * np.exp(t.exact) * (t.exact - m) + 0.7 * np.exp(v) * (v - m)

        self.near(x, gradient_of(js, x.exact, np.ones((2, 6))), scale=3)

    # ---- Reductions

    def test_reductions(self):
        functions = {"sum": np.sum, "mean": np.mean, "max": np.max, "min": np.min}

        def test(shape, kind):
            for name, function in functions.items():
                x, rows, columns = normal(shape, kind), empty(shape[0], kind), empty(shape[1], kind)
                call(kernels.reduce_rows, rows, x, kind=name)
                self.near(rows, function(x.exact, axis=1), kind, math.sqrt(shape[1]) if name == "sum" else 1, name)
                call(kernels.reduce_columns, columns, x, kind=name)
                self.near(columns, function(x.exact, axis=0), kind, math.sqrt(shape[0]) if name == "sum" else 1, name)
            out, mean = empty(shape[0]), empty(shape[0])
            call(kernels.variance, out, x, correction=0, mean=mean)
            self.near(out, x.exact.var(axis=1), "f32", 1, "variance")
            self.near(mean, x.exact.mean(axis=1), "f32", 1, "mean")
            out, mean = empty(shape[1]), empty(shape[1])
            call(kernels.variance_columns, out, x, correction=0, mean=mean)
            self.near(out, x.exact.var(axis=0), "f32", 1, "variance of columns")
            self.near(mean, x.exact.mean(axis=0), "f32", 1, "mean of columns")

        self.over(test, [*SHAPES, (1500, 20), (1, 20000)])
        x, out = normal((3, 50, 7)), empty((3, 7))
        call(kernels.reduce_columns, out, x, kind="max")
        self.near(out, x.exact.max(1))

    def test_columns_of_few_rows(self):
        for rows in (1, 2, 3, 64):
            x, out = normal((rows, 2500)), empty(2500)
            call(kernels.reduce_columns, out, x)
            self.near(out, x.exact.sum(0), scale=8)

    def test_pieces_of_clusters(self):
        """Few wide rows, whose pieces the blocks of a cluster share."""
        blocks = 2 if DEVICE.sm >= 90 else 1
        text = lambda file, kernel: tegula.load(str(SOURCE / "kernels" / f"{file}.py"))[kernel][(2,)]
        for kind, cols in (("f32", 3001), ("bf16", 2048)):
            shared = dict(ROWS=1, PIECE=1024, num_warps=2, num_ctas=blocks)
            x, dy, weight, out = normal((2, cols), kind), normal((2, cols), kind), normal(cols, kind), empty((2, cols), kind)
            for function in (softmax, log_softmax):
                text("softmax", "softmax")(out.given, x.given, None, None, cols, cols, 0, 2, cols, 1, 0, 1.0, 0, STAGES=2,
                                           EVICTION="", KIND=function.__name__, CAUSAL=False, **shared)
                self.near(out, function(x.exact), kind, 4, function.__name__)
            text("norm", "norm")(out.given, x.given, None, None, None, None, weight.given, None, cols, cols, 0, 0, 2, cols, 1e-6, 0,
                                 CENTER=True, ACTIVATION="none", STAGES=2, EVICTION="", **shared)
            self.near(out, norm(x.exact, weight.exact, center=True), kind, 4)
            q, scales, quarter = empty((2, cols), "i8"), empty(2), norm(x.exact, weight.exact, center=True) / 4
            text("norm", "norm")(q.given, x.given, None, None, Array(np.array([4.0]), "f32").given, scales.given, weight.given, None, cols,
                                 cols, 0, 0, 2, cols, 1e-6, 0, CENTER=True, ACTIVATION="none", STAGES=2, EVICTION="", **shared)
            self.near(scales, np.abs(quarter).max(1) / 127, scale=0)
            self.assertLessEqual(np.abs(q.now() - quarter / scales.now()[:, None]).max(), 0.501)
            y = Array(softmax(x.exact), kind)
            text("softmax_backward", "softmax_backward")(out.given, dy.given, y.given, cols, cols, cols, 2, cols, 0, LOG=False, **shared)
            exact = y.exact * (dy.exact - (y.exact * dy.exact).sum(1, keepdims=True))
            self.near(out, exact, kind)
            text("softmax_backward", "softmax_backward")(out.given, dy.given, y.given, cols, cols, cols, 2, cols, 0, LOG=False,
                                                         **shared | {"PIECE": 0, "num_warps": 4})
            self.near(out, exact, kind)
            sums, place, variance = empty(2), Array(np.zeros(2), "i32"), empty(2)
            wide = dict(ROWS=1, WIDTH=1024, STAGES=2, num_warps=2, num_ctas=blocks)
            text("reduce", "reduce_rows")(sums.given, None, x.given, cols, 2, cols, 0, KIND="sum", **wide)
            self.near(sums, x.exact.sum(1), scale=60)
            text("reduce", "reduce_rows")(None, place.given, x.given, cols, 2, cols, 0, KIND="max", **wide)
            np.testing.assert_array_equal(place.now(), x.exact.argmax(1))
            text("reduce", "row_variance")(variance.given, None, x.given, cols, 2, cols, 1, 0, **wide)
            self.near(variance, x.exact.var(1, ddof=1))
            positive, scan = Array(random.uniform(0.99, 1.01, (2, cols)), kind), empty((2, cols))
            for name, function in (("sum", np.cumsum), ("product", np.cumprod)):
                text("scan", "scan_rows")(scan.given, positive.given, cols, cols, 2, cols, 0, KIND=name, ROWS=1, STAGES=1,
                                          PIECE=512, num_warps=2, num_ctas=blocks)
                self.near(scan, function(positive.exact, axis=1), what=name)
            dweight, dbias = empty(cols), empty(cols)
            room, counters = DEVICE.array(np.zeros(8 * cols, np.float32)), DEVICE.array(np.zeros(4, np.int32))
            text("norm_backward", "norm_backward")(out.given, dweight.given, dbias.given, dy.given, x.given, weight.given, None, cols,
                                                   cols, cols, 0, 2, cols, 1e-3, 0, room, counters, CENTER=True, STAGES=1,
                                                   PROGRAMS=1, RELOAD=False, **shared)
            h = x.exact - x.exact.mean(1, keepdims=True)
            r = 1 / np.sqrt((h * h).mean(1, keepdims=True) + 1e-3)
            n, g = h * r, dy.exact * weight.exact
            self.near(out, r * (g - g.mean(1, keepdims=True) - n * (g * n).mean(1, keepdims=True)), kind, 4, "dx")
            self.near(dweight, (dy.exact * n).sum(0), "f32", 10, "dweight")
            self.near(dbias, dy.exact.sum(0), "f32", 10, "dbias")

    def test_scans(self):

        def test(shape, kind):
            x, y = Array(random.uniform(0.9, 1.1, shape), kind), empty(shape, "f32")
            for name, function in (("sum", np.cumsum), ("product", np.cumprod)):
                call(kernels.scan_rows, y, x, kind=name)
                self.near(y, function(x.exact, axis=1), what=name)

        self.over(test, [*SHAPES, (1, 20000)])

    def test_arg_extreme(self):
        x = random.integers(0, 9, (6, 500)).astype(float)
        x[1, [40, 400]], x[2] = np.nan, -np.inf
        for kind in ("max", "min"):
            index, out = Array(np.zeros(6), "i64"), empty(6)
            call(kernels.arg_extreme, index, Array(x, "f32"), kind=kind, out=out)
            exact = (np.argmax if kind == "max" else np.argmin)(x, axis=1)
            np.testing.assert_array_equal(index.now(), exact)
            self.near(out, x[np.arange(6), exact])

    def test_statistics_of_columns(self):
        x = random.integers(0, 9, (3, 300, 40)).astype(float)
        x[1, [40, 290], 3], x[2] = np.nan, -np.inf
        for kind in ("max", "min"):
            index, out = Array(np.zeros((3, 40)), "i32"), empty((3, 40))
            call(kernels.arg_extreme_columns, index, Array(x, "f32"), kind=kind, out=out)
            exact = (np.argmax if kind == "max" else np.argmin)(x, axis=1)
            np.testing.assert_array_equal(index.now(), exact)
            self.near(out, np.take_along_axis(x, exact[:, None], 1)[:, 0])
        far, variance = Array(random.standard_normal((2, 700, 30)) + 3000, "f32"), empty((2, 30))
        call(kernels.variance_columns, variance, far)  # the variance must not be a difference of large numbers
        self.near(variance, far.exact.var(1, ddof=1), scale=30)

    def test_reduce_all(self):
        for shape, kind in (((1,), "f32"), ((5000,), "bf16"), ((3, 7, 11), "f16"), ((0,), "f32")):
            x, out = normal(shape, kind), empty(1)
            for name, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min)):
                if x.exact.size > 0 or name == "sum":
                    call(kernels.reduce_all, out, x, kind=name)
                    self.near(out, [function(x.exact)], scale=max(1, x.exact.size**0.5), what=name)

    # ---- Elementwise

    def test_gated_units(self):

        def test(shape, kind):
            gate, up, dout = (normal(shape, kind, 2) for _ in range(3))
            for name in ("silu", "gelu", "gelu_tanh", "relu", "leaky_relu"):
                y, dgate, dup, function = empty(shape, kind), empty(shape, kind), empty(shape, kind), ACTIVATIONS[name]
                call(kernels.glu, y, gate, up, activation=name)
                self.near(y, function(gate.exact) * up.exact, kind, 1, name)
                call(kernels.glu_backward, dgate, dup, dout, gate, up, activation=name)
                slope = (function(gate.exact + 1e-5) - function(gate.exact - 1e-5)) / 2e-5
                self.near(dgate, dout.exact * up.exact * slope, kind, 4, name)
                self.near(dup, dout.exact * function(gate.exact), kind, 4, name)

        self.over(test, [(1, 1), (3, 781), (37, 64)])

    def test_dropout(self):
        x, y, again = Array(np.ones((40, 500)), "f32"), empty((40, 500)), empty((40, 500))
        call(kernels.dropout, y, x, p=0.25, seed=7)
        call(kernels.dropout, again, x, p=0.25, seed=7)
        np.testing.assert_array_equal(y.now(), again.now())
        self.assertEqual(set(np.unique(y.now().astype(np.float32))), {0.0, np.float32(1 / 0.75)})
        self.assertAlmostEqual((y.now() == 0).mean(), 0.25, delta=0.02)
        call(kernels.dropout, again, x, p=0.25, seed=8)
        self.assertTrue((y.now() != again.now()).any())

    def test_dropout_by_philox(self):
        """Element n is dropped by word n % 4 of Philox for the counter n // 4, in tiles and in runs."""

        def words(seed, counter):
            key = np.array([seed & 0xFFFFFFFF, seed >> 32], np.uint64)
            c = [counter & 0xFFFFFFFF, counter >> 32, np.zeros_like(counter), np.zeros_like(counter)]
            for _ in range(10):
                first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
                c = [second >> np.uint64(32) ^ c[1] ^ key[0], second & np.uint64(0xFFFFFFFF),
                     first >> np.uint64(32) ^ c[3] ^ key[1], first & np.uint64(0xFFFFFFFF)]
                key = key + np.array([0x9E3779B9, 0xBB67AE85], np.uint64) & np.uint64(0xFFFFFFFF)
            return np.stack(c, -1)

        for rows, cols in ((40, 500), (7, 333), (3, 5)):
            x, y = Array(np.ones((rows, cols)), "f32"), empty((rows, cols))
            call(kernels.dropout, y, x, p=0.25, seed=(5 << 32) + 7)
            signed = words((5 << 32) + 7, np.arange(-(-rows * cols // 4), dtype=np.uint64)).astype(np.uint32).view(np.int32)
            uniform = np.where(signed < 0, -signed.astype(np.int64) - 1, signed).reshape(-1)[:rows * cols] * 4.6566127342e-10
            kept = (uniform >= 0.25).reshape(rows, cols)
            np.testing.assert_array_equal(y.now() != 0, kept)
            if DEVICE.is_emulator:  # arrays of the host, with gaps between rows
                wide = np.zeros((rows, cols + 3), np.float32)
                kernels.dropout(wide[:, :cols], x.exact.astype(np.float32), 0.25, (5 << 32) + 7)
                np.testing.assert_array_equal(wide[:, :cols] != 0, kept)

    def test_linear_dropout(self):
        for m, n, k, kind in ((1, 1, 1, "bf16"), (33, 70, 40, "f16"), (64, 128, 96, "bf16")):
            a, b, bias = normal((m, k), "f16"), normal((n, k), "f16"), normal(n, "f16")
            for activation in ("gelu", "none") if m > 1 else ("relu",):
                out, hidden, ones, dout = empty((m, n)), empty((m, n)), Array(np.ones((m, n)), "f32"), normal((m, n))
                call(kernels.linear_dropout, out, hidden, a, b, 0.25, 11, bias, activation=activation)
                h = a.exact @ b.exact.T + bias.exact
                self.near(hidden, h, scale=10)
                call(kernels.dropout, ones, ones, p=0.25, seed=11)  # the mask
                self.near(out, ACTIVATIONS[activation](h) * ones.now(), scale=10)
                call(kernels.linear_dropout, out, None, a, b, 0.25, 11, bias, activation=activation)
                self.near(out, ACTIVATIONS[activation](h) * ones.now(), scale=10)
                dhidden = empty((m, n))
                call(kernels.linear_dropout_backward, dhidden, dout, hidden, 0.25, 11, activation=activation)
                if activation == "gelu" and m < 40:
                    step = 1e-5  # it maps elements, so that one difference serves all of them
                    slope = (ACTIVATIONS["gelu"](h + step) - ACTIVATIONS["gelu"](h - step)) / (2 * step)
                    self.near(dhidden, dout.exact * slope * ones.now(), scale=5)
        with self.assertRaises(tegula.LaunchError) as caught:
            call(kernels.linear_dropout, out, None, a, normal((n, k + 1), "f16"), 0.25, 11)
        self.assertIn("96 columns against 97 rows", str(caught.exception))

    def test_rope(self):
        for interleaved in (False, True):
            for tokens, heads, size, half, kind in ((5, 3, 8, 4, "f32"), (3, 1, 10, 3, "f32"), (7, 12, 64, 32, "bf16")):
                x, out = normal((tokens, heads, size), kind), empty((tokens, heads, size), kind)
                angles = random.uniform(-3, 3, (20, half))
                cos, sin = Array(np.cos(angles), "f32"), Array(np.sin(angles), "f32")
                position = random.integers(0, 20, tokens)
                call(kernels.rope, out, x, cos, sin, Array(position, "i64"), interleaved=interleaved)
                c, s = cos.exact[position][:, None], sin.exact[position][:, None]
                first = slice(0, 2 * half, 2) if interleaved else slice(0, half)
                second = slice(1, 2 * half, 2) if interleaved else slice(half, 2 * half)
                exact, a, b = x.exact.copy(), x.exact[..., first], x.exact[..., second]
                exact[..., first], exact[..., second] = a * c - b * s, b * c + a * s
                self.near(out, exact, kind, 2)
                call(kernels.rope, out, out, cos, sin, Array(position, "i64"), interleaved=interleaved, backward=True)
                self.near(out, x.exact, kind, 4)  # the opposite turn, in place
        call(kernels.rope, out, x, Array(np.ones((2, 32)), "f32"), Array(np.ones((2, 32)), "f32"))
        self.assertTrue(np.isnan(out.now()[2:]).all() and not np.isnan(out.now()[:2]).any())

    # ---- Strides and places

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_strides_and_alignment(self):
        memory = random.standard_normal((6, 4, 301)).astype(np.float32)
        for x in (memory[:, 1, 1:], memory[:, 2, 3:90], memory[::2, 0, :300], memory[:, 0, :1]):
            given, out = x.copy(), np.full((x.shape[0], x.shape[1] + 5), 77, np.float32)
            y = out[:, 2:2 + x.shape[1]]
            kernels.softmax(y, x)
            self.near(y.astype(np.float64), softmax(given.astype(np.float64)))
            kernels.rms_norm_backward(y, None, x, x)
            columns = np.empty(x.shape[1], np.float32)
            kernels.reduce_columns(columns, x)
            self.near(columns.astype(np.float64), given.astype(np.float64).sum(0), scale=3)
            self.assertTrue((out[:, :2] == 77).all() and (out[:, 2 + x.shape[1]:] == 77).all())

    def test_refusals(self):
        x, y = normal((4, 8)), empty((4, 8))
        for wrong, text in (
            (lambda: call(kernels.rms_norm_backward, y, None, x, normal((4, 9))),
             "rms_norm_backward: x is 4 x 9, but dx is 4 x 8\n  hint: both have the same number of cols"),
            (lambda: call(kernels.cross_entropy, empty(4), x, Array(np.zeros(3), "i64")),
             "cross_entropy: targets has 3 elements, but losses has 4 elements\n  hint: both have the same number of rows"),
            (lambda: call(kernels.cross_entropy, empty(4), x, empty(4)),
             "cross_entropy: targets has elements of type float32, expected int64, int32"),
            (lambda: call(kernels.reduce_rows, empty(4), x, kind="median"),
             "reduce_rows: kind is 'median', expected one of sum, mean, max, min"),
            (lambda: call(kernels.glu_backward, y, y, x, x, x), "glu_backward: dgate and dup are the same memory"),
            (lambda: call(kernels.softmax, y), "softmax: x is not given"),
            (lambda: call(kernels.dropout, y, x, p="much", seed=1), "dropout: p is not a number"),
            (lambda: call(kernels.l2_norm, empty((4, 8), "bf16"), x),
             "l2_norm: x has elements of type float32, but out has elements of type bfloat16"),
        ):
            with self.assertRaises(tegula.LaunchError) as caught:
                wrong()
            self.assertEqual(str(caught.exception), text)


class Optimisers(unittest.TestCase):

    def setUp(self):
        self.sizes = [5000, 3, 2048, 777]
        new = lambda: [normal(n, "f32") for n in self.sizes]
        self.p, self.g, self.m, self.v = new(), new(), new(), [Array(np.abs(a.exact), "f32") for a in new()]
        addresses = [[a.memory.address for a in tensors] for tensors in (self.p, self.g, self.m, self.v)]
        chunks = [(i, k) for i, n in enumerate(self.sizes) for k in range(-(-n // 1024))]
        self.lists = Array(np.array(addresses), "i64"), Array(np.array(chunks), "i32"), Array(np.array(self.sizes), "i64")

    def each(self, function, *lists):
        for tensors in zip(*lists):
            found = function(*(a.exact for a in tensors))
            for array, exact in zip(tensors, found):
                if exact is not None:
                    Library.near(self, array, exact)

    def test_adamw(self):
        call(kernels.adamw, *self.lists, rate=1e-2, decay=0.1, correction1=1 - 0.9**3, correction2=1 - 0.999**3, aligned=True)

        def step(p, g, m, v):
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            return p * (1 - 1e-3) - 1e-2 * (m / (1 - 0.9**3)) / (np.sqrt(v / (1 - 0.999**3)) + 1e-8), None, m, v

        self.each(step, self.p, self.g, self.m, self.v)

    def test_lion(self):
        call(kernels.lion, *self.lists, rate=1e-2, decay=0.1)
        self.each(lambda p, g, m: (p * (1 - 1e-3) - 1e-2 * np.sign(0.9 * m + 0.1 * g), None, 0.99 * m + 0.01 * g), self.p,
                  self.g, self.m)

    def test_sgd(self):
        clip = Array(np.array([0.5]), "f32")
        call(kernels.sgd, *self.lists, rate=1e-2, momentum=0.9, decay=0.1, clip=clip, moment="float32", nesterov=True)

        def step(p, g, m):
            g = 0.5 * g + 0.1 * p
            m = 0.9 * m + g
            return p - 1e-2 * (g + 0.9 * m), None, m

        self.each(step, self.p, self.g, self.m)

    def test_gradient_norm(self):
        found, clip = empty(1), empty(1)
        call(kernels.gradient_norm, found, *self.lists, clip=clip, most=2.0)
        exact = math.sqrt(sum((a.exact**2).sum() for a in self.g))
        Library.near(self, found, [exact])
        Library.near(self, clip, [2 / (exact + 1e-6)])


if __name__ == "__main__":
    unittest.main()
