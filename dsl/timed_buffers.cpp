#include "dsl/timed_buffers.h"

#include <fmt/format.h>

#include "dsl/specialize.h"
#include "runtime/base/error.h"

namespace tegula::dsl {

TimedBuffers::TimedBuffers(const detail::KernelState& state, Device& device, const LaunchOptions& options,
                           std::span<const Arg> args, StreamHandle stream)
    : device_(device), stream_(stream) {
  const Autotune& tuning = *state.autotune;
  auto params = runtime_params(*state.source, options, args.size());
  auto add = [&](const std::vector<std::string>& names, const char* what, bool keep) {
    for (const std::string& name : names) {
      size_t i = 0;
      while (i < params.size() && params[i]->name != name) ++i;
      const bool memory =
          i < params.size() && (args[i].kind == Arg::Kind::Pointer || args[i].kind == Arg::Kind::Descriptor);
      if (!memory || args[i].u == 0) continue;
      size_t bytes = args[i].bytes ? args[i].bytes : device.allocated_bytes(args[i].u);
      if (!bytes)
        throw LaunchError(
            fmt::format("kernel '{}': {} names '{}', but how large its buffer is is not known\n  hint: pass a Buffer, "
                        "or Arg::pointer(address, type, bytes)",
                        state.name(), what, name));
      Item& item = items_.emplace_back(Item{args[i].u, bytes, {}});
      if (!keep) continue;
      item.saved = Buffer(device, bytes);
      device.copy_on_device(item.saved.address(), item.address, bytes, stream);
    }
  };
  add(tuning.reset_to_zero, "reset_to_zero", false);
  add(tuning.restore_value, "restore_value", true);
  device.synchronize(stream);
}

TimedBuffers::~TimedBuffers() {
  try {
    before_run();
    device_.synchronize(stream_);
  } catch (const Error&) {  // the device is lost: what the launch does next will say so
  }
}

void TimedBuffers::before_run() {
  for (Item& item : items_) {
    if (item.saved)
      device_.copy_on_device(item.address, item.saved.address(), item.bytes, stream_);
    else
      device_.fill(item.address, 0, item.bytes, stream_);
  }
}

std::vector<Arg> BufferCopies::on(Device& device, const detail::KernelState& state, Device& from,
                                  const LaunchOptions& options, std::span<const Arg> given) {
  std::vector<Arg> args(given.begin(), given.end());
  auto params = runtime_params(*state.source, options, args.size());
  for (size_t i = 0; i < args.size(); ++i) {
    const bool is_descriptor = args[i].kind == Arg::Kind::Descriptor;
    if ((args[i].kind != Arg::Kind::Pointer && !is_descriptor) || args[i].u == 0) continue;
    size_t bytes = args[i].bytes ? args[i].bytes : from.allocated_bytes(args[i].u);
    if (!bytes)
      throw LaunchError(
          fmt::format("kernel '{}': other GPUs cannot share the work: how large the buffer of '{}' is is not known\n  "
                      "hint: pass a Buffer, or Arg::pointer(address, type, bytes)",
                      state.name(), params[i]->name));
    std::vector<uint8_t> host(bytes);
    from.copy_to_host(host.data(), args[i].u, bytes, options.stream);
    Buffer& copy = buffers_.emplace_back(device, host);
    args[i].u = copy.address();
    args[i].bytes = bytes;
    if (!is_descriptor) continue;
    TensorDescriptor& there = descriptors_.emplace_back(*args[i].descriptor);
    there.base = Arg::pointer(copy.address(), there.base.elem, bytes);
    args[i] = Arg(there);
  }
  return args;
}

}  // namespace tegula::dsl
