#include "cloud/azure_credentials.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "core/crypto.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Kind = AzureCredentials::Kind;
using Variables = std::map<std::string, std::string>;

constexpr char kSecret[] = "c2VjcmV0IGtleQ==";  // "secret key"
constexpr char kSas[] = "sv=2021-12-02&se=2030-01-31T00%3A00%3A00Z&sp=rl&sig=SIGNATURE%3D";

CloudSurroundings with(const Variables& variables) {
  return {.variable = [variables](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  }};
}

class AzureCredentialsTest : public testing::Test {
 protected:
  std::unique_ptr<AzureCredentials> find(const Variables& variables) {
    auto found = AzureCredentials::find("acc", with(variables), clock_);
    EXPECT_TRUE(found) << (found ? "" : found.error().to_string());
    if (!found) return nullptr;
    EXPECT_THAT((*found)->shown(), AllOf(Not(HasSubstr("SIGNATURE")), Not(HasSubstr(kSecret))));
    return std::move(*found);
  }
  Error error_of(const Variables& variables) {
    const auto found = AzureCredentials::find("acc", with(variables), clock_);
    EXPECT_FALSE(found);
    const Error error = found ? Error{} : found.error();
    EXPECT_EQ(error.code, Code::invalid);
    EXPECT_THAT(error.message, Not(HasSubstr("SIGNATURE")));
    return error;
  }

  SimClock clock_;
};

TEST_F(AzureCredentialsTest, AConnectionStringComesFirst) {
  Variables all = {{"AZURE_STORAGE_CONNECTION_STRING",
                    "DefaultEndpointsProtocol=https;AccountName=acc;AccountKey=c2VjcmV0IGtleQ==;"
                    "EndpointSuffix=core.chinacloudapi.cn"},
                   {"AZURE_STORAGE_KEY", kSecret},
                   {"AZURE_STORAGE_SAS_TOKEN", kSas}};
  const auto first = find(all);
  EXPECT_EQ(first->kind(), Kind::shared_key);
  EXPECT_EQ(first->shown(), "the key of account 'acc', from AZURE_STORAGE_CONNECTION_STRING");
  EXPECT_EQ(first->endpoint(), "https://acc.blob.core.chinacloudapi.cn");

  all.erase("AZURE_STORAGE_CONNECTION_STRING");
  const auto second = find(all);
  EXPECT_EQ(second->kind(), Kind::shared_key);
  EXPECT_EQ(second->shown(), "the key of account 'acc', from AZURE_STORAGE_KEY");
  EXPECT_EQ(second->endpoint(), "https://acc.blob.core.windows.net");

  all.erase("AZURE_STORAGE_KEY");
  const auto third = find(all);
  EXPECT_EQ(third->kind(), Kind::sas);
  EXPECT_EQ(third->shown(),
            "a SAS token from AZURE_STORAGE_SAS_TOKEN, with the rights 'rl', until "
            "2030-01-31T00:00:00Z");

  all.erase("AZURE_STORAGE_SAS_TOKEN");
  const auto last = find(all);
  EXPECT_EQ(last->kind(), Kind::managed_identity);
  EXPECT_EQ(last->shown(),
            "a managed identity, from the instance metadata service at http://169.254.169.254");
}

TEST_F(AzureCredentialsTest, WhatIsForAnotherAccountIsPassedOver) {
  const auto found = find({{"AZURE_STORAGE_CONNECTION_STRING",
                            "AccountName=other;AccountKey=b3RoZXI=;BlobEndpoint=http://127.0.0.1:1/"
                            "other"},
                           {"AZURE_STORAGE_KEY", kSecret}});
  EXPECT_EQ(found->shown(), "the key of account 'acc', from AZURE_STORAGE_KEY");
  EXPECT_EQ(found->endpoint(), "https://acc.blob.core.windows.net");
  EXPECT_EQ(find({{"AZURE_STORAGE_ACCOUNT", "other"},
                  {"AZURE_STORAGE_KEY", kSecret},
                  {"AZURE_STORAGE_SAS_TOKEN", kSas},
                  {"AZURE_STORAGE_BLOB_ENDPOINT", "https://other.example"}})
                ->kind(),
            Kind::managed_identity);
  EXPECT_EQ(find({{"AZURE_STORAGE_ACCOUNT", "acc"}, {"AZURE_STORAGE_KEY", kSecret}})->kind(),
            Kind::shared_key);
}

TEST_F(AzureCredentialsTest, TheEndpointIsTheStringsElseTheVariablesElseTheUsualOne) {
  const Variables named = {{"AZURE_STORAGE_BLOB_ENDPOINT", "https://proxy.example/acc/"},
                           {"AZURE_STORAGE_KEY", kSecret}};
  EXPECT_EQ(find(named)->endpoint(), "https://proxy.example/acc");
  Variables both = named;
  both["AZURE_STORAGE_CONNECTION_STRING"] = "AccountName=acc;AccountKey=c2VjcmV0;EndpointSuffix=x";
  EXPECT_EQ(find(both)->endpoint(), "https://proxy.example/acc");
  both["AZURE_STORAGE_CONNECTION_STRING"] =
      "AccountName=acc;AccountKey=c2VjcmV0;BlobEndpoint=http://127.0.0.1:10000/acc";
  EXPECT_EQ(find(both)->endpoint(), "http://127.0.0.1:10000/acc");
  EXPECT_EQ(find({{"AZURE_STORAGE_BLOB_ENDPOINT", "http://127.0.0.1:10000"},
                  {"AZURE_STORAGE_KEY", kSecret}})
                ->endpoint(),
            "http://127.0.0.1:10000/acc");
}

