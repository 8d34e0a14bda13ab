"""Products of the kernel library beside gemm against numpy in double precision: batches, quantised weights, convolutions, and linear
layers with cross entropy in parts; tokens drawn from logits."""

import math
import unittest

from entries import ACTIVATIONS, DEVICE, SOURCE, Array, Case, call, empty, kernels, log_softmax, normal, np, random, rounded, softmax, tegula

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])


class Views(Case):

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_transposed(self):
        """A linear layer's x @ w.T, rows and columns of larger matrices, and both operands transposed."""
        x, w, wide = (random.standard_normal(shape).astype(np.float16) for shape in ((20, 24), (33, 24), (40, 60)))
        for a, b in ((x, w.T), (w, x.T), (x.T, wide[:20]), (wide[2:26, 1:21].T, w.T), (x[:, ::24].T, x[:, :9]), (x[3:4], w.T), (w, wide.T[9:33, 8:9])):
            c = np.zeros((a.shape[0], b.shape[1]), np.float32)
            kernels.gemm(c, a, b)
            self.near(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), scale=10)
        c = np.zeros((20, 33), np.float32)
        kernels.gemm(c, x.T, w.T, transpose_a=True)
        self.near(c.astype(np.float64), x.astype(np.float64) @ w.T.astype(np.float64), scale=10)
        with self.assertRaises(tegula.LaunchError) as caught:
            kernels.gemm(c, x, wide[::2, ::2][:, :24].T)
        self.assertEqual(str(caught.exception), "gemm: the elements of a row of b lie 120 apart and those of a column 2, expected side by side\n"
                         "  hint: pass a contiguous copy")


class TwoBlocks(Case):

    @unittest.skipUnless(DEVICE.sm >= 90, "clusters of thread blocks")
    def test_tiles_that_two_blocks_share(self):
        """Their matrices have rows that begin at multiples of 16 bytes, not of 128, and end within a tile."""
        text = tegula.load(str(SOURCE / "kernels" / "gemm.py")).gemm
        a, b, c = normal((270, 136), "f16"), normal((136, 264), "f16"), empty((270, 264), "f16")
        for rows, cols, warps, programs in ((256, 256, 8, 1), (256, 160, 8, 0)):
            text[(2 if programs else 4,)](c.given, a.given, b.given, None, 270, 264, 136, 136, 1, 264, 1, 264, 1, 384, None, None,
                                          EPILOGUE="none", BLOCK_M=rows, BLOCK_N=cols, BLOCK_K=64, GROUP_M=8, PROGRAMS=programs,
                                          PARTS=0, SWAP=False, STREAM=False, SHARES=1, TURNS=False, num_warps=warps, num_stages=3, num_ctas=2)
            self.near(c, a.exact @ b.exact, "f16", 4)


class TwoSlots(Case):

    def test_large_tiles(self):
        """Shared memory has room for two slots of their operands, and a sum in flight holds the one."""
        text = tegula.load(str(SOURCE / "kernels" / "gemm.py")).gemm
        for cols, depth in ((176, 320), (208, 64)):
            a, b, c = normal((270, depth), "f16"), normal((depth, 264), "f16"), empty((270, 264), "f16")
            text[(2,)](c.given, a.given, b.given, None, 270, 264, depth, depth, 1, 264, 1, 264, 1, 384, None, None, EPILOGUE="none",
                       BLOCK_M=256, BLOCK_N=cols, BLOCK_K=64, GROUP_M=8, PROGRAMS=1, PARTS=0, SWAP=False, STREAM=False, SHARES=1, TURNS=False,
                       num_warps=8, num_stages=2)
            self.near(c, a.exact @ b.exact, "f16", 4 * math.sqrt(depth / 64))


