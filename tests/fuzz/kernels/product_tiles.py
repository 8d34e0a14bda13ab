"""Tiles that products take: matrices in memory, and loads of their tiles."""

from memory import BITS, FLOAT8, Memory


class ProductTiles(Memory):
    """Of a kernel being written, which says of what type its products are (`kind`, and `sums` of their results), and whether
    arrays begin and rows follow each other at multiples of 16 (`aligned`)."""

    program = "x"

    def __init__(self, seed):
        super().__init__(seed)
        self.ahead, self.inside, self.behind = [], [], []  # lines, about the loop
        self.numbers, self.strides = {}, {}

    def stride(self, least):
        """A parameter that is the distance of rows: mostly a multiple of 16."""
        value = (least + 15) // 16 * 16 + (self.pick(0, 0, 0, 16, 32, 1, 8) if not self.aligned else self.pick(0, 0, 16))
        name = f"s{value}"
        self.numbers[name] = value
        return name

    def matrix(self, name, type_, rows, cols, fill="small"):
        """An array that holds rows of so many elements, and the distance of its rows."""
        if name not in self.arrays:
            self.strides[name] = self.stride(cols)
            self.array(name, type_, max(1, rows) * self.numbers[self.strides[name]] + 16, fill)
            self.arrays[name]["offset"] = self.pick(0, 0, 0, 0, 0, 0, 1, 8) if not self.aligned else 0
        return name, self.strides[name]

    def loaded(self, name, type_, shape, rows, cols, row, col, limit=None, axis=1):
        """The text of a load of the tile at [row, col] of a matrix of rows x cols, where the mask ends along an axis with
        `limit`. What stands ahead of the loop is written there."""
        array, stride = self.matrix(name, type_, rows, cols)
        r, c = self.along(shape, 0), self.along(shape, 1)
        bytes_ = BITS[type_] // 8
        if self.chance(.15) and shape[1] * bytes_ >= 16 and self.numbers[stride] * bytes_ % 16 == 0 and type_ not in FLOAT8:
            self.arrays[array]["offset"] = 0
            extents = [rows, cols] if limit is None else [rows, limit] if axis else [limit, cols]
            self.ahead.append(f"d_{name} = tl.make_tensor_descriptor({array}, [{extents[0]}, {extents[1]}], [{stride}, 1], "
                              f"{list(shape)})")
            return f"d_{name}.load([{row}, {col}])"
        mask, other = "", ""
        if limit is not None:
            mask = f", mask={f'({col} + {c})' if axis else f'({row} + {r})'} < {limit}"
            other = self.pick(", other=0", ", other=0", ", other=1")
        if self.chance(.1):
            mask += f"{' & ' if mask else ', mask='}({r} < {self.pick(shape[0] // 2, shape[0] - 1)})"
            other = other or ", other=0"
        return f"tl.load({array} + ({row} + {r}) * {stride} + ({col} + {c}){mask}{other})"

    def limited(self, value, type_=None):
        """Keeps numbers small, so that they are exact."""
        if (type_ or self.kind) == "int8":
            return f"(({value}) & 7).to(tl.int8)"
        return f"tl.minimum(tl.maximum({value}, -4), 4).to(tl.{type_ or self.kind})"
