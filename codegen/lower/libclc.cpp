#include "codegen/lower/libclc.h"

// TEGULA_LIBCLC_BITCODE is the path of the file that cmake/libclc.cmake makes.
asm(R"(
  .section .rodata.tegula_libclc, "a", @progbits
  .balign 16
  .globl tegula_libclc_begin
  .hidden tegula_libclc_begin
tegula_libclc_begin:
  .incbin ")" TEGULA_LIBCLC_BITCODE R"("
  .globl tegula_libclc_end
  .hidden tegula_libclc_end
tegula_libclc_end:
  .byte 0
  .text
)");

extern "C" {
__attribute__((visibility("hidden"))) extern const char tegula_libclc_begin[];
__attribute__((visibility("hidden"))) extern const char tegula_libclc_end[];
}

namespace tegula::lower {

std::string_view libclc_bitcode() { return {tegula_libclc_begin, size_t(tegula_libclc_end - tegula_libclc_begin)}; }

std::string libclc_name(std::string_view function, std::string_view types) {
  return "_Z" + std::to_string(function.size()) + std::string(function) + std::string(types);
}

}  // namespace tegula::lower
