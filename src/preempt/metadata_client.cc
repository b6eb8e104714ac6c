#include "preempt/metadata_client.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace tern {
namespace {

// An answer about one machine; Azure's may list the events of a whole scale set.
constexpr int64_t kAnswerBytesMax = 1 << 20;
// Silence is bounded by each question's own limit. Google's service is silent on purpose.
constexpr Milliseconds kStallLimit{600'000};
constexpr Milliseconds kConnectLimit{2'000};
constexpr Milliseconds kPauseMax{30'000};
// A single failure is nothing that a person must know.
constexpr int64_t kFailuresUntilSaid = 3;

}  // namespace

Result<HttpAnswer> MetadataClient::ask(const Question& question, const std::stop_token& stop) {
  if (http_ == nullptr) {
    ASSIGN_OR_RETURN(http_, HttpClient::create({.connections_max = 1,
                                                .connect_limit = kConnectLimit,
                                                .stall_limit = kStallLimit,
                                                .proxies = false}));
  }
  HttpClient::Call call = http_->start({.method = question.method,
                                        .url = endpoint_ + question.path,
                                        .headers = question.headers,
                                        .body = question.body,
                                        .answer_bytes_max = kAnswerBytesMax});
  return call.wait(stop, question.limit);
}

Result<HttpAnswer> MetadataClient::ask_for_value(const Question& question,
                                                 const std::stop_token& stop) {
  ASSIGN_OR_RETURN(HttpAnswer answer, ask(question, stop));
  if (answer.status != 200) return unexpected_status(answer.status);
  return answer;
}

Error unexpected_status(int status) {
  return fail(Code::unavailable, fmt::format("it answers with status {}; see whether it is "
                                             "switched off for this machine",
                                             status));
}

MetadataPace::MetadataPace(Setup setup)
    : setup_(std::move(setup)), asked_at_(setup_.clock->now()) {}

bool MetadataPace::wait(const Status& last, const std::stop_token& stop) {
  if (stop.stop_requested()) return false;
  Nanoseconds pause = setup_.every - (setup_.clock->now() - asked_at_);
  if (!last.has_value()) {
    ++failures_;
    pause = std::min<Nanoseconds>(
        kPauseMax, setup_.every * (int64_t{1} << std::min<int64_t>(failures_ - 1, 10)));
    if (failures_ == kFailuresUntilSaid) {
      setup_.log->warn("preempt",
                       fmt::format("the {} does not tell whether this machine will go; training "
                                   "goes on, and it is asked again now and then",
                                   setup_.service),
                       {{"cause", last.error().to_string()}});
    }
  } else {
    if (failures_ >= kFailuresUntilSaid) {
      setup_.log->info("preempt", fmt::format("the {} answers again", setup_.service));
    }
    failures_ = 0;
  }
  if (pause > Nanoseconds(0) && !setup_.clock->wait_for(pause, stop)) return false;
  asked_at_ = setup_.clock->now();
  return !stop.stop_requested();
}

}  // namespace tern
