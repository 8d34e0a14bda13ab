"""The fuzzer of kernels itself: some kernels are right, a wrong value is seen, and a case becomes as small as it can."""

import contextlib
import io
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import fuzz  # ends with 77 where numpy is missing
import check
import generate
import reduce
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
        small = reduce.reduced(min(cases, key=lambda c: len(c["text"])), lambda case: "tl.sort" in case["text"], lambda: False)
        self.assertIn("tl.sort", small["text"])
        self.assertLessEqual(len(small["text"].splitlines()), 5, small["text"])
        self.assertEqual((small["programs"], small["num_warps"]), (1, 1))

    def test_every_number_of_small_types_is_read_as_it_was_written(self):
        for name in ("float8e4nv", "float8e5", "float16", "bfloat16"):
            t = BY_NAME[name]
            raw = check.np.arange(2**t.bits).astype(storage(t) if name != "float16" else "u2")
            values = decode(raw.view(storage(t)), t)
            finite = check.np.isfinite(values)
            self.assertTrue((encode(values[finite], t).view(raw.dtype) == raw[finite]).all(), name)
            self.assertTrue((round_to(values[finite], t) == values[finite]).all(), name)

    def test_what_is_not_defined_is_left_out(self):
        text = "@triton.jit\ndef kernel(out_int32, n):\n    tl.store(out_int32 + tl.arange(0, 4) * 0, {})\n"
        case = {"arrays": {"out_int32": {"type": "int32", "length": 8, "fill": "zero", "offset": 0, "seed": 0}},
                "numbers": {"n": 0}, "programs": 1, "num_warps": 1, "num_stages": 1}
        for value, why in (("tl.arange(0, 4)", "stores of different values to one element"),
                           ("tl.arange(0, 4) // n", "a division by 0, or that overflows")):
            with self.assertRaisesRegex(Undecided, why):
                check.expected({**case, "text": text.format(value)})


if __name__ == "__main__":
    unittest.main()
