import triton
import triton.language as tl

def sizes():
  out = []
  for i in range(3):
    out.append(32 << i)
  return out

@triton.autotune([triton.Config({"B": b}, num_warps=w) for b in sizes() for w in [2, 4]], key=["n"])
@triton.heuristics({"E": lambda args: args["n"] % args["B"] == 0})
@triton.jit
def k(x, n, B: tl.constexpr, E: tl.constexpr):
  o = tl.arange(0, B)
  tl.store(x + o, tl.load(x + o, mask=o < n) * 2)
