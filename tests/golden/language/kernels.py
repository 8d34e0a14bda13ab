"""Kernels as users have them: rows, matrix products, online softmax."""
import triton
import triton.language as tl


@triton.jit
def nop(x, n):
    pass


# accept nop x=*f32/16 n=i32


@triton.jit
def softmax_row(o, x, so, sx, rows, cols, B: tl.constexpr, STAGES: tl.constexpr):
    for r in tl.range(tl.program_id(0), rows, tl.num_programs(0), num_stages=STAGES):
        c = tl.arange(0, B)
        v = tl.load(x + r * sx + c, mask=c < cols, other=-float("inf")).to(tl.float32)
        e = tl.exp(v - tl.max(v, 0))
        tl.store(o + r * so + c, e / tl.sum(e, 0), mask=c < cols)


# accept softmax_row o=*f32/16 x=*f32/16 so=i32/16 sx=i32/16 rows=i32/16 cols=i32/16 B=1024 STAGES=2
# accept softmax_row o=*bf16/16 x=*bf16/16 so=i32 sx=i32 rows=i32 cols=i32 B=1024 STAGES=1


@triton.jit
def rms_row(o, x, res, g, n, eps, B: tl.constexpr, RES: tl.constexpr, SILU: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * n + c, mask=m, other=0.0).to(tl.float32)
    if RES:
        v += tl.load(res + r * n + c, mask=m, other=0.0).to(tl.float32)
    y = v * (1.0 / tl.sqrt(tl.sum(v * v, 0) / n + eps)) * tl.load(g + c, mask=m, other=0.0).to(tl.float32)
    if SILU:
        y = y * tl.sigmoid(y)
    tl.store(o + r * n + c, y, mask=m)


# accept rms_row o=*f16/16 x=*f16/16 res=*f16/16 g=*f16/16 n=i32/16 eps=f32 B=4096 RES=False SILU=False
# accept rms_row o=*f16/16 x=*f16/16 res=*f16/16 g=*f16/16 n=i32/16 eps=f32 B=4096 RES=True SILU=True


@triton.jit
def ln_row(o, x, g, b, n, eps, B: tl.constexpr):
    r = tl.program_id(0).to(tl.int64)
    c = tl.arange(0, B)
    m = c < n
    v = tl.load(x + r * n + c, mask=m, other=0.0).to(tl.float32)
    mean = tl.sum(v, 0) / n
    d = tl.where(m, v - mean, 0.0)
    y = d * (1.0 / tl.sqrt(tl.sum(d * d, 0) / n + eps))
    w = tl.load(g + c, mask=m, other=0.0).to(tl.float32)
    tl.store(o + r * n + c, y * w + tl.load(b + c, mask=m, other=0.0).to(tl.float32), mask=m)


# accept ln_row o=*f16/16 x=*f16/16 g=*f16/16 b=*f16/16 n=i32/16 eps=f32 B=4096


@triton.jit
def swiglu_k(o, a, b, total, B: tl.constexpr):
    i = tl.program_id(0).to(tl.int64) * B + tl.arange(0, B)
    m = i < total
    x = tl.load(a + i, mask=m).to(tl.float32)
    y = tl.load(b + i, mask=m)
    tl.store(o + i, (x * tl.sigmoid(x)).to(y.dtype) * y, mask=m)


# accept swiglu_k o=*f16/16 a=*f16/16 b=*f16/16 total=i32/16 B=1024


@triton.jit
def act(c, GELU: tl.constexpr):
    if GELU:
        u = 0.7978845608 * (c + 0.044715 * c * c * c)
        c = 0.5 * c * (1.0 + (1.0 - 2.0 / (tl.exp(2.0 * u) + 1.0)))
    return c


@triton.jit
def mm_ptr(a, b, c, M, N, K, sam, sak, sbk, sbn, scm, scn, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
           G: tl.constexpr, GELU: tl.constexpr):
    pid = tl.program_id(0)
    nm, nn = tl.cdiv(M, BM), tl.cdiv(N, BN)
    per = G * nn
    first = (pid // per) * G
    gs = min(nm - first, G)
    pm = first + (pid % per) % gs
    pn = (pid % per) // gs
    om = (pm * BM + tl.arange(0, BM)) % M
    on = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a + om[:, None] * sam + ok[None, :] * sak
    bp = b + ok[:, None] * sbk + on[None, :] * sbn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    acc = act(acc, GELU)
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    tl.store(c + scm * cm[:, None] + scn * cn[None, :], acc.to(c.dtype.element_ty),
             mask=(cm[:, None] < M) & (cn[None, :] < N))


# accept mm_ptr a=*f16/16 b=*f16/16 c=*f16/16 M=i32/16 N=i32/16 K=i32/16 sam=i32/16 sak=1 sbk=i32/16 sbn=1 scm=i32/16 scn=1 BM=128 BN=256 BK=64 G=8 GELU=True
# accept mm_ptr a=*bf16/16 b=*bf16/16 c=*bf16/16 M=i32 N=i32 K=i32 sam=i32 sak=i32 sbk=i32 sbn=i32 scm=i32 scn=i32 BM=16 BN=32 BK=128 G=8 GELU=False


@triton.jit
def online_softmax(o, x, stride, n, B: tl.constexpr):
    row = tl.program_id(0)
    m = -float("inf")
    s = 0.0
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf")).to(tl.float32)
        new = tl.maximum(m, tl.max(v, axis=0))
        s = s * tl.exp(m - new) + tl.sum(tl.exp(v - new), axis=0)
        m = new
    for start in range(0, n, B):
        c = start + tl.arange(0, B)
        v = tl.load(x + row * stride + c, mask=c < n, other=-float("inf")).to(tl.float32)
        tl.store(o + row * stride + c, tl.exp(v - m) / s, mask=c < n)


# accept online_softmax o=*f32/16 x=*f32/16 stride=i32/16 n=i32 B=1024
