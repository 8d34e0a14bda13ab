#include "codegen/exec/emulator/hardware/hw_bodies.h"

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <type_traits>

#include "codegen/exec/debug/recording.h"
#include "codegen/exec/emulator/hardware/approximations.h"
#include "codegen/exec/emulator/hardware/atomic_bodies.h"
#include "codegen/exec/emulator/hardware/matrix_moves.h"
#include "codegen/exec/emulator/hardware/matrix_product.h"
#include "codegen/exec/emulator/hardware/memory_bodies.h"
#include "codegen/exec/emulator/hardware/row_taints.h"
#include "codegen/exec/emulator/hardware/wgmma.h"
#include "codegen/exec/emulator/interpreter/thunk.h"
#include "codegen/exec/emulator/launch/scheduler.h"
#include "codegen/lower/hw.h"
#include "runtime/base/float8.h"

namespace tegula::emulator {

namespace {

// ---- Warp exchanges

template <class Bits, class Source>
Bits shuffle(Bits value, uint32_t place, Source source) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  uint32_t lane = worker.fiber().thread % kLanes;
  auto& x = warp.exchange[warp.round & 1].shuffle;
  x.value[lane] = value;
  worker.meet(warp, {Where::kNone, place}, [] {});
  return Bits(x.value[source(lane) % kLanes]);
}

/// Checked when issued, so that a fault names the copy.
template <unsigned bytes>
void copy_async(uint32_t to, uint64_t from, uint32_t predicate, uint32_t site) {
  Fiber& fiber = this_worker->fiber();
  fiber.loaded.any = false;
  void* source = predicate ? global_access(from, bytes, Access::Read, site, nullptr, true, true) : nullptr;
  fiber.copies.issue({shared_access(fiber, to, bytes, Access::Write, site), source, bytes, site, fiber.loaded});
  if (Races* races = this_worker->races())
    races->copy_begins(*fiber.program, to - fiber.program->shared_base, bytes, {site});
}

template <unsigned bytes>
void copy_async_by_some(uint32_t to, uint64_t from, uint32_t predicate, uint32_t copies, uint32_t site) {
  if (copies) copy_async<bytes>(to, from, predicate, site);
}

/// The product of a warp, by the instruction of that row of instructions.def, whose sums have so many registers.
template <class Sum, uint32_t kRegisters>
void emu_mma(Sum* result, const uint32_t* a, const uint32_t* b, const Sum* c, uint32_t row, uint32_t place) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  const uint32_t lane = worker.fiber().thread % kLanes;
  auto& x = warp.exchange[warp.round & 1].mma;
  place_fragment<4>(x.a, lane, a);
  place_fragment<2>(x.b, lane, b);
  std::memcpy(x.sums + kRegisters * lane, c, kRegisters * sizeof(Sum));
  worker.meet(warp, {Where::kNone, place}, [&] {
    multiply_told(mma_instructions()[row], 8, x.a, x.b, std::span(x.sums, kRegisters * kLanes), true, place);
    if (worker.races()) hand_on_rows(take_told_rows(), false);
  });
  std::memcpy(result, x.sums + kRegisters * lane, kRegisters * sizeof(Sum));
}

// ---- The bodies, in the order of hw.def; those of accesses and of atomic operations stand in headers of their own

