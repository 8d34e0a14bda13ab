#!/usr/bin/env python3
"""Random kernels in C++ beside the same kernels in text: both run on the emulator and must leave the same bits.

    cpp_kernels.py --build build/release [--seconds 60] [--kernels 12] [--first NUMBER]

Each round writes one C++ program of so many kernels, compiles it, and runs it. Kernels have the numbers of fuzz.py.
Exits with 0 if all agree, with 77 if there is no numpy."""

import argparse
import ast
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[2]
sys.path.insert(0, str(HERE))
import fuzz  # ends with 77 where numpy is missing
import generate

OPERATORS = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.BitAnd: "&",
    ast.BitOr: "|",
    ast.BitXor: "^",
    ast.LShift: "<<",
    ast.RShift: ">>",
    ast.Lt: "<",
    ast.Gt: ">",
    ast.LtE: "<=",
    ast.GtE: ">=",
    ast.Eq: "==",
    ast.NotEq: "!="
}
FUNCTIONS = {ast.FloorDiv: "floordiv", ast.Pow: "power"}
LOOP_OPTIONS = ["num_stages", "warp_specialize"]  # those of C++; the others change no result
HOST_TYPES = {
    "float32": "float",
    "float64": "double",
    **{
        f"{u}int{n}": f"{u}int{n}_t"
        for u in ("", "u")
        for n in (8, 16, 32, 64)
    }
}


class Translator:
    """The C++ of a kernel that generate.py has written."""

    def __init__(self, tree):
        self.functions = {f.name: f for f in tree.body}
        self.declared, self.lines, self.depth = [set()], [], 1

    def kernel(self, case):
        function = self.functions["kernel"]
        names = [a.arg for a in function.args.args]
        self.declared = [set(names)]
        self.block(function.body)
        parameters = ", ".join(f'{"Ptr" if name in case["arrays"] else "Int"}<"{name}"> {name}' for name in names)
        return f'kernel("kernel", []({parameters}) {{\n' + "\n".join(self.lines) + "\n})"

    def put(self, line):
        self.lines.append("  " * self.depth + line)

    def block(self, statements):
        self.declared.append(set())
        self.depth += 1
        for statement in statements:
            getattr(self, type(statement).__name__)(statement)
        self.depth -= 1
        self.declared.pop()

    # ---- Statements, by the names of their classes

    def Pass(self, _):
        pass

    def Expr(self, s):
        self.put(self.text(s.value) + ";")

    def Assign(self, s):
        target = s.targets[0]
        if isinstance(target, ast.Tuple):
            parts, value = [t.id for t in target.elts], self.text(s.value)
            if not self.calls_own(s.value):
                value = f"unpack<{len(parts)}>({value})"
            self.put(f"auto [{', '.join(p + '_' for p in parts)}] = {value};")
            for part in parts:
                self.assign(part, part + "_")
        else:
            self.assign(target.id, self.text(s.value))

    def assign(self, name, value):
        if any(name in scope for scope in self.declared):
            self.put(f"{name} = {value};")
        else:
            self.declared[-1].add(name)
            self.put(f"Tile {name} = {value};")

    def AugAssign(self, s):
        self.put(f"{s.target.id} {OPERATORS[type(s.op)]}= {self.text(s.value)};")

    def For(self, s):
        name, call = s.target.id, s.iter
        if isinstance(call.func, ast.Attribute) and call.func.attr == "static_range":
            self.put(f"for (int {name}_ = 0; {name}_ < {self.text(call.args[0])}; ++{name}_) {{")
            self.put(f"  Tile {name} = {name}_;")
        else:
            options = ", ".join(f".{k.arg} = {self.text(k.value)}" for k in call.keywords if k.arg in LOOP_OPTIONS)
            bounds = ", ".join(map(self.text, call.args)) + (", 1" if options and len(call.args) < 3 else "")
            self.put(f"for (Tile {name} : range({bounds}{', {' + options + '}' if options else ''})) {{")
        self.block(s.body)
        self.put("}")

    def While(self, s):
        self.put(f"while_([&] {{ return {self.text(s.test)}; }}, [&] {{")
        self.block(s.body)
        self.put("});")

    def If(self, s):
        self.put(f"if_({self.text(s.test)}, [&] {{")
        self.block(s.body)
        if s.orelse:
            self.put("}, [&] {")
            self.block(s.orelse)
        self.put("});")

    # ---- Expressions

    def text(self, e):
        if isinstance(e, ast.Constant):
            return {
                True: "true",
                False: "false",
                None: "none"
            }[e.value] if e.value is None or isinstance(e.value, bool) else f'"{e.value}"' if isinstance(
                e.value, str) else repr(e.value)
        if isinstance(e, ast.Name):
            return e.id
        if isinstance(e, ast.UnaryOp):
            text = self.text(e.operand)
            return f"{'-' if isinstance(e.op, ast.USub) else '~'}" + (f"({text})" if text[0] == "-" else text)
        if isinstance(e, ast.BinOp):
            left, right = self.text(e.left), self.text(e.right)
            if type(e.op) in FUNCTIONS:
                return f"{FUNCTIONS[type(e.op)]}({left}, {right})"
            return f"({left} {OPERATORS[type(e.op)]} {right})"
        if isinstance(e, ast.Compare):
            return f"({self.text(e.left)} {OPERATORS[type(e.ops[0])]} {self.text(e.comparators[0])})"
        if isinstance(e, (ast.Tuple, ast.List)):
            return f"list({{{', '.join(map(self.text, e.elts))}}})"
        if isinstance(e, ast.Subscript):
            parts = ["all" if isinstance(i, ast.Slice) else self.text(i) for i in e.slice.elts]
            return f"{self.text(e.value)}[{{{', '.join(parts)}}}]"
        if isinstance(e, ast.Attribute):
            return f"tl::{e.attr}" if isinstance(
                e.value, ast.Name) and e.value.id == "tl" else f"{self.text(e.value)}.{e.attr}()"
        return self.call(e)

    def calls_own(self, e):
        """Whether it is a call of a function of the text, which in C++ gives an array of tiles."""
        return isinstance(e, ast.Call) and isinstance(e.func, ast.Name)

    def call(self, e):
        if self.calls_own(e):
            return f"{self.function(e.func.id)}({', '.join(map(self.text, e.args))})"
        arguments = [
            self.function(a.id) if isinstance(a, ast.Name) and a.id in self.functions else self.text(a) for a in e.args
        ]
        arguments += [f'"{k.arg}"_a = {self.text(k.value)}' for k in e.keywords]
        of_language = isinstance(e.func.value, ast.Name) and e.func.value.id == "tl"
        of = "" if of_language else self.text(e.func.value)
        if e.func.attr == "load" and of:
            of = f"Descriptor({of})"
        callee = e.func.attr if of_language else f"{of}.{e.func.attr}"
        return f"{callee}({', '.join(arguments)})"

    def function(self, name):
        function = self.functions[name]
        parameters = ", ".join(f"Tile {a.arg}" for a in function.args.args)
        value = function.body[0].value
        if isinstance(value, ast.Tuple):
            given = f"std::array<Tile, {len(value.elts)}>{{{', '.join(map(self.text, value.elts))}}}"
        else:
            given = self.text(value)
        return f"[]({parameters}) {{ return {given}; }}"


