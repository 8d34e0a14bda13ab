"""What kernels import of Triton's own library, methods of masks, Triton's own float8."""
import triton
import triton.language as tl
from triton.language import standard
from triton.language.standard import _is_power_of_two, _sum_combine


@triton.jit
def combined(out, x, N: tl.constexpr):
    tl.static_assert(_is_power_of_two(N))
    i = tl.arange(0, N)
    v = tl.load(x + i)
    tl.store(out, tl.reduce(v, 0, _sum_combine))
    tl.store(out + 1, tl.reduce(v, 0, standard._prod_combine))
    tl.store(out + 2, tl.reduce(v, 0, standard._xor_combine))
    tl.store(out + 3, tl.reduce(v, 0, standard._or_combine))
    tl.store(out + 4, tl.reduce(v, 0, standard._elementwise_max))
    tl.store(out + 5, tl.reduce(v, 0, standard._elementwise_min))


@triton.jit
def indices(out, a, b):
    value, index = standard._argmax_combine(a, 0, b, 1, True)
    value, index = standard._argmax_combine_tie_break_left(value, index, b, 2)
    value, index = standard._argmax_combine_tie_break_fast(value, index, b, 3)
    value, index = standard._argmin_combine(value, index, b, 4, False)
    value, index = standard._argmin_combine_tie_break_left(value, index, b, 5)
    value, index = standard._argmin_combine_tie_break_fast(value, index, b, 6)
    tl.store(out, index)


@triton.jit
def masks(out, n):
    i = tl.arange(0, 16)
    tl.store(out + i, i, mask=(i < n).logical_and(i > 2).logical_or(i == 0))


@triton.jit
def float8(out, x):
    tl.static_assert(x.dtype.element_ty.is_fp8e4b15() and not tl.float8e5.is_fp8e4b8() and tl.float8e5b16.is_fp8e5b16())
    i = tl.arange(0, 16)
    h = tl.extra.cuda.convert_custom_float8(tl.load(x + i), tl.float16)
    f = tl.extra.cuda.convert_custom_float8_sm80(tl.load(x + i), tl.float32)
    tl.store(x + i, tl.extra.cuda.convert_custom_float8_sm70(h + f.to(tl.float16), tl.float8e4b15))
    tl.store(out + i, tl.load(x + i).to(tl.float8e4b8))