uint32_t emu_thread_id() { return this_worker->fiber().thread; }
uint32_t emu_cluster_id_x() { return this_worker->fiber().program->x; }
uint32_t emu_cluster_id_y() { return this_worker->fiber().program->y; }
uint32_t emu_cluster_id_z() { return this_worker->fiber().program->z; }
uint32_t emu_num_clusters_x() { return this_worker->launch().grid.x; }
uint32_t emu_num_clusters_y() { return this_worker->launch().grid.y; }
uint32_t emu_num_clusters_z() { return this_worker->launch().grid.z; }
uint32_t emu_block_of_cluster() { return this_worker->fiber().program->block; }
// The blocks of a cluster lie along x.
uint32_t emu_program_id_x() { return emu_cluster_id_x() * this_worker->launch().blocks + emu_block_of_cluster(); }
uint32_t emu_program_id_y() { return emu_cluster_id_y(); }
uint32_t emu_program_id_z() { return emu_cluster_id_z(); }
// The emulator takes programs in any order.
constexpr auto emu_program_id_long_first_x = emu_program_id_x;
constexpr auto emu_program_id_long_first_y = emu_program_id_y;
uint32_t emu_num_programs_x() { return emu_num_clusters_x() * this_worker->launch().blocks; }
uint32_t emu_num_programs_y() { return emu_num_clusters_y(); }
uint32_t emu_num_programs_z() { return emu_num_clusters_z(); }
uint64_t emu_opaque_pointer(uint64_t address) { return address; }
uint32_t emu_opaque_b32(uint32_t x) { return x; }
uint32_t emu_index_within(uint32_t index, uint32_t /*extent*/) { return index; }
uint32_t emu_copied_b32(uint32_t x) { return x; }
uint32_t emu_shared_base() { return this_worker->fiber().program->shared_base; }

void emu_fence() {
  const Fiber& fiber = this_worker->fiber();
  if (this_worker->races()) Races::fence(*fiber.program, fiber.thread);
}

void emu_loads_stay() {}

// Launches do not overlap here.
void emu_wait_for_earlier() {}
void emu_let_next_start() {}

void emu_barrier(uint32_t site, uint32_t place) {
  this_worker->barrier(uint32_t(this_worker->fiber().program->fibers.size()), {site, place});
}
void emu_barrier_of(uint32_t threads, uint32_t site, uint32_t place) { this_worker->barrier(threads, {site, place}); }
void emu_cluster_arrive(uint32_t site, uint32_t place) { this_worker->cluster_arrive(false, {site, place}); }
void emu_cluster_arrive_relaxed(uint32_t site, uint32_t place) { this_worker->cluster_arrive(true, {site, place}); }
void emu_cluster_wait(uint32_t site, uint32_t place) { this_worker->cluster_wait({site, place}); }
void emu_barrier_between(uint32_t number, uint32_t threads, uint32_t site, uint32_t place) {
  this_worker->barrier_between(number, threads, {site, place});
}
void emu_turn_wait(uint32_t number, uint32_t threads, uint32_t site, uint32_t place) {
  this_worker->wait_for_turn(number, threads, {site, place});
}
void emu_turn_pass(uint32_t number, uint32_t predicate, uint32_t threads, uint32_t site, uint32_t place) {
  if (predicate) this_worker->pass_turn(number, threads, {site, place});
}
void emu_warp_barrier(uint32_t place) {
  this_worker->meet(this_worker->warp(), {Where::kNone, place}, [] {});
}
void emu_more_registers(uint32_t, uint32_t place) { emu_warp_barrier(place); }
void emu_fewer_registers(uint32_t, uint32_t place) { emu_warp_barrier(place); }

uint32_t emu_match_byte(uint32_t value, uint32_t place) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  auto& x = warp.exchange[warp.round & 1].match;
  x.value[worker.fiber().thread % kLanes] = uint8_t(value);
  worker.meet(warp, {Where::kNone, place}, [&] {
    for (uint8_t byte : x.value) x.lanes_of[byte] = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane) x.lanes_of[x.value[lane]] |= 1u << lane;
  });
  return x.lanes_of[uint8_t(value)];
}
void emu_in_order_b64(uint64_t* result, uint64_t x, uint64_t y) {
  result[0] = std::min(x, y), result[1] = std::max(x, y);
}
uint32_t emu_shfl_bfly_b32(uint32_t value, uint32_t mask, uint32_t place) {
  return shuffle(value, place, [=](uint32_t lane) { return lane ^ mask; });
}
uint32_t emu_shfl_idx_b32(uint32_t value, uint32_t index, uint32_t place) {
  return shuffle(value, place, [=](uint32_t) { return index; });
}
uint64_t emu_shfl_bfly_b64(uint64_t value, uint32_t mask, uint32_t place) {
  return shuffle(value, place, [=](uint32_t lane) { return lane ^ mask; });
}
uint64_t emu_shfl_idx_b64(uint64_t value, uint32_t index, uint32_t place) {
  return shuffle(value, place, [=](uint32_t) { return index; });
}

