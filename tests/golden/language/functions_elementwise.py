"""Functions of elements: which ops they are made of."""
import triton
import triton.language as tl


@triton.jit
def one_op(x, n):
    a = tl.load(x)
    a = tl.floor(a) + tl.ceil(a) + tl.abs(a)
    a = tl.sqrt(a) + tl.sqrt_rn(a) + tl.rsqrt(a)
    a = tl.exp(a) + tl.exp2(a) + tl.log(a) + tl.log2(a)
    a = tl.sin(a) + tl.cos(a) + tl.erf(a) + tl.fast_tanhf(a)
    a = tl.div_rn(a, tl.pow(a, a))
    tl.store(x, tl.fma(a, a, a))
    tl.store(n, tl.umulhi(tl.load(n), 5))


# check one_op x=*f32 n=*i32
# func @one_op(%0: ptr<f32> "x", %1: ptr<i32> "n") {num_stages = 3, num_warps = 4} {
#   %2 = load %0 : f32
#   %3 = floor %2 : f32
#   %4 = ceil %2 : f32
#   %5 = add %3, %4 : f32
#   %6 = abs %2 : f32
#   %7 = add %5, %6 : f32
#   %8 = sqrt %7 : f32
#   %9 = sqrt_rn %7 : f32
#   %10 = add %8, %9 : f32
#   %11 = rsqrt %7 : f32
#   %12 = add %10, %11 : f32
#   %13 = exp %12 : f32
#   %14 = exp2 %12 : f32
#   %15 = add %13, %14 : f32
#   %16 = log %12 : f32
#   %17 = add %15, %16 : f32
#   %18 = log2 %12 : f32
#   %19 = add %17, %18 : f32
#   %20 = sin %19 : f32
#   %21 = cos %19 : f32
#   %22 = add %20, %21 : f32
#   %23 = erf %19 : f32
#   %24 = add %22, %23 : f32
#   %25 = fast_tanhf %19 : f32
#   %26 = add %24, %25 : f32
#   %27 = pow %26, %26 : f32
#   %28 = div_rn %26, %27 : f32
#   %29 = fma %28, %28, %28 : f32
#   store %0, %29
#   %30 = load %1 : i32
#   %31 = constant {value = 5} : i32
#   %32 = umulhi %30, %31 : i32
#   store %1, %32
#   return
# }


@triton.jit
def several_ops(x, y):
    a = tl.load(x)
    b = tl.load(y)
    a = tl.minimum(a, b) + tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)
    a = tl.clamp(a, 0.0, b)
    a = tl.fdiv(a, b) + tl.fdiv(a, b, ieee_rounding=True)
    a = tl.add(a, tl.mul(tl.sub(a, b), b))
    a = tl.math.tanh(a) + tl.math.tanh(a, approx=True) + tl.sigmoid(a)
    tl.store(x, tl.where(a <= b, a, b))


# check several_ops x=*f32 y=*f32
# func @several_ops(%0: ptr<f32> "x", %1: ptr<f32> "y") {num_stages = 3, num_warps = 4} {
#   %2 = load %0 : f32
#   %3 = load %1 : f32
#   %4 = minimum %2, %3 : f32
#   %5 = maximum %2, %3 {nan = true} : f32
#   %6 = add %4, %5 : f32
#   %7 = constant {value = 0.0} : f32
#   %8 = maximum %6, %7 : f32
#   %9 = minimum %8, %3 : f32
#   %10 = div %9, %3 : f32
#   %11 = div_rn %9, %3 : f32
#   %12 = add %10, %11 : f32
#   %13 = sub %12, %3 : f32
#   %14 = mul %13, %3 : f32
#   %15 = add %12, %14 : f32
#   %16 = tanh %15 : f32
#   %17 = fast_tanhf %15 : f32
#   %18 = add %16, %17 : f32
#   %19 = neg %15 : f32
#   %20 = exp %19 : f32
#   %21 = constant {value = 1.0} : f32
#   %22 = add %21, %20 : f32
#   %23 = constant {value = 1.0} : f32
#   %24 = div %23, %22 : f32
#   %25 = add %18, %24 : f32
#   %26 = le %25, %3 : i1
#   %27 = select %26, %25, %3 : f32
#   store %0, %27
#   return
# }