PROGRAM = """#include <array>
#include <cstdio>
#include <fstream>
#include <iterator>

#include "codegen/exec/emulator.h"
#include "dsl/tegula.h"

using namespace tegula;

static std::vector<Buffer> arrays_of(Device& device, const std::string& folder, int seed, size_t count) {
  std::vector<Buffer> arrays;
  for (size_t i = 0; i < count; ++i) {
    std::ifstream in(folder + "/" + std::to_string(seed) + "." + std::to_string(i), std::ios::binary);
    arrays.emplace_back(device, std::vector<char>(std::istreambuf_iterator<char>(in), {}));
  }
  return arrays;
}

// What a kernel leaves: the bytes of all arrays, or its error.
template <class K, class Launch>
static std::vector<std::vector<char>> left_by(Device& device, const K& kernel, std::vector<Buffer> arrays,
                                              Launch launch) {
  try {
    launch(kernel, arrays);
  } catch (const Error& error) {
    std::string text = error.what();
    return {{text.begin(), text.end()}};
  }
  std::vector<std::vector<char>> all;
  for (Buffer& array : arrays) all.push_back(array.download<char>());
  return all;
}

static int wrong = 0;

template <class K, class Launch>
static void compare(Device& device, const std::string& folder, int seed, size_t count, const K& cpp, const char* text,
                    Launch launch) {
  Kernel parsed = Program::parse(text, "kernel.py").kernel("kernel");
  auto expected = left_by(device, parsed, arrays_of(device, folder, seed, count), launch);
  auto found = left_by(device, cpp, arrays_of(device, folder, seed, count), launch);
  if (found == expected) return;
  ++wrong;
  std::printf("kernel %d: C++ and text differ\\n%s\\n", seed, text);
  for (auto* all : {&expected, &found})
    if (all->size() == 1 && count != 1) std::printf("%.*s\\n", int((*all)[0].size()), (*all)[0].data());
  for (size_t i = 0; i < std::min(found.size(), expected.size()); ++i)
    if (found[i] != expected[i]) std::printf("array %zu differs\\n", i);
}

"""


