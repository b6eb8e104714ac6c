// An S3 bucket whose server is the test itself: for answers that no real server gives when asked.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "cloud/s3_store.h"
#include "cloud/test_aws_folder.h"
#include "core/test_web_server.h"

namespace tern {

class S3BucketTest : public testing::Test {
 protected:
  using Request = TestWebServer::Request;
  using Reply = TestWebServer::Reply;
  static constexpr const char* kSecret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY";

  S3BucketTest() {
    folder_.variables = {{"AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE"},
                         {"AWS_SECRET_ACCESS_KEY", kSecret},
                         {"AWS_ENDPOINT_URL", server_.url("")}};
    http_ = HttpClient::create({.stall_limit = Milliseconds(5000)}).value();
    transport_ = std::make_unique<CloudTransport>(*http_, clock_, RetryPolicy(), 4);
  }

  // After the variables and options have been set.
  Bucket& bucket() {
    if (bucket_ == nullptr) {
      StoreAddress address;
      address.kind = StoreAddress::Kind::s3;
      address.bucket = "runs";
      auto opened = open_s3(address, folder_.surroundings(), *transport_, options_);
      TERN_CHECK(opened.has_value());
      bucket_ = std::move(*opened);
    }
    return *bucket_;
  }

  static Reply answer(int status, const std::string& body = "",
                      const std::vector<std::string>& headers = {}) {
    return {TestWebServer::answer(status, body, headers)};
  }
  static Reply stored() { return answer(200, "", {"ETag: \"1\""}); }
  static Reply no(int status, const std::string& code) {
    return answer(status, fmt::format("<Error><Code>{}</Code><Message>m</Message></Error>", code));
  }
  // Of a request, or of the metadata that it makes.
  static std::string nonce_of(const Request& request) {
    return request.header("x-amz-meta-ternnonce");
  }
  // The range of `object` that is asked for, or only its head, if If-Match holds.
  static Reply serve(const Request& request, const std::string& object, const std::string& etag,
                     const std::string& nonce = "") {
    std::string tag = "ETag: " + etag;
    if (!nonce.empty()) tag += "\r\nX-Amz-Meta-Ternnonce: " + nonce;
    if (request.method == "HEAD") {
      return {
          fmt::format("HTTP/1.1 200 OK\r\n{}\r\nContent-Length: {}\r\n\r\n", tag, object.size())};
    }
    const std::string match = request.header("if-match");
    if (!match.empty() && match != etag) return no(412, "PreconditionFailed");
    const std::string range = request.header("range");  // "bytes=0-99"
    if (range.empty()) return answer(200, object, {tag});
    const size_t first = std::stoull(range.substr(6));
    if (first >= object.size()) return no(416, "InvalidRange");
    const size_t last =
        std::min<size_t>(std::stoull(range.substr(range.find('-') + 1)), object.size() - 1);
    return answer(206, object.substr(first, last - first + 1),
                  {tag, fmt::format("Content-Range: bytes {}-{}/{}", first, last, object.size())});
  }
  // "PUT /runs/a?x" of every request so far.
  std::vector<std::string> asked() const {
    std::vector<std::string> lines;
    for (const Request& request : server_.requests()) {
      lines.push_back(request.method + " " + request.target);
    }
    return lines;
  }

  AwsFolder folder_;
  SimClock clock_;
  BucketOptions options_;
  // Called on the server's threads.
  std::function<Reply(const Request&)> handler_ = [](const Request&) {
    return no(404, "NoSuchKey");
  };
  TestWebServer server_{[this](const Request& request) { return handler_(request); }};
  std::unique_ptr<HttpClient> http_;
  std::unique_ptr<CloudTransport> transport_;
  std::unique_ptr<Bucket> bucket_;
};

}  // namespace tern
