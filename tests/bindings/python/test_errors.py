"""bindings/python/tegula: what is refused, with the whole text, and what the library tells."""

import contextlib
import io
import os
import pathlib
import pickle
import re
import subprocess
import sys
import unittest
import warnings

from tegula_cases import SOURCE, main, np, program, tegula


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
        self.assertRegex(
            self.text(TypeError, self.launch(x, x, None, 8, BLOCK=list(range(100)))),
            r"constexpr 'BLOCK': \[0, 1, .{,40}\.\.\.\] \(list\) cannot be a compile-time value")
        self.assertEqual(self.text(TypeError, lambda: tegula.parse(b"x = 1")),
                         "parse() takes the text of a file as a str, found bytes")
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
        for name in ("num_warps", "num_ctas"):
            self.assertEqual(self.text(ValueError, self.launch(x, x, None, 8, BLOCK=8, **{name: 0})),
                             f"add(): {name} is 0, expected 1 at least")
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
                         "the grid (1.0,) has the extent 1.0, expected an int; divide by '//' or tegula.cdiv()")
        self.assertEqual(self.text(TypeError, self.launch(x, x, None, 8, BLOCK=8, grid=("8", ))),
                         "the grid ('8',) has the extent '8', expected an int")

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
        self.assertEqual(os.path.basename(caught.filename), "test_errors.py")
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


if __name__ == "__main__":
    main()