constexpr auto emu_ldmatrix_x1 = load_matrices<1, false>;
constexpr auto emu_ldmatrix_x2 = load_matrices<2, false>;
constexpr auto emu_ldmatrix_x4 = load_matrices<4, false>;
constexpr auto emu_ldmatrix_x1_trans = load_matrices<1, true>;
constexpr auto emu_ldmatrix_x2_trans = load_matrices<2, true>;
constexpr auto emu_ldmatrix_x4_trans = load_matrices<4, true>;
constexpr auto emu_stmatrix_x1 = store_matrices<1, false>;
constexpr auto emu_stmatrix_x2 = store_matrices<2, false>;
constexpr auto emu_stmatrix_x4 = store_matrices<4, false>;
constexpr auto emu_stmatrix_x1_trans = store_matrices<1, true>;
constexpr auto emu_stmatrix_x2_trans = store_matrices<2, true>;
constexpr auto emu_stmatrix_x4_trans = store_matrices<4, true>;

constexpr auto emu_cp_async_4 = copy_async<4>;
constexpr auto emu_cp_async_8 = copy_async<8>;
constexpr auto emu_cp_async_16 = copy_async<16>;
constexpr auto emu_cp_async_by_some_4 = copy_async_by_some<4>;
constexpr auto emu_cp_async_by_some_8 = copy_async_by_some<8>;
constexpr auto emu_cp_async_by_some_16 = copy_async_by_some<16>;
void emu_cp_async_commit() { this_worker->fiber().copies.commit(); }
void emu_cp_async_wait(uint32_t pending) {
  Fiber& fiber = this_worker->fiber();
  fiber.copies.wait(pending, [&](const AsyncCopy& copy) { this_worker->perform(fiber, copy); });
}

void emu_mbarrier_init(uint32_t address, uint32_t count, uint32_t predicate, uint32_t site) {
  if (predicate) init_mbarrier(address, count, site);
}
void emu_mbarrier_inval(uint32_t address, uint32_t predicate, uint32_t site) {
  if (predicate) inval_mbarrier(address, site);
}
void emu_mbarrier_arrive(uint32_t address, uint32_t predicate, uint32_t site) {
  if (predicate) arrive_on_mbarrier(address, site);
}
void emu_mbarrier_arrive_cluster(uint32_t address, uint32_t predicate, uint32_t site) {
  if (predicate) arrive_in_cluster(address, site);
}
void emu_cp_async_mbarrier_arrive(uint32_t address, uint32_t site) { arrive_after_copies(address, site); }
void emu_mbarrier_arrive_expect(uint32_t address, uint32_t bytes, uint32_t predicate, uint32_t site) {
  if (predicate) arrive_expecting(address, bytes, site);
}
template <int rank>
void emu_bulk_copy(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, uint32_t predicate,
                   uint32_t site) {
  if (predicate) issue_bulk_copy(to, map, barrier, coordinates, rank, {site});
}
template <int rank>
void emu_bulk_copy_multicast(uint32_t to, uint64_t map, uint32_t barrier, const uint32_t* coordinates, uint32_t blocks,
                             uint32_t predicate, uint32_t site) {
  if (predicate) issue_multicast(to, map, barrier, coordinates, rank, blocks & 0xffff, {site});
}
constexpr auto emu_bulk_copy_multicast_1d = emu_bulk_copy_multicast<1>;
constexpr auto emu_bulk_copy_multicast_2d = emu_bulk_copy_multicast<2>;
constexpr auto emu_bulk_copy_multicast_3d = emu_bulk_copy_multicast<3>;
constexpr auto emu_bulk_copy_multicast_4d = emu_bulk_copy_multicast<4>;
constexpr auto emu_bulk_copy_multicast_5d = emu_bulk_copy_multicast<5>;
constexpr auto emu_bulk_copy_1d = emu_bulk_copy<1>;
constexpr auto emu_bulk_copy_2d = emu_bulk_copy<2>;
constexpr auto emu_bulk_copy_3d = emu_bulk_copy<3>;
constexpr auto emu_bulk_copy_4d = emu_bulk_copy<4>;
constexpr auto emu_bulk_copy_5d = emu_bulk_copy<5>;
template <int rank, Combine... combine>
void emu_bulk_store(uint32_t from, uint64_t map, const uint32_t* coordinates, uint32_t predicate, uint32_t site) {
  if (predicate) issue_bulk_store(from, map, coordinates, rank, {combine...}, {site});
}
#define TEGULA_BULK_STORE(kind, ...)                                                  \
  constexpr auto emu_bulk_##kind##_1d = emu_bulk_store<1 __VA_OPT__(, ) __VA_ARGS__>; \
  constexpr auto emu_bulk_##kind##_2d = emu_bulk_store<2 __VA_OPT__(, ) __VA_ARGS__>; \
  constexpr auto emu_bulk_##kind##_3d = emu_bulk_store<3 __VA_OPT__(, ) __VA_ARGS__>; \
  constexpr auto emu_bulk_##kind##_4d = emu_bulk_store<4 __VA_OPT__(, ) __VA_ARGS__>; \
  constexpr auto emu_bulk_##kind##_5d = emu_bulk_store<5 __VA_OPT__(, ) __VA_ARGS__>;
