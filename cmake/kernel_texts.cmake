# The texts of kernels/*.py as rows {"name", R"(text)"sv} of a C++ table that kernels/library.cpp includes. Run as a
# script (-P, with TEXTS and TABLE) it writes the table; included, it says when.
if(CMAKE_SCRIPT_MODE_FILE)
  set(rows "")
  foreach(text ${TEXTS})
    file(READ ${text} content)
    get_filename_component(name ${text} NAME)
    string(APPEND rows "{\"${name}\", R\"tegula(${content})tegula\"sv},\n")
  endforeach()
  file(WRITE ${TABLE} "${rows}")
  return()
endif()

file(GLOB texts CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/kernels/*.py)
set(table ${PROJECT_BINARY_DIR}/kernels/kernel_texts.inc)
add_custom_command(OUTPUT ${table}
  COMMAND ${CMAKE_COMMAND} "-DTEXTS=${texts}" -DTABLE=${table} -P ${CMAKE_CURRENT_LIST_FILE}
  DEPENDS ${texts} ${CMAKE_CURRENT_LIST_FILE} COMMENT "Embedding the kernel library's texts" VERBATIM)
target_sources(tegula_kernels PRIVATE ${table})
target_include_directories(tegula_kernels PRIVATE ${PROJECT_BINARY_DIR}/kernels)
