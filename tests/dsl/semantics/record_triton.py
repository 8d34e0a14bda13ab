#!/usr/bin/env python3
"""Records what Triton makes of the cases of semantics_cases.py, beside which test_semantics.py then holds Tegula.

    python3 record_triton.py            on a machine with a GPU, torch and triton (3.6): types and bits
    python3 record_triton.py --types    without a GPU: the types alone, as Triton's front end has them

Writes triton_semantics.json.gz beside itself, in less than a minute.
"""

import argparse
import importlib.util
import multiprocessing
import os
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import semantics_cases as cases

# Triton's names of types.
_NAMES = {"fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8e4nv",
          "fp8e5": "float8e5"}
_SHORT = {"i": "i", "u": "u", "f": "fp"}


def triton_type(name):
    """A pointer to elements of a type, as a signature of Triton's says it."""
    t = cases.TYPES[name]
    return "*" + {"int1": "i1", "bfloat16": "bf16", "float8e4nv": "fp8e4nv", "float8e5": "fp8e5"}.get(
        name, f"{_SHORT[t.kind]}{t.bits}")


def load(text, folder, name):
    """The module of a text; Triton reads its kernels from a file."""
    path = pathlib.Path(folder) / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def front_end(function, types):
    """Whether Triton's front end takes a kernel with pointers to these types."""
    from triton._C.libtriton import ir
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import ASTSource, make_backend
    target = GPUTarget("cuda", 90, 32)
    backend, context = make_backend(target), ir.context()
    options = backend.parse_options({"num_warps": 1})
    ir.load_dialects(context)
    backend.load_dialects(context)
    source = ASTSource(function, dict(zip(function.arg_names, map(triton_type, types))))
    try:
        source.make_ir(target, options, backend.get_codegen_implementation(options), backend.get_module_map(), context)
        return True
    except Exception:  # whatever refuses: a CompilationError, an assertion
        return False


def result_types(group, folder):
    """The type of each case's result; None if Triton refuses it."""
    inputs = "xy"[:len(group.types)]
    text = cases.IMPORTS + "found = {}\n\n@triton.constexpr_function\ndef note(i, t):\n    found[i] = str(t)\n\n\n"
    for i, case in enumerate(group.cases):
        loads = "".join(f"    {x} = tl.load({x}_ptr + tl.arange(0, {cases.LANES}))\n" for x in inputs)
        text += (f"@triton.jit\ndef case{i}({', '.join(x + '_ptr' for x in inputs)}):\n{loads}    r = {case}\n"
                 f"    note({i}, r.dtype)\n\n\n")
    module = load(text, folder, "types")
    types = []
    for i in range(len(group.cases)):
        taken = front_end(getattr(module, f"case{i}"), group.types)
        name = module.found.get(i)
        types.append(_NAMES.get(name, name) if taken else None)
    return types


def run(group, chosen, types, folder, name):
    """The bytes of the cases `chosen`, computed by Triton on the GPU."""
    import torch
    others = {"int1": "bool", "float8e4nv": "float8_e4m3fn", "float8e5": "float8_e5m2"}
    torch_type = lambda t: getattr(torch, others.get(t, t))
    columns = cases.group_operands(group)
    count = len(columns[0])
    inputs = []
    for t, column in zip(group.types, columns):
        data = b"".join(bits.to_bytes(cases.itemsize(t), "little") for bits in column)
        inputs.append(torch.frombuffer(bytearray(data), dtype=torch.uint8).cuda().view(torch_type(t)))
    results = [types[i] for i in chosen]
    text = cases.IMPORTS + cases.kernel_text(group, [group.cases[i] for i in chosen], results)
    kernel = load(text, folder, name).kernel
    programs = count // cases.LANES
    outs = [torch.zeros((programs if group.scalar else count) * cases.itemsize(t), dtype=torch.uint8,
                        device="cuda").view(torch_type(t)) for t in results]
    kernel[(programs, )](*inputs, *outs, num_warps=1)
    return [out.view(torch.uint8).cpu().numpy().tobytes() for out in outs]


def compute(group, types, folder):
    """The bytes of every case that Triton compiles. A division has a kernel of its own: by zero it is undefined, and
    LLVM concludes for the whole kernel that the divisor is another number."""
    chosen = [i for i, t in enumerate(types) if t]
    apart = [i for i in chosen if re.search(" (//|%) ", group.cases[i])]
    together = [i for i in chosen if i not in apart]
    found = {}
    try:
        found = dict(zip(together, run(group, together, types, folder, "all")))
    except Exception:  # the front end took what the back end does not: find out which
        apart = chosen
    for i in apart:
        try:
            found[i] = run(group, [i], types, folder, f"only{i}")[0]
        except Exception as error:
            print(f"{group.name}: {group.cases[i]}: {str(error).splitlines()[0][:100]}", flush=True)
    return found


def record(job):
    """The record of one group."""
    group, types_only = job
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        types = result_types(group, folder)
        data = {} if types_only else compute(group, types, folder)
    found = {}
    for i, (case, t) in enumerate(zip(group.cases, types)):
        if types_only and t:
            found[case] = [t, "", ""]
        elif i in data:
            found[case] = cases.entry(group, case, t, cases.canonical(group, case, t, data[i]))
        else:
            found[case] = cases.NO_CODE if t else None
    return group.name, found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--types", action="store_true", help="the types alone, without a GPU")
    parser.add_argument("--jobs", type=int, default=min(16, os.cpu_count()))
    arguments = parser.parse_args()
    jobs = [(group, arguments.types) for group in cases.groups()]
    with multiprocessing.get_context("spawn").Pool(arguments.jobs) as pool:
        found = dict(pool.imap_unordered(record, jobs, chunksize=2))
    cases.save_record(found)
    taken = sum(isinstance(e, list) for group in found.values() for e in group.values())
    total, size = sum(map(len, found.values())), cases.DATA.stat().st_size
    print(f"{taken} cases of {total} recorded in {cases.DATA.name}, {size} bytes")


if __name__ == "__main__":
    main()
