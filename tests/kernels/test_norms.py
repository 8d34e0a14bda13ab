"""Norms of the kernel library, forward and backward, against numpy in double precision."""

import math
import unittest

from entries import ACTIVATIONS, Array, by_day, call, Case, DEVICE, empty, float8_values, gradient_of, kernels, norm, normal, np, random, rounded, SHAPES, softmax, SOURCE, tegula


class Norms(Case):

    def test_gradients_of_rows_far_ahead(self):
        """More rows run ahead than registers hold: each thread copies its part of them into shared memory."""
        text = tegula.load(str(SOURCE / "kernels" / "norm_backward.py")).norm_backward
        for rows, cols, tall, stages, programs in ((23, 2048, 1, 6, 2), (41, 256, 8, 7, 3), (3, 2048, 1, 7, 2)):
            x, dy, weight = normal((rows, cols), "bf16"), normal((rows, cols), "bf16"), normal(cols, "bf16")
            dx, dweight, dbias = empty((rows, cols), "bf16"), empty(cols, "bf16"), empty(cols, "bf16")
            counters = Array(np.zeros(4), "i32")
            text[(programs,)](dx.given, dweight.given, dbias.given, dy.given, x.given, weight.given, None, cols, cols, cols, 0, rows, cols, 1e-5, 2,
                              empty(2 * programs * cols).given, counters.given, CENTER=True, BLOCK=cols, ROWS=tall, STAGES=stages, PROGRAMS=1,
                              RELOAD=False, PIECE=0, EVEN=rows % tall == 0, WIDE=1024, PARTS=1, WARPS=4, EACH=4096, LIST=0, num_warps=4)
            mean = x.exact.mean(axis=1, keepdims=True)
            r = 1 / np.sqrt(x.exact.var(axis=1, keepdims=True) + 1e-5)
            n, g = (x.exact - mean) * r, dy.exact * weight.exact
            exact = r * (g - g.mean(axis=1, keepdims=True) - n * (g * n).mean(axis=1, keepdims=True))
            self.near(dx, exact, "bf16", 4, f"dx {rows} {cols} {stages}")
            self.near(dweight, (dy.exact * n).sum(axis=0), "bf16", math.sqrt(rows), f"dweight {rows} {cols} {stages}")
            self.near(dbias, dy.exact.sum(axis=0), "bf16", math.sqrt(rows), f"dbias {rows} {cols} {stages}")

    def test_activations_of_norms(self):
        x, weight, y = normal((3, 200)), normal(200), empty((3, 200))
        for name, function in ACTIVATIONS.items():
            call(kernels.rms_norm, y, x, weight, activation=name)
            self.near(y, function(norm(x.exact, weight.exact)), what=name)

    def test_norms_of_rows_that_begin_anywhere(self):
        """Their tiles begin at multiples of 16 bytes, before the first column, unless there are weights."""

        def test(shape, kind):
            x, r, y, total = normal(shape, kind), normal(shape, kind), empty(shape, kind), empty(shape, kind)
            call(kernels.layer_norm, y, x, None, None, residual=r, sum=total)
            self.near(y, norm(x.exact + r.exact, center=True), kind, 4)
            self.near(total, x.exact + r.exact, kind)
            weight = normal(shape[1], kind)
            call(kernels.rms_norm, y, x, weight)
            self.near(y, norm(x.exact, weight.exact), kind, 4)

        self.over(test, [(3, 16385), (2, 70001)])
        text = tegula.load(str(SOURCE / "kernels" / "norm.py"))["norm"]
        for rows, cols, kind, piece, blocks in (3, 8193, "f32", 0, 1), (2, 20001, "bf16", 4096, 1), (3, 16999, "bf16", 0, 2):
            x, out = normal((rows, cols), kind), empty((rows, cols), kind)
            text[(rows,)](out.given, x.given, None, None, None, None, None, None, cols, cols, 0, 0, rows, cols, 1e-6, 2, CENTER=True,
                          ACTIVATION="none", ROWS=1, STAGES=2 if piece else 0, PIECE=piece, EVICTION="", num_warps=4,
                          num_ctas=blocks if DEVICE.sm >= 90 else 1)
            self.near(out, norm(x.exact, center=True), kind, 4)

    def rows_with_large_elements(self, cols):
        """Rows whose first, middle or other elements are far from most of them, or all from 0; and what of each is not finite."""
        middle = cols // 2
        rows = []
        for large in ([], [0], range(3), range(32), range(700), [middle], [middle - 1, middle], range(middle - 2, middle + 2), [cols - 1],
                      range(0, cols, 257), range(0, cols, 4096), range(middle), range(0, cols, 2)):
            rows.append(random.standard_normal(cols))
            rows[-1][list(large)] = 1000
        for first, count, large in (0, 0, 0), (0, 32, 0), (middle - 8, 16, -3000):
            rows.append(1000 + 0.4 * random.standard_normal(cols))
            rows[-1][first:first + count] = large
        rows += [np.full(cols, 3.7), np.zeros(cols), np.linspace(0, 1000, cols)]
        for place, what in (0, np.inf), (middle, np.inf), (cols - 1, -np.inf), (0, np.nan), (cols - 7, np.nan):
            rows.append(random.standard_normal(cols))
            rows[-1][place] = what
        return Array(np.stack(rows), "f32")

    def has_digits(self, found, exact, what):
        """Half of each row's elements are near in relation to themselves, all in relation to the largest one."""
        np.testing.assert_array_equal(np.isnan(found), np.isnan(exact), what)
        error, size = np.nan_to_num(np.abs(found - exact)), np.nan_to_num(np.abs(exact))
        self.assertLess(np.median(error / np.maximum(size, 1e-30), axis=1).max(), 1e-6, what)
        self.assertLess((error.max(1) / np.maximum(size.max(1), 1e-30)).max(), 1e-6, what)

    def test_layer_norm_of_divided_rows_with_large_elements(self):
        text = tegula.load(str(SOURCE / "kernels" / "norm.py"))["norm"]
        counters = Array(np.zeros(16384), "i32")
        pieces = {"PIECE": 4096, "ROWS": 0, "counters_ptr": counters.given}
        for cols, stages, shared in (16384, 0, {}), (15001, 0, {}), (15001, 2, pieces), (15001, 0, pieces):
            x = self.rows_with_large_elements(cols)
            rows = x.exact.shape[0]
            out = empty(x.exact.shape)
            how = shared or {"PIECE": 0, "ROWS": 1, "num_ctas": 4 if DEVICE.sm >= 90 else 1}
            text[(rows * (1 if not shared else 4 if stages else 8),)](out.given, x.given, None, None, None, None, None, None, cols, cols, 0, 0, rows, cols, 1e-6,
                                                  0, CENTER=True, ACTIVATION="none", STAGES=stages, EVICTION="", num_warps=4, **how)
            with np.errstate(invalid="ignore"):
                self.has_digits(out.now(), norm(x.exact, center=True), f"{cols} columns, {how}")

    def test_layer_norm_backward_with_large_elements(self):
        text = tegula.load(str(SOURCE / "kernels" / "norm_backward.py"))["norm_backward"]
        forms = ((4099, 1, 8, 1, 0), (1500, 4, 8, 1, 0), (16384, 1, 4, 4, 0), (10001, 1, 4, 1, 4096), (8193, 0, 4, 1, 2048), (9001, 0, 4, 1, 2048))
        for cols, tall, warps, blocks, piece in by_day(forms, 2):
            x, weight = self.rows_with_large_elements(cols), normal(cols)
            rows = x.exact.shape[0]
            dy, dx, dweight, dbias = normal((rows, cols)), empty((rows, cols)), empty(cols), empty(cols)
            partials, counters = empty(2 * rows * cols), Array(np.zeros(16384), "i32")
            text[(-(-rows // tall) if tall else -(-cols // piece),)](dx.given, dweight.given, dbias.given, dy.given, x.given, weight.given, None, cols, cols, cols, 0,
                                      rows, cols, 1e-6, 2, partials.given, counters.given, CENTER=True, ROWS=tall, STAGES=1, PROGRAMS=1,
                                      RELOAD=False, PIECE=piece, num_warps=warps, num_ctas=blocks if DEVICE.sm >= 90 else 1)
            with np.errstate(invalid="ignore"):
                h = x.exact - x.exact.mean(1, keepdims=True)
                r = 1 / np.sqrt((h * h).mean(1, keepdims=True) + 1e-6)
                n, g = h * r, dy.exact * weight.exact
                exact = r * (g - g.mean(1, keepdims=True) - n * (g * n).mean(1, keepdims=True))
            self.has_digits(dx.now(), exact, f"{tall} rows of {cols}, {warps} warps, {blocks} blocks, pieces of {piece}")

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

    def group_norm_gradients(self, x, dy, weight, groups):
        """dx, dweight and dbias in double precision."""
        batch, channels, _ = x.shape
        grouped = lambda a: a.reshape(batch, groups, -1)
        r = 1 / np.sqrt(grouped(x).var(2, keepdims=True) + 1e-5)
        n, g = (grouped(x) - grouped(x).mean(2, keepdims=True)) * r, grouped(dy * weight[:, None])
        dx = r * (g - g.mean(2, keepdims=True) - n * (g * n).mean(2, keepdims=True))
        return dx.reshape(x.shape), (dy * n.reshape(x.shape)).sum((0, 2)), dy.sum((0, 2))

    def test_group_norm_backward(self):

        def normed(x, groups):
            y = x.reshape(x.shape[0], groups, -1)
            y = (y - y.mean(2, keepdims=True)) / np.sqrt(y.var(2, keepdims=True) + 1e-5)
            return y.reshape(x.shape)

        for batch, channels, spatial, groups, kind in ((2, 4, 3, 2, "f32"), (3, 12, 50, 4, "bf16"), (1, 6, 700, 1, "f16")):
            x, dy, weight = normal((batch, channels, spatial), kind), normal((batch, channels, spatial), kind), normal(channels)
            dx, dweight, dbias = empty(x.exact.shape, kind), empty(channels), empty(channels)
            call(kernels.group_norm_backward, dx, dweight, dbias, dy, x, groups, weight)
            exact = self.group_norm_gradients(x.exact, dy.exact, weight.exact, groups)
            self.near(dx, exact[0], kind, 4)
            self.near(dweight, exact[1], scale=30)
            self.near(dbias, exact[2], scale=30)
            if kind == "f32":
                self.near(dx, gradient_of(lambda x: normed(x, groups) * weight.exact[:, None], x.exact, dy.exact), scale=5)
            call(kernels.group_norm_backward, dx, None, None, dy, x, groups)
        with self.assertRaises(tegula.LaunchError) as caught:
            call(kernels.group_norm_backward, empty((0, 2, 2)), empty(2), None, normal((0, 2, 2)), normal((0, 2, 2)), 1)
        self.assertEqual(str(caught.exception), "group_norm_backward: x has no image, expected one at least")

    def test_gradients_of_groups_in_registers_and_in_pieces(self):
        """By each way, over more images than are added up at a time, far from zero, and in clusters."""
        text = tegula.load(str(SOURCE / "kernels" / "group_norm_backward.py"))["group_norm_backward"]
        for shape, groups, block, warps, blocks, mean in (((35, 6, 64), 3, 0, 1, 1, 0), ((2, 20, 77), 2, 0, 4, 2, 0), ((1, 12, 300), 2, 0, 4, 1, 1000),
                                                          ((2, 10, 49), 1, 64, 1, 1, 0), ((1, 12, 300), 2, 256, 2, 1, 1000),
                                                          ((1, 6, 900), 1, 1024, 2, 2, 0)):
            batch, channels, spatial = shape
            x, dy, weight = Array(normal(shape).exact + mean, "f32"), normal(shape), normal(channels)
            dx, dweight, dbias = empty(shape), empty(channels), empty(channels)
            partials, counters = empty(2 * batch * channels), Array(np.zeros(groups), "i32")
            text[(batch * groups,)](dx.given, dweight.given, dbias.given, dy.given, x.given, weight.given, *[channels * spatial, spatial] * 3, batch,
                                    channels, spatial, groups, 1e-5, partials.given, counters.given, BLOCK=block, num_warps=warps,
                                    num_ctas=blocks if DEVICE.sm >= 90 else 1)
            exact = self.group_norm_gradients(x.exact, dy.exact, weight.exact, groups)
            loss = 1 if mean == 0 else 30  # the mean of numbers around it is rounded to 1/16384
            self.near(dx, exact[0], scale=5 * loss)
            self.near(dweight, exact[1], scale=30 * loss)
            self.near(dbias, exact[2], scale=30)
            self.assertTrue((counters.now() == 0).all())

    def test_groups_in_registers(self):
        """Groups that a program keeps, alone or in a cluster, also where they do not fill its tile."""
        text = tegula.load(str(SOURCE / "kernels" / "channel_norm.py"))["group_norm"]
        for channels, spatial, groups, blocks in (6, 45, 3, 1), (4, 600, 1, 2):
            shape = (2, channels, spatial)
            x, r, weight, bias = normal(shape), normal(shape), normal(channels), normal(channels)
            y, total, scales = empty(shape, "i8"), empty(shape), empty((2, groups))
            text[(2 * groups,)](y.given, x.given, r.given, total.given, weight.given, bias.given, *[channels * spatial, spatial] * 4, None,
                                scales.given, groups, 2, channels, spatial, groups, 1e-5, ACTIVATION="none", BLOCK=0, num_warps=2,
                                num_ctas=blocks if DEVICE.sm >= 90 else 1)
            h = (x.exact + r.exact).reshape(2, groups, -1)
            n = ((h - h.mean(2, keepdims=True)) / np.sqrt(h.var(2, keepdims=True) + 1e-5)).reshape(shape)
            exact = (n * weight.exact[:, None] + bias.exact[:, None]).reshape(2, groups, -1)
            self.near(total, x.exact + r.exact)
            self.near(scales, np.abs(exact).max(2) / 127)
            self.assertLessEqual(np.abs(y.now().reshape(exact.shape) - exact / scales.now()[:, :, None]).max(), 0.51)

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

    def norm_backward(self, shape, kind, center, with_sum=False, far=0):
        x, dy, weight = normal(shape).exact + far, normal(shape, kind), normal(shape[1], kind)
        if far:
            x[0, shape[1] // 2] = 1e4
        x = Array(x, kind)
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
        # Far from 0 the distances themselves are rounded: 1.3e-4 to 2.3e-4 off at 300 x 40, by this order of sums and by others.
        self.near(dweight, (dy.exact * n).sum(0), "f32", 30 if far else 10, "dweight")
        if center:
            self.near(dbias, dy.exact.sum(0), "f32", 10, "dbias")
        return x, dy, weight, dx

    def test_norm_backward(self):
        self.over(lambda shape, kind: self.norm_backward(shape, kind, False), by_day([*SHAPES, (700, 33), (3, 12672), (2, 40000), (1, 40000)], 2))
        self.over(lambda shape, kind: self.norm_backward(shape, kind, True, True), by_day([(7, 3), (300, 40), (3, 781), (2, 40000)], 2))
        for shape in by_day([(300, 40), (5, 4096), (2, 40000)], 2):
            self.norm_backward(shape, "f32", True, far=100)
        for center in (False, True):
            x, dy, weight, dx = self.norm_backward((3, 8), "f32", center)
            function = lambda v: norm(v, weight.exact, eps=1e-3, center=center)
            self.near(dx, gradient_of(function, x.exact, dy.exact), scale=10)

    @unittest.skipUnless(DEVICE.is_emulator, "arrays of the host")
    def test_short_rows_with_gaps(self):
        """Rows of 1 to 17 elements that begin anywhere: what lies between them stays."""
        for rows, cols, gap in ((700, 1, 3), (300, 7, 1), (300, 17, 2), (130, 16, 5), (70, 33, 1)):
            wide = lambda: random.standard_normal((rows, cols + gap)).astype(np.float32)[:, :cols]
            x, y, w = wide(), wide(), random.standard_normal(cols).astype(np.float32)
            exact = x.astype(np.float64)
            sorted_x, place = wide(), np.zeros((rows, cols), np.int32)
            sums, at = np.zeros(rows, np.float32), np.zeros(rows, np.int32)
            for call, wanted, found in (
                (lambda out: kernels.softmax(out, x), lambda: softmax(exact), wide()),
                (lambda out: kernels.rms_norm(out, x, w), lambda: norm(exact, w), wide()),
                (lambda out: kernels.swiglu(out, x, y), lambda: exact / (1 + np.exp(-exact)) * y, wide()),
                (lambda out: kernels.affine(out, x, scale=w), lambda: exact * w, wide()),
                (lambda out: kernels.scan_rows(out, x), lambda: np.cumsum(exact, axis=1), wide()),
                (lambda out: kernels.sort_rows(out, place, x), lambda: np.sort(exact, axis=1), sorted_x),
                (lambda out: kernels.reduce_rows(out, x), lambda: exact.sum(1), sums),
                (lambda out: kernels.arg_extreme(out, x), lambda: exact.argmax(1), at),
                (lambda out: kernels.variance(out, x, correction=0), lambda: exact.var(1), sums),
                (lambda out: kernels.variance_columns(out, x[None], correction=0), lambda: exact.var(0)[None], np.zeros((1, cols), np.float32)),
                (lambda out: kernels.softmax_backward(out, x, y), lambda: y * (exact - (exact * y).sum(1, keepdims=True)), wide())):
                between = found.base[:, cols:].copy() if found.base is not None and found.base.shape == (rows, cols + gap) else None
                call(found)
                np.testing.assert_allclose(found, wanted(), rtol=1e-4, atol=1e-4, err_msg=f"{rows} x {cols}")
                if between is not None:
                    np.testing.assert_array_equal(found.base[:, cols:], between)
            np.testing.assert_array_equal(place, exact.argsort(axis=1, kind="stable"))

    def test_norm_backward_is_the_same_in_every_run(self):
        x, dy, weight, dx = normal((999, 40)), normal((999, 40)), normal(40), empty((999, 40))
        runs = []
        for _ in range(3):
            dweight = empty(40)
            call(kernels.rms_norm_backward, dx, dweight, dy, x, weight)
            runs.append(dweight.now().tobytes())
        self.assertEqual(len(set(runs)), 1)

    def test_norm_backward_without_eps(self):
        """Tiles of more rows than there are."""
        x, dy, dx, dweight = normal((37, 5)), normal((37, 5)), empty((37, 5)), empty(5)
        call(kernels.rms_norm_backward, dx, dweight, dy, x, eps=0.0)
        self.near(dweight, (dy.exact * norm(x.exact, eps=0)).sum(0), scale=10)

    def test_norm_backward_of_no_rows(self):
        for cols in (40, 20000):
            x, dx, dweight, dbias = normal((0, cols)), empty((0, cols)), empty(cols), empty(cols)
            call(kernels.layer_norm_backward, dx, dweight, dbias, x, x)
            self.near(dweight, np.zeros(cols))
            self.near(dbias, np.zeros(cols))


if __name__ == "__main__":
    unittest.main()
