#include "codegen/exec/ptxas.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <regex>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

extern char** environ;

namespace tegula {

namespace {

namespace fs = std::filesystem;

constexpr const char* kUsualFolder = "/usr/local/cuda/bin";

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value ? value : "";
}

bool is_program(const fs::path& file) {
  std::error_code ignored;
  return fs::is_regular_file(file, ignored) && access(file.c_str(), X_OK) == 0;
}

/// A new folder that is removed with all that is in it.
struct ScratchFolder {
  fs::path path;
  ScratchFolder() {
    std::error_code error;
    const fs::path parent = fs::temp_directory_path(error);
    if (error) throw FileError(fmt::format("there is no folder for temporary files ({})", error.message()));
    std::string name = (parent / "tegula-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw FileError(fmt::format("cannot make a folder in '{}' ({})", parent.string(), std::strerror(errno)));
    path = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// Runs a program with its output in a file; its exit status, or -1 if it could not be started.
int run(const std::vector<std::string>& command, const fs::path& output) {
  std::vector<char*> argv;
  for (const std::string& a : command) argv.push_back(const_cast<char*>(a.c_str()));
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, 1, output.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  posix_spawn_file_actions_adddup2(&actions, 1, 2);
  pid_t child = 0;
  int failed = posix_spawn(&child, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed) return -1;
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::optional<fs::path> find_cuda_program(const std::string& program) {
  std::vector<fs::path> folders;
  const std::string path = variable("PATH");
  for (size_t begin = 0; begin < path.size();) {
    const size_t end = std::min(path.find(':', begin), path.size());
    folders.emplace_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  for (const char* name : {"CUDA_HOME", "CUDA_PATH"})
    if (const fs::path toolkit = variable(name); !toolkit.empty()) folders.push_back(toolkit / "bin");
  folders.emplace_back(kUsualFolder);
  for (const fs::path& folder : folders)
    if (!folder.empty() && is_program(folder / program)) return folder / program;
  return std::nullopt;
}

std::optional<fs::path> find_ptxas() {
  const char* named = std::getenv("TEGULA_PTXAS");
  if (!named) return find_cuda_program("ptxas");
  return is_program(named) ? std::optional<fs::path>(named) : std::nullopt;
}

std::string why_no_ptxas() {
  const char* named = std::getenv("TEGULA_PTXAS");
  if (!named) return fmt::format("ptxas is not in PATH, CUDA_HOME, CUDA_PATH or {}", kUsualFolder);
  if (!*named) return "TEGULA_PTXAS is empty, so ptxas is not used";
  return fmt::format("TEGULA_PTXAS is '{}', which is no program", named);
}

PtxasRun run_ptxas(const fs::path& ptxas, const std::string& ptx, const std::string& target) {
  ScratchFolder scratch;
  const fs::path in = scratch.path / "kernel.ptx", out = scratch.path / "kernel.cubin", log = scratch.path / "log";
  replace_file(in, ptx);
  PtxasRun result;
  result.status = run({ptxas.string(), "-v", "--gpu-name", target, in.string(), "-o", out.string()}, log);
  result.log = read_file(log);
  if (result.status == 0) result.cubin = read_file(out);
  std::smatch match;
  if (std::regex_search(result.log, match, std::regex("Used ([0-9]+) registers")))
    result.registers = std::stoi(match[1]);
  if (std::regex_search(result.log, match, std::regex("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads")))
    result.spill_bytes = std::stoi(match[1]) + std::stoi(match[2]);
  return result;
}

}  // namespace tegula
