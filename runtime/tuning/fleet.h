// Processes that a launcher started together on this host, as its environment variables tell.
#pragma once

namespace tegula {

/// How many processes of the job run on this host, each on a GPU of its own: told by torchrun (LOCAL_WORLD_SIZE), Open
/// MPI (OMPI_COMM_WORLD_LOCAL_SIZE), MPICH and its kin (MPI_LOCALNRANKS) or Slurm (SLURM_STEP_TASKS_PER_NODE). 1 where
/// no launcher tells of more, and where the environment's TEGULA_FLEET is off.
int processes_of_job();

}  // namespace tegula
