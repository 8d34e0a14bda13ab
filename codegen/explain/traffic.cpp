#include "codegen/explain/traffic.h"

#include <algorithm>
#include <list>
#include <map>
#include <unordered_map>

#include "codegen/explain/byte_runs.h"

namespace tegula::explaining {

namespace {

constexpr int64_t kMostAccesses = 600'000;   // beyond, some programs stand for all
constexpr int64_t kElementsAnAccess = 8;     // whose values take as long to follow as one access
constexpr int kStretches = 8;                // of programs that are looked at then
constexpr int64_t kMostIntervals = 1 << 22;  // of bytes, that are kept
// Sectors of one line are evicted together, and sets fill unevenly: a cache keeps less than its size.
constexpr double kUsableL2 = 0.9;

/// What one execution of an op touches; all executions that touch the same bytes of an array share one.
struct Piece {
  int64_t bytes = 0;  ///< of sectors
  int64_t useful = 0;
  bool read = false, written = false;  ///< so far
  std::vector<Interval> sectors = {};  ///< empty where the address is not known, and where they are too many to be kept
};

/// An execution of an op.
struct Touch {
  int access;  ///< number of the op
  uint32_t piece;
};

/// Keeps what was touched last, up to a number of bytes.
class LeastRecentlyUsed {
 public:
  explicit LeastRecentlyUsed(int64_t bytes) : room_(bytes) {}

  /// Whether it is there; then it is.
  bool touch(uint32_t piece, int64_t bytes) {
    if (auto it = where_.find(piece); it != where_.end()) {
      order_.splice(order_.begin(), order_, it->second);
      return true;
    }
    order_.emplace_front(piece, bytes);
    where_[piece] = order_.begin();
    for (room_ -= bytes; room_ < 0 && !order_.empty(); order_.pop_back()) {
      room_ += order_.back().second;
      where_.erase(order_.back().first);
    }
    return false;
  }

 private:
  int64_t room_;
  std::list<std::pair<uint32_t, int64_t>> order_;
  std::unordered_map<uint32_t, std::list<std::pair<uint32_t, int64_t>>::iterator> where_;
};

/// The L2 cache: two halves, each beside half of the multiprocessors and of the memory. What the multiprocessors of one
/// half read of the other half's memory both halves keep, so that what all read takes twice its size.
class HalvedCache {
 public:
  explicit HalvedCache(int64_t bytes) : halves_{LeastRecentlyUsed(bytes / 2), LeastRecentlyUsed(bytes / 2)} {}

  /// Of a piece's bytes those that come from memory when a multiprocessor of that half asks for them.
  int64_t read(uint32_t piece, int64_t bytes, int half) {
    const int64_t near = halves_[half].touch(2 * piece + uint32_t(half), bytes / 2) ? 0 : bytes / 2;
    if (halves_[half].touch(2 * piece + uint32_t(1 - half), bytes / 2)) return near;
    return near + (halves_[1 - half].touch(2 * piece + uint32_t(1 - half), bytes / 2) ? 0 : bytes / 2);
  }

  void write(uint32_t piece, int64_t bytes) {
    for (const uint32_t half : {0U, 1U}) halves_[half].touch(2 * piece + half, bytes / 2);
  }

 private:
  LeastRecentlyUsed halves_[2];
};

class Counter {
 public:
  Counter(const ir::Func& func, const LaunchFacts& launch, const CacheSizes& caches)
      : func_(func), launch_(launch), caches_(caches), trace_(func, launch) {
    ir::walk(func.body, [&](const ir::Op& op) {
      if (!is_access(op)) return;
      number_[&op] = int(out_.accesses.size());
      out_.accesses.push_back({&op, -1});
    });
  }

  Traffic run() {
    out_.programs = launch_.grid[0] * launch_.grid[1] * launch_.grid[2];
    look_at_programs();
    if (out_.counted > 0) {
      count_caches();
      sum_up();
    }
    out_.control = trace_.control();
    out_.assumptions = trace_.assumptions();
    return std::move(out_);
  }

