# SPDX-License-Identifier: Apache-2.0
# The tests of the device room. Included by this folder's list.
foreach(test visible_devices device_chain recorded_devices dynamo_devices locate_device nvidia_smi)
  numapool_add_test(NAME ${test}_test LABEL unit SOURCES ${CMAKE_CURRENT_LIST_DIR}/${test}_test.cpp)
  target_compile_definitions(${test}_test PRIVATE
    NUMAPOOL_TEST_MACHINES="${PROJECT_SOURCE_DIR}/tests/machines")
endforeach()

numapool_add_test(NAME device_cuda_test LABEL unit
                  SOURCES ${CMAKE_CURRENT_LIST_DIR}/device_cuda_test.cpp LIBS fake_cuda_files)
numapool_add_test(NAME doctor_test LABEL unit LIBS numapool_fakes
                  SOURCES ${CMAKE_CURRENT_LIST_DIR}/doctor_test.cpp)
