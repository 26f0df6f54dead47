# SPDX-License-Identifier: Apache-2.0
# The blocks room, on simulated machines. Included by this folder's list.
numapool_add_test(NAME buffer_cache_test LABEL unit LIBS numapool_fakes SOURCES
  async_take_test.cpp buffer_cache_test.cpp cache_parts_test.cpp cache_placement_test.cpp)
