// Recordings and the debugger in the C interface.
#include "codegen/exec/debug/debugger.h"

#include <memory>
#include <string>

#include "bindings/runtime/common.h"
#include "bindings/tegula.h"
#include "codegen/exec/emulator.h"

using namespace tegula;
using namespace tegula::bindings;

struct tegula_debugger {
  std::shared_ptr<Device> device;  // while it records into this one
  EmulatorDevice* emulator = nullptr;
  Recording recording;
  std::unique_ptr<Debugger> debugger = nullptr;  // from the first command on
  DebuggerAnswer answer = {};

  void end_recording() {
    if (emulator) emulator->record_program(nullptr, {});
    emulator = nullptr;
    device.reset();
  }
};

tegula_status tegula_device_record(tegula_device* device, uint32_t program_x, uint32_t program_y, uint32_t program_z,
                                   tegula_debugger** debugger) {
  return guarded([&] {
    given(debugger, "debugger");
    if (!given(device, "device").emulator) throw UsageError("programs are recorded on the emulator, not on a GPU");
    auto made = std::make_unique<tegula_debugger>(tegula_debugger{device->device, device->emulator, Recording()});
    made->emulator->record_program(&made->recording, {program_x, program_y, program_z});
    *debugger = made.release();
  });
}

tegula_status tegula_debugger_execute(tegula_debugger* debugger, const char* command, const char** text,
                                      const char** json, int32_t* refused) {
  return guarded([&] {
    tegula_debugger& d = given(debugger, "debugger");
    given(command, "command");
    d.end_recording();
    if (!d.debugger) d.debugger = std::make_unique<Debugger>(d.recording);
    d.answer = d.debugger->execute(command);
    if (text) *text = d.answer.text.c_str();
    if (json) *json = d.answer.json.c_str();
    if (refused) *refused = d.answer.is_error;
  });
}

void tegula_debugger_release(tegula_debugger* debugger) {
  if (debugger) debugger->end_recording();
  delete debugger;
}
