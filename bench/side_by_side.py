"""What rows.py, scans.py and gemm.py share: cases with tensors and a check, the choice of each side's best, and the run over all
cases with its JSON, text and Markdown."""

import argparse
import datetime
import importlib.util
import json
import math
import pathlib
import statistics
import sys
import threading
import time
import traceback
from concurrent.futures import ThreadPoolExecutor

import torch
import triton

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
sys.path[:0] = [str(HERE), str(ROOT / "bindings" / "python")]
import harness
import tegula

loading = threading.Lock()  # candidates are built by several threads

DTYPES = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}


def load_module(name):
    """A file of kernels/ as Triton sees it."""
    with loading:
        known = sys.modules.get("library_" + name)
        if known:
            return known
        spec = importlib.util.spec_from_file_location("library_" + name, ROOT / "kernels" / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[spec.name] = module
        sys.path.insert(0, str(ROOT / "kernels"))  # the texts import from each other; a bench may have the name of one
        try:
            spec.loader.exec_module(module)
        finally:
            sys.path.remove(str(ROOT / "kernels"))
        return module


def jit_function(function):
    while not isinstance(function, triton.JITFunction):
        function = function.fn
    return function


def configurations(function, arguments, fixed, **given):
    """{label: constexprs and options} of an autotuned kernel of kernels/: what its pruning leaves for these arguments, with
    what its heuristics say, but for those that are given."""
    rules, inner = {}, function
    while not isinstance(inner, triton.JITFunction):
        rules |= getattr(inner, "values", {})
        inner = inner.fn
    known = dict(zip(inner.arg_names, arguments)) | fixed
    found = {}
    for c in function.early_config_prune(function.configs, known):
        how = dict(c.kwargs) | fixed | given | {"num_warps": c.num_warps, "num_ctas": c.num_ctas}
        if c.maxnreg:
            how["maxnreg"] = c.maxnreg
        for name, rule in rules.items():
            how.setdefault(name, rule(known | how))
        shown = dict(c.kwargs) | {"w": c.num_warps, "c": c.num_ctas, "r": c.maxnreg or 0}
        found[" ".join(f"{k}={v}" for k, v in shown.items())] = how
    return found


class Case:
    """One function on matrices of one shape and type, with as many sets of tensors (inputs, out) as the timing needs."""

    tolerance = {"f32": 2e-5, "f16": 3e-3, "bf16": 8e-3}

    def prepare(self, bytes_moved, expected_us, make_set):
        """How to time: kernels under 30 us as graphs over rotating sets, others one by one with a flushed cache."""
        self.bytes = bytes_moved
        device = torch.cuda.get_device_properties(0)
        self.sms, l2 = device.multi_processor_count, device.L2_cache_size
        short = expected_us < 30
        self.method = ("graph", math.ceil(1000 / expected_us)) if short else ("flush", 5)
        self.flush_bytes = max(2 * l2, 256 << 20)
        count = 1 + math.ceil(2 * l2 / self.bytes) if short else 1
        self.sets = [make_set() for _ in range(count)]

    def check(self, work, index=0, exact=None):
        """The relative error of what `work` writes. Raises if it is too large."""
        out = self.sets[index][1]
        out.fill_(float("nan"))
        work()
        torch.cuda.synchronize()
        error = harness.relative_error(out, self.exact(index) if exact is None else exact)
        if not error < self.tolerance[self.dtype_name]:
            raise RuntimeError(f"WRONG RESULT: relative error {error:.2g}")
        return error

    def over_sets(self, launch):
        """One function a set of tensors."""
        return [lambda i=i: launch(i) for i in range(len(self.sets))]


def tegula_candidates(case, kernel, configs, grid, failures):
    """Yields (label, works, (how, grid)) of each configuration. configs: {label: how}; grid(how, ready): programs.
    Those that do not compile or spill are failures."""

    def build(item):
        label, how = item
        try:
            return label, harness.TegulaKernel(kernel, case.arguments(0), **how)
        except tegula.Error as error:
            return label, error

    with ThreadPoolExecutor(16) as pool:
        built = list(pool.map(build, configs.items()))
    for label, ready in built:
        if isinstance(ready, Exception):
            failures["tegula " + label] = str(ready)
        elif ready.facts.spill_bytes > 0:
            failures["tegula " + label] = f"{ready.facts.spill_bytes} bytes spilled"
        else:
            programs = grid(configs[label], ready)
            yield f"{label} ({ready.facts.registers} regs)", [ready.launcher(programs, *case.arguments(i))
                                                               for i in range(len(case.sets))], (configs[label], programs)


def tune(case, side, candidates, failures):
    """The best candidate: (label, works, note). The fastest few are timed again, interleaved."""
    method, launches = case.method
    timer = harness.Interleaved(method, len(case.sets), case.flush_bytes, min(launches, 64) if method == "graph" else 3)
    prepared, kept, exact = {}, {}, case.exact(0)
    for label, works, note in candidates:
        try:
            case.check(works[0], 0, exact)
            prepared[label], kept[label] = timer.prepare(works), (label, works, note)
        except Exception as error:
            failures[f"{side} {label}"] = str(error)
    if not kept:
        raise RuntimeError(f"{side}: no candidate works: " + "; ".join(f"{k}: {v[:200]}" for k, v in failures.items() if k.startswith(side)))
    figures = timer.rounds(prepared, 5)
    best = sorted(figures, key=lambda label: statistics.median(figures[label]))[:6]
    again = timer.rounds({label: prepared[label] for label in best}, 15)
    best.sort(key=lambda label: statistics.median(again[label]))
    print(f"  {side}: " + "; ".join(f"{b} {statistics.median(again[b]):.2f}" for b in best[:4]), flush=True)
    return kept[best[0]]


def measure(case, arms, pairs):
    """{name: microseconds a launch of each round}. arms: {name: works}."""
    method, launches = case.method
    timer = harness.Interleaved(method, len(case.sets), case.flush_bytes, launches)
    prepared = {name: timer.prepare(works) for name, works in arms.items()}
    timer.rounds(prepared, 3)
    return timer.rounds(prepared, pairs)


def best_of_sides(case, candidates, failures):
    """The best of each side, {side: (label, works, note)}, and what runs in turns: these, and Tegula's once more (A/A).
    candidates(side): as tune() takes them."""
    best = {side: tune(case, side, candidates(side), failures) for side in ("tegula", "triton")}
    arms = {side: works for side, (_, works, _) in best.items()}
    return best, arms | {"tegula again": arms["tegula"]}


def report_row(case, figures, ratios, best, failures, **more):
    """What the report keeps of a case."""
    return {"case": str(case), "us": {name: statistics.median(f) for name, f in figures.items()}, "ratios": ratios,
            "best": {side: b[0] for side, b in best.items()}, "failures": failures} | more


def options(description):
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", help="cases whose names have one of these texts")
    parser.add_argument("--pairs", type=int, default=21, help="interleaved rounds")
    parser.add_argument("--budget", type=float, default=400, help="seconds after which no further case is begun")
    parser.add_argument("--out", default="out", help="folder for the results")
    return parser.parse_args()


def wanted(label, options):
    return not options.only or any(text in label for text in options.only)


def run(name, cases, compare, options, start):
    """Compares the cases, (label, function that makes the case), and writes NAME.json as it goes. Returns the report's
    data and a line on what is missing, empty if nothing is."""
    folder = pathlib.Path(options.out)
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(0)
    driver = harness.ctypes.c_int()
    harness.ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(harness.ctypes.byref(driver))
    result = {"date": datetime.date.today().isoformat(), "device": torch.cuda.get_device_name(0), "driver": driver.value,
              "torch": torch.__version__, "triton": triton.__version__, "pairs": options.pairs, "rows": []}
    left_out, broken = [], []
    for label, make in cases:
        if not wanted(label, options):
            continue
        if time.perf_counter() - start > options.budget:
            left_out.append(label)
            continue
        print(label, flush=True)
        try:
            result["rows"].append(compare(make(), options.pairs))
        except Exception:
            broken.append(label)
            traceback.print_exc()
        torch.cuda.empty_cache()
        (folder / f"{name}.json").write_text(json.dumps(result))
    result["missing"] = broken + left_out
    result["end"] = (f"failed: {', '.join(broken) or 'none'}; no time for: {', '.join(left_out) or 'none'}; "
                     f"{time.perf_counter() - start:.0f} s")
    return result


def write(name, text, markdown, options):
    folder = pathlib.Path(options.out)
    print("\n" + text)
    (folder / f"{name}.txt").write_text(text + "\n")
    (folder / f"{name}.md").write_text(markdown)
