// The accurate mathematical functions, as LLVM bitcode that stands in the library.
//
// They are libclc's (exp, log, sin, pow, erf, tanh, ... the list is in cmake/libclc.cmake), one pair a function under
// OpenCL C's mangled names: _Z3expf(float), _Z3expd(double), _Z3powff(float, float), _Z3powdd(double, double).
// The module has neither triple nor data layout, and its functions no target features, so that it links silently into a
// module for NVPTX and into one for the emulator; helpers and tables are internal. Its functions call no library.
// Link it with llvm::Linker::LinkOnlyNeeded, so that only what a kernel uses comes in.
#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace llvm {
class Function;
class Module;
}  // namespace llvm

namespace tegula::lower {

/// The bitcode (about 120 KB). Lives as long as the library.
std::string_view libclc_bitcode();

/// The mangled name of a function, by the letters of its arguments' types: libclc_name("pow", "dd") is "_Z3powdd".
std::string libclc_name(std::string_view function, std::string_view types);

/// Links the libclc functions that `module` declares (see Lowering::libclc) into it, as internal functions that stay
/// calls.
void link_libclc(llvm::Module& module);

/// The prefix of the names of our own functions (see Lowering::own_function).
inline constexpr std::string_view kOwnFunctionPrefix = "tegula.f32.";

enum class Inlined { Nothing, Own, Libclc };

/// Lets the next inliner inline them and our own, but for those that `stays` keeps and those of libclc whose calls
/// would fill megabytes. Libclc: some of its functions are among them.
Inlined inline_functions(llvm::Module& module, const std::function<bool(llvm::Function&)>& stays);

}  // namespace tegula::lower
