// What the copies of a Kernel share.
#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "codegen/ir/ir.h"
#include "codegen/target/target.h"
#include "dsl/kernel.h"
#include "dsl/kernel_source.h"
#include "dsl/laid_out.h"
#include "dsl/last_made.h"
#include "dsl/listing/variants.h"
#include "dsl/ready_table.h"
#include "runtime/base/messages.h"
#include "runtime/store/image_cache.h"
#include "runtime/tuning/tuning_store.h"

namespace tegula::detail {

struct KernelState : std::enable_shared_from_this<KernelState> {
  Shared<const dsl::KernelSource> source;
  std::shared_ptr<ImageCache> cache;
  std::shared_ptr<TuningStore> store;  ///< null: nothing is remembered

  /// Where the configurations come from: the user's words, else the source's (read when first needed).
  std::optional<Autotune> autotune;
  std::vector<Heuristic> heuristics;
  std::vector<int> key_args;  ///< positions of arguments whose values decide, see key_positions()

  dsl::ReadyTable ready;  ///< by launch

  mutable std::mutex mutex;   ///< guards what follows
  dsl::Variants handles;      ///< by what is compiled in
  std::set<Device*> devices;  ///< those that the kernel is ready on
  std::atomic<bool> declarations_read{false};
  std::exception_ptr
      declaration_error;  ///< why the source's declaration is not understood: matters only if it is needed

  /// Handles that tuning timed last: candidates of the next problems are often the same code, which is assembled once
  /// while somebody has it.
  std::deque<std::pair<const Device*, LaunchHandle>> timed;

  std::map<std::string, Config> chosen;               ///< configurations by GPU and key
  std::map<std::string, std::string> listed_choices;  ///< likewise: texts of options

  /// Held while a problem is tuned (`problem`: GPU and key): threads that need its configuration wait, others tune
  /// problems of their own meanwhile. Throws LaunchError where the holder's own grid, pruning or heuristic function
  /// launches the kernel that is being tuned, which could wait for itself.
  class TuningLock {
   public:
    TuningLock(KernelState& state, std::string problem);
    ~TuningLock();
    TuningLock(const TuningLock&) = delete;

   private:
    KernelState& state_;
    const std::string problem_;
  };

  const std::string& name() const { return source->name(); }
  const std::vector<KernelParam>& params() const { return source->params(); }

  mutable std::mutex telling;
  mutable std::set<std::string> told;  ///< messages; guarded by `telling`
  /// Sends a message to the handler, once in the life of the kernel.
  void tell_once(MessageKind kind, const std::string& text) const;

  dsl::LastMade<dsl::Staged> staged{512};     ///< by types, options and target
  dsl::LastMade<dsl::LaidOut> laid_out{512};  ///< likewise

  std::mutex tuning;                              ///< guards what follows
  std::condition_variable tuned;                  ///< told when a problem is free again
  std::map<std::string, std::thread::id> tuners;  ///< problems that are being tuned, and by whom

  /// Reads what the source says of tuning and heuristics unless the user said it. Throws CompileError.
  void read_declarations();
  /// Makes sure that what is ready on the device is destroyed before the device.
  void note_device(Device& device);

  /// Tells what static_print printed and, where there are no errors, the warnings: each once in the life of the kernel.
  /// `has_messages` receives whether there are such. Throws CompileError.
  /// `capability`: of the target, which a program may ask for: 90 for sm_90.
  std::unique_ptr<ir::Func> build(std::span<const ArgType> types, const LaunchOptions& options, int capability = 90,
                                  bool* has_messages = nullptr) const;
  KernelImage compile(const ir::Func& func, std::span<const ArgType> types, const LaunchOptions& launch,
                      const Target& target, bool emulator) const;
  /// The handle for these types and options: what there is, else load(). Where nothing may be compiled, what there is
  /// may be code that relies on less.
  LaunchHandle handle_for(Device& device, std::span<const ArgType> types, const LaunchOptions& options);
  /// Has handle_for() give this handle, which load() made of the same types and options, and tells its warnings.
  void keep(Device& device, std::span<const ArgType> types, const LaunchOptions& options, const LaunchHandle& handle);
  /// Puts a handle among those that were timed last.
  void note_timed(Device& device, const LaunchHandle& handle);
  /// Made ready on the device: by prewarm(), from the cache on disk, or compiled now; code without bulk copies when a
  /// launch needs it. May be called from several threads.
  LaunchHandle load(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const;

 private:
  /// Null where it would have to be compiled, which it may not be.
  Shared<LoadedKernel> load_kernel(Device& device, std::span<const ArgType> types, const LaunchOptions& options) const;
};

}  // namespace tegula::detail
