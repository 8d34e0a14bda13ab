// The part of a place in shared memory that is a thread's own.
#pragma once

#include <algorithm>

#include "codegen/lower/lowering.h"

namespace tegula::lower {

/// The order of a thread's registers in its part of a place: accesses as wide as possible, those of the threads side by
/// side.
struct ThreadPart {
  ThreadPart(Lowering& l, const ir::Type& tile, llvm::Value* place) : l_(l), base_(place) {
    const int bytes = std::max(8, tile.bits()) / 8;
    registers = tile.layout->in_size(Dim::Register);
    for (width = 1; registers % (2 * width) == 0 && 2 * width * bytes <= 16;) width *= 2;
    bytes_ = width * bytes;
  }

  /// Of the access that begins with this register.
  llvm::Value* address(int first) const {
    const int row = first / width * 32 * l_.num_warps() * bytes_;
    return l_.b.CreateAdd(l_.b.CreateAdd(base_, l_.b.CreateMul(l_.thread(), l_.i32(bytes_))), l_.i32(row));
  }

  int registers, width;

 private:
  Lowering& l_;
  llvm::Value* base_;
  int bytes_;
};

}  // namespace tegula::lower
