// PTX to machine code by the driver's PTX compiler: through its linker, which gives a cubin, or into a loaded module.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/driver/driver.h"

namespace tegula::cuda {

struct Linked {
  std::vector<uint8_t> cubin;  ///< none of load_ptx
  std::string log;             ///< the compiler's verbose report, warnings included
  int registers = -1;          ///< per thread, the most of any function in the report; -1: the report does not say
  int spill_bytes = -1;        ///< bytes of spill stores a thread; -1: the report does not say
  int stack_bytes = -1;        ///< bytes of the stack of a thread, where spilled words lie; -1: the report does not say
};

/// Compiles `ptx` for the GPU of the current context. `kernel` names it in errors. `programs`: as many must have
/// registers at a time; 0: the PTX says how many, if it is to be more than one. Throws DeviceError with the compiler's
/// log if it refuses, and with both versions if the driver is older than the PTX.
Linked link_ptx(const Driver& driver, const std::string& ptx, std::string_view kernel, int64_t programs = 0);

/// Where programs of a kernel run at a time.
struct Multiprocessor {
  int64_t registers = 0;
  int64_t programs = 0;  ///< that fit, whatever their registers
  int threads = 0;       ///< of a program
  /// How many run at a time where each thread has so many registers.
  int64_t programs_with(int registers_per_thread) const;
};

/// The same, with registers for as many programs at a time as is possible without spills. In the linker's relocatable
/// code the compiler takes registers as it likes, often so many that half as many programs run, whereas of a program of
/// its own it sees to about the number that is found here. Kernels that multiply matrices by instructions keep 64
/// registers a thread at least. Left as they are: those of them with one or two warps a program, which use registers to
/// wait less where few programs run, PTX that bounds its registers itself, and PTX of more than 100 KB.
Linked link_ptx_for(const Multiprocessor& on, const Driver& driver, const std::string& ptx, std::string_view kernel);

/// The same, as a program of its own that is loaded as `module`. The linker takes relocatable code alone, in which the
/// compiler ignores setmaxnreg, so that registers do not move between warps.
Linked load_ptx(const Driver& driver, const std::string& ptx, std::string_view kernel, Module& module);

/// Reads registers and spills out of a verbose report into `linked`.
void read_link_log(std::string_view log, Linked& linked);

/// The CUDA version (12080 for 12.8) whose driver first reads PTX `version` (87 for 8.7).
int cuda_version_for_ptx(int version);

}  // namespace tegula::cuda
