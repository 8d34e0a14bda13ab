"""Kullback-Leibler and Jensen-Shannon divergences of rows of log-probabilities, with the gradient of the input x, which
takes the input's place, in one pass. t: the target's log-probabilities.

    kl:  sum(exp(t) * (t - x)),                                         dx = -exp(t)
    js:  sum(beta exp(t) (t - m) + (1 - beta) exp(x) (x - m)),          dx = (1 - beta) exp(x) (x - m),
         m = log(beta exp(t) + (1 - beta) exp(x))

both times `factor`. Where exp(t) is 0, its term is 0. Hinton, Vinyals, Dean: Distilling the Knowledge in a Neural
Network, 2015; Agarwal et al.: On-Policy Distillation of Language Models, 2024.
"""

import triton
import triton.language as tl

from tiles import mostly_filled


def configs():
    found = []
    for rows, width, warps in [(1, 1024, 4), (1, 2048, 4), (1, 4096, 8), (1, 8192, 16), (4, 512, 4), (16, 128, 4), (32, 32, 4)]:
        found.append(triton.Config({"ROWS": rows, "WIDTH": width}, num_warps=warps))
    for width in [1, 2, 4, 8, 16]:
        for elements in [512, 1024, 2048]:
            found.append(triton.Config({"ROWS": elements // width, "WIDTH": width}, num_warps=4))
    return found


def fitting(configs, named_args, **kwargs):
    return [c for c in configs if mostly_filled(named_args["cols"], c.kwargs["WIDTH"])]


@triton.autotune(configs=configs(), key=["cols", "rows_class"], restore_value=["input_ptr"],
                 prune_configs_by={"early_config_prune": fitting})
@triton.jit
def divergence(losses_ptr, input_ptr, target_ptr, input_stride, target_stride, rows, cols, beta, factor, rows_class,
               KIND: tl.constexpr, GRADIENT: tl.constexpr, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    row = (tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
    input_row = input_ptr + row.to(tl.int64) * input_stride
    target_row = target_ptr + row.to(tl.int64) * target_stride
    total = tl.zeros([ROWS, WIDTH], tl.float32)
    for start in range(0, cols, WIDTH):
        col = start + tl.arange(0, WIDTH)[None, :]
        mask = (row < rows) & (col < cols)
        x = tl.load(input_row + col, mask=mask, other=0.0).to(tl.float32)
        t = tl.load(target_row + col, mask=mask, other=0.0).to(tl.float32)
        q = tl.exp(t)
        if KIND == "kl":
            loss = tl.where(q > 0, q * (t - x), 0.0)
            dx = -q
        else:
            p = tl.exp(x)
            m = tl.log(beta * q + (1.0 - beta) * p)
            dx = tl.where(p > 0, (1.0 - beta) * p * (x - m), 0.0)
            loss = tl.where(q > 0, beta * q * (t - m), 0.0) + dx
        total += tl.where(mask, loss, 0.0)
        if GRADIENT:
            tl.store(input_row + col, (dx * factor).to(input_ptr.dtype.element_ty), mask=mask)
    tl.store(losses_ptr + row, tl.sum(total, axis=1)[:, None] * factor, mask=row < rows)
