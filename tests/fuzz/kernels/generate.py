"""Random kernels: case(seed) gives the text of one, its arguments and options. A kernel loads tiles, computes with them
in straight lines, loops and branches, and stores all that it has at its end."""

import math
import random

from addresses import Addresses
from chains import ProductChain
from expressions import Expressions
from formats import ScaledProducts
from memory import BITS, FLOAT8, FLOATS, INTEGERS, Memory
from nests import ProductNest
from products import ProductLoop
from statements import ORDERS, SCOPES, Statements
from walks import Walks

MOST = 2048  # elements of a tile
LARGE = [4096, 8192, 8192, 16384, 3 << 11, 5 << 10, 3 << 12, 5 << 11, 7 << 10]  # elements of tiles that registers do not hold
ODD_MULTIPLES = [3, 5, 6, 12, 24, 40, 48, 56, 80, 96, 104, 112, 136, 144, 160, 176, 200, 208, 272, 304]
HELPERS = {
    "largest": ("x, y", "tl.maximum(x, y)"),
    "bits": ("x, y", "x ^ y"),
    "later": ("x, y", "y"),
    "sums": ("x, y", "x + y"),
    # of pairs, all associative
    "largest_of_pairs": ("x, i, y, j", "tl.where((x > y) | ((x == y) & (i > j)), x, y), "
                         "tl.where((x > y) | ((x == y) & (i > j)), i, j)"),
    "affine": ("x, i, y, j", "x * y, i * y + j"),
    "count_and_last": ("x, i, y, j", "x + y, j"),
    "sums_and_bits": ("x, i, y, j", "x + y, i ^ j"),
    # called as functions of tiles
    "blend": ("x, y", "tl.maximum(x, y), tl.minimum(x, y)"),
    "swapped": ("x, y", "y, x"),
}
SMALL = [1, 2, 4, 8]  # extents of products that tensor cores fill up
COMMUTATIVE_PAIRS = ["largest_of_pairs", "sums_and_bits"]  # reductions take elements in any order, scans do not
PAIRS = COMMUTATIVE_PAIRS + ["affine", "count_and_last"]


