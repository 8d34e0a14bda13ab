// Checking and packing of launch arguments, without a device; workspaces of streams.
#include "runtime/launch.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <thread>

#include "runtime/workspace.h"
#include "tests/runtime/fake_gpu.h"

namespace tegula {
namespace {

// Keeps what it was launched with.
class RecordingKernel final : public LoadedKernel {
 public:
  explicit RecordingKernel(KernelImage image) : image_(std::move(image)) {}
  bool try_launch(Grid grid, void* const* args, StreamHandle stream) override {
    if (MappedArray arrays[TensorMaps::kMost]; !find_arrays(image_.tensor_maps, args, arrays)) return false;
    ++launches;
    this->grid = grid;
    this->stream = stream;
    values.clear();
    for (size_t i = 0; i < image_.params.size(); ++i) {
      uint64_t value = 0;  // read in the parameter's own size, as a kernel does
      const ImageParam& p = image_.params[i];
      std::memcpy(&value, args[i], p.pointer ? 8 : size_t(elem_bytes(p.elem)));
      values.push_back(value);
    }
    return true;
  }
  const KernelImage& image() const override { return image_; }

  int launches = 0;
  Grid grid;
  StreamHandle stream = nullptr;
  std::vector<uint64_t> values;

 private:
  KernelImage image_;
};

KernelImage image_of(std::vector<ImageParam> params) {
  KernelImage image;
  image.kernel = "k";
  image.params = std::move(params);
  return image;
}

std::string refusal(const KernelImage& image, std::vector<Arg> args) {
  std::string from_pack = "(accepted)", from_handle = "(accepted)";
  try {
    ArgPack(image, args);
  } catch (const LaunchError& error) {
    from_pack = error.what();
  }
  try {
    LaunchHandle(std::make_shared<RecordingKernel>(image)).launch(nullptr, {1}, args);
  } catch (const LaunchError& error) {
    from_handle = error.what();
  }
  EXPECT_EQ(from_pack, from_handle);
  return from_pack;
}

std::string refusal(ImageParam param, Arg arg) { return refusal(image_of({std::move(param)}), {arg}); }

uint64_t packed(Elem elem, Arg arg) {
  auto kernel = std::make_shared<RecordingKernel>(image_of({{"x", elem, false, 1}}));
  LaunchHandle{kernel}(nullptr, {1}, arg);
  return kernel->values.at(0);
}

TEST(Launch, PassesEverythingOn) {
  auto kernel = std::make_shared<RecordingKernel>(image_of({{"p", Elem::F32, true, 16},
                                                            {"n", Elem::I32, false, 1},
                                                            {"m", Elem::U64, false, 1},
                                                            {"eps", Elem::F32, false, 1},
                                                            {"flag", Elem::I1, false, 1}}));
  LaunchHandle handle(kernel);
  int stream = 0;
  handle(&stream, {2, 3, 4}, reinterpret_cast<float*>(0x100), -5, 7u, 1.5, true);
  EXPECT_EQ(kernel->values, (std::vector<uint64_t>{0x100, uint32_t(-5), 7, std::bit_cast<uint32_t>(1.5f), 1}));
  EXPECT_EQ(kernel->grid.x, 2u);
  EXPECT_EQ(kernel->grid.z, 4u);
  EXPECT_EQ(kernel->stream, &stream);
  LaunchHandle copy = handle;
  copy(&stream, {1}, Arg::pointer(0x200), int64_t(6), uint8_t(8), 2.5f, false);
  EXPECT_EQ(kernel->values, (std::vector<uint64_t>{0x200, 6, 8, std::bit_cast<uint32_t>(2.5f), 0}));
  EXPECT_EQ(kernel->launches, 2);
}

TEST(Launch, KernelWithoutArguments) {
  auto kernel = std::make_shared<RecordingKernel>(image_of({}));
  LaunchHandle{kernel}(nullptr, {1});
  EXPECT_EQ(kernel->launches, 1);
  EXPECT_EQ(refusal(kernel->image(), {1}), "kernel 'k' takes 0 arguments (), found 1");
}

TEST(Launch, WrongCount) {
  KernelImage image = image_of({{"out", Elem::F32, true, 16}, {"n", Elem::I32, false, 1}});
  EXPECT_EQ(refusal(image, {1}), "kernel 'k' takes 2 arguments (out: *f32, n: i32), found 1");
  EXPECT_EQ(refusal(image_of({{"n", Elem::I32, false, 1}}), {}), "kernel 'k' takes 1 argument (n: i32), found 0");
}

TEST(Launch, WrongType) {
  EXPECT_EQ(refusal({"n", Elem::I32, false, 1}, 1.5),
            "kernel 'k', argument 'n': expected i32, found the floating-point number 1.5");
  EXPECT_EQ(refusal({"n", Elem::I32, false, 1}, true), "kernel 'k', argument 'n': expected i32, found the bool true");
  EXPECT_EQ(refusal({"eps", Elem::F32, false, 1}, reinterpret_cast<float*>(16)),
            "kernel 'k', argument 'eps': expected f32, found a pointer to f32");
  EXPECT_EQ(refusal({"flag", Elem::I1, false, 1}, 1u),
            "kernel 'k', argument 'flag': expected i1, found the unsigned integer 1");
  EXPECT_EQ(refusal({"n", Elem::I64, false, 1}, Arg::pointer(16)),
            "kernel 'k', argument 'n': expected i64, found a pointer");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 1}, uint64_t(4096)),
            "kernel 'k', argument 'x': expected *f32, found the unsigned integer 4096\n"
            "  hint: pass a Buffer, a pointer to device memory, or Arg::pointer(address)");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 1}, reinterpret_cast<double*>(16)),
            "kernel 'k', argument 'x': expected *f32, found a pointer to f64");
  EXPECT_EQ(refusal({"x", Elem::F16, true, 1}, Arg::pointer(16, Elem::BF16)),
            "kernel 'k', argument 'x': expected *f16, found a pointer to bf16");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 1}, reinterpret_cast<void*>(16)), "(accepted)");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 1}, reinterpret_cast<const float*>(16)), "(accepted)");
}

