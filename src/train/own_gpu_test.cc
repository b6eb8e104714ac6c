#include "train/own_gpu.h"

#include <gtest/gtest.h>

namespace tern {
namespace {

TEST(OwnGpuTest, EachRankGetsOneOfThoseThatAreShown) {
  EXPECT_EQ(gpu_of_rank("", 4, 2).value_or(""), "2");
  EXPECT_EQ(gpu_of_rank("5,3", 8, 0).value_or(""), "5");
  EXPECT_EQ(gpu_of_rank("5,3", 8, 1).value_or(""), "3");
  EXPECT_EQ(gpu_of_rank("GPU-8f,GPU-9a", 8, 1).value_or(""), "GPU-9a");
}

TEST(OwnGpuTest, OneTooManyIsToldSo) {
  const Result<std::string> none = gpu_of_rank("5,3", 8, 2);
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::failed_precondition);
  EXPECT_NE(none.error().message.find("2 are to be used"), std::string::npos);
  EXPECT_NE(gpu_of_rank("", 1, 1).error().message.find("train.device=cpu"), std::string::npos);
}

}  // namespace
}  // namespace tern
