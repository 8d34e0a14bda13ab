// Who times work on a device.
#pragma once

#include <mutex>

namespace tegula {

/// Of a device: those who time work on it take turns, as threads may tune several launches at a time. The holder may
/// take it again, since what it times may be tuned itself.
class TimingTurns : public std::recursive_mutex {};

}  // namespace tegula
