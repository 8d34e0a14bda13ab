// What the library has to tell while it goes on: warnings, and what kernels print while they are compiled.
#pragma once

#include <string_view>

#include "runtime/base/function.h"

namespace tegula {

enum class MessageKind {
  Warning,  ///< what was found, behind its place in a source if it has one; the lines below show that, and hints
  Print,    ///< a line of tl.static_print
};
using MessageHandler = Function<void(MessageKind kind, std::string_view text)>;

/// Who is told from now on, in place of the standard error stream; null: that stream again. Gives the handler before.
/// It is called by the thread that compiles or launches, which may be one of the library's own, by one at a time; it
/// must not launch or compile. The environment's TEGULA_WARNINGS=off keeps warnings from any handler.
MessageHandler set_message_handler(MessageHandler handler);

/// Hands a message to the handler. `text` has no line end behind its last line.
void tell(MessageKind kind, std::string_view text);

}  // namespace tegula