TEGULA_BULK_STORE(store)
TEGULA_BULK_STORE(add, Combine::Add)
TEGULA_BULK_STORE(min, Combine::Min)
TEGULA_BULK_STORE(max, Combine::Max)
TEGULA_BULK_STORE(and, Combine::And)
TEGULA_BULK_STORE(or, Combine::Or)
TEGULA_BULK_STORE(xor, Combine::Xor)
#undef TEGULA_BULK_STORE
void emu_bulk_store_commit() { commit_bulk_stores(); }
void emu_bulk_store_wait(uint32_t pending) { wait_for_bulk_stores(pending, false); }
void emu_bulk_store_wait_all() { wait_for_bulk_stores(0, true); }
uint32_t emu_select_bytes(uint32_t low, uint32_t high, uint32_t selector) {
  const uint64_t bytes = uint64_t(high) << 32 | low;
  uint32_t out = 0;
  for (int i = 0; i < 4; ++i) out |= uint32_t(bytes >> (selector >> 4 * i & 7) * 8 & 0xff) << 8 * i;
  return out;
}
uint32_t emu_elect_lane(uint32_t) { return this_worker->fiber().thread % kLanes == 0; }
void emu_prefetch_tensor_map(uint64_t, uint32_t) {}
void emu_prefetch_l2(uint64_t, uint32_t) {}
void emu_mbarrier_wait(uint32_t address, uint32_t parity, uint32_t site, uint32_t place) {
  wait_for_mbarrier(address, parity, {site, place});
}
void emu_mbarrier_wait_cluster(uint32_t address, uint32_t parity, uint32_t site, uint32_t place) {
  wait_for_mbarrier(address, parity, {site, place});
}
void emu_fence_mbarrier_init() { publish_mbarriers(); }

