// How many threads are worth starting.
#pragma once

namespace tegula {

/// The processors that the calling thread may run on, by its affinity: 1 or more. Unlike
/// std::thread::hardware_concurrency() it opens no file, and does not count what taskset or a container's set of
/// processors leaves out.
unsigned processors();

}  // namespace tegula
