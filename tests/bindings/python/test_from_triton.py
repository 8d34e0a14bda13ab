"""What docs/from-triton.md says, on the emulator: its functions beside numpy's, and what it calls missing is missing."""

import pathlib
import re
import sys
import textwrap
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "bindings" / "python"))
try:
    import numpy as np
except ImportError:
    print("[  SKIPPED ]\ntest_from_triton.py: Skipped\nnumpy is not installed for", sys.executable)
    sys.exit(77)
import tegula

PAGE = (ROOT / "docs" / "from-triton.md").read_text()
IMPORTS = "import triton\nimport triton.language as tl\nfrom triton.language.extra import libdevice\n"
FUNCTIONS = IMPORTS + "".join(block for block in re.findall(r"```python\n(.*?)```", PAGE, re.S) if "@triton.jit" in block)


def compute(expression, like, *inputs):
    """The value of an expression of the kernel language in the tiles (or scalars) x, y, ... and o, indices from 0."""
    names = "xyz"[:len(inputs)]
    lines = [f"o = tl.arange(0, {like.size})"]
    for name, value in zip(names, inputs):
        lines.append(f"{name} = tl.load({name} + tl.arange(0, {value.size}))" if isinstance(value, np.ndarray) else "pass")
    lines.append(f"tl.store(out + o, {expression})")
    text = FUNCTIONS + f"@triton.jit\ndef kernel(out, {', '.join(names)}):\n" + textwrap.indent("\n".join(lines), "    ") + "\n"
    out = np.zeros_like(like)
    tegula.parse(text, "from_triton").kernel[(1, )](out, *inputs)
    return out


def message(statement):
    """The first line of what a kernel's statement is refused with; empty if it compiles."""
    text = IMPORTS + "@triton.jit\ndef kernel(p):\n" + textwrap.indent(statement, "    ") + "\n"
    try:
        tegula.parse(text).kernel.compile("*f32", target="sm_90a")
        return ""
    except tegula.CompileError as error:
        return str(error).split("\n")[0]


class Functions(unittest.TestCase):
    def test_libdevice(self):
        x = np.array([0.5, -1.25, 2.75, -3, np.inf, np.nan, 1e-3, -0.0], "f4")
        y = np.array([1, -1, 2, -2, 3, -3, 0.25, -0.25], "f4")
        f = np.float32
        with np.errstate(all="ignore"):
            expected = {
                "fmod": np.fmod(x, y), "rcp_rn": 1 / x, "copysign": np.copysign(x, y), "signbit": np.signbit(x),
                "sinh": np.sinh(x), "cosh": np.cosh(x)}
        for name, values in expected.items():
            arguments = "x, y" if name in ("fmod", "copysign") else "x"
            out = compute(f"libdevice.{name}({arguments}).to(tl.float32)", x, x, y)
            np.testing.assert_allclose(out, values.astype("f4"), rtol=1e-5, atol=1e-6, err_msg=name)


class Names(unittest.TestCase):
    def test_missing(self):
        self.assertIn("is Triton's, but Tegula does not have it", message("x = tl.async_task"))
        self.assertTrue(message("def f():\n    pass"))
        for statement in ("for i in range(4):\n    break", "for i in range(4):\n    continue", "x = tl.arange(0, 4)[0]",
                          "f = lambda: 0", "x = [i for i in range(2)]", "x = 1 < 2 < 3"):
            self.assertEqual(message(statement), "", statement)

    def test_libdevice(self):
        rows = ROOT / "codegen" / "ir" / "libdevice.def"
        names = set(re.findall(r"^TEGULA_LIBDEVICE\((\w+),", rows.read_text(), re.MULTILINE))
        self.assertGreater(len(names), 100)
        self.assertIn("tanh", names)
        for name in names | {"fast_tanhf", "add_rz", "float2int_rd"}:
            self.assertEqual(message(f"f = libdevice.{name}"), "", name)

    def test_range(self):
        options = PAGE.split("**tl.range**: of ")[1].split(" nothing")[0]
        options = ", ".join(f"{name}=1" for name in re.findall("`(.*?)`", options))
        self.assertEqual(message(f"for i in tl.range(0, 4, {options}):\n    pass"), "")


class Launches(unittest.TestCase):
    TEXT = IMPORTS + textwrap.dedent("""
        @triton.jit
        def kernel(out, x, n, BLOCK: tl.constexpr):
            o = tl.arange(0, BLOCK)
            tl.store(out + o, tl.load(x + o, mask=o < n) + 1)

        @triton.jit
        def product(c, a, b, k, M: tl.constexpr):
            i = tl.arange(0, M)
            sums = tl.zeros((M, M), tl.float32)
            for step in range(0, k, M):
                x = tl.load(a + i[:, None] * k + step + i[None, :])
                y = tl.load(b + (step + i[:, None]) * M + i[None, :])
                sums = tl.dot(x, y, sums)
            tl.store(c + i[:, None] * M + i[None, :], sums)
        """)

    def test_masked_elements_are_zeros(self):
        out, x = np.zeros(8, "f4"), np.arange(8, dtype="f4")
        tegula.parse(self.TEXT).kernel[(1, )](out, x, 4, BLOCK=8)
        np.testing.assert_array_equal(out, [1, 2, 3, 4, 1, 1, 1, 1])

    def test_stages_that_do_not_fit(self):
        product = tegula.parse(self.TEXT).product
        image = product.compile("*f16", "*f16", "*f16", "i32:16", M=128, num_stages=8, target="sm_90a")
        stage = 2 * 128 * 128 * 2  # two operands of 16 bits; 8 stages are 512 KiB, a program has 227 KiB
        self.assertGreater(image.shared_bytes, 2 * stage)
        self.assertLessEqual(image.shared_bytes, 227 << 10)

    def test_options_and_code(self):
        kernel = tegula.parse(self.TEXT).kernel
        self.assertIn(".target sm_90a", kernel.ptx("*f32", "*f32", "i32:16", BLOCK=1024, num_warps=4, target="sm_90a"))
        out, x = np.zeros(8, "f4"), np.arange(8, dtype="f4")
        kernel[(1, )](out, x, 8, BLOCK=8, num_ctas=2, num_stages=2, maxnreg=64, launch_cooperative_grid=True,
                        debug=False, enable_fp_fusion=True)
        with self.assertRaises(TypeError):
            kernel[(1, )](out, x, 8, BLOCK=8, extern_libs={})

    def test_overflow_in_debug_mode(self):
        kernel = tegula.parse("import triton\nimport triton.language as tl\n@triton.jit\ndef kernel(out, x, n):\n"
                              "    tl.store(out, tl.load(x) + n)\n").kernel
        out, x = np.zeros(1, "i4"), np.full(1, 2**31 - 5, "i4")
        kernel[(1, )](out, x, 4, debug=True)
        with self.assertRaisesRegex(RuntimeError, "int32 overflow detected for operation add"):
            kernel[(1, )](out, x, 5, debug=True)
        kernel[(1, )](out, x, 6, debug=True, sanitize_overflow=False)
        kernel[(1, )](out, x, 6)
        self.assertEqual(out[0], -2**31 + 1)


if __name__ == "__main__":
    unittest.main()
