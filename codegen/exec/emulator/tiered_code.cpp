#include "codegen/exec/emulator/tiered_code.h"

#include <fmt/format.h>

#include "runtime/base/check.h"
#include "runtime/base/error.h"

namespace tegula::emulator {

namespace {
constexpr uint64_t kBodyStack = 8 << 10;  ///< for the bodies of hardware functions
constexpr double kOptimising = 5;         ///< takes so many times as long as to compile quickly, about
}  // namespace

TieredCode::TieredCode(Jit& jit, const KernelImage& image, const Target& target, uint64_t stack_bytes)
    : jit_(jit), image_(image), target_(target), stack_bytes_(stack_bytes) {
  auto fits = [&] { return first_->frame_bytes + kBodyStack <= stack_bytes; };
  first_ = jit.find(image, target, Tier::Optimised);  // of an earlier process
  settled_ = first_ && fits();
  if (!settled_) first_ = jit.compile(image, target, Tier::Quick);
  if (!fits() && !settled_) {  // which keeps each value on the stack
    first_ = jit.compile(image, target, Tier::Optimised);
    settled_ = true;
  }
  if (!fits())
    throw DeviceError(fmt::format(
        "kernel '{}' needs {} bytes of stack a thread on the emulator, which gives {} (EmulatorOptions::stack_bytes)",
        image.kernel, first_->frame_bytes + kBodyStack, stack_bytes));
  entry_ = first_->entry;
}

void TieredCode::add_seconds(double seconds) {
  std::lock_guard lock(mutex_);
  seconds_ += seconds;
}

void TieredCode::optimise_if_due(double seconds_of_launch) {
  std::lock_guard lock(mutex_);
  if (settled_ || seconds_ + seconds_of_launch < kOptimising * first_->compile_seconds) return;
  settled_ = true;
  optimised_ = jit_.compile(image_, target_, Tier::Optimised);
  TEGULA_CHECK(optimised_->places.size() == first_->places.size(), "places differ");
  if (optimised_->frame_bytes + kBodyStack <= stack_bytes_) entry_.store(optimised_->entry, std::memory_order_release);
}

}  // namespace tegula::emulator
