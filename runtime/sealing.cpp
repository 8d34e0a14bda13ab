#include "runtime/sealing.h"

#include <atomic>
#include <cstdlib>
#include <string_view>

namespace tegula {

namespace {

std::atomic<bool> is_sealed{false};

bool sealed_by_environment() {
  static const bool is_set = [] {
    const char* value = std::getenv("TEGULA_SEALED");
    return value && *value && std::string_view(value) != "0";
  }();
  return is_set;
}

}  // namespace

void seal() { is_sealed = true; }
bool sealed() { return is_sealed; }
bool may_compile() { return !is_sealed && !sealed_by_environment(); }

}  // namespace tegula
