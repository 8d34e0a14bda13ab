// Runs a program and reads what it prints.
#pragma once

#include <cstdio>
#include <string>

namespace tegula {

/// What the shell command writes to standard output and standard error; `status` receives its status as pclose has it,
/// 0 for success.
inline std::string run_command(const std::string& command, int* status) {
  std::string output;
  FILE* pipe = popen((command + " 2>&1").c_str(), "r");
  for (char buffer[4096]; size_t got = fread(buffer, 1, sizeof buffer, pipe);) output.append(buffer, got);
  *status = pclose(pipe);
  return output;
}

}  // namespace tegula
