"""Tegula in the place of Triton's compiler: for programs that are written for Triton.

    import tegula_triton
    tegula_triton.install()

From then on launches of @triton.jit functions of this process run on Tegula, those of other modules, of autotuners and
of torch.compile included. What Tegula refuses goes to Triton, which says what is wrong or runs it; report() counts both.
Data in the host's memory is worked on by Tegula's emulator, on which autotuners time nothing and take their first
configuration. Launches return None, not Triton's compiled kernel; warmup() is Triton's.
"""

from .counts import Report, report
from .launches import kernel_of, text_of
from .patches import install, installed, uninstall

__all__ = ["install", "uninstall", "installed", "report", "Report", "kernel_of", "text_of"]
