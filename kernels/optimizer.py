"""Steps of optimisers over many tensors in one launch, and the norm of their gradients.

The tensors stand in a table of int64: first the addresses of all parameters, then those of all gradients, of the first
moments and of the second ones, `tensors` each; a second table of int32 has for each program its tensor and its first
element there in units of CHUNK, and a third one of int64 the tensors' numbers of elements. Parameters and gradients have
one element type each, moments are fp32 or that of the parameters; the arithmetic is fp32. ALIGNED: all addresses are
multiples of 16.
"""

import triton
import triton.language as tl


@triton.jit
def array(table_ptr, index, ELEMENT: tl.constexpr, ALIGNED: tl.constexpr):
    """The tensor whose address stands at a place of the table."""
    address = tl.load(table_ptr + index)
    pointer = address.to(tl.pointer_type(ELEMENT))
    if ALIGNED:
        pointer = tl.multiple_of(pointer, 16)
    return pointer


@triton.jit
def chunk_of(chunks_ptr, sizes_ptr, CHUNK: tl.constexpr):
    """This program's tensor, its elements' indices there, and which of them exist."""
    tensor = tl.load(chunks_ptr + 2 * tl.program_id(0))
    first = tl.load(chunks_ptr + 2 * tl.program_id(0) + 1).to(tl.int64) * CHUNK
    left = tl.load(sizes_ptr + tensor) - first
    return tensor, first, left


@triton.jit
def adamw(table_ptr, chunks_ptr, sizes_ptr, clip_ptr, tensors, rate, beta1: tl.float64, beta2: tl.float64, eps, decay,
          correction1: tl.float64, correction2: tl.float64, PARAMETER: tl.constexpr, GRADIENT: tl.constexpr,
          MOMENT: tl.constexpr, ALIGNED: tl.constexpr, WHOLE: tl.constexpr, CHUNK: tl.constexpr = 1024):
    """m = beta1 m + (1 - beta1) g; v = beta2 v + (1 - beta2) g^2;
    p = p (1 - rate decay) - rate (m / correction1) / (sqrt(v / correction2) + eps). g is the gradient times clip[0], if
    that is given. Loshchilov, Hutter: Decoupled Weight Decay Regularization, 2019."""
    tensor, first, left = chunk_of(chunks_ptr, sizes_ptr, CHUNK)
    p_ptr = array(table_ptr, tensor, PARAMETER, ALIGNED) + first
    g_ptr = array(table_ptr, tensors + tensor, GRADIENT, ALIGNED) + first
    m_ptr = array(table_ptr, 2 * tensors + tensor, MOMENT, ALIGNED) + first
    v_ptr = array(table_ptr, 3 * tensors + tensor, MOMENT, ALIGNED) + first
    at = tl.arange(0, CHUNK)
    factor = 1.0
    if clip_ptr is not None:
        factor = tl.load(clip_ptr)
    rest1 = (1.0 - beta1).to(tl.float32)  # which fp32 would round much coarser than beta1
    rest2 = (1.0 - beta2).to(tl.float32)
    step = (rate / correction1).to(tl.float32)
    root = (1.0 / tl.sqrt(correction2)).to(tl.float32)
    if WHOLE and left >= CHUNK:
        adamw_of(p_ptr + at, g_ptr + at, m_ptr + at, v_ptr + at, tl.full([CHUNK], True, tl.int1), factor, rate, rest1, rest2,
                 eps, decay, step, root)
    else:
        adamw_of(p_ptr + at, g_ptr + at, m_ptr + at, v_ptr + at, at < left, factor, rate, rest1, rest2, eps, decay, step,
                 root)


@triton.jit
def adamw_of(p_ptr, g_ptr, m_ptr, v_ptr, mask, factor, rate, rest1, rest2, eps, decay, step, root):
    g = tl.load(g_ptr, mask=mask, other=0.0).to(tl.float32) * factor
    m = tl.load(m_ptr, mask=mask, other=0.0).to(tl.float32)
    v = tl.load(v_ptr, mask=mask, other=0.0).to(tl.float32)
    p = tl.load(p_ptr, mask=mask, other=0.0).to(tl.float32)
    m += rest1 * (g - m)
    v += rest2 * (g * g - v)
    p = p * (1.0 - rate * decay) - step * m / (tl.sqrt(v) * root + eps)
    tl.store(m_ptr, m.to(m_ptr.dtype.element_ty), mask=mask)
    tl.store(v_ptr, v.to(v_ptr.dtype.element_ty), mask=mask)
    tl.store(p_ptr, p.to(p_ptr.dtype.element_ty), mask=mask)


