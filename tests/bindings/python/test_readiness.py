"""bindings/python/tegula: kernels made ready from a list or a package, and a process that is sealed behind that."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from tegula_cases import main, tegula

TEXT = """import triton
import triton.language as tl

@triton.jit
def scale(x, n, factor, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i, mask=i < n) * factor, mask=i < n)
"""

LAUNCH = """
import numpy, sys, tegula
scale = tegula.load("scale.py").scale
def launch(block):
    x = numpy.ones(50, numpy.float32)
    scale[(1,)](x, 50, 2.0, BLOCK=block)
    return float(x.sum())
"""

SEALED = LAUNCH + """
print("ready:", tegula.prewarm(sys.argv[1]))
tegula.seal()
print("sum:", launch(64))
try:
    launch(128)
except tegula.LaunchError as error:
    print(error)
"""


class Readiness(unittest.TestCase):

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        pathlib.Path(self.folder.name, "scale.py").write_text(TEXT)
        self.run_here([sys.executable, "-c", LAUNCH + "launch(64)"], TEGULA_RECORD="app.list")

    def run_here(self, command, **environment):
        package = str(pathlib.Path(tegula.__file__).parents[1])
        environment = dict(os.environ, TEGULA_DEVICE="emulator", TEGULA_CACHE_DIR=self.folder.name + "/cache",
                           PYTHONPATH=package, **environment)
        done = subprocess.run(command, cwd=self.folder.name, env=environment, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def check_sealed(self, file):
        lines = self.run_here([sys.executable, "-c", SEALED, file]).splitlines()
        self.assertEqual(lines[:2], ["ready: 1", "sum: 100.0"])
        self.assertIn("the process is sealed", lines[2])
        self.assertIn("--constexpr BLOCK=128", lines[-1])

    def test_of_a_list(self):
        self.check_sealed("app.list")

    def test_of_a_package(self):
        command = pathlib.Path(tegula.library.lib._name).resolve().parent / "tegula"
        if not command.exists():
            self.skipTest(f"there is no {command}")
        self.run_here([str(command), "build", "--from", "app.list", "--target", "sm_90a", "--emulator", "-o", "app.tgp"])
        self.check_sealed("app.tgp")

    def test_of_what_is_neither(self):
        with self.assertRaisesRegex(tegula.FileError, "missing.list"):
            tegula.prewarm("missing.list", tegula.Device.emulator())
        with self.assertRaisesRegex(tegula.LaunchError, "scale.py:1"):
            tegula.prewarm(str(pathlib.Path(self.folder.name, "scale.py")), tegula.Device.emulator())


if __name__ == "__main__":
    main()