TEST(Launch, TheFirstWrongArgumentIsNamed) {
  KernelImage image = image_of({{"a", Elem::I32, false, 1}, {"b", Elem::I32, false, 1}, {"c", Elem::I32, false, 1}});
  EXPECT_EQ(refusal(image, {1, 2.0, 3.0}), "kernel 'k', argument 'b': expected i32, found the floating-point number 2");
}

TEST(Launch, Pointers) {
  EXPECT_EQ(refusal({"x", Elem::F32, true, 16}, nullptr),
            "kernel 'k', argument 'x': expected *f32, found a null pointer");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 16}, static_cast<float*>(nullptr)), "(accepted)");  // an empty tensor
  EXPECT_EQ(refusal({"x", Elem::F32, true, 16}, Buffer()),
            "kernel 'k', argument 'x': expected *f32, found a null pointer");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 16}, Arg::pointer(0x7f0008)),
            "kernel 'k', argument 'x': address 0x7f0008 is not a multiple of 16, which the kernel was compiled for\n"
            "  hint: pass an aligned address, or compile the kernel without this assumption: 'x=*f32:4' in place of "
            "'x=*f32:16'");
  EXPECT_EQ(refusal({"x", Elem::F32, true, 1}, Arg::pointer(0x7f0008)), "(accepted)");
  EXPECT_EQ(refusal({"x", Elem::F64, true, 1}, Arg::pointer(0x7f0004)),
            "kernel 'k', argument 'x': address 0x7f0004 is not a multiple of 8, which *f64 needs");
}

TEST(Launch, Divisibility) {
  ImageParam n{"n", Elem::I32, false, 16};
  EXPECT_EQ(refusal(n, 1000),
            "kernel 'k', argument 'n': 1000 is not a multiple of 16, which the kernel was compiled for\n"
            "  hint: compile the kernel without this assumption: 'n=i32' in place of 'n=i32:16'");
  for (int value : {0, 16, -32, 1024}) EXPECT_EQ(refusal(n, value), "(accepted)") << value;
  n.divisible_by = 12;
  EXPECT_EQ(refusal(n, -24), "(accepted)");
  EXPECT_EQ(refusal(n, 24u), "(accepted)");
  EXPECT_EQ(refusal(n, 16).substr(0, 55), "kernel 'k', argument 'n': 16 is not a multiple of 12, w");
}

