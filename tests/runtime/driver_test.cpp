// The driver table, the CUDA device and what stands on it, over a driver that fails on demand.
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <array>
#include <thread>

#include "runtime/driver/link.h"
#include "runtime/launch.h"
#include "runtime/memory.h"
#include "runtime/sealing.h"
#include "runtime/stream.h"
#include "runtime/timing.h"
#include "runtime/workspace.h"
#include "tests/message_of.h"
#include "tests/runtime/driver_fixture.h"
#include "tests/runtime/lost_device.h"

namespace tegula {
namespace {

TEST_F(DriverTest, NoLibrary) {
  EXPECT_EQ(message_of<DeviceError>([] { Driver::open("libno-such-cuda.so.1"); }),
            "no CUDA driver: libno-such-cuda.so.1 cannot be loaded (libno-such-cuda.so.1: cannot open shared object "
            "file: No such file or directory)\n"
            "  hint: install the NVIDIA driver (CUDA 12.0 or later); without a GPU, programs that link "
            "libtegula run on the emulator (TEGULA_DEVICE=emulator)");
}

TEST_F(DriverTest, MissingSymbols) {
  driver_.absent = {"cuGraphLaunch", "cuLinkComplete"};
  EXPECT_EQ(message_of<DeviceError>([&] { open(); }),
            "the CUDA driver lacks cuGraphLaunch, cuLinkComplete\n  hint: reinstall or update the NVIDIA driver");
}

TEST_F(DriverTest, OptionalSymbolMayBeMissing) {
  driver_.absent = {"cuFuncLoad"};
  auto device = open();
  EXPECT_NE(device->load(softmax_image()), nullptr);
  EXPECT_EQ(count("cuFuncLoad"), 0);
}

TEST_F(DriverTest, TooOldSaysSoEvenIfSymbolsAreMissing) {
  driver_.version = 11080;
  driver_.absent = {"cuGraphInstantiateWithFlags"};
  EXPECT_EQ(message_of<DeviceError>([&] { open(); }),
            "the CUDA driver is too old: it supports CUDA 11.8, Tegula needs 12.0 or later\n"
            "  hint: update the NVIDIA driver; meanwhile the emulator can be used");
}

TEST_F(DriverTest, NoDevice) {
  driver_.fail["cuInit"] = Result::NoDevice;
  const char* hint =
      "\n  hint: the driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; without a GPU, programs that link "
      "libtegula run on the emulator (TEGULA_DEVICE=emulator)";
  EXPECT_EQ(message_of<DeviceError>([&] { open(); }),
            std::string("cuInit failed: CUDA_ERROR_NO_DEVICE (the driver's words)") + hint);
  driver_.fail.clear();
  driver_.device_count = 0;
  EXPECT_EQ(message_of<DeviceError>([&] { open(); }),
            std::string("cuDeviceGetCount failed: CUDA_ERROR_NO_DEVICE (the driver's words)") + hint);
}

TEST_F(DriverTest, NoSuchOrdinal) {
  EXPECT_EQ(message_of<DeviceError>([&] { open_cuda_device(Driver::from(fake::lookup), 3); }),
            "there is no GPU 3: the driver has 1, counted from 0\n"
            "  hint: see CUDA_VISIBLE_DEVICES for which GPUs this process may use");
}

TEST_F(DriverTest, UnknownErrorHasItsNumber) {
  driver_.fail["cuStreamCreate"] = Result(12345);
  auto device = open();
  EXPECT_EQ(message_of<DeviceError>([&] { device->create_stream(); }), "cuStreamCreate failed: error 12345");
}

TEST_F(DriverTest, Info) {
  auto device = open();
  EXPECT_EQ(device->info().name, "Fake GPU");
  EXPECT_EQ(device->info().sm, 90);
  EXPECT_EQ(device->info().num_sms, 132);
  EXPECT_EQ(device->info().driver_version, 12040);
  EXPECT_EQ(device->info().shared_per_program, 232448);
  EXPECT_FALSE(device->info().emulator);
}

TEST_F(DriverTest, OutOfMemory) {
  auto device = open();
  driver_.fail["cuMemAlloc_v2"] = Result::OutOfMemory;
  EXPECT_EQ(message_of<DeviceError>([&] { Buffer(*device, 8192); }),
            "cuMemAlloc_v2 failed: CUDA_ERROR_OUT_OF_MEMORY (out of memory)\n"
            "  note: asked for 8192 bytes on Fake GPU, which has 4096 of 1073741824 bytes free\n"
            "  hint: free device memory (other processes on this GPU hold some too: see nvidia-smi) or work on smaller "
            "pieces");
  driver_.fail.clear();
  EXPECT_NE(Buffer(*device, 16).address(), 0u);  // and goes on
}

TEST_F(DriverTest, BuffersGoThereAndBack) {
  auto device = open();
  std::vector<float> host = {1, 2, 3};
  Buffer buffer(*device, host);
  EXPECT_EQ(buffer.bytes(), 12u);
  Buffer moved = std::move(buffer);
  EXPECT_FALSE(buffer);
  EXPECT_EQ(moved.download<float>(), host);
  moved.fill(0);
  EXPECT_EQ(moved.download<int>(), (std::vector{0, 0, 0}));
  EXPECT_EQ(message_of<DeviceError>([&] { moved.upload(std::array<double, 2>{}); }),
            "upload of 16 bytes, but the buffer has 12");
  EXPECT_NE(Buffer(*device, 0).address(), 0u);
  moved = Buffer();
  EXPECT_TRUE(driver_.memory.empty());
}

TEST_F(DriverTest, ContextIsMadeCurrentOnceAThreadAndForeignOnesComeBack) {
  auto device = open();
  Buffer a(*device, 16), b(*device, 16);
  EXPECT_EQ(count("cuCtxSetCurrent"), 1);
  EXPECT_EQ(count("cuCtxPushCurrent_v2"), 0);
  auto foreign = fake::handle<cuda::Context>(0xbad);
  fake::current_context = foreign;
  auto kernel = device->load(softmax_image());
  kernel->launch({1}, nullptr, nullptr);
  EXPECT_EQ(fake::current_context, foreign);
  EXPECT_EQ(count("cuLaunchKernel"), 1);
  std::thread([&] { kernel->launch({1}, nullptr, nullptr); }).join();
  EXPECT_EQ(count("cuLaunchKernel"), 2);
  kernel = nullptr;
  EXPECT_EQ(fake::current_context, foreign);
}

TEST_F(DriverTest, AssemblerIsWarmedOnAThreadAndJoined) {
  const CudaOptions warm{.warm_assembler = true, .assembler_library = "libdl.so.2", .on_assembled = {}};
  { auto device = open(warm); }
  EXPECT_EQ(count("cuLinkComplete"), 1);
  // Its failure is nobody's business.
  driver_.fail["cuLinkCreate_v2"] = Result::JitCompilerNotFound;
  { auto device = open(warm); }
  EXPECT_EQ(count("cuLinkCreate_v2"), 2);
  // Where its library is not found, it is loaded when the first kernel needs it.
  { auto device = open({.warm_assembler = true, .assembler_library = "libno-such.so.1", .on_assembled = {}}); }
  EXPECT_EQ(count("cuLinkCreate_v2"), 2);
}

TEST_F(DriverTest, AssemblesPtxAndReadsTheReport) {
  driver_.info_log =
      "info    : 0 bytes gmem\n"
      "info    : Compiling entry function 'softmax' for 'sm_90a'\n"
      "info    : Function properties for softmax\n"
      "    32 bytes stack frame, 16 bytes spill stores, 20 bytes spill loads\n"
      "info    : Used 128 registers, used 1 barriers, 32 bytes cumulative stack size\n";
  std::string told;
  auto device =
      open({.warm_assembler = false,
            .assembler_library = "",
            .on_assembled = [&](const std::string& kernel, const std::string& log) { told = kernel + ": " + log; }});
  auto kernel = device->load(softmax_image());
  EXPECT_EQ(kernel->image().registers, 128);
  EXPECT_EQ(kernel->image().spill_bytes, 16);
  EXPECT_EQ(std::string(kernel->image().cubin.begin(), kernel->image().cubin.end()), "cubin");
  EXPECT_EQ(driver_.linked_ptx, softmax_image().ptx + '\0');
  EXPECT_EQ(told, "softmax: " + driver_.info_log);
  EXPECT_EQ(driver_.link_options.size(), 5u);  // no line information asked for
  KernelImage with_lines = softmax_image();
  with_lines.ptx += "\t.loc 1 2 3\n";
  device->load(with_lines);
  EXPECT_EQ(driver_.link_options.back(), cuda::JitOption::GenerateLineInfo);
}

// In relocatable code the compiler takes registers as it likes; it is told how many programs are to run at a time.
TEST_F(DriverTest, AsManyProgramsRunAsFitWithoutSpills) {
  KernelImage image = softmax_image();
  image.ptx = ".version 8.7\n.target sm_90a\n.visible .entry softmax()\n.reqntid 256\n{ ret; }\n";
  driver_.info_log = report(0, 80);
  driver_.bounded_logs[".minnctapersm 8\n"] = report(0, 32);
  auto device = open();
  EXPECT_EQ(device->load(image)->image().registers, 32);
  EXPECT_NE(driver_.linked_ptx.find("\n.reqntid 256\n.minnctapersm 8\n{ ret; }"), std::string::npos);
  EXPECT_EQ(device->load(image)->image().ptx, image.ptx);
  // By how much is spilled, with 15 registers more: five programs.
  driver_.bounded_logs[".minnctapersm 8\n"] = report(100, 32);
  driver_.bounded_logs[".minnctapersm 5\n"] = report(0, 48);
  EXPECT_EQ(device->load(image)->image().registers, 48);
  // One less where that spills a little, and as the compiler likes where two do not fit either.
  driver_.bounded_logs[".minnctapersm 5\n"] = report(4, 48);
  driver_.bounded_logs[".minnctapersm 4\n"] = report(0, 64);
  EXPECT_EQ(device->load(image)->image().registers, 64);
  for (int programs = 2; programs <= 8; ++programs)
    driver_.bounded_logs[fmt::format(".minnctapersm {}\n", programs)] = report(4000, 32);
  EXPECT_EQ(device->load(image)->image().registers, 80);
  // Reports may be silent: then the code that is loaded tells, from which follow as many programs.
  driver_.bounded_logs[".minnctapersm 8\n"] = "info    : 0 bytes gmem\n";
  driver_.bounded_logs[".minnctapersm 5\n"] = report(0, 48);
  driver_.registers = 32, driver_.local_bytes = 100;
  EXPECT_EQ(device->load(image)->image().registers, 48);
  driver_.local_bytes = 0;
  EXPECT_EQ(device->load(image)->image().registers, 32);
  EXPECT_NE(driver_.linked_ptx.find(".minnctapersm 8\n"), std::string::npos);
  driver_.bounded_logs.clear();
  driver_.bounded_logs[".minnctapersm 8\n"] = report(0, 32);
  // Left as they are: bounds that PTX has itself, long texts, and what has room for one program alone.
  const std::vector<std::string> left{".reqntid 256\n.minnctapersm 2\n", ".maxnreg 40\n", std::string(100'000, ' ')};
  for (const std::string& text : left) {
    KernelImage other = image;
    other.ptx += text;
    EXPECT_EQ(device->load(other)->image().registers, 80) << text.substr(0, 80);
  }
  KernelImage large = image;
  large.shared_bytes = 200 << 10;
  EXPECT_EQ(device->load(large)->image().registers, 80);
}

// Products have 64 registers a thread at least; of their instructions some take so many that the compiler refuses less.
TEST_F(DriverTest, AsManyProgramsOfProductsAsHaveRegistersForTheirInstructions) {
  KernelImage image = softmax_image();
  image.ptx = ".version 8.7\n.target sm_90a\n.visible .entry softmax()\n.reqntid 256\n{ wgmma.mma_async; }\n";
  driver_.info_log = report(0, 168);
  driver_.bounded_logs[".minnctapersm 4\n"] = report(0, 62);
  auto device = open();
  EXPECT_EQ(device->load(image)->image().registers, 62);
  EXPECT_EQ(count("cuLinkCreate_v2"), 1);
  driver_.refused = {".minnctapersm 4\n"};
  driver_.bounded_logs[".minnctapersm 3\n"] = report(0, 80);
  EXPECT_EQ(device->load(image)->image().registers, 80);
  // 160 registers are two programs too many.
  driver_.bounded_logs[".minnctapersm 3\n"] = report(800, 80);
  EXPECT_EQ(device->load(image)->image().registers, 168);
  // Programs of two warps are left as they are.
  KernelImage small = image;
  small.num_warps = 2;
  driver_.bounded_logs[".minnctapersm"] = report(0, 64);
  EXPECT_EQ(device->load(small)->image().registers, 168);
  // What is refused anyhow is an error.
  driver_.refused = {"wgmma"};
  EXPECT_THROW(device->load(image), DeviceError);
}

// The linker's code is relocatable, in which registers cannot move.
TEST_F(DriverTest, PtxThatMovesRegistersIsNoPartOfALink) {
  driver_.info_log = "info    : Used 168 registers, used 1 barriers\n";
  KernelImage moving = softmax_image();
  moving.ptx += "// setmaxnreg.inc.sync.aligned.u32 240;\n";
  auto device = open();
  auto kernel = device->load(moving);
  EXPECT_EQ(driver_.linked_ptx, moving.ptx);
  EXPECT_EQ(kernel->image().registers, 168);
  EXPECT_TRUE(kernel->image().cubin.empty());
  EXPECT_EQ(count("cuModuleLoadDataEx"), 1);
  device->load(moving);
  EXPECT_EQ(count("cuModuleLoadDataEx"), 1) << "shared with a kernel that there is";
  kernel = nullptr;
  EXPECT_EQ(count("cuLinkCreate_v2"), 0);
  driver_.fail["cuModuleLoadDataEx"] = Result::InvalidPtx;
  driver_.error_log = "ptxas fatal   : aborted\n";
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(moving); }),
            "cuModuleLoadDataEx failed: CUDA_ERROR_INVALID_PTX (the driver's words)\n"
            "  note: assembling kernel 'softmax'; the driver's PTX compiler says:\n"
            "    ptxas fatal   : aborted");
}

TEST_F(DriverTest, KernelsOfTheSamePtxShareItsCode) {
  driver_.info_log = report(0, 40);
  auto device = open();
  KernelImage image = softmax_image();
  auto kernel = device->load(image);
  image.params[0].name = "other";
  {
    auto other = device->load(image);
    EXPECT_EQ(other->image().registers, 40);
    EXPECT_EQ(other->image().cubin, kernel->image().cubin);
    EXPECT_EQ(count("cuLinkCreate_v2"), 1);
    EXPECT_EQ(driver_.modules_open, 1);
  }
  // In other rooms other numbers of programs run at a time.
  image.shared_bytes = 2048;
  device->load(image);
  EXPECT_EQ(count("cuLinkCreate_v2"), 2);
  // Modules of asserts know where their kernel's failures go to.
  image = softmax_image();
  image.asserts.emplace_back();
  device->load(image);
  EXPECT_EQ(count("cuLinkCreate_v2"), 3);
  EXPECT_EQ(driver_.modules_open, 1);
  kernel = nullptr;
  EXPECT_EQ(driver_.modules_open, 0);
  device->load(softmax_image());
  EXPECT_EQ(count("cuLinkCreate_v2"), 4) << "nobody had it any more";
}

// What one thread assembles others wait for; if it fails each is told.
TEST_F(DriverTest, ThreadsThatLoadTheSamePtxAssembleItOnce) {
  auto device = open();
  auto load_all = [&] {
    std::vector<Shared<LoadedKernel>> kernels(4);
    std::atomic<int> failed{0};
    std::vector<std::thread> threads;
    for (auto& kernel : kernels)
      threads.emplace_back([&] {
        try {
          kernel = device->load(softmax_image());
        } catch (const DeviceError&) {
          ++failed;
        }
      });
    for (std::thread& t : threads) t.join();
    return int(failed);
  };
  EXPECT_EQ(load_all(), 0);
  EXPECT_LE(count("cuLinkCreate_v2"), 4);
  driver_.refused = {"softmax"};
  EXPECT_EQ(load_all(), 4);
}

TEST_F(DriverTest, PtxAloneIsRefusedBySealedProcesses) {
  auto in_sealed = [&](const KernelImage& image, const std::string& expected) {
    EXPECT_EXIT(
        {
          seal();
          auto device = open();
          const std::string found = message_of<DeviceError>([&] { device->load(image); });
          if (found != expected) fmt::print(stderr, "found: {}\nexpected: {}\n", found, expected);
          std::_Exit(found != expected);
        },
        testing::ExitedWithCode(0), "");
  };
  const std::string alone =
      "kernel 'softmax' is there as PTX alone, which the driver would have to assemble, and the process is sealed\n";
  KernelImage image = softmax_image();
  in_sealed(image, alone + "  hint: make it ready before seal(), or build the package where ptxas is");
  image.ptx += "// setmaxnreg.inc.sync.aligned.u32 240;\n";
  in_sealed(image,
            alone +
                "  hint: make it ready before seal(), or fill the cache or build the package where ptxas is, since "
                "drivers hand out no machine code of kernels whose warps pass registers");
}

TEST_F(DriverTest, AsksTheFunctionWhereTheReportIsSilent) {
  auto device = open();
  auto kernel = device->load(softmax_image());
  EXPECT_EQ(kernel->image().registers, 77);
  EXPECT_EQ(kernel->image().spill_bytes, 24);
}

TEST_F(DriverTest, CubinIsLoadedWithoutAssembling) {
  auto device = open();
  KernelImage image = softmax_image();
  image.cubin = {'c', 'u', 'b', 'i', 'n'};
  image.registers = 40;
  image.spill_bytes = 0;
  auto kernel = device->load(image);
  EXPECT_EQ(count("cuLinkCreate_v2"), 0);
  EXPECT_EQ(kernel->image(), image);
}

TEST_F(DriverTest, CubinOfAnotherGpu) {
  auto device = open();
  KernelImage image = softmax_image();
  image.cubin = {'o', 't', 'h', 'e', 'r'};
  driver_.local_bytes = 0;
  auto kernel = device->load(image);  // from its PTX
  EXPECT_EQ(count("cuLinkCreate_v2"), 1);
  image.ptx.clear();
  image.target = "sm_80";
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(image); }),
            "cuModuleLoadData failed: CUDA_ERROR_NO_BINARY_FOR_GPU (the driver's words)\n"
            "  note: loading kernel 'softmax', built for sm_80, on Fake GPU (compute capability 9.0)\n"
            "  hint: the code was built for another GPU: compile the kernel for this one");
}

