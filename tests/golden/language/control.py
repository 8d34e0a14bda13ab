"""Branches, loops and early returns."""
import triton
import triton.language as tl


@triton.jit
def merge(x, n):
    a = 1
    b = tl.load(x)
    if n > 0:
        a = 2
        t = b
    elif n < -5:
        a = n
        t = b * 2
    else:
        b = b + 1
        t = b * 3
    tl.store(x, b * a + t)


# check merge x=*f32 n=i32
# func @merge(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = load %0 : f32
#   %3 = constant {value = 0} : i32
#   %4 = gt %1, %3 : i1
#   %5, %6, %7 = if %4 : i32, f32, f32 { ^():
#     %8 = constant {value = 2} : i32
#     yield %8, %2, %2
#   } { ^():
#     %9 = constant {value = -5} : i32
#     %10 = lt %1, %9 : i1
#     %11, %12, %13 = if %10 : i32, f32, f32 { ^():
#       %14 = constant {value = 2.0} : f32
#       %15 = mul %2, %14 : f32
#       yield %1, %2, %15
#     } { ^():
#       %16 = constant {value = 1.0} : f32
#       %17 = add %2, %16 : f32
#       %18 = constant {value = 3.0} : f32
#       %19 = mul %17, %18 : f32
#       %20 = constant {value = 1} : i32
#       yield %20, %17, %19
#     }
#     yield %11, %12, %13
#   }
#   %21 = cast %5 : f32
#   %22 = mul %6, %21 : f32
#   %23 = add %22, %7 : f32
#   store %0, %23
#   return
# }


@triton.jit
def early(x, n, P):
    i = tl.program_id(0)
    if P is not None and i == 0:
        return
    if i >= n:
        return
    tl.store(x + i, i)


# check early x=*i32 n=i32 P=None
# func @early(%0: ptr<i32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = program_id {axis = 0} : i32
#   %3 = ge %2, %1 : i1
#   if %3 { ^():
#     yield
#   } { ^():
#     %4 = addptr %0, %2 : ptr<i32>
#     store %4, %2
#     yield
#   }
#   return
# }
# check early x=*i32 n=i32 P=*i32
# func @early(%0: ptr<i32> "x", %1: i32 "n", %2: ptr<i32> "P") {num_stages = 3, num_warps = 4} {
#   %3 = program_id {axis = 0} : i32
#   %4 = constant {value = 0} : i32
#   %5 = eq %3, %4 : i1
#   if %5 { ^():
#     yield
#   } { ^():
#     %6 = ge %3, %1 : i1
#     if %6 { ^():
#       yield
#     } { ^():
#       %7 = addptr %0, %3 : ptr<i32>
#       store %7, %3
#       yield
#     }
#     yield
#   }
#   return
# }


@triton.jit
def either(a, b, FLIP: tl.constexpr):
    if FLIP:
        return b, a
    if a < 0:
        return -a, b
    elif b < 0:
        b = -b
    return a, b


@triton.jit
def helpers(x, n):
    p, q = either(n, n + 1, FLIP=False)
    r, s = either(p, q, True)
    tl.store(x, r - s)


# check helpers x=*i32 n=i32
# func @helpers(%0: ptr<i32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 1} : i32
#   %3 = add %1, %2 : i32
#   %4 = constant {value = 0} : i32
#   %5 = lt %1, %4 : i1
#   %6, %7 = if %5 : i32, i32 { ^():
#     %8 = neg %1 : i32
#     yield %8, %3
#   } { ^():
#     %9 = constant {value = 0} : i32
#     %10 = lt %3, %9 : i1
#     %11 = if %10 : i32 { ^():
#       %12 = neg %3 : i32
#       yield %12
#     } { ^():
#       yield %3
#     }
#     yield %1, %11
#   }
#   %13 = sub %7, %6 : i32
#   store %0, %13
#   return
# }


@triton.jit
def loops(x, n, m):
    acc = 0.0
    count = 0
    first = (0, 1)
    for i in tl.range(0, n, 4, num_stages=3):
        v = tl.load(x + i)
        acc += v
        count = count + 1
        first = (first[1], first[0] + i)
        for j in range(m, 0, -1):
            acc = acc * 2
    for k in tl.static_range(2):
        acc += k
    tl.store(x, acc + count + first[0])