TEST(Launch, Ranges) {
  EXPECT_EQ(refusal({"n", Elem::I32, false, 1}, int64_t(1) << 31),
            "kernel 'k', argument 'n': 2147483648 does not fit i32 (-2147483648 to 2147483647)");
  EXPECT_EQ(refusal({"n", Elem::U8, false, 1}, -1), "kernel 'k', argument 'n': -1 does not fit u8 (0 to 255)");
  EXPECT_EQ(refusal({"n", Elem::U64, false, 1}, -1),
            "kernel 'k', argument 'n': -1 does not fit u64 (0 to 18446744073709551615)");
  EXPECT_EQ(refusal({"n", Elem::I64, false, 1}, std::numeric_limits<uint64_t>::max()),
            "kernel 'k', argument 'n': 18446744073709551615 does not fit i64 (-9223372036854775808 to "
            "9223372036854775807)");
  // Each limit and its neighbour, from signed and unsigned values.
  struct Limit {
    Elem elem;
    int64_t low;
    uint64_t high;
  };
  for (Limit l : {Limit{Elem::I8, -128, 127},
                  {Elem::I16, -32768, 32767},
                  {Elem::U8, 0, 255},
                  {Elem::U16, 0, 65535},
                  {Elem::I32, INT32_MIN, INT32_MAX},
                  {Elem::U32, 0, UINT32_MAX}}) {
    ImageParam p{"n", l.elem, false, 1};
    EXPECT_EQ(refusal(p, l.low), "(accepted)");
    EXPECT_EQ(refusal(p, int64_t(l.high)), "(accepted)");
    EXPECT_EQ(refusal(p, l.high), "(accepted)");
    EXPECT_NE(refusal(p, l.low - 1), "(accepted)");
    EXPECT_NE(refusal(p, int64_t(l.high + 1)), "(accepted)");
    EXPECT_NE(refusal(p, l.high + 1), "(accepted)");
  }
  EXPECT_EQ(refusal({"n", Elem::I64, false, 1}, INT64_MIN), "(accepted)");
  EXPECT_EQ(refusal({"n", Elem::U64, false, 1}, UINT64_MAX), "(accepted)");
}

TEST(Launch, FloatsAreRounded) {
  EXPECT_EQ(packed(Elem::F64, 0.1), std::bit_cast<uint64_t>(0.1));
  EXPECT_EQ(packed(Elem::F32, 0.1), std::bit_cast<uint32_t>(0.1f));
  // Integers and bools as Python's float() has them.
  EXPECT_EQ(packed(Elem::F32, 2), std::bit_cast<uint32_t>(2.0f));
  EXPECT_EQ(packed(Elem::F32, -3), std::bit_cast<uint32_t>(-3.0f));
  EXPECT_EQ(packed(Elem::F32, (1 << 24) + 1), std::bit_cast<uint32_t>(16777216.0f));
  EXPECT_EQ(packed(Elem::F64, UINT64_MAX), std::bit_cast<uint64_t>(0x1p64));
  EXPECT_EQ(packed(Elem::F16, 70000), 0x7c00u);
  EXPECT_EQ(packed(Elem::F32, true), std::bit_cast<uint32_t>(1.0f));
  const double inf = std::numeric_limits<double>::infinity();
  struct Case {
    double value;
    uint64_t half, brain;
  };
  for (Case c : {Case{0.0, 0x0000, 0x0000},
                 {-0.0, 0x8000, 0x8000},
                 {1.0, 0x3c00, 0x3f80},
                 {-2.5, 0xc100, 0xc020},
                 {65504, 0x7bff, 0x4780},
                 {65519.9, 0x7bff, 0x4780},
                 {65520, 0x7c00, 0x4780},          // half: ties to infinity
                 {1.00048828125, 0x3c00, 0x3f80},  // half: 1 + 2^-11 ties to even, down
                 {1.00146484375, 0x3c02, 0x3f80},  // half: 1 + 3 * 2^-11 ties to even, up
                 {1.00390625, 0x3c04, 0x3f80},     // bf16: 1 + 2^-8 ties to even, down
                 {0x1p-24, 0x0001, 0x3380},        // the smallest half
                 {0x1p-25, 0x0000, 0x3300},
                 {0x1p-14, 0x0400, 0x3880},
                 {0x1.ffcp-15, 0x0400, 0x3880},  // subnormal that rounds up to the smallest normal
                 {inf, 0x7c00, 0x7f80},
                 {-inf, 0xfc00, 0xff80},
                 {1e300, 0x7c00, 0x7f80}}) {
    EXPECT_EQ(packed(Elem::F16, c.value), c.half) << c.value;
    EXPECT_EQ(packed(Elem::BF16, c.value), c.brain) << c.value;
  }
  EXPECT_EQ(packed(Elem::F16, std::numeric_limits<double>::quiet_NaN()) & 0x7fff, 0x7e00u);
}

