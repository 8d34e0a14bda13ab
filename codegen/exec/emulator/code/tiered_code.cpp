#include "codegen/exec/emulator/code/tiered_code.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/exec/emulator/launch/fibers.h"
#include "runtime/base/check.h"
#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {
constexpr uint64_t kBodyStack = 8 << 10;     ///< for the bodies of hardware functions
constexpr uint64_t kMostStack = 1024 << 10;  ///< twice what a GPU's thread has of local memory
constexpr uint64_t kQuickStack = 256 << 10;  ///< code made quickly keeps each value on the stack

uint64_t stack_of(const JitKernel& code) { return code.frame_bytes + kBodyStack; }
}  // namespace

TieredCode::TieredCode(Jit& jit, const KernelImage& image, const Target& target, bool at_once)
    : jit_(jit), image_(image), target_(target) {
  first_ = at_once ? jit.compile(image, target, Tier::Optimised) : jit.find(image, target, Tier::Optimised);
  settled_ = first_ != nullptr;
  if (!settled_) first_ = jit.compile(image, target, Tier::Quick);
  if (!settled_ && stack_of(*first_) > kQuickStack) {
    first_ = jit.compile(image, target, Tier::Optimised);
    settled_ = true;
  }
  stack_bytes_ = std::max<uint64_t>(kUsualStack, stack_of(*first_));
  if (stack_bytes_ > kMostStack)
    throw DeviceError(
        fmt::format("kernel '{}' needs {} bytes of stack a thread on the emulator, which gives up to {}\n"
                    "  hint: with smaller blocks or more warps a thread has fewer elements",
                    image.kernel, stack_bytes_, kMostStack));
  code_ = &first_->code;
}

void TieredCode::add_seconds(double seconds) {
  std::lock_guard lock(mutex_);
  seconds_ += seconds;
}

void TieredCode::optimise_if_due(double seconds_of_launch) {
  std::lock_guard lock(mutex_);
  if (settled_ || seconds_ + seconds_of_launch < first_->optimising_seconds) return;
  settled_ = true;
  optimised_ = jit_.compile(image_, target_, Tier::Optimised);
  TEGULA_CHECK(optimised_->places.size() == first_->places.size() && optimised_->blocks.size() == first_->blocks.size(),
               "places or blocks differ");
  if (stack_of(*optimised_) <= stack_bytes_) code_.store(&optimised_->code, std::memory_order_release);
}

}  // namespace tegula::emulator
