"""bindings/python/tegula: arguments, launches and results with numpy on the emulator, and what can be asked of kernels."""

import contextlib
import io
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

from tegula_cases import SOURCE, main, np, program, softmax, tegula, torch

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]


def sample(dtype, n=50):
    values = np.arange(n) * 5 - 100
    return (values %
            2 == 0) if dtype == "bool" else np.abs(values).astype(dtype) if dtype[0] == "u" else values.astype(dtype)


class Numpy(unittest.TestCase):

    def test_descriptors(self):
        x = np.arange(70, dtype=np.float32).reshape(7, 10)
        like_triton = type("Descriptor", (), dict(base=x, shape=[7, 10], strides=[10, 1], block_shape=[4, 8]))()
        for given in (tegula.TensorDescriptor.from_tensor(x, [4, 8]), like_triton,
                      tegula.TensorDescriptor(x, (7, 10), (10, 1), (4, 8), padding="nan")):
            out = np.full((4, 8), -1, np.float32)
            program.copy_blocks[(1, )](tegula.TensorDescriptor.from_tensor(out, [4, 8]), given, 5, 4)
            expected = np.full((4, 8), np.nan if getattr(given, "padding", "") == "nan" else 0, np.float32)
            expected[:2, :6] = x[5:, 4:]
            np.testing.assert_array_equal(out, expected)
        with self.assertRaisesRegex(TypeError, "a descriptor with 2 extents, 1 strides and 2 extents of its blocks"):
            program.copy_blocks[(1, )](tegula.TensorDescriptor(x, (7, 10), (10, ), (4, 8)), like_triton, 5, 4)
        with self.assertRaisesRegex(TypeError, "a descriptor whose base is 3; expected an array"):
            program.copy_blocks[(1, )](tegula.TensorDescriptor(3, (7, 10), (10, 1), (4, 8)), like_triton, 5, 4)
        with self.assertRaisesRegex(tegula.LaunchError, "whose last stride is 7, expected 1"):
            program.copy_blocks[(1, )](tegula.TensorDescriptor(x, (10, 7), (1, 7), (4, 8)), like_triton, 5, 4)
        x.flags.writeable = False
        with self.assertRaisesRegex(TypeError, "the kernel writes into it"):
            program.copy_blocks[(1, )](like_triton, like_triton, 5, 4)
        self.assertIn(".entry copy_blocks", program.copy_blocks.ptx("*f16[64,64]", "*f16[64,64]", "i32", "i32"))

    def test_combine_functions_that_ask_for_types(self):
        """Of a tile that such a function makes of an element, and computes nothing with."""
        text = ("import triton\nimport triton.language as tl\n@triton.jit\ndef is_float(x):\n"
                "    return (x + tl.zeros((1,), tl.int1)).dtype.is_floating()\n@triton.jit\ndef largest(a, b):\n"
                "    wins = a > b\n    if is_float(a):\n        wins |= a != a\n    return tl.where(wins, a, b)\n"
                "@triton.jit\ndef rows(out, x, B: tl.constexpr):\n    i = tl.arange(0, B)\n"
                "    v = tl.load(x + i[:, None] * B + i[None, :])\n    tl.store(out + i, tl.reduce(v, 1, largest))\n")
        x = np.random.default_rng(0).standard_normal((16, 16)).astype(np.float32)
        x[3, 5] = np.nan
        for given in (x, (x[:, ::-1].copy() * 100).astype(np.int32)):
            out = np.zeros(16, given.dtype)
            tegula.parse(text).rows[(1, )](out, given, B=16)
            np.testing.assert_array_equal(out, given.max(1))

    def test_softmax(self):
        x = np.random.default_rng(0).standard_normal((37, 781)).astype(np.float32)
        for given in [(781, dict(BLOCK_SIZE=1024, num_warps=4)), (781, dict(BLOCK_SIZE=1024, num_warps=8,
                                                                            num_stages=2)),
                      (x.strides[0] // 4, dict(BLOCK_SIZE=2048))]:
            out = np.full_like(x, np.nan)
            program.softmax_kernel[(37, )](out, x, given[0], 781, **given[1])
            np.testing.assert_allclose(out, softmax(x), rtol=1e-5)

    def test_all_element_types(self):
        for name in DTYPES:
            x = sample(name)
            out = np.zeros_like(x)
            program.add[(2, )](out, x, None, x.size, BLOCK=32)
            np.testing.assert_array_equal(out, x, err_msg=name)

    def test_bfloat16_in_uint16(self):
        x = np.linspace(-2, 2, 50, dtype=np.float32)
        bits = (x.view(np.uint32) >> 16).astype(np.uint16)
        out = np.zeros(50, np.float32)
        program.convert[(1, )](out, tegula.reinterpret(bits, tegula.bfloat16), 50, TYPE=tegula.float32, MODE="scale",
                               FACTOR=2)
        np.testing.assert_array_equal(out, 2 * (bits.astype(np.uint32) << 16).view(np.float32))

    def test_float8_in_uint8(self):
        bits = np.array([0, 0x38, 0xB8, 0x7E, 1], np.uint8)
        out = np.zeros(5, np.float32)
        program.convert[(1, )](out, tegula.reinterpret(bits, "float8_e4m3fn"), 5, TYPE=tegula.float32, MODE="scale",
                               FACTOR=2)
        np.testing.assert_array_equal(out, np.array([0, 2, -2, 896, 2 * 2**-9], np.float32))
        program.convert[(1, )](tegula.reinterpret(bits, tegula.float8e5), out, 5, TYPE=tegula.float8e5, MODE="",
                               FACTOR=1)
        np.testing.assert_array_equal(bits, np.array([0, 0x40, 0xC0, 0x63, 0x1C], np.uint8))

    def test_other_kinds_of_float8(self):
        bits = np.array([0, 0x38, 0xB8, 0x7E, 1], np.uint8)
        for kind, values in {"float8e4b15": [0, 2**-8, -2**-8, 1.75, 2**-17], "float8e4b8": [0, 0.5, -0.5, 224, 2**-10],
                             "fp8e5b16": [0, 0.25, -0.25, 49152, 2**-17]}.items():
            out = np.zeros(5, np.float32)
            program.convert[(1, )](out, tegula.reinterpret(bits, kind), 5, TYPE=tegula.float32, MODE="", FACTOR=1)
            np.testing.assert_array_equal(out, np.array(values, np.float32), kind)

    def test_float8e5_towards_zero(self):
        kernel = tegula.parse("import triton\nimport triton.language as tl\n"
                              "@triton.jit\n"
                              "def k(out, x, B: tl.constexpr):\n"
                              "    i = tl.arange(0, B)\n"
                              "    tl.store(out + i, tl.load(x + i).to(tl.float8e5, fp_downcast_rounding='rtz'))\n").k
        bits = np.arange(1 << 16, dtype=np.uint16)
        halves = bits.view(np.float16)
        numbers = np.isfinite(halves)
        below_next = (halves.astype(np.float32) * np.float32(1 + 2**-12)).astype(np.float32)
        for x in halves, halves.astype(np.float32), below_next, below_next.astype(np.float64) * (1 + 2**-40):
            out = np.zeros(1 << 16, np.uint8)
            kernel[(1, )](tegula.reinterpret(out, tegula.float8e5), x, B=1 << 16)
            np.testing.assert_array_equal(out[numbers], (bits >> 8)[numbers])
            np.testing.assert_array_equal(out[np.isinf(halves)], (bits >> 8)[np.isinf(halves)])
            self.assertTrue(np.all(out[np.isnan(halves)] & 0x7f > 0x7c))
        large = np.array([1e5, -1e30, 3e38, 65519.99], np.float32)
        out = np.zeros(4, np.uint8)
        kernel[(1, )](tegula.reinterpret(out, tegula.float8e5), large, B=4)
        np.testing.assert_array_equal(out, [0x7b, 0xfb, 0x7b, 0x7b])

    TUPLES = """
import triton
import triton.language as tl
from typing import NamedTuple

class Matrix(NamedTuple):
    data: tl.tensor
    rows: tl.tensor
    name: tl.constexpr

@triton.jit
def kernel(outs, m, SCALE: tl.constexpr, n):
    tl.static_assert(m.name == "m" and outs[2] is None and len(outs) == 3)
    i = tl.arange(0, 4)
    x = tl.load(m.data + i, mask=i < m.rows) * SCALE[0] + n
    tl.store(outs[0] + i, x)
    tl.store(outs[1][0] + i, x * (2 if SCALE[1] is True else 1))
"""

    def test_tuples(self):
        import collections
        kernel = tegula.parse(self.TUPLES).kernel
        matrix = collections.namedtuple("Matrix", "data rows name")
        x = np.arange(1, 5, dtype=np.float32)
        for rows in (1, 3, 16):
            for scale in ((2, True), (2, 1), (2.5, False)):
                a, b = np.zeros(4, np.float32), np.zeros(4, np.float32)
                kernel[(1, )]((a, (b, ), None), m=matrix(x, rows, "m"), SCALE=scale, n=7)
                expected = np.where(np.arange(4) < rows, x, 0) * np.float32(scale[0]) + 7
                np.testing.assert_array_equal(a, expected)
                np.testing.assert_array_equal(b, expected * (2 if scale[1] is True else 1))
        self.assertIn(".param .u64", kernel.ptx(("*f32", ("*f32", ), None), matrix("*f32", "i32", "m"), (1, True), "i32",
                                                target="sm_90a"))
        with self.assertRaisesRegex(TypeError, r"argument 'outs\[1\]': builtins.object is no argument of a kernel"):
            kernel[(1, )]((x, (object(), ), None), matrix(x, 1, "m"), (1, True), 7)
        x.flags.writeable = False
        with self.assertRaisesRegex(TypeError, r"argument 'outs\[0\]': the kernel writes into it"):
            kernel[(1, )]((x, (x, ), None), matrix(x, 1, "m"), (1, True), 7)

    def test_constexprs_in_tuples(self):
        kernel = tegula.parse("import triton\nimport triton.language as tl\n"
                              "@triton.jit\ndef k(out, shape, n):\n"
                              "    rows: tl.constexpr = shape[0]\n    columns: tl.constexpr = shape[1][0]\n"
                              "    i = tl.arange(0, rows)[:, None] * columns + tl.arange(0, columns)[None, :]\n"
                              "    tl.store(out + i, tl.full(shape[2], 1.0, tl.float32) + n)\n").k

        class constexpr:  # Triton's

            def __init__(self, value):
                self.value = value

        c = constexpr
        out = np.zeros((4, 8), np.float32)
        kernel[(1, )](out, (c(4), (c(8), 3), c((4, 8))), 2)
        np.testing.assert_array_equal(out, np.full((4, 8), 3, np.float32))

    def test_products_and_sums_apart(self):
        kernel = tegula.parse("import triton\nimport triton.language as tl\n"
                              "@triton.jit\ndef k(out, a, b):\n    tl.store(out, tl.load(out) * a + b)\n").k
        for fused in (True, False):
            ptx = kernel.ptx("*f32", "f32", "f32", target="sm_90a", enable_fp_fusion=fused)
            self.assertEqual("fma.rn.f32" in ptx, fused)
        x = np.array([1 + 2**-12], np.float32)
        kernel[(1, )](x, 1 + 2**-12, -1.0, enable_fp_fusion=False)
        self.assertEqual(x[0], np.float32(2**-11))  # 2**-24 is lost with the product's rounding

    def test_globals(self):
        text = "import triton\nimport triton.language as tl\nfrom nowhere import N\nM = ask()\n" \
               "@triton.jit\ndef k(out):\n    tl.store(out, N[1] + M)\n"
        out = np.zeros(1, np.int32)
        tegula.parse(text, globals={"N": (1, 2), "M": 40}).k[(1, )](out)
        self.assertEqual(out[0], 42)
        with self.assertRaisesRegex(TypeError, "global 'N': .* cannot be a compile-time value"):
            tegula.parse(text, globals={"N": object()})

    def test_names_of_installed_packages(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        self.addCleanup(shutil.rmtree, folder)
        (folder / "installed_helpers.py").write_text("import triton\nN = 2\n@triton.jit\ndef f(x):\n    return x * N\n")
        text = "import triton\nimport triton.language as tl\nfrom installed_helpers import f\n" \
               "@triton.jit\ndef k(out):\n    tl.store(out, f(tl.load(out)))\n"
        out = np.full(1, 21, np.int32)
        with self.assertRaisesRegex(tegula.CompileError, "comes from 'installed_helpers.f'"):
            tegula.parse(text).k[(1, )](out)
        self.addCleanup(sys.path.remove, str(folder))
        sys.path.append(str(folder))
        tegula.parse(text).k[(1, )](out)
        self.assertEqual(out[0], 42)

    def test_keywords_in_any_order(self):
        x, y = sample("float32"), sample("float32")[::-1].copy()
        out = np.zeros_like(x)
        program.add[(2, )](BLOCK=32, n=x.size, y_ptr=y, out_ptr=out, x_ptr=x, num_warps=1)
        np.testing.assert_array_equal(out, x + y)
        out[:] = 0
        program.add[(2, )](out, x, y, x.size, 32)  # a constexpr by position
        np.testing.assert_array_equal(out, x + y)
        out[:] = 0
        program.add[(2, )](out, x, n=x.size, BLOCK=32, y_ptr=None)
        np.testing.assert_array_equal(out, x)

    def test_grid_function_sees_all_arguments(self):
        x = sample("float32")
        out, seen = np.zeros_like(x), []

        def grid(meta):
            seen.append(dict(meta))
            return (tegula.cdiv(meta["n"], meta["BLOCK"]), )

        program.add[grid](out, x, None, n=50, BLOCK=16, num_warps=2)
        np.testing.assert_array_equal(out, x)
        self.assertEqual({k: v
                          for k, v in seen[0].items() if k not in ("out_ptr", "x_ptr")},
                         {"y_ptr": None, "n": 50, "BLOCK": 16, "num_warps": 2})
        self.assertIs(seen[0]["x_ptr"], x)

    def test_grid_function_of_a_tuned_kernel(self):
        try:
            tuned = program.tuned_double.is_tuned
        except tegula.CompileError as error:
            self.skipTest(f"@triton.autotune is not understood: {error}")
        if not tuned:
            self.skipTest("this build does not read @triton.autotune")
        for n in (50, 100, 50):
            x = np.arange(n, dtype=np.float32)
            out, seen = np.zeros_like(x), []

            def grid(meta):
                seen.append((meta["BLOCK"], meta["num_warps"]))
                return (tegula.cdiv(meta["n"], meta["BLOCK"]), )

            program.tuned_double[grid](out, x, n)
            np.testing.assert_array_equal(out, 2 * x)
            self.assertIn(seen[-1], [(32, 1), (64, 2)])

    def test_grid_function_with_constexprs_left_open(self):
        x = sample("int32")
        out = np.zeros_like(x)
        program.convert[lambda meta: (meta["num_warps"] - 3, )](out, x, 50, TYPE=tegula.int32, MODE="keep", FACTOR=1)
        np.testing.assert_array_equal(out, x)

    def test_what_a_grid_function_raises_comes_through(self):
        x = sample("int32")
        for block in ({}, {"BLOCK": 64}):  # through the library, and not
            with self.assertRaises(ZeroDivisionError):
                program.convert[lambda meta: (1 // 0, )](x, x, 50, TYPE=tegula.int32, MODE="keep", FACTOR=1, **block)

    def test_grids(self):
        x = np.arange(24, dtype=np.int32).reshape(4, 6)
        for grid in [(4, 2), [4, 2], (4, 2, 1), (np.int64(4), np.int32(2))]:
            out = np.zeros_like(x)
            program.copy_strided[grid](out, x, 4, 6, 6, 1, BLOCK=4)
            np.testing.assert_array_equal(out, x)
        out = np.zeros(50, np.int32)
        program.add[2](out, sample("int32"), None, 50, BLOCK=32)
        np.testing.assert_array_equal(out, sample("int32"))
        out[:] = 7
        program.add[(0, )](out, sample("int32"), None, 50, BLOCK=32)  # starts nothing
        self.assertTrue((out == 7).all())

    def test_strided_arrays(self):
        base = np.arange(20 * 30, dtype=np.float32).reshape(20, 30)
        for x in (base[3:9, 2:20], base.T, base[::2, ::3], base[::-1, ::-1], base[:, ::-2]):
            out = np.zeros(x.shape, x.dtype)
            program.copy_strided[(x.shape[0], 1)](out, x, *x.shape, *(s // 4 for s in x.strides), BLOCK=32)
            np.testing.assert_array_equal(out, x)

    def test_accesses_beyond_an_array_are_found(self):
        x = np.zeros(50, np.float32)
        with self.assertRaisesRegex(tegula.DeviceError, r"kernels\.py:\d+.*|past the end"):
            program.add[(1, )](np.zeros(64, np.float32), x[:40].copy(), None, 64, BLOCK=64)

    def test_scalars(self):
        for a, b, flag, big in [(3, 0.5, True, 2**40), (-1, 3e38, False, 2**63),
                                (np.int32(7), np.float32(0.25), np.True_, 1),
                                (np.uint8(200), np.float64(2), np.False_, 2**64 - 1), (True, 1.5, True, 0)]:
            out = np.zeros(4)
            program.scalars[(1, )](out, a, b, flag, big)
            expected = [float(a), float(np.float32(min(b, 3e38))), float(flag), float(big)]
            np.testing.assert_array_equal(out, expected)

    def test_constexpr_types(self):
        x = sample("int32")
        for kind in (tegula.float32, np.float32, np.dtype("float32")):
            out = np.zeros(50, np.float32)
            program.convert[(1, )](out, x, 50, TYPE=kind, MODE="scale", FACTOR=0.5)
            np.testing.assert_array_equal(out, x * np.float32(0.5))
        # Equal in Python, different to the compiler.
        for factor, expected in ((1, np.int32), (1.0, np.float32), (True, np.int32)):
            out = np.zeros(50, expected)
            program.convert[(1, )](out, x, 50, TYPE=tegula.int32, MODE="scale", FACTOR=factor)
            np.testing.assert_array_equal(out, x)

    def test_array_interface(self):

        class Wrapped:

            def __init__(self, array):
                self.array, self.__array_interface__ = array, array.__array_interface__

        x, out = sample("int16"), np.zeros(50, np.int16)
        program.add[(2, )](Wrapped(out), Wrapped(x), None, 50, BLOCK=32)
        np.testing.assert_array_equal(out, x)

    def test_objects_with_an_address(self):
        """What has dtype and data_ptr() is an array, as in Triton: classes of views by strides that torch has not."""

        class Bare:

            def __init__(self, array):
                self.array, self.dtype, self.device = array, array.dtype, "cpu"

            def data_ptr(self):
                return self.array.__array_interface__["data"][0]

        class Strided(Bare):

            def __init__(self, array):
                super().__init__(array)
                self.shape = array.shape

            def stride(self):
                return [s // self.array.itemsize for s in self.array.strides]

        x, out = sample("int16"), np.zeros(50, np.int16)
        program.add[(2, )](Strided(out), Strided(x), None, 50, BLOCK=32)
        np.testing.assert_array_equal(out, x)
        with self.assertRaisesRegex(tegula.DeviceError, "out-of-bounds read of 2 bytes .* 80-byte allocation"):
            program.add[(2, )](Strided(out), Strided(x[:40]), None, 50, BLOCK=32)
        with self.assertRaisesRegex(TypeError, "Bare has neither shape nor stride\\(\\), which tell what"):
            program.add[(2, )](Bare(out), x, None, 50, BLOCK=32)

    # What lies between the elements of a view belongs to no array of the launch, unless another one has it.
    def test_gaps_of_views(self):
        whole = np.zeros((8, 16), np.float32)
        for view, runs in ((whole, 1), (whole[:, :10], 8), (whole[:, 15:], 8), (whole[2:4], 1), (whole.T, 1),
                           (whole[::-1], 1), (whole[::2, ::-1], 4), (whole[1], 1), (np.zeros(512)[::2], 256), (np.zeros(
                               (3, 0)), 0), (np.broadcast_to(whole[0], (4, 16)), 1), (np.zeros((99999, 2))[:, :1], 1)):
            self.assertEqual(len(tegula.memory.runs_of(view)), runs)
        base = whole.__array_interface__["data"][0]
        self.assertEqual(tegula.memory.runs_of(whole[6:, 2:6]), [(base + 6 * 64 + 8, 16), (base + 7 * 64 + 8, 16)])
        text = """import sys
import numpy as np, tegula
program = tegula.parse('''import triton
import triton.language as tl
@triton.jit
def k(x, y, COLUMNS: tl.constexpr):
    m = tl.arange(0, 8)[:, None] * 16
    c = tl.arange(0, 16)[None, :]
    tl.store(x + m + c, 1.0, mask=c < COLUMNS)
''', 'k.py')
whole = np.zeros((8, 16), np.float32)
program.k[(1, )](whole[:, :10], whole[:, 10:] if len(sys.argv) > 2 else None, COLUMNS=int(sys.argv[1]))
"""

        def error(check, *arguments):
            environment = {**os.environ, "TEGULA_DEVICE": "emulator", "TEGULA_EMULATOR_CHECK": check,
                           "PYTHONPATH": str(SOURCE / "bindings" / "python")}
            return subprocess.run([sys.executable, "-c", text, *arguments],
                                  capture_output=True,
                                  text=True,
                                  env=environment).stderr

        self.assertEqual(error("1", "10"), "")
        self.assertRegex(
            error("1", "11"), "out-of-bounds write of 4 bytes .*, 0 bytes past the end of a 40-byte allocation "
            "\\((a row of )?argument 'x'\\)")
        self.assertEqual(error("1", "16", "both"), "")

    # Nobody has written it, so that reads of it are found.
    def test_empty_arrays(self):
        out = tegula.Device.emulator().empty((2, 3), np.int16)
        self.assertEqual((out.shape, out.nbytes, out.dtype.name), ((2, 3), 12, "int16"))
        self.assertEqual(tegula.Device.emulator().empty(5, np.float32).shape, (5, ))
        with self.assertRaisesRegex(TypeError, "'thing' is no dtype; supported are bool"):
            tegula.Device.emulator().empty(5, "thing")

    def test_device_arrays(self):
        for device in {tegula.Device.emulator(), tegula.Device.emulator("sm_80"), tegula.Device.default()}:
            x = sample("float32")
            on_device, out = device.array(x), device.array(np.zeros_like(x))
            program.add[(2, )](out, on_device, on_device, 50, BLOCK=32)
            device.synchronize()
            np.testing.assert_array_equal(out.numpy(), 2 * x)

    def test_threads(self):
        wrong = []

        def work(number):
            x = np.full(100, number, np.float32)
            for block in (16, 32, 64) * 5:
                out = np.zeros_like(x)
                program.add[lambda meta: (tegula.cdiv(100, meta["BLOCK"]), )](out, x, x, 100, BLOCK=block)
                if not (out == 2 * number).all():
                    wrong.append((number, block))

        threads = [threading.Thread(target=work, args=(i, )) for i in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])


class Looking(unittest.TestCase):

    def test_prepare(self):
        text = ("import triton\nimport triton.language as tl\n@triton.jit\ndef told(x, n, B: tl.constexpr):\n"
                "    tl.static_print('compiled for', B)\n    tl.store(x + tl.arange(0, B), n)\n")
        told, out = tegula.parse(text).told, io.StringIO()
        x = np.zeros(64, np.int32)
        with contextlib.redirect_stdout(out):
            told.prepare("*i32", "i32:16", B=32)
            self.assertEqual(out.getvalue(), "compiled for 32\n")
            with self.assertRaisesRegex(tegula.CompileError, "B"):
                told.prepare("*i32", 5, B=33)
        out.seek(0), out.truncate()
        with contextlib.redirect_stdout(out):
            told[(1, )](x, 48, B=32)
        self.assertEqual(out.getvalue(), "")
        self.assertEqual(list(x[:33]), [48] * 32 + [0])
        with self.assertRaisesRegex(TypeError, "'\\*f31' is no type|is for tl.constexpr"):
            told.prepare("*f31", 5, B=32)

    def test_kernels_and_parameters(self):
        self.assertEqual(program.kernels,
                         ["softmax_kernel", "copy_strided", "add", "copy_blocks", "scalars", "convert", "tuned_double"])
        self.assertEqual(
            repr(program.convert.params),
            "[out_ptr, x_ptr, n, TYPE: tl.constexpr, MODE: tl.constexpr, FACTOR: tl.constexpr, "
            "BLOCK: tl.constexpr = ...]")
        self.assertIs(program.add, program["add"])
        self.assertIn("add", dir(program))

    def test_debugger(self):
        x, out = np.arange(64, dtype=np.float32), np.zeros(64, np.float32)
        with tegula.Debugger(program=1) as debugger:
            program.add[(2, )](out, x, None, 64, BLOCK=32, debug=2)
        debugger("continue")
        held = [name["name"] for name in debugger.facts("names")["names"] if name["type"] == "float32[32]"]
        self.assertTrue(held)
        self.assertEqual(len(debugger.value(held[0])), 32)
        self.assertIn("thread 5 (warp 0, lane 5), register", debugger(f"owner {held[0]}[5]"))
        with self.assertRaisesRegex(tegula.Error, "^unknown command 'prnt'; did you mean 'print'\\?$"):
            debugger("prnt x")
        with self.assertRaisesRegex(ValueError, "one to three indices"):
            tegula.Debugger(program=())
        with self.assertRaisesRegex(ValueError, "nothing was recorded: launch within"):
            tegula.Debugger()("where")

    def test_explain(self):
        x, out = np.zeros(4096, np.float32), np.zeros(4096, np.float32)
        told = [
            program.add.explain(to, of, None, 4096, grid=lambda meta: (4096 // meta["BLOCK"], ), BLOCK=1024, target="sm_80")
            for to, of in ((out, x), (x, out))
        ]
        self.assertEqual(told[0].programs, 4)
        for moved in (told[0].from_memory, told[0].to_memory):  # numpy aligns to half a sector
            self.assertIn(moved, (4 * 4096, 4 * 4096 + 32))
        self.assertEqual([a["name"] for a in told[0].arrays], ["out_ptr", "x_ptr"])
        self.assertIn("add on sm_80: 4 programs, BLOCK=1024", str(told[0]))
        self.assertTrue(told[0].svg.startswith("<svg "))
        with self.assertRaises(AttributeError):
            told[0].nonsense
        advice = tegula.advise_fusion(told)
        self.assertTrue(advice.fuse, advice.text)
        self.assertAlmostEqual(advice.separate_bytes / advice.fused_bytes, 2, delta=0.01)
        self.assertEqual(len(advice.rules), 5)

    def test_ptx(self):
        x = np.zeros(64, np.float32)
        ptx = program.add.ptx(x, x, None, 64, BLOCK=64, target="sm_80")
        self.assertIn(".target sm_80", ptx)
        self.assertIn(".entry add", ptx)
        by_types = program.add.ptx("*f32", "*f32", None, "i32:16", BLOCK=64, target="sm_80")
        self.assertEqual(ptx, by_types)
        self.assertEqual(program.add.ptx(x, x, None, 512, BLOCK=64, target="sm_80"),
                         program.add.ptx("*f32", "*f32", None, "i32:256", BLOCK=64, target="sm_80"))
        self.assertEqual(program.add.ptx(x, x, None, 24, BLOCK=64, target="sm_80"),
                         program.add.ptx("*f32", "*f32", None, "i32:8", BLOCK=64, target="sm_80"))
        self.assertNotEqual(ptx, program.add.ptx("*f32:1", "*f32", None, "i32", BLOCK=64, target="sm_80"))
        image = program.add.compile("*bf16", "*bf16", None, "i32", BLOCK=64, num_warps=2)
        self.assertEqual((image.num_warps, image.shared_bytes, image.transfers), (2, 0, []))
        with self.assertRaisesRegex(tegula.LaunchError, "unknown target 'sm_9'"):
            program.add.ptx("*f32", "*f32", None, "i32", BLOCK=64, target="sm_9")
        with self.assertRaisesRegex(TypeError,
                                    r"add\(\), argument 'n': 'i33' is no type; expected one such as '\*f32'"):
            program.add.ptx("*f32", "*f32", None, "i33", BLOCK=64)

    def test_facts(self):
        x = np.zeros((2, 256), np.float32)
        facts = program.softmax_kernel.facts(x, x, 256, 256, BLOCK_SIZE=256, num_warps=8)
        self.assertEqual(facts.config, {"num_warps": 8, "num_stages": 3, "maxnreg": 0, "warp_specialize": 0, "bulk_copies": 0, "program_loop": 0, "debug": 0,
                                        "num_ctas": 1, "program_bits": 0, "BLOCK_SIZE": 256})
        self.assertEqual(facts.num_warps, 8)
        self.assertGreater(facts.shared_bytes, 0)
        if facts.registers < 0:  # the emulator's image has none
            self.assertRegex(repr(facts), r"^<tegula.Image \w+, 8 warps, \d+ bytes shared>$")

    def test_threads_find_all_entries(self):
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-6)
        self.addCleanup(sys.setswitchinterval, interval)
        for _ in range(20):
            library, found = type(tegula.kernels)(), []
            threads = [threading.Thread(target=lambda: found.append(library.gemm.name)) for _ in range(8)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(found, ["gemm"] * 8)


if __name__ == "__main__":
    main()
