// The CUDA device over the machine's own driver and GPU; skipped without one.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdio>

#include "runtime/cuda_device.h"
#include "runtime/launch.h"
#include "runtime/memory.h"
#include "runtime/stream.h"
#include "runtime/timing.h"
#include "tests/message_of.h"
#include "tests/runtime/lost_device.h"

namespace tegula {
namespace {

// A kernel that adds 1 to the float at its first argument and writes beyond it when its second is large.
constexpr const char* kIncrement = R"(.version 7.0
.target sm_75
.address_size 64
.visible .entry increment(.param .u64 p, .param .u32 n) {
  .reg .b64 %d<4>; .reg .b32 %r<2>; .reg .f32 %f<2>;
  ld.param.u64 %d0, [p];
  ld.param.u32 %r0, [n];
  mul.wide.u32 %d1, %r0, 1073741824;
  add.s64 %d2, %d0, %d1;
  ld.global.f32 %f0, [%d2];
  add.f32 %f0, %f0, 0f3F800000;
  st.global.f32 [%d2], %f0;
  ret;
})";

class GpuDeviceTest : public testing::Test {
 protected:
  void SetUp() override {
    try {
      device_ = open_cuda_device();
    } catch (const DeviceError& error) {
      GTEST_SKIP() << "no GPU: " << error.what();
    }
  }
  KernelImage increment() {
    KernelImage image;
    image.kernel = "increment";
    image.target = "sm_75";
    image.num_warps = 1;
    image.params = {{"p", Elem::F32, true, 16}, {"n", Elem::I32, false, 1}};
    image.ptx = kIncrement;
    return image;
  }
  std::unique_ptr<Device> device_;
};

TEST_F(GpuDeviceTest, RunsFromPtxThenFromItsCubin) {
  auto first = device_->load(increment());
  EXPECT_GT(first->image().registers, 0);
  EXPECT_EQ(first->image().spill_bytes, 0);
  ASSERT_FALSE(first->image().cubin.empty());
  Stream stream(*device_);
  Buffer x(*device_, std::vector<float>(32, 1.0f), stream);
  KernelImage image = first->image();
  image.ptx.clear();
  LaunchHandle handle(device_->load(image));
  handle(stream, {1}, x, 0);
  EXPECT_EQ(x.download<float>(stream)[0], 2.0f);
}

TEST_F(GpuDeviceTest, GraphAndTiming) {
  LaunchHandle handle(device_->load(increment()));
  Stream stream(*device_);
  Buffer x(*device_, 128);
  x.fill(0, stream);
  Graph graph = capture(*device_, stream, [&] { handle(stream, {1}, x, 0); });
  EXPECT_EQ(x.download<float>(stream)[0], 0.0f);
  graph.launch(stream);
  graph.launch(stream);
  EXPECT_EQ(x.download<float>(stream)[0], 2.0f);
  tegula::Timing timing =
      time_on_device(*device_, [&] { handle(stream, {1}, x, 0); }, {.flush_l2 = true, .stream = stream});
  EXPECT_GT(timing.median_ms, 0);
  EXPECT_LT(timing.median_ms, 1);
}

TEST_F(GpuDeviceTest, BadPtxIsRefused) {
  KernelImage bad = increment();
  bad.ptx += "nonsense";
  std::string message = message_of<DeviceError>([&] { device_->load(bad); });
  EXPECT_NE(message.find("CUDA_ERROR_INVALID_PTX"), std::string::npos) << message;
  EXPECT_NE(message.find("the driver's PTX compiler says:"), std::string::npos) << message;
  bad.ptx = increment().ptx;
  bad.ptx.replace(bad.ptx.find("7.0"), 3, "99.0");
  message = message_of<DeviceError>([&] { device_->load(bad); });
  EXPECT_NE(message.find("is PTX 99.0, and the driver supports CUDA "), std::string::npos) << message;
}

// In a child process: the fault spoils the whole process.
TEST_F(GpuDeviceTest, IllegalAccess) {
  device_.reset();
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        auto device = open_cuda_device();
        LaunchHandle handle(device->load(increment()));
        Buffer x(*device, 128);
        handle(nullptr, {1}, x, 1000);
        std::string first = message_of<DeviceLostError>([&] { device->synchronize(); });
        std::string second = message_of<DeviceLostError>([&] { Buffer(*device, 16); });
        std::string third = message_of<DeviceLostError>([&] { handle(nullptr, {1}, x, 0); });
        std::fprintf(stderr, "%s\n%s\n%s\n", first.c_str(), second.c_str(), third.c_str());
        bool good = first.find("ILLEGAL_ADDRESS") != first.npos && first.ends_with(kLostDevice) &&
                    second.ends_with(kLostDevice) && third.ends_with(kLostDevice);
        _exit(good ? 0 : 1);  // the context is lost: leave it as it is
      },
      testing::ExitedWithCode(0), "ILLEGAL_ADDRESS");
}

}  // namespace
}  // namespace tegula
