#include "runtime/device.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "runtime/base/check.h"
#include "runtime/kept.h"
#include "runtime/timing_turns.h"
#include "runtime/workspace.h"

namespace tegula {

int64_t clusters_at_once(int num_sms, int64_t blocks) {
  if (blocks < 4) return std::max<int64_t>(1, num_sms / blocks);
  return std::max<int64_t>(1, num_sms / blocks * 15 / 16);
}

bool takes_in_turns(const KernelImage& image, Grid grid) {
  constexpr uint64_t kMost = 1 << 30;  // the number behind the last one is an int32, too
  TEGULA_CHECK(grid.z > 0, "a launch without programs starts nothing");
  return !image.program_loop || (grid.x <= kMost && uint64_t(grid.x) * grid.y <= kMost / grid.z);
}

std::string assert_failed(const KernelImage& image, uint64_t number) {
  const std::string text = number < image.asserts.size() ? image.asserts[number].text : std::string();
  return text.empty() ? "the assertion fails" : "the assertion fails: " + text;
}

std::string cooperative_too_large(const KernelImage& image, Grid grid, int64_t most, const DeviceInfo& device) {
  return fmt::format(
      "kernel '{}': a cooperative grid of {} x {} x {} programs, all of which run at once; {} runs {} such programs "
      "at once\n  hint: start fewer programs that take the work in turns, or make them smaller: fewer warps, registers "
      "or bytes of shared memory",
      image.kernel, grid.x, grid.y, grid.z, device.name, most);
}

void LoadedKernel::launch(Grid grid, void* const* args, StreamHandle stream) {
  if (try_launch(grid, args, stream)) [[likely]]
    return;
  if (!takes_in_turns(image(), grid))
    throw LaunchError(
        fmt::format("kernel '{}' takes 2^30 programs in turns at most, and this launch has more\n  hint: "
                    "compile it with program_loop=1",
                    image().kernel));
  const std::string why = why_no_maps(image().tensor_maps, args);
  throw LaunchError(fmt::format(
      "kernel '{}' copies arrays in bulk, which this launch does not allow: {}\n  hint: compile it with bulk_copies=1",
      image().kernel,
      why.empty() ? "an array begins, with what the kernel adds to its address, outside of its memory, or the driver "
                    "makes no tensor map"
                  : why));
}

void KeptOfDevice::before_end(std::weak_ptr<void> owner, std::function<void()> drop) {
  std::lock_guard lock(mutex_);
  std::erase_if(items_, [](const Item& item) { return item.owner.expired(); });
  items_.push_back({std::move(owner), std::move(drop)});
}

void KeptOfDevice::drop() noexcept {
  std::vector<Item> all;
  {
    std::lock_guard lock(mutex_);
    all.swap(items_);
  }
  for (Item& item : all)
    if (auto alive = item.owner.lock()) item.drop();
}

Device::Device()
    : kept_(Shared<KeptOfDevice>::make()),
      workspaces_(Shared<Workspaces>::make()),
      timing_turns_(Shared<TimingTurns>::make()) {}

void Device::drop_kept() noexcept {
  kept_->drop();
  workspaces_ = nullptr;
}

}  // namespace tegula