# check loops x=*f32 n=i32 m=i64
# func @loops(%0: ptr<f32> "x", %1: i32 "n", %2: i64 "m") {num_stages = 3, num_warps = 4} {
#   %3 = constant {value = 0} : i32
#   %4 = constant {value = 4} : i32
#   %5 = constant {value = 0.0} : f32
#   %6 = constant {value = 0} : i32
#   %7 = constant {value = 0} : i32
#   %8 = constant {value = 1} : i32
#   %9, %10, %11, %12 = for %3, %1, %4, %5, %6, %7, %8 {num_stages = 3} : f32, i32, i32, i32 { ^(%13: i32, %14: f32, %15: i32, %16: i32, %17: i32):
#     %18 = addptr %0, %13 : ptr<f32>
#     %19 = load %18 : f32
#     %20 = add %14, %19 : f32
#     %21 = constant {value = 1} : i32
#     %22 = add %15, %21 : i32
#     %23 = add %16, %13 : i32
#     %24 = constant {value = 0} : i64
#     %25 = constant {value = -1} : i64
#     %26 = for %2, %24, %25, %20 : f32 { ^(%27: i64, %28: f32):
#       %29 = constant {value = 2.0} : f32
#       %30 = mul %28, %29 : f32
#       yield %30
#     }
#     yield %26, %22, %17, %23
#   }
#   %31 = constant {value = 0.0} : f32
#   %32 = add %9, %31 : f32
#   %33 = constant {value = 1.0} : f32
#   %34 = add %32, %33 : f32
#   %35 = cast %10 : f32
#   %36 = add %34, %35 : f32
#   %37 = cast %11 : f32
#   %38 = add %36, %37 : f32
#   store %0, %38
#   return
# }


@triton.jit
def whiles(x, n):
    i = 0
    while i < n:
        if tl.load(x + i) > 0:
            i += 2
        else:
            i += 1
    while False:
        nothing()
    tl.store(x, i)


# check whiles x=*i32 n=i32
# func @whiles(%0: ptr<i32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = while %2 : i32 { ^(%4: i32):
#     %5 = lt %4, %1 : i1
#     condition %5, %4
#   } { ^(%6: i32):
#     %7 = addptr %0, %6 : ptr<i32>
#     %8 = load %7 : i32
#     %9 = constant {value = 0} : i32
#     %10 = gt %8, %9 : i1
#     %11 = if %10 : i32 { ^():
#       %12 = constant {value = 2} : i32
#       %13 = add %6, %12 : i32
#       yield %13
#     } { ^():
#       %14 = constant {value = 1} : i32
#       %15 = add %6, %14 : i32
#       yield %15
#     }
#     yield %11
#   }
#   store %0, %3
#   return
# }


@triton.jit
def dead_assignment(x, n, B, HAS: tl.constexpr):
    b = B
    for i in range(n):
        if HAS and i > 0:
            b = tl.load(x)
        tl.store(x + i, i)


# check dead_assignment x=*i32 n=i32 B=None HAS=False
# func @dead_assignment(%0: ptr<i32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = constant {value = 1} : i32
#   for %2, %1, %3 { ^(%4: i32):
#     %5 = addptr %0, %4 : ptr<i32>
#     store %5, %4
#     yield
#   }
#   return
# }


@triton.jit
def unrolled(x, FIRST: tl.constexpr):
    sizes = (1, 2)
    for size in sizes:
        for i in tl.static_range(3, 0, -2):
            if i == FIRST:
                start = i  # decided at compile time: visible behind the loop
            tl.store(x + size, i * size)
    tl.store(x, start)


# check unrolled x=*i32 FIRST=3
# func @unrolled(%0: ptr<i32> "x") {num_stages = 3, num_warps = 4} {
#   %1 = constant {value = 1} : i32
#   %2 = addptr %0, %1 : ptr<i32>
#   %3 = constant {value = 3} : i32
#   store %2, %3
#   %4 = constant {value = 1} : i32
#   %5 = addptr %0, %4 : ptr<i32>
#   %6 = constant {value = 1} : i32
#   store %5, %6
#   %7 = constant {value = 2} : i32
#   %8 = addptr %0, %7 : ptr<i32>
#   %9 = constant {value = 6} : i32
#   store %8, %9
#   %10 = constant {value = 2} : i32
#   %11 = addptr %0, %10 : ptr<i32>
#   %12 = constant {value = 2} : i32
#   store %11, %12
#   %13 = constant {value = 3} : i32
#   store %0, %13
#   return
# }