TEST_F(DriverTest, AssemblerRefuses) {
  driver_.fail["cuLinkComplete"] = Result::InvalidPtx;
  driver_.error_log = "ptxas application ptx input, line 3; error   : Unknown symbol 'x'\nptxas fatal   : aborted\n";
  auto device = open();
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(softmax_image()); }),
            "cuLinkComplete failed: CUDA_ERROR_INVALID_PTX (the driver's words)\n"
            "  note: assembling kernel 'softmax'; the driver's PTX compiler says:\n"
            "    ptxas application ptx input, line 3; error   : Unknown symbol 'x'\n"
            "    ptxas fatal   : aborted\n"
            "    line 3: .visible .entry softmax() { ret; }");
  driver_.fail.clear();
  EXPECT_NE(device->load(softmax_image()), nullptr);
}

TEST_F(DriverTest, DriverOlderThanPtx) {
  driver_.fail["cuLinkAddData_v2"] = Result::UnsupportedPtxVersion;
  auto device = open();
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(softmax_image()); }),
            "cuLinkAddData_v2 failed: CUDA_ERROR_UNSUPPORTED_PTX_VERSION (the driver's words)\n"
            "  note: kernel 'softmax' is PTX 8.7, and the driver supports CUDA 12.4\n"
            "  hint: update the NVIDIA driver to CUDA 12.8 or later, or compile for a lower PTX version");
}

