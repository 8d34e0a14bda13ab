#include "codegen/exec/emulator/launch/fault.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "runtime/device.h"

namespace tegula::emulator {

namespace {

constexpr uint32_t kLanes = 32;
constexpr const char* kVerbs[] = {"read", "write", "atomic operation"};
constexpr const char* kHintOfStreams =
    "\n  hint: one stream for both, or have the host wait for the other stream between them: synchronize(), or an "
    "event "
    "recorded there";

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

std::string of_other_launch(const Fault& fault) {
  return fmt::format(" of kernel '{}', launched on another stream,", fault.other_launch->kernel);
}
/// Transfers have none.
std::string place_in_other_launch(const Fault& fault) {
  const StreamLaunch& launch = *fault.other_launch;
  const uint32_t site = fault.other_where.site;
  if (!launch.transfer.empty()) return "";
  return " at " + (site < launch.sites.size() ? launch.sites[site].to_string() : "an unknown source place");
}

class Describer {
 public:
  Describer(const Fault& fault, const KernelImage& image, const std::vector<Place>& places, const GlobalMemory& memory,
            void* const* args)
      : fault_(fault), image_(image), places_(places), memory_(memory), args_(args) {}

  std::string text() const {
    std::string what = fmt::format("kernel '{}': {}", image_.kernel, happened());
    if (!fault_.standings.empty()) return what + ": " + standings();
    const std::string program = "program " + name(fault_);
    std::string at = fault_.kind == Fault::Divergence
                         ? fmt::format("\n  in {}", program)
                         : fmt::format("\n  at {}, {}, thread {}", source(fault_.where), program, fault_.thread);
    const bool race = fault_.kind == Fault::GlobalRace || fault_.kind == Fault::SharedRace;
    return what + at + (race ? race_hint() : std::string());
  }

 private:
  static constexpr uint64_t kNearArgument = 1 << 20;  ///< what is farther behind an argument's address is not its array

