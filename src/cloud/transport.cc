#include "cloud/transport.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <system_error>
#include <thread>

#include "core/http_date.h"
#include "core/mutex.h"

namespace tern {
namespace {

// Of a write, once a request has run into its deadline and until something works again: a run saves
// many objects in turn, and the wait for a service that is away need not be paid for each.
constexpr Milliseconds kAwayDeadline{2'000};
constexpr Milliseconds kTellAfter{5'000};  // somebody may be waiting
// An attempt that lasted longer has moved bytes, or it had been ended as one that cannot connect
// (10 s) or stalls (30 s): so it is no sign of a service that is away.
constexpr Milliseconds kMovedAfter{45'000};
constexpr int kLongAttemptsMax = 5;

// "120" or "Sun, 06 Nov 1994 08:49:37 GMT" (RFC 9110, 10.2.3); zero for what is neither.
Milliseconds retry_after(const HttpAnswer& answer, int64_t now_unix_ms) {
  const std::string_view text = answer.header("Retry-After");
  const bool is_number = !text.empty() && text.size() <= 9 &&
                         text.find_first_not_of("0123456789") == std::string_view::npos;
  if (is_number) return std::chrono::seconds(std::stol(std::string(text)));
  const std::optional<int64_t> date = parse_http_date(text);
  return Milliseconds(date ? std::max<int64_t>(*date - now_unix_ms, 0) : 0);
}

}  // namespace

// Additive increase, multiplicative decrease, as TCP has it: a throttle halves what may be in
// flight, and as many successes as that allow one more. Safe from any thread.
class CloudTransport::Pace {
 public:
  explicit Pace(int64_t in_flight_max)
      : limit_max_(static_cast<double>(std::max<int64_t>(in_flight_max, 1))), limit_(limit_max_) {}

  // Blocks while enough are in flight. Returns what leave() wants to know again.
  int64_t enter() {
    MutexLock lock(mutex_);
    changed_.wait(lock, [&] {
      mutex_.assert_held();
      return static_cast<double>(in_flight_ + 1) <= limit_;
    });
    ++in_flight_;
    return decreases_;
  }

  enum class Outcome { success, throttled, failed };

  void leave(int64_t entered, Outcome outcome) {
    MutexLock lock(mutex_);
    --in_flight_;
    if (outcome == Outcome::success) limit_ = std::min(limit_ + 1 / limit_, limit_max_);
    // Those that were under way at the last decrease say again what it already answers.
    if (outcome == Outcome::throttled && entered == decreases_) {
      limit_ = std::max(limit_ / 2, 1.0);
      ++decreases_;
    }
    changed_.notify_all();
  }

  int64_t limit() {
    MutexLock lock(mutex_);
    return static_cast<int64_t>(limit_);
  }

  // Whether the last request that ended ran into its deadline.
  void set_away(bool is_away) { is_away_ = is_away; }
  bool is_away() const { return is_away_; }

  // What it was before: the wait is told once, however many requests wait.
  bool set_told(bool is_told) { return is_told_.exchange(is_told); }

  // From `now`, which no two machines share.
  uint32_t random(Nanoseconds now) {
    const auto seed = static_cast<uint64_t>(now.count());
    return philox4x32({drawn_++, 0, 0, 0},
                      {static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)})[0];
  }

 private:
  const double limit_max_;
  std::atomic<uint32_t> drawn_ = 0;
  std::atomic<bool> is_away_ = false;
  std::atomic<bool> is_told_ = false;

  Mutex mutex_;
  ConditionVariable changed_;
  double limit_ GUARDED_BY(mutex_);
  int64_t in_flight_ GUARDED_BY(mutex_) = 0;
  int64_t decreases_ GUARDED_BY(mutex_) = 0;
};

// One send(): what has been tried so far.
class CloudTransport::Attempts {
 public:
  Attempts(CloudTransport& transport, const CloudRequest& request)
      : transport_(transport), request_(request), began_(transport.clock_.now()) {}

  Result<HttpAnswer> run() {
    for (;;) {
      ASSIGN_OR_RETURN(const bool is_done, try_once());
      if (!is_done) tell_if_late();
      const bool goes_on = !is_done && wait();
      if (goes_on) continue;
      transport_.pace_->set_away(!is_done);
      if (is_done) tell_the_end();
      break;
    }
    if (answer_) return std::move(*answer_);
    const std::string times = attempts_ == 1 ? "once" : fmt::format("{} times", attempts_);
    return fail(last_error_.code,
                fmt::format("tried {} in {:.0f} s without an answer, and the last time: {}", times,
                            to_seconds(transport_.clock_.now() - began_), last_error_.message));
  }

 private:
  // True if there is an answer to return; an error if no other attempt could help.
  Result<bool> try_once() {
    const bool refresh = std::exchange(wants_tokens_, false) || std::exchange(lacks_tokens_, false);
    ++attempts_;
    asked_wait_ = Milliseconds(0);
    const Result<HttpRequest> request = request_.make(refresh);
    if (!request) return not_made(request.error(), refresh);
    const HttpRequest& made = *request;
    is_write_ = made.method != "GET" && made.method != "HEAD";
    Pace& pace = *transport_.pace_;
    const Nanoseconds before = transport_.clock_.now();
    const int64_t entered = pace.enter();
    const Nanoseconds sent_at = transport_.clock_.now();
    not_counted_ += sent_at - before;  // the others' time
    Result<HttpAnswer> answer = transport_.http_.send(made);
    forgive_if_long(transport_.clock_.now() - sent_at);
    if (!answer) {
      pace.leave(entered, Pace::Outcome::failed);
      last_error_ = answer.error();
      cause_ = last_error_.message;
      if (last_error_.code != Code::unavailable) return last_error_;
      return false;
    }
    const Verdict verdict = request_.judge(*answer);
    // Before the next may begin, so that never more than in_flight_max are in memory.
    const bool is_sent = verdict == Verdict::done && !made.body.empty();
    if (is_sent && transport_.on_sent_) transport_.on_sent_(made.body);
    pace.leave(entered, verdict == Verdict::throttle ? Pace::Outcome::throttled
                        : verdict == Verdict::done   ? Pace::Outcome::success
                                                     : Pace::Outcome::failed);
    asked_wait_ = retry_after(*answer, transport_.clock_.unix_ms());
    answer_ = std::move(*answer);
    if (verdict != Verdict::done)
      cause_ = fmt::format("it answers with status {}", answer_->status);
    if (verdict != Verdict::new_tokens) return verdict == Verdict::done;
    wants_tokens_ = !std::exchange(had_tokens_, true);
    return !wants_tokens_;
  }

  // A metadata service that is away for a moment ends no run.
  Result<bool> not_made(const Error& problem, bool refresh) {
    last_error_ = problem;
    cause_ = problem.message;
    answer_.reset();  // what it said before is not why this fails
    lacks_tokens_ = refresh;
    if (problem.code != Code::unavailable) return problem;
    return false;
  }

  void forgive_if_long(Nanoseconds took) {
    const bool is_given_up_soon = is_write_ && transport_.pace_->is_away();
    if (took < kMovedAfter || is_given_up_soon || long_attempts_ == kLongAttemptsMax) return;
    ++long_attempts_;
    not_counted_ += took;
  }

  // Before the next attempt. False if there is no time left for one.
  bool wait() {
    if (wants_tokens_) return true;  // the cloud is well, and waits for them
    const Nanoseconds left = deadline() - elapsed();
    if (left <= Nanoseconds(0) || asked_wait_ >= left) return false;
    const Nanoseconds pause = std::max<Nanoseconds>(asked_wait_, next_pause());
    return transport_.clock_.wait_for(std::min(pause, left), {});
  }

  // Anything up to twice the last limit: many that failed together do not return together.
  Nanoseconds next_pause() {
    const RetryPolicy& policy = transport_.policy_;
    const int doublings = std::min(pauses_++, 30);
    const Nanoseconds limit = std::min<Nanoseconds>(
        Nanoseconds(policy.first_wait) * (int64_t{1} << doublings), policy.wait_max);
    const double part = transport_.pace_->random(transport_.clock_.now()) * 0x1.0p-32;
    return Nanoseconds(static_cast<int64_t>(static_cast<double>(limit.count()) * part));
  }

  Nanoseconds deadline() const {
    const Milliseconds whole = transport_.policy_.deadline;
    return is_write_ && transport_.pace_->is_away() ? std::min(kAwayDeadline, whole) : whole;
  }

  void tell_if_late() {
    const Nanoseconds passed = elapsed();
    const Nanoseconds left = deadline() - passed;
    if (!transport_.tell_ || passed < kTellAfter || left <= Nanoseconds(0)) return;
    if (transport_.pace_->set_told(true)) return;
    transport_.tell_(
        fmt::format("waiting for the store since {:.0f} s, for at most {:.0f} s more: {}",
                    to_seconds(passed), to_seconds(left), cause_));
  }

  void tell_the_end() {
    const bool was_told = transport_.pace_->set_told(false);
    if (was_told && transport_.tell_) transport_.tell_("the store answers again");
  }

  // That counts towards the deadline.
  Nanoseconds elapsed() const { return transport_.clock_.now() - began_ - not_counted_; }

  CloudTransport& transport_;
  const CloudRequest& request_;
  const Nanoseconds began_;
  int64_t attempts_ = 0;
  int pauses_ = 0;
  int long_attempts_ = 0;
  Nanoseconds not_counted_{0};
  bool is_write_ = true;  // until one could be made
  bool wants_tokens_ = false;
  bool lacks_tokens_ = false;  // those that it wanted could not be had
  bool had_tokens_ = false;
  Milliseconds asked_wait_{0};
  std::optional<HttpAnswer> answer_;  // the last one
  Error last_error_;
  std::string cause_;  // of the last attempt's failure
};

CloudTransport::CloudTransport(HttpClient& http, Clock& clock, const RetryPolicy& policy,
                               int64_t in_flight_max, TellPeople tell, OnSent on_sent)
    : http_(http),
      clock_(clock),
      policy_(policy),
      in_flight_max_(std::max<int64_t>(in_flight_max, 1)),
      tell_(std::move(tell)),
      on_sent_(std::move(on_sent)),
      pace_(std::make_shared<Pace>(in_flight_max_)) {}

Result<HttpAnswer> CloudTransport::send(const CloudRequest& request) {
  return Attempts(*this, request).run();
}

std::vector<Result<HttpAnswer>> CloudTransport::send_all(std::span<const CloudRequest> requests) {
  std::vector<Result<HttpAnswer>> answers(requests.size(), fail(Code::internal, "not sent"));
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < requests.size(); i = next++) answers[i] = send(requests[i]);
  };
  // On threads, since each request also wants to be hashed and signed.
  std::vector<std::jthread> others;
  const size_t at_once = std::min(requests.size(), static_cast<size_t>(in_flight_max_));
  try {
    for (size_t i = 1; i < at_once; ++i) others.emplace_back(work);
  } catch (const std::system_error&) {
    // No more threads to be had: fewer do it too.
  }
  work();
  others.clear();  // joins them
  return answers;
}

int64_t CloudTransport::in_flight_limit() const { return pace_->limit(); }

Verdict judge_status(int status) {
  switch (status) {
    case 408:
    case 425:
    case 500:
    case 502:
    case 504: return Verdict::retry;
    case 429:
    case 503: return Verdict::throttle;
    default: return Verdict::done;
  }
}

}  // namespace tern
