// Wrong settings as real servers answer them, and a certificate that nobody vouches for: each names
// the cause and what to do next. src/cloud/bad_input_test.cc has every cloud's answers, and
// strict_gcs_test.cc Google's.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/crypto.h"
#include "core/http_client.h"
#include "store_servers.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr char kWrong[] = "d3JvbmctYnV0LW5vdC1zaG93bg==";

class CloudBadInput : public testing::Test {
 protected:
  // False, and the test is skipped, where there is no such server.
  bool serve(ServerKind kind) {
    const std::string missing = StoreServer::missing(kind);
    if (missing.empty()) server_ = std::make_unique<StoreServer>(StoreServer::Start{.kind = kind});
    if (missing.empty()) variables_ = server_->variables();
    skip_without(missing);
    return missing.empty();
  }

  std::unique_ptr<Bucket> open(const std::string& address) {
    door_ = std::make_unique<CloudDoor>(surroundings_of(variables_, scratch_.path()), *clock_);
    auto opened = door_->open_bucket(parse_store_address(address).value());
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().to_string());
    return std::move(*opened);
  }
  // The error of listing, which must be one and show nothing secret.
  Error refused(const std::string& address) {
    const auto listed = open(address)->list("");
    EXPECT_FALSE(listed);
    const Error error = listed ? Error{} : listed.error();
    EXPECT_THAT(error.message, Not(HasSubstr(kWrong)));
    return error;
  }

  // A part of Azure's connection string: "AccountKey".
  std::string part(const std::string& name) {
    const std::string& connection = variables_["AZURE_STORAGE_CONNECTION_STRING"];
    const size_t begin = connection.find(name + "=") + name.size() + 1;
    return connection.substr(begin, connection.find(';', begin) - begin);
  }
  // In place of the account's key a token for one container, of these rights.
  void use_sas(const std::string& bucket, const std::string& rights, const std::string& end) {
    const std::string account = part("AccountName");
    const std::string text = fmt::format("{}\n\n{}\n/blob/{}/{}\n\n\n\n2020-12-06\nc\n\n\n\n\n\n\n",
                                         rights, end, account, bucket);
    const Digest signature = hmac_sha256(decode_base64(part("AccountKey")).value(), text);
    const std::string token = fmt::format(
        "sv=2020-12-06&sr=c&sp={}&se={}&sig={}", rights, percent_encode(end),
        percent_encode(
            base64({reinterpret_cast<const char*>(signature.data()), signature.size()})));
    variables_ = {{"AZURE_STORAGE_ACCOUNT", account},
                  {"AZURE_STORAGE_SAS_TOKEN", token},
                  {"AZURE_STORAGE_BLOB_ENDPOINT", part("BlobEndpoint")}};
  }

  ScratchFolder scratch_;
  SystemClock system_;
  Clock* clock_ = &system_;
  std::unique_ptr<StoreServer> server_;
  Variables variables_;
  std::unique_ptr<CloudDoor> door_;

 private:
  static void skip_without(const std::string& missing) {
    if (!missing.empty()) GTEST_SKIP() << missing;
  }
};

TEST_F(CloudBadInput, S3NamesAWrongSecretAnUnknownKeyAndAMissingBucket) {
  if (!serve(ServerKind::versitygw)) return;
  const Error missing = refused("s3://not-there");
  EXPECT_EQ(missing.code, Code::not_found);
  EXPECT_THAT(missing.message, HasSubstr("tern store mb s3://not-there"));
  variables_["AWS_SECRET_ACCESS_KEY"] = kWrong;
  const Error wrong = refused("s3://bucket");
  EXPECT_EQ(wrong.code, Code::permission_denied);
  EXPECT_THAT(wrong.message, AllOf(HasSubstr("the secret key is not the one of this access key"),
                                   HasSubstr("check AWS_SECRET_ACCESS_KEY")));
  variables_["AWS_ACCESS_KEY_ID"] = "AKNOBODY";
  const Error unknown = refused("s3://bucket");
  EXPECT_EQ(unknown.code, Code::permission_denied);
  EXPECT_THAT(unknown.message, AllOf(HasSubstr("does not know this access key"),
                                     HasSubstr("check AWS_ACCESS_KEY_ID")));
}

TEST_F(CloudBadInput, S3NamesAWrongClock) {
  if (!serve(ServerKind::versitygw)) return;
  SimClock ahead(system_.unix_ms() + 3'600'000);
  clock_ = &ahead;
  const Error error = refused("s3://bucket");
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, AllOf(HasSubstr("seconds ahead"), HasSubstr("set the clock")));
}

