"""Losses, reductions and scans of the kernel library against numpy in double precision."""

import itertools
import math
import unittest

from entries import Array, call, Case, DEVICE, empty, gradient_of, kernels, log_softmax, norm, normal, np, random, SHAPES, softmax, SOURCE, tegula


class Losses(Case):

    def loss(self, x, targets, smoothing, z_loss, cap):
        z = cap * np.tanh(x / cap) if cap else x
        lse = np.log(np.exp(z - z.max(1, keepdims=True)).sum(1)) + z.max(1)
        kept = targets != -100
        at = z[np.arange(len(x)), np.where(kept, targets, 0)]
        return np.where(kept, (1 - smoothing) * (lse - at) + smoothing * (lse - z.mean(1)) + z_loss * lse**2, 0), lse

    LOSSES = ({}, {"smoothing": 0.1, "z_loss": 0.01, "cap": 5.0}, {"mean": True})

    def cross_entropy(self, shape, kind, launch, how, middle=0.0):
        logits = Array(normal(shape, kind, 3).exact + middle, kind)
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

    def test_cross_entropy_far_from_zero(self):
        """Losses and gradients are made of differences, which keep their digits: rows in registers, of a cluster, in pieces."""
        text = tegula.load(str(SOURCE / "kernels" / "cross_entropy.py"))["cross_entropy"]
        for rows, cols, piece, blocks in ((5, 700, 0, 1), (3, 3000, 0, 2), (2, 5001, 1024, 1)):

            def launch(losses, logits, targets, lse, smoothing=0.0):
                text[(2,)](losses, logits, targets, lse, cols, rows, cols, -100, smoothing, 0.0, 0.0, 1.0, 2, None, 0, MEAN=False,
                           GRADIENT=True, ROWS=1, PIECE=piece, PROGRAMS=1, STAGES=1, num_warps=2,
                           num_ctas=blocks if DEVICE.sm >= 90 else 1)

            for middle in (1e3, -1e4, 1e6):
                for how in ({}, {"smoothing": 0.1}):
                    self.cross_entropy((rows, cols), "f32", launch, how, middle)

    def test_cross_entropy_of_masked_columns(self):
        """Masked columns may fill all that a warp has of a row, or the row; the mask may be any number."""
        text = tegula.load(str(SOURCE / "kernels" / "cross_entropy.py"))["cross_entropy"]
        for cols, piece, blocks, at_once in ((300, 0, 1, 2), (700, 0, 1, 1), (3000, 0, 2, 1), (2001, 1024, 1, 1)):
            for mask in (-1e10, -1e30, np.finfo(np.float32).min, -np.inf):
                x, targets = normal((3, cols), "f32", 3).exact, np.array([0, 5, 9])
                x[:2, cols // 8:] = mask
                x[2] = mask if np.isfinite(mask) else 3e38
                logits, losses = Array(x, "f32"), empty(3)
                text[(2,)](losses.given, logits.given, Array(targets, "i64").given, None, cols, 3, cols, -100, 0.0, 0.0, 0.0, 1.0, 2, None, 0,
                           MEAN=False, GRADIENT=True, ROWS=at_once, PIECE=piece, PROGRAMS=1, STAGES=1, num_warps=4,
                           num_ctas=blocks if DEVICE.sm >= 90 else 1)
                with np.errstate(over="ignore"):
                    log_p = log_softmax(logits.exact)
                self.near(losses, -log_p[np.arange(3), targets], "f32", 1, f"losses, {cols}, {mask}")
                self.near(logits, np.exp(log_p) - (np.arange(cols) == targets[:, None]), "f32", 1e-1, f"gradient, {cols}, {mask}")

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


class Reductions(Case):

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

    def test_rows_of_several_programs(self):
        text = lambda kernel: tegula.load(str(SOURCE / "kernels" / "reduce.py"))[kernel]
        room, counters = DEVICE.array(np.zeros(64, np.float32)), DEVICE.array(np.zeros(2, np.int32))
        for cols, programs in ((2000, 3), (700, 2), (1025, 5)):
            x, out, place, mean = normal((2, cols)), empty(2), Array(np.zeros(2), "i32"), empty(2)
            x.exact[0, 1:cols:300], x.exact[1, 5] = 7, np.nan
            x = Array(x.exact, "f32")
            shared = dict(ROWS=1, WIDTH=256, STAGES=1, PROGRAMS=1, num_warps=2)
            text("reduce_rows")[(2 * programs,)](out.given, None, x.given, cols, 2, cols, 0, room, counters, KIND="mean", **shared)
            self.near(out, x.exact.mean(1))
            text("reduce_rows")[(2 * programs,)](None, place.given, x.given, cols, 2, cols, 0, room, counters, KIND="max", **shared)
            np.testing.assert_array_equal(place.now(), [1, 5])
            text("row_variance")[(2 * programs,)](out.given, mean.given, x.given, cols, 2, cols, 1, 0, room, counters, **shared)
            self.near(out, x.exact.var(1, ddof=1))
            self.near(mean, x.exact.mean(1))

    def test_scan_by_several_programs(self):
        """A piece a program: rows of few pieces, and of more than a group has."""
        scan_rows = tegula.load(str(SOURCE / "kernels" / "scan.py"))["scan_rows"]
        counters = DEVICE.array(np.zeros(4096, np.int32))
        for rows, cols, piece, chain in ((1, 3000, 512, 1), (3, 1025, 512, 2), (2, 512, 512, 1), (2, 17000, 64, 2)):
            x, out = Array(random.uniform(0.99, 1.01, (rows, cols)), "f32"), empty((rows, cols))
            x.exact[0, :512] = 0  # a piece whose sum is 0
            x = Array(x.exact, "f32")
            integers, sums, wide = (Array(random.integers(-2**31, 2**31, (rows, cols)), kind) for kind in ("i32", "i32", "i64"))
            for name, function in (("sum", np.cumsum), ("product", np.cumprod)):
                launch = scan_rows[(rows * -(-cols // piece),)]
                how = dict(KIND=name, ROWS=1, STAGES=1, PIECE=piece, CHAIN=chain, num_warps=2)
                launch(out.given, x.given, cols, cols, rows, cols, 0, counters, **how)
                self.near(out, function(x.exact, axis=1), what=name)
                exact = function(integers.exact, axis=1)
                for result, kind in ((sums, np.int32), (wide, np.int64)):
                    launch(result.given, integers.given, cols, cols, rows, cols, 0, counters, **how)
                    np.testing.assert_array_equal(result.memory.numpy(), exact.astype(kind))
            np.testing.assert_array_equal(counters.numpy(), 0)

    def test_columns_of_few_rows(self):
        for rows in (1, 2, 3, 64):
            x, out = normal((rows, 2500)), empty(2500)
            call(kernels.reduce_columns, out, x)
            self.near(out, x.exact.sum(0), scale=8)

    def test_columns_of_tiles_of_all_rows(self):
        """ROWS 0: tiles of few rows have as many as there are; of more rows, as a launch of the same class may have, 16 at a time."""
        reduce = tegula.load(str(SOURCE / "kernels" / "reduce.py"))["reduce_columns"]
        statistics = tegula.load(str(SOURCE / "kernels" / "column_statistics.py"))
        room, counters = empty(1 << 14).given, Array(np.zeros(16), "i32")
        for outer, rows, cols, parts in ((1, 1, 300, 1), (1, 3, 701, 1), (2, 7, 257, 1), (1, 13, 130, 1), (3, 37, 200, 2)):
            x, stride = normal((outer, rows, cols)), rows * cols
            grid, how = (outer * -(-cols // 128), parts), dict(ROWS=0, COLS=128, PROGRAMS=8, STAGES=1, num_warps=4)
            out, mean, place = empty((outer, cols)), empty((outer, cols)), Array(np.zeros((outer, cols)), "i32")
            reduce[grid](out.given, x.given, cols, stride, cols, outer, rows, cols, 0, room, counters.given, KIND="max", **how)
            np.testing.assert_array_equal(out.now(), x.exact.max(1))
            statistics["column_variance"][grid](out.given, mean.given, x.given, cols, cols, stride, cols, outer, rows, cols, 0, 0, room,
                                                counters.given, **how)
            self.near(out, x.exact.var(1))
            self.near(mean, x.exact.mean(1))
            statistics["column_extreme"][grid](place.given, None, x.given, cols, 0, stride, cols, outer, rows, cols, 0, room, counters.given,
                                               KIND="min", **how)
            np.testing.assert_array_equal(place.now(), x.exact.argmin(1))
            np.testing.assert_array_equal(counters.now(), 0)

    def test_columns_of_one_matrix_are_found_without_division(self):
        reduce = tegula.load(str(SOURCE / "kernels" / "reduce.py"))["reduce_columns"]
        how = dict(KIND="sum", ROWS=16, COLS=64, PROGRAMS=2, STAGES=1, HEIGHT=16, WHOLE=False, DEEP=8, num_warps=4)
        for outer in (1, "i32"):
            ptx = reduce.ptx("*f32", "*f32", "i32", "i32", "i32", outer, "i32", "i32", "i32", "*f32", "*i32", target="sm_90a", **how)
            self.assertEqual("div.s32" in ptx, outer != 1)

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
            wide = dict(ROWS=1, WIDTH=1024, STAGES=2, PROGRAMS=0, num_warps=2, num_ctas=blocks)
            text("reduce", "reduce_rows")(sums.given, None, x.given, cols, 2, cols, 0, None, None, KIND="sum", **wide)
            self.near(sums, x.exact.sum(1), scale=60)
            text("reduce", "reduce_rows")(None, place.given, x.given, cols, 2, cols, 0, None, None, KIND="max", **wide)
            np.testing.assert_array_equal(place.now(), x.exact.argmax(1))
            text("reduce", "row_variance")(variance.given, None, x.given, cols, 2, cols, 1, 0, None, None, **wide)
            self.near(variance, x.exact.var(1, ddof=1))
            positive, scan = Array(random.uniform(0.99, 1.01, (2, cols)), kind), empty((2, cols))
            for (name, function), piece in itertools.product((("sum", np.cumsum), ("product", np.cumprod)), (512, 2048)):
                text("scan", "scan_rows")(scan.given, positive.given, cols, cols, 2, cols, 0, None, KIND=name, ROWS=1, STAGES=1,
                                          PIECE=piece, CHAIN=0, num_warps=2, num_ctas=blocks)
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

    def test_gradient_with_few_registers(self):
        """With fewer registers than rows ahead, weight and sums take: of one block, of a cluster."""
        rows, cols = 7, 4096
        for warps, blocks, registers in ((8, 1, 80), (4, 2, 88)) if DEVICE.sm >= 90 else ((8, 1, 80), ):
            x, dy, weight = normal((rows, cols), "f16"), normal((rows, cols), "f16"), normal(cols, "f16")
            dx, dweight, dbias = empty((rows, cols), "f16"), empty(cols), empty(cols)
            room, counters = DEVICE.array(np.zeros(8 * cols, np.float32)), DEVICE.array(np.zeros(4, np.int32))
            tegula.load(str(SOURCE / "kernels" / "norm_backward.py"))["norm_backward"][(2,)](
                dx.given, dweight.given, dbias.given, dy.given, x.given, weight.given, None, cols, cols, cols, 0, rows, cols, 1e-3, 2, room,
                counters, CENTER=True, BLOCK=cols, ROWS=1, STAGES=2, PROGRAMS=1, RELOAD=False, PIECE=0, EVEN=True, WIDE=2048, PARTS=blocks,
                WARPS=warps, num_warps=warps, num_ctas=blocks, maxnreg=registers)
            h = x.exact - x.exact.mean(1, keepdims=True)
            r = 1 / np.sqrt((h * h).mean(1, keepdims=True) + 1e-3)
            n, g = h * r, dy.exact * weight.exact
            self.near(dx, r * (g - g.mean(1, keepdims=True) - n * (g * n).mean(1, keepdims=True)), "f16", 4, "dx")
            self.near(dweight, (dy.exact * n).sum(0), "f32", 10, "dweight")
            self.near(dbias, dy.exact.sum(0), "f32", 10, "dbias")

    def test_scans(self):

        def test(shape, kind):
            x, y = Array(random.uniform(0.9, 1.1, shape), kind), empty(shape, "f32")
            for name, function in (("sum", np.cumsum), ("product", np.cumprod)):
                call(kernels.scan_rows, y, x, kind=name)
                self.near(y, function(x.exact, axis=1), what=name)

        self.over(test, [*SHAPES, (1, 20000)])

    def test_scans_of_integers(self):
        for shape in ((1, 1), (5, 3), (3, 781), (2, 20000)):
            for kind, to in (("i32", "i32"), ("i32", "i64"), ("i64", "i64")):
                x, y = Array(random.integers(-2**31, 2**31, shape), kind), Array(np.zeros(shape), to)
                for name, function in (("sum", np.cumsum), ("product", np.cumprod)):
                    call(kernels.scan_rows, y, x, kind=name)
                    found = y.memory.numpy()
                    np.testing.assert_array_equal(found, function(x.exact, axis=1).astype(found.dtype))
        for kind, to in (("i64", "i32"), ("i32", "f32"), ("f16", "i64")):
            with self.assertRaisesRegex(tegula.Error, "scan_rows: x has elements of type"):
                call(kernels.scan_rows, Array(np.zeros((2, 3)), to), Array(np.zeros((2, 3)), kind), kind="sum")

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

    def test_statistics_of_columns_of_few_rows(self):
        """No code for columns that programs share where one has all rows."""
        x, variance, index = normal((3, 2501)), empty(2501), Array(np.zeros(2501), "i32")
        call(kernels.variance_columns, variance, x)
        self.near(variance, x.exact.var(0, ddof=1))
        call(kernels.arg_extreme_columns, index, x, kind="max")
        np.testing.assert_array_equal(index.now(), x.exact.argmax(0))
        text = tegula.load(str(SOURCE / "kernels" / "column_statistics.py"))
        room, counters = empty(1 << 16).given, Array(np.zeros(10), "i32").given
        how = dict(ROWS=4, COLS=256, PROGRAMS=8, STAGES=1, DEEP=8, num_warps=4)
        for whole in (True, False):
            facts = text["column_variance"].facts(variance.given, None, x.given, 0, 0, 0, 2501, 1, 3, 2501, 1, 0, room, counters, WHOLE=whole, **how)
            self.assertEqual(facts.shared_bytes == 0, whole)
            facts = text["column_extreme"].facts(index.given, None, x.given, 0, 0, 0, 2501, 1, 3, 2501, 0, room, counters, KIND="max", WHOLE=whole, **how)
            self.assertEqual(facts.shared_bytes == 0, whole)

    def test_reduce_all(self):
        for shape, kind in (((1,), "f32"), ((5000,), "bf16"), ((3, 7, 11), "f16"), ((0,), "f32")):
            x, out = normal(shape, kind), empty(1)
            for name, function in (("sum", np.sum), ("mean", np.mean), ("max", np.max), ("min", np.min)):
                if x.exact.size > 0 or name == "sum":
                    call(kernels.reduce_all, out, x, kind=name)
                    self.near(out, [function(x.exact)], scale=max(1, x.exact.size**0.5), what=name)


if __name__ == "__main__":
    unittest.main()
