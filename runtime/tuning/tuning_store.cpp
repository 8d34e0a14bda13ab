#include "runtime/tuning/tuning_store.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sqlite3.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cmath>
#include <istream>
#include <limits>
#include <nlohmann/json.hpp>
#include <ostream>
#include <random>
#include <system_error>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/base/error.h"
#include "runtime/base/files.h"
#include "runtime/base/messages.h"
#include "runtime/store/image_cache.h"
#include "runtime/timing.h"

namespace tegula {

namespace fs = std::filesystem;
using Status = TuningResult::Status;

namespace {

constexpr int kSchema = 1;  ///< user_version of the file
constexpr int kBusyMs = 10'000;
constexpr std::array<std::string_view, 4> kStatus = {"timed", "stopped", "spilled", "failed"};

const char* const kTables = R"(
CREATE TABLE IF NOT EXISTS problem (
  id INTEGER PRIMARY KEY, kernel TEXT NOT NULL, key TEXT NOT NULL, gpu TEXT NOT NULL, driver TEXT NOT NULL,
  winner TEXT, UNIQUE (kernel, key, gpu, driver));
CREATE TABLE IF NOT EXISTS result (
  problem INTEGER NOT NULL REFERENCES problem (id), config TEXT NOT NULL, status TEXT NOT NULL, reason TEXT NOT NULL,
  median_us REAL, times_us TEXT NOT NULL, predicted_us REAL NOT NULL, registers INTEGER NOT NULL,
  spill_bytes INTEGER NOT NULL, shared_bytes INTEGER NOT NULL, measured_at INTEGER NOT NULL,
  PRIMARY KEY (problem, config));
)";

/// What SQLite says went wrong; never leaves this file.
struct SqlError {
  int code;
  std::string message;
};

/// A prepared statement that runs once. Parameters are bound in order.
class Statement {
 public:
  Statement(sqlite3* db, const char* sql) : db_(db) { check(sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr)); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;

  Statement& bind(std::string_view text) {
    check(sqlite3_bind_text(statement_, ++bound_, text.data(), int(text.size()), SQLITE_TRANSIENT));
    return *this;
  }
  Statement& bind(int64_t n) { return check(sqlite3_bind_int64(statement_, ++bound_, n)), *this; }
  Statement& bind(double x) { return check(sqlite3_bind_double(statement_, ++bound_, x)), *this; }
  Statement& bind(const TuningProblem& p) { return bind(p.kernel).bind(p.key).bind(p.gpu).bind(p.driver); }

  /// Whether there is a (next) row.
  bool step() {
    int code = sqlite3_step(statement_);
    if (code != SQLITE_ROW && code != SQLITE_DONE) check(code);
    return code == SQLITE_ROW;
  }
  std::string text(int column) const {
    const void* data = sqlite3_column_text(statement_, column);
    return data ? std::string(static_cast<const char*>(data), size_t(sqlite3_column_bytes(statement_, column))) : "";
  }
  bool is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
  int64_t integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double real(int column) const { return sqlite3_column_double(statement_, column); }

 private:
  void check(int code) const {
    if (code != SQLITE_OK) throw SqlError{code, sqlite3_errmsg(db_)};
  }
  sqlite3* db_;
  sqlite3_stmt* statement_ = nullptr;
  int bound_ = 0;
};

void execute(sqlite3* db, const char* sql) {
  if (int code = sqlite3_exec(db, sql, nullptr, nullptr, nullptr); code != SQLITE_OK)
    throw SqlError{code, sqlite3_errmsg(db)};
}

/// All that runs while it lives happens at once or not at all.
class Transaction {
 public:
  explicit Transaction(sqlite3* db) : db_(db) { execute(db, "BEGIN IMMEDIATE"); }
  ~Transaction() {
    if (db_) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  }
  void commit() {
    execute(db_, "COMMIT");
    db_ = nullptr;
  }

