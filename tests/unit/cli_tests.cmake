# SPDX-License-Identifier: Apache-2.0
# The command line's pure parts; nothing to test where it is not built.
if(TARGET numapool_cli_parts)
  foreach(topic near_match quantity topology allocation devices doctor)
    numapool_add_test(NAME cli_${topic}_test LABEL unit
                      SOURCES ${CMAKE_CURRENT_LIST_DIR}/cli_${topic}_test.cpp
                      LIBS numapool_cli_parts)
  endforeach()
  target_compile_definitions(cli_devices_test PRIVATE
    NUMAPOOL_TEST_MACHINES="${PROJECT_SOURCE_DIR}/tests/machines")
endif()
