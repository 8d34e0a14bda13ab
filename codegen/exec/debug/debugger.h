// Questions about a recording, and a place in it that moves forwards and backwards: what `tegula debug` reads from its
// command line, and programs may ask for themselves.
//
//   Recording recording;
//   auto device = make_emulator();
//   device->record_program(&recording, {0, 0, 0});
//   kernel.launch(*device, {rows}, {.debug = 2}, ...);
//   Debugger debugger(recording);
//   debugger.execute("break 12");
//   debugger.execute("continue");
//   std::puts(debugger.execute("print acc[0:4, 0:4]").text.c_str());
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "codegen/exec/debug/recording.h"

namespace tegula {

struct DebuggerAnswer {
  std::string text;  ///< of whole lines
  std::string json;  ///< the same as one JSON object: "command", and "error" or what the command tells
  bool is_error = false;
};

class Debugger {
 public:
  /// Stands ahead of the program's first statement. The recording must outlive it.
  explicit Debugger(const Recording& recording);
  ~Debugger();

  /// Carries out one command ("help" lists them). A wrong one changes nothing: the answer says what is wrong. Throws
  /// FileError where a picture cannot be written.
  DebuggerAnswer execute(std::string_view command);
  /// "quit" was asked for.
  bool is_over() const;

 private:
  class Session;
  std::unique_ptr<Session> session_;
};

}  // namespace tegula
