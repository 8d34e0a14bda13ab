// What the CUDA device asks the driver for when it launches: overlapping launches, clusters, cooperative launches,
// tensor maps.
#include <fmt/format.h>

#include "runtime/launch.h"
#include "runtime/memory.h"
#include "runtime/stream.h"
#include "tests/message_of.h"
#include "tests/runtime/driver_fixture.h"

namespace tegula {
namespace {

TEST_F(DriverTest, Launch) {
  auto device = open();
  auto kernel = device->load(softmax_image());
  void* args[] = {nullptr};
  auto stream = fake::handle<cuda::Stream>(0x77);
  kernel->launch({7, 8, 9}, args, stream);
  EXPECT_EQ(std::vector(driver_.grid, driver_.grid + 3), (std::vector{7u, 8u, 9u}));
  EXPECT_EQ(std::vector(driver_.block, driver_.block + 3), (std::vector{256u, 1u, 1u}));
  EXPECT_EQ(driver_.shared_bytes, 1024u);
  EXPECT_EQ(driver_.stream, stream);
  EXPECT_EQ(driver_.params, args);
  kernel->launch({7, 0, 9}, args, stream);  // nothing to do
  EXPECT_EQ(count("cuLaunchKernel"), 1);
}

TEST_F(DriverTest, LaunchesOverlapWhereTheCodeWaitsAndTheDriverCan) {
  void* args[] = {nullptr};
  auto stream = fake::handle<cuda::Stream>(0x77);
  KernelImage waits = softmax_image();
  waits.dependent_launch = true;
  {
    auto device = open();
    auto kernel = device->load(waits);
    kernel->launch({7, 8, 9}, args, stream);
    EXPECT_EQ(count("cuLaunchKernel"), 0);
    EXPECT_EQ(count("cuLaunchKernelEx"), 1);
    EXPECT_EQ(std::vector(driver_.grid, driver_.grid + 3), (std::vector{7u, 8u, 9u}));
    EXPECT_EQ(std::vector(driver_.block, driver_.block + 3), (std::vector{256u, 1u, 1u}));
    EXPECT_EQ(driver_.shared_bytes, 1024u);
    EXPECT_EQ(driver_.stream, stream);
    EXPECT_EQ(driver_.params, args);
    ASSERT_EQ(driver_.attributes.size(), 1u);
    EXPECT_EQ(int(driver_.attributes[0].id), 6);  // CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
    EXPECT_EQ(driver_.attributes[0].value, 1);
    driver_.fail["cuLaunchKernelEx"] = Result::LaunchOutOfResources;
    EXPECT_EQ(message_of<DeviceError>([&] { kernel->launch({4096}, nullptr, nullptr); }).substr(0, 60),
              "cuLaunchKernelEx failed: CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES ");
    device->load(softmax_image())->launch({1}, args, stream);  // code that does not wait
    EXPECT_EQ(count("cuLaunchKernel"), 1);
  }
  driver_.fail.clear();
  auto plain_launches = [&] {
    const int before = count("cuLaunchKernel");
    auto device = open();
    device->load(waits)->launch({1}, args, stream);
    return count("cuLaunchKernel") - before;
  };
  EXPECT_EQ(plain_launches(), 0);
  driver_.version = 12020;  // which would not capture it
  EXPECT_EQ(plain_launches(), 1);
  driver_.version = 12040;
  driver_.absent = {"cuLaunchKernelEx"};
  EXPECT_EQ(plain_launches(), 1);
}

TEST_F(DriverTest, LaunchesOfManyProgramsHaveAnEntryOfTheirOwn) {
  KernelImage image = softmax_image();
  image.shared_bytes = 100000;
  image.few_programs = 1024;
  for (bool overlaps : {false, true}) {
    image.dependent_launch = overlaps;
    auto device = open();
    auto kernel = device->load(image);
    auto entry_of = [&](Grid grid) {
      kernel->launch(grid, nullptr, nullptr);
      return driver_.entry;
    };
    EXPECT_EQ(entry_of({1024}), "softmax");
    EXPECT_EQ(entry_of({1025}), "softmax_of_many_programs");
    EXPECT_EQ(entry_of({8, 16, 8}), "softmax");
    EXPECT_EQ(entry_of({8, 16, 9}), "softmax_of_many_programs");
    EXPECT_EQ(entry_of({1u << 30, 65535, 65535}), "softmax_of_many_programs");
    EXPECT_EQ(count("cuFuncSetAttribute"), overlaps ? 4 : 2);  // for both
  }
  image.few_programs = 0;
  auto device = open();
  device->load(image)->launch({1u << 30}, nullptr, nullptr);
  EXPECT_EQ(driver_.entry, "softmax");
}

TEST_F(DriverTest, Clusters) {
  KernelImage image = softmax_image();
  image.num_ctas = 8;
  {
    auto device = open();
    auto kernel = device->load(image);
    EXPECT_TRUE(driver_.set_attributes.empty());
    kernel->launch({7, 8, 9}, nullptr, nullptr);
    EXPECT_EQ(std::vector(driver_.grid, driver_.grid + 3), (std::vector{56u, 8u, 9u}));
    ASSERT_EQ(driver_.attributes.size(), 1u);
    EXPECT_EQ(int(driver_.attributes[0].id), 4);  // CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
    EXPECT_EQ(driver_.attributes[0].value, 8);
    EXPECT_EQ(driver_.attributes[0].y, 1);
    EXPECT_EQ(driver_.attributes[0].z, 1);
    EXPECT_EQ(message_of<DeviceError>([&] { kernel->launch({1u << 28}, nullptr, nullptr); }),
              "cuLaunchKernelEx failed: CUDA_ERROR_INVALID_VALUE (the driver's words)\n  note: kernel 'softmax', grid "
              "268435456 x 1 x 1, 8 blocks a program, 256 threads and 1024 bytes of shared memory a block");

    image.num_ctas = 16;
    image.dependent_launch = true;
    kernel = device->load(image);
    EXPECT_EQ(driver_.set_attributes.at(cuda::FunctionAttribute::NonPortableClusterSizeAllowed), 1);
    kernel->launch({2}, nullptr, nullptr);
    ASSERT_EQ(driver_.attributes.size(), 2u);
    EXPECT_EQ(int(driver_.attributes[0].id), 6);
    EXPECT_EQ(driver_.attributes[1].value, 16);

    driver_.blocks_at_once = 15;
    EXPECT_EQ(
        message_of<DeviceError>([&] { device->load(image); }),
        "kernel 'softmax': Fake GPU has no room for a cluster of 16 blocks, each of 256 threads with 77 registers "
        "and 1024 bytes of shared memory\n  hint: use a smaller num_ctas or num_warps, or smaller tiles");
    driver_.blocks_at_once = 200;
    image.cooperative = true;
    kernel = device->load(image);
    driver_.fail["cuLaunchKernelEx"] = Result::CooperativeLaunchTooLarge;
    EXPECT_EQ(message_of<LaunchError>([&] { kernel->launch({13}, nullptr, nullptr); }),
              "kernel 'softmax': a cooperative grid of 13 x 1 x 1 programs, all of which run at once; Fake GPU runs 12 "
              "such programs at once\n  hint: start fewer programs that take the work in turns, or make them smaller: "
              "fewer warps, registers or bytes of shared memory");
  }
  EXPECT_EQ(driver_.modules_open, 0);
  driver_.fail.clear();
  driver_.absent = {"cuOccupancyMaxActiveClusters"};
  auto device = open();
  EXPECT_EQ(
      message_of<DeviceError>([&] { device->load(image); }),
      "kernel 'softmax': the driver has no clusters of thread blocks\n  hint: install one of CUDA 12 or later, or "
      "use num_ctas=1");
}

TEST_F(DriverTest, CooperativeLaunches) {
  KernelImage together = softmax_image();
  together.cooperative = true;
  {
    auto device = open();
    auto kernel = device->load(together);
    kernel->launch({7, 8, 9}, nullptr, nullptr);
    ASSERT_EQ(driver_.attributes.size(), 1u);
    EXPECT_EQ(int(driver_.attributes[0].id), 2);  // CU_LAUNCH_ATTRIBUTE_COOPERATIVE
    EXPECT_EQ(driver_.attributes[0].value, 1);
    driver_.fail["cuLaunchKernelEx"] = Result::CooperativeLaunchTooLarge;
    EXPECT_EQ(
        message_of<LaunchError>([&] { kernel->launch({4096}, nullptr, nullptr); }),
        fmt::format("kernel 'softmax': a cooperative grid of 4096 x 1 x 1 programs, all of which run at once; Fake "
                    "GPU runs {} such programs at once\n  hint: start fewer programs that take the work in turns, "
                    "or make them smaller: fewer warps, registers or bytes of shared memory",
                    2 * device->info().num_sms));
  }
  driver_.fail.clear();
  driver_.absent = {"cuLaunchKernelEx"};
  auto device = open();
  EXPECT_EQ(message_of<DeviceError>([&] { device->load(together); }),
            "kernel 'softmax': the driver has no cooperative launches\n  hint: install one of CUDA 12 or later");
}

// A matrix of n x 64 bfloat16 at `p`, in boxes of 8 x 64; rows are n elements apart.
TensorMaps matrix_map() {
  TensorMaps maps;
  maps.steps = {{LaunchStep::Argument, Elem::U64, {}, 0},
                {LaunchStep::Argument, Elem::I32, {}, 1},
                {LaunchStep::Constant, Elem::I32, {}, 64}};
  maps.maps = {{Elem::BF16, 128, {64, 8}, 0, {2, 1}, {1}}};
  return maps;
}

TEST_F(DriverTest, TensorMapsAreMadeOnceForEachArray) {
  auto device = open();
  KernelImage with_map = softmax_image();
  with_map.tensor_maps = matrix_map();
  driver_.map_parameters = 1, driver_.first_map_parameter = 2;
  auto kernel = device->load(with_map);
  uint64_t address = 0x10000;
  int32_t n = 128;
  void* args[] = {&address, &n};
  auto map_of_launch = [&](uint64_t at, int32_t rows) {
    address = at, n = rows;
    kernel->launch({1}, args, nullptr);
    return driver_.launched_maps.at(0);
  };
  EXPECT_EQ(map_of_launch(0x10000, 128), 1u);
  ASSERT_EQ(driver_.encoded.size(), 1u);
  const auto& map = driver_.encoded[0];
  EXPECT_EQ(map.type, cuda::TensorMapDataType::Bfloat16);
  EXPECT_EQ(map.base, 0x10000u);
  EXPECT_EQ(map.extents, (std::vector<uint64_t>{64, 128}));
  EXPECT_EQ(map.strides, (std::vector<uint64_t>{256}));
  EXPECT_EQ(map.box, (std::vector<uint32_t>{64, 8}));
  EXPECT_EQ(map.element_strides, (std::vector<uint32_t>{1, 1}));
  EXPECT_EQ(map.swizzle, cuda::TensorMapSwizzle::Bytes128);
  EXPECT_EQ(map.promotion, cuda::TensorMapL2Promotion::Bytes128);
  EXPECT_EQ(map_of_launch(0x10000, 256), 2u);
  EXPECT_EQ(map_of_launch(0x10000, 128), 1u) << "kept";
  // More arrays than are kept: each launch still has its own.
  for (uint64_t i = 0; i < 200; ++i) {
    const uint64_t made = map_of_launch(0x20000 + 256 * i, 128);
    EXPECT_EQ(driver_.encoded[size_t(made - 1)].base, 0x20000 + 256 * i);
  }
  EXPECT_EQ(map_of_launch(0x10000, 128), 1u);
  // From many threads.
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      uint64_t mine = 0x10000;
      int32_t rows = 64 + 64 * t;
      void* pointers[] = {&mine, &rows};
      for (int i = 0; i < 100; ++i) kernel->launch({1}, pointers, nullptr);
    });
  for (std::thread& thread : threads) thread.join();
}