void emu_fence_async_shared() {
  const Fiber& fiber = this_worker->fiber();
  fiber.program->writes.fence(fiber.thread);
}
void emu_wgmma_fence(uint32_t place) { fence_products({Where::kNone, place}); }
void emu_wgmma_commit(uint32_t place) { commit_products({Where::kNone, place}); }
// One instruction after another, each with the sums of the one before.
template <class Sum>
void emu_wgmma_ss(Sum* result, const uint64_t* a, const uint64_t* b, const Sum* sums, uint32_t accumulate,
                  uint32_t site, uint32_t steps, uint32_t n, uint32_t row, uint32_t transposed_a, uint32_t transposed_b,
                  uint32_t place) {
  for (uint32_t i = 0; i < steps; ++i)
    issue_product(result,
                  {&mma_instructions()[row], a[i], b[i], nullptr, i ? result : sums, i || accumulate, transposed_a != 0,
                   transposed_b != 0, n, i > 0},
                  {site, place});
}
template <class Sum>
void emu_wgmma_rs(Sum* result, const uint32_t* a, const uint64_t* b, const Sum* sums, uint32_t accumulate,
                  uint32_t site, uint32_t steps, uint32_t n, uint32_t row, uint32_t transposed_b, uint32_t place) {
  for (uint32_t i = 0; i < steps; ++i)
    issue_product(result,
                  {&mma_instructions()[row], 0, b[i], a + 4 * i, i ? result : sums, i || accumulate, false,
                   transposed_b != 0, n, i > 0},
                  {site, place});
}
template <class Sum, uint32_t mark>
void emu_wgmma_wait(Sum* result, const Sum* values, uint32_t count, uint32_t pending, uint32_t place) {
  wait_for_products(result, values, count, pending, mark, {Where::kNone, place});
}

/// Appends the text up to and including the next directive of a format of printf, which prints the value.
template <class T>
void append_directive(std::string& line, const char*& format, T value) {
  std::string part;
  for (; *format; ++format) {
    part += *format;
    if (*format != '%') continue;
    if (format[1] == '%') {
      part += *++format;
      continue;
    }
    while (!std::isalpha(static_cast<unsigned char>(*++format)) || *format == 'l') part += *format;
    part += *format++;
    break;
  }
  char text[512];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  std::snprintf(text, sizeof text, part.c_str(), value);
#pragma GCC diagnostic pop
  line += text;
}

/// As the kind says, which is that of the row `print`. NaNs have no sign, which differs from machine to machine.
void append_value(std::string& line, const char*& format, uint32_t kind, uint64_t bits) {
  if (kind == 0) append_directive(line, format, uint32_t(bits));
  if (kind == 1) append_directive(line, format, (unsigned long long)(bits));
  if (kind != 2) return;
  const auto value = std::bit_cast<double>(bits);
  append_directive(line, format, std::isnan(value) ? std::fabs(value) : value);
}

void emu_print(uint32_t position, uint32_t rank, uint32_t kind, uint64_t format_address, uint32_t index,
               const uint32_t* coordinates, uint64_t bits, uint32_t predicate) {
  Fiber& fiber = this_worker->fiber();
  if (position == 0) ++fiber.prints;
  if (!predicate) return;
  Program& program = *fiber.program;
  const char* format = reinterpret_cast<const char*>(format_address);
  std::string line;
  for (uint32_t number : {program.x, program.y, program.z}) append_directive(line, format, number);
  for (uint32_t i = 0; i < rank; ++i) append_directive(line, format, coordinates[i]);
  append_value(line, format, kind, bits);
  append_directive(line, format, 0);
  program.prints.add(fiber.prints, position, index, std::move(line));
}
void emu_watch(uint64_t text, uint64_t pairs, uint32_t count) {
  const Launch& launch = this_worker->launch();
  const Fiber& fiber = this_worker->fiber();
  const Program& program = *fiber.program;
  if (!launch.recording || program.number != launch.recorded_program) return;
  launch.recording->add(program.block * launch.threads + fiber.thread, reinterpret_cast<const char*>(text),
                        reinterpret_cast<const uint64_t*>(pairs), count);
}
void emu_failed_element(uint32_t rank, uint32_t kind, uint64_t text, const uint32_t* coordinates, uint64_t a,
                        uint64_t b, uint32_t predicate) {
  if (!predicate) return;
  const Fiber& fiber = this_worker->fiber();
  const char* format = reinterpret_cast<const char*>(text);
  std::string line;
  for (uint32_t i = 0; i < rank; ++i) append_directive(line, format, coordinates[i]);
  for (uint64_t bits : {a, b}) append_value(line, format, kind, bits);
  append_directive(line, format, 0);
  fiber.program->failed_elements.try_emplace(fiber.thread, std::move(line));
}
void emu_check(uint32_t failed, uint32_t number, uint64_t, uint32_t site, uint32_t place) {
  Worker& worker = *this_worker;
  if (!failed) return worker.barrier(uint32_t(worker.fiber().program->fibers.size()), {site, place});
  Fault fault;
  fault.kind = Fault::Assert;
  fault.address = number;
  fault.thread = worker.fiber().thread;
  fault.where = {site, place};
  worker.abandon(fault);
}
uint64_t emu_failure_variable() { return 0; }