TEST_F(CloudBadInput, AzureNamesAWrongKeyAndAMissingContainer) {
  if (!serve(ServerKind::azurite)) return;
  const std::string address = server_->address("not-there");
  const Error missing = refused(address);
  EXPECT_EQ(missing.code, Code::not_found);
  EXPECT_THAT(missing.message, HasSubstr("tern store mb " + address));
  std::string& connection = variables_["AZURE_STORAGE_CONNECTION_STRING"];
  const std::string key = part("AccountKey");
  connection.replace(connection.find(key), key.size(), kWrong);
  const Error wrong = refused(address);
  EXPECT_EQ(wrong.code, Code::permission_denied);
  EXPECT_THAT(wrong.message, AllOf(HasSubstr("the key of account"), HasSubstr("check the key")));
}

TEST_F(CloudBadInput, AzureNamesATokenThatHasEndedAndOneThatMayNotWrite) {
  if (!serve(ServerKind::azurite)) return;
  const std::string address = server_->address("bucket");
  ASSERT_TRUE(open(address)->make_bucket());
  const Variables by_key = variables_;
  use_sas("bucket", "rl", "2999-01-01T00:00:00Z");
  const auto reader = open(address);
  const auto listed = reader->list("");
  EXPECT_TRUE(listed) << listed.error().to_string();
  const Status put = reader->put("a", "x");
  ASSERT_FALSE(put) << "a token that may only read wrote";
  EXPECT_EQ(put.error().code, Code::permission_denied);
  EXPECT_THAT(put.error().message,
              AllOf(HasSubstr("write 'a'"), HasSubstr("may not do this"), HasSubstr("rcwdl")));
  variables_ = by_key;
  use_sas("bucket", "rl", "2020-01-01T00:00:00Z");
  const Error ended = refused(address);
  EXPECT_EQ(ended.code, Code::permission_denied);
  EXPECT_THAT(ended.message, HasSubstr("it has ended; make a new one"));
}

TEST_F(CloudBadInput, ACertificateThatDoesNotVerifyIsNamedOnEachCloud) {
  const auto file = [&](const char* name) { return (scratch_ / name).string(); };
  const Finished made =
      run_to_end({.command = {"openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
                              "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj",
                              "/CN=test", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout",
                              file("key.pem"), "-out", file("cert.pem")}});
  ASSERT_EQ(made.exit_code, 0) << made.err;
  const std::string host = fmt::format("127.0.0.1:{}", free_port());
  Process server(
      {.command = {"setpriv", "--pdeathsig", "KILL", "--", "openssl", "s_server", "-accept", host,
                   "-cert", file("cert.pem"), "-key", file("key.pem"), "-www"}});
  const std::string endpoint = "https://" + host;
  variables_ = {{"AWS_ENDPOINT_URL", endpoint},
                {"AWS_ACCESS_KEY_ID", "A"},
                {"AWS_SECRET_ACCESS_KEY", kWrong},
                {"STORAGE_EMULATOR_HOST", endpoint},
                {"AZURE_STORAGE_BLOB_ENDPOINT", endpoint},
                {"AZURE_STORAGE_KEY", kWrong}};
  // Asked again until the server is up; then never.
  for (const char* address : {"s3://bucket", "gs://bucket", "az://account/bucket"}) {
    const Error error = refused(address);
    EXPECT_EQ(error.code, Code::permission_denied) << error.message;
    EXPECT_THAT(error.message,
                AllOf(HasSubstr(host), HasSubstr("does not verify"), HasSubstr("SSL_CERT_FILE")));
  }
}

// A wrong key is no missing right, though clouds have one status for both.
TEST_F(CloudBadInput, TheDoctorTellsAWrongSecretFromAMissingRight) {
  const WorkFolder place;
  for (const ServerKind kind :
       {ServerKind::versitygw, ServerKind::azurite, ServerKind::strict_gcs}) {
    if (!serve(kind)) return;
    const std::string address = server_->address("bucket") + "/runs";
    if (kind == ServerKind::azurite) {
      std::string& connection = variables_["AZURE_STORAGE_CONNECTION_STRING"];
      const std::string key = part("AccountKey");
      connection.replace(connection.find(key), key.size(), kWrong);
    } else if (kind == ServerKind::strict_gcs) {
      auto key = nlohmann::json::parse(read_text(server_->folder() / "key.json"), nullptr, false);
      key["private_key_id"] = "another";
      write_text(scratch_ / "key.json", key.dump());
      variables_["GOOGLE_APPLICATION_CREDENTIALS"] = (scratch_ / "key.json").string();
    } else {
      variables_["AWS_SECRET_ACCESS_KEY"] = kWrong;
    }
    Process::Start start = place.start({"doctor", address});
    start.environment = variables_;
    const Finished told = run_to_end(start);
    EXPECT_EQ(told.exit_code, kExitUnavailable) << told.out << told.err;
    EXPECT_THAT(told.out, AllOf(HasSubstr("list         FAILS"), HasSubstr("credentials  "),
                                HasSubstr("Runs cannot be kept here"),
                                Not(HasSubstr("the right to")), Not(HasSubstr(kWrong))));
  }
}

}  // namespace
}  // namespace tern
