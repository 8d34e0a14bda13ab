"""bindings/python/tegula: arguments, errors and results. Numpy and torch's CPU tensors on the emulator; with a GPU
and torch, also Tegula, Triton and torch on the same tensors."""

import contextlib
import io
import os
import pathlib
import pickle
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
import warnings

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
sys.path.insert(0, str(SOURCE / "bindings" / "python"))

try:
    import numpy as np
except ImportError:
    print("[  SKIPPED ]\ntest_tegula.py: Skipped\nnumpy is not installed for",
          sys.executable)  # as ./dev test looks for it
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import tegula

KERNELS = HERE / "kernels.py"
program = tegula.load(KERNELS)
GPU = torch is not None and torch.cuda.is_available() and os.environ.get("TEGULA_DEVICE") != "emulator"

DTYPES = [
    "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16", "float32", "float64"
]


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


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


class Errors(unittest.TestCase):

    def text(self, error, call):
        with self.assertRaises(error) as raised:
            call()
        return str(raised.exception)

    def launch(self, *args, grid=(1, ), kernel="add", **kwargs):
        return lambda: program[kernel][grid](*args, **kwargs)

    def test_arguments(self):
        x = np.zeros(8, np.float32)
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, BLOCK=8)), "add() misses argument 'n'")
        self.assertEqual(self.text(TypeError, self.launch(x, BLOCK=8)), "add() misses arguments 'x_ptr', 'y_ptr', 'n'")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, x_ptr=x, BLOCK=8)),
                         "add() got two values for 'x_ptr'")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, BLOK=8)),
                         "add() has no parameter 'BLOK'; did you mean 'BLOCK'?")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, 8, 9)),
                         "add() takes 5 arguments (out_ptr, x_ptr, y_ptr, n, BLOCK), found 6 by position")
        self.assertEqual(self.text(TypeError, lambda: program.add(x)),
                         "add is a kernel and needs a grid: add[grid](...)")

    def test_values(self):
        x = np.zeros(8, np.float32)
        self.assertEqual(
            self.text(TypeError, self.launch(x, x.astype(complex), None, 8, BLOCK=8)),
            "add(), argument 'x_ptr': an array of dtype complex128, which kernels cannot take; supported are bool, int8, "
            "int16, int32, int64, uint8, uint16, uint32, uint64, float16, bfloat16, float32, float64, "
            "float8e4nv, float8e5, float8e4b15, float8e4b8, float8e5b16")
        self.assertIn("argument 'x_ptr': an array of dtype >f4",
                      self.text(TypeError, self.launch(x, x.astype(">f4"), None, 8, BLOCK=8)))
        self.assertEqual(
            self.text(TypeError, self.launch(x, [1, 2], None, 8, BLOCK=8)),
            "add(), argument 'x_ptr': builtins.list is no argument of a kernel; expected a tensor, an array, an int, a "
            "float, a bool, None, a TensorDescriptor or a tuple of such")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, "8", BLOCK=8)),
                         "add(), argument 'n': '8' is for tl.constexpr parameters, which this one is not")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 2**64, BLOCK=8)),
                         f"add(), argument 'n': {2**64} does not fit 64 bits")
        self.assertEqual(
            self.text(TypeError, self.launch(x, x, None, 8, BLOCK=[8])),
            "add(), constexpr 'BLOCK': [8] (list) cannot be a compile-time value; expected None, a bool, an int, a float, "
            "a str, a dtype or a tuple of such")
        self.assertEqual(
            self.text(TypeError, lambda: tegula.reinterpret(x, "f99")),
            "'f99' is no dtype; supported are bool, int8, int16, int32, int64, uint8, uint16, uint32, uint64, "
            "float16, bfloat16, float32, float64, float8e4nv, float8e5, float8e4b15, float8e4b8, float8e5b16")

    HOOKED = """
import triton
import triton.language as tl

@triton.autotune([triton.Config({"BLOCK": 8}, num_warps=1, pre_hook=lambda args: args["out"].zero_())], key=["n"])
@triton.jit
def add(out, x, n, BLOCK: tl.constexpr):
    o = tl.arange(0, BLOCK)
    tl.store(out + o, tl.load(out + o) + tl.load(x + o), mask=o < n)
"""

    def test_hooks(self):
        kernel = tegula.parse(self.HOOKED).add
        x, out = np.arange(8, dtype="f4"), np.full(8, 9, "f4")
        for _ in range(3):
            kernel[(1, )](out, x, 8)
            np.testing.assert_array_equal(out, x)
        with self.assertRaisesRegex(tegula.LaunchError, "a hook zeroes 'out', but how large its buffer is is not known"):
            kernel[(1, )](np.zeros(16, "f4")[::2], x, 8)

        calls = []
        hooked = kernel.with_hooks(
            pre_hook=lambda kwargs, reset_only=False: calls.append(("pre", reset_only, kwargs["BLOCK"], kwargs["n"])),
            config_hook=lambda kwargs: calls.append(("config", kwargs["out"] is out, kwargs["num_warps"])))
        hooked[(1, )](out, x, n=8)
        np.testing.assert_array_equal(out, 2 * x)  # the file's hook is replaced
        self.assertEqual(calls, [("config", True, 1), ("pre", True, 8, 8), ("config", True, 1)])
        hooked[lambda meta: (meta["BLOCK"] // 8, )](out, x, 8)
        self.assertEqual(calls[3:], [("config", True, 1)])

        def fails(kwargs):
            raise KeyError("what the hook says")

        with self.assertRaisesRegex(KeyError, "what the hook says"):
            kernel.with_hooks(config_hook=fails)[(1, )](out, x, 8)
        with self.assertRaisesRegex(Exception, "kernel 'add' has no configurations, so no hooks"):
            tegula.parse(self.HOOKED.replace("@triton.autotune", "# ")).add.with_hooks(pre_hook=fails)

    def test_cooperative_grids(self):
        kernel = tegula.parse("""
import triton
import triton.language as tl

@triton.jit
def meet(out, count):
    p = tl.program_id(0)
    tl.store(out + p, p + 1)
    tl.atomic_add(count, 1, sem="acq_rel")
    while tl.atomic_add(count, 0, sem="acquire") < tl.num_programs(0):
        pass
    other = (p + 1) % tl.num_programs(0)
    tl.store(out + tl.num_programs(0) + p, tl.load(out + other, volatile=True))
""").meet
        n = 60
        out, count = np.zeros(2 * n, "i4"), np.zeros(1, "i4")
        kernel[(n, )](out, count, num_warps=1, launch_cooperative_grid=True)
        np.testing.assert_array_equal(out[n:], np.roll(np.arange(n) + 1, -1))
        with self.assertRaisesRegex(
                tegula.LaunchError,
                r"kernel 'meet': a cooperative grid of 1000000 x 1 x 1 programs, all of which run at once; emulator"):
            kernel[(1000000, )](out, count, num_warps=1, launch_cooperative_grid=True)

    def test_options_are_those_of_the_table(self):
        table = pathlib.Path(__file__).parents[3] / "codegen" / "ir" / "options.def"
        self.assertEqual(tegula.plans.OPTIONS, tuple(re.findall(r"^TEGULA_OPTION\((\w+)", table.read_text(), re.M)))

    def test_options_and_grids(self):
        x = np.zeros(8, np.float32)
        self.assertIn("num_warps is 3, expected 1, 2, 4, 8, 16 or 32",
                      self.text(tegula.LaunchError, self.launch(x, x, None, 8, BLOCK=8, num_warps=3)))
        self.assertIn("num_warps is -1", self.text(tegula.LaunchError, self.launch(x, x, None, 8, BLOCK=8,
                                                                                   num_warps=0)))
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, BLOCK=8, num_warps="4")),
                         "add(): num_warps is '4', expected an int")
        self.assertEqual(self.text(tegula.LaunchError, self.launch(x, x, None, 8, BLOCK=8, num_ctas=3)),
                         "kernel 'add': num_ctas is 3, expected 1, 2, 4, 8 or 16")
        y = np.zeros(8, np.float32)
        self.launch(y, x + 1, x + 2, 8, BLOCK=8, num_ctas=2)()
        np.testing.assert_array_equal(y, np.full(8, 3, np.float32))
        self.assertEqual(self.text(ValueError, self.launch(x, x, None, 8, BLOCK=8, grid=(-1, ))),
                         "the grid (-1,) has an extent that is negative or above 2147483647")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, BLOCK=8, grid=(1, 1, 1, 1))),
                         "the grid (1, 1, 1, 1) has 4 extents, expected 1 to 3")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, BLOCK=8, grid=(1.0, ))),
                         "the grid (1.0,) holds something that is no integer")

    def test_the_librarys_words(self):
        x = np.zeros(8, np.float32)
        self.assertIn("the constexpr parameter 'BLOCK' has no value",
                      self.text(tegula.LaunchError, self.launch(x, x, None, 8)))
        text = self.text(
            tegula.CompileError, lambda: tegula.parse(
                "import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, tl.exq(1.0))\n",
                "my.py").k[(1, )](x))
        self.assertIn("my.py:5:17: error: unknown function 'tl.exq'", text)
        self.assertIn("did you mean 'tl.exp'?", text)
        self.assertIn("my.py:2", self.text(tegula.CompileError,
                                           lambda: tegula.parse("@triton.jit\ndef k(:\n", "my.py")))
        self.assertEqual(self.text(tegula.FileError, lambda: tegula.load("/nowhere/k.py")),
                         "cannot read '/nowhere/k.py': No such file or directory")
        self.assertIn("no @triton.jit function 'ad'", self.text(AttributeError, lambda: program.ad))
        self.assertIn("did you mean 'softmax_kernel'?", self.text(tegula.CompileError,
                                                                  lambda: program["softmax_kernal"]))
        self.assertIn("no target 'sm_1'", self.text(tegula.DeviceError, lambda: tegula.Device.emulator("sm_1")))

    def test_mistakes_of_ours(self):
        compile = lambda: program.add.compile("*f32", "*f32", None, "i32", BLOCK=64, target="sm_80")
        os.environ["TEGULA_FAIL"] = "canonicalize"
        try:
            text = self.text(tegula.InternalError, compile)
        finally:
            del os.environ["TEGULA_FAIL"]
        self.assertTrue(text.startswith("internal error at codegen/passes/pass_manager.cpp:"), text)
        self.assertIn("while compiling kernel 'add' for sm_80 by tegula ", text)
        self.assertIn("please report it", text)
        self.assertTrue(issubclass(tegula.InternalError, tegula.Error))
        self.assertIn(".target sm_80", compile().ptx)

    def test_compile_errors_tell_their_places(self):
        text = ("import triton\nimport triton.language as tl\n@triton.jit\ndef k(x):\n    tl.store(x, tl.exq(1.0))\n"
                "    tl.store(x, wrong)\n")
        with self.assertRaises(tegula.CompileError) as caught:
            tegula.parse(text, "my.py").k[(1, )](np.zeros(8, np.float32))
        error = caught.exception
        self.assertEqual((error.file, error.line, error.column), ("my.py", 5, 17))
        self.assertEqual((error.message, error.hint), ("unknown function 'tl.exq'", "did you mean 'tl.exp'?"))
        self.assertEqual([(d.line, d.message) for d in error.diagnostics], [(5, "unknown function 'tl.exq'"),
                                                                            (6, "unknown name 'wrong'")])
        copy = pickle.loads(pickle.dumps(error))
        self.assertEqual((str(copy), copy.line, copy.diagnostics[1].line), (str(error), 5, 6))

    def test_messages(self):
        noisy = tegula.parse(
            "import triton.language as tl\n@triton.jit\ndef k(x, B: tl.constexpr):\n    y = tl.program_id(0) % (B - B)\n"
            "    v = tl.load(x + tl.arange(0, B))\n    tl.static_print('v:', v, f'{B=}', 1.0, (B, 'b'), x.dtype)\n", "noisy.py")
        x = np.zeros(8, np.float32)
        with contextlib.redirect_stdout(io.StringIO()) as out, self.assertWarnsRegex(
                tegula.KernelWarning, "^noisy.py:4:\\d+: the divisor is 0") as caught:
            noisy.k[(1, )](x, B=8)
        self.assertEqual(out.getvalue(), "v: fp32[8] B=8 1.0 (8, 'b') pointer<fp32>\n")
        self.assertEqual(os.path.basename(caught.filename), "test_tegula.py")
        with contextlib.redirect_stdout(io.StringIO()) as out, warnings.catch_warnings():
            warnings.simplefilter("error")
            noisy.k[(1, )](x, B=8)  # each message of a kernel once
            noisy.k[(1, )](x, B=4)
        self.assertEqual(out.getvalue(), "v: fp32[4] B=4 1.0 (4, 'b') pointer<fp32>\n")

    def test_read_only_arrays(self):
        x, out = np.ones(8, np.float32), np.zeros(8, np.float32)
        x.flags.writeable = False
        program.add[(1, )](out, x, None, 8, BLOCK=8)
        np.testing.assert_array_equal(out, x)
        out.flags.writeable = False
        self.assertEqual(
            self.text(TypeError, self.launch(out, x, None, 8, BLOCK=8)),
            "add(), argument 'out_ptr': the kernel writes into it, but the array is read-only; pass a copy")

    def test_integers_for_floats(self):
        fill = tegula.parse("import triton.language as tl\n@triton.jit\ndef fill(x, s: tl.float32):\n    tl.store(x, s)\n").fill
        for value in (2, -3, 2**24 + 1, 0.5, True):
            x = np.zeros(1, np.float32)
            fill[(1, )](x, value)
            self.assertEqual(x[0], np.float32(value))

    def test_places(self):
        x = np.zeros(8, np.float32)
        there = tegula.Device.emulator("sm_80").array(x)
        self.assertEqual(
            self.text(TypeError, self.launch(x, there, None, 8, BLOCK=8)),
            "add(): the data of 'out_ptr' is on the host, that of 'x_ptr' on emulator (sm_80); all data of a launch belongs on "
            "one device")

    def test_a_library_that_is_not_there(self):
        run = subprocess.run([sys.executable, "-c", "import tegula"], capture_output=True, text=True, env={
            "PYTHONPATH": str(SOURCE / "bindings" / "python"), "TEGULA_LIBRARY": "/nowhere/libtegula.so"
        })
        self.assertIn(
            "ImportError: libtegula.so was not found; set TEGULA_LIBRARY to its path. Looked for\n"
            "  /nowhere/libtegula.so (TEGULA_LIBRARY): not there", run.stderr)


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
        self.assertEqual(facts.config, {"num_warps": 8, "num_stages": 3, "maxnreg": 0, "warp_specialize": 0, "bulk_copies": 0, "debug": 0,
                                        "num_ctas": 1, "BLOCK_SIZE": 256})
        self.assertEqual(facts.num_warps, 8)
        self.assertGreater(facts.shared_bytes, 0)
        if facts.registers < 0:  # the emulator's image has none
            self.assertRegex(repr(facts), r"^<tegula.Image \w+, 8 warps, \d+ bytes shared>$")