 private:
  // All programs, or stretches of neighbours from the whole grid: every other stretch first, so that what the second
  // half adds to the first tells how what is touched grows.
  void look_at_programs() {
    const int64_t n = out_.programs;
    if (n <= 0) return;
    look_at(0);
    const int64_t each =
        std::max<int64_t>({1, int64_t(streams_.back().size()), trace_.elements_read() / kElementsAnAccess});
    const int64_t affordable = std::max<int64_t>(kMostAccesses / each, 2 * kStretches);
    if (n <= affordable) {
      for (int64_t p = 1; p < n; ++p) look_at(p);
      out_.counted = n;
      half_ = unique_sizes();
      return;
    }
    streams_.clear(), pieces_.clear(), known_.clear(), unique_.clear(), distinct_.clear();
    for (AccessTraffic& a : out_.accesses) a = {a.op, a.parameter};
    const int64_t length = affordable / kStretches;
    for (int odd : {0, 1}) {
      for (int s = odd; s < kStretches; s += 2)
        for (int64_t i = 0; i < length; ++i) look_at(n / kStretches * s + i);
      if (!odd) half_ = unique_sizes();
    }
    out_.counted = length * kStretches;
  }

  void look_at(int64_t program) {
    streams_.emplace_back();
    trace_.run(program_of(launch_.grid, program), [&](const Access& a) { note(a); });
  }

  void note(const Access& access) {
    const int number = number_.at(access.op);
    AccessTraffic& sums = out_.accesses[size_t(number)];
    sums.parameter = access.array;
    uint64_t key = uint64_t(access.array) * 0x9e3779b97f4a7c15u ^ access.pointers->digest();
    if (access.mask) key = key * 31 ^ access.mask->digest();
    if (!access.pointers->known()) key = ++apart_ * 0xff51afd7ed558ccdu;
    auto [it, is_new] = known_.try_emplace(key, uint32_t(pieces_.size()));
    if (is_new) pieces_.emplace_back();
    Piece& piece = pieces_[it->second];
    look_at_bytes(access, piece, is_new);
    streams_.back().push_back({number, it->second});
    sums.times += 1;
    sums.useful += double(piece.useful);
    sums.sectors += double(piece.bytes);
  }

  static bool reads(const ir::Op& op) { return op.opcode != ir::Opcode::Store; }
  static bool writes(const ir::Op& op) { return op.opcode != ir::Opcode::Load; }

  // Elements of unknown addresses are taken to lie far apart; a mask that is not known, to hold.
  void look_at_bytes(const Access& access, Piece& piece, bool is_new) {
    const bool first_read = reads(*access.op) && !piece.read, first_write = writes(*access.op) && !piece.written;
    if (!is_new && !first_read && !first_write) return;
    piece.read |= first_read, piece.written |= first_write;
    if (!access.pointers->known()) {
      const int64_t elements = access.op->operand(0)->type.num_elements();
      piece.useful = elements * access.element_bytes;
      piece.bytes = elements * std::max(kSectorBytes, access.element_bytes);
      return;
    }
    Access all = access;
    if (access.mask && !access.mask->known()) all.mask = nullptr;
    std::vector<Interval> sectors = in_units(byte_runs(all, piece.useful), kSectorBytes);
    piece.bytes = total(sectors);
    if (is_new) distinct_[access.array] += piece.bytes;
    Unique& unique = unique_[access.array];
    for (const Interval& s : sectors) {
      if (first_read) unique.read.insert(s);
      if (first_write) unique.written.insert(s);
    }
    if (is_new && int64_t(sectors.size()) <= kMostIntervals - intervals_) {
      intervals_ += int64_t(sectors.size());
      piece.sectors = std::move(sectors);
    }
  }

  // ---- Caches

  /// The caches while the programs run, and the bytes of each array that go through them.
  struct CacheState {
    HalvedCache l2;
    std::vector<LeastRecentlyUsed> l1;              ///< of each multiprocessor
    std::vector<bool> seen;                         ///< parts that have been in the L2 cache
    std::map<int, double> read = {}, written = {};  ///< through the L2 cache
    std::map<int, double> from_memory = {};         ///< again, after it had evicted them
  };

  /// An execution of an op on the multiprocessor `place`.
  void access(const Touch& touch, int64_t place, CacheState& state) {
    const Piece& piece = pieces_[touch.piece];
    const ir::Op& op = *out_.accesses[size_t(touch.access)].op;
    const int array = out_.accesses[size_t(touch.access)].parameter;
    const bool in_l1 = !writes(op) && state.l1[size_t(place)].touch(touch.piece, piece.bytes);
    if (reads(op) && !in_l1) state.read[array] += double(piece.bytes);
    if (writes(op)) state.written[array] += double(piece.bytes);
    if (in_l1) return;
    for (const Part& part : parts_of(touch.piece, array)) {
      if (part.key >= state.seen.size()) state.seen.resize(part.key + 1, false);
      if (reads(op)) {
        const int64_t missed = state.l2.read(part.key, part.bytes, int(place % 2));
        if (state.seen[part.key]) state.from_memory[array] += double(missed);
      } else {
        state.l2.write(part.key, part.bytes);
      }
      state.seen[part.key] = true;
    }
  }

