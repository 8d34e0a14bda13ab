// Statuses and texts of errors, and element types by their numbers.
#include <utility>
#include <vector>

#include "bindings/runtime/common.h"
#include "runtime/base/diag.h"
#include "runtime/base/internal_error.h"

using namespace tegula;
using namespace tegula::bindings;

namespace {

thread_local std::string last_error;
thread_local std::vector<Diag> last_diagnostics;  ///< errors alone

tegula_status failed(tegula_status status, const char* text) noexcept {
  try {
    last_diagnostics.clear();
    last_error = text;
  } catch (...) {
    last_error.clear();
  }
  return status;
}

}  // namespace

namespace tegula::bindings {

tegula_status status_of_exception() noexcept {
  try {
    throw;
  } catch (const CompileError& e) {
    failed(TEGULA_COMPILE_ERROR, e.what());
    for (const Diag& d : e.diags())
      if (d.severity == Severity::Error) last_diagnostics.push_back(d);
    return TEGULA_COMPILE_ERROR;
  } catch (const LaunchError& e) {
    return failed(TEGULA_LAUNCH_ERROR, e.what());
  } catch (const DeviceLostError& e) {
    return failed(TEGULA_DEVICE_LOST_ERROR, e.what());
  } catch (const DeviceError& e) {
    return failed(TEGULA_DEVICE_ERROR, e.what());
  } catch (const FileError& e) {
    return failed(TEGULA_FILE_ERROR, e.what());
  } catch (const UsageError& e) {
    return failed(TEGULA_USAGE_ERROR, e.what());
  } catch (const InternalError& e) {
    return failed(TEGULA_INTERNAL_ERROR, e.what());
  } catch (const CallbackFailed& e) {
    return e.status;
  } catch (const std::exception& e) {
    return failed(TEGULA_OTHER_ERROR, e.what());
  } catch (...) {
    return failed(TEGULA_OTHER_ERROR, "an unknown exception");
  }
}

Elem elem_of(tegula_dtype dtype) {
  switch (dtype) {
    case TEGULA_INT1:
      return Elem::I1;
    case TEGULA_INT8:
      return Elem::I8;
    case TEGULA_INT16:
      return Elem::I16;
    case TEGULA_INT32:
      return Elem::I32;
    case TEGULA_INT64:
      return Elem::I64;
    case TEGULA_UINT8:
      return Elem::U8;
    case TEGULA_UINT16:
      return Elem::U16;
    case TEGULA_UINT32:
      return Elem::U32;
    case TEGULA_UINT64:
      return Elem::U64;
    case TEGULA_FLOAT16:
      return Elem::F16;
    case TEGULA_BFLOAT16:
      return Elem::BF16;
    case TEGULA_FLOAT32:
      return Elem::F32;
    case TEGULA_FLOAT64:
      return Elem::F64;
    case TEGULA_FLOAT8E4NV:
      return Elem::F8E4M3;
    case TEGULA_FLOAT8E5:
      return Elem::F8E5M2;
    case TEGULA_FLOAT8E4B15:
      return Elem::F8E4B15;
    case TEGULA_FLOAT8E4B8:
      return Elem::F8E4B8;
    case TEGULA_FLOAT8E5B16:
      return Elem::F8E5B16;
  }
  throw UsageError(fmt::format("{} is no tegula_dtype", dtype));
}

tegula_dtype dtype_of(Elem elem) {
  for (tegula_dtype dtype = TEGULA_INT1; dtype <= TEGULA_FLOAT8E5B16; ++dtype)
    if (elem_of(dtype) == elem) return dtype;
  throw UsageError(fmt::format("the element type {} has no tegula_dtype", elem_info(elem).tl));
}

}  // namespace tegula::bindings

extern "C" {

const char* tegula_last_error(void) { return last_error.c_str(); }
void tegula_set_error(const char* text) { failed(TEGULA_OTHER_ERROR, text ? text : ""); }

size_t tegula_num_diagnostics(void) { return last_diagnostics.size(); }

tegula_status tegula_get_diagnostic(size_t index, tegula_diagnostic* diagnostic) {
  if (!diagnostic || index >= last_diagnostics.size()) return TEGULA_USAGE_ERROR;  // keeps what there is
  const Diag& d = last_diagnostics[index];
  return guarded([&] {
    fill(diagnostic,
         {0, d.loc.file ? d.loc.file->c_str() : nullptr, d.loc.line, d.loc.column, d.message.c_str(), d.hint.c_str()});
  });
}

}  // extern "C"
