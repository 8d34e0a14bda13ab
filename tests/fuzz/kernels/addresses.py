"""Accesses at places that are computed in any type, past 0 too, under masks of what they are computed from."""

from memory import BITS, LENGTH

TYPES = ["int32", "int32", "int32", "int64", "uint32", "uint32", "uint64", "int8", "uint8", "int16", "uint16"]


class Addresses:
    """Of a Kernel, which has all that is used here."""

    def constant(self, type_, *values):
        """A number of the text, or one that is known at run time alone, of the type."""
        value = self.pick(*values)
        if BITS[type_] == 8 and value > 127:
            value = 100
        return str(value) if self.chance(.6) else f"{self.number(value)}.to(tl.{type_})"

    def first_index(self, shape, type_):
        """Numbers that go up along an axis, or two, from anywhere."""
        axes = self.random.sample(range(len(shape)), self.pick(1, min(2, len(shape))))
        x = f"{self.along(shape, axes[0])}.to(tl.{type_})"
        if len(axes) == 2:
            x = f"({x} * {min(self.pick(1, 4, 16, shape[axes[1]]), 100 if BITS[type_] == 8 else 10**6)} + {self.along(shape, axes[1])}.to(tl.{type_}))"
        if self.chance(.3):
            x = f"({x} + {self.pick('pid', 'n', 'm', *self.counters)}.to(tl.{type_}) * {self.pick(1, 16, 64)})"
        if self.chance(.6):
            x = f"({x} - {self.constant(type_, 1, 3, 4, 8, 16, 64, 100)})"
        return x if self.chance(.8) else f"({self.constant(type_, 3, 16, 63, 64)} - {x})"

    def next_index(self, x, type_):
        """Another number that follows from it."""
        c = lambda *values: self.constant(type_, *values)
        form = self.random.random()
        if form < .3:
            return f"({x} {self.pick('//', '//', '%')} {c(2, 3, 4, 5, 8, 16, 64)})"
        if form < .4:
            return f"({x} >> {self.pick(1, 2, 3)})" if self.chance(.6) else f"({x} * {self.pick(2, 3, 4)})"
        if form < .55:
            return f"({x} {self.pick('&', '&', '^', '|')} {self.pick(1, 3, 7, 12, 15, 48, 63, 112)})"
        if form < .7:
            return f"({x} {self.pick('+', '-')} {c(1, 3, 4, 8, 16, 64)})"
        if form < .8:
            return f"tl.{self.pick('minimum', 'maximum')}({x}, {c(0, 4, 5, 16, 64)}).to(tl.{type_})"
        if form < .9:
            return f"tl.where({x} {self.pick('<', '>=', '>')} {c(4, 5, 16, 64)}, {x}, {self.pick(f'{x} + 16', f'{x} - 4', f'{x} ^ 1', x)})"
        d = self.pick(4, 8, 16)
        return f"({x} // {d} * {d} + {x} % {d})"

    def bounds_of(self, x, type_):
        """A condition on a number; what is below 0 without a sign is large."""
        c = self.constant(type_, 0, 1, 3, 4, 5, 8, 16, 63, 64, 100)
        return f"({x} {self.pick('<', '<=', '>', '>=', '>=', '<', '!=')} {c})"

    def addressed(self):
        """A load at such places, or a store of what follows from them."""
        shape = self.random.choice(self.tiles)[1] if self.chance(.5) else self.pick((64, ), (256, ), (1024, ), (8, 128), (64, 16), (3 << 7, ), (2048, ))
        type_, index = self.pick(*TYPES), self.new_name("j")
        self.put(f"{index} = {self.first_index(shape, type_)}")
        numbers = [(index, type_)]
        for _ in range(self.pick(0, 1, 1, 2, 3)):
            before, given = self.random.choice(numbers) if self.chance(.3) else numbers[-1]
            index = self.new_name("j")
            if self.chance(.3):
                given, text = (new := self.pick(*TYPES)), f"{before}.to(tl.{new})"
            else:
                text = self.next_index(before, given)
            self.put(f"{index} = {text}")
            numbers.append((index, given))
        index, type_ = numbers[-1]
        at = index if BITS[type_] >= 32 else f"{index}.to(tl.int32)"
        most = self.pick(LENGTH, LENGTH, 1000, 64)
        ends = []  # within the array in any case
        if BITS[type_] > 8 and (BITS[type_] > 16 or type_ == "uint16"):
            ends.append(f"({index} < {most})" if BITS[type_] > 16 or most < 10000 else f"({at} < {most})")
        if type_[0] == "i":
            ends.append(f"({index} >= 0)")
        if type_ == "int16":
            ends.append(f"({at} < {most})")
        for _ in range(self.pick(0, 0, 1, 2)):
            ends.append(self.bounds_of(*self.random.choice(numbers)))
        self.random.shuffle(ends)
        mask = f"tl.broadcast_to({' & '.join(ends)}, {list(shape)})" if ends else f"tl.full({list(shape)}, 1, tl.int1)"
        places = f"tl.broadcast_to({at}, {list(shape)})" if self.chance(.5) else f"({at} + tl.zeros({list(shape)}, tl.int32))"
        element = self.pick("int8", "int16", "int32", "float32", "float16", "int64")
        if self.depth == 1 and self.chance(.35):
            out = self.array(f"at_{element}", element, LENGTH, "zero")
            value = f"(({places} & 15) * 3 + 1).to(tl.{element})"
            return self.put(f"tl.store({out} + {places}, {value}, mask={mask})")
        name = self.new_name("x")
        options = f", other={self.other(element)}" if self.chance(.8) else ""
        self.put(f"{name} = tl.load({self.array(f'in_{element}', element)} + {places}, mask={mask}{options})")
        self.note(name, shape, element)
