// label: device
// Races between launches on two streams, and between a launch and a copy or a fill.
#include "codegen/exec/emulator.h"
#include "tests/codegen/exec/emulator/emulator_kernels.h"

namespace tegula {
namespace {

// Each of 32 threads stores a number of its own in line 1, or loads it in line 2.
Shared<LoadedKernel> kernel_of(Device& device, const std::string& access) {
  return device.load(make_image({pointer("x", Elem::I32)},
                                "%t = call i32 @tegula.hw.thread_id()\n%unique = add i32 %t, 1000\n"
                                "%p = getelementptr i32, ptr addrspace(1) %x, i32 %t\n" +
                                    access + "ret void"));
}
Shared<LoadedKernel> writer_of(Device& device) {
  return kernel_of(device, "call void @tegula.hw.st_global_b32(ptr addrspace(1) %p, i32 %unique, i1 true, i32 1)\n");
}
Shared<LoadedKernel> reader_of(Device& device) {
  return kernel_of(device, "%v = call i32 @tegula.hw.ld_global_b32(ptr addrspace(1) %p, i32 0, i1 true, i32 2)\n");
}

// What is stored on one stream and loaded on another, with and without something between that orders the launches.
TEST(StreamRaces, OfLaunches) {
  auto device = make_emulator({.check_races = true});
  auto writer = writer_of(*device), reader = reader_of(*device);
  const StreamHandle first = device->create_stream(), second = device->create_stream();
  const EventHandle event = device->create_event();
  // Launches the one on a stream, does what may order, launches the other on another stream.
  const auto error = [&](LoadedKernel& one, StreamHandle on, const std::function<void()>& between, LoadedKernel& other,
                         StreamHandle next) {
    Array<int32_t> x(*device, 32);
    launch_on(one, on, {1}, x.address());
    between();
    return error_of([&] { launch_on(other, next, {1}, x.address()); });
  };
  const auto nothing = [] {};
  EXPECT_CONTAINS(
      error(*writer, first, nothing, *reader, second),
      "(argument 'x'), and write by thread 0 of warp 0 of program (0, 0, 0) of kernel 'k', launched on "
      "another stream, at k.py:1:5, and nothing orders the two\n"
      "  at k.py:2:5, program (0, 0, 0), thread 0\n"
      "  hint: one stream for both, or have the host wait for the other stream between them: synchronize(), "
      "or an event recorded there");
  EXPECT_CONTAINS(error(*reader, first, nothing, *writer, second), "race: write of 4 bytes");
  EXPECT_EQ(error(*reader, first, nothing, *reader, second), "no error");
  EXPECT_EQ(error(*writer, first, nothing, *reader, first), "no error");
  EXPECT_EQ(error(*writer, nullptr, nothing, *reader, second), "no error");
  EXPECT_EQ(error(*writer, first, nothing, *reader, nullptr), "no error");
  EXPECT_EQ(error(
                *writer, first, [&] { device->synchronize(first); }, *reader, second),
            "no error");
  EXPECT_CONTAINS(error(
                      *writer, first, [&] { device->synchronize(second); }, *reader, second),
                  "race: read");
  const auto waits_for = [&](StreamHandle stream) {
    return [&, stream] {
      device->record(event, stream);
      device->elapsed_ms(event, event);
    };
  };
  EXPECT_EQ(error(*writer, first, waits_for(first), *reader, second), "no error");
  EXPECT_CONTAINS(error(*writer, first, waits_for(second), *reader, second), "race: read");
  device->destroy_event(event);
  device->destroy_stream(first);
  device->destroy_stream(second);
}

// A kernel on one stream, and a copy or a fill on another, with and without something between that orders the two.
TEST(StreamRaces, OfCopiesAndFills) {
  auto device = make_emulator({.check_races = true});
  auto writer = writer_of(*device), reader = reader_of(*device);
  const StreamHandle first = device->create_stream(), second = device->create_stream();
  std::vector<int32_t> host(64);
  struct Step {
    const char* name;
    bool writes;
    std::function<void(uint64_t, StreamHandle)> run;
  };
  const std::vector<Step> transfers = {
      {"copy to the host", false,
       [&](uint64_t x, StreamHandle s) { device->copy_to_host(host.data(), x + 8, 100, s); }},
      {"copy to the device", true,
       [&](uint64_t x, StreamHandle s) { device->copy_to_device(x + 8, host.data(), 100, s); }},
      {"fill", true, [&](uint64_t x, StreamHandle s) { device->fill(x + 8, 0, 100, s); }},
      {"copy on the device", true, [&](uint64_t x, StreamHandle s) { device->copy_on_device(x, x + 128, 128, s); }},
  };
  const auto error = [&](const Step& step, LoadedKernel& of, StreamHandle kernel_on, StreamHandle on, bool kernel_first,
                         bool waits) {
    Array<int32_t> x(*device, 64);
    const auto launched = [&] { launch_on(of, kernel_on, {1}, x.address()); };
    const auto transferred = [&] { step.run(x.address(), on); };
    return error_of([&] {
      kernel_first ? launched() : transferred();
      if (waits) device->synchronize(kernel_first ? kernel_on : on);
      kernel_first ? transferred() : launched();
    });
  };
  size_t planted = 0, found = 0;
  for (const Step& step : transfers) {
    SCOPED_TRACE(step.name);
    const std::string told = error(step, *writer, first, second, true, false);
    EXPECT_CONTAINS(told, fmt::format("by a {}, and write by thread", step.name));
    EXPECT_CONTAINS(told,
                    "of program (0, 0, 0) of kernel 'k', launched on another stream, at k.py:1:5, and nothing "
                    "orders the two\n  hint: one stream for both, or have the host wait");
    ++planted, found += told.find("k.py:1:5") != told.npos;
    // Of what the kernel has read, only a write.
    EXPECT_EQ(error(step, *reader, first, second, true, false) != "no error", step.writes);
    for (StreamHandle same : {first, StreamHandle()})
      EXPECT_EQ(error(step, *writer, same, same, true, false), "no error");
    EXPECT_EQ(error(step, *writer, first, nullptr, true, false), "no error");
    EXPECT_EQ(error(step, *writer, nullptr, second, true, false), "no error");
    EXPECT_EQ(error(step, *writer, first, second, true, true), "no error");
    // The host goes on behind those that it does not wait for.
    const bool goes_on = step.name == std::string("fill") || step.name == std::string("copy on the device");
    const std::string later = error(step, *reader, first, second, false, false);
    EXPECT_EQ(later != "no error", goes_on) << later;
    if (goes_on) {
      EXPECT_CONTAINS(later, fmt::format("and write by a {} on another stream, and nothing orders", step.name));
    }
    EXPECT_EQ(error(step, *reader, first, second, false, true), "no error");
    EXPECT_EQ(error(step, *reader, second, second, false, false), "no error");
  }
  tell_planted(found, planted);
  device->destroy_stream(first);
  device->destroy_stream(second);
}

}  // namespace
}  // namespace tegula
