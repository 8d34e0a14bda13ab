"""Calls of functions."""
import triton
import triton.language as tl


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def apply(f, x, y=1, *, scale: tl.constexpr = 2):
    return f(x, y) * scale


@triton.jit
def functions(x, B: tl.constexpr):
    i = tl.arange(0, B)
    m = tl.reduce(i, 0, larger)
    tl.store(x + i, apply(larger, i) + apply(f=larger, y=m, x=i, scale=1))


# check functions x=*i32 B=64
# func @functions(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 64, start = 0} : tile<64xi32>
#   %2 = reduce %1 {axis = 0} : i32 { ^(%3: i32, %4: i32):
#     %5 = maximum %3, %4 : i32
#     yield %5
#   }
#   %6 = splat %0 : tile<64xptr<i32>>
#   %7 = addptr %6, %1 : tile<64xptr<i32>>
#   %8 = constant {value = 1} : i32
#   %9 = splat %8 : tile<64xi32>
#   %10 = maximum %1, %9 : tile<64xi32>
#   %11 = constant {value = 2} : i32
#   %12 = splat %11 : tile<64xi32>
#   %13 = mul %10, %12 : tile<64xi32>
#   %14 = splat %2 : tile<64xi32>
#   %15 = maximum %1, %14 : tile<64xi32>
#   %16 = constant {value = 1} : i32
#   %17 = splat %16 : tile<64xi32>
#   %18 = mul %15, %17 : tile<64xi32>
#   %19 = add %13, %18 : tile<64xi32>
#   store %7, %19
#   return
# }


@triton.jit
def methods(x, y):
    i = tl.arange(0, 16)[:, None]
    j = tl.arange(0, 32)[None, :]
    v = tl.load(x + i * 32 + j).to(tl.float32)
    tl.store(y + tl.arange(0, 16), v.sum(1).to(y.dtype.element_ty))
    tl.store(x + j.T * 16 + i.T, v.T)


# check methods x=*f16 y=*bf16
# func @methods(%0: ptr<f16> "x", %1: ptr<bf16> "y") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 16, start = 0} : tile<16xi32>
#   %3 = expand_dims %2 {axis = 1} : tile<16x1xi32>
#   %4 = arange {end = 32, start = 0} : tile<32xi32>
#   %5 = expand_dims %4 {axis = 0} : tile<1x32xi32>
#   %6 = constant {value = 32} : i32
#   %7 = splat %6 : tile<16x1xi32>
#   %8 = mul %3, %7 : tile<16x1xi32>
#   %9 = splat %0 : tile<16x1xptr<f16>>
#   %10 = addptr %9, %8 : tile<16x1xptr<f16>>
#   %11 = broadcast %10 : tile<16x32xptr<f16>>
#   %12 = broadcast %5 : tile<16x32xi32>
#   %13 = addptr %11, %12 : tile<16x32xptr<f16>>
#   %14 = load %13 : tile<16x32xf16>
#   %15 = cast %14 : tile<16x32xf32>
#   %16 = arange {end = 16, start = 0} : tile<16xi32>
#   %17 = splat %1 : tile<16xptr<bf16>>
#   %18 = addptr %17, %16 : tile<16xptr<bf16>>
#   %19 = reduce %15 {axis = 1} : tile<16xf32> { ^(%20: f32, %21: f32):
#     %22 = add %20, %21 : f32
#     yield %22
#   }
#   %23 = cast %19 : tile<16xbf16>
#   store %18, %23
#   %24 = trans %5 {order = [1, 0]} : tile<32x1xi32>
#   %25 = constant {value = 16} : i32
#   %26 = splat %25 : tile<32x1xi32>
#   %27 = mul %24, %26 : tile<32x1xi32>
#   %28 = splat %0 : tile<32x1xptr<f16>>
#   %29 = addptr %28, %27 : tile<32x1xptr<f16>>
#   %30 = trans %3 {order = [1, 0]} : tile<1x16xi32>
#   %31 = broadcast %29 : tile<32x16xptr<f16>>
#   %32 = broadcast %30 : tile<32x16xi32>
#   %33 = addptr %31, %32 : tile<32x16xptr<f16>>
#   %34 = trans %15 {order = [1, 0]} : tile<32x16xf32>
#   %35 = cast %34 : tile<32x16xf16>
#   store %33, %35
#   return
# }


@triton.jit
def builtins(x, n):
    a = min(n, 4, 7)
    b = max(a, min(3, 2))
    tl.store(x, abs(b) + abs(-3) + int(2.5) + float(n))


# check builtins x=*f32 n=i32
# func @builtins(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 4} : i32
#   %3 = minimum %1, %2 : i32
#   %4 = constant {value = 7} : i32
#   %5 = minimum %3, %4 : i32
#   %6 = constant {value = 2} : i32
#   %7 = maximum %5, %6 : i32
#   %8 = abs %7 : i32
#   %9 = constant {value = 3} : i32
#   %10 = add %8, %9 : i32
#   %11 = constant {value = 2} : i32
#   %12 = add %10, %11 : i32
#   %13 = cast %1 : f32
#   %14 = cast %12 : f32
#   %15 = add %14, %13 : f32
#   store %0, %15
#   return
# }
