"""bindings/python/tegula_triton: Triton's functions launched by Tegula, with pip's Triton and torch's CPU tensors on the
emulator."""

import gc
import logging
import os
import pathlib
import subprocess
import sys
import textwrap
import types
import unittest
import weakref
from unittest import mock

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "bindings" / "python"))

try:
    import torch
    import triton
except ImportError as missing:
    print(f"[  SKIPPED ]\ntest_triton.py: Skipped\n{missing.name} is not installed for", sys.executable)
    sys.exit(77)

from triton.tools.tensor_descriptor import TensorDescriptor

import tegula
import tegula_triton
import triton.language as tl
import triton_helpers
import triton_helpers as helpers
import triton_kernels as kernels
from tegula_triton import inductor

tegula_triton.install()


class Launches(unittest.TestCase):

    def setUp(self):
        self.x = torch.arange(50, dtype=torch.float32)
        self.out = torch.zeros(50)
        tegula_triton.report(clear=True)

    def check(self, expected):
        torch.testing.assert_close(self.out, expected)
        self.assertEqual(tegula_triton.report().refused, {})
        self.out.zero_()

    def test_plain(self):
        for n in (50, 17, 1):
            kernels.add[(2, )](self.out, self.x, self.x, n, BLOCK=32)
            kernels.add[lambda meta: (triton.cdiv(n, meta["BLOCK"]), )](self.out, self.x, y=self.x, n=n, BLOCK=16, num_warps=2)
            self.check(torch.where(torch.arange(50) < n, 2 * self.x, 0))
        kernels.add.run(self.out, self.x, self.x, 50, 64, grid=(1, ), warmup=False)
        self.check(2 * self.x)

    def test_launches_return_the_compiled_kernel(self):
        compiled = kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32, num_warps=2)
        self.check(2 * self.x)
        self.assertIs(kernels.add[(2, )](self.out, 0 * self.x, self.x, 50, BLOCK=32, num_warps=2), compiled)
        self.check(self.x)
        self.assertEqual((compiled.name, list(compiled.asm), "ttgir" in compiled.asm), ("add", ["ptx"], False))
        self.assertIn(".visible .entry add", compiled.asm["ptx"])
        self.assertIn(".reqntid 64", compiled.asm["ptx"])
        with self.assertRaisesRegex(KeyError, "ttgir: the kernel was compiled by Tegula, which has ptx of it"):
            compiled.asm["ttgir"]
        self.assertEqual((compiled.metadata.num_warps, compiled.metadata.name, compiled.metadata.num_stages), (2, "add", 3))
        self.assertEqual((compiled.metadata.target.arch, compiled.metadata.target.backend), (90, "cuda"))
        self.assertIs(type(compiled.hash), str)
        self.assertTrue(compiled.n_regs is None or 0 < compiled.n_regs < 255)
        self.assertTrue(compiled.n_spills in (None, 0))
        compiled[2, 1, 1](self.out, self.x, 3 * self.x, 17, 32)
        self.check(torch.where(torch.arange(50) < 17, 4 * self.x, 0))
        others = [kernels.add[(2, )](self.out, self.x, self.x, 48, BLOCK=32, num_warps=2),
                  kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32, num_warps=4),
                  kernels.add[(1, )](self.out, self.x, self.x, 50, BLOCK=64, num_warps=2)]
        self.assertEqual(len({id(compiled), *map(id, others)}), 4)
        self.assertIn(".reqntid 128", others[1].asm["ptx"])
        tuned = kernels.tuned[lambda meta: (triton.cdiv(50, meta["BLOCK"]), )](self.out, self.x, 50)
        self.assertIn(".visible .entry tuned", tuned.asm["ptx"])
        activated = kernels.activated[(1, )](self.out, self.x, 50, kernels.squared, BLOCK=64)
        self.assertIn(".visible .entry activated", activated.asm["ptx"])

    def test_names_by_repr(self):
        for n, one, block, name in ((5, 1, 32, "named_i32_one1_BLOCK32"), (5, 2, 32, "named_i32_BLOCK32"),
                                    (2**40, 1, 16, "named_i64_one1_BLOCK16")):
            launched = kernels.named[(1, )](self.out, n, one, BLOCK=block)
            self.assertEqual((launched.name, launched.metadata.name), (name, name))
            self.assertIs(kernels.named.warmup(self.out, n, one, BLOCK=block, grid=(1, )), launched)
            self.assertEqual([line for line in launched.asm["ptx"].splitlines() if ".entry" in line], [f".visible .entry {name}("])
            self.assertIn(f"[{name}_param_0]", launched.asm["ptx"])
            self.assertEqual(self.out[0], n + one)

    def test_builtins_of_the_program_go_to_triton(self):
        kernels.through_builtin[(1, )](self.out, self.x, 50, BLOCK=64, DOUBLE=False)
        self.check(self.x)
        reasons = self.refused(lambda: kernels.through_builtin[(1, )](self.out, self.x, 50, BLOCK=64, DOUBLE=True))
        self.assertRegex(reasons[0], "'doubled' is a builtin of its own, which works on Triton's compiler")

    def test_warmup_compiles(self):
        compiled = kernels.add.warmup(torch.float32, torch.float32, torch.float32, 50, BLOCK=32, grid=(1, ), num_warps=2)
        self.assertIn(".reqntid 64", compiled.asm["ptx"])
        compiled[2, 1, 1](self.out, self.x, self.x, 50, 32)
        self.check(2 * self.x)
        self.assertIs(kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32, num_warps=2), compiled)
        halves = kernels.add.warmup(torch.float16, torch.float16, torch.float16, 50, BLOCK=32, grid=(1, ))
        self.assertIn("add.f16", halves.asm["ptx"])
        self.assertEqual(kernels.add.warmup(self.out, self.x, self.x, 50, BLOCK=64, grid=(1, )).name, "add")
        self.out.zero_()

    def test_compiled_kernels_go_with_their_functions(self):
        seen = []
        for _ in range(2):
            function = kernels.closure(2.0)
            seen.append(weakref.ref(function[(1, )](self.out)))
            del function
        gc.collect()
        self.assertEqual([x() for x in seen], [None, None])

    def test_what_run_returns_launches_again(self):
        launched = kernels.add.run(self.out, self.x, y=self.x, n=50, BLOCK=32, num_warps=2, grid=(2, ), warmup=False)
        self.check(2 * self.x)
        launched[2, 1, 1](self.out, self.x, 3 * self.x, 17, 32)
        self.check(torch.where(torch.arange(50) < 17, 4 * self.x, 0))
        tuned = kernels.tuned.run(self.out, self.x, 50, grid=(2, ), warmup=False)
        self.check(3 * self.x)
        tuned[2, 1, 1](self.out, self.x, 50, kernels.tuned.best_config.kwargs["BLOCK"], False)
        self.check(3 * self.x)

    def test_functions_of_the_grid_are_given_defaults(self):
        for given in {}, {"BLOCK": 32}:
            self.out.zero_()
            for _ in range(2):  # the second time the kernel is ready
                kernels.copied_by_default_blocks[lambda meta: (-(-meta["n"] // meta["BLOCK"]), )](self.out, self.x, 50, **given)
            self.check(self.x)

    def test_defaults_that_python_evaluates(self):
        kernels.clamped_by_defaults[(1, )](self.out, self.x - 25, 50, BLOCK=64)
        self.check(torch.clamp((self.x - 25) * 1e5, -65504.0, 65504.0 / 4) + 1)

    def test_helpers_and_constants_of_other_modules(self):
        kernels.through_helpers[(1, )](self.out, self.x, 50, BLOCK=64)
        self.check(torch.sqrt((3 * self.x + 2 + 40 + 1) * 2))

    def test_globals_that_were_none(self):
        for value, expected in ((None, -1.0), (tl.constexpr(3.0), 6.0)):
            helpers.set_late(value)
            for _ in range(2):
                kernels.of_late_value[(1, )](self.out, 50, BLOCK=64)
                self.check(torch.full((50, ), expected))
        helpers.set_late(tl.constexpr(float("3.0")))  # an equal one
        kernels.of_late_value[(1, )](self.out, 50, BLOCK=64)
        self.check(torch.full((50, ), 6.0))
        helpers.set_late(tl.constexpr(4.0))
        with self.assertRaisesRegex(RuntimeError, "global variable LATE has changed"):
            kernels.of_late_value[(1, )](self.out, 50, BLOCK=64)

    def test_options_without_effect(self):
        for options in ({"arch": "sm80"}, {"ptx_version": 83}, {"ptx_options": "-O1"}, {"extern_libs": {}},
                        {"default_dot_input_precision": "ieee"}, {"enable_reflect_ftz": True}):
            compiled = kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32, **options)
            self.check(2 * self.x)
            compiled[2, 1, 1](self.out, self.x, self.x, 50, 32)
            self.check(2 * self.x)

    def refused(self, launch):
        tegula_triton.report(clear=True)
        with self.assertRaises(Exception):  # Triton's, which finds no GPU
            launch()
        return [reason for _, reason in tegula_triton.report(clear=True).refused.values()]

    def test_options_that_are_not_followed(self):
        add = lambda **options: self.refused(lambda: kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32, **options))
        self.assertEqual(add(ptx_options="--fmad=false"),
                         ["add(): ptx_options is '--fmad=false', which Tegula cannot do"])
        for _ in range(2):  # which the second time is found among those of before
            (reason, ) = add(num_warps=3)
            self.assertIn("num_warps is 3, expected 1, 2, 4, 8, 16 or 32", reason)
        self.assertEqual(add(extern_libs={"a": "b"}), ["add(): extern_libs is {'a': 'b'}, which Tegula cannot do"])
        self.assertEqual(self.refused(lambda: kernels.of_target[(1, )](self.out, arch="sm80")),
                         ["arch is 'sm80', and the kernel asks for its target"])
        kernels.of_target[(1, )](self.out)
        self.assertEqual(self.out[0], 1)
        x = torch.eye(16)
        with triton.knobs.language.scope():
            triton.knobs.language.fp32_default = "ieee"
            self.assertEqual(self.refused(lambda: kernels.product[(1, )](torch.zeros(16, 16), x, BLOCK=16)),
                             ["TRITON_F32_DEFAULT is 'ieee', which Tegula does not follow"])
            triton.knobs.language.default_fp_fusion = False
            kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32)
            self.assertEqual(kernels.add[(2, )](self.out, self.x, self.x, 50, BLOCK=32).metadata.enable_fp_fusion, False)

    def test_types_as_constants(self):
        kernels.through_addresses[(1, )](self.out, self.x, 50, BLOCK=64)
        self.check(self.x)
        texts = sys.modules["tegula_triton.texts"]
        language = triton.language
        self.assertEqual(texts.literal(language.pointer_type(language.int8, const=True)),
                         "tl.pointer_type(tl.int8, const=True)")
        self.assertEqual(texts.literal(language.block_type(language.float32, [4, 8])), "tl.block_type(tl.float32, [4, 8, ])")

    def test_a_changed_constant_is_an_error(self):
        kernels.through_helpers[(1, )](self.out, self.x, 50, BLOCK=64)
        scale = triton_helpers.SCALE
        triton_helpers.SCALE = triton.language.constexpr(4)
        try:
            with self.assertRaisesRegex(RuntimeError, "global variable SCALE has changed since through_helpers was compiled"):
                kernels.through_helpers[(1, )](self.out, self.x, 50, BLOCK=64)
        finally:
            triton_helpers.SCALE = scale

    def test_autotuners_and_heuristics(self):
        for n, factor in ((32, 2), (50, 3)):
            kernels.tuned[lambda meta: (triton.cdiv(n, meta["BLOCK"]), )](self.out, self.x, n)
            self.check(torch.where(torch.arange(50) < n, factor * self.x, 0))
        self.assertEqual(kernels.tuned.best_config.kwargs["BLOCK"], 32)  # nothing is timed on the emulator

    def test_tuples(self):
        for pair in ((self.x, self.x / 2), kernels.Pair(self.x, self.x / 2)):
            kernels.of_tuple[(1, )](self.out, kernels.Pair(*pair), 50, BLOCK=64)
            self.check(self.x / 2)

    def test_functions_as_arguments(self):
        for function, expected in ((kernels.squared, self.x**2), (triton_helpers.scaled, 3 * self.x)):
            kernels.activated[(1, )](self.out, self.x, 50, ACTIVATION=function, BLOCK=64)
            self.check(expected)
            kernels.activated[(1, )](self.out, self.x, 50, function, 64)
            self.check(expected)

    def test_functions_in_tuples(self):
        squared, scaled = kernels.squared, triton_helpers.scaled
        for each, expected in (((squared, scaled), 3 * self.x**2), ((scaled, squared), 9 * self.x**2), ((), self.x)):
            for divisor in (2, 4.0):
                last = kernels.Closure(kernels.divided, (divisor, ))
                kernels.applied[(1, )](self.out, self.x, 50, last, EACH=each, BLOCK=64)
                self.check(expected / divisor)
        kernels.called_first[(1, )](self.out, 5, kernels.store, (squared, 1))
        self.check(torch.tensor([26.0] + 49 * [0]))

    def test_host_functions_as_constants(self):
        x = (self.x * 1000).to(torch.float16)
        for wide in (False, True):
            kernels.of_chosen_type[(1, )](self.out, x, 50, WIDE=wide, BLOCK=64)
            self.check(torch.nn.functional.pad(x.double().sum().float()[None], (0, 49)))

    def test_descriptors(self):
        kernels.of_descriptor[(1, )](self.out, TensorDescriptor.from_tensor(self.x, [64]), 50, BLOCK=64)
        self.check(self.x)

    def test_reinterpreted(self):
        bits = self.x.to(torch.bfloat16)
        kernels.add[(2, )](self.out, triton.reinterpret(bits.view(torch.int16), triton.language.bfloat16), self.x, 50, BLOCK=32)
        self.check(2 * self.x)

    def test_hooks_before_launches(self):
        called = []
        kernels.add.add_pre_run_hook(lambda *args, **kwargs: called.append((len(args), kwargs)))
        self.addCleanup(kernels.add.pre_run_hooks.clear)
        for _ in range(3):
            kernels.add[(1, )](self.out, self.x, self.x, 50, BLOCK=64)
        self.assertEqual(called, [(4, {"BLOCK": 64})] * 3)
        self.check(2 * self.x)

    def test_closures(self):
        one, two = kernels.closure(1.0), kernels.closure(2.0)
        for kernel, expected in ((one, 1), (two, 2), (one, 1)):
            kernel[(1, )](self.out)
            self.assertEqual(self.out[0], expected)

    def test_what_is_refused_goes_to_triton(self):
        kernels.refused[(1, )](self.out, BLOCK=32)
        self.assertEqual(self.out[0], 32)
        for count in (1, 2):
            with self.assertRaises(Exception) as raised:  # Triton says so, or that there is no GPU
                kernels.refused[(1, )](self.out, BLOCK=64)
            self.assertNotIsInstance(raised.exception, tegula.Error)
            if not torch.cuda.is_available():
                self.assertRegex(str(raised.exception), r"(?s)no_such_function.*\(so Tegula refuses this launch of refused\(\)")
            found, reason = tegula_triton.report().refused["refused"]
            self.assertEqual(found, count)
            self.assertIn("no_such_function", reason)
        kernels.refused[(1, )](self.out, BLOCK=16)  # other forms of the call still go here
        self.assertEqual(self.out[0], 16)
        self.assertIn("refused, 2 launches by Triton: ", str(tegula_triton.report()))

    def test_a_sealed_process_compiles_nothing_by_triton_either(self):
        lines = """
            import sys, torch, tegula, tegula_triton
            tegula_triton.install()
            import triton_kernels as kernels
            x, out = torch.ones(50), torch.zeros(50)
            kernels.add[(1, )](out, x, x, 50, BLOCK=64)
            tegula.seal()
            kernels.add[(1, )](out, x, out, 50, BLOCK=64)
            print(out.sum().item())
            for _ in range(2):
                try:
                    kernels.add[(1, )](out, x, x, 50, BLOCK=128)
                except tegula.LaunchError as error:
                    print("sealed" in str(error), error.__context__)
            """
        path = os.pathsep.join([str(HERE), str(HERE.parents[2] / "bindings" / "python")])
        done = subprocess.run([sys.executable, "-c", textwrap.dedent(lines)], env=dict(os.environ, PYTHONPATH=path),
                              capture_output=True, text=True)
        self.assertEqual(done.stdout.split("\n"), ["150.0", "True None", "True None", ""], done.stderr)

    def test_a_wrong_call_is_its_own_alone(self):
        wrong = (self.out, self.x, self.x, 50, 64, 5), (self.out, self.x, self.x, 2**70, 64), (self.out, self.x, 50, 64)
        for arguments in wrong:
            with self.assertRaises(Exception) as raised:
                kernels.add[(1, )](*arguments)
            self.assertNotIsInstance(raised.exception, tegula.Error)
            if not torch.cuda.is_available():
                self.assertIn("(so Tegula refuses this launch of add(), and Triton", str(raised.exception))
            tegula_triton.report(clear=True)
            kernels.add[(1, )](self.out, self.x, self.x, 50, BLOCK=64)
            kernels.add[(1, )](self.out, self.x, self.x, 50, 64)
            self.check(2 * self.x)

    def test_uninstall(self):
        tegula_triton.uninstall()
        try:
            self.assertFalse(tegula_triton.installed())
            if not torch.cuda.is_available():
                with self.assertRaisesRegex(RuntimeError, "active drivers"):
                    kernels.add[(1, )](self.out, self.x, self.x, 50, BLOCK=64)
        finally:
            tegula_triton.install()
        kernels.add[(1, )](self.out, self.x, self.x, 50, BLOCK=64)
        self.check(2 * self.x)

    def test_text(self):
        text, name, _ = tegula_triton.text_of(kernels.through_helpers)
        self.assertEqual(name, "through_helpers")
        self.assertIn("def helpers_scaled(x):", text)
        self.assertIn("helpers_Limits_HIGH", text)