  std::string happened() const {
    std::string access =
        fmt::format("{} of {} byte{}", kVerbs[int(fault_.access)], fault_.bytes, fault_.bytes == 1 ? "" : "s");
    switch (fault_.kind) {
      case Fault::GlobalBounds: {
        if (fault_.argument >= 0) return "out-of-bounds " + access + leaves_array();
        if (fault_.by_made_pointer && memory_.is_nowhere(fault_.address))
          return fmt::format(
              "out-of-bounds {} at {:#x}, which lies in no array of the launch nor near one; a pointer that is made of "
              "numbers may lead to memory of the device alone",
              access, fault_.address);
        Range near;
        std::string where = memory_.describe(fault_.address, fault_.bytes, &near);
        const std::string argument = argument_into(near),
                          nothing = argument_to_nothing(argument.empty() ? Range{} : near);
        return fmt::format("out-of-bounds {} at {:#x}, {}{}", access, fault_.address, where,
                           nothing.empty() || memory_.was_freed(fault_.address) ? argument : nothing);
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
        return "deadlock";
      case Fault::Stopped:
        return fmt::format("stopped {}", fault_.what);
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
        return assert_failed(image_, fault_.address) + (fault_.element.empty() ? "" : "\n  " + fault_.element);
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
    std::string where = " at " + source(fault_.other_where);
    if (fault_.other_launch) {
      if (fault_.other_launch->transfer.empty())
        who += of_other_launch(fault_);
      else
        who = fmt::format("a {} on another stream", fault_.other_launch->transfer);
      where = place_in_other_launch(fault_);
    }
    return fmt::format("and {} by {}{}, and {}", kVerbs[int(fault_.other_access)], who, where, missing());
  }

  std::string missing() const {
    if (fault_.other_launch) return "nothing orders the two";
    if (fault_.by_scope) return "an atomic operation of scope 'cta' counts in its own program alone";
    if (fault_.between_programs) return "nothing orders the two programs";
    if (fault_.by_bulk_copy) return "no wait for the copy's phase comes between";
    if (fault_.other_block) return "no barrier of the cluster lies between";
    return "no barrier lies between";
  }

  std::string race_hint() const {
    if (fault_.other_launch) return kHintOfStreams;
    if (fault_.by_scope) return "\n  hint: scope='gpu'";
    if (fault_.between_programs)
      return "\n  hint: tl.atomic_add and its kin, or an atomic with sem='release' behind the one and one with "
             "sem='acquire' at the same address before the other";
    if (fault_.kind == Fault::GlobalRace && fault_.access == Access::Write && fault_.other_access == Access::Write &&
        !fault_.other_block && source(fault_.where) == source(fault_.other_where))
      return "\n  hint: elements of one store have the same address, and any of them may stay: mask all but one, or "
             "add "
             "them up by tl.atomic_add; tl.debug_barrier() if they are of different iterations";
    return "\n  hint: tl.debug_barrier() between the two";
  }

  /// (0, 0, 0), or (0, 0, 0), block 1.
  template <class Of>
  std::string name(const Of& of) const {
    return fmt::format("({}, {}, {})", of.x, of.y, of.z) +
           (image_.num_ctas > 1 ? fmt::format(", block {}", of.block) : std::string());
  }

  /// What a group of threads does: "waits" or "wait", and for what.
  struct Doing {
    std::string one, many, where;
    std::vector<uint32_t> threads;
  };

  /// Threads at one place of the source are one group, whichever of its operations they are in.
  std::vector<Doing> doings(const Fault::Standing& of) const {
    std::vector<Doing> all;
    auto add = [&](Doing doing) {
      auto same = [&](const Doing& other) { return other.many == doing.many && other.where == doing.where; };
      auto it = std::find_if(all.begin(), all.end(), same);
      if (it == all.end()) return all.push_back(std::move(doing));
      it->threads.insert(it->threads.end(), doing.threads.begin(), doing.threads.end());
      std::sort(it->threads.begin(), it->threads.end());
    };
    for (const Fault::Waiters& w : of.waiters) {
      const std::string phase = w.phase ? describe(*w.phase) : std::string();
      if (w.waits)
        add({"waits", "wait", " in " + operation(w.where) + phase, w.threads});
      else
        add({"runs", "run", is_known(w.where) ? ", last seen in " + operation(w.where) : "", w.threads});
    }
    if (!of.finished.empty()) add({"has", "have", " left the kernel", of.finished});
    return all;
  }

  /// Programs that stand in the same places.
  struct Group {
    std::vector<Doing> doings;
    std::vector<const Fault::Standing*> programs;
    bool same_threads = true;  ///< in each of them
  };

  std::vector<Group> groups() const {
    std::vector<const Fault::Standing*> programs;
    for (const Fault::Standing& of : fault_.standings) programs.push_back(&of);
    std::sort(programs.begin(), programs.end(),
              [](auto* a, auto* b) { return std::pair(a->program, a->block) < std::pair(b->program, b->block); });
    std::vector<Group> groups;
    std::map<std::set<std::string>, size_t> known;
    for (const Fault::Standing* of : programs) {
      std::vector<Doing> all = doings(*of);
      std::set<std::string> places;
      for (const Doing& doing : all) places.insert(doing.many + doing.where);
      const auto [at, is_new] = known.try_emplace(places, groups.size());
      if (is_new) groups.push_back({all, {}});
      Group& group = groups[at->second];
      group.programs.push_back(of);
      for (const Doing& doing : all)
        group.same_threads &= std::any_of(group.doings.begin(), group.doings.end(),
                                          [&](const Doing& other) { return other.threads == doing.threads; });
    }
    return groups;
  }

  static std::string text_of(const Group& group) {
    std::string text;
    const bool all = group.doings.size() == 1;
    for (const Doing& doing : group.doings) {
      const bool one = doing.threads.size() == 1 && !all;
      const std::string who = all ? "all threads" : group.same_threads ? thread_list(doing.threads) : "some";
      text +=
          (text.empty() ? "" : "; ") + who + " " + (one && group.same_threads ? doing.one : doing.many) + doing.where;
    }
    return text;
  }

  /// "program (0, 0, 0)", "programs (0, 0, 0), (2, 0, 0) to (7, 0, 0)".
  std::string names(const std::vector<const Fault::Standing*>& programs) const {
    constexpr int kMostRanges = 4;
    auto follows = [&](size_t i) {  // the one before
      const Fault::Standing &a = *programs[i - 1], &b = *programs[i];
      return a.program + 1 == b.program || a.program == b.program;
    };
    std::string text = programs.size() == 1 ? "program " : "programs ";
    int ranges = 0;
    for (size_t i = 0, last; i < programs.size(); i = last + 1) {
      for (last = i; last + 1 < programs.size() && follows(last + 1);) ++last;
      if (i) text += ", ";
      if (++ranges > kMostRanges) return text + fmt::format("and {} more", programs.size() - i);
      text += name(*programs[i]);
      if (last > i) text += " to " + name(*programs[last]);
    }
    return text;
  }

  /// Where the programs are that are under way.
  std::string standings() const {
    constexpr size_t kMostGroups = 8;
    const std::vector<Group> all = groups();
    std::string text = text_of(all[0]) + "\n  in " + names(all[0].programs);
    for (size_t i = 1; i < all.size() && i < kMostGroups; ++i)
      text += fmt::format("\n  {}: {}", names(all[i].programs), text_of(all[i]));
    size_t more = 0;
    for (size_t i = kMostGroups; i < all.size(); ++i) more += all[i].programs.size();
    if (more) text += fmt::format("\n  {} more in other places", more);
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
    return fmt::format("{} at {}", where.place < places_.size() ? places_[where.place].operation : "an access",
                       source(where));
  }
  bool is_known(const Where& where) const { return where.place < places_.size() || where.site < image_.sites.size(); }

  /// Of an access that is within another argument's array.
  std::string leaves_array() const {
    const auto table = memory_.table();
    auto array_of = [&](size_t i) {
      uint64_t value = 0;
      if (image_.params[i].pointer) std::memcpy(&value, args_[i], sizeof value);
      const Range* range = find_range(*table, value, 1);
      return range ? *range : Range{};
    };
    const Range own = array_of(size_t(fault_.argument));
    std::string other;
    for (size_t i = 0; i < image_.params.size() && other.empty(); ++i)
      if (array_of(i).contains(fault_.address, 1)) other = image_.params[i].name;
    const bool ahead = fault_.address < own.begin;
    return fmt::format(" at {:#x}, {} bytes {} of the array of argument '{}', in that of argument '{}'", fault_.address,
                       ahead ? own.begin - fault_.address : fault_.address - own.end,
                       ahead ? "before the start" : "past the end", image_.params[size_t(fault_.argument)].name, other);
  }

  /// Each row of an array of the host's is a range of its own where there are gaps between them.
  std::string argument_into(const Range& range) const {
    const bool is_host = range.end > range.begin && !memory_.allocated_bytes(range.begin);
    uint64_t nearest = 0;
    const std::string* name = nullptr;
    for (size_t i = 0; i < image_.params.size(); ++i) {
      if (!image_.params[i].pointer) continue;
      uint64_t value;
      std::memcpy(&value, args_[i], sizeof value);
      if (range.contains(value, 1)) return fmt::format(" (argument '{}')", image_.params[i].name);
      if (is_host && value < range.begin && range.begin - value < kNearArgument && value >= nearest)
        nearest = value, name = &image_.params[i].name;
    }
    return name ? fmt::format(" (a row of argument '{}')", *name) : "";
  }

  // Arrays without elements have an address that stands for no memory, or none. Empty if there is no such argument, or
  // none as near as the array `near`.
  std::string argument_to_nothing(const Range& near) const {
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
    const uint64_t to_near = fault_.address < near.begin ? near.begin - fault_.address : fault_.address - near.end;
    if (!name || (near.end && to_near <= fault_.address - nearest)) return "";
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
    case Warning::IndexBeyondExtent:
      return "an index that tl.gather takes is negative or not less than the extent of the axis; what it gives means "
             "nothing";
    case Warning::NanIsBorn:
      return "the result is a NaN, of operands that are none";
    case Warning::InfinityIsBorn:
      return "the result is an infinity, of operands that are finite";
  }
  return "";
}

std::string describe(const Fault& fault, const KernelImage& image, const std::vector<Place>& places,
                     const GlobalMemory& memory, void* const* args) {
  return Describer(fault, image, places, memory, args).text();
}

std::string describe_transfer(const Fault& fault, const StreamLaunch& transfer, const GlobalMemory& memory) {
  std::string who = fmt::format("a {} on another stream", fault.other_launch->transfer);
  if (fault.other_launch->transfer.empty())
    who = fmt::format("thread {} of program ({}, {}, {}){}", fault.other_thread, fault.other_x, fault.other_y,
                      fault.other_z, of_other_launch(fault));
  return fmt::format("race: {} at {:#x}, {}, by a {}, and {} by {}{}, and nothing orders the two{}",
                     kVerbs[int(fault.access)], fault.address, memory.describe(fault.address, fault.bytes),
                     transfer.transfer, kVerbs[int(fault.other_access)], who, place_in_other_launch(fault),
                     kHintOfStreams);
}

}  // namespace tegula::emulator
