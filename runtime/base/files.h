// Whole files as bytes.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

namespace tegula {

/// All of a file. Throws FileError that says why it cannot be read.
std::string read_file(const std::filesystem::path& file);

/// Writes the file anew under another name and renames it: a reader sees all of the old file or all of the new one, and
/// a writer that is killed or finds no room leaves the old one. Throws FileError.
void replace_file(const std::filesystem::path& file, std::string_view bytes);

/// Makes the folder and those above it that are not there. Whatever the process's umask, everybody may not write to
/// what is made. The error of the system, or none.
std::error_code make_folders(const std::filesystem::path& folder);

/// Whether other hosts, or programs that stand for such, may see what lies there: NFS, SMB, Lustre, FUSE, ...
bool lies_on_network(const std::filesystem::path& folder);

}  // namespace tegula
