#include "ranks/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

namespace tern {
namespace {

// In each direction of each connection: a few of the largest that is said often.
constexpr size_t kWayBytes = 256 << 10;
constexpr size_t kReadBytes = 64 << 10;
// More than a machine has ranks; what comes beyond is closed.
constexpr size_t kPipesMax = 2'048;

}  // namespace

Result<std::unique_ptr<Relay>> Relay::start() {
  ASSIGN_OR_RETURN(Listening listening, listen_on("127.0.0.1"));
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  return std::unique_ptr<Relay>(new Relay(std::move(listening), std::move(wake_up)));
}

Relay::Relay(Listening listening, Descriptor wake)
    : listener_(std::move(listening.socket)),
      address_(std::move(listening.address)),
      wake_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

Relay::~Relay() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

void Relay::aim(const std::string& hub) {
  {
    MutexLock lock(mutex_);
    wanted_ = hub;
    is_wanted_ = true;
  }
  wake(wake_);
}

void Relay::serve(const std::stop_token& stop) {
  std::vector<pollfd> sources;
  while (!stop.stop_requested()) {
    sources.assign({{listener_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}});
    for (const Pipe& pipe : pipes_) {
      const auto wants = [](const Way& in, const Way& out) {
        const bool has_room = !in.has_ended && in.bytes.size() < kWayBytes;
        return static_cast<short>((has_room ? POLLIN : 0) | (out.bytes.empty() ? 0 : POLLOUT));
      };
      sources.push_back({pipe.rank.get(), wants(pipe.to_hub, pipe.to_rank), 0});
      sources.push_back({pipe.hub.get(), wants(pipe.to_rank, pipe.to_hub), 0});
    }
    poll(sources.data(), sources.size(), -1);
    clear_wake(wake_);
    size_t next = 2;
    for (auto pipe = pipes_.begin(); pipe != pipes_.end(); next += 2) {
      bool lives = true;
      if (sources[next].revents != 0 || sources[next + 1].revents != 0) {
        lives = pass(pipe->rank.get(), pipe->hub.get(), pipe->to_hub) &&
                pass(pipe->hub.get(), pipe->rank.get(), pipe->to_rank);
      }
      pipe = lives ? std::next(pipe) : pipes_.erase(pipe);
    }
    take_aim();
    if (sources[0].revents != 0) accept_all();
  }
}

void Relay::take_aim() {
  MutexLock lock(mutex_);
  if (!std::exchange(is_wanted_, false)) return;
  hub_ = wanted_;
  pipes_.clear();
}

void Relay::accept_all() {
  while (true) {
    Pipe pipe;
    pipe.rank.reset(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!pipe.rank.is_open()) return;
    if (hub_.empty() || pipes_.size() >= kPipesMax) continue;
    Result<Descriptor> hub = begin_connect(hub_);
    if (!hub) continue;
    send_without_delay(pipe.rank.get());
    pipe.hub = std::move(*hub);
    pipes_.push_back(std::move(pipe));
  }
}

// False once nothing more can pass, and all that was said has.
bool Relay::pass(int from, int to, Way& way) {
  std::array<char, kReadBytes> buffer;
  if (!way.has_ended && way.bytes.size() < kWayBytes) {
    const ssize_t got = recv(from, buffer.data(), buffer.size(), MSG_DONTWAIT);
    if (got > 0) way.bytes.append(buffer.data(), static_cast<size_t>(got));
    way.has_ended = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
  }
  while (!way.bytes.empty()) {
    const ssize_t sent = send(to, way.bytes.data(), way.bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0 && errno != EAGAIN && errno != EINTR) return false;
    if (sent <= 0) break;
    way.bytes.erase(0, static_cast<size_t>(sent));
  }
  return !way.has_ended || !way.bytes.empty();
}

}  // namespace tern
