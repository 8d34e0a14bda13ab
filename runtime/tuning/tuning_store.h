// What tuning has measured, in an SQLite file: one row a candidate, with the distribution of its times.
//
// The store knows nothing of kernels: a problem is four texts, a candidate is one. Rows are written as soon as a
// candidate is measured, each in a transaction of its own, so that a killed process loses the candidate in flight
// alone. Many processes may share a file.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "runtime/tuning/tuning_result.h"

namespace tegula {

class TuningStore {
 public:
  struct Options {
    std::filesystem::path file;                    ///< empty: tuning.sqlite in the folder of the image cache
    std::function<void(const std::string&)> warn;  ///< told of a file that cannot be used; null: the message handler
    std::optional<bool> on_network = {};           ///< other hosts may use the file; none: as the system says
  };
  TuningStore() : TuningStore(Options()) {}
  explicit TuningStore(Options options);
  ~TuningStore();
  TuningStore(const TuningStore&) = delete;

  /// All rows of a problem, in the order of measuring.
  std::vector<TuningResult> results(const TuningProblem& problem);
  /// Adds a row, or replaces that of the same config.
  void put(const TuningProblem& problem, const TuningResult& result);
  /// The config that was chosen for the problem, once its tuning ended.
  std::optional<std::string> winner(const TuningProblem& problem);
  void set_winner(const TuningProblem& problem, std::string_view config);

  /// Held by the one process that tunes a problem; others wait in claim() until it is released or its holder is gone.
  class Claim {
   public:
    Claim(Claim&&) noexcept;
    Claim& operator=(Claim&&) noexcept;
    ~Claim();

   private:
    friend class TuningStore;
    Claim() = default;
    explicit Claim(int lock) : lock_(lock) {}
    int lock_ = -1;
  };
  /// Waits for the right to tune `problem`. What another holder measured meanwhile is in results() afterwards.
  Claim claim(const TuningProblem& problem);
  /// The right to time one candidate, where processes share the work of a problem; none if another holds it. Results
  /// that its last holder stored are in results() afterwards.
  std::optional<Claim> try_claim(const TuningProblem& problem, std::string_view config);

  /// All problems, with their number of rows.
  std::vector<std::pair<TuningProblem, int64_t>> problems();
  /// One line a row, to be read by import_text() on another machine, and to be looked at in a diff. Returns the number
  /// of rows.
  int64_t export_text(std::ostream& out);
  /// Takes in rows; of two for the same problem and config the later measured one stays. Throws FileError that names
  /// the line of what is not understood, and then takes nothing in.
  int64_t import_text(std::istream& in, std::string_view name);
  void clear();

  const std::filesystem::path& file() const;

 private:
  struct Impl;
  int open_lock(const TuningProblem& problem, const char* suffix) const;
  std::unique_ptr<Impl> impl_;
};

}  // namespace tegula