TEST_F(DriverTest, CudaVersionOfPtx) {
  EXPECT_EQ(cuda::cuda_version_for_ptx(80), 12000);
  EXPECT_EQ(cuda::cuda_version_for_ptx(85), 12050);
  EXPECT_EQ(cuda::cuda_version_for_ptx(86), 12070);
  EXPECT_EQ(cuda::cuda_version_for_ptx(90), 13000);
}

TEST_F(DriverTest, SharedMemory) {
  auto device = open();
  KernelImage image = softmax_image();
  device->load(image);
  EXPECT_TRUE(driver_.set_attributes.empty());
  image.shared_bytes = 100 << 10;
  device->load(image);
  EXPECT_EQ(driver_.set_attributes.at(cuda::FunctionAttribute::MaxDynamicSharedSizeBytes), 100 << 10);
  image.shared_bytes = 1 << 20;
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(image); }),
            "kernel 'softmax' needs 1048576 bytes of shared memory a program, Fake GPU has 232448\n"
            "  hint: try smaller tiles or fewer stages");
}

TEST_F(DriverTest, MissingEntryUnloadsTheModule) {
  driver_.fail["cuModuleGetFunction"] = Result::NotFound;
  auto device = open();
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(softmax_image()); }),
            "cuModuleGetFunction failed: CUDA_ERROR_NOT_FOUND (the driver's words)\n  note: kernel 'softmax'");
  EXPECT_EQ(driver_.modules_open, 0);
}

