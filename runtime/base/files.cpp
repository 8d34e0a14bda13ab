#include "runtime/base/files.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <random>
#include <sstream>
#include <system_error>
#include <vector>

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

// Whatever the umask. The group may write if it is one of the process's own, as that of a team's folder is.
constexpr mode_t kFileMode = 0664, kFolderMode = 0775, kOthersWrite = S_IWGRP | S_IWOTH;

// Whether the process is in the group; what is root's group's is as good as root's own.
bool is_own_group(gid_t group) {
  if (group == 0 || group == getegid()) return true;
  std::vector<gid_t> groups(size_t(std::max(0, getgroups(0, nullptr))));
  const int count = getgroups(int(groups.size()), groups.data());
  return count > 0 && std::ranges::find(groups.begin(), groups.begin() + count, group) != groups.begin() + count;
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
  if (in) bytes = std::move(std::ostringstream() << in.rdbuf()).str();
  if (!in) {
    const bool missing = errno == ENOENT;
    std::string message = fmt::format("cannot read '{}': {}", file.string(), last_error());
    if (missing && !file.empty() && file.is_relative())
      message +=
          fmt::format("\n  hint: it is looked for in the working directory, {}", fs::current_path(error).string());
    throw FileError(message);
  }
  return bytes;
}

void replace_file(const fs::path& file, std::string_view bytes) {
  refuse_if_sealed("write", file);
  // Processes of other hosts, and of other containers, may have this one's number.
  const fs::path temporary = fs::path(file) += fmt::format(".{}-{:08x}.tmp", getpid(), std::random_device()());
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

const char* other_writers(const struct ::stat& info) {
  if (info.st_mode & S_IWOTH) return "everybody";
  if ((info.st_mode & S_IWGRP) && !is_own_group(info.st_gid)) return "another group";
  return nullptr;
}

std::error_code make_folders(const fs::path& folder) {
  std::error_code error;
  if (folder.empty() || fs::is_directory(folder, error)) return {};
  if (folder.has_parent_path() && folder.parent_path() != folder)
    if (std::error_code above = make_folders(folder.parent_path())) return above;
  if (mkdir(folder.c_str(), kFolderMode) == 0) {
    struct ::stat info;
    if (::stat(folder.c_str(), &info) == 0 && other_writers(info)) chmod(folder.c_str(), info.st_mode & ~kOthersWrite);
    return {};
  }
  const int why = errno;
  if (why == EEXIST && fs::is_directory(folder, error)) return {};  // by another process, or named with a / after it
  return {why == EEXIST ? ENOTDIR : why, std::generic_category()};
}

int open_or_make(const fs::path& file, int flags) {
  // Whether this call makes the file, only O_EXCL tells; others may make and remove it in between.
  for (int tries = 3;;) {
    const int made = open(file.c_str(), flags | O_CREAT | O_EXCL | O_CLOEXEC, kFileMode);
    if (made >= 0) {
      struct ::stat info;
      if (fstat(made, &info) == 0 && other_writers(info)) fchmod(made, info.st_mode & ~kOthersWrite);
      return made;
    }
    if (errno != EEXIST || (flags & O_EXCL)) return -1;
    const int there = open(file.c_str(), (flags & ~O_CREAT) | O_CLOEXEC);
    if (there >= 0 || errno != ENOENT || --tries == 0) return there;
  }
}

bool lies_on_network(const fs::path& folder) {
  struct statfs info;
  if (statfs(folder.c_str(), &info) != 0) return false;
  switch (uint32_t(info.f_type)) {
    case 0x6969:      // NFS
    case 0x517b:      // SMB
    case 0xff534d42:  // CIFS
    case 0xfe534d42:  // SMB 2
    case 0x0bd00bd0:  // Lustre
    case 0x47504653:  // GPFS
    case 0x00c36400:  // Ceph
    case 0x19830326:  // BeeGFS
    case 0xaad7aaea:  // PanFS
    case 0x5346414f:  // AFS
    case 0x6b414653:  // AFS of the kernel
    case 0x73757245:  // Coda
    case 0x7461636f:  // OCFS2
    case 0x01161970:  // GFS2
    case 0x01021997:  // 9P, of virtual machines
    case 0x65735546:  // FUSE
      return true;
  }
  return false;
}

}  // namespace tegula
