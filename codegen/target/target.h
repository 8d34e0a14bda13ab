// What a GPU architecture has. Passes and lowering ask for features, never for architecture numbers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tegula {

enum class Feature : uint32_t {
  Any = 0,
  Ldmatrix = 1,
  Mma16816 = 2,
  CpAsync = 4,
  CvtBf16 = 8,
  AtomicBf16 = 16,
  Stmatrix = 32,
  Wgmma = 64,
  Tma = 128,
  Cluster = 256,
  DependentLaunch = 512,
  CvtFloat8 = 1024,
  MmaFloat8 = 2048,       ///< by mma.sync at full rate
  CvtIntBf16 = 4096,      ///< integers to bfloat16 by one rounding
  Setmaxnreg = 8192,      ///< registers pass from some warps of a program to others
  AtomicVector = 16384,   ///< atomic sums of 16 bytes of floats
  CpAsyncIgnore = 32768,  ///< copies by a predicate (PTX 7.5)
};

/// The peak rates of an architecture's usual device.
struct Rates {
  int num_sms;
  double memory_gb_s;
  double fp32_tflop_s;
  double tensor_tflop_s;  ///< fp16 products, fp32 sums, dense
  double clock_mhz;
};

struct Target {
  std::string name;  ///< "sm_90a", as LLVM and ptxas spell it
  int sm;            ///< 90
  int ptx;           ///< 80: PTX 8.0; the lowest version, in which ptx_for() has some features not yet
  int64_t shared_per_program;
  int64_t shared_per_sm;
  int64_t registers_per_sm;
  int warps_per_sm, programs_per_sm;  ///< resident at the same time, at most
  Rates rates;
  uint32_t features;

  /// How many programs of so many warps an SM has room for, but for registers and shared memory.
  int64_t programs_of(int64_t warps) const { return std::min<int64_t>(programs_per_sm, warps_per_sm / warps); }
  bool has(Feature f) const { return (features & uint32_t(f)) == uint32_t(f); }
  /// The lowest PTX version in which code for this target may use a feature that it has.
  int ptx_for(Feature f) const;
};

const std::vector<Target>& targets();
/// The row of that name; "sm_90" finds "sm_90a".
std::optional<Target> find_target(std::string_view name);
/// The nearest row at or below compute capability `sm` (90 for 9.0); the lowest row if there is none.
const Target& target_for_sm(int sm);

/// The memory rate of the device of this name ("NVIDIA H200") in GB/s; none if it is not known.
std::optional<double> memory_rate(std::string_view device_name);

}  // namespace tegula
