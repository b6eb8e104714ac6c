#include "core/download.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <fstream>
#include <iterator>

#include "core/hash.h"
#include "core/test_http_server.h"
#include "core/web_request.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using Request = TestHttpServer::Request;
using Answer = TestHttpServer::Answer;

constexpr char kTag[] = "\"v1\"";

std::string read_text(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class DownloadTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string folder = testing::TempDir() + "download_XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    file_ = folder_ / "file";
    for (int64_t i = 0; i < 300'000; ++i) body_ += static_cast<char>('a' + (i * i + i / 7) % 26);
  }
  void TearDown() override { fs::remove_all(folder_); }

  DownloadSetup setup(const TestHttpServer& server) {
    return {.url = server.url(), .file = file_, .sha256 = to_hex(sha256(body_)), .clock = &clock_};
  }
  void leave_part(const std::string& bytes, const std::string& version) {
    std::ofstream(folder_ / "file.part", std::ios::binary) << bytes;
    if (!version.empty()) std::ofstream(folder_ / "file.part.etag") << version;
  }
  void expect_whole_and_alone() {
    EXPECT_TRUE(read_text(file_) == body_);
    EXPECT_EQ(std::distance(fs::directory_iterator(folder_), {}), 1);
  }

  fs::path folder_, file_;
  std::string body_;
  SimClock clock_;
};

Code code_of(const Status& status) { return status ? Code::internal : status.error().code; }

TEST_F(DownloadTest, AFileArrivesWholeAndAlone) {
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  DownloadSetup how = setup(server);
  int64_t done = 0;
  how.on_progress = [&](int64_t so_far, int64_t total) {
    EXPECT_GE(so_far, done);
    EXPECT_EQ(total, static_cast<int64_t>(body_.size()));
    EXPECT_FALSE(fs::exists(file_));
    done = so_far;
  };
  const Status got = download(how);
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(done, static_cast<int64_t>(body_.size()));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests()[0].header("accept-encoding"), "");
  EXPECT_EQ(server.requests()[0].header("user-agent"), "tern");
}

TEST_F(DownloadTest, AnEmptyFileArrivesToo) {
  body_.clear();
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
}

TEST_F(DownloadTest, ABrokenConnectionIsGoneOnWithWhereItBroke) {
  int answers = 0;
  TestHttpServer server([&](const Request& request) {
    Answer answer = serve_file(request, body_, kTag);
    if (++answers < 12) answer.cut_after = 20'000;  // more often than attempts_max
    return answer;
  });
  const Status got = download(setup(server));
  ASSERT_TRUE(got) << got.error().message;
  expect_whole_and_alone();
  ASSERT_EQ(server.requests().size(), 12u);
  EXPECT_EQ(server.requests()[1].first_byte(), 20'000u);
  EXPECT_EQ(server.requests()[1].header("if-range"), kTag);
  EXPECT_EQ(server.requests()[11].first_byte(), 220'000u);
}

TEST_F(DownloadTest, AStoppedDownloadKeepsItsPartForTheNextCall) {
  TestHttpServer server([&](const Request& request) {
    Answer answer = serve_file(request, body_, kTag);
    if (request.first_byte() == 0) answer.cut_after = 100'000;
    answer.stall = answer.cut_after > 0;
    return answer;
  });
  DownloadSetup how = setup(server);
  std::stop_source stop;
  how.on_progress = [&](int64_t done, int64_t) {
    if (done > 0) stop.request_stop();
  };
  const Status stopped = download(how, stop.get_token());
  EXPECT_EQ(code_of(stopped), Code::cancelled);
  EXPECT_FALSE(fs::exists(file_));
  const size_t kept = fs::file_size(folder_ / "file.part");
  EXPECT_GT(kept, 0u);
  how.on_progress = nullptr;
  ASSERT_TRUE(download(how));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests()[1].first_byte(), kept);
}

TEST_F(DownloadTest, AKilledDownloadIsGoneOnWith) {
  TestHttpServer server([&](const Request& request) {
    Answer answer = serve_file(request, body_, kTag);
    if (request.first_byte() == 0) answer.cut_after = 100'000;
    return answer;
  });
  DownloadSetup how = setup(server);
  how.on_retry = [](const Error&, Nanoseconds) { std::raise(SIGKILL); };
  EXPECT_EXIT(download(how).permit_unchecked_error(), testing::KilledBySignal(SIGKILL), "");
  how.on_retry = nullptr;
  ASSERT_TRUE(download(how));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests().back().first_byte(), 100'000u);
}

TEST_F(DownloadTest, AServerThatIgnoresRangesIsReadFromTheBeginning) {
  leave_part("xx" + body_.substr(2, 1000), kTag);
  TestHttpServer server([&](const Request&) { return Answer{.body = body_}; });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests()[0].first_byte(), 1002u);
}

