// SPDX-License-Identifier: Apache-2.0
//
// Goal: the runtime is found in the promised order, what was tried is said, and looking initialises nothing.
// Method: the real loader on the fake libraries, by path in this process; where the law is about a whole process (what
// it has loaded, LD_LIBRARY_PATH, NUMAPOOL_CUDART), in a fresh one that prints what it found.

#include "platform/cuda_library.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <thread>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cuda_scenario_run.hpp"
#include "fake_cuda_control.h"

namespace numapool::platform {
namespace {

using test::run_scenario;
using testing::EndsWith;
using testing::HasSubstr;

const std::string folder = FAKE_CUDA_FOLDER;

cuda_search search_for(std::vector<std::string> runtimes, std::string driver = {}) {
  cuda_search search;
  search.in_process = false;
  search.runtime_names = std::move(runtimes);
  search.driver_name = std::move(driver);
  return search;
}

std::string source(library_source which) {
  return std::to_string(static_cast<int>(which));
}

TEST(CudaLibrary, LookingInitialisesNothing) {
  fake_cuda_reset();
  const auto runtime = find_runtime(search_for({FAKE_CUDART}));
  const auto driver = find_driver(search_for({}, FAKE_LIBCUDA));
  ASSERT_NE(runtime.library, nullptr) << runtime.reason;
  ASSERT_NE(driver.library, nullptr) << driver.reason;
  EXPECT_EQ(runtime.library->version, 13000);
  EXPECT_EQ(runtime.library->path, FAKE_CUDART);
  EXPECT_EQ(driver.library->path, FAKE_LIBCUDA);
  EXPECT_EQ(fake_cuda_initialized(), 0);
  EXPECT_EQ(fake_cuda_count(nullptr), 0U);
}

TEST(CudaLibrary, RefusesALibraryThatLacksASymbolAndNamesIt) {
  const auto runtime = find_runtime(search_for({FAKE_CUDART_INCOMPLETE}));
  EXPECT_EQ(runtime.library, nullptr);
  EXPECT_THAT(runtime.reason, EndsWith("has no cudaHostUnregister"));
  const auto driver = find_driver(search_for({}, FAKE_LIBCUDA_INCOMPLETE));
  EXPECT_EQ(driver.library, nullptr);
  EXPECT_THAT(driver.reason, EndsWith("has no cuMemHostUnregister"));
}

TEST(CudaLibrary, TakesTheNextNameAfterOneThatCannotBeUsed) {
  const auto runtime =
      find_runtime(search_for({"/nonexistent/libcudart.so.13", FAKE_CUDART_INCOMPLETE, FAKE_CUDART_12}));
  ASSERT_NE(runtime.library, nullptr);
  EXPECT_EQ(runtime.library->path, FAKE_CUDART_12);
}

TEST(CudaLibrary, SaysOfEachNameWhyItWasNotTaken) {
  const auto runtime = find_runtime(search_for({"/nonexistent/libcudart.so.13", "/nonexistent/libcudart.so.12"}));
  EXPECT_EQ(runtime.library, nullptr);
  EXPECT_EQ(runtime.reason, "/nonexistent/libcudart.so.13: not found; /nonexistent/libcudart.so.12: not found");
}

TEST(CudaLibrary, OverrideThatCannotBeUsedEndsTheSearch) {
  cuda_search search = search_for({FAKE_CUDART});
  search.override_name = "/nonexistent/libcudart.so";
  const auto missing = find_runtime(search);
  EXPECT_EQ(missing.library, nullptr);
  EXPECT_EQ(missing.reason,
            "NUMAPOOL_CUDART names a runtime that cannot be used: /nonexistent/libcudart.so: not found");
  search.override_name = "/etc/passwd";
  EXPECT_THAT(find_runtime(search).reason, HasSubstr("/etc/passwd: "));
  search.override_name = FAKE_CUDART_INCOMPLETE;
  EXPECT_THAT(find_runtime(search).reason, EndsWith("has no cudaHostUnregister"));
}

TEST(CudaLibrary, FailureIsNotKeptAndSuccessIs) {
  const auto link = std::filesystem::temp_directory_path() / ("numapool-cudart-" + std::to_string(::getpid()) + ".so");
  cuda_libraries libraries{search_for({link})};
  std::string reason;
  ASSERT_EQ(libraries.runtime(reason), nullptr);
  EXPECT_THAT(reason, HasSubstr("not found"));
  std::filesystem::create_symlink(FAKE_CUDART, link);
  const runtime_library* found = libraries.runtime(reason);
  std::filesystem::remove(link);
  ASSERT_NE(found, nullptr) << reason;
  EXPECT_EQ(libraries.runtime(reason), found);
}

TEST(CudaLibrary, ThreadsThatLookAtOnceFindOneLibrary) {
  cuda_libraries libraries{search_for({FAKE_CUDART}, FAKE_LIBCUDA)};
  std::vector<const void*> found(16);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      std::string reason;
      found[i] = i % 2 == 0 ? static_cast<const void*>(libraries.runtime(reason)) : libraries.driver(reason);
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    EXPECT_NE(found[i], nullptr);
    EXPECT_EQ(found[i], found[i % 2]);
  }
}

// ---- Laws about a whole process.

TEST(CudaLibraryProcess, SearchTakesTheNewestRuntimeFirst) {
  const std::string path = "LD_LIBRARY_PATH='" + folder + "/runtime12:" + folder + "/runtime'";
  const auto found = run_scenario(path, CUDA_SCENARIO, "find");
  EXPECT_EQ(found.status, 0) << found.text;
  EXPECT_EQ(found.value("path"), FAKE_CUDART);
  EXPECT_EQ(found.value("source"), source(library_source::search));
}

TEST(CudaLibraryProcess, RuntimeOfTheProcessComesBeforeAllOthers) {
  const std::string environment = "LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_CUDART='" FAKE_CUDART "'";
  const auto found = run_scenario(environment, CUDA_SCENARIO, "find '" FAKE_CUDART_12 "'");
  EXPECT_EQ(found.value("path"), FAKE_CUDART_12) << found.text;
  EXPECT_EQ(found.value("source"), source(library_source::in_process));
}

TEST(CudaLibraryProcess, FindsALoadedRuntimeThatAWheelHasRenamed) {
  const std::string environment = "LD_LIBRARY_PATH='" + folder + "/runtime'";
  const auto found = run_scenario(environment, CUDA_SCENARIO, "find '" FAKE_CUDART_WHEEL "'");
  EXPECT_EQ(found.value("path"), FAKE_CUDART_WHEEL) << found.text;
  EXPECT_EQ(found.value("source"), source(library_source::in_process));
}

TEST(CudaLibraryProcess, FindsARuntimeThatIsLinkedIntoTheProgram) {
  const std::string environment = "LD_LIBRARY_PATH='" + folder + "/runtime'";
  const auto found = run_scenario(environment, CUDA_SCENARIO_LINKED, "find");
  EXPECT_THAT(found.value("path"), HasSubstr("cuda_scenario_linked")) << found.text;
  EXPECT_EQ(found.value("source"), source(library_source::in_process));
}

TEST(CudaLibraryProcess, OverrideComesBeforeTheSearch) {
  const std::string environment = "LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_CUDART='" FAKE_CUDART_12 "'";
  const auto found = run_scenario(environment, CUDA_SCENARIO, "find");
  EXPECT_EQ(found.value("path"), FAKE_CUDART_12) << found.text;
  EXPECT_EQ(found.value("source"), source(library_source::override_name));
}

TEST(CudaLibraryProcess, OverrideThatCannotBeLoadedIsReportedAndNothingElseTried) {
  const std::string environment =
      "LD_LIBRARY_PATH='" + folder + "/runtime:" + folder + "/driver' NUMAPOOL_CUDART=/nonexistent/libcudart.so";
  const auto said = run_scenario(environment, CUDA_SCENARIO, "probe");
  EXPECT_EQ(said.value("route"), "0") << said.text;
  EXPECT_THAT(said.value("reason"), HasSubstr("NUMAPOOL_CUDART names a runtime that cannot be used"));
}

TEST(CudaLibraryProcess, EmptyOverrideIsNone) {
  const auto found = run_scenario("LD_LIBRARY_PATH='" + folder + "/runtime' NUMAPOOL_CUDART=", CUDA_SCENARIO, "find");
  EXPECT_EQ(found.value("path"), FAKE_CUDART) << found.text;
}

TEST(CudaLibraryProcess, RealRuntimeIsLoadedAndSaysWhetherThereIsADriver) {
  const std::string real = REAL_CUDART;
  if (real.empty()) {
    GTEST_SKIP() << "no CUDA toolkit here: the real runtime cannot be asked";
  }
  const auto said = run_scenario("NUMAPOOL_CUDART='" + real + "'", CUDA_SCENARIO, "probe");
  EXPECT_EQ(said.status, 0) << said.text;
  EXPECT_THAT(said.value("reason"), HasSubstr("libcudart"));
  if (::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL) == nullptr) {
    EXPECT_EQ(said.value("route"), "0") << said.text;
    EXPECT_EQ(said.value("error"), "35");
    EXPECT_THAT(said.value("reason"), HasSubstr("cudaErrorInsufficientDriver (35)"));
    EXPECT_THAT(said.value("reason"), HasSubstr("libcuda.so.1: not found"));
  }
}

}  // namespace
}  // namespace numapool::platform
