"""What the side-by-side benchmarks share: Tegula's kernels on torch tensors, and interleaved timing.

Tegula runs in this process through bindings/python/tegula, in the primary context that torch and Triton use, so all
sides work on the same tensors and streams.
"""

import ctypes
import hashlib
import random
import statistics
import time
import traceback
from dataclasses import dataclass

import torch

# ---- The CUDA driver.

NUM_REGS, LOCAL_BYTES, MAX_DYNAMIC_SHARED = 4, 3, 8  # CU_FUNC_ATTRIBUTE_...
JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES = 5, 6  # CU_JIT_...


class Driver:
    """libcuda, called through ctypes (which lets other threads run meanwhile). Every failed call raises."""

    def __init__(self):
        torch.zeros(1, device="cuda")  # torch's context: the primary one
        self.library = ctypes.CDLL("libcuda.so.1")
        self.library.cuLaunchKernel.argtypes = (
            [ctypes.c_void_p] + [ctypes.c_uint] * 7 + [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p])
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        if not context.value:
            raise RuntimeError("torch made no CUDA context current")
        self.context = context

    def call(self, name, *args):
        result = getattr(self.library, name)(*args)
        if result:
            text = ctypes.c_char_p()
            self.library.cuGetErrorName(result, ctypes.byref(text))
            raise RuntimeError(f"{name}: {(text.value or b'unknown error').decode()} ({result})")

    def load(self, ptx, name):
        """Links PTX; the function, as a handle. May be called from any thread."""
        self.call("cuCtxSetCurrent", self.context)
        log = ctypes.create_string_buffer(16 << 10)
        options = (ctypes.c_int * 2)(JIT_ERROR_LOG, JIT_ERROR_LOG_BYTES)
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        module, function = ctypes.c_void_p(), ctypes.c_void_p()
        try:
            self.call("cuModuleLoadDataEx", ctypes.byref(module), ctypes.c_char_p(ptx), ctypes.c_uint(2), options, values)
        except RuntimeError as error:
            raise RuntimeError(f"{error}: {log.value.decode(errors='replace')}") from None
        self.call("cuModuleGetFunction", ctypes.byref(function), module, ctypes.c_char_p(name.encode()))
        return function

    def attribute(self, function, which):
        value = ctypes.c_int()
        self.call("cuFuncGetAttribute", ctypes.byref(value), ctypes.c_int(which), function)
        return value.value

    def programs_per_sm(self, function, warps, shared):
        """How many programs of `warps` warps and `shared` bytes of dynamic shared memory an SM runs at a time."""
        value = ctypes.c_int()
        self.call("cuOccupancyMaxActiveBlocksPerMultiprocessor", ctypes.byref(value), function,
                  ctypes.c_int(32 * warps), ctypes.c_size_t(shared))
        return max(1, value.value)


class LaunchAttribute(ctypes.Structure):  # CUlaunchAttribute
    _fields_ = [("id", ctypes.c_int), ("padding", ctypes.c_int), ("value", ctypes.c_int), ("rest", ctypes.c_char * 60)]


