"""bindings/python/tegula with torch: its tensors on the host by the emulator, and with a GPU Tegula, Triton and torch on the same
tensors."""

import ctypes
import types
import unittest

from tegula_cases import GPU, KERNELS, main, np, program, softmax, tegula, torch


@unittest.skipUnless(torch, "torch is not installed")
class TorchOnTheHost(unittest.TestCase):

    def test_softmax(self):
        for dtype, tolerance in ((torch.float32, 1e-5), (torch.bfloat16, 1e-2), (torch.float16, 2e-3), (torch.float64,
                                                                                                        1e-5)):
            x = torch.randn(9, 300, dtype=torch.float32).to(dtype)
            out = torch.full_like(x, float("nan"))
            program.softmax_kernel[(9, )](out, x, x.stride(0), 300, BLOCK_SIZE=512)
            torch.testing.assert_close(out.double(), torch.softmax(x.double(), 1), rtol=tolerance, atol=tolerance)

    def test_float8(self):
        for dtype in (torch.float8_e4m3fn, torch.float8_e5m2):
            x = torch.linspace(-400, 400, 60).to(dtype)
            out = torch.zeros(60)
            program.convert[(1, )](out, x, 60, TYPE=torch.float32, MODE="", FACTOR=1)
            torch.testing.assert_close(out, x.float(), rtol=0, atol=0)
            y = torch.zeros(60, dtype=dtype)
            program.convert[(1, )](y, out, 60, TYPE=dtype, MODE="", FACTOR=1)
            torch.testing.assert_close(y.float(), x.float(), rtol=0, atol=0)

    def test_views_types_and_parameters(self):
        base = torch.arange(20 * 30, dtype=torch.float32).reshape(20, 30)
        for x in (base.t(), base[3:, 1::2], torch.nn.Parameter(base)):
            out = torch.zeros(x.shape)
            program.copy_strided[(x.shape[0], 1)](out, x, *x.shape, *x.stride(), BLOCK=32)
            torch.testing.assert_close(out, x.detach().contiguous())
        out = torch.zeros(50)
        program.convert[(1, )](out, torch.arange(50), 50, TYPE=torch.float32, MODE="scale", FACTOR=0.5)
        torch.testing.assert_close(out, torch.arange(50) * 0.5)
        flags = torch.tensor([True, False] * 25)
        copied = torch.zeros(50, dtype=torch.bool)
        program.add[(2, )](copied, flags, None, 50, BLOCK=32)
        self.assertTrue((copied == flags).all())

    def test_all_of_a_storage_may_be_accessed(self):
        base, out = torch.arange(8, dtype=torch.float32), torch.zeros(16)
        program.add[(1, )](out, base[:4], None, 8, BLOCK=16)  # behind the view, as kernels do that know what it is of
        torch.testing.assert_close(out[:8], base)
        with self.assertRaisesRegex(tegula.DeviceError, "out-of-bounds read of 4 bytes .* past the end of a 32-byte allocation"):
            program.add[(1, )](out, base[4:], None, 5, BLOCK=16)

    def test_interface_of_tensors(self):
        from tegula import torch_interface
        base = torch.arange(24.0).reshape(4, 6)
        tensors = [base, base[1:, ::2].t(), torch.nn.Parameter(base), torch.empty(0, dtype=torch.int64), torch.tensor(3),
                   base.to(torch.bfloat16)]
        cpu = torch_interface.loaded("libtorch_cpu.so")
        place = torch_interface.place_of_tensors(torch)

        def ask(x, name, result):
            function = cpu["aoti_torch_get_" + name]
            self.assertEqual(function(ctypes.c_void_p(id(x) + place), ctypes.byref(result)), 0)
            return result

        for x in tensors:
            self.assertEqual(ask(x, "data_ptr", ctypes.c_void_p()).value or 0, x.data_ptr())
            self.assertEqual(ask(x, "dim", ctypes.c_int64()).value, x.dim())
            for name, expected in (("sizes", x.shape), ("strides", x.stride())):
                found = ask(x, name, ctypes.POINTER(ctypes.c_int64)())
                self.assertEqual(tuple(found[i] for i in range(x.dim())), tuple(expected))
        numbers = [torch_interface.dtype_number(x, place, cpu) for x in tensors]
        self.assertEqual(numbers[:3], numbers[:1] * 3)
        self.assertEqual(len(set(numbers)), 3)
        self.assertIsNone(torch_interface.find(types.SimpleNamespace(__file__=torch.__file__), []), "not this torch")

    def test_errors(self):
        x = torch.zeros(8)
        for wrong, text in ((x.to(torch.complex64),
                             "argument 'x_ptr': a tensor of torch.complex64, which kernels cannot take"),
                            (x.to("meta"),
                             "argument 'x_ptr': a tensor on meta; expected one on a CUDA GPU or on the CPU"),
                            (x.to_sparse(), "argument 'x_ptr': a tensor with layout torch.sparse_coo")):
            with self.assertRaises(TypeError) as raised:
                program.add[(1, )](x, wrong, None, 8, BLOCK=8)
            self.assertIn(text, str(raised.exception))


