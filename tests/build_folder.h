// Where the build folder is that a test stands in.
#pragma once

#include <filesystem>

namespace tegula {

/// Tests do not know it when they are compiled: the build with sanitizers links the objects of another one.
inline std::filesystem::path build_folder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().parent_path();
}

}  // namespace tegula
