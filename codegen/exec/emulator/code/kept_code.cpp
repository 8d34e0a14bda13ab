#include "codegen/exec/emulator/code/kept_code.h"

#include <cstring>
#include <memory>
#include <type_traits>
#include <variant>
#include <vector>

#include "codegen/exec/emulator/code/link_bodies.h"
#include "runtime/base/byte_stream.h"

namespace tegula::emulator {

namespace {

template <class T>
void write(ByteWriter& w, const std::vector<T>& items) {
  static_assert(std::has_unique_object_representations_v<T>, "files have no padding");
  w.bytes(std::string_view(reinterpret_cast<const char*>(items.data()), items.size() * sizeof(T)));
}
template <class T>
void read(ByteReader& r, std::vector<T>& items) {
  const auto bytes = r.bytes<std::string>();
  r.require(bytes.size() % sizeof(T) == 0);
  if (!r.good()) return;
  items.resize(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(items.data(), bytes.data(), bytes.size());
}

// ---- What calls refer to

void write(ByteWriter& w, const Place& place) {
  w.bytes(place.operation);
  w.bytes(place.loc.file ? *place.loc.file : std::string());
  w.number(int32_t(place.loc.line));
  w.number(int32_t(place.loc.column));
  w.number(int32_t(place.loc.end_column));
}
void read(ByteReader& r, Place& place) {
  place.operation = r.bytes<std::string>();
  const auto file = r.bytes<std::string>();
  place.loc.file = file.empty() ? nullptr : intern_file(file);
  place.loc.line = r.number<int32_t>();
  place.loc.column = r.number<int32_t>();
  place.loc.end_column = r.number<int32_t>();
}

using AsmBlock = std::unique_ptr<const ptx::Program>;
void write(ByteWriter& w, const AsmBlock& block) {
  w.bytes(block->text);
  w.bytes(block->constraints);
}
void read(ByteReader& r, AsmBlock& block) {
  const auto text = r.bytes<std::string>(), constraints = r.bytes<std::string>();
  auto parsed = ptx::parse(text, constraints);
  auto* program = std::get_if<ptx::Program>(&parsed);
  r.require(program);
  if (program) block = std::make_unique<ptx::Program>(std::move(*program));
}

// ---- Bytecode

void write(ByteWriter& w, const bytecode::Constants& constants) {
  std::vector<char> bytes = constants.bytes;
  // Where addresses stand that are this process's.
  for (const bytecode::Address& address : constants.addresses)
    std::memset(bytes.data() + address.at, 0, sizeof(uint64_t));
  write(w, bytes);
  write(w, constants.addresses);
}
void read(ByteReader& r, bytecode::Constants& constants) {
  read(r, constants.bytes);
  read(r, constants.addresses);
}

void write(ByteWriter& w, const bytecode::Function& function) {
  write(w, function.code);
  write(w, function.constants);
  w.number(function.frame_bytes);
  w.number(function.result);
  w.number(function.most_bytes);
  write(w, function.parameters);
}
void read(ByteReader& r, bytecode::Function& function) {
  read(r, function.code);
  read(r, function.constants);
  function.frame_bytes = r.number<uint32_t>();
  function.result = r.number<int32_t>();
  function.most_bytes = r.number<uint32_t>();
  read(r, function.parameters);
}

void write(ByteWriter& w, const bytecode::BodyCall& call) {
  w.bytes(std::string_view(call.body->name));
  write(w, call.operands);
  w.number(call.result);
}
void read(ByteReader& r, bytecode::BodyCall& call) {
  call.body = find_body(r.bytes<std::string>());
  r.require(call.body);
  read(r, call.operands);
  call.result = r.number<int32_t>();
}

void write(ByteWriter& w, const bytecode::FunctionCall& call) {
  w.number(call.callee);
  write(w, call.operands);
  w.number(call.result);
  w.number(call.result_bytes);
}
void read(ByteReader& r, bytecode::FunctionCall& call) {
  call.callee = r.number<uint32_t>();
  read(r, call.operands);
  call.result = r.number<int32_t>();
  call.result_bytes = r.number<uint32_t>();
}

template <class T>
void write_each(ByteWriter& w, const std::vector<T>& items) {
  w.number(uint64_t(items.size()));
  for (const T& item : items) write(w, item);
}
template <class T>
void read_each(ByteReader& r, std::vector<T>& items) {
  items.resize(r.count());
  for (T& item : items) read(r, item);
}

void write(ByteWriter& w, const bytecode::Module& module) {
  write_each(w, module.functions);
  write_each(w, module.bodies);
  write_each(w, module.calls);
  write(w, module.computations);
  write_each(w, module.globals);
  w.number(module.entry);
  w.number(module.segment_bytes);
}
void read(ByteReader& r, bytecode::Module& module) {
  read_each(r, module.functions);
  read_each(r, module.bodies);
  read_each(r, module.calls);
  read(r, module.computations);
  read_each(r, module.globals);
  module.entry = r.number<uint32_t>();
  module.segment_bytes = r.number<uint32_t>();
  r.require(module.entry < module.functions.size());
  r.require(module.place());
}

}  // namespace

std::string to_bytes(const std::string& object, const JitKernel& kernel) {
  ByteWriter w;
  w.bytes(object);
  if (object.empty()) write(w, *kernel.code.bytecode);
  write_each(w, kernel.places);
  write_each(w, kernel.blocks);
  w.number(uint8_t(kernel.may_spin));
  w.number(uint8_t(kernel.makes_pointers));
  w.number(uint8_t(kernel.async_proxy));
  w.number(kernel.frame_bytes);
  w.number(kernel.optimising_seconds);
  return w.take();
}

std::optional<std::string> read_code(std::string_view bytes, JitKernel& kernel) {
  ByteReader r(bytes);
  auto object = r.bytes<std::string>();
  if (object.empty()) {
    auto module = std::make_unique<bytecode::Module>();
    read(r, *module);
    kernel.code.bytecode = std::move(module);
  }
  read_each(r, kernel.places);
  read_each(r, kernel.blocks);
  kernel.may_spin = r.number<uint8_t>();
  kernel.makes_pointers = r.number<uint8_t>();
  kernel.async_proxy = r.number<uint8_t>();
  kernel.frame_bytes = r.number<uint64_t>();
  kernel.optimising_seconds = r.number<double>();
  if (!r.good() || !r.at_end()) return std::nullopt;
  return object;
}

}  // namespace tegula::emulator
