#include "cli/mesh_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

class MeshPlaceTest : public testing::Test {
 protected:
  MeshPlaceTest() {
    std::string folder = testing::TempDir() + "mesh_place_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    put_secret(std::string(60, '0') + "aF10\n");
    variables_ = {{kPeersVariable, "10.0.0.4:20317 10.0.0.5:21111  10.0.0.6:20000"},
                  {kMachineVariable, "1"},
                  {kMachinesVariable, "2"},
                  {kSecretFileVariable, (folder_ / "secret").string()}};
  }
  ~MeshPlaceTest() override { fs::remove_all(folder_); }

  void put_secret(const std::string& text) const { std::ofstream(folder_ / "secret") << text; }
  Result<std::optional<MeshPlace>> read() const {
    return read_mesh_place([this](const std::string& name) -> std::optional<std::string> {
      const auto found = variables_.find(name);
      return found == variables_.end() ? std::nullopt : std::optional(found->second);
    });
  }
  std::string error_with(const std::string& name, const std::string& value) {
    const std::string before = std::exchange(variables_[name], value);
    const auto place = read();
    variables_[name] = before;
    return place ? "no error" : place.error().message;
  }

  fs::path folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(MeshPlaceTest, IsReadFromTheEnvironment) {
  const auto place = read();
  ASSERT_TRUE(place) << place.error().message;
  ASSERT_TRUE(*place);
  EXPECT_THAT((*place)->peers,
              testing::ElementsAre("10.0.0.4:20317", "10.0.0.5:21111", "10.0.0.6:20000"));
  EXPECT_EQ((*place)->machine, 1);
  EXPECT_EQ((*place)->working, 2);
  EXPECT_EQ((*place)->secret, Bytes(30, '\0') + "\xaf\x10");
}

TEST_F(MeshPlaceTest, WithoutOthersThereIsNone) {
  variables_[kPeersVariable] = "10.0.0.4:20317";
  EXPECT_FALSE(read().value());
  variables_.clear();
  EXPECT_FALSE(read().value());
  EXPECT_FALSE(read_mesh_place({}).value());
}

TEST_F(MeshPlaceTest, WhatIsWrongIsNamed) {
  EXPECT_THAT(error_with(kPeersVariable, "10.0.0.4 10.0.0.5:1"),
              AllOf(HasSubstr("TERN_PEERS"), HasSubstr("'10.0.0.4' is no address and port")));
  EXPECT_THAT(error_with(kPeersVariable, "host:5 10.0.0.5:1"), HasSubstr("'host' is no address"));
  EXPECT_THAT(error_with(kPeersVariable, "10.0.0.5:1 10.0.0.5:1"), HasSubstr("twice"));
  EXPECT_THAT(error_with(kMachineVariable, "3"), HasSubstr("TERN_MACHINE is '3'"));
  EXPECT_THAT(error_with(kMachineVariable, ""), HasSubstr("from 0 to 2"));
  EXPECT_THAT(error_with(kMachinesVariable, "4"), HasSubstr("TERN_MACHINES is '4'"));
  EXPECT_THAT(error_with(kMachinesVariable, "0"), HasSubstr("from 1 to 3"));
  EXPECT_THAT(error_with(kSecretFileVariable, ""), HasSubstr("TERN_SECRET_FILE is not set"));
  EXPECT_THAT(error_with(kSecretFileVariable, "/nothing"), HasSubstr("cannot read /nothing"));
  for (const std::string& text : {std::string(63, 'a'), std::string(64, 'g'), std::string(65, 'a'),
                                  std::string(5'000, 'a'), std::string()}) {
    put_secret(text);
    ASSERT_FALSE(read());
    EXPECT_THAT(read().error().message,
                AllOf(HasSubstr("does not hold 64 hexadecimal digits"), Not(HasSubstr("aaaa"))));
  }
}

}  // namespace
}  // namespace tern
