"""How bindings/python/tegula launches on a GPU, where there is none: a stand-in for torch's tensors, and the emulator
in the place of GPU 0."""

import pathlib
import sys
import types
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bindings" / "python"))

try:
    import numpy as np
except ImportError:
    print("[  SKIPPED ]\ntest_gpu_path.py: Skipped\nnumpy is not installed for", sys.executable)
    sys.exit(77)


class TorchType:

    def __init__(self, name):
        self.name = name

    def __repr__(self):
        return f"torch.{self.name}"


TorchType.__name__, TorchType.__module__ = "dtype", "torch"


class Tensor:
    """As much of torch.Tensor as the package asks for, over a numpy array that tells shape and strides."""
    layout = "strided"

    def __init__(self, array, address=None, device="cuda", dtype=None):
        self.array, self.address, self.dtype = array, address, dtype or getattr(torch, array.dtype.name)
        self.device, self.is_cuda, self.shape = types.SimpleNamespace(type=device), device == "cuda", array.shape

    def data_ptr(self):
        return self.address or self.array.ctypes.data

    def get_device(self):
        return 0 if self.is_cuda else -1

    def element_size(self):
        return self.array.itemsize

    def stride(self):
        return tuple(s // self.array.itemsize for s in self.array.strides)

    def numel(self):
        return self.array.size


torch = sys.modules["torch"] = types.ModuleType("torch")
for name in ("bool", "int32", "int64", "bfloat16", "float32", "complex64"):
    setattr(torch, name, TorchType(name))
torch.Tensor, torch.strided, torch.nn = Tensor, "strided", types.SimpleNamespace(Parameter=None)
torch._C = types.SimpleNamespace(_cuda_getCurrentRawStream=lambda ordinal: 0)

import tegula

emulator = tegula.Device.emulator()
tegula.Device._cuda[0] = types.SimpleNamespace(_handle=emulator._handle, is_emulator=False, _place=0, name="GPU 0",
                                               synchronize=lambda stream: waited.append(stream))
waited = []
program = tegula.load(HERE / "kernels.py")


class Interface:
    """An array of another library on GPU 0."""

    def __init__(self, array, stream):
        self.__cuda_array_interface__ = {
            "version": 3, "data": (array.address, False), "shape": array.shape, "typestr": "<f4", "stream": stream
        }


class GpuPath(unittest.TestCase):

    def setUp(self):
        self.x = np.arange(50, dtype=np.float32)
        self.on_gpu, self.out = emulator.array(self.x), emulator.array(np.zeros_like(self.x))
        self.tensor, self.out_tensor = (Tensor(self.x, a.address) for a in (self.on_gpu, self.out))
        waited.clear()

    def test_tensors(self):
        for _ in range(2):  # found out about, then known
            program.add[(2, )](self.out_tensor, self.tensor, self.tensor, 50, BLOCK=32)
            np.testing.assert_array_equal(self.out.numpy(), 2 * self.x)
            program.add[lambda meta: (2, )](self.out_tensor, self.tensor, None, n=50, BLOCK=32, num_warps=2)
            np.testing.assert_array_equal(self.out.numpy(), self.x)

    def test_tuned(self):
        program.tuned_double[lambda meta: (tegula.cdiv(50, meta["BLOCK"]), )](self.out_tensor, self.tensor, 50)
        np.testing.assert_array_equal(self.out.numpy(), 2 * self.x)

    def test_types_as_constexprs(self):
        program.convert[(1, )](self.out_tensor, self.tensor, 50, TYPE=torch.int32, MODE="scale", FACTOR=3)
        np.testing.assert_array_equal(self.out.numpy(), 3 * self.x)

    def test_streams_of_array_interfaces(self):
        program.add[(2, )](Interface(self.out, None), self.tensor, Interface(self.on_gpu, None), 50, BLOCK=32)
        np.testing.assert_array_equal(self.out.numpy(), 2 * self.x)
        self.assertEqual(waited, [])
        call = program.add._bind((Interface(self.out, 1), Interface(self.on_gpu, 1), None, 50), {"BLOCK": 32})
        self.assertEqual((call.stream, waited), (1, []))
        call = program.add._bind((Interface(self.out, 7), Interface(self.on_gpu, 9), None, 50), {"BLOCK": 32})
        self.assertEqual((call.stream, waited), (7, [9]))
        call = program.add._bind((self.out_tensor, Interface(self.on_gpu, 9), None, 50), {"BLOCK": 32})
        self.assertEqual((call.stream, waited), (0, [9, 9]))
        call = program.add._bind((self.out_tensor, self.tensor, None, 50), {"BLOCK": 32, "stream": 5})
        self.assertEqual(call.stream, 5)

    def test_views_of_torch_are_on_its_stream(self):
        """Objects that are no tensors, of torch's element types, and tensors taken as another type."""

        class View:

            def __init__(self, array):
                self.array, self.dtype, self.device = array, torch.float32, types.SimpleNamespace(type="cuda", index=0)

            def data_ptr(self):
                return self.array.address

        self.addCleanup(setattr, torch._C, "_cuda_getCurrentRawStream", torch._C._cuda_getCurrentRawStream)
        torch._C._cuda_getCurrentRawStream = lambda ordinal: 12
        for out, x in ((View(self.out), View(self.on_gpu)),
                       (tegula.reinterpret(self.out_tensor, "float32"), tegula.reinterpret(self.tensor, "float32")),
                       (tegula.reinterpret(View(self.out), "float32"), View(self.on_gpu))):
            self.assertEqual(program.add._bind((out, x, None, 50), {"BLOCK": 32}).stream, 12)

    def test_errors(self):
        for wrong, text in [
            (Tensor(self.x,
                    dtype=torch.complex64), "argument 'x_ptr': a tensor of torch.complex64, which kernels cannot take"),
            (Tensor(self.x, device="meta", dtype=torch.float32), "expected one on a CUDA GPU or on the CPU"),
            (Tensor(self.x, device="cpu"), "the data of 'out_ptr' is on GPU 0, that of 'x_ptr' on the host"),
            (self.x, "the data of 'out_ptr' is on GPU 0, that of 'x_ptr' on the host"),
        ]:
            with self.assertRaises(TypeError) as raised:
                program.add[(2, )](self.out_tensor, wrong, None, 50, BLOCK=32)
            self.assertIn(text, str(raised.exception))

    def general_launches(self, kernel):
        """Counts the launches of a kernel that its launcher does not recognise."""
        counted, launch = [], type(kernel)._launch
        kernel._launch = lambda *args: (counted.append(args), launch(kernel, *args))
        self.addCleanup(vars(kernel).pop, "_launch")
        return counted

    def test_calls_are_recognised(self):
        add = tegula.load(HERE / "kernels.py").add
        general = self.general_launches(add)
        for n in (50, 20, 1, 50):
            for grid in ((2, ), 2, lambda meta: [2, meta["BLOCK"] // 32], lambda meta: 2 if meta["n"] == n else 1):
                add[grid](self.out_tensor, self.tensor, self.tensor, n, BLOCK=32)
            np.testing.assert_array_equal(self.out.numpy()[:n], 2 * self.x[:n])
        self.assertEqual(len(general), 1)
        add[(2, )](self.out_tensor, self.tensor, n=50, y_ptr=None, BLOCK=32)  # in other words
        add[(2, )](self.out_tensor, self.tensor, self.tensor, np.int64(50), BLOCK=32)  # another type
        add[(4, )](self.out_tensor, self.tensor, self.tensor, 50, BLOCK=16)  # another constexpr
        self.assertEqual(len(general), 4)
        add[(4, )](self.out_tensor, self.tensor, None, 50, BLOCK=16)
        np.testing.assert_array_equal(self.out.numpy(), self.x)
        add[(2, )](self.out_tensor, self.tensor, n=50, y_ptr=self.tensor, BLOCK=32)
        np.testing.assert_array_equal(self.out.numpy(), 2 * self.x)
        self.assertEqual(len(general), 4)

    def test_recognised_calls_return_one_object_a_specialisation(self):
        add = tegula.load(HERE / "kernels.py").add
        made = []

        def describe(kernel, grid, *args, **kwargs):
            made.append([kernel, grid, args[3], kwargs["BLOCK"]])
            return made[-1]

        launch = lambda n, **options: add[(2, )](self.out_tensor, self.tensor, None, n, BLOCK=32, **options)
        self.assertIs(launch(50), None)
        self.assertIs(launch(50), None)  # recognised
        tegula.launcher.describe(add, describe)
        first = launch(50)
        self.assertEqual(first, [add, (2, ), 50, 32])
        self.assertIs(launch(34), first)
        self.assertIs(launch(50), first)
        others = [launch(48), launch(1)]
        self.assertEqual([x[2] for x in others], [48, 1])
        launch(50, num_warps=2)  # yet to be recognised
        self.assertEqual(launch(50, num_warps=2), first)
        self.assertEqual(len(made), 4)
        for n, expected in ((48, others[0]), (1, others[1]), (50, first)):
            self.assertIs(launch(n), expected)
        before = sys.getrefcount(first)
        for _ in range(100):
            launch(50)
        self.assertEqual(sys.getrefcount(first), before)
        failing = tegula.load(HERE / "kernels.py").add
        tegula.launcher.describe(failing, lambda *args, **kwargs: self.fail_with(ZeroDivisionError("of the object")))
        failing[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
        with self.assertRaisesRegex(ZeroDivisionError, "of the object"):
            failing[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)

    def test_values_that_python_calls_equal_are_told_apart(self):
        text = ('import triton\nimport triton.language as tl\n@triton.jit\ndef put(out, x, V: tl.constexpr):\n'
                '    tl.store(out, 1.0 / V if V == 0 else (2.0 if V is True else 3.0))\n')
        put = tegula.parse(text).put
        for _ in range(2):
            for value, expected in ((0.0, np.inf), (-0.0, -np.inf), (1, 3), (True, 2), (1.0, 3)):
                with np.errstate(all="ignore"):
                    try:
                        put[(1, )](self.out_tensor, self.tensor, value)
                    except tegula.CompileError:  # division of constants by zero
                        continue
                self.assertEqual(self.out.numpy()[0], expected)

    def test_errors_of_recognised_calls(self):
        add = program.add
        for _ in range(2):
            with self.assertRaisesRegex(ZeroDivisionError, "of the grid"):
                add[lambda meta: self.fail_with(ZeroDivisionError("of the grid"))](self.out_tensor, self.tensor, None,
                                                                                   50, BLOCK=32)
            with self.assertRaisesRegex(ValueError, "has an extent that is negative"):
                add[(-1, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
            with self.assertRaisesRegex(TypeError, "misses argument 'n'"):
                add[(1, )](self.out_tensor, self.tensor, None, BLOCK=32)
            add[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
        with self.assertRaisesRegex(tegula.DeviceError, "kernel 'add': out-of-bounds read of 4 bytes"):
            add[(4, )](self.out_tensor, self.tensor, None, 100, BLOCK=32)

    def fail_with(self, error):
        raise error

    def test_tuned_calls_are_recognised(self):
        double = tegula.load(HERE / "kernels.py").tuned_double
        general = self.general_launches(double)
        for _ in range(3):
            double[lambda meta: (tegula.cdiv(meta["n"], meta["BLOCK"]), )](self.out_tensor, self.tensor, 50)
        np.testing.assert_array_equal(self.out.numpy(), 2 * self.x)
        self.assertEqual(len(general), 1)
        with self.assertRaisesRegex(ZeroDivisionError, "of the grid"):
            double[lambda meta: self.fail_with(ZeroDivisionError("of the grid"))](self.out_tensor, self.tensor, 50)

    def test_streams_of_recognised_calls(self):
        used = []
        torch._C._cuda_getCurrentRawStream = lambda ordinal: used.append(ordinal) or 0
        self.addCleanup(setattr, torch._C, "_cuda_getCurrentRawStream", lambda ordinal: 0)
        program.add[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
        tegula.launcher.tell_torch()
        used.clear()
        self.addCleanup(tegula.launcher.tell_torch)
        for _ in range(3):
            program.add[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
            program.add[(2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32, stream=0)
        self.assertEqual(used, [0] * 3)
        np.testing.assert_array_equal(self.out.numpy(), self.x)

    def general_calls(self, entry):
        """Counts the calls of an entry that are not recognised."""
        counted, call = [], type(entry)._call
        entry._call = lambda *args, **kwargs: (counted.append(args), call(entry, *args, **kwargs))
        self.addCleanup(vars(entry).pop, "_call")
        return counted

    def test_calls_of_the_library_are_recognised(self):
        norm = tegula.kernels.rms_norm
        x = self.x.reshape(5, 10)
        weight = np.linspace(1, 2, 10, dtype=np.float32)
        rows, out = Tensor(x, self.on_gpu.address), Tensor(np.zeros_like(x), self.out.address)
        norm(out, rows)
        general = self.general_calls(norm)

        def expect(factor, eps=1e-6):
            normed = x / np.sqrt((x * x).mean(1, keepdims=True) + eps) * factor
            np.testing.assert_allclose(self.out.numpy().reshape(5, 10), normed, rtol=1e-5)

        norm(out, rows)
        expect(1)
        weight_on_gpu = emulator.array(weight)
        weighted = Tensor(weight, weight_on_gpu.address)
        norm(out, weight=weighted, x=rows)
        expect(weight)
        norm(out, rows, None, 0.5, stream=0, activation="none")
        expect(1, 0.5)
        self.assertEqual(len(general), 0)
        columns = Tensor(np.zeros((10, 5), np.float32).T, self.on_gpu.address)
        for wrong, error, text in [
            (lambda: norm(out, rows, weigth=weighted), TypeError, "no operand 'weigth'; did you mean 'weight'"),
            (lambda: norm(out, rows, x=rows), TypeError, "two values for 'x'"),
            (lambda: norm(out, rows, activation="gleu"), tegula.LaunchError, "activation is 'gleu', expected one of"),
            (lambda: norm(out, columns), tegula.LaunchError, "rms_norm: the elements of a row of x lie 5 apart"),
            (lambda: norm(out, self.x), TypeError, "the data of 'out' is on GPU 0, that of 'x' on the host"),
        ]:
            with self.assertRaises(error) as raised:
                wrong()
            self.assertIn(text, str(raised.exception))
        self.assertEqual(len(general), 5)

    def test_nothing_leaks(self):
        objects = [self.tensor, self.out_tensor, torch.float32, None, 12345, "BLOCK"]

        def launch(count):
            for _ in range(count):
                program.add[lambda meta: (2, )](self.out_tensor, self.tensor, None, 50, BLOCK=32)
                tegula.kernels.softmax(self.out_tensor, self.tensor, causal=False)

        launch(2)
        before = [sys.getrefcount(x) for x in objects]
        launch(300)
        after = [sys.getrefcount(x) for x in objects]
        self.assertLess(max(b - a for a, b in zip(before, after)), 50)

    def test_memory_that_tuning_touches(self):
        text = ('import triton\nimport triton.language as tl\n'
                '@triton.autotune(configs=[triton.Config({"BLOCK": 64})], key=["n"], reset_to_zero=["out"])\n'
                '@triton.jit\ndef put(out, x, n, BLOCK: tl.constexpr):\n    i = tl.arange(0, BLOCK)\n'
                '    tl.store(out + i, tl.load(x + i, mask=i < n), mask=i < n)\n')
        put = tegula.parse(text).put
        put[(1, )](self.out_tensor, self.tensor, 50)
        np.testing.assert_array_equal(self.out.numpy(), self.x)
        words = np.frombuffer(put._bind((self.out_tensor, self.tensor, 50), {}).words, "i8")
        self.assertEqual(list(words[2::3]), [200, 0, 0])  # the bytes of each argument
        with self.assertRaisesRegex(TypeError, r"put\(\): the elements of 'out' do not lie side by side"):
            put[(1, )](Tensor(np.zeros((50, 2), np.float32)[:, 0], self.out.address), self.tensor, 50)


if __name__ == "__main__":
    unittest.main(verbosity=2)
