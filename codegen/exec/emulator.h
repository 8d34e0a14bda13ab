// The emulator: a Device that runs kernel images (their LLVM bitcode) on the CPU, each GPU thread a fiber.
//
// A mistake of a kernel (an access outside what was allocated, a misaligned one, threads of a warp that part ways, a
// barrier that not all threads reach, operands of an asynchronous instruction that change under it) ends its launch
// with a DeviceError that names the kernel, the source place, the program and the thread; the device stays usable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "runtime/device.h"

namespace tegula {

class ImageCache;
class Recording;

struct EmulatorOptions {
  std::string target = "sm_90a";  ///< the GPU it stands for
  int threads = 0;                ///< worker threads; 0: one a core
  bool check_bounds = true;       ///< global accesses are checked against what was allocated
  /// 0: the environment variable TEGULA_EMULATOR_SEED, without which threads run in order, and programs begin so unless
  /// races are looked for; else in an order that follows from the seed, warps unevenly.
  uint64_t seed = 0;
  /// Blocks of a launch whose kernel takes programs one behind the other; 0: the environment variable
  /// TEGULA_EMULATOR_BLOCKS, without which there is one a program, so that reports name it.
  int program_loop_blocks = 0;
  int resident_programs = 0;  ///< programs that a worker runs at a time; 0: one, or more where atomics may spin
  /// Accesses to the same bytes that nothing orders are errors; one worker runs all programs then. Also where the
  /// environment variable TEGULA_EMULATOR_CHECK is "1", "nan" or "inf".
  bool check_races = false;
  /// The first operations on numbers whose results are NaNs are warned of; implies check_races, which warns of integer
  /// arithmetic: sums and products of int32 in addresses that do not fit, divisions by 0, shifts by too much. Also
  /// where TEGULA_EMULATOR_CHECK is "nan".
  bool check_nans = false;
  /// The first operations on finite numbers whose results are infinities are warned of; implies check_races. Where
  /// TEGULA_EMULATOR_CHECK is "inf", NaNs are as well.
  bool check_infinities = false;
  bool baseline_cpu = false;       ///< use no more than x86-64's first instruction set
  bool optimised_at_once = false;  ///< machine code is made fast before it first runs, not when it has run for long
  /// A launch that takes longer, or in which the threads of a worker take more steps (iterations of loops, and turns of
  /// threads that wait for others through memory), is ended with a report of where its threads are. 0: the environment
  /// variable TEGULA_EMULATOR_LIMIT ("2.5s", "1000000", or both: "10s,1000000"), or no limit.
  double limit_s = 0;
  uint64_t limit_steps = 0;
  bool keep_code = true;  ///< for later processes
  /// Where code is kept; null: in the folder of the cache of compiled kernels.
  std::shared_ptr<ImageCache> code_cache = {};
};

/// The emulator as a device, with what only it can do. Emulated addresses are host addresses.
class EmulatorDevice : public Device {
 public:
  /// Lets kernels access an array of the caller's, until it is unregistered. A range is registered as often as it is
  /// unregistered; ranges may overlap.
  virtual void register_host_range(const void* begin, size_t bytes) = 0;
  /// Takes back one registration of the range that begins there. Throws DeviceError if there is none.
  virtual void unregister_host_range(const void* begin) = 0;
  /// The order of threads of later launches, as EmulatorOptions::seed; 0: threads run in order. Launches must not
  /// overlap.
  virtual void set_seed(uint64_t seed) = 0;
  /// From here on a launch that has this program records it, in place of what the recording held, where its kernel was
  /// compiled with debug=2. Null: none does. The recording must live as long as it is set; launches must not overlap.
  virtual void record_program(Recording* recording, Grid program) = 0;
};

/// An emulator. Throws DeviceError if the target is not known or the host cannot run it.
std::unique_ptr<EmulatorDevice> make_emulator(const EmulatorOptions& options = {});

}  // namespace tegula
