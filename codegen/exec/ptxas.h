// CUDA's assembler, if it is installed.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tegula {

/// A program of CUDA's toolkit, looked for in the folders of PATH, CUDA_HOME/bin, CUDA_PATH/bin, /usr/local/cuda/bin.
std::optional<std::filesystem::path> find_cuda_program(const std::string& program);

/// ptxas, looked for likewise; TEGULA_PTXAS=FILE names another one, or none where it is empty.
std::optional<std::filesystem::path> find_ptxas();
/// Why find_ptxas() finds none.
std::string why_no_ptxas();

struct PtxasRun {
  int status = -1;       ///< of the exit; -1: it could not be started
  std::string log;       ///< what it says: with -v, registers and spills
  std::string cubin;     ///< empty if it refused the PTX
  int registers = -1;    ///< a thread's; -1: it does not say
  int spill_bytes = -1;  ///< a thread's stores and loads together; -1: it does not say
};
/// Assembles PTX for a target such as "sm_90a". Throws FileError where no scratch files can be made.
PtxasRun run_ptxas(const std::filesystem::path& ptxas, const std::string& ptx, const std::string& target);

}  // namespace tegula
