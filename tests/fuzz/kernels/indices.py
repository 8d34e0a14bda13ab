"""Indices of tiles in other words: the numbers 0, 1, ... along an axis by way of other types, through zero and back, through
quotients and remainders, through memory; and in another order."""

import random

WIDE = ["int32", "int64", "uint32", "uint64"]  # in which addresses are computed
NARROW = ["int8", "uint8", "int16", "uint16"]
LARGEST = {"int8": 127, "uint8": 255, "int16": 32767, "uint16": 65535}


class Indices:
    """Of a kernel being written. Its choices have a stream of their own: a kernel that writes indices as they are is the same
    as without this."""

    program = "pid"  # the name of a number that differs among programs

    def __init__(self, seed):
        self.form = random.Random(f"indices of {seed}")
        self.rewritten = self.form.choice([0, 0, 0, .3, .8])  # how many of the indices
        self.known_indices = {}

    def draw(self, *choices):
        return self.form.choice(choices)

    def along(self, shape, axis):
        """The numbers 0, 1, ... along an axis of a shape."""
        index = ", ".join(":" if i == axis else "None" for i in range(len(shape)))
        plain, axes = f"tl.arange(0, {shape[axis]})", f"[{index}]" if len(shape) > 1 else ""
        if not self.rewritten or self.form.random() > self.rewritten:
            return plain + axes
        key = plain + axes
        if key not in self.known_indices or self.form.random() < .4:
            n = shape[axis]
            self.known_indices[key] = self.in_other_words(plain, n) + axes if self.form.random() < .6 else self.in_other_words(
                plain + axes, n)
        # counters are those of loops that may have ended
        return self.known_indices.pop(key) if any(c in self.known_indices[key] for c in self.counters) else self.known_indices[key]

    # ---- The same numbers

    def in_other_words(self, x, n):
        """The text of int32 numbers in [0, n) as another one of the same numbers, in one of the types of addresses."""
        if "[" not in x and self.form.random() < .15:
            x = self.made_otherwise(n)
        for _ in range(self.draw(1, 1, 1, 2, 2, 3)):
            x = self.draw(self.through_zero, self.through_quotients, self.through_bits, self.through_choices,
                          self.through_numbers)(x, n)
        return self.to(x, self.draw("int32", "int32", *WIDE)) if self.form.random() < .5 else x

    def made_otherwise(self, n):
        if n % 2 == 0 and n > 2:
            half = f"tl.arange(0, {n // 2})"
            if n & (n - 1) == 0 and self.form.random() < .3:  # promises that are kept
                return self.draw(f"tl.max_contiguous(tl.multiple_of(tl.arange(0, {n}), {n}), {n})",
                                 f"tl.multiple_of(tl.arange(0, {n}), {self.draw(2, n)})")
            return self.draw(f"tl.cat({half}, {half} + {n // 2})", f"tl.interleave({half} * 2, {half} * 2 + 1)",
                             f"tl.reshape({half}[:, None] * 2 + tl.arange(0, 2)[None, :], [{n}])",
                             f"(tl.cumsum(tl.full([{n}], 1, tl.int32), 0) - 1)", self.loaded_numbers(n))
        return f"tl.flip({n - 1} - tl.arange(0, {n}), 0)"

    def loaded_numbers(self, n):
        name = self.array("numbers_int32", "int32", 1 << 15, "count")
        return f"tl.load({name} + tl.arange(0, {n}))"

    @staticmethod
    def to(x, type_):
        return f"({x}).to(tl.{type_})"

    def through_zero(self, x, n):
        """Less than it is, past 0, and back."""
        by = self.draw("1", "3", "16", "64", str(n // 2), str(n), self.number(5), self.number(64))
        fitting = [t for t in NARROW if n - 1 <= LARGEST[t] and by.isdigit() and int(by) <= LARGEST[t]]
        type_ = self.draw("int32", "uint32", "uint32", "uint64", "int64", *fitting)
        if not by.isdigit():
            by = self.to(by, type_)
        x = self.to(x, type_) if type_ != "int32" else f"({x})"
        inner = self.draw(f"{x} - {by}", f"{x} + {by}", f"{by} - {x}")
        back = f"{by} - ({inner})" if inner.startswith(by) else f"({inner}) {'+' if ' - ' in inner[len(x):] else '-'} {by}"
        return f"({back})" if type_ == "int32" else self.to(back, "int32")

    def through_quotients(self, x, n):
        d = self.draw("2", "3", "4", "8", "16", "48", str(n), self.number(3), self.number(16), self.number(48))
        turns = self.draw(f"{self.program} * {n}", str(n), str(16 * n), "0")
        return self.draw(f"(({x}) // {d} * {d} + ({x}) % {d})", f"((({x}) * {d}) // {d})", f"(({x} + {turns}) % {n})",
                         f"(({x}) % {d} + ({x}) // {d} * {d})", f"(({x}) - ({x}) % {d} + ({x}) % {d})")

    def through_bits(self, x, n):
        c, k = self.draw(1, 2, 5, 16, 255), self.draw(1, 2, 3, 4, 7)
        least = 1 << (n - 1).bit_length()
        return self.draw(f"(({x}) ^ {c} ^ {c})", f"(~(~({x})))", f"((({x}) >> {k} << {k}) | (({x}) & {(1 << k) - 1}))",
                         f"(({x}) & {least - 1})", f"((({x}) << {k}) >> {k})", f"((({x}) + {self.program} * {least}) & {least - 1})",
                         f"((({x}) & {c}) + (({x}) & ~{c}))", f"((({x}) | {c}) - (~({x}) & {c}))")

    def through_choices(self, x, n):
        k = self.draw("1", "4", "16", str(n // 2), str(n), self.number(7), self.number(16))
        return self.draw(f"tl.minimum({x}, {n - 1})", f"tl.maximum({x}, 0)", f"tl.where(({x}) < {k}, {x}, {x})",
                         f"(tl.minimum({x}, {k}) + tl.maximum({x}, {k}) - {k})", f"tl.where(({x}) % 2 == 0, {x}, ({x}) + {k} - {k})",
                         f"tl.where(({x}) < {k}, ({x}) + 0, {k} + (({x}) - {k}))", f"tl.abs({x})", f"(-(-({x})))",
                         f"tl.abs(-({x}))")

    def through_numbers(self, x, n):
        """Numbers of the launch, the program or an iteration, added and taken away."""
        s = self.draw("n", "m", self.program, *self.counters, *self.counters)
        s = s if s in self.numbers or s in self.counters or s == self.program else self.program
        by = self.draw(s, f"{s} * 16", f"{s} * {n}", f"({s} - 3)", f"tl.multiple_of({s} * 16, 16)")
        type_ = self.draw("int32", "int32", "int64", "uint32")
        if self.form.random() < .1:
            by, type_ = self.number(5 * 10**9 + 16), "int64"
        x, by = (f"({x})", f"({by})") if type_ == "int32" else (self.to(x, type_), self.to(by, type_))
        return self.to(self.draw(f"{x} + {by} - {by}", f"{x} - {by} + {by}", f"{by} + {x} - {by}"), "int32")

    def number(self, value):
        """A parameter of the launch that has the value."""
        self.numbers[f"c{value}"] = value
        return f"c{value}"

    # ---- The same numbers in another order

    def permuted(self, x, n):
        """Text of a permutation of the numbers in [0, n)."""
        if not self.rewritten or n == 1 or self.form.random() > self.rewritten / 3:
            return x
        by = self.draw(1, 3, 4, 8, 16, n // 2) % n
        shift = self.draw(str(by), self.number(by), f"{self.program} * {by}")
        forms = [f"(({x} + {shift}) % {n})", f"({n - 1} - {x})"]
        if n & (n - 1) == 0:
            odd = self.draw(3, 5, n - 1)
            forms += [f"(({x}) ^ {by})", f"(({x} + {shift}) & {n - 1})", f"((({x}) * {odd}) & {n - 1})", f"(({n - 1} - ({x})) ^ {by})",
                      f"((({x}) ^ {self.number(by)}) & {n - 1})"]
            part = self.draw(2, 4, 8)
            if n > part:
                forms += [f"(({x}) // {part} + ({x}) % {part} * {n // part})", f"((({x}) & {part - 1}) * {n // part} + (({x}) >> {part.bit_length() - 1}))"]
        return self.draw(*forms)

    # ---- Masks

    def further_mask(self, shape):
        """Comparisons of several axes, without a sign, with numbers in memory, joined in several ways."""
        parts = [self.comparison(shape) for _ in range(self.draw(1, 2, 2, 3))]
        text = parts[0]
        for part in parts[1:]:
            text = f"({text} {self.draw('&', '&', '|', '^')} {part})"
        return f"(~{text})" if self.form.random() < .15 else text

    def bound(self, extent):
        """A number to compare an index with."""
        near = self.draw(1, extent // 2, extent // 2 + 1, extent - 1, extent, extent + 5)
        if self.form.random() < .3:
            table = self.array("in_int32", "int32")
            return f"(tl.load({table} + {self.draw('0', '3', self.program)}) & {self.draw(15, 63, 255)})"
        return self.draw(str(near), self.number(near), self.number(max(16, near // 16 * 16)), f"{self.program} * 16",
                         *(f"{c} * {self.draw(4, 16)}" for c in self.counters))

    def comparison(self, shape):
        axes = self.form.sample(range(len(shape)), self.draw(1, min(2, len(shape))))
        x = self.along(shape, axes[0])
        extent, against = shape[axes[0]], self.draw("<", "<", "<=", ">", ">=", "!=", "==")
        if len(axes) == 2:
            y = self.along(shape, axes[1])
            return self.draw(f"({x} {against} {y})", f"({x} + {y} {against} {self.bound(extent)})",
                             f"({x} * {shape[axes[1]]} + {y} {against} {self.number(extent * shape[axes[1]] // 2 + 3)})",
                             f"({x} - {y} {against} {self.bound(extent)})", f"({x} // 4 == {y} % 5)")
        if self.form.random() < .4:  # without a sign: what is below 0 is large
            from_ = self.draw(1, 3, 8, 16, extent // 2)
            type_ = self.draw("uint32", "uint32", "uint64")
            return f"({self.to(x, type_)} - {from_} {against} {self.draw(str(extent // 2), str(max(1, extent - from_)), '5')})"
        d = self.draw(2, 3, 4, 8, 16)
        return self.draw(f"({x} {against} {self.bound(extent)})", f"({x} {against} {self.bound(extent)})", f"({x} % {d} < {d // 2 + 1})",
                         f"(({x} // {d}) % 2 == 0)", f"(({x} & {d}) != 0)", f"(({x} - {extent // 2}) * 3 {against} {self.bound(extent)})",
                         f"(({x} ^ {d}) {against} {self.bound(extent)})")
