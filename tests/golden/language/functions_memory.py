"""Functions of memory: atomics, descriptors, barriers, hints."""
import triton
import triton.language as tl


@triton.jit
def atomics(x, n):
    a = tl.load(n)
    m = a > 0
    a = tl.atomic_add(n, a, m) + tl.atomic_max(n, a) + tl.atomic_min(n, a, sem="relaxed")
    a = tl.atomic_and(n, a, scope="sys") + tl.atomic_or(n, a) + tl.atomic_xor(n, a)
    tl.atomic_cas(n, a, tl.atomic_xchg(n, a), sem="acquire", scope="cta")
    tl.atomic_max(x, 1.0)


# check atomics x=*f32 n=*i32
# func @atomics(%0: ptr<f32> "x", %1: ptr<i32> "n") {num_stages = 3, num_warps = 4} {
#   %2 = load %1 : i32
#   %3 = constant {value = 0} : i32
#   %4 = gt %2, %3 : i1
#   %5 = atomic_rmw %1, %2, %4 {kind = "add"} : i32
#   %6 = atomic_rmw %1, %2 {kind = "max"} : i32
#   %7 = add %5, %6 : i32
#   %8 = atomic_rmw %1, %2 {kind = "min", sem = "relaxed"} : i32
#   %9 = add %7, %8 : i32
#   %10 = atomic_rmw %1, %9 {kind = "and", scope = "sys"} : i32
#   %11 = atomic_rmw %1, %9 {kind = "or"} : i32
#   %12 = add %10, %11 : i32
#   %13 = atomic_rmw %1, %9 {kind = "xor"} : i32
#   %14 = add %12, %13 : i32
#   %15 = atomic_rmw %1, %14 {kind = "xchg"} : i32
#   %16 = atomic_rmw %1, %15, _, %14 {kind = "cas", scope = "cta", sem = "acquire"} : i32
#   %17 = constant {value = 1.0} : f32
#   %18 = bitcast %17 : i32
#   %19 = constant {value = 0} : i32
#   %20 = ge %18, %19 : i1
#   %21 = constant {value = 0} : i32
#   %22 = lt %18, %21 : i1
#   %23 = bitcast %0 : ptr<i32>
#   %24 = atomic_rmw %23, %18, %20 {kind = "max"} : i32
#   %25 = bitcast %0 : ptr<u32>
#   %26 = bitcast %17 : u32
#   %27 = atomic_rmw %25, %26, %22 {kind = "min"} : u32
#   %28 = bitcast %27 : i32
#   %29 = select %20, %24, %28 : i32
#   %30 = bitcast %29 : f32
#   return
# }


@triton.jit
def array(x, rows):
    d = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [2, 4])
    tl.store_tensor_descriptor(d, [0, 4], tl.load_tensor_descriptor(d, [0, 0]))
    v = d.load([2, 0])
    d.store([4, 0], v)


