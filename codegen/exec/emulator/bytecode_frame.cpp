#include "codegen/exec/emulator/bytecode_frame.h"

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

int32_t FrameMaker::constant(const llvm::Constant& value) {
  const auto [it, is_new] = constants_.try_emplace(&value, 0);
  if (!is_new) return it->second;
  std::string bytes(bytes_of_type(value.getType(), module_.layout), '\0');
  module_.write(value, bytes.data());
  return constants_[&value] = constant(std::move(bytes));
}

int32_t FrameMaker::constant(std::string bytes) {
  const auto [it, is_new] = constants_by_bytes_.try_emplace(std::move(bytes), 0);
  if (is_new) {
    const uint32_t room = room_for(uint32_t(it->first.size()));
    constant_bytes_ = round_up(constant_bytes_ + room, std::min(room, kAlignment));
    it->second = -int32_t(constant_bytes_);
  }
  return it->second;
}

void FrameMaker::finish(Function& function) const {
  function.frame_bytes = round_up(bytes_);
  function.constants.resize(round_up(constant_bytes_));
  for (const auto& [bytes, at] : constants_by_bytes_)
    std::memcpy(function.constants.data() + function.constants.size() + at, bytes.data(), bytes.size());
}

}  // namespace tegula::emulator::bytecode
