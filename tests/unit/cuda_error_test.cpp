// SPDX-License-Identifier: Apache-2.0
//
// Goal: a CUDA answer reads the same whether or not the library is still there, and means what errno would mean.

#include "platform/cuda_error.hpp"

#include <gtest/gtest.h>

namespace numapool::platform {
namespace {

TEST(CudaError, MessageNamesTheCodeItsNumberAndItsMeaning) {
  EXPECT_EQ(runtime_error(712).message(),
            "cudaErrorHostMemoryAlreadyRegistered (712): a page of the range is registered already");
  EXPECT_EQ(driver_error(100).message(), "CUDA_ERROR_NO_DEVICE (100): no CUDA device");
}

TEST(CudaError, UnknownCodeKeepsItsNumber) {
  EXPECT_EQ(runtime_error(123456).message(), "CUDA error 123456");
  EXPECT_EQ(driver_error(35).message(), "CUDA error 35");  // the runtime's alone
}

TEST(CudaError, CategoriesAreDistinct) {
  EXPECT_NE(runtime_error(1), driver_error(1));
  EXPECT_STREQ(cuda_runtime_category().name(), "cuda-runtime");
  EXPECT_STREQ(cuda_driver_category().name(), "cuda-driver");
}

TEST(CudaError, MeansTheGenericConditionWhereThereIsOne) {
  namespace errc = boost::system::errc;
  EXPECT_EQ(runtime_error(2), errc::make_error_condition(errc::not_enough_memory));
  EXPECT_EQ(driver_error(801), errc::make_error_condition(errc::not_supported));
  EXPECT_NE(driver_error(713), errc::make_error_condition(errc::invalid_argument));
}

TEST(CudaError, ZeroIsNoError) {
  EXPECT_FALSE(runtime_error(0).failed());
}

}  // namespace
}  // namespace numapool::platform
