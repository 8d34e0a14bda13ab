// The typed exceptions of the public C++ surface. Inside the library, user mistakes travel as Diagnostics.
#pragma once

#include <stdexcept>
#include <string>

#include "runtime/base/diag.h"

namespace tegula {

/// Base of everything that Tegula throws.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The kernel's text or its specialisation is wrong; what() is the rendered list of diagnostics.
class CompileError : public Error {
 public:
  explicit CompileError(const Diagnostics& diags);
  const std::vector<Diag>& diags() const { return list_; }

 private:
  std::vector<Diag> list_;
};

/// The arguments of a launch do not fit the kernel: count, type, null or misaligned pointer, broken specialisation.
class LaunchError : public Error {
 public:
  using Error::Error;
};

/// A device or its driver refused: which call, the driver's error name and text, and what the user can do.
class DeviceError : public Error {
 public:
  using Error::Error;
};

/// A kernel that ran earlier faulted and took its context with it: every further call on that GPU fails in this
/// process.
class DeviceLostError : public DeviceError {
 public:
  using DeviceError::DeviceError;
};

/// A file could not be read or written.
class FileError : public Error {
 public:
  using Error::Error;
};

}  // namespace tegula