float emu_ex2_approx_f32(float value) { return approximate_ex2(value); }
float emu_ex2_approx_ftz_f32(float value) { return flush(approximate_ex2(flush(value))); }
float emu_tanh_approx_f32(float value) { return approximate_tanh(value); }
float emu_rcp_approx_ftz_f32(float value) { return flush(1 / flush(value)); }
float emu_sqrt_approx_f32(float value) { return std::sqrt(value); }
float emu_rsqrt_approx_f32(float value) { return float(1 / std::sqrt(double(value))); }
float emu_fma_sat_f32(float x, float y, float z) { return std::fmin(std::fmax(std::fma(x, y, z), 0.0f), 1.0f); }
float emu_div_full_f32(float a, float b) { return a / b; }
float emu_cvt_rz_f32_f64(double value) {
  float nearest = float(value);
  // Not for infinities and NaNs that are so already; an overflow is rounded back to the largest value.
  bool away = std::isfinite(value) && std::abs(double(nearest)) > std::abs(value);
  return away ? std::nextafter(nearest, 0.0f) : nearest;
}
uint32_t emu_cvt_rna_tf32_f32(float value) {
  return std::isnan(value) ? 0x7FFFFFFF : (std::bit_cast<uint32_t>(value) + 0x1000) & ~0x1FFFu;
}
uint32_t emu_cvt_rz_f16_f32(float value) {
  return std::isnan(value) ? 0x7FFF : float16::round(value, Rounding::TowardZero).bits;
}
uint32_t emu_cvt_rz_bf16_f32(float value) {
  return std::isnan(value) ? 0x7FFF : bfloat16::round(value, Rounding::TowardZero).bits;
}
uint32_t emu_cvt_e4m3x2_f32(float low, float high) {
  return uint32_t(float8e4nv(low).bits | float8e4nv(high).bits << 8);
}
uint32_t emu_cvt_e5m2x2_f32(float low, float high) { return uint32_t(float8e5(low).bits | float8e5(high).bits << 8); }

/// What `bits_of` makes of the four bytes of a word, each in 16 bits.
template <class BitsOf>
void widen_bytes(uint32_t* result, uint32_t bytes, BitsOf bits_of) {
  for (int i = 0; i < 2; ++i) {
    const uint32_t low = bits_of(uint8_t(bytes >> 16 * i)), high = bits_of(uint8_t(bytes >> (16 * i + 8)));
    result[i] = low | high << 16;
  }
}
void emu_cvt_f16x4_e4m3x4(uint32_t* result, uint32_t four) {
  widen_bytes(result, four, [](uint8_t bits) -> uint32_t {
    const float value = float8e4nv::of_bits(bits);
    return std::isnan(value) ? 0x7FFF : float16(value).bits;
  });
}
template <class Number, class Integer>
void widen_integers(uint32_t* result, uint32_t four) {
  widen_bytes(result, four, [](uint8_t bits) -> uint32_t { return Number(float(Integer(bits))).bits; });
}
constexpr auto emu_cvt_f16x4_s8x4 = widen_integers<float16, int8_t>;
constexpr auto emu_cvt_f16x4_u8x4 = widen_integers<float16, uint8_t>;
constexpr auto emu_cvt_bf16x4_s8x4 = widen_integers<bfloat16, int8_t>;
constexpr auto emu_cvt_bf16x4_u8x4 = widen_integers<bfloat16, uint8_t>;

