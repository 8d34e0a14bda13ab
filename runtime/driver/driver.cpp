#include "runtime/driver/driver.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <vector>

namespace tegula::cuda {

namespace {

// What the user can do about an error; null if the error's text says it all.
const char* hint_for(Result result) {
  switch (result) {
    case Result::OutOfMemory:
      return "free device memory (other processes on this GPU hold some too: see nvidia-smi) or work on smaller pieces";
    case Result::StubLibrary:
      return "libcuda.so.1 is the toolkit's link library, not a driver: take its folder out of LD_LIBRARY_PATH";
    case Result::NoDevice:
      return "the driver finds no GPU: see nvidia-smi and CUDA_VISIBLE_DEVICES; without a GPU, programs that link "
             "libtegula run on the emulator (TEGULA_DEVICE=emulator)";
    case Result::InvalidDevice:
      return "see CUDA_VISIBLE_DEVICES for which GPUs this process may use";
    case Result::DeviceUnavailable:
      return "another process has this GPU for itself (exclusive compute mode)";
    case Result::NotInitialized:
    case Result::SystemNotReady:
      return "the driver is not running: see nvidia-smi, the kernel module may have to be loaded";
    case Result::SystemDriverMismatch:
    case Result::CompatNotSupportedOnDevice:
      return "the driver's library and its kernel module differ in version: restart the machine after a driver update";
    case Result::CallRequiresNewerDriver:
    case Result::UnsupportedPtxVersion:
      return "update the NVIDIA driver";
    case Result::JitCompilerNotFound:
      return "the driver's PTX compiler (libnvidia-ptxjitcompiler.so.1) is missing: install the driver completely";
    case Result::JitCompilationDisabled:
      return "unset CUDA_DISABLE_PTX_JIT";
    case Result::EccUncorrectable:
    case Result::NvlinkUncorrectable:
    case Result::Contained:
      return "the GPU met a hardware error: restart the process, and see nvidia-smi -q and the system's log (Xid)";
    case Result::ContextIsDestroyed:
      return "another library of this process reset the GPU (cudaDeviceReset): open the device again";
    case Result::NoBinaryForGpu:
    case Result::InvalidImage:
      return "the code was built for another GPU: compile the kernel for this one";
    case Result::LaunchOutOfResources:
      return "the kernel needs more registers or shared memory than one program may have: try fewer warps, smaller "
             "tiles or fewer stages";
    case Result::StreamCaptureUnsupported:
    case Result::StreamCaptureImplicit:
    case Result::StreamCaptureInvalidated:
      return "while a stream is captured, only launch and fill on it: copies and synchronize wait, and cannot be "
             "captured";
    default:
      return nullptr;
  }
}

}  // namespace

std::string cuda_version_text(int version) { return fmt::format("{}.{}", version / 1000, version % 1000 / 10); }

bool is_device_lost(Result result) {
  switch (result) {
    case Result::IllegalAddress:
    case Result::LaunchTimeout:
    case Result::Assert:
    case Result::HardwareStackError:
    case Result::IllegalInstruction:
    case Result::MisalignedAddress:
    case Result::InvalidAddressSpace:
    case Result::InvalidPc:
    case Result::LaunchFailed:
      return true;
    default:
      return false;
  }
}

Driver Driver::open(const char* library) {
  // Never closed: the driver keeps threads and exit handlers of its own.
  void* handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    const char* why = dlerror();
    throw DeviceError(
        fmt::format("no CUDA driver: {} cannot be loaded ({})\n"
                    "  hint: install the NVIDIA driver (CUDA {} or later); without a GPU, programs that "
                    "link libtegula run on the emulator (TEGULA_DEVICE=emulator)",
                    library, why ? why : "unknown reason", cuda_version_text(kLowestCudaVersion)));
  }
  return from([handle](const char* symbol) { return dlsym(handle, symbol); });
}

Driver Driver::from(const Lookup& lookup) {
  Driver driver;
  std::string missing;
  enum Need { Required, Optional };
  auto fill = [&](Need need, auto& entry) {
    void* address = lookup(entry.symbol);
    entry.function = reinterpret_cast<decltype(entry.function)>(address);
    if (!address && need == Required) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", entry.symbol);
  };
#define TEGULA_DRIVER(need, name, symbol, ...) fill(need, driver.name);
#include "runtime/driver/driver.def"

  // The version first: an old driver lacks entries, and its age is the better explanation.
  if (driver.driver_get_version && driver.driver_get_version(&driver.version) == Result::Success &&
      driver.version < kLowestCudaVersion)
    throw DeviceError(
        fmt::format("the CUDA driver is too old: it supports CUDA {}, Tegula needs {} or later\n"
                    "  hint: update the NVIDIA driver; meanwhile the emulator can be used",
                    cuda_version_text(driver.version), cuda_version_text(kLowestCudaVersion)));
  if (!missing.empty())
    throw DeviceError(fmt::format("the CUDA driver lacks {}\n  hint: reinstall or update the NVIDIA driver", missing));
  return driver;
}

std::string Driver::describe(Result result) const {
  const char* name = nullptr;
  const char* text = nullptr;
  if (get_error_name) get_error_name(result, &name);
  if (get_error_string) get_error_string(result, &text);
  return name ? fmt::format("{} ({})", name, text ? text : "no text") : fmt::format("error {}", int(result));
}

void Driver::fail(std::string_view symbol, Result result, std::string_view note) const {
  std::string message = fmt::format("{} failed: {}", symbol, describe(result));
  if (!note.empty()) message += fmt::format("\n  note: {}", note);
  if (is_device_lost(result))
    throw DeviceLostError(message +
                          "\n  note: a kernel that ran earlier faulted and spoilt its context: every further call on "
                          "this GPU fails in this process"
                          "\n  hint: restart the process; the emulator names the kernel, the line and the address of "
                          "an illegal access");
  if (const char* hint = hint_for(result)) message += fmt::format("\n  hint: {}", hint);
  throw DeviceError(message);
}

}  // namespace tegula::cuda
