// The accurate mathematical functions, as LLVM bitcode that stands in the library.
//
// They are libclc's (exp, log, sin, pow, erf, tanh, ... the list is in cmake/libclc.cmake), one pair a function under
// OpenCL C's mangled names: _Z3expf(float), _Z3expd(double), _Z3powff(float, float), _Z3powdd(double, double).
// The module has neither triple nor data layout, and its functions no target features, so that it links silently into a
// module for NVPTX and into one for the emulator; helpers and tables are internal. Its functions call no library.
// Link it with llvm::Linker::LinkOnlyNeeded, so that only what a kernel uses comes in.
#pragma once

#include <string>
#include <string_view>

namespace llvm {
class Module;
}

namespace tegula::lower {

/// The bitcode (about 120 KB). Lives as long as the library.
std::string_view libclc_bitcode();

/// The mangled name of a function, by the letters of its arguments' types: libclc_name("pow", "dd") is "_Z3powdd".
std::string libclc_name(std::string_view function, std::string_view types);

/// Links the libclc functions that `module` declares (see Lowering::libclc) into it, as internal functions that stay
/// calls.
void link_libclc(llvm::Module& module);

/// Lets the next inliner inline them, but for those whose calls would fill megabytes. False if there are none to
/// inline.
bool inline_libclc_calls(llvm::Module& module);

}  // namespace tegula::lower
