# What the libraries are made of besides their own sources. Everything goes in statically, so that they need the C and
# C++ run-time libraries only. First what libtegula_runtime needs.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)

# Each file that has fmt from its headers alone takes seconds longer: its code is compiled once, of the versions whose
# templates cmake/fmt.cpp knows. Users of the installed library take the headers.
if(fmt_VERSION VERSION_GREATER_EQUAL 9 AND fmt_VERSION VERSION_LESS 10)
  add_library(tegula_fmt STATIC ${PROJECT_SOURCE_DIR}/cmake/fmt.cpp)
  get_target_property(fmt_headers fmt::fmt-header-only INTERFACE_INCLUDE_DIRECTORIES)
  target_include_directories(tegula_fmt SYSTEM PUBLIC ${fmt_headers})
else()
  add_library(tegula_fmt INTERFACE)
  target_link_libraries(tegula_fmt INTERFACE fmt::fmt-header-only)
endif()

add_library(tegula_options INTERFACE)
# g++ 12 sees overlapping, boundless and uninitialised copies inside std::string and std::variant.
target_compile_options(tegula_options INTERFACE
  -Wall -Wextra -Werror=return-type
  "$<$<CXX_COMPILER_ID:GNU>:-Wno-restrict;-Wno-array-bounds;-Wno-stringop-overflow;-Wno-maybe-uninitialized>")
target_include_directories(tegula_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_link_libraries(tegula_options INTERFACE tegula_fmt Threads::Threads)
if(NOT TEGULA_COMPILER)
  return()
endif()

find_package(nlohmann_json REQUIRED)
find_package(Boost 1.74 REQUIRED)
find_package(LLVM 22.1 REQUIRED CONFIG)  # compatible are versions of the same minor number alone

find_library(BOOST_CONTEXT libboost_context.a REQUIRED)
find_library(ZSTD libzstd.a REQUIRED)
find_library(ZLIB_ARCHIVE libz.a REQUIRED)
find_library(SQLITE libsqlite3.a REQUIRED)

llvm_map_components_to_libnames(LLVM_LIBRARIES
  core support analysis scalaropts instcombine ipo linker bitreader bitwriter irreader nvptxcodegen nvptxinfo nvptxdesc
  x86codegen x86asmparser x86info x86desc orcjit target mc)
separate_arguments(LLVM_DEFINITIONS_LIST NATIVE_COMMAND "${LLVM_DEFINITIONS}")
# LLVM's package names the shared libz, libzstd and libz3 here; the first two also exist as archives, and nothing we
# link reaches the solver.
set_target_properties(LLVMSupport PROPERTIES
  INTERFACE_LINK_LIBRARIES "LLVMDemangle;${ZLIB_ARCHIVE};${ZSTD};Threads::Threads;m;${CMAKE_DL_LIBS}")
target_link_libraries(tegula_options INTERFACE nlohmann_json::nlohmann_json Boost::headers)
