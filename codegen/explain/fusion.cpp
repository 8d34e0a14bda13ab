#include "codegen/explain/fusion.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "codegen/explain/byte_runs.h"

namespace tegula::explaining {

namespace {

constexpr double kLeastGain = 1.5;   // of traffic saved, below which a fusion is not worth its registers
constexpr double kMostOnChip = 0.6;  // of the shared memory of a program
constexpr int kManyConsumers = 3;    // kernels that read one result
constexpr int64_t kProgramsLookedAt = 64;

/// What a sequence does with one array.
struct ArrayUse {
  int64_t read_alone = 0, written_alone = 0;  ///< bytes, summed over the kernels
  int64_t first_read = 0;                     ///< of the first kernel that reads it before any has written it
  int64_t last_written = 0;
  int writer = -1;             ///< the last kernel that wrote it
  std::vector<int> consumers;  ///< kernels that read what an earlier one wrote
};

class Judge {
 public:
  Judge(const std::vector<FusionStep>& steps, const std::vector<int64_t>& kept, int64_t shared)
      : steps_(steps), kept_(kept.begin(), kept.end()), shared_(shared) {}

  FusionVerdict run() {
    note_arrays();
    count_bytes();
    ask_bound();
    ask_memory();
    ask_pattern();
    ask_consumers();
    ask_gain();
    conclude();
    return std::move(out_);
  }

 private:
  int64_t address(int step, int parameter) const { return steps_[size_t(step)].launch->arguments[size_t(parameter)]; }

  void note_arrays() {
    for (int i = 0; i < int(steps_.size()); ++i)
      for (const ArrayTraffic& a : steps_[size_t(i)].traffic->arrays) {
        if (a.parameter < 0) continue;
        ArrayUse& use = arrays_[address(i, a.parameter)];
        use.read_alone += a.from_memory, use.written_alone += a.to_memory;
        if (a.from_memory > 0 && use.writer >= 0) use.consumers.push_back(i);
        if (a.from_memory > 0 && use.writer < 0) use.first_read = std::max(use.first_read, a.from_memory);
        if (a.to_memory > 0) use.writer = i, use.last_written = a.to_memory;
      }
  }

  // One kernel reads what it has not made itself once, and writes what is asked for after it.
  void count_bytes() {
    for (const auto& [where, use] : arrays_) {
      out_.separate_bytes += use.read_alone + use.written_alone;
      out_.fused_bytes += use.first_read;
      if (use.consumers.empty() || kept_.contains(where)) out_.fused_bytes += use.last_written;
    }
    out_.speedup = out_.fused_bytes ? double(out_.separate_bytes) / double(out_.fused_bytes) : 1;
  }

  void add(const char* question, bool speaks_for, std::string figures) {
    out_.rules.push_back({int(out_.rules.size()) + 1, question, speaks_for, std::move(figures)});
  }

  void ask_bound() {
    std::vector<std::string> compute;
    for (const FusionStep& s : steps_)
      if (s.bound == "compute") compute.push_back(s.name);
    add("at most one kernel bound by compute?", compute.size() <= 1,
        compute.empty() ? "none is: all wait for memory or for launches"
                        : fmt::format("{} of {}: {}", compute.size(), steps_.size(), fmt::join(compute, ", ")));
  }

  void ask_memory() {
    // Sums live side by side; copies of operands can take turns in one kernel's room.
    int64_t room = 0, sums = 0;
    for (const FusionStep& s : steps_) room = std::max(room, s.shared_bytes), sums += s.sums_bytes;
    const double share = double(room + sums) / double(shared_);
    add("memory on the chip below 0.6 of the limit?", share < kMostOnChip,
        fmt::format("{:.1f} KB of shared memory and {:.1f} KB of sums, {:.2f} of {:.0f} KB", double(room) / 1024,
                    double(sums) / 1024, share, double(shared_) / 1024));
  }

  void ask_consumers() {
    size_t most = 0;
    std::string name;
    for (const auto& [where, use] : arrays_)
      if (use.consumers.size() > most) {
        most = use.consumers.size();
        name = steps_[size_t(use.writer)].name;
      }
    add("each result read by few kernels?", most < kManyConsumers,
        most == 0
            ? "no kernel reads what an earlier one wrote"
            : fmt::format("at most {} kernel{} read{} one result", most, most == 1 ? "" : "s", most == 1 ? "s" : ""));
  }

