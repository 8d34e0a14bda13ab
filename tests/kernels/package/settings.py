"""Constants, some of which depend on where the package runs."""
import enum
import functools
import os
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from some_library import ask


@functools.cache
def platform() -> str:
    try:
        return triton.runtime.driver.active.get_current_target().backend
    except Exception:
        return "cpu"


IS_NPU = platform() == "npu"
HAS_GATHER = hasattr(triton.language, "gather")
NEW_GPU = torch.cuda.is_available() and torch.cuda.get_device_capability()[0] >= 10
FAST = os.environ.get("TEGULA_TEST_FAST", "0") == "1"
FACTOR = ask("how much")
PRECISION = tl.constexpr("ieee" if IS_NPU else "tf32")


class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


class Pair(NamedTuple):
    first: tl.tensor
    second: tl.tensor = 0.5


@triton.jit
def broken(x):
    return x +* 1


@triton.jit
def scaled(x):
    return x * FACTOR
