# SPDX-License-Identifier: Apache-2.0
# The tests of the NVML loader and of the program runner, and the fakes that they use. Included by this folder's list.
foreach(fake fake_nvml fake_nvidia_smi)
  if(NOT TARGET ${fake}_files)
    add_subdirectory(${PROJECT_SOURCE_DIR}/tests/support/${fake} ${PROJECT_BINARY_DIR}/tests/support/${fake})
  endif()
endforeach()

numapool_add_test(NAME nvml_test LABEL unit SOURCES nvml_test.cpp LIBS fake_nvml_files ${CMAKE_DL_LIBS})
numapool_add_test(NAME programs_test LABEL unit SOURCES programs_test.cpp programs_limits_test.cpp
  LIBS fake_nvidia_smi_files)
numapool_add_test(NAME device_tools_test LABEL unit SOURCES device_tools_test.cpp
  LIBS fake_nvml_files fake_nvidia_smi_files ${CMAKE_DL_LIBS})