StreamHandle handle(uintptr_t value) { return reinterpret_cast<StreamHandle>(value); }

TEST(Workspaces, OneAStream) {
  FakeGpu gpu;
  const Workspace first = gpu.workspace(handle(16), 1000), other = gpu.workspace(handle(32), 1000);
  EXPECT_EQ(gpu.workspace(handle(16), 500).partials, first.partials);
  EXPECT_EQ(gpu.workspace(handle(16), 500).counters, first.counters);
  EXPECT_NE(other.partials, first.partials);
  EXPECT_NE(other.counters, first.counters);
  EXPECT_GE(first.bytes, 1000u);
  EXPECT_EQ(gpu.allocated_bytes(first.counters), 4u * Workspace::kCounters);
  std::vector<int32_t> counters(Workspace::kCounters, 1);
  gpu.copy_to_host(counters.data(), first.counters, 4 * counters.size(), nullptr);
  EXPECT_EQ(std::count(counters.begin(), counters.end(), 0), Workspace::kCounters);
}

// A workspace that is outgrown, and that of a stream that ends, stay as long as somebody is about to launch with them.
TEST(Workspaces, GrowBesideWhatIsInUse) {
  FakeGpu gpu;
  Workspace before = gpu.workspace(handle(16), 1000), after = gpu.workspace(handle(16), 1001);
  EXPECT_NE(after.partials, before.partials);
  EXPECT_NE(after.counters, before.counters);
  EXPECT_GE(after.bytes, 2000u);
  EXPECT_EQ(gpu.workspace(handle(16), 2000).partials, after.partials);
  EXPECT_GT(gpu.allocated_bytes(before.partials), 0u);
  before.owner.reset();
  EXPECT_EQ(gpu.allocated_bytes(before.partials), 0u);
  gpu.destroy_stream(handle(16));
  EXPECT_GT(gpu.allocated_bytes(after.partials), 0u);
  after.owner.reset();
  EXPECT_EQ(gpu.allocated_bytes(after.partials), 0u);
  EXPECT_EQ(gpu.allocated_bytes(after.counters), 0u);
}

// A driver gives the handle of a stream that has ended to a new one, while work of the old one may still run.
TEST(Workspaces, OfStreamsWithOneHandle) {
  FakeGpu gpu;
  const Workspace before = gpu.workspace(handle(16), 1000);
  ++gpu.generation;
  EXPECT_NE(gpu.workspace(handle(16), 1000).partials, before.partials);
}

// Of the streams of other libraries, whose end nobody tells, the ones used last keep theirs.
TEST(Workspaces, AreBounded) {
  FakeGpu gpu;
  const uint64_t often = gpu.workspace(handle(16), 1000).partials, once = gpu.workspace(handle(32), 1000).partials;
  for (uintptr_t i = 3; i < 200; ++i) {
    gpu.workspace(handle(16 * i), 1000);
    EXPECT_EQ(gpu.workspace(handle(16), 1000).partials, often);
  }
  EXPECT_GT(gpu.allocated_bytes(often), 0u);
  EXPECT_EQ(gpu.allocated_bytes(once), 0u);
}