TEST_F(DownloadTest, AFileThatHasChangedIsBegunAgain) {
  leave_part(std::string(1000, 'x'), "\"v0\"");
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
}

TEST_F(DownloadTest, ARangeOfAnotherVersionIsNotAppended) {
  leave_part(std::string(1000, 'x'), "\"v0\"");
  TestHttpServer server([&](const Request& request) {
    Request heedless = request;
    heedless.headers.erase("if-range");
    return serve_file(heedless, body_, kTag);
  });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests()[1].first_byte(), 0u);
}

TEST_F(DownloadTest, ARangeThatWasNotAskedForIsNotAppended) {
  for (const char* range :
       {"bytes 999-299999/300000", "bytes 1001-299999/300000", "bytes 1000-", ""}) {
    leave_part(body_.substr(0, 1000), kTag);
    TestHttpServer server([&](const Request& request) {
      Answer answer = serve_file(request, body_, kTag);
      if (answer.status == 206) answer.headers = {std::string("Content-Range: ") + range};
      return answer;
    });
    ASSERT_TRUE(download(setup(server))) << range;
    expect_whole_and_alone();
    EXPECT_EQ(server.requests().size(), 2u) << range;
  }
}

TEST_F(DownloadTest, APartThatIsTheWholeIsNotFetchedAgain) {
  leave_part(body_, kTag);
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(DownloadTest, APartThatIsLongerThanTheFileIsBegunAgain) {
  leave_part(body_ + "more", kTag);
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
}

TEST_F(DownloadTest, APartOfNoKnownVersionIsTrustedOnlyIfAHashWillJudgeIt) {
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  DownloadSetup how = setup(server);
  leave_part(body_.substr(0, 1000), "");
  ASSERT_TRUE(download(how));
  EXPECT_EQ(server.requests()[0].first_byte(), 1000u);
  how.sha256.clear();
  leave_part(body_.substr(0, 1000), "");
  ASSERT_TRUE(download(how));
  EXPECT_EQ(server.requests()[1].first_byte(), 0u);
  expect_whole_and_alone();
}

TEST_F(DownloadTest, ANewPartDoesNotKeepTheOldVersion) {
  leave_part(std::string(1000, 'x'), "\"v0\"");
  TestHttpServer server([&](const Request&) { return Answer{.body = body_, .cut_after = 500}; });
  DownloadSetup how = setup(server);
  how.attempts_max = 1;
  EXPECT_EQ(code_of(download(how)), Code::unavailable);
  EXPECT_EQ(fs::file_size(folder_ / "file.part"), 500u);
  EXPECT_FALSE(fs::exists(folder_ / "file.part.etag"));
}

TEST_F(DownloadTest, AVersionFileCannotAddHeaders) {
  leave_part(body_.substr(0, 1000), "\"v1\"\r\nCookie: stolen");
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  ASSERT_TRUE(download(setup(server)));
  EXPECT_EQ(server.requests()[0].header("cookie"), "");
  EXPECT_EQ(server.requests()[0].header("if-range"), "");
}

TEST_F(DownloadTest, ADamagedPartIsCorruptAndRemoved) {
  leave_part("X" + body_.substr(1, 999), kTag);
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  const Status got = download(setup(server));
  EXPECT_EQ(code_of(got), Code::corrupt);
  EXPECT_TRUE(fs::is_empty(folder_));
  ASSERT_TRUE(download(setup(server)));
  expect_whole_and_alone();
}

TEST_F(DownloadTest, OtherBytesThanPromisedAreCorruptAndRemoved) {
  TestHttpServer server([&](const Request&) { return Answer{.body = "another file"}; });
  const Status got = download(setup(server));
  EXPECT_EQ(code_of(got), Code::corrupt);
  EXPECT_THAT(got.error().message, HasSubstr(to_hex(sha256("another file"))));
  EXPECT_TRUE(fs::is_empty(folder_));
}

TEST_F(DownloadTest, ABusyServerIsTriedAgainWhenItSays) {
  std::vector<Answer> answers = {{.status = 503, .headers = {"Retry-After: 100"}},
                                 {.status = 429, .headers = {"Retry-After: 2"}},
                                 {.status = 500},
                                 {.status = 503, .headers = {"Retry-After: 999999"}}};
  size_t next = 0;
  TestHttpServer server([&](const Request& request) {
    return next < answers.size() ? answers[next++] : serve_file(request, body_, kTag);
  });
  DownloadSetup how = setup(server);
  std::vector<double> pauses;
  how.on_retry = [&](const Error&, Nanoseconds pause) { pauses.push_back(to_seconds(pause)); };
  ASSERT_TRUE(download(how));
  ASSERT_EQ(pauses.size(), 4u);
  EXPECT_EQ(pauses[0], 100);
  EXPECT_EQ(pauses[1], 2);
  EXPECT_GE(pauses[2], 1);
  EXPECT_LE(pauses[2], 2);
  EXPECT_EQ(pauses[3], 300);
}

TEST_F(DownloadTest, AServerThatStaysAwayIsGivenUpWithGrowingPauses) {
  TestHttpServer server([&](const Request&) { return Answer{.status = 502}; });
  DownloadSetup how = setup(server);
  std::vector<Nanoseconds> pauses;
  how.on_retry = [&](const Error&, Nanoseconds pause) { pauses.push_back(pause); };
  const Status got = download(how);
  EXPECT_EQ(code_of(got), Code::unavailable);
  EXPECT_THAT(got.error().message, AllOf(HasSubstr("502"), HasSubstr("8 attempts")));
  EXPECT_EQ(server.requests().size(), 8u);
  ASSERT_EQ(pauses.size(), 7u);
  EXPECT_GE(pauses[6], Milliseconds(15'000));
  EXPECT_LE(pauses[6], Milliseconds(30'000));
}

TEST_F(DownloadTest, AServerThatIgnoresRangesAndBreaksAtOnePlaceIsGivenUp) {
  TestHttpServer server([&](const Request&) { return Answer{.body = body_, .cut_after = 70'000}; });
  EXPECT_EQ(code_of(download(setup(server))), Code::unavailable);
  EXPECT_EQ(server.requests().size(), 8u);
}

TEST_F(DownloadTest, ARefusalIsNotTriedAgain) {
  const std::vector<std::pair<int, Code>> refusals = {
      {404, Code::not_found},           {410, Code::not_found},
      {403, Code::permission_denied},   {400, Code::failed_precondition},
      {204, Code::failed_precondition}, {206, Code::failed_precondition},
      {304, Code::failed_precondition}};
  for (const auto& [status, code] : refusals) {
    TestHttpServer server([&](const Request&) { return Answer{.status = status}; });
    EXPECT_EQ(code_of(download(setup(server))), code) << status;
    EXPECT_EQ(server.requests().size(), 1u) << status;
  }
}

TEST_F(DownloadTest, AStopEndsThePause) {
  TestHttpServer server([&](const Request&) { return Answer{.status = 502}; });
  DownloadSetup how = setup(server);
  std::stop_source stop;
  how.on_retry = [&](const Error&, Nanoseconds) { stop.request_stop(); };
  EXPECT_EQ(code_of(download(how, stop.get_token())), Code::cancelled);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(DownloadTest, MoreThanIsAllowedIsRefusedByItsHeader) {
  TestHttpServer server(
      [&](const Request&) { return Answer{.body = "x", .claimed_bytes = int64_t{1} << 50}; });
  EXPECT_EQ(code_of(download(setup(server))), Code::exhausted);
  EXPECT_EQ(server.requests().size(), 1u);
}

TEST_F(DownloadTest, MoreThanIsAllowedIsRefusedWhileItStreams) {
  TestHttpServer server(
      [&](const Request&) { return Answer{.body = body_, .length = Answer::Length::not_told}; });
  DownloadSetup how = setup(server);
  how.bytes_max = 100'000;
  EXPECT_EQ(code_of(download(how)), Code::exhausted);
  EXPECT_TRUE(fs::is_empty(folder_));
  how.bytes_max = 300'000;
  ASSERT_TRUE(download(how));
  expect_whole_and_alone();
}

TEST_F(DownloadTest, ALengthThatIsALieIsFoundOut) {
  Answer answer{.body = body_};
  TestHttpServer server([&](const Request&) { return answer; });
  answer.claimed_bytes = 400'000;
  EXPECT_EQ(code_of(download(setup(server))), Code::unavailable);
  answer.claimed_bytes = 200'000;
  EXPECT_EQ(code_of(download(setup(server))), Code::corrupt);
  // A range that goes on after its end.
  leave_part(body_.substr(0, 1000), kTag);
  std::atomic<int> ranges = 0;
  TestHttpServer longer([&](const Request& request) {
    Answer range = serve_file(request, body_, kTag);
    if (range.status != 206) return range;
    ++ranges;
    range.body += "more";
    range.length = Answer::Length::not_told;
    return range;
  });
  ASSERT_TRUE(download(setup(longer)));
  EXPECT_EQ(ranges, 1);
  EXPECT_EQ(longer.requests().size(), 2u);
  expect_whole_and_alone();
}

TEST_F(DownloadTest, AStalledConnectionIsCutAndGoneOnWith) {
  std::atomic<int> answers = 0;
  TestHttpServer server([&](const Request& request) {
    Answer answer = serve_file(request, body_, kTag);
    if (++answers == 1) {
      answer.cut_after = 0;
      answer.stall = true;
    }
    return answer;
  });
  DownloadSetup how = setup(server);
  how.stall_limit = Milliseconds(1000);
  ASSERT_TRUE(download(how));
  EXPECT_EQ(answers, 2);
  expect_whole_and_alone();
}

TEST_F(DownloadTest, RedirectsAreFollowedToTheWebOnly) {
  std::ofstream(folder_ / "secret") << "secret";
  const std::string local = "file://" + (folder_ / "secret").string();
  TestHttpServer server([&](const Request& request) -> Answer {
    if (request.target == "/file") return {.status = 302, .headers = {"Location: moved?x=1"}};
    if (request.target == "/moved?x=1") return serve_file(request, body_, kTag);
    if (request.target == "/loop") return {.status = 301, .headers = {"Location: /loop"}};
    return {.status = 302, .headers = {"Location: " + local}};
  });
  DownloadSetup how = setup(server);
  ASSERT_TRUE(download(how));
  EXPECT_TRUE(read_text(file_) == body_);
  fs::remove(file_);
  how.sha256.clear();
  for (const char* path : {"/loop", "/local"}) {
    how.url = server.url(path);
    const Status got = download(how);
    EXPECT_EQ(code_of(got), Code::failed_precondition) << path;
    EXPECT_FALSE(fs::exists(file_));
  }
  EXPECT_EQ(server.requests().size(), 2u + 11u + 1u);
}

TEST_F(DownloadTest, ASecondDownloadOfTheSameFileIsRefused) {
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  DownloadSetup how = setup(server);
  const DownloadSetup second = how;
  Code refused = Code::internal;
  how.on_progress = [&](int64_t, int64_t) { refused = code_of(download(second)); };
  ASSERT_TRUE(download(how));
  EXPECT_EQ(refused, Code::failed_precondition);
  expect_whole_and_alone();
}

TEST_F(DownloadTest, AFolderThatIsNotThereIsSaid) {
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  DownloadSetup how = setup(server);
  how.file = folder_ / "none" / "file";
  EXPECT_EQ(code_of(download(how)), Code::not_found);
  fs::create_directories(folder_ / "file.part");
  EXPECT_EQ(code_of(download(setup(server))), Code::failed_precondition);
  EXPECT_TRUE(server.requests().empty());
}

TEST_F(DownloadTest, AFullDiskIsSaidAndThePartIsKept) {
  TestHttpServer server([&](const Request& request) { return serve_file(request, body_, kTag); });
  DownloadSetup how = setup(server);
  const auto with_a_full_disk = [&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{100'000, 100'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    _exit(static_cast<int>(code_of(download(how))));
  };
  EXPECT_EXIT(with_a_full_disk(), testing::ExitedWithCode(static_cast<int>(Code::exhausted)), "");
  EXPECT_EQ(fs::file_size(folder_ / "file.part"), 100'000u);
  ASSERT_TRUE(download(how));
  EXPECT_EQ(server.requests().back().first_byte(), 100'000u);
  expect_whole_and_alone();
}

TEST_F(DownloadTest, AServerThatIsNotThereIsUnavailable) {
  std::string url;
  {
    TestHttpServer server([&](const Request&) { return Answer{}; });
    url = server.url();
  }
  const Status got = download({.url = url, .file = file_, .clock = &clock_});
  EXPECT_EQ(code_of(got), Code::unavailable);
  EXPECT_FALSE(download_bytes(url));
}

TEST_F(DownloadTest, MistakesAreSaidBeforeAnythingIsDone) {
  DownloadSetup how{.url = "file:///etc/passwd", .file = file_, .clock = &clock_};
  EXPECT_EQ(code_of(download(how)), Code::invalid);
  how.url = "http://127.0.0.1:1/x";
  how.sha256 = "abc";
  EXPECT_EQ(code_of(download(how)), Code::invalid);
  EXPECT_TRUE(fs::is_empty(folder_));
  EXPECT_TRUE(is_web_address("HTTPS://host"));
  for (const char* text : {"", "https://", "https:/x", "ftp://x", "data/https://x", "http"}) {
    EXPECT_FALSE(is_web_address(text)) << text;
  }
}

TEST_F(DownloadTest, TheSizeIsAskedForWithoutTheFile) {
  TestHttpServer server([&](const Request& request) -> Answer {
    if (request.target == "/unknown") return {.length = Answer::Length::not_told};
    if (request.target == "/none") return {.status = 404};
    return serve_file(request, body_, kTag);
  });
  EXPECT_EQ(download_bytes(server.url()).value_or(-1), 300'000);
  EXPECT_EQ(download_bytes(server.url("/unknown")).value_or(-1), 0);
  EXPECT_FALSE(download_bytes(server.url("/none")));
  EXPECT_EQ(server.requests()[0].method, "HEAD");
}

TEST(WebRequest, WhatMayBeSecretIsNotShown) {
  EXPECT_EQ(shown_url("https://me:key@host:1/a/b?signature=x#y"), "https://host:1/a/b");
  EXPECT_EQ(shown_url("https://host/a@b"), "https://host/a@b");
  EXPECT_EQ(shown_url("https://host?key"), "https://host");
  EXPECT_EQ(shown_url("nonsense"), "nonsense");
  EXPECT_THAT(shown_url("https://a@b@host"), Not(HasSubstr("@")));
}

TEST(WebRequest, AContentRangeIsReadExactly) {
  EXPECT_EQ(parse_content_range("bytes 0-9/10"), (ContentRange{0, 9, 10}));
  EXPECT_EQ(parse_content_range("Bytes 5-9/*"), (ContentRange{5, 9, -1}));
  EXPECT_EQ(parse_content_range("bytes */10"), (ContentRange{-1, -1, 10}));
  for (const char* text :
       {"", "bytes", "bytes ", "bytes 0-9", "bytes 9-0/10", "bytes 0-10/10", "bytes -1-9/10",
        "bytes 0-9/", "bytes */*", "bytes 0-9/99999999999999999999", "bytes 0-9/10x", "0-9/10",
        "bytes +0-9/10", "bytes 0-9,20-29/30"}) {
    EXPECT_EQ(parse_content_range(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace tern
