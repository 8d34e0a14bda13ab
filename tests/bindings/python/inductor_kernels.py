"""A kernel as Inductor of torch 2.11 writes it, for the host."""

import triton
import triton.language as tl

from torch._dynamo.device_interface import CpuInterface
from torch._inductor.runtime import triton_helpers, triton_heuristics
from torch._inductor.runtime.hints import DeviceProperties, ReductionHint
from torch._inductor.runtime.triton_helpers import libdevice, math as tl_math

# What Inductor asks of a device, and torch does not say of the host.
CpuInterface.exchange_device = CpuInterface.maybe_exchange_device = staticmethod(lambda device: 0)
DEVICE = DeviceProperties(type="cpu", index=0, multi_processor_count=4, cc=90, major=9, regs_per_multiprocessor=65536,
                          max_threads_per_multi_processor=2048, max_threads_per_block=1024, warp_size=32)


def meta(name, written=()):
    return {"grid_type": "Grid1D", "kernel_name": name, "mutated_arg_names": list(written), "optimize_mem": True,
            "no_x_dim": False, "num_load": 1, "num_reduction": 1, "backend_hash": "0", "assert_indirect_indexing": True,
            "autotune_local_cache": False, "autotune_pointwise": True, "autotune_remote_cache": None,
            "force_disable_caches": True, "dynamic_scale_rblock": True, "max_autotune": False,
            "max_autotune_pointwise": False, "min_split_scan_rblock": 256, "spill_threshold": 16, "store_cubin": False}


@triton_heuristics.pointwise(
    size_hints={"x": 4096}, filename=__file__,
    triton_meta={"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
                 "device": DEVICE, "constants": {}, "configs": [{(0, ): [["tt.divisibility", 16]]}]},
    inductor_meta=meta("triton_poi_fused_silu_0"), min_elem_per_thread=0)
@triton.jit
def triton_poi_fused_silu_0(in_ptr0, out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (x0), xmask).to(tl.float32)
    tmp1 = tl.sigmoid(tmp0)
    tmp2 = tmp0 * tmp1
    tmp3 = libdevice.rsqrt(tl_math.abs(tmp2) + 1.0)
    tl.store(out_ptr0 + (x0), tmp3, xmask)


@triton_heuristics.persistent_reduction(
    size_hints={"x": 64, "r0_": 64}, reduction_hint=ReductionHint.INNER, filename=__file__,
    triton_meta={"signature": {"in_ptr0": "*fp32", "out_ptr0": "*fp32", "xnumel": "i32", "r0_numel": "i32",
                               "XBLOCK": "constexpr"},
                 "device": DEVICE, "constants": {}, "configs": [{(0, ): [["tt.divisibility", 16]]}]},
    inductor_meta=meta("triton_per_fused_amax_1"))
@triton.jit
def triton_per_fused_amax_1(in_ptr0, out_ptr0, xnumel, r0_numel, XBLOCK: tl.constexpr):
    r0_numel = 50
    R0_BLOCK: tl.constexpr = 64
    rnumel = r0_numel
    RBLOCK: tl.constexpr = R0_BLOCK
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:, None]
    xmask = xindex < xnumel
    r0_index = tl.arange(0, R0_BLOCK)[None, :]
    r0_offset = 0
    r0_mask = r0_index < r0_numel
    roffset = r0_offset
    rindex = r0_index
    r0_1 = r0_index
    x0 = xindex
    tmp0 = tl.load(in_ptr0 + (r0_1 + 50*x0), r0_mask & xmask, other=0.0)
    tmp1 = tl.broadcast_to(tmp0, [XBLOCK, R0_BLOCK])
    tmp3 = tl.where(r0_mask & xmask, tmp1, float("-inf"))
    tmp4 = triton_helpers.max2(tmp3, 1)[:, None].to(tl.float32)
    tl.store(out_ptr0 + (x0), tmp4, xmask)


@triton_heuristics.pointwise(
    size_hints={"x": 64}, filename=__file__,
    triton_meta={"signature": {"in_out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
                 "device": DEVICE, "constants": {}, "configs": [{(0, ): [["tt.divisibility", 16]]}]},
    inductor_meta=meta("triton_poi_fused_add_3", ["in_out_ptr0"]), min_elem_per_thread=0)
@triton.jit
def triton_poi_fused_add_3(in_out_ptr0, xnumel, XBLOCK: tl.constexpr):
    xoffset = tl.program_id(0) * XBLOCK
    xindex = xoffset + tl.arange(0, XBLOCK)[:]
    xmask = xindex < xnumel
    x0 = xindex
    tmp0 = tl.load(in_out_ptr0 + (x0), xmask)
    tmp1 = tl.full([1], 1.0, tl.float32)
    tmp2 = tmp0 + tmp1
    tl.store(in_out_ptr0 + (x0), tmp2, xmask)


@triton_heuristics.pointwise(
    size_hints={"x": 64}, filename=__file__,
    triton_meta={"signature": {"out_ptr0": "*fp32", "xnumel": "i32", "XBLOCK": "constexpr"},
                 "device": DEVICE, "constants": {}, "configs": [{(0, ): [["tt.divisibility", 16]]}]},
    inductor_meta=meta("triton_poi_refused_2"), min_elem_per_thread=0)
@triton.jit
def triton_poi_refused_2(out_ptr0, xnumel, XBLOCK: tl.constexpr):
    tl.store(out_ptr0, tl.no_such_function(xnumel))
