#include "fault_proxy.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "core/random.h"
#include "http_framing.h"

namespace tern {
namespace {

constexpr size_t kMessageBytesMax = size_t{256} << 20;
constexpr size_t kReadBytes = size_t{256} << 10;

sockaddr_in loopback(int port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = htons(static_cast<uint16_t>(port));
  return address;
}

void set_up(int socket) {
  const int on = 1;
  ::setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::fcntl(socket, F_SETFL, ::fcntl(socket, F_GETFL) | O_NONBLOCK);
}

enum class Heard { bytes, nothing_yet, end };

Heard receive(int socket, std::string& into) {
  const size_t before = into.size();
  into.resize(before + kReadBytes);
  const ssize_t got = ::recv(socket, into.data() + before, kReadBytes, 0);
  into.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
  if (got > 0) return Heard::bytes;
  return got < 0 && (errno == EAGAIN || errno == EINTR) ? Heard::nothing_yet : Heard::end;
}

// Moves `done` on; false if the other side is gone.
bool send_some(int socket, const std::string& bytes, size_t& done) {
  const ssize_t sent = ::send(socket, bytes.data() + done, bytes.size() - done, MSG_NOSIGNAL);
  if (sent < 0) return errno == EAGAIN || errno == EINTR;
  done += static_cast<size_t>(sent);
  return true;
}

// The answer of a server in trouble.
std::string trouble(int status, const std::string& reason, int retry_after_s) {
  const std::string body = "planned by a test\n";
  std::string head = fmt::format("HTTP/1.1 {} {}\r\nContent-Type: text/plain\r\n", status, reason);
  if (retry_after_s >= 0) head += fmt::format("Retry-After: {}\r\n", retry_after_s);
  return head + fmt::format("Content-Length: {}\r\n\r\n{}", body.size(), body);
}

}  // namespace

struct FaultProxy::Visit {
  enum class Phase { reading, waiting, asking, telling, over };
  enum class After { keep, close, reset };

  ~Visit() {
    leave_server();
    if (after == After::reset) {
      const linger at_once{.l_onoff = 1, .l_linger = 0};
      ::setsockopt(client, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once);
    }
    ::close(client);
  }

  void leave_server() {
    if (server >= 0) ::close(server);
    server = -1;
  }

  // Ends the visit as a broken connection does.
  void break_off() {
    after = After::reset;
    phase = Phase::over;
  }

  pollfd interest() const {
    if (phase == Phase::reading) return {.fd = client, .events = POLLIN};
    if (phase == Phase::telling) return {.fd = client, .events = POLLOUT};
    if (phase != Phase::asking) return {.fd = -1};
    const bool more = asked < question.size();
    return {.fd = server, .events = static_cast<short>(more ? POLLIN | POLLOUT : POLLIN)};
  }

  int client = -1;
  int server = -1;
  Phase phase = Phase::reading;
  After after = After::keep;
  std::string in;          // from the client; may go on with the next request
  bool continued = false;  // 100 was sent for the request that is read
  std::string method;      // of the request that is dealt with
  WireStep step;
  Nanoseconds until{0};  // the end of the delay
  std::string question;  // to the server
  size_t asked = 0;
  int asks_left = 0;
  std::string answer;  // from the server
  std::string out;     // to the client
  size_t told = 0;
};

WirePlan scripted(std::vector<WireStep> steps) {
  return [steps = std::move(steps)](const WireRequest& request) {
    const auto number = static_cast<size_t>(request.number);
    return number < steps.size() ? steps[number] : WireStep{};
  };
}

WirePlan faulty_share(int64_t every, uint64_t seed) {
  return [every, seed](const WireRequest& request) -> WireStep {
    if (request.number % every != every - 1) return {};
    const std::vector<WireStep> steps = {{.fault = WireFault::cut_request},
                                         {.fault = WireFault::cut_answer},
                                         {.fault = WireFault::lose_answer},
                                         {.fault = WireFault::truncate},
                                         {.delay = Milliseconds(20)},
                                         {.fault = WireFault::fail},
                                         {.fault = WireFault::busy},
                                         {.fault = WireFault::busy, .retry_after_s = 0},
                                         {.fault = WireFault::throttle, .retry_after_s = 0},
                                         {.fault = WireFault::repeat}};
    Random random(seed, Stream::fingerprint, static_cast<uint64_t>(request.number));
    return steps[random.below(static_cast<uint32_t>(steps.size()))];
  };
}

WirePlan delayed(Milliseconds delay) {
  return [delay](const WireRequest&) { return WireStep{.delay = delay}; };
}

FaultProxy::FaultProxy(WirePlan plan) : plan_(std::move(plan)) {
  listener_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  sockaddr_in address = loopback(0);
  socklen_t size = sizeof address;
  auto* plain = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener_, plain, size), 0);
  EXPECT_EQ(::listen(listener_, 128), 0);
  EXPECT_EQ(::getsockname(listener_, plain, &size), 0);
  port_ = ntohs(address.sin_port);
  wake_ = ::eventfd(0, EFD_CLOEXEC);
  thread_ = std::jthread([this](std::stop_token stop) { serve(stop); });
}