// ---- The table. A row without a body does not compile, nor one whose body has other parameters than the row says.

constexpr bool is_plain(char type, auto* tag) {
  using T = std::remove_pointer_t<decltype(tag)>;
  switch (type) {
    case 'v':
      return std::is_void_v<T>;
    case 'f':
      return std::is_same_v<T, float>;
    case 'd':
      return std::is_same_v<T, double>;
    case 'l':
    case 'p':
      return std::is_same_v<T, uint64_t>;
    default:
      return std::is_same_v<T, uint32_t>;
  }
}

template <class T>
constexpr bool is_slot(HwSlot slot, bool result = false) {
  if (!slot.repeated()) return is_plain(slot.type, static_cast<T*>(nullptr));
  if constexpr (std::is_pointer_v<T>) {
    using E = std::remove_pointer_t<T>;
    return std::is_const_v<E> != result && is_plain(slot.type, static_cast<std::remove_const_t<E>*>(nullptr));
  }
  return false;
}

template <class R, class... A>
constexpr bool fits(R (*)(A...), HwSignature signature, unsigned effects) {
  HwSlot expected[16];
  int count = 0;
  bool by_pointer = signature.result.count > 0;
  if (by_pointer) expected[count++] = signature.result;
  for (int i = 0; i < signature.num_args; ++i) expected[count++] = signature.args[i];
  if (effects & lower::Convergent) expected[count++] = {'i', 0};
  if (count != int(sizeof...(A)) || (by_pointer && !std::is_void_v<R>)) return false;
  if (!by_pointer && !is_slot<R>(signature.result)) return false;
  int i = 0;
  return ((++i, is_slot<A>(expected[i - 1], by_pointer && i == 1)) && ...);
}

