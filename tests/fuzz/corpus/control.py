import triton
import triton.language as tl

@triton.jit
def h(a, b=1):
  if a:
    return b
  return b + 1

@triton.jit
def k(x, y, n):
  s = 0.0
  for i in range(n):
    if i % 2 == 0:
      s += i
    elif i > 5:
      s -= 1
  i = 0
  while i < n:
    i += h(True)
  tl.store(x, s)
