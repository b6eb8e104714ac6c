// The commands on a bucket whose server is the test itself: for what real servers do not hold, or
// not for long enough. tests/ has them on real servers.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>

#include "cli/store_commands.h"
#include "cli/test_run.h"
#include "core/mutex.h"
#include "core/test_web_server.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// An S3 server with one bucket, s3://bucket, that takes any name.
class OddBuckets : public testing::Test {
 protected:
  using Request = TestWebServer::Request;
  using Reply = TestWebServer::Reply;

  Surroundings surroundings() {
    const std::map<std::string, std::string> variables = {{"AWS_ACCESS_KEY_ID", "key"},
                                                          {"AWS_SECRET_ACCESS_KEY", "secret"},
                                                          {"AWS_ENDPOINT_URL", server_.url("")}};
    Surroundings all;
    all.cloud.variable = [variables](const std::string& name) -> std::optional<std::string> {
      const auto found = variables.find(name);
      return found == variables.end() ? std::nullopt : std::optional(found->second);
    };
    return all;
  }
  void put(const std::string& name, const std::string& bytes) {
    MutexLock lock(mutex_);
    objects_[name] = bytes;
  }
  // Lists this many bytes for it, whatever it has.
  void list_as(const std::string& name, size_t bytes) {
    MutexLock lock(mutex_);
    listed_[name] = bytes;
  }
  std::vector<std::string> names() {
    MutexLock lock(mutex_);
    std::vector<std::string> all;
    for (const auto& [name, bytes] : objects_) all.push_back(name);
    return all;
  }
  std::string read(const std::string& name) {
    std::ifstream file(place_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  TestRuns place_;

 private:
  static Reply answer(int status, const std::string& body = "",
                      const std::vector<std::string>& headers = {}) {
    return {TestWebServer::answer(status, body, headers)};
  }
  Reply list() REQUIRES(mutex_) {
    std::string xml = "<ListBucketResult>";
    for (const auto& [name, bytes] : objects_) {
      const auto listed = listed_.find(name);
      xml += fmt::format("<Contents><Key>{}</Key><Size>{}</Size></Contents>", name,
                         listed == listed_.end() ? bytes.size() : listed->second);
    }
    return answer(200, xml + "</ListBucketResult>");
  }
  Reply handle(const Request& request) {
    MutexLock lock(mutex_);
    const std::string bucket = "/bucket";
    std::string name = request.target.substr(0, request.target.find('?')).substr(bucket.size());
    if (name.empty() && request.method == "GET") return list();
    if (name.empty()) return answer(501);  // DeleteObjects: then they are removed one by one
    name.erase(0, 1);
    const auto found = objects_.find(name);
    if (found == objects_.end()) return answer(404, "<Error><Code>NoSuchKey</Code></Error>");
    if (request.method == "DELETE") {
      objects_.erase(found);
      return {"HTTP/1.1 204 No Content\r\n\r\n"};
    }
    const std::string& bytes = found->second;
    const std::string range = request.header("range");  // "bytes=0-99"
    if (range.empty()) return answer(200, bytes, {"ETag: \"1\""});
    const size_t first = request.first_byte();
    if (first >= bytes.size()) return answer(416, "<Error><Code>InvalidRange</Code></Error>");
    const size_t last =
        std::min<size_t>(std::stoull(range.substr(range.find('-') + 1)), bytes.size() - 1);
    return answer(
        206, bytes.substr(first, last - first + 1),
        {"ETag: \"1\"", fmt::format("Content-Range: bytes {}-{}/{}", first, last, bytes.size())});
  }

  Mutex mutex_;
  std::map<std::string, std::string> objects_ GUARDED_BY(mutex_);
  std::map<std::string, size_t> listed_ GUARDED_BY(mutex_);
  TestWebServer server_{[this](const Request& request) { return handle(request); }};
};

TEST_F(OddBuckets, NamesThatTernDoesNotTakeAreToldByLs) {
  put("set/ok", "hello");
  put("set/a//b", "other");
  put("set/" + std::string(300, 'x'), "other");
  put("settle//elsewhere", "not asked for");
  const std::string out =
      output_of([&] { return store_ls_command(surroundings(), {"s3://bucket/set"}); });
  EXPECT_THAT(out, AllOf(HasSubstr("5 B in 1 object\n"), HasSubstr("left out: 2 objects"),
                         HasSubstr("'set/a//b'")));
  testing::internal::CaptureStderr();
  const std::string json =
      output_of([&] { return store_ls_command(surroundings(), {"s3://bucket/set", "--json"}); });
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("left out: 2 objects"));
  EXPECT_THAT(json, Not(HasSubstr("left out")));
  const std::string none =
      output_of([&] { return store_ls_command(surroundings(), {"s3://bucket/settle"}); });
  EXPECT_THAT(none, AllOf(HasSubstr("nothing"), HasSubstr("left out: 1 object")));
}

TEST_F(OddBuckets, WhatCpCannotCopyMakesItFail) {
  put("set/ok", "hello");
  put("set/a//b", "other");
  put("set/c/", "a folder's mark with bytes");
  const std::string to = (place_ / "to").string();
  testing::internal::CaptureStdout();
  const Result<int> copied =
      store_cp_command(surroundings(), {"s3://bucket/set", to, "--recursive"});
  std::fflush(stdout);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("copied 1 object"));
  ASSERT_FALSE(copied);
  EXPECT_EQ(copied.error().code, Code::failed_precondition);
  EXPECT_THAT(copied.error().message,
              AllOf(HasSubstr("2 objects"), HasSubstr("'set/a//b'"), HasSubstr("not copied")));
  EXPECT_EQ(read("to/ok"), "hello");
  const Result<int> none = store_cp_command(surroundings(), {"s3://bucket/set/a", to, "--force"});
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error().message, HasSubstr("left out: 1 object"));
}