 private:
  sqlite3* db_;
};

std::string times_text(const std::vector<double>& times) {
  std::string out;
  for (double t : times)
    if (std::isfinite(t)) out += fmt::format("{}{}", out.empty() ? "" : " ", t);
  return out;
}

std::vector<double> parse_times(const std::string& text) {
  std::vector<double> out;
  const char *p = text.data(), *end = p + text.size();
  for (double t; p < end; ++p) {
    auto [next, error] = std::from_chars(p, end, t);
    if (error != std::errc()) break;
    out.push_back(t);
    p = next;
  }
  return out;
}

std::optional<Status> parse_status(std::string_view text) {
  auto it = std::find(kStatus.begin(), kStatus.end(), text);
  if (it == kStatus.end()) return std::nullopt;
  return Status(it - kStatus.begin());
}

int64_t now() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
}

constexpr const char* kResultColumns =
    "config, status, reason, times_us, predicted_us, registers, spill_bytes, shared_bytes, measured_at";

TuningResult read_result(const Statement& s, int at) {
  TuningResult r;
  r.config = s.text(at);
  r.status = parse_status(s.text(at + 1)).value_or(Status::Failed);
  r.reason = s.text(at + 2);
  r.times_us = parse_times(s.text(at + 3));
  r.predicted_us = s.real(at + 4);
  r.registers = int(s.integer(at + 5));
  r.spill_bytes = int(s.integer(at + 6));
  r.shared_bytes = s.integer(at + 7);
  r.measured_at = s.integer(at + 8);
  return r;
}

int64_t problem_id(sqlite3* db, const TuningProblem& problem) {
  Statement(db, "INSERT OR IGNORE INTO problem (kernel, key, gpu, driver) VALUES (?, ?, ?, ?)").bind(problem).step();
  Statement s(db, "SELECT id FROM problem WHERE kernel = ? AND key = ? AND gpu = ? AND driver = ?");
  s.bind(problem).step();
  return s.integer(0);
}

enum class Conflict {
  Replace,    ///< of two rows for a config the new one stays
  KeepLater,  ///< the later measured one stays
};

void put_result(sqlite3* db, int64_t problem, const TuningResult& r, Conflict conflict) {
  double median = r.median_us();
  static const std::string sql =
      "INSERT INTO result (problem, config, status, reason, median_us, times_us, predicted_us, registers, "
      "spill_bytes, shared_bytes, measured_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
      "ON CONFLICT (problem, config) DO UPDATE SET status = excluded.status, reason = excluded.reason, "
      "median_us = excluded.median_us, times_us = excluded.times_us, predicted_us = excluded.predicted_us, "
      "registers = excluded.registers, spill_bytes = excluded.spill_bytes, "
      "shared_bytes = excluded.shared_bytes, measured_at = excluded.measured_at "
      "WHERE ? OR excluded.measured_at >= result.measured_at";
  Statement s(db, sql.c_str());
  s.bind(problem).bind(r.config).bind(to_string(r.status)).bind(r.reason);
  s.bind(std::isfinite(median) ? median : -1.0).bind(times_text(r.times_us));
  s.bind(std::isfinite(r.predicted_us) ? r.predicted_us : 0.0);
  s.bind(int64_t(r.registers)).bind(int64_t(r.spill_bytes)).bind(r.shared_bytes);
  s.bind(r.measured_at ? r.measured_at : now()).bind(int64_t(conflict == Conflict::Replace)).step();
}

}  // namespace

bool TuningProblem::operator==(const TuningProblem&) const = default;

double TuningResult::median_us() const {
  return times_us.empty() ? std::numeric_limits<double>::infinity() : median(times_us);
}

std::string_view to_string(TuningResult::Status status) { return kStatus[size_t(status)]; }

// ------------------------------------------------------------------------------------------------------------ Impl

struct TuningStore::Impl {
  fs::path file;
  std::function<void(const std::string&)> warn;
  std::optional<bool> on_network;

  std::mutex mutex;  ///< guards what follows
  sqlite3* db = nullptr;
  bool in_memory = false;
  pid_t owner = 0;    ///< the process that opened the file
  ino_t file_id = 0;  ///< of the file that was opened; 0: it was made

  ~Impl() {
    leave_to_parent();
    sqlite3_close(db);
  }

  /// SQLite allows no connection to a file in a forked child, not even its closing: the child opens its own.
  void leave_to_parent() {
    if (db && !in_memory && owner != getpid()) db = nullptr;
  }

  static ino_t id_of(const fs::path& path) {
    struct stat status;
    return stat(path.c_str(), &status) == 0 ? status.st_ino : 0;
  }

