"""Functions that make tiles and change their shape."""
import triton
import triton.language as tl


@triton.jit
def made(x, y):
    a = tl.full((2, 4), 3, tl.int32) + tl.zeros((4,), tl.int32) + tl.zeros_like(tl.arange(0, 4))
    p = y + tl.arange(0, 2)[:, None] * 4 + tl.arange(0, 4)
    tl.store(p, a)
    tl.store(x, tl.program_id(0) + tl.num_programs(1) + tl.cdiv(tl.load(x), 4) + tl.next_power_of_2(5))


# check made x=*i32 y=*i32
# func @made(%0: ptr<i32> "x", %1: ptr<i32> "y") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 3} : i32
#   %3 = constant {value = 3} : tile<2x4xi32>
#   %4 = constant {value = 0} : tile<4xi32>
#   %5 = expand_dims %4 {axis = 0} : tile<1x4xi32>
#   %6 = broadcast %5 : tile<2x4xi32>
#   %7 = add %3, %6 : tile<2x4xi32>
#   %8 = arange {end = 4, start = 0} : tile<4xi32>
#   %9 = constant {value = 0} : tile<4xi32>
#   %10 = expand_dims %9 {axis = 0} : tile<1x4xi32>
#   %11 = broadcast %10 : tile<2x4xi32>
#   %12 = add %7, %11 : tile<2x4xi32>
#   %13 = arange {end = 2, start = 0} : tile<2xi32>
#   %14 = expand_dims %13 {axis = 1} : tile<2x1xi32>
#   %15 = constant {value = 4} : i32
#   %16 = splat %15 : tile<2x1xi32>
#   %17 = mul %14, %16 : tile<2x1xi32>
#   %18 = splat %1 : tile<2x1xptr<i32>>
#   %19 = addptr %18, %17 : tile<2x1xptr<i32>>
#   %20 = arange {end = 4, start = 0} : tile<4xi32>
#   %21 = broadcast %19 : tile<2x4xptr<i32>>
#   %22 = expand_dims %20 {axis = 0} : tile<1x4xi32>
#   %23 = broadcast %22 : tile<2x4xi32>
#   %24 = addptr %21, %23 : tile<2x4xptr<i32>>
#   store %24, %12
#   %25 = program_id {axis = 0} : i32
#   %26 = num_programs {axis = 1} : i32
#   %27 = add %25, %26 : i32
#   %28 = load %0 : i32
#   %29 = constant {value = 3} : i32
#   %30 = add %28, %29 : i32
#   %31 = constant {value = 4} : i32
#   %32 = div %30, %31 : i32
#   %33 = add %27, %32 : i32
#   %34 = constant {value = 8} : i32
#   %35 = add %33, %34 : i32
#   store %0, %35
#   return
# }


@triton.jit
def reshaped(x):
    i = tl.arange(0, 8)
    a = tl.view(tl.reshape(tl.load(x + i), (2, 4)), (4, 2))
    b = tl.ravel(tl.trans(a) + tl.permute(a, (1, 0)))
    c = tl.broadcast_to(tl.expand_dims(b, 0), (2, 8)) + tl.unsqueeze(tl.squeeze(b[None, :], 0), 0)
    d, e = tl.broadcast(tl.sum(c, 1)[:, None], i[None, :])
    tl.store(x + d, e)
    tl.store(x, tl.sum(e, keep_dims=True).item())


# check reshaped x=*i32
# func @reshaped(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 8, start = 0} : tile<8xi32>
#   %2 = splat %0 : tile<8xptr<i32>>
#   %3 = addptr %2, %1 : tile<8xptr<i32>>
#   %4 = load %3 : tile<8xi32>
#   %5 = reshape %4 : tile<2x4xi32>
#   %6 = reshape %5 : tile<4x2xi32>
#   %7 = trans %6 {order = [1, 0]} : tile<2x4xi32>
#   %8 = trans %6 {order = [1, 0]} : tile<2x4xi32>
#   %9 = add %7, %8 : tile<2x4xi32>
#   %10 = reshape %9 : tile<8xi32>
#   %11 = expand_dims %10 {axis = 0} : tile<1x8xi32>
#   %12 = broadcast %11 : tile<2x8xi32>
#   %13 = expand_dims %10 {axis = 0} : tile<1x8xi32>
#   %14 = reshape %13 : tile<8xi32>
#   %15 = expand_dims %14 {axis = 0} : tile<1x8xi32>
#   %16 = broadcast %15 : tile<2x8xi32>
#   %17 = add %12, %16 : tile<2x8xi32>
#   %18 = reduce %17 {axis = 1} : tile<2xi32> { ^(%19: i32, %20: i32):
#     %21 = add %19, %20 : i32
#     yield %21
#   }
#   %22 = expand_dims %18 {axis = 1} : tile<2x1xi32>
#   %23 = expand_dims %1 {axis = 0} : tile<1x8xi32>
#   %24 = broadcast %22 : tile<2x8xi32>
#   %25 = broadcast %23 : tile<2x8xi32>
#   %26 = splat %0 : tile<2x8xptr<i32>>
#   %27 = addptr %26, %24 : tile<2x8xptr<i32>>
#   store %27, %25
#   %28 = reshape %25 : tile<16xi32>
#   %29 = reduce %28 {axis = 0} : i32 { ^(%30: i32, %31: i32):
#     %32 = add %30, %31 : i32
#     yield %32
#   }
#   %33 = splat %29 : tile<1x1xi32>
#   %34 = reshape %33 : tile<1xi32>
#   %35 = reduce %34 {axis = 0} : i32 { ^(%36: i32, %37: i32):
#     yield %36
#   }
#   store %0, %35
#   return
# }