class Batched(Case):

    def test_shapes(self):
        for i, (batch, m, n, k) in enumerate(((1, 1, 1, 1), (3, 5, 7, 9), (2, 70, 130, 40), (5, 33, 16, 64), (2, 3, 4, 0))):
            kind = ("f16", "bf16")[i % 2]
            a, b, bias, c = normal((batch, m, k), kind), normal((batch, k, n), kind), normal(n), empty((batch, m, n))
            call(kernels.batched_gemm, c, a, b, bias, epilogue="silu")
            self.near(c, ACTIVATIONS["silu"](a.exact @ b.exact + bias.exact), scale=10, what=f"{batch} {m} {n} {k}")

    def test_tiles_of_several_groups_or_blocks(self):
        """Two groups of warps, each with every other tile of three programs, also of the transposed product; tiles that blocks share; both."""
        text = tegula.load(str(SOURCE / "kernels" / "batched_gemm.py")).batched_gemm
        a, b, c = normal((3, 200, 72), "f16"), normal((3, 72, 136), "f16"), empty((3, 200, 136), "f16")
        for rows, cols, swap, turns, warps, blocks in ((64, 136, False, True, 4, 1), (104, 64, True, True, 4, 1), (256, 64, False, False, 8, 2), (256, 64, False, True, 4, 2),
                                                     (72, 256, True, True, 4, 4), (104, 512, True, False, 8, 4)):
            text[(3,)](c.given, a.given, b.given, None, 3, 200, 136, 72, 200 * 136, 136, 200 * 72, 72, 1, 72 * 136, 136, 1, 256, 4, EPILOGUE="none",
                       BLOCK_M=rows, BLOCK_N=cols, BLOCK_K=64, PROGRAMS=1, SWAP=swap, TURNS=turns, num_warps=warps, num_stages=3,
                       num_ctas=blocks if DEVICE.sm >= 90 else 1)
            self.near(c, a.exact @ b.exact, "f16", 4, what=f"{rows} x {cols}")

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_rows_far_apart(self):
        def apart(shape, stride):
            return np.lib.stride_tricks.as_strided(np.zeros(64, np.float16), shape, (0,) * (len(shape) - 2) + (2 * stride, 2))

        text = "rows of {} lie {} elements apart, so that those of a tile span more than 2^31 - 1\n  hint: up to 8421504 apart they do not"
        near, c = np.zeros((5, 5), np.float16), np.zeros((5, 5), np.float32)
        for entry, name in ((kernels.gemm, "gemm"), (kernels.batched_gemm, "batched_gemm")):
            for stride in (1 << 29, (1 << 31) - 1):
                a = apart((5, 5), stride)
                with self.assertRaises(tegula.LaunchError) as caught:
                    entry(c, a, near) if name == "gemm" else entry(c[None], near[None], a[None])
                self.assertEqual(str(caught.exception), f"{name}: {text.format('a' if name == 'gemm' else 'b', stride)}")

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_views(self):
        """Heads of attention: scores of queries and keys that lie token by token, transposed, and one matrix for all."""
        x = random.standard_normal((2, 20, 3, 16)).astype(np.float16)
        q = x[0].transpose(1, 0, 2)
        for keys in (x[1].transpose(1, 2, 0), np.broadcast_to(x[1, :, 0].T, (3, 16, 20))):
            scores = np.zeros((3, 20, 20), np.float32)
            kernels.batched_gemm(scores, q, keys)
            self.near(scores.astype(np.float64), q.astype(np.float64) @ keys.astype(np.float64), scale=10)

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_rows_at_odd_addresses(self):
        """So many products that operands which lie along K are copied to aligned ones first: gaps between matrices, one matrix for all, and
        one operand that is aligned."""

        def matrices(*shape):
            return random.standard_normal(shape).astype(np.float16)

        a, b, wide = matrices(4, 252, 257), matrices(4, 251, 257), matrices(4, 270, 264)
        for a, b in ((a, b), (wide[:, 3:255, 1:258], b), (np.broadcast_to(a[1], a.shape), b), (wide[:, :252, :256], b[:, :, 1:])):
            b = b.transpose(0, 2, 1)
            c = np.zeros((4, a.shape[1], b.shape[2]), np.float32)
            before = [m.copy() for m in (a, b)]
            kernels.batched_gemm(c, a, b)
            self.near(c.astype(np.float64), a.astype(np.float64) @ b.astype(np.float64), scale=20, what=f"{a.shape} {b.shape}")
            self.assertTrue(all((m == old).all() for m, old in zip((a, b), before)))

    def test_refusals(self):
        a, c = normal((2, 4, 8), "f16"), empty((2, 4, 4))
        self.refused("batched_gemm: b is 3 x 8 x 4, but out is 2 x 4 x 4\n  hint: both have the same number of batch", kernels.batched_gemm, c,
                     a, normal((3, 8, 4), "f16"))

    def test_no_product_takes_the_place_of_its_operand(self):
        a, b = normal((1, 32, 32), "f16"), normal((1, 32, 32), "f16")
        self.refused("batched_gemm: out is b, which other programs still read", kernels.batched_gemm, b, a, b)
        x, w = normal((1, 4, 4, 32), "f16"), normal((32, 3, 3, 32), "f16")
        self.refused("conv2d: out is x, which other programs still read", kernels.conv2d, x, x, w, padding_h=1, padding_w=1)
        a, b = normal((32, 32), "f16"), Array(np.zeros((32, 32)), "i8")
        self.refused("quantised_gemm: out is a, which other programs still read", kernels.quantised_gemm, a, a, b, empty((32, 1)))
        self.refused("linear_dropout: hidden is b, which other programs still read", kernels.linear_dropout, normal((32, 32), "f16"), b := a,
                     normal((32, 32), "f16"), b, 0.5, 1)
        x, weight, targets = normal((4, 8), "f16"), normal((5, 8), "f16"), Array(np.zeros(4), "i64")
        self.refused("linear_cross_entropy: dx is x, which other programs still read", kernels.linear_cross_entropy, empty(4), x,
                     empty((5, 8)), x, weight, targets, empty((4, 5), "f16"))


