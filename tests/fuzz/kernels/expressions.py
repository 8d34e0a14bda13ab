"""Kernels of many elementwise expressions over all types: numbers of few bits, constants that meet again, values that all
threads share, words taken apart into bytes, masks that leave whole registers out. What an assembler makes of single
instructions shows here."""

from memory import BITS, FLOAT8, FLOATS, INTEGERS, Memory

NUMBERS = ["0", "1", "7"]  # few, so that a bound is compared with itself
TYPES = INTEGERS + FLOATS[:3] + FLOAT8


class Expressions(Memory):
    """A program over tiles of one shape, over what their rows give when they are reduced, and over scalars."""

    def __init__(self, seed):
        super().__init__(seed)
        self.rows, self.columns = self.pick(64, 128, 256), self.pick(1, 2, 4, 8, 8)
        self.warps = self.pick(1, 1, 2, 4)
        self.shapes = [(self.rows, self.columns)] + [(self.rows, )] * (self.columns > 1) + [()]
        self.tiles = []  # (name, shape, type)
        self.lines = []
        self.types = self.random.sample(TYPES, 3) + ["int8", "int32"]
        self.words = {}  # parameters that all threads share

    # ---- What expressions begin with

    def word(self):
        """An integer of 32 bits that all threads share."""
        value = self.random.randrange(-2**31, 2**31)
        name = f"word{len(self.words) % 3}"
        if name not in self.words:
            self.words[name] = self.numbers[name] = value
        return name

    def shared(self, type_):
        """A scalar."""
        if type_ in FLOAT8 or self.chance(.4):
            return f"tl.load({self.array('in_' + type_, type_)} + {self.pick(0, 5, 63)})"
        value = f"({self.word()} >> {self.pick(0, 8, 16, 24)})"
        if type_ in FLOATS:
            return f"({value} & 15).to(tl.{type_})"
        return self.pick(f"({value} & 255).to(tl.{type_})", f"{value}.to(tl.{type_})")

    def literal(self, type_):
        return self.pick(*NUMBERS, *([] if type_[0] == "u" else ["-1"])) if type_ in INTEGERS else self.pick("0.0", "1.0", "-2.0")

    def known(self, shape, types):
        return [name for name, s, t in self.tiles if s == shape and t in types]

    def second(self, shape, type_):
        """A tile or a scalar."""
        scalars = self.known((), [type_])
        return self.random.choice(scalars) if scalars and self.chance(.3) else self.operand(shape, type_)

    def operand(self, shape, type_):
        found = self.known(shape, [type_])
        if found and self.chance(.75):
            return self.random.choice(found)
        if type_ != "int1" and (not shape or self.chance(.2)):
            return f"tl.broadcast_to({self.shared(type_)}, {list(shape)})" if shape else self.shared(type_)
        if self.chance(.5) and (given := self.converted(shape, type_)):
            return given
        if type_ == "int1":
            return f"({self.load(shape, 'int8') if shape else self.shared('int8')} > {self.literal('int8')})"
        return self.load(shape, type_)

    def converted(self, shape, type_):
        """A tile of another type, as this one; or nothing."""
        others = [(name, t) for name, s, t in self.tiles if s == shape and t not in (type_, "int1")]
        if not others or type_ == "int1":
            return None
        name, given = self.random.choice(others)
        if type_ in FLOATS + FLOAT8:
            value = f"{name}.to(tl.float32)" if given in FLOATS + FLOAT8 else f"({name} & 31).to(tl.float32)"
            return f"tl.minimum(tl.maximum({value}, -16.0), 16.0).to(tl.{type_})"
        if given in FLOATS + FLOAT8:
            low = "0.0" if type_[0] == "u" else "-16.0"
            return f"tl.minimum(tl.maximum({name}.to(tl.float32), {low}), 16.0).to(tl.{type_})"
        if BITS[given] == BITS[type_] and self.chance(.3):
            return f"{name}.to(tl.{type_}, bitcast=True)"
        if BITS[given] > 8 and self.chance(.4):
            return f"(({name} >> {self.random.randrange(BITS[given] // 8) * 8}) & 255).to(tl.{type_})"
        return f"{name}.to(tl.{type_})"

    # ---- Expressions

    def integer(self, shape, type_):
        a = self.operand(shape, type_)
        b = self.literal(type_) if self.chance(.4) else self.second(shape, type_)
        bits = BITS[type_]
        return self.pick(
            f"{a} {self.pick('+', '-', '*', '&', '|', '^')} {b}", f"tl.{self.pick('maximum', 'minimum')}({a}, {b})",
            f"tl.{self.pick('maximum', 'minimum')}({a}, {self.literal(type_)})", f"{a} {self.pick('//', '%')} {self.pick(3, 5, 7, 8)}",
            f"{a} {self.pick('<<', '>>')} {self.pick(1, bits // 2, bits - 1)}", f"{a} * {b} {self.pick('+', '-')} {self.second(shape, type_)}",
            f"tl.{self.pick('maximum', 'minimum')}({a} {self.pick('+', '-')} {b}, {self.second(shape, type_)})", f"{a} {self.pick('<<', '>>')} ({b} & {bits - 1})",
            self.pick(f"-{a}", f"~{a}") if type_[0] != "u" else f"~{a}",
            f"tl.where({self.condition(shape)}, {a}, {b})", f"({a} & 15) | ({self.operand(shape, type_)} << {bits // 2})",
            f"tl.minimum(tl.maximum({a}, {self.pick(-1, 0) if type_[0] != 'u' else 0}), {self.pick(1, 7)})")

    def floating(self, shape, type_):
        a = self.operand(shape, type_)
        b = self.literal(type_) if self.chance(.4) else self.second(shape, type_)
        return self.pick(f"{a} {self.pick('+', '-', '*')} {b}", f"tl.{self.pick('maximum', 'minimum')}({a}, {b})",
                         f"tl.where({self.condition(shape)}, {a}, {b})", f"tl.abs({a})", f"-{a}")

    def saturated(self, shape, type_):
        """A sum or a difference that ends at the largest or the smallest number."""
        a, k = self.operand(shape, type_), self.pick(1, 7, 100)
        if type_[0] != "u":
            return f"tl.abs({a})"
        return self.pick(f"tl.where(({a} + {k}).to(tl.{type_}) < {a}, {2**BITS[type_] - 1}, {a} + {k})",
                         f"tl.where({a} > {k}, {a} - {k}, 0)", f"tl.where({a} > {k}, {a} - {k}, {k} - {a})")

    def condition(self, shape):
        if (found := self.known(shape, ["int1"])) and self.chance(.3):
            return self.random.choice(found)
        type_ = self.pick(*(t for t in self.types if t not in FLOAT8))
        a = self.operand(shape, type_)
        b = self.literal(type_) if self.chance(.6) else self.second(shape, type_)
        return f"({a} {self.pick('==', '==', '!=', '<', '<=', '>', '>=')} {b})"

    def truth(self, shape):
        return self.pick(self.condition(shape), f"({self.condition(shape)} {self.pick('&', '|', '^')} {self.condition(shape)})")

    def statement(self):
        shape, type_ = self.pick(*self.shapes), self.pick(*self.types, "int1")
        name = self.new_name()
        if len(self.shapes) > 2 and self.chance(.2) and self.reduced(name):
            return
        if shape and type_ != "int1" and self.chance(.1):
            return self.carried(name, shape, type_)
        if type_ == "int1":
            value = self.truth(shape)
        elif type_ in FLOAT8:
            value = f"tl.where({self.condition(shape)}, {self.operand(shape, type_)}, {self.operand(shape, type_)})"
        elif type_ in FLOATS:
            value = f"tl.minimum(tl.maximum({self.floating(shape, type_)}, -16.0), 16.0).to(tl.{type_})"
        else:
            value = self.saturated(shape, type_) if BITS[type_] < 64 and self.chance(.15) else self.integer(shape, type_)
            value = f"({value}).to(tl.{type_})"
        self.put(f"{name} = {value}")
        self.tiles.append((name, shape, type_))

    def reduced(self, name):
        """The rows of a tile as one element each; false if there is no such tile."""
        found = [t for t in self.tiles if t[1] == self.shapes[0] and t[2] in INTEGERS + FLOATS]
        if not found:
            return False
        source, _, type_ = self.random.choice(found)
        wide = "int64" if type_ in INTEGERS else "float32"
        value, of = self.pick((f"tl.{self.pick('argmax', 'argmin')}({source}, 1)", "int32"),
                              (f"tl.{self.pick('max', 'min')}({source}, 1).to(tl.{type_})", type_),
                              (f"tl.sum({source}.to(tl.{wide}), 1)", wide))
        self.put(f"{name} = {value}")
        self.tiles.append((name, self.shapes[1], of))
        return True

    def carried(self, name, shape, type_):
        """What a loop sums up of the tile that it loaded in the iteration before, or not in all iterations."""
        before, out = f"{name}_before", "float32" if type_ in FLOATS + FLOAT8 else self.pick("int32", "int64")
        first = "-2.0" if type_ in FLOATS + FLOAT8 else self.pick(*NUMBERS)
        self.put(f"{name}, {before} = tl.zeros({list(shape)}, tl.{out}), tl.full({list(shape)}, {first}, tl.{type_})")
        iterations, unrolled = self.pick(2, 3, 4, 8), self.pick("", ", loop_unroll_factor=1")
        mask = self.pick("", f", mask=k > 0, other={first}", f", mask=k < {iterations - 1}, other={first}")
        load = f"    {before} = tl.load({self.array('in_' + type_, type_)} + k * 8 + {self.places(shape)[0]}{mask})"
        self.put(f"for k in tl.range(0, {iterations}{unrolled}):")
        lines = [f"    {name} += {before}.to(tl.{out}) * (k + 1)", load]
        for line in self.pick(lines, lines[::-1]):
            self.put(line)
        self.tiles.append((name, shape, out))

    # ---- The kernel

    def new_name(self):
        return f"v{len(self.tiles)}"

    def put(self, line):
        self.lines.append("    " + line)

    def finish(self):
        """Stores all tiles."""
        ends = {}
        for name, shape, type_ in self.tiles:
            held = "int8" if type_ == "int1" else type_
            out = self.array("out_" + held, held, 0, "zero")
            places, span = self.places(shape, loads=False) if shape else ("0", 1)
            begin = ends.get(out, 0)
            ends[out] = begin + span
            value = f"{name}.to(tl.int8)" if type_ == "int1" else name
            self.put(f"tl.store({out} + {begin} + {places}, {value})")
        for out, end in ends.items():
            self.arrays[out]["length"] = end

    def write(self):
        for type_ in self.types:
            name, shape = self.new_name(), self.pick(*self.shapes)
            self.put(f"{name} = {self.load(shape, type_) if shape else self.shared(type_)}")
            self.tiles.append((name, shape, type_))
        for _ in range(self.pick(8, 16, 24)):
            self.statement()
        self.finish()
        names = [*self.arrays, *self.numbers]
        self.random.shuffle(names)
        return f"@triton.jit\ndef kernel({', '.join(names)}):\n    pid = tl.program_id(0)\n" + "\n".join(self.lines) + "\n"
