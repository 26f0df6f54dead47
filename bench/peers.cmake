# SPDX-License-Identifier: Apache-2.0
# numapool_peers_bench: each peer is in it or not (NUMAPOOL_PEER_NAME is 1 or 0), as third_party/cmake/peers.cmake
# found it.
add_executable(numapool_peers_bench
  bench_program.cpp
  dispatch_peers.cpp
  dispatch_peers_bench.cpp
  dispatch_shapes.cpp
  general_allocator_peers.cpp
  memory_peers_bench.cpp
  node_library_peers.cpp
  peers_bench.cpp)
target_link_libraries(numapool_peers_bench
  PRIVATE numapool_bench_support benchmark::benchmark numa::numa ${CMAKE_DL_LIBS} numapool_warnings)

function(numapool_add_peer name library)
  if(TARGET ${library})
    target_link_libraries(numapool_peers_bench PRIVATE ${library})
  endif()
  target_compile_definitions(numapool_peers_bench PRIVATE NUMAPOOL_PEER_${name}=$<TARGET_EXISTS:${library}>)
endfunction()

# jemalloc's own names stay inside a library of ours (jemalloc_peer.hpp).
if(TARGET peer::jemalloc)
  add_library(numapool_jemalloc_peer SHARED jemalloc_peer.cpp)
  set_target_properties(numapool_jemalloc_peer PROPERTIES CXX_VISIBILITY_PRESET hidden)
  target_link_libraries(numapool_jemalloc_peer
    PRIVATE peer::jemalloc Threads::Threads ${CMAKE_DL_LIBS} numapool_warnings)
  target_link_options(numapool_jemalloc_peer PRIVATE -Wl,--exclude-libs,ALL)
endif()

# Its headers alone are used at build time; the library is loaded.
if(TARGET peer::mimalloc)
  add_library(numapool_mimalloc_headers INTERFACE)
  target_include_directories(numapool_mimalloc_headers SYSTEM INTERFACE ${NUMAPOOL_MIMALLOC_INCLUDE_DIR})
  target_compile_definitions(numapool_mimalloc_headers
    INTERFACE NUMAPOOL_MIMALLOC_LIBRARY="${NUMAPOOL_MIMALLOC_LIBRARY}")
endif()

# The original's shape in Rust: cargo says itself what is up to date. It fetches nothing.
if(NUMAPOOL_RUST_VERSION)
  set(crate ${CMAKE_CURRENT_SOURCE_DIR}/rust_original)
  set(rust_folder ${CMAKE_CURRENT_BINARY_DIR}/rust_original)
  set(rust_library ${rust_folder}/release/libnumapool_rust_original.so)
  add_custom_command(OUTPUT ${rust_library}
    COMMAND ${NUMAPOOL_CARGO} build --release --offline --locked --quiet
      --manifest-path ${crate}/Cargo.toml --target-dir ${rust_folder}
    COMMAND ${CMAKE_COMMAND} -E touch ${rust_library}
    DEPENDS ${crate}/Cargo.toml ${crate}/Cargo.lock ${crate}/src/lib.rs ${crate}/src/machine.rs
    COMMENT "Building the original's shape in Rust"
    VERBATIM)
  add_custom_target(numapool_rust_build DEPENDS ${rust_library})
  add_library(numapool_rust_original STATIC rust_original.cpp)
  add_dependencies(numapool_rust_original numapool_rust_build)
  target_compile_definitions(numapool_rust_original
    INTERFACE NUMAPOOL_RUST_VERSION="${NUMAPOOL_RUST_VERSION}")
  target_link_libraries(numapool_rust_original
    PUBLIC numapool_bench_support ${rust_library} PRIVATE numapool_warnings)
  target_link_options(numapool_rust_original INTERFACE "-Wl,-rpath,${rust_folder}/release")
endif()

numapool_add_peer(HWLOC peer::hwloc)
numapool_add_peer(MEMKIND peer::memkind)
numapool_add_peer(MIMALLOC numapool_mimalloc_headers)
numapool_add_peer(JEMALLOC numapool_jemalloc_peer)
numapool_add_peer(TBB TBB::tbb)
numapool_add_peer(TBBMALLOC TBB::tbbmalloc)
numapool_add_peer(BOOST_THREAD Boost::thread)
numapool_add_peer(RUST numapool_rust_original)
