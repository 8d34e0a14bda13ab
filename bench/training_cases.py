"""The cases of training.py: what each kernel works on, its configurations, its exact results, and its peers in torch."""

import torch
import torch._functorch.config
import torch.nn.functional as F

import harness
from side_by_side import ROOT, load_module, tegula

EPS = 1e-5
DEVICE = "cuda"  # both are set ahead of the first case
SMS = 0  # its multiprocessors
TILES = load_module("tiles")
torch._functorch.config.donated_buffer = False  # so that a gradient can be taken again and again


class Case:
    """`bytes` to move, tensors, and how each side works on them. Subclasses give file, function, arguments(), fixed,
    results(), exact(), peers()."""

    tolerance = 8e-3
    fixed = {}

    def configs(self):
        module = load_module(self.file)
        for c in self.fitting(module):
            how = dict(c.kwargs) | self.fixed | {"num_warps": c.num_warps}
            if getattr(c, "maxnreg", None):
                how["maxnreg"] = c.maxnreg
            if getattr(c, "num_ctas", 1) > 1:
                how["num_ctas"] = c.num_ctas
            shown = dict(c.kwargs) | {"w": c.num_warps, "c": how.get("num_ctas", 1), "r": how.get("maxnreg", 0)}
            label = " ".join(f"{k}={v}" for k, v in shown.items())
            yield label, how

    def kernel(self):
        return tegula.load(str(ROOT / "kernels" / f"{self.file}.py"))[self.function]

    def prepare(self):
        """Sets back what the kernel works on in place."""

    def check(self, work):
        self.prepare()
        work()
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        errors = [harness.relative_error(found, exact) for found, exact in zip(self.results(), self.exact())]
        if not max(errors) < self.tolerance:
            raise RuntimeError(f"WRONG RESULT: {errors}")
        return max(errors)


def matrix(rows, cols, dtype=torch.bfloat16):
    return torch.randn(rows, cols, device=DEVICE, dtype=dtype)


