# SPDX-License-Identifier: Apache-2.0
#
# Finds libnuma, which ships no CMake package of its own: the target numa::numa, and Numa_FOUND. It is installed beside
# numapool-config.cmake, since whoever links a static numapool needs it too.

find_path(Numa_INCLUDE_DIR numaif.h)
find_library(Numa_LIBRARY numa)
mark_as_advanced(Numa_INCLUDE_DIR Numa_LIBRARY)

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(Numa REQUIRED_VARS Numa_LIBRARY Numa_INCLUDE_DIR)

if(Numa_FOUND AND NOT TARGET numa::numa)
  add_library(numa::numa UNKNOWN IMPORTED)
  set_target_properties(numa::numa PROPERTIES
    IMPORTED_LOCATION "${Numa_LIBRARY}"
    INTERFACE_INCLUDE_DIRECTORIES "${Numa_INCLUDE_DIR}")
endif()
