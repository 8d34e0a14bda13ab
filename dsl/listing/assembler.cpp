#include "dsl/listing/assembler.h"

#include <fmt/format.h>

#include <atomic>

#include "codegen/exec/ptxas.h"
#include "codegen/target/target.h"
#include "dsl/last_made.h"
#include "runtime/base/per_process.h"
#include "runtime/cuda_device.h"
#include "runtime/sealing.h"
#include "runtime/store/image_cache.h"

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

std::atomic<bool> ptxas_failed{false};

}  // namespace

std::optional<Assembled> assemble(const KernelImage& image, std::string& why) {
  std::string missing;
  if (auto ptxas = find_ptxas()) {
    try {
      return assemble_with_ptxas(*ptxas, image);
    } catch (const FileError& e) {
      missing = e.what();
    }
  } else {
    missing = why_no_ptxas();
  }
  try {
    std::unique_ptr<Device> device = open_cuda_device();
    if (target_for_sm(device->info().sm).name != image.target) {
      why = fmt::format("{}, and the GPU here ({}) is no {}", missing, device->info().name, image.target);
      return std::nullopt;
    }
    Shared<LoadedKernel> loaded = device->load(image);
    const KernelImage& made = loaded->image();
    if (made.cubin.empty())
      why = fmt::format("{}, and drivers hand out no machine code of kernels whose warps pass registers", missing);
    return Assembled{made.cubin, made.registers, made.spill_bytes,
                     fmt::format("the driver of {}", device->info().name)};
  } catch (const DeviceError& e) {
    const std::string_view text = e.what();  // whose hint is for those who want the GPU
    why = fmt::format("{}, and no GPU can be used: {}", missing, text.substr(0, text.find('\n')));
    return std::nullopt;
  }
}

bool wants_ptxas(const KernelImage& image) {
  return image.cubin.empty() && image.moves_registers() && may_compile() && !ptxas_failed && find_ptxas();
}

bool assemble_to_keep(KernelImage& image) {
  const auto ptxas = find_ptxas();
  if (!ptxas) return false;
  try {
    // Configurations of several launches are often the same code.
    static constexpr size_t kKept = 32;
    // Never destroyed: threads may compile while the process ends.
    static auto* last =
        new PerProcess<LastMade<Assembled>>([] { return std::make_unique<LastMade<Assembled>>(kKept); });
    const Assembled made = last->get().get(content_key({ptxas->string(), image.kernel, image.target, image.ptx}),
                                           [&] { return assemble_with_ptxas(*ptxas, image); });
    image.cubin = made.cubin;
    image.registers = made.registers;
    image.spill_bytes = made.spill_bytes;
    return true;
  } catch (const Error&) {  // of a version that does not know the target; no room for its files
    leave_ptxas_alone();
    return false;
  }
}

void leave_ptxas_alone() { ptxas_failed = true; }

}  // namespace tegula::dsl
