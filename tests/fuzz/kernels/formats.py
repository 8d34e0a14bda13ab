"""Products of microscaling formats, and tiles of truth values that lie in memory."""

FORMATS = {"e2m1": "uint8", "e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": "bfloat16", "fp16": "float16"}
GROUP = 32  # elements along K that a scale is of


class ScaledProducts:
    """Of a Kernel, which has all that is used here."""

    def scaled_operand(self, name, format_, m, k, is_left):
        """Texts of the operand and of its scales, and options that its packing wants."""
        type_ = FORMATS[format_] if self.chance(.8) or format_[0] != "e" else "uint8"
        packed = format_ == "e2m1"
        along_k = not packed or self.chance(.8)
        rows, cols = (m, k) if not packed else (m, k // 2) if along_k else (m // 2, k)
        value = self.load((rows, cols) if is_left else (cols, rows), type_)
        if packed and self.chance(.3):  # all codes
            value = f"({value} * 37).to(tl.uint8)"
        scale = "None"
        if self.chance(.7) or packed:
            scale = f"(({self.load((m, k // GROUP), 'uint8')} & 3) + {self.pick(125, 126)}).to(tl.uint8)"
        return value, scale, "" if along_k else f", {name}_k_pack=False"

    def scaled_product(self):
        """A tl.dot_scaled, at times in a loop."""
        first, second = self.pick("e2m1", "e2m1", "e4m3", "e5m2", "bf16", "fp16"), self.pick("e2m1", "e4m3", "e4m3", "e5m2", "bf16", "fp16")
        m, n, k = self.pick(16, 32, 64, 128), self.pick(16, 32, 64), self.pick(64, 64, 128)
        if m * n * k * self.work > 1 << 19 or max(m, n) * k > 8192 or self.large:
            return self.assign()
        name, known = self.new_name("acc"), [t[0] for t in self.known((m, n), ["float32"])]
        if known and self.chance(.5):
            name = self.random.choice(known)
        else:
            self.put(f"{name} = tl.zeros(({m}, {n}), tl.float32)")
        loops = self.chance(.5)
        if loops:
            counter = self.new_name("k")
            self.put(f"for {counter} in tl.range(0, {self.pick('n', 'm', '3')}{self.loop_options()}):")
            self.depth += 1
            self.counters.append(counter)
        a, a_scale, a_pack = self.scaled_operand("lhs", first, m, k, True)
        b, b_scale, b_pack = self.scaled_operand("rhs", second, n, k, False)
        call = f"tl.dot_scaled({a}, {a_scale}, \"{first}\", {b}, {b_scale}, \"{second}\"{{}}{a_pack}{b_pack})"
        self.put(self.pick(f"{name} = {call.format(f', acc={name}')}", f"{name} += {call.format('')}"))
        if loops:
            self.counters.pop()
            self.depth -= 1
        if self.chance(.5):
            self.put(f"{name} = {self.bounded(name, 'float32')}")
        self.note(name, (m, n), "float32")

    def loaded_truth(self, shape):
        """Truth values as arrays of bool have them."""
        return f"tl.load({self.array('in_int1', 'int1')} + {self.places_within(self.length, shape)})"
