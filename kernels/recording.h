// What recordings of the library's kernels in C++ have in common. Not for users.
#pragma once

#include <optional>
#include <string>

#include "codegen/ir/ir.h"
#include "dsl/tile.h"

namespace tegula::kernels::detail {

/// Type of a Tile that is a value of the kernel being recorded; none for others, and after errors.
std::optional<ir::Type> recorded_type(const Tile& tile);

/// Reports that the function a kernel is made of gives `found` in place of what is expected, at the place where the
/// kernel is made: "WHAT of 'KERNEL' gives a float32, expected EXPECTED". Silent if `found` follows from another
/// mistake.
void refuse_result(const std::string& what, const Tile& found, const std::string& expected, const std::string& hint);
/// "a float32[16]" in messages.
std::string described(const Tile& tile);

/// Whether indices are below an extent; `even`: all are.
Tile inside(const Tile& at, const Tile& extent, bool even);

/// Numbers below 32 bits as fp32, everything else as it is.
Tile widened(const Tile& x);
/// As an element of a type; what was a fraction is rounded to the nearest integer (to even), and brought into the range
/// of integers of 8 and 16 bits.
Tile converted(const Tile& x, Elem to);

}  // namespace tegula::kernels::detail
