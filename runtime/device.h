// A device that runs kernel images: a GPU through the CUDA driver (cuda_device.h), or the emulator
// (codegen/exec/emulator). Every function may throw DeviceError.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/shared.h"
#include "runtime/kernel_image.h"

namespace tegula {

class Workspaces;
struct Workspace;
enum class WorkspaceUse;
class KeptOfDevice;
class TimingTurns;

struct Grid {
  unsigned x = 1, y = 1, z = 1;
  bool operator==(const Grid&) const = default;
};

/// How many blocks of `block` cover `n`, for grids: Grid{unsigned(cdiv(n, 1024))}.
template <std::integral N, std::integral Block>
constexpr std::common_type_t<N, Block> cdiv(N n, Block block) {
  using T = std::common_type_t<N, Block>;
  return T(T(n) / T(block) + (T(n) % T(block) != 0));
}

/// A CUDA stream (CUstream), the caller's own included, or null for the default one. The emulator runs everything at
/// once and ignores it.
using StreamHandle = void*;
using EventHandle = void*;
using GraphHandle = void*;

struct DeviceInfo {
  std::string name;  ///< "NVIDIA H200", "emulator (sm_90a)"
  bool emulator = false;
  int sm = 90;  ///< compute capability: 90 for 9.0
  int num_sms = 1;
  int driver_version = 0;  ///< 13000 for CUDA 13.0; 0 for the emulator
  int64_t memory_bytes = 0;
  int64_t l2_bytes = 0;
  int64_t shared_per_program = 0;
};

/// Whether the code can count the programs of such a launch, where that takes them one behind the other (program_loop).
bool takes_in_turns(const KernelImage& image, Grid grid);

/// How many clusters of so many blocks run at a time, a block on each multiprocessor. Clusters lie within parts of a
/// GPU, which hold no whole number of large ones: an H200, of 132, runs 30 of four blocks.
int64_t clusters_at_once(int num_sms, int64_t blocks);

/// A kernel image made ready on a device. The device must outlive it.
class LoadedKernel {
 public:
  virtual ~LoadedKernel() = default;
  /// Starts the kernel; a grid without programs starts nothing. `args` points to one pointer an argument, as
  /// cuLaunchKernel takes them. Does not wait on a GPU. False, and nothing is started, where the arguments allow none
  /// of the tensor maps that the code takes, or it cannot count so many programs.
  virtual bool try_launch(Grid grid, void* const* args, StreamHandle stream) = 0;
  /// The same; throws LaunchError where try_launch() gives false.
  void launch(Grid grid, void* const* args, StreamHandle stream);
  virtual const KernelImage& image() const = 0;
  /// Empty if the kernel may use this address; else what it is instead ("host memory"). Launches ask once a kernel.
  virtual std::string why_inaccessible(uint64_t address) const {
    (void)address;
    return {};
  }
};

/// "the assertion fails: MESSAGE" of the image's assert of that number.
std::string assert_failed(const KernelImage& image, uint64_t number);

/// Why a cooperative launch of the image is refused by a device that runs `most` of its programs at once.
std::string cooperative_too_large(const KernelImage& image, Grid grid, int64_t most, const DeviceInfo& device);

class Device {
 public:
  Device();
  virtual ~Device() = default;
  virtual const DeviceInfo& info() const = 0;

  /// Device memory. Addresses are aligned to 256 bytes; 0 bytes give a valid address as well.
  virtual uint64_t allocate(size_t bytes) = 0;
  /// Likewise, of zeros when it returns. May be called while this or another thread captures a stream.
  virtual uint64_t allocate_zeros(size_t bytes) {
    const uint64_t address = allocate(bytes);
    fill(address, 0, bytes);
    synchronize();
    return address;
  }
  virtual void free(uint64_t address) noexcept = 0;
  /// Bytes from `address` to the end of the block of allocate() that it lies in; 0 if it lies in none.
  virtual size_t allocated_bytes(uint64_t address) = 0;
  /// Ordered on the stream; when they return, host memory may be reused (to_device) or holds the data (to_host).
  virtual void copy_to_device(uint64_t to, const void* from, size_t bytes, StreamHandle stream = nullptr) = 0;
  virtual void copy_to_host(void* to, uint64_t from, size_t bytes, StreamHandle stream = nullptr) = 0;
  virtual void copy_on_device(uint64_t to, uint64_t from, size_t bytes, StreamHandle stream = nullptr) = 0;
  virtual void fill(uint64_t address, uint8_t value, size_t bytes, StreamHandle stream = nullptr) = 0;

  /// Makes the image ready: on a GPU from its cubin, else by the driver's assembler from its PTX. What the assembler
  /// made (cubin, registers, spills) stands in image() of the result.
  virtual Shared<LoadedKernel> load(KernelImage image) = 0;

  virtual StreamHandle create_stream() = 0;
  virtual void destroy_stream(StreamHandle stream) noexcept = 0;
  virtual void synchronize(StreamHandle stream = nullptr) = 0;
  /// A number that no other stream of the process has or had, as handles may be given again. Not while it captures.
  virtual uint64_t stream_id(StreamHandle stream) = 0;

  virtual EventHandle create_event() = 0;
  virtual void destroy_event(EventHandle event) noexcept = 0;
  virtual void record(EventHandle event, StreamHandle stream = nullptr) = 0;
  /// Waits for `stop`; milliseconds between two recorded events.
  virtual double elapsed_ms(EventHandle start, EventHandle stop) = 0;

  /// What is launched on `stream` between begin and end becomes a graph instead of running.
  virtual void begin_capture(StreamHandle stream) = 0;
  virtual GraphHandle end_capture(StreamHandle stream) = 0;
  /// Whether what is put on `stream` is being captured.
  virtual bool is_capturing(StreamHandle stream) = 0;
  virtual void launch_graph(GraphHandle graph, StreamHandle stream) = 0;
  virtual void destroy_graph(GraphHandle graph) noexcept = 0;

  /// The workspace (runtime/workspace.h) of the launches on a stream, with `bytes` or more for partial results. It is
  /// made at the first call, grows by need, and goes with the stream; of streams that others made, those used last keep
  /// theirs. Launches that are captured into graphs have another one, which all graphs captured on this stream share
  /// and which stays until the device ends: of these graphs one may run at a time. May be called from any thread, also
  /// while a stream captures; a thread that holds one for several launches has it alone, and those that hold one for a
  /// launch are waited for. A thread holds one at a time.
  Workspace workspace(StreamHandle stream, size_t bytes, WorkspaceUse use = {});

  /// Held by who times work on the device (runtime/timing_turns.h).
  TimingTurns& timing_turns() { return *timing_turns_; }

  /// What others keep of this device, such as kernels made ready on it (runtime/kept.h).
  KeptOfDevice& kept() { return *kept_; }

 protected:
  /// Has what others keep dropped and frees the workspaces. The first thing that the destructor of every device does.
  void drop_kept() noexcept;
  /// Frees the workspace of a stream that is about to be destroyed.
  void drop_workspace(StreamHandle stream) noexcept;
  /// Sets the counters of workspaces that stand among these addresses back to zero: those of a launch that ended early.
  void reset_counters(std::span<const uint64_t> addresses);

 private:
  Shared<KeptOfDevice> kept_;
  Shared<Workspaces> workspaces_;
  Shared<TimingTurns> timing_turns_;
};

}  // namespace tegula