  /// Opens the file, making it if `create`; null if there is none. What cannot be used is reported once, and from then
  /// on results are kept in memory.
  sqlite3* open(bool create) {
    leave_to_parent();
    if (db) return db;
    std::error_code error;
    if (!create && !fs::exists(file, error)) return nullptr;
    try {
      if (file.empty()) throw SqlError{SQLITE_CANTOPEN, "no folder for it is known: set TEGULA_CACHE_DIR or HOME"};
      if (create) make_file();
      connect(file.string());
    } catch (const SqlError& e) {
      disconnect();
      if (e.code == SQLITE_NOTADB || e.code == SQLITE_CORRUPT) {
        if (move_aside(e.message)) return open(create);
      } else {
        give_up(e.message);
      }
      fall_back();
    }
    return db;
  }

  /// Unless it is there. SQLite would make it so that a group that shares the folder may not write, and makes its other
  /// files as this one is. It gets its name when it is closed: closing a file ends all locks on it of the process.
  void make_file() {
    make_folders(file.parent_path());
    std::error_code error;
    if (fs::exists(file, error)) return;
    const fs::path temporary = fs::path(file) += fmt::format(".{}-{:08x}.tmp", getpid(), std::random_device()());
    const int made = open_or_make(temporary, O_RDWR | O_EXCL);
    if (made < 0) return;  // SQLite says why
    close(made);
    fs::create_hard_link(temporary, file, error);
    fs::remove(temporary, error);
  }

  void connect(const std::string& path) {
    owner = getpid();
    file_id = id_of(path);
    int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
    if (code != SQLITE_OK) throw SqlError{code, db ? sqlite3_errmsg(db) : sqlite3_errstr(code)};
    sqlite3_busy_timeout(db, kBusyMs);
    // A write-ahead log has its index in memory that hosts do not share.
    const bool shared = on_network ? *on_network : !in_memory && lies_on_network(file.parent_path());
    execute(db, shared ? "PRAGMA journal_mode = DELETE" : "PRAGMA journal_mode = WAL");
    execute(db, "PRAGMA synchronous = NORMAL");
    Transaction transaction(db);
    int64_t schema = 0;
    {
      Statement s(db, "PRAGMA user_version");
      s.step();
      schema = s.integer(0);
    }
    if (schema > kSchema)
      throw SqlError{SQLITE_ERROR,
                     fmt::format("it was written by a newer Tegula (version {}, this one knows {})", schema, kSchema)};
    if (schema < kSchema) {
      execute(db, kTables);
      execute(db, fmt::format("PRAGMA user_version = {}", kSchema).c_str());
    }
    transaction.commit();
  }

  void disconnect() {
    sqlite3_close(db);
    db = nullptr;
  }

  void give_up(const std::string& why) {
    warn(fmt::format("the tuning results in '{}' cannot be used: {}; this process keeps its own in memory",
                     file.string(), why));
  }

  /// The damaged file gets another name, with what belongs to it. Another process may have done so before.
  bool move_aside(const std::string& why) {
    if (file_id && id_of(file) != file_id) return true;
    fs::path aside = file;
    aside += fmt::format(".damaged-{}-{}", now(), getpid());
    std::error_code error;
    fs::rename(file, aside, error);
    if (error) return give_up(why), false;
    for (const char* suffix : {"-wal", "-shm"}) fs::rename(fs::path(file) += suffix, fs::path(aside) += suffix, error);
    warn(fmt::format("the tuning results in '{}' are damaged ({}): moved to '{}'", file.string(), why, aside.string()));
    return true;
  }

  void fall_back() {
    in_memory = true;
    connect(":memory:");
  }

  /// Runs `work` on the open file. A file that fails while in use gives way to memory, and `work` runs again there.
  template <class Work>
  auto with(bool create, Work work) {
    std::lock_guard lock(mutex);
    using Result = decltype(work(db));
    if (!open(create)) return Result();
    try {
      return work(db);
    } catch (const SqlError& e) {
      TEGULA_CHECK(!in_memory, "tuning results in memory: {}", e.message);
      disconnect();
      bool moved = (e.code == SQLITE_NOTADB || e.code == SQLITE_CORRUPT) && move_aside(e.message);
      if (!moved) {
        give_up(e.message);
        fall_back();
      }
      if (!open(create)) return Result();
      try {
        return work(db);
      } catch (const SqlError& again) {
        throw FileError(fmt::format("'{}': {}", file.string(), again.message));
      }
    }
  }
};