class Kernel(Memory, Statements, Walks, Addresses, ScaledProducts):
    """A kernel being written."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lines, self.depth = [], 1
        self.tiles = []  # (name, shape, type) of what may be used
        self.scalars = ["n", "m", "pid"]
        self.names, self.helpers = 0, set()
        self.walks = walks(seed)
        extents = [16, 32, 64, 128, 256, 8, 4, 2, 1]
        if self.chance(.2):
            extents += self.random.sample(ODD_MULTIPLES, 4)
        self.extents = self.random.sample(extents, 3)
        self.products = self.chance(.4)
        if self.products:
            self.extents = self.random.sample(
                [16, 32, 64, 128] + (self.random.sample(ODD_MULTIPLES, 3) if self.chance(.3) else []), 2)
        self.types = self.random.sample(INTEGERS + FLOATS * 2, 3)
        self.work = 1  # iterations of the open loops
        self.warps = self.pick(1, 2, 4, 4, 8)
        self.most, self.large = MOST, None
        if self.chance(.2):
            self.large = self.pick(*LARGE)
            self.most, self.warps, self.products = 2 * self.large, self.pick(1, 1, 1, 2, 4), False
            self.length = 5 * self.large  # of the arrays

    # ---- Names, lines, shapes

    def new_name(self, prefix):
        self.names += 1
        return f"{prefix}{self.names}"

    def put(self, *lines):
        self.lines += ["    " * self.depth + line for line in lines]

    def shape(self):
        if self.large:
            return self.factors(self.large)
        while True:
            shape = tuple(self.pick(*self.extents) for _ in range(self.pick(1, 2, 2, 2, 3)))
            if math.prod(shape) <= self.most:
                return shape

    def type(self):
        return self.pick(*self.types, *self.types, "int32", "float32", self.pick("int1", *FLOAT8))

    def known(self, shape=None, types=None):
        return [t for t in self.tiles if (shape is None or t[1] == shape) and (types is None or t[2] in types)]

    # ---- Expressions

    def literal(self, type_):
        if type_ in FLOATS:
            return self.pick("0.5", "2.0", "-1.0", "3", "0.25")
        return self.pick("1", "2", "3", "7", "100") if type_[0] == "u" or type_ == "int1" else self.pick(
            "1", "-2", "5", "-7", "60")

    def tile(self, shape, type_, depth=1):
        """An expression of that shape and type."""
        exact = self.known(shape, [type_])
        if exact and self.chance(.6):
            return self.random.choice(exact)[0]
        other = self.known(shape)
        if other and self.chance(.5):
            return self.converted(self.random.choice(other), type_)
        if depth and self.chance(.4) and (given := self.from_other_shape(shape, type_)):
            return given
        if type_ in INTEGERS and self.chance(.2):
            indices = " + ".join(f"{self.along(shape, a)} * {self.pick(1, 1, 3, 5)}" for a in range(len(shape)))
            if self.rewritten:  # in any type
                indices = f"({indices}).to(tl.int32)"
            if self.chance(.4):  # runs of elements with one quotient
                first = self.pick("", "", " + pid * 64", " - 16", " - 5", " + n * 16")
                divisor = self.pick("4", "6", "16", "48", self.stride_parameter(16), self.stride_parameter(48))
                indices = f"({indices}{first}) {self.pick('//', '%')} {divisor}"
            return f"({indices}).to(tl.{type_})"
        if type_ in INTEGERS + FLOATS and self.chance(.06):
            return f"tl.full({list(shape)}, {self.literal(type_)}, tl.{type_})"
        return self.load(shape, type_)

    def converted(self, tile, type_):
        name, _, given = tile
        if given == type_:
            return name
        if given in INTEGERS and type_ in INTEGERS and BITS[given] == BITS[type_] and self.chance(.5):
            return f"{name}.to(tl.{type_}, bitcast=True)"
        if given in FLOATS + FLOAT8 and type_ in INTEGERS:
            wide = f"{name}.to(tl.float32)"
            whole = f"tl.minimum(tl.maximum({wide}, {0 if type_[0] == 'u' else -100}.0), 100.0)"
            return f"{whole}.to(tl.{type_})"
        if type_ == "int1":
            return f"({name} != 0)" if given not in FLOAT8 else f"({name}.to(tl.float32) > 0.0)"
        return f"{name}.to(tl.{type_})"

    def from_other_shape(self, shape, type_):
        """A tile of another shape, moved or reduced; or nothing."""
        found = list(self.tiles)
        self.random.shuffle(found)
        for tile in found:
            name, given, t = tile
            if t in FLOAT8 or t == "int1" and type_ != "int1":
                continue
            value, result = None, t
            if given == tuple(reversed(shape)) and len(shape) == 2:
                value = self.pick(f"tl.trans({name})", f"{name}.T")
            elif math.prod(given) == math.prod(shape):
                value = f"tl.reshape({name}, {list(shape)})"
            elif len(given) == len(shape) + 1:
                axes = [a for a in range(len(given)) if given[:a] + given[a + 1:] == shape]
                if axes and t != "int1":
                    value = f"tl.{self.pick('sum', 'max', 'min')}({name}, axis={self.random.choice(axes)})"
                    result = t if t in FLOATS else "some integer"  # wider than t perhaps
            elif len(given) + 1 == len(shape):
                axes = [a for a in range(len(shape)) if shape[:a] + shape[a + 1:] == given]
                if axes:
                    axis = self.random.choice(axes)
                    value = f"tl.broadcast_to(tl.expand_dims({name}, {axis}), {list(shape)})"
            if value:
                return self.bounded(value, type_) if type_ in FLOATS else self.converted((value, shape, result), type_)
        return None

    def bounded(self, value, type_):
        """Keeps numbers small, so that they are exact."""
        limit = self.pick(2, 4, 16)
        return f"tl.minimum(tl.maximum({value}, -{limit}), {limit}).to(tl.{type_})"

    def expression(self, shape, type_):
        if type_ in FLOAT8 or type_ == "int1":
            return self.choice_of(shape, type_)
        first = self.tile(shape, type_)
        second = self.literal(type_) if self.chance(.3) else self.tile(
            shape, self.pick(type_, type_, type_, *(FLOATS[:3] if type_ in FLOATS else [type_])))
        kind = self.random.random()
        if kind < .12:
            return f"tl.where({self.condition(shape)}, {first}, {second})"
        if kind < .22:
            return f"tl.{self.pick('maximum', 'minimum')}({first}, {second})"
        if type_ in FLOATS:
            if kind < .3:
                return self.special(first)
            if kind < .38 and type_ in ("float32", "float16"):
                return f"({first} / (tl.abs({first}) + 1))"
            return f"({first} {self.pick('+', '-', '*')} {second})"
        if kind < .3:
            return f"({first} {self.pick('<<', '>>')} {self.pick(1, 2, BITS[type_] - 1)})"
        if kind < .4 and BITS[type_] < 64:
            divisor = self.pick("3", "7", f"({self.tile(shape, type_)} | 1)")
            return f"({first} {self.pick('//', '%')} {divisor})"
        return f"({first} {self.pick('+', '-', '*', '&', '|', '^')} {second})"

    def special(self, value):
        x = f"tl.minimum(tl.maximum({value}.to(tl.float32), -4.0), 4.0)"
        return self.pick(f"tl.exp({x})", f"tl.exp2({x})", f"tl.sqrt(tl.abs({x}))", f"tl.sigmoid({x})", f"tl.floor({x})",
                         f"tl.fma({x}, {x}, {x})", f"tl.sin({x})")

    def condition(self, shape):
        found = self.known(shape, ["int1"])
        if found and self.chance(.5):
            return self.random.choice(found)[0]
        if self.walks and self.chance(.1):
            return self.loaded_truth(shape)
        type_ = self.pick(*self.types)
        left, right = self.tile(shape, type_, 0), self.pick(self.literal(type_), self.tile(shape, type_, 0))
        return f"({left} {self.pick('<', '>', '==', '!=', '<=')} {right})"

    def choice_of(self, shape, type_):
        if type_ == "int1":
            return self.pick(self.condition(shape),
                             f"({self.condition(shape)} {self.pick('&', '|', '^')} {self.condition(shape)})")
        return f"tl.where({self.condition(shape)}, {self.tile(shape, type_)}, {self.tile(shape, type_)})"

    # ---- Statements

    def assign(self):
        """A new tile, or another value of one."""
        if self.tiles and self.chance(.55):
            name, shape, type_ = self.random.choice(self.tiles)
        else:
            name, shape, type_ = self.new_name("x"), self.shape(), self.type()
        value = self.expression(shape, type_)
        if type_ in FLOATS:
            value = self.bounded(value, type_) if self.chance(.7) else f"({value}).to(tl.{type_})"
        elif type_ != "int1" and type_ not in FLOAT8:
            value = f"({value}).to(tl.{type_})"
        self.put(f"{name} = {value}")
        self.note(name, shape, type_)

    def note(self, name, shape, type_):
        if not any(t[0] == name for t in self.tiles):
            self.tiles.append((name, shape, type_))

    def helper(self, name):
        self.helpers.add(name)
        return name

    def along_an_axis(self):
        """A reduction, a scan, or elements in another order, as a tile of its own."""
        found = self.known(types=INTEGERS + FLOATS)
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        axis = self.random.randrange(len(shape))
        less = shape[:axis] + shape[axis + 1:]
        name = self.new_name("r")
        wide = "int64" if type_ in INTEGERS else "float32"
        into = f".to(tl.{wide})"
        x = f"{source}{into}"
        options = [(f"tl.cumsum({x}, {axis}{self.pick('', ', reverse=True')})", shape, wide),
                   (f"tl.flip({source}, {axis})", shape, type_)]
        if less:
            options += [(f"tl.{self.pick('sum', 'max', 'min')}({x}, {axis})", less, wide),
                        (f"tl.{self.pick('argmax', 'argmin')}({source}, {axis})", less, "int32")]
        if type_ in INTEGERS:
            combine = self.helper(self.pick("largest", "bits", "later", "sums"))
            options += [(f"tl.associative_scan({source}, {axis}, {combine})", shape, type_)]
            if less:
                options += [(f"tl.reduce({source}, {axis}, {self.helper(self.pick('largest', 'bits'))})", less, type_),
                            (f"tl.xor_sum({source}, {axis})", less, type_)]
            if len(shape) == 1:
                options += [(f"tl.histogram({source}, 16)", (16, ), "int32")]
        if shape[-1] & (shape[-1] - 1) == 0:
            options += [(f"tl.sort({source}{self.pick('', ', descending=True')})", shape, type_)]
        index = f"({self.tile(shape, 'int32', 0)})"
        index = f"{index} & {shape[axis] - 1}" if shape[axis] & (shape[axis] - 1) == 0 else f"({index} & 32767) % {shape[axis]}"
        options += [(f"tl.gather({source}, {index}, {axis})", shape, type_)]
        if type_ in INTEGERS and self.chance(.2):
            return self.along_an_axis_of_pairs(source, shape, type_, axis)
        if less and self.chance(.1):
            other = self.new_name("r")
            self.put(f"{name}, {other} = tl.{self.pick('max', 'min')}({x}, {axis}, return_indices=True)")
            self.note(name, less, wide)
            return self.note(other, less, "int32")
        value, shape, type_ = self.random.choice(options)
        self.put(f"{name} = {value}")
        if type_ == "float32":
            self.put(f"{name} = {self.bounded(name, type_)}")
        self.note(name, shape, type_)

    def along_an_axis_of_pairs(self, source, shape, type_, axis):
        """A reduction or a scan of two tiles by a function of two pairs."""
        partner = self.tile(shape, type_, 0)
        first, second = self.new_name("r"), self.new_name("r")
        less = shape[:axis] + shape[axis + 1:]
        if less and self.chance(.5):
            combine = self.helper(self.pick(*COMMUTATIVE_PAIRS))
            self.put(f"{first}, {second} = tl.reduce(({source}, {partner}), {axis}, {combine})")
        else:
            less, combine, reverse = shape, self.helper(self.pick(*PAIRS)), self.pick("", ", reverse=True")
            self.put(f"{first}, {second} = tl.associative_scan(({source}, {partner}), {axis}, {combine}{reverse})")
        self.note(first, less, type_)
        self.note(second, less, type_)

    def through_memory(self):
        """Stores a tile and loads it, or a part of it, at other places: a program has one order."""
        found = self.known(types=INTEGERS + FLOATS)
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        array = self.array(f"mem_{type_}", type_, 8 * self.length, "zero")
        area = 2 * self.length  # of a program: what others store there has no order
        base = f"{array} + pid * {area}"
        places = self.places_within(area, shape, loads=False)
        mask = f", mask={self.mask(shape)}" if self.chance(.3) else ""
        self.put(f"tl.store({base} + {places}, {source}{mask})")
        target = self.random.choice(self.known(types=[type_]))
        self.put(f"{target[0]} = tl.load({base} + {self.places_within(area, target[1])})")

    def atomic(self):
        found = self.known(types=["int32", "int64", "uint32", "float32"])
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        kind = "add" if type_ == "float32" else self.pick("add", "max", "min", "xor", "or")
        array = self.array(f"sum_{kind}_{type_}", type_, 8 * self.most, "zero")
        places, _ = self.places(shape)
        if self.chance(.3):
            places = f"({self.tile(shape, 'int32', 0)} & 255)"
        mask = f", mask={self.mask(shape)}" if self.chance(.3) else ""
        value = source if type_ != "float32" else f"tl.floor(tl.minimum(tl.maximum({source}, -8.0), 8.0))"
        self.put(f"tl.atomic_{kind}({array} + {places}, {value}{mask}{self.pick(*ORDERS)}{self.pick(*SCOPES)})")

    def product(self):
        """A tl.dot, at times in a loop of its own along K."""
        kind = self.pick("float16", "float16", "bfloat16", "float32", "int8", "uint8", *FLOAT8)
        second = self.pick(*FLOAT8) if kind in FLOAT8 else kind
        m, n, k = (self.pick(*(e for e in self.extents if e >= 16), 16, 32, *(SMALL if self.chance(.1) else []))
                   for _ in range(3))
        if BITS[kind] == 8 and self.chance(.7):
            k = max(k, 32)
        if m * n * k * self.work > 1 << 19 or m * k > MOST * 2 or k * n > MOST * 2 or m * n > MOST * 4:
            return self.assign()
        out = "int32" if kind in INTEGERS else "float32"
        sums = self.known((m, n), [out])
        name = self.random.choice(sums)[0] if sums and self.chance(.7) else None
        if name is None:
            name = self.new_name("acc")
            self.put(f"{name} = tl.zeros(({m}, {n}), tl.{out})")
        option = ', input_precision="ieee"' if kind == "float32" and self.chance(.4) else ""
        loops = self.chance(.5)
        if loops:
            counter = self.new_name("k")
            steps = self.pick("n", "m", "3")
            self.put(f"for {counter} in tl.range(0, {steps}{self.loop_options()}):")
            self.depth += 1
            self.counters.append(counter)
        a = self.operand((m, k), kind)
        b = self.operand((k, n), second)
        self.put(self.pick(f"{name} = tl.dot({a}, {b}, {name}{option})", f"{name} += tl.dot({a}, {b}{option})"))
        if loops:
            self.counters.pop()
            self.depth -= 1
        if out == "float32" and self.chance(.5):
            self.put(f"{name} = {self.bounded(name, out)}")
        self.note(name, (m, n), out)

    def operand(self, shape, kind):
        choice = self.random.random()
        if choice < .35 and (found := self.known(shape)):
            return self.small(self.converted(self.random.choice(found), kind), kind)
        if choice < .5:
            return f"tl.trans({self.load(shape[::-1], kind)})"
        return self.load(shape, kind)

    def small(self, value, kind):
        if kind in FLOAT8:
            return value
        if kind in INTEGERS:
            return f"({value} & 15)"
        return f"tl.minimum(tl.maximum({value}, -2), 2).to(tl.{kind})"

    def scalar_condition(self):
        s = self.pick(*self.scalars, *self.counters, *self.counters)
        return self.pick(f"{s} > 1", f"{s} % 2 == 0", f"{s} == 2", "n < m", f"({s} < 3) & (m > 1)")

    def block(self, statements, nest):
        self.depth += 1
        tiles, before = list(self.tiles), len(self.lines)
        for _ in range(statements):
            self.statement(nest)
        if len(self.lines) == before:
            self.put("pass")
        self.tiles = tiles
        self.depth -= 1

    def loop(self, nest):
        counter = self.new_name("i")
        end = self.pick("n", "m", "3", "m % 3", "n + 1", self.scalars[-1])
        kind = self.random.random()
        self.work *= 4
        if kind < .15:
            self.put(f"{counter} = {end} + pid * 0", f"while {counter} > 0:")
            self.scalars.append(counter)
            self.block(self.pick(1, 2), nest - 1)
            self.put(f"    {counter} -= 1")
            self.scalars.remove(counter)
        else:
            self.put(f"for {counter} in " +
                     (f"tl.range(0, {end}{self.loop_options()}):" if kind <
                      .7 else self.pick(f"range({end}, -1, -1):", f"range(pid, {end}, 2):", "tl.static_range(2):")))
            self.counters.append(counter)
            self.block(self.pick(1, 2, 2, 3), nest - 1)
            self.counters.pop()
        self.work //= 4

    def loop_options(self):
        return self.pick("", "", ", num_stages=1", ", num_stages=2", ", num_stages=3", ", num_stages=4",
                         ", warp_specialize=True", ", warp_specialize=False", ", flatten=True")

    def branch(self, nest):
        self.put(f"if {self.scalar_condition()}:")
        self.block(self.pick(1, 2), nest - 1)
        if self.chance(.5):
            self.put("else:")
            self.block(self.pick(1, 2), nest - 1)

    def statement(self, nest):
        if self.walks and self.chance(.3) and (nest or self.work == 1):
            return self.walking_statement()
        kind = self.random.random()
        if self.large and self.chance(.4):
            return self.pick(self.reshaped, self.rearranged)()
        if kind >= .9:
            return self.pick(self.divided, self.powers, self.assembled, self.exchanged, self.repeated, self.reshaped)()
        if nest and kind < .2:
            return self.loop(nest)
        if nest and kind < .3:
            return self.branch(nest)
        if self.products and kind < .5:
            return self.scaled_product() if self.walks and self.chance(.3) else self.product()
        if kind < .6:
            return self.along_an_axis()
        if kind < .67:
            return self.rearranged()
        if kind < .74:
            return self.through_memory()
        if kind < .78:
            return self.atomic()
        if kind < .8:
            return self.called()
        return self.assign()

    def finish(self):
        """Stores all tiles; of large ones some, as programs are divided along axes that all that is stored has."""
        ends = {}
        stored = self.tiles if not self.large else self.random.sample(self.tiles[:-1], self.pick(0, 0, 1)) + self.tiles[-1:]
        for name, shape, type_ in stored:
            places, span = self.places(shape, loads=False)
            out = self.array("out_" +
                             type_, type_, 0, "zero") if type_ != "int1" else self.array("out_int8", "int8", 0, "zero")
            begin = ends.get(out, 0)
            ends[out] = begin + 4 * span
            value = name if type_ != "int1" else f"{name}.to(tl.int8)"
            self.put(f"tl.store({out} + {begin} + pid * {span} + {places}, {value})")
        for out, end in ends.items():
            self.arrays[out]["length"] = end

    def write(self):
        self.put("pid = tl.program_id(0)")
        if self.chance(.3):
            self.put(f"length = tl.load({self.array('in_int32', 'int32')} + pid) & 3")
            self.scalars.append("length")
        for _ in range(2):
            name, shape, type_ = self.new_name("x"), self.shape(), self.pick(*self.types)
            self.put(f"{name} = {self.load(shape, type_)}")
            self.note(name, shape, type_)
        for _ in range(self.pick(2, 4, 6, 8) if not self.large else self.pick(1, 2, 3)):
            self.statement(2 if not self.large else self.pick(0, 0, 0, 1))
        self.finish()
        names = [*self.arrays, *self.numbers]
        self.random.shuffle(names)
        helpers = "".join(f"@triton.jit\ndef {h}({HELPERS[h][0]}):\n    return {HELPERS[h][1]}\n\n\n"
                          for h in sorted(self.helpers))
        return helpers + f"@triton.jit\ndef kernel({', '.join(names)}):\n" + "\n".join(self.lines) + "\n"


def is_product_loop(seed):
    """Whether the kernel is one loop of products; other numbers have the kernels that they had before there were such."""
    return random.Random(f"form of {seed}").random() < .15


def is_product_nest(seed):
    """Whether the kernel is a matrix product as people write them."""
    return not is_product_loop(seed) and random.Random(f"nest of {seed}").random() < .15


def is_expressions(seed):
    """Whether the kernel is many elementwise expressions."""
    return not (is_product_loop(seed) or is_product_nest(seed)) and random.Random(f"expressions of {seed}").random() < .1


def is_product_chain(seed):
    """Whether the kernel is one loop of several products."""
    others = is_product_loop(seed) or is_product_nest(seed) or is_expressions(seed)
    return not others and random.Random(f"chain of {seed}").random() < .06


def walks(seed):
    """Whether a kernel of no such form has loops through memory among its statements."""
    return random.Random(f"walks of {seed}").random() < .4


def is_plain(seed):
    """Whether all of the kernel's statements have a form in C++, where no loop is left."""
    return not (is_product_loop(seed) or is_product_nest(seed) or is_expressions(seed) or is_product_chain(seed) or
                walks(seed))


