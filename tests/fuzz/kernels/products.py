"""Kernels that are one loop of products, as matrix products and attention are: operands that are copied, computed or stored ahead,
pages of a table, stores in the loop, grids of several axes."""

from memory import BITS, FLOAT8
from product_tiles import ProductTiles

MOST_WORK = 1 << 22  # multiplications of a launch
GRIDS = [(1, 1, 1), (2, 1, 1), (3, 1, 1), (5, 1, 1), (2, 2, 1), (3, 2, 1), (1, 2, 2), (2, 1, 3), (2, 2, 2)]


class ProductLoop(ProductTiles):
    """A kernel being written."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lines = []
        self.plain = self.chance(.6)  # operands that warps of their own may copy
        self.crowded = not self.plain and self.chance(.5)  # computed from more than shared memory holds far ahead
        self.kind = self.pick("float16", "float16", "float16", "bfloat16", "bfloat16", "float32", "int8", "float8e4nv")
        if self.crowded:
            self.kind = self.pick("float16", "float16", "bfloat16")
        self.sums = "int32" if self.kind == "int8" else "float32"
        self.aligned = self.plain or self.crowded
        self.warps = self.pick(1, 2, 4, 4, 4, 8) if not self.plain else self.pick(4, 4, 8)
        self.grid = self.pick(*GRIDS)
        self.iterations = self.pick(0, 1, 2, 2, 3, 3, 4, 5, 7)
        while True:
            self.m = self.pick(16, 32, 64, 64, 128) if not self.plain else self.pick(64, 64 if self.warps == 4 else 128, 128)
            self.n = self.pick(16, 32, 64, 64, 128)
            self.k = self.pick(16, 32, 32, 64, 64) if not self.crowded else self.pick(64, 64, 128)
            if self.m * self.n * self.k * (self.iterations + 1) * self.programs() <= MOST_WORK:
                break
        if BITS[self.kind] == 8:
            self.k = max(self.k, 32)
        self.pages = not self.plain and self.chance(.3)
        self.tail = self.pick(0, 0, 0, 1, 3, self.k // 2) if not self.pages else 0  # columns that the last tile lacks
        self.depth = max(0, self.iterations * self.k - self.tail)

    def programs(self):
        x, y, z = self.grid
        return x * y * z

    # ---- Operands

    def computed(self, value, shape, gate):
        """The operand, computed from what is loaded; `gate` loads a tile of floats of its shape."""
        if self.kind == "int8":
            return self.pick(f"({value} ^ 3)", f"tl.maximum({value}, 0).to(tl.int8)")
        wide = f"{value}.to(tl.float32)"
        form = self.pick("{0} * 0.5", "tl.maximum({0}, 0.0)", "tl.abs({0}) - 2.0", "{0} * scale", "{0} + {1}", "{0} + {1}",
                         "tl.where({1} > 0, {0}, 0.0)", "tl.exp2(tl.minimum(tl.maximum({0}, -3.0), 3.0))")
        return f"({form.format(wide, gate() if '{1}' in form else '')}).to(tl.{self.kind})"

    def operand(self, name, shape, along, row, col, rows, cols):
        """An operand whose elements along axis `along` of the tile the loop goes through."""
        limit = "K" if self.tail else None
        transposed = self.chance(.3) and self.kind not in FLOAT8
        place = (shape, rows, cols, row, col, along)
        if transposed:
            place = (shape[::-1], cols, rows, col, row, 1 - along)
        load = lambda n, t: self.loaded(n, t, place[0], *place[1:5], limit, place[5])
        if self.plain and self.chance(.8):
            return f"tl.trans({load(name, self.kind)})" if transposed else load(name, self.kind)
        if self.kind != "int8" and self.chance(.15):  # of another type
            value = f"{load(name, self.pick('float32', 'int8', 'float16'))}.to(tl.{self.kind})"
        else:
            value = load(name, self.kind)
        if self.chance(.45 if not self.crowded else .9):
            value = self.computed(value, place[0], lambda: load(f"{name}_gate", "float32"))
        return f"tl.trans({value})" if transposed else value

    # ---- The kernel

    def put_loop(self):
        """The head of the loop; `i` is the iteration's number and `at` where its tile begins."""
        upper = "K"
        if not self.tail and self.chance(.1):
            upper = f"tl.minimum(K, (x + 1) * {self.k})"
        options = self.pick("", "", "", ", num_stages=2", ", num_stages=3", ", num_stages=4", ", num_stages=9", ", warp_specialize=True")
        if self.pages or self.chance(.3):
            self.lines.append(f"for i in tl.range(0, tl.cdiv({upper}, {self.k}){options}):")
            self.inside.append(f"at = i * {self.k}" if self.chance(.8) else f"at = (tl.cdiv(K, {self.k}) - 1 - i) * {self.k}")
        elif not self.tail and upper == "K" and self.chance(.2):
            self.lines.append(f"for at in tl.range(K - {self.k}, -1, -{self.k}{options}):")
            self.inside.append(f"i = at // {self.k}")
        else:
            self.lines.append(f"for at in tl.range(0, {upper}, {self.k}{options}):")
            self.inside.append(f"i = at // {self.k}")
        if self.pages:
            table = self.array("in_int32", "int32", 64)
            self.inside.append(f"at = (tl.load({table} + i) & 15) % {max(1, self.iterations)} * {self.k}")

    def product_of_sums(self):
        """acc += a (u - w acc), as the state of linear attention: what the sums follow from is stored an iteration ahead."""
        m, n, k, depth = self.m, self.n, self.k, max(1, self.iterations) * self.k
        w = self.operand("in_w", (k, m), 0, "at", "0", depth, m)
        u = self.loaded("in_u", self.kind, (k, n), depth, n, "at", "0", "K" if self.tail else None, 0)
        self.inside += [f"u = {u} - tl.dot({w}, {self.limited('acc')})", f"u = {self.limited('u')}"]
        a = self.operand("in_a", (m, k), 1, "0", "at", m, depth)
        self.inside.append(self.pick(f"acc = acc * 0.5 + tl.dot({a}, u)", f"acc = tl.dot({a}, u, acc * 0.5)", f"acc += tl.dot({a}, u)"))

    def product(self):
        """acc += a b, or with a chain: acc += f(a b) v, as attention."""
        if self.kind in ("float16", "bfloat16") and self.chance(.5 if self.crowded else .1):
            return self.product_of_sums()
        m, n, k, depth = self.m, self.n, self.k, max(1, self.iterations) * self.k
        programs = self.programs()
        chain = self.chance(.3) and self.kind not in FLOAT8 and self.kind != "int8"
        row = self.pick(f"number * {m}", f"number * {m}", f"x * {m}", "0")
        option = ', input_precision="ieee"' if self.kind == "float32" and self.chance(.5) else ""
        if chain:  # at goes along the columns of a b, the rows of v
            d = self.pick(16, 32, 64)
            self.ahead.append(f"q = {self.loaded('in_q', self.kind, (m, d), programs * m, d, row, '0')}")
            keys = self.operand("in_keys", (d, k), 1, "0", "at", d, depth)
            values = self.operand("in_values", (k, n), 0, "at", "0", depth, n)
            self.inside += [f"p = tl.dot(q, {keys}{option})"]
            p = self.pick("p * 0.125", "p", "p - tl.max(p, 1)[:, None]")
            self.inside += [f"p = {self.limited(p)}"]
            a, b = "p", values
        else:
            a = self.operand("in_a", (m, k), 1, row, "at", programs * m, depth)
            b = self.operand("in_b", (k, n), 0, "at", self.pick("0", f"x * {n}"), depth, self.grid[0] * n)
        if self.chance(.5):
            self.inside.append(f"a = {a}")
            a = "a"
        if self.chance(.3):
            self.inside.append(f"b = {b}")
            b = "b"
        if self.sums == "int32":
            forms = [f"acc = tl.dot({a}, {b}, acc)", f"acc += tl.dot({a}, {b})"]
        else:
            forms = [f"acc = tl.dot({a}, {b}, acc{option})"] * 2 + [
                f"acc += tl.dot({a}, {b}{option})", f"acc = acc * 0.5 + tl.dot({a}, {b}{option})",
                f"acc += tl.dot({a}, {b}{option}) * scale", f"acc = tl.dot({a}, {b}, acc * 0.5{option})"
            ]
        self.inside.append(self.pick(*forms))
        if self.chance(.15) and a == "a" and not chain:  # another product of the same operand
            self.carried_tile("other", (m, m), f"other + tl.dot(a, tl.trans(a){option})")

    def carried_tile(self, name, shape, value):
        """Another value that the loop carries."""
        self.ahead.append(f"{name} = tl.zeros({shape}, tl.{self.sums})")
        self.inside.append(f"{name} = {value}")
        self.results.append((name, shape))

    def extras(self):
        """What else the loop does."""
        m, n = self.m, self.n
        if self.chance(.3):  # a store in the loop
            a_stored = any(line.startswith("a = ") for line in self.inside) and self.chance(.5)
            value, shape, type_ = ("a", (m, self.k), self.kind) if a_stored else ("acc", (m, n), self.sums)
            if type_ not in FLOAT8:
                out, size = f"out_loop_{type_}", shape[0] * shape[1]
                self.array(out, type_, self.programs() * max(1, self.iterations) * size + 16, "zero")
                self.arrays[out]["offset"] = self.pick(0, 0, 0, 1)
                at = f"(number * {max(1, self.iterations)} + i) * {size}"
                mask = f", mask={self.along(shape, 1)} < {self.pick(shape[1] // 2, shape[1] - 1)}" if self.chance(.3) else ""
                self.inside.insert(self.pick(len(self.inside), len(self.inside) - (value == "acc")),
                                   f"tl.store({out} + {at} + {self.along(shape, 0)} * {shape[1]} + {self.along(shape, 1)}, {value}{mask})")
        if self.chance(.2):
            self.carried_tile("largest", (m, ), "tl.maximum(largest, tl.max(acc, 1))")
        if self.chance(.2):  # a value loaded beside the product
            gate, _ = self.matrix("in_scales", "float32", 1, max(1, self.iterations) * 64)
            self.inside.append(f"acc = acc * tl.maximum(tl.minimum(tl.load({gate} + i), 2.0), 0.5)" if self.sums ==
                               "float32" else f"acc += tl.load({gate} + i).to(tl.int32)")
        if self.chance(.1):
            out = self.array("sum_int32", "int32", 1024, "zero")
            self.inside.append(f"tl.atomic_add({out} + tl.arange(0, {n}), (tl.arange(0, {n}) + i).to(tl.int32))")

    def workspace(self):
        """What the program stores ahead of the loop and loads again, there or in the loop."""
        m, n = self.m, self.n
        kind = self.pick("float32", "float16")
        area = m * n + 16
        array = self.array(f"mem_{kind}", kind, self.programs() * area, "zero")
        own = f"{array} + number * {area}"
        self.ahead.append(f"tl.store({own} + {self.along((m, n), 0)} * {n} + {self.along((m, n), 1)}, "
                          f"{self.loaded('in_first', kind, (m, n), m, n, '0', '0')} + x)")
        again = f"tl.load({own} + {self.along((m, n), 0)} + {self.along((m, n), 1)} * {m})"
        lines = self.pick(self.ahead, self.inside, self.behind)
        lines.append(f"acc += {again}.to(tl.{self.sums})")

    def epilogue(self):
        for name, shape in self.results:
            size = 1
            for extent in shape:
                size *= extent
            type_ = self.sums
            value = name
            if name == "acc" and self.sums == "float32" and self.chance(.4):
                type_ = self.pick("float16", "bfloat16")
                value = self.limited(name, type_) if self.chance(.7) else f"(acc * 0.0625).to(tl.{type_})"
            out = self.array(f"out_{name}_{type_}", type_, self.programs() * size + 16, "zero")
            self.arrays[out]["offset"] = self.pick(0, 0, 0, 0, 1, 8)
            index = self.along(shape, 0) if len(shape) == 1 else f"{self.along(shape, 0)} * {shape[1]} + {self.along(shape, 1)}"
            mask = f", mask={self.along(shape, 0)} < {self.pick(shape[0] // 2, shape[0] - 3)}" if self.chance(.3) else ""
            if len(shape) == 2 and not mask and self.chance(.2) and shape[1] * BITS[type_] >= 128:
                self.arrays[out]["offset"] = 0
                self.behind.append(f"tl.make_tensor_descriptor({out}, [{self.programs() * shape[0]}, {shape[1]}], [{shape[1]}, 1], "
                                   f"{list(shape)}).store([number * {shape[0]}, 0], {value})")
            else:
                self.behind.append(f"tl.store({out} + number * {size} + {index}, {value}{mask})")
        seen = self.array("out_seen", "int32", self.programs(), "zero")
        self.behind.append(f"tl.store({seen} + number, x + 100 * y + 10000 * z + 7 * tl.num_programs(1))")

    def write(self):
        self.results = [("acc", (self.m, self.n))]
        self.numbers["K"], self.numbers["scale"] = self.depth, self.pick(1, 2, 3)
        self.ahead += ["x, y, z = tl.program_id(0), tl.program_id(1), tl.program_id(2)",
                       "number = (z * tl.num_programs(1) + y) * tl.num_programs(0) + x",
                       f"acc = tl.full(({self.m}, {self.n}), {self.pick(0, 0, 0, 1, 3)}, tl.{self.sums})"]
        self.put_loop()
        self.product()
        self.extras()
        if self.chance(.25):
            self.workspace()
        self.epilogue()
        lines = [*self.ahead, *self.lines, *(f"    {line}" for line in self.inside), *self.behind]
        names = [*self.arrays, *self.numbers]
        self.random.shuffle(names)
        return f"@triton.jit\ndef kernel({', '.join(names)}):\n" + "".join(f"    {line}\n" for line in lines)