class Inductor(unittest.TestCase):
    """Kernels of torch.compile, as Inductor writes them, launched by its caching autotuner."""

    def setUp(self):
        import inductor_kernels
        self.kernels = inductor_kernels
        tegula_triton.report(clear=True)

    def test_elementwise(self):
        x = torch.randn(3000)
        for _ in range(3):
            out = torch.zeros(3000)
            self.kernels.triton_poi_fused_silu_0.run(x, out, 3000, stream=0)
            torch.testing.assert_close(out, torch.rsqrt(torch.nn.functional.silu(x).abs() + 1))
        self.assertEqual(tegula_triton.report().refused, {})

    def test_reductions_with_helpers(self):
        x = torch.randn(40, 50)
        x[3, 7] = float("nan")
        for _ in range(3):
            out = torch.zeros(40)
            self.kernels.triton_per_fused_amax_1.run(x, out, 40, 50, stream=0)
            torch.testing.assert_close(out, x.amax(1), equal_nan=True)
        self.assertEqual(tegula_triton.report().refused, {})

    def test_launches_without_triton_have_a_name_in_each_torch(self):
        for name in "use_static_cuda_launcher", "use_static_triton_launcher":
            self.assertEqual(inductor.static_launcher(types.SimpleNamespace(**{name: True})), name)

    def test_arguments_are_known_ahead(self):
        meta = {"signature": {"in_ptr0": "*fp32", "out_ptr0": "*bf16", "xnumel": "i32", "r0_numel": "i64", "XBLOCK": "constexpr"},
                "constants": {"XBLOCK": 8}, "configs": [{(0, ): [["tt.divisibility", 16]], (2, ): [["tt.divisibility", 16]]}]}
        reduction = self.kernels.triton_per_fused_amax_1.fn
        self.assertEqual(inductor.arguments_ahead(reduction, meta), ["*fp32", "*bf16:1", "i32:16", 50, 8])
        meta["signature"]["in_ptr0"] = "tensordesc<fp32[8]>"
        self.assertIsNone(inductor.arguments_ahead(reduction, meta))

    def test_programs_are_counted_ahead(self):
        from torch._inductor.runtime import triton_heuristics as heuristics
        columns, elements = self.kernels.triton_per_fused_amax_1, self.kernels.triton_poi_fused_silu_0
        count = lambda tuner, **config: inductor.programs_ahead(heuristics, tuner, triton.Config(config))
        self.assertEqual(count(elements, XBLOCK=64), 0)  # of any size
        self.assertEqual(count(columns, XBLOCK=4), 0)
        source = columns.fn.src
        try:
            columns.fn._unsafe_update_src(source.replace("    r0_numel = 50\n", "    xnumel = 4001\n    r0_numel = 50\n"))
            self.assertEqual(count(columns, XBLOCK=4), 1001)
            result = columns._precompile_config(triton.Config({"XBLOCK": 4}, num_warps=1))
            self.assertEqual(result.options()["program_bits"], 10)
            result.ready.result()
        finally:
            columns.fn._unsafe_update_src(source)
            columns.__dict__.pop("_tegula_kernel", None)  # which is of the changed text

    def test_smaller_blocks_are_tried_where_much_is_left_over(self):
        text = types.SimpleNamespace(src="def k(r0_numel):\n    r0_numel = 1152\n")
        wanted = lambda block: inductor.leaves_much_over(text, triton.Config({"XBLOCK": 2, "R0_BLOCK": block}))
        self.assertEqual([wanted(block) for block in (1024, 512, 256, 128)], [True, True, False, False])
        self.assertFalse(inductor.leaves_much_over(text, triton.Config({"XBLOCK": 2})))
        text.src = "def k(r0_numel):\n    r0_numel = 3\n"
        self.assertEqual([wanted(block) for block in (8, 4, 1)], [True, False, False])
        text.src = "def k(r0_numel):\n    pass\n"
        self.assertFalse(wanted(1024))
        self.assertEqual(inductor.Binary(True).n_regs, 255)
        self.assertIsNone(inductor.Binary(False).n_regs)

    def test_what_is_compiled_ahead_is_launched(self):
        tuned = self.kernels.triton_per_fused_amax_1
        compiled = []
        make = tegula.Kernel._with_callback
        tegula.Kernel._with_callback = lambda kernel, *rest: (compiled.append(kernel.name), make(kernel, *rest))
        try:
            result = tuned._precompile_config(triton.Config({"XBLOCK": 4}, num_warps=1))
            result.ready.result()
        finally:
            tegula.Kernel._with_callback = make
        self.assertEqual(compiled, ["triton_per_fused_amax_1"])

    def test_what_a_kernel_writes_is_cloned_once_for_all_launches_that_are_timed(self):
        tuned, clones = self.kernels.triton_poi_fused_add_3, []
        clone = type(tuned).maybe_clone_args
        launches = []
        launch = lambda x, n, stream: (launches.append(x.data_ptr()), tuned.launchers[0](x, n, stream=stream))
        launch.n_spills, launch.config = 0, None
        x, numbers = torch.zeros(50), torch.zeros(50, dtype=torch.int32)
        tuned.run(x, 50, stream=0)
        try:
            type(tuned).maybe_clone_args = lambda *args, **kwargs: (clones.append(args), clone(*args, **kwargs))[1]
            self.assertGreater(tuned.bench(launch, x, 50), 0)
            self.assertEqual(len(clones), 1)
            self.assertGreater(len(launches), 1)
            self.assertEqual(len(set(launches)), 1)
            tuned.bench(launch, x, 50, with_profiler=False)  # as Inductor's bandwidth profiles call it
            self.assertEqual(len(clones), 2)
            tuned.bench(launch, numbers, 50)  # whose values may be indices: in Inductor's way
            self.assertGreater(len(clones), 3)
        finally:
            type(tuned).maybe_clone_args = clone
        torch.testing.assert_close(x, torch.ones(50))
        torch.testing.assert_close(numbers, torch.zeros(50, dtype=torch.int32))

    def test_launches_are_timed_behind_a_write_that_leaves_the_host_ahead(self):
        order, times = [], iter([9e-3, 7e-3, 8e-3, *[6e-3] * 17, 30.0, 31.0, 32.0])
        event = lambda **_: mock.Mock(record=lambda: order.append("event"), elapsed_time=lambda end: next(times))
        flushed = mock.Mock(zero_=lambda: order.append("write"))
        timer = inductor.ColdTimer(mock.Mock())
        launch = lambda: order.append("launch")
        with mock.patch("torch.cuda.Event", event), mock.patch("torch.cuda.synchronize"), \
                mock.patch("torch.empty", return_value=flushed) as memory:
            self.assertEqual(timer.benchmark(launch, device="cuda"), 6e-3)
            self.assertEqual(order, ["launch", *["write", "event", "launch", "event"] * 20])
            order.clear()
            self.assertEqual(timer.benchmark(fn=launch, device="cuda", rep=40), 30.0)  # a long one is launched few times
            self.assertEqual(order.count("launch"), 4)
            self.assertEqual(memory.call_args[0], (256 << 20,))
        timer.benchmark(launch, device="cpu")
        timer.by_inductor.benchmark.assert_called_once_with(launch, device="cpu")
        with mock.patch("torch.empty", side_effect=torch.OutOfMemoryError):
            timer.benchmark(launch, device="cuda", rep=40)
        timer.by_inductor.benchmark_gpu.assert_called_once_with(launch, rep=40)

    def test_configurations_are_timed_alike(self):
        """By Inductor, all of them, where memory ends while they are timed: ahead of a launch or in one."""
        timer = inductor.ColdTimer(mock.Mock(benchmark_gpu=lambda launch, **_: "by Inductor"))
        event = lambda **_: mock.Mock(elapsed_time=lambda end: 1.0)
        fails_once = lambda *results: mock.Mock(side_effect=[*results, torch.OutOfMemoryError, *[mock.Mock()] * 99])
        launches = lambda launch: (lambda: [timer.benchmark(launch, device="cuda", rep=40) for _ in range(3)])
        with mock.patch("torch.cuda.Event", event), mock.patch("torch.cuda.synchronize"):
            with mock.patch("torch.empty", fails_once(mock.Mock())):
                self.assertEqual(timer.measured_alike(launches(mock.Mock())), ["by Inductor"] * 3)
                self.assertEqual(timer.measured_alike(launches(mock.Mock())), [1.0] * 3)  # there is memory again
            with mock.patch("torch.empty"):
                launch = fails_once(*[None] * 30)
                self.assertEqual(timer.measured_alike(launches(launch)), ["by Inductor"] * 3)
                autotuner = mock.Mock()
                with mock.patch.dict(inductor._by_triton, benchmark_all_configs=lambda *args: args), \
                        mock.patch("torch._inductor.runtime.triton_heuristics.benchmarker", timer):
                    self.assertEqual(inductor.measure_all(autotuner, 1), (autotuner, 1))

    def test_what_is_refused_goes_to_triton(self):
        logging.getLogger("torch._inductor").setLevel(logging.CRITICAL)
        with self.assertRaises(Exception) as raised:  # Triton says so, or that there is no GPU
            self.kernels.triton_poi_refused_2.run(torch.zeros(1), 1, stream=0)
        self.assertNotIsInstance(raised.exception, tegula.Error)
        self.assertIn("no_such_function", tegula_triton.report().refused["triton_poi_refused_2"][1])


if __name__ == "__main__":
    unittest.main(verbosity=2)
