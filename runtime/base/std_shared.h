// From Shared to the standard library's pointer, for sources.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/shared.h"

namespace tegula {

/// The same object with the same owners as a std::shared_ptr.
template <class T>
std::shared_ptr<T> std_shared(Shared<T> shared) {
  if (!shared) return nullptr;
  // A deleter written as a lambda would do without the second object, but where nothing is inlined the linker cannot
  // tell the library functions made for it from Tegula's own, and exports them.
  auto owner = std::make_shared<Shared<T>>(std::move(shared));
  return {owner, owner->get()};
}

}  // namespace tegula