@triton.jit
def converted(x, h, n):
    a = tl.load(x)
    tl.store(h, tl.cast(a, tl.float16, fp_downcast_rounding="rtz"))
    tl.store(n, tl.cast(a, tl.int32, bitcast=True))
    tl.store(n, -(tl.load(n) << 3 >> 1 & 12 | 1 ^ 5))


# check converted x=*f32 h=*f16 n=*i32
# func @converted(%0: ptr<f32> "x", %1: ptr<f16> "h", %2: ptr<i32> "n") {num_stages = 3, num_warps = 4} {
#   %3 = load %0 : f32
#   %4 = cast %3 {rounding = "rtz"} : f16
#   store %1, %4
#   %5 = bitcast %3 : i32
#   store %2, %5
#   %6 = load %2 : i32
#   %7 = constant {value = 3} : i32
#   %8 = shl %6, %7 : i32
#   %9 = constant {value = 1} : i32
#   %10 = shr %8, %9 : i32
#   %11 = constant {value = 12} : i32
#   %12 = bit_and %10, %11 : i32
#   %13 = constant {value = 4} : i32
#   %14 = bit_or %12, %13 : i32
#   %15 = neg %14 : i32
#   store %2, %15
#   return
# }


@triton.jit
def assembly(x, n):
    a = tl.load(x)
    b = tl.inline_asm_elementwise("add.rz.f32 $0, $1, $2;", "=f,f,f", [a, 1.5], tl.float32, True, 1)
    c, d = tl.inline_asm_elementwise("{ mov.b32 $0, $2; mov.b32 $1, $2; }", "=r,=r,r", [tl.load(n)],
                                     (tl.int32, tl.int32), False, 1)
    tl.store(x, b)
    tl.store(n, c + d)
    tl.store(n, tl.extra.cuda.globaltimer().to(tl.int32) + tl.extra.cuda.smid())


# check assembly x=*f32 n=*i32
# func @assembly(%0: ptr<f32> "x", %1: ptr<i32> "n") {num_stages = 3, num_warps = 4} {
#   %2 = load %0 : f32
#   %3 = constant {value = 1.5} : f32
#   %4 = inline_asm %2, %3 {assembly = "add.rz.f32 $0, $1, $2;", constraints = "=f,f,f", pack = 1} : f32
#   %5 = load %1 : i32
#   %6, %7 = inline_asm_effects %5 {assembly = "{ mov.b32 $0, $2; mov.b32 $1, $2; }", constraints = "=r,=r,r", pack = 1} : i32, i32
#   store %0, %4
#   %8 = add %6, %7 : i32
#   store %1, %8
#   %9 = inline_asm_effects {assembly = "mov.u64 $0, %globaltimer;", constraints = "=l", pack = 1} : i64
#   %10 = cast %9 : i32
#   %11 = inline_asm {assembly = "mov.u32 $0, %smid;", constraints = "=r", pack = 1} : i32
#   %12 = add %10, %11 : i32
#   store %1, %12
#   return
# }


@triton.jit
def mapped(out, x, N: tl.constexpr):
    i = tl.arange(0, N)
    a, b = tl.map_elementwise(bounds, tl.load(x + i), i, pack=2)
    tl.store(out + i, a + b)


@triton.jit
def bounds(a, b, c, d):
    return tl.minimum(a, b), tl.maximum(a, b), c, d


# check mapped out=*i32 x=*i32 N=4
# func @mapped(%0: ptr<i32> "out", %1: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 4, start = 0} : tile<4xi32>
#   %3 = splat %1 : tile<4xptr<i32>>
#   %4 = addptr %3, %2 : tile<4xptr<i32>>
#   %5 = load %4 : tile<4xi32>
#   %6, %7 = map_elementwise %5, %2 {pack = 2} : tile<4xi32>, tile<4xi32> { ^(%8: i32, %9: i32, %10: i32, %11: i32):
#     %12 = minimum %8, %9 : i32
#     %13 = maximum %8, %9 : i32
#     yield %12, %13, %10, %11
#   }
#   %14 = splat %0 : tile<4xptr<i32>>
#   %15 = addptr %14, %2 : tile<4xptr<i32>>
#   %16 = add %6, %7 : tile<4xi32>
#   store %15, %16
#   return
# }
