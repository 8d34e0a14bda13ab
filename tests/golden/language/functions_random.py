"""Random numbers, of one round of Philox: the rounds follow each other."""
import triton
import triton.language as tl


@triton.jit
def bits(x, seed):
    a, b, c, d = tl.philox(seed, 1, 2, 3, 4, n_rounds=1)
    tl.store(x, a ^ b ^ c ^ d ^ tl.randint(seed, 7, n_rounds=1))


# check bits x=*u32 seed=i32
# func @bits(%0: ptr<u32> "x", %1: i32 "seed") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 1} : i32
#   %3 = constant {value = 2} : i32
#   %4 = constant {value = 3} : i32
#   %5 = constant {value = 4} : i32
#   %6 = cast %1 : u64
#   %7 = bitcast %2 : u32
#   %8 = bitcast %3 : u32
#   %9 = bitcast %4 : u32
#   %10 = bitcast %5 : u32
#   %11 = constant {value = 32} : u64
#   %12 = shr %6, %11 : u64
#   %13 = cast %12 : u32
#   %14 = cast %6 : u32
#   %15 = constant {value = 3528531795} : u32
#   %16 = constant {value = 3449720151} : u32
#   %17 = umulhi %16, %9 : u32
#   %18 = bit_xor %17, %8 : u32
#   %19 = bit_xor %18, %14 : u32
#   %20 = mul %16, %9 : u32
#   %21 = umulhi %15, %7 : u32
#   %22 = bit_xor %21, %10 : u32
#   %23 = bit_xor %22, %13 : u32
#   %24 = mul %15, %7 : u32
#   %25 = constant {value = 2654435769} : u32
#   %26 = add %14, %25 : u32
#   %27 = constant {value = 3144134277} : u32
#   %28 = add %13, %27 : u32
#   %29 = bit_xor %19, %20 : u32
#   %30 = bit_xor %29, %23 : u32
#   %31 = bit_xor %30, %24 : u32
#   %32 = constant {value = 7} : i32
#   %33 = cast %32 : u32
#   %34 = constant {value = 0} : u32
#   %35 = cast %1 : u64
#   %36 = constant {value = 32} : u64
#   %37 = shr %35, %36 : u64
#   %38 = cast %37 : u32
#   %39 = cast %35 : u32
#   %40 = constant {value = 3528531795} : u32
#   %41 = constant {value = 3449720151} : u32
#   %42 = umulhi %41, %34 : u32
#   %43 = bit_xor %42, %34 : u32
#   %44 = bit_xor %43, %39 : u32
#   %45 = mul %41, %34 : u32
#   %46 = umulhi %40, %33 : u32
#   %47 = bit_xor %46, %34 : u32
#   %48 = bit_xor %47, %38 : u32
#   %49 = mul %40, %33 : u32
#   %50 = constant {value = 2654435769} : u32
#   %51 = add %39, %50 : u32
#   %52 = constant {value = 3144134277} : u32
#   %53 = add %38, %52 : u32
#   %54 = bit_xor %31, %44 : u32
#   store %0, %54
#   return
# }


@triton.jit
def four(x, seed):
    a, b, c, d = tl.randint4x(seed, 0, n_rounds=1)
    a, b, c, d = tl.philox_impl(a, b, c, d, a, b, n_rounds=1)
    tl.store(x, tl.uint_to_uniform_float(a ^ b ^ c ^ d))


