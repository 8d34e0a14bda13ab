#include "codegen/exec/emulator/kept_code.h"

#include "runtime/base/byte_stream.h"
#include "runtime/base/check.h"

namespace tegula::emulator {

std::string to_bytes(const std::string& object, const JitKernel& kernel) {
  TEGULA_CHECK(kernel.blocks.empty(), "code that holds addresses");
  ByteWriter w;
  w.bytes(object);
  w.number(uint64_t(kernel.places.size()));
  for (const Place& place : kernel.places) {
    w.bytes(place.operation);
    w.bytes(place.loc.file ? *place.loc.file : std::string());
    w.number(int32_t(place.loc.line));
    w.number(int32_t(place.loc.column));
    w.number(int32_t(place.loc.end_column));
  }
  w.number(uint8_t(kernel.may_spin));
  w.number(uint8_t(kernel.async_proxy));
  w.number(kernel.frame_bytes);
  w.number(kernel.optimising_seconds);
  return w.take();
}

std::optional<std::string> read_code(std::string_view bytes, JitKernel& kernel) {
  ByteReader r(bytes);
  auto object = r.bytes<std::string>();
  kernel.places.resize(r.count());
  for (Place& place : kernel.places) {
    place.operation = r.bytes<std::string>();
    const auto file = r.bytes<std::string>();
    place.loc.file = file.empty() ? nullptr : intern_file(file);
    place.loc.line = r.number<int32_t>();
    place.loc.column = r.number<int32_t>();
    place.loc.end_column = r.number<int32_t>();
  }
  kernel.may_spin = r.number<uint8_t>();
  kernel.async_proxy = r.number<uint8_t>();
  kernel.frame_bytes = r.number<uint64_t>();
  kernel.optimising_seconds = r.number<double>();
  if (!r.good() || !r.at_end()) return std::nullopt;
  return object;
}

}  // namespace tegula::emulator
