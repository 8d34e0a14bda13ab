// Fibers: what runs the threads of an emulated GPU. One host thread owns each and only that one ever runs it.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "codegen/exec/emulator/hardware/async_queue.h"
#include "codegen/exec/emulator/launch/access_taints.h"

#if defined(__has_feature)
#if __has_feature(address_sanitizer)  // what g++ says by the macro
#define __SANITIZE_ADDRESS__ 1
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace tegula::emulator {

struct Program;

/// What AddressSanitizer is told of a fiber's stack, around each switch; nothing in other builds. It is of one size in
/// all, as tests are compiled without sanitizers.
class StackNote {
 public:
  StackNote() = default;
#ifdef __SANITIZE_ADDRESS__
  StackNote(const void* begin, size_t bytes) : begin_(begin), bytes_(bytes) {
    __asan_unpoison_memory_region(begin, bytes);  // of what ran there before
  }
  /// Called on this stack, which is about to be left for that of `next`.
  void leave(const StackNote& next) { __sanitizer_start_switch_fiber(&frames_, next.begin_, next.bytes_); }
  /// Called on this stack, first thing after a switch from that of `from`: which may be a host thread's own.
  void enter(StackNote& from) { __sanitizer_finish_switch_fiber(frames_, &from.begin_, &from.bytes_); }
#else
  StackNote(const void*, size_t) {}
  void leave(const StackNote&) {}
  void enter(StackNote&) {}
#endif

 private:
  [[maybe_unused]] void* frames_ = nullptr;
  [[maybe_unused]] const void* begin_ = nullptr;
  [[maybe_unused]] size_t bytes_ = 0;
};

/// Where a thread is in the kernel, for messages: the operand `site` of the access (an index into KernelImage::sites),
/// and for operations that threads do together the place, a number that tells every call in the code apart.
struct Where {
  static constexpr uint32_t kNone = ~0u;
  uint32_t site = kNone;
  uint32_t place = kNone;
};

/// Bytes to be copied, or zeros to be written, to shared memory; both addresses were checked.
struct AsyncCopy {
  void* to;
  const void* from;  ///< null: zeros
  uint32_t bytes;
  uint32_t site;
  AccessTaints taints;  ///< of what it copies
};

struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  Program* program = nullptr;
  uint32_t thread = 0;              ///< in the program
  bool finished = true;             ///< has left the kernel
  bool at_cluster_barrier = false;  ///< has arrived, and not waited yet
  uint64_t cluster_barrier = 0;     ///< its number
  Where where;                      ///< the latest rendezvous that it had to wait in, or loop that it is in
  bool waits = false;               ///< in a rendezvous
  uint64_t waits_since = 0;         ///< the worker's count of changes when the thread first passed on its turn since
  uint32_t turns = 0;               ///< that it has passed on since then
  AsyncQueue<AsyncCopy> copies;     ///< that it issued
  uint32_t order = 0;               ///< of its next atomic operation or volatile load (MemoryOrder)
  uint32_t prints = 0;              ///< print statements that it has begun
  AccessTaints loaded, stored;  ///< of its latest load, and its next store to shared memory, where races are looked for
  uint64_t exact_old = 0;       ///< what its latest atomic sum gave, in 64 bits, where races are looked for
  uint32_t bulk_groups = 0;     ///< of bulk stores that it committed
  enum class Moved : uint8_t { Nothing, In, Out } moved = Moved::Nothing;  ///< its latest access to global memory
  StackNote stack;
};

constexpr size_t kUsualStack = 64 << 10;  ///< bytes that most kernels get by with

/// Stacks of one size, each with a page below it that must not be touched.
class StackPool {
 public:
  StackPool() = default;
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Stacks have at least so many bytes from now on. True where those that there were are gone; nothing runs on them.
  bool widen(size_t stack_bytes);
  /// Sees to it that there are `count` stacks. Throws DeviceError if the host refuses.
  void reserve(size_t count);
  /// Gives memory back to the host, as long as there are `count` stacks still. Nothing runs on the others.
  void give_back(size_t count);
  size_t size() const { return stacks_.size(); }
  /// Has the fiber start `entry` at the top of stack `index`; whatever ran there is gone.
  void start(Fiber& fiber, size_t index, void (*entry)(boost::context::detail::transfer_t)) const;

 private:
  struct Mapping {
    void* begin;
    size_t bytes;
    size_t stacks;
    int64_t cuts;  ///< made for its guards
  };
  void add(size_t count);
  void drop_last();

  size_t stack_bytes_ = 0;
  std::vector<Mapping> mappings_;
  std::vector<char*> stacks_;  ///< lowest usable address of each
};

}  // namespace tegula::emulator
