// What errors say when a kernel that ran earlier has spoilt its context.
#pragma once

#include <string>

namespace tegula {

inline const std::string kLostDevice =
    "\n  note: a kernel that ran earlier faulted and spoilt its context: every further call on this GPU fails in this "
    "process\n  hint: restart the process; the emulator names the kernel, the line and the address of an illegal "
    "access";

}  // namespace tegula
