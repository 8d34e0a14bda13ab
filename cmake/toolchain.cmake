# How everything is compiled: language level, build type, ccache, lld, sanitizers.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(PROJECT_IS_TOP_LEVEL AND NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()

# One section a function, so that the linker drops what nobody reaches; our exported functions call each other directly.
add_compile_options(-ffunction-sections -fdata-sections -fno-semantic-interposition)

find_program(CCACHE ccache)
if(CCACHE)
  # Precompiled headers are cacheable only when ccache may ignore their time stamps. Checkouts share what they compile.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-fpch-preprocess)
  else()
    add_compile_options("SHELL:-Xclang -fno-pch-timestamp")
  endif()
endif()

find_program(LLD ld.lld)
if(LLD AND NOT CMAKE_CROSSCOMPILING)  # g++ for another processor looks for it among its own programs alone
  add_link_options(-fuse-ld=lld)
endif()

# Instrumented is what is shipped, by tegula_sanitize(TARGET); what tests it is linked with the sanitizers' libraries
# alone, which see its leaks and what it passes to others. A finding ends the program, so that its test fails.
if(TEGULA_SANITIZE)
  add_link_options(-fsanitize=${TEGULA_SANITIZE})
endif()
function(tegula_sanitize target)
  if(TEGULA_SANITIZE)
    target_compile_options(${target} PRIVATE
      -fsanitize=${TEGULA_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
      target_compile_options(${target} PRIVATE -fsanitize-ignorelist=${CMAKE_CURRENT_FUNCTION_LIST_DIR}/sanitize_ignored.txt)
    endif()
  endif()
endfunction()
