// The checks that every access of a kernel passes.
#pragma once

#include "codegen/exec/emulator/scheduler.h"

namespace tegula::emulator {

/// The host address of a global access; does not return if it is not allowed.
inline void* global_access(uint64_t address, unsigned bytes, Access access, uint32_t site) {
  Worker& worker = *this_worker;
  bool aligned = (address & (bytes - 1)) == 0;
  if (aligned && worker.may_access(address, bytes)) [[likely]]
    return reinterpret_cast<void*>(address);
  Fault fault;
  fault.kind = aligned ? Fault::GlobalBounds : Fault::GlobalAlignment;
  fault.access = access;
  fault.thread = worker.fiber().thread;
  fault.where.site = site;
  fault.address = address;
  fault.bytes = bytes;
  worker.abandon(fault);
}

/// The host address of a shared access by `fiber` (the current one, or a lane for which it acts).
inline void* shared_access(const Fiber& fiber, uint32_t address, unsigned bytes, Access access, uint32_t site) {
  Worker& worker = *this_worker;
  uint32_t offset = address - fiber.program->shared_base, size = worker.launch().shared_bytes;
  bool aligned = (address & (bytes - 1)) == 0;
  if (aligned && offset < size && size - offset >= bytes) [[likely]] {
    if (access == Access::Write && fiber.program->writes.tracks())
      fiber.program->writes.store(offset, bytes, fiber.thread, site);
    return reinterpret_cast<void*>(uint64_t(address));
  }
  Fault fault;
  fault.kind = aligned ? Fault::SharedBounds : Fault::SharedAlignment;
  fault.access = access;
  fault.thread = fiber.thread;
  fault.where.site = site;
  fault.address = uint64_t(int64_t(int32_t(offset)));
  fault.bytes = bytes;
  worker.abandon(fault);
}

/// Ends the launch with this message (Fault::what), whose values `fault` holds.
[[noreturn]] inline void misuse(const char* what, Where where, Fault fault = {}) {
  fault.kind = Fault::Misuse;
  fault.what = what;
  fault.where = where;
  fault.thread = this_worker->fiber().thread;
  this_worker->abandon(fault);
}

}  // namespace tegula::emulator
