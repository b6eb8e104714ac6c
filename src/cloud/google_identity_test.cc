#include "cloud/google_identity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

namespace tern {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;
using Kind = GoogleIdentity::Kind;
using testing::HasSubstr;
using testing::Not;

const Json kAccount = {{"type", "service_account"},
                       {"project_id", "p1"},
                       {"private_key_id", "k1"},
                       {"private_key", "TOPSECRET"},
                       {"client_email", "tern@p1.iam.gserviceaccount.com"},
                       {"token_uri", "https://oauth2.googleapis.com/token"}};
const Json kLogin = {{"type", "authorized_user"},
                     {"client_id", "c1"},
                     {"client_secret", "TOPSECRET"},
                     {"refresh_token", "TOPSECRET2"}};

class GoogleIdentityTest : public testing::Test {
 protected:
  GoogleIdentityTest() {
    std::string pattern = testing::TempDir() + "google_identity.XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  ~GoogleIdentityTest() override { fs::remove_all(folder_); }

  fs::path write(const std::string& name, const Json& json) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << json.dump();
    return folder_ / name;
  }
  Result<GoogleIdentity> find() {
    return find_google_identity(
        {.variable = [this](const std::string& name) -> std::optional<std::string> {
           const auto found = variables_.find(name);
           return found == variables_.end() ? std::nullopt : std::optional(found->second);
         },
         .home = folder_});
  }

  fs::path folder_;
  std::map<std::string, std::string> variables_;
};

TEST_F(GoogleIdentityTest, TheFileThatIsNamedComesFirst) {
  write(".config/gcloud/application_default_credentials.json", kLogin);
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = write("key.json", kAccount);
  variables_["GCE_METADATA_HOST"] = "metadata.example";
  const auto found = find();
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->kind, Kind::service_account);
  EXPECT_EQ(found->email, "tern@p1.iam.gserviceaccount.com");
  EXPECT_EQ(found->project, "p1");
  EXPECT_THAT(found->source, HasSubstr("GOOGLE_APPLICATION_CREDENTIALS"));
  EXPECT_THAT(found->source, HasSubstr("key.json"));
  EXPECT_THAT(found->source, Not(HasSubstr("TOPSECRET")));
}

TEST_F(GoogleIdentityTest, ThenWhatGcloudIsLoggedInWith) {
  write(".config/gcloud/application_default_credentials.json", kLogin);
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = "";  // as good as not set
  auto found = find();
  ASSERT_TRUE(found) << found.error().to_string();
  EXPECT_EQ(found->kind, Kind::authorized_user);
  EXPECT_EQ(found->refresh_token, "TOPSECRET2");
  EXPECT_EQ(found->token_url, "https://oauth2.googleapis.com/token");

  variables_["CLOUDSDK_CONFIG"] = folder_ / "elsewhere";
  EXPECT_EQ(find()->kind, Kind::metadata);
  write("elsewhere/application_default_credentials.json", kAccount);
  EXPECT_EQ(find()->kind, Kind::service_account);
}

TEST_F(GoogleIdentityTest, ThenTheMachineItself) {
  auto found = find();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->kind, Kind::metadata);
  EXPECT_EQ(found->token_url,
            "http://metadata.google.internal/computeMetadata/v1/instance/service-accounts/default/"
            "token");
  EXPECT_THAT(found->looked, HasSubstr("application_default_credentials.json is not there"));
  variables_["GCE_METADATA_HOST"] = "127.0.0.1:99";
  EXPECT_THAT(find()->token_url, testing::StartsWith("http://127.0.0.1:99/computeMetadata/"));
}

TEST_F(GoogleIdentityTest, AnEmulatorGetsOnlyTheFileThatIsNamed) {
  write(".config/gcloud/application_default_credentials.json", kLogin);
  variables_["STORAGE_EMULATOR_HOST"] = "http://127.0.0.1:1";
  EXPECT_EQ(find()->kind, Kind::anonymous);
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = write("key.json", kAccount);
  EXPECT_EQ(find()->kind, Kind::service_account);
}

TEST_F(GoogleIdentityTest, ANamedFileThatIsNotThereIsAnErrorAndNotSkipped) {
  variables_["GOOGLE_APPLICATION_CREDENTIALS"] = folder_ / "absent.json";
  const auto found = find();
  ASSERT_FALSE(found);
  EXPECT_EQ(found.error().code, Code::failed_precondition);
  EXPECT_THAT(found.error().message, HasSubstr("absent.json, which is not there"));
}

TEST_F(GoogleIdentityTest, OtherKindsAreNamedAsNotSupported) {
  for (const std::string type :
       {"external_account", "impersonated_service_account", "gdch_service_account", ""}) {
    const auto found = parse_google_identity(Json{{"type", type}}.dump(), "f.json");
    ASSERT_FALSE(found);
    EXPECT_EQ(found.error().code, Code::invalid);
    EXPECT_THAT(found.error().message, HasSubstr("'" + type + "', which is not supported"));
  }
}

TEST_F(GoogleIdentityTest, DamagedFilesAreCorruptAndNeverRepeated) {
  std::vector<std::string> texts = {
      "", "{", "[]", "null", "\xFF\xFE", std::string(100'000, '['), "TOPSECRET"};
  for (const char* name : {"private_key", "client_email"}) {
    Json json = kAccount;
    json.erase(name);
    texts.push_back(json.dump());
    json[name] = 7;
    texts.push_back(json.dump());
  }
  Json plain = kAccount;
  plain["token_uri"] = "http://example.com/token";  // the key's statement would be readable
  texts.push_back(plain.dump());
  for (const std::string& text : texts) {
    const auto found = parse_google_identity(text, "f.json");
    ASSERT_FALSE(found) << text;
    EXPECT_EQ(found.error().code, Code::corrupt) << text;
    EXPECT_THAT(found.error().message, HasSubstr("f.json"));
    EXPECT_THAT(found.error().message, Not(HasSubstr("TOPSECRET")));
  }
}

}  // namespace
}  // namespace tern
