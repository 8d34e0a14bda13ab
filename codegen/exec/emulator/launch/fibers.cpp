#include "codegen/exec/emulator/launch/fibers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>

#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {
const size_t kPage = size_t(sysconf(_SC_PAGESIZE));
constexpr size_t kLine = 64;

/// Of mappings, by all stacks of the process, and how many there may be: Linux allows a process 65530 mappings, which
/// others want as well.
std::atomic<int64_t> cuts = 0;
constexpr int64_t kMostCuts = 16384;

/// Accesses to the page end the process. Linux from 6.13 on marks the page alone; else the mapping is cut in two, which
/// takes several times as long, and past so many cuts the page goes unguarded. True where it was cut.
bool guard(void* page) {
  constexpr int kInstallGuard = 102, kNoAdvice = -1;  // MADV_GUARD_INSTALL, which older headers lack
  // Emulators of Linux take any advice, and do nothing.
  static const bool knows_advice = madvise(page, kPage, kNoAdvice) != 0;
  if (knows_advice && madvise(page, kPage, kInstallGuard) == 0) return false;
  if (cuts.load(std::memory_order_relaxed) >= kMostCuts || mprotect(page, kPage, PROT_NONE) != 0) return false;
  cuts.fetch_add(1, std::memory_order_relaxed);
  return true;
}
}  // namespace

StackPool::~StackPool() { give_back(0); }

bool StackPool::widen(size_t stack_bytes) {
  // One page more than asked: the tops of the stacks are spread over it.
  stack_bytes = (stack_bytes + kPage - 1) / kPage * kPage + kPage;
  if (stack_bytes <= stack_bytes_) return false;
  give_back(0);
  stack_bytes_ = stack_bytes;
  return true;
}

// In several mappings, so that some can be given back.
void StackPool::reserve(size_t count) {
  constexpr size_t kMostAtOnce = 2048;
  while (stacks_.size() < count) add(std::min(kMostAtOnce, count - stacks_.size()));
}

void StackPool::give_back(size_t count) {
  while (!mappings_.empty() && stacks_.size() - mappings_.back().stacks >= count) drop_last();
}

void StackPool::drop_last() {
  const Mapping& last = mappings_.back();
  StackNote(last.begin, last.bytes);
  munmap(last.begin, last.bytes);
  cuts.fetch_sub(last.cuts, std::memory_order_relaxed);
  stacks_.resize(stacks_.size() - last.stacks);
  mappings_.pop_back();
}

void StackPool::add(size_t more) {
  size_t stride = stack_bytes_ + kPage, bytes = more * stride;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw DeviceError(fmt::format("the emulator cannot map {} bytes for the stacks of {} threads", bytes, more));
  Mapping& mapping = mappings_.emplace_back(Mapping{memory, bytes, more, 0});
  for (size_t i = 0; i < more; ++i) {
    char* below = static_cast<char*>(memory) + i * stride;
    mapping.cuts += guard(below);
    stacks_.push_back(below + kPage);
  }
}

void StackPool::start(Fiber& fiber, size_t index, void (*entry)(boost::context::detail::transfer_t)) const {
  // Tops at the same offset in a page would all fall into the same few cache sets.
  size_t colour = index * 17 * kLine % kPage;
  char* bottom = stacks_[index];
  char* top = bottom + stack_bytes_ - colour;
  fiber.stack = StackNote(bottom, stack_bytes_);
  fiber.context = boost::context::detail::make_fcontext(top, size_t(top - bottom), entry);
}

}  // namespace tegula::emulator
