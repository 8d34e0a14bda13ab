t = {{{1: 1}: 1}: 1}
u = {a, b}
v = {k: v for k, v in t.items() if k}
