#include "codegen/exec/emulator/fault.h"

#include <fmt/format.h>

#include <cstring>

namespace tegula::emulator {

namespace {

/// Threads in ascending order as "thread 3" or "threads 0-15, 20, 24-31".
std::string thread_list(const std::vector<uint32_t>& threads) {
  constexpr int kMostRanges = 6;
  std::string text;
  int ranges = 0;
  for (size_t i = 0, last; i < threads.size(); i = last + 1) {
    for (last = i; last + 1 < threads.size() && threads[last + 1] == threads[last] + 1;) ++last;
    if (i) text += ", ";
    if (++ranges > kMostRanges) {
      text += fmt::format("and {} more", threads.size() - i);
      break;
    }
    text += last == i ? fmt::format("{}", threads[i]) : fmt::format("{}-{}", threads[i], threads[last]);
  }
  return (threads.size() == 1 ? "thread " : "threads ") + text;
}

class Describer {
 public:
  Describer(const Fault& fault, const KernelImage& image, const std::vector<Place>& places, const GlobalMemory& memory,
            void* const* args)
      : fault_(fault), image_(image), places_(places), memory_(memory), args_(args) {}

  std::string text() const {
    std::string what = fmt::format("kernel '{}': {}", image_.kernel, happened());
    std::string program = fmt::format("program ({}, {}, {})", fault_.x, fault_.y, fault_.z);
    if (image_.num_ctas > 1) program += fmt::format(", block {}", fault_.block);
    std::string at = fault_.kind == Fault::Divergence || fault_.kind == Fault::Deadlock
                         ? fmt::format("\n  in {}", program)
                         : fmt::format("\n  at {}, {}, thread {}", source(fault_.where), program, fault_.thread);
    return what + at;
  }

 private:
  std::string happened() const {
    const char* verb[] = {"read", "write", "atomic operation"};
    std::string access =
        fmt::format("{} of {} byte{}", verb[int(fault_.access)], fault_.bytes, fault_.bytes == 1 ? "" : "s");
    switch (fault_.kind) {
      case Fault::GlobalBounds: {
        Range near;
        std::string where = memory_.describe(fault_.address, fault_.bytes, &near);
        return fmt::format("out-of-bounds {} at {:#x}, {}{}", access, fault_.address, where, argument_into(near));
      }
      case Fault::GlobalAlignment:
        return fmt::format("misaligned {} at {:#x}, which is not a multiple of {}", access, fault_.address,
                           fault_.bytes);
      case Fault::SharedBounds:
        return fmt::format("out-of-bounds {} in shared memory at offset {}; the program has {} bytes", access,
                           int64_t(fault_.address), image_.shared_bytes);
      case Fault::SharedAlignment:
        return fmt::format("misaligned {} in shared memory at offset {}, which is not a multiple of {}", access,
                           int64_t(fault_.address), fault_.bytes);
      case Fault::Divergence:
        return fmt::format(
            "threads part ways where they must go together: thread {} is in {}, thread {} in {}; a condition that "
            "differs between threads stands around one of them",
            fault_.other_thread, operation(fault_.other_where), fault_.thread, operation(fault_.where));
      case Fault::Deadlock: {
        std::string text = "deadlock: ";
        for (size_t i = 0; i < fault_.waiters.size(); ++i) {
          const Fault::Waiters& w = fault_.waiters[i];
          text += fmt::format("{}{} wait{} in {}", i ? "; " : "", thread_list(w.threads),
                              w.threads.size() == 1 ? "s" : "", operation(w.where));
          if (w.phase) text += describe(*w.phase);
        }
        if (!fault_.finished.empty())
          text += fmt::format("; {} {} left the kernel", thread_list(fault_.finished),
                              fault_.finished.size() == 1 ? "has" : "have");
        return text;
      }
      case Fault::Proxy:
        return fmt::format(
            "{} shared memory at offset {} that thread {} stored at {}, and no fence_async_shared lies between: "
            "neither "
            "of that thread after the store nor of this one after a barrier after it",
            fault_.what, int64_t(fault_.address), fault_.other_thread, source(fault_.other_where));
      case Fault::Misuse:
        return fmt::format(fmt::runtime(fault_.what), fmt::arg("address", int64_t(fault_.address)),
                           fmt::arg("bytes", fault_.bytes), fmt::arg("other", source(fault_.other_where)));
      case Fault::None:
        break;
    }
    return "no fault";
  }

  static std::string describe(const Fault::Phase& phase) {
    std::string text = fmt::format(" for parity {} of the mbarrier at offset {}, whose phase has {} of {} arrivals",
                                   phase.parity, phase.offset, phase.arrivals, phase.expected);
    if (phase.bytes || phase.expected_bytes)
      text += fmt::format(" and {} of {} bytes", phase.bytes, phase.expected_bytes);
    return text;
  }

  std::string source(const Where& where) const {
    if (where.site < image_.sites.size() && image_.sites[where.site]) return image_.sites[where.site].to_string();
    if (where.place < places_.size() && places_[where.place].loc) return places_[where.place].loc.to_string();
    return "an unknown source place";
  }

  std::string operation(const Where& where) const {
    return fmt::format("{} at {}", where.place < places_.size() ? places_[where.place].operation : "an operation",
                       source(where));
  }

  std::string argument_into(const Range& range) const {
    for (size_t i = 0; i < image_.params.size(); ++i) {
      if (!image_.params[i].pointer) continue;
      uint64_t value;
      std::memcpy(&value, args_[i], sizeof value);
      if (range.contains(value, 1)) return fmt::format(" (argument '{}')", image_.params[i].name);
    }
    return "";
  }

  const Fault& fault_;
  const KernelImage& image_;
  const std::vector<Place>& places_;
  const GlobalMemory& memory_;
  void* const* args_;
};

}  // namespace

std::string describe(const Fault& fault, const KernelImage& image, const std::vector<Place>& places,
                     const GlobalMemory& memory, void* const* args) {
  return Describer(fault, image, places, memory, args).text();
}

}  // namespace tegula::emulator