# check array x=*i32 rows=i32
# func @array(%0: ptr<i32> "x", %1: i32 "rows") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 64} : i64
#   %3 = constant {value = 1} : i64
#   %4 = cast %1 : i64
#   %5 = constant {value = 64} : i64
#   %6 = cast %5 : i32
#   %7 = constant {value = 0} : i64
#   %8 = constant {value = 0} : i64
#   %9 = arange {end = 2, start = 0} : tile<2xi32>
#   %10 = cast %9 : tile<2xi64>
#   %11 = arange {end = 4, start = 0} : tile<4xi32>
#   %12 = cast %11 : tile<4xi64>
#   %13 = splat %2 : tile<2xi64>
#   %14 = mul %10, %13 : tile<2xi64>
#   %15 = expand_dims %14 {axis = 1} : tile<2x1xi64>
#   %16 = broadcast %15 : tile<2x4xi64>
#   %17 = cast %1 : i64
#   %18 = constant {value = 0} : i64
#   %19 = maximum %17, %18 : i64
#   %20 = cast %19 : u64
#   %21 = splat %20 : tile<2xu64>
#   %22 = cast %10 : tile<2xu64>
#   %23 = lt %22, %21 : tile<2xi1>
#   %24 = expand_dims %23 {axis = 1} : tile<2x1xi1>
#   %25 = broadcast %24 : tile<2x4xi1>
#   %26 = splat %3 : tile<4xi64>
#   %27 = mul %12, %26 : tile<4xi64>
#   %28 = expand_dims %27 {axis = 0} : tile<1x4xi64>
#   %29 = broadcast %28 : tile<2x4xi64>
#   %30 = add %16, %29 : tile<2x4xi64>
#   %31 = cast %6 : i64
#   %32 = constant {value = 0} : i64
#   %33 = maximum %31, %32 : i64
#   %34 = cast %33 : u64
#   %35 = splat %34 : tile<4xu64>
#   %36 = cast %12 : tile<4xu64>
#   %37 = lt %36, %35 : tile<4xi1>
#   %38 = expand_dims %37 {axis = 0} : tile<1x4xi1>
#   %39 = broadcast %38 : tile<2x4xi1>
#   %40 = bit_and %25, %39 : tile<2x4xi1>
#   %41 = splat %0 : tile<2x4xptr<i32>>
#   %42 = addptr %41, %30 : tile<2x4xptr<i32>>
#   %43 = load %42, %40 : tile<2x4xi32>
#   %44 = constant {value = 0} : i64
#   %45 = constant {value = 4} : i64
#   %46 = arange {end = 2, start = 0} : tile<2xi32>
#   %47 = cast %46 : tile<2xi64>
#   %48 = arange {end = 4, start = 0} : tile<4xi32>
#   %49 = cast %48 : tile<4xi64>
#   %50 = splat %2 : tile<2xi64>
#   %51 = mul %47, %50 : tile<2xi64>
#   %52 = expand_dims %51 {axis = 1} : tile<2x1xi64>
#   %53 = broadcast %52 : tile<2x4xi64>
#   %54 = cast %1 : i64
#   %55 = constant {value = 0} : i64
#   %56 = maximum %54, %55 : i64
#   %57 = cast %56 : u64
#   %58 = splat %57 : tile<2xu64>
#   %59 = cast %47 : tile<2xu64>
#   %60 = lt %59, %58 : tile<2xi1>
#   %61 = expand_dims %60 {axis = 1} : tile<2x1xi1>
#   %62 = broadcast %61 : tile<2x4xi1>
#   %63 = mul %45, %3 : i64
#   %64 = splat %3 : tile<4xi64>
#   %65 = mul %49, %64 : tile<4xi64>
#   %66 = expand_dims %65 {axis = 0} : tile<1x4xi64>
#   %67 = broadcast %66 : tile<2x4xi64>
#   %68 = add %53, %67 : tile<2x4xi64>
#   %69 = splat %45 : tile<4xi64>
#   %70 = add %69, %49 : tile<4xi64>
#   %71 = cast %6 : i64
#   %72 = constant {value = 0} : i64
#   %73 = maximum %71, %72 : i64
#   %74 = cast %73 : u64
#   %75 = splat %74 : tile<4xu64>
#   %76 = cast %70 : tile<4xu64>
#   %77 = lt %76, %75 : tile<4xi1>
#   %78 = expand_dims %77 {axis = 0} : tile<1x4xi1>
#   %79 = broadcast %78 : tile<2x4xi1>
#   %80 = bit_and %62, %79 : tile<2x4xi1>
#   %81 = addptr %0, %63 : ptr<i32>
#   %82 = splat %81 : tile<2x4xptr<i32>>
#   %83 = addptr %82, %68 : tile<2x4xptr<i32>>
#   store %83, %43, %80
#   %84 = constant {value = 2} : i64
#   %85 = constant {value = 0} : i64
#   %86 = arange {end = 2, start = 0} : tile<2xi32>
#   %87 = cast %86 : tile<2xi64>
#   %88 = arange {end = 4, start = 0} : tile<4xi32>
#   %89 = cast %88 : tile<4xi64>
#   %90 = mul %84, %2 : i64
#   %91 = splat %2 : tile<2xi64>
#   %92 = mul %87, %91 : tile<2xi64>
#   %93 = expand_dims %92 {axis = 1} : tile<2x1xi64>
#   %94 = broadcast %93 : tile<2x4xi64>
#   %95 = splat %84 : tile<2xi64>
#   %96 = add %95, %87 : tile<2xi64>
#   %97 = cast %1 : i64
#   %98 = constant {value = 0} : i64
#   %99 = maximum %97, %98 : i64
#   %100 = cast %99 : u64
#   %101 = splat %100 : tile<2xu64>
#   %102 = cast %96 : tile<2xu64>
#   %103 = lt %102, %101 : tile<2xi1>
#   %104 = expand_dims %103 {axis = 1} : tile<2x1xi1>
#   %105 = broadcast %104 : tile<2x4xi1>
#   %106 = splat %3 : tile<4xi64>
#   %107 = mul %89, %106 : tile<4xi64>
#   %108 = expand_dims %107 {axis = 0} : tile<1x4xi64>
#   %109 = broadcast %108 : tile<2x4xi64>
#   %110 = add %94, %109 : tile<2x4xi64>
#   %111 = cast %6 : i64
#   %112 = constant {value = 0} : i64
#   %113 = maximum %111, %112 : i64
#   %114 = cast %113 : u64
#   %115 = splat %114 : tile<4xu64>
#   %116 = cast %89 : tile<4xu64>
#   %117 = lt %116, %115 : tile<4xi1>
#   %118 = expand_dims %117 {axis = 0} : tile<1x4xi1>
#   %119 = broadcast %118 : tile<2x4xi1>
#   %120 = bit_and %105, %119 : tile<2x4xi1>
#   %121 = addptr %0, %90 : ptr<i32>
#   %122 = splat %121 : tile<2x4xptr<i32>>
#   %123 = addptr %122, %110 : tile<2x4xptr<i32>>
#   %124 = load %123, %120 : tile<2x4xi32>
#   %125 = constant {value = 4} : i64
#   %126 = constant {value = 0} : i64
#   %127 = arange {end = 2, start = 0} : tile<2xi32>
#   %128 = cast %127 : tile<2xi64>
#   %129 = arange {end = 4, start = 0} : tile<4xi32>
#   %130 = cast %129 : tile<4xi64>
#   %131 = mul %125, %2 : i64
#   %132 = splat %2 : tile<2xi64>
#   %133 = mul %128, %132 : tile<2xi64>
#   %134 = expand_dims %133 {axis = 1} : tile<2x1xi64>
#   %135 = broadcast %134 : tile<2x4xi64>
#   %136 = splat %125 : tile<2xi64>
#   %137 = add %136, %128 : tile<2xi64>
#   %138 = cast %1 : i64
#   %139 = constant {value = 0} : i64
#   %140 = maximum %138, %139 : i64
#   %141 = cast %140 : u64
#   %142 = splat %141 : tile<2xu64>
#   %143 = cast %137 : tile<2xu64>
#   %144 = lt %143, %142 : tile<2xi1>
#   %145 = expand_dims %144 {axis = 1} : tile<2x1xi1>
#   %146 = broadcast %145 : tile<2x4xi1>
#   %147 = splat %3 : tile<4xi64>
#   %148 = mul %130, %147 : tile<4xi64>
#   %149 = expand_dims %148 {axis = 0} : tile<1x4xi64>
#   %150 = broadcast %149 : tile<2x4xi64>
#   %151 = add %135, %150 : tile<2x4xi64>
#   %152 = cast %6 : i64
#   %153 = constant {value = 0} : i64
#   %154 = maximum %152, %153 : i64
#   %155 = cast %154 : u64
#   %156 = splat %155 : tile<4xu64>
#   %157 = cast %130 : tile<4xu64>
#   %158 = lt %157, %156 : tile<4xi1>
#   %159 = expand_dims %158 {axis = 0} : tile<1x4xi1>
#   %160 = broadcast %159 : tile<2x4xi1>
#   %161 = bit_and %146, %160 : tile<2x4xi1>
#   %162 = addptr %0, %131 : ptr<i32>
#   %163 = splat %162 : tile<2x4xptr<i32>>
#   %164 = addptr %163, %151 : tile<2x4xptr<i32>>
#   store %164, %124, %161
#   return
# }


