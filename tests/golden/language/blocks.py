"""Block pointers: what loads, loops and branches make of them."""
import triton
import triton.language as tl


@triton.jit
def copy(out, x, n, m: tl.int64):
    p = tl.make_block_ptr(x, (n, m), (m, 1), (0, tl.program_id(0) * 32), (16, 32), (1, 0))
    q = tl.make_block_ptr(out, (m, n), (n, 1), (tl.program_id(0) * 32, 0), (32, 16), (1, 0))
    v = tl.load(p, boundary_check=(1,), padding_option="nan")
    tl.store(q, v.T.to(q.dtype.element_ty), boundary_check=(0, 1))


# check copy x=*f16 out=*f32 n=i32 m=i64
# func @copy(%0: ptr<f32> "out", %1: ptr<f16> "x", %2: i32 "n", %3: i64 "m") {num_stages = 3, num_warps = 4} {
#   %4 = program_id {axis = 0} : i32
#   %5 = constant {value = 32} : i32
#   %6 = mul %4, %5 : i32
#   %7 = cast %2 : i64
#   %8 = constant {value = 1} : i64
#   %9 = constant {value = 0} : i64
#   %10 = cast %6 : i64
#   %11 = program_id {axis = 0} : i32
#   %12 = constant {value = 32} : i32
#   %13 = mul %11, %12 : i32
#   %14 = cast %2 : i64
#   %15 = cast %2 : i64
#   %16 = constant {value = 1} : i64
#   %17 = cast %13 : i64
#   %18 = constant {value = 0} : i64
#   %19 = arange {end = 16, start = 0} : tile<16xi32>
#   %20 = cast %19 : tile<16xi64>
#   %21 = arange {end = 32, start = 0} : tile<32xi32>
#   %22 = cast %21 : tile<32xi64>
#   %23 = splat %3 : tile<16xi64>
#   %24 = mul %20, %23 : tile<16xi64>
#   %25 = expand_dims %24 {axis = 1} : tile<16x1xi64>
#   %26 = broadcast %25 : tile<16x32xi64>
#   %27 = mul %10, %8 : i64
#   %28 = splat %8 : tile<32xi64>
#   %29 = mul %22, %28 : tile<32xi64>
#   %30 = expand_dims %29 {axis = 0} : tile<1x32xi64>
#   %31 = broadcast %30 : tile<16x32xi64>
#   %32 = add %26, %31 : tile<16x32xi64>
#   %33 = splat %10 : tile<32xi64>
#   %34 = add %33, %22 : tile<32xi64>
#   %35 = constant {value = 0} : i64
#   %36 = maximum %3, %35 : i64
#   %37 = cast %36 : u64
#   %38 = splat %37 : tile<32xu64>
#   %39 = cast %34 : tile<32xu64>
#   %40 = lt %39, %38 : tile<32xi1>
#   %41 = expand_dims %40 {axis = 0} : tile<1x32xi1>
#   %42 = broadcast %41 : tile<16x32xi1>
#   %43 = addptr %1, %27 : ptr<f16>
#   %44 = splat %43 : tile<16x32xptr<f16>>
#   %45 = addptr %44, %32 : tile<16x32xptr<f16>>
#   %46 = constant {value = nan} : f16
#   %47 = splat %46 : tile<16x32xf16>
#   %48 = load %45, %42, %47 : tile<16x32xf16>
#   %49 = trans %48 {order = [1, 0]} : tile<32x16xf16>
#   %50 = cast %49 : tile<32x16xf32>
#   %51 = arange {end = 32, start = 0} : tile<32xi32>
#   %52 = cast %51 : tile<32xi64>
#   %53 = arange {end = 16, start = 0} : tile<16xi32>
#   %54 = cast %53 : tile<16xi64>
#   %55 = mul %17, %15 : i64
#   %56 = splat %15 : tile<32xi64>
#   %57 = mul %52, %56 : tile<32xi64>
#   %58 = expand_dims %57 {axis = 1} : tile<32x1xi64>
#   %59 = broadcast %58 : tile<32x16xi64>
#   %60 = splat %17 : tile<32xi64>
#   %61 = add %60, %52 : tile<32xi64>
#   %62 = constant {value = 0} : i64
#   %63 = maximum %3, %62 : i64
#   %64 = cast %63 : u64
#   %65 = splat %64 : tile<32xu64>
#   %66 = cast %61 : tile<32xu64>
#   %67 = lt %66, %65 : tile<32xi1>
#   %68 = expand_dims %67 {axis = 1} : tile<32x1xi1>
#   %69 = broadcast %68 : tile<32x16xi1>
#   %70 = splat %16 : tile<16xi64>
#   %71 = mul %54, %70 : tile<16xi64>
#   %72 = expand_dims %71 {axis = 0} : tile<1x16xi64>
#   %73 = broadcast %72 : tile<32x16xi64>
#   %74 = add %59, %73 : tile<32x16xi64>
#   %75 = constant {value = 0} : i64
#   %76 = maximum %14, %75 : i64
#   %77 = cast %76 : u64
#   %78 = splat %77 : tile<16xu64>
#   %79 = cast %54 : tile<16xu64>
#   %80 = lt %79, %78 : tile<16xi1>
#   %81 = expand_dims %80 {axis = 0} : tile<1x16xi1>
#   %82 = broadcast %81 : tile<32x16xi1>
#   %83 = bit_and %69, %82 : tile<32x16xi1>
#   %84 = addptr %0, %55 : ptr<f32>
#   %85 = splat %84 : tile<32x16xptr<f32>>
#   %86 = addptr %85, %74 : tile<32x16xptr<f32>>
#   store %86, %50, %83
#   return
# }


