#include "core/metadata_endpoint.h"

#include <gtest/gtest.h>

#include <map>

namespace tern {
namespace {

VariableReader reader_of(const std::map<std::string, std::string>& variables) {
  return [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    return found == variables.end() ? std::nullopt : std::optional(found->second);
  };
}

TEST(MetadataEndpoint, IsTheUsualOneUnlessAVariableMovesIt) {
  for (const VariableReader& nothing : {VariableReader(), reader_of({}),
                                        reader_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", ""},
                                                   {"AWS_EC2_METADATA_DISABLED", "false"},
                                                   {"GCE_METADATA_HOST", ""},
                                                   {"TERN_AZURE_METADATA_ENDPOINT", ""}})}) {
    EXPECT_EQ(aws_metadata_endpoint(nothing), "http://169.254.169.254");
    EXPECT_EQ(gcp_metadata_endpoint(nothing), "http://metadata.google.internal");
    EXPECT_EQ(azure_metadata_endpoint(nothing), "http://169.254.169.254");
  }
  const VariableReader moved =
      reader_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1338/"},
                 {"GCE_METADATA_HOST", "127.0.0.1:8080"},
                 {"TERN_AZURE_METADATA_ENDPOINT", "http://127.0.0.1:9//"}});
  EXPECT_EQ(aws_metadata_endpoint(moved), "http://127.0.0.1:1338");
  EXPECT_EQ(gcp_metadata_endpoint(moved), "http://127.0.0.1:8080");
  EXPECT_EQ(azure_metadata_endpoint(moved), "http://127.0.0.1:9");
}

TEST(MetadataEndpoint, OfAwsCanBeOfTheOtherKindAndBeSwitchedOff) {
  EXPECT_EQ(aws_metadata_endpoint(reader_of({{"AWS_EC2_METADATA_SERVICE_ENDPOINT_MODE", "IPv6"}})),
            "http://[fd00:ec2::254]");
  for (const char* yes : {"true", "True", "TRUE"}) {
    EXPECT_EQ(aws_metadata_endpoint(
                  reader_of({{"AWS_EC2_METADATA_DISABLED", yes},
                             {"AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://127.0.0.1:1"}})),
              "");
  }
}

}  // namespace
}  // namespace tern