// The fake GPU runs two blocks of a kernel on each multiprocessor.
TEST_F(DriverTest, BlocksThatTakeProgramsInTurns) {
  auto device = open();
  const auto at_a_time = unsigned(2 * device->info().num_sms);
  KernelImage image = softmax_image();
  image.program_loop = true;
  uint64_t address = 0x10000;
  int32_t n = 128;
  void* args[] = {&address, &n};
  for (bool maps : {false, true}) {
    if (maps) image.tensor_maps = matrix_map();
    auto kernel = device->load(image);
    driver_.first_count_parameter = maps ? 3 : 2;
    ASSERT_TRUE(kernel->try_launch({at_a_time, 5, 2}, args, nullptr));
    EXPECT_EQ(std::vector(driver_.grid, driver_.grid + 3), (std::vector{at_a_time, 1u, 1u}));
    EXPECT_EQ(driver_.launched_counts, (std::vector{int32_t(at_a_time), 5, 2}));
    ASSERT_TRUE(kernel->try_launch({3, 2, 1}, args, nullptr));
    EXPECT_EQ(std::vector(driver_.grid, driver_.grid + 3), (std::vector{3u, 2u, 1u}));
    EXPECT_EQ(driver_.launched_counts, (std::vector{3, 2, 1}));
    EXPECT_FALSE(kernel->try_launch({1 << 21, 1 << 10, 1}, args, nullptr));
    EXPECT_EQ(message_of<LaunchError>([&] {
                kernel->launch({1 << 21, 1 << 10, 1}, args, nullptr);
              }),
              "kernel 'softmax' takes 2^30 programs in turns at most, and this launch has more\n"
              "  hint: compile it with program_loop=1");
    EXPECT_TRUE(kernel->try_launch({1 << 20, 1 << 10, 0}, args, nullptr)) << "nothing to start";
  }
}