  /// Runs the programs side by side on all multiprocessors, an access each in turn.
  void count_caches() {
    const double share = double(out_.programs) / double(out_.counted);
    const int64_t places = std::max<int64_t>(1, caches_.places);
    CacheState state{.l2 = HalvedCache(int64_t(double(caches_.l2_bytes) * kUsableL2)),
                     .l1 = std::vector(size_t(places), LeastRecentlyUsed(caches_.l1_bytes)),
                     .seen = std::vector<bool>(pieces_.size(), false)};
    std::vector<size_t> at(streams_.size(), 0);
    struct Running {
      size_t stream;
      int64_t place;
      size_t wait;  ///< turns until it begins
    };
    std::list<Running> running;
    size_t next = 0;
    const auto start = [&](int64_t place, int64_t late = 0, int64_t of = 1) {
      if (next < streams_.size())
        running.push_back({next, place, streams_[next].size() * size_t(late) / size_t(of)}), ++next;
    };
    // Programs side by side are soon at different places of their work.
    const int64_t together = std::max<int64_t>(1, caches_.programs_a_place);
    for (int64_t i = 0; i < places * together; ++i) start(i % places, i / places, together);
    while (!running.empty()) {
      for (auto it = running.begin(); it != running.end();) {
        if (it->wait > 0) {
          --it->wait, ++it;
          continue;
        }
        const std::vector<Touch>& stream = streams_[it->stream];
        if (at[it->stream] == stream.size()) {
          start(it->place);
          it = running.erase(it);
          continue;
        }
        access(stream[at[it->stream]++], it->place, state);
        ++it;
      }
    }
    for (auto& [array, unique] : unique_) arrays_[array];
    for (const AccessTraffic& a : out_.accesses)
      if (a.times > 0) arrays_[a.parameter];
    for (auto& [array, traffic] : arrays_) {
      traffic.read = int64_t(state.read[array] * share);
      traffic.written = int64_t(state.written[array] * share);
      traffic.from_memory = int64_t(state.from_memory[array] * share);
    }
  }

  /// What caches keep of a piece: all of it as one, or blocks of memory.
  struct Part {
    uint32_t key;
    int64_t bytes;
  };

  // Programs may divide an array in different ways, as runs of elements divide what belongs to columns, or as rows are
  // gathered in any order. Where pieces overlap, blocks of the array are looked for in the caches.
  const std::vector<Part>& parts_of(uint32_t number, int array) {
    parts_.clear();
    const Piece& piece = pieces_[number];
    const int64_t block = piece.sectors.empty() ? 0 : block_of(array);
    if (block == 0) {
      parts_.push_back({number, piece.bytes});
      return parts_;
    }
    for (const Interval& s : piece.sectors)
      for (int64_t at = s.first; at < s.second;) {
        const int64_t next = std::min(s.second, (at / block + 1) * block);
        const auto fresh = uint32_t(pieces_.size() + blocks_.size());
        parts_.push_back({blocks_.try_emplace({array, at / block}, fresh).first->second, next - at});
        at = next;
      }
    return parts_;
  }

  /// Bytes of the blocks; 0 where the pieces of an array hardly overlap.
  int64_t block_of(int array) {
    constexpr double kOverlap = 1.1;
    constexpr int64_t kLeast = 256, kMostBlocks = 1 << 18;
    const auto [known, is_new] = block_sizes_.try_emplace(array, 0);
    if (!is_new) return known->second;
    const Unique& unique = unique_[array];
    const int64_t size = std::max(unique.read.size(), unique.written.size());
    if (double(distinct_[array]) >= kOverlap * double(size))
      for (known->second = kLeast; size / known->second > kMostBlocks;) known->second *= 2;
    return known->second;
  }

  // ---- Sums

  struct Unique {
    ByteSet read, written;
  };
  using Sizes = std::map<int, std::array<int64_t, 2>>;

  Sizes unique_sizes() const {
    Sizes sizes;
    for (const auto& [array, unique] : unique_) sizes[array] = {unique.read.size(), unique.written.size()};
    return sizes;
  }

  // What programs that were not looked at add, as the second half of those that were did.
  int64_t extrapolated(int64_t half, int64_t all) const {
    if (out_.counted == out_.programs) return all;
    const double growth = double(all - half) / (double(out_.counted) / 2);
    return all + int64_t(growth * double(out_.programs - out_.counted));
  }