@triton.jit
def atomics_of_array(x, rows):
    d = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [2, 4])
    v = d.load([2, 0])
    d.atomic_add([0, 0], v)
    d.atomic_min([0, 0], v)
    d.atomic_max([0, 0], v)
    d.atomic_and([0, 0], v)
    d.atomic_or([0, 0], v)
    d.atomic_xor([0, 0], v)


# accept atomics_of_array x=*i32 rows=i32


@triton.jit
def rows_of(x, rows):
    d = tl.make_tensor_descriptor(x, [rows, 64], [64, 1], [1, 8])
    i = tl.arange(0, 8)
    d.scatter(d.gather(i, 8), i * 2, 0)


# check rows_of x=*i32 rows=i32
# func @rows_of(%0: ptr<i32> "x", %1: i32 "rows") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 64} : i64
#   %3 = constant {value = 1} : i64
#   %4 = cast %1 : i64
#   %5 = constant {value = 64} : i64
#   %6 = cast %5 : i32
#   %7 = arange {end = 8, start = 0} : tile<8xi32>
#   %8 = constant {value = 8} : i64
#   %9 = cast %7 : tile<8xi64>
#   %10 = arange {end = 8, start = 0} : tile<8xi32>
#   %11 = cast %10 : tile<8xi64>
#   %12 = splat %2 : tile<8xi64>
#   %13 = mul %9, %12 : tile<8xi64>
#   %14 = expand_dims %13 {axis = 1} : tile<8x1xi64>
#   %15 = broadcast %14 : tile<8x8xi64>
#   %16 = cast %1 : i64
#   %17 = constant {value = 0} : i64
#   %18 = maximum %16, %17 : i64
#   %19 = cast %18 : u64
#   %20 = splat %19 : tile<8xu64>
#   %21 = cast %9 : tile<8xu64>
#   %22 = lt %21, %20 : tile<8xi1>
#   %23 = expand_dims %22 {axis = 1} : tile<8x1xi1>
#   %24 = broadcast %23 : tile<8x8xi1>
#   %25 = mul %8, %3 : i64
#   %26 = splat %3 : tile<8xi64>
#   %27 = mul %11, %26 : tile<8xi64>
#   %28 = expand_dims %27 {axis = 0} : tile<1x8xi64>
#   %29 = broadcast %28 : tile<8x8xi64>
#   %30 = add %15, %29 : tile<8x8xi64>
#   %31 = splat %8 : tile<8xi64>
#   %32 = add %31, %11 : tile<8xi64>
#   %33 = cast %6 : i64
#   %34 = constant {value = 0} : i64
#   %35 = maximum %33, %34 : i64
#   %36 = cast %35 : u64
#   %37 = splat %36 : tile<8xu64>
#   %38 = cast %32 : tile<8xu64>
#   %39 = lt %38, %37 : tile<8xi1>
#   %40 = expand_dims %39 {axis = 0} : tile<1x8xi1>
#   %41 = broadcast %40 : tile<8x8xi1>
#   %42 = bit_and %24, %41 : tile<8x8xi1>
#   %43 = addptr %0, %25 : ptr<i32>
#   %44 = splat %43 : tile<8x8xptr<i32>>
#   %45 = addptr %44, %30 : tile<8x8xptr<i32>>
#   %46 = load %45, %42 : tile<8x8xi32>
#   %47 = constant {value = 2} : i32
#   %48 = splat %47 : tile<8xi32>
#   %49 = mul %7, %48 : tile<8xi32>
#   %50 = constant {value = 0} : i64
#   %51 = cast %49 : tile<8xi64>
#   %52 = arange {end = 8, start = 0} : tile<8xi32>
#   %53 = cast %52 : tile<8xi64>
#   %54 = splat %2 : tile<8xi64>
#   %55 = mul %51, %54 : tile<8xi64>
#   %56 = expand_dims %55 {axis = 1} : tile<8x1xi64>
#   %57 = broadcast %56 : tile<8x8xi64>
#   %58 = cast %1 : i64
#   %59 = constant {value = 0} : i64
#   %60 = maximum %58, %59 : i64
#   %61 = cast %60 : u64
#   %62 = splat %61 : tile<8xu64>
#   %63 = cast %51 : tile<8xu64>
#   %64 = lt %63, %62 : tile<8xi1>
#   %65 = expand_dims %64 {axis = 1} : tile<8x1xi1>
#   %66 = broadcast %65 : tile<8x8xi1>
#   %67 = splat %3 : tile<8xi64>
#   %68 = mul %53, %67 : tile<8xi64>
#   %69 = expand_dims %68 {axis = 0} : tile<1x8xi64>
#   %70 = broadcast %69 : tile<8x8xi64>
#   %71 = add %57, %70 : tile<8x8xi64>
#   %72 = cast %6 : i64
#   %73 = constant {value = 0} : i64
#   %74 = maximum %72, %73 : i64
#   %75 = cast %74 : u64
#   %76 = splat %75 : tile<8xu64>
#   %77 = cast %53 : tile<8xu64>
#   %78 = lt %77, %76 : tile<8xi1>
#   %79 = expand_dims %78 {axis = 0} : tile<1x8xi1>
#   %80 = broadcast %79 : tile<8x8xi1>
#   %81 = bit_and %66, %80 : tile<8x8xi1>
#   %82 = splat %0 : tile<8x8xptr<i32>>
#   %83 = addptr %82, %71 : tile<8x8xptr<i32>>
#   store %83, %46, %81
#   return
# }


