// TEGULA_CHECK(condition, "format", args...): our own bug, an InternalError; not where generated code calls, nor in
// destructors. A user's mistake never ends here; it is a Diag or a typed Error.
#pragma once

#include <fmt/format.h>

namespace tegula {
[[noreturn]] void check_failed(const char* file, int line, const char* condition, const std::string& message);
}

#define TEGULA_CHECK(condition, ...)                                                                      \
  do {                                                                                                    \
    if (!(condition)) ::tegula::check_failed(__FILE__, __LINE__, #condition, ::fmt::format(__VA_ARGS__)); \
  } while (0)

#define TEGULA_UNREACHABLE(...) ::tegula::check_failed(__FILE__, __LINE__, "unreachable", ::fmt::format(__VA_ARGS__))
