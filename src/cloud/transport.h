// Requests to a cloud: signed anew for each attempt, tried again where that may help, slowed down
// where the cloud asks for it. Start here for src/cloud; open_store.h is its front door.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <vector>

#include "cloud/bucket.h"
#include "core/clock.h"
#include "core/http_client.h"
#include "core/random.h"
#include "core/result.h"

namespace tern {

struct RetryPolicy {
  Milliseconds first_wait{100};  // doubles, with jitter, up to wait_max; Retry-After is waited out
  Milliseconds wait_max{20'000};
  Milliseconds deadline{120'000};  // of one request, all attempts together
};

// A sentence for people about a service that is waited for, or that answers again. From any thread.
using TellPeople = std::function<void(const std::string& sentence)>;

// What an answer means for the next attempt. Each store reads its own answers.
enum class Verdict {
  done,        // an answer, also one that says no
  retry,       // 408, 500, 502, 504, a timeout of the store's
  throttle,    // 429, 503 SlowDown: retry, and ask for less at once
  new_tokens,  // expired credentials: sign with fresh ones, once
};

// One request, as it can be made again. send_all() calls both from threads of its own, so what
// several requests share is guarded.
struct CloudRequest {
  // Dates and tokens age: called for each attempt. `refresh` asks for credentials anew.
  std::function<Result<HttpRequest>(bool refresh)> make;
  // May take the body away (into its place in a larger object), so that send_all() holds few.
  std::function<Verdict(HttpAnswer&)> judge;
};

// Safe from any thread. References outlive it.
class CloudTransport {
 public:
  // `tell` is called once a request has been tried for 5 s, and when one succeeds after that.
  CloudTransport(HttpClient& http, Clock& clock, const RetryPolicy& policy, int64_t in_flight_max,
                 TellPeople tell = {}, OnSent on_sent = {});

  // Blocks until the deadline, towards which neither the wait for others' requests counts nor five
  // attempts of over 45 s; a Retry-After beyond it is not waited for. `make` is tried again, too,
  // while it is `unavailable`. Errors are those of HttpClient and of `make`; at the deadline the
  // last answer is returned if there was one, else `unavailable` with the last cause and how often.
  Result<HttpAnswer> send(const CloudRequest& request);
  // All of them, at most in_flight_max at once (fewer after throttling); answers in their order.
  std::vector<Result<HttpAnswer>> send_all(std::span<const CloudRequest> requests);

  // How many may be in flight now: fewer than in_flight_max after throttling.
  int64_t in_flight_limit() const;
  HttpClient& http() { return http_; }
  Clock& clock() { return clock_; }

 private:
  class Pace;  // how many may be in flight: halved by a throttle, grown by successes
  class Attempts;

  HttpClient& http_;
  Clock& clock_;
  const RetryPolicy policy_;
  const int64_t in_flight_max_;
  const TellPeople tell_;
  const OnSent on_sent_;
  std::shared_ptr<Pace> pace_;
};

// 408, 425, 500, 502, 504: retry; 429, 503: throttle; else done. What a store's judge begins with.
Verdict judge_status(int status);

}  // namespace tern
