"""The wheel of tools/wheel_backend.py, made of the build that TEGULA_BUILD names: unpacked, it works on its own."""

import base64
import csv
import hashlib
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE / "tools"))
import wheel_backend

os.environ.setdefault("TEGULA_BUILD", str(SOURCE / "build" / "release"))

PROGRAM = """
import array, ctypes, tegula
class Data:
    def __init__(self, values):
        self.values = array.array("f", values)
        self.__array_interface__ = {"version": 3, "typestr": "<f4", "shape": (len(values),),
                                    "data": (self.values.buffer_info()[0], False)}
double = tegula.parse('''
import triton
import triton.language as tl
@triton.jit
def double(x, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    tl.store(x + i, tl.load(x + i) * 2)
''').double
x = Data([1, 2, 3, 4])
double[(1,)](x, BLOCK=4)
print(list(x.values), tegula.version(), tegula.library.lib._name)
"""


class TheWheel(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.path = pathlib.Path(cls.folder.name)
        cls.wheel = cls.path / wheel_backend.build_wheel(cls.path, {"level": "0"})
        with zipfile.ZipFile(cls.wheel) as wheel:
            for entry in wheel.infolist():
                path = pathlib.Path(wheel.extract(entry, cls.path / "site"))
                path.chmod(entry.external_attr >> 16)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def run_in_site(self, *command):
        environment = {k: v for k, v in os.environ.items() if k not in ("TEGULA_LIBRARY", "LD_LIBRARY_PATH")}
        environment.update(PYTHONPATH=str(self.path / "site"), TEGULA_CACHE_DIR=str(self.path / "cache"),
                           TEGULA_DEVICE="emulator")
        return subprocess.run([sys.executable, *command], cwd=self.path, env=environment, check=True, text=True,
                              stdout=subprocess.PIPE).stdout

    def test_name(self):
        self.assertRegex(self.wheel.name, r"^tegula-\d+\.\d+\.\d+-py3-none-linux_\w+\.whl$")

    def test_record(self):
        site = self.path / "site"
        record = list(csv.reader((next(site.glob("*.dist-info")) / "RECORD").read_text().splitlines()))
        files = {str(p.relative_to(site)) for p in site.rglob("*") if p.is_file() and "__pycache__" not in p.parts}
        self.assertEqual({name for name, _, _ in record}, files)
        for name, digest, size in record:
            if digest:
                content = (site / name).read_bytes()
                found = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
                self.assertEqual((digest, int(size)), ("sha256=" + found, len(content)))

    def test_kernels(self):
        out = self.run_in_site("-c", PROGRAM)
        self.assertRegex(out, r"^\[2.0, 4.0, 6.0, 8.0\] \d+\.\d+\.\d+ .*/site/tegula/libtegula\.so\.0$")

    def test_command(self):
        out = self.run_in_site("-c", "import sys, tegula.command; sys.argv = ['tegula', '--help']; tegula.command.main()")
        self.assertIn("tegula compile", out)
        os.environ["LD_TRACE_LOADED_OBJECTS"] = "1"  # the loader tells what it takes
        self.addCleanup(os.environ.pop, "LD_TRACE_LOADED_OBJECTS")
        loaded = subprocess.run([self.path / "site" / "tegula" / "tegula-command"], text=True, stdout=subprocess.PIPE,
                                env={**os.environ, "LD_LIBRARY_PATH": str(self.path / "site" / "tegula")}).stdout
        for library in ("libtegula.so.0", "libtegula_runtime.so.0"):
            self.assertIn(f"{library} => {self.path}/site/tegula/{library}", loaded)


if __name__ == "__main__":
    unittest.main(verbosity=2)
