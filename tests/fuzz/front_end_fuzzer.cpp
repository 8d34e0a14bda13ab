// libFuzzer's entry: see run.sh.
#include "tests/fuzz/front_end.h"

extern "C" int LLVMFuzzerTestOneInput(const unsigned char* data, size_t size) {
  tegula::run_front_end({reinterpret_cast<const char*>(data), size});
  return 0;
}
