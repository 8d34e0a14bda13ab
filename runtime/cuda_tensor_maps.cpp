#include "runtime/cuda_tensor_maps.h"

#include <memory>
#include <optional>

namespace tegula {

namespace {

// Of the numbers that tell launches of one kernel apart.
size_t hash_of(const MappedArray& array) {
  constexpr uint64_t kPrime = 0x9E3779B97F4A7C15;
  uint64_t hash = array.base * kPrime;
  for (int64_t n : array.extents) hash = (hash ^ uint64_t(n)) * kPrime;
  for (int64_t n : array.strides) hash = (hash ^ uint64_t(n)) * kPrime;
  return size_t(hash >> 32);
}

// Copies move bits; as what reductions combine elements is the map's.
cuda::TensorMapDataType data_type(Elem elem) {
  using enum cuda::TensorMapDataType;
  switch (elem) {
    case Elem::I16:
    case Elem::U16:
      return Uint16;
    case Elem::U32:
      return Uint32;
    case Elem::I32:
      return Int32;
    case Elem::U64:
      return Uint64;
    case Elem::I64:
      return Int64;
    case Elem::F16:
      return Float16;
    case Elem::BF16:
      return Bfloat16;
    case Elem::F32:
      return Float32;
    case Elem::F64:
      return Float64;
    default:
      return Uint8;
  }
}

cuda::TensorMapSwizzle swizzle_of(int bytes) {
  switch (bytes) {
    case 32:
      return cuda::TensorMapSwizzle::Bytes32;
    case 64:
      return cuda::TensorMapSwizzle::Bytes64;
    case 128:
      return cuda::TensorMapSwizzle::Bytes128;
    default:
      return cuda::TensorMapSwizzle::None;
  }
}

}  // namespace

CudaTensorMaps::CudaTensorMaps(const CudaContext& context, TensorMaps maps)
    : context_(context), maps_(std::move(maps)), tables_(maps_.maps.size()) {}

CudaTensorMaps::~CudaTensorMaps() {
  for (Table& table : tables_)
    for (auto& place : table) delete place.load(std::memory_order_relaxed);
}

bool CudaTensorMaps::encode(const ImageTensorMap& map, const MappedArray& array, cuda::TensorMap& out) const {
  const cuda::Driver& driver = context_.driver();
  if (!driver.tensor_map_encode) return false;
  std::array<uint64_t, kMaxMapRank> extents{}, strides{};
  std::array<uint32_t, kMaxMapRank> box{}, element_strides;
  element_strides.fill(1);
  for (size_t d = 0; d < map.box.size(); ++d) {
    extents[d] = uint64_t(array.extents[d]);
    box[d] = uint32_t(map.box[d]);
    if (d + 1 < map.box.size()) strides[d] = uint64_t(array.strides[d]);
  }
  return driver.tensor_map_encode(&out, data_type(map.elem), unsigned(map.rank()), reinterpret_cast<void*>(array.base),
                                  extents.data(), strides.data(), box.data(), element_strides.data(),
                                  cuda::TensorMapInterleave::None, swizzle_of(map.swizzle),
                                  cuda::TensorMapL2Promotion::Bytes128,
                                  cuda::TensorMapFill::Zeros) == cuda::Result::Success;
}

// Whether both addresses are of one allocation: another one may be of memory that this GPU does not reach, or be freed
// before a graph is replayed.
bool CudaTensorMaps::lie_together(uint64_t a, uint64_t b) const {
  auto scope = context_.current();
  auto begin_of = [&](uint64_t address) -> std::optional<cuda::DevicePtr> {
    cuda::DevicePtr begin = 0;
    const cuda::Result result =
        context_.driver().pointer_get_attribute(&begin, cuda::PointerAttribute::RangeStartAddress, address);
    return result == cuda::Result::Success ? std::optional(begin) : std::nullopt;
  };
  const auto begin = begin_of(b);
  return begin && begin == begin_of(a);
}

const cuda::TensorMap* CudaTensorMaps::find(size_t index, const MappedArray& array, cuda::TensorMap& made) {
  const size_t first = hash_of(array) % kBuckets;
  for (size_t i = first; i < first + kPlaces; ++i) {
    std::atomic<const Entry*>& place = tables_[index][i];
    const Entry* entry = place.load(std::memory_order_acquire);
    if (!entry) {
      auto fresh = std::make_unique<Entry>();
      fresh->array = array;
      if (!encode(maps_.maps[index], array, fresh->map)) return nullptr;
      if (place.compare_exchange_strong(entry, fresh.get(), std::memory_order_acq_rel)) return &fresh.release()->map;
      // Another thread was here first, perhaps with this array.
    }
    if (entry->array == array) return &entry->map;
  }
  return encode(maps_.maps[index], array, made) ? &made : nullptr;
}

bool CudaTensorMaps::find(void* const* args, Found& found) {
  std::array<MappedArray, TensorMaps::kMost> arrays;
  if (!find_arrays(maps_, args, arrays.data())) return false;
  for (size_t i = 0; i < size(); ++i)
    if (const uint64_t* argument = maps_.must_begin_within(maps_.maps[i], args))
      if (!lie_together(*argument, arrays[i].base)) return false;
  for (size_t i = 0; i < size(); ++i)
    if (!(found.maps[i] = find(i, arrays[i], found.made[i]))) return false;
  return true;
}

}  // namespace tegula
