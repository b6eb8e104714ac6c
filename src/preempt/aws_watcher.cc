#include "preempt/aws_watcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "core/iso_time.h"
#include "preempt/json_text.h"

namespace tern {
namespace {

constexpr char kTokenPath[] = "/latest/api/token";
constexpr char kActionPath[] = "/latest/meta-data/spot/instance-action";
constexpr char kRebalancePath[] = "/latest/meta-data/events/recommendations/rebalance";
// The longest that AWS gives, and how long before its end a new one is asked for.
constexpr std::chrono::seconds kTokenLife{21'600};
constexpr std::chrono::seconds kRenewBefore{300};
constexpr size_t kTokenBytesMax = 4096;  // they have 56
// Advice that cannot be had must not delay the questions that matter.
constexpr Milliseconds kRebalanceAgainAfter{30'000};

}  // namespace

AwsWatcher::AwsWatcher(const CloudSetup& setup)
    : setup_(setup),
      service_(setup.endpoint),
      thread_([this](std::stop_token stop) { watch(stop); }) {}

void AwsWatcher::watch(const std::stop_token& stop) {
  MetadataPace pace({.service = "AWS metadata service", .clock = setup_.clock, .log = setup_.log});
  Status last;
  do {
    last = look(stop);
  } while (!is_preempted_ && pace.wait(last, stop));
}

Status AwsWatcher::look(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, ask(kActionPath, stop));
  if (answer.status == 200) {
    ASSIGN_OR_RETURN(Notice notice, parse_instance_action(answer.body));
    notice.unix_ms = setup_.clock->unix_ms();
    setup_.board->post(std::move(notice));
    is_preempted_ = true;
    return {};
  }
  if (answer.status != 404) return unexpected_status(answer.status);
  if (is_advised_ || setup_.clock->now() < rebalance_due_) return {};
  if (!look_for_rebalance(stop).has_value()) {
    rebalance_due_ = setup_.clock->now() + kRebalanceAgainAfter;
  }
  return {};
}

Status AwsWatcher::look_for_rebalance(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const HttpAnswer answer, ask(kRebalancePath, stop));
  if (answer.status == 404) return {};
  if (answer.status != 200) return unexpected_status(answer.status);
  ASSIGN_OR_RETURN(Notice notice, parse_rebalance(answer.body));
  notice.unix_ms = setup_.clock->unix_ms();
  setup_.board->post(std::move(notice));
  is_advised_ = true;
  return {};
}

// With a token, which is asked for before the first question, before it ends, and when the service
// does not know it any more (401), as after a restart.
Result<HttpAnswer> AwsWatcher::ask(const std::string& path, const std::stop_token& stop) {
  if (setup_.clock->now() >= token_ends_) token_.clear();
  for (bool is_new = false;;) {
    if (token_.empty()) {
      RETURN_IF_ERROR(renew_token(stop));
      is_new = true;
    }
    ASSIGN_OR_RETURN(HttpAnswer answer,
                     service_.ask({.path = path,
                                   .headers = {{"X-aws-ec2-metadata-token", token_}},
                                   .limit = setup_.limit},
                                  stop));
    if (answer.status != 401 || is_new) return answer;
    token_.clear();
  }
}

Status AwsWatcher::renew_token(const std::stop_token& stop) {
  ASSIGN_OR_RETURN(const HttpAnswer answer,
                   service_.ask_for_value({.path = kTokenPath,
                                           .headers = {{"X-aws-ec2-metadata-token-ttl-seconds",
                                                        std::to_string(kTokenLife.count())}},
                                           .method = "PUT",
                                           .limit = setup_.limit},
                                          stop));
  const size_t bytes = answer.body.size();
  if (bytes == 0 || bytes > kTokenBytesMax || !is_header_text(answer.body)) {
    return fail(Code::corrupt, "it gives a token that is none; see what answers at its address");
  }
  token_ = answer.body;
  token_ends_ = setup_.clock->now() + kTokenLife - kRenewBefore;
  return {};
}

Result<Notice> parse_instance_action(BytesView json) {
  const auto answer = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const std::string action = text_in(answer, "action");
  constexpr std::array<std::string_view, 3> kActions = {"terminate", "stop", "hibernate"};
  if (std::ranges::find(kActions, action) == kActions.end()) {
    return fail(
        Code::corrupt,
        "its answer about an interruption names no action that is known; see what answers at "
        "its address");
  }
  // A time that cannot be read takes nothing away from the warning.
  return Notice{.kind = NoticeKind::preempt,
                .source = fmt::format("AWS spot interruption ({})", action),
                .deadline_unix_ms = parse_iso_time(text_in(answer, "time")).value_or(0)};
}

Result<Notice> parse_rebalance(BytesView json) {
  const auto answer = nlohmann::json::parse(json, nullptr, /*allow_exceptions=*/false);
  const std::string time = text_in(answer, "noticeTime");
  if (!parse_iso_time(time)) {
    return fail(
        Code::corrupt,
        "its answer about a rebalance recommendation has no time; see what answers at its address");
  }
  return Notice{.kind = NoticeKind::advice,
                .source = "AWS rebalance recommendation",
                .id = notice_id({"AWS rebalance recommendation", time})};
}

}  // namespace tern
