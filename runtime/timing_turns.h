// Who times work on a device.
#pragma once

#include <mutex>

namespace tegula {

/// Of a device: those who time work on it take turns, as threads may tune several launches at a time. The holder
/// launches nothing that may have to be tuned first: another thread may be tuning it and wait for its turn.
class TimingTurns : public std::mutex {};

}  // namespace tegula
