"""Names at compile time and at run time."""
import math
import numpy as np
import torch
import triton
import triton.language as tl
from triton.language import load as ld
from triton.language.extra import libdevice
from package.triton_utils import tl as language

WIDTH: tl.constexpr = 16
TWICE = tl.constexpr(WIDTH * 2)
NEG = -float("inf")


@triton.jit
def constants(x, ACT: tl.constexpr, PTR):
    """Everything here is known before the program runs."""
    a, (b, c) = 1, (2, 3)
    a, b = b, a
    shape = (a * WIDTH, TWICE)
    n: tl.constexpr = shape[0] + len(shape) + int(math.log2(TWICE))
    if ACT == "relu" and n > 4:
        d = 5
    elif ACT == "gelu":
        d = undefined_name_in_a_dead_branch
    else:
        raise ValueError("unknown activation")
    ok = PTR is None and 1 < d <= 5 and ACT in ("relu", "gelu")
    tl.static_assert(ok, "constants")
    assert ok, "constants"
    tl.store(x, n + (d if ok else nothing) + triton.next_power_of_2(c + 2) + max(1, c, b))


# check constants x=*i32 ACT='relu' PTR=None
# func @constants(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = constant {value = 55} : i32
#   store %0, %1
#   return
# }


@triton.jit
def numbers_of_libraries(x):
    tl.store(x, -torch.inf)
    tl.store(x + 1, torch.pi - math.pi + np.e - math.e)
    tl.static_assert(math.isqrt(10**30 + 12345) == 10**15 and math.isqrt(0) == 0 and math.factorial(20) == 2432902008176640000)
    tl.static_assert(math.gcd(-12, 18) == 6 and math.lcm(12, 18) == 36 and math.lcm(0, 3) == 0)
    tl.static_assert(math.ceil(10**30) == 10**30 and math.trunc(-2.5) == -2 and math.floor(-2.5) == -3)
    tl.static_assert(math.hypot(3, 4) == 5.0 and math.fmod(-7, 3) == -1.0 and math.log(8, 2) == 3.0 and math.log10(1000) == 3.0)
    tl.static_assert(math.isinf(-math.inf) and not math.isnan(1) and math.fabs(-3) == 3.0 and math.tanh(0) == 0.0)


# check numbers_of_libraries x=*f32
# func @numbers_of_libraries(%0: ptr<f32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = constant {value = -inf} : f32
#   store %0, %1
#   %2 = constant {value = 1} : i32
#   %3 = addptr %0, %2 : ptr<f32>
#   %4 = constant {value = 0.0} : f32
#   store %3, %4
#   return
# }


@triton.jit
def modules(x, n):
    i = tl.arange(0, triton.cdiv(31, 2) * WIDTH // 16)
    v = ld(x + i, mask=i < n, other=NEG)
    language.store(x + i, libdevice.exp(v) + tl.math.exp2(v), mask=i < n)


# check modules x=*f32/16 n=i32/16
# func @modules(%0: ptr<f32> "x" div 16, %1: i32 "n" div 16) {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 16, start = 0} : tile<16xi32>
#   %3 = splat %0 : tile<16xptr<f32>>
#   %4 = addptr %3, %2 : tile<16xptr<f32>>
#   %5 = splat %1 : tile<16xi32>
#   %6 = lt %2, %5 : tile<16xi1>
#   %7 = constant {value = -inf} : f32
#   %8 = splat %7 : tile<16xf32>
#   %9 = load %4, %6, %8 : tile<16xf32>
#   %10 = splat %0 : tile<16xptr<f32>>
#   %11 = addptr %10, %2 : tile<16xptr<f32>>
#   %12 = libdevice %9 {function = "exp"} : tile<16xf32>
#   %13 = exp2 %9 : tile<16xf32>
#   %14 = add %12, %13 : tile<16xf32>
#   %15 = splat %1 : tile<16xi32>
#   %16 = lt %2, %15 : tile<16xi1>
#   store %11, %14, %16
#   return
# }


@triton.jit
def literals(x, s):
    v = tl.load(x)
    half = 0.5
    tl.store(x, v * 0.5)  # the type of v
    tl.store(x, v * half)  # float32, as an assigned number is a scalar of its own
    tl.store(x, v * s)  # a compiled-in argument is as a literal


# check literals x=*f16 s=0.5
# func @literals(%0: ptr<f16> "x") {num_stages = 3, num_warps = 4} {
#   %1 = load %0 : f16
#   %2 = constant {value = 0.5} : f16
#   %3 = mul %1, %2 : f16
#   store %0, %3
#   %4 = cast %1 : f32
#   %5 = constant {value = 0.5} : f32
#   %6 = mul %4, %5 : f32
#   %7 = cast %6 : f16
#   store %0, %7
#   %8 = constant {value = 0.5} : f16
#   %9 = mul %1, %8 : f16
#   store %0, %9
#   return
# }


@triton.jit
def ternaries(x, n, p):
    a = n if n > 4 else 4
    b = tl.load(p) if n > 0 else 0.0
    tl.store(x, b + a)


# check ternaries x=*f32 n=i32 p=*f32
# func @ternaries(%0: ptr<f32> "x", %1: i32 "n", %2: ptr<f32> "p") {num_stages = 3, num_warps = 4} {
#   %3 = constant {value = 4} : i32
#   %4 = gt %1, %3 : i1
#   %5 = constant {value = 4} : i32
#   %6 = select %4, %1, %5 : i32
#   %7 = constant {value = 0} : i32
#   %8 = gt %1, %7 : i1
#   %9 = if %8 : f32 { ^():
#     %10 = load %2 : f32
#     yield %10
#   } { ^():
#     %11 = constant {value = 0.0} : f32
#     yield %11
#   }
#   %12 = cast %6 : f32
#   %13 = add %9, %12 : f32
#   store %0, %13
#   return
# }


@triton.jit
def types(x, n, DT: tl.constexpr):
    a = tl.float32(0.0)
    if x.dtype.element_ty == tl.float16 and DT == tl.float16:
        a = tl.float32(n)
    tl.store(x, a)


# check types x=*f16 n=i32 DT=float16
# func @types(%0: ptr<f16> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0.0} : f32
#   %3 = cast %1 : f32
#   %4 = cast %3 : f16
#   store %0, %4
#   return
# }
# check types x=*f32 n=i32 DT=float16
# func @types(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0.0} : f32
#   store %0, %2
#   return
# }


@triton.jit
def numbers_with_a_type(x):
    plain = 2.5
    called = tl.constexpr(2.5)
    annotated: tl.constexpr = 2.5
    v = tl.load(x)
    tl.static_assert((v * plain).dtype == tl.float32 and (v * called).dtype == tl.float32)
    tl.static_assert((v * annotated).dtype == tl.float16 and (v * 2.5).dtype == tl.float16)
    tl.store(x, v)


# accept numbers_with_a_type x=*f16


@triton.jit
def parts_of_texts(x, MODE: tl.constexpr):
    tl.static_assert(MODE[0] == "r" and MODE[-1] == "ü")


# accept parts_of_texts x=*f32 MODE='relü'