class LaunchConfig(ctypes.Structure):  # CUlaunchConfig
    _fields_ = [("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3), ("shared", ctypes.c_uint),
                ("stream", ctypes.c_void_p), ("attributes", ctypes.POINTER(LaunchAttribute)), ("count", ctypes.c_uint)]


MAY_OVERLAP = LaunchAttribute(id=6, value=1)  # ..._PROGRAMMATIC_STREAM_SERIALIZATION


# ---- Kernels of Tegula.


@dataclass
class Code:
    """PTX of one kernel, and what a launch has to know of it."""
    kernel: str
    ptx: bytes
    warps: int
    shared: int


class LoadedKernel:
    """Code on the GPU."""

    def __init__(self, driver, code):
        self.driver, self.code = driver, code
        self.function = driver.load(code.ptx + b"\0", code.kernel)
        self.registers = driver.attribute(self.function, NUM_REGS)
        self.local_bytes = driver.attribute(self.function, LOCAL_BYTES)
        if code.shared > 48 << 10:
            driver.call("cuFuncSetAttribute", self.function, ctypes.c_int(MAX_DYNAMIC_SHARED), ctypes.c_int(code.shared))

    def launcher(self, grid, *args):
        """A function that launches on torch's current stream. args: tensors, ints for int32, floats for fp32."""
        def value(a):
            if isinstance(a, torch.Tensor):
                return ctypes.c_uint64(a.data_ptr())
            return ctypes.c_float(a) if isinstance(a, float) else ctypes.c_int32(a)

        values = [value(a) for a in args]
        pointers = (ctypes.c_void_p * len(values))(*[ctypes.addressof(v) for v in values])
        launch_kernel, function, threads, shared = (
            self.driver.library.cuLaunchKernel, self.function, 32 * self.code.warps, self.code.shared)
        if b"griddepcontrol.wait" in self.code.ptx:  # launched as the library does: it may overlap the kernel ahead
            config = LaunchConfig((grid, 1, 1), (threads, 1, 1), shared, None, ctypes.pointer(MAY_OVERLAP), 1)
            launch_overlapping, place = self.driver.library.cuLaunchKernelEx, ctypes.byref(config)

            def launch_ex(keep=(values, args)):
                config.stream = torch.cuda.current_stream().cuda_stream
                result = launch_overlapping(place, function, pointers, None)
                if result:
                    raise RuntimeError(f"cuLaunchKernelEx of {self.code.kernel}: error {result}")

            return launch_ex

        def launch(keep=(values, args)):
            stream = torch.cuda.current_stream().cuda_stream
            result = launch_kernel(function, grid, 1, 1, threads, 1, 1, shared, stream, pointers, None)
            if result:
                raise RuntimeError(f"cuLaunchKernel of {self.code.kernel}: error {result}")

        return launch


class TegulaKernel:
    """A kernel of the Python package with constexprs and options, made ready for some arguments. May be made in any thread."""

    def __init__(self, kernel, arguments, **how):
        self.kernel, self.how = kernel, how
        self.facts = kernel.facts(*arguments, **how)
        self.digest = hashlib.sha256(f"{self.facts.ptx} {self.facts.num_warps} {self.facts.shared_bytes}".encode()).digest()

    def programs_per_sm(self):
        """How many programs an SM runs at a time, by what each takes of it."""
        sm = torch.cuda.get_device_properties(torch.cuda.current_device())
        warps, registers = self.facts.num_warps, -(-self.facts.registers * 32 // 256) * 256  # of a warp
        by_registers = 4 * (getattr(sm, "regs_per_multiprocessor", 65536) // 4 // registers) // warps
        by_warps = sm.max_threads_per_multi_processor // (32 * warps)
        by_shared = getattr(sm, "shared_memory_per_multiprocessor", 233472) // (self.facts.shared_bytes + 1024)
        return max(1, min(by_registers, by_warps, by_shared, 32))

    def launcher(self, grid, *arguments):
        """A function that launches on torch's current stream."""
        launch, how = self.kernel[(grid,)], self.how
        return lambda: launch(*arguments, **how)


# ---- Timing.


class Graph:
    """`works`, called one after another on a stream of its own, as a graph."""
    stream = None

    def __init__(self, works):
        Graph.stream = Graph.stream or torch.cuda.Stream()
        torch.cuda.synchronize()
        self.launches = len(works)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.stream(Graph.stream):
            self.graph.capture_begin(capture_error_mode="thread_local")
            try:
                for work in works:
                    work()
            finally:
                self.graph.capture_end()

    def __call__(self):
        self.graph.replay()


class Interleaved:
    """Times several ways of the same work in rounds, each round all of them; in random order: what
    runs after what shows in the figures, and must not be the same in every round.

    graph:  a sample is a replay of a graph with many launches, which go round the tensor sets. These are larger than
            twice the L2 cache between two uses of a set, so each launch finds its data cold.
    flush:  a sample is the mean of a few launches, each after twice the L2 cache was overwritten.
    """

    def __init__(self, method, sets, flush_bytes, launches):
        """`sets`: number of tensor sets; `launches` of a sample (graph: rounded up to a multiple of `sets`)."""
        self.method, self.sets = method, sets
        self.launches = -(-launches // sets) * sets if method == "graph" else launches
        self.scratch = torch.empty(flush_bytes // 4, dtype=torch.int32, device="cuda") if method == "flush" else None

    def prepare(self, works):
        """`works`: one launching function a tensor set. Returns what rounds() takes."""
        for work in works:
            work()
        torch.cuda.synchronize()
        if self.method == "flush":
            return works
        graph = Graph([works[i % self.sets] for i in range(self.launches)])
        graph()
        torch.cuda.synchronize()
        return graph

    def sample(self, prepared):
        """Queues one sample; returns pairs of events."""
        events = []

        def timed(work):
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            work()
            stop.record()
            events.append((start, stop))

        if self.method == "graph":
            timed(prepared)
        else:
            for i in range(self.launches):
                self.scratch.zero_()
                timed(prepared[i % self.sets])
        return events

    def rounds(self, arms, count):
        """Microseconds a launch: {name: one figure a round}. `arms`: {name: prepared}."""
        out = {name: [] for name in arms}
        names = list(arms)
        for number in range(count):
            order = random.sample(names, len(names))
            events = {name: self.sample(arms[name]) for name in order}
            torch.cuda.synchronize()
            for name in names:
                together = sum(start.elapsed_time(stop) for start, stop in events[name])
                out[name].append(together * 1000 / self.launches)
        return out


def ratio(slow, fast):
    """Of paired figures: {median, low, high} of slow / fast, low and high being the quartiles."""
    values = [a / b for a, b in zip(slow, fast)]
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else values * 3
    return {"median": middle, "low": low, "high": high, "pairs": len(values)}


def add_case_options(parser):
    parser.add_argument("--only", nargs="+", help="cases whose names have one of these texts")
    parser.add_argument("--pairs", type=int, default=15, help="interleaved rounds")
    parser.add_argument("--budget", type=float, default=300, help="seconds after which no further case is begun")


def run_cases(makers, options, compare):
    """compare(case) for each case that `makers` make, as the options of add_case_options() have it; what fails is told."""
    start = time.perf_counter()
    torch.manual_seed(0)
    for make in makers:
        if time.perf_counter() - start > options.budget:
            print("no time for the rest")
            break
        case = make()
        if options.only and not any(text in case.name for text in options.only):
            continue
        print(f"{case.name} [{time.perf_counter() - start:.0f} s]", flush=True)
        try:
            compare(case)
        except Exception:
            traceback.print_exc()
        del case
        torch.cuda.empty_cache()


def print_figures(figures, figure_of):
    """Medians of interleaved rounds by name, with figure_of(microseconds), and their ratio to Tegula's."""
    for name, times in figures.items():
        us = statistics.median(times)
        print(f"  {name:14} {us:9.1f} us {figure_of(us)}  time / Tegula's {ratio(times, figures['tegula'])['median']:.3f}", flush=True)


def relative_error(out, exact):
    """||out - exact|| / ||exact|| in double precision; NaN if anything in `out` is."""
    exact = exact.double()
    return ((out.double() - exact).norm() / exact.norm()).item()
