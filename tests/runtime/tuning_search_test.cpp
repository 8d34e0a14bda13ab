// The search for the fastest candidate, over times that a test makes up.
#include <gtest/gtest.h>

#include <cmath>
#include <latch>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <stdexcept>

#include "runtime/base/error.h"
#include "runtime/tuning/search.h"

namespace tegula {
namespace {

using Status = TuningResult::Status;

/// Candidates with a true time each, and noise of 1 % from a fixed seed.
struct Bench {
  std::map<std::string, double> truth;
  std::vector<std::string> configs;
  size_t first = SIZE_MAX;  ///< so many of them are no reserve
  int asked_for_reserve = 0;
  double noise = 0.01;
  SearchOptions options;
  std::set<std::string> spills, broken, slow_to_fail;

  std::mutex mutex;
  std::mt19937 random{7};
  std::map<std::string, int> runs;
  std::map<std::string, std::set<int>> workers;
  std::vector<std::string> stored;

  void add(const std::string& config, double us) { configs.push_back(config), truth[config] = us; }
  /// Makes the last so many of the candidates the reserve.
  void reserve(size_t count) {
    std::vector<SearchCandidate> reserve;
    for (size_t i = configs.size() - count; i < configs.size(); ++i) reserve.push_back({configs[i]});
    first = configs.size() - count;
    options.reserve = [this, reserve] {
      ++asked_for_reserve;
      return reserve;
    };
  }

