# SPDX-License-Identifier: Apache-2.0
#
# Installs the library, its headers, the command line where it is built, and the CMake package `numapool`.

include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

set(numapool_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/numapool)

install(TARGETS numapool EXPORT numapool-targets FILE_SET HEADERS)
if(TARGET numapool_cli)
  install(TARGETS numapool_cli)
endif()
install(EXPORT numapool-targets NAMESPACE numapool:: DESTINATION ${numapool_package_dir})

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/numapool-config.cmake.in
  ${PROJECT_BINARY_DIR}/numapool-config.cmake
  INSTALL_DESTINATION ${numapool_package_dir}
  NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(  # before 1.0 a minor version may break
  ${PROJECT_BINARY_DIR}/numapool-config-version.cmake COMPATIBILITY SameMinorVersion)
install(
  FILES
    ${PROJECT_BINARY_DIR}/numapool-config.cmake
    ${PROJECT_BINARY_DIR}/numapool-config-version.cmake
    ${CMAKE_CURRENT_LIST_DIR}/FindNuma.cmake
  DESTINATION ${numapool_package_dir})
