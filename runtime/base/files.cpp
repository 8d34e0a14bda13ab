#include "runtime/base/files.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include "runtime/base/error.h"
#include "runtime/sealing.h"

namespace tegula {

namespace fs = std::filesystem;

namespace {

void refuse_if_sealed(const char* what, const fs::path& file) {
  if (sealed())
    throw FileError(
        fmt::format("cannot {} '{}': the process is sealed\n  hint: do so before seal()", what, file.string()));
}

std::string last_error() { return std::generic_category().message(errno ? errno : EIO); }

}  // namespace

std::string read_file(const fs::path& file) {
  refuse_if_sealed("read", file);
  std::error_code error;
  if (fs::is_directory(file, error)) throw FileError(fmt::format("cannot read '{}': it is a folder", file.string()));
  errno = 0;
  std::ifstream in(file, std::ios::binary);
  std::string bytes;
  if (in) bytes.assign(std::istreambuf_iterator<char>(in), {});
  if (!in) throw FileError(fmt::format("cannot read '{}': {}", file.string(), last_error()));
  return bytes;
}

void replace_file(const fs::path& file, std::string_view bytes) {
  refuse_if_sealed("write", file);
  const fs::path temporary = fs::path(file) += fmt::format(".{}.tmp", getpid());
  errno = 0;
  std::ofstream out(temporary, std::ios::binary);
  out.write(bytes.data(), std::streamsize(bytes.size()));
  out.close();
  std::error_code error;
  std::string why;
  if (!out)
    why = last_error();
  else if (fs::rename(temporary, file, error); error)
    why = error.message();
  if (why.empty()) return;
  fs::remove(temporary, error);
  throw FileError(fmt::format("cannot write '{}': {}", file.string(), why));
}

std::error_code make_folders(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  if (folder.has_parent_path() && folder.parent_path() != folder)
    if (std::error_code above = make_folders(folder.parent_path())) return above;
  if (mkdir(folder.c_str(), 0775) == 0) return {};
  const int why = errno;
  if (why == EEXIST && fs::is_directory(folder, error)) return {};  // by another process, or named with a / behind it
  return {why == EEXIST ? ENOTDIR : why, std::generic_category()};
}

}  // namespace tegula