@unittest.skipUnless(torch, "torch is not installed")
class TorchOnTheHost(unittest.TestCase):

    def test_softmax(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 2e-3), (torch.float64,
                                                                                                        1e-5)):
            x = torch.randn(9, 300, dtype=torch.float32).to(dtype)
            out = torch.full_like(x, float("nan"))
            program.softmax_kernel[(9, )](out, x, x.stride(0), 300, BLOCK_SIZE=512)
            torch.testing.assert_close(out.double(), torch.softmax(x.double(), 1), rtol=tolerance, atol=tolerance)

    def test_float8(self):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            x = torch.linspace(-400, 400, 60).to(dtype)
            out = torch.zeros(60)
            program.convert[(1, )](out, x, 60, TYPE=torch.float32, MODE="", FACTOR=1)
            torch.testing.assert_close(out, x.float(), rtol=0, atol=0)
            y = torch.zeros(60, dtype=dtype)
            program.convert[(1, )](y, out, 60, TYPE=dtype, MODE="", FACTOR=1)
            torch.testing.assert_close(y.float(), x.float(), rtol=0, atol=0)

    def test_views_types_and_parameters(self):
        base = torch.arange(20 * 30, dtype=torch.float32).reshape(20, 30)
        for x in (base.t(), base[3:, 1::2], torch.nn.Parameter(base)):
            out = torch.zeros(x.shape)
            program.copy_strided[(x.shape[0], 1)](out, x, *x.shape, *x.stride(), BLOCK=32)
            torch.testing.assert_close(out, x.detach().contiguous())
        out = torch.zeros(50)
        program.convert[(1, )](out, torch.arange(50), 50, TYPE=torch.float32, MODE="scale", FACTOR=0.5)
        torch.testing.assert_close(out, torch.arange(50) * 0.5)
        flags = torch.tensor([True, False] * 25)
        copied = torch.zeros(50, dtype=torch.bool)
        program.add[(2, )](copied, flags, None, 50, BLOCK=32)
        self.assertTrue((copied == flags).all())

    def test_errors(self):
        x = torch.zeros(8)
        for wrong, text in ((x.to(torch.complex64),
                             "argument 'x_ptr': a tensor of torch.complex64, which kernels cannot take"),
                            (x.to("meta"),
                             "argument 'x_ptr': a tensor on meta; expected one on a CUDA GPU or on the CPU"),
                            (x.to_sparse(), "argument 'x_ptr': a tensor with layout torch.sparse_coo")):
            with self.assertRaises(TypeError) as raised:
                program.add[(1, )](x, wrong, None, 8, BLOCK=8)
            self.assertIn(text, str(raised.exception))


