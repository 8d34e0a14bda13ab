// Makes the kernels of a list or a package ready, in parallel.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <mutex>
#include <thread>

#include "dsl/kernel_list.h"
#include "dsl/listing/prepared.h"
#include "dsl/listing/resolve.h"
#include "runtime/base/files.h"
#include "runtime/base/processors.h"

namespace tegula {

namespace {

/// Runs a step for each of `total` kernels, on several threads, and collects what goes wrong.
class Steps {
 public:
  Steps(size_t total, const PrewarmOptions& options) : total_(total), options_(options) {}

  /// `work(i)` makes a kernel ready; false: it is left out. `name(i)` is for messages.
  template <class Name, class Work>
  size_t run(Name name, Work work) {
    const unsigned wanted = options_.threads > 0 ? unsigned(options_.threads) : processors();
    const size_t threads = std::min<size_t>(wanted, total_);
    auto all = [&] {
      for (size_t i; (i = next_++) < total_;) step(i, name, work);
    };
    std::vector<std::thread> others;
    for (size_t i = 1; i < threads; ++i) others.emplace_back(all);
    all();
    for (std::thread& t : others) t.join();
    if (!errors_.empty()) fail();
    return ready_;
  }

 private:
  template <class Name, class Work>
  void step(size_t i, Name& name, Work& work) {
    std::string error;
    bool is_ready = false;
    try {
      is_ready = work(i);
    } catch (const std::exception& e) {
      error = e.what();
    }
    std::lock_guard lock(mutex_);
    ready_ += is_ready;
    if (!error.empty()) errors_.emplace_back(i, fmt::format("{}: {}", name(i), error));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start_;
    if (options_.progress) options_.progress({name(i), ++done_, total_, seconds.count(), error});
  }

  [[noreturn]] void fail() {
    std::sort(errors_.begin(), errors_.end());
    std::string text = fmt::format("{} of {} kernels cannot be made ready", errors_.size(), total_);
    for (const auto& [i, error] : errors_) text += "\n" + error;
    throw LaunchError(text);
  }

  const size_t total_;
  const PrewarmOptions& options_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::atomic<size_t> next_{0};
  std::mutex mutex_;
  size_t ready_ = 0, done_ = 0;
  std::vector<std::pair<size_t, std::string>> errors_;
};

// Whether the files that a kernel imports from are those that it was built from; one that is not there is not looked
// at.
bool imports_are_current(const PackagedKernel& kernel) {
  for (const PackagedImport& import : kernel.imports) {
    std::error_code error;
    if (std::filesystem::is_regular_file(import.file, error) && text_digest(read_file(import.file)) != import.digest)
      return false;
  }
  return true;
}

}  // namespace

size_t prewarm(Device& device, const std::vector<ListedKernel>& list, const PrewarmOptions& options) {
  dsl::Resolver resolver(options.kernels);
  return Steps(list.size(), options)
      .run([&](size_t i) { return list[i].place.empty() ? list[i].kernel : list[i].place; },
           [&](size_t i) {
             const dsl::ResolvedKernel found = resolver.resolve(list[i]);
             const PackagedChoice choice = dsl::choice_of(list[i]);
             if (!choice.gpu.empty() && choice.gpu != device.info().name) return false;
             found.kernel.prewarm(device, found.types, found.options);
             if (!choice.key.empty()) found.kernel.choose(choice.gpu, choice.key, found.options);
             return true;
           });
}

size_t prewarm(Device& device, const Package& package, const PrewarmOptions& options) {
  const auto kernels = package.kernels();
  const bool none = std::none_of(kernels.begin(), kernels.end(),
                                 [&](const PackagedKernel& k) { return code_for(k, device.info()) != nullptr; });
  if (none && !kernels.empty())
    throw LaunchError(fmt::format(
        "none of the package's {} kernels has code for {}\n  hint: `tegula build {}` adds it", kernels.size(),
        device.info().name, device.info().emulator ? "--emulator" : fmt::format("--target sm_{}", device.info().sm)));
  dsl::PreparedKernels& prepared = dsl::PreparedKernels::of_process();
  return Steps(kernels.size(), options)
      .run([&](size_t i) { return fmt::format("{} [{}]", kernels[i].name, kernels[i].config); },
           [&](size_t i) {
             const PackagedKernel& kernel = kernels[i];
             const PackagedCode* code = code_for(kernel, device.info());
             if (!code || kernel.key.empty() || !imports_are_current(kernel)) return false;
             const LaunchHandle handle = make_ready(device, *code);
             handle.prepare_other();
             prepared.put(device, kernel.key, handle);
             for (const PackagedChoice& choice : kernel.choices)
               if (!choice.key.empty()) prepared.choose(choice.key, kernel.options);
             return true;
           });
}

}  // namespace tegula
