// A CUDA device over a driver that fails on demand.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "runtime/cuda_device.h"
#include "tests/runtime/fake_driver.h"

namespace tegula {

namespace fake = cuda::fake;
using cuda::Driver;
using cuda::Result;

inline KernelImage softmax_image() {
  KernelImage image;
  image.kernel = "softmax";
  image.target = "sm_90a";
  image.num_warps = 8;
  image.shared_bytes = 1024;
  image.params = {{"out", Elem::F32, true, 16}, {"n", Elem::I32, false, 1}};
  image.ptx = ".version 8.7\n.target sm_90a\n.visible .entry softmax() { ret; }\n";
  return image;
}

class DriverTest : public testing::Test {
 protected:
  void SetUp() override {
    fake::state = &driver_;
    fake::current_context = nullptr;
  }
  void TearDown() override {
    EXPECT_EQ(driver_.links_open, 0);
    EXPECT_EQ(driver_.modules_open, 0);
    EXPECT_EQ(driver_.contexts_open, 0);
  }
  std::unique_ptr<Device> open(CudaOptions options = {
                                   .warm_assembler = false, .assembler_library = "", .on_assembled = {}}) {
    return open_cuda_device(Driver::from(fake::lookup), 0, options);
  }
  /// What the linker says of a kernel that stores each spilled word twice.
  static std::string report(int stack, int registers) {
    return fmt::format("info    : {} bytes stack frame, {} bytes spill stores\ninfo    : Used {} registers\n", stack,
                       2 * stack, registers);
  }
  int count(const char* symbol) { return driver_.count(symbol); }

  fake::State driver_;
};

}  // namespace tegula