@unittest.skipUnless(GPU, "torch finds no GPU")
class TorchOnTheGpu(unittest.TestCase):

    def test_tegula_triton_and_torch_on_the_same_tensors(self):
        import importlib.util
        import triton
        spec = importlib.util.spec_from_file_location("kernels", KERNELS)
        theirs = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(theirs)
        for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
            for cols in (256, 781, 4096):
                x = torch.randn(512, cols, device="cuda", dtype=dtype)
                block = triton.next_power_of_2(cols)
                ours, triton_out = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
                arguments = (x, x.stride(0), cols)
                program.softmax_kernel[(512, )](ours, *arguments, BLOCK_SIZE=block, num_warps=8)
                theirs.softmax_kernel[(512, )](triton_out, *arguments, BLOCK_SIZE=block, num_warps=8)
                torch.testing.assert_close(ours, triton_out, rtol=tolerance, atol=tolerance)
                torch.testing.assert_close(ours, torch.softmax(x, 1), rtol=tolerance, atol=tolerance)

    def test_the_current_stream(self):
        n = 1 << 24
        x, out = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
        program.add[(1, )](out, x, None, 1024, BLOCK=1024)  # compiled before it matters
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(3)
            program.add[(n // 1024, )](out, x, x, n, BLOCK=1024)
        side.synchronize()
        self.assertTrue((out == 6).all().item())
        program.add[(n // 1024, )](out, x, None, n, BLOCK=1024, stream=side)
        side.synchronize()
        self.assertTrue((out == 3).all().item())

    def test_captured_into_a_graph(self):
        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        program.add[(1, )](out, x, None, 1024, BLOCK=1024)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            program.add[(1, )](out, x, x, 1024, BLOCK=1024)
        x.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue((out == 10).all().item())

    def test_cuda_array_interface(self):

        class Wrapped:

            def __init__(self, tensor, stream):
                self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}

        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        for stream in (None, 1):
            program.add[(1, )](Wrapped(out, stream), Wrapped(x, stream), x, 1024, BLOCK=1024)
            torch.cuda.synchronize()
            self.assertTrue((out == 2).all().item())

    def test_cupy(self):
        try:
            import cupy
        except ImportError:
            self.skipTest("cupy is not installed")
        x = cupy.arange(1024, dtype=cupy.float32)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            out = cupy.zeros_like(x)
            program.add[(1, )](out, x, None, 1024, BLOCK=1024)
            stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(out), np.arange(1024, dtype=np.float32))

    def test_launches_are_fast(self):
        """A figure to read, not a limit: the host's part of a launch."""
        import time
        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        launch = lambda: program.add[(1, )](out, x, x, 1024, BLOCK=1024)
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                launch()
            best = min(best, (time.perf_counter() - start) / 200)
        torch.cuda.synchronize()
        print(f"{best * 1e6:.2f} us a launch ... ", end="", flush=True)

    def test_mixed_places(self):
        x = torch.zeros(8, device="cuda")
        with self.assertRaises(TypeError) as raised:
            program.add[(1, )](x, x.cpu(), None, 8, BLOCK=8)
        self.assertIn("the data of 'out_ptr' is on GPU 0, that of 'x_ptr' on the host", str(raised.exception))
        with self.assertRaises(TypeError):
            program.add[(1, )](x, np.zeros(8, np.float32), None, 8, BLOCK=8)

    def test_facts_of_the_gpu(self):
        x = torch.zeros(2, 1024, device="cuda")
        facts = program.softmax_kernel.facts(x, x, 1024, 1024, BLOCK_SIZE=1024)
        self.assertGreater(facts.registers, 0)
        self.assertEqual(facts.spill_bytes, 0)

    def test_tuned_kernel(self):
        if not program.tuned_double.is_tuned:
            self.skipTest("this build does not read @triton.autotune")
        x = torch.arange(1000, device="cuda", dtype=torch.float32)
        out = torch.zeros_like(x)
        for _ in range(2):
            program.tuned_double[lambda meta: (tegula.cdiv(1000, meta["BLOCK"]), )](out, x, 1000)
            torch.testing.assert_close(out, 2 * x)
            out.zero_()


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"[  SKIPPED ]\ntest_tegula.py: Skipped\n{reason}")
    sys.exit(not result.wasSuccessful())
