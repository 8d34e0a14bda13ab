"""Kernels that are one loop of several products, as the gradients of attention and linear attention are: operands are loaded, some
of them for several products and for other ops, or follow from products before them and from what the loop carries. Together
they often take more shared memory than a program has."""

from memory import BITS
from product_tiles import ProductTiles

MOST_WORK = 1 << 24  # multiplications of a launch
MOST_OF_THREAD = 64  # elements of a tile
MOST_ROOM = 300 << 10  # bytes of operands: more than a program has, as several products may take one


class ProductChain(ProductTiles):
    """A kernel being written."""

    program = "number"

    def __init__(self, seed):
        super().__init__(seed)
        self.kind = self.pick("float16", "float16", "bfloat16", "bfloat16", "float32", "float32", "int8")
        self.sums = "int32" if self.kind == "int8" else "float32"
        self.aligned = self.chance(.9)
        self.warps = self.pick(4, 8, 8)
        self.programs = self.pick(1, 1, 1, 2)
        self.iterations = self.pick(0, 1, 2, 2, 2, 3)
        # Of several draws the one whose operands take most, but no more than all of them may at a time.
        draws = [self.products() for _ in range(self.pick(1, 8, 24))]
        self.chain = max(draws, key=lambda chain: self.room(chain) if self.room(chain) < MOST_ROOM else 0)
        self.factors, self.carried, self.names = [], [], 0  # tiles (name, shape) that products may take; what the loop carries

    def products(self):
        """(M, N, K) of each."""
        while True:
            extents = [self.pick(64, 128), self.pick(64, 128, 256), self.pick(32, 64, 128)]
            chain = [(self.pick(64, 64, 128, self.pick(*extents)), self.pick(*extents), self.pick(*extents))
                     for _ in range(self.pick(2, 3, 4, 5))]
            work = sum(m * n * k for m, n, k in chain) * max(1, self.iterations) * self.programs
            most = max(max(m * n, m * k, k * n) for m, n, k in chain)
            if work <= MOST_WORK and most <= MOST_OF_THREAD * 32 * self.warps:
                return chain

    def room(self, chain):
        return sum((m + n) * k for m, n, k in chain) * BITS[self.kind] // 8

    def named(self, value, shape=None):
        """A name of the value; with a shape products may take it."""
        self.names += 1
        self.inside.append(f"t{self.names} = {value}")
        if shape:
            self.factors.append((f"t{self.names}", shape))
        return f"t{self.names}"

    def carry(self, shape):
        """The name of another tile of sums that the loop carries."""
        name = f"acc{len(self.carried)}"
        self.carried.append((name, shape))
        self.ahead.append(f"{name} = tl.full({shape}, {self.pick(0, 0, 0, 1)}, tl.{self.sums})")
        return name

    # ---- Operands

    def source(self, shape):
        """Loads a tile, which the loop goes through along rows or columns."""
        name, steps = f"in_{self.names}", max(1, self.iterations)
        type_ = self.kind
        if self.chance(.15):
            type_ = self.pick("float32", "float16", "int8") if self.sums == "float32" else "int32"
        first, tiles = ("i", steps) if self.chance(.6) else (f"(number * {steps} + i)", self.programs * steps)
        if self.chance(.7):
            value = self.loaded(name, type_, shape, tiles * shape[0], shape[1], f"{first} * {shape[0]}", "0")
        else:
            value = self.loaded(name, type_, shape, shape[0], tiles * shape[1], "0", f"{first} * {shape[1]}")
        if type_ != self.kind:
            value = self.limited(value)
        elif self.chance(.15):
            value = self.limited(f"{value} * 2")
        tile = self.named(value, shape)
        if self.chance(.2):  # taken by another op, too
            name = self.carry(shape)
            self.inside.append(f"{name} += {tile}.to(tl.{self.sums})")

    def factor(self, shape):
        """The text of a tile of that shape: one that is there, as it is or transposed, or one that is loaded."""
        across = shape[::-1]
        there = [f for f in self.factors if f[1] in (shape, across)]
        if not there or self.chance(.4 / len(there)):
            self.source(shape if self.chance(.6) else across)
            there = self.factors[-1:]
        name, is_ = self.pick(*there)
        return f"tl.trans({name})" if is_ != shape or shape == across and self.chance(.5) else name

    def follows(self, result, shape):
        """What follows from a result and is a factor of products."""
        others = [name for name, is_ in self.factors if is_ == shape]
        if others and self.chance(.4):
            result = f"{self.pick(*others)}.to(tl.{self.sums}) - {result}"
        elif self.sums == "float32" and self.chance(.3):
            result = f"{result} * 0.0625"
        self.named(self.limited(result), shape)

    # ---- The kernel

    def product(self, m, n, k, is_last):
        a, b = self.factor((m, k)), self.factor((k, n))
        if not is_last and self.chance(.5):
            result = self.named(f"tl.dot({a}, {b})")
        else:
            kept = self.chance(.3) and [name for name, shape in self.carried if shape == (m, n)]
            result = kept[0] if kept else self.carry((m, n))
            forms = [f"tl.dot({a}, {b}, {result})", f"{result} + tl.dot({a}, {b})"]
            if self.sums == "float32":
                forms += [f"tl.dot({a}, {b}, {result} * 0.5)", f"{result} * 0.5 + tl.dot({a}, {b})"]
            self.inside.append(f"{result} = {self.pick(*forms)}")
            if self.chance(.6):
                return
        self.follows(result, (m, n))
        if self.chance(.2):
            self.store(f"each_{result}", result, (m, n), f"number * {max(1, self.iterations)} + i", self.inside)

    def store(self, name, value, shape, number, lines):
        """A store of tile `number` of an array that holds as many as iterations of all programs."""
        size = shape[0] * shape[1]
        out = self.array(name, self.sums, self.programs * max(1, self.iterations) * size, "zero")
        lines.append(f"tl.store({out} + ({number}) * {size} + {self.along(shape, 0)} * {shape[1]} + {self.along(shape, 1)}, {value})")

    def write(self):
        self.ahead.append("number = tl.program_id(0)")
        self.numbers["steps"] = self.iterations
        if self.chance(.5):  # the state that the iteration before left
            shape = self.chain[0][::2]
            self.named(self.limited(self.carry(shape)), shape)
        for i, (m, n, k) in enumerate(self.chain):
            self.product(m, n, k, i + 1 == len(self.chain))
        for name, shape in self.carried:
            self.store(f"out_{name}", name, shape, "number", self.behind)
        options = self.pick("", "", "", ", num_stages=2", ", num_stages=3", ", num_stages=4")
        lines = [*self.ahead, f"for i in tl.range(0, steps{options}):", *(f"    {line}" for line in self.inside), *self.behind]
        names = [*self.arrays, *self.numbers]
        self.random.shuffle(names)
        return f"@triton.jit\ndef kernel({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in lines)
