// Messages of the library while it works: warnings, and what kernels print while they are compiled.
#pragma once

#include <string_view>

#include "runtime/base/function.h"

namespace tegula {

enum class MessageKind {
  Warning,  ///< what was found, after its place in a source if it has one; the lines below show that, and hints
  Print,    ///< a line of tl.static_print
};
using MessageHandler = Function<void(MessageKind kind, std::string_view text)>;

/// Sets the function that receives messages instead of the standard error stream (null: that stream) and returns the
/// previous one. It is called by one thread at a time, the one that compiles or launches, which may belong to the
/// library; it must not launch or compile. TEGULA_WARNINGS=off keeps warnings from any handler.
MessageHandler set_message_handler(MessageHandler handler);

/// Sends a message to the handler. `text` has no line break at its end.
void tell(MessageKind kind, std::string_view text);

}  // namespace tegula