@triton.jit
def joined(x):
    i = tl.arange(0, 4)
    a = tl.load(x + i)
    b = tl.join(a, i)
    c, d = tl.split(b)
    e = tl.interleave(c, d)
    f = tl.cat(i, a, can_reorder=True)
    tl.store(x + f, e)


# check joined x=*i32
# func @joined(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = arange {end = 4, start = 0} : tile<4xi32>
#   %2 = splat %0 : tile<4xptr<i32>>
#   %3 = addptr %2, %1 : tile<4xptr<i32>>
#   %4 = load %3 : tile<4xi32>
#   %5 = expand_dims %4 {axis = 1} : tile<4x1xi32>
#   %6 = broadcast %5 : tile<4x2xi32>
#   %7 = expand_dims %1 {axis = 1} : tile<4x1xi32>
#   %8 = broadcast %7 : tile<4x2xi32>
#   %9 = arange {end = 2, start = 0} : tile<2xi32>
#   %10 = constant {value = 0} : tile<2xi32>
#   %11 = eq %9, %10 : tile<2xi1>
#   %12 = expand_dims %11 {axis = 0} : tile<1x2xi1>
#   %13 = broadcast %12 : tile<4x2xi1>
#   %14 = select %13, %6, %8 : tile<4x2xi32>
#   %15 = arange {end = 2, start = 0} : tile<2xi32>
#   %16 = constant {value = 0} : tile<2xi32>
#   %17 = eq %15, %16 : tile<2xi1>
#   %18 = expand_dims %17 {axis = 0} : tile<1x2xi1>
#   %19 = broadcast %18 : tile<4x2xi1>
#   %20 = constant {value = 0} : tile<4x2xi1>
#   %21 = eq %19, %20 : tile<4x2xi1>
#   %22 = constant {value = 0} : tile<4x2xi32>
#   %23 = select %19, %14, %22 : tile<4x2xi32>
#   %24 = reduce %23 {axis = 1} : tile<4xi32> { ^(%25: i32, %26: i32):
#     %27 = bit_or %25, %26 : i32
#     yield %27
#   }
#   %28 = constant {value = 0} : tile<4x2xi32>
#   %29 = select %21, %14, %28 : tile<4x2xi32>
#   %30 = reduce %29 {axis = 1} : tile<4xi32> { ^(%31: i32, %32: i32):
#     %33 = bit_or %31, %32 : i32
#     yield %33
#   }
#   %34 = expand_dims %24 {axis = 1} : tile<4x1xi32>
#   %35 = broadcast %34 : tile<4x2xi32>
#   %36 = expand_dims %30 {axis = 1} : tile<4x1xi32>
#   %37 = broadcast %36 : tile<4x2xi32>
#   %38 = arange {end = 2, start = 0} : tile<2xi32>
#   %39 = constant {value = 0} : tile<2xi32>
#   %40 = eq %38, %39 : tile<2xi1>
#   %41 = expand_dims %40 {axis = 0} : tile<1x2xi1>
#   %42 = broadcast %41 : tile<4x2xi1>
#   %43 = select %42, %35, %37 : tile<4x2xi32>
#   %44 = reshape %43 : tile<8xi32>
#   %45 = expand_dims %1 {axis = 1} : tile<4x1xi32>
#   %46 = broadcast %45 : tile<4x2xi32>
#   %47 = expand_dims %4 {axis = 1} : tile<4x1xi32>
#   %48 = broadcast %47 : tile<4x2xi32>
#   %49 = arange {end = 2, start = 0} : tile<2xi32>
#   %50 = constant {value = 0} : tile<2xi32>
#   %51 = eq %49, %50 : tile<2xi1>
#   %52 = expand_dims %51 {axis = 0} : tile<1x2xi1>
#   %53 = broadcast %52 : tile<4x2xi1>
#   %54 = select %53, %46, %48 : tile<4x2xi32>
#   %55 = trans %54 {order = [1, 0]} : tile<2x4xi32>
#   %56 = reshape %55 : tile<8xi32>
#   %57 = splat %0 : tile<8xptr<i32>>
#   %58 = addptr %57, %56 : tile<8xptr<i32>>
#   store %58, %44
#   return
# }


@triton.jit
def swizzled(x, rows, cols):
    i, j = tl.swizzle2d(tl.program_id(0), tl.program_id(1), rows, cols, 4)
    tl.store(x + i, j)


# check swizzled x=*i32 rows=i32 cols=i32
# func @swizzled(%0: ptr<i32> "x", %1: i32 "rows", %2: i32 "cols") {num_stages = 3, num_warps = 4} {
#   %3 = program_id {axis = 0} : i32
#   %4 = program_id {axis = 1} : i32
#   %5 = mul %3, %2 : i32
#   %6 = add %5, %4 : i32
#   %7 = constant {value = 4} : i32
#   %8 = mul %7, %2 : i32
#   %9 = div %6, %8 : i32
#   %10 = constant {value = 4} : i32
#   %11 = mul %9, %10 : i32
#   %12 = sub %1, %11 : i32
#   %13 = constant {value = 4} : i32
#   %14 = minimum %12, %13 : i32
#   %15 = rem %6, %8 : i32
#   %16 = rem %15, %14 : i32
#   %17 = add %11, %16 : i32
#   %18 = div %15, %14 : i32
#   %19 = addptr %0, %17 : ptr<i32>
#   store %19, %18
#   return
# }
