#include "runtime/base/internal_error.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "runtime/base/check.h"

namespace tegula {

namespace {

std::string report(const std::string& place, const std::string& problem, const std::string& doing) {
  return fmt::format(
      "internal error at {}: {}\n{}"
      "  hint: this is a mistake of Tegula, not of the program; please report it with this message, the text and "
      "launch "
      "of the kernel, and what is printed with TEGULA_DUMP=all in the environment",
      place, problem, doing.empty() ? "" : fmt::format("  note: while {}\n", doing));
}

}  // namespace

InternalError::InternalError(std::string place, std::string problem, std::string doing)
    : Error(report(place, problem, doing)),
      place_(std::move(place)),
      problem_(std::move(problem)),
      doing_(std::move(doing)) {}

// The compiler names files as seen from the build folder, or by whole paths: as it names this one, in a known folder.
void check_failed(const char* file, int line, const char* condition, const std::string& message) {
  std::string_view name = file, sources = __FILE__;
  sources.remove_suffix(std::string_view("runtime/base/internal_error.cpp").size());
  if (name.starts_with(sources)) name.remove_prefix(sources.size());
  throw InternalError(fmt::format("{}:{}", name, line), fmt::format("{}: {}", condition, message));
}

}  // namespace tegula
