"""Elementwise entries and optimiser steps of the kernel library against numpy in double precision; strides, and what entries refuse."""

import math
import unittest

from entries import ACTIVATIONS, Array, call, Case, DEVICE, empty, kernels, normal, np, random, softmax, tegula


class Elementwise(Case):

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
        call(kernels.dropout, y, x, p=0.25, seed=2**64 - 1)
        call(kernels.dropout, again, x, p=0.25, seed=-1)  # the same 64 bits
        np.testing.assert_array_equal(y.now(), again.now())

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


class Places(Case):

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
            (lambda: call(kernels.cross_entropy, empty(4), empty((4, 0)), Array(np.zeros(4), "i64")), "cross_entropy: logits have no columns"),
            (lambda: call(kernels.cross_entropy, empty(4), x, empty(4)),
             "cross_entropy: targets has elements of type float32, expected int64, int32"),
            (lambda: call(kernels.reduce_rows, empty(4), x, kind="median"),
             "reduce_rows: kind is 'median', expected one of sum, mean, max, min"),
            (lambda: call(kernels.reduce_rows, empty(4), x, kind=3),
             "reduce_rows: kind is '3', expected one of sum, mean, max, min"),
            (lambda: call(kernels.glu_backward, y, y, x, x, x), "glu_backward: dgate and dup are the same memory"),
            (lambda: call(kernels.softmax, y), "softmax: x is not given"),
            (lambda: call(kernels.dropout, y, x, p="much", seed=1), "dropout: p is not a number"),
            (lambda: call(kernels.dropout, y, x, p=float("nan"), seed=1), "dropout: p is nan, expected 0 to 1"),
            (lambda: call(kernels.group_norm, y, x, 0), "group_norm: groups is 0, expected 1 or more"),
            (lambda: call(kernels.l2_norm, empty((4, 8), "bf16"), x),
             "l2_norm: x has elements of type float32, but out has elements of type bfloat16"),
        ):
            with self.assertRaises(tegula.LaunchError) as caught:
                wrong()
            self.assertEqual(str(caught.exception), text)


class Optimisers(Case):

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
                    self.near(array, exact)

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
        self.near(found, [exact])
        self.near(clip, [2 / (exact + 1e-6)])


if __name__ == "__main__":
    unittest.main()
