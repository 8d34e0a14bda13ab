"""What launches return: the compiled kernel, looked at as Triton's is."""

import collections
import hashlib
from functools import cached_property

import triton
from tegula.arguments import is_memory
from tegula.dtypes import DESCRIPTOR, INT

from .names import renamed_ptx

MOST = 4096  # specialisations of a function that are remembered


def specialisation_of(call):
    """What tells a call from those that other code runs. Finer than the code: calls that differ here may run the same."""
    key = [call.options, id(call.device)]
    for tag, bits in zip(call.kept[::3], call.kept[1::3]):
        kind = tag & 0xffffffff
        if kind == DESCRIPTOR:
            key.append((tag, *(tuple(numbers) for numbers in bits.kept[1])))
        elif is_memory(tag):
            key.append((tag, bits % 16 == 0))
        elif kind == INT:
            key.append((tag, bits == 1, bits & 255 and bits & -bits & 255, -2**31 <= bits < 2**31))
        else:
            key.append(tag)
    return tuple(key)


class Asm(dict):
    """Texts by the names of their languages."""

    def __missing__(self, key):
        raise KeyError(f"{key}: the kernel was compiled by Tegula, which has {', '.join(self) or 'nothing'} of it")


class CompiledKernel:
    """The kernel that a launch has run or that warmup() has compiled. compiled[grid](*args) launches it with all of the
    function's parameters in order, constexprs included, and the options of the launch that gave it.

    name, hash; asm["ptx"]; metadata (name, num_warps, num_stages, num_ctas, shared, target and others of Triton's names);
    n_regs, n_spills (words a thread; None where neither a GPU nor ptxas has assembled it) and n_max_threads. All of it is
    found out when it is asked for. On the emulator the PTX is that for the GPU which it stands for."""

    module = function = None  # of Triton's driver, which has loaded nothing

    def __init__(self, replacement, kernel, call, options, name):
        self.name, self.fn = name, replacement.function
        self._replacement, self._kernel, self._options = replacement, kernel, options
        self._device, self._words = call.device, (call.options, call.words, call.count)
        self._kept = call.kept  # what the words point to

    def __repr__(self):
        return f"<tegula_triton.CompiledKernel {self.name}>"

    def __getitem__(self, grid):
        launcher = self._replacement[grid]
        return lambda *args, stream=None: launcher(*args, **self._options, **({} if stream is None else {"stream": stream}))

    @cached_property
    def _prepared(self):
        """The image that launches run."""
        return self._kernel._prepared_image(self._device, *self._words)

    @cached_property
    def _image(self):
        """The image for a GPU."""
        return self._kernel._compiled_image(self._device.target, *self._words) if self._device.is_emulator else self._prepared

    @cached_property
    def asm(self):
        ptx = self._image.ptx
        return Asm({"ptx": renamed_ptx(ptx, self._kernel.name, self.name)} if ptx else {})

    @cached_property
    def hash(self):
        return hashlib.sha256(self._image.ptx.encode()).hexdigest()

    @property
    def n_regs(self):
        return self._image.registers if self._image.registers >= 0 else None

    @property
    def n_spills(self):
        return self._image.spill_bytes // 4 if self._image.registers >= 0 else None

    @property
    def n_max_threads(self):
        registers = self.n_regs
        return 1024 if not registers else min(1024, 65536 // (-(-registers // 8) * 8) // 32 * 32)

    @cached_property
    def metadata(self):
        config, arch = self._prepared.config, int("".join(c for c in self._image.target if c.isdigit()))
        known = {
            "name": self.name, "hash": self.hash, "num_warps": self._image.num_warps, "num_stages": config["num_stages"],
            "num_ctas": config["num_ctas"], "maxnreg": config["maxnreg"] or None, "shared": self._image.shared_bytes,
            "cluster_dims": (config["num_ctas"], 1, 1), "warp_size": 32, "debug": bool(config["debug"]),
            "target": triton.backends.compiler.GPUTarget("cuda", arch, 32), "arch": f"sm{arch}", "backend_name": "cuda",
            "global_scratch_size": 0, "global_scratch_align": 1, "profile_scratch_size": 0, "tmem_size": 0,
            "enable_fp_fusion": self._options.get("enable_fp_fusion", True),
            "launch_cooperative_grid": self._options.get("launch_cooperative_grid", False),
        }
        return collections.namedtuple("KernelMetadata", sorted(known))(**known)

    @property
    def packed_metadata(self):
        m = self.metadata
        return (m.num_warps, m.num_ctas, m.shared, *m.cluster_dims)