FaultProxy::~FaultProxy() {
  thread_.request_stop();
  EXPECT_EQ(::eventfd_write(wake_, 1), 0);
  thread_.join();
  ::close(wake_);
  ::close(listener_);
}

int64_t FaultProxy::requests() const {
  MutexLock lock(mutex_);
  return requests_;
}

std::map<WireFault, int64_t> FaultProxy::faults() const {
  MutexLock lock(mutex_);
  return faults_;
}

void FaultProxy::serve(std::stop_token stop) {
  while (!stop.stop_requested()) {
    std::vector<pollfd> polled = {{.fd = wake_, .events = POLLIN},
                                  {.fd = listener_, .events = POLLIN}};
    Nanoseconds wait = std::chrono::hours(1);
    for (const auto& visit : visits_) {
      polled.push_back(visit->interest());
      if (visit->phase == Visit::Phase::waiting) wait = std::min(wait, visit->until - clock_.now());
    }
    const auto wait_ms = std::chrono::ceil<Milliseconds>(std::max(wait, Nanoseconds(0))).count();
    ::poll(polled.data(), polled.size(), static_cast<int>(wait_ms));
    for (size_t i = 0; i < visits_.size(); ++i) {
      Visit& visit = *visits_[i];
      const bool waited = visit.phase == Visit::Phase::waiting && clock_.now() >= visit.until;
      if (waited) act(visit);
      if (polled[i + 2].revents != 0) work(visit);
    }
    std::erase_if(visits_, [](const auto& v) { return v->phase == Visit::Phase::over; });
    if (polled[1].revents != 0) accept_visit();
  }
  visits_.clear();
}

void FaultProxy::accept_visit() {
  const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (client < 0) return;
  set_up(client);
  visits_.push_back(std::make_unique<Visit>());
  visits_.back()->client = client;
}

void FaultProxy::work(Visit& visit) {
  if (visit.phase == Visit::Phase::reading) {
    read_client(visit);
  } else if (visit.phase == Visit::Phase::asking) {
    hear_server(visit);
  } else if (visit.phase == Visit::Phase::telling) {
    write_client(visit);
  }
}

void FaultProxy::read_client(Visit& visit) {
  const Heard heard = receive(visit.client, visit.in);
  if (heard == Heard::end) visit.phase = Visit::Phase::over;
  if (heard == Heard::bytes) take_request(visit);
}

// Acts as soon as a request is complete.
void FaultProxy::take_request(Visit& visit) {
  visit.phase = Visit::Phase::reading;
  const auto head = read_wire_head(visit.in);
  const auto size = request_size(visit.in);
  const bool expects = head && head->header("expect") == "100-continue";
  if (!size) {
    if (expects && !visit.continued) {
      const std::string_view go_on = "HTTP/1.1 100 Continue\r\n\r\n";
      ::send(visit.client, go_on.data(), go_on.size(), MSG_NOSIGNAL);
      visit.continued = true;
    }
    if (visit.in.size() > kMessageBytesMax) visit.break_off();
    return;
  }
  WireRequest request{.method = std::string(head->method()), .target = std::string(head->target())};
  visit.question = visit.in.substr(0, *size);
  if (expects) visit.question = without_header(visit.question, "expect");  // it was dealt with here
  visit.in.erase(0, *size);
  visit.continued = false;
  visit.method = request.method;
  {
    MutexLock lock(mutex_);
    request.number = requests_++;
  }
  visit.step = plan_(request);
  if (visit.step.fault != WireFault::none) {
    MutexLock lock(mutex_);
    ++faults_[visit.step.fault];
  }
  if (visit.step.delay > Milliseconds(0)) {
    visit.until = clock_.now() + visit.step.delay;
    visit.phase = Visit::Phase::waiting;
  } else {
    act(visit);
  }
}

