import triton
import triton.language as tl


@triton.jit
def h(a, b, W: tl.constexpr = 4):
    return a + b


@triton.jit
def loop(a):
    return loop(a)  # error: function 'loop' calls itself with arguments of the same types (functions are inlined into the kernel: write a loop) [in the call from calls.py:


@triton.jit
def mixed(a):
    if a > 0:  # error: function 'mixed' returns int32 in one branch and None in the other
        return a
    return


@triton.jit
def k(x, n):
    a = h(n)  # error: argument 'b' of 'h' is missing
    b = h(1, 2, 3, 4)  # error: function 'h' takes 3 arguments, found 4
    c = h(1, 2, Wd=3)  # error: function 'h' has no argument 'Wd'
    d = h(1, a=2)  # error: argument 'a' of 'h' is given twice  # error: argument 'b' of 'h' is missing
    e = h(1, 2, n)  # as in Triton
    f = loop(n)
    g = mixed(n)
    h[(1,)](x)  # error: 'h' cannot be launched from a kernel (call it: h(...))
    i = float("many")  # error: float() cannot read the string 'many'
    j = len(n)  # error: len takes a tuple or a string, found int32
    print(n, **x)  # error: '**' takes a dict, found pointer to float32


# check k x=*f32 n=i32