@triton.jit
def partly(x, n, m):
    if n > 0:
        tl.store(x, 1)
        if m > 0:
            return
        tl.store(x, 2)
    tl.store(x, 3)


# check partly x=*i32 n=i32 m=i32
# func @partly(%0: ptr<i32> "x", %1: i32 "n", %2: i32 "m") {num_stages = 3, num_warps = 4} {
#   %3 = constant {value = 0} : i32
#   %4 = gt %1, %3 : i1
#   if %4 { ^():
#     %5 = constant {value = 1} : i32
#     store %0, %5
#     %6 = constant {value = 0} : i32
#     %7 = gt %2, %6 : i1
#     if %7 { ^():
#       yield
#     } { ^():
#       %8 = constant {value = 2} : i32
#       store %0, %8
#       %9 = constant {value = 3} : i32
#       store %0, %9
#       yield
#     }
#     yield
#   } { ^():
#     %10 = constant {value = 3} : i32
#     store %0, %10
#     yield
#   }
#   return
# }


@triton.jit
def short_circuit(x, p, n, FLAG: tl.constexpr):
    if p is not None and tl.load(p) > 0:
        tl.store(x, 1)
    if n > 0 and FLAG and n < 9:
        tl.store(x, nothing_of_that_name)
    if 0 < n < 9 or FLAG:
        tl.store(x, 2)
    if not FLAG:
        tl.store(x, 3)


# check short_circuit x=*i32 p=None n=i32 FLAG=False
# func @short_circuit(%0: ptr<i32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = gt %1, %2 : i1
#   %4 = constant {value = 0} : i32
#   %5 = lt %4, %1 : i1
#   %6 = constant {value = 9} : i32
#   %7 = lt %1, %6 : i1
#   %8 = bit_and %5, %7 : i1
#   if %8 { ^():
#     %9 = constant {value = 2} : i32
#     store %0, %9
#     yield
#   } { ^():
#     yield
#   }
#   %10 = constant {value = 3} : i32
#   store %0, %10
#   return
# }


@triton.jit
def literals_take_the_type(x, n):
    a = tl.load(x)
    b = 0
    if n > 0:
        a = 0
        b = tl.load(x + 1)
    for i in range(n):
        a = a + b
        if i == 3:
            a = 1
    tl.store(x, a)


# check literals_take_the_type x=*f16 n=i32
# func @literals_take_the_type(%0: ptr<f16> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = load %0 : f16
#   %3 = constant {value = 0} : i32
#   %4 = gt %1, %3 : i1
#   %5, %6 = if %4 : f16, f16 { ^():
#     %7 = constant {value = 1} : i32
#     %8 = addptr %0, %7 : ptr<f16>
#     %9 = load %8 : f16
#     %10 = constant {value = 0.0} : f16
#     yield %10, %9
#   } { ^():
#     %11 = constant {value = 0.0} : f16
#     yield %2, %11
#   }
#   %12 = constant {value = 0} : i32
#   %13 = constant {value = 1} : i32
#   %14 = for %12, %1, %13, %5 : f16 { ^(%15: i32, %16: f16):
#     %17 = add %16, %6 : f16
#     %18 = constant {value = 3} : i32
#     %19 = eq %15, %18 : i1
#     %20 = if %19 : f16 { ^():
#       %21 = constant {value = 1.0} : f16
#       yield %21
#     } { ^():
#       yield %17
#     }
#     yield %20
#   }
#   store %0, %14
#   return
# }


@triton.jit
def bounds_of_a_flag(x, FLAG: tl.constexpr):
    for i in range(FLAG):
        tl.store(x, i)


# accept bounds_of_a_flag x=*i32 FLAG=True


@triton.jit
def tiles_chosen(x, p, n):
    i = tl.arange(0, 8)
    v = tl.load(x + i)
    other = -v
    tl.store(x + i, v if n > 0 else other)
    tl.store(p if n > 1 else x, n)


