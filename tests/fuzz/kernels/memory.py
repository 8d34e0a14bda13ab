"""What random kernels read and write: arrays, places in them, masks, and the text of loads."""

import math
import random

from indices import Indices

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
FLOAT8 = ["float8e4nv", "float8e5"]
BITS = {
    t: 1 if t == "int1" else 8 if t in FLOAT8 else 16 if t == "bfloat16" else int(t.lstrip("uintfloa"))
    for t in ["int1", *INTEGERS, *FLOATS, *FLOAT8]
}
LENGTH = 12288  # of the arrays that kernels read
MOST_OFFSET = 2048  # at which a tile begins in one


class Memory(Indices):
    """The arrays and parameters of a kernel being written; all that is chosen follows from the seed."""

    def __init__(self, seed):
        super().__init__(seed)
        self.random = random.Random(seed)
        self.counters = []  # of the loops that are open
        self.arrays = {}
        self.length = LENGTH
        self.numbers = {name: self.pick(0, 1, 2, 3, 4, 5) for name in "nm"}  # by the names of parameters

    def chance(self, p):
        return self.random.random() < p

    def pick(self, *choices):
        return self.random.choice(choices)

    def array(self, name, type_, length=None, fill="small"):
        if name not in self.arrays:
            self.arrays[name] = {
                "type": type_,
                "length": length or self.length,
                "fill": fill,
                "offset": self.pick(0, 0, 0, 1, 3, 8),
                "seed": self.random.randrange(1000)
            }
        return name

    def places(self, shape, loads=True):
        """Offsets of a tile's elements, each another one unless they are loaded: text and their number."""
        order = list(range(len(shape)))
        if self.chance(.35):
            self.random.shuffle(order)
        stride, terms = self.pick(1, 1, 1, 1, 2), []
        for axis in reversed(order):
            along = self.permuted(self.along(shape, axis), shape[axis])
            if self.chance(.08):
                along = f"({shape[axis] - 1} - {along})"
            if loads and self.chance(.05):
                along = f"({along} % {self.pick(2, 5, 8)})"
            repeats = loads and self.chance(.05)
            by = stride
            if stride > 1 and self.chance(.2):
                by = self.stride_parameter(stride)
                stride = self.numbers[by]
            terms.append(f"{along} * {0 if repeats else by}" if repeats or stride != 1 else along)
            stride *= shape[axis]
            if self.chance(.2):
                stride += self.pick(1, 4, 8, 16)
        self.random.shuffle(terms)
        return " + ".join(terms), stride

    def places_within(self, area, shape, loads=True):
        """Offsets below `area`, which holds more elements than the tile has."""
        assert math.prod(shape) <= area
        while True:
            places, number = self.places(shape, loads)
            if number <= area:
                return places

    def stride_parameter(self, least):
        """A parameter that is a stride of at least so many elements: some divide by 16, some do not."""
        value = least + self.pick(0, 0, 1, 3, 8, 16)
        name = f"s{value}"
        self.numbers[name] = value
        return name

    def mask(self, shape):
        if self.rewritten and self.form.random() < .5:
            return self.further_mask(shape)
        parts = []
        for axis in self.random.sample(range(len(shape)), self.pick(1, min(2, len(shape)))):
            limit = self.pick(str(shape[axis] // 2 + 1), str(max(1, shape[axis] - 1)), "n * 4", "m * 16", "0")
            parts.append(f"({self.along(shape, axis)} {self.pick('<', '<', '>=')} {limit})")
        return " & ".join(parts)

    def load(self, shape, type_):
        if type_ == "int1":
            return f"({self.load(shape, 'int32')} > {self.pick(-3, 0, 2)})"
        places = self.places_within(self.length - MOST_OFFSET, shape)
        offset = self.pick("", "", f" + {self.pick(1, 4, 16, 64)}", " + n * 16", " + m", " + pid * 32",
                           *(f" + {k} * {self.pick(8, 16, 128)}" for k in self.counters))
        array = self.array(f"in_{type_}{self.pick('', '', '_b')}", type_)
        if type_ not in FLOAT8 and len(shape) == 2 and (shape[0] + 5) * (shape[1] + 20) <= self.length and self.chance(.12):
            return self.load_block(array, shape)
        options = ""
        if self.chance(.35):
            options += f", mask={self.mask(shape)}"
            if self.chance(.6):
                options += f", other={self.other(type_)}"
        if self.chance(.05):
            options += self.pick(', cache_modifier=".cg"', ', eviction_policy="evict_first"', ", volatile=True")
        return f"tl.load({array}{offset} + {places}{options})"

    def other(self, type_):
        if type_ in FLOATS + FLOAT8:
            return self.pick("0.0", "1.0", "-2.0")
        return self.pick("0", "1", "7") if type_[0] == "u" else self.pick("0", "-1", "5")

    def load_block(self, array, shape):
        rows, cols = (self.pick(d, max(1, d - 3), d + 5) for d in shape)
        stride = (cols + 15) // 16 * 16
        at = f"[{self.pick('0', 'n', '-1', 'pid')}, {self.pick('0', 'm', '8')}]"
        if shape[1] * BITS[self.arrays[array]["type"]] >= 128 and self.chance(.5):
            self.arrays[array]["offset"] = 0
            return f"tl.make_tensor_descriptor({array}, [{rows}, {cols}], [{stride}, 1], {list(shape)}).load({at})"
        return (f"tl.load(tl.make_block_ptr({array}, ({rows}, {cols}), ({stride}, 1), ({at[1:-1]}), {shape}, (1, 0)), "
                "boundary_check=(0, 1))")
