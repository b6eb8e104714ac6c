#include "cuda/kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

TEST(KernelsPath, IsLibBesideTheProgramsFolder) {
  EXPECT_EQ(kernels_path("/opt/tern/libexec/tern-train"), "/opt/tern/lib/libtern_cuda.so");
  EXPECT_EQ(kernels_path("/usr/bin/tern"), "/usr/lib/libtern_cuda.so");
  EXPECT_EQ(kernels_path("/a/build/release/tern"), "/a/build/release/lib/libtern_cuda.so");
}

TEST(CudaKernels, MissingLibraryIsNotFound) {
  const auto kernels = CudaKernels::open("/nowhere/libtern_cuda.so");
  ASSERT_FALSE(kernels.has_value());
  EXPECT_EQ(kernels.error().code, Code::not_found);
  EXPECT_THAT(kernels.error().message, HasSubstr("scripts/fetch-nvcc"));
}

TEST(CudaKernels, DamagedLibraryIsNotLoaded) {
  std::string name = (fs::temp_directory_path() / "tern_kernels.XXXXXX").string();
  ASSERT_NE(mkdtemp(name.data()), nullptr);
  const fs::path library = fs::path(name) / "libtern_cuda.so";
  for (const std::string bytes : {"", "\177ELF", "not a library"}) {
    std::ofstream(library, std::ios::binary | std::ios::trunc) << bytes;
    const auto kernels = CudaKernels::open(library);
    ASSERT_FALSE(kernels.has_value());
    EXPECT_EQ(kernels.error().code, Code::failed_precondition);
    EXPECT_THAT(kernels.error().message, HasSubstr("TERN_LIBTORCH"));
  }
  fs::remove_all(name);
}

TEST(CudaKernels, LibraryOfAnotherBuildIsRefused) {
  const auto other = CudaKernels::open(TERN_FAKE_OTHER);
  ASSERT_FALSE(other.has_value());
  EXPECT_EQ(other.error().code, Code::failed_precondition);
  EXPECT_THAT(other.error().message, HasSubstr("its interface is 3 and not 2"));

  const auto lacking = CudaKernels::open(TERN_FAKE_LACKING);
  ASSERT_FALSE(lacking.has_value());
  EXPECT_EQ(lacking.error().code, Code::failed_precondition);
  EXPECT_THAT(lacking.error().message, HasSubstr("tern_cuda_error"));
}

TEST(CudaKernels, CudasErrorsBecomeOurs) {
  const auto kernels = CudaKernels::open(TERN_FAKE);
  ASSERT_TRUE(kernels.has_value()) << kernels.error().message;
  const auto code_of = [&](int64_t cuda_error) {
    const Status status = (*kernels)->prepare({.count = cuda_error}, nullptr);
    EXPECT_FALSE(status.has_value());
    EXPECT_THAT(status.error().message,
                HasSubstr("so it said (CUDA error " + std::to_string(cuda_error) + ")"));
    return status.error().code;
  };
  EXPECT_TRUE((*kernels)->prepare({.count = 0}, nullptr).has_value());
  EXPECT_EQ(code_of(1), Code::internal);
  EXPECT_EQ(code_of(2), Code::exhausted);
  EXPECT_EQ(code_of(35), Code::failed_precondition);
  EXPECT_EQ(code_of(209), Code::failed_precondition);
  EXPECT_EQ(code_of(700), Code::internal);

  const Result<TernCudaType> type = (*kernels)->half_type(0);
  ASSERT_TRUE(type.has_value());
  EXPECT_EQ(*type, TERN_CUDA_BF16);
  const Result<TernCudaType> none = (*kernels)->half_type(1);
  ASSERT_FALSE(none.has_value());
  EXPECT_THAT(none.error().message, HasSubstr("GPU 1"));
}

}  // namespace
}  // namespace tern
