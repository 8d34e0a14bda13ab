// A kernel whose source is a function of a Triton file.
#pragma once

#include <memory>

#include "dsl/kernel_source.h"
#include "dsl/language/source_file.h"

namespace tegula::language {

/// `function` is a @triton.jit function of the file.
std::shared_ptr<const dsl::KernelSource> text_source(std::shared_ptr<const SourceFile> file, const Function& function);

}  // namespace tegula::language
