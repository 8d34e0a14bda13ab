// Whole files as bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

struct stat;

namespace tegula {

/// All of a file. Throws FileError that says why it cannot be read.
std::string read_file(const std::filesystem::path& file);

/// Writes the file anew under another name and renames it: a reader sees all of the old file or all of the new one, and
/// a writer that is killed or finds no room leaves the old one. Throws FileError.
void replace_file(const std::filesystem::path& file, std::string_view bytes);

/// Who besides the owner and the groups that the process is in may write to what has this state: "everybody" or
/// "another group". Null: nobody.
const char* other_writers(const struct ::stat& info);

/// Makes the folder and those above it that are not there. Whatever the process's umask, and whatever group the folder
/// above hands on, `other_writers` has nobody who may write to what is made. The error of the system, or none.
std::error_code make_folders(const std::filesystem::path& folder);

/// open(), with O_CREAT and O_CLOEXEC. If that makes the file, no `other_writers` may write to it, as with
/// make_folders.
int open_or_make(const std::filesystem::path& file, int flags);

/// Whether other hosts, or programs that stand for such, may see what lies there: NFS, SMB, Lustre, FUSE, ...
bool lies_on_network(const std::filesystem::path& folder);

}  // namespace tegula
