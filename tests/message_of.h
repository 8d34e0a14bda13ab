// The text of an error.
#pragma once

#include <string>

#include "runtime/base/error.h"

namespace tegula {

/// The message of the `E` that a call throws; "no error" if it throws nothing. Other exceptions go on to the test.
template <class E = Error, class Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tegula
