// A bucket of Google Cloud Storage over a server whose answers are made by the test.
#pragma once

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "cloud/gcs_json.h"
#include "cloud/gcs_store.h"
#include "core/crc32c.h"
#include "core/test_web_server.h"

namespace tern {

// Owned by one test. Waits cost nothing, as the clock is simulated.
class ScriptedGcs {
 public:
  using Request = TestWebServer::Request;
  using Reply = TestWebServer::Reply;
  // Called for each request, with how many came before it.
  using Script = std::function<Reply(const Request&, int before)>;

  explicit ScriptedGcs(Script script, const BucketOptions& options = {})
      : server_([this, script = std::move(script)](const Request& request) {
          return script(request, count_++);
        }),
        http_(std::move(HttpClient::create({})).value()),
        transport_(*http_, clock_, {}, options.in_flight_max) {
    variables_["STORAGE_EMULATOR_HOST"] = server_.url("");
    auto opened =
        open_gcs({.kind = StoreAddress::Kind::gcs, .bucket = "bucket"},
                 {.variable = [this](const std::string& name) -> std::optional<std::string> {
                   const auto found = variables_.find(name);
                   return found == variables_.end() ? std::nullopt : std::optional(found->second);
                 }},
                 transport_, options);
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().to_string());
    if (opened) bucket_ = std::move(*opened);
  }

  Bucket& bucket() { return *bucket_; }
  std::vector<Request> requests() const { return server_.requests(); }

  static Reply reply(int status, const std::string& body = "",
                     const std::vector<std::string>& headers = {}) {
    return {TestWebServer::answer(status, body, headers)};
  }
  static Reply lost() { return {.bytes = "", .then = Reply::Then::close}; }
  static Reply complaint(int status, const std::string& reason, const std::string& message) {
    return reply(status, fmt::format(R"({{"error":{{"code":{},"message":"{}","errors":)"
                                     R"([{{"reason":"{}"}}]}}}})",
                                     status, message, reason));
  }
  // What the store says of an object.
  static std::string described(const std::string& name, BytesView bytes,
                               const std::string& nonce = "") {
    const std::string metadata =
        nonce.empty() ? "" : fmt::format(R"(,"metadata":{{"ternnonce":"{}"}})", nonce);
    return fmt::format(
        R"({{"kind":"storage#object","name":"{}","size":"{}","generation":"7","crc32c":"{}"{}}})",
        name, bytes.size(), crc32c_text(crc32c(bytes)), metadata);
  }
  // Of the description that a request has in its body; empty if it has none.
  static std::string nonce_of(const Request& request) {
    const std::string before = R"("metadata":{"ternnonce":")";
    const size_t at = request.body.find(before);
    return at == std::string::npos ? "" : request.body.substr(at + before.size(), 32);
  }
  // A good answer to a ranged read.
  static Reply serve(const Request& request, const std::string& bytes,
                     const std::string& generation = "7") {
    const std::string range = request.header("range");
    const size_t first = std::stoull(range.substr(6));
    const size_t last =
        std::min<size_t>(std::stoull(range.substr(range.find('-') + 1)), bytes.size() - 1);
    const std::vector<std::string> headers = {
        "X-Goog-Generation: " + generation,
        "X-Goog-Hash: crc32c=" + crc32c_text(crc32c(bytes)) + ",md5=AAAA",
        fmt::format("Content-Range: bytes {}-{}/{}", first, last, bytes.size())};
    if (first >= bytes.size()) {
      return reply(416, "", {fmt::format("Content-Range: bytes */{}", bytes.size())});
    }
    return reply(206, bytes.substr(first, last - first + 1), headers);
  }

 private:
  std::map<std::string, std::string> variables_;
  SimClock clock_;
  std::atomic<int> count_ = 0;
  TestWebServer server_;
  std::unique_ptr<HttpClient> http_;
  CloudTransport transport_;
  std::unique_ptr<Bucket> bucket_;
};

}  // namespace tern
