"""The tegula command of a wheel."""

import os
import pathlib
import sys


def main():
    """Becomes the command that lies in the package."""
    folder = pathlib.Path(__file__).resolve().parent
    command = folder / "tegula-command"
    if not command.exists():
        sys.exit(f"{command} is not there: only the wheel carries the command")
    found = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = str(folder) + (os.pathsep + found if found else "")
    os.execv(command, ["tegula", *sys.argv[1:]])