  SearchOutcome run(const std::vector<TuningResult>& known = {}, const std::vector<double>& predicted = {}) {
    auto prepare = [this](size_t i) {
      PreparedCandidate out;
      const std::string config = configs[i];
      if (broken.contains(config)) throw LaunchError("does not compile");
      out.facts.spill_bytes = spills.contains(config) ? 16 : 0;
      out.time = [this, config](int n, int worker) {
        std::lock_guard lock(mutex);
        if (slow_to_fail.contains(config)) throw DeviceError("illegal address");
        runs[config] += n;
        workers[config].insert(worker);
        std::normal_distribution<double> factor(1, noise);
        std::vector<double> us;
        for (int k = 0; k < n; ++k) us.push_back(truth.at(config) * factor(random));
        return us;
      };
      return out;
    };
    const std::vector<std::string> given(configs.begin(), configs.begin() + long(std::min(first, configs.size())));
    return search(
        given, predicted, known, prepare, [this](const TuningResult& r) { stored.push_back(r.config); }, options);
  }
};

TEST(Search, FindsTheFastest) {
  Bench b;
  for (int i = 0; i < 20; ++i) b.add("c" + std::to_string(i), 100 + (i * 7) % 20 * 5);
  SearchOutcome out = b.run();
  EXPECT_EQ(out.results[size_t(out.best)].config, "c0");
  EXPECT_EQ(out.timed, 20);
  ASSERT_EQ(out.results.size(), 20u);
  for (size_t i = 0; i < 20; ++i) EXPECT_EQ(out.results[i].config, b.configs[i]);
  EXPECT_EQ(std::set<std::string>(b.stored.begin(), b.stored.end()).size(), 20u);
}

TEST(Search, HopelessOnesAreStoppedEarly) {
  Bench b;
  b.options.compile_threads = 1;  // so that they are ready in order
  b.add("good", 100), b.add("bad", 200), b.add("near", 110);
  SearchOutcome out = b.run();
  EXPECT_EQ(out.results[1].status, Status::Stopped);
  EXPECT_NE(out.results[1].reason.find("times the best so far"), std::string::npos);
  EXPECT_EQ(b.runs["bad"], 3);
  EXPECT_GT(b.runs["near"], 10);
  EXPECT_EQ(out.results[2].status, Status::Timed);
}

// Those of the reserve are prepared in order, one for each that fails or spills, itself of the reserve or not.
TEST(Search, ReserveTakesThePlaceOfWhatDoesNotWork) {
  Bench b;
  for (const char* config : {"spills", "slow", "broken", "also spills", "fast", "works", "left over"})
    b.add(config, 100);
  b.truth["slow"] = 110, b.truth["fast"] = 90, b.truth["left over"] = 50;
  b.spills = {"spills", "also spills"}, b.broken = {"broken"};
  b.reserve(4);
  SearchOutcome out = b.run();
  ASSERT_EQ(out.results.size(), 6u);
  EXPECT_EQ(out.results[size_t(out.best)].config, "fast");
  EXPECT_FALSE(b.runs.contains("left over"));
  EXPECT_TRUE(b.runs.contains("works"));
  EXPECT_EQ(b.asked_for_reserve, 1);
  // What is known to spill is replaced too.
  Bench again;
  for (const char* config : {"spills", "slow", "fast"}) again.add(config, 100);
  again.truth["fast"] = 90, again.spills = b.spills, again.reserve(1);
  EXPECT_EQ(again.run({out.results[0]}).best, 2);
  EXPECT_FALSE(again.runs.contains("spills"));
}

TEST(Search, TheReserveIsNotAskedForWhereAllWork) {
  Bench b;
  for (const char* config : {"slow", "fast", "left over"}) b.add(config, 100);
  b.truth["fast"] = 90;
  b.reserve(1);
  EXPECT_EQ(b.run().best, 1);
  EXPECT_EQ(b.asked_for_reserve, 0);
}

// As after an error of the device.
TEST(Search, WhereNothingWorksTheReserveIsNotUsedUp) {
  Bench b;
  for (int i = 0; i < 20; ++i) {
    b.add(fmt::format("{}", i), 100);
    b.broken.insert(fmt::format("{}", i));
  }
  b.reserve(17);
  const SearchOutcome out = b.run();
  EXPECT_EQ(out.results.size(), 6u);
  EXPECT_EQ(out.best, -1);
}

TEST(Search, WhatIsReadyIsTimedWhileTheFirstIsPrepared) {
  std::latch timed(1);
  const std::vector<std::string> configs{"slow to compile", "ready"};
  auto prepare = [&](size_t i) {
    if (i == 0) timed.wait();
    PreparedCandidate out;
    out.time = [&, i](int runs, int) {
      if (i == 1 && !timed.try_wait()) timed.count_down();
      return std::vector<double>(size_t(runs), i == 0 ? 10. : 11.);
    };
    return out;
  };
  SearchOptions options;
  options.compile_threads = 2;
  EXPECT_EQ(search(configs, {}, {}, prepare, {}, options).best, 0);
}

TEST(Search, RunsFollowTheTimeOfAllTheirLaunches) {
  auto runs_of = [](double us, int launches) {
    std::map<std::string, int> runs;
    const std::vector<std::string> configs{"a", "b"};
    auto prepare = [&](size_t i) {
      PreparedCandidate out;
      out.launches = launches;
      out.time = [&runs, us, name = configs[i]](int n, int) {
        runs[name] += n;
        return std::vector<double>(size_t(n), us);
      };
      return out;
    };
    search(configs, {}, {}, prepare, {}, {});
    EXPECT_EQ(runs["a"], runs["b"]);
    return runs["a"];
  };
  EXPECT_EQ(runs_of(10, 3), 3 + 2 + 3 + 15);
  EXPECT_EQ(runs_of(1000, 1), 3 + 2 + 3 + 15);
  EXPECT_EQ(runs_of(1000, 3), 3 + 3 + 9);
}

TEST(Search, OfEachHeatTheSlowOnesLeave) {
  Bench b;
  b.noise = 0.001;
  b.add("good", 100), b.add("near", 102), b.add("some way off", 105), b.add("far", 115);
  EXPECT_EQ(b.run().best, 0);
  EXPECT_EQ(b.runs["near"], b.runs["good"]);
  EXPECT_EQ(b.runs["some way off"], b.runs["good"] - 9);
  EXPECT_EQ(b.runs["far"], b.runs["good"] - 12);
  Bench many;
  for (int i = 0; i < 10; ++i) many.add("c" + std::to_string(i), 100 + 0.1 * i);
  many.run();
  int to_the_end = 0, most = 0;
  for (const auto& [config, runs] : many.runs) most = std::max(most, runs);
  for (const auto& [config, runs] : many.runs) to_the_end += runs == most;
  EXPECT_EQ(to_the_end, 4);
}

// Clocks that change between the turns of two candidates tell nothing of these.
TEST(Search, WhatDriftsHitsAllOfARace) {
  double clock = 1;
  const std::vector<std::string> configs{"a", "b", "c"};
  const std::vector<double> truth{103, 101, 100};
  auto prepare = [&](size_t i) {
    PreparedCandidate out;
    out.time = [&, i](int runs, int) {
      if (runs > 1) clock = i == 2 ? 1.2 : 1;  // while it is timed alone
      return std::vector<double>(size_t(runs), clock * truth[i]);
    };
    return out;
  };
  SearchOptions options;
  options.compile_threads = 1;
  EXPECT_EQ(search(configs, {}, {}, prepare, {}, options).best, 2);
}

TEST(Search, OfNearlyEqualOnesTheFasterOneIsTaken) {
  int taken = 0;
  for (int seed = 0; seed < 40; ++seed) {
    Bench b;
    b.random.seed(seed);
    b.add("first", 101), b.add("second", 100);
    taken += b.run().best == 1;
  }
  EXPECT_GE(taken, 32);
}

TEST(Search, TheIncumbentStaysUnlessBeaten) {
  auto compete = [](double newcomer, double before) {
    int kept = 0;
    for (int seed = 0; seed < 20; ++seed) {
      Bench b;
      b.random.seed(seed);
      b.add("new", newcomer), b.add("old", 100);
      TuningResult old;
      old.config = "old";
      old.times_us = {before};
      b.options.incumbent = "old";
      SearchOutcome out = b.run({old});
      EXPECT_EQ(out.timed, 1);
      EXPECT_EQ(b.runs["old"], 15) << "timed against the newcomer alone";
      kept += out.best == 1;
    }
    return kept;
  };
  EXPECT_GE(compete(100, 100), 18);
  EXPECT_EQ(compete(97, 100), 0);
  EXPECT_GE(compete(100, 200), 18) << "what was measured on another day is no proof";
}

TEST(Search, OneMoreTimesOne) {
  Bench b;
  b.add("a", 100), b.add("b", 105), b.add("c", 150);
  auto known = b.run().results;
  b.runs.clear();
  b.stored.clear();
  SearchOutcome same = b.run(known);
  EXPECT_EQ(same.timed, 0);
  EXPECT_EQ(same.best, 0);
  EXPECT_TRUE(b.runs.empty());
  EXPECT_TRUE(b.stored.empty());
  b.add("d", 90);
  SearchOutcome more = b.run(known);
  EXPECT_EQ(more.timed, 1);
  EXPECT_EQ(more.best, 3);
  EXPECT_EQ(b.runs.count("c"), 0u);
}

TEST(Search, ReasonsAreKept) {
  Bench b;
  b.add("spills", 10), b.add("broken", 10), b.add("fails", 10), b.add("works", 100);
  b.spills = {"spills"}, b.broken = {"broken"}, b.slow_to_fail = {"fails"};
  SearchOutcome out = b.run({}, {INFINITY, NAN, 2.0, 1.0});
  EXPECT_EQ(out.best, 3);
  EXPECT_EQ(out.timed, 1);
  EXPECT_EQ(out.results[0].status, Status::Spilled);
  EXPECT_EQ(out.results[0].reason, "16 bytes of registers spilled a thread");
  EXPECT_EQ(out.results[0].predicted_us, 0);
  EXPECT_EQ(out.results[1].status, Status::Failed);
  EXPECT_EQ(out.results[1].reason, "does not compile");
  EXPECT_EQ(out.results[1].predicted_us, 0);
  EXPECT_EQ(out.results[2].status, Status::Failed);
  EXPECT_EQ(out.results[2].reason, "illegal address");
  EXPECT_TRUE(out.results[2].times_us.empty());
  EXPECT_EQ(out.results[3].predicted_us, 1);
  EXPECT_EQ(b.runs.count("spills"), 0u);
  b.broken = {"works"};
  b.configs = {"works"};
  EXPECT_EQ(b.run().best, -1);
}

TEST(Search, IfAllSpillTheyAreTimed) {
  Bench b;
  b.add("x", 100), b.add("y", 50);
  b.spills = {"x", "y"};
  SearchOutcome out = b.run();
  EXPECT_EQ(out.best, 1);
  EXPECT_EQ(out.results[1].status, Status::Timed);
  EXPECT_NE(out.results[1].reason.find("timed since all candidates spill"), std::string::npos);
  // The same if a search before was killed when it knew no more than that they spill.
  std::vector<TuningResult> known(2);
  known[0].config = "x", known[1].config = "y";
  for (auto& r : known) r.status = Status::Spilled, r.spill_bytes = 16;
  EXPECT_EQ(b.run(known).best, 1);
  // One that does not spill wins over those.
  b.add("z", 80);
  EXPECT_EQ(b.run(out.results).best, 2);
}

// Candidates that surely spill take an assembler longest: they are not even prepared while others work.
TEST(Search, WhatSurelySpillsComesLast) {
  Bench b;
  b.add("large", 10), b.add("small", 100);
  b.options.surely_spills = {"about 600 registers a thread, of 255", ""};
  SearchOutcome out = b.run();
  EXPECT_EQ(out.best, 1);
  EXPECT_EQ(b.runs.count("large"), 0u);
  EXPECT_EQ(out.results[0].status, Status::Spilled);
  EXPECT_EQ(out.results[0].reason, "about 600 registers a thread, of 255");
  EXPECT_EQ(b.stored, (std::vector<std::string>{"large", "small"}));
  b.broken = {"small"};
  out = b.run();
  EXPECT_EQ(out.best, 0);
  EXPECT_EQ(out.results[0].reason, "about 600 registers a thread, of 255; timed since all candidates spill");
}

TEST(Search, WorkersShare) {
  Bench b;
  b.options.workers = 4;
  for (int i = 0; i < 40; ++i) b.add("c" + std::to_string(i), i == 33 ? 90 : 100 + i);
  SearchOutcome out = b.run();
  EXPECT_EQ(out.best, 33);
  EXPECT_EQ(out.timed, 40);
  int twice = 0;
  for (auto& [config, on] : b.workers) {
    EXPECT_LE(on.size(), 2u);
    if (on.size() == 2) {
      ++twice;
      EXPECT_TRUE(on.contains(0)) << "finalists are compared on worker 0";
    }
  }
  EXPECT_LE(twice, 4);
}

TEST(Search, WhatCallbacksThrowReachesTheCaller) {
  for (int workers : {1, 3}) {
    Bench b;
    b.options.workers = workers;
    for (int i = 0; i < 30; ++i) b.add("c" + std::to_string(i), 100);
    int told = 0;
    b.options.progress = [&](const TuningResult&, size_t) {
      if (++told == 5) throw std::runtime_error("enough");
    };
    EXPECT_THROW(b.run(), std::runtime_error);
    EXPECT_EQ(told, 5);
  }
}

TEST(Search, ProgressCountsDown) {
  Bench b;
  for (int i = 0; i < 5; ++i) b.add("c" + std::to_string(i), 100);
  std::vector<size_t> left;
  b.options.progress = [&](const TuningResult&, size_t n) { left.push_back(n); };
  b.run();
  EXPECT_EQ(left, (std::vector<size_t>{4, 3, 2, 1, 0}));
}

// Exact one-sided probability of a rank sum at most that of `a`, over all ways to choose m of the m + n ranks.
double exact_probability(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> all = a;
  all.insert(all.end(), b.begin(), b.end());
  auto u_of = [&](unsigned mask) {
    double u = 0;
    for (size_t i = 0; i < all.size(); ++i)
      for (size_t j = 0; j < all.size(); ++j)
        if ((mask >> i & 1) && !(mask >> j & 1)) u += all[i] > all[j] ? 1 : all[i] == all[j] ? 0.5 : 0;
    return u;
  };
  double observed = u_of((1u << a.size()) - 1);
  int as_small = 0, total = 0;
  for (unsigned mask = 0; mask < 1u << all.size(); ++mask)
    if (size_t(__builtin_popcount(mask)) == a.size()) ++total, as_small += u_of(mask) <= observed;
  return double(as_small) / total;
}

TEST(Search, TestAgainstExactProbabilities) {
  std::mt19937 random(3);
  for (int round = 0; round < 40; ++round) {
    std::vector<double> a, b;
    std::normal_distribution<double> da(100, 2), db(102, 2);
    for (int i = 0; i < 6; ++i) a.push_back(da(random)), b.push_back(db(random));
    double p = exact_probability(a, b);
    EXPECT_FALSE(significantly_smaller(a, b, p - 0.02)) << p;
    EXPECT_TRUE(significantly_smaller(a, b, p + 0.02)) << p;
  }
  EXPECT_FALSE(significantly_smaller({}, {1}, 0.5));
  EXPECT_FALSE(significantly_smaller({1, 1, 1}, {1, 1, 1}, 0.05));
  std::vector<double> low(15, 1.0), high(15, 2.0);
  EXPECT_TRUE(significantly_smaller(low, high, 1e-5));
  EXPECT_FALSE(significantly_smaller(high, low, 0.9));
}

}  // namespace
}  // namespace tegula