using enum lower::HwEffect;
#define TEGULA_HW(name, signature, feature, effects, assembly, constraints)                                   \
  static_assert(                                                                                              \
      fits(static_cast<std::decay_t<decltype(emu_##name)>>(nullptr), parse_hw_signature(signature), effects), \
      "the body of " #name " has other parameters than its row");
#include "codegen/lower/hw.def"
// The bodies of families, each with the signature of one of its rows.
#define TEGULA_FAMILIES(row)                                                                                         \
  row(mma_f32, (emu_mma<float, 4>), "{f32 * 4}(i32 * 4, i32 * 2, f32 * 4, 0)") row(                                  \
      mma_i32, (emu_mma<uint32_t, 4>), "{i32 * 4}(i32 * 4, i32 * 2, i32 * 4, 0)")                                    \
      row(mma_i32_pairs, (emu_mma<uint32_t, 2>), "{i32 * 2}(i32 * 4, i32 * 2, i32 * 2, 0)") row(                     \
          wgmma_ss_f32, emu_wgmma_ss<float>, "{f32 * 4}(i64 * 1, i64 * 1, f32 * 4, i1, site, 1, 8, 0, imm, imm)")    \
          row(wgmma_ss_i32, emu_wgmma_ss<uint32_t>, "{i32 * 4}(i64 * 1, i64 * 1, i32 * 4, i1, site, 1, 8, 0, 0, 0)") \
              row(wgmma_rs_f32, emu_wgmma_rs<float>, "{f32 * 4}(i32 * 4, i64 * 1, f32 * 4, i1, site, 1, 8, 0, imm)") \
                  row(wgmma_rs_i32, emu_wgmma_rs<uint32_t>,                                                          \
                      "{i32 * 4}(i32 * 4, i64 * 1, i32 * 4, i1, site, 1, 8, 0, 0)")                                  \
                      row(wgmma_wait_f32, (emu_wgmma_wait<float, kFloatMark>), "{f32 * 4}(f32 * 4, 4, imm)") row(    \
                          wgmma_wait_pairs, (emu_wgmma_wait<uint32_t, kFloatMark>), "{i32 * 4}(i32 * 4, 4, imm)")    \
                          row(wgmma_wait_i32, (emu_wgmma_wait<uint32_t, kIntegerMark>), "{i32 * 4}(i32 * 4, 4, imm)")
#define TEGULA_FAMILY(name, body, signature)                            \
  static_assert(fits(&body, parse_hw_signature(signature), Convergent), \
                "the body of " #name " has other parameters than its rows");
TEGULA_FAMILIES(TEGULA_FAMILY)
#undef TEGULA_FAMILY

}  // namespace

const std::vector<HwBody>& hw_bodies() {
  static const std::vector<HwBody> bodies = {
#define TEGULA_HW(name, signature, feature, effects, assembly, constraints) \
  {"emu_" #name, reinterpret_cast<void*>(+emu_##name), bytecode::thunk_of(+emu_##name)},
#include "codegen/lower/hw.def"
#define TEGULA_FAMILY(name, body, signature) {"emu_" #name, reinterpret_cast<void*>(&body), bytecode::thunk_of(&body)},
      TEGULA_FAMILIES(TEGULA_FAMILY)};
  return bodies;
}

void emu_yield() { this_worker->yield(); }
void emu_order(uint32_t bits) { this_worker->fiber().order = bits; }
void emu_warn(uint32_t condition, uint32_t what, uint32_t place) {
  if (condition) [[unlikely]]
    this_worker->warn(Warning(what), place);
}
void emu_check_origin(uint64_t address, uint32_t access, uint64_t arguments, uint32_t predicate, uint32_t site) {
  if (!predicate) return;
  const uint32_t bytes = access & ((1u << kOriginAccessShift) - 1);
  if (!this_worker->launch().leaves_arrays(address, bytes, arguments)) return;
  Fault fault;
  fault.kind = Fault::GlobalBounds;
  fault.access = Access(access >> kOriginAccessShift);
  fault.thread = this_worker->fiber().thread;
  fault.where.site = lower::number_of_site(site);
  fault.address = address;
  fault.bytes = bytes;
  fault.argument = std::countr_zero(arguments);
  this_worker->abandon(fault);
}
void emu_note_exact(uint32_t address, uint32_t value, uint64_t exact, uint32_t predicate) {
  Races* races = this_worker->races();
  if (races && predicate && exact != uint64_t(int64_t(int32_t(value))))
    races->note_exact(*this_worker->fiber().program, address, exact);
}
uint64_t emu_exact_of_shared(uint32_t address, uint32_t value) {
  Races* races = this_worker->races();
  return races ? races->exact_of(*this_worker->fiber().program, address, value) : uint64_t(int64_t(int32_t(value)));
}
uint64_t emu_exact_of_atomic(uint32_t value) {
  const uint64_t exact = this_worker->fiber().exact_old;
  return uint32_t(exact) == value ? exact : uint64_t(int64_t(int32_t(value)));
}
uint32_t emu_loaded_taint(uint32_t first, uint32_t count) { return this_worker->fiber().loaded.of(first, count); }
void emu_stored_taint(uint32_t first, uint32_t count, uint32_t taint) {
  this_worker->fiber().stored.add(first, count, taint);
}
void emu_use_taint(uint32_t taint) {
  if (taint) [[unlikely]]
    this_worker->use_taint(*this_worker->fiber().program, taint);
}
void emu_tick(uint32_t place) { this_worker->tick_loop(place); }
void* emu_lane_values() {
  Warp& warp = this_worker->warp();
  return warp.exchange[warp.round & 1].lanes;
}
void emu_run_segment(void (*all_lanes)(void* values), uint32_t place) {
  void* values = emu_lane_values();
  this_worker->meet(this_worker->warp(), {Where::kNone, place}, [&] { all_lanes(values); });
}

}  // namespace tegula::emulator
