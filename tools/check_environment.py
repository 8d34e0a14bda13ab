#!/usr/bin/env python3
"""Checks that docs/environment.md has a row for each TEGULA_ variable that the sources read, and no other.

    check_environment.py [--root FOLDER]
"""

import argparse
import pathlib
import re
import sys

FOLDERS = ["runtime", "codegen", "dsl", "kernels", "bindings", "tools/tegula"]
PAGE = "docs/environment.md"


def read_by_sources(root):
    """Where each variable is named in quotes."""
    found = {}
    for folder in FOLDERS:
        for path in sorted((root / folder).rglob("*")):
            if path.suffix in {".cpp", ".h", ".py"}:
                for name in re.findall(r'"(TEGULA_[A-Z_]+)"', path.read_text()):
                    found.setdefault(name, path.relative_to(root))
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    sources = read_by_sources(root)
    rows = set(re.findall(r"^\| `(TEGULA_[A-Z_]+)` \|", (root / PAGE).read_text(), re.MULTILINE))
    wrong = [f"{sources[name]}: {PAGE} has no row for {name}" for name in sorted(set(sources) - rows)]
    wrong += [f"{PAGE}: nobody reads {name}" for name in sorted(rows - set(sources))]
    print("\n".join(wrong) or f"{len(rows)} variables")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
