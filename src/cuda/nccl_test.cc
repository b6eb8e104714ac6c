#include "cuda/nccl.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <array>

namespace tern {
namespace {

int living_groups() {
  void* library = dlopen(TERN_FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
  auto* count = reinterpret_cast<int (*)()>(dlsym(library, "fake_nccl_living"));
  return count == nullptr ? -1 : count();
}

TEST(NcclTest, AMissingLibraryIsNamedWithWhatToDo) {
  const auto nccl = Nccl::open("libno-such-nccl.so.2");
  ASSERT_FALSE(nccl.has_value());
  EXPECT_EQ(nccl.error().code, Code::not_found);
  EXPECT_NE(nccl.error().message.find("pip install torch"), std::string::npos);
}

TEST(NcclTest, ALibraryThatIsNoNcclIsRefused) {
  const auto nccl = Nccl::open("libm.so.6");
  ASSERT_FALSE(nccl.has_value());
  EXPECT_EQ(nccl.error().code, Code::failed_precondition);
}

TEST(NcclTest, AGroupIsJoinedUsedAndEnded) {
  const auto nccl = Nccl::open(TERN_FAKE_NCCL);
  ASSERT_TRUE(nccl.has_value()) << nccl.error().to_string();
  EXPECT_EQ((*nccl)->version(), 22706);
  const Result<Bytes> id = (*nccl)->make_id();
  ASSERT_TRUE(id.has_value());
  ASSERT_EQ(id->size(), 128u);
  {
    const auto group = NcclGroup::join(*nccl, *id, 0, 1);
    ASSERT_TRUE(group.has_value());
    EXPECT_EQ(living_groups(), 1);
    std::array<float, 4> numbers{};
    EXPECT_TRUE((*group)->all_reduce(numbers.data(), numbers.size(), NcclType::f32,
                                     NcclReduction::sum, nullptr));
    EXPECT_TRUE((*group)->broadcast(numbers.data(), numbers.size(), NcclType::f32, 0, nullptr));
    EXPECT_TRUE((*group)->problem());
  }
  EXPECT_EQ(living_groups(), 0);
}

TEST(NcclTest, ALostPeerIsUnavailableAndTheGroupCanBeGivenUp) {
  const auto nccl = Nccl::open(TERN_FAKE_NCCL);
  ASSERT_TRUE(nccl.has_value());
  const auto group = NcclGroup::join(*nccl, *(*nccl)->make_id(), 0, 1);
  ASSERT_TRUE(group.has_value());
  std::array<float, 13> unlucky{};
  EXPECT_TRUE((*group)->all_reduce(unlucky.data(), unlucky.size(), NcclType::f32,
                                   NcclReduction::largest, nullptr));
  const Status problem = (*group)->problem();
  ASSERT_FALSE(problem.has_value());
  EXPECT_EQ(problem.error().code, Code::unavailable);
  EXPECT_NE(problem.error().message.find("remote process exited"), std::string::npos);
  EXPECT_EQ(
      (*group)->broadcast(unlucky.data(), unlucky.size(), NcclType::u8, 0, nullptr).error().code,
      Code::unavailable);
  (*group)->give_up();
  EXPECT_EQ(living_groups(), 0);
  EXPECT_EQ((*group)->problem().error().code, Code::unavailable);
  EXPECT_FALSE((*group)->all_reduce(unlucky.data(), 1, NcclType::f32, NcclReduction::sum, nullptr));
}

TEST(NcclTest, AnIdThatWasCutOffIsRefused) {
  const auto nccl = Nccl::open(TERN_FAKE_NCCL);
  ASSERT_TRUE(nccl.has_value());
  EXPECT_EQ(NcclGroup::join(*nccl, "short", 0, 1).error().code, Code::corrupt);
  EXPECT_EQ(NcclGroup::join(*nccl, Bytes(128, 'y'), 0, 1).error().code, Code::failed_precondition);
}

}  // namespace
}  // namespace tern