def further_options(seed):
    """Options of the launch beside those of a case itself, for a part of the kernels."""
    stream = random.Random(f"options of {seed}")
    often = .75 if is_product_loop(seed) or is_product_nest(seed) else .2
    choices = {
        "warp_specialize": (1, 2, 2, 2, 2, 3),
        "bulk_copies": (1, 2, 2, 2, 2),
        "program_loop": (1, 2, 2, 2),
        "program_bits": (1, 2, 12),
        "enable_fp_fusion": (False, ),
        "dependent_launch": (False, ),
        "launch_cooperative_grid": (True, )
    }
    rare = ("program_bits", "enable_fp_fusion", "dependent_launch", "launch_cooperative_grid")
    return {
        name: stream.choice(values)
        for name, values in choices.items() if stream.random() < (often / 8 if name in rare else often)
    }


def written(kernel):
    """What a case says of a kernel, which is written first: its launch is picked behind that."""
    return {
        "text": kernel.write(),
        "arrays": kernel.arrays,
        "numbers": kernel.numbers,
        "programs": kernel.programs,
        "num_warps": kernel.warps,
    }


def nest_case(seed):
    kernel = ProductNest(seed)
    return {
        **written(kernel),
        "num_stages": kernel.pick(1, 2, 2, 3, 3, 4, 5, 6, 7),
        "maxnreg": kernel.pick(0, 0, 0, 0, 96),
        "num_ctas": kernel.pick(1, 1, 1, 1, 1, 2) if not kernel.batched else kernel.pick(1, kernel.batch),
        "options": further_options(seed)
    }