TEST_F(DriverTest, LaunchesThatAllowNoTensorMap) {
  auto device = open();
  KernelImage with_map = softmax_image();
  with_map.tensor_maps = matrix_map();
  auto kernel = device->load(with_map);
  uint64_t address = 0x10002;
  int32_t n = 128;
  void* args[] = {&address, &n};
  EXPECT_FALSE(kernel->try_launch({1}, args, nullptr));
  address = 0x10000;
  driver_.fail["cuTensorMapEncodeTiled"] = cuda::Result::InvalidValue;
  EXPECT_FALSE(kernel->try_launch({1}, args, nullptr));
  EXPECT_EQ(driver_.count("cuLaunchKernel"), 0);
  driver_.fail.clear();
  EXPECT_TRUE(kernel->try_launch({1}, args, nullptr));
  driver_.absent = {"cuTensorMapEncodeTiled"};
  auto old = open();
  EXPECT_FALSE(old->load(with_map)->try_launch({1}, args, nullptr));
}

// An array that begins 64 bytes behind the argument, whose boxes may lie outside of it.
TEST_F(DriverTest, LaunchesWhoseArraysBeginWhereNoMemoryIs) {
  auto device = open();
  KernelImage with_map = softmax_image();
  TensorMaps& maps = with_map.tensor_maps;
  maps = matrix_map();
  maps.steps.push_back({LaunchStep::Add, Elem::U64, {0, 2}, 0});
  maps.maps[0].base = 3;
  const Buffer memory(*device, 128);
  uint64_t address = memory.address();
  int32_t n = 128;
  void* args[] = {&address, &n};
  auto launches = [&](uint64_t at) {
    address = at;
    return device->load(with_map)->try_launch({1}, args, nullptr);
  };
  EXPECT_TRUE(launches(memory.address() + 64)) << "no box lies outside";
  EXPECT_EQ(driver_.count("cuPointerGetAttribute"), 0);
  maps.maps[0].may_lie_outside = true;
  EXPECT_TRUE(launches(memory.address()));
  EXPECT_FALSE(launches(memory.address() - 64)) << "the argument is not in the memory where the array begins";
  EXPECT_FALSE(launches(memory.address() + 64)) << "behind the end";
  auto kernel = device->load(with_map);
  EXPECT_EQ(message_of<LaunchError>([&] { kernel->launch({1}, args, nullptr); }),
            "kernel 'softmax' copies arrays in bulk, which this launch does not allow: an array begins, with what the "
            "kernel adds to its address, outside of its memory, or the driver makes no tensor map\n"
            "  hint: compile it with bulk_copies=1");
  maps.maps[0].base = 0;
  EXPECT_TRUE(launches(memory.address() + 128)) << "an argument is where the array begins";
}

}  // namespace
}  // namespace tegula
