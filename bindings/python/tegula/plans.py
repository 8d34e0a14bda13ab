"""How calls of kernels become launches: options, plans, calls made ready."""

import struct

OPTIONS = ("num_warps", "num_stages", "maxnreg", "warp_specialize", "bulk_copies", "program_loop", "debug", "num_ctas", "program_bits")
OTHER_OPTIONS = ("dependent_launch", "launch_cooperative_grid", "enable_fp_fusion", "sanitize_overflow")


def anything(value):
    return True


# Options of Triton's that change nothing here, and which of their values can be taken so. (Triton's tl.dot never asks for
# default_dot_input_precision; its backend says max_num_imprecise_acc_default.)
WITHOUT_EFFECT = {
    "launch_pdl": (True, False).__contains__, "enable_reflect_ftz": (True, ).__contains__, "warp_size": (32, ).__contains__, "backend_name": ("cuda", ).__contains__,
    "extern_libs": lambda libraries: not libraries, "ir_override": lambda file: False,
    "instrumentation_mode": ("", ).__contains__, "ptx_version": anything,
    "ptx_options": lambda options: "fmad" not in options, "default_dot_input_precision": anything,
    "max_num_imprecise_acc_default": anything
}
ALL_OPTIONS = (*OPTIONS, *OTHER_OPTIONS, *WITHOUT_EFFECT, "stream")


class Plan:
    """How the arguments of a call, given in one order of positions and names, become those of a launch."""

    def __init__(self, runtime, runtime_names, fixed, fixed_names, stream, names):
        self.runtime = runtime  # positions among the values of the call, or None: the first ones
        self.runtime_names = runtime_names
        self.fixed, self.fixed_names = fixed, fixed_names  # constexprs and options
        self.stream = stream  # position, or None
        self.names = names  # of all values of the call
        self.pack = struct.Struct(f"{3 * len(runtime_names)}q").pack
        self.count = len(runtime_names)
        self.open = False  # whether constexprs are left to defaults, configurations and heuristics
        self.options = {}
        self.flat = {}  # plans where tuples are arguments, by their forms
        self.written = {}  # which arguments the kernel writes through, where an array is read-only


class Call:
    """A launch made ready for the library."""
    __slots__ = ("options", "words", "count", "device", "stream", "ranges", "meta", "open", "kept")