# check four x=*f32 seed=i32
# func @four(%0: ptr<f32> "x", %1: i32 "seed") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = cast %2 : u32
#   %4 = constant {value = 0} : u32
#   %5 = cast %1 : u64
#   %6 = constant {value = 32} : u64
#   %7 = shr %5, %6 : u64
#   %8 = cast %7 : u32
#   %9 = cast %5 : u32
#   %10 = constant {value = 3528531795} : u32
#   %11 = constant {value = 3449720151} : u32
#   %12 = umulhi %11, %4 : u32
#   %13 = bit_xor %12, %4 : u32
#   %14 = bit_xor %13, %9 : u32
#   %15 = mul %11, %4 : u32
#   %16 = umulhi %10, %3 : u32
#   %17 = bit_xor %16, %4 : u32
#   %18 = bit_xor %17, %8 : u32
#   %19 = mul %10, %3 : u32
#   %20 = constant {value = 2654435769} : u32
#   %21 = add %9, %20 : u32
#   %22 = constant {value = 3144134277} : u32
#   %23 = add %8, %22 : u32
#   %24 = constant {value = 3528531795} : u32
#   %25 = constant {value = 3449720151} : u32
#   %26 = umulhi %25, %18 : u32
#   %27 = bit_xor %26, %15 : u32
#   %28 = bit_xor %27, %14 : u32
#   %29 = mul %25, %18 : u32
#   %30 = umulhi %24, %14 : u32
#   %31 = bit_xor %30, %19 : u32
#   %32 = bit_xor %31, %15 : u32
#   %33 = mul %24, %14 : u32
#   %34 = constant {value = 2654435769} : u32
#   %35 = add %14, %34 : u32
#   %36 = constant {value = 3144134277} : u32
#   %37 = add %15, %36 : u32
#   %38 = bit_xor %28, %29 : u32
#   %39 = bit_xor %38, %32 : u32
#   %40 = bit_xor %39, %33 : u32
#   %41 = bitcast %40 : i32
#   %42 = constant {value = 0} : i32
#   %43 = lt %41, %42 : i1
#   %44 = constant {value = -1} : i32
#   %45 = bit_xor %41, %44 : i32
#   %46 = select %43, %45, %41 : i32
#   %47 = cast %46 : f32
#   %48 = constant {value = 4.6566127342e-10} : f32
#   %49 = mul %47, %48 : f32
#   store %0, %49
#   return
# }


@triton.jit
def uniform(x, seed):
    a, b, c, d = tl.rand4x(seed, 0, n_rounds=1)
    tl.store(x, a + b + c + d + tl.rand(seed, 1, n_rounds=1))


# check uniform x=*f32 seed=i32
# func @uniform(%0: ptr<f32> "x", %1: i32 "seed") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = cast %2 : u32
#   %4 = constant {value = 0} : u32
#   %5 = cast %1 : u64
#   %6 = constant {value = 32} : u64
#   %7 = shr %5, %6 : u64
#   %8 = cast %7 : u32
#   %9 = cast %5 : u32
#   %10 = constant {value = 3528531795} : u32
#   %11 = constant {value = 3449720151} : u32
#   %12 = umulhi %11, %4 : u32
#   %13 = bit_xor %12, %4 : u32
#   %14 = bit_xor %13, %9 : u32
#   %15 = mul %11, %4 : u32
#   %16 = umulhi %10, %3 : u32
#   %17 = bit_xor %16, %4 : u32
#   %18 = bit_xor %17, %8 : u32
#   %19 = mul %10, %3 : u32
#   %20 = constant {value = 2654435769} : u32
#   %21 = add %9, %20 : u32
#   %22 = constant {value = 3144134277} : u32
#   %23 = add %8, %22 : u32
#   %24 = bitcast %14 : i32
#   %25 = constant {value = 0} : i32
#   %26 = lt %24, %25 : i1
#   %27 = constant {value = -1} : i32
#   %28 = bit_xor %24, %27 : i32
#   %29 = select %26, %28, %24 : i32
#   %30 = cast %29 : f32
#   %31 = constant {value = 4.6566127342e-10} : f32
#   %32 = mul %30, %31 : f32
#   %33 = bitcast %15 : i32
#   %34 = constant {value = 0} : i32
#   %35 = lt %33, %34 : i1
#   %36 = constant {value = -1} : i32
#   %37 = bit_xor %33, %36 : i32
#   %38 = select %35, %37, %33 : i32
#   %39 = cast %38 : f32
#   %40 = constant {value = 4.6566127342e-10} : f32
#   %41 = mul %39, %40 : f32
#   %42 = bitcast %18 : i32
#   %43 = constant {value = 0} : i32
#   %44 = lt %42, %43 : i1
#   %45 = constant {value = -1} : i32
#   %46 = bit_xor %42, %45 : i32
#   %47 = select %44, %46, %42 : i32
#   %48 = cast %47 : f32
#   %49 = constant {value = 4.6566127342e-10} : f32
#   %50 = mul %48, %49 : f32
#   %51 = bitcast %19 : i32
#   %52 = constant {value = 0} : i32
#   %53 = lt %51, %52 : i1
#   %54 = constant {value = -1} : i32
#   %55 = bit_xor %51, %54 : i32
#   %56 = select %53, %55, %51 : i32
#   %57 = cast %56 : f32
#   %58 = constant {value = 4.6566127342e-10} : f32
#   %59 = mul %57, %58 : f32
#   %60 = add %32, %41 : f32
#   %61 = add %60, %50 : f32
#   %62 = add %61, %59 : f32
#   %63 = constant {value = 1} : i32
#   %64 = cast %63 : u32
#   %65 = constant {value = 0} : u32
#   %66 = cast %1 : u64
#   %67 = constant {value = 32} : u64
#   %68 = shr %66, %67 : u64
#   %69 = cast %68 : u32
#   %70 = cast %66 : u32
#   %71 = constant {value = 3528531795} : u32
#   %72 = constant {value = 3449720151} : u32
#   %73 = umulhi %72, %65 : u32
#   %74 = bit_xor %73, %65 : u32
#   %75 = bit_xor %74, %70 : u32
#   %76 = mul %72, %65 : u32
#   %77 = umulhi %71, %64 : u32
#   %78 = bit_xor %77, %65 : u32
#   %79 = bit_xor %78, %69 : u32
#   %80 = mul %71, %64 : u32
#   %81 = constant {value = 2654435769} : u32
#   %82 = add %70, %81 : u32
#   %83 = constant {value = 3144134277} : u32
#   %84 = add %69, %83 : u32
#   %85 = bitcast %75 : i32
#   %86 = constant {value = 0} : i32
#   %87 = lt %85, %86 : i1
#   %88 = constant {value = -1} : i32
#   %89 = bit_xor %85, %88 : i32
#   %90 = select %87, %89, %85 : i32
#   %91 = cast %90 : f32
#   %92 = constant {value = 4.6566127342e-10} : f32
#   %93 = mul %91, %92 : f32
#   %94 = add %62, %93 : f32
#   store %0, %94
#   return
# }