TEST_F(DriverTest, LaunchFails) {
  auto device = open();
  auto kernel = device->load(softmax_image());
  driver_.fail["cuLaunchKernel"] = Result::LaunchOutOfResources;
  EXPECT_EQ(message_of<DeviceError>([&] { kernel->launch({4096}, nullptr, nullptr); }),
            "cuLaunchKernel failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES (the driver's words)\n"
            "  note: kernel 'softmax', grid 4096 x 1 x 1, 256 threads and 1024 bytes of shared memory a program\n"
            "  hint: the kernel needs more registers or shared memory than one program may have: try fewer warps, "
            "smaller tiles or fewer stages");
  driver_.fail.clear();
  kernel->launch({4096}, nullptr, nullptr);
}

TEST_F(DriverTest, IllegalAccessSpoilsEveryLaterCall) {
  auto device = open();
  auto kernel = device->load(softmax_image());
  Buffer buffer(*device, 16);
  Event event(*device);
  driver_.sticky = Result::IllegalAddress;
  const std::string error = " failed: CUDA_ERROR_ILLEGAL_ADDRESS (the driver's words)";
  EXPECT_EQ(message_of<DeviceLostError>([&] { device->synchronize(); }), "cuStreamSynchronize" + error + kLostDevice);
  EXPECT_EQ(message_of<DeviceLostError>([&] { kernel->launch({1}, nullptr, nullptr); }),
            "cuLaunchKernel" + error +
                "\n  note: kernel 'softmax', grid 1 x 1 x 1, 256 threads and 1024 bytes of shared memory a program" +
                kLostDevice);
  EXPECT_EQ(message_of<DeviceLostError>([&] { buffer.download<int>(); }), "cuMemcpyDtoHAsync_v2" + error + kLostDevice);
  EXPECT_EQ(message_of<DeviceLostError>([&] { Buffer(*device, 1); }),
            "cuMemAlloc_v2" + error + "\n  note: asked for 1 bytes on Fake GPU" + kLostDevice);
  EXPECT_EQ(message_of<DeviceLostError>([&] { event.record(); }), "cuEventRecord" + error + kLostDevice);
  KernelImage other = softmax_image();
  other.ptx += "// of its own\n";
  EXPECT_EQ(message_of<DeviceLostError>([&] { device->load(other); }),
            "cuLinkCreate_v2" + error + "\n  note: assembling kernel 'softmax'" + kLostDevice);
}  // and what is given back now makes no noise

