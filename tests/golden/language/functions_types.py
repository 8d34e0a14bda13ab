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
