# SPDX-License-Identifier: Apache-2.0
# The built program as a child process.
if(TARGET numapool_cli)
  foreach(topic manners machines held_buffers surroundings)
    numapool_add_test(NAME cli_${topic}_test LABEL system
                      SOURCES ${CMAKE_CURRENT_LIST_DIR}/cli_${topic}_test.cpp
                              ${CMAKE_CURRENT_LIST_DIR}/cli_child.cpp
                      ENV NUMAPOOL_CLI=$<TARGET_FILE:numapool_cli>
                          NUMAPOOL_MACHINES=${PROJECT_SOURCE_DIR}/tests/machines)
    add_dependencies(cli_${topic}_test numapool_cli)
  endforeach()
  numapool_add_test(NAME threads_denied_test LABEL system SOURCES threads_denied_test.cpp cli_child.cpp
                    ENV NUMAPOOL_CLI=$<TARGET_FILE:numapool_cli>)
  add_dependencies(threads_denied_test numapool_cli)
endif()
