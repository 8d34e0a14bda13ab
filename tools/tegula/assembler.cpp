#include "tools/tegula/assembler.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <regex>

#include "codegen/target/target.h"
#include "runtime/cuda_device.h"

extern char** environ;

namespace tegula::cli {

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

std::string read_file(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
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

Assembled assemble_with_ptxas(const fs::path& ptxas, const KernelImage& image) {
  ScratchFolder scratch;
  fs::path in = scratch.path / "kernel.ptx", out = scratch.path / "kernel.cubin", log_file = scratch.path / "log";
  std::ofstream(in, std::ios::binary) << image.ptx;
  int status = run({ptxas.string(), "-v", "--gpu-name", image.target, in.string(), "-o", out.string()}, log_file);
  std::string log = read_file(log_file);
  if (status != 0)
    throw Error(
        fmt::format("'{}' refused the PTX of '{}' (exit status {}):\n{}", ptxas.string(), image.kernel, status, log));
  Assembled result;
  std::string cubin = read_file(out);
  result.cubin.assign(cubin.begin(), cubin.end());
  std::smatch match;
  if (std::regex_search(log, match, std::regex("Used ([0-9]+) registers"))) result.registers = std::stoi(match[1]);
  if (std::regex_search(log, match, std::regex("([0-9]+) bytes spill stores, ([0-9]+) bytes spill loads")))
    result.spill_bytes = std::stoi(match[1]) + std::stoi(match[2]);
  result.by = "ptxas";
  return result;
}

}  // namespace

std::optional<Assembled> assemble(const KernelImage& image, std::string& why) {
  std::string ptxas_missing = "ptxas is not in PATH";
  if (auto ptxas = find_in_path("ptxas")) {
    try {
      return assemble_with_ptxas(*ptxas, image);
    } catch (const FileError& e) {
      ptxas_missing = e.what();
    }
  }
  try {
    std::unique_ptr<Device> device = open_cuda_device();
    if (target_for_sm(device->info().sm).name != image.target) {
      why = fmt::format("{}, and the GPU here ({}) is no {}", ptxas_missing, device->info().name, image.target);
      return std::nullopt;
    }
    std::unique_ptr<LoadedKernel> loaded = device->load(image);
    const KernelImage& made = loaded->image();
    return Assembled{made.cubin, made.registers, made.spill_bytes,
                     fmt::format("the driver of {}", device->info().name)};
  } catch (const DeviceError& e) {
    why = fmt::format("{}, and no GPU can be used: {}", ptxas_missing, e.what());
    return std::nullopt;
  }
}

}  // namespace tegula::cli
