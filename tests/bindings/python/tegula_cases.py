"""What the tests of bindings/python/tegula share: the package from the sources, numpy or a skip, torch if it is there."""

import os
import pathlib
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[2]
NAME = pathlib.Path(sys.argv[0]).name  # of the test
sys.path.insert(0, str(SOURCE / "bindings" / "python"))

try:
    import numpy as np
except ImportError:
    print(f"[  SKIPPED ]\n{NAME}: Skipped\nnumpy is not installed for", sys.executable)  # as ./dev test looks for it
    sys.exit(77)
try:
    import torch
except ImportError:
    torch = None

import tegula

KERNELS = HERE / "kernels.py"
program = tegula.load(KERNELS)
GPU = torch is not None and torch.cuda.is_available() and os.environ.get("TEGULA_DEVICE") != "emulator"


def softmax(x):
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def main():
    result = unittest.main(verbosity=2, exit=False).result
    for reason in sorted({reason for _, reason in result.skipped}):
        print(f"[  SKIPPED ]\n{NAME}: Skipped\n{reason}")
    sys.exit(not result.wasSuccessful())