// Web consoles make them: nothing is lost if they are not copied.
TEST_F(OddBuckets, EmptyObjectsThatStandForFoldersAreNoFailureOfCp) {
  put("set/", "");
  put("set/deep/", "");
  put("set/deep/ok", "hello");
  const std::string to = (place_ / "to").string();
  const std::string out = output_of(
      [&] { return store_cp_command(surroundings(), {"s3://bucket/set", to, "--recursive"}); });
  EXPECT_THAT(out, HasSubstr("copied 1 object"));
  EXPECT_EQ(read("to/deep/ok"), "hello");
}

TEST_F(OddBuckets, WhatRmLeavesMakesItFail) {
  put("set/ok", "hello");
  put("set/ok2", "hello");
  put("set/deep/", "");
  testing::internal::CaptureStdout();
  const Result<int> removed =
      store_rm_command(surroundings(), {"s3://bucket/set", "--recursive", "--yes"});
  std::fflush(stdout);
  EXPECT_THAT(testing::internal::GetCapturedStdout(), HasSubstr("removed 2 objects"));
  ASSERT_FALSE(removed);
  EXPECT_EQ(removed.error().code, Code::failed_precondition);
  EXPECT_THAT(removed.error().message,
              AllOf(HasSubstr("1 object"), HasSubstr("'set/deep/'"), HasSubstr("not removed")));
  EXPECT_THAT(names(), testing::ElementsAre("set/deep/"));
}

TEST_F(OddBuckets, AnObjectThatIsNoLongerAsItWasListedIsNotPrintedAsIfItWere) {
  put("grown", "hello, world!");
  list_as("grown", 5);
  put("shrunk", "hello");
  list_as("shrunk", 13);
  put("filled", "hello");
  list_as("filled", 0);
  for (const std::string name : {"grown", "shrunk", "filled"}) {
    testing::internal::CaptureStdout();
    const Result<int> printed = store_cat_command(surroundings(), {"s3://bucket/" + name});
    std::fflush(stdout);
    testing::internal::GetCapturedStdout();
    ASSERT_FALSE(printed) << name;
    EXPECT_EQ(printed.error().code, Code::corrupt);
    EXPECT_THAT(printed.error().message, HasSubstr("changed while"));
    const Result<int> copied =
        store_cp_command(surroundings(), {"s3://bucket/" + name, (place_ / name).string()});
    EXPECT_FALSE(copied) << name;
    EXPECT_FALSE(fs::exists(place_ / name));
  }
  put("same", "hello");
  put("empty", "");
  EXPECT_EQ(output_of([&] { return store_cat_command(surroundings(), {"s3://bucket/same"}); }),
            "hello");
  EXPECT_EQ(output_of([&] { return store_cat_command(surroundings(), {"s3://bucket/empty"}); }),
            "");
}

}  // namespace
}  // namespace tern