TEST_F(DriverTest, Capture) {
  auto device = open();
  Stream stream(*device);
  auto kernel = device->load(softmax_image());
  Graph graph = capture(*device, stream, [&] { kernel->launch({1}, nullptr, stream); });
  graph.launch(stream);
  EXPECT_EQ(count("cuGraphLaunch"), 1);
  EXPECT_EQ(count("cuGraphDestroy"), 1);
  EXPECT_EQ(message_of<LaunchError>([&] { capture(*device, stream, [] { throw LaunchError("mine"); }); }), "mine");
  EXPECT_EQ(count("cuStreamEndCapture"), 2);
  EXPECT_EQ(count("cuGraphExecDestroy"), 1);
  graph = Graph();
  EXPECT_EQ(count("cuGraphExecDestroy"), 2);
  driver_.fail["cuStreamSynchronize"] = Result::StreamCaptureUnsupported;
  EXPECT_EQ(
      message_of<DeviceError>([&] { stream.synchronize(); }),
      "cuStreamSynchronize failed: CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED (the driver's words)\n"
      "  hint: while a stream is captured, only launch and fill on it: copies and synchronize wait, and cannot be "
      "captured");
}

// Another library may capture a stream meanwhile, which forbids to allocate and to wait.
TEST_F(DriverTest, WorkspacesAreMadeDuringCaptures) {
  auto device = open();
  driver_.capturing_globally = true;
  EXPECT_GT(device->workspace(nullptr, 1000).partials, 0u);
  EXPECT_GT(device->workspace(nullptr, 5000).bytes, 4999u);
  EXPECT_EQ(fake::capture_mode, cuda::CaptureMode::Global);
  driver_.fail["cuMemsetD8Async"] = Result::LaunchOutOfResources;
  EXPECT_EQ(message_of<DeviceError>([&] { Buffer::zeros(*device, 100); }).substr(0, 23), "cuMemsetD8Async failed:");
  driver_.fail.clear();
  device.reset();
  EXPECT_EQ(driver_.memory.size(), 0u);
  EXPECT_EQ(count("cuStreamCreate"), count("cuStreamDestroy_v2"));
}

