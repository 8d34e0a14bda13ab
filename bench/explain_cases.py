"""The cases of explain.py: entries of the kernel library, and a function that makes the operands of each at a size."""

import torch

import tegula

bf16, f16, f32 = torch.bfloat16, torch.float16, torch.float32
i8, i32, i64, f8 = torch.int8, torch.int32, torch.int64, torch.float8_e4m3fn


def normal(*shape, dtype=bf16):
    return torch.randn(shape, device="cuda", dtype=f32 if dtype == f8 else dtype).to(dtype)


def empty(*shape, dtype=bf16):
    return torch.empty(shape, device="cuda", dtype=dtype)


def below(high, *shape, dtype=i64):
    return torch.randint(0, high, shape, device="cuda", dtype=dtype)


def entry(name, *given, **named):
    function = getattr(tegula.kernels, name)
    return lambda: function(*given, **named)


def on_rows(name, inputs, results=1, columns=(), **named):
    """An entry over matrices: results, then inputs, then vectors of a row's extent by name."""

    def make(size):
        rows, cols, dtype = [(24576, 3072, bf16), (1500, 50000, f32), (50001, 1000, bf16)][size]
        given = [empty(rows, cols, dtype=dtype) for _ in range(results)] + [normal(rows, cols, dtype=dtype) for _ in range(inputs)]
        return entry(name, *given, **{c: normal(cols, dtype=dtype) for c in columns}, **named)

    return name, make


def to_numbers(name, dtype=f32, **named):
    """An entry that gives a number for each row."""

    def make(size):
        rows, cols, kind = [(24576, 3072, bf16), (1500, 50000, f32), (50001, 1000, bf16)][size]
        return entry(name, empty(rows, dtype=dtype), normal(rows, cols, dtype=kind), **named)

    return name, make


def of_columns(name, dtype=f32, **named):

    def make(size):
        rows, cols, kind = [(24576, 3072, bf16), (3000, 20000, f32), (200001, 520, bf16)][size]
        return entry(name, empty(1, cols, dtype=dtype), normal(1, rows, cols, dtype=kind), **named)

    return name, make


def of_all(name):

    def make(size):
        n, kind = [(75_000_000, bf16), (30_000_001, f32), (9_000_000, bf16)][size]
        x = normal(n, dtype=kind)
        return entry(name, empty(1, dtype=f32), x if name == "reduce_all" else x.view(1, n))

    return name, make


def norm_backward(name, bias):

    def make(size):
        rows, cols, dtype = [(24576, 3072, bf16), (3000, 12000, f32), (100001, 520, bf16)][size]
        results = [empty(rows, cols, dtype=dtype)] + [empty(cols, dtype=dtype) for _ in range(2 if bias else 1)]
        return entry(name, *results, normal(rows, cols, dtype=dtype), normal(rows, cols, dtype=dtype), normal(cols, dtype=dtype))

    return name, make


def of_images(name):

    def make(size):
        batch, channels, spatial, dtype = [(24, 640, 48 * 48, bf16), (12, 192, 112 * 112, f32), (96, 1280, 13 * 13, bf16)][size]
        x, out = (f(batch, channels, spatial, dtype=dtype) for f in (normal, empty))
        weight = normal(channels, dtype=dtype)
        if name == "batch_norm":
            return entry(name, out, x, weight, normal(channels, dtype=dtype).abs(), activation="relu")
        if name == "group_norm":
            return entry(name, out, x, 32, weight, weight, activation="silu")
        sums = [empty(channels, dtype=dtype) for _ in range(2)]
        return entry(name, out, *sums, normal(batch, channels, spatial, dtype=dtype), x, 32, weight)

    return name, make


def cross_entropy(size):
    rows, cols, dtype = [(2000, 50304, bf16), (3001, 12000, f32), (700, 151936, bf16)][size]
    return entry("cross_entropy", empty(rows, dtype=f32), normal(rows, cols, dtype=dtype), below(cols, rows))


def divergence(name):

    def make(size):
        rows, cols, dtype = [(3000, 32000, bf16), (3001, 12000, f32), (700, 151936, bf16)][size]
        return entry(name, empty(rows, dtype=f32), normal(rows, cols, dtype=dtype) - 8, normal(rows, cols, dtype=dtype) - 8)

    return name, make


