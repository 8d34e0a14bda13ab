// Does something in a forked child.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

namespace tegula {

/// Whether `works` gives true in a forked child, within 60 seconds.
template <class Function>
bool true_in_forked_child(Function works) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);
    bool good = false;
    try {
      good = works();
    } catch (...) {
    }
    _exit(good ? EXIT_SUCCESS : EXIT_FAILURE);
  }
  int status = 0;
  return child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == EXIT_SUCCESS;
}

}  // namespace tegula
