// Devices and their memory.
#include <fmt/format.h>

#include <memory>

#include "bindings/runtime/common.h"
#include "codegen/target/target.h"
#include "runtime/cuda_device.h"
#include "runtime/memory.h"
#include "runtime/sealing.h"

using namespace tegula;
using namespace tegula::bindings;

struct tegula_buffer {
  std::shared_ptr<Device> device;  ///< goes after the buffer
  Buffer buffer;
};

namespace {

void check_part(const Buffer& buffer, size_t offset, size_t bytes) {
  if (offset > buffer.bytes() || bytes > buffer.bytes() - offset)
    throw UsageError(fmt::format("{} bytes at offset {} of a buffer that has {}", bytes, offset, buffer.bytes()));
}

}  // namespace

extern "C" {

const char* tegula_version(void) { return TEGULA_VERSION; }
int32_t tegula_abi(void) { return TEGULA_ABI; }
void tegula_seal(void) { seal(); }
int32_t tegula_may_compile(void) { return may_compile(); }

// ---- Devices

tegula_status tegula_device_cuda(int32_t ordinal, tegula_device** device) {
  return guarded([&] {
    given(device, "device");
    *device = new tegula_device{open_cuda_device(ordinal)};
  });
}

tegula_status tegula_device_describe(const tegula_device* device, tegula_device_facts* facts) {
  return guarded([&] {
    const DeviceInfo& info = given(device, "device").device->info();
    fill(facts, {0, info.name.c_str(), target_for_sm(info.sm).name.c_str(), info.emulator, info.sm, info.num_sms,
                 info.driver_version, info.memory_bytes, info.l2_bytes, info.shared_per_program});
  });
}

tegula_status tegula_device_synchronize(tegula_device* device, tegula_stream stream) {
  return guarded([&] { given(device, "device").device->synchronize(stream); });
}

void tegula_device_release(tegula_device* device) { delete device; }

// ---- Buffers

tegula_status tegula_buffer_create(tegula_device* device, size_t bytes, tegula_buffer** buffer) {
  return guarded([&] {
    auto& owner = given(device, "device").device;
    given(buffer, "buffer");
    *buffer = new tegula_buffer{owner, Buffer(*owner, bytes)};
  });
}

uint64_t tegula_buffer_address(const tegula_buffer* buffer) { return buffer ? buffer->buffer.address() : 0; }
size_t tegula_buffer_bytes(const tegula_buffer* buffer) { return buffer ? buffer->buffer.bytes() : 0; }

tegula_status tegula_buffer_upload(tegula_buffer* buffer, size_t offset, const void* host, size_t bytes,
                                   tegula_stream stream) {
  return guarded([&] {
    check_part(given(buffer, "buffer").buffer, offset, bytes);
    if (bytes) buffer->device->copy_to_device(buffer->buffer.address() + offset, host, bytes, stream);
  });
}

tegula_status tegula_buffer_download(const tegula_buffer* buffer, size_t offset, void* host, size_t bytes,
                                     tegula_stream stream) {
  return guarded([&] {
    check_part(given(buffer, "buffer").buffer, offset, bytes);
    if (bytes) buffer->device->copy_to_host(host, buffer->buffer.address() + offset, bytes, stream);
  });
}

tegula_status tegula_buffer_fill(tegula_buffer* buffer, uint8_t value, tegula_stream stream) {
  return guarded([&] { given(buffer, "buffer").buffer.fill(value, stream); });
}

void tegula_buffer_release(tegula_buffer* buffer) { delete buffer; }

}  // extern "C"