@triton.jit
def normal(x, seed):
    a, b, c, d = tl.randn4x(seed, 0, n_rounds=1)
    e, f = tl.pair_uniform_to_normal(a, b)
    tl.store(x, c + d + e + f + tl.randn(seed, 1, n_rounds=1))


# check normal x=*f32 seed=i32
# func @normal(%0: ptr<f32> "x", %1: i32 "seed") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = cast %2 : u32
#   %4 = constant {value = 0} : u32
#   %5 = cast %1 : u64
#   %6 = constant {value = 32} : u64
#   %7 = shr %5, %6 : u64
#   %8 = cast %7 : u32
#   %9 = cast %5 : u32
#   %10 = constant {value = 3528531795} : u32
#   %11 = constant {value = 3449720151} : u32
#   %12 = umulhi %11, %4 : u32
#   %13 = bit_xor %12, %4 : u32
#   %14 = bit_xor %13, %9 : u32
#   %15 = mul %11, %4 : u32
#   %16 = umulhi %10, %3 : u32
#   %17 = bit_xor %16, %4 : u32
#   %18 = bit_xor %17, %8 : u32
#   %19 = mul %10, %3 : u32
#   %20 = constant {value = 2654435769} : u32
#   %21 = add %9, %20 : u32
#   %22 = constant {value = 3144134277} : u32
#   %23 = add %8, %22 : u32
#   %24 = bitcast %15 : i32
#   %25 = constant {value = 0} : i32
#   %26 = lt %24, %25 : i1
#   %27 = constant {value = -1} : i32
#   %28 = bit_xor %24, %27 : i32
#   %29 = select %26, %28, %24 : i32
#   %30 = cast %29 : f32
#   %31 = constant {value = 4.6566127342e-10} : f32
#   %32 = mul %30, %31 : f32
#   %33 = bitcast %14 : i32
#   %34 = constant {value = 0} : i32
#   %35 = lt %33, %34 : i1
#   %36 = constant {value = -1} : i32
#   %37 = bit_xor %33, %36 : i32
#   %38 = select %35, %37, %33 : i32
#   %39 = cast %38 : f32
#   %40 = constant {value = 4.6566127342e-10} : f32
#   %41 = mul %39, %40 : f32
#   %42 = constant {value = 1e-07} : f32
#   %43 = maximum %42, %41 : f32
#   %44 = constant {value = 6.283185307179586} : f32
#   %45 = mul %44, %32 : f32
#   %46 = log %43 : f32
#   %47 = constant {value = -2.0} : f32
#   %48 = mul %47, %46 : f32
#   %49 = sqrt %48 : f32
#   %50 = cos %45 : f32
#   %51 = mul %49, %50 : f32
#   %52 = sin %45 : f32
#   %53 = mul %49, %52 : f32
#   %54 = bitcast %19 : i32
#   %55 = constant {value = 0} : i32
#   %56 = lt %54, %55 : i1
#   %57 = constant {value = -1} : i32
#   %58 = bit_xor %54, %57 : i32
#   %59 = select %56, %58, %54 : i32
#   %60 = cast %59 : f32
#   %61 = constant {value = 4.6566127342e-10} : f32
#   %62 = mul %60, %61 : f32
#   %63 = bitcast %18 : i32
#   %64 = constant {value = 0} : i32
#   %65 = lt %63, %64 : i1
#   %66 = constant {value = -1} : i32
#   %67 = bit_xor %63, %66 : i32
#   %68 = select %65, %67, %63 : i32
#   %69 = cast %68 : f32
#   %70 = constant {value = 4.6566127342e-10} : f32
#   %71 = mul %69, %70 : f32
#   %72 = constant {value = 1e-07} : f32
#   %73 = maximum %72, %71 : f32
#   %74 = constant {value = 6.283185307179586} : f32
#   %75 = mul %74, %62 : f32
#   %76 = log %73 : f32
#   %77 = constant {value = -2.0} : f32
#   %78 = mul %77, %76 : f32
#   %79 = sqrt %78 : f32
#   %80 = cos %75 : f32
#   %81 = mul %79, %80 : f32
#   %82 = sin %75 : f32
#   %83 = mul %79, %82 : f32
#   %84 = constant {value = 1e-07} : f32
#   %85 = maximum %84, %51 : f32
#   %86 = constant {value = 6.283185307179586} : f32
#   %87 = mul %86, %53 : f32
#   %88 = log %85 : f32
#   %89 = constant {value = -2.0} : f32
#   %90 = mul %89, %88 : f32
#   %91 = sqrt %90 : f32
#   %92 = cos %87 : f32
#   %93 = mul %91, %92 : f32
#   %94 = sin %87 : f32
#   %95 = mul %91, %94 : f32
#   %96 = add %81, %83 : f32
#   %97 = add %96, %93 : f32
#   %98 = add %97, %95 : f32
#   %99 = constant {value = 1} : i32
#   %100 = cast %99 : u32
#   %101 = constant {value = 0} : u32
#   %102 = cast %1 : u64
#   %103 = constant {value = 32} : u64
#   %104 = shr %102, %103 : u64
#   %105 = cast %104 : u32
#   %106 = cast %102 : u32
#   %107 = constant {value = 3528531795} : u32
#   %108 = constant {value = 3449720151} : u32
#   %109 = umulhi %108, %101 : u32
#   %110 = bit_xor %109, %101 : u32
#   %111 = bit_xor %110, %106 : u32
#   %112 = mul %108, %101 : u32
#   %113 = umulhi %107, %100 : u32
#   %114 = bit_xor %113, %101 : u32
#   %115 = bit_xor %114, %105 : u32
#   %116 = mul %107, %100 : u32
#   %117 = constant {value = 2654435769} : u32
#   %118 = add %106, %117 : u32
#   %119 = constant {value = 3144134277} : u32
#   %120 = add %105, %119 : u32
#   %121 = bitcast %112 : i32
#   %122 = constant {value = 0} : i32
#   %123 = lt %121, %122 : i1
#   %124 = constant {value = -1} : i32
#   %125 = bit_xor %121, %124 : i32
#   %126 = select %123, %125, %121 : i32
#   %127 = cast %126 : f32
#   %128 = constant {value = 4.6566127342e-10} : f32
#   %129 = mul %127, %128 : f32
#   %130 = bitcast %111 : i32
#   %131 = constant {value = 0} : i32
#   %132 = lt %130, %131 : i1
#   %133 = constant {value = -1} : i32
#   %134 = bit_xor %130, %133 : i32
#   %135 = select %132, %134, %130 : i32
#   %136 = cast %135 : f32
#   %137 = constant {value = 4.6566127342e-10} : f32
#   %138 = mul %136, %137 : f32
#   %139 = constant {value = 1e-07} : f32
#   %140 = maximum %139, %138 : f32
#   %141 = constant {value = 6.283185307179586} : f32
#   %142 = mul %141, %129 : f32
#   %143 = log %140 : f32
#   %144 = constant {value = -2.0} : f32
#   %145 = mul %144, %143 : f32
#   %146 = sqrt %145 : f32
#   %147 = cos %142 : f32
#   %148 = mul %146, %147 : f32
#   %149 = sin %142 : f32
#   %150 = mul %146, %149 : f32
#   %151 = add %98, %148 : f32
#   store %0, %151
#   return
# }
