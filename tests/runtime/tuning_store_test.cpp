// What tuning has measured, on disk: rows, text, damage, and several processes at once.
#include "runtime/tuning/tuning_store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <thread>

#include "runtime/base/error.h"
#include "runtime/tuning/search.h"
#include "tests/message_of.h"

namespace tegula {
namespace {

namespace fs = std::filesystem;
using Status = TuningResult::Status;
using namespace std::chrono_literals;

const TuningProblem kProblem{"softmax 12ab", "*f32 i32 | cols=1000", "NVIDIA H200", "driver 13000"};

TuningResult row(const std::string& config, std::vector<double> times, int64_t at = 0) {
  TuningResult r;
  r.config = config;
  r.times_us = std::move(times);
  r.measured_at = at;
  r.registers = 32;
  return r;
}

class Store : public testing::Test {
 protected:
  Store() : folder_(fs::temp_directory_path() / ("tegula_store_" + std::to_string(getpid()))) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~Store() override {
    fs::permissions(folder_, fs::perms::owner_all);
    fs::remove_all(folder_);
  }

  fs::path file() const { return folder_ / "tuning.sqlite"; }
  TuningStore::Options options(const fs::path& path) {
    return {path, [this](const std::string& text) { warnings_.push_back(text); }};
  }
  TuningStore::Options options() { return options(file()); }
  static std::string text_of(TuningStore& store) {
    std::ostringstream out;
    store.export_text(out);
    return out.str();
  }
  static std::string import_error(TuningStore& store, const std::string& text) {
    std::istringstream in(text);
    return message_of<FileError>([&] { store.import_text(in, "rows.jsonl"); });
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_)) names.insert(entry.path().filename());
    return names;
  }
  /// Runs in a child process, which ends with status 0 unless it fails.
  template <class Work>
  static pid_t in_child(Work work) {
    pid_t child = fork();
    if (child == 0) {
      int status = 0;
      try {
        work();
      } catch (...) {
        status = 1;
      }
      _exit(status);
    }
    return child;
  }
  static int status_of(pid_t child) {
    int status = -1;
    waitpid(child, &status, 0);
    return status;
  }

  fs::path folder_;
  std::vector<std::string> warnings_;
};

// A write-ahead log is for processes of one host.
TEST_F(Store, KeepsNoLogWhereOtherHostsMayRead) {
  auto logs = [&](std::optional<bool> on_network) {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
    TuningStore::Options how = options();
    how.on_network = on_network;
    TuningStore store(how), other(how);
    store.put(kProblem, row("a", {1}));
    other.put(kProblem, row("b", {2}));
    EXPECT_EQ(store.results(kProblem).size(), 2u);
    EXPECT_EQ(other.results(kProblem).size(), 2u);
    return fs::exists(file().string() + "-wal");
  };
  EXPECT_FALSE(logs(true));
  EXPECT_TRUE(logs(false));
  EXPECT_EQ(warnings_, std::vector<std::string>());
}