def many_tensors(name, lists, **named):

    def make(size):
        sizes = [[2048 * 5000 + 8 * i for i in range(4)], [300_000] * 100, [40_000_001]][size]
        tensors = [[torch.zeros(n, device="cuda") for n in sizes] for _ in range(lists)]
        table = torch.tensor([t.data_ptr() for of_list in tensors for t in of_list], device="cuda").view(lists, len(sizes))
        per_chunk = 1024
        chunks = torch.tensor([[t, c] for t, n in enumerate(sizes) for c in range(-(-n // per_chunk))], device="cuda", dtype=i32)
        given = [table, chunks, torch.tensor(sizes, device="cuda")]
        call = entry(name, *([empty(1, dtype=f32)] if name == "gradient_norm" else []), *given, **named)
        return lambda keep=tensors: call()

    return name, make


def rope(size):
    tokens, heads, width, dtype = [(12000, 40, 128, bf16), (3000, 24, 96, f32), (100001, 5, 64, bf16)][size]
    angles = [normal(tokens, width // 2, dtype=f32) for _ in range(2)]
    return entry("rope", *(f(tokens, heads, width, dtype=dtype) for f in (empty, normal)), *angles)


def quantised(name):

    def make(size):
        rows, cols, dtype = [(24576, 3072, bf16), (1500, 49920, f32), (50001, 1024, bf16)][size]
        x, out = normal(rows, cols, dtype=dtype), empty(rows, cols, dtype=i8)
        if name == "quantise_rows":
            return entry(name, out, empty(rows, dtype=f32), x)
        if name == "quantise_groups":
            return entry(name, out, empty(rows, cols // 32, dtype=f32), x)
        if name == "quantise_tensor":
            return entry(name, out, x, normal(1, dtype=f32))
        return entry(name, x, out, normal(rows, 1, dtype=f32))

    return name, make


def sort_rows(size):
    rows, cols, dtype = [(6000, 3000, f32), (60000, 500, bf16), (20000, 1000, f32)][size]
    return entry("sort_rows", empty(rows, cols, dtype=dtype), empty(rows, cols, dtype=i32), normal(rows, cols, dtype=dtype))


def topk_rows(size):
    rows, cols, k, dtype = [(6000, 3000, 50, f32), (60000, 500, 8, bf16), (200, 100000, 20, f32)][size]
    return entry("topk_rows", empty(rows, k, dtype=dtype), empty(rows, k, dtype=i32), normal(rows, cols, dtype=dtype))


def indexed(name):

    def make(size):
        table, rows, cols, dtype = [(32000, 20000, 3072, bf16), (5000, 30000, 1000, f32), (200000, 100001, 200, bf16)][size]
        index, of_table, of_rows = below(table, rows), (table, cols), (rows, cols)
        if name == "embedding":
            return entry(name, empty(*of_rows, dtype=dtype), normal(*of_table, dtype=dtype), index)
        result = torch.zeros(of_table, device="cuda", dtype=f32 if name == "index_add" else dtype)
        return entry(name, result, normal(*of_rows, dtype=dtype), index)

    return name, make


def histogram(size):
    rows, cols, bins, dtype = [(24576, 3072, 256, bf16), (1500, 50000, 1000, f32), (50001, 1000, 64, bf16)][size]
    return entry("histogram", torch.zeros(bins, device="cuda", dtype=i32), normal(rows, cols, dtype=dtype))


def sample_rows(size):
    rows, cols = [(1000, 50304), (300, 128256), (64, 32000)][size]
    return entry("sample_rows", empty(rows, dtype=i64), normal(rows, cols), top_p=torch.full((rows, ), 0.9, device="cuda"), seed=7)


def gemm(size):
    m, n, k = [(3072, 5120, 4096), (6144, 7168, 6144), (512, 12288, 3072)][size]
    return entry("gemm", empty(m, n, dtype=f16), normal(m, k, dtype=f16), normal(k, n, dtype=f16))


def scaled_gemm(size):
    m, n, k = [(3072, 5120, 4096), (6144, 7168, 6144), (512, 12288, 3072)][size]
    one = torch.full((1, 1), 0.5, device="cuda")
    return entry("scaled_gemm", empty(m, n), normal(m, k, dtype=f8), normal(n, k, dtype=f8).t(), one, one)


def grouped_gemm(size):
    groups, rows, n, k = [(8, 3000, 1536, 3072), (64, 8192, 2048, 1024), (32, 5000, 1024, 4096)][size]
    ends = torch.tensor([rows * (g + 1) // groups for g in range(groups)], device="cuda", dtype=i32)
    return entry("grouped_gemm", empty(rows, n), normal(rows, k), normal(groups, k, n), ends)


def batched_gemm(size):
    batch, m, n, k = [(48, 768, 768, 512), (300, 256, 256, 256), (12, 2048, 1024, 1536)][size]
    return entry("batched_gemm", empty(batch, m, n), normal(batch, m, k), normal(batch, k, n))


def quantised_gemm(size):
    m, n, k = [(1, 12288, 6144), (24, 6144, 12288), (512, 5120, 4096)][size]
    return entry("quantised_gemm", empty(m, n, dtype=f16), normal(m, k, dtype=f16), below(255, n, k // 2, dtype=torch.uint8),
                 normal(n, k // 64, dtype=f16), group="64")


def conv2d(size):
    batch, size, channels, outputs, kernel = [(24, 40, 256, 384, 3), (8, 96, 128, 128, 3), (64, 28, 512, 256, 1)][size]
    pad = kernel // 2
    return entry("conv2d", empty(batch, size, size, outputs), normal(batch, size, size, channels),
                 normal(outputs, kernel, kernel, channels), padding_h=pad, padding_w=pad)


def linear_dropout(size):
    m, n, k = [(3072, 5120, 2048), (6144, 7168, 1024), (2048, 12288, 3072)][size]
    return entry("linear_dropout", empty(m, n), empty(m, n), normal(m, k), normal(n, k), 0.1, 7, normal(n))


def linear_rms_norm(size):
    m, n, k = [(4096, 2048, 2048), (6144, 4096, 1024), (2048, 4096, 3072)][size]
    residual = normal(m, n)
    return entry("linear_rms_norm", empty(m, n), normal(m, k), normal(n, k), normal(n), residual=residual, sum=residual)


def linear_cross_entropy(size):
    rows, k, vocabulary, chunk = [(3000, 2048, 50304, 1024), (2048, 3072, 32000, 1024), (1000, 1024, 128256, 512)][size]
    x, weight, logits = normal(rows, k), normal(vocabulary, k), empty(chunk, vocabulary)
    return entry("linear_cross_entropy", empty(rows, dtype=f32), empty(rows, k), empty(vocabulary, k), x, weight,
                 below(vocabulary, rows), logits)


MAKERS = [
    on_rows("softmax", 1), on_rows("log_softmax", 1), on_rows("softmax_scale_bias", 1, scale=1.5, columns=["bias"]),
    on_rows("exp_normalize", 1), on_rows("softmax_backward", 2), on_rows("log_softmax_backward", 2),
    on_rows("rms_norm", 1, columns=["weight"]), on_rows("layer_norm", 1, columns=["weight", "bias"]), on_rows("l2_norm", 1),
    norm_backward("rms_norm_backward", False), norm_backward("layer_norm_backward", True), on_rows("l2_norm_backward", 2),
    of_images("group_norm"), of_images("group_norm_backward"), of_images("batch_norm"),
    ("cross_entropy", cross_entropy), divergence("kl_divergence"), divergence("js_divergence"),
    to_numbers("reduce_rows"), to_numbers("arg_extreme", dtype=i64), to_numbers("variance"), of_all("reduce_all"),
    of_columns("reduce_columns"), of_columns("arg_extreme_columns", dtype=i64), of_columns("variance_columns"),
    on_rows("scan_rows", 1),
    many_tensors("adamw", 4, rate=1e-3, aligned=True), many_tensors("lion", 3, rate=1e-3, aligned=True),
    many_tensors("sgd", 3, rate=1e-3, momentum=0.9, moment="float32", aligned=True),
    many_tensors("gradient_norm", 2, aligned=True),
    on_rows("affine", 1, columns=["bias", "scale"], activation="gelu"), on_rows("swiglu", 2), on_rows("glu", 2, activation="gelu"),
    on_rows("glu_backward", 3, results=2), on_rows("dropout", 1, p=0.1, seed=7), ("rope", rope),
    quantised("quantise_rows"), quantised("quantise_groups"), quantised("quantise_tensor"), quantised("dequantise"),
    of_all("tensor_scale"),
    ("sort_rows", sort_rows), ("topk_rows", topk_rows), ("sample_rows", sample_rows), ("histogram", histogram),
    indexed("embedding"), indexed("embedding_backward"), indexed("index_add"),
    ("gemm", gemm), ("scaled_gemm", scaled_gemm), ("grouped_gemm", grouped_gemm), ("batched_gemm", batched_gemm),
    ("quantised_gemm", quantised_gemm), ("conv2d", conv2d), ("linear_dropout", linear_dropout), ("linear_rms_norm", linear_rms_norm),
    on_rows("linear_dropout_backward", 2, p=0.1, seed=7), ("linear_cross_entropy", linear_cross_entropy),
]


def cases():
    """(entry, size, function that makes the operands and gives the call)."""
    for size in range(3):
        for name, make in MAKERS:
            yield name, size, lambda make=make, size=size: make(size)