@triton.jit
def moved(x, n):
    p = tl.make_block_ptr(x, (n,), (1,), (0,), (4,), (0,))
    v = tl.load(tl.advance(p, (4,)), boundary_check=(0,))
    tl.debug_barrier()
    tl.store(p, v)
    tl.device_print("v", v, n, hex=True)
    print("moved")
    tl.device_assert(v > 0, "positive", mask=v < 8)


# check moved x=*f32 n=i32
# func @moved(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = cast %1 : i64
#   %3 = constant {value = 1} : i64
#   %4 = constant {value = 0} : i64
#   %5 = constant {value = 4} : i64
#   %6 = add %4, %5 : i64
#   %7 = arange {end = 4, start = 0} : tile<4xi32>
#   %8 = cast %7 : tile<4xi64>
#   %9 = mul %6, %3 : i64
#   %10 = splat %3 : tile<4xi64>
#   %11 = mul %8, %10 : tile<4xi64>
#   %12 = splat %6 : tile<4xi64>
#   %13 = add %12, %8 : tile<4xi64>
#   %14 = constant {value = 0} : i64
#   %15 = maximum %2, %14 : i64
#   %16 = cast %15 : u64
#   %17 = splat %16 : tile<4xu64>
#   %18 = cast %13 : tile<4xu64>
#   %19 = lt %18, %17 : tile<4xi1>
#   %20 = addptr %0, %9 : ptr<f32>
#   %21 = splat %20 : tile<4xptr<f32>>
#   %22 = addptr %21, %11 : tile<4xptr<f32>>
#   %23 = load %22, %19 : tile<4xf32>
#   barrier {whole_program = true}
#   %24 = arange {end = 4, start = 0} : tile<4xi32>
#   %25 = cast %24 : tile<4xi64>
#   %26 = splat %3 : tile<4xi64>
#   %27 = mul %25, %26 : tile<4xi64>
#   %28 = splat %0 : tile<4xptr<f32>>
#   %29 = addptr %28, %27 : tile<4xptr<f32>>
#   store %29, %23
#   device_print %23, %1 {hex = true, text = " v: "}
#   device_print {text = " moved"}
#   %30 = constant {value = 0.0} : f32
#   %31 = splat %30 : tile<4xf32>
#   %32 = gt %23, %31 : tile<4xi1>
#   %33 = constant {value = 8.0} : f32
#   %34 = splat %33 : tile<4xf32>
#   %35 = lt %23, %34 : tile<4xi1>
#   return
# }