TEST_F(DriverTest, Timing) {
  auto device = open();
  int runs = 0;
  tegula::Timing timing = time_on_device(*device, [&] { ++runs; }, {.warmup = 2, .runs = 4, .flush_l2 = true});
  EXPECT_EQ(runs, 6);
  EXPECT_EQ(timing.runs_ms, (std::vector<double>{1, 2, 3, 4}));
  EXPECT_EQ(timing.median_ms, 2.5);
  EXPECT_EQ(timing.min_ms, 1);
  EXPECT_EQ(timing.max_ms, 4);
  EXPECT_EQ(count("cuMemsetD8Async"), 4);
  EXPECT_EQ(median({5, 1, 3}), 3);
}

TEST_F(DriverTest, HandleRefusesHostMemoryOnce) {
  auto device = open();
  LaunchHandle handle(device->load(softmax_image()));
  auto host = Arg::pointer(0x7fff00000010);
  EXPECT_EQ(message_of<LaunchError>([&] { handle(nullptr, {1}, host, 5); }),
            "kernel 'softmax', argument 'out': the device cannot reach address 0x7fff00000010: it is host memory, or "
            "memory that was freed\n  hint: copy the data to a Buffer");
  LaunchHandle(device->load(softmax_image()))(nullptr, {1}, Arg::pointer(0, Elem::F32), 5);  // of an empty tensor
  Buffer out(*device, 64);
  handle(nullptr, {1}, out, 5);
  handle(nullptr, {1}, out, 5);
  EXPECT_EQ(count("cuLaunchKernel"), 3);
  EXPECT_EQ(count("cuPointerGetAttribute"), 2);
  driver_.pageable_access = 1;  // a GPU that reaches all of it
  auto another = open();
  LaunchHandle(another->load(softmax_image()))(nullptr, {1}, host, 5);
}

}  // namespace
}  // namespace tegula