@unittest.skipUnless(GPU, "torch finds no GPU")
class TorchOnTheGpu(unittest.TestCase):

    def test_tegula_triton_and_torch_on_the_same_tensors(self):
        import importlib.util
        import triton
        spec = importlib.util.spec_from_file_location("kernels", KERNELS)
        theirs = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(theirs)
        for dtype, tolerance in ((torch.float32, 1e-6), (torch.bfloat16, 1e-2)):
            for cols in (256, 781, 4096):
                x = torch.randn(512, cols, device="cuda", dtype=dtype)
                block = triton.next_power_of_2(cols)
                ours, triton_out = torch.full_like(x, float("nan")), torch.full_like(x, float("nan"))
                arguments = (x, x.stride(0), cols)
                program.softmax_kernel[(512, )](ours, *arguments, BLOCK_SIZE=block, num_warps=8)
                theirs.softmax_kernel[(512, )](triton_out, *arguments, BLOCK_SIZE=block, num_warps=8)
                torch.testing.assert_close(ours, triton_out, rtol=tolerance, atol=tolerance)
                torch.testing.assert_close(ours, torch.softmax(x, 1), rtol=tolerance, atol=tolerance)

    def test_the_current_stream(self):
        n = 1 << 24
        x, out = torch.zeros(n, device="cuda"), torch.zeros(n, device="cuda")
        program.add[(1, )](out, x, None, 1024, BLOCK=1024)  # compiled before it matters
        side = torch.cuda.Stream()
        torch.cuda.synchronize()
        with torch.cuda.stream(side):
            torch.cuda._sleep(50_000_000)
            x.fill_(3)
            program.add[(n // 1024, )](out, x, x, n, BLOCK=1024)
        side.synchronize()
        self.assertTrue((out == 6).all().item())
        program.add[(n // 1024, )](out, x, None, n, BLOCK=1024, stream=side)
        side.synchronize()
        self.assertTrue((out == 3).all().item())

    def test_captured_into_a_graph(self):
        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        program.add[(1, )](out, x, None, 1024, BLOCK=1024)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            program.add[(1, )](out, x, x, 1024, BLOCK=1024)
        x.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        self.assertTrue((out == 10).all().item())

    def test_cuda_array_interface(self):

        class Wrapped:

            def __init__(self, tensor, stream):
                self.__cuda_array_interface__ = {**tensor.__cuda_array_interface__, "version": 3, "stream": stream}

        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        torch.cuda.synchronize()
        for stream in (None, 1):
            program.add[(1, )](Wrapped(out, stream), Wrapped(x, stream), x, 1024, BLOCK=1024)
            torch.cuda.synchronize()
            self.assertTrue((out == 2).all().item())

    def test_cupy(self):
        try:
            import cupy
        except ImportError:
            self.skipTest("cupy is not installed")
        x = cupy.arange(1024, dtype=cupy.float32)
        with cupy.cuda.Stream(non_blocking=True) as stream:
            out = cupy.zeros_like(x)
            program.add[(1, )](out, x, None, 1024, BLOCK=1024)
            stream.synchronize()
        np.testing.assert_array_equal(cupy.asnumpy(out), np.arange(1024, dtype=np.float32))

    def test_launches_are_fast(self):
        """A figure to read, not a limit: the host's part of a launch."""
        import time
        x, out = torch.ones(1024, device="cuda"), torch.zeros(1024, device="cuda")
        launch = lambda: program.add[(1, )](out, x, x, 1024, BLOCK=1024)
        best = float("inf")
        for _ in range(20):
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(200):
                launch()
            best = min(best, (time.perf_counter() - start) / 200)
        torch.cuda.synchronize()
        print(f"{best * 1e6:.2f} us a launch ... ", end="", flush=True)

    def test_mixed_places(self):
        x = torch.zeros(8, device="cuda")
        with self.assertRaises(TypeError) as raised:
            program.add[(1, )](x, x.cpu(), None, 8, BLOCK=8)
        self.assertIn("the data of 'out_ptr' is on GPU 0, that of 'x_ptr' on the host", str(raised.exception))
        with self.assertRaises(TypeError):
            program.add[(1, )](x, np.zeros(8, np.float32), None, 8, BLOCK=8)

    def test_facts_of_the_gpu(self):
        x = torch.zeros(2, 1024, device="cuda")
        facts = program.softmax_kernel.facts(x, x, 1024, 1024, BLOCK_SIZE=1024)
        self.assertGreater(facts.registers, 0)
        self.assertEqual(facts.spill_bytes, 0)

    def test_tuned_kernel(self):
        if not program.tuned_double.is_tuned:
            self.skipTest("this build does not read @triton.autotune")
        x = torch.arange(1000, device="cuda", dtype=torch.float32)
        out = torch.zeros_like(x)
        for _ in range(2):
            program.tuned_double[lambda meta: (tegula.cdiv(1000, meta["BLOCK"]), )](out, x, 1000)
            torch.testing.assert_close(out, 2 * x)
            out.zero_()


if __name__ == "__main__":
    main()
