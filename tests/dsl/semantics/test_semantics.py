"""Tegula on the emulator beside the record of Triton (triton_semantics.json.gz): types, bits, and what is refused.

    python3 test_semantics.py                    all groups of cases
    python3 test_semantics.py --sample 8         every eighth group
    python3 test_semantics.py "int8, uint16"     one group, telling each difference
"""

import argparse
import math
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[3] / "bindings" / "python"))
try:
    import numpy as np
except ImportError:
    print("[  SKIPPED ]\ntest_semantics.py: Skipped\nnumpy is not installed for", sys.executable)
    sys.exit(77)
import semantics_cases as cases
import tegula


def array(name, data):
    """Bytes as an array of elements of a type."""
    return tegula.reinterpret(np.frombuffer(bytearray(data), dtype=f"u{cases.itemsize(name)}"), name)


def compute(group, chosen, types):
    """The bytes of the cases `chosen`, computed by Tegula."""
    columns = cases.group_operands(group)
    inputs = [array(t, b"".join(bits.to_bytes(cases.itemsize(t), "little") for bits in column))
              for t, column in zip(group.types, columns)]
    programs = len(columns[0]) // cases.LANES
    count = programs if group.scalar else len(columns[0])
    outs = [array(t, bytes(count * cases.itemsize(t))) for t in types]
    text = cases.IMPORTS + cases.kernel_text(group, chosen, types)
    tegula.parse(text, group.name).kernel[(programs, )](*inputs, *outs, num_warps=1)
    return [out.array.tobytes() for out in outs]


def refused(group, case):
    """Whether Tegula refuses a case."""
    text = cases.IMPORTS + cases.kernel_text(group, [case], None)
    try:
        tegula.parse(text).kernel.compile(*[f"*{t}" for t in group.types], "*fp32", target="sm_90a", num_warps=1)
        return False
    except tegula.CompileError:
        return True


def units_apart(name, a, b):
    """How many numbers of a type lie between two, given by their bits."""
    sign = 1 << cases.TYPES[name].bits - 1
    place = lambda bits: sign - bits if bits & sign else bits
    if cases.is_nan(name, a) or cases.is_nan(name, b):
        return 0 if a == b else math.inf
    return abs(place(a) - place(b))


def differences(group, case, entry, data):
    """What a case's bytes differ in from the record, as lines of text."""
    result, values, rest = entry
    columns, limit = cases.group_operands(group), cases.tolerance(case, result)
    bits = cases.canonical(group, case, result, data)
    digits, lines = 2 * cases.itemsize(result), []
    expected = [int(values[i:i + digits], 16) for i in range(0, len(values), digits)]
    expected = cases.masked(group, case, result, expected)
    for i, (found, wanted) in enumerate(zip(bits, expected)):
        if limit is None or found == wanted or units_apart(result, found, wanted) <= limit:
            continue
        given = "" if group.scalar else " of " + ", ".join(
            f"{cases.value_of(t, c[i])}" for t, c in zip(group.types, columns))
        lines.append(f"{group.name}: {case}{given}: {cases.value_of(result, found)} ({found:#x}), Triton has "
                     f"{cases.value_of(result, wanted)} ({wanted:#x})")
    if not lines and rest and cases.has_digest(case, result) and cases.digest(result, bits[len(expected):]) != rest:
        lines.append(f"{group.name}: {case}: random operands give other bits than with Triton")
    return lines


def check(group, record):
    """What a group of cases differs in from the record."""
    taken = [case for case in group.cases if isinstance(record[case], list)]
    lines = []
    try:
        found = dict(zip(taken, compute(group, taken, [record[case][0] for case in taken])))
    except tegula.CompileError:
        found = {}
        for case in taken:  # one by one: each case that differs is told
            try:
                found[case] = compute(group, [case], [record[case][0]])[0]
            except tegula.CompileError as error:
                if "Tegula does not have it" not in error.message:
                    lines.append(f"{group.name}: {case}, with Triton {record[case][0]}: {error.message}")
    for case, data in found.items():
        if record[case][1]:
            lines += differences(group, case, record[case], data)
    if cases.strict(group):
        lines += [f"{group.name}: {case} is accepted, Triton refuses it"
                  for case in group.cases if record[case] is None and not refused(group, case)]
    return lines


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("groups", nargs="*")
    parser.add_argument("--sample", type=int, default=1)
    arguments = parser.parse_args()
    groups, record = cases.groups(), cases.load_record()
    groups = [g for g in groups if g.name in arguments.groups] if arguments.groups else groups[::arguments.sample]
    failed = 0
    for group in groups:
        lines = check(group, record[group.name])
        failed += bool(lines)
        for line in lines if arguments.groups else lines[:12]:
            print(line)
        if len(lines) > 12 and not arguments.groups:
            print(f"{group.name}: ... {len(lines)} differences in all")
    print(f"{len(groups) - failed} passed, {failed} failed")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
