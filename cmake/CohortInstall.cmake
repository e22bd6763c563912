# What `cmake --install` gives: the program, the libraries, the public headers, and the CMake package `cohort` with the
# target cohort::cohort. tests/install_test.sh checks it from outside.

add_library(cohort INTERFACE)
target_link_libraries(cohort INTERFACE cohort_cli)
install(TARGETS cohort EXPORT cohort-targets)
if(TARGET cohort_program)
  install(TARGETS cohort_program)
endif()

# A header is public unless a comment in it says "Private to MODULE." or "For tests only"; scripts/check_borders.py has the
# same rule. Read at install time, so that a header that changes sides needs no new configuration.
set(COHORT_HEADERS_CODE [[
file(GLOB_RECURSE headers RELATIVE "@PROJECT_SOURCE_DIR@/src" "@PROJECT_SOURCE_DIR@/src/*.h")
foreach(header IN LISTS headers)
  file(READ "@PROJECT_SOURCE_DIR@/src/${header}" text)
  if(NOT text MATCHES "//[^\n]*(Private to[ \n/]+[a-z]+\\.|For tests only)")
    cmake_path(GET header PARENT_PATH folder)
    file(INSTALL "@PROJECT_SOURCE_DIR@/src/${header}"
      DESTINATION "${CMAKE_INSTALL_PREFIX}/@CMAKE_INSTALL_INCLUDEDIR@/cohort/${folder}")
  endif()
endforeach()
]])
string(CONFIGURE "${COHORT_HEADERS_CODE}" COHORT_HEADERS_CODE @ONLY)
install(CODE "${COHORT_HEADERS_CODE}")

set(COHORT_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cohort)
configure_package_config_file(cmake/cohort-config.cmake.in ${PROJECT_BINARY_DIR}/cohort-config.cmake
  INSTALL_DESTINATION ${COHORT_PACKAGE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cohort-config-version.cmake COMPATIBILITY SameMinorVersion)
install(EXPORT cohort-targets NAMESPACE cohort:: DESTINATION ${COHORT_PACKAGE_DIR})
install(FILES ${PROJECT_BINARY_DIR}/cohort-config.cmake ${PROJECT_BINARY_DIR}/cohort-config-version.cmake
  cmake/FindDnnl.cmake cmake/FindXxhash.cmake cmake/FindHwloc.cmake DESTINATION ${COHORT_PACKAGE_DIR})
