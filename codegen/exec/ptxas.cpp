#include "codegen/exec/ptxas.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <regex>
#include <vector>

#include "runtime/base/error.h"
#include "runtime/base/files.h"

extern char** environ;

namespace tegula {

namespace {

namespace fs = std::filesystem;

std::optional<fs::path> find_in_path(const std::string& program) {
  const char* variable = std::getenv("PATH");
  std::string path = variable ? variable : "";
  for (size_t begin = 0; begin <= path.size();) {
    size_t end = std::min(path.find(':', begin), path.size());
    fs::path candidate = fs::path(path.substr(begin, end - begin)) / program;
    if (access(candidate.c_str(), X_OK) == 0) return candidate;
    begin = end + 1;
  }
  return std::nullopt;
}

/// A new folder that is removed with all that is in it.
struct ScratchFolder {
  fs::path path;
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "tegula-XXXXXX").string();
    if (!mkdtemp(name.data()))
      throw FileError(fmt::format("cannot make a folder in '{}'", fs::temp_directory_path().string()));
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
  int status = 0;
  if (failed || waitpid(child, &status, 0) < 0) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace

std::optional<fs::path> find_ptxas() { return find_in_path("ptxas"); }

PtxasRun run_ptxas(const fs::path& ptxas, const std::string& ptx, const std::string& target) {
  ScratchFolder scratch;
  const fs::path in = scratch.path / "kernel.ptx", out = scratch.path / "kernel.cubin", log = scratch.path / "log";
  std::ofstream(in, std::ios::binary) << ptx;
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
