"""The fuzzer of kernels itself: some kernels are right, a wrong value is seen, and a case is made as small as it can."""

import ast
import contextlib
import io
import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzz  # ends with 77 where numpy is missing
import accesses
import check
import cpp_kernels
import generate
import reduce
import reference
import values
from element_types import BY_NAME, decode, encode, round_to, storage
from reference import Undecided


class Fuzz(unittest.TestCase):

    def test_kernels(self):
        told = io.StringIO()
        with contextlib.redirect_stdout(told):
            status = fuzz.fuzz(0, 8, 1e9, 1)
        self.assertEqual(status, 0, told.getvalue())

    def test_a_wrong_value_is_seen(self):
        case = generate.case(3)
        memories = check.expected(case)
        name = next(n for n in memories if n.startswith("out_"))
        self.assertIsNone(check.check(case, memories))
        memories[name].value[0] += 1
        kind, text = check.check(case, memories)
        self.assertEqual(kind, "wrong")
        self.assertRegex(text, rf"^{name}: 1 of \d+ differ: \[0\] \S+, expected \S+$")

    def test_reduced(self):
        cases = [case for case in map(generate.case, range(40)) if "tl.sort" in case["text"]]
        small = reduce.reduced(min(cases, key=lambda c: len(c["text"])), lambda case: "tl.sort" in case["text"],
                               lambda: False)
        self.assertIn("tl.sort", small["text"])
        self.assertLessEqual(len(small["text"].splitlines()), 5, small["text"])
        self.assertEqual((small["programs"], small["num_warps"]), (1, 1))

    def test_kernels_have_a_form_in_cpp(self):
        told = set()
        for seed in filter(generate.is_plain, range(120)):
            tree = ast.parse(generate.case(seed)["text"])
            told |= set(cpp_kernels.Translator(tree).kernel(generate.case(seed)).split())
        self.assertIn("std::array<Tile,", told)  # functions of pairs

    def test_products_of_doubles_that_a_sum_contracts_have_a_bound(self):
        squared = lambda x: values.multiply(*[values.Tile(values.float64, x)] * 2)
        self.assertTrue(squared(13.0**7).exact)
        self.assertGreaterEqual(squared(13.0**8).bound, values.unit_of(13.0**16, values.float64))

    def test_every_number_of_small_types_is_read_as_it_was_written(self):
        for name in ("float8e4nv", "float8e5", "float16", "bfloat16"):
            t = BY_NAME[name]
            raw = check.np.arange(2**t.bits).astype(storage(t) if name != "float16" else "u2")
            read = decode(raw.view(storage(t)), t)
            finite = check.np.isfinite(read)
            self.assertTrue((encode(read[finite], t).view(raw.dtype) == raw[finite]).all(), name)
            self.assertTrue((round_to(read[finite], t) == read[finite]).all(), name)

    def test_numbers_are_rounded_to_the_nearest(self):
        random = check.np.random.default_rng(1)
        for name in ("float8e4nv", "float8e5", "float16", "bfloat16", "float32"):
            t = BY_NAME[name]
            held = check.np.dtype(f"u{t.bits // 8}")
            below = random.integers(0, 2**(t.bits - 1) - 1, 4000).astype(held)
            x, y = (decode(raw.view(storage(t)), t) for raw in (below, below + held.type(1)))
            finite = check.np.isfinite(x) & check.np.isfinite(y)
            below, x, y = below[finite], x[finite], y[finite]
            between = (x + y) / 2  # exactly
            for sign in (1, -1):
                self.assertTrue((round_to(sign * between, t) == sign * check.np.where(below % 2 == 0, x, y)).all(), name)
                self.assertTrue((round_to(sign * check.np.nextafter(between, x), t) == sign * x).all(), name)
                self.assertTrue((round_to(sign * check.np.nextafter(between, y), t) == sign * y).all(), name)
        for name, beyond in (("float16", 65520.0), ("bfloat16", 2.0**128), ("float32", 2.0**128 - 2.0**103)):
            with self.assertRaises(Undecided), check.np.errstate(over="ignore"):
                round_to(check.np.array([1.0, -beyond]), BY_NAME[name])
            inner = check.np.nextafter(beyond, 0) if name != "bfloat16" else BY_NAME[name].largest
            self.assertEqual(round_to(inner, BY_NAME[name]), BY_NAME[name].largest)

    @unittest.skipUnless("TEGULA_PTX_REGISTERS" in os.environ, "TEGULA_PTX_REGISTERS does not name the program ptx_registers")
    def test_registers_that_are_read_too_early_are_seen(self):
        body = "{{\n.reg .b32 %r<2>;\n{}add.s32 %r1, %r0, 1;\nret;\n}}\n"
        asked = check.Registers(os.environ["TEGULA_PTX_REGISTERS"])
        for first, told in (("", "k, line 4: %r0 may be read before it is set: add.s32 %r1, %r0, 1;\n"), ("mov.b32 %r0, 1;\n", "")):
            self.assertEqual(asked.read_too_early(".entry k()\n" + body.format(first)), told)
        asked.close()

    def test_what_is_not_defined_is_left_out(self):
        text = "@triton.jit\ndef kernel(out_int32, n):\n    tl.store(out_int32 + tl.arange(0, 4) * 0, {})\n"
        case = {
            "arrays": {
                "out_int32": {
                    "type": "int32",
                    "length": 8,
                    "fill": "zero",
                    "offset": 0,
                    "seed": 0
                }
            },
            "numbers": {
                "n": 0
            },
            "programs": 1,
            "num_warps": 1,
            "num_stages": 1
        }
        for value, why in (("tl.arange(0, 4)", "stores of different values to one element"),
                           ("tl.arange(0, 4) // n", "a division by 0, or that overflows")):
            with self.assertRaisesRegex(Undecided, why):
                check.expected({**case, "text": text.format(value)})

    def test_iterations_that_store_to_one_element_are_left_out(self):
        text = "@triton.jit\ndef kernel(out_int32, n):\n    for i in {}:\n        tl.store(out_int32 + {}, {})\n"
        array = {"type": "int32", "length": 16, "fill": "zero", "offset": 0, "seed": 0}
        case = {"arrays": {"out_int32": array}, "numbers": {"n": 3}, "programs": 1, "num_warps": 1, "num_stages": 1}
        open_ = "tl.arange(0, 4) + i", "tl.arange(0, 4) * (i + 1)"
        known = "tl.arange(0, 4)", "tl.arange(0, 4) + i - i", "tl.arange(0, 4) + 4 * i"
        for loop in ("range(n)", "tl.range(1, n)"):
            for at in open_:
                with self.assertRaisesRegex(Undecided, "the order of iterations that store to one element"):
                    check.expected({**case, "text": text.format(loop, at, "i + 1")})
            check.expected({**case, "text": text.format(loop, open_[0], "7")})
            for at in known:
                check.expected({**case, "text": text.format(loop, at, "i + 1")})
        check.expected({**case, "text": text.format("tl.static_range(3)", open_[0], "i + 1")})

    def test_numbers_of_which_nothing_is_known_are_no_difference(self):
        t = BY_NAME["float32"]
        memory = accesses.Memory(t, check.np.zeros(2))
        memory.put(check.np.array([0, 1]), check.np.array([5.0, 6.0]), check.np.array([check.np.nan, 0.5]))
        got = lambda *numbers: encode(check.np.array(numbers), t)
        self.assertIsNone(check.difference("x", got(9.0, 6.25), None, memory))
        self.assertIn("1 of 2 differ: [1] 7.0", check.difference("x", got(5.0, 7.0), None, memory))

    def test_sums_of_integer_products_beyond_int32_are_left_out(self):
        x = values.Tile(BY_NAME["int8"], check.np.full((16, 16), -128))
        begin = lambda value: values.Tile(BY_NAME["int32"], check.np.full((16, 16), value))
        most = 2**31 - 1
        self.assertEqual(reference.dot(x, x, begin(most - 16 * 2**14)).value.max(), most)
        for acc in (most - 16 * 2**14 + 1, -2**31):
            with self.assertRaisesRegex(Undecided, "sums of integers beyond int32"):
                reference.dot(x, x, begin(acc))


if __name__ == "__main__":
    unittest.main()
