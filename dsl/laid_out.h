// Tile IR with layouts of the configurations that tuning has ranked, which launches with other extents rank again.
#pragma once

#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "codegen/ir/ir.h"

namespace tegula::dsl {

/// Of one configuration.
struct LaidOut {
  std::shared_ptr<const ir::Func> func;  ///< null: none is made of it
  std::string code;                      ///< digest of what becomes of it: equal for equal code
  std::string unusable;                  ///< why there is none
};

/// The last so many that were asked for. Thread-safe: of threads that ask for the same one, one makes it.
class LaidOutFuncs {
 public:
  /// What `make` gives, now or before under the same key. What it throws is not kept.
  LaidOut get(const std::string& key, const std::function<LaidOut()>& make);

 private:
  static constexpr size_t kMost = 512;
  struct Entry {
    std::string key;
    std::once_flag made;
    LaidOut value;
  };
  std::mutex mutex_;                         ///< guards what follows
  std::list<std::shared_ptr<Entry>> order_;  ///< the last used one at the end
  std::map<std::string, std::list<std::shared_ptr<Entry>>::iterator> places_;
};

}  // namespace tegula::dsl
