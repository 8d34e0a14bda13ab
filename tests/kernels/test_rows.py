"""Softmax of the kernel library, forward and backward, and rows that programs share, against numpy in double precision."""

import math
import unittest

from entries import ACTIVATIONS, Array, call, Case, DEVICE, empty, gradient_of, kernels, log_softmax, norm, normal, np, random, rounded, SHAPES, softmax, SOURCE, tegula


class Softmax(Case):

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


class SharedRows(Case):
    """Pieces of few wide rows that have programs of their own."""

    STAGES = 2  # of softmax and the norms: they keep the pieces

    def text(self, name):
        """A kernel, and a function that launches it: what it writes, then what it reads."""
        module = tegula.load(str(SOURCE / "kernels" / f"{name}.py"))
        counters = Array(np.zeros(16384), "i32")

        def launch(rows, cols, piece, warps, *args, **how):
            programs = -(-(cols + 15) // piece) * (2 if how.get("STAGES") == 0 else 1)
            module[name][(rows * programs,)](*(a.given if isinstance(a, Array) else a for a in args), ROWS=0, PIECE=piece,
                                           num_warps=warps, counters_ptr=counters.given, **how)
            self.assertEqual(np.abs(counters.now()).max(), 0, "counters are zero again")

        return launch

    # Rows that begin anywhere, few pieces and many, the last one almost empty.
    CASES = [(3, 20001, 4096, 4, "f32"), (2, 16385, 2048, 4, "bf16"), (5, 33000, 12288, 16, "f32"), (1, 12289, 4096, 4, "f16"),
             (7, 9000, 256, 1, "f32")]

    def test_softmax(self):
        softmax_of = self.text("softmax")
        for rows, cols, piece, warps, kind in self.CASES:
            x, y, bias = normal((rows, cols), kind, 3), empty((rows, cols), kind), normal(cols, kind)
            mask = Array(random.integers(0, 4, (2, cols)) > 0, "u8")
            launch = lambda out, x, mask, mask_rows, bias, function, causal=False: softmax_of(
                rows, cols, piece, warps, out, x, mask, bias, cols, cols, cols, rows, cols, mask_rows, 0, 0.5, 0, STAGES=self.STAGES, EVICTION="",
                KIND=function, CAUSAL=causal)
            for function, exact in ("softmax", softmax), ("log_softmax", log_softmax):
                launch(y, x, None, 1, None, function)
                self.near(y, exact(x.exact), kind, what=function)
            launch(y, x, None, 1, None, "exp_normalize")
            self.near(y, (np.exp(x.exact) + 1) / (np.exp(x.exact) + 1).sum(1, keepdims=True), kind)
            seen = (mask.exact[np.arange(rows) % 2] > 0) & (np.arange(cols) <= np.arange(rows)[:, None] + cols - rows)
            launch(y, x, mask, 2, bias, "softmax", True)
            self.near(y, softmax(np.where(seen, x.exact, -np.inf)) * 0.5 + bias.exact, kind)
            launch(x, x, None, 1, None, "softmax")
            self.near(x, softmax(rounded(x.exact, kind)), kind)

    def test_rows_without_numbers(self):
        softmax_of = self.text("softmax")
        x = random.standard_normal((6, 10001))
        x[0], x[1, 7], x[2, 9000], x[3], x[4, :8192], x[5, 8192:] = -np.inf, np.inf, np.nan, 1e-42, -np.inf, -np.inf
        x, y = Array(x, "f32"), empty(x.shape)
        with np.errstate(invalid="ignore"):
            for function, exact in ("softmax", softmax), ("log_softmax", log_softmax):
                softmax_of(6, 10001, 2048, 4, y, x, None, None, 10001, 10001, 0, 6, 10001, 1, 0, 1.0, 0, STAGES=self.STAGES, EVICTION="",
                           KIND=function, CAUSAL=False)
                self.near(y, exact(x.exact), what=function)

    def test_softmax_far_from_zero(self):
        """As near to the exact one as around 0, up to rows of the lowest number alone; also of rows in pieces and of divided ones."""
        softmax_of = self.text("softmax")
        whole_rows = tegula.load(str(SOURCE / "kernels" / "softmax.py"))["softmax"]
        lowest = float(np.finfo(np.float32).min)
        middles = np.array([[1e3], [-1e4], [1e6], [lowest], [-lowest]])
        x, y = Array(middles + random.standard_normal((5, 10001)), "f32"), empty((5, 10001))
        for function, exact in ("softmax", softmax), ("log_softmax", log_softmax):
            for way in "shared", "pieces", "divided":
                args = (y, x, None, None, 10001, 10001, 0, 5, 10001, 1, 0, 1.0, 0)
                how = {"STAGES": 0, "EVICTION": "", "KIND": function, "CAUSAL": False}
                if way == "shared":
                    softmax_of(5, 10001, 2048, 4, *args, **how | {"STAGES": self.STAGES})
                else:
                    blocks = 2 if way == "divided" and DEVICE.sm >= 90 else 1
                    whole_rows[(5,)](*(a.given if isinstance(a, Array) else a for a in args), ROWS=1, PIECE=2048 if way == "pieces" else 0,
                                     num_warps=4, num_ctas=blocks, **how)
                np.testing.assert_allclose(y.now(), exact(x.exact), 1e-5, 0 if function == "softmax" else 1e-5, err_msg=f"{function}, {way}")

    def test_softmax_backward(self):
        backward = self.text("softmax_backward")
        for rows, cols, piece, warps, kind in self.CASES:
            for log in False, True:
                out = Array((log_softmax if log else softmax)(random.standard_normal((rows, cols))), kind)
                dout, dx = normal((rows, cols), kind), empty((rows, cols), kind)
                backward(rows, cols, piece, warps, dx, dout, out, cols, cols, cols, rows, cols, 0, LOG=log)
                y, dy = out.exact, dout.exact
                exact = dy - np.exp(y) * dy.sum(1, keepdims=True) if log else y * (dy - (dy * y).sum(1, keepdims=True))
                self.near(dx, exact, kind, max(1, math.sqrt(cols) / 8))

    def test_norms(self):
        norm_of = self.text("norm")
        for rows, cols, piece, warps, kind in self.CASES:
            for center in False, True:
                x, r, y, weight = normal((rows, cols), kind), normal((rows, cols), kind), empty((rows, cols), kind), normal(cols, kind)
                bias = normal(cols, kind) if center else None
                h = x.exact + r.exact
                launch = lambda weight, bias: norm_of(
                    rows, cols, piece, warps, y, x, r, r, None, None, weight, bias, cols, cols, cols, cols, rows, cols, 1e-5, 0, STAGES=self.STAGES,
                    EVICTION="", CENTER=center, ACTIVATION="silu" if center else "none")
                exact = norm(h, weight.exact, bias.exact if center else 0, 1e-5, center)
                launch(weight, bias)  # the sum takes the residual's place
                self.near(y, ACTIVATIONS["silu"](exact) if center else exact, kind, 4)
                self.near(r, h, kind)
                norm_of(rows, cols, piece, warps, y, x, None, None, None, None, None, None, cols, cols, 0, 0, rows, cols, 1e-5, 0,
                        STAGES=self.STAGES, EVICTION="", CENTER=center, ACTIVATION="none")
                self.near(y, norm(x.exact, center=center, eps=1e-5), kind, 4)

    def test_norm_backward(self):
        """Programs have pieces of the columns; dx takes the place of what they read, also where they leave pieces to the last one."""
        for patience in 256, 0:
            backward = tegula.load(str(SOURCE / "kernels" / "norm_backward.py"), {"PATIENCE": patience})["norm_backward"]
            counters = Array(np.zeros(16384), "i32")
            for rows, cols, piece, warps, kind in self.CASES[:4]:
                for center in False, True:
                    x, dy, dsum, weight = (normal(shape, kind) for shape in 3 * [(rows, cols)] + [cols])
                    dx = x if center else dy
                    dweight, dbias = empty(cols), empty(cols) if center else None
                    given = (None if a is None else a.given for a in (dx, dweight, dbias, dy, x, weight, dsum))
                    backward[(-(-cols // piece),)](*given, cols, cols, cols, cols, rows, cols, 1e-3, 0, counters.given, counters.given,
                                                   CENTER=center, ROWS=0, STAGES=1, PROGRAMS=1, RELOAD=False, PIECE=piece, num_warps=warps)
                    h = x.exact - x.exact.mean(1, keepdims=True) * center
                    r = 1 / np.sqrt((h * h).mean(1, keepdims=True) + 1e-3)
                    n, g = h * r, dy.exact * weight.exact
                    exact = r * (g - g.mean(1, keepdims=True) * center - n * (g * n).mean(1, keepdims=True))
                    self.near(dx, exact + dsum.exact, kind, 4, "dx")
                    self.near(dweight, (dy.exact * n).sum(0), scale=10, what="dweight")
                    if center:
                        self.near(dbias, dy.exact.sum(0), scale=10, what="dbias")
                    self.assertEqual(np.abs(counters.now()).max(), 0, "counters are zero again")

    def test_pieces_that_programs_leave(self):
        for name in "softmax", "norm":
            text = tegula.load(str(SOURCE / "kernels" / f"{name}.py"), {"PATIENCE": 0})[name]
            x, counters = normal((5, 20001)), Array(np.zeros(16384), "i32")
            how = {"ROWS": 0, "PIECE": 1024, "STAGES": 2, "EVICTION": "", "num_warps": 2, "counters_ptr": counters.given}
            if name == "softmax":
                text[(100,)](x.given, x.given, None, None, 20001, 20001, 0, 5, 20001, 1, 0, 1.0, 0, KIND="softmax", CAUSAL=False, **how)
                self.near(x, softmax(x.exact))
            else:
                text[(100,)](x.given, x.given, None, None, None, None, None, None, 20001, 20001, 0, 0, 5, 20001, 1e-6, 0, CENTER=True,
                             ACTIVATION="none", **how)
                self.near(x, norm(x.exact, center=True), scale=4)
            self.assertEqual(np.abs(counters.now()).max(), 0, "counters are zero again")

    def test_quantised_norm(self):
        x, q, scale = normal((3, 20001)), Array(np.zeros((3, 20001)), "i8"), Array([0.05], "f32")
        self.text("norm")(3, 20001, 4096, 4, q, x, None, None, scale, None, None, None, 20001, 20001, 0, 0, 3, 20001, 1e-6, 0, STAGES=self.STAGES,
                          EVICTION="", CENTER=True, ACTIVATION="none")
        self.assertLessEqual(np.abs(q.now() - np.clip(np.rint(norm(x.exact, center=True) / scale.exact), -128, 127)).max(), 1)

    def test_few_wide_rows_of_entries(self):
        """More pieces than there are words for among them, and rows that do not begin evenly."""
        for rows, cols in (1, 32768), (3, 40003), (37, 32776):
            x, y = normal((rows, cols)), empty((rows, cols))
            call(kernels.softmax, y, x)
            self.near(y, softmax(x.exact))
            call(kernels.layer_norm, y, x)
            self.near(y, norm(x.exact, center=True), scale=4)


class RowsReadTwice(SharedRows):
    """The same where two programs have each piece, of which the second one reads it again."""

    STAGES = 0
    test_softmax_backward = test_norm_backward = test_pieces_that_programs_leave = test_few_wide_rows_of_entries = None


if __name__ == "__main__":
    unittest.main()
