// Fibers: what runs the threads of an emulated GPU. One host thread owns each and only that one ever runs it.
#pragma once

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace tegula::emulator {

struct Program;

/// Where a thread is in the kernel, for messages: the operand `site` of the access (an index into KernelImage::sites),
/// and for operations that threads do together the place, a number that tells every call in the code apart.
struct Where {
  static constexpr uint32_t kNone = ~0u;
  uint32_t site = kNone;
  uint32_t place = kNone;
};

struct Fiber {
  boost::context::detail::fcontext_t context = nullptr;
  Program* program = nullptr;
  uint32_t thread = 0;   ///< in the program
  bool finished = true;  ///< has left the kernel
  Where where;           ///< the latest rendezvous that it had to wait in
};

/// Stacks of one size, each with a page below it that must not be touched. They are never given back before the end.
class StackPool {
 public:
  explicit StackPool(size_t stack_bytes);
  ~StackPool();
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;

  /// Sees to it that there are `count` stacks. Throws DeviceError if the host refuses.
  void reserve(size_t count);
  size_t size() const { return stacks_.size(); }
  /// A context that starts `entry` at the top of stack `index`; whatever ran there is gone.
  boost::context::detail::fcontext_t start(size_t index, void (*entry)(boost::context::detail::transfer_t)) const;

 private:
  struct Mapping {
    void* begin;
    size_t bytes;
  };
  size_t stack_bytes_;
  std::vector<Mapping> mappings_;
  std::vector<char*> stacks_;  ///< lowest usable address of each
};

}  // namespace tegula::emulator
