// CUDA's assembler for tests, which skip where it is not installed.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "codegen/exec/ptxas.h"
#include "runtime/base/byte_stream.h"
#include "runtime/store/image_cache.h"

namespace tegula {

inline const std::optional<std::filesystem::path>& installed_ptxas() {
  static const auto path = find_ptxas();
  return path;
}

#define SKIP_WITHOUT_PTXAS() \
  if (!installed_ptxas()) GTEST_SKIP() << why_no_ptxas() << ": nothing to assemble with"

/// Of this ptxas, as far as its file tells.
inline std::string identity_of(const std::filesystem::path& ptxas) {
  const auto changed = std::filesystem::last_write_time(ptxas).time_since_epoch().count();
  return fmt::format("{} {} {}", std::filesystem::canonical(ptxas).string(), std::filesystem::file_size(ptxas),
                     changed);
}

/// What ptxas says of the PTX. It takes longer than all else in the tests, and says the same of the same text: what it
/// accepts is kept in the tests' cache.
inline PtxasRun assemble(const std::string& ptx, const std::string& target) {
  const std::filesystem::path& ptxas = *installed_ptxas();
  ImageCache& cache = *ImageCache::of_process();
  const std::string key = content_key({"assembled by a test", identity_of(ptxas), target, ptx});
  if (const auto kept = cache.find_code(key)) {
    ByteReader r(*kept);
    PtxasRun run{.status = 0, .log = r.bytes<std::string>(), .cubin = r.bytes<std::string>()};
    run.registers = r.number<int>(), run.spill_bytes = r.number<int>();
    if (r.good() && r.at_end()) return run;
  }
  PtxasRun run = run_ptxas(ptxas, ptx, target);
  if (run.status != 0) return run;
  ByteWriter w;
  w.bytes(run.log), w.bytes(run.cubin);
  w.number(run.registers), w.number(run.spill_bytes);
  cache.store_code(key, w.take());
  return run;
}

/// Whether this ptxas is older than the target.
inline bool knows_not_the_target(const PtxasRun& run) {
  return run.status && run.log.find("is not defined for option 'gpu-name'") != std::string::npos;
}

/// How many kernels of the text keep all their values in registers.
inline size_t kernels_in_registers(const PtxasRun& run) {
  constexpr std::string_view none = " 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads";
  size_t count = 0;
  for (size_t at = 0; (at = run.log.find(none, at)) != run.log.npos; at += none.size()) ++count;
  return count;
}

/// Whether the code, of one kernel, does not keep all its values in registers.
inline bool spills(const PtxasRun& run) { return kernels_in_registers(run) == 0; }

}  // namespace tegula
