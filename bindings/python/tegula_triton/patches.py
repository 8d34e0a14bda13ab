"""Puts Tegula in Triton's place, and back."""

import torch
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction, KernelInterface

from . import inductor
from .launches import launch_item, run, run_by_triton

bench_by_triton = Autotuner._bench


def bench(self, *args, config, **meta):
    """Autotuner._bench(): the times of a configuration. On the emulator nothing is timed: all are equal, and the first
    is taken."""
    values = (*args, *meta.values())
    if not any(isinstance(x, torch.Tensor) and x.is_cuda for x in values):
        return [0.0, 0.0, 0.0]
    return bench_by_triton(self, *args, config=config, **meta)


def install(inductor_too=True):
    """Launches of @triton.jit functions go to Tegula from now on, those that modules hold already included.
    `inductor_too`: kernels of torch.compile as well, which then compile in this process."""
    JITFunction.run = run
    JITFunction.__getitem__ = launch_item
    Autotuner._bench = bench
    if inductor_too:
        inductor.install()


def installed():
    """Whether launches go to Tegula."""
    return JITFunction.run is run


def uninstall():
    """Launches go to Triton again. What torch.compile has made stays as it is."""
    JITFunction.run = run_by_triton
    if "__getitem__" in vars(JITFunction):
        del JITFunction.__getitem__
    Autotuner._bench = bench_by_triton
    inductor.uninstall()


assert "__getitem__" in vars(KernelInterface) and "__getitem__" not in vars(JITFunction)
