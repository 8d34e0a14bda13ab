// Numbers known at compile time: which are scalars, which have a type, and which are numbers of Python. What is
// expected is what Triton compiles these kernels to.
#include <climits>

#include "tests/dsl/language/kernel_fixture.h"

namespace tegula {
namespace {

const std::string kMore = R"(from typing import NamedTuple
from triton.language.core import _aggregate as aggregate

class Pair(NamedTuple):
    a: tl.tensor
    b: tl.tensor

@aggregate
class Box:
    flag: tl.constexpr

    def __init__(self, flag):
        kept = flag
        self.flag = kept

@triton.jit
def truth():
    return True

@triton.jit
def truths(flag):
    return flag, (True, 2)

@triton.jit
def twice(x):
    return x + x

@triton.jit
def twice_constexpr(x: tl.constexpr):
    return x + x
)";

// What is assigned becomes scalars, one for each element of a tuple.
TEST(TypedNumbers, TupleElements) {
  const std::string body = R"(
    t = (True, False)
    tl.store(out, t[0] + t[0])
    nested = (1, (True, 2147483647))
    tl.store(out + 1, nested[1][0] + nested[1][0])
    tl.store(out + 2, (nested[1][1] + 1).to(tl.int32))
    a, b = True, 5
    tl.store(out + 3, a + a)
    pair = Pair(True, 7)
    tl.store(out + 4, pair.a + pair[0])
    x = (4, 5)
    tl.store(out + 5, x[0] and 2)
    copy = x
    tl.store(out + 6, copy[0] or 3)
    tl.store(out + 7, (True, True)[0] + True)
    part = (True, True, False)[1:]
    tl.store(out + 8, part[0] + part[0])
    both = (True,) + (3,)
    tl.store(out + 9, both[0] + both[0])
)";
  EXPECT_EQ(run(body, 10, 5, kMore), (Ints{0, 0, INT_MIN, 0, 0, 4, 3, 2, 0, 0}));
}

// What a function of the kernel gives is scalars, whatever it returns; functions of Python give constexprs.
TEST(TypedNumbers, Results) {
  const std::string body = R"(
    tl.store(out, truth() + truth())
    tl.store(out + 1, truths(True)[0] + truths(True)[1][0])
    yes = True
    tl.store(out + 2, twice(yes))
    tl.store(out + 3, twice(True) + 0)
    tl.store(out + 4, twice_constexpr(yes))
    t = (True, 3)
    tl.store(out + 5, twice(t[0]))
    tl.store(out + 6, tl.where(yes, 7, 2.5) / 2 * 4)
    tl.store(out + 7, tl.maximum(True, False) + tl.maximum(True, False))
    tl.store(out + 8, max(True, False) + max(True, False))
    tl.store(out + 9, max(yes, False) + max(yes, False))
    tl.store(out + 10, tl.cdiv(-7, 2) // 2)
    tl.store(out + 11, triton.cdiv(-7, 2) // 2)
    tl.store(out + 12, tl.add(2147483647, 1).to(tl.int64) >> 31)
)";
  EXPECT_EQ(run(body, 13, 5, kMore), (Ints{0, 0, 0, 2, 0, 0, 14, 0, 2, 0, -1, -2, -1}));
}

// Scalars make scalars of what is computed of them, by `is` and isinstance alone not.
TEST(TypedNumbers, Conditions) {
  const std::string body = R"(
    one = 1
    yes = one == 1
    tl.store(out, yes + yes)
    tl.store(out + 1, (one == 1) + (one == 1))
    tl.store(out + 2, (1 == 1) + (1 == 1))
    tl.store(out + 3, (True if one else False) + True)
    tl.store(out + 4, (True if 1 else False) + True)
    tl.store(out + 5, (not one == 2) + (not one == 2))
    tl.store(out + 6, (yes and True) + (yes and True))
    tl.store(out + 7, (yes and 4) + (yes and 4))
    tl.store(out + 8, (yes or 4) + 1)
    tl.store(out + 9, (True if n > 1 else True) + True)
    tl.store(out + 10, (one is not None) + (one is not None))
    tl.store(out + 11, isinstance((one, 2)[0], tl.tensor) + isinstance((one, 2)[1], tl.tensor))
    tl.store(out + 12, (one < one) + True)
)";
  EXPECT_EQ(run(body, 13, 5, kMore), (Ints{0, 0, 2, 0, 2, 0, 0, 0, 5, 0, 2, 1, 1}));
}

// Constexprs and literals are numbers of Python.
TEST(TypedNumbers, Constexprs) {
  const std::string body = R"(
    YES: tl.constexpr = True
    tl.store(out, YES + YES)
    total = 0
    for i in tl.static_range(3):
        total = total + (i == 1) + (i == 1)
    tl.store(out + 1, total)
    tl.store(out + 2, tl.arange(0, 8).shape[0] // -3)
    eight = 8
    tl.store(out + 3, eight // -3)
    box = Box(tl.constexpr(True))
    tl.store(out + 4, box.flag + box.flag)
    tl.store(out + 5, (YES, 3)[0] + YES)
)";
  EXPECT_EQ(run(body, 6, 5, kMore), (Ints{2, 2, -3, -2, 2, 2}));
}

// Scalars compute in their types.
TEST(TypedNumbers, Arithmetic) {
  const std::string body = R"(
    x = (2147483647, -7, 4294967295, 0.1, -2147483648)
    tl.store(out, x[0] + 1)
    tl.store(out + 1, x[1] // 2)
    tl.store(out + 2, x[1] % 3)
    tl.store(out + 3, x[2] > x[1])
    tl.store(out + 4, -x[4])
    tl.store(out + 5, ~x[2])
    tl.store(out + 6, x[3] + 0.2 == 0.3)
    tl.store(out + 7, 0.1 + 0.2 == 0.3)
    tl.store(out + 8, x[0] << 1)
    tl.store(out + 9, (-5.5 + x[3] * 0) % 2.0 * 2)
    tl.store(out + 10, x[0] == 2147483648.0)
    tl.store(out + 11, True + x[0])
    tl.store(out + 12, x[1] >> 1)
)";
  EXPECT_EQ(run(body, 13, 5, kMore), (Ints{INT_MIN, -3, -1, 1, INT_MIN, 0, 1, 0, -2, -3, 1, INT_MIN, -4}));
}

// A number that stands alone is float32 before it is what the memory has.
TEST(TypedNumbers, AreRoundedToTheirTypeFirst) {
  Program program = Program::parse(R"(
import triton
import triton.language as tl
@triton.jit
def k(out):
    x = 0.1
    tl.store(out, 0.1)
    tl.store(out + 1, tl.cast(0.1, tl.float64))
    tl.store(out + 2, tl.full((), x, tl.float64))
    tl.store(out + 3, tl.full((), 0.1, tl.float64))
    tl.store(out + 4, tl.full((), 0.0, tl.float64) + x)
    tl.store(out + 5, tl.full((), 0.0, tl.float64) + 0.1)
)",
                                   "k.py");
  auto device = default_device();
  Buffer out(*device, std::vector<double>(6, -7));
  program.kernel("k").launch(*device, {1}, {}, out.as<double>());
  const double narrow = double(0.1f);
  EXPECT_EQ(out.download<double>(), (std::vector<double>{narrow, narrow, narrow, 0.1, narrow, 0.1}));
}

}  // namespace
}  // namespace tegula
