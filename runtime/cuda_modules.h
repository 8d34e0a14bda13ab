// Machine code in a GPU's context, which kernels of the same PTX share.
#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "runtime/base/function.h"
#include "runtime/cuda_context.h"
#include "runtime/driver/link.h"

namespace tegula {

/// A module that is loaded, and is unloaded with its last owner.
class CudaModule {
 public:
  /// Takes over `module`. `made`: what the assembler says of it, if it was assembled here.
  CudaModule(const CudaContext& context, cuda::Module module, cuda::Linked made = {})
      : made(std::move(made)), context_(context), module_(module) {}
  ~CudaModule() {
    context_.quietly([&] { context_.driver().module_unload(module_); });
  }
  CudaModule(const CudaModule&) = delete;

  cuda::Module get() const { return module_; }
  const cuda::Linked made;

 private:
  const CudaContext& context_;
  const cuda::Module module_;
};

/// Those that have an owner, by what they are made of. Thread-safe.
class CudaModules {
 public:
  using Made = std::shared_ptr<const CudaModule>;
  /// The module of this key that there is or that another thread is making, for which this one waits, without the
  /// processor that it may hold; else what `make` gives.
  Made get(const std::string& key, FunctionRef<Made()> make);

 private:
  struct Entry {
    std::weak_ptr<const CudaModule> module;
    bool in_the_making = false;
  };
  std::mutex mutex_;  ///< guards what follows
  std::condition_variable made_;
  std::map<std::string, Entry> entries_;
};

}  // namespace tegula