class QuantisedWeights(Case):
    """Weights that quantise_rows and quantise_groups make, and others bit by bit."""

    def weights(self, n, k, format):
        """An array of weights, and what they stand for."""
        if format == "int8":
            w = random.integers(-128, 128, (n, k))
            return Array(w, "i8"), w.astype(float)
        code = random.integers(0, 16, (n, k))
        value = {"int4": (code ^ 8) - 8, "uint4": code, "e2m1": E2M1[code & 7] * np.where(code < 8, 1, -1)}[format]
        return Array(code[:, ::2] | code[:, 1::2] << 4, "u8"), value.astype(float)

    def as_multiplied(self, w, m, group, kind, scales_kind):
        """Weights of short groups, and of any for many rows, are scaled before the tensor cores have them, if scales are of A's type."""
        return rounded(w, kind) if kind == scales_kind and ((m > 1 and group in (32, 64)) or (m > 64 and group > 0)) else w

    def check(self, m, n, k, format, group, kind="f16", with_zeros=False, scales_kind="f32", fractions=None):
        b, value = self.weights(n, k, format)
        groups = -(-k // group) if group else 1
        scales = Array(random.uniform(0.5, 1.5, (n, groups)), scales_kind)
        zeros = Array(random.integers(0, 16, (n, groups)), "u8") if with_zeros else None
        if fractions:
            zeros, with_zeros = Array(random.integers(0, 64, (n, groups)) / 4, fractions), True
        at = np.arange(k) // group if group else np.zeros(k, int)
        w = (value - (zeros.exact[:, at] if with_zeros else 0)) * scales.exact[:, at]
        w = self.as_multiplied(w, m, group, kind, scales_kind)
        a, bias, c = normal((m, k), kind), normal(n), empty((m, n))
        call(kernels.quantised_gemm, c, a, b, scales, zeros=zeros, bias=bias, epilogue="relu", packed=format if b.kind == "u8" else "int4",
             group=group)
        exact = ACTIVATIONS["relu"](a.exact @ w.T + bias.exact)
        self.near(c, exact, scale=30 * max(1, k)**0.5, what=f"{m} {n} {k} {format} {group} {kind}")

    def test_formats(self):
        for i, format in enumerate(("int8", "int4", "uint4", "e2m1")):
            for j, group in enumerate((0, 32, 64, 128)):
                self.check((3, 17, 1, 40)[j], (24, 70, 130, 16)[i], (264, 160, 200, 384)[j], format, group, ("f16", "bf16")[(i + j) % 2],
                           format != "e2m1" and j % 2 == 1, ("f32", "f16", "bf16")[j % 3])

    def test_choices_hold_for_all_rows_of_a_class(self):
        """Launches of other numbers of rows take what was chosen for some, whatever the order."""
        for n, order in ((48, (4, 8, 3, 5, 2, 1)), (56, (1, 2, 3, 6, 4, 7))):
            for m in order:
                self.check(m, n, 1024, "int4", 128)

    def test_shares_of_depth(self):
        """Warps and programs that divide K, which ends within a share; a group may lie behind it."""
        text = tegula.load(str(SOURCE / "kernels" / "quantised_gemm.py")).quantised_gemm
        for m, rows, n, k, format, group, shares, per, cols, splits, with_zeros in (
                (1, 8, 40, 1280, "int4", 128, 4, 2, 16, 2, False), (5, 8, 40, 1000, "uint4", 0, 8, 1, 32, 1, True),
                (11, 16, 20, 1160, "uint4", 64, 4, 2, 16, 2, True), (3, 8, 16, 700, "int8", 0, 4, 1, 16, 1, False),
                (2, 8, 33, 640, "int8", 128, 4, 1, 16, 2, True), (8, 8, 16, 520, "e2m1", 32, 2, 4, 16, 2, False),
                (1, 1, 22, 3072, "int4", 128, 2, 1, 4, 1, True), (1, 1, 9, 2100, "int8", 0, 1, 1, 2, 2, False),
                (2, 2, 20, 1600, "uint4", 64, 2, 1, 8, 1, True), (3, 4, 17, 1160, "int4", 128, 2, 2, 16, 2, False),
                (4, 4, 12, 1024, "uint4", 0, 1, 2, 8, 1, True)):
            b, value = self.weights(n, k, format)
            groups = -(-k // group) if group else 1
            scales, zeros = Array(random.uniform(0.5, 1.5, (n, groups)), "f16"), Array(random.integers(0, 16, (n, groups)), "u8")
            at = np.arange(k) // group if group else np.zeros(k, int)
            w = (value - (zeros.exact[:, at] if with_zeros else 0)) * scales.exact[:, at]
            w = self.as_multiplied(w, m, group, "f16", "f16")
            a, c = normal((m, k), "f16"), empty((m, n))
            tiles, step = -(-n // cols), shares * per * (group or 128) * max(1, 8 // rows)
            for together in (False, True):
                text[(tiles * splits,)](c.given, a.given, b.given, scales.given, zeros.given if with_zeros else None, None, m, n, k, n, k,
                                        k if format == "int8" else k // 2, groups, groups, 8, empty(tiles * splits * rows * cols).given,
                                        Array(np.zeros(4 * tiles), "i32").given, EPILOGUE="none", PACKED=format if format != "int8" else "int4", GROUP=group,
                                        BLOCK_M=rows, BLOCK_N=cols, STEP=step, SHARES=shares, STAGES=1, PROGRAMS=1, BLOCK_K=group or 128, EVEN_K=k % step == 0,
                                        TOGETHER=together, num_warps=shares, num_stages=1)
                self.near(c, a.exact @ w.T, scale=30 * k**0.5, what=f"{together} {m} {n} {k} {format} {group}")

    def test_tiles_of_many_rows(self):
        """Tiles whose weights each warpgroup converts, by clusters and by programs that divide K, too."""
        text = tegula.load(str(SOURCE / "kernels" / "quantised_gemm.py")).quantised_gemm
        for m, rows, n, cols, k, format, group, step, warps, splits, blocks, kind, with_zeros in (
                (300, 320, 256, 128, 384, "int8", 0, 64, 8, 1, 1, "f16", False), (130, 128, 272, 256, 512, "int4", 128, 64, 8, 2, 2, "bf16", True),
                (100, 96, 256, 256, 320, "int8", 0, 64, 4, 2, 4, "f16", False), (200, 192, 128, 128, 456, "uint4", 32, 64, 8, 1, 1, "f16", True),
                (128, 128, 192, 64, 512, "int8", 64, 128, 4, 3, 1, "bf16", False), (130, 136, 70, 64, 384, "int8", 0, 128, 4, 3, 1, "f16", False)):
            b, value = self.weights(n, k, format)
            groups = -(-k // group) if group else 1
            scales, zeros = Array(random.uniform(0.5, 1.5, (n, groups)), kind), Array(random.integers(0, 16, (n, groups)), "u8")
            at = np.arange(k) // group if group else np.zeros(k, int)
            w = (value - (zeros.exact[:, at] if with_zeros else 0)) * scales.exact[:, at]
            w = self.as_multiplied(w, m, group, kind, kind)
            a, c = normal((m, k), kind), empty((m, n))
            tiles = -(-m // rows) * -(-n // cols)
            for together in (False, True) if splits > 1 else (False,):
                text[(tiles * splits,)](c.given, a.given, b.given, scales.given, zeros.given if with_zeros else None, None, m, n, k, n, k,
                                        k if format == "int8" else k // 2, groups, groups, 8, empty(tiles * splits * rows * cols).given,
                                        Array(np.zeros(4 * tiles), "i32").given, EPILOGUE="none", PACKED=format if format != "int8" else "int4",
                                        GROUP=group, BLOCK_M=rows, BLOCK_N=cols, STEP=step, SHARES=0, STAGES=3, PROGRAMS=splits - 1, BLOCK_K=step,
                                        EVEN_K=k % step == 0, TOGETHER=together, num_warps=warps, num_stages=3, num_ctas=blocks)
                self.near(c, a.exact @ w.T, scale=30 * k**0.5, what=f"{together} {m} {n} {k} {format} {group} {blocks}")

    def test_infinite_elements(self):
        """Weights without zeros are multiplied as they are: an infinite product stays one."""
        for kind in ("f16", "bf16"):
            b, value = self.weights(40, 256, "int4")
            scales, c, x = Array(np.ones((40, 2)), "f32"), empty((3, 40)), random.standard_normal((3, 256))
            x[1, 5] = np.inf
            a = Array(x, kind)
            call(kernels.quantised_gemm, c, a, b, scales, packed="int4", group="128")
            with np.errstate(invalid="ignore"):
                np.testing.assert_array_equal(c.now()[1], value[:, 5] * np.inf)

    def test_zeros_between_integers(self):
        for m in (1, 20):
            self.check(m, 24, 160, "int8", 32, fractions="f32")
            self.check(m, 24, 160, "int4", 32, fractions="f16")
            self.check(m, 24, 160, "uint4", 0, "bf16", fractions="f32")
            self.check(m, 24, 160, "e2m1", 0, fractions="bf16")

    def test_many_rows_and_few_columns(self):
        self.check(140, 65, 136, "int4", 0)
        self.check(100, 70, 648, "int8", 0, "bf16")
        self.check(130, 130, 640, "int4", 128, scales_kind="f16")
        self.check(200, 33, 384, "uint4", 128, "bf16", True, "bf16")
        self.check(70, 64, 256, "int8", 128)
        self.check(100, 70, 256, "int8", 64, "bf16", True, "bf16")
        self.check(100, 70, 256, "uint4", 0, fractions="f32")
        self.check(97, 1, 8, "uint4", 0, "bf16", True)
        self.check(12, 70, 296, "int4", 0, "bf16", True)
        self.check(16, 33, 256, "int8", 128)
        self.check(8, 48, 320, "uint4", 64, with_zeros=True)
        self.check(1, 1, 1, "int8", 0)
        self.check(2, 5, 0, "int8", 0)
        self.check(2, 33, 77, "int8", 32)

    def test_what_is_quantised(self):
        """A round trip: weights as quantise_groups leaves them, scales as powers of two among them."""
        w, a, c = normal((40, 256)), normal((5, 256), "bf16"), empty((5, 40))
        for packed, scale_kind in (("int4", "f32"), ("e2m1", "u8")):
            b = Array(np.zeros((40, 128)), "u8")
            scales = Array(np.zeros((40, 8)), "u8") if scale_kind == "u8" else empty((40, 8))
            call(kernels.quantise_groups, b, scales, w, group="32", packed=packed)
            back = empty((40, 256))
            call(kernels.dequantise, back, b, scales, group="32", packed=packed)
            call(kernels.quantised_gemm, c, a, b, scales, packed=packed, group="32")
            self.near(c, a.exact @ back.now().T, scale=30)
        memory = Array(np.zeros((40, 256)), "u8")
        scales = empty((40, 1))
        b = tegula.reinterpret(memory.memory, tegula.float8e4nv)
        kernels.quantise_rows(b, scales.given, w.given)
        back = empty((40, 256))
        kernels.dequantise(back.given, b, scales.given)
        kernels.quantised_gemm(c.given, a.given, b, scales.given)
        self.near(c, a.exact @ back.now().T, scale=30)

    def test_refusals(self):
        a, c, b = normal((2, 16), "f16"), empty((2, 4)), Array(np.zeros((4, 8)), "u8")
        one = empty((4, 1))
        self.refused("quantised_gemm: scales has 3 columns, expected 1: one for 32 columns of b", kernels.quantised_gemm, c, a, b,
                     empty((4, 3)), group="32")
        self.refused("quantised_gemm: b has 8 columns, but a has 16", kernels.quantised_gemm, c, a, Array(np.zeros((4, 8)), "i8"), one)
        self.refused(
            "quantised_gemm: rows of b hold 12 numbers of 4 bits, 6 bytes apart\n  hint: eight of them are read at a time: their number is a "
            "multiple of 8, and rows begin at multiples of 4 bytes", kernels.quantised_gemm, c, normal((2, 12), "f16"),
            Array(np.zeros((4, 6)), "u8"), one)
        float8 = tegula.reinterpret(Array(np.zeros((4, 16)), "u8").memory, tegula.float8e4nv)
        self.refused("quantised_gemm: weights of type float8 have no zeros, expected integers", kernels.quantised_gemm, c, a, float8, one,
                     zeros=one)


def convolution(x, w, stride, padding, dilation, groups):
    batch, height, width, channels = x.shape
    outputs, rows, cols, each = w.shape
    padded = np.pad(x, ((0, 0), (padding[0],) * 2, (padding[1],) * 2, (0, 0)))
    extent = [(padded.shape[1 + i] - dilation[i] * (w.shape[1 + i] - 1) - 1) // stride[i] + 1 for i in (0, 1)]
    out = np.zeros((batch, *extent, outputs))
    for r in range(rows):
        for s in range(cols):
            seen = padded[:, r * dilation[0]:, s * dilation[1]:][:, :(extent[0] - 1) * stride[0] + 1:stride[0], :(extent[1] - 1) * stride[1] +
                                                                 1:stride[1]]
            for g in range(groups):
                of = slice(g * outputs // groups, (g + 1) * outputs // groups)
                out[..., of] += seen[..., g * each:(g + 1) * each] @ w[of, r, s].T
    return out


class Convolution(Case):

    def test_shapes(self):
        for i, (batch, height, width, channels, outputs, kernel, stride, padding, dilation, groups) in enumerate((
            (1, 1, 1, 1, 1, (1, 1), (1, 1), (0, 0), (1, 1), 1),
            (2, 9, 7, 3, 20, (3, 3), (1, 1), (1, 1), (1, 1), 1),
            (1, 12, 11, 64, 24, (3, 2), (2, 1), (1, 0), (1, 2), 1),
            (2, 8, 8, 40, 16, (1, 1), (2, 2), (0, 0), (1, 1), 1),
            (1, 10, 9, 12, 8, (5, 3), (1, 2), (2, 3), (2, 1), 4),
            (1, 6, 6, 128, 70, (3, 3), (1, 1), (1, 1), (1, 1), 2),
            (1, 7, 5, 6, 6, (3, 3), (1, 1), (1, 1), (1, 1), 6),
            (1, 5, 6, 30, 15, (2, 3), (1, 1), (1, 0), (1, 1), 5),
            (1, 8, 9, 100, 160, (3, 3), (2, 1), (1, 1), (1, 1), 20),
            (1, 6, 4, 256, 256, (1, 3), (1, 1), (0, 1), (1, 1), 32),
            (1, 9, 6, 16, 8, (8, 4), (1, 1), (3, 2), (1, 1), 1),
            (1, 7, 8, 3, 8, (7, 7), (2, 2), (3, 3), (1, 1), 1),
            (1, 5, 6, 8, 8, (9, 8), (1, 1), (4, 4), (1, 1), 1),
            (1, 9, 8, 140, 140, (3, 3), (1, 1), (1, 1), (1, 2), 140),
            (1, 7, 7, 128, 64, (7, 7), (2, 2), (3, 3), (1, 1), 1),
            (2, 3, 4, 200, 72, (3, 3), (1, 1), (1, 1), (1, 1), 1),
            (2, 9, 5, 72, 40, (1, 1), (1, 1), (0, 0), (1, 1), 1),
            (1, 4, 70, 30, 17, (1, 1), (1, 1), (0, 0), (2, 1), 1),
        )):
            kind = ("f16", "bf16")[i % 2]
            x, w = normal((batch, height, width, channels), kind), normal((outputs, *kernel, channels // groups), kind)
            exact = convolution(x.exact, w.exact, stride, padding, dilation, groups)
            bias, out = normal(outputs), empty(exact.shape)
            call(kernels.conv2d, out, x, w, bias, *stride, *padding, *dilation, groups, epilogue="leaky_relu")
            self.near(out, ACTIVATIONS["leaky_relu"](exact + bias.exact), scale=30, what=f"case {i}")

    def test_divided_tiles(self):
        """Programs that divide K of a tile add up their sums; a second launch finds the counters as the first one did."""
        text = tegula.load(str(SOURCE / "kernels" / "conv2d.py")).conv2d
        for batch, size, channels, outputs, kernel, stride, m, n, k, shares, swap in (
            (1, 7, 64, 64, 7, 2, 64, 64, 64, 8, False), (1, 7, 64, 70, 3, 1, 64, 64, 64, 2, True), (2, 9, 40, 96, 3, 1, 128, 64, 32, 4, False),
            (1, 6, 128, 64, 5, 1, 64, 32, 64, 16, False), (1, 9, 64, 130, 3, 1, 144, 128, 64, 4, True)
        ):
            x, w = normal((batch, size, size, channels), "f16"), normal((outputs, kernel, kernel, channels), "f16")
            padding = kernel // 2
            exact = convolution(x.exact, w.exact, (stride,) * 2, (padding,) * 2, (1, 1), 1)
            bias, out = normal(outputs), empty(exact.shape)
            partials, counters = empty((132 * 128 * 256,)), Array(np.zeros(4096, np.int32), "i32")
            extent = exact.shape[1]
            tiles = -(-batch * extent * extent // m) * -(-outputs // n)
            for _ in range(2):
                text[(tiles * shares,)](out.memory, x.memory, w.memory, bias.memory, batch, size, size, extent, extent, outputs, kernel, kernel,
                                        channels, extent * extent * outputs, extent * outputs, outputs, size * size * channels, size * channels,
                                        channels, kernel * kernel * channels, kernel * channels, channels, stride, stride, padding, padding, 1, 1,
                                        1, partials.memory, counters.memory, EPILOGUE="none", BLOCK_M=m, BLOCK_N=n, BLOCK_K=k, SHARES=shares,
                                        SWAP=swap, GROUPS=1, COLUMNS=0, CHANNELS=channels, HEIGHT=kernel, WIDTH=kernel, LINEAR_X=False,
                                        LINEAR_OUT=shares > 2, num_warps=4, num_stages=3)
                self.near(out, exact + bias.exact, scale=30, what=f"{shares} shares")

    def test_channels_by_pixels(self):
        """The transposed product, of tiles of any number of pixels; kernels of one place, whose pixels lie in order."""
        text = tegula.load(str(SOURCE / "kernels" / "conv2d.py")).conv2d
        for batch, size, channels, outputs, kernel, m, n, warps, linear in (
            (2, 9, 64, 64, 3, 208, 64, 4, True), (1, 9, 72, 70, 1, 144, 64, 4, True), (2, 9, 64, 130, 1, 112, 128, 8, True),
            (1, 12, 64, 96, 3, 256, 64, 8, False), (1, 8, 64, 32, 1, 128, 64, 4, False)
        ):
            x, w = normal((batch, size, size, channels), "f16"), normal((outputs, kernel, kernel, channels), "f16")
            padding = kernel // 2
            exact = convolution(x.exact, w.exact, (1, 1), (padding,) * 2, (1, 1), 1)
            bias, out = normal(outputs), empty(exact.shape)
            grid = (-(-batch * size * size // m) * -(-outputs // n),)
            text[grid](out.memory, x.memory, w.memory, bias.memory, batch, size, size, size, size, outputs, kernel, kernel, channels,
                       size * size * outputs, size * outputs, outputs, size * size * channels, size * channels, channels,
                       kernel * kernel * channels, kernel * channels, channels, 1, 1, padding, padding, 1, 1, 1, None, None, EPILOGUE="none",
                       BLOCK_M=m, BLOCK_N=n, BLOCK_K=64, SHARES=0, SWAP=True, GROUPS=1, COLUMNS=0, CHANNELS=channels, HEIGHT=kernel, WIDTH=kernel,
                       LINEAR_X=linear and kernel == 1, LINEAR_OUT=linear, num_warps=warps, num_stages=4)
            self.near(out, exact + bias.exact, scale=30, what=f"{m} x {n}")

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_views(self):
        """Parts of larger images, whose rows do not follow each other."""
        wide = random.standard_normal((2, 9, 12, 24)).astype(np.float16)
        for kernel in (1, 3):
            for images in (wide[:, :, :, :16], wide[:, 1:8, 2:9, :16], wide[:, ::2, :, :8], wide[:1, 2:3, 3:11, 8:24]):
                w = random.standard_normal((20, kernel, kernel, images.shape[3])).astype(np.float16)
                room = np.zeros((2, 11, 14, 24), np.float32)
                for out in (np.zeros(images.shape[:3] + (20,), np.float32), room[:images.shape[0], :images.shape[1], 1:1 + images.shape[2], 2:22]):
                    kernels.conv2d(out, images, w, padding_h=kernel // 2, padding_w=kernel // 2)
                    exact = convolution(images.astype(np.float64), w.astype(np.float64), (1, 1), (kernel // 2,) * 2, (1, 1), 1)
                    self.near(out.astype(np.float64), exact, scale=30, what=f"{kernel}, {images.shape}")

    def test_refusals(self):
        x, w, out = normal((1, 8, 8, 4), "f16"), normal((6, 3, 3, 4), "f16"), empty((1, 8, 8, 6))
        self.refused("conv2d: out_height of out is 8, expected 6 of height 8 with a kernel of 3", kernels.conv2d, out, x, w)
        self.refused("conv2d: w has 4 channels, expected 2: x has 4, in 2 groups", kernels.conv2d, out, x, w, groups=2)
        self.refused("conv2d: 4 channels and 6 output channels cannot be divided into 3 groups", kernels.conv2d, out, x, w, groups=3)
        self.refused("conv2d: stride_w is 0, dilation_w 1 and padding_w 0, expected 1, 1 and 0 or more", kernels.conv2d, out, x, w, padding_h=1,
                     stride_w=0)


class LinearCrossEntropy(Case):

    def test_parts(self):
        for rows, k, vocabulary, chunk, mean in ((1, 8, 5, 1, False), (7, 24, 50, 3, True), (6, 16, 300, 6, True), (5, 16, 40, 9, False)):
            x, weight = normal((rows, k), "bf16", 0.5), normal((vocabulary, k), "bf16", 0.5)
            targets = random.integers(0, vocabulary, rows)
            targets[rows // 2] = -100 if rows > 1 else targets[0]
            kept = targets != -100
            factor = 1.5 / (kept.sum() if mean else 1)
            losses, lse, dx, dweight, logits = empty(rows), empty(rows), empty((rows, k), "bf16"), empty((vocabulary, k)), empty(
                (chunk, vocabulary), "bf16")
            call(kernels.linear_cross_entropy, losses, dx, dweight, x, weight, Array(targets, "i64"), logits, lse, factor=1.5, mean=mean)
            z = x.exact @ weight.exact.T
            p = log_softmax(z)
            self.near(losses, np.where(kept, -p[np.arange(rows), np.maximum(targets, 0)] * factor, 0), scale=2e3 * factor)  # logits are bfloat16
            grad = (softmax(z) - np.eye(vocabulary)[np.maximum(targets, 0)]) * kept[:, None] * factor
            self.near(dx, grad @ weight.exact, "bf16", 2 * factor)
            self.near(dweight, grad.T @ x.exact, "bf16", 2 * factor)
            before = dweight.now()
            call(kernels.linear_cross_entropy, losses, None, dweight, x, weight, Array(targets, "i64"), logits, factor=1.5, mean=mean,
                 accumulate=True)
            self.near(dweight, 2 * before, scale=1)
            again = empty(rows)
            call(kernels.linear_cross_entropy, again, None, None, x, weight, Array(targets, "i64"), logits, factor=1.5, mean=mean)
            np.testing.assert_allclose(again.now(), losses.now(), rtol=1e-6)

    def test_nothing(self):
        dweight, x = empty((5, 8)), normal((0, 8), "bf16")
        call(kernels.linear_cross_entropy, empty(0), None, dweight, x, normal((5, 8), "bf16"), Array(np.zeros(0), "i64"), empty((3, 5), "bf16"))
        np.testing.assert_array_equal(dweight.now(), 0)
        self.refused("linear_cross_entropy: logits has no rows, expected room for one at least", kernels.linear_cross_entropy, empty(2), None,
                     dweight, normal((2, 8), "bf16"), normal((5, 8), "bf16"), Array(np.zeros(2), "i64"), empty((0, 5), "bf16"))


class LinearNorm(Case):
    """In one kernel, of one block and of clusters; in two, where rows or the product are too large."""

    def test_shapes(self):
        for m, n, k, kind, center in ((1, 1, 1, "f16", False), (5, 50, 40, "bf16", True), (70, 500, 130, "f16", True),
                                      (130, 1000, 72, "bf16", False), (3, 1100, 16, "bf16", True), (2, 24, 520, "f16", False), (4, 40, 0, "bf16", True)):
            a, b, residual = normal((m, k), kind), normal((n, k), kind), normal((m, n), kind)
            weight, shift, bias = (normal(n, kind) for _ in range(3))
            for given, transposed, activation in ((True, True, "none"), (False, False, "silu")):
                out, total = empty((m, n), kind), empty((m, n), kind)
                product = a.exact @ b.exact.T if k else np.zeros((m, n))
                h = product + bias.exact + residual.exact if given else product
                options = dict(eps=1e-3, activation=activation, transpose_b=transposed)
                if given:
                    options |= dict(bias=bias, residual=residual, sum=total)
                right = b if transposed else Array(b.exact.T, kind)
                norm = h - h.mean(1, keepdims=True) if center else h
                norm = norm / np.sqrt((norm * norm).mean(1, keepdims=True) + 1e-3)
                if given:
                    norm = norm * weight.exact + (shift.exact if center else 0)
                vectors = (weight, shift)[:1 + center] if given else ()
                call(kernels.linear_layer_norm if center else kernels.linear_rms_norm, out, a, right, *vectors, **options)
                self.near(out, ACTIVATIONS[activation](norm), kind, 8, f"{m} x {n} x {k}")
                if given:
                    self.near(total, h, kind, 8)

    def test_sum_in_place_of_the_residual(self):
        for n in (520, 1200):
            a, b, residual = normal((9, 16), "f16"), normal((n, 16), "f16"), normal((9, n), "f16")
            h, out = a.exact @ b.exact.T + residual.exact, empty((9, n), "f16")
            call(kernels.linear_rms_norm, out, a, b, residual=residual, sum=residual)
            self.near(residual, h, "f16", 8)
            self.near(out, h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-6), "f16", 4)

    @unittest.skipUnless(DEVICE.sm >= 90, "clusters of thread blocks")
    def test_sixteen_blocks(self):
        text = tegula.load(str(SOURCE / "kernels" / "linear_norm.py")).linear_norm
        a, b, out = normal((70, 40), "f16"), normal((40, 1056), "f16"), empty((70, 1056), "f16")
        text[(2,)](out.given, None, a.given, b.given, None, None, None, None, 70, 1056, 40, 1056, 0, 40, 1, 1056, 1, 0, 1e-6, 128, CENTER=True,
                   ACTIVATION="none", BLOCK_M=64, BLOCK_K=32, BLOCK_N=1280, EVEN_M=False, EVEN_N=False, EVEN_K=False, num_warps=4, num_stages=2,
                   num_ctas=16)
        h = a.exact @ b.exact
        h -= h.mean(1, keepdims=True)
        self.near(out, h / np.sqrt((h * h).mean(1, keepdims=True) + 1e-6), "f16", 4)

    def test_refusals(self):
        a, b = normal((16, 16), "f16"), normal((16, 16), "f16")
        self.refused("linear_rms_norm: out is a, which other programs still read", kernels.linear_rms_norm, a, a, b)
        self.refused("linear_rms_norm: sum is a, which other programs still read", kernels.linear_rms_norm, empty((16, 16), "f16"), a, b, sum=a)


class Sample(Case):

    def kept(self, x, temperature, k, p):
        """Columns that may be drawn."""
        kept = x > -np.inf
        if 0 < k < x.size:
            kept &= x >= np.sort(x)[-k]
        if temperature > 0 and p < 1:
            weight = np.where(kept, np.exp((x - x.max()) / temperature), 0)
            order = np.argsort(-x, kind="stable")
            last = np.searchsorted(np.cumsum(weight[order]), p * weight.sum() * (1 - 1e-6))
            kept &= x >= x[order[min(last, x.size - 1)]]
        return kept

    def test_columns_that_are_kept(self):
        for rows, cols, kind in ((3, 1, "f32"), (20, 50, "f32"), (12, 300, "bf16"), (12, 1000, "f16"), (2, 140000, "bf16")):
            x = normal((rows, cols), kind, 3)
            temperature, top_k = random.choice([0, 0.5, 1, 2], rows), random.choice([0, 1, 5, cols], rows)
            top_p = random.choice([0, 0.1, 0.5, 0.9, 1], rows)
            out = Array(np.full(rows, 77), "i64")
            call(kernels.sample_rows, out, x, Array(temperature, "f32"), Array(top_k, "i32"), Array(top_p, "f32"), seed=rows)
            for r, column in enumerate(out.now().astype(int)):
                what = f"{cols} {temperature[r]} {top_k[r]} {top_p[r]}"
                if temperature[r] == 0:
                    self.assertEqual(column, np.argmax(x.exact[r]), what)
                else:
                    self.assertTrue(self.kept(x.exact[r], temperature[r], top_k[r], np.float32(top_p[r]))[column], what)

    def test_few_of_many_columns(self):
        """What the k largest are found from: distinct logits, large ones side by side, and more equal ones than are sorted."""
        rows, cols = 6, 9000
        x = random.standard_normal((rows, cols))
        x[1] = np.sort(x[1])
        x[2] = np.round(x[2])
        x[3] = 1.0
        x[4, 40:] = -np.inf
        x[5, ::2] = np.nan
        x, top_k, top_p = Array(x, "f32"), np.array([50, 200, 3, 7, 60, 1024]), np.array([0.9, 0.3, 1, 0.5, 0.95, 0.0])
        for seed in range(3):
            out = Array(np.full(rows, 77), "i64")
            call(kernels.sample_rows, out, x, None, Array(top_k, "i32"), Array(top_p, "f32"), seed=seed)
            for r, column in enumerate(out.now().astype(int)):
                row = np.nan_to_num(x.exact[r], nan=-np.inf)
                self.assertTrue(self.kept(row, 1.0, top_k[r], np.float32(top_p[r]))[column], f"row {r}")

    def test_probabilities(self):
        p, rows = np.array([0.5, 0.25, 0.15, 0.1]), 4000
        x = Array(np.tile(np.log(p), (rows, 1)), "f32")
        for how, exact in (({}, p), ({"top_p": 0.8}, np.array([0.5, 0.25, 0.15, 0]) / 0.9), ({"top_k": 2}, np.array([2, 1, 0, 0]) / 3),
                           ({"temperature": 0.5}, p**2 / (p**2).sum())):
            out = Array(np.zeros(rows), "i32")
            given = {k: Array(np.full(rows, v), "i32" if k == "top_k" else "f32") for k, v in how.items()}
            call(kernels.sample_rows, out, x, seed=5, **given)
            found = np.bincount(out.now().astype(int), minlength=4) / rows
            np.testing.assert_allclose(found, exact, atol=4 * np.sqrt(0.25 / rows), err_msg=str(how))
            self.assertTrue((found[exact == 0] == 0).all())

    def test_temperatures_next_to_zero(self):
        x = np.tile(np.arange(40) / 4 + 1, (4, 1))
        out = Array(np.full(4, 77), "i64")
        call(kernels.sample_rows, out, Array(x, "f32"), Array(np.array([1e-39, 1e-30, 1e-15, -1]), "f32"), seed=3)
        self.assertEqual(list(out.now()), [39] * 4)

    def test_rows_without_numbers(self):
        x = np.zeros((4, 300))
        x[0], x[1, 7], x[2, :299], x[3, 5] = -np.inf, np.inf, -np.inf, np.nan
        out = Array(np.full(4, 77), "i64")
        call(kernels.sample_rows, out, Array(x, "f32"), seed=1)
        self.assertEqual(list(out.now()[:3]), [-1, -1, 299])
        self.assertTrue(out.now()[3] != 5)


if __name__ == "__main__":
    unittest.main()
