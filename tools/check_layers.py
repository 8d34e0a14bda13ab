#!/usr/bin/env python3
"""Checks who includes whom.

    check_layers.py [--root FOLDER]   checks a tree; exit status 1 and one line a violation
    check_layers.py --self-test       plants violations and checks that each is found

A folder may include itself and those before it in ORDER; inside codegen/ the order is CODEGEN, and the files of
codegen/ itself are its interface: all of codegen may include their headers, and they may include all of codegen. A file
of codegen/product/ that is no interface knows all of a family of instructions, lowering included. LLVM, Boost and the
other third parties stay where ALLOWED has them, so that a change of library touches few files. What the headers of PUBLIC bring in
is what users compile: they may include the standard library alone, and of it EVERYWHERE what compiles quickly.
"""

import argparse
import pathlib
import re
import sys
import tempfile

ORDER = [["runtime"], ["codegen"], ["dsl"], ["kernels"], ["bindings"], ["tools"], ["tutorials", "bench"], ["tests"]]
CODEGEN = [["ir", "layout", "target"], ["product"], ["analysis"], ["explain"], ["passes", "pipeline"], ["lower"], ["exec"]]
# Rooms of codegen/exec/emulator/. The first ones are built without LLVM too.
EMULATOR = [["interpreter", "hardware", "ptx", "launch", "races"], ["code", "warnings"]]
PRODUCT_INTERFACE = {"plan.h", "operands.h", "operands.cpp", "instruction.h", "instruction.cpp"}
# Third-party headers by prefix, the folders that may name them, and folders in these that may not.
ALLOWED = {
    "llvm": ["codegen/lower", "codegen/exec"],
    "llvm-c": [],
    "boost/spirit": ["dsl/language"],
    "boost/fusion": ["dsl/language"],
    "boost/context": ["codegen/exec"],
    "sqlite3": ["runtime/tuning"],
    "CLI": ["tools"],
    "gtest": ["tests"],
    "gmock": ["tests"],
    "triton": [],
    "cuda": [],
}
# As cmake/install.cmake has them.
PUBLIC = ["dsl/tegula.h", "dsl/debug.h", "dsl/kernel_list.h", "dsl/package_writer.h", "kernels/kernels.h",
          "runtime/package/package.h", "runtime/cuda_device.h", "runtime/store/image_cache.h",
          "runtime/tuning/tuning_store.h"]
# What every file with a kernel includes, and parts of the standard library that would cost it tenths of a second.
EVERYWHERE = "dsl/tegula.h"
SLOW = {"algorithm", "chrono", "deque", "filesystem", "fstream", "iostream", "map", "mutex", "random", "ranges", "regex",
        "sstream", "thread", "unordered_map"}
FORBIDDEN = {"llvm": [f"codegen/exec/emulator/{room}" for room in EMULATOR[0]]}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = {".h", ".cpp", ".def"}


def includes(path):
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if match := INCLUDE.match(line):
            yield number, match.group(1) == '"', match.group(2)


def is_within(folder, folders):
    return any(folder == f or folder.startswith(f + "/") for f in folders)


def rank(order, name):
    return next((i for i, names in enumerate(order) if name in names), None)


def check_file(path, root):
    """Yields (line, message) for each include of `path` that the rules do not allow."""
    parts = path.relative_to(root).parts
    folder = "/".join(parts[:-1])
    for line, quoted, target in includes(path):
        for prefix, folders in ALLOWED.items():
            if target.startswith(prefix + "/") or target == prefix + ".h":
                if not is_within(folder, folders):
                    yield line, f"<{target}> belongs in {' and '.join(folders) or 'no folder of the project'}"
                elif is_within(folder, FORBIDDEN.get(prefix, [])):
                    yield line, f"<{target}> does not belong in {folder}, which is built without it too"
        there = pathlib.PurePosixPath(target).parts
        theirs = rank(ORDER, there[0])
        if not quoted or theirs is None:
            continue
        ours = rank(ORDER, parts[0])
        if theirs > ours or (theirs == ours and there[0] != parts[0]):
            yield line, f'{parts[0]}/ must not include "{target}": the order is ' + " <- ".join(
                ", ".join(names) for names in ORDER)
        if parts[0] == there[0] == "codegen" and len(parts) > 2 and len(there) > 2:
            ours, theirs = rank(CODEGEN, parts[1]), rank(CODEGEN, there[1])
            if parts[1] == "product" and path.name not in PRODUCT_INTERFACE:
                ours = rank(CODEGEN, "lower")
            if ours is None:
                yield line, f"codegen/{parts[1]}/ has no place in the order of codegen's folders"
            elif theirs is not None and theirs > ours:
                yield line, f'codegen/{parts[1]}/ must not include "{target}": the order is ' + " <- ".join(
                    ", ".join(names) for names in CODEGEN)
        emulator = ("codegen", "exec", "emulator")
        if parts[:3] == there[:3] == emulator and len(parts) > 4 and len(there) > 4:
            ours, theirs = rank(EMULATOR, parts[3]), rank(EMULATOR, there[3])
            if ours is None:
                yield line, f"{folder}/ has no place in the order of the emulator's rooms"
            elif theirs is not None and theirs > ours:
                yield line, f'{folder}/ must not include "{target}": the order is ' + " <- ".join(
                    ", ".join(names) for names in EMULATOR)


