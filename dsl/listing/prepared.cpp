#include "dsl/listing/prepared.h"

#include <fmt/format.h>

#include <algorithm>

#include "dsl/specialize.h"
#include "runtime/kept.h"
#include "runtime/store/image_cache.h"

namespace tegula::dsl {

namespace {

LaunchOptions in_order(LaunchOptions options) {
  std::stable_sort(options.constexprs.begin(), options.constexprs.end(),
                   [](const ConstexprArg& a, const ConstexprArg& b) { return a.name < b.name; });
  return options;
}

// The text of the source and what stands in it beside, without the place where it lies; empty for a C++ function.
std::string content(const KernelSource& source) {
  const auto texts = source.texts();
  if (!texts) return {};
  std::string all = texts->text;
  for (const ConstexprArg& global : texts->globals) all += fmt::format("\n{}={}", global.name, to_string(global.value));
  auto modules = texts->modules;
  std::sort(modules.begin(), modules.end());
  for (const auto& [name, text] : modules) all += fmt::format("\nmodule {}\n{}", name, text);
  return all;
}

}  // namespace

std::string options_text(const LaunchOptions& options) { return specialization_text({}, in_order(options)); }

std::string variants_key(const KernelSource& source, std::span<const ArgType> types, const LaunchOptions& options) {
  const std::string text = content(source);
  if (text.empty()) return {};
  return content_key({"variants", text, source.name(), types_without_facts(types), options_text(options)});
}

std::string choice_key(const KernelSource& source, std::string_view gpu, std::string_view problem) {
  const std::string text = content(source);
  if (text.empty()) return {};
  return content_key({"choice", text, source.name(), gpu, problem});
}

PreparedKernels& PreparedKernels::of_process() {
  static auto* kernels = new PreparedKernels;  // devices may end after statics
  return *kernels;
}

void PreparedKernels::put(Device& device, const std::string& key, const LaunchHandle& handle) {
  std::unique_lock lock(tables_->mutex);
  tables_->handles.put(device, key, handle);
  empty_ = false;
  if (!tables_->devices.insert(&device).second) return;
  lock.unlock();
  device.kept().before_end(tables_, [tables = tables_.get(), &device] {
    std::lock_guard lock(tables->mutex);
    tables->handles.drop(device);
    tables->devices.erase(&device);
  });
}

std::optional<LaunchHandle> PreparedKernels::find(const Device& device, const std::string& key,
                                                  std::span<const ArgType> types) const {
  std::lock_guard lock(tables_->mutex);
  return tables_->handles.find(device, key, types);
}

std::optional<LaunchHandle> PreparedKernels::find_fitting(const Device& device, const std::string& key,
                                                          std::span<const ArgType> types) const {
  std::lock_guard lock(tables_->mutex);
  return tables_->handles.find_fitting(device, key, types);
}

void PreparedKernels::choose(const std::string& key, const std::string& options) {
  std::lock_guard lock(tables_->mutex);
  tables_->choices.insert_or_assign(key, options);
  empty_ = false;
}

std::optional<std::string> PreparedKernels::choice(const std::string& key) const {
  std::lock_guard lock(tables_->mutex);
  const auto it = tables_->choices.find(key);
  if (it == tables_->choices.end()) return std::nullopt;
  return it->second;
}

}  // namespace tegula::dsl
