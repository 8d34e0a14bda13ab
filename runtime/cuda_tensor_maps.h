// The tensor maps of launches on a GPU: made by the driver, and kept by what they describe.
#pragma once

#include <array>
#include <atomic>
#include <vector>

#include "runtime/cuda_context.h"
#include "runtime/tensor_map.h"

namespace tegula {

/// The maps of one kernel. Launches may ask from any thread: what was made before is found without a lock or an
/// allocation.
class CudaTensorMaps {
 public:
  /// The context must outlive it.
  CudaTensorMaps(const CudaContext& context, TensorMaps maps);
  ~CudaTensorMaps();
  CudaTensorMaps(const CudaTensorMaps&) = delete;
  CudaTensorMaps& operator=(const CudaTensorMaps&) = delete;

  /// The maps of a launch, which it has as long as this object lives.
  struct Found {
    std::array<cuda::TensorMap, TensorMaps::kMost> made;           ///< those that are not kept
    std::array<const cuda::TensorMap*, TensorMaps::kMost> maps{};  ///< into `made`, or kept
  };
  size_t size() const { return maps_.maps.size(); }
  /// False where the arguments (as LoadedKernel::launch takes them) allow no map, an array must begin
  /// within an argument's memory and does not, or the driver makes no map.
  bool find(void* const* args, Found& found);

 private:
  struct Entry {
    MappedArray array;
    cuda::TensorMap map;
  };
  /// Entries stay where they are until the end. Where all places that an array may have are taken, its map is made anew
  /// at each launch.
  static constexpr size_t kBuckets = 32, kPlaces = 4;
  using Table = std::array<std::atomic<const Entry*>, kBuckets + kPlaces>;

  bool lie_together(uint64_t a, uint64_t b) const;
  bool encode(const ImageTensorMap& map, const MappedArray& array, cuda::TensorMap& out) const;
  const cuda::TensorMap* find(size_t index, const MappedArray& array, cuda::TensorMap& made);

  const CudaContext& context_;
  TensorMaps maps_;
  std::vector<Table> tables_;  ///< one a map
};

}  // namespace tegula
