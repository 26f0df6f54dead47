# SPDX-License-Identifier: Apache-2.0
# The memory and pool rooms, on simulated machines. Included by this folder's list.
set(fakes numapool_fakes)
numapool_add_test(NAME memory_test LABEL unit LIBS ${fakes} SOURCES
  admission_test.cpp allocation_pin_test.cpp allocation_test.cpp buffer_test.cpp placement_test.cpp
  registration_test.cpp)
