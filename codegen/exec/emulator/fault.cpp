#include "codegen/exec/emulator/fault.h"

#include <fmt/format.h>

#include <cstring>

#include "runtime/device.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kLanes = 32;

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
    std::string at = fault_.kind == Fault::Divergence || fault_.kind == Fault::Deadlock || fault_.kind == Fault::Stopped
                         ? fmt::format("\n  in {}", program)
                         : fmt::format("\n  at {}, {}, thread {}", source(fault_.where), program, fault_.thread);
    const bool race = fault_.kind == Fault::GlobalRace || fault_.kind == Fault::SharedRace;
    return what + at + (race ? race_hint() : std::string());
  }

 private:
  static constexpr uint64_t kNearArgument = 1 << 20;  ///< what is farther behind an argument's address is not its array
  static constexpr const char* kVerbs[] = {"read", "write", "atomic operation"};

  std::string happened() const {
    const auto& verb = kVerbs;
    std::string access =
        fmt::format("{} of {} byte{}", verb[int(fault_.access)], fault_.bytes, fault_.bytes == 1 ? "" : "s");
    switch (fault_.kind) {
      case Fault::GlobalBounds: {
        Range near;
        std::string where = memory_.describe(fault_.address, fault_.bytes, &near);
        const std::string argument = argument_into(near);
        return fmt::format("out-of-bounds {} at {:#x}, {}{}", access, fault_.address, where,
                           argument.empty() && !memory_.was_freed(fault_.address) ? argument_to_nothing() : argument);
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
      case Fault::Deadlock:
        return "deadlock: " + threads();
      case Fault::Stopped:
        return fmt::format("stopped {}: {}", fault_.what, threads());
      case Fault::Proxy:
        return fmt::format(
            "{} shared memory at offset {} that thread {} stored at {}, and no fence_async_shared lies between: "
            "neither "
            "of that thread after the store nor of this one after a barrier after it",
            fault_.what, int64_t(fault_.address), fault_.other_thread, source(fault_.other_where));
      case Fault::Misuse:
        return fmt::format(fmt::runtime(fault_.what), fmt::arg("address", int64_t(fault_.address)),
                           fmt::arg("bytes", fault_.bytes), fmt::arg("other", source(fault_.other_where)));
      case Fault::GlobalRace: {
        Range near;
        std::string where = memory_.describe(fault_.address, fault_.bytes, &near);
        return fmt::format("race: {} at {:#x}, {}{}, {}", access, fault_.address, where, argument_into(near), other());
      }
      case Fault::SharedRace:
        return fmt::format("race: {} in shared memory at offset {}, {}", access, int64_t(fault_.address), other());
      case Fault::GlobalUnwritten: {
        Range near;
        std::string where = memory_.describe(fault_.address, fault_.bytes, &near);
        return fmt::format("{} at {:#x}, {}{}, that nobody has written", access, fault_.address, where,
                           argument_into(near));
      }
      case Fault::SharedUnwritten:
        return fmt::format("{} in shared memory at offset {} that nobody has written", access, int64_t(fault_.address));
      case Fault::Assert:
        return assert_failed(image_, fault_.address);
      case Fault::None:
        break;
    }
    return "no fault";
  }

  /// The earlier access of a race, and what there is not between the two.
  std::string other() const {
    std::string who = fmt::format("thread {} of warp {}", fault_.other_thread, fault_.other_thread / kLanes);
    if (fault_.between_programs)
      who += fmt::format(" of program ({}, {}, {})", fault_.other_x, fault_.other_y, fault_.other_z);
    if (fault_.other_block) who += fmt::format(" of block {} of the cluster", *fault_.other_block);
    if (fault_.by_bulk_copy) who = "a bulk copy";
    std::string where = source(fault_.other_where);
    if (const StreamLaunch* launch = fault_.other_launch) {
      who += fmt::format(" of kernel '{}', launched on another stream,", launch->kernel);
      const uint32_t site = fault_.other_where.site;
      where = site < launch->sites.size() ? launch->sites[site].to_string() : "an unknown source place";
    }
    return fmt::format("and {} by {} at {}, and {}", kVerbs[int(fault_.other_access)], who, where, missing());
  }

  std::string missing() const {
    if (fault_.other_launch) return "nothing orders the two launches";
    if (fault_.by_scope) return "an atomic operation of scope 'cta' counts in its own program alone";
    if (fault_.between_programs) return "nothing orders the two programs";
    if (fault_.by_bulk_copy) return "no wait for the copy's phase comes between";
    if (fault_.other_block) return "no barrier of the cluster lies between";
    return "no barrier lies between";
  }

  std::string race_hint() const {
    if (fault_.other_launch) return "\n  hint: one stream for both launches, or wait for the other stream between them";
    if (fault_.by_scope) return "\n  hint: scope='gpu'";
    if (fault_.between_programs)
      return "\n  hint: tl.atomic_add and its kin, or an atomic with sem='release' behind the one and one with "
             "sem='acquire' at the same address before the other";
    return "\n  hint: tl.debug_barrier() between the two";
  }

  /// Where all threads of the program are.
  std::string threads() const {
    std::string text;
    for (const Fault::Waiters& w : fault_.waiters) {
      const bool one = w.threads.size() == 1, known = w.where.place < places_.size();
      if (!text.empty()) text += "; ";
      text += thread_list(w.threads);
      if (w.waits)
        text += fmt::format(" wait{} in {}", one ? "s" : "", operation(w.where));
      else
        text += fmt::format(" run{}{}", one ? "s" : "", known ? ", last seen in " + operation(w.where) : std::string());
      if (w.phase) text += describe(*w.phase);
    }
    if (!fault_.finished.empty())
      text += fmt::format("{}{} {} left the kernel", text.empty() ? "" : "; ", thread_list(fault_.finished),
                          fault_.finished.size() == 1 ? "has" : "have");
    return text;
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

  // Arrays without elements have an address that stands for no memory, or none.
  std::string argument_to_nothing() const {
    const auto table = memory_.table();
    uint64_t nearest = 0;
    const std::string* name = nullptr;
    for (size_t i = 0; i < image_.params.size(); ++i) {
      if (!image_.params[i].pointer) continue;
      uint64_t value;
      std::memcpy(&value, args_[i], sizeof value);
      if (value > fault_.address || fault_.address - value > kNearArgument || (name && value < nearest)) continue;
      if (std::ranges::any_of(*table, [&](const Range& range) { return range.contains(value, 1); })) continue;
      nearest = value, name = &image_.params[i].name;
    }
    if (!name) return "";
    if (nearest == 0) return fmt::format("; the argument '{}' is null", *name);
    return fmt::format(
        "; the argument '{}' points to no memory of the device: an array without elements, or memory of the host?",
        *name);
  }

  const Fault& fault_;
  const KernelImage& image_;
  const std::vector<Place>& places_;
  const GlobalMemory& memory_;
  void* const* args_;
};

}  // namespace

const char* text_of(Warning what) {
  switch (what) {
    case Warning::IndexOverflow:
      return "the address of an access follows from a sum or product of int32 that does not fit; .to(tl.int64) of an "
             "operand gives the exact number";
    case Warning::DivisionByZero:
      return "integer division by 0; the result means nothing";
    case Warning::WideShift:
      return "a shift by the width of the type or more, or by a negative number";
    case Warning::NanIsBorn:
      return "the result is a NaN, of operands that are none";
  }
  return "";
}

std::string describe(const Fault& fault, const KernelImage& image, const std::vector<Place>& places,
                     const GlobalMemory& memory, void* const* args) {
  return Describer(fault, image, places, memory, args).text();
}

}  // namespace tegula::emulator
