#include "codegen/exec/emulator/code/bytecode_frame.h"

#include <algorithm>
#include <limits>

namespace tegula::emulator::bytecode {

int32_t FrameMaker::allocate(uint32_t bytes) {
  const uint32_t room = room_for(bytes);
  bytes_ = round_up(bytes_, std::min(room, kAlignment));
  const uint32_t at = bytes_;
  bytes_ += room;
  if (bytes_ > uint32_t(std::numeric_limits<int32_t>::max()) / 2) throw Missing();
  return int32_t(at);
}

int32_t FrameMaker::allocate_in_block(uint32_t bytes) {
  std::vector<int32_t>& free = free_[room_for(bytes)];
  if (free.empty()) return allocate(bytes);
  const int32_t at = free.back();
  free.pop_back();
  return at;
}

int32_t FrameMaker::temporary(uint32_t bytes) {
  const int32_t at = allocate_in_block(bytes);
  is_temporary(at, bytes);
  return at;
}

void FrameMaker::release_temporaries() {
  for (auto [at, bytes] : temporaries_) release(at, bytes);
  temporaries_.clear();
}

int32_t FrameMaker::allocate_constant(uint32_t bytes) {
  const uint32_t room = room_for(bytes);
  constant_bytes_ = round_up(constant_bytes_ + room, std::min(room, kAlignment));
  return -int32_t(constant_bytes_);
}

int32_t FrameMaker::constant(const llvm::Constant& value) {
  const auto [it, is_new] = constants_.try_emplace(&value, 0);
  if (!is_new) return it->second;
  Constants written;
  written.bytes.resize(bytes_of_type(value.getType(), module_.layout));
  module_.write(value, written);
  if (written.addresses.empty())
    return constants_[&value] = constant(std::string(written.bytes.begin(), written.bytes.end()));
  const int32_t at = constants_[&value] = allocate_constant(uint32_t(written.bytes.size()));
  addresses_.push_back({std::move(written), at});
  return at;
}

int32_t FrameMaker::constant(std::string bytes) {
  const auto [it, is_new] = constants_by_bytes_.try_emplace(std::move(bytes), 0);
  if (is_new) it->second = allocate_constant(uint32_t(it->first.size()));
  return it->second;
}

void FrameMaker::finish(Function& function) const {
  function.frame_bytes = round_up(bytes_);
  Constants& all = function.constants;
  all.bytes.resize(round_up(constant_bytes_));
  auto offset_of = [&](int32_t at) { return all.bytes.size() - size_t(-int64_t(at)); };
  for (const auto& [bytes, at] : constants_by_bytes_)
    std::copy(bytes.begin(), bytes.end(), all.bytes.begin() + ptrdiff_t(offset_of(at)));
  for (const auto& [constant, at] : addresses_) {
    std::copy(constant.bytes.begin(), constant.bytes.end(), all.bytes.begin() + ptrdiff_t(offset_of(at)));
    for (Address address : constant.addresses) {
      address.at += uint32_t(offset_of(at));
      all.addresses.push_back(address);
    }
  }
}

}  // namespace tegula::emulator::bytecode
