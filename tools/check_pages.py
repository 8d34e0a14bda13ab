#!/usr/bin/env python3
"""Checks that the pages speak of what is there.

    check_pages.py [--root FOLDER]   exit status 1 and one line a mistake
    check_pages.py --self-test       plants mistakes and checks that each is found

A link of a page leads to a file, and to a heading of it; so does a page that a message of the library refers to. A name in
backticks in DESIGN (a function, an op, an attribute, a file without its ending) occurs in the sources.
"""

import argparse
import pathlib
import re
import sys
import tempfile

PAGES = ["*.md", "docs/*.md", "bench/*.md"]
DESIGN = "docs/design.md"
LIBRARY = ["runtime", "codegen", "dsl", "kernels", "bindings", "tools/tegula"]
SOURCES = LIBRARY + ["tools", "tutorials", "tests", "bench", "cmake"]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAME = re.compile(r"[A-Za-z_][A-Za-z_0-9]*")


def without_code(text):
    """The lines of a page, blocks of code left empty."""
    lines, code = [], False
    for line in text.splitlines():
        fence = line.startswith("```")
        lines.append("" if code or fence else line)
        code ^= fence
    return lines


def anchors(path):
    """The headings of a page as links name them."""
    found = set()
    for line in without_code(path.read_text()):
        if match := re.match(r"#+ (.*)", line):
            title = re.sub(r"[^\w\- ]", "", match.group(1).lower())
            found.add(title.strip().replace(" ", "-"))
    return found


def wrong_links(page, root):
    for number, line in enumerate(without_code(page.read_text()), 1):
        for target in LINK.findall(re.sub(r"`[^`]*`", "", line)):
            if "://" in target:
                continue
            file, _, anchor = target.partition("#")
            path = page.parent / file if file else page
            if not path.exists():
                yield f"{page.relative_to(root)}:{number}: no file {file}"
            elif anchor and anchor not in anchors(path):
                yield f"{page.relative_to(root)}:{number}: {path.name} has no heading #{anchor}"


def texts(root, folders):
    for folder in folders:
        for path in sorted((root / folder).rglob("*")):
            if path.is_file() and path.suffix in {".cpp", ".h", ".def", ".py", ".cmake", ".txt", ".c"}:
                yield path, path.read_text(errors="replace")


def wrong_references(root):
    for path, text in texts(root, LIBRARY):
        for page, anchor in re.findall(r"(docs/[a-z-]+\.md)#([a-z0-9-]+)", text):
            if not (root / page).exists() or anchor not in anchors(root / page):
                yield f"{path.relative_to(root)}: {page} has no heading #{anchor}"


def names_of_sources(root):
    names = {path.stem for path in root.iterdir()}
    for path, text in texts(root, SOURCES):
        names.update(NAME.findall(text))
        for part in path.relative_to(root).parts:
            names.update(NAME.findall(part))
    return names


def wrong_names(page, root):
    known = names_of_sources(root)
    for number, line in enumerate(without_code(page.read_text()), 1):
        for words in re.findall(r"`([^`]+)`", line):
            for name in NAME.findall(words):
                if name not in known:
                    yield f"{page.relative_to(root)}:{number}: the sources have no '{name}'"


def mistakes(root):
    for pattern in PAGES:
        for page in sorted(root.glob(pattern)):
            yield from wrong_links(page, root)
    yield from wrong_references(root)
    yield from wrong_names(root / DESIGN, root)


def self_test():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "docs").mkdir()
        (root / "codegen").mkdir()
        (root / "codegen" / "pass.cpp").write_text("void fold_all();  // docs/design.md#the-way, docs/design.md#a-way\n")
        (root / "README.md").write_text("# Top\n[a](docs/design.md#the-way)\n[b](docs/none.md)\n[c](#bottom)\n")
        (root / DESIGN).write_text("## The way\n`fold_all` in `codegen/pass.cpp`, `fold_none`.\n```\n`code`\n```\n")
        expected = ["README.md:3: no file docs/none.md", "README.md:4: README.md has no heading #bottom",
                    "codegen/pass.cpp: docs/design.md has no heading #a-way",
                    "docs/design.md:2: the sources have no 'fold_none'"]
        found = list(mistakes(root))
    if found != expected:
        print("expected\n  " + "\n  ".join(expected) + "\nfound\n  " + "\n  ".join(found))
    return found == expected


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    parser.add_argument("--self-test", action="store_true")
    args = parser.parse_args()
    if args.self_test:
        return 0 if self_test() else 1
    found = list(mistakes(args.root.resolve()))
    print("\n".join(found) or "The pages speak of what is there.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
