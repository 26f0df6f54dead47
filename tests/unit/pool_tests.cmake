# SPDX-License-Identifier: Apache-2.0
# The memory and pool rooms, on simulated machines. Included by this folder's list.
numapool_add_test(NAME memory_test LABEL unit LIBS numapool_fakes SOURCES
  admission_test.cpp allocation_pages_test.cpp allocation_pin_test.cpp allocation_test.cpp buffer_test.cpp placement_test.cpp
  registration_test.cpp)
# A program of its own: there is one release queue a process.
numapool_add_test(NAME release_queue_test LABEL unit LIBS numapool_fakes SOURCES release_queue_test.cpp)
numapool_add_test(NAME chunked_registration_test LABEL unit LIBS numapool_fakes SOURCES chunked_registration_test.cpp)
numapool_add_test(NAME streaming_zero_test LABEL unit SOURCES streaming_zero_test.cpp)
numapool_add_test(NAME job_queue_test LABEL unit SOURCES job_queue_test.cpp)
numapool_add_test(NAME node_workers_test LABEL unit LIBS numapool_fakes SOURCES node_workers_test.cpp)
numapool_add_test(NAME worker_pool_test LABEL unit LIBS numapool_fakes SOURCES
  pinned_storage_test.cpp refusal_test.cpp worker_pool_end_test.cpp worker_pool_test.cpp)
# A program of its own: it counts what operator new is asked for.
numapool_add_test(NAME executor_test LABEL unit LIBS numapool_fakes SOURCES executor_test.cpp)
numapool_add_test(NAME async_test LABEL unit LIBS numapool_fakes SOURCES async_test.cpp interruption_test.cpp)
numapool_add_test(NAME fault_injection_test LABEL unit LIBS numapool_fakes SOURCES fault_injection_test.cpp)
