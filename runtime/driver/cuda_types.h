// The types of the CUDA driver API that Tegula uses, declared here so that the build needs no CUDA toolkit. Values and
// sizes are those of the driver's binary interface; names are ours.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tegula::cuda {

using Device = int;
using DevicePtr = uint64_t;
using Context = struct ContextTag*;
using Module = struct ModuleTag*;
using Function = struct FunctionTag*;
using Stream = struct StreamTag*;
using Event = struct EventTag*;
using Graph = struct GraphTag*;
using GraphExec = struct GraphExecTag*;
using LinkState = struct LinkStateTag*;

/// Status of every driver call. Only the values that Tegula treats on their own have a name.
enum class Result : int {
  Success = 0,
  InvalidValue = 1,
  OutOfMemory = 2,
  NotInitialized = 3,
  Deinitialized = 4,
  StubLibrary = 34,
  CallRequiresNewerDriver = 36,
  DeviceUnavailable = 46,
  NoDevice = 100,
  InvalidDevice = 101,
  InvalidImage = 200,
  InvalidContext = 201,
  NoBinaryForGpu = 209,
  EccUncorrectable = 214,
  InvalidPtx = 218,
  NvlinkUncorrectable = 220,
  JitCompilerNotFound = 221,
  UnsupportedPtxVersion = 222,
  JitCompilationDisabled = 223,
  Contained = 226,
  InvalidSource = 300,
  InvalidHandle = 400,
  NotFound = 500,
  NotReady = 600,
  IllegalAddress = 700,
  LaunchOutOfResources = 701,
  LaunchTimeout = 702,
  ContextIsDestroyed = 709,
  Assert = 710,
  HardwareStackError = 714,
  IllegalInstruction = 715,
  MisalignedAddress = 716,
  InvalidAddressSpace = 717,
  InvalidPc = 718,
  LaunchFailed = 719,
  CooperativeLaunchTooLarge = 720,
  NotSupported = 801,
  SystemNotReady = 802,
  SystemDriverMismatch = 803,
  CompatNotSupportedOnDevice = 804,
  StreamCaptureUnsupported = 900,
  StreamCaptureInvalidated = 901,
  StreamCaptureImplicit = 906,
  Unknown = 999,
};

enum class DeviceAttribute : int {
  MultiprocessorCount = 16,
  L2CacheSize = 38,
  MaxThreadsPerMultiprocessor = 39,
  ComputeCapabilityMajor = 75,
  ComputeCapabilityMinor = 76,
  MaxSharedMemoryPerMultiprocessor = 81,
  MaxRegistersPerMultiprocessor = 82,
  PageableMemoryAccess = 88,
  MaxSharedMemoryPerBlockOptin = 97,
  MaxBlocksPerMultiprocessor = 106,
};

enum class FunctionAttribute : int {
  MaxThreadsPerBlock = 0,
  LocalSizeBytes = 3,
  NumRegs = 4,
  MaxDynamicSharedSizeBytes = 8,
  NonPortableClusterSizeAllowed = 14,
};

enum class PointerAttribute : int { MemoryType = 2, RangeStartAddress = 11 };

enum class JitOption : int {
  InfoLogBuffer = 3,
  InfoLogBufferSizeBytes = 4,
  ErrorLogBuffer = 5,
  ErrorLogBufferSizeBytes = 6,
  LogVerbose = 12,
  GenerateLineInfo = 13,
};

enum class JitInputType : int { Cubin = 0, Ptx = 1 };

enum class CaptureStatus : int { None = 0, Active = 1, Invalidated = 2 };
enum class CaptureMode : int { Global = 0, ThreadLocal = 1, Relaxed = 2 };

/// Memory of the host that GPUs see, in all contexts.
enum HostAllocFlags : unsigned { kHostAllocMapped = 3 };
enum StreamFlags : unsigned { kStreamDefault = 0, kStreamNonBlocking = 1 };
enum EventFlags : unsigned { kEventDefault = 0, kEventDisableTiming = 2 };

/// CUtensorMap.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};
static_assert(sizeof(TensorMap) == 128);

enum class TensorMapDataType : int {
  Uint8 = 0,
  Uint16 = 1,
  Uint32 = 2,
  Int32 = 3,
  Uint64 = 4,
  Int64 = 5,
  Float16 = 6,
  Float32 = 7,
  Float64 = 8,
  Bfloat16 = 9
};
enum class TensorMapInterleave : int { None = 0 };
enum class TensorMapSwizzle : int { None = 0, Bytes32 = 1, Bytes64 = 2, Bytes128 = 3 };
enum class TensorMapL2Promotion : int { None = 0, Bytes64 = 1, Bytes128 = 2, Bytes256 = 3 };
enum class TensorMapFill : int { Zeros = 0 };

enum class LaunchAttributeId : int { Cooperative = 2, ClusterDimension = 4, ProgrammaticStreamSerialization = 6 };

/// CUlaunchAttribute: an identifier and 64 bytes of value, of which the attributes above take the first number; the
/// blocks of a cluster along x, y and z the first three.
struct LaunchAttribute {
  LaunchAttributeId id;
  int padding = 0;
  int value = 0, y = 0, z = 0;
  char rest[52] = {};
};
static_assert(sizeof(LaunchAttribute) == 72);

/// CUlaunchConfig.
struct LaunchConfig {
  unsigned grid_x, grid_y, grid_z, block_x, block_y, block_z, shared_bytes;
  Stream stream;
  const LaunchAttribute* attributes;
  unsigned attribute_count;
};
static_assert(sizeof(LaunchConfig) == 56);

}  // namespace tegula::cuda
