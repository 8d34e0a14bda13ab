// Pieces of a workspace as arguments of kernels. Not for users.
#pragma once

#include "dsl/kernel.h"

namespace tegula::kernels::detail {

/// Hands out memory of a workspace: each piece after the one before.
class WorkspacePieces {
 public:
  explicit WorkspacePieces(uint64_t address) : address_(address) {}
  Arg take(Elem elem, int64_t count) {
    const size_t bytes = size_t(count) * elem_bytes(elem);
    const Arg piece = Arg::pointer(address_, elem, bytes);
    address_ += rounded(bytes);
    return piece;
  }
  /// Bytes that a piece takes.
  static size_t rounded(size_t bytes) { return (bytes + 255) / 256 * 256; }

 private:
  uint64_t address_;
};

}  // namespace tegula::kernels::detail