void FaultProxy::act(Visit& visit) {
  visit.told = 0;
  visit.after = Visit::After::keep;
  visit.asks_left = visit.step.fault == WireFault::repeat ? 2 : 1;
  const int retry_after_s = visit.step.retry_after_s;
  switch (visit.step.fault) {
    case WireFault::fail: visit.out = trouble(500, "Internal Server Error", retry_after_s); break;
    case WireFault::busy: visit.out = trouble(503, "Service Unavailable", retry_after_s); break;
    case WireFault::throttle: visit.out = trouble(429, "Too Many Requests", retry_after_s); break;
    case WireFault::cut_request:
      visit.question.resize(visit.question.size() / 2);
      return ask(visit);
    default: return ask(visit);
  }
  if (visit.method == "HEAD") visit.out.resize(read_wire_head(visit.out)->size);
  visit.phase = Visit::Phase::telling;
}

// On a connection of its own: one that was kept may have been closed by the server meanwhile, which
// would be a fault that nobody planned.
void FaultProxy::ask(Visit& visit) {
  --visit.asks_left;
  visit.leave_server();
  visit.server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in address = loopback(server_port_);
  if (::connect(visit.server, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return visit.break_off();
  }
  set_up(visit.server);
  visit.asked = 0;
  visit.answer.clear();
  visit.phase = Visit::Phase::asking;
}

void FaultProxy::hear_server(Visit& visit) {
  if (visit.asked < visit.question.size()) {
    // A server that says no early may stop listening; its answer is still read.
    if (!send_some(visit.server, visit.question, visit.asked)) visit.asked = visit.question.size();
    if (visit.step.fault == WireFault::cut_request && visit.asked == visit.question.size()) {
      return visit.break_off();
    }
  }
  const Heard heard = receive(visit.server, visit.answer);
  if (heard == Heard::nothing_yet) return;
  for (auto head = read_wire_head(visit.answer); head && head->status() / 100 == 1;
       head = read_wire_head(visit.answer)) {
    visit.answer.erase(0, head->size);
  }
  const auto size = answer_size(visit.answer, visit.method,
                                heard == Heard::end ? Sender::is_gone : Sender::may_go_on);
  if (size) {
    visit.answer.resize(*size);
    return visit.asks_left > 0 ? ask(visit) : tell(visit);
  }
  if (heard == Heard::end || visit.answer.size() > kMessageBytesMax) visit.break_off();
}

// Passes the answer on, or what the plan leaves of it.
void FaultProxy::tell(Visit& visit) {
  visit.leave_server();
  const WireHead head = *read_wire_head(visit.answer);
  const size_t body = visit.answer.size() - head.size;
  size_t kept = visit.answer.size();
  if (visit.step.fault == WireFault::lose_answer) return visit.break_off();
  if (visit.step.fault == WireFault::cut_answer) {
    kept = visit.answer.size() / 2;
    visit.after = Visit::After::reset;
  } else if (visit.step.fault == WireFault::truncate) {
    kept = body == 0 ? head.size / 2 : head.size + body / 2;
    visit.after = Visit::After::close;
  } else if (head.header("connection") == "close" ||
             !answer_size(visit.answer, visit.method, Sender::may_go_on)) {
    visit.after = Visit::After::close;  // also where the end of the connection ends the body
  }
  visit.out = std::move(visit.answer);
  visit.out.resize(kept);
  visit.phase = Visit::Phase::telling;
}

void FaultProxy::write_client(Visit& visit) {
  if (!send_some(visit.client, visit.out, visit.told)) {
    visit.phase = Visit::Phase::over;
  } else if (visit.told < visit.out.size()) {
    return;
  } else if (visit.after != Visit::After::keep) {
    visit.phase = Visit::Phase::over;
  } else {
    take_request(visit);  // the next one may be here already
  }
}

}  // namespace tern
