"""Compiled kernels, to look at, and parameters of kernels."""

import ctypes

from .library import check, lib
from .structs import ImageStruct


class Param:
    """A parameter of a kernel: name, is_constexpr, has_default."""

    def __init__(self, name, is_constexpr, has_default):
        self.name, self.is_constexpr, self.has_default = name, is_constexpr, has_default

    def __repr__(self):
        return self.name + (": tl.constexpr" if self.is_constexpr else "") + (" = ..." if self.has_default else "")


class Image:
    """A compiled kernel: target, num_warps, registers and spill_bytes (a thread; -1 where no GPU's driver has assembled
    it), shared_bytes, ptx, transfers (lines: how pipelined loops copy and results of products are stored, and why not in bulk
    where they are not), and for what a launch runs its config: constexprs and options by name."""

    def __init__(self, handle, config=None):
        facts = ImageStruct(ctypes.sizeof(ImageStruct))
        try:
            check(lib.tegula_image_describe(handle, ctypes.byref(facts)))
            self.ptx = lib.tegula_image_ptx(handle).decode()
            self.transfers = lib.tegula_image_transfers(handle).decode().splitlines()
            self.target, self.num_warps = facts.target.decode(), facts.num_warps
            self.registers, self.spill_bytes, self.shared_bytes = facts.registers, facts.spill_bytes, facts.shared_bytes
        finally:
            lib.tegula_image_release(handle)
        self.config = config

    def __repr__(self):
        facts = [self.target, f"{self.num_warps} warps"]
        if self.registers >= 0:
            facts += [f"{self.registers} registers", f"{self.spill_bytes} bytes spilled"]
        return f"<tegula.Image {', '.join(facts)}, {self.shared_bytes} bytes shared>"
