# The accurate mathematical functions: libclc's bitcode for nvptx64, cut down at build time to what the kernel language
# can reach, and freed of all that ties it to one target. codegen/lower/libclc.cpp embeds the result.
set(LIBCLC_UNARY
  acos acosh asin asinh atan atanh cbrt cos cosh cospi erf erfc exp exp10 exp2 expm1 ilogb lgamma log log10 log1p log2
  logb sin sinh sinpi tan tanh tgamma)
set(LIBCLC_BINARY atan2 fdim fmod nextafter pow remainder)
set(LIBCLC_WITH_INT ldexp pown)

find_file(LIBCLC nvptx64--.bc PATHS /usr/lib/clc /usr/share/clc ${LLVM_INSTALL_PREFIX}/share/clc REQUIRED)
find_program(LLVM_OPT NAMES opt PATHS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH REQUIRED)
find_program(LLVM_AS NAMES llvm-as PATHS ${LLVM_TOOLS_BINARY_DIR} NO_DEFAULT_PATH REQUIRED)

# OpenCL C's mangled names: _Z3expf, _Z3expd, _Z3powff, _Z5ldexpfi, ...
set(keep "")
foreach(name ${LIBCLC_UNARY} ${LIBCLC_BINARY} ${LIBCLC_WITH_INT})
  string(LENGTH ${name} length)
  foreach(type f d)
    set(types ${type})
    if(name IN_LIST LIBCLC_BINARY)
      set(types ${type}${type})
    elseif(name IN_LIST LIBCLC_WITH_INT)
      set(types ${type}i)
    endif()
    string(APPEND keep "preserve-gv=_Z${length}${name}${types};")
  endforeach()
endforeach()
string(REGEX REPLACE ";$" "" keep "${keep}")

set(LIBCLC_BITCODE ${PROJECT_BINARY_DIR}/codegen/lower/libclc.bc)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/codegen/lower/libclc.sh @ONLY CONTENT [=[
set -eu
"@LLVM_OPT@" -S -passes='internalize<@keep@>,globaldce' "@LIBCLC@" -o "@LIBCLC_BITCODE@.ll"
# Tables move from constant to global memory, whose caches serve all lanes of a warp at once: they look up different places.
sed -E -e 's/addrspace\(4\)/addrspace(1)/g' -e '/^target (triple|datalayout)/d' -e '/^!(llvm|opencl)\.[a-z._]+ = /d' \
  -e 's/"(target-features|target-cpu|frame-pointer|stack-protector-buffer-size)"="[^"]*"//g' \
  "@LIBCLC_BITCODE@.ll" | "@LLVM_AS@" - -o "@LIBCLC_BITCODE@"
]=])
add_custom_command(OUTPUT ${LIBCLC_BITCODE}
  COMMAND sh ${PROJECT_BINARY_DIR}/codegen/lower/libclc.sh
  DEPENDS ${LIBCLC} ${PROJECT_BINARY_DIR}/codegen/lower/libclc.sh
  COMMENT "Cutting libclc down to the functions of the kernel language" VERBATIM)
target_sources(tegula_llvm PRIVATE ${LIBCLC_BITCODE})
set_source_files_properties(codegen/lower/libclc.cpp PROPERTIES
  OBJECT_DEPENDS ${LIBCLC_BITCODE} SKIP_PRECOMPILE_HEADERS ON
  COMPILE_DEFINITIONS TEGULA_LIBCLC_BITCODE="${LIBCLC_BITCODE}")
