// Inline PTX that the lanes of a warp do together. Those that a member mask names meet; each then computes its own
// result from the values of all.
#include <bit>

#include "codegen/exec/emulator/hardware/access.h"
#include "codegen/exec/emulator/ptx/ptx.h"

namespace tegula::emulator::ptx {

namespace {

/// The lane that shfl reads for `lane`, and whether that lies in its segment; else it reads its own.
std::pair<uint32_t, bool> source_of(const std::string& mode, uint32_t lane, uint32_t b, uint32_t c) {
  const uint32_t segment = c >> 8 & 31, step = b & 31, clamp = c & 31;
  const int first = int(lane & segment), last = first | int(clamp & ~segment);
  int source = mode == "up"     ? int(lane) - int(step)
               : mode == "down" ? int(lane + step)
               : mode == "bfly" ? int(lane ^ step)
                                : first | int(step & ~segment);
  const bool inside = mode == "up" ? source >= last : source <= last;
  return {inside ? uint32_t(source) : lane, inside};
}

/// The operation of redux on two lanes' values.
Op reduction(const std::string& name) {
  return name == "add"   ? Op::Add
         : name == "min" ? Op::Min
         : name == "max" ? Op::Max
         : name == "and" ? Op::And
         : name == "or"  ? Op::Or
                         : Op::Xor;
}

/// The values that the lanes of a group brought, of which one lane takes its results.
class Values {
 public:
  Values(uint32_t members, const uint64_t* values) : members_(members), values_(values) {}

  bool has(uint32_t lane) const { return members_ >> lane & 1; }
  uint32_t first() const { return uint32_t(std::countr_zero(members_)); }
  /// The lanes whose value `holds`.
  template <class Holds>
  uint32_t where(Holds holds) const {
    uint32_t found = 0;
    for (uint32_t lane = 0; lane < kLanes; ++lane)
      if (has(lane) && holds(values_[lane])) found |= 1u << lane;
    return found;
  }

  uint64_t vote(const std::string& mode) const {
    const uint32_t yes = where([](uint64_t v) { return v & 1; });
    if (mode == "ballot") return yes;
    if (mode == "any") return yes != 0;
    return yes == members_ || (mode == "uni" && yes == 0);
  }
  uint64_t reduce(const Instruction& i) const {
    Instruction combine = i;
    combine.op = reduction(i.mods.choice);
    uint64_t result = values_[first()];
    bool carry = false;
    for (uint32_t lane = first() + 1; lane < kLanes; ++lane)
      if (has(lane)) result = compute(combine, result, values_[lane], 0, carry);
    return result;
  }

 private:
  const uint32_t members_;
  const uint64_t* values_;
};

}  // namespace

void exchange(const Instruction& i, const uint64_t* operands, size_t count, uint64_t* results, Where where) {
  Worker& worker = *this_worker;
  const uint32_t lane = worker.fiber().thread % kLanes, members = uint32_t(operands[count - 1]);
  if (!(members >> lane & 1)) misuse("a lane does what its member mask leaves it out of", where);
  LaneGroup& group = worker.warp().groups[members];
  uint64_t* values = group.values[group.round & 1];
  values[lane] = operands[0];
  worker.meet(group, members, where);

  const Values all(members, values);
  switch (i.op) {
    case Op::Shfl: {
      const auto [source, inside] = source_of(i.mods.choice, lane, uint32_t(operands[1]), uint32_t(operands[2]));
      if (!all.has(source)) misuse("shfl reads a lane that its member mask leaves out", where);
      results[0] = values[source];
      results[1] = inside;
      return;
    }
    case Op::Vote:
      results[0] = all.vote(i.mods.choice);
      return;
    case Op::Match: {
      const uint32_t same = all.where([&](uint64_t v) { return v == operands[0]; });
      const bool every = i.mods.choice == "all";
      results[0] = every && same != members ? 0 : same;
      results[1] = same == members;
      return;
    }
    case Op::Redux:
      results[0] = all.reduce(i);
      return;
    case Op::Elect:
      results[0] = all.first();
      results[1] = lane == all.first();
      return;
    default:  // bar.warp
      return;
  }
}

}  // namespace tegula::emulator::ptx
