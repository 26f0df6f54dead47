# SPDX-License-Identifier: Apache-2.0
#
# Finds what the benchmarks compare numapool with, beside what dependencies.cmake finds. All of it is optional, and
# third_party/install peers boost-thread rust installs it. Gives, for what is found,
#
#   peer::hwloc, peer::memkind   to be linked
#   peer::jemalloc               the archive of position-independent code; see bench/jemalloc_peer.hpp for why
#   peer::mimalloc               headers alone; the library's path is in NUMAPOOL_MIMALLOC_LIBRARY, to be loaded
#   TBB::tbb, TBB::tbbmalloc     by oneTBB's own package
#   Boost::thread                of the version that the headers have
#   NUMAPOOL_CARGO               that program, with NUMAPOOL_RUST_VERSION, what its compiler says of itself

function(numapool_find_peer name header library)
  string(TOUPPER ${name} upper)
  find_path(NUMAPOOL_${upper}_INCLUDE_DIR ${header})
  find_library(NUMAPOOL_${upper}_LIBRARY ${library})
  mark_as_advanced(NUMAPOOL_${upper}_INCLUDE_DIR NUMAPOOL_${upper}_LIBRARY)
  if(NUMAPOOL_${upper}_INCLUDE_DIR AND NUMAPOOL_${upper}_LIBRARY)
    add_library(peer::${name} UNKNOWN IMPORTED)
    set_target_properties(peer::${name} PROPERTIES
      IMPORTED_LOCATION "${NUMAPOOL_${upper}_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${NUMAPOOL_${upper}_INCLUDE_DIR}")
  endif()
endfunction()

numapool_find_peer(hwloc hwloc.h hwloc)
numapool_find_peer(memkind memkind.h memkind)
numapool_find_peer(jemalloc jemalloc/jemalloc.h jemalloc_pic)
numapool_find_peer(mimalloc mimalloc.h mimalloc)
find_package(TBB CONFIG QUIET)
find_package(boost_thread ${Boost_VERSION} EXACT CONFIG QUIET)

# `cargo` may stand there without a compiler behind it.
find_program(NUMAPOOL_CARGO cargo)
find_program(NUMAPOOL_RUSTC rustc)
mark_as_advanced(NUMAPOOL_CARGO NUMAPOOL_RUSTC)
set(NUMAPOOL_RUST_VERSION "")
if(NUMAPOOL_CARGO AND NUMAPOOL_RUSTC)
  execute_process(COMMAND ${NUMAPOOL_RUSTC} --version
    OUTPUT_VARIABLE NUMAPOOL_RUST_VERSION OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
