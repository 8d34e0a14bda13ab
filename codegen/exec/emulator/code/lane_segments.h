// Shuffles that follow each other, done for all lanes of a warp at once.
#pragma once

#include "codegen/exec/emulator/code/jit.h"

namespace llvm {
class Module;
}

namespace tegula::emulator {

/// Functions that the code of a segment calls (hw_bodies.h).
inline constexpr const char *kLaneValuesName = "emu_lane_values", *kRunSegmentName = "emu_run_segment";
/// What the names of segments' functions begin with. None calls another.
inline constexpr const char* kSegmentName = "all_lanes";

/// Replaces runs of shuffles in a block between which lanes only compute: such a run costs one rendezvous of the warp
/// rather than one for each shuffle. The lanes hand over the values that it takes; the last one to arrive calls a
/// function that does the shuffles and the arithmetic between them for all lanes, as vectors; each lane takes its
/// results. Every lane's results are the same bits. To be called before link_bodies, on the module of either tier
/// alike.
void form_lane_segments(llvm::Module& module, JitKernel& kernel);

}  // namespace tegula::emulator
