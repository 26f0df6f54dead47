# SPDX-License-Identifier: Apache-2.0
#
# The one place where numapool's dependencies are found. The top CMakeLists.txt includes it after project() and the
# options; third_party/install installs what is missing, and third_party/README.md says what each is for.
#
# Gives Boost::headers, Threads::Threads, numa::numa; with NUMAPOOL_CLI CLI11::CLI11; with that or NUMAPOOL_TESTS
# nlohmann_json::nlohmann_json; with NUMAPOOL_TESTS GTest::gtest, GTest::gmock and their _main; with NUMAPOOL_BENCH
# benchmark::benchmark. With NUMAPOOL_CLANG_TIDY, clang-tidy runs beside the compiler.

list(PREPEND CMAKE_MODULE_PATH "${CMAKE_CURRENT_LIST_DIR}")

# Where third_party/install unpacks a Boost that would conflict with the installed one. It goes first, so that the older
# one is not taken for it.
cmake_path(SET numapool_unpacked NORMALIZE "${CMAKE_CURRENT_LIST_DIR}/../../build/third_party/usr")
if(EXISTS "${numapool_unpacked}/include/boost/version.hpp")
  list(PREPEND CMAKE_PREFIX_PATH "${numapool_unpacked}")
endif()

if(POLICY CMP0167)  # CMake 3.30: Boost by its own package files, which every Boost since 1.70 brings
  cmake_policy(SET CMP0167 NEW)
endif()

# A macro and not a function, for what some packages say in variables.
macro(numapool_find package)
  find_package(${package} ${ARGN} QUIET)
  if(NOT ${package}_FOUND)
    list(JOIN ARGN " " numapool_wanted)
    message(FATAL_ERROR
      "numapool needs ${package} ${numapool_wanted} and does not find it: run third_party/install.")
  endif()
endmacro()

# A compiler looks into /usr/local/include whatever package was found: what counts is the version it gets.
function(numapool_check_boost)
  include(CheckCXXSourceCompiles)
  set(CMAKE_REQUIRED_LIBRARIES Boost::headers)
  set(CMAKE_REQUIRED_QUIET ON)
  check_cxx_source_compiles([[
    #include <boost/version.hpp>
    #if BOOST_VERSION < 108100
    #error "too old"
    #endif
    int main() {}
  ]] numapool_boost_is_new_enough)
  if(NOT numapool_boost_is_new_enough)
    unset(numapool_boost_is_new_enough CACHE)  # so that it is tried again once the reason is gone
    message(FATAL_ERROR "numapool needs Boost 1.81, but #include <boost/version.hpp> gives an "
      "older one, which stands before ${Boost_DIR}: run third_party/install.")
  endif()
endfunction()

numapool_find(Threads)
numapool_find(Boost 1.81)
numapool_check_boost()
numapool_find(Numa)
if(NUMAPOOL_CLI)
  numapool_find(CLI11 CONFIG)
endif()
if(NUMAPOOL_CLI OR NUMAPOOL_TESTS)
  numapool_find(nlohmann_json CONFIG)
endif()
if(NUMAPOOL_TESTS)
  numapool_find(GTest CONFIG)
endif()
if(NUMAPOOL_BENCH)
  numapool_find(benchmark CONFIG)
endif()

# A compiler cache where there is one; a project that takes numapool in decides for itself.
if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(NUMAPOOL_CCACHE ccache)
  mark_as_advanced(NUMAPOOL_CCACHE)
  if(NUMAPOOL_CCACHE)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${NUMAPOOL_CCACHE}")
  endif()
endif()

if(NUMAPOOL_CLANG_TIDY)
  find_program(NUMAPOOL_CLANG_TIDY_PROGRAM clang-tidy REQUIRED)
  mark_as_advanced(NUMAPOOL_CLANG_TIDY_PROGRAM)
  set(CMAKE_CXX_CLANG_TIDY "${NUMAPOOL_CLANG_TIDY_PROGRAM};--quiet")
endif()
