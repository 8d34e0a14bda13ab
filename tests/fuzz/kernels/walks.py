"""Loops through memory: pointers, indices, masks and tiles that an iteration hands to the next, with steps, bounds and conditions
that are known at run time alone, and loops that are left."""

from memory import FLOAT8, FLOATS, INTEGERS, MOST_OFFSET

ITERATIONS = 12  # of a loop, at most
FARTHEST = MOST_OFFSET // 2 // ITERATIONS  # that a pointer goes in one


class Walks:
    """Of a Kernel, which has all that is used here."""

    # ---- Heads of loops

    def signed(self, value):
        """A number of the text, or a parameter that has the value."""
        if self.chance(.4):
            return str(value)
        name = f"c{value}" if value >= 0 else f"less{-value}"
        self.numbers[name] = value
        return name

    def bounds(self):
        """Texts of begin, end and step; ITERATIONS at most."""
        step = self.pick(1, 1, 2, 3, 7, 16, -1, -1, -2, -5, -16)
        first = self.pick(0, 0, 0, 1, -4, 5, 64)
        last = first + step * self.pick(0, 1, 2, 3, 4, 5) + self.pick(0, 0, -1, 1)
        begin, end = self.signed(first), self.signed(last)
        if abs(step) < 4 and self.chance(.4):
            begin, end = (self.pick("0", "pid", "n", "m"), self.pick("n", "m", "5")) if step > 0 else (self.pick(
                "n", "m", "5"), self.pick("-1", "0", "pid", "m"))
        if end.isidentifier() and self.chance(.2):
            end = f"{end}.to(tl.{'uint32' if step > 0 and first >= 0 and not end.startswith('less') and self.chance(.5) else 'int64'})"
        return begin, end, self.signed(step)

    def counted(self):
        """The head of a loop: the counter's name and lines at the end of the body; None for those of loops that are unrolled."""
        counter, (begin, end, step) = self.new_name("i"), self.bounds()
        if self.work == 1 and self.chance(.15):  # unrolled; where that is long, rolled into a loop again
            copies = self.pick("2", "5", "8", "9", "11") if not self.large else self.pick("8", "9", "11")
            self.put(f"for {counter} in tl.static_range({self.pick(copies, copies, f'{copies}, -1, -1', f'1, {copies}, 2')}):")
            return counter, None
        if self.chance(.75):
            options = self.loop_options() if self.chance(.6) else ""
            self.put(f"for {counter} in tl.range({begin}, {end}, {step}{options}):")
            return counter, []
        going = f"{counter} {'>' if step[0] in '-l' else '<'} {end}"
        self.put(f"{counter} = {begin} + pid * 0")
        if self.chance(.4):  # with a load in the condition
            table = self.array("in_int32", "int32")
            going = f"({going}) {self.pick('&', 'and')} (tl.load({table} + {counter} + 128) {self.pick('<', '!=')} {self.pick(19, 3)})"
        self.put(f"while {going}:")
        return counter, [f"{counter} += {step}"]

    # ---- What a loop carries

    def walk(self):
        """A loop that loads where pointers go."""
        found = self.known(types=INTEGERS + FLOATS)
        if not found or self.work > 16:
            return self.assign()
        total, shape, type_ = self.random.choice(found)
        given = type_ if self.chance(.7) else self.pick(*self.types, "int8", "bfloat16")
        body, ahead, behind = [], [], []
        load = self.pick(self.pointers, self.pointers, self.base, self.indices, self.block_pointer if len(shape) == 2 else self.base)(
            shape, given, ahead, behind)
        name = self.new_name("w")
        if self.chance(.3):  # what an iteration has loaded is used by the next
            last = self.new_name("l")
            ahead.append(f"{last} = {load}" if self.chance(.5) else f"{last} = tl.zeros({list(shape)}, tl.{given})")
            body += self.pick([f"{name} = {last}", f"{last} = {load}"], [f"{name} = {load}", f"{last}, {name} = {name}, {last}"])
        else:
            body.append(f"{name} = {load}")
        body += self.used(total, type_, name, given, shape)
        if self.depth == 1 and self.chance(.35):
            self.stores(name, shape, given, ahead, body, behind)
        self.put(*ahead)
        counter, ends = self.counted()
        leaves = self.leaving(counter) if ends is not None else []
        ends = ends or []
        if leaves and leaves[1] == "    continue" and ends:
            leaves[1:2] = [f"    {ends[0]}", "    continue"]
        place = self.pick(0, len(body))
        if leaves and leaves[-1] == "    continue" and self.chance(.5):  # pointers go on all the same
            leaves[1:1] = [f"    {line}" for line in behind]
        body[place:place] = leaves
        self.depth += 1
        self.work *= 4
        self.counters.append(counter)
        self.put(*body)
        if self.chance(.3) and not ends:
            self.within(lambda: self.statement(0))
        self.put(*behind, *ends)
        self.counters.pop()
        self.work //= 4
        self.depth -= 1

    def within(self, write):
        """What is known within a block is not behind it."""
        tiles = list(self.tiles)
        write()
        self.tiles = tiles

    def used(self, total, type_, name, given, shape):
        value = self.converted((name, shape, given), type_)
        if type_ in FLOATS:
            return [f"{total} = {self.bounded(f'({total} {self.pick(*chr(43) + chr(45))} {value})', type_)}"]
        lines = [f"{total} = ({total} {self.pick('+', '^', '-', '|')} {value}).to(tl.{type_})"]
        if self.chance(.3):
            lines = [f"if {self.scalar_condition()}:", f"    {lines[0]}"]
            if self.chance(.5):
                lines += ["else:", f"    {total} = ({total} + 1).to(tl.{type_})"]
        return lines

    def leaving(self, counter):
        """An end of the loop or of an iteration."""
        if self.chance(.8):
            return []
        table = self.array("in_int32", "int32")
        condition = self.pick(f"{counter} == {self.pick(0, 1, 2)}", f"{counter} % 2 == 1", f"tl.load({table} + {counter} + 200) > 2",
                              self.scalar_condition())
        return [f"if {condition}:", f"    {self.pick('break', 'continue', 'continue', 'return' if self.chance(.3) else 'break')}"]

    def far(self):
        """How far a pointer goes in an iteration: text."""
        step = self.pick(1, 4, 8, 16, 16, 32, 64, FARTHEST, 0, -1, -16, -64)
        return self.pick(self.signed(step), self.signed(step), self.pick("n", "m", "pid", "(n - m)", "n * 16"))

    def masked(self, shape, type_, ahead, behind):
        """Options of a load, whose mask the loop may change."""
        if self.chance(.5):
            return ""
        other = f", other={self.other(type_)}" if self.chance(.8) else ""
        if self.chance(.5):
            return f", mask={self.mask(shape)}{other}"
        mask = self.new_name("k")
        ahead.append(f"{mask} = tl.broadcast_to({self.mask(shape)}, {list(shape)})")
        behind.append(f"{mask} = {self.pick(f'~{mask}', f'{mask} & ({self.mask(shape)})', f'{mask} ^ ({self.mask(shape)})')}")
        return f", mask={mask}{other}"

    def source(self, type_):
        """A pointer into the middle of an array, so that it may go either way."""
        return f"{self.array(f'in_{type_}', type_)} + {self.pick(MOST_OFFSET // 2, MOST_OFFSET // 2 - 8, MOST_OFFSET // 2 - 3)}"

    def pointers(self, shape, type_, ahead, behind):
        """A tile of pointers."""
        p = self.new_name("p")
        ahead.append(f"{p} = {self.source(type_)} + ({self.places_within(self.length - 2 * MOST_OFFSET, shape)})")
        behind.append(f"{p} {self.pick('+=', '-=')} {self.far()}" if self.chance(.85) else
                      f"{p} = tl.where({self.mask(shape)}, {p}, {p} + {self.pick(1, 16)})")
        return f"tl.load({p}{self.masked(shape, type_, ahead, behind)})"

    def base(self, shape, type_, ahead, behind):
        """One pointer, from which offsets are taken."""
        p, o = self.new_name("p"), self.new_name("o")
        ahead += [f"{p} = {self.source(type_)}", f"{o} = {self.places_within(self.length - 2 * MOST_OFFSET, shape)}"]
        behind.append(f"{p} += {self.far()}")
        return f"tl.load({p} + {o}{self.masked(shape, type_, ahead, behind)})"

    def indices(self, shape, type_, ahead, behind):
        """Offsets that go on, around a bound, or are loaded."""
        o, array = self.new_name("o"), self.array(f"in_{type_}", type_)
        bound = self.pick(1 << 10, 1 << 12, 1000, 6 << 9)
        wide = self.pick(".to(tl.int32)", ".to(tl.int32)", ".to(tl.int64)", ".to(tl.uint32)")
        ahead.append(f"{o} = (({self.places(shape)[0]}) % {bound}){wide}")
        table = self.array("in_int32", "int32")
        again = [f"({o} + {self.pick(1, 16, 64, 100)}) % {bound}"]
        if wide == ".to(tl.int32)":
            again += [f"({o} + {self.signed(16)}) % {bound}", f"tl.load({table} + {o}) & 1023", f"{bound - 1} - {o}"]
        if bound & (bound - 1) == 0:
            again += [f"({o} + {self.pick(1, 16, 64, 100)}) & {bound - 1}", f"({o} ^ {self.pick(1, 16, 5)})"]
        behind.append(f"{o} = {self.pick(*again)}")
        return f"tl.load({array} + {o}{self.masked(shape, type_, ahead, behind)})"

    def block_pointer(self, shape, type_, ahead, behind):
        if type_ in FLOAT8 or (shape[0] + 40) * (shape[1] + 60) > self.length:
            return self.base(shape, type_, ahead, behind)
        p = self.new_name("p")
        rows, cols = (d + self.pick(0, 0, -1, 5, 30) for d in shape)
        rows, cols = max(1, rows), max(1, cols)
        stride = (cols + 15) // 16 * 16
        turned = self.chance(.2)
        strides = f"({stride}, 1)" if not turned else f"(1, {(rows + 15) // 16 * 16})"
        at = f"({self.pick('0', 'n', 'pid')}, {self.pick('0', 'm', '8')})"
        array = self.array(f"in_{type_}", type_)
        ahead.append(f"{p} = tl.make_block_ptr({array}, ({rows}, {cols}), {strides}, {at}, {shape}, {'(1, 0)' if not turned else '(0, 1)'})")
        behind.append(f"{p} = tl.advance({p}, ({self.signed(self.pick(0, 0, 1, 8, -1))}, {self.signed(self.pick(0, 16, 8, 3, -4))}))")
        return f"tl.load({p}, boundary_check=(0, 1))"

    def stores(self, name, shape, type_, ahead, body, behind):
        """What is loaded, at places of its own in each iteration, or at the same ones in all."""
        q, array = self.new_name("q"), self.new_name("walk")
        places, span = self.places(shape, loads=False)
        span += self.pick(0, 0, 1, 16)
        if span * (ITERATIONS + 2) * 3 > 1 << 18:
            return
        out = self.array(f"{array}_{type_}", type_, span * (ITERATIONS + 2) * 3, "zero")
        ahead.append(f"{q} = {out} + pid * {span * (ITERATIONS + 2)} + ({places})")
        options = f", mask={self.mask(shape)}" if self.chance(.3) else ""
        body.append(f"tl.store({q}, {name}{options})")
        behind.append(f"{q} += {self.pick(self.signed(span), self.signed(span), '0')}")

    # ---- Tiles spread along axes

    def spread(self):
        """What an axis gives, along that axis again; rows by columns."""
        found = [t for t in self.known(types=INTEGERS[:4] + FLOATS) if len(t[1]) > 1]
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        name, axis, op = self.new_name("z"), self.random.randrange(len(shape)), self.pick("+", "-", "*")
        wide = "int64" if type_ in INTEGERS else "float32"
        x = f"{source}.to(tl.{wide})"
        if self.chance(.5):
            value = f"{x} {op} tl.{self.pick('sum', 'max', 'min')}({x}, {axis}, keep_dims=True)"
        else:
            other = self.random.choice([i for i in range(len(shape)) if i != axis] or [axis])
            parts = []
            for a in (axis, other):
                extents = tuple(n if i == a or i not in (axis, other) else 1 for i, n in enumerate(shape))
                parts.append(self.load(extents, wide))
            value = f"({parts[0]} {op} {parts[1]}) + {x}"
        if wide == "float32":
            value = self.bounded(value, wide)
        self.put(f"{name} = {value}")
        self.note(name, shape, wide)

    def thin_shape(self):
        """Long and thin, of extents of 1, of four axes."""
        long = self.pick(256, 512, 1024, 2048)
        shape = self.pick((1, long), (long, 1), (2, long // 2), (long // 2, 2), (long, ), (1, 16, long // 16), (16, 1, long // 16),
                          (long // 16, 16, 1), (2, 4, long // 32, 4), (1, 8, 1, long // 8), (4, 1, 2, long // 8), (long // 64, 4, 8, 2),
                          (1, ), (1, 1), (2, ), (4, ), (1, 4), (2, 2, 2, 2), (1, 32, 1))
        return shape

    def thin(self):
        name, shape, type_ = self.new_name("x"), self.thin_shape(), self.pick(*self.types, "int8", "float16", "int1")
        self.put(f"{name} = {self.load(shape, type_)}")
        self.note(name, shape, type_)
        if len(shape) > 3:
            dims = self.random.sample(range(len(shape)), len(shape))
            turned = self.new_name("y")
            self.put(f"{turned} = tl.permute({name}, {dims})")
            self.note(turned, tuple(shape[d] for d in dims), type_)

    def selected(self):
        """The largest elements, or those in order, of narrow types too."""
        found = [t for t in self.known(types=INTEGERS + FLOATS) if t[1][-1] & (t[1][-1] - 1) == 0 and t[1][-1] > 1]
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        name, most = self.new_name("t"), self.pick(*(k for k in (1, 2, 4, 8, 16, 64) if k <= shape[-1]))
        if self.chance(.7):
            self.put(f"{name} = tl.topk({source}, {most}).to(tl.{type_})")  # which widens
            return self.note(name, (*shape[:-1], most), type_)
        self.put(f"{name} = tl.flip(tl.sort({source}), {len(shape) - 1})")
        self.note(name, shape, type_)

    def combined_floats(self):
        """Extremes of floats by a function, along an axis."""
        found = self.known(types=["float16", "float32", "float64"])
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        name, axis, combine = self.new_name("r"), self.random.randrange(len(shape)), self.helper(self.pick("largest", "later"))
        less = shape[:axis] + shape[axis + 1:]
        if less and combine == "largest" and self.chance(.5):
            self.put(f"{name} = tl.reduce({source}, {axis}, {combine})")
            return self.note(name, less, type_)
        self.put(f"{name} = tl.associative_scan({source}, {axis}, {combine}{self.pick('', ', reverse=True')})")
        self.note(name, shape, type_)

    def counted_elements(self):
        """A histogram, of some of the elements perhaps."""
        found = [t for t in self.known(types=INTEGERS) if len(t[1]) == 1]
        if not found:
            return self.assign()
        source, shape, _ = self.random.choice(found)
        name, bins = self.new_name("h"), self.pick(8, 32, 64, 128)
        self.put(f"{name} = tl.histogram({source}, {bins}{self.pick('', f', mask={self.mask(shape)}')})")
        self.note(name, (bins, ), "int32")

    def early_end(self):
        """The end of some programs."""
        if self.depth > 1 or self.chance(.5):
            return self.assign()
        table = self.array("in_int32", "int32")
        self.put(f"if {self.pick('pid == 1', 'pid > 0', f'tl.load({table} + pid) > 1', '(n > m) & (pid != 0)')}:", "    return")

    def walking_statement(self):
        self.pick(self.walk, self.walk, self.walk, self.walk, self.addressed, self.addressed, self.spread, self.thin, self.selected, self.early_end, self.combined_floats,
                  self.counted_elements)()
