"""Functions across elements: reductions, scans, order, products."""
import triton
import triton.language as tl


@triton.jit
def product_of(a, b):
    return a * b


@triton.jit
def reduced(x, y):
    i = tl.arange(0, 4)
    n = tl.load(x + i)
    s = tl.sum(n) + tl.max(n, 0) + tl.min(n, 0) + tl.xor_sum(n, 0) + tl.reduce_or(n, 0)
    s += tl.argmax(n, 0) + tl.argmin(n, 0, tie_break_left=False) + tl.reduce(n, 0, product_of)
    tl.store(x, s)
    tl.store(y + i, tl.softmax(tl.load(y + i)))


# check reduced x=*i32 y=*f32
# func @reduced(%0: ptr<i32> "x", %1: ptr<f32> "y") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 4, start = 0} : tile<4xi32>
#   %3 = splat %0 : tile<4xptr<i32>>
#   %4 = addptr %3, %2 : tile<4xptr<i32>>
#   %5 = load %4 : tile<4xi32>
#   %6 = reduce %5 {axis = 0} : i32 { ^(%7: i32, %8: i32):
#     %9 = add %7, %8 : i32
#     yield %9
#   }
#   %10 = reduce %5 {axis = 0} : i32 { ^(%11: i32, %12: i32):
#     %13 = maximum %11, %12 : i32
#     yield %13
#   }
#   %14 = add %6, %10 : i32
#   %15 = reduce %5 {axis = 0} : i32 { ^(%16: i32, %17: i32):
#     %18 = minimum %16, %17 : i32
#     yield %18
#   }
#   %19 = add %14, %15 : i32
#   %20 = reduce %5 {axis = 0} : i32 { ^(%21: i32, %22: i32):
#     %23 = bit_xor %21, %22 : i32
#     yield %23
#   }
#   %24 = add %19, %20 : i32
#   %25 = reduce %5 {axis = 0} : i32 { ^(%26: i32, %27: i32):
#     %28 = bit_or %26, %27 : i32
#     yield %28
#   }
#   %29 = add %24, %25 : i32
#   %30 = arange {end = 4, start = 0} : tile<4xi32>
#   %31, %32 = reduce %5, %30 {axis = 0} : i32, i32 { ^(%33: i32, %34: i32, %35: i32, %36: i32):
#     %37 = gt %33, %35 : i1
#     %38 = lt %34, %36 : i1
#     %39 = eq %33, %35 : i1
#     %40 = bit_and %39, %38 : i1
#     %41 = bit_or %37, %40 : i1
#     %42 = select %41, %33, %35 : i32
#     %43 = select %41, %34, %36 : i32
#     yield %42, %43
#   }
#   %44 = arange {end = 4, start = 0} : tile<4xi32>
#   %45, %46 = reduce %5, %44 {axis = 0} : i32, i32 { ^(%47: i32, %48: i32, %49: i32, %50: i32):
#     %51 = lt %47, %49 : i1
#     %52 = select %51, %47, %49 : i32
#     %53 = select %51, %48, %50 : i32
#     yield %52, %53
#   }
#   %54 = add %32, %46 : i32
#   %55 = reduce %5 {axis = 0} : i32 { ^(%56: i32, %57: i32):
#     %58 = mul %56, %57 : i32
#     yield %58
#   }
#   %59 = add %54, %55 : i32
#   %60 = add %29, %59 : i32
#   store %0, %60
#   %61 = splat %1 : tile<4xptr<f32>>
#   %62 = addptr %61, %2 : tile<4xptr<f32>>
#   %63 = splat %1 : tile<4xptr<f32>>
#   %64 = addptr %63, %2 : tile<4xptr<f32>>
#   %65 = load %64 : tile<4xf32>
#   %66 = reduce %65 {axis = 0} : f32 { ^(%67: f32, %68: f32):
#     %69 = maximum %67, %68 : f32
#     yield %69
#   }
#   %70 = splat %66 : tile<1xf32>
#   %71 = broadcast %70 : tile<4xf32>
#   %72 = sub %65, %71 : tile<4xf32>
#   %73 = exp %72 : tile<4xf32>
#   %74 = reduce %73 {axis = 0} : f32 { ^(%75: f32, %76: f32):
#     %77 = add %75, %76 : f32
#     yield %77
#   }
#   %78 = splat %74 : tile<1xf32>
#   %79 = broadcast %78 : tile<4xf32>
#   %80 = div %73, %79 : tile<4xf32>
#   store %62, %80
#   return
# }


@triton.jit
def scanned(x):
    i = tl.arange(0, 4)
    n = tl.load(x + i)
    tl.store(x + i, tl.cumsum(n) + tl.cumprod(n, reverse=True) + tl.associative_scan(n, 0, product_of))