@triton.jit
def overlapping(x):
    tl.extra.cuda.gdc_wait()
    tl.store(x, 1.0, cache_modifier=".cs", eviction_policy="evict_first")
    tl.extra.cuda.gdc_launch_dependents()


# check overlapping x=*f32
# func @overlapping(%0: ptr<f32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = inline_asm_effects {assembly = "griddepcontrol.wait; // $0", constraints = "=r", pack = 1} : i32
#   %2 = constant {value = 1.0} : f32
#   store %0, %2 {cache = ".cs", evict = "evict_first"}
#   %3 = inline_asm_effects {assembly = "griddepcontrol.launch_dependents; // $0", constraints = "=r", pack = 1} : i32
#   return
# }


@triton.jit
def promised(x, n):
    i = n + tl.arange(0, 8)
    i = tl.max_contiguous(tl.multiple_of(i, 8), 8)
    j = tl.max_constancy(i % 2, 4)
    tl.assume(n >= 0)
    tl.store(x + i, tl.load(x + j, volatile=True, cache_modifier=".cg", eviction_policy="evict_last"))


# check promised x=*f32 n=i32
# func @promised(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = arange {end = 8, start = 0} : tile<8xi32>
#   %3 = splat %1 : tile<8xi32>
#   %4 = add %3, %2 : tile<8xi32>
#   %5 = hint %4 {divisibility = [8]} : tile<8xi32>
#   %6 = hint %5 {contiguity = [8]} : tile<8xi32>
#   %7 = constant {value = 2} : i32
#   %8 = splat %7 : tile<8xi32>
#   %9 = rem %6, %8 : tile<8xi32>
#   %10 = hint %9 {constancy = [4]} : tile<8xi32>
#   %11 = constant {value = 0} : i32
#   %12 = ge %1, %11 : i1
#   %13 = splat %0 : tile<8xptr<f32>>
#   %14 = addptr %13, %6 : tile<8xptr<f32>>
#   %15 = splat %0 : tile<8xptr<f32>>
#   %16 = addptr %15, %10 : tile<8xptr<f32>>
#   %17 = load %16 {cache = ".cg", evict = "evict_last", volatile = true} : tile<8xf32>
#   store %14, %17
#   return
# }