@triton.jit
def move(x, n):
    """A loop carries what changes: where the block begins."""
    p = tl.make_block_ptr(x, (n, 8), (8, 1), (0, 0), (4, 8), (1, 0))
    while tl.load(x) > n:
        tl.store(p, 0.0)
        p = tl.advance(p, (4, 0))


# check move x=*f32 n=i32
# func @move(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = cast %1 : i64
#   %3 = constant {value = 8} : i64
#   %4 = constant {value = 8} : i64
#   %5 = constant {value = 1} : i64
#   %6 = constant {value = 0} : i64
#   %7 = constant {value = 0} : i64
#   %8 = while %6 : i64 { ^(%9: i64):
#     %10 = load %0 : f32
#     %11 = cast %1 : f32
#     %12 = gt %10, %11 : i1
#     condition %12, %9
#   } { ^(%13: i64):
#     %14 = arange {end = 4, start = 0} : tile<4xi32>
#     %15 = cast %14 : tile<4xi64>
#     %16 = arange {end = 8, start = 0} : tile<8xi32>
#     %17 = cast %16 : tile<8xi64>
#     %18 = mul %13, %4 : i64
#     %19 = splat %4 : tile<4xi64>
#     %20 = mul %15, %19 : tile<4xi64>
#     %21 = expand_dims %20 {axis = 1} : tile<4x1xi64>
#     %22 = broadcast %21 : tile<4x8xi64>
#     %23 = mul %7, %5 : i64
#     %24 = add %18, %23 : i64
#     %25 = splat %5 : tile<8xi64>
#     %26 = mul %17, %25 : tile<8xi64>
#     %27 = expand_dims %26 {axis = 0} : tile<1x8xi64>
#     %28 = broadcast %27 : tile<4x8xi64>
#     %29 = add %22, %28 : tile<4x8xi64>
#     %30 = addptr %0, %24 : ptr<f32>
#     %31 = splat %30 : tile<4x8xptr<f32>>
#     %32 = addptr %31, %29 : tile<4x8xptr<f32>>
#     %33 = constant {value = 0.0} : f32
#     %34 = splat %33 : tile<4x8xf32>
#     store %32, %34
#     %35 = constant {value = 4} : i64
#     %36 = constant {value = 0} : i64
#     %37 = add %13, %35 : i64
#     yield %37
#   }
#   return
# }


@triton.jit
def choose(x, y, n):
    """Two block pointers of one type: what differs is merged."""
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    if n > 100:
        p = tl.make_block_ptr(y, (n,), (2,), (0,), (4,), (0,))
    tl.store(p, 1.0, boundary_check=(0,))


# check choose x=*f32 y=*f32 n=i32
# func @choose(%0: ptr<f32> "x", %1: ptr<f32> "y", %2: i32 "n") {num_stages = 3, num_warps = 4} {
#   %3 = cast %2 : i64
#   %4 = constant {value = 1} : i64
#   %5 = constant {value = 0} : i64
#   %6 = constant {value = 100} : i32
#   %7 = gt %2, %6 : i1
#   %8, %9, %10, %11 = if %7 : ptr<f32>, i64, i64, i64 { ^():
#     %12 = cast %2 : i64
#     %13 = constant {value = 2} : i64
#     %14 = constant {value = 0} : i64
#     yield %1, %12, %13, %14
#   } { ^():
#     yield %0, %3, %4, %5
#   }
#   %15 = arange {end = 4, start = 0} : tile<4xi32>
#   %16 = cast %15 : tile<4xi64>
#   %17 = mul %11, %10 : i64
#   %18 = splat %10 : tile<4xi64>
#   %19 = mul %16, %18 : tile<4xi64>
#   %20 = splat %11 : tile<4xi64>
#   %21 = add %20, %16 : tile<4xi64>
#   %22 = constant {value = 0} : i64
#   %23 = maximum %9, %22 : i64
#   %24 = cast %23 : u64
#   %25 = splat %24 : tile<4xu64>
#   %26 = cast %21 : tile<4xu64>
#   %27 = lt %26, %25 : tile<4xi1>
#   %28 = addptr %8, %17 : ptr<f32>
#   %29 = splat %28 : tile<4xptr<f32>>
#   %30 = addptr %29, %19 : tile<4xptr<f32>>
#   %31 = constant {value = 1.0} : f32
#   %32 = splat %31 : tile<4xf32>
#   store %30, %32, %27
#   return
# }
