#include "dsl/listing/assembler.h"

#include <fmt/format.h>

#include "codegen/exec/ptxas.h"
#include "codegen/target/target.h"
#include "runtime/cuda_device.h"

namespace tegula::dsl {

namespace {

Assembled assemble_with_ptxas(const std::filesystem::path& ptxas, const KernelImage& image) {
  const PtxasRun run = run_ptxas(ptxas, image.ptx, image.target);
  if (run.status != 0)
    throw Error(fmt::format("'{}' refused the PTX of '{}' (exit status {}):\n{}", ptxas.string(), image.kernel,
                            run.status, run.log));
  Assembled result;
  result.cubin.assign(run.cubin.begin(), run.cubin.end());
  result.registers = run.registers;
  result.spill_bytes = run.spill_bytes;
  result.by = "ptxas";
  return result;
}

}  // namespace

std::optional<Assembled> assemble(const KernelImage& image, std::string& why) {
  std::string ptxas_missing = "ptxas is not in PATH";
  if (auto ptxas = find_ptxas()) {
    try {
      return assemble_with_ptxas(*ptxas, image);
    } catch (const FileError& e) {
      ptxas_missing = e.what();
    }
  }
  try {
    std::unique_ptr<Device> device = open_cuda_device();
    if (target_for_sm(device->info().sm).name != image.target) {
      why = fmt::format("{}, and the GPU here ({}) is no {}", ptxas_missing, device->info().name, image.target);
      return std::nullopt;
    }
    Shared<LoadedKernel> loaded = device->load(image);
    const KernelImage& made = loaded->image();
    return Assembled{made.cubin, made.registers, made.spill_bytes,
                     fmt::format("the driver of {}", device->info().name)};
  } catch (const DeviceError& e) {
    why = fmt::format("{}, and no GPU can be used: {}", ptxas_missing, e.what());
    return std::nullopt;
  }
}

}  // namespace tegula::dsl
