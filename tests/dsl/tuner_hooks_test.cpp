// label: device
// What runs around the timed launches of tuning: buffers that are zeroed or restored, hooks of programs and of files.
#include <array>
#include <latch>
#include <thread>
#include <utility>

#include "codegen/exec/emulator.h"
#include "tests/dsl/tuner_fixture.h"

namespace tegula {
namespace {

TEST_F(Tuner, BuffersAreZeroedOrRestored) {
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::vector<float> host(1000, 3.f);
  y.upload(host);
  Autotune tuning = over_warps();
  tuning.restore_value = {"out"};
  kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_GT(gpu.copies(), 10);
  EXPECT_EQ(y.download<float>(), host);
  tuning.restore_value.clear();
  tuning.reset_to_zero = {"out"};
  kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1008);
  EXPECT_EQ(y.download<float>(), std::vector<float>(1000, 0.f));
  EXPECT_CONTAINS(message_of([&] {
                    kernel().autotune(tuning).launch(gpu, blocks, {}, Arg::pointer(0x4000, Elem::F32), x.as<float>(),
                                                     96);
                  }),
                  "reset_to_zero names 'out', but how large its buffer is is not known");
}

// A hook's launch waits for another thread that tunes the same problem, which in turn times on the device.
TEST_F(Tuner, HooksLaunchWhatAnotherThreadTunes) {
  FakeGpu gpu;
  best_is_four(gpu);
  Kernel inner = kernel().autotune(over_warps());
  Buffer x(gpu, 4000), y(gpu, 4000);
  std::latch tuned(1), hooked(1);
  std::thread other([&] {
    bool first = true;
    auto grid = [&](const Config& c) {
      if (std::exchange(first, false)) tuned.count_down(), hooked.wait();
      return blocks(c);
    };
    inner.launch(gpu, grid, {}, y.as<float>(), x.as<float>(), 1000);
  });
  tuned.wait();
  Autotune tuning = over_warps();
  bool first = true;
  tuning.pre_hook = [&](HookedLaunch&, bool) {
    if (std::exchange(first, false)) hooked.count_down();
    inner.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  };
  Kernel outer = kernel().autotune(std::move(tuning));
  outer.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 500);
  other.join();
  const std::array<Arg, 3> args{Arg(y.as<float>()), Arg(x.as<float>()), Arg(1000)};
  auto grid = [](const Config& c) { return blocks(c); };
  EXPECT_EQ(inner.ready(gpu, detail::GridRef(grid), {}, args).config->num_warps, 4);
}

TEST_F(Tuner, HooksAroundTimedRuns) {
  FakeGpu gpu;
  best_is_four(gpu);
  Buffer x(gpu, 4000), y(gpu, 4000);
  int before = 0, resets = 0, after = 0, own = 0;
  Autotune tuning = over_warps();
  tuning.pre_hook = [&](HookedLaunch& launch, bool reset_only) {
    ++(reset_only ? resets : before);
    EXPECT_EQ(launch.args().integer("n"), 1000);
    EXPECT_EQ(launch.args().integer("BLOCK"), 256);
    EXPECT_EQ(launch.args().integer("num_ctas"), 1);
    if (reset_only) {
      EXPECT_EQ(launch.args().integer("num_warps"), 4);
    }
  };
  tuning.post_hook = [&](HookedLaunch&, const char* error) {
    ++after;
    EXPECT_EQ(error, nullptr);
  };
  tuning.configs[2].pre_hook = [&](HookedLaunch& launch) {
    ++own;
    launch.zero("out");
  };
  Kernel k = kernel().autotune(tuning);
  auto launch = [&] { k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000); };
  launch();
  const int timed = int(gpu.launches().size()) - 1, own_in_tuning = own;
  EXPECT_EQ(before, timed);
  EXPECT_EQ(after, timed);
  EXPECT_EQ(resets, 1);
  EXPECT_GT(own_in_tuning, 3);
  y.upload(std::vector<float>(1000, 3.f));
  launch();
  EXPECT_EQ(own, own_in_tuning + 1);
  EXPECT_EQ(before, timed);
  EXPECT_EQ(y.download<float>(), std::vector<float>(1000, 0.f));

  tuning.pre_hook = [](HookedLaunch&, bool) { throw LaunchError("what the hook says"); };
  EXPECT_EQ(message_of([&] { kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 96); }),
            "what the hook says");
  tuning.pre_hook = [](HookedLaunch& launch, bool) { launch.zero("n"); };
  EXPECT_EQ(message_of([&] { kernel().autotune(tuning).launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 96); }),
            "kernel 'scale': a hook asks for the memory of 'n', which is no pointer or descriptor of the launch\n"
            "  hint: it has out, x");
}

