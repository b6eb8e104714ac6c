#include "core/http_client.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <optional>
#include <thread>

#include "core/curl_errors.h"
#include "core/http_lane.h"
#include "core/mutex.h"
#include "core/web_request.h"

namespace tern {
namespace {

// An eventfd: something to poll that another thread makes readable.
class Bell {
 public:
  Bell() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}
  ~Bell() {
    if (fd_ >= 0) ::close(fd_);
  }
  Bell(const Bell&) = delete;
  Bell& operator=(const Bell&) = delete;

  int fd() const { return fd_; }
  void ring() const {
    const uint64_t one = 1;
    // Fails only where it has rung 2^64 times unheard.
    [[maybe_unused]] const ssize_t written = ::write(fd_, &one, sizeof one);
  }
  void hush() const {
    uint64_t rung = 0;
    [[maybe_unused]] const ssize_t got = ::read(fd_, &rung, sizeof rung);
  }

 private:
  const int fd_;
};

Error cancelled(const HttpRequest& request) {
  return fail(Code::cancelled,
              fmt::format("the request to {} was stopped; start it again", shown_url(request.url)));
}

}  // namespace

// Shared by who waits and by the thread that moves its bytes.
struct HttpClient::Call::State {
  State(HttpRequest what, Driver& by) : request(std::move(what)), driver(by) {}

  void end(Result<HttpAnswer> how) {
    MutexLock lock(mutex);
    result = std::move(how);
    ended.notify_all();
  }
  void wait_for_end() {
    MutexLock lock(mutex);
    ended.wait(lock, [&] {
      mutex.assert_held();
      return result.has_value();
    });
  }
  // False if `stop` or the limit came first.
  bool wait_for_end(const std::stop_token& stop, Milliseconds limit) {
    MutexLock lock(mutex);
    return ended.wait_for(lock, stop, limit, [&] {
      mutex.assert_held();
      return result.has_value();
    });
  }

  const HttpRequest request;
  Driver& driver;  // only until the end
  std::atomic<bool> is_unwanted = false;
  Mutex mutex;
  ConditionVariable ended;
  std::optional<Result<HttpAnswer>> result GUARDED_BY(mutex);
};

// The lanes, of which there are never more than connections_max, and the thread for started calls.
class HttpClient::Driver {
 public:
  using State = Call::State;

  explicit Driver(const HttpOptions& options)
      : options_(options), certificates_(options.certificates) {}
  ~Driver();

  bool has_bells() const { return bell_.fd() >= 0 && stop_bell_.fd() >= 0; }
  Result<HttpAnswer> send(const HttpRequest& request);
  void start(std::shared_ptr<State> state);
  void ring() { bell_.ring(); }

 private:
  using Lane = std::unique_ptr<HttpLane>;
  struct Running {
    std::shared_ptr<State> state;
    Lane lane;
  };

  Result<Lane> take_lane(const HttpRequest& request);
  Result<Lane> try_take_lane(const HttpRequest& request) REQUIRES(mutex_);
  void give_back(Lane lane);

  void run();
  bool begin_queued(std::vector<Running>& running);
  void end_finished(std::vector<Running>& running);

  const HttpOptions options_;
  TrustedCertificates certificates_;
  SystemClock clock_;     // of the network's time, which no test can move
  const Bell bell_;       // for the thread
  const Bell stop_bell_;  // rings from the destruction on, and is never hushed

