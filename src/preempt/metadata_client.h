// Questions to a cloud's metadata service, and when to ask the next one.
#pragma once

#include <memory>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/http_client.h"
#include "core/log.h"
#include "core/result.h"

namespace tern {

// Asks one service, past all proxies and without following redirects, which would lead away from
// the machine. Of one thread. Makes its connection at the first question.
class MetadataClient {
 public:
  // "http://169.254.169.254"
  explicit MetadataClient(std::string endpoint) : endpoint_(std::move(endpoint)) {}

  struct Question {
    std::string path;  // from the '/' on
    std::vector<HttpHeader> headers;
    std::string method = "GET";
    std::string body;
    Milliseconds limit{2'000};  // until the whole answer is there; a good one takes milliseconds
  };

  // Blocks. Any status is an answer. Errors as HttpClient's; `cancelled` with `stop`.
  Result<HttpAnswer> ask(const Question& question, const std::stop_token& stop);
  // The same, of which only status 200 is a success.
  Result<HttpAnswer> ask_for_value(const Question& question, const std::stop_token& stop);

 private:
  const std::string endpoint_;
  std::unique_ptr<HttpClient> http_;
};

// A status that the service's documents do not have.
Error unexpected_status(int status);

// Paces one thread's questions: one `every` so often, counted from question to question. While they
// fail the pauses double, up to 30 s, and one line in the log says so; so a machine without the
// service, or with one that is ill, trains as it would anyway.
class MetadataPace {
 public:
  struct Setup {
    std::string service;  // for the log: "AWS metadata service"
    Milliseconds every{1'000};
    Clock* clock = nullptr;
    Log* log = nullptr;
  };
  explicit MetadataPace(Setup setup);

  // Waits until the next question is due, `last` being what became of the one before. False once
  // `stop` is requested.
  bool wait(const Status& last, const std::stop_token& stop);

 private:
  const Setup setup_;
  Nanoseconds asked_at_;
  int64_t failures_ = 0;  // in a row
};

}  // namespace tern