TuningStore::TuningStore(Options options) : impl_(std::make_unique<Impl>()) {
  impl_->file = std::move(options.file);
  impl_->on_network = options.on_network;
  if (impl_->file.empty())
    if (fs::path folder = ImageCache::of_process()->folder(); !folder.empty()) impl_->file = folder / "tuning.sqlite";
  impl_->warn =
      options.warn ? std::move(options.warn) : [](const std::string& text) { tell(MessageKind::Warning, text); };
}

TuningStore::~TuningStore() = default;

const fs::path& TuningStore::file() const { return impl_->file; }

std::vector<TuningResult> TuningStore::results(const TuningProblem& problem) {
  return impl_->with(false, [&](sqlite3* db) {
    static const std::string sql = fmt::format(
        "SELECT {} FROM result WHERE problem = (SELECT id FROM problem WHERE kernel = ? AND key = ? AND gpu = ? AND "
        "driver = ?) ORDER BY rowid",
        kResultColumns);
    Statement s(db, sql.c_str());
    s.bind(problem);
    std::vector<TuningResult> out;
    while (s.step()) out.push_back(read_result(s, 0));
    return out;
  });
}

void TuningStore::put(const TuningProblem& problem, const TuningResult& result) {
  impl_->with(true, [&](sqlite3* db) {
    Transaction transaction(db);
    put_result(db, problem_id(db, problem), result, Conflict::Replace);
    transaction.commit();
    return true;
  });
}

std::optional<std::string> TuningStore::winner(const TuningProblem& problem) {
  return impl_->with(false, [&](sqlite3* db) -> std::optional<std::string> {
    Statement s(db, "SELECT winner FROM problem WHERE kernel = ? AND key = ? AND gpu = ? AND driver = ?");
    if (!s.bind(problem).step() || s.is_null(0)) return std::nullopt;
    return s.text(0);
  });
}

void TuningStore::set_winner(const TuningProblem& problem, std::string_view config) {
  impl_->with(true, [&](sqlite3* db) {
    Transaction transaction(db);
    Statement(db, "UPDATE problem SET winner = ? WHERE id = ?").bind(config).bind(problem_id(db, problem)).step();
    transaction.commit();
    return true;
  });
}

std::vector<std::pair<TuningProblem, int64_t>> TuningStore::problems() {
  return impl_->with(false, [&](sqlite3* db) {
    Statement s(db,
                "SELECT kernel, key, gpu, driver, (SELECT count(*) FROM result WHERE problem = id) FROM problem "
                "ORDER BY kernel, key, gpu, driver");
    std::vector<std::pair<TuningProblem, int64_t>> out;
    while (s.step()) out.push_back({{s.text(0), s.text(1), s.text(2), s.text(3)}, s.integer(4)});
    return out;
  });
}

void TuningStore::clear() {
  impl_->with(false, [&](sqlite3* db) {
    Transaction transaction(db);
    execute(db, "DELETE FROM result; DELETE FROM problem");
    transaction.commit();
    return true;
  });
}

// ---- Claims

// A lock on a file of the problem's own beside the database: the system releases it when its holder ends, however it
// ends. The files are empty and stay.
int TuningStore::open_lock(const TuningProblem& problem, const char* suffix) const {
  fs::path folder = impl_->file.parent_path() / "tuning-locks";
  make_folders(folder);
  fs::path path = folder / (content_key({problem.kernel, problem.key, problem.gpu, problem.driver}) + suffix);
  return open_or_make(path, O_RDWR);
}

TuningStore::Claim TuningStore::claim(const TuningProblem& problem) {
  if (impl_->file.empty()) return Claim();
  Claim claim(open_lock(problem, ""));
  while (claim.lock_ >= 0 && flock(claim.lock_, LOCK_EX) != 0 && errno == EINTR) {
  }
  return claim;
}

