// Functions of tile IR, laid out by passes that a test runs itself, as images.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "codegen/exec/generate.h"

namespace tegula {

/// The image of a function behind all passes, for the emulator or a GPU. Nothing, and a failure of the test, after a
/// diagnostic.
inline std::optional<KernelImage> laid_out_image(const ir::Func& func, const Target& target, bool emulator,
                                                 bool all_passes = false) {
  Diagnostics diags;
  CompileOptions options;
  options.target = target;
  options.emulator = emulator;
  options.all_passes = all_passes;
  auto code = generate(func, options, diags);
  if (!code) {
    ADD_FAILURE() << diags.render();
    return std::nullopt;
  }
  return image_of(func, target, std::move(*code));
}

/// `all_passes` as CompileOptions::all_passes.
inline std::optional<KernelImage> emulator_image(const ir::Func& func, const Target& target, bool all_passes = false) {
  return laid_out_image(func, target, true, all_passes);
}

}  // namespace tegula
