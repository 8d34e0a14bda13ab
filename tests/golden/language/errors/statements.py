import triton
import triton.language as tl


@triton.jit
def k(x, n, B: tl.constexpr):
    v = tl.arange(0, 16)
    v[0] = 1  # error: cannot assign to a part of a tile (write memory with tl.store(pointer, value)
    x.y = 2  # error: cannot assign to the attribute 'y'
    a, b = (1,)  # error: cannot unpack 1 values into 2 names
    c, d = n  # error: cannot unpack int32 into 2 names
    e = a + b + c + d
    f: tl.constexpr = n  # as in Triton
    tl.static_assert(B == 5, "B is five")  # error: static_assert failed: B is five
    tl.static_assert(n > 0)  # error: static_assert needs a compile-time condition
    assert B == 5, "five"  # error: the assertion fails in every launch: five
    *p, *q = (1, 2)  # error: more than one starred name in an assignment
    missing += 1  # error: unknown name 'missing'
    g = lambda q: q
    h = {"a": 1}["b"]  # error: a dict has no 'b'
    i = v[1:n]  # error: a slice takes integers known at compile time, found int32
    if v > 3:  # error: 
        pass
    return n  # error: kernel 'k' returns int32, but a kernel returns nothing


# check k x=*f32 n=i32 B=4