def outer_includes(root, names):
    """Yields (path, line, header) for what these headers, and those that they bring in, include of others."""
    todo = [root / name for name in names if (root / name).is_file()]
    seen = set(todo)
    while todo:
        path = todo.pop()
        for line, quoted, target in includes(path):
            inner = root / target
            if quoted and inner.is_file():
                if inner not in seen:
                    seen.add(inner)
                    todo.append(inner)
            else:
                yield path, line, target


def check_public(root):
    """Yields (path, line, message) for headers that must not reach the users of PUBLIC, or of EVERYWHERE."""
    for path, line, target in outer_includes(root, PUBLIC):
        if "/" in target:
            yield path, line, f"<{target}> in a header that users of dsl/ compile"
    for path, line, target in outer_includes(root, [EVERYWHERE]):
        if target in SLOW:
            yield path, line, f"<{target}> reaches {EVERYWHERE}, which is to compile quickly: include it in sources"


def check_tree(root):
    """All violations below `root`, as "file:line: message"."""
    found = []
    for folder in sum(ORDER, []):
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in SUFFIXES and "consumer" not in path.parts:
                found += [f"{path.relative_to(root)}:{line}: {text}" for line, text in check_file(path, root)]
    found += [f"{path.relative_to(root)}:{line}: {text}" for path, line, text in check_public(root)]
    return found


# file, its text, and what the message must contain; None: allowed
PLANTED = [
    ("runtime/a.h", '#include "codegen/compile.h"', "runtime/ must not include"),
    ("codegen/ir/a.h", '#include "dsl/kernel.h"', "codegen/ must not include"),
    ("codegen/ir/a.cpp", '#include "codegen/passes/passes.h"', "codegen/ir/ must not include"),
    ("codegen/passes/a.cpp", "#include <llvm/IR/Module.h>", "belongs in codegen/lower and codegen/exec"),
    ("codegen/product/plan.h", '#include "codegen/lower/lowering.h"', "codegen/product/ must not include"),
    ("codegen/product/a.cpp", '#include "codegen/lower/lowering.h"', None),
    ("codegen/novel/a.cpp", '#include "codegen/ir/ir.h"', "has no place"),
    ("runtime/b.cpp", "  #  include <boost/spirit/home/x3.hpp>", "belongs in dsl/language"),
    ("dsl/semantics/a.cpp", '#include "tools/table.h"', "dsl/ must not include"),
    ("runtime/c.cpp", "#include <cuda.h>", "no folder of the project"),
    ("dsl/tegula.h", "#include <nlohmann/json.hpp>", "users of dsl/ compile"),
    ("dsl/tegula.h", "#include <mutex>", "is to compile quickly"),
    ("runtime/package/package.h", "#include <filesystem>", None),
    ("codegen/exec/a.cpp", '#include <llvm/IR/Module.h>\n#include "codegen/lower/hw.h"', None),
    ("codegen/exec/emulator/launch/a.cpp", "#include <llvm/IR/Module.h>", "which is built without it too"),
    ("codegen/exec/emulator/ptx/a.cpp", '#include "codegen/exec/emulator/code/jit.h"', "emulator/ptx/ must not include"),
    ("codegen/exec/emulator/novel/a.cpp", '#include "codegen/exec/emulator/ptx/ptx.h"', "has no place in the order of the emulator's"),
    ("codegen/exec/emulator/code/a.cpp", '#include <llvm/IR/Module.h>\n#include "codegen/exec/emulator/ptx/ptx.h"', None),
    ("dsl/language/a.cpp", "#include <boost/spirit/home/x3.hpp>", None),
    ("codegen/compile.cpp", '#include "codegen/exec/emulator.h"', None),
    ("codegen/passes/b.cpp", '#include "codegen/compile.h"', None),
    ("tests/a_test.cpp", '#include <gtest/gtest.h>\n#include "dsl/kernel.h"', None),
]


def self_test():
    failures = 0
    for name, text, expected in PLANTED:
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / name).parent.mkdir(parents=True)
            (root / name).write_text(text + "\n")
            found = check_tree(root)
        right = not found if expected is None else any(expected in line for line in found)
        if not right:
            failures += 1
            print(f"{name} with {text!r}: expected {expected!r}, found {found}")
    print(f"{len(PLANTED) - failures} of {len(PLANTED)} planted cases judged rightly")
    return failures


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return 1 if self_test() else 0
    found = check_tree(args.root)
    print("\n".join(found) if found else "The folders include each other in the right direction.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
