#include "runtime/base/function.h"

#include "runtime/base/error.h"

namespace tegula::detail {

void refuse_empty_function() { throw Error("a tegula::Function that holds none is called"); }

}  // namespace tegula::detail
