// A process that is certain to compile nothing any more.
#pragma once

namespace tegula {

/// From now on this process compiles and tunes nothing, and the library opens no file: launches run what has been made
/// ready (prewarm(), or earlier launches), and what is missing is a LaunchError that says what to make ready. There is
/// no way back.
void seal();
/// Whether seal() was called.
bool sealed();
/// Whether kernels may be compiled and tuned: not once the process is sealed, nor where the environment has
/// TEGULA_SEALED with another value than 0. The latter alone leaves files open: packages, and what the cache holds.
bool may_compile();

}  // namespace tegula
