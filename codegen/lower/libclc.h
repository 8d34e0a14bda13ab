// The accurate math functions: libclc's nvptx64 bitcode, embedded at build time.
#pragma once

#include <string_view>

namespace llvm {
class Module;
}

namespace tegula::lower {

/// libclc's bitcode compressed with zstd, as the build embedded it.
std::string_view libclc_bitcode_zstd();

/// Links the libclc functions that `module` declares (see Lowering::libclc) into it, as internal functions.
void link_libclc(llvm::Module& module);

}  // namespace tegula::lower