@triton.jit
def lion(table_ptr, chunks_ptr, sizes_ptr, clip_ptr, tensors, rate, beta1: tl.float64, beta2: tl.float64, decay,
         PARAMETER: tl.constexpr, GRADIENT: tl.constexpr, MOMENT: tl.constexpr, ALIGNED: tl.constexpr,
         CHUNK: tl.constexpr = 1024):
    """p = p (1 - rate decay) - rate sign(beta1 m + (1 - beta1) g); m = beta2 m + (1 - beta2) g. Chen et al.: Symbolic
    Discovery of Optimization Algorithms, 2023."""
    tensor, first, left = chunk_of(chunks_ptr, sizes_ptr, CHUNK)
    at = tl.arange(0, CHUNK)
    mask = at < left
    p_ptr = array(table_ptr, tensor, PARAMETER, ALIGNED) + first + at
    g_ptr = array(table_ptr, tensors + tensor, GRADIENT, ALIGNED) + first + at
    m_ptr = array(table_ptr, 2 * tensors + tensor, MOMENT, ALIGNED) + first + at
    g = tl.load(g_ptr, mask=mask, other=0.0).to(tl.float32)
    if clip_ptr is not None:
        g = g * tl.load(clip_ptr)
    m = tl.load(m_ptr, mask=mask, other=0.0).to(tl.float32)
    p = tl.load(p_ptr, mask=mask, other=0.0).to(tl.float32)
    step = m + (1.0 - beta1).to(tl.float32) * (g - m)
    sign = tl.where(step > 0, 1.0, tl.where(step < 0, -1.0, step))
    p = p * (1.0 - rate * decay) - rate * sign
    m += (1.0 - beta2).to(tl.float32) * (g - m)
    tl.store(p_ptr, p.to(PARAMETER), mask=mask)
    tl.store(m_ptr, m.to(MOMENT), mask=mask)


@triton.jit
def sgd(table_ptr, chunks_ptr, sizes_ptr, clip_ptr, tensors, rate, momentum, dampening, decay, PARAMETER: tl.constexpr,
        GRADIENT: tl.constexpr, MOMENT: tl.constexpr, ALIGNED: tl.constexpr, NESTEROV: tl.constexpr, FIRST: tl.constexpr,
        CHUNK: tl.constexpr = 1024):
    """g += decay p; m = momentum m + (1 - dampening) g, or g at the first step; p = p - rate m, with NESTEROV
    p - rate (g + momentum m). Without moments (MOMENT None) p - rate g."""
    tensor, first, left = chunk_of(chunks_ptr, sizes_ptr, CHUNK)
    at = tl.arange(0, CHUNK)
    mask = at < left
    p_ptr = array(table_ptr, tensor, PARAMETER, ALIGNED) + first + at
    g_ptr = array(table_ptr, tensors + tensor, GRADIENT, ALIGNED) + first + at
    g = tl.load(g_ptr, mask=mask, other=0.0).to(tl.float32)
    if clip_ptr is not None:
        g = g * tl.load(clip_ptr)
    p = tl.load(p_ptr, mask=mask, other=0.0).to(tl.float32)
    g += decay * p
    step = g
    if MOMENT is not None:
        m_ptr = array(table_ptr, 2 * tensors + tensor, MOMENT, ALIGNED) + first + at
        if FIRST:
            m = g
        else:
            m = momentum * tl.load(m_ptr, mask=mask, other=0.0).to(tl.float32) + (1.0 - dampening) * g
        tl.store(m_ptr, m.to(MOMENT), mask=mask)
        step = m
        if NESTEROV:
            step = g + momentum * m
    p -= rate * step
    tl.store(p_ptr, p.to(PARAMETER), mask=mask)


@triton.jit
def square_sums(table_ptr, chunks_ptr, sizes_ptr, norm_ptr, clip_ptr, most, tensors, chunks, partials_ptr, counters_ptr,
                GRADIENT: tl.constexpr, ALIGNED: tl.constexpr, CHUNK: tl.constexpr = 1024, TOGETHER: tl.constexpr = 4):
    """norm[0] = the Euclidean norm of all gradients, and clip[0] = min(1, most / (norm + 1e-6)). A program takes TOGETHER chunks
    at a time, and leaves the sum of their squares; the last one adds them up in order."""
    programs = tl.num_programs(0)
    at = tl.arange(0, CHUNK)[None, :]
    squares = tl.zeros([TOGETHER, CHUNK], tl.float32)
    for start in range(tl.program_id(0) * TOGETHER, chunks, programs * TOGETHER):
        chunk = start + tl.arange(0, TOGETHER)
        tensor = tl.load(chunks_ptr + 2 * chunk, mask=chunk < chunks, other=0)
        first = tl.load(chunks_ptr + 2 * chunk + 1, mask=chunk < chunks, other=0).to(tl.int64) * CHUNK
        left = tl.where(chunk < chunks, tl.load(sizes_ptr + tensor) - first, 0)
        g_ptr = (array(table_ptr, tensors + tensor, GRADIENT, ALIGNED) + first)[:, None] + at
        g = tl.load(g_ptr, mask=at < left[:, None], other=0.0).to(tl.float32)
        squares += g * g
    tl.store(partials_ptr + tl.program_id(0), tl.sum(squares))
    if tl.atomic_add(counters_ptr, 1) == programs - 1:
        total = tl.zeros([4096], tl.float32)
        for start in range(0, programs, 4096):
            place = start + tl.arange(0, 4096)
            total += tl.load(partials_ptr + place, mask=place < programs, other=0.0, cache_modifier=".cg")
        norm = tl.sqrt(tl.sum(total, axis=0))
        tl.store(norm_ptr, norm)
        if clip_ptr is not None:
            tl.store(clip_ptr, tl.minimum(1.0, most / (norm + 1e-6)))
        tl.store(counters_ptr, 0)
