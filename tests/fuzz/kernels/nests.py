"""Matrix products as people write them: pointers that go on along K, masks of what K lacks, rows modulo their number, tiles of a
program one behind the other, two sums one behind the other, batches, operands of other types, scaled, and used twice."""

import re

from memory import BITS, FLOAT8, FLOATS, Memory

MOST_WORK = 1 << 22  # multiplications of a launch


class ProductNest(Memory):
    """A kernel being written."""

    def __init__(self, seed):
        super().__init__(seed)
        self.lines, self.depth, self.numbers = [], 1, {}
        self.kind = self.pick("float16", "float16", "float16", "bfloat16", "float32", "int8", *FLOAT8)
        self.sums = "int32" if self.kind == "int8" else "float32"
        self.warps = self.pick(1, 2, 4, 4, 4, 8, 8, 16)
        self.batched = self.chance(.1)
        self.nest = self.pick("one", "one", "tiles", "tiles", "twice", "rows", "inner", "taken") if not self.batched else "one"
        self.batch = self.pick(1, 2, 4) if self.batched else 1
        while True:
            self.bm, self.bn = (self.pick(16, 32, 64, 64, 128, *([8, 48, 96, 192, 256, 512] if self.chance(.15) else []))
                                for _ in range(2))
            self.bk = self.pick(16, 32, 32, 64, 128) if BITS[self.kind] != 8 else self.pick(32, 64, 128)
            self.tiles_m, self.tiles_n = self.pick(1, 1, 2, 3), self.pick(1, 1, 2, 3)
            self.steps = self.pick(0, 1, 1, 2, 3, 4, 5, 6)
            times = 3 if self.nest in ("twice", "inner") else 1
            if self.batch * self.bm * self.bn * self.bk * self.tiles_m * self.tiles_n * (self.steps + 1) * times <= MOST_WORK and (
                    self.batch * max(self.bm * self.bk, self.bk * self.bn, self.bm * self.bn) <= 16384):
                break
        self.exact = self.chance(.4)  # whether tiles fill the matrices
        self.m = self.tiles_m * self.bm - (0 if self.exact else self.pick(0, 1, 5, self.bm // 2, 8))
        self.n = self.tiles_n * self.bn - (0 if self.exact else self.pick(0, 1, 3, self.bn // 2, 8))
        self.k = max(0, self.steps * self.bk - (0 if self.exact else self.pick(0, 0, 1, 7, self.bk // 2, 16)))
        self.programs = self.pick(1, 2, 3) if self.nest in ("tiles", "taken") else self.tiles_m * self.tiles_n
        self.masked = self.k % self.bk != 0

    def put(self, *lines):
        self.lines += ["    " * self.depth + line for line in lines]

    def parameter(self, name, value):
        """A number that is known at run time, or a text."""
        if self.chance(.15):
            return str(value)
        self.numbers[name] = value
        return name

    # ---- Operands

    def matrix(self, name, type_, rows, cols):
        """Names of the array and its strides along rows and columns; one of these is 1."""
        turned = self.chance(.3)
        inner, outer = (rows, cols) if turned else (cols, rows)
        distance = max(1, inner) + self.pick(0, 0, 0, 1, 8, 24)
        if self.chance(.7):
            distance = (distance + 15) // 16 * 16
        self.array(name, type_, max(1, outer) * distance * self.batch + 64)
        self.arrays[name]["offset"] = self.pick(0, 0, 0, 0, 1, 8)
        far, near = self.parameter(f"far_{name}", distance), self.pick("1", "1", self.parameter(f"near_{name}", 1))
        area = max(1, outer) * distance
        return (name, near, far, area) if turned else (name, far, near, area)

    def named(self, name, value):
        self.put(f"{name} = {value}")
        return name

    def indices(self):
        """Names of rows and columns of the tile, and of places along K, as tiles of rank 1."""
        m, n = self.parameter("M", self.m), self.parameter("N", self.n)
        self.k_name = self.parameter("K", self.k)
        flat = lambda extent: self.along((extent, ), 0)
        wide = self.pick("", "", "", ".to(tl.int64)", ".to(tl.uint32)")
        self.put(f"rm = (tile_m * {self.bm} + {flat(self.bm)}){wide}", f"rn = tile_n * {self.bn} + {flat(self.bn)}",
                 f"rk = {flat(self.bk)}")
        self.row_mask, self.col_mask = ("rm < " + m, "rn < " + n) if not self.exact else (None, None)
        self.rows, self.cols = "rm", "rn"
        if not self.exact:  # rows that there are
            kind = self.pick("modulo", "modulo", "mask", "least")
            if kind == "modulo" and wide != ".to(tl.uint32)":
                self.put(f"am = {'rm' if wide else 'rm.to(tl.int32)'} % {m}", f"bn = rn.to(tl.int32) % {n}")
            elif kind == "least" and wide == "":
                self.put(f"am = tl.minimum(rm, {m} - 1)", f"bn = tl.where(rn < {n}, rn, 0)")
            else:
                self.loads_masked = True
                self.put("am = rm", "bn = rn")
            self.rows, self.cols = "am", "bn"
        elif self.chance(.3):
            self.put(f"am = {self.permuted('rm', self.m)}")
            self.rows = "am"

    loads_masked = False

    def operand(self, label, is_left):
        """Lines ahead of the loop, the load, lines at an iteration's end."""
        type_ = self.kind
        if self.kind in ("float16", "bfloat16", "float32") and self.chance(.25):
            type_ = self.pick("int8", "int8", "uint8", "float32", "float16", *FLOAT8)
        rows, cols = (self.m, self.k) if is_left else (self.k, self.n)
        array, by_row, by_col, area = self.matrix(f"in_{label}", type_, rows, cols)
        r, c = (self.rows, "rk") if is_left else ("rk", self.cols)
        head = "None, " if self.batched else ""
        r2, c2 = f"{r}[{head}:, None]", f"{c}[{head}None, :]"
        places = f"{r2} * {by_row} + {c2} * {by_col}"
        if self.batched:
            places = f"b0[:, None, None] * {area} + {places}"
        along, step = ("rk[%s%s]" % (head, "None, :" if is_left else ":, None")), (by_col if is_left else by_row)
        masks = []
        rest = f"{self.k_name} - k * {self.bk}" if self.counts else f"{self.k_name} - k"
        first = f"k * {self.bk}" if self.counts else "k"
        if self.masked or self.chance(.15):
            masks.append(self.pick(f"({along} < {rest})", f"({first} + {along} < {self.k_name})"))
        if self.loads_masked:
            masks.append(f"({r2 if is_left else c2} < {self.parameter('M', self.m) if is_left else self.parameter('N', self.n)})")
        options = f", mask={' & '.join(masks)}" if masks else ""
        if options and (self.masked or self.chance(.7)):
            options += f", other={self.pick('0', '0', '0.0') if type_ not in FLOAT8 else '0.0'}"
            if type_ not in FLOATS + FLOAT8:
                options = options.replace("0.0", "0")
        p = f"p_{label}"
        forms = ["tile", "tile", "base", "again"]
        if not self.batched and not self.loads_masked and self.rows in ("rm", "am") and type_ not in FLOAT8 and self.exact and not self.masked:
            forms += ["block"]
        form = self.pick(*forms) if not self.goes_back else "again"
        if form == "tile":
            self.put(f"{p} = {array} + ({places})")
            return f"tl.load({p}{options})", [f"{p} += {self.pick(f'{self.bk} * {step}', f'{step} * {self.bk}')}"], type_
        if form == "base":
            self.put(f"{p} = {array}", f"o_{label} = {places}")
            return f"tl.load({p} + o_{label}{options})", [f"{p} += {self.bk} * {step}"], type_
        if form == "block" and self.rows == "rm":
            shape, at = ((self.bm, self.bk), f"(tile_m * {self.bm}, 0)") if is_left else ((self.bk, self.bn), f"(0, tile_n * {self.bn})")
            order = "(1, 0)" if by_col in ("1", f"near_in_{label}") else "(0, 1)"
            self.put(f"{p} = tl.make_block_ptr({array}, ({rows}, {cols}), ({by_row}, {by_col}), {at}, {shape}, {order})")
            ahead = f"(0, {self.bk})" if is_left else f"({self.bk}, 0)"
            return f"tl.load({p}, boundary_check=({self.pick('0, 1', '0', '1')},))", [f"{p} = tl.advance({p}, {ahead})"], type_
        return f"tl.load({array} + ({places} + {first} * {step}){options})", [], type_

    def converted(self, value, type_, shape, is_left):
        """The operand in the type of the product, at times computed."""
        if type_ != self.kind:
            if type_ == "uint8":
                value = f"({value} & 7)"
            value = f"{value}.to(tl.{self.kind})" if self.kind not in FLOAT8 else value
        if self.kind in FLOAT8 or self.batched or self.chance(.6):
            return value
        if self.kind == "int8":
            return self.pick(f"({value} & 7)", f"tl.where({value} > 0, {value}, 0).to(tl.int8)", f"(-{value})")
        scales = self.array("in_scales", "float32", 4096)
        axis = self.pick(0, 1)
        index = ("rk" if (axis == 1) == is_left else (self.rows if is_left else self.cols))
        index = f"tl.load({scales} + ({index} & 63))"
        spread = f"{index}[{'None, :' if axis else ':, None'}]"
        wide = f"{value}.to(tl.float32)"
        scaled = f"tl.minimum(tl.maximum({wide} * {spread}, -8.0), 8.0)"
        return self.pick(f"{scaled}.to(tl.{self.kind})", f"({wide} + {spread}).to(tl.{self.kind})", f"(tl.abs({value}) * 0.5).to(tl.{self.kind})",
                         f"tl.where({spread} > 0, {value}, 0.0).to(tl.{self.kind})")

    # ---- Loops

    def product_loop(self, label=""):
        self.counts, self.goes_back = self.chance(.5), self.chance(.12)
        left, left_ends, left_type = self.operand(f"a{label}", True)
        right, right_ends, right_type = self.operand(f"b{label}", False)
        options = self.pick("", "", "", ", num_stages=1", ", num_stages=2", ", num_stages=3", ", num_stages=5", ", warp_specialize=True")
        k, bk = self.k_name, self.bk
        ends = left_ends + right_ends
        if self.goes_back and self.counts:
            self.put(f"for k in tl.range(tl.cdiv({k}, {bk}) - 1, -1, -1{options}):")
        elif self.goes_back:
            self.put(f"for k in tl.range((tl.cdiv({k}, {bk}) - 1) * {bk}, -1, -{bk}{options}):")
        elif self.chance(.08):
            self.put("k = pid * 0", f"while k < {f'tl.cdiv({k}, {bk})' if self.counts else k}:")
            ends.append("k += 1" if self.counts else f"k += {bk}")
        else:
            end, step = (f"tl.cdiv({k}, {bk})", "") if self.counts else (k, f", {bk}")
            if k.isidentifier() and self.chance(.2):  # in which the loop counts
                end = f"{end}.to(tl.{self.pick('uint32', 'uint32', 'int64', 'uint64')})"
            self.put(f"for k in {self.pick(f'range(0, {end}{step})', f'tl.range(0, {end}{step}{options})')}:")
        self.depth += 1
        a = self.converted(left, left_type, (self.bm, bk), True)
        b = self.converted(right, right_type, (bk, self.bn), False)
        if self.chance(.5):
            a, b = self.named("a", a), self.named("b", b)
        precision = ', input_precision="ieee"' if self.kind == "float32" and self.chance(.5) else ""
        dot = f"tl.dot({a}, {b}{precision})"
        forms = [f"acc = tl.dot({a}, {b}, acc{precision})"] * 2 + [f"acc += {dot}"]
        if self.sums == "float32":
            forms += [f"acc = acc * 0.5 + {dot}", f"acc += {dot} * 0.25", f"acc = tl.maximum({dot}, acc)"]
        if self.chance(.1):
            table = self.array("in_int32", "int32", 4096)
            self.put(f"if {self.pick('k % 2 == 0', f'tl.load({table} + k) > 0', 'k > 0', f'{self.program} == 0')}:", f"    {forms[0]}")
        else:
            self.put(self.pick(*forms))
        if a == "a" and self.kind not in FLOAT8 and not self.batched and self.chance(.25):
            self.used_twice = True
            self.put(self.pick("sum_a += tl.sum(a.to(tl.float32), 1)", "sum_a += tl.sum(tl.abs(a).to(tl.float32), 1)",
                               "sum_a = tl.maximum(sum_a, tl.max(a.to(tl.float32), 1))"))
        if self.chance(.12) and not self.batched:
            self.put(f"acc = tl.minimum(tl.maximum(acc, {self.pick('-100', '-7')}), {self.pick('100', '64')})")
        if self.chance(.08) and not self.batched:
            self.used_twice = True
            self.put("sum_a += tl.max(acc, 1).to(tl.float32)")
        self.put(*ends)
        self.depth -= 1

    def own_area(self, name, type_, size):
        """A pointer to what only this tile of the result writes."""
        out = self.array(f"out_{name}_{type_}", type_, self.tiles_m * self.tiles_n * size, "zero")
        return f"{out} + (tile_m * {self.tiles_n} + tile_n) * {size}"

    def epilogue(self):
        """What is computed of the sums."""
        m, n = self.bm, self.bn
        kind = self.pick("loaded", "loaded", "row", "column", "index", "pairs", "turned", "running", "cut")
        if kind == "loaded":
            self.add_loaded()
        elif kind == "row":
            self.put(self.pick("acc = acc - tl.max(acc, 1)[:, None]", "acc = acc + tl.sum(acc, 1, keep_dims=True)",
                               "acc = acc - tl.min(acc, 0)[None, :]"))
        elif kind == "column":
            axis = self.pick(0, 1)
            size = (n, m)[axis]
            self.put(f"tl.store({self.own_area(f'along{axis}', self.sums, size)} + {self.along((size, ), 0)}, tl.sum(acc, {axis}))")
        elif kind == "index":
            self.put(f"tl.store({self.own_area('index', 'int32', m)} + {self.along((m, ), 0)}, tl.argmax(acc, 1))")
        elif kind == "pairs" and n & (n - 1) == 0:
            half = (m, n // 2)
            place = f"{self.along(half, 0)} * {n // 2} + {self.along(half, 1)}"
            self.put(f"left, right = tl.split(tl.reshape(acc, ({m}, {n // 2}, 2)))",
                     f"tl.store({self.own_area('pairs', self.sums, m * n // 2)} + {place}, {self.pick('left - right', 'tl.maximum(left, right)')})")
        elif kind == "turned":
            place = f"{self.along((n, m), 0)} * {m} + {self.along((n, m), 1)}"
            self.put(f"tl.store({self.own_area('turned', self.sums, m * n)} + {place}, tl.trans(acc))")
        elif kind == "running" and self.sums == "int32":
            self.put(f"acc = tl.cumsum(acc, {self.pick(0, 1)})")
        else:
            self.put("acc = tl.where(acc > 0, acc, 0)")

    def add_loaded(self):
        kind = "float32" if self.sums == "float32" else "int32"
        if self.chance(.5):
            bias = self.array(f"in_bias_{kind}", kind, 4096)
            index = self.pick("(rn & 1023)", "rn")
            return self.put(f"acc += tl.load({bias} + {index})[None, :]")
        other = self.array(f"in_other_{kind}", kind, self.tiles_m * self.tiles_n * self.bm * self.bn + 16)
        self.arrays[other]["offset"] = self.pick(0, 0, 1, 4)
        stride = self.tiles_n * self.bn
        mask = f", mask=(rm[:, None] < {self.parameter('M', self.m)}) & (rn[None, :] < {self.parameter('N', self.n)}), other=0"
        self.put(f"acc += tl.load({other} + rm[:, None] * {stride} + rn[None, :]{self.pick('', mask)})")

    def shares_summed(self):
        """The sums of a batch, as of shares of K."""
        places = f"rm[:, None] * {self.tiles_n * self.bn} + rn[None, :]"
        out = self.array(f"out_shares_{self.sums}", self.sums, self.tiles_m * self.tiles_n * self.bm * self.bn, "zero")
        self.put(f"tl.store({out} + {places}, tl.{self.pick('sum', 'sum', 'max')}(acc, 0))")

    def stored(self):
        if not self.batched and self.chance(.4):
            self.epilogue()
        if self.batched and self.chance(.5):
            self.shares_summed()
        type_, value = self.sums, "acc"
        if self.sums == "float32" and self.chance(.3):
            type_, value = "float16", "tl.minimum(tl.maximum(acc, -64.0), 64.0).to(tl.float16)"
        distance = self.n + self.pick(0, 1, 5)
        distance = (distance + 15) // 16 * 16 if self.chance(.6) else distance
        out = self.array(f"out_{type_}", type_, self.batch * self.m * distance + 64, "zero")
        self.arrays[out]["offset"] = self.pick(0, 0, 0, 1, 8)
        stride = self.parameter("s_out", distance)
        if self.batched:
            places = f"b0[:, None, None] * {self.m * distance} + rm[None, :, None] * {stride} + rn[None, None, :]"
            mask = "(rm[None, :, None] < %s) & (rn[None, None, :] < %s)"
        else:
            places, mask = f"rm[:, None] * {stride} + rn[None, :]", "(rm[:, None] < %s) & (rn[None, :] < %s)"
        if self.exact and self.chance(.1) and not self.batched and type_ != "float16":
            return self.put(f"tl.atomic_add({out} + {places}, {value})")
        options = ", mask=" + mask % (self.parameter("M", self.m), self.parameter("N", self.n)) if not self.exact else ""
        self.put(f"tl.store({out} + {places}, {value}{options})")
        if not self.batched:
            sums = self.array("out_sums", "float32", self.tiles_m * self.tiles_n * self.bm, "zero")
            self.put(f"tl.store({sums} + (tile_m * {self.tiles_n} + tile_n) * {self.bm} + {self.along((self.bm, ), 0)}, sum_a)")

    def tile_numbers(self, number):
        """Of a tile: in rows, in columns, or in groups of rows."""
        across = self.parameter("across", self.tiles_n)
        kind = self.pick("rows", "columns", "groups") if self.tiles_m > 1 else "rows"
        if kind == "rows":
            return self.put(f"tile_m = {number} // {across}", f"tile_n = {number} % {across}")
        down = self.parameter("down", self.tiles_m)
        if kind == "columns":
            return self.put(f"tile_n = {number} // {down}", f"tile_m = {number} % {down}")
        self.put(f"group = {number} // (2 * {across})", f"left = tl.minimum({down} - group * 2, 2)",
                 f"tile_m = group * 2 + {number} % (2 * {across}) % left", f"tile_n = {number} % (2 * {across}) // left")

    def tile(self):
        """One tile of the result."""
        shape = f"({self.bm}, {self.bn})" if not self.batched else f"({self.batch}, {self.bm}, {self.bn})"
        if self.batched:
            self.put(f"b0 = {self.along((self.batch, ), 0)}")
        self.indices()
        self.put(f"acc = tl.full({shape}, {self.pick(0, 0, 0, 1)}, tl.{self.sums})")
        if not self.batched:
            self.put(f"sum_a = tl.zeros(({self.bm},), tl.float32)")
        if self.nest == "inner":
            self.put(f"for again in range({self.pick('2', 'n', 'pid + 1')}):")
            self.numbers["n"] = self.pick(0, 1, 2)
            self.depth += 1
        self.product_loop()
        if self.nest == "inner":
            self.depth -= 1
        if self.nest == "twice":
            self.product_loop("2")
        self.stored()

    def write(self):
        self.put("pid = tl.program_id(0)")
        if self.nest == "tiles":
            tiles = self.parameter("tiles", self.tiles_m * self.tiles_n)
            options = self.pick("", "", ", flatten=True", ", num_stages=2", ", warp_specialize=True")
            self.put(f"for tile in tl.range(pid, {tiles}, tl.num_programs(0){options}):")
            self.depth += 1
            self.tile_numbers("tile")
            self.tile()
            self.depth -= 1
        elif self.nest == "taken":  # the next one that no program has: by which program is not known
            self.program = "tile_m"
            counter = self.array("counter", "int32", 4, "zero")
            taken = f"tile = tl.atomic_add({counter}, 1)"
            self.put(taken, f"while tile < {self.parameter('tiles', self.tiles_m * self.tiles_n)}:")
            self.depth += 1
            self.tile_numbers("tile")
            self.tile()
            self.put(taken)
            self.depth -= 1
        elif self.nest == "rows":  # a program has a column of tiles
            self.programs = self.tiles_n
            self.put("tile_n = pid", f"for tile_m in range({self.pick('0', 'pid * 0')}, {self.parameter('down', self.tiles_m)}):")
            self.depth += 1
            self.tile()
            self.depth -= 1
        else:
            self.tile_numbers("pid")
            self.tile()
        text = "\n".join(self.lines)
        self.numbers = {name: value for name, value in self.numbers.items() if re.search(rf"\b{name}\b", text)}
        names = [*self.arrays, *self.numbers]
        self.random.shuffle(names)
        return f"@triton.jit\ndef kernel({', '.join(names)}):\n{text}\n"