TEST_F(Tuner, HooksOfTheFile) {
  const std::string text = std::string(kText).replace(std::string(kText).find("@triton.jit"), 0, R"(
def clear(args, reset_only=False):
    if args["n"] > 100 and not reset_only:
        args["out"].zero_()


@triton.autotune([triton.Config({"BLOCK": 256}, num_warps=w, pre_hook=lambda args: args["x"].fill_(0)) for w in (2, 4)],
                 key=["n"], pre_hook=clear, post_hook=lambda args, exception: args["out"].nonzero() if args["n"] < 9 else 0)
)");
  FakeGpu gpu;
  Buffer x(gpu, 4000), y(gpu, 4000);
  x.upload(std::vector<float>(1000, 2.f));
  y.upload(std::vector<float>(1000, 3.f));
  Kernel k = kernel(text.c_str());
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 96);
  EXPECT_EQ(x.download<float>(), std::vector<float>(1000, 0.f));
  EXPECT_EQ(y.download<float>(), std::vector<float>(1000, 3.f));
  k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 1000);
  EXPECT_EQ(y.download<float>(), std::vector<float>(1000, 0.f));
  EXPECT_EQ(message_of([&] { k.launch(gpu, blocks, {}, y.as<float>(), x.as<float>(), 8); }),
            R"(scale.py:12:79: error: 'nonzero' of the tensor 'out' is not known: a launch gets pointers
                     key=["n"], pre_hook=clear, post_hook=lambda args, exception: args["out"].nonzero() if args["n"] < 9 else 0)
                                                                                  ^~~~~~~~~~~~~~~~~~~
  hint: known are dtype, element_size() and data_ptr(); pass extents and strides as arguments; or hooks can be given in C++ (Autotune::pre_hook, Config::pre_hook) and Python (kernel.with_hooks) as well
  see docs/language.md#decorators
)");
}

TEST_F(Tuner, AHookGivesDescriptorsTheirBlocks) {
  const char* text = R"(
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor


def set_blocks(nargs):
    if isinstance(nargs["d"], TensorDescriptor):
        nargs["d"].block_shape = [nargs["ROWS"], 16]


@triton.autotune([triton.Config({"ROWS": r}, pre_hook=set_blocks) for r in (4, 2)], key=[])
@triton.jit
def scale(out, d, ROWS: tl.constexpr):
    x = d.load([tl.program_id(0) * ROWS, 0])
    i = tl.arange(0, ROWS)[:, None] * 16 + tl.arange(0, 16)[None, :]
    tl.store(out + tl.program_id(0) * ROWS * 16 + i, x + 1)
)";
  auto device = make_emulator();
  std::vector<float> host(8 * 16), expected;
  for (size_t i = 0; i < host.size(); ++i) host[i] = float(i), expected.push_back(float(i) + 1);
  Buffer x(*device, host), y(*device, x.bytes());
  const TensorDescriptor d{x.as<float>(), {8, 16}, {16, 1}, {1, 1}};
  Kernel k = kernel(text);
  for (int again = 0; again < 2; ++again) {
    y.upload(std::vector<float>(host.size(), 0.f));
    k.launch(
        *device, [](const Config& c) { return Grid{unsigned(8 / c["ROWS"])}; }, {}, y.as<float>(), d);
    EXPECT_EQ(y.download<float>(), expected);
  }
}

}  // namespace
}  // namespace tegula