TEST_F(Store, RowsInOrderReplacedAndChosen) {
  TuningStore store(options());
  EXPECT_TRUE(store.results(kProblem).empty());
  EXPECT_FALSE(store.winner(kProblem));
  EXPECT_TRUE(store.problems().empty());
  EXPECT_EQ(files(), std::set<std::string>());  // reading makes no files
  store.put(kProblem, row("b", {2, 3}));
  TuningResult failed = row("a", {});
  failed.status = Status::Failed;
  failed.reason = "two\nlines, 'quoted'";
  failed.predicted_us = INFINITY;
  store.put(kProblem, failed);
  store.put(kProblem, row("b", {4.25, 0.1}));
  auto rows = store.results(kProblem);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].config, "b");
  EXPECT_EQ(rows[0].times_us, (std::vector<double>{4.25, 0.1}));
  EXPECT_EQ(rows[0].registers, 32);
  EXPECT_GT(rows[0].measured_at, 1'600'000'000);
  EXPECT_EQ(rows[1].status, Status::Failed);
  EXPECT_EQ(rows[1].reason, failed.reason);
  EXPECT_EQ(rows[1].predicted_us, 0);
  EXPECT_EQ(rows[1].median_us(), INFINITY);
  EXPECT_FALSE(store.winner(kProblem));
  store.set_winner(kProblem, "b");
  EXPECT_EQ(TuningStore(options()).winner(kProblem), "b");
  // What is measured here replaces a row whatever its clock said.
  store.put(kProblem, row("b", {7}, 1000));
  EXPECT_EQ(store.results(kProblem)[0].times_us, std::vector<double>{7});
  TuningProblem other = kProblem;
  other.driver = "driver 13010";
  EXPECT_TRUE(store.results(other).empty());
  store.put(other, row("x", {1}));
  EXPECT_EQ(store.problems(), (std::vector<std::pair<TuningProblem, int64_t>>{{kProblem, 2}, {other, 1}}));
  store.clear();
  EXPECT_TRUE(store.problems().empty());
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Store, TextGoesRound) {
  TuningStore store(options());
  store.put(kProblem, row("BLOCK=1 S=\"a\\\"b\"", {1.0 / 3, 2e-9, 12345.678}, 1700000000));
  TuningResult spilled = row("BLOCK=2", {}, 1700000001);
  spilled.status = Status::Spilled;
  spilled.reason = "8 bytes\nmore \xc3\xa4";
  spilled.predicted_us = INFINITY;
  store.put(kProblem, spilled);
  store.set_winner(kProblem, "BLOCK=1 S=\"a\\\"b\"");
  std::string text = text_of(store);
  TuningStore other(options(folder_ / "other.sqlite"));
  std::istringstream in("\r\n" + text);
  EXPECT_EQ(other.import_text(in, "rows"), 2);
  EXPECT_EQ(text_of(other), text);
  EXPECT_EQ(other.winner(kProblem), store.winner(kProblem));
}

TEST_F(Store, ImportTakesAllOrNothing) {
  TuningStore store(options());
  store.put(kProblem, row("a", {1}, 1700000000));
  std::string good = text_of(store);
  TuningStore empty(options(folder_ / "empty.sqlite"));
  std::string error = import_error(empty, good + "{\"kernel\": 3}\n");
  EXPECT_EQ(error.rfind("rows.jsonl:2: no tuning result: ", 0), 0u) << error;
  EXPECT_NE(error.find("hint: nothing was taken in"), std::string::npos);
  EXPECT_EQ(import_error(empty, "\n\nxyz").rfind("rows.jsonl:3:", 0), 0u);
  EXPECT_EQ(import_error(empty, "[1]").rfind("rows.jsonl:1:", 0), 0u);
  std::string odd = good;
  odd.replace(odd.find("\"timed\""), 7, "\"quick\"");
  EXPECT_NE(import_error(empty, odd).find("unknown status 'quick', expected timed, stopped, spilled, failed"),
            std::string::npos);
  EXPECT_TRUE(empty.problems().empty());
}

TEST_F(Store, MachinesMerge) {
  TuningStore a(options(folder_ / "a.sqlite")), b(options(folder_ / "b.sqlite"));
  a.put(kProblem, row("one", {1}, 1700000000));
  a.put(kProblem, row("two", {2}, 1700000009));
  b.put(kProblem, row("two", {20}, 1700000005));
  b.put(kProblem, row("three", {3}, 1700000005));
  b.set_winner(kProblem, "three");
  std::string text_a = text_of(a), text_b = text_of(b);
  std::istringstream in_a(text_a), in_b(text_b);
  a.import_text(in_b, "b");
  b.import_text(in_a, "a");
  EXPECT_EQ(text_of(a), text_of(b));
  auto rows = a.results(kProblem);
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[1].times_us, std::vector<double>{2});  // the later one
  EXPECT_EQ(a.winner(kProblem), "three");
}