  Mutex mutex_;
  ConditionVariable lane_is_free_;
  ConditionVariable nobody_sends_;
  std::atomic<bool> is_stopping_ = false;  // set under mutex_
  int64_t senders_ GUARDED_BY(mutex_) = 0;
  int64_t lanes_ GUARDED_BY(mutex_) = 0;
  std::vector<Lane> idle_ GUARDED_BY(mutex_);  // used last: last
  std::deque<std::shared_ptr<State>> queued_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

HttpClient::Driver::~Driver() {
  {
    MutexLock lock(mutex_);
    is_stopping_ = true;
    stop_bell_.ring();
    bell_.ring();
    lane_is_free_.notify_all();
    nobody_sends_.wait(lock, [&] {
      mutex_.assert_held();
      return senders_ == 0;
    });
  }
  if (thread_.joinable()) thread_.join();
}

// An idle lane to the same host, else a new one, else the one that was idle longest, whose
// connection is then closed; null if all are busy.
Result<HttpClient::Driver::Lane> HttpClient::Driver::try_take_lane(const HttpRequest& request) {
  const auto fits = [&](const Lane& lane) {
    return !lane->host().empty() && request.url.starts_with(lane->host()) &&
           request.url.find_first_of("/?#", lane->host().size()) == lane->host().size();
  };
  auto found = std::find_if(idle_.rbegin(), idle_.rend(), fits);
  if (found == idle_.rend() && lanes_ < options_.connections_max) {
    ASSIGN_OR_RETURN(Lane lane, HttpLane::create(options_, certificates_));
    ++lanes_;
    return lane;
  }
  if (idle_.empty()) return Lane();
  const auto place = found == idle_.rend() ? idle_.begin() : std::next(found).base();
  Lane lane = std::move(*place);
  idle_.erase(place);
  return lane;
}

Result<HttpClient::Driver::Lane> HttpClient::Driver::take_lane(const HttpRequest& request) {
  MutexLock lock(mutex_);
  for (;;) {
    if (is_stopping_) return cancelled(request);
    ASSIGN_OR_RETURN(Lane lane, try_take_lane(request));
    if (lane) {
      ++senders_;
      return lane;
    }
    lane_is_free_.wait(lock);
  }
}

void HttpClient::Driver::give_back(Lane lane) {
  MutexLock lock(mutex_);
  idle_.push_back(std::move(lane));
  lane_is_free_.notify_one();
  if (!queued_.empty()) bell_.ring();
}

Result<HttpAnswer> HttpClient::Driver::send(const HttpRequest& request) {
  ASSIGN_OR_RETURN(Lane lane, take_lane(request));
  HttpLane* const only[] = {lane.get()};
  lane->begin(request, clock_.now());
  while (!lane->is_done() && !is_stopping_) wait_for_lanes(only, stop_bell_.fd(), clock_);
  Result<HttpAnswer> answer = lane->is_done() ? lane->finish() : cancelled(request);
  lane->abandon();
  give_back(std::move(lane));
  MutexLock lock(mutex_);
  if (--senders_ == 0 && is_stopping_) nobody_sends_.notify_all();
  return answer;
}

void HttpClient::Driver::start(std::shared_ptr<State> state) {
  MutexLock lock(mutex_);
  queued_.push_back(std::move(state));
  if (!thread_.joinable()) thread_ = std::jthread([this] { run(); });
  bell_.ring();
}

void HttpClient::Driver::run() {
  std::vector<Running> running;
  std::vector<HttpLane*> lanes;
  while (begin_queued(running)) {
    lanes.clear();
    for (const Running& each : running) lanes.push_back(each.lane.get());
    wait_for_lanes(lanes, bell_.fd(), clock_);
    bell_.hush();
    end_finished(running);
  }
  for (const Running& each : running) {
    each.lane->abandon();
    each.state->end(cancelled(each.state->request));
  }
}

// False once the client is being destroyed; then nothing is queued any more.
bool HttpClient::Driver::begin_queued(std::vector<Running>& running) {
  const size_t before = running.size();
  bool goes_on = true;
  {
    MutexLock lock(mutex_);
    goes_on = !is_stopping_;
    while (!queued_.empty()) {
      const std::shared_ptr<State>& state = queued_.front();
      if (!goes_on || state->is_unwanted) {
        state->end(cancelled(state->request));
      } else {
        Result<Lane> lane = try_take_lane(state->request);
        if (lane && !*lane) break;
        if (lane) {
          running.push_back({.state = state, .lane = std::move(*lane)});
        } else {
          state->end(lane.error());
        }
      }
      queued_.pop_front();
    }
  }
  for (size_t i = before; i < running.size(); ++i) {
    running[i].lane->begin(running[i].state->request, clock_.now());
  }
  return goes_on;
}

void HttpClient::Driver::end_finished(std::vector<Running>& running) {
  for (Running& each : running) {
    const bool is_done = each.lane->is_done();
    if (!is_done && !each.state->is_unwanted) continue;
    Result<HttpAnswer> answer = is_done ? each.lane->finish() : cancelled(each.state->request);
    each.lane->abandon();
    give_back(std::move(each.lane));
    each.state->end(std::move(answer));
  }
  std::erase_if(running, [](const Running& each) { return each.lane == nullptr; });
}

HttpClient::Call::Call(std::shared_ptr<State> state) : state_(std::move(state)) {}

HttpClient::Call::Call(Call&&) noexcept = default;

HttpClient::Call& HttpClient::Call::operator=(Call&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

HttpClient::Call::~Call() {
  if (!state_) return;
  {
    MutexLock lock(state_->mutex);
    if (state_->result) return;
  }
  state_->is_unwanted = true;
  state_->driver.ring();
  state_->wait_for_end();  // at once: the thread passes by, or it has ended all
}

Result<HttpAnswer> HttpClient::Call::wait() {
  TERN_CHECK(state_ != nullptr);
  state_->wait_for_end();
  const std::shared_ptr<State> state = std::move(state_);
  MutexLock lock(state->mutex);
  return std::move(*state->result);
}

Result<HttpAnswer> HttpClient::Call::wait(const std::stop_token& stop, Milliseconds limit) {
  TERN_CHECK(state_ != nullptr);
  if (state_->wait_for_end(stop, limit)) return wait();
  if (stop.stop_requested()) return cancelled(state_->request);
  return fail(Code::unavailable,
              fmt::format("{} gave no whole answer within {} ms; try again in a moment",
                          shown_url(state_->request.url), limit.count()));
}

HttpClient::HttpClient(std::unique_ptr<Driver> driver) : driver_(std::move(driver)) {}

HttpClient::~HttpClient() = default;

Result<std::unique_ptr<HttpClient>> HttpClient::create(const HttpOptions& options) {
  if (options.connections_max < 1) {
    return fail(Code::invalid, "no connection is allowed (connections_max); allow 1 or more");
  }
  RETURN_IF_ERROR(start_libcurl());
  auto driver = std::make_unique<Driver>(options);
  if (!driver->has_bells()) {
    return fail(Code::exhausted, "too many open files; raise the limit (ulimit -n)");
  }
  return std::unique_ptr<HttpClient>(new HttpClient(std::move(driver)));
}

HttpClient::Call HttpClient::start(HttpRequest request) {
  auto state = std::make_shared<Call::State>(std::move(request), *driver_);
  driver_->start(state);
  return Call(std::move(state));
}

Result<HttpAnswer> HttpClient::send(const HttpRequest& request) { return driver_->send(request); }

std::string percent_encode(std::string_view text, bool keep_slashes) {
  constexpr std::string_view kKept = "-._~";
  std::string encoded;
  encoded.reserve(text.size());
  for (const char c : text) {
    const bool is_plain = (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') ||
                          (c >= '0' && c <= '9') || kKept.find(c) != std::string_view::npos ||
                          (c == '/' && keep_slashes);
    if (is_plain) {
      encoded += c;
    } else {
      fmt::format_to(std::back_inserter(encoded), "%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return encoded;
}

bool is_header_text(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return c > 0x20 && c < 0x7F; });
}

}  // namespace tern