# check scanned x=*i32
# func @scanned(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 4, start = 0} : tile<4xi32>
#   %2 = splat %0 : tile<4xptr<i32>>
#   %3 = addptr %2, %1 : tile<4xptr<i32>>
#   %4 = load %3 : tile<4xi32>
#   %5 = splat %0 : tile<4xptr<i32>>
#   %6 = addptr %5, %1 : tile<4xptr<i32>>
#   %7 = scan %4 {axis = 0} : tile<4xi32> { ^(%8: i32, %9: i32):
#     %10 = add %8, %9 : i32
#     yield %10
#   }
#   %11 = scan %4 {axis = 0, reverse = true} : tile<4xi32> { ^(%12: i32, %13: i32):
#     %14 = mul %12, %13 : i32
#     yield %14
#   }
#   %15 = add %7, %11 : tile<4xi32>
#   %16 = scan %4 {axis = 0} : tile<4xi32> { ^(%17: i32, %18: i32):
#     %19 = mul %17, %18 : i32
#     yield %19
#   }
#   %20 = add %15, %16 : tile<4xi32>
#   store %6, %20
#   return
# }


@triton.jit
def ordered(x):
    i = tl.arange(0, 8)
    n = tl.load(x + i)
    n = tl.sort(n) + tl.sort_impl(n, descending=True) + tl.standard.bitonic_merge(n) + tl.flip(n)
    tl.store(x + i, tl.gather(n, i ^ 1, 0))
    j = tl.arange(0, 2)
    tl.store(x + j, tl.topk(n, 2) + tl.histogram(n, 2))


# check ordered x=*i32
# func @ordered(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 8, start = 0} : tile<8xi32>
#   %2 = splat %0 : tile<8xptr<i32>>
#   %3 = addptr %2, %1 : tile<8xptr<i32>>
#   %4 = load %3 : tile<8xi32>
#   %5 = sort %4 : tile<8xi32>
#   %6 = sort %4 {descending = true} : tile<8xi32>
#   %7 = add %5, %6 : tile<8xi32>
#   %8 = sort %4 {merge = true} : tile<8xi32>
#   %9 = add %7, %8 : tile<8xi32>
#   %10 = arange {end = 8, start = 0} : tile<8xi32>
#   %11 = constant {value = 7} : tile<8xi32>
#   %12 = sub %11, %10 : tile<8xi32>
#   %13 = gather %4, %12 {axis = 0} : tile<8xi32>
#   %14 = add %9, %13 : tile<8xi32>
#   %15 = splat %0 : tile<8xptr<i32>>
#   %16 = addptr %15, %1 : tile<8xptr<i32>>
#   %17 = constant {value = 1} : i32
#   %18 = splat %17 : tile<8xi32>
#   %19 = bit_xor %1, %18 : tile<8xi32>
#   %20 = gather %14, %19 {axis = 0} : tile<8xi32>
#   store %16, %20
#   %21 = arange {end = 2, start = 0} : tile<2xi32>
#   %22 = splat %0 : tile<2xptr<i32>>
#   %23 = addptr %22, %21 : tile<2xptr<i32>>
#   %24 = sort %14 {descending = true} : tile<2xi32>
#   %25 = constant {value = 2} : tile<8xi32>
#   %26 = lt %14, %25 : tile<8xi1>
#   %27 = constant {value = 0} : tile<8xi32>
#   %28 = ge %14, %27 : tile<8xi1>
#   %29 = bit_and %26, %28 : tile<8xi1>
#   %30 = constant {value = -1} : tile<8xi32>
#   %31 = select %29, %14, %30 : tile<8xi32>
#   %32 = histogram %31 : tile<2xi32>
#   %33 = add %24, %32 : tile<2xi32>
#   store %23, %33
#   return
# }


@triton.jit
def products(x):
    i, j = tl.arange(0, 16)[:, None], tl.arange(0, 16)[None, :]
    a = tl.load(x + i * 16 + j)
    b = tl.dot(a, a, input_precision="tf32x3")
    tl.store(x + i * 16 + j, b)


# check products x=*f32
# func @products(%0: ptr<f32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 16, start = 0} : tile<16xi32>
#   %2 = expand_dims %1 {axis = 1} : tile<16x1xi32>
#   %3 = arange {end = 16, start = 0} : tile<16xi32>
#   %4 = expand_dims %3 {axis = 0} : tile<1x16xi32>
#   %5 = constant {value = 16} : i32
#   %6 = splat %5 : tile<16x1xi32>
#   %7 = mul %2, %6 : tile<16x1xi32>
#   %8 = splat %0 : tile<16x1xptr<f32>>
#   %9 = addptr %8, %7 : tile<16x1xptr<f32>>
#   %10 = broadcast %9 : tile<16x16xptr<f32>>
#   %11 = broadcast %4 : tile<16x16xi32>
#   %12 = addptr %10, %11 : tile<16x16xptr<f32>>
#   %13 = load %12 : tile<16x16xf32>
#   %14 = constant {value = 0.0} : tile<16x16xf32>
#   %15 = dot %13, %13, %14 {precision = "tf32x3"} : tile<16x16xf32>
#   %16 = constant {value = 16} : i32
#   %17 = splat %16 : tile<16x1xi32>
#   %18 = mul %2, %17 : tile<16x1xi32>
#   %19 = splat %0 : tile<16x1xptr<f32>>
#   %20 = addptr %19, %18 : tile<16x1xptr<f32>>
#   %21 = broadcast %20 : tile<16x16xptr<f32>>
#   %22 = broadcast %4 : tile<16x16xi32>
#   %23 = addptr %21, %22 : tile<16x16xptr<f32>>
#   store %23, %15
#   return
# }


