// A kernel that is loaded in a GPU's context: its module, what its launches ask for, its asserts.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "runtime/cuda_context.h"
#include "runtime/cuda_modules.h"
#include "runtime/cuda_tensor_maps.h"
#include "runtime/device.h"
#include "runtime/kernel_image.h"

namespace tegula {

class CudaKernel final : public LoadedKernel {
 public:
  /// Called with the context current.
  CudaKernel(CudaContext& context, KernelImage image, CudaModules::Made module);
  ~CudaKernel() override;
  CudaKernel(const CudaKernel&) = delete;
  CudaKernel& operator=(const CudaKernel&) = delete;

  bool try_launch(Grid grid, void* const* args, StreamHandle stream) override;
  const KernelImage& image() const override { return image_; }
  std::string why_inaccessible(uint64_t address) const override;
  /// Throws the DeviceError of an assert that has failed in a launch, once.
  void check_asserts();

 private:
  void listen_for_asserts();
  bool launch_with_more(Grid grid, void* const* args, StreamHandle stream);
  void start(Grid grid, void* const* args, StreamHandle stream);
  cuda::LaunchConfig config_of(Grid grid, StreamHandle stream) const;
  [[noreturn]] void launch_failed(cuda::Result result, Grid grid) const;

  // What a launch reads, side by side.
  decltype(cuda::Driver::launch_kernel.function) launch_kernel_;
  decltype(cuda::Driver::launch_kernel_ex.function) launch_kernel_ex_;
  std::vector<cuda::LaunchAttribute> attributes_;
  unsigned blocks_;  // of a program
  decltype(cuda::Driver::ctx_get_current.function) get_current_;
  cuda::Context handle_;
  cuda::Function function_ = nullptr;
  cuda::Function function_of_many_ = nullptr;  // of launches of more programs than few_programs_
  uint64_t few_programs_;
  unsigned threads_;
  unsigned shared_bytes_;
  std::unique_ptr<CudaTensorMaps> maps_;  // null: the code takes none
  unsigned most_blocks_ = 0;              // that take a launch's programs one behind the other; 0: a block a program
  AssertFailure* failure_ = nullptr;      // in pinned memory; null: the code has no asserts

  CudaContext& context_;
  CudaModules::Made module_;
  KernelImage image_;
};

}  // namespace tegula
