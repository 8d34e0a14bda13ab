import triton
import triton.language as tl


@triton.jit
def k(x, n, B: tl.constexpr):
    if n > 0:
        a = 1
    b = a  # error: 'a' has a value only in the body of the 'if' in line 7
    if n > 0:
        c = tl.arange(0, 8)
    else:
        c = tl.arange(0, 16)
    d = c  # error: 'c' has no one type behind the 'if' in line 10: tile of [8] int32 in one branch and tile of [16] int32
    if n > 0:
        e = None
    else:
        e = n
    f = e  # error: 'e' has no one type behind the 'if' in line 15: None in one branch and int32 in the other
    acc = 0
    for i in range(n):
        acc += 1.5  # error: the type of 'acc' changes in the loop: int32 before it, float32 at the end of its body
        inner = i
    g = inner  # error: 'inner' has a value only in the body of the loop in line 21, which may not run
    h = i
    t = None
    for i in range(n):
        u = t  # error: 't' is None before the loop and assigned in its body
        t = i
    for i in range(n):
        if i > 3:
            break
        continue
    for i in range(n):
        if i > 3:
            return 1  # error: kernel 'k' returns the int 1, but a kernel returns nothing
    while B:  # error: the condition of this 'while' is always true
        n = n
    for i in range(1.5):  # error: range takes integers, found
        pass
    for i in range(0, n, 0):  # error: the step of range is 0
        pass
    for i in tl.static_range(n):  # error: tl.static_range takes compile-time integers, found int32
        pass
    for i in tl.range(n, num_stage=3):  # error: tl.range has no argument 'num_stage' (did you mean 'num_stages'?)
        pass
    for i in n:  # error: a 'for' loop runs over range, tl.range, tl.static_range or a tuple, found int32
        pass
    raise ValueError("no")  # error: this 'raise' is reached: no


# check k x=*f32 n=i32 B=4
