"""What is known of types at compile time."""
import triton
import triton.language as tl


@triton.jit
def kinds(x, n):
    t = tl.float16
    tl.static_assert(t.is_floating() and t.is_fp16() and not t.is_bf16() and not t.is_fp32() and not t.is_fp64())
    tl.static_assert(not t.is_fp8() and tl.float8e4nv.is_fp8e4nv() and tl.float8e5.is_fp8e5())
    t = tl.int16
    tl.static_assert(t.is_int() and t.is_int_signed() and not t.is_int_unsigned(), "signed")
    tl.static_assert(tl.int1.is_int1() and tl.int1.is_bool() and t.is_int16() and not t.is_int8())
    tl.static_assert(tl.int32.is_int32() and tl.int64.is_int64() and not t.is_ptr() and not t.is_block())
    tl.static_assert(tl.uint8.is_uint8() and tl.uint16.is_uint16() and tl.uint32.is_uint32() and tl.uint64.is_uint64())
    tl.static_assert(x.dtype == tl.pointer_type(tl.float32))
    tl.static_assert(tl.arange(0, 4).type.get_block_shapes()[0] == 4)
    tl.static_assert(tl.get_int_dtype(16, signed=True) == tl.int16)
    tl.static_print("kinds of", x, sep=" ")
    tl.store(x, tl.standard._log2(8))


# check kinds x=*f32 n=i32
# func @kinds(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 4, start = 0} : tile<4xi32>
#   %3 = constant {value = 3.0} : f32
#   store %0, %3
#   return
# }


@triton.jit
def combining(out, a, b, i, j):
    s = tl.standard
    v = s._sum_combine(a, b) + s._prod_combine(a, b) + s._elementwise_max(a, b) + s._elementwise_min(a, b)
    k = s._xor_combine(i, j) + s._or_combine(i, j)
    v0, i0 = s._argmax_combine(a, i, b, j, True)
    v1, i1 = s._argmax_combine_tie_break_left(a, i, b, j)
    v2, i2 = s._argmax_combine_tie_break_fast(a, i, b, j)
    v3, i3 = s._argmin_combine(a, i, b, j, False)
    v4, i4 = s._argmin_combine_tie_break_left(a, i, b, j)
    v5, i5 = s._argmin_combine_tie_break_fast(a, i, b, j)
    tl.static_assert(s._is_power_of_two(8))
    both = (a > b).logical_and(i > j)
    tl.store(out, v + v0 + v1 + v2 + v3 + v4 + v5, mask=both.logical_or(k + i0 + i1 + i2 + i3 + i4 + i5 > 0))


# check combining out=*f32 a=f32 b=f32 i=i32 j=i32
# func @combining(%0: ptr<f32> "out", %1: f32 "a", %2: f32 "b", %3: i32 "i", %4: i32 "j") {num_stages = 3, num_warps = 4} {
#   %5 = add %1, %2 : f32
#   %6 = mul %1, %2 : f32
#   %7 = add %5, %6 : f32
#   %8 = maximum %1, %2 : f32
#   %9 = add %7, %8 : f32
#   %10 = minimum %1, %2 : f32
#   %11 = add %9, %10 : f32
#   %12 = bit_xor %3, %4 : i32
#   %13 = bit_or %3, %4 : i32
#   %14 = add %12, %13 : i32
#   %15 = gt %1, %2 : i1
#   %16 = eq %1, %2 : i1
#   %17 = lt %3, %4 : i1
#   %18 = bit_and %16, %17 : i1
#   %19 = bit_or %15, %18 : i1
#   %20 = select %19, %1, %2 : f32
#   %21 = select %19, %3, %4 : i32
#   %22 = gt %1, %2 : i1
#   %23 = eq %1, %2 : i1
#   %24 = lt %3, %4 : i1
#   %25 = bit_and %23, %24 : i1
#   %26 = bit_or %22, %25 : i1
#   %27 = select %26, %1, %2 : f32
#   %28 = select %26, %3, %4 : i32
#   %29 = gt %1, %2 : i1
#   %30 = select %29, %1, %2 : f32
#   %31 = select %29, %3, %4 : i32
#   %32 = lt %1, %2 : i1
#   %33 = select %32, %1, %2 : f32
#   %34 = select %32, %3, %4 : i32
#   %35 = lt %1, %2 : i1
#   %36 = eq %1, %2 : i1
#   %37 = lt %3, %4 : i1
#   %38 = bit_and %36, %37 : i1
#   %39 = bit_or %35, %38 : i1
#   %40 = select %39, %1, %2 : f32
#   %41 = select %39, %3, %4 : i32
#   %42 = lt %1, %2 : i1
#   %43 = select %42, %1, %2 : f32
#   %44 = select %42, %3, %4 : i32
#   %45 = gt %1, %2 : i1
#   %46 = gt %3, %4 : i1
#   %47 = bit_and %45, %46 : i1
#   %48 = add %11, %20 : f32
#   %49 = add %48, %27 : f32
#   %50 = add %49, %30 : f32
#   %51 = add %50, %33 : f32
#   %52 = add %51, %40 : f32
#   %53 = add %52, %43 : f32
#   %54 = add %14, %21 : i32
#   %55 = add %54, %28 : i32
#   %56 = add %55, %31 : i32
#   %57 = add %56, %34 : i32
#   %58 = add %57, %41 : i32
#   %59 = add %58, %44 : i32
#   %60 = constant {value = 0} : i32
#   %61 = gt %59, %60 : i1
#   %62 = bit_or %47, %61 : i1
#   store %0, %53, %62
#   return
# }


