"""Builds the wheel: bindings/python's packages, libtegula, libtegula_runtime and the tegula command, with what a build of
the tree has made. A build backend of PEP 517 without dependencies: `pip wheel .`, or

    python3 tools/wheel_backend.py [FOLDER]

The build is that of preset release, brought up to date first; TEGULA_BUILD names another, which is taken as it is.
"""

import base64
import hashlib
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(__file__).resolve().parents[1]
PACKAGES = ("tegula", "tegula_triton")
# In the build folder, and in the package; the libraries find each other beside them.
BINARIES = {"libtegula.so": "libtegula.so.0", "libtegula_runtime.so": "libtegula_runtime.so.0", "tegula": "tegula-command"}


def version():
    return re.search(r"project\(tegula VERSION ([\d.]+)", (SOURCE / "CMakeLists.txt").read_text()).group(1)


def build_folder():
    """A build that has the libraries and the command."""
    if named := os.environ.get("TEGULA_BUILD"):
        return pathlib.Path(named)
    build = SOURCE / "build" / "release"
    if not (build / "CMakeCache.txt").exists():
        subprocess.run(["cmake", "--preset", "release"], cwd=SOURCE, check=True, stdout=sys.stderr)
    subprocess.run(["cmake", "--build", str(build), "--target", "tegula", "tegula_command"], check=True, stdout=sys.stderr)
    return build


def stripped(path, folder):
    """A copy without symbols, where strip is at hand."""
    copy = pathlib.Path(folder) / path.name
    shutil.copy(path, copy)
    if shutil.which("strip"):
        subprocess.run(["strip", str(copy)], check=True)
    return copy


def metadata():
    return (f"Metadata-Version: 2.1\nName: tegula\nVersion: {version()}\nSummary: Block-level GPU kernels in Triton's "
            "language, compiled without Triton\nLicense: Apache-2.0\nRequires-Python: >=3.8\n")


class Wheel:
    """A wheel that is written, with the record of its files."""

    def __init__(self, path, level):
        self.zip = zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED if level else zipfile.ZIP_STORED, compresslevel=level)
        self.info = f"tegula-{version()}.dist-info"
        self.record = []

    def add(self, name, content, executable=False):
        entry = zipfile.ZipInfo(name)
        entry.external_attr = (0o100755 if executable else 0o100644) << 16
        entry.compress_type = self.zip.compression
        self.zip.writestr(entry, content, compresslevel=self.zip.compresslevel)
        digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
        self.record.append(f"{name},sha256={digest},{len(content)}")

    def close(self):
        record = "\n".join([*self.record, f"{self.info}/RECORD,,", ""])
        self.add(f"{self.info}/RECORD", record.encode())
        self.zip.close()


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """Writes the wheel into a folder; its name. Setting `level`: how hard to compress, 0 to 9."""
    tag = f"py3-none-linux_{platform.machine()}"
    name = f"tegula-{version()}-{tag}.whl"
    build = build_folder()
    wheel = Wheel(pathlib.Path(wheel_directory) / name, int((config_settings or {}).get("level", 6)))
    for package in PACKAGES:
        for path in sorted((SOURCE / "bindings" / "python" / package).glob("*.py")):
            wheel.add(f"{package}/{path.name}", path.read_bytes())
    with tempfile.TemporaryDirectory() as folder:
        for built, installed in BINARIES.items():
            path = stripped((build / built).resolve(), folder)
            wheel.add(f"tegula/{installed}", path.read_bytes(), executable=True)
    wheel.add(f"{wheel.info}/METADATA", metadata().encode())
    wheel.add(f"{wheel.info}/WHEEL", f"Wheel-Version: 1.0\nGenerator: tegula\nRoot-Is-Purelib: false\nTag: {tag}\n".encode())
    wheel.add(f"{wheel.info}/entry_points.txt", b"[console_scripts]\ntegula = tegula.command:main\n")
    wheel.add(f"{wheel.info}/LICENSE", (SOURCE / "LICENSE").read_bytes())
    wheel.close()
    return name


if __name__ == "__main__":
    print(build_wheel(sys.argv[1] if len(sys.argv) > 1 else "."))