def clusters_at_once(how):
    """As runtime/device.cpp has it."""
    blocks = how.get("num_ctas", 1)
    return max(1, SMS // blocks * 15 // 16) if blocks >= 4 else SMS // blocks


class Rows(Case):
    """With an extent for each tile's rows."""

    def heuristics(self, how, power_of_two):
        rows = how.get("ROWS", 1)
        block = TILES.extent(self.cols, 2, how["num_warps"] * how.get("num_ctas", 1), rows)
        return how | {"BLOCK": 1 << (self.cols - 1).bit_length() if power_of_two else block}


class NormBackward(Rows):
    file = function = "norm_backward"

    def __init__(self, center, rows, cols):
        self.center, self.rows, self.cols = center, rows, cols
        self.bytes = 3 * rows * cols * 2

    def __str__(self):
        return f"{'LayerNorm' if self.center else 'RMSNorm'} backward {self.rows}x{self.cols} bf16"

    def make(self):
        self.x, self.dy = matrix(self.rows, self.cols), matrix(self.rows, self.cols)
        self.weight = matrix(1, self.cols)[0]
        self.dx, self.dweight = torch.empty_like(self.x), torch.empty_like(self.weight)
        self.dbias = torch.empty_like(self.weight) if self.center else None
        self.partials = torch.empty(8 * SMS * self.cols, device=DEVICE)
        self.counters = torch.zeros(16, dtype=torch.int32, device=DEVICE)

    def fitting(self, module):
        return module.fitting(module.configs(), {"cols": self.cols, "x_ptr": self.x, "dbias_ptr": self.dbias, "rows_class": 2})

    def complete(self, how, power_of_two=False):
        how = self.heuristics(how | {"CENTER": self.center}, power_of_two)
        return how | {"EVEN": how["BLOCK"] == self.cols and self.rows % how["ROWS"] == 0}

    def grid(self, how):
        return min(-(-self.rows // how["ROWS"]), how["PROGRAMS"] * clusters_at_once(how), 4 * SMS)

    def arguments(self):
        n = self.cols
        return (self.dx, self.dweight, self.dbias, self.dy, self.x, self.weight, None, n, n, n, 0, self.rows, n, EPS, 2,
                self.partials, self.counters)

    def results(self):
        return [r for r in (self.dx, self.dweight, self.dbias) if r is not None]

    def norm(self, x, weight, bias):
        if self.center:
            return F.layer_norm(x, (self.cols,), weight, bias, EPS)
        return F.rms_norm(x, (self.cols,), weight, EPS)

    def exact(self):
        if not hasattr(self, "known"):
            x, w = self.x.double().requires_grad_(), self.weight.double().requires_grad_()
            b = torch.zeros_like(w).requires_grad_()
            wanted = [x, w, b] if self.center else [x, w]
            self.known = [g.float() for g in torch.autograd.grad(self.norm(x, w, b), wanted, self.dy.double())]
        return self.known

    def peers(self):
        x, w = self.x.clone().requires_grad_(), self.weight.clone().requires_grad_()
        b = torch.zeros_like(w).requires_grad_()
        wanted = [x, w, b] if self.center else [x, w]
        for name, function in (("torch", self.norm), ("torch.compile", torch.compile(self.norm, dynamic=False))):
            y = function(x, w, b)
            yield name, lambda y=y: torch.autograd.grad(y, wanted, self.dy, retain_graph=True)


class CrossEntropy(Rows):
    file = function = "cross_entropy"

    def __init__(self, rows, cols):
        self.rows, self.cols = rows, cols
        self.bytes = 2 * rows * cols * 2

    def __str__(self):
        return f"cross entropy forward + backward {self.rows}x{self.cols} bf16"

    def make(self):
        self.logits = matrix(self.rows, self.cols)
        self.work = self.logits.clone()
        self.targets = torch.randint(0, self.cols, (self.rows,), device=DEVICE)
        self.losses = torch.empty(self.rows, device=DEVICE)

    def prepare(self):
        self.work.copy_(self.logits)

    def fitting(self, module):
        return module.fitting(module.configs(), {"cols": self.cols, "logits_ptr": self.work, "logits_stride": self.cols, "rows_class": 2})

    def complete(self, how, power_of_two=False):
        flags = {"MEAN": True, "GRADIENT": True, "WIDTH": 8, "CAP": False, "SMOOTH": False, "SQUARE": False}
        return self.heuristics(how | flags, power_of_two)

    def grid(self, how):
        return min(self.rows, how["PROGRAMS"] * clusters_at_once(how))

    def arguments(self):
        n = self.cols
        return self.losses, self.work, self.targets, None, n, self.rows, n, -100, 0.0, 0.0, 0.0, 1.0, 2, None, 0

    def results(self):
        return [self.losses.sum(), self.work]

    def exact(self):
        if not hasattr(self, "known"):
            grads, loss = torch.empty_like(self.logits, dtype=torch.float32), 0.0
            for part in torch.arange(self.rows).split(256):
                x = self.logits[part].double().requires_grad_()
                one = F.cross_entropy(x, self.targets[part], reduction="sum") / self.rows
                one.backward()
                grads[part], loss = x.grad.float(), loss + one.detach()
            self.known = [loss, grads]
        return self.known

    def peers(self):
        x = self.logits.clone().requires_grad_()

        def step(x):
            return F.cross_entropy(x.float(), self.targets)

        for name, function in (("torch", lambda x: F.cross_entropy(x, self.targets)), ("torch.compile", torch.compile(step, dynamic=False))):
            yield name, lambda function=function: torch.autograd.grad(function(x), x)


class ColumnSums(Case):
    file, function = "reduce", "reduce_columns"
    fixed = {"KIND": "sum"}

    def __init__(self, rows, cols):
        self.rows, self.cols, self.bytes = rows, cols, rows * cols * 2

    def __str__(self):
        return f"sums of columns {self.rows}x{self.cols} bf16"

    def make(self):
        self.x, self.out = matrix(self.rows, self.cols), torch.empty(self.cols, device=DEVICE, dtype=torch.bfloat16)
        self.partials = torch.empty(1 << 22, device=DEVICE)
        self.counters = torch.zeros(1 << 14, dtype=torch.int32, device=DEVICE)

    def fitting(self, module):
        return module.fitting_columns(module.column_configs(), {"cols": self.cols, "rows": self.rows})

    def complete(self, how, power_of_two=False):
        module, known = load_module(self.file), how | {"cols": self.cols, "rows": self.rows}
        return how | {"HEIGHT": module.height(known), "WHOLE": module.is_tall(known), "DEEP": module.deep(known)}

    def grid(self, how):
        groups = -(-self.cols // how["COLS"])
        return groups, max(1, min(how["PROGRAMS"] * SMS // groups, -(-self.rows // how["HEIGHT"])))

    def arguments(self):
        return (self.out, self.x, self.cols, self.rows * self.cols, self.cols, 1, self.rows, self.cols, 2, self.partials,
                self.counters)

    def results(self):
        return [self.out]

    def exact(self):
        return [self.x.sum(0, dtype=torch.float64)]

    def peers(self):
        compiled = torch.compile(lambda x: x.sum(0), dynamic=False)
        yield "torch", lambda: self.x.sum(0)
        yield "torch.compile", lambda: compiled(self.x)


class Quantise(Rows):
    """To int8 by rows, to mxfp8 by groups."""
    file = "quantise"

    def __init__(self, rows, cols, groups=False):
        self.rows, self.cols, self.groups = rows, cols, groups
        self.function = "quantise_groups" if groups else "quantise_rows"
        self.fixed = {"PACKED": "int4"} | ({"GROUP": 32, "TALL": 1} if groups else {})
        self.bytes = rows * cols * 3

    def __str__(self):
        return f"quantise {'mxfp8' if self.groups else 'int8 by rows'} {self.rows}x{self.cols} bf16"

    def make(self):
        self.x = matrix(self.rows, self.cols)
        self.out = torch.empty(self.rows, self.cols, device=DEVICE, dtype=torch.float8_e4m3fn if self.groups else torch.int8)
        self.scales = (torch.empty(self.rows, -(-self.cols // 32), device=DEVICE, dtype=torch.uint8) if self.groups else
                       torch.empty(self.rows, device=DEVICE))

    def fitting(self, module):
        if self.groups:
            return module.fitting_groups(module.configs(), {"cols": self.cols, "rows": self.rows, "TALL": 1, "GROUP": 32})
        return module.fitting_rows(module.row_configs(), {"cols": self.cols, "x_ptr": self.x})

    def complete(self, how, power_of_two=False):
        if self.groups:
            return how
        how = self.heuristics(how, power_of_two)
        return how | {"EVEN": how["BLOCK"] == self.cols}

    def grid(self, how):
        if self.groups:
            return -(-self.rows // how["ROWS"]) * -(-self.cols // how["COLS"])
        tiles = -(-self.rows // how["ROWS"])
        persistent = how["STAGES"] > 0 and how["PIECE"] == 0
        return min(tiles, 8 * SMS // how.get("num_ctas", 1)) if persistent else tiles

    def arguments(self):
        n = self.cols
        strides = (n, self.scales.stride(0), n) if self.groups else (n, n)
        return self.out, self.scales, self.x, *strides, self.rows, n, 2

    def quantise(self, x):
        x = x.float()
        if not self.groups:
            scales = x.abs().amax(1, keepdim=True) / 127
            return (x / scales).round().to(torch.int8), scales[:, 0]
        parts = x.view(self.rows, -1, 32)
        exponents = (parts.abs().amax(2).view(torch.int32) >> 23) - 8
        factor = ((254 - exponents) << 23).view(torch.float32)
        y = (parts * factor[:, :, None]).clamp(-448, 448).view(self.rows, self.cols)
        return y.to(torch.float8_e4m3fn), exponents.to(torch.uint8)

    def results(self):
        return [self.out.float(), self.scales.float()]

    def exact(self):
        return [t.float() for t in self.quantise(self.x)]

    def peers(self):
        compiled = torch.compile(self.quantise, dynamic=False)
        yield "torch.compile", lambda: compiled(self.x)


class Order(Case):
    """The k largest elements of each row and their places; rows in order where k is the number of columns."""
    file = "order"
    tolerance = 1e-7

    def __init__(self, rows, cols, k, dtype=torch.float32):
        self.rows, self.cols, self.k, self.dtype = rows, cols, k, dtype
        self.function = "sort_rows" if k == cols else "topk_rows"
        self.fixed = {"DESCENDING": True} if k == cols else {"LARGEST": True}
        self.bytes = rows * (cols * dtype.itemsize + k * (8 + dtype.itemsize))

    def __str__(self):
        return f"{self.function} {self.k} of {self.rows}x{self.cols} {str(self.dtype)[6:]}"

    def make(self):
        self.x = matrix(self.rows, self.cols, self.dtype)
        self.values = torch.empty(self.rows, self.k, device=DEVICE, dtype=self.dtype)
        self.index = torch.empty(self.rows, self.k, device=DEVICE, dtype=torch.int64)
        self.partials = torch.empty(1 << 25, device=DEVICE)
        self.counters = torch.zeros(1 << 14, dtype=torch.int32, device=DEVICE)

    def fitting(self, module):
        known = {"cols": self.cols, "k": self.k, "index_ptr": self.index, "x_ptr": self.x, "rows_class": self.rows_class()}
        if self.k == self.cols:
            return module.fitting_sort(module.sort_configs(), known)
        return module.fitting_topk(module.topk_configs(), known)

    def complete(self, how, power_of_two=False):
        if self.k == self.cols:
            return how | {"BLOCK": 1 << (self.cols - 1).bit_length()}
        kept = 1 << (self.k - 1).bit_length()
        order = load_module("order")
        known = how | {"cols": self.cols, "k": self.k, "rows": self.rows, "rows_class": self.rows_class(), "x_ptr": self.x}
        return how | {"K": kept, "ROOM": 4 * max(32, kept) if how["SELECT"] else 0, "LISTS": order.merged_at_once(known),
                      "THREADS": 32 * how["num_warps"], "WIDTH": 16 // self.x.element_size(), "KEY_BITS": order.key_bits(known),
                      "SINGLE": how["PROGRAMS"] == 0 or self.cols <= how["BLOCK"],
                      "EVEN": self.cols % how["BLOCK"] == 0}

    def rows_class(self):
        return 0 if self.rows <= SMS else 1 if self.rows <= 16 * SMS else 2

    def grid(self, how):
        if self.k == self.cols:
            return self.rows
        pieces = -(-self.cols // how["BLOCK"])
        if how["PROGRAMS"] == 0:
            return self.rows * pieces
        parts = min(max(how["PROGRAMS"] * SMS // self.rows, 1), pieces)
        return self.rows * parts

    def arguments(self):
        strides = (self.k, self.k, self.cols, self.rows, self.cols)
        more = () if self.k == self.cols else (self.k, 2, self.partials, self.counters)
        return self.values, self.index, self.x, *strides, *more

    def results(self):
        return [self.values.float(), self.x.gather(1, self.index).float()]

    def exact(self):
        values = self.torch(self.x)[0].float()
        return [values, values]

    def torch(self, x):
        return torch.sort(x, dim=1, descending=True, stable=True) if self.k == self.cols else torch.topk(x, self.k, 1)

    def peers(self):
        compiled = torch.compile(self.torch, dynamic=False)
        yield "torch", lambda: self.torch(self.x)
        yield "torch.compile", lambda: compiled(self.x)


class Embedding(Case):
    """Rows of a table, or their gradients (into zeros, as torch makes them)."""
    file = "indexed"

    def __init__(self, tokens, table, cols, backward=False):
        self.rows, self.table_rows, self.cols, self.backward = tokens, table, cols, backward
        self.function = "embedding_backward" if backward else "embedding"
        self.fixed = {"ACCUMULATE": False} if backward else {}
        self.bytes = (tokens + (table if backward else tokens)) * cols * 2

    def __str__(self):
        return f"{self.function} {self.rows} of {self.table_rows}x{self.cols} bf16"

    def make(self):
        self.table, self.x = matrix(self.table_rows, self.cols), matrix(self.rows, self.cols)
        self.index = torch.randint(0, self.table_rows, (self.rows,), device=DEVICE)

    def fitting(self, module):
        known = {"cols": self.cols, "rows": self.rows}
        if self.backward:
            return module.fitting_backward(module.backward_configs(), known)
        return module.fitting(module.configs(), known)

    def complete(self, how, power_of_two=False):
        return how

    def grid(self, how):
        return -(-self.rows // how.get("ROWS", 1)) * -(-self.cols // how["COLS"])

    def arguments(self):
        n = self.cols
        if self.backward:
            return self.table, self.x, self.index, n, n, self.rows, n, self.table_rows
        return self.x, self.table, self.index, n, n, self.rows, n, self.table_rows, 2

    def results(self):
        return [self.table[self.index] if self.backward else self.x]

    def exact(self):
        if not self.backward:
            return [self.table[self.index]]
        sums = torch.zeros(self.table_rows, self.cols, device=DEVICE).index_add_(0, self.index, self.x.float())
        return [sums[self.index]]

    def peers(self):
        if not self.backward:
            yield "torch", lambda: F.embedding(self.index, self.table)
            return
        yield "torch", lambda: torch.ops.aten.embedding_dense_backward(self.x, self.index, self.table_rows, -1, False)


class AdamW(Case):
    """A step over tensors of a Llama-like model: `layers` of width `width`."""
    file, function = "optimizer", "adamw"
    tolerance = 1e-5
    rate, decay = 1e-3, 0.1

    def __init__(self, layers, width):
        self.layers, self.width = layers, width

    def __str__(self):
        return f"AdamW {self.layers} layers of {self.width} fp32"

    def make(self):
        w, f = self.width, self.width * 11 // 4
        shapes = [(w, w), (w, w // 4), (w, w // 4), (w, w), (w, f), (w, f), (f, w), (w,), (w,)] * self.layers
        new = lambda scale=1.0: [torch.randn(s, device=DEVICE) * scale for s in shapes]
        self.start = [new(), new(0.1), new(0.01), [t.abs() for t in new(0.01)]]
        self.lists = [[t.clone() for t in tensors] for tensors in self.start]
        self.bytes = 7 * 4 * sum(t.numel() for t in self.lists[0])
        self.table = torch.tensor([t.data_ptr() for tensors in self.lists for t in tensors], device=DEVICE)
        self.sizes = torch.tensor([t.numel() for t in self.lists[0]], device=DEVICE)
        self.chunks = {}
        if DEVICE == "cpu":
            device = tegula.Device.emulator()._handle
            for t in (t for tensors in self.lists for t in tensors):
                tegula.library.lib.tegula_device_register_host(device, t.data_ptr(), t.numel() * 4)

    def prepare(self):
        for tensors, start in zip(self.lists, self.start):
            torch._foreach_copy_(tensors, start)

    def configs(self):
        for chunk, warps in [(1024, 4), (2048, 4), (2048, 8), (4096, 8), (4096, 16), (512, 4), (1024, 8), (4096, 4)]:
            for whole in (True, False):
                how = {"PARAMETER": tegula.float32, "GRADIENT": tegula.float32, "MOMENT": tegula.float32, "ALIGNED": True,
                       "WHOLE": whole, "CHUNK": chunk, "num_warps": warps}
                yield f"CHUNK={chunk} WHOLE={whole} w={warps}", how

    def complete(self, how, power_of_two=False):
        return how

    def chunk_table(self, chunk):
        if chunk not in self.chunks:
            pieces = [torch.stack([torch.full((-(-t.numel() // chunk),), i), torch.arange(-(-t.numel() // chunk))], 1)
                      for i, t in enumerate(self.lists[0])]
            self.chunks[chunk] = torch.cat(pieces).to(torch.int32).to(DEVICE)
        return self.chunks[chunk]

    def grid(self, how):
        return len(self.chunk_table(how["CHUNK"]))

    def arguments(self, how=None):
        return (self.table, self.chunk_table((how or {"CHUNK": 1024})["CHUNK"]), self.sizes, None, len(self.sizes), self.rate, 0.9,
                0.999, 1e-8, self.decay, 1 - 0.9**3, 1 - 0.999**3)

    def results(self):
        return [torch.cat([t.flatten() for t in self.lists[0]])]

    def exact(self):
        found = []
        for p, g, m, v in zip(*self.start):
            p, g, m, v = p.double(), g.double(), m.double(), v.double()
            m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
            p = p * (1 - self.rate * self.decay) - self.rate * (m / (1 - 0.9**3)) / ((v / (1 - 0.999**3)).sqrt() + 1e-8)
            found.append(p.float().flatten())
        return [torch.cat(found)]

    def peers(self):
        params = [torch.nn.Parameter(t) for t in self.lists[0]]
        for p, g in zip(params, self.lists[1]):
            p.grad = g
        for name, how in (("torch fused", {"fused": True}), ("torch foreach", {"foreach": True})):
            optimizer = torch.optim.AdamW(params, lr=self.rate, weight_decay=self.decay, **how)
            for p, m, v in zip(params, *self.lists[2:]):  # the same memory, so that it is there once
                optimizer.state[p] = {"step": torch.tensor(3.0, device=DEVICE), "exp_avg": m, "exp_avg_sq": v}
            yield name, optimizer.step


SHAPES = [(16384, 4096), (8192, 8192), (4096, 16384), (131072, 128)]
CASES = [*(NormBackward(center, *shape) for shape in SHAPES for center in (False, True)), CrossEntropy(4096, 131072),
         CrossEntropy(8192, 32000), ColumnSums(65536, 4096), Quantise(16384, 4096),
         Quantise(16384, 4096, groups=True), Quantise(2048, 65536), Order(64, 131072, 64),
         Order(64, 131072, 50, torch.bfloat16), Order(4096, 4096, 4096), Order(4096, 4096, 4096, torch.bfloat16),
         Order(16384, 1024, 1024), Order(4096, 4096, 64), Embedding(32768, 32000, 4096),
         Embedding(8192, 32000, 4096, backward=True), AdamW(22, 2048)]
SMALL = [NormBackward(False, 7, 500), NormBackward(True, 300, 128), NormBackward(True, 9, 20000), NormBackward(True, 9, 16384), NormBackward(False, 6, 8192), CrossEntropy(3, 5000), CrossEntropy(2, 70000),
         ColumnSums(300, 257), Quantise(7, 500), Quantise(5, 640, groups=True), Order(2, 3000, 50), Order(3, 500, 500),
         Embedding(30, 10, 300), Embedding(30, 10, 300, backward=True), AdamW(1, 64)]
