// What compiling a kernel yields: code for one architecture and all that a launch has to know.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runtime/base/diag.h"
#include "runtime/base/elem.h"
#include "runtime/tensor_map.h"

namespace tegula {

/// An argument of a launch. ABI: pointers 8 bytes, integers and floats their own size, int1 one byte.
struct ImageParam {
  std::string name;
  Elem elem = Elem::I32;
  bool pointer = false;
  int64_t divisible_by = 1;  ///< what the code relies on: a launch with another value is refused
  bool operator==(const ImageParam&) const;
};

/// An argument of a launch whose value is compiled in: a launch gives exactly this value, and the code does not take
/// it.
struct ImageConstant {
  int position = 0;  ///< among all arguments of a launch
  std::string name;
  bool pointer = false;
  int64_t value = 0;  ///< 0 for a null pointer
  bool operator==(const ImageConstant&) const;
};

/// A loop that has fewer iterations under way than its num_stages asks for.
struct FewerStages {
  Loc loc;
  int asked = 0;
  int given = 0;
  bool operator==(const FewerStages&) const;
};

/// The variable of GPU code with asserts that holds the address of an AssertFailure; 0: there is none.
inline constexpr const char* kFailureVariable = "tegula_failure";

/// What the first assert that fails leaves behind, in memory that host and GPU see.
struct AssertFailure {
  uint32_t state = 0;   ///< 1: is being written; 2: is written
  uint32_t number = 0;  ///< of KernelImage::asserts
  uint32_t x = 0, y = 0, z = 0, thread = 0;
};

/// An assert that the code checks.
struct ImageAssert {
  Loc loc;
  std::string text;
  bool operator==(const ImageAssert&) const;
};

/// By what a loop's copies to shared memory, or a store after products, move data.
struct Transfer {
  Loc loc;
  std::string by;       ///< "bulk copies by a thread of their own", "bulk stores", "the threads' copies", ...
  std::string why_not;  ///< why it is not done in bulk; empty where it is
  bool operator==(const Transfer&) const;
};

/// The symbol of KernelImage::few_programs.
std::string entry_of_many(const std::string& kernel);

struct KernelImage {
  std::string kernel;                    ///< the user's name of the kernel, and the entry symbol
  std::string target;                    ///< "sm_90a"
  std::vector<ImageParam> params;        ///< what the code takes
  std::vector<ImageConstant> constants;  ///< by position
  TensorMaps tensor_maps;                ///< parameters of the code after `params`: a launch makes them
  int num_warps = 4;
  int copy_warps = 0;  ///< beside them, which copy alone
  int num_ctas = 1;    ///< blocks of so many warps run a program together, as a cluster
  int64_t shared_bytes = 0;
  bool dependent_launch = false;  ///< the code waits for earlier kernels itself: a launch may overlap their end
  /// Launches of more programs take the entry named by entry_of_many(), which does not let the next kernel start before
  /// this one ends. 0: there is no such entry.
  int64_t few_programs = 0;
  /// A block takes one program of the launch after the other, in steps of the number of blocks: as many blocks as run
  /// at a time do. Behind all parameters the code takes the number of programs along each axis, three int32.
  bool program_loop = false;
  bool cooperative = false;      ///< all programs of a launch run at once, or it is refused
  std::string ptx;               ///< for GPUs; may be empty when cubin is there
  std::vector<uint8_t> cubin;    ///< what an assembler made of ptx; may be empty
  std::vector<uint8_t> bitcode;  ///< for the emulator: LLVM bitcode that calls tegula.hw functions
  std::vector<Loc> sites;        ///< source places that `site` operands of bitcode name
  int registers = -1;            ///< per thread; -1: not known yet
  int spill_bytes = -1;          ///< per thread; -1: not known yet
  std::vector<FewerStages> fewer_stages;
  std::vector<ImageAssert> asserts;  ///< by their numbers in the code
  std::vector<Transfer> transfers;
  int threads() const { return 32 * (num_warps + copy_warps); }  ///< of a block
  /// Whether warps of its PTX pass registers to each other. Drivers hand out no machine code that they make of such.
  bool moves_registers() const;
  bool operator==(const KernelImage&) const;
};

}  // namespace tegula
