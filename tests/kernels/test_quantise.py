"""Quantisation by the kernel library against numpy: formats, scales by rows, groups, blocks and tensors, odd widths."""

import unittest

from entries import DEVICE, SHAPES, Array, Case, call, empty, kernels, normal, np, tegula

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
TOP = {"i8": 127, "int4": 7, "e2m1": 6, "f8": 448}


def e2m1(y):
    """The nearest number, of two equally near ones that of the even code; and its code."""
    distance = np.abs(np.abs(y)[..., None] - E2M1)
    ties = np.isclose(distance, distance.min(-1, keepdims=True), rtol=0, atol=1e-9)
    order = np.where(ties, np.arange(8) % 2, 9)
    code = order.argmin(-1)
    return code + 8 * np.signbit(y)


def codes(y, format):
    if format == "i8":
        return np.clip(np.rint(y), -128, 127).astype(np.int8)
    code = np.clip(np.rint(y), -8, 7).astype(np.int64) & 15 if format == "int4" else e2m1(y)
    if code.shape[1] % 2:
        code = np.pad(code, ((0, 0), (0, 1)))
    return (code[:, ::2] | code[:, 1::2] << 4).astype(np.uint8)


def value(found, format, cols):
    if format == "i8":
        return found.astype(np.float64)
    code = np.stack([found & 15, found >> 4], -1).reshape(found.shape[0], -1)[:, :cols].astype(np.int64)
    return (code ^ 8) - 8 if format == "int4" else E2M1[code & 7] * np.where(code < 8, 1, -1)


def by_group(most, x, group, tall):
    """Largest magnitudes of groups, and what they are for each element."""
    rows, cols = x.shape
    each = np.repeat(np.repeat(most, tall, 0)[:rows], group, 1)[:, :cols]
    return each


