// Functions of tile IR, laid out by passes that a test runs itself, as images.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "codegen/exec/generate.h"

namespace tegula {

/// The image of a function behind all passes, for the emulator or a GPU. Nothing, and a failure of the test, after a
/// diagnostic.
inline std::optional<KernelImage> laid_out_image(const ir::Func& func, const Target& target, bool emulator) {
  Diagnostics diags;
  CompileOptions options;
  options.target = target;
  options.emulator = emulator;
  auto code = generate(func, options, diags);
  if (!code) {
    ADD_FAILURE() << diags.render();
    return std::nullopt;
  }
  KernelImage image;
  image.kernel = func.name;
  image.target = target.name;
  for (size_t i = 0; i < func.body.args.size(); ++i) {
    const ir::Value& p = *func.body.args[i];
    image.params.push_back({p.name, p.type.elem, p.type.pointer, func.divisibility[i]});
  }
  image.tensor_maps = std::move(code->tensor_maps);
  image.num_warps = func.num_warps();
  image.copy_warps = code->copy_warps;
  image.shared_bytes = code->shared_bytes;
  image.ptx = std::move(code->ptx);
  image.bitcode = std::move(code->bitcode);
  image.sites = std::move(code->sites);
  return image;
}

inline std::optional<KernelImage> emulator_image(const ir::Func& func, const Target& target) {
  return laid_out_image(func, target, true);
}

}  // namespace tegula
