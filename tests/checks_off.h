// Tests that do not go with the checks that TEGULA_EMULATOR_CHECK asks for.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace tegula {

/// As long as it lives, emulators that are made look for nothing beyond what they always do: for faults that the checks
/// would tell of by another name, code by hand that reads shared memory as it finds it, and machine code on disk, where
/// none with checks goes.
class ChecksOff {
 public:
  ChecksOff() {
    if (const char* value = std::getenv(kVariable)) before_ = value;
    setenv(kVariable, "0", 1);
  }
  ~ChecksOff() { before_ ? setenv(kVariable, before_->c_str(), 1) : unsetenv(kVariable); }
  ChecksOff(const ChecksOff&) = delete;
  ChecksOff& operator=(const ChecksOff&) = delete;

 private:
  static constexpr const char* kVariable = "TEGULA_EMULATOR_CHECK";
  std::optional<std::string> before_;
};

}  // namespace tegula