# check combined out=*i32 x=*i32 N=16
# func @combined(%0: ptr<i32> "out", %1: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 16, start = 0} : tile<16xi32>
#   %3 = splat %1 : tile<16xptr<i32>>
#   %4 = addptr %3, %2 : tile<16xptr<i32>>
#   %5 = load %4 : tile<16xi32>
#   %6 = reduce %5 {axis = 0} : i32 { ^(%7: i32, %8: i32):
#     %9 = add %7, %8 : i32
#     yield %9
#   }
#   store %0, %6
#   %10 = constant {value = 1} : i32
#   %11 = addptr %0, %10 : ptr<i32>
#   %12 = reduce %5 {axis = 0} : i32 { ^(%13: i32, %14: i32):
#     %15 = mul %13, %14 : i32
#     yield %15
#   }
#   store %11, %12
#   %16 = constant {value = 2} : i32
#   %17 = addptr %0, %16 : ptr<i32>
#   %18 = reduce %5 {axis = 0} : i32 { ^(%19: i32, %20: i32):
#     %21 = bit_xor %19, %20 : i32
#     yield %21
#   }
#   store %17, %18
#   %22 = constant {value = 3} : i32
#   %23 = addptr %0, %22 : ptr<i32>
#   %24 = reduce %5 {axis = 0} : i32 { ^(%25: i32, %26: i32):
#     %27 = bit_or %25, %26 : i32
#     yield %27
#   }
#   store %23, %24
#   %28 = constant {value = 4} : i32
#   %29 = addptr %0, %28 : ptr<i32>
#   %30 = reduce %5 {axis = 0} : i32 { ^(%31: i32, %32: i32):
#     %33 = maximum %31, %32 : i32
#     yield %33
#   }
#   store %29, %30
#   %34 = constant {value = 5} : i32
#   %35 = addptr %0, %34 : ptr<i32>
#   %36 = reduce %5 {axis = 0} : i32 { ^(%37: i32, %38: i32):
#     %39 = minimum %37, %38 : i32
#     yield %39
#   }
#   store %35, %36
#   return
# }
# check indices out=*i32 a=i32 b=i32
# func @indices(%0: ptr<i32> "out", %1: i32 "a", %2: i32 "b") {num_stages = 3, num_warps = 4} {
#   %3 = gt %1, %2 : i1
#   %4 = eq %1, %2 : i1
#   %5 = constant {value = 1} : i1
#   %6 = bit_and %4, %5 : i1
#   %7 = bit_or %3, %6 : i1
#   %8 = select %7, %1, %2 : i32
#   %9 = constant {value = 0} : i32
#   %10 = constant {value = 1} : i32
#   %11 = select %7, %9, %10 : i32
#   %12 = gt %8, %2 : i1
#   %13 = constant {value = 2} : i32
#   %14 = lt %11, %13 : i1
#   %15 = eq %8, %2 : i1
#   %16 = bit_and %15, %14 : i1
#   %17 = bit_or %12, %16 : i1
#   %18 = select %17, %8, %2 : i32
#   %19 = constant {value = 2} : i32
#   %20 = select %17, %11, %19 : i32
#   %21 = gt %18, %2 : i1
#   %22 = select %21, %18, %2 : i32
#   %23 = constant {value = 3} : i32
#   %24 = select %21, %20, %23 : i32
#   %25 = lt %22, %2 : i1
#   %26 = select %25, %22, %2 : i32
#   %27 = constant {value = 4} : i32
#   %28 = select %25, %24, %27 : i32
#   %29 = lt %26, %2 : i1
#   %30 = constant {value = 5} : i32
#   %31 = lt %28, %30 : i1
#   %32 = eq %26, %2 : i1
#   %33 = bit_and %32, %31 : i1
#   %34 = bit_or %29, %33 : i1
#   %35 = select %34, %26, %2 : i32
#   %36 = constant {value = 5} : i32
#   %37 = select %34, %28, %36 : i32
#   %38 = lt %35, %2 : i1
#   %39 = select %38, %35, %2 : i32
#   %40 = constant {value = 6} : i32
#   %41 = select %38, %37, %40 : i32
#   store %0, %41
#   return
# }
# check masks out=*i32 n=i32
# func @masks(%0: ptr<i32> "out", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 16, start = 0} : tile<16xi32>
#   %3 = splat %0 : tile<16xptr<i32>>
#   %4 = addptr %3, %2 : tile<16xptr<i32>>
#   %5 = splat %1 : tile<16xi32>
#   %6 = lt %2, %5 : tile<16xi1>
#   %7 = constant {value = 2} : i32
#   %8 = splat %7 : tile<16xi32>
#   %9 = gt %2, %8 : tile<16xi1>
#   %10 = bit_and %6, %9 : tile<16xi1>
#   %11 = constant {value = 0} : i32
#   %12 = splat %11 : tile<16xi32>
#   %13 = eq %2, %12 : tile<16xi1>
#   %14 = bit_or %10, %13 : tile<16xi1>
#   store %4, %2, %14
#   return
# }
# check float8 out=*f8e4b8 x=*f8e4b15
# func @float8(%0: ptr<f8e4b8> "out", %1: ptr<f8e4b15> "x") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 16, start = 0} : tile<16xi32>
#   %3 = splat %1 : tile<16xptr<f8e4b15>>
#   %4 = addptr %3, %2 : tile<16xptr<f8e4b15>>
#   %5 = load %4 : tile<16xf8e4b15>
#   %6 = cast %5 : tile<16xf16>
#   %7 = splat %1 : tile<16xptr<f8e4b15>>
#   %8 = addptr %7, %2 : tile<16xptr<f8e4b15>>
#   %9 = load %8 : tile<16xf8e4b15>
#   %10 = cast %9 : tile<16xf32>
#   %11 = splat %1 : tile<16xptr<f8e4b15>>
#   %12 = addptr %11, %2 : tile<16xptr<f8e4b15>>
#   %13 = cast %10 : tile<16xf16>
#   %14 = add %6, %13 : tile<16xf16>
#   %15 = cast %14 : tile<16xf8e4b15>
#   store %12, %15
#   %16 = splat %0 : tile<16xptr<f8e4b8>>
#   %17 = addptr %16, %2 : tile<16xptr<f8e4b8>>
#   %18 = splat %1 : tile<16xptr<f8e4b15>>
#   %19 = addptr %18, %2 : tile<16xptr<f8e4b15>>
#   %20 = load %19 : tile<16xf8e4b15>
#   %21 = cast %20 : tile<16xf8e4b8>
#   store %17, %21
#   return
# }
