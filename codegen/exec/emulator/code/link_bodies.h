// From a module that calls hardware functions to one that calls their C++ bodies.
#pragma once

#include <string>
#include <vector>

#include "codegen/exec/emulator/code/jit.h"
#include "codegen/exec/emulator/hardware/hw_bodies.h"

namespace llvm {
class Instruction;
class Module;
}  // namespace llvm

namespace tegula::emulator {

/// Functions of the emulator that generated code calls beside the bodies (hw_bodies.h, ptx_run.cpp).
inline constexpr const char *kYieldName = "emu_yield", *kAsmName = "emu_asm", *kTickName = "emu_tick",
                            *kOrderName = "emu_order", *kWarnName = "emu_warn", *kOriginName = "emu_check_origin",
                            *kNoteExactName = "emu_note_exact", *kExactSharedName = "emu_exact_of_shared",
                            *kExactAtomicName = "emu_exact_of_atomic", *kLoadedTaintName = "emu_loaded_taint",
                            *kStoredTaintName = "emu_stored_taint", *kUseTaintName = "emu_use_taint";

/// These functions, and those that segments call (lane_segments.h).
const std::vector<HwBody>& helper_functions();
/// The function of C++ that generated code calls by that name, a body's or one of these; null if there is none.
const HwBody* find_body(const std::string& name);

/// Throws DeviceError: the kernel cannot run here.
[[noreturn]] void refuse(const KernelImage& image, const std::string& message);

/// The source of an instruction, by its debug information.
Loc loc_of(const llvm::Instruction& at);

/// Replaces all calls of hardware functions and of blocks of inline PTX. Notes the places, the blocks and what the code
/// does in `kernel`. `tell_order`: the code tells what its atomic operations order.
void link_bodies(llvm::Module& module, const KernelImage& image, const Target& target, JitKernel& kernel,
                 bool tell_order);

/// Calls emu_tick in each iteration of the kernel's loops, so that an endless one can be ended.
void count_iterations(llvm::Module& module, const KernelImage& image, JitKernel& kernel);

}  // namespace tegula::emulator
