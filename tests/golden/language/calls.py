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
# calls.py:30:17: error: shapes differ
#         v = tl.load(x + i * 32 + j).to(tl.float32)
#                     ^~~~~~~~~~~~~~
# calls.py:32:14: error: shapes differ
#         tl.store(x + j.T * 16 + i.T, v.T)
#                  ^~~~~~~~~~~~~~~~~~


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
