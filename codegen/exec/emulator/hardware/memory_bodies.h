// Bodies of the hardware functions that load and store: global memory, shared memory, and that of a cluster's blocks.
#pragma once

#include <cstring>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/hardware/bulk_copy.h"
#include "codegen/exec/emulator/launch/scheduler.h"

namespace tegula::emulator {

template <class T>
T load_global(uint64_t address, T other, uint32_t predicate, uint32_t site) {
  this_worker->keep_pace(Fiber::Moved::In);
  if (!predicate) return other;
  T value;
  std::memcpy(&value, global_load(address, sizeof(T), site), sizeof(T));
  return value;
}

template <class T>
void store_global(uint64_t address, T value, uint32_t predicate, uint32_t site) {
  this_worker->keep_pace(Fiber::Moved::Out);
  if (predicate) std::memcpy(global_access(address, sizeof(T), Access::Write, site, &value), &value, sizeof(T));
}

template <int n>
void load_global_vector(uint32_t* result, uint64_t address, const uint32_t* other, uint32_t predicate, uint32_t site) {
  this_worker->keep_pace(Fiber::Moved::In);
  std::memcpy(result, predicate ? global_load(address, 4 * n, site) : other, 4 * n);
}

template <int n>
void store_global_vector(uint64_t address, const uint32_t* values, uint32_t predicate, uint32_t site) {
  this_worker->keep_pace(Fiber::Moved::Out);
  if (predicate) std::memcpy(global_access(address, 4 * n, Access::Write, site, values), values, 4 * n);
}

template <class T>
T load_shared(uint32_t address, uint32_t site) {
  T value;
  std::memcpy(&value, shared_load(address, sizeof(T), site), sizeof(T));
  return value;
}

template <class T>
void store_shared(uint32_t address, T value, uint32_t predicate, uint32_t site) {
  if (!predicate) return;
  std::memcpy(shared_store(address, sizeof(T), site, &value), &value, sizeof(T));
}

template <int n>
void load_shared_vector(uint32_t* result, uint32_t address, uint32_t site) {
  std::memcpy(result, shared_load(address, 4 * n, site), 4 * n);
}

template <int n>
void store_shared_vector(uint32_t address, const uint32_t* values, uint32_t predicate, uint32_t site) {
  if (!predicate) return;
  std::memcpy(shared_store(address, 4 * n, site, values), values, 4 * n);
}

// ---- Global memory

inline uint32_t emu_ld_global_b8(uint64_t address, uint32_t other, uint32_t predicate, uint32_t site) {
  return predicate ? load_global<uint8_t>(address, 0, 1, site) : other;
}
inline uint32_t emu_ld_global_b16(uint64_t address, uint32_t other, uint32_t predicate, uint32_t site) {
  return load_global(address, uint16_t(other), predicate, site);
}
inline uint32_t emu_ld_global_b32(uint64_t address, uint32_t other, uint32_t predicate, uint32_t site) {
  return load_global(address, other, predicate, site);
}
inline uint64_t emu_ld_global_b64(uint64_t address, uint64_t other, uint32_t predicate, uint32_t site) {
  return load_global(address, other, predicate, site);
}
constexpr auto emu_ld_global_v2b32 = load_global_vector<2>;
constexpr auto emu_ld_global_v4b32 = load_global_vector<4>;

inline void emu_st_global_b8(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_global(address, uint8_t(value), predicate, site);
}
inline void emu_st_global_b16(uint64_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_global(address, uint16_t(value), predicate, site);
}
constexpr auto emu_st_global_b32 = store_global<uint32_t>;
constexpr auto emu_st_global_b64 = store_global<uint64_t>;
constexpr auto emu_st_global_v2b32 = store_global_vector<2>;
constexpr auto emu_st_global_v4b32 = store_global_vector<4>;

// ---- Shared memory

inline uint32_t emu_ld_shared_b8(uint32_t address, uint32_t site) { return load_shared<uint8_t>(address, site); }
inline uint32_t emu_ld_shared_b16(uint32_t address, uint32_t site) { return load_shared<uint16_t>(address, site); }
constexpr auto emu_ld_shared_b32 = load_shared<uint32_t>;
constexpr auto emu_ld_shared_b64 = load_shared<uint64_t>;
constexpr auto emu_ld_shared_v2b32 = load_shared_vector<2>;
constexpr auto emu_ld_shared_v4b32 = load_shared_vector<4>;
inline void emu_st_shared_b8(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_shared(address, uint8_t(value), predicate, site);
}
inline void emu_st_shared_b16(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_shared(address, uint16_t(value), predicate, site);
}
constexpr auto emu_st_shared_b32 = store_shared<uint32_t>;
constexpr auto emu_st_shared_b64 = store_shared<uint64_t>;
constexpr auto emu_st_shared_v2b32 = store_shared_vector<2>;
constexpr auto emu_st_shared_v4b32 = store_shared_vector<4>;
inline uint32_t emu_address_in_block(uint32_t address, uint32_t block) {
  const Program& own = *this_worker->fiber().program;
  if (block >= own.cluster->blocks.size()) {
    Fault fault;
    fault.address = block;
    fault.bytes = uint32_t(own.cluster->blocks.size());
    misuse("an address in block {address} of the cluster, which has {bytes}", {}, fault);
  }
  return own.cluster->blocks[block]->shared_base + (address - own.shared_base);
}
template <class T>
T load_cluster(uint32_t address, uint32_t site) {
  T value;
  std::memcpy(&value, cluster_load(address, sizeof(T), site), sizeof(T));
  return value;
}
template <int n>
void load_cluster_vector(uint32_t* result, uint32_t address, uint32_t site) {
  std::memcpy(result, cluster_load(address, 4 * n, site), 4 * n);
}
inline uint32_t emu_ld_cluster_b8(uint32_t address, uint32_t site) { return load_cluster<uint8_t>(address, site); }
inline uint32_t emu_ld_cluster_b16(uint32_t address, uint32_t site) { return load_cluster<uint16_t>(address, site); }
constexpr auto emu_ld_cluster_b32 = load_cluster<uint32_t>;
constexpr auto emu_ld_cluster_b64 = load_cluster<uint64_t>;
constexpr auto emu_ld_cluster_v2b32 = load_cluster_vector<2>;
constexpr auto emu_ld_cluster_v4b32 = load_cluster_vector<4>;
template <class T>
void store_cluster(uint32_t address, T value, uint32_t predicate, uint32_t site) {
  if (predicate) std::memcpy(cluster_store(address, sizeof(T), site), &value, sizeof(T));
}
template <int n>
void store_cluster_vector(uint32_t address, const uint32_t* values, uint32_t predicate, uint32_t site) {
  if (predicate) std::memcpy(cluster_store(address, 4 * n, site), values, 4 * n);
}
inline void emu_st_cluster_b8(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_cluster(address, uint8_t(value), predicate, site);
}
inline void emu_st_cluster_b16(uint32_t address, uint32_t value, uint32_t predicate, uint32_t site) {
  store_cluster(address, uint16_t(value), predicate, site);
}
constexpr auto emu_st_cluster_b32 = store_cluster<uint32_t>;
constexpr auto emu_st_cluster_b64 = store_cluster<uint64_t>;
constexpr auto emu_st_cluster_v2b32 = store_cluster_vector<2>;
constexpr auto emu_st_cluster_v4b32 = store_cluster_vector<4>;
inline void emu_st_async_b32(uint32_t address, uint32_t value, uint32_t barrier, uint32_t predicate, uint32_t site) {
  if (predicate) issue_async_store(address, value, sizeof value, barrier, {site});
}
inline void emu_st_async_b64(uint32_t address, uint64_t value, uint32_t barrier, uint32_t predicate, uint32_t site) {
  if (predicate) issue_async_store(address, value, sizeof value, barrier, {site});
}

}  // namespace tegula::emulator
