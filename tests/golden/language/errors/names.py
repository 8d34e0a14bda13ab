import numpy as np
import triton
import triton.language as tl
from other.file import helper
from triton.language.math import sqroot


@triton.jit
def k(x, n):
    program = tl.program_id(0)
    a = progam + 1  # error: unknown name 'progam' (did you mean 'program'?)
    b = tl.loads(x)  # error: unknown function 'tl.loads' (did you mean 'tl.load'?)
    c = tl.math.expp(1.0)  # error: unknown function 'tl.math.expp' (did you mean 'tl.math.exp'?)
    d = a + b + c  # nothing more about these
    l = tl.math.fast_expf(1.0)
    m = tl.extra.cuda.libdevice.log1p(1.0)
    o = tl.extra.libdevice.isnam(1.0)  # error: unknown function 'tl.extra.libdevice.isnam' (did you mean 'tl.extra.libdevice.isnan'?)
    e = np.float32  # error: 'np.float32' is of no use in a kernel: it comes from 'numpy'
    f = helper(x)  # error: 'helper' comes from 'other.file.helper', outside this file
    x.stor(1)  # error: has no method 'stor'
    g = tl.floot32  # error: unknown name 'tl.floot32' (did you mean 'tl.float32'?)
    h = n.dtyp  # error: dtyp
    i = n * helper  # error: 'helper' comes from 'other.file.helper', outside this file
    j = sqroot(x)  # error: unknown name 'triton.language.math.sqroot'
    n()  # error: 'n' is no function, found int32
    tl.math(1)  # error: 'tl.math' is a module, not a function


# check k x=*f32 n=i32
