# SPDX-License-Identifier: Apache-2.0
# Buffers and workers on this kernel.
add_executable(allocate_scenario allocate_scenario.cpp)
target_link_libraries(allocate_scenario PRIVATE numapool::numapool numapool_warnings)
target_include_directories(allocate_scenario PRIVATE ${PROJECT_SOURCE_DIR}/tests)
set_target_properties(allocate_scenario PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)

numapool_add_test(NAME allocate_test LABEL system SOURCES allocate_test.cpp)
numapool_add_test(NAME real_buffer_cache_test LABEL system SOURCES buffer_cache_test.cpp LIBS numapool_page_oracle)
numapool_add_test(NAME idle_test LABEL system SOURCES idle_test.cpp)
numapool_add_test(NAME fork_test LABEL system SOURCES fork_test.cpp)
numapool_add_test(NAME real_placement_test LABEL system SOURCES placement_test.cpp)
target_compile_definitions(real_placement_test PRIVATE ALLOCATE_SCENARIO="$<TARGET_FILE:allocate_scenario>")
add_dependencies(real_placement_test allocate_scenario)
numapool_add_test(NAME real_fault_injection_test LABEL system SOURCES fault_injection_test.cpp
                  LIBS numapool_fakes fake_cuda_files)

# Programs whose exit status is the verdict: what they test runs after main().
add_executable(exit_scenario exit_scenario.cpp)
target_link_libraries(exit_scenario PRIVATE numapool::numapool numapool_warnings)
set_target_properties(exit_scenario PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
foreach(before unused used)
  add_test(NAME exit_${before}_test COMMAND exit_scenario ${before})
  set_tests_properties(exit_${before}_test PROPERTIES LABELS system TIMEOUT 120)
endforeach()