@triton.jit
def narrow_floats(out, x):
    tl.static_assert(tl.float8e4b15.is_fp8e4b15() and tl.float8e4b8.is_fp8e4b8() and tl.float8e5b16.is_fp8e5b16())
    v = tl.load(x).to(tl.float8e4b15)
    cuda = tl.extra.cuda
    tl.store(out, cuda.convert_custom_float8(v, tl.float16))
    tl.store(out + 1, cuda.convert_custom_float8_sm70(v, tl.float16))
    tl.store(out + 2, cuda.convert_custom_float8_sm80(v, tl.float16))


# check narrow_floats out=*f16 x=*f16
# func @narrow_floats(%0: ptr<f16> "out", %1: ptr<f16> "x") {num_stages = 3, num_warps = 4} {
#   %2 = load %1 : f16
#   %3 = cast %2 : f8e4b15
#   %4 = cast %3 : f16
#   store %0, %4
#   %5 = constant {value = 1} : i32
#   %6 = addptr %0, %5 : ptr<f16>
#   %7 = cast %3 : f16
#   store %6, %7
#   %8 = constant {value = 2} : i32
#   %9 = addptr %0, %8 : ptr<f16>
#   %10 = cast %3 : f16
#   store %9, %10
#   return
# }


@triton.jit
def methods_of_narrow_floats(h):
    a = tl.load(h)
    tl.static_assert(a.dtype.fp_mantissa_width == 10 and a.dtype.exponent_bias == 15)
    tl.store(h, a.exp())
    tl.store(h, a.abs())


# check methods_of_narrow_floats h=*f16
# func @methods_of_narrow_floats(%0: ptr<f16> "h") {num_stages = 3, num_warps = 4} {
#   %1 = load %0 : f16
#   %2 = cast %1 : f32
#   %3 = exp %2 : f32
#   %4 = cast %3 : f16
#   store %0, %4
#   %5 = abs %1 : f16
#   store %0, %5
#   return
# }


@triton.jit
def joined_with_another_sign(n, u):
    i = tl.arange(0, 4)
    a = tl.load(n + i)
    b = tl.cat(a, tl.load(u + i))
    tl.store(n + tl.arange(0, 8), b.cdiv(3))


# check joined_with_another_sign n=*i32 u=*u32
# func @joined_with_another_sign(%0: ptr<i32> "n", %1: ptr<u32> "u") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 4, start = 0} : tile<4xi32>
#   %3 = splat %0 : tile<4xptr<i32>>
#   %4 = addptr %3, %2 : tile<4xptr<i32>>
#   %5 = load %4 : tile<4xi32>
#   %6 = splat %1 : tile<4xptr<u32>>
#   %7 = addptr %6, %2 : tile<4xptr<u32>>
#   %8 = load %7 : tile<4xu32>
#   %9 = bitcast %8 : tile<4xi32>
#   %10 = expand_dims %5 {axis = 1} : tile<4x1xi32>
#   %11 = broadcast %10 : tile<4x2xi32>
#   %12 = expand_dims %9 {axis = 1} : tile<4x1xi32>
#   %13 = broadcast %12 : tile<4x2xi32>
#   %14 = arange {end = 2, start = 0} : tile<2xi32>
#   %15 = constant {value = 0} : tile<2xi32>
#   %16 = eq %14, %15 : tile<2xi1>
#   %17 = expand_dims %16 {axis = 0} : tile<1x2xi1>
#   %18 = broadcast %17 : tile<4x2xi1>
#   %19 = select %18, %11, %13 : tile<4x2xi32>
#   %20 = trans %19 {order = [1, 0]} : tile<2x4xi32>
#   %21 = reshape %20 : tile<8xi32>
#   %22 = arange {end = 8, start = 0} : tile<8xi32>
#   %23 = splat %0 : tile<8xptr<i32>>
#   %24 = addptr %23, %22 : tile<8xptr<i32>>
#   %25 = constant {value = 2} : i32
#   %26 = splat %25 : tile<8xi32>
#   %27 = add %21, %26 : tile<8xi32>
#   %28 = constant {value = 3} : i32
#   %29 = splat %28 : tile<8xi32>
#   %30 = div %27, %29 : tile<8xi32>
#   store %24, %30
#   return
# }