def chain_case(seed):
    kernel = ProductChain(seed)
    return {
        **written(kernel),
        "num_stages": kernel.pick(1, 2, 2, 3, 3, 4),
        "maxnreg": 0,
        "num_ctas": 1,
        "options": further_options(seed)
    }


def expressions_case(seed):
    kernel = Expressions(seed)
    return {
        "text": kernel.write(),
        "arrays": kernel.arrays,
        "numbers": kernel.numbers,
        "programs": 1,
        "num_warps": kernel.warps,
        "num_stages": 1,
        "maxnreg": 0,
        "num_ctas": 1,
        "options": {}
    }


FORMS = {"product-loops": is_product_loop, "product-nests": is_product_nest, "product-chains": is_product_chain, "expressions": is_expressions}


def case(seed):
    """A kernel as a dictionary: its text, arrays and numbers by the names of parameters, the grid (the number of programs, or
    those along each axis) and options."""
    if is_product_nest(seed):
        return nest_case(seed)
    if is_expressions(seed):
        return expressions_case(seed)
    if is_product_chain(seed):
        return chain_case(seed)
    loop = is_product_loop(seed)
    kernel = ProductLoop(seed) if loop else Kernel(seed)
    text = kernel.write()
    options = further_options(seed)
    if loop and kernel.crowded:
        options.pop("warp_specialize", None)  # threads copy
    return {
        "text": text,
        "arrays": kernel.arrays,
        "numbers": kernel.numbers,
        "programs": list(kernel.grid) if loop else kernel.pick(1, 1, 2, 3),
        "num_warps": kernel.warps,
        "num_stages": kernel.pick(1, 2, 3, 4) if not loop else kernel.pick(3, 4, 8) if kernel.crowded else kernel.pick(
            1, 2, 2, 2, 3, 3, 4, 8),
        "maxnreg": kernel.pick(0, 0, 24, 48) if not loop else 0 if kernel.plain else kernel.pick(0, 0, 24, 96),
        "num_ctas": kernel.pick(1, 1, 1, 2, 4) if not loop else kernel.pick(1, 1, 1, 1, 1, 2),
        "options": options
    }
