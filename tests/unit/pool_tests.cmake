# SPDX-License-Identifier: Apache-2.0
# The memory and pool rooms, on simulated machines. Included by this folder's list.
numapool_add_test(NAME memory_test LABEL unit LIBS numapool_fakes SOURCES
  admission_test.cpp allocation_pin_test.cpp allocation_test.cpp buffer_test.cpp placement_test.cpp
  registration_test.cpp)
numapool_add_test(NAME node_workers_test LABEL unit LIBS numapool_fakes SOURCES node_workers_test.cpp)