def part_of(seed, case, folder):
    """The C++ that compares one kernel; writes its arrays to the folder."""
    import check
    tree = ast.parse(case["text"])
    names = [a.arg for a in next(f for f in tree.body if f.name == "kernel").args.args]
    arguments, arrays = [], 0
    for name in names:
        if name not in case["arrays"]:
            arguments.append(str(case["numbers"][name]))
            continue
        array = {**case["arrays"][name], "offset": 0}
        (folder / f"{seed}.{arrays}").write_bytes(check.in_memory(array).tobytes())
        arguments.append(f"arrays[{arrays}].as<{HOST_TYPES.get(array['type'], array['type'])}>()")
        arrays += 1
    options = f".num_warps = {case['num_warps']}, .num_stages = {case['num_stages']}"
    return (
        f"static void run_{seed}(Device& device, const std::string& folder) {{\n"
        f"  auto cpp = {Translator(tree).kernel(case)};\n"
        f'  compare(device, folder, {seed}, {arrays}, cpp, R"({check.HEADER}{case["text"]})",\n'
        f"          [&](auto& kernel, std::vector<Buffer>& arrays) {{\n"
        f"    kernel.launch(device, {{{case['programs']}}}, {{{options}}}, {', '.join(arguments)});\n  }});\n}}\n\n")


def write_program(seeds, folder):
    parts = "".join(part_of(seed, generate.case(seed), folder) for seed in seeds)
    calls = "".join(f"  run_{seed}(*device, argv[1]);\n" for seed in seeds)
    (folder /
     "kernels.cpp").write_text(PROGRAM + parts + "int main(int, char** argv) {\n  auto device = make_emulator();\n" +
                               calls + "  return wrong ? 1 : 0;\n}\n")


def go(seeds, build, keep):
    """Writes, compiles and runs a program; whether all agreed."""
    with tempfile.TemporaryDirectory(prefix="tegula-cpp-") as name:
        folder = pathlib.Path(keep or name)
        write_program(seeds, folder)
        compiled = subprocess.run([
            os.environ.get("CXX", "g++"), "-std=c++20", "-O0", "-w", "-DFMT_HEADER_ONLY", f"-I{ROOT}",
            f"-I{build}/include", folder / "kernels.cpp", "-o", folder / "kernels", f"-L{build}", "-ltegula",
            "-ltegula_runtime", f"-Wl,-rpath,{build}"
        ],
                                  text=True,
                                  capture_output=True)
        if compiled.returncode:
            print(f"kernels {seeds}: the compiler says\n{compiled.stderr[:4000]}")
            return False
        target, order, _ = fuzz.SETTINGS[seeds[0] % len(fuzz.SETTINGS)]
        environment = {
            **os.environ, "TEGULA_EMULATOR_SEED": str(order),
            "TEGULA_CACHE_SIZE": "0",
            "TEGULA_EMULATOR_LIMIT": "20s"
        }
        ran = subprocess.run([folder / "kernels", folder], text=True, capture_output=True, env=environment)
        if ran.returncode:
            print(f"kernels {seeds}: status {ran.returncode}\n{ran.stdout[:4000]}{ran.stderr[-2000:]}")
        return ran.returncode == 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True, type=os.path.abspath)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--kernels", type=int, default=12)
    parser.add_argument("--first", type=int, default=int(time.time()) % 10**7 * 100)
    parser.add_argument("--keep", help="the folder for what is written; else one that is removed")
    given = parser.parse_args()
    end, seed, right = time.monotonic() + given.seconds, given.first, True
    while seed == given.first or time.monotonic() < end:
        seeds = [s for s in range(seed, seed + given.kernels) if generate.is_plain(s)]
        right &= not seeds or go(seeds, given.build, given.keep)
        seed += given.kernels
    print(f"kernels {given.first} to {seed - 1} in C++ and in text")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
