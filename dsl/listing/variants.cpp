#include "dsl/listing/variants.h"

#include <algorithm>

#include "dsl/specialize.h"
#include "runtime/package/package.h"

namespace tegula::dsl {

namespace {

std::vector<ArgType> facts_of(const KernelImage& image) {
  std::vector<ArgType> facts;
  for (const ImageParam& p : image.params)
    facts.push_back({.elem = p.elem, .pointer = p.pointer, .divisible_by = p.divisible_by});
  for (const ImageConstant& c : image.constants)  // in the order of their positions
    facts.insert(facts.begin() + c.position, {.pointer = c.pointer, .constant = c.value});
  return facts;
}

bool same(const ArgType& a, const ArgType& b) {
  return a.pointer == b.pointer && a.divisible_by == b.divisible_by && a.constant == b.constant;
}

// Whether code that relies on `fact` takes what is known to be `type`.
bool holds(const ArgType& fact, const ArgType& type) {
  if (fact.pointer != type.pointer) return false;
  if (fact.constant || (type.pointer && type.constant)) return fact.constant == type.constant;
  return type.constant.value_or(type.divisible_by) % fact.divisible_by == 0;
}

}  // namespace

std::string types_without_facts(std::span<const ArgType> types) {
  std::vector<ArgType> plain(types.begin(), types.end());
  for (ArgType& type : plain) {
    type.divisible_by = 1;
    if (!type.pointer) type.constant.reset();
  }
  return types_text(plain);
}

void Variants::put(const Device& device, const std::string& key, const LaunchHandle& handle) {
  std::vector<Variant>& list = variants_[{&device, key}];
  std::vector<ArgType> facts = facts_of(handle.image());
  std::erase_if(list, [&](const Variant& v) { return std::ranges::equal(v.facts, facts, same); });
  list.push_back({std::move(facts), handle});
}

const std::vector<Variants::Variant>* Variants::of(const Device& device, const std::string& key) const {
  const auto it = variants_.find({&device, key});
  return it == variants_.end() ? nullptr : &it->second;
}

std::optional<LaunchHandle> Variants::find(const Device& device, const std::string& key,
                                           std::span<const ArgType> types) const {
  if (const auto* list = of(device, key))
    for (const Variant& v : *list)
      if (std::ranges::equal(v.facts, types, same)) return v.handle;
  return std::nullopt;
}

std::optional<LaunchHandle> Variants::find_fitting(const Device& device, const std::string& key,
                                                   std::span<const ArgType> types) const {
  const Variant* best = nullptr;
  if (const auto* list = of(device, key))
    for (const Variant& v : *list)
      if (std::ranges::equal(v.facts, types, holds) &&
          (!best || assumptions(v.handle.image()) > assumptions(best->handle.image())))
        best = &v;
  if (!best) return std::nullopt;
  return best->handle;
}

void Variants::drop(const Device& device) {
  std::erase_if(variants_, [&](const auto& entry) { return entry.first.first == &device; });
}

}  // namespace tegula::dsl