  void ask_gain() {
    add("traffic ratio at least 1.5?", out_.speedup >= kLeastGain,
        fmt::format("{:.4g} MB apart, {:.4g} MB as one kernel: {:.2f}", double(out_.separate_bytes) / 1e6,
                    double(out_.fused_bytes) / 1e6, out_.speedup));
  }

  // ---- Who reads whose results

  using Parts = std::vector<Footprint::Intervals>;  // by program that was looked at

  Parts parts_of(int step, int64_t where, bool written) const {
    const FusionStep& s = steps_[size_t(step)];
    const auto& grid = s.launch->grid;
    const int64_t n = std::min(grid[0] * grid[1] * grid[2], kProgramsLookedAt);
    Parts parts;
    for (int64_t p = 0; p < n; ++p) {
      const Footprint f = footprint(*s.func, *s.launch, program_of(grid, p));
      Footprint::Intervals all;
      for (size_t i = 0; i < s.launch->arguments.size(); ++i)
        if (s.launch->arguments[i] == where && s.func->body.args[i]->type.pointer) {
          const auto& some = written ? f.written[i] : f.read[i];
          all.insert(all.end(), some.begin(), some.end());
        }
      parts.push_back(std::move(all));
    }
    return parts;
  }

  // The most of `others` that one of `parts` shares bytes with; only bytes that the programs looked at cover count.
  static int most_partners(const Parts& parts, const Parts& others) {
    std::vector<ByteSet> sets(others.size());
    for (size_t i = 0; i < others.size(); ++i)
      for (const Interval& r : others[i]) sets[i].insert(r);
    int most = 0;
    for (const auto& part : parts) {
      int partners = 0;
      for (const ByteSet& other : sets)
        partners += std::any_of(part.begin(), part.end(), [&](const Interval& r) { return other.intersects(r); });
      most = std::max(most, partners);
    }
    return most;
  }

  // One kernel can do both where each program of one side needs what one program of the other side makes.
  void ask_pattern() {
    bool same = true;
    std::string figures = "no kernel reads what an earlier one wrote";
    for (const auto& [where, use] : arrays_)
      for (const int reader : use.consumers) {
        int writer = -1;
        for (int i = 0; i < reader; ++i)
          for (const ArrayTraffic& a : steps_[size_t(i)].traffic->arrays)
            if (a.parameter >= 0 && a.to_memory > 0 && address(i, a.parameter) == where) writer = i;
        if (writer < 0) continue;
        const Parts written = parts_of(writer, where, true), read = parts_of(reader, where, false);
        const int makers = most_partners(read, written), takers = most_partners(written, read);
        const bool fits = makers <= 1 || takers <= 1;
        if (same)
          figures =
              fmt::format("a program of {} reads results of {} program{} of {}, whose programs serve {}{}",
                          steps_[size_t(reader)].name, makers, makers == 1 ? "" : "s", steps_[size_t(writer)].name,
                          takers, fits ? "" : ": they divide the array in different ways");
        same &= fits;
      }
    add("the same parallel axes?", same, figures);
  }

  void conclude() {
    const auto against =
        std::find_if(out_.rules.begin(), out_.rules.end(), [](const FusionRule& r) { return !r.speaks_for_fusion; });
    out_.fuse = steps_.size() > 1 && against == out_.rules.end();
    if (steps_.size() < 2) {
      out_.text = "one kernel alone: nothing to fuse";
    } else if (out_.fuse) {
      double apart = 0;
      for (const FusionStep& s : steps_) apart += s.predicted_us;
      out_.text =
          fmt::format("fuse them, then measure: {:.2f} times less traffic, about {:.4g} us instead of {:.4g} us",
                      out_.speedup, apart / out_.speedup, apart);
    } else {
      out_.text =
          fmt::format("do not fuse them: rule {} ({}): {}", against->number, against->question, against->figures);
    }
  }

  const std::vector<FusionStep>& steps_;
  std::set<int64_t> kept_;
  int64_t shared_;
  std::map<int64_t, ArrayUse> arrays_;  // by address
  FusionVerdict out_;
};

}  // namespace

FusionVerdict judge_fusion(const std::vector<FusionStep>& steps, const std::vector<int64_t>& kept,
                           int64_t shared_per_program) {
  return Judge(steps, kept, shared_per_program).run();
}

}  // namespace tegula::explaining