@triton.jit
def scaled(x, y, s):
    i, k = tl.arange(0, 16), tl.arange(0, 32)
    a = tl.load(y + i[:, None] * 32 + k)
    b = tl.load(y + k[:, None] * 16 + i)
    c = tl.dot_scaled(a, tl.load(s + i[:, None]), "e5m2", b, None, "e5m2")
    tl.store(x + i[:, None] * 16 + i, c)


# check scaled x=*f32 y=*u8 s=*u8
# func @scaled(%0: ptr<f32> "x", %1: ptr<u8> "y", %2: ptr<u8> "s") {num_stages = 3, num_warps = 4} {
#   %3 = arange {end = 16, start = 0} : tile<16xi32>
#   %4 = arange {end = 32, start = 0} : tile<32xi32>
#   %5 = expand_dims %3 {axis = 1} : tile<16x1xi32>
#   %6 = constant {value = 32} : i32
#   %7 = splat %6 : tile<16x1xi32>
#   %8 = mul %5, %7 : tile<16x1xi32>
#   %9 = splat %1 : tile<16x1xptr<u8>>
#   %10 = addptr %9, %8 : tile<16x1xptr<u8>>
#   %11 = broadcast %10 : tile<16x32xptr<u8>>
#   %12 = expand_dims %4 {axis = 0} : tile<1x32xi32>
#   %13 = broadcast %12 : tile<16x32xi32>
#   %14 = addptr %11, %13 : tile<16x32xptr<u8>>
#   %15 = load %14 : tile<16x32xu8>
#   %16 = expand_dims %4 {axis = 1} : tile<32x1xi32>
#   %17 = constant {value = 16} : i32
#   %18 = splat %17 : tile<32x1xi32>
#   %19 = mul %16, %18 : tile<32x1xi32>
#   %20 = splat %1 : tile<32x1xptr<u8>>
#   %21 = addptr %20, %19 : tile<32x1xptr<u8>>
#   %22 = broadcast %21 : tile<32x16xptr<u8>>
#   %23 = expand_dims %3 {axis = 0} : tile<1x16xi32>
#   %24 = broadcast %23 : tile<32x16xi32>
#   %25 = addptr %22, %24 : tile<32x16xptr<u8>>
#   %26 = load %25 : tile<32x16xu8>
#   %27 = expand_dims %3 {axis = 1} : tile<16x1xi32>
#   %28 = splat %2 : tile<16x1xptr<u8>>
#   %29 = addptr %28, %27 : tile<16x1xptr<u8>>
#   %30 = load %29 : tile<16x1xu8>
#   %31 = bitcast %15 : tile<16x32xf8e5m2>
#   %32 = bitcast %26 : tile<32x16xf8e5m2>
#   %33 = cast %31 : tile<16x32xf16>
#   %34 = cast %33 : tile<16x32xbf16>
#   %35 = cast %30 : tile<16x1xu16>
#   %36 = constant {value = 7} : tile<16x1xu16>
#   %37 = shl %35, %36 : tile<16x1xu16>
#   %38 = bitcast %37 : tile<16x1xbf16>
#   %39 = expand_dims %38 {axis = 2} : tile<16x1x1xbf16>
#   %40 = broadcast %39 : tile<16x1x32xbf16>
#   %41 = reshape %40 : tile<16x32xbf16>
#   %42 = mul %34, %41 : tile<16x32xbf16>
#   %43 = constant {value = 255} : tile<16x1xu8>
#   %44 = eq %30, %43 : tile<16x1xi1>
#   %45 = expand_dims %44 {axis = 2} : tile<16x1x1xi1>
#   %46 = broadcast %45 : tile<16x1x32xi1>
#   %47 = reshape %46 : tile<16x32xi1>
#   %48 = constant {value = nan} : tile<16x32xbf16>
#   %49 = select %47, %48, %42 : tile<16x32xbf16>
#   %50 = cast %32 : tile<32x16xf16>
#   %51 = cast %50 : tile<32x16xbf16>
#   %52 = constant {value = 0.0} : tile<16x16xf32>
#   %53 = dot %49, %51, %52 : tile<16x16xf32>
#   %54 = expand_dims %3 {axis = 1} : tile<16x1xi32>
#   %55 = constant {value = 16} : i32
#   %56 = splat %55 : tile<16x1xi32>
#   %57 = mul %54, %56 : tile<16x1xi32>
#   %58 = splat %0 : tile<16x1xptr<f32>>
#   %59 = addptr %58, %57 : tile<16x1xptr<f32>>
#   %60 = broadcast %59 : tile<16x16xptr<f32>>
#   %61 = expand_dims %3 {axis = 0} : tile<1x16xi32>
#   %62 = broadcast %61 : tile<16x16xi32>
#   %63 = addptr %60, %62 : tile<16x16xptr<f32>>
#   store %63, %53
#   return
# }