  // Bytes of an array that are read but not because the launch had written them before.
  static int64_t read_first(const Unique& unique) {
    if (unique.written.size() == 0) return unique.read.size();
    ByteSet written;
    for (const Interval& w : unique.written.intervals()) written.insert(w);
    const int64_t before = written.size();
    for (const Interval& r : unique.read.intervals()) written.insert(r);
    return written.size() - before;
  }

  void sum_up() {
    const double share = double(out_.programs) / double(out_.counted);
    for (auto& [array, traffic] : arrays_) {
      const Unique& unique = unique_[array];
      traffic.parameter = array;
      traffic.name = array >= 0 ? func_.body.args[size_t(array)]->name : "addresses of several arrays";
      traffic.unique_read = extrapolated(half_[array][0], unique.read.size());
      traffic.unique_written = extrapolated(half_[array][1], unique.written.size());
      const bool in_place = updates_in_place(array);
      const double fresh =
          in_place || unique.read.size() == 0 ? 1 : double(read_first(unique)) / double(unique.read.size());
      traffic.from_memory += int64_t(double(traffic.unique_read) * fresh);
      traffic.to_memory = traffic.unique_written;
      if (unique.read.size() == 0 && unique.written.size() == 0)  // no address is known
        traffic.from_memory = traffic.read, traffic.to_memory = traffic.written;
      out_.read += traffic.read, out_.written += traffic.written;
      out_.from_memory += traffic.from_memory, out_.to_memory += traffic.to_memory;
      out_.arrays.push_back(traffic);
    }
    for (AccessTraffic& a : out_.accesses) {
      a.times *= share, a.useful *= share, a.sectors *= share;
      if (a.op->opcode != ir::Opcode::Store) out_.useful_read += int64_t(a.useful);
      if (a.op->opcode != ir::Opcode::Load) out_.useful_written += int64_t(a.useful);
    }
  }

  // Whether the array is read before it is written, as far as the order of its first accesses tells.
  bool updates_in_place(int array) const {
    for (const Touch& touch : streams_.front())
      if (const AccessTraffic& a = out_.accesses[size_t(touch.access)]; a.parameter == array) return reads(*a.op);
    return false;
  }

  const ir::Func& func_;
  const LaunchFacts& launch_;
  const CacheSizes& caches_;
  AccessTrace trace_;
  Traffic out_;
  std::unordered_map<const ir::Op*, int> number_;
  std::vector<Piece> pieces_;
  std::unordered_map<uint64_t, uint32_t> known_;  ///< pieces by digest
  std::vector<std::vector<Touch>> streams_;       ///< of each program, in order
  std::map<int, Unique> unique_;
  std::map<int, int64_t> distinct_;                     ///< bytes of pieces, by array
  std::map<int, int64_t> block_sizes_;                  ///< by array
  std::map<std::pair<int, int64_t>, uint32_t> blocks_;  ///< keys of an array's blocks
  std::vector<Part> parts_;                             ///< of the piece that was asked for last
  std::map<int, ArrayTraffic> arrays_;
  Sizes half_;
  uint64_t apart_ = 0;
  int64_t intervals_ = 0;  ///< that pieces keep
};

}  // namespace

std::array<int64_t, 3> program_of(const std::array<int64_t, 3>& grid, int64_t number) {
  return {number % grid[0], number / grid[0] % grid[1], number / grid[0] / grid[1]};
}

Traffic count_traffic(const ir::Func& func, const LaunchFacts& launch, const CacheSizes& caches) {
  return Counter(func, launch, caches).run();
}

Footprint footprint(const ir::Func& func, const LaunchFacts& launch, std::array<int64_t, 3> program) {
  const size_t parameters = func.body.args.size();
  std::vector<ByteSet> read(parameters), written(parameters);
  AccessTrace(func, launch).run(program, [&](const Access& access) {
    if (access.array < 0 || !access.pointers->known() || (access.mask && !access.mask->known())) return;
    int64_t useful = 0;
    for (const Interval& run : byte_runs(access, useful)) {
      if (access.op->opcode != ir::Opcode::Store) read[size_t(access.array)].insert(run);
      if (access.op->opcode != ir::Opcode::Load) written[size_t(access.array)].insert(run);
    }
  });
  Footprint out;
  for (size_t i = 0; i < parameters; ++i) {
    out.read.push_back(read[i].intervals());
    out.written.push_back(written[i].intervals());
  }
  return out;
}

}  // namespace tegula::explaining