@triton.jit
def promised_in_statements(x, n, flag):
    i = n + tl.arange(0, 8)
    tl.max_contiguous(tl.multiple_of(i, 8), 8)
    tl.multiple_of(x, 16)
    n.multiple_of(4)
    if flag:
        tl.multiple_of(n, 32)  # within the branch, for nothing
        j = n + tl.arange(0, 8)
        tl.max_constancy(j, 2)
        tl.store(x + j, 1.0)
    tl.store(x + i, n)


# check promised_in_statements x=*f32 n=i32 flag=i1
# func @promised_in_statements(%0: ptr<f32> "x", %1: i32 "n", %2: i1 "flag") {num_stages = 3, num_warps = 4} {
#   %3 = arange {end = 8, start = 0} : tile<8xi32>
#   %4 = splat %1 : tile<8xi32>
#   %5 = add %4, %3 : tile<8xi32>
#   %6 = hint %5 {divisibility = [8]} : tile<8xi32>
#   %7 = hint %6 {contiguity = [8]} : tile<8xi32>
#   %8 = hint %0 {divisibility = [16]} : ptr<f32>
#   %9 = hint %1 {divisibility = [4]} : i32
#   if %2 { ^():
#     %10 = hint %9 {divisibility = [32]} : i32
#     %11 = arange {end = 8, start = 0} : tile<8xi32>
#     %12 = splat %9 : tile<8xi32>
#     %13 = add %12, %11 : tile<8xi32>
#     %14 = hint %13 {constancy = [2]} : tile<8xi32>
#     %15 = splat %8 : tile<8xptr<f32>>
#     %16 = addptr %15, %14 : tile<8xptr<f32>>
#     %17 = constant {value = 1.0} : f32
#     %18 = splat %17 : tile<8xf32>
#     store %16, %18
#     yield
#   } { ^():
#     yield
#   }
#   %19 = splat %8 : tile<8xptr<f32>>
#   %20 = addptr %19, %7 : tile<8xptr<f32>>
#   %21 = cast %9 : f32
#   %22 = splat %21 : tile<8xf32>
#   store %20, %22
#   return
# }