TEST_F(Store, DamageIsMovedAside) {
  std::ofstream(file()) << std::string(5000, 'x');
  TuningStore store(options());
  EXPECT_TRUE(store.results(kProblem).empty());
  store.put(kProblem, row("a", {1}));
  EXPECT_EQ(store.results(kProblem).size(), 1u);
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("are damaged"), std::string::npos) << warnings_[0];
  int aside = 0;
  for (const std::string& name : files())
    if (name.rfind("tuning.sqlite.damaged-", 0) == 0) aside += fs::file_size(folder_ / name) == 5000;
  EXPECT_EQ(aside, 1);
  EXPECT_EQ(TuningStore(options()).results(kProblem).size(), 1u);
}

TEST_F(Store, DamageInside) {
  {
    TuningStore store(options());
    for (int i = 0; i < 200; ++i) store.put(kProblem, row("config " + std::to_string(i), std::vector<double>(20, i)));
  }
  {
    std::fstream f(file(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(4096);
    f << std::string(fs::file_size(file()) - 4096, '\x5a');
  }
  TuningStore store(options());
  store.results(kProblem);
  store.put(kProblem, row("new", {1}));
  EXPECT_EQ(store.results(kProblem).size(), 1u);
  EXPECT_EQ(warnings_.size(), 1u);
}

TEST_F(Store, MembersOfATeamShareIt) {
  const mode_t before = umask(002);
  TuningStore store(options(folder_ / "team" / "tuning.sqlite"));
  store.put(kProblem, row("A", {1}));
  umask(before);
  for (const auto& made : fs::directory_iterator(folder_ / "team"))
    EXPECT_NE(made.status().permissions() & fs::perms::group_write, fs::perms::none) << made.path();
  EXPECT_EQ(store.results(kProblem).size(), 1u);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(Store, WhatCannotBeUsedIsSaidOnce) {
  std::ofstream(folder_ / "plain") << "no folder";
  TuningStore store(options(folder_ / "plain" / "t.sqlite"));
  EXPECT_TRUE(store.results(kProblem).empty());
  auto claim = store.claim(kProblem);
  for (int i = 0; i < 3; ++i) store.put(kProblem, row("a", {1}));
  store.set_winner(kProblem, "a");
  EXPECT_EQ(store.results(kProblem).size(), 1u);
  EXPECT_EQ(store.winner(kProblem), "a");
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("this process keeps its own in memory"), std::string::npos) << warnings_[0];
}

TEST_F(Store, ANewerFileIsLeftAlone) {
  {
    TuningStore store(options());
    store.put(kProblem, row("a", {1}));
  }
  {
    std::fstream f(file(), std::ios::in | std::ios::out | std::ios::binary);
    f.seekp(60);  // user_version in SQLite's header, big-endian
    f.write("\0\0\0\x63", 4);
  }
  TuningStore store(options());
  EXPECT_TRUE(store.results(kProblem).empty());
  store.put(kProblem, row("b", {1}));
  ASSERT_EQ(warnings_.size(), 1u);
  EXPECT_NE(warnings_[0].find("written by a newer Tegula (version 99"), std::string::npos) << warnings_[0];
  EXPECT_EQ(files().count("tuning.sqlite"), 1u);
}

TEST_F(Store, NoFolderKnown) {
  EXPECT_EQ(status_of(in_child([&] {
              for (const char* name : {"TEGULA_CACHE_DIR", "XDG_CACHE_HOME", "HOME"}) unsetenv(name);
              int warned = 0;
              TuningStore store({{}, [&](const std::string&) { ++warned; }});
              auto claim = store.claim(kProblem);
              store.put(kProblem, row("a", {1}));
              if (warned != 1 || store.results(kProblem).size() != 1) throw 1;
            })),
            0);
}

// ---- Several at once

TEST_F(Store, ProcessesLoseNothing) {
  TuningStore store(options());
  store.put(kProblem, row("first", {1}));  // a connection that children must not use
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c)
    children.push_back(in_child([&, c] {
      for (int i = 0; i < 40; ++i) store.put(kProblem, row(std::to_string(c) + "." + std::to_string(i), {1}));
      if (store.results(kProblem).size() < 41 || !warnings_.empty()) throw 1;
    }));
  for (pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(store.results(kProblem).size(), 161u);
}

/// Tunes as the tuner does; each timed candidate leaves a line in a log.
void tune(const fs::path& file, const fs::path& log, std::chrono::milliseconds each) {
  TuningStore store({file, {}});
  if (store.winner(kProblem)) return;
  auto claim = store.claim(kProblem);
  if (store.winner(kProblem)) return;
  auto known = store.results(kProblem);
  std::vector<std::string> configs{"c0", "c1", "c2", "c3", "c4", "c5"};
  auto prepare = [&](size_t i) {
    PreparedCandidate out;
    out.time = [&, i, started = std::make_shared<bool>(false)](int runs, int) {
      if (!std::exchange(*started, true)) {
        std::this_thread::sleep_for(each);
        std::ofstream(log, std::ios::app) << configs[i] + "\n";
      }
      return std::vector<double>(size_t(runs), 10.0 + 5 * double(i));
    };
    return out;
  };
  auto out = search(configs, {}, known, prepare, [&](const TuningResult& r) { store.put(kProblem, r); }, {});
  store.set_winner(kProblem, out.results[size_t(out.best)].config);
}

std::vector<std::string> lines(const fs::path& path) {
  std::ifstream in(path);
  std::vector<std::string> out;
  for (std::string line; std::getline(in, line);) out.push_back(line);
  return out;
}

TEST_F(Store, OneProcessTunesAndTheOthersTakeItsResults) {
  fs::path log = folder_ / "log";
  std::vector<pid_t> children;
  for (int c = 0; c < 4; ++c) children.push_back(in_child([&] { tune(file(), log, 10ms); }));
  for (pid_t child : children) EXPECT_EQ(status_of(child), 0);
  EXPECT_EQ(lines(log).size(), 6u);
  EXPECT_EQ(TuningStore(options()).winner(kProblem), "c0");
}

TEST_F(Store, AKilledProcessLosesTheCandidateInFlight) {
  fs::path log = folder_ / "log";
  pid_t first = in_child([&] { tune(file(), log, 100ms); });
  while (lines(log).size() < 2) std::this_thread::sleep_for(2ms);
  pid_t second = in_child([&] { tune(file(), log, 10ms); });
  std::this_thread::sleep_for(30ms);
  kill(first, SIGKILL);
  status_of(first);
  size_t kept = TuningStore(options()).results(kProblem).size();
  EXPECT_GE(kept, 1u);
  EXPECT_EQ(status_of(second), 0);
  EXPECT_EQ(TuningStore(options()).results(kProblem).size(), 6u);
  EXPECT_TRUE(TuningStore(options()).winner(kProblem));
  auto timed = lines(log);
  EXPECT_LE(timed.size(), 6u + 2u) << "finalists known from before are timed against the new ones, no others";
}

TEST_F(Store, ClaimsExcludeThreadsToo) {
  TuningStore store(options());
  std::atomic<int> inside{0}, most{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 20; ++i) {
        auto claim = store.claim(kProblem);
        most = std::max(most.load(), ++inside);
        store.put(kProblem, row("x", {1}));
        --inside;
      }
    });
  for (auto& t : threads) t.join();
  EXPECT_EQ(most, 1);
  TuningProblem other = kProblem;
  other.key = "other";
  auto one = store.claim(kProblem);
  auto two = store.claim(other);  // another problem waits for nobody
}

}  // namespace
}  // namespace tegula