// A byte of a second file stands for each candidate.
std::optional<TuningStore::Claim> TuningStore::try_claim(const TuningProblem& problem, std::string_view config) {
  if (impl_->file.empty()) return Claim();
  Claim claim(open_lock(problem, ".candidates"));
  struct flock range {};
  range.l_type = F_WRLCK;
  range.l_whence = SEEK_SET;
  range.l_start = off_t(std::hash<std::string_view>()(config) >> 2);
  range.l_len = 1;
  if (claim.lock_ >= 0 && fcntl(claim.lock_, F_OFD_SETLK, &range) != 0 && (errno == EAGAIN || errno == EACCES))
    return std::nullopt;
  return claim;
}

TuningStore::Claim::Claim(Claim&& other) noexcept : lock_(std::exchange(other.lock_, -1)) {}
TuningStore::Claim& TuningStore::Claim::operator=(Claim&& other) noexcept {
  std::swap(lock_, other.lock_);
  return *this;
}
TuningStore::Claim::~Claim() {
  if (lock_ >= 0) close(lock_);
}

// ---- Text

// One JSON object a line, lines sorted: {"kernel": ..., "config": ..., "times_us": [...], ...}; a problem's winner has
// "winner": true.
int64_t TuningStore::export_text(std::ostream& out) {
  std::vector<std::string> lines = impl_->with(false, [&](sqlite3* db) {
    static const std::string sql = fmt::format(
        "SELECT kernel, key, gpu, driver, winner, {} FROM result JOIN problem ON problem.id = result.problem",
        kResultColumns);
    Statement s(db, sql.c_str());
    std::vector<std::string> lines;
    while (s.step()) {
      TuningResult r = read_result(s, 5);
      nlohmann::ordered_json row = {{"kernel", s.text(0)}, {"key", s.text(1)},   {"gpu", s.text(2)},
                                    {"driver", s.text(3)}, {"config", r.config}, {"status", to_string(r.status)}};
      if (!s.is_null(4) && s.text(4) == r.config) row["winner"] = true;
      if (!r.reason.empty()) row["reason"] = r.reason;
      row["times_us"] = r.times_us;
      row["predicted_us"] = r.predicted_us;
      row["registers"] = r.registers;
      row["spill_bytes"] = r.spill_bytes;
      row["shared_bytes"] = r.shared_bytes;
      row["measured_at"] = r.measured_at;
      lines.push_back(row.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
    }
    return lines;
  });
  std::sort(lines.begin(), lines.end());
  for (const std::string& line : lines) out << line << '\n';
  return int64_t(lines.size());
}

int64_t TuningStore::import_text(std::istream& in, std::string_view name) {
  struct Row {
    TuningProblem problem;
    TuningResult result;
    bool winner;
  };
  std::vector<Row> rows;
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      auto json = nlohmann::json::parse(line);
      Row row;
      row.problem = {json.at("kernel"), json.at("key"), json.at("gpu"), json.at("driver")};
      TuningResult& r = row.result;
      r.config = json.at("config");
      std::string status = json.at("status");
      auto known = parse_status(status);
      if (!known)
        throw std::runtime_error(fmt::format("unknown status '{}', expected {}", status, fmt::join(kStatus, ", ")));
      r.status = *known;
      r.reason = json.value("reason", "");
      r.times_us = json.at("times_us").get<std::vector<double>>();
      r.predicted_us = json.value("predicted_us", 0.0);
      r.registers = json.value("registers", -1);
      r.spill_bytes = json.value("spill_bytes", -1);
      r.shared_bytes = json.value("shared_bytes", int64_t(-1));
      r.measured_at = json.at("measured_at");
      row.winner = json.value("winner", false);
      rows.push_back(std::move(row));
    } catch (const std::exception& e) {
      throw FileError(fmt::format("{}:{}: no tuning result: {}\n  hint: nothing was taken in", name, number, e.what()));
    }
  }
  impl_->with(true, [&](sqlite3* db) {
    Transaction transaction(db);
    for (const Row& row : rows) {
      int64_t problem = problem_id(db, row.problem);
      put_result(db, problem, row.result, Conflict::KeepLater);
      // A winner that is known here stays: what it was chosen among is here as well.
      if (row.winner)
        Statement(db, "UPDATE problem SET winner = ? WHERE id = ? AND winner IS NULL")
            .bind(row.result.config)
            .bind(problem)
            .step();
    }
    transaction.commit();
    return true;
  });
  return int64_t(rows.size());
}

}  // namespace tegula
