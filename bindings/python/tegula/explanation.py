"""What launches cost and why, and whether several should be one kernel."""

import ctypes
import json

from .library import check, lib


class Explanation:
    """What a launch costs and why. `text` tells it; the facts are attributes with the names of `facts`, a dictionary:
    from_memory, to_memory (bytes of the launch), read, written (through the L2 cache), arrays, accesses, units, registers,
    spill_bytes, shared_bytes, occupancy, loops, bound, predicted_us, measured_us, ..."""

    def __init__(self, handle):
        self._handle = handle
        self.text = lib.tegula_explanation_text(handle).decode()
        self.facts = json.loads(lib.tegula_explanation_json(handle).decode())
        self.svg = lib.tegula_explanation_svg(handle).decode()

    def __getattr__(self, name):
        try:
            return self.__dict__["facts"][name]
        except KeyError:
            raise AttributeError(name) from None

    def __del__(self, release=lib.tegula_explanation_release):
        if self.__dict__.get("_handle"):
            release(self._handle)

    def __str__(self):
        return self.text

    def __repr__(self):
        return f"<tegula.Explanation of {self.kernel}: {self.bound}, {self.predicted_us:.4g} us>"


class FusionAdvice:
    """Whether kernels should be one: fuse (bool), verdict, rules (each with number, question, speaks_for_fusion and
    figures), separate_bytes and fused_bytes from and to memory, text."""

    def __init__(self, text, facts):
        self.text = text
        self.__dict__.update(facts)

    def __str__(self):
        return self.text


def advise_fusion(explanations, kept=()):
    """Whether launches that follow one another should be one kernel. Arrays are told apart by their addresses; `kept` are
    tensors that are read behind the launches although one of them reads them."""
    handles = (ctypes.c_void_p * len(explanations))(*[e._handle for e in explanations])
    addresses = (ctypes.c_uint64 * len(kept))(*[t.data_ptr() if hasattr(t, "data_ptr") else t.ctypes.data for t in kept])
    text, facts = ctypes.c_char_p(), ctypes.c_char_p()
    check(lib.tegula_advise_fusion(handles, len(explanations), addresses, len(kept), ctypes.byref(text), ctypes.byref(facts)))
    return FusionAdvice(text.value.decode(), json.loads(facts.value.decode()))
