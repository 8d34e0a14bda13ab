"""Tegula in the place of Triton's compiler: for programs that are written for Triton.

    import tegula_triton
    tegula_triton.install()

From then on launches of @triton.jit functions of this process run on Tegula, those of other modules, of autotuners and
of torch.compile included. What Tegula refuses goes to Triton, which says what is wrong or runs it; report() counts both.
Data in the host's memory is worked on by Tegula's emulator, on which autotuners time nothing and take their first
configuration. Launches and warmup() return a CompiledKernel, which has asm["ptx"], metadata, n_regs and the like as Triton's has.
"""

from .compiled import CompiledKernel
from .counts import Report, report
from .launches import kernel_of, text_of
from .patches import install, installed, uninstall

__all__ = ["install", "uninstall", "installed", "report", "Report", "CompiledKernel", "kernel_of", "text_of"]
