# The install tree: lib/libtegula.so, bin/tegula, include/tegula/..., share/tegula/kernels, lib/cmake/tegula, and the
# pages in share/doc/tegula.
include(CMakePackageConfigHelpers)

# Public headers are these and whatever they include: the set follows from the sources.
function(tegula_header_closure result)
  set(todo ${ARGN})
  set(done "")
  while(todo)
    list(POP_FRONT todo header)
    if(header IN_LIST done OR NOT EXISTS ${PROJECT_SOURCE_DIR}/${header})
      continue()
    endif()
    list(APPEND done ${header})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${header})
    file(STRINGS ${PROJECT_SOURCE_DIR}/${header} includes REGEX "^#[ ]*include \"")
    foreach(line ${includes})
      string(REGEX REPLACE "^#[ ]*include \"([^\"]+)\".*" "\\1" included "${line}")
      list(APPEND todo ${included})
    endforeach()
  endwhile()
  set(${result} ${done} PARENT_SCOPE)
endfunction()

set(roots runtime/package/package.h runtime/cuda_device.h runtime/sealing.h runtime/stream.h)
if(TEGULA_COMPILER)
  list(APPEND roots dsl/tegula.h dsl/debug.h dsl/explain.h dsl/kernel_list.h dsl/package_writer.h kernels/kernels.h
    runtime/store/image_cache.h runtime/tuning/tuning_store.h)
endif()
tegula_header_closure(public_headers ${roots})
foreach(header ${public_headers})
  get_filename_component(folder ${header} DIRECTORY)
  install(FILES ${header} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tegula/${folder})
endforeach()

# <tegula/tegula.h> is C; the Python package looks for the library from where it stands.
install(FILES bindings/tegula_runtime.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tegula)
if(TEGULA_COMPILER)
  install(FILES bindings/tegula.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/tegula)
  install(DIRECTORY bindings/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula/python
    FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
  install(DIRECTORY kernels/ DESTINATION ${CMAKE_INSTALL_DATADIR}/tegula/kernels
    FILES_MATCHING PATTERN "*.py" PATTERN __pycache__ EXCLUDE)
endif()
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY docs DESTINATION ${CMAKE_INSTALL_DOCDIR})  # as README.md links to them
install(DIRECTORY tutorials DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN CMakeLists.txt EXCLUDE)
install(FILES tools/svg_plot.h DESTINATION ${CMAKE_INSTALL_DOCDIR}/tools)  # which tutorials include

install(TARGETS ${TEGULA_LIBRARIES} EXPORT tegulaTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(EXPORT tegulaTargets NAMESPACE tegula:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
configure_package_config_file(cmake/tegulaConfig.cmake.in ${PROJECT_BINARY_DIR}/cmake/tegulaConfig.cmake
  INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cmake/tegulaConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cmake/tegulaConfig.cmake ${PROJECT_BINARY_DIR}/cmake/tegulaConfigVersion.cmake
  DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/tegula)

# pkg-config: tegula for programs with the compiler, tegula-runtime for those of packages alone.
file(RELATIVE_PATH TEGULA_PC_PREFIX "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")  # as the tree may move
set(pc_names tegula_runtime)
if(TEGULA_COMPILER)
  list(PREPEND pc_names tegula)
endif()
foreach(name ${pc_names})
  string(REPLACE "_" "-" TEGULA_PC_NAME ${name})
  set(TEGULA_PC_LIBRARY ${name})
  set(TEGULA_PC_REQUIRES "")
  set(TEGULA_PC_PRIVATE "Libs.private: -lstdc++ -lm -ldl -pthread")  # of the archive, for programs in C
  if(name STREQUAL "tegula")
    set(TEGULA_PC_PRIVATE "")
    set(TEGULA_PC_REQUIRES "Requires: tegula-runtime = ${PROJECT_VERSION}")
  endif()
  configure_file(cmake/tegula.pc.in ${PROJECT_BINARY_DIR}/${TEGULA_PC_NAME}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${TEGULA_PC_NAME}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

# What a shell and `man` know of the command, where that was built.
install(FILES ${PROJECT_BINARY_DIR}/tegula.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/tegula.bash DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
  RENAME tegula OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/tegula.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/tegula.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions RENAME _tegula OPTIONAL)
install(FILES ${PROJECT_BINARY_DIR}/tegula.zsh DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions RENAME _tegula
  OPTIONAL)  # Debian's zsh looks here below /usr, and in the other folder below /usr/local

# `cpack` in the build folder makes a .deb of all that is installed.
if(PROJECT_IS_TOP_LEVEL)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME tegula)
  set(CPACK_PACKAGE_CONTACT "Tegula <tegula@localhost>")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${PROJECT_DESCRIPTION}")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION devel)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)  # by dpkg-shlibdeps: the versions of libc and libstdc++ that the libraries were linked with
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS_PRIVATE_DIRS ${PROJECT_BINARY_DIR})
  set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "g++")
  include(CPack)
endif()
