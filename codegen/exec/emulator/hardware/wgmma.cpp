#include "codegen/exec/emulator/hardware/wgmma.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/hardware/matrix_product.h"
#include "codegen/exec/emulator/hardware/row_taints.h"

namespace tegula::emulator {

namespace {

constexpr size_t kMostResults = 32;  // that a warp keeps

// ---- What stands for a result that is not there yet: the mark of its type, the instruction and the register.

constexpr uint32_t kRegisterBits = 7;
constexpr uint32_t kMarkBits = 0xFFC00000;

uint32_t mark_for(const MmaInstruction& x) { return is_float(x.sums) ? kFloatMark : kIntegerMark; }
uint32_t registers_of(const MmaInstruction& x, uint32_t n) { return n / 2 / uint32_t(x.sums_packed()); }
uint32_t tag_of(uint32_t mark, uint64_t number) { return mark >> kRegisterBits | uint32_t(number % 0x7FFF + 1); }
bool is_pending(uint32_t bits, uint32_t mark) {
  return (bits & kMarkBits) == mark && (bits & ~kMarkBits) >> kRegisterBits != 0;
}

/// Puts values in the place of what stands for those that are there, of `count` registers of a lane.
void resolve(const WarpProducts& warp, uint32_t* registers, uint32_t count, uint32_t mark, uint32_t lane) {
  const MatrixProduct* of = nullptr;  // mostly all registers are one instruction's, in order
  for (uint32_t r = 0, run = 1; r < count; r += run) {
    run = 1;
    const uint32_t bits = registers[r], tag = bits >> kRegisterBits, number = bits & ((1 << kRegisterBits) - 1);
    if (!is_pending(bits, mark)) continue;
    if (!of || of->tag != tag) {
      auto it = std::ranges::find(warp.results, tag, &MatrixProduct::tag);
      if (it == warp.results.end()) continue;
      of = &*it;
    }
    const uint32_t of_lane = registers_of(*of->instruction, of->n), rest = std::min(count - r, of_lane - number);
    uint32_t differences = 0;
    for (uint32_t i = 0; i < rest; ++i) differences |= registers[r + i] ^ (bits + i);
    if (!differences) run = rest;
    std::memcpy(registers + r, &of->values[lane * of_lane + number], run * sizeof(uint32_t));
  }
}

// ---- Operands

/// Whether all that is to check of a read in these bytes of shared memory is who wrote them.
bool is_plain(const Program& program, uint32_t begin, uint32_t end) {
  return !this_worker->races() && end <= this_worker->launch().shared_bytes &&
         std::ranges::none_of(program.bulk_copies,
                              [&](const BulkCopy& copy) { return copy.touches(begin, end - begin); });
}

/// Lines (rows of A, columns of B) from `first` on. `rows`, if not null, gets the taints of the lines; else the product
/// uses what it reads.
void read_operand(uint64_t descriptor, bool mn_major, uint32_t first, std::vector<uint8_t>& lines, uint32_t site,
                  bool at_issue, RowTaints* rows = nullptr) {
  const Fiber& fiber = this_worker->fiber();
  const Program& program = *fiber.program;
  const MatrixDescriptor matrix(descriptor);
  const auto [begin, end] = matrix.extent(mn_major, first + uint32_t(lines.size()) / kLineBytes);
  const bool plain = is_plain(program, begin, end), proxy = at_issue && program.writes.tracks();
  const char* const shared = reinterpret_cast<const char*>(uint64_t(program.shared_base));
  AccessTaints taints;  // of a chunk
  auto chunk_at = [&](uint32_t offset) -> const void* {
    taints.any = false;
    const void* chunk = plain ? shared + offset
                              : shared_access(fiber, program.shared_base + offset, 16, Access::Read, site, nullptr,
                                              rows ? &taints : nullptr);
    if (proxy) check_proxy(program, offset, "wgmma reads", {site});
    return chunk;
  };
  auto note = [&](uint32_t line, uint32_t byte, uint32_t bytes) {
    if (taints.any) (*rows)[line] = std::max((*rows)[line], taints.of(byte, bytes));
  };
  const uint32_t count = uint32_t(lines.size()) / kLineBytes;
  if (!mn_major) {
    for (uint32_t line = 0; line < count; ++line)
      for (uint32_t chunk = 0; chunk < 2; ++chunk) {
        std::memcpy(&lines[line * kLineBytes + 16 * chunk], chunk_at(matrix.k_major(first + line, chunk)), 16);
        note(line, 0, 16);
      }
    return;
  }
  for (uint32_t k = 0; k < kLineBytes / 2; ++k)
    for (uint32_t line = 0; line < count; line += 8) {
      uint16_t values[8];
      std::memcpy(values, chunk_at(matrix.mn_major(k, (first + line) / 8)), 16);
      for (uint32_t i = 0; i < 8; ++i) {
        std::memcpy(&lines[(line + i) * kLineBytes + 2 * k], &values[i], 2);
        note(line + i, 2 * i, 2);
      }
    }
}

/// The operands in shared memory as they are now, and what A's rows follow from.
RowTaints read_operands(const MatrixProduct& product, std::vector<uint8_t>& a, std::vector<uint8_t>& b, bool at_issue) {
  RowTaints rows{};
  if (!product.a_in_registers) {
    a.resize(kWarpRows * kLineBytes);
    uint32_t warp_of_four = this_worker->fiber().thread / kLanes % 4;
    read_operand(product.a, product.transposed_a, warp_of_four * kWarpRows, a, product.where.site, at_issue, &rows);
  }
  b.resize(product.n * kLineBytes);
  read_operand(product.b, product.transposed_b, 0, b, product.where.site, at_issue);
  return rows;
}

void perform(WarpProducts& warp, MatrixProduct& product) {
  // Into a product that the warp owns: a fault leaves this stack for good.
  read_operands(product, warp.next.a_seen, warp.next.b_seen, false);
  if ((!product.a_in_registers && warp.next.a_seen != product.a_seen) || warp.next.b_seen != product.b_seen)
    misuse(
        "wgmma: an operand in shared memory was written between the instruction and the wait for it; a wait for a "
        "copy or a barrier is missing before it, or a wait for it before the next write",
        product.where);
  if (product.accumulate) {
    const uint32_t registers = registers_of(*product.instruction, product.n);
    uint32_t before = product.values[0] >> kRegisterBits;
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      resolve(warp, &product.values[lane * registers], registers, mark_for(*product.instruction), lane);
    std::erase_if(warp.results, [&](const MatrixProduct& result) { return result.tag == before; });
  }
  multiply_told(*product.instruction, product.n, product.a_seen.data(), product.b_seen.data(), product.values,
                product.accumulate, product.where.place);
  if (warp.results.size() == kMostResults) warp.results.erase(warp.results.begin());
  warp.results.push_back(std::move(product));
  warp.results.back().a_seen = {}, warp.results.back().b_seen = {};
}

/// That the sums that a wait hands on are not those of an instruction that nobody committed.
void check_committed(const WarpProducts& warp, const uint32_t* values, uint32_t count, uint32_t mark, Where where) {
  warp.queue.for_uncommitted([&](const MatrixProduct& product) {
    if (std::none_of(values, values + count,
                     [&](uint32_t bits) { return is_pending(bits, mark) && bits >> kRegisterBits == product.tag; }))
      return;
    Fault fault;
    fault.other_where = product.where;
    misuse("wgmma: a wait for the instruction issued at {other}, after which no wgmma_commit comes before the wait",
           where, fault);
  });
}

// ---- Issue

/// Notes that this warp issues its next instruction, which must be the one that the other warps issue.
void join_warpgroup(uint64_t number, const MatrixProduct& product) {
  Worker& worker = *this_worker;
  const Fiber& fiber = worker.fiber();
  Warpgroup& group = worker.warpgroup();
  const size_t index = size_t(number - group.complete);
  if (index == group.log.size()) {
    group.log.push_back({product.where, fiber.thread, product.a, product.b});
  } else {
    const Warpgroup::Issue& first = group.log[index];
    if (first.where.place != product.where.place) {
      Fault fault;
      fault.kind = Fault::Divergence;
      fault.thread = fiber.thread;
      fault.where = product.where;
      fault.other_thread = first.thread;
      fault.other_where = first.where;
      worker.abandon(fault);
    }
    if (first.a != product.a || first.b != product.b)
      misuse("wgmma: the descriptors differ between the four warps of a warpgroup", product.where);
  }
  ++group.issued[fiber.thread / kLanes % 4];
  const uint64_t complete = *std::min_element(std::begin(group.issued), std::end(group.issued));
  if (complete == group.complete) return;
  group.complete = complete;
  group.log.pop_front();
  worker.wake(group.waiting);
}

}  // namespace

// ---- Descriptors

MatrixDescriptor::MatrixDescriptor(uint64_t bits)
    : start(uint32_t(bits & 0x3FFF) * 16),
      leading(uint32_t(bits >> 16 & 0x3FFF) * 16),
      stride(uint32_t(bits >> 32 & 0x3FFF) * 16),
      base(uint32_t(bits >> 49 & 7)),
      width(bits >> 62 == 0 ? 1 : 16 >> (bits >> 62)) {}

uint32_t MatrixDescriptor::swizzled(uint32_t offset) const {
  return offset ^ (((offset >> 7) - base) & (width - 1)) << 4;
}

uint32_t MatrixDescriptor::k_major(uint32_t line, uint32_t chunk) const {
  return swizzled(start + line % 8 * width * 16 + line / 8 * stride + chunk * (width == 1 ? leading : 16));
}

uint32_t MatrixDescriptor::mn_major(uint32_t k, uint32_t chunk) const {
  if (width == 1) return start + k % 8 * 16 + k / 8 * leading + chunk * stride;
  return swizzled(start + chunk % width * 16 + chunk / width * leading + k % 8 * width * 16 + k / 8 * stride);
}

std::pair<uint32_t, uint32_t> MatrixDescriptor::extent(bool mn_major, uint32_t lines) const {
  constexpr uint32_t kSwizzled = 128;  // bytes within which chunks change places
  const uint32_t last = lines / 8 - 1, row = width * 16;
  uint32_t behind = start + 7 * row + 16;  // of the farthest chunk
  if (!mn_major)
    behind += last * stride + (width == 1 ? leading : 16);
  else if (width == 1)
    behind += leading + last * stride;
  else
    behind += row + last / width * leading + stride;
  return {start / kSwizzled * kSwizzled, (behind + kSwizzled - 1) / kSwizzled * kSwizzled};
}

// ---- Bodies

void multiply_told(const MmaInstruction& instruction, uint32_t n, const uint8_t* a, const uint8_t* b,
                   std::span<uint32_t> sums, bool accumulate, uint32_t place) {
  const Births wanted = this_worker->launch().births;
  std::vector<uint32_t> before;
  if (wanted.nans || wanted.infinities) before.assign(sums.begin(), sums.end());
  multiply_warp(instruction, n, a, b, sums.data(), accumulate);
  if (before.empty()) return;
  const Births births = births_of_product(instruction, n, a, b, before.data(), sums.data(), accumulate);
  if (wanted.nans && births.nans) this_worker->warn(Warning::NanIsBorn, place);
  if (wanted.infinities && births.infinities) this_worker->warn(Warning::InfinityIsBorn, place);
}

void WarpProducts::clear() {
  queue.clear();
  results.clear();
  issued = 0;
  fenced = false;
}

void Warpgroup::clear() {
  log.clear(), waiting.clear();
  complete = 0;
  std::fill(std::begin(issued), std::end(issued), 0);
}

void issue_product(void* result, const ProductArguments& arguments, Where where) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  const uint32_t lane = worker.fiber().thread % kLanes, registers = registers_of(*arguments.instruction, arguments.n);
  const uint32_t mark = mark_for(*arguments.instruction);
  auto& x = warp.exchange[warp.round & 1].product;
  x.a[lane] = arguments.a, x.b[lane] = arguments.b;
  x.fragment[lane] = arguments.fragment;
  x.accumulators[lane] = arguments.accumulators;
  x.accumulate[lane] = arguments.accumulate;
  worker.meet(warp, where, [&] {
    auto same = [](const auto& of_lanes) {
      return std::all_of(of_lanes, of_lanes + kLanes, [&](const auto& value) { return value == of_lanes[0]; });
    };
    if (!same(x.a) || !same(x.b)) misuse("wgmma: the descriptors differ between the threads of a warp", where);
    if (!same(x.accumulate)) misuse("wgmma: scale-d differs between the threads of a warp", where);
    WarpProducts& products = warp.products;
    MatrixProduct& product = products.next;
    product.instruction = arguments.instruction;
    product.n = arguments.n;
    product.a_in_registers = arguments.fragment;
    product.transposed_a = arguments.transposed_a, product.transposed_b = arguments.transposed_b;
    product.accumulate = arguments.accumulate;
    product.a = arguments.a, product.b = arguments.b;
    product.where = where;
    product.number = products.issued++;
    product.tag = tag_of(mark, product.number);
    product.values.resize(kLanes * registers);
    for (uint32_t l = 0; l < kLanes; ++l)
      std::memcpy(&product.values[l * registers], x.accumulators[l], registers * sizeof(uint32_t));
    if (!products.fenced && (product.a_in_registers || !is_pending(product.values[0], mark)))
      misuse("wgmma: its registers were set since the warp's last wait, and no wgmma_fence lies between", where);
    const RowTaints rows = read_operands(product, product.a_seen, product.b_seen, true);
    if (worker.races()) hand_on_rows(product.a_in_registers ? take_told_rows() : rows, arguments.further);
    if (product.a_in_registers) {
      product.a_seen.resize(kWarpRows * kLineBytes);
      for (uint32_t l = 0; l < kLanes; ++l) place_fragment<4>(product.a_seen.data(), l, x.fragment[l]);
    }
    join_warpgroup(product.number, product);
    x.tag = product.tag;
    products.queue.issue(std::move(product));
  });
  for (uint32_t r = 0; r < registers; ++r) static_cast<uint32_t*>(result)[r] = x.tag << kRegisterBits | r;
}

void fence_products(Where where) {
  Warp& warp = this_worker->warp();
  this_worker->meet(warp, where, [&] { warp.products.fenced = true; });
}

void commit_products(Where where) {
  Warp& warp = this_worker->warp();
  this_worker->meet(warp, where, [&] { warp.products.queue.commit(); });
}

void wait_for_products(void* result, const void* values, uint32_t count, uint32_t pending, uint32_t mark, Where where) {
  Worker& worker = *this_worker;
  Warp& warp = worker.warp();
  worker.meet(warp, where, [&] {
    check_committed(warp.products, static_cast<const uint32_t*>(values), count, mark, where);
    Warpgroup& group = worker.warpgroup();
    warp.products.queue.wait(pending, [&](MatrixProduct& product) {
      while (group.complete <= product.number) worker.sleep(group.waiting, where);
      perform(warp.products, product);
    });
    warp.products.fenced = false;
  });
  std::memmove(result, values, count * sizeof(uint32_t));
  resolve(warp.products, static_cast<uint32_t*>(result), count, mark, worker.fiber().thread % kLanes);
}

}  // namespace tegula::emulator
