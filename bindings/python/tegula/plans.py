"""How calls of kernels become launches: options, plans, calls made ready."""

import struct

OPTIONS = ("num_warps", "num_stages", "maxnreg", "warp_specialize", "bulk_copies", "debug", "num_ctas", "program_bits")
OTHER_OPTIONS = ("dependent_launch", "launch_cooperative_grid", "enable_fp_fusion")
# Options of Triton's that change nothing here, and those of their values that can be taken so.
WITHOUT_EFFECT = {
    "launch_pdl": (True, False), "sanitize_overflow": (True, False),
    "warp_size": (32, ), "extern_libs": (), "ir_override": (), "instrumentation_mode": ("", )
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
