"""Kernels of torch.compile: Inductor's caching autotuner gets launchers that launch by Tegula."""

import concurrent.futures
import contextlib
import math
import os
import re
import threading

from tegula import Device

from .counts import count_refusal, counted_seconds
from .launches import REFUSALS, kernel_of, raise_where_sealed

MOST_BITS = 30  # that the option program_bits takes
MOST_REGISTERS = 255  # of a thread

_REPLACED = ("_precompile_config", "bench", "benchmark_all_configs")  # of CachingAutotuner
_by_triton = {}  # what install() replaced


_making = threading.Lock()  # of kernels from texts
_threads = concurrent.futures.ThreadPoolExecutor(os.cpu_count(), "tegula-inductor")


class Binary:
    """What Inductor asks of a compiled kernel, where nothing is told before the first launch. By registers it would try
    ever smaller blocks of reductions, one after the other, which took half of all compile time and gained 2 % of one
    kernel. So it is told of many where a smaller block leaves less beyond the end of what is reduced."""
    n_spills = None
    shared = 0

    def __init__(self, wants_smaller_block):
        self.n_regs = MOST_REGISTERS if wants_smaller_block else None


def leaves_much_over(function, config):
    """Whether a kernel's last block reaches beyond what it reduces by a quarter of it or more, and the last one of half the
    size less far. False where the kernel's text does not say how much it reduces."""
    size, block = sizes_ahead(function).get("r0_numel"), config.kwargs.get("R0_BLOCK")
    if not size or not block:
        return False
    covered_by = lambda extent: -(-size // extent) * extent
    return 4 * covered_by(block) >= 5 * size and covered_by(block // 2) < covered_by(block)


def make_result_class(heuristics):
    """A CompileResult of Inductor's that launches by Tegula, and by Triton where Tegula refuses."""

    class TegulaResult(heuristics.CompileResult):

        def __init__(self, autotuner, config, compile_meta):
            super().__init__(Binary(leaves_much_over(autotuner.fn, config)), config, compile_meta, autotuner.inductor_meta)
            self.autotuner = autotuner
            self.programs = programs_ahead(heuristics, autotuner, config)
            self.ready = _threads.submit(prepare, autotuner, compile_meta, self.options())

        def make_launcher(self):
            function = self.autotuner.fn
            call_args, def_args, _ = self._get_arg_lists(function.arg_names, heuristics.get_constexprs(function))
            scope = {"grid_meta": self.config.kwargs, "kernel": None, "runner": None}
            for name in ("math", "torch", "triton"):
                scope[name] = __import__(name)
            options = self.options()
            scope["runner"] = FirstLaunch(self, scope)
            runner_args = ["kernel", "(grid_0, grid_1, grid_2)", *call_args, "stream=stream",
                           *(f"{name}={value!r}" for name, value in options.items())]
            launcher = self._gen_launcher_code(scope, def_args, runner_args)
            launcher.config = self.config
            launcher.n_regs, launcher.n_spills = None, 0  # torch 2.10 compares the latter
            launcher.shared = 0
            launcher.cache_hash = None
            launcher.store_cubin = False
            return launcher

        def options(self):
            """Options of a launch. Inductor asks for asserts of indices by default, as Triton's `debug`."""
            options = self.autotuner._create_compile_options(self.config, self.compile_meta)
            wanted = {name: int(options[name]) for name in ("num_warps", "num_stages", "debug")}
            if options.get("launch_cooperative_grid"):
                wanted["launch_cooperative_grid"] = True
            for name in ("enable_fp_fusion", "sanitize_overflow"):
                if not options.get(name, True):
                    wanted[name] = False
            if self.programs:
                wanted["program_bits"] = min(self.programs.bit_length(), MOST_BITS)
            return wanted

    return TegulaResult


class FirstLaunch:
    """The first launch of a kernel of Inductor's decides who launches it from then on."""

    def __init__(self, result, scope):
        self.result, self.scope = result, scope

    def __call__(self, kernel, grid, *args, stream, **options):
        autotuner = self.result.autotuner
        concurrent.futures.wait([self.result.ready])
        try:
            with counted_seconds():
                kernel = kernel_for(autotuner)
                kernel[grid](*args, stream=stream, **options)
            self.scope["kernel"], self.scope["runner"] = kernel, kernel._launcher
            return
        except REFUSALS as why:
            raise_where_sealed(why)
            count_refusal(autotuner.fn.__name__, str(why))
        self.scope["runner"] = self.launch_by_triton()
        self.scope["runner"](None, grid, *args, stream=stream)

    def launch_by_triton(self):
        """A function that launches what Triton compiles."""
        compiled = _by_triton["_precompile_config"](self.result.autotuner, self.result.config).kernel
        compiled._init_handles()

        def launch(kernel, grid, *args, stream, **options):
            compiled.run(*grid, stream, compiled.function, compiled.packed_metadata, None, None, None, *args)

        return launch


def kernel_for(autotuner):
    """Tegula's kernel of an autotuner's function; its configurations share it."""
    with _making:
        kernel = autotuner.__dict__.get("_tegula_kernel")
        if kernel is None:
            kernel = autotuner.__dict__["_tegula_kernel"] = kernel_of(autotuner.fn)
        return kernel


# ---- Ahead of the first launch


def sizes_ahead(function):
    """The sizes that the text of a kernel sets itself, `xnumel = 4096`, by their names."""
    return {name: int(size) for name, size in re.findall(r"^ +(\w+numel) = (\d+)$", function.src, re.MULTILINE)}


def programs_ahead(heuristics, autotuner, config):
    """How many programs launches will have; 0 where sizes are not known before."""
    try:
        grid = heuristics.GridExpr.from_meta(autotuner.inductor_meta, config)
        return math.prod(grid.eval_slow(sizes_ahead(autotuner.fn)))
    except Exception:  # a grid of other values or of another version's making
        return 0


def arguments_ahead(function, compile_meta):
    """What is known of the arguments before the first launch, as Kernel.prepare() takes them: constants, types of pointers
    and of numbers, and of sizes that the text sets (`xnumel = 4096`) the values. None where it does not tell enough."""
    sizes = sizes_ahead(function)
    divisible = {path[0] for path, facts in compile_meta["configs"][0].items() if ["tt.divisibility", 16] in facts}
    arguments = []
    for i, name in enumerate(function.arg_names):
        kind = compile_meta["signature"].get(name, "constexpr")
        if name in compile_meta["constants"]:
            arguments.append(compile_meta["constants"][name])
        elif kind.startswith("*"):
            arguments.append(kind if i in divisible else kind + ":1")
        elif name in sizes:
            arguments.append(sizes[name])
        elif re.fullmatch(r"[iu]\d+", kind):
            arguments.append(kind + ":16" if i in divisible else kind)
        elif re.fullmatch(r"fp\d+", kind):
            arguments.append(kind)
        else:
            return None
    return arguments


def prepare(autotuner, compile_meta, options):
    """Compiles for the arguments that are expected. What fails is told by the first launch."""
    with counted_seconds(), contextlib.suppress(Exception):
        arguments = arguments_ahead(autotuner.fn, compile_meta)
        on_host = compile_meta["device_type"] == "cpu"
        device = Device.emulator() if on_host else Device.cuda(compile_meta["device"])
        if arguments is not None:
            kernel_for(autotuner).prepare(*arguments, device=device, **options)


# ---- Timing of configurations


class ColdTimer:
    """Inductor's benchmarker, but for launches on a GPU: their shortest time with a cold L2 cache.

    Ahead of a launch Inductor writes as many bytes as the L2 cache holds. That takes less time than the host takes to
    launch from Python: the GPU waits between the events, and kernels of a few microseconds all seem to take twenty.
    Here it writes so much that the host is ahead; where there is no memory for that, Inductor measures: times of the
    two ways are not compared."""
    flushed_bytes = 256 << 20
    most_launches, first_launches, most_milliseconds = 20, 3, 25.0

    def __init__(self, by_inductor):
        self.by_inductor = by_inductor
        self.has_memory = True

    def __getattr__(self, name):
        return getattr(self.by_inductor, name)

    def benchmark(self, fn, *args, device=None, **options):
        on_gpu = str(device).startswith("cuda") and not args
        return (self.benchmark_gpu(fn, **options) if on_gpu else
                self.by_inductor.benchmark(fn, *args, device=device, **options))

    def benchmark_gpu(self, launch, **options):
        import torch
        if self.has_memory:
            try:
                return self.shortest(torch, launch)
            except torch.OutOfMemoryError:  # of what is written, or of the launch beside it
                self.has_memory = False
        return self.by_inductor.benchmark_gpu(launch, **options)

    def measured_alike(self, measure_all):
        """What measure_all() returns, with all its times taken in one way: if memory ends, it begins anew."""
        self.has_memory = True
        times = measure_all()
        return times if self.has_memory else measure_all()

    def shortest(self, torch, launch):
        flushed = torch.empty(self.flushed_bytes, dtype=torch.uint8, device="cuda")
        launch()
        first = self.timed(torch, launch, flushed, self.first_launches)
        more = min(self.most_launches, int(self.most_milliseconds / max(first, 1e-3))) - self.first_launches
        return min(first, self.timed(torch, launch, flushed, more)) if more > 0 else first

    @staticmethod
    def timed(torch, launch, flushed, launches):
        pairs = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(launches)]
        for begin, end in pairs:
            flushed.zero_()
            begin.record()
            launch()
            end.record()
        torch.cuda.synchronize()
        return min(begin.elapsed_time(end) for begin, end in pairs)


def measure(autotuner, launcher, *args, with_profiler=False, **kwargs):
    """Milliseconds of a launch, in place of Inductor's bench(). Ahead of each launch Inductor clones what the kernel
    writes in place, or copies it back from the host, within the time that it takes: it compares the copies. Here
    these are made once, around all launches. Not so for kernels of others, for those whose results Inductor sets to
    zero, and for those that change integers, perhaps indices that they use in the next launch."""
    by_inductor = _by_triton["bench"]
    written = [x for name, x in (*zip(autotuner.fn.arg_names, args), *kwargs.items())
               if name in autotuner.mutated_arg_names]
    repeatable = written and all(x.is_floating_point() for x in written)
    if not repeatable or autotuner.custom_kernel or autotuner.reset_to_zero_arg_names:
        return by_inductor(autotuner, launcher, *args, with_profiler=with_profiler, **kwargs)
    on_host = autotuner.copy_args_to_cpu_if_needed(*args, **kwargs)
    clones = autotuner.maybe_clone_args(on_host, *args, **kwargs)
    done_once = {"copy_args_to_cpu_if_needed": lambda *_, **__: {}, "maybe_clone_args": lambda *_, **__: clones}
    try:
        vars(autotuner).update(done_once)
        return by_inductor(autotuner, launcher, *args, with_profiler=with_profiler, **kwargs)
    finally:
        for name in done_once:
            vars(autotuner).pop(name, None)
        autotuner.restore_args_from_cpu(on_host)


def measure_all(autotuner, *args, **kwargs):
    """In place of Inductor's benchmark_all_configs()."""
    from torch._inductor.runtime import triton_heuristics as heuristics
    return heuristics.benchmarker.measured_alike(
        lambda: _by_triton["benchmark_all_configs"](autotuner, *args, **kwargs))


# ---- Installation


def static_launcher(config):
    """What asks Inductor to launch without Triton, as torch calls it: 2.10 by the first name, later ones by the second."""
    return next(name for name in ("use_static_cuda_launcher", "use_static_triton_launcher") if hasattr(config, name))


def install():
    """Replaces how Inductor compiles a configuration. Its processes that compile ahead know nothing of it: kernels are
    made in this process, and Triton's bundles of compiled kernels are not used."""
    import torch._inductor.config as config
    from torch._inductor.runtime import triton_heuristics as heuristics
    if _by_triton:
        return
    autotuner, result_class = heuristics.CachingAutotuner, make_result_class(heuristics)
    launcher = static_launcher(config)
    _by_triton.update({**{name: getattr(autotuner, name) for name in _REPLACED},
                       "compile_threads": config.compile_threads, launcher: getattr(config, launcher)})
    autotuner._precompile_config = lambda self, cfg: result_class(self, cfg, self._create_compile_meta(cfg))
    autotuner.bench, autotuner.benchmark_all_configs = measure, measure_all
    _by_triton["benchmarker"], heuristics.benchmarker = heuristics.benchmarker, ColdTimer(heuristics.benchmarker)
    config.compile_threads = 1
    setattr(config, launcher, False)


def uninstall():
    if not _by_triton:
        return
    import torch._inductor.config as config
    from torch._inductor.runtime import triton_heuristics as heuristics
    for name in _REPLACED:
        setattr(heuristics.CachingAutotuner, name, _by_triton.pop(name))
    heuristics.benchmarker = _by_triton.pop("benchmarker")
    for name in list(_by_triton):
        setattr(config, name, _by_triton.pop(name))
