#include "runtime/tuning/fleet.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace tegula {

int processes_of_job() {
  const char* wanted = std::getenv("TEGULA_FLEET");
  if (wanted && std::string_view(wanted) == "off") return 1;
  for (const char* name :
       {"LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE"}) {
    const char* text = std::getenv(name);
    if (!text) continue;
    int count = 0;  // Slurm says "8(x2)" for 8 on each of 2 hosts
    const std::string_view given = text;
    std::from_chars(given.data(), given.data() + given.size(), count);
    if (count > 1) return count;
  }
  return 1;
}

}  // namespace tegula