// A graph may run while later launches on the stream that it was captured on do.
TEST(Workspaces, OfCapturedLaunchesAreApart) {
  FakeGpu gpu;
  const Workspace live = gpu.workspace(handle(16), 1000);
  gpu.begin_capture(handle(16));
  Workspace captured = gpu.workspace(handle(16), 1000);
  gpu.end_capture(handle(16));
  EXPECT_NE(captured.partials, live.partials);
  EXPECT_NE(captured.counters, live.counters);
  EXPECT_EQ(gpu.workspace(handle(16), 1000).partials, live.partials);
  // Graphs outlive streams and growth.
  gpu.begin_capture(handle(16));
  EXPECT_NE(gpu.workspace(handle(16), 5000).partials, captured.partials);
  gpu.end_capture(handle(16));
  gpu.destroy_stream(handle(16));
  captured.owner.reset();
  EXPECT_GT(gpu.allocated_bytes(captured.partials), 0u);
}

// Launches that leave data in a workspace for each other have it alone; others use it side by side.
TEST(Workspaces, SeveralLaunchesHaveItAlone) {
  FakeGpu gpu;
  std::atomic<int> users = 0;
  auto use = [&](WorkspaceUse how) {
    const Workspace workspace = gpu.workspace(handle(16), 1000, how);
    ++users;
  };
  {
    Workspace one = gpu.workspace(handle(16), 1000);
    std::thread(use, WorkspaceUse::OneLaunch).join();
    EXPECT_EQ(users, 1);
    std::thread several(use, WorkspaceUse::SeveralLaunches);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(users, 1) << "while another thread is about to launch";
    one.owner.reset();
    several.join();
  }
  EXPECT_EQ(users, 2);
  Workspace mine = gpu.workspace(handle(16), 1000, WorkspaceUse::SeveralLaunches);
  std::thread several(use, WorkspaceUse::SeveralLaunches);
  std::thread other([&] { gpu.workspace(handle(32), 1000, WorkspaceUse::SeveralLaunches); });
  other.join();  // of another stream
  std::thread one(use, WorkspaceUse::OneLaunch);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(users, 2);
  mine.owner.reset();
  one.join();
  several.join();
  EXPECT_EQ(users, 4);
}

TEST(LaunchHandle, TakesOtherCodeWhereArgumentsAllowNoTensorMap) {
  KernelImage image = image_of({{"p", Elem::F16, true, 2}, {"n", Elem::I32, false, 1}});
  auto without = std::make_shared<RecordingKernel>(image);
  image.tensor_maps.steps = {{LaunchStep::Argument, Elem::U64, {}, 0}, {LaunchStep::Argument, Elem::I32, {}, 1}};
  image.tensor_maps.maps = {{Elem::F16, 0, {64}, 0, {1}, {}}};
  auto with = std::make_shared<RecordingKernel>(image);
  int made = 0;
  const LaunchHandle handle(with, [&] { return ++made, without; });
  auto launch = [&](const LaunchHandle& h, uint64_t address, int n) {
    h(nullptr, {3}, Arg::pointer(address, Elem::F16), n);
    return std::pair(with->launches, without->launches);
  };
  EXPECT_EQ(launch(handle, 0x100, 64), std::pair(1, 0));
  EXPECT_EQ(made, 0);
  EXPECT_EQ(launch(handle, 0x102, 64), std::pair(1, 1));
  EXPECT_EQ(without->values, (std::vector<uint64_t>{0x102, 64}));
  EXPECT_EQ(without->grid, (Grid{3}));
  EXPECT_EQ(launch(handle, 0x100, 0), std::pair(1, 2));
  LaunchHandle copy(handle);
  EXPECT_EQ(launch(copy, 0x104, 64), std::pair(1, 3));
  EXPECT_EQ(made, 1);
  const std::vector<Arg> span = {Arg::pointer(0x108, Elem::F16), 64};
  copy.launch(nullptr, {3}, span);
  EXPECT_EQ(without->launches, 4);
  try {
    launch(LaunchHandle(with), 0x102, 64);
    FAIL();
  } catch (const LaunchError& e) {
    EXPECT_EQ(std::string(e.what()),
              "kernel 'k' copies arrays in bulk, which this launch does not allow: array 0: its address 0x102 is not a "
              "multiple of 16\n  hint: compile it with bulk_copies=1");
  }
}

}  // namespace
}  // namespace tegula
