#!/usr/bin/env python3
"""Writes the texts that fuzzing starts from: seeds.py FOLDER [BYTES [SEED]]. They are the kernels of the tree, one a file,
so that they are short: functions of .py files, texts of the golden files, raw strings of the tests. With BYTES some of
them, chosen by SEED, that have no more in all: libFuzzer runs every one before it makes the first of its own."""

import hashlib
import pathlib
import random
import re
import shutil
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[2]
HEADER = "import triton\nimport triton.language as tl\n\n\n"


def pieces(text):
    """The text's top-level blocks: a statement and what belongs to it, its decorators too."""
    block = []
    for line in text.splitlines(keepends=True):
        begins = line[:1] not in " \t\n#)]}" and not (block and block[-1].startswith("@"))
        if begins and block:
            yield "".join(block)
            block = []
        block.append(line)
    yield "".join(block)


def from_file(text):
    """Each kernel with the functions that it names and the file's short statements."""
    functions = {m[1]: p for p in pieces(text) if (m := re.search(r"^def (\w+)", p, re.M)) and "tl." in p}
    rest = "".join(p for p in pieces(text) if not re.search(r"^def |^class ", p, re.M) and len(p) < 500)
    for name, function in functions.items():
        helpers = [p for other, p in functions.items() if other != name and re.search(rf"\b{other}\(", function)]
        yield rest + "".join(helpers) + function


def from_golden(text):
    for case in re.split(r"^####.*\n", text, flags=re.M)[1:]:
        body = re.split(r"^----.*\n", case, flags=re.M)[0]
        yield body if "import" in body else HEADER + "@triton.jit\n" + body


def from_test(text):
    for raw in re.findall(r'R"(?:\w*)\((.*?)\)\w*"', text, re.S):
        raw = textwrap.dedent(raw.strip("\n"))
        if "def " in raw:
            yield raw if "import" in raw else HEADER + raw
        elif "tl." in raw and "\n" in raw:
            yield HEADER + "@triton.jit\ndef k(x, y, n, B: tl.constexpr):\n" + textwrap.indent(raw, "    ")


def seeds():
    for path in [*ROOT.glob("kernels/*.py"), *ROOT.glob("tests/**/*.py"), *ROOT.glob("bench/**/*.py")]:
        yield from from_file(path.read_text())
    for path in ROOT.glob("tests/golden/**/*.txt"):
        yield from from_golden(path.read_text())
    for path in ROOT.glob("tests/**/*_test.cpp"):
        yield from from_test(path.read_text())


MOST = 2000  # bytes of one, where not all are taken


def some_of(texts, length, seed):
    chosen = sorted(t for t in texts if len(t) <= MOST)
    random.Random(seed).shuffle(chosen)
    for text in chosen:
        length -= len(text)
        if length < 0:
            return
        yield text


def main():
    folder = pathlib.Path(sys.argv[1])
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    # Inlined up to the limit: seconds each.
    texts = {text for text in seeds() if not re.search(r"(\b\w+\(x\); ){8}", text)}
    if len(sys.argv) > 2:
        texts = some_of(texts, int(sys.argv[2]), sys.argv[3] if len(sys.argv) > 3 else "")
    for text in texts:
        (folder / hashlib.sha1(text.encode()).hexdigest()).write_text(text)


if __name__ == "__main__":
    main()
