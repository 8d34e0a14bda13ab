"""Statements of random kernels that compilers treat in ways of their own: divisions of 64 bits, powers, inline assembly, atomic
operations that give what was there, functions of two tiles, and tiles in other shapes."""

import math

from assembly import FORMS, MOST_OFFSET
from memory import FLOATS, INTEGERS

ORDERS = ["", ', sem="relaxed"', ', sem="acquire"', ', sem="release"', ', sem="acq_rel"']
SCOPES = ["", "", ', scope="cta"', ', scope="gpu"', ', scope="sys"']


def is_extent(n):
    """Whether a tile may have it."""
    return n // (n & -n) <= 31


class Statements:
    """Of a Kernel, which has all that is used here."""

    # ---- Divisions

    def divisor(self, shape, type_):
        """Of one number for all elements, or of one for each; none is 0."""
        number = f"{self.pick('n', 'm', 'pid')}.to(tl.{type_})"
        one = self.pick(f"({number} * {self.pick(1, 2, 1000003, 4294967311)} + {self.pick(1, 7, 1 << 20, 4294967296)})",
                        self.pick("3", "7", "10", "12", "64"), self.pick("1000", "8589934593", "4294967296", "68719476736"))
        if type_ == "int64" and self.chance(.3):
            one = self.pick(f"({number} * -3 + 1)", "-1", "-9", "-8589934592")
        kind = self.random.random()
        if kind < .6:
            return one
        if kind < .8:
            return f"({self.tile(shape, type_)} | 1)"
        return f"tl.where({self.condition(shape)}, {one if not one.lstrip('-').isdigit() else f'{number} + 5'}, 1)"

    def dividend(self, shape, type_, before):
        x = self.random.choice(before) if before and self.chance(.3) else self.tile(shape, type_)
        kind = self.random.random()
        if kind < .4:
            return x
        if kind < .7:
            return f"({x} * {self.pick(3, 4294967311, 1 << 33, 1000000007)} + {self.tile(shape, type_)})"
        if kind < .85:
            return f"({x} + {self.pick('n', 'm', 'pid')}.to(tl.{type_}) * {self.pick(1, 4294967311, 977)})"
        return f"({self.pick('n', 'm', 'pid')}.to(tl.{type_}) * {self.pick(4294967311, 977)} + {self.pick(5, 1 << 34)})"

    def divided(self):
        """Quotients and remainders of 64-bit numbers, some by one divisor, some under a branch, some of each other."""
        type_ = self.pick("int64", "int64", "uint64")
        found = self.known(types=[type_])
        shape = self.random.choice(found)[1] if found and self.chance(.6) else self.shape()
        result, before = self.new_name("q"), []
        self.put(f"{result} = {self.tile(shape, type_)}")
        self.note(result, shape, type_)
        branches = self.chance(.3)
        if branches:
            self.put(f"if {self.scalar_condition()}:")
            self.depth += 1
        shared = self.divisor(shape, type_)
        if not shared.lstrip("-").isdigit():  # numbers of the text take the type of what they meet
            by = self.new_name("d")
            self.put(f"{by} = {shared}")
            shared = by
        for _ in range(self.pick(1, 2, 3, 4)):
            name = self.new_name("q")
            divisor = shared if self.chance(.8) else self.divisor(shape, type_)
            x = self.dividend(shape, type_, before)
            self.put(f"{name} = {x} {self.pick('//', '%')} {divisor}")
            before.append(name)
        self.put(f"{result} = {result} {self.pick('+', '^')} {f' {self.pick(chr(43), chr(94))} '.join(before)}")
        if branches:
            self.depth -= 1

    # ---- Powers

    def powers(self):
        """Sums and differences of powers, which may not be contracted."""
        type_ = self.pick("float32", "float32", "float64")
        shape = self.shape() if not self.tiles or self.chance(.5) else self.random.choice(self.tiles)[1]
        x, y = (f"{self.bounded(self.tile(shape, type_), type_)}" for _ in range(2))
        a, b, name = (self.new_name("b") for _ in range(3))
        self.put(f"{a} = {x}", f"{b} = {y}")
        if self.chance(.5):  # with digits that products round
            self.put(f"{a} = {a} * {self.pick('1.1', '0.3', '3.7')}", f"{b} = {b} * {self.pick('1.7', '0.9')}")
        power = lambda v: f"{v} ** {self.pick(2, 2, 2, 3, 4, 1)}"
        value = self.pick(f"{power(a)} - {power(b)}", f"{power(a)} + {power(b)}", f"{power(f'({a} - {b})')} + {a}",
                          f"{a} - {power(b)}", f"{power(a)} - {a} * 2.0", f"({power(a)}) * {b} + {power(b)}")
        self.put(f"{name} = {value}")
        self.note(name, shape, type_)

    # ---- Inline assembly

    def assembled(self):
        """Inline assembly over tiles."""
        text, constraints, arguments, results, pack, _ = self.random.choice(FORMS)
        found = self.known(types=arguments)
        shape = self.random.choice(found)[1] if found and self.chance(.8) else self.shape()
        given, numbers = [], {}
        for kind in arguments:
            if kind == "*":
                given.append(f"{self.array('in_int32', 'int32')} + {self.places_within(self.length - MOST_OFFSET, shape)}")
            elif isinstance(kind, int):
                given.append(str(kind))
            elif kind not in numbers or self.chance(.7):
                numbers[kind] = self.tile(shape, kind)
                given.append(numbers[kind])
            else:
                given.append(numbers[kind])
        names = [self.new_name("a") for _ in results]
        types = f"tl.{results[0]}" if len(results) == 1 else f"({', '.join('tl.' + r for r in results)})"
        pure = self.chance(.7) and "*" not in arguments
        self.put(f'{", ".join(names)} = tl.inline_asm_elementwise("{text}", "{constraints}", [{", ".join(given)}], {types}, '
                 f"{pure}, {pack})")
        for name, type_ in zip(names, results):
            self.note(name, shape, type_)

    # ---- Atomic operations that give what was there

    def exchanged(self):
        """On elements of the program's own, each of which one element of the tile accesses: the old values are known."""
        types = ["int32", "int64", "uint32", "uint64"]
        found = self.known(types=types)
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        array = self.array(f"own_{type_}", type_, 8 * self.length)
        area = 2 * self.length
        at = f"{array} + pid * {area} + ({self.places_within(area, shape, loads=False)})"
        name, order = self.new_name("o"), self.pick(*ORDERS) + self.pick(*SCOPES)
        kind = self.pick("add", "max", "min", "xor", "or", "and", "xchg", "cas", "cas")
        if kind == "cas":
            expected = self.pick(self.tile(shape, type_), f"tl.full({list(shape)}, {self.pick(0, 1, 5)}, tl.{type_})")
            self.put(f"{name} = tl.atomic_cas({at}, {expected}, {source}{order})")
        elif self.chance(.3):
            mask = self.mask(shape)
            self.put(f"{name} = tl.atomic_{kind}({at}, {source}, mask={mask}{order})",
                     f"{name} = tl.where({mask}, {name}, 3)")
        else:
            self.put(f"{name} = tl.atomic_{kind}({at}, {source}{order})")
        self.note(name, shape, type_)

    def repeated(self):
        """Accesses by one tile of pointers, which may have places more than once: each sees what those before have done."""
        type_, area, shape = self.pick("int32", "int64", "uint32"), 2 * self.length, self.shape()
        places, p = self.places_within(area, shape), self.new_name("p")
        if self.chance(.7):
            places = f"({places}) {self.pick('% 8', '% 100', '// 2', '// 16', '& 12')}"
        self.put(f"{p} = {self.array(f'own_{type_}', type_, 8 * self.length)} + pid * {area} + ({places})")
        for _ in range(self.pick(2, 3, 4)):
            mask = f", mask={self.mask(shape)}" if self.chance(.2) else ""
            by, form = self.pick(1, 3, 7), self.random.random()
            if form < .35:
                self.put(f"tl.atomic_{self.pick('add', 'add', 'max', 'xor')}({p}, {by}{mask})")
            elif form < .65:
                self.put(f"tl.store({p}, tl.load({p}) + {by}{mask})")
            else:
                name = self.new_name("o")
                self.put(f"{name} = tl.load({p})")
                self.note(name, shape, type_)

    # ---- Tiles in another shape

    def factors(self, elements, most=3):
        """Extents whose product is the number."""
        shape = [elements]
        for _ in range(self.pick(*range(most))):
            i = self.random.randrange(len(shape))
            divisors = [d for d in (2, 2, 3, 4, 5, 8, 16, 32, 64, 256, 1024) if shape[i] % d == 0 and shape[i] > d]
            divisors = [d for d in divisors if is_extent(d) and is_extent(shape[i] // d)]
            if not divisors:
                break
            d = self.random.choice(divisors)
            shape[i:i + 1] = self.pick([d, shape[i] // d], [shape[i] // d, d])
        return tuple(shape)

    def reshaped(self):
        """A tile in another shape, or the halves of one in pairs."""
        found = self.known(types=INTEGERS + FLOATS)
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        elements, name = math.prod(shape), self.new_name("y")
        if not is_extent(elements):
            return self.assign()
        if elements % 2 == 0 and elements > 2 and self.chance(.5):
            less = self.factors(elements // 2, 2)
            self.put(f"{name}, {name}b = tl.split(tl.reshape({source}, {[*less, 2]}))")
            self.note(name + "b", less, type_)
            return self.note(name, less, type_)
        new = self.factors(elements)
        self.put(f"{name} = tl.reshape({source}, {list(new)})")
        self.note(name, new, type_)

    # ---- Functions of two tiles, tiles of two

    def called(self):
        """Two tiles from a function of two."""
        found = self.known(types=INTEGERS + FLOATS[2:])
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        partner, function = self.tile(shape, type_, 0), self.helper(self.pick("blend", "swapped"))
        first, second = (self.new_name("f") for _ in range(2))
        self.put(f"{first}, {second} = {function}({source}, {partner})")
        self.note(first, shape, type_)
        self.note(second, shape, type_)

    def rearranged(self):
        """join, split, interleave, cat, permute."""
        found = [t for t in self.known() if math.prod(t[1]) * 2 <= self.most]
        if not found:
            return self.assign()
        source, shape, type_ = self.random.choice(found)
        partner = self.tile(shape, type_, 0)
        name = self.new_name("y")
        options = [(f"tl.join({source}, {partner})", (*shape, 2)),
                   (f"tl.interleave({source}, {partner})", (*shape[:-1], 2 * shape[-1]))]
        if len(shape) == 1:
            options += [(f"tl.cat({source}, {partner})", (2 * shape[0], ))]
        else:
            dim = self.random.randrange(len(shape))
            options += [(f"tl.cat({source}, {partner}, dim={dim})",
                         tuple(2 * n if d == dim else n for d, n in enumerate(shape)))]
        if len(shape) == 2:
            options += [(f"tl.trans({source})", shape[::-1])]
        if len(shape) == 3:
            dims = self.random.sample(range(3), 3)
            options += [(f"tl.permute({source}, {dims})", tuple(shape[d] for d in dims))] * 3
        if shape[-1] == 2 and len(shape) > 1:
            self.put(f"{name}, {name}b = tl.split({source})")
            self.note(name, shape[:-1], type_)
            return self.note(name + "b", shape[:-1], type_)
        value, shape = self.random.choice(options)
        self.put(f"{name} = {value}")
        self.note(name, shape, type_)
