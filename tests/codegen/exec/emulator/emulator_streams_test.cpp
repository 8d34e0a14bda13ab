// The emulator: streams, events and graphs.
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

TEST(Emulator, StreamsOfOthersAreTheDefaultOne) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(128)), z(*device, 128);
  const auto stream = reinterpret_cast<StreamHandle>(uint64_t(5));
  launch_on(*kernel, stream, {1}, x.address(), x.address(), z.address(), 128);
  device->synchronize(stream);
  EXPECT_EQ(z.values()[5], 10);
  EXPECT_CONTAINS(error_of([&] { device->begin_capture(stream); }), "none of the emulator's cannot capture");
}

TEST(Emulator, CapturesAndReplays) {
  auto device = make_emulator();
  auto kernel = device->load(make_image(kAddParams, kAdd, 4));
  Array<float> x(*device, iota(100)), z(*device, 100);
  StreamHandle stream = device->create_stream();
  EXPECT_CONTAINS(error_of([&] { device->begin_capture(nullptr); }), "the default stream cannot capture");
  EXPECT_CONTAINS(error_of([&] { device->end_capture(stream); }), "did not begin");
  device->begin_capture(stream);
  launch_on(*kernel, stream, {1}, x.address(), z.address(), z.address(), 100);
  launch_on(*kernel, stream, {1}, x.address(), z.address(), z.address(), 50);
  EXPECT_CONTAINS(error_of([&] { device->synchronize(stream); }), "on a stream that captures a graph");
  GraphHandle graph = device->end_capture(stream);
  kernel = nullptr;  // the graph keeps the code
  EXPECT_EQ(z.values()[10], 0);
  device->launch_graph(graph, stream);
  device->launch_graph(graph, stream);
  device->synchronize(stream);
  EXPECT_EQ(z.values()[10], 40);
  EXPECT_EQ(z.values()[90], 180);
  device->destroy_graph(graph);
  device->destroy_stream(stream);
}

TEST(Emulator, EventsTellTheTime) {
  auto device = make_emulator();
  EventHandle start = device->create_event(), stop = device->create_event();
  EXPECT_CONTAINS(error_of([&] { device->elapsed_ms(start, stop); }), "not recorded");
  device->record(start);
  uint64_t memory = device->allocate(0);
  EXPECT_EQ(memory % 256, 0u);
  EXPECT_NE(memory, 0u);
  device->free(memory);
  device->record(stop);
  EXPECT_GE(device->elapsed_ms(start, stop), 0);
  device->destroy_event(start);
  device->destroy_event(stop);
  EXPECT_EQ(device->info().name, "emulator (sm_90a)");
  EXPECT_EQ(device->info().sm, 90);
  EXPECT_EQ(device->info().shared_per_program, 232448);
  EXPECT_TRUE(device->info().emulator);
}

}  // namespace
}  // namespace tegula