def magnitudes(x, group, tall):
    padded = np.pad(np.abs(x), ((0, -x.shape[0] % tall), (0, -x.shape[1] % group)))
    return padded.reshape(padded.shape[0] // tall, tall, -1, group).max((1, 3))


class Quantise(Case):

    def out(self, format, rows, cols):
        memory = tegula_zeros((rows, cols if format in ("i8", "f8") else -(-cols // 2)), np.int8 if format == "i8" else np.uint8)
        return memory, tegula.reinterpret(memory, tegula.float8e4nv) if format == "f8" else memory

    def float8(self, values):
        """float8e4nv by the library's own conversion, which tests of the language cover."""
        out, given = self.out("f8", *values.shape)
        one = Array(np.ones(1), "f32")
        kernels.quantise_tensor(given, Array(values, "f32").given, one.given)
        return out.numpy()

    def check(self, found, y, format, what):
        if format == "f8":  # a quotient next to a tie may go either way
            below, above = self.float8(y * (1 - 2**-22)), self.float8(y * (1 + 2**-22))
            return self.assertTrue(((found == below) | (found == above)).all(), what)
        exact = codes(y, format)
        if not (found == exact).all():  # only where a quotient is next to a tie
            shape = y.shape[1]
            np.testing.assert_allclose(value(found, format, shape), value(exact, format, shape), atol=1.01 if format != "e2m1" else 2.01)
            self.assertLess((found != exact).mean(), 0.01, what)

    def test_rows(self):
        for i, (rows, cols) in enumerate([*SHAPES, (1, 40001), (2, 131072)]):
            for format in ("i8", "int4", "e2m1", "f8"):
                x, scales = normal((rows, cols), ("f32", "bf16")[i % 2], 3), empty(rows)
                out, given = self.out(format, rows, cols)
                kernels.quantise_rows(given, scales.given, x.given, packed=format if format in TOP and format[0] in "ie" and
                                      format != "i8" else "int4")
                exact = np.abs(x.exact).max(1) / TOP[format]
                np.testing.assert_allclose(scales.now(), exact, rtol=1e-6)
                y = (x.exact.astype(np.float32) / scales.now().astype(np.float32)[:, None]).astype(np.float64)
                self.check(out.numpy(), y, format, f"{rows} x {cols} {format}")

    def test_groups_and_back(self):
        for rows, cols, group, tall in ((3, 64, 32, 1), (5, 100, 16, 1), (130, 300, 128, 128), (7, 1000, 64, 1), (1, 1, 32, 1)):
            for format in ("i8", "int4", "e2m1", "f8"):
                x = normal((rows, cols), "f32", 3)
                x = Array(np.where(np.arange(cols) < group, x.exact, x.exact * 100) * (np.arange(rows) > 0)[:, None], "f32")
                most = magnitudes(x.exact, group, tall)
                scales = empty(most.shape)
                out, given = self.out(format, rows, cols)
                packed = format if format in ("int4", "e2m1") else "int4"
                kernels.quantise_groups(given, scales.given, x.given, group=str(group), tall=str(tall), packed=packed)
                np.testing.assert_allclose(scales.now(), most / TOP[format], rtol=1e-6)
                each = by_group(scales.now().astype(np.float32), x.exact, group, tall)
                y = np.divide(x.exact.astype(np.float32), each, out=np.zeros((rows, cols), np.float32), where=each > 0)
                self.check(out.numpy(), y.astype(np.float64), format, f"{rows} x {cols} {format}")
                back = empty((rows, cols), "bf16")
                kernels.dequantise(back.given, given, scales.given, group=str(group), tall=str(tall), packed=packed)
                if format != "f8":
                    self.near(back, value(out.numpy(), format, cols) * each, "bf16", 1e-3)
                else:
                    self.assertLessEqual(np.max(np.abs(back.now() - x.exact) - np.abs(x.exact) / 14 - each), 0)

    def test_microscaling(self):
        for format, top in (("e2m1", 2), ("f8", 8)):
            for cols in (32, 77, 640):
                x = normal((4, cols), "f32")
                x = Array(x.exact * 2.0**(np.arange(cols) // 32 * 9 - 60), "f32")
                x.exact[3] = 0
                x = Array(x.exact, "f32")
                most = magnitudes(x.exact, 32, 1)
                out, given = self.out(format, 4, cols)
                scales = tegula_zeros(most.shape, np.uint8)
                kernels.quantise_groups(given, scales, x.given, packed="e2m1")
                with np.errstate(divide="ignore"):
                    exponent = np.where(most > 0, np.maximum(np.floor(np.log2(most)) - top + 127, 0), 0)
                np.testing.assert_array_equal(scales.numpy(), exponent)
                each = by_group(2.0**(exponent - 127), x.exact, 32, 1)
                self.check(out.numpy(), np.clip(x.exact / each, -6, 6) if format == "e2m1" else np.clip(x.exact / each, -448, 448), format, f"mx {format} {cols}")
                back = empty((4, cols))
                kernels.dequantise(back.given, given, scales, group="32", packed="e2m1")
                if format == "e2m1":
                    np.testing.assert_array_equal(back.now(), value(out.numpy(), "e2m1", cols) * each)
                else:
                    np.testing.assert_allclose(back.now(), np.clip(x.exact / each, -448, 448) * each, rtol=1 / 15, atol=float(each.max()) / 256)

    def test_ties_of_e2m1(self):
        x = Array(np.array([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 7.0, -0.25, -5.0, 0.26, -0.0]]), "f32")
        out, given = self.out("e2m1", 1, 12)
        kernels.quantise_tensor(given, x.given, Array(np.ones(1), "f32").given, packed="e2m1")
        back = empty((1, 12))
        kernels.dequantise(back.given, given, Array(np.ones((1, 1)), "f32").given, tall="0", packed="e2m1")
        np.testing.assert_array_equal(back.now()[0], [0, 1, 1, 2, 2, 4, 4, 6, 0, -4, 0.5, 0])

    def test_tensor(self):
        for rows, cols in ((1, 1), (37, 300), (3, 20000), (900, 9)):
            for format, name in (("i8", "int8"), ("int4", "int4"), ("e2m1", "e2m1"), ("f8", "float8e4nv")):
                x, scale = normal((rows, cols), "f16"), empty(1)
                call(kernels.tensor_scale, scale, x, format=name)
                np.testing.assert_allclose(scale.now(), [np.abs(x.exact).max() / TOP[format]], rtol=1e-6)
                out, given = self.out(format, rows, cols)
                kernels.quantise_tensor(given, x.given, scale.given, packed=format if format in ("int4", "e2m1") else "int4")
                y = (x.exact.astype(np.float32) / scale.now().astype(np.float32)).astype(np.float64)
                self.check(out.numpy(), y, format, f"{rows} x {cols} {format}")

    def test_numbers_that_are_none(self):
        x = np.ones((3, 64), np.float32)
        x[0, 3], x[1, 40] = np.nan, np.inf
        scales, wide = empty(3), tegula_zeros((3, 2), np.uint8)
        out, given = self.out("f8", 3, 64)
        kernels.quantise_rows(given, scales.given, Array(x, "f32").given)
        self.assertTrue(np.isnan(scales.now()[0]) and np.isinf(scales.now()[1]))
        kernels.quantise_groups(given, wide, Array(x, "f32").given)
        np.testing.assert_array_equal(wide.numpy(), [[255, 119], [119, 255], [119, 119]])

    def test_refusals(self):
        x, scales = normal((4, 9)), empty((4, 1))
        _, packed = self.out("int4", 4, 8)
        _, bytes = self.out("i8", 4, 9)
        for wrong, text in (
            (lambda: kernels.quantise_rows(packed, empty(4).given, x.given),
             "quantise_rows: out has 4 columns, expected 5: two of 9 columns in a uint8"),
            (lambda: kernels.quantise_groups(bytes, empty((4, 2)).given, x.given),
             "quantise_groups: scales is 4 x 2, expected 4 x 1: one for each group"),
            (lambda: kernels.dequantise(x.given, bytes, scales.given, tall="0"),
             "dequantise: scales is 4 x 1, expected 1 x 1: one for each group"),
        ):
            with self.assertRaises(tegula.LaunchError) as caught:
                wrong()
            self.assertEqual(str(caught.exception), text)
        with self.assertRaises(tegula.Error) as caught:  # a GPU tunes, and tells it of each configuration
            kernels.quantise_groups(bytes, tegula_zeros((4, 1), np.uint8), x.given)
        self.assertIn("scales of microscaling formats (uint8) go with elements of type float8 or e2m1", str(caught.exception))


def tegula_zeros(shape, dtype):
    return DEVICE.array(np.zeros(shape, dtype))


if __name__ == "__main__":
    unittest.main()
