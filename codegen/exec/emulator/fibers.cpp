#include "codegen/exec/emulator/fibers.h"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {
const size_t kPage = size_t(sysconf(_SC_PAGESIZE));
constexpr size_t kLine = 64;

/// Accesses to the page end the process. Linux from 6.13 on marks the page alone; else the mapping is cut in two, which
/// takes several times as long, and the number of mappings of a process is limited: past it the page goes unguarded.
void guard(void* page) {
  constexpr int kInstallGuard = 102, kNoAdvice = -1;  // MADV_GUARD_INSTALL, which older headers lack
  // Emulators of Linux take any advice, and do nothing.
  static const bool knows_advice = madvise(page, kPage, kNoAdvice) != 0;
  if (!knows_advice || madvise(page, kPage, kInstallGuard) != 0) (void)mprotect(page, kPage, PROT_NONE);
}
}  // namespace

// One page more than asked: the tops of the stacks are spread over it.
StackPool::StackPool(size_t stack_bytes)
    : stack_bytes_((std::max<size_t>(stack_bytes, 16 << 10) + kPage - 1) / kPage * kPage + kPage) {}

StackPool::~StackPool() {
  for (const Mapping& m : mappings_) {
    StackNote(m.begin, m.bytes);
    munmap(m.begin, m.bytes);
  }
}

void StackPool::reserve(size_t count) {
  if (count <= stacks_.size()) return;
  size_t stride = stack_bytes_ + kPage, more = count - stacks_.size(), bytes = more * stride;
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED)
    throw DeviceError(fmt::format("the emulator cannot map {} bytes for the stacks of {} threads", bytes, more));
  mappings_.push_back({memory, bytes});
  for (size_t i = 0; i < more; ++i) {
    char* below = static_cast<char*>(memory) + i * stride;
    guard(below);
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
