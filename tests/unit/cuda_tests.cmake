# SPDX-License-Identifier: Apache-2.0
# The tests of the CUDA loader, of the registrar and of the fakes that stand in for CUDA. Included by this folder's list.
if(NOT TARGET fake_cuda_state)
  add_subdirectory(${PROJECT_SOURCE_DIR}/tests/support/fake_cuda ${PROJECT_BINARY_DIR}/tests/support/fake_cuda)
endif()

# A program that the tests start where a law is about a whole process: what it has loaded, its environment, its end.
foreach(program cuda_scenario cuda_scenario_linked)
  add_executable(${program} ${CMAKE_CURRENT_LIST_DIR}/cuda_scenario.cpp)
  target_include_directories(${program} PRIVATE ${PROJECT_SOURCE_DIR}/src)
  target_link_libraries(${program} PRIVATE numapool::numapool numapool_warnings ${CMAKE_DL_LIBS})
  set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
endforeach()
target_link_libraries(cuda_scenario_linked PRIVATE fake_cudart_linked)
set_target_properties(cuda_scenario_linked PROPERTIES ENABLE_EXPORTS ON)

# The toolkit's real runtime and headers, where there are any. Nothing but these tests looks for them.
find_path(NUMAPOOL_CUDA_INCLUDE cuda_runtime_api.h HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES include)
find_library(NUMAPOOL_REAL_CUDART cudart HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES lib64 lib)
mark_as_advanced(NUMAPOOL_CUDA_INCLUDE NUMAPOOL_REAL_CUDART)

numapool_add_test(NAME fake_cuda_test LABEL unit SOURCES fake_cuda_test.cpp LIBS fake_cudart fake_libcuda)
numapool_add_test(NAME cuda_error_test LABEL unit SOURCES cuda_error_test.cpp)
numapool_add_test(NAME cuda_library_test LABEL unit SOURCES cuda_library_test.cpp LIBS fake_cuda_files)
numapool_add_test(NAME cuda_registrar_test LABEL unit SOURCES cuda_process_test.cpp cuda_registrar_test.cpp LIBS fake_cuda_files)
numapool_add_test(NAME initialized_devices_test LABEL unit SOURCES initialized_devices_test.cpp LIBS fake_cuda_files)
numapool_add_test(NAME driver_turns_test LABEL unit SOURCES driver_turns_test.cpp LIBS fake_cuda_files)
foreach(test cuda_library_test cuda_registrar_test initialized_devices_test)
  target_compile_definitions(${test} PRIVATE
    CUDA_SCENARIO="$<TARGET_FILE:cuda_scenario>" CUDA_SCENARIO_LINKED="$<TARGET_FILE:cuda_scenario_linked>"
    REAL_CUDART="$<$<BOOL:${NUMAPOOL_REAL_CUDART}>:${NUMAPOOL_REAL_CUDART}>")
  add_dependencies(${test} cuda_scenario cuda_scenario_linked fake_cuda_files)
endforeach()
if(NUMAPOOL_CUDA_INCLUDE)
  numapool_add_test(NAME cuda_api_header_test LABEL unit SOURCES cuda_api_header_test.cpp)
  target_include_directories(cuda_api_header_test SYSTEM PRIVATE ${NUMAPOOL_CUDA_INCLUDE})
endif()
