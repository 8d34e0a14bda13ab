"""Prints what Triton makes of the decorators of a file, and compares it with what the file expects.

    python tests/golden/decorators/with_triton.py tests/golden/decorators/samples.py

Needs Triton, but neither torch nor a GPU: what the files use of torch is stood in for."""
import importlib.util
import sys
import types

torch = types.SimpleNamespace(**{name: name for name in ("float16", "bfloat16", "float32", "float64", "int64")})
import triton
from triton.runtime.autotuner import Autotuner, Heuristics

MARKER = "# ---- expected\n"


class Target:
    backend, arch, warp_size = "cuda", 90, 32


triton.runtime.driver.set_active(type("Driver", (), {
    "get_current_target": lambda self: Target, "get_benchmarker": lambda self: None, "is_active": lambda: True})())


class Tensor:
    def __init__(self, dtype, address):
        self.dtype, self.address = dtype, address

    def data_ptr(self):
        return self.address

    def element_size(self):
        return {"float16": 2, "float32": 4}[self.dtype]


LAUNCH = {"x": Tensor(torch.float16, 4096), "y": Tensor(torch.float32, 4100), "bias": None, "n": 1000, "M": 1000,
          "N": 512, "K": 4096, "causal": True, "eps": 1e-5}


def text(value):
    return f'"{value}"' if isinstance(value, str) else repr(value)


def config_text(config):
    items = sorted(config.kwargs.items())
    items += [(k, getattr(config, k)) for k in ("num_warps", "num_stages", "maxnreg") if getattr(config, k) is not None]
    return " ".join(f"{k}={text(v)}" for k, v in items)


def describe(name, kernel):
    lines = [f"kernel {name}"]
    heuristics, tuner = [], None
    while not isinstance(kernel, triton.runtime.JITFunction):
        if isinstance(kernel, Autotuner):
            tuner = kernel
        elif isinstance(kernel, Heuristics):
            heuristics.append(kernel.values)
        kernel = kernel.fn
    names = kernel.arg_names
    args = {k: v for k, v in LAUNCH.items() if k in names}
    if tuner:
        lines.append("  key " + " ".join(k for k in tuner.keys if k in names))
        for attribute in ("reset_to_zero", "restore_value"):
            if getattr(tuner, attribute):
                lines.append(f"  {attribute} " + " ".join(getattr(tuner, attribute)))
        for c in tuner.configs:
            lines.append("  config " + config_text(c))
        if tuner.early_config_prune:
            for c in tuner.early_config_prune(tuner.configs, args):
                lines.append("  kept " + config_text(c))
        args.update(tuner.configs[0].all_kwargs())
    for values in heuristics:
        for k, function in values.items():
            args[k] = function(args)
            lines.append(f"  heuristic {k}={text(args[k])}")
    return lines


def main(path):
    sys.modules["torch"] = torch
    spec = importlib.util.spec_from_file_location("samples", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    lines = []
    for name, value in vars(module).items():
        if isinstance(value, (Autotuner, Heuristics, triton.runtime.JITFunction)):
            lines += describe(name, value)
    found = "".join(f"# {line.rstrip()}\n" for line in lines)
    with open(path, encoding="utf-8") as f:
        expected = f.read().split(MARKER, 1)[1]
    if found != expected:
        print(found, end="")
        sys.exit("the file expects something else")
    print("as expected")


if __name__ == "__main__":
    main(sys.argv[1])