# check tiles_chosen x=*f32 p=*f32 n=i32
# func @tiles_chosen(%0: ptr<f32> "x", %1: ptr<f32> "p", %2: i32 "n") {num_stages = 3, num_warps = 4} {
#   %3 = arange {end = 8, start = 0} : tile<8xi32>
#   %4 = splat %0 : tile<8xptr<f32>>
#   %5 = addptr %4, %3 : tile<8xptr<f32>>
#   %6 = load %5 : tile<8xf32>
#   %7 = neg %6 : tile<8xf32>
#   %8 = splat %0 : tile<8xptr<f32>>
#   %9 = addptr %8, %3 : tile<8xptr<f32>>
#   %10 = constant {value = 0} : i32
#   %11 = gt %2, %10 : i1
#   %12 = if %11 : tile<8xf32> { ^():
#     yield %6
#   } { ^():
#     yield %7
#   }
#   store %9, %12
#   %13 = constant {value = 1} : i32
#   %14 = gt %2, %13 : i1
#   %15 = select %14, %1, %0 : ptr<f32>
#   %16 = cast %2 : f32
#   store %15, %16
#   return
# }


@triton.jit
def half_returned(n, m):
    if n > 0:
        if m > 0:
            return n, 2.0
    m += 1


@triton.jit
def of_half_returned(x, n, m):
    a, b = half_returned(n, m)
    tl.store(x, a * b)


# check of_half_returned x=*f32 n=i32 m=i32
# func @of_half_returned(%0: ptr<f32> "x", %1: i32 "n", %2: i32 "m") {num_stages = 3, num_warps = 4} {
#   %3 = constant {value = 0} : i32
#   %4 = gt %1, %3 : i1
#   %5, %6 = if %4 : i32, f32 { ^():
#     %7 = constant {value = 0} : i32
#     %8 = gt %2, %7 : i1
#     %9, %10 = if %8 : i32, f32 { ^():
#       %11 = constant {value = 2.0} : f32
#       yield %1, %11
#     } { ^():
#       %12 = constant {value = 1} : i32
#       %13 = add %2, %12 : i32
#       %14 = constant {value = 2.0} : f32
#       %15 = unset : i32
#       %16 = unset : f32
#       yield %15, %16
#     }
#     yield %9, %10
#   } { ^():
#     %17 = constant {value = 1} : i32
#     %18 = add %2, %17 : i32
#     %19 = unset : i32
#     %20 = unset : f32
#     yield %19, %20
#   }
#   %21 = cast %5 : f32
#   %22 = mul %21, %6 : f32
#   store %0, %22
#   return
# }


@tl.core._aggregate
class Sums:
    total: tl.tensor
    KIND: tl.constexpr
    SHAPE: tl.constexpr

    def __init__(self, total, KIND, SHAPE):
        self.total, self.KIND, self.SHAPE = total, KIND, SHAPE

    @triton.jit
    def add(self, x):
        return Sums(self.total + x, self.KIND, self.SHAPE)


@triton.jit
def constants_carried(x, n):
    sums, pair = Sums(0.0, tl.float16, (2, 4)), (n, None)
    for i in range(n):
        if sums.KIND == tl.float16:
            sums = sums.add(i)
        pair = pair[0] + 1, pair[1]
    tl.static_assert(pair[1] is None)
    tl.store(x + tl.arange(0, sums.SHAPE[1]), (sums.total + pair[0]).to(sums.KIND))


# check constants_carried x=*f32 n=i32
# func @constants_carried(%0: ptr<f32> "x", %1: i32 "n") {num_stages = 3, num_warps = 4} {
#   %2 = constant {value = 0} : i32
#   %3 = constant {value = 1} : i32
#   %4 = constant {value = 0.0} : f32
#   %5, %6 = for %2, %1, %3, %4, %1 : f32, i32 { ^(%7: i32, %8: f32, %9: i32):
#     %10 = cast %7 : f32
#     %11 = add %8, %10 : f32
#     %12 = constant {value = 1} : i32
#     %13 = add %9, %12 : i32
#     yield %11, %13
#   }
#   %14 = arange {end = 4, start = 0} : tile<4xi32>
#   %15 = splat %0 : tile<4xptr<f32>>
#   %16 = addptr %15, %14 : tile<4xptr<f32>>
#   %17 = cast %6 : f32
#   %18 = add %5, %17 : f32
#   %19 = cast %18 : f16
#   %20 = cast %19 : f32
#   %21 = splat %20 : tile<4xf32>
#   store %16, %21
#   return
# }
