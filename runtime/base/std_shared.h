// From Shared to the standard library's pointer, for sources.
#pragma once

#include <memory>
#include <utility>

#include "runtime/base/shared.h"

namespace tegula {

/// The same object with the same owners as a std::shared_ptr.
template <class T>
std::shared_ptr<T> std_shared(Shared<T> shared) {
  T* object = shared.get();
  if (!object) return nullptr;
  return std::shared_ptr<T>(object, [keep = std::move(shared)](T*) {});
}

}  // namespace tegula
