// How values of LLVM lie in the frames of bytecode.
#pragma once

#include <cstdint>

#include "codegen/exec/emulator/interpreter/bytecode.h"
#include "codegen/lower/llvm_headers.h"

namespace tegula::emulator::bytecode {

/// Thrown where there is no instruction for something.
struct Missing {};

/// A number, or a vector of `count`.
struct Shape {
  Kind kind = Kind::I1;
  uint32_t count = 1;
  bool vector = false;
  uint32_t bytes() const { return count * bytes_of(kind); }
};

/// The bits of an integer that no kind has; 0: it has as many as one of them. It lies in the next larger kind, whose
/// other bits are 0.
unsigned odd_bits(const llvm::Type* type);

// These throw Missing.
Kind kind_of(const llvm::Type* type);
Shape shape_of(const llvm::Type* type);
/// Of structs and arrays too, which lie as in memory.
uint32_t bytes_of_type(const llvm::Type* type, const llvm::DataLayout& layout);
int32_t fits_32(int64_t number);

}  // namespace tegula::emulator::bytecode
