#include "runtime/base/messages.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace tegula {

namespace {

std::mutex& mutex() {
  static auto* made = new std::mutex;  // may be needed while statics end
  return *made;
}
MessageHandler& handler() {
  static auto* made = new MessageHandler;
  return *made;
}

bool warnings_are_off() {
  const char* text = std::getenv("TEGULA_WARNINGS");
  return text && std::string_view(text) == "off";
}

}  // namespace

MessageHandler set_message_handler(MessageHandler wanted) {
  std::lock_guard lock(mutex());
  return std::exchange(handler(), std::move(wanted));
}

void tell(MessageKind kind, std::string_view text) {
  if (kind == MessageKind::Warning && warnings_are_off()) return;
  std::lock_guard lock(mutex());
  if (handler()) return handler()(kind, text);
  std::string line = (kind == MessageKind::Warning ? "tegula: warning: " : "") + std::string(text) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace tegula