TEST_F(AzureCredentialsTest, AConnectionStringIsReadWithAllItsForms) {
  const auto emulator = parse_connection_string("UseDevelopmentStorage=true").value();
  EXPECT_EQ(emulator.account, "devstoreaccount1");
  EXPECT_EQ(emulator.key.size(), 64u);
  EXPECT_EQ(emulator.blob_endpoint, "http://127.0.0.1:10000/devstoreaccount1");

  const auto sas = parse_connection_string(
                       " BlobEndpoint=https://acc.blob.core.windows.net/ ; "
                       "SharedAccessSignature=?sv=1&sig=a%2Bb%3D ;")
                       .value();
  EXPECT_EQ(sas.account, "acc");
  EXPECT_EQ(sas.sas, "sv=1&sig=a%2Bb%3D");
  EXPECT_EQ(sas.blob_endpoint, "https://acc.blob.core.windows.net");

  const auto plain =
      parse_connection_string(
          "accountname=acc;ACCOUNTKEY=c2VjcmV0IGtleQ==;DefaultEndpointsProtocol=http")
          .value();
  EXPECT_EQ(plain.key, "secret key");
  EXPECT_EQ(plain.blob_endpoint, "");
  EXPECT_EQ(plain.usual_endpoint, "http://acc.blob.core.windows.net");
}

TEST_F(AzureCredentialsTest, WhatIsUnusableIsRefusedByName) {
  const auto string_of = [](const std::string& text) {
    return Variables{{"AZURE_STORAGE_CONNECTION_STRING", text}};
  };
  EXPECT_THAT(error_of(string_of("nonsense")).message,
              AllOf(HasSubstr("AZURE_STORAGE_CONNECTION_STRING"), Not(HasSubstr("nonsense"))));
  EXPECT_THAT(error_of(string_of("AccountKey=c2VjcmV0")).message, HasSubstr("names no account"));
  EXPECT_THAT(error_of(string_of("AccountName=acc;AccountKey=not base64!")).message,
              AllOf(HasSubstr("AccountKey"), Not(HasSubstr("base64!"))));
  EXPECT_THAT(error_of(string_of("AccountName=acc;SharedAccessSignature=abc")).message,
              HasSubstr("SAS token"));
  EXPECT_THAT(error_of(string_of("AccountName=acc;BlobEndpoint=ftp://x")).message,
              HasSubstr("write it like https://account.blob.core.windows.net"));
  EXPECT_THAT(error_of({{"AZURE_STORAGE_KEY", "%%%"}}).message, HasSubstr("AZURE_STORAGE_KEY"));
  EXPECT_THAT(error_of({{"AZURE_STORAGE_SAS_TOKEN", "sv=1&sig=SIGNATURE\r\nHost: x"}}).message,
              HasSubstr("AZURE_STORAGE_SAS_TOKEN"));
  EXPECT_THAT(error_of({{"AZURE_STORAGE_BLOB_ENDPOINT", "https://u:p@x"}}).message,
              AllOf(HasSubstr("AZURE_STORAGE_BLOB_ENDPOINT"), Not(HasSubstr("u:p"))));
}

TEST_F(AzureCredentialsTest, ASasTokenBecomesPartOfTheQuery) {
  const auto found = find({{"AZURE_STORAGE_SAS_TOKEN", "?" + std::string(kSas)}});
  HttpRequest bare{.url = "https://acc.blob.core.windows.net/c/b"};
  ASSERT_TRUE(found->authorize(bare, /*refresh=*/false));
  EXPECT_EQ(bare.url, "https://acc.blob.core.windows.net/c/b?" + std::string(kSas));
  HttpRequest more{.url = "https://acc.blob.core.windows.net/c?comp=list"};
  ASSERT_TRUE(found->authorize(more, /*refresh=*/false));
  EXPECT_EQ(more.url, "https://acc.blob.core.windows.net/c?comp=list&" + std::string(kSas));
  EXPECT_TRUE(more.headers.empty());
}

TEST_F(AzureCredentialsTest, ATokenIsNotSentInTheClear) {
  for (const char* endpoint : {"http://store.example/acc", "http://127.0.0.1.example/acc"}) {
    const auto found = find({{"AZURE_STORAGE_BLOB_ENDPOINT", endpoint}});
    HttpRequest request;
    const Status sent = found->authorize(request, /*refresh=*/false);
    ASSERT_FALSE(sent) << endpoint;
    EXPECT_EQ(sent.error().code, Code::failed_precondition) << sent.error().message;
    EXPECT_THAT(sent.error().message, HasSubstr("in the clear; use an https://"));
  }
}

}  // namespace
}  // namespace tern
