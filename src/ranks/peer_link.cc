#include "ranks/peer_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tern {
namespace {

constexpr Milliseconds kTryEvery{100};
constexpr int kLookMs = 100;
constexpr size_t kReadBytes = 64 << 10;
// Events of ranks that a supervisor does not take: it is stopped, and its connection is dropped.
constexpr size_t kOutputBytesMax = 16 << 20;

}  // namespace

Result<std::unique_ptr<PeerLink>> PeerLink::start(Setup setup) {
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  return std::unique_ptr<PeerLink>(new PeerLink(std::move(setup), std::move(wake_up)));
}

PeerLink::PeerLink(Setup setup, Descriptor wake)
    : setup_(std::move(setup)),
      wake_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

PeerLink::~PeerLink() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

void PeerLink::send(BytesView frame) {
  {
    MutexLock lock(mutex_);
    if (!is_connected_) return;
    output_ += frame;
  }
  wake(wake_);
}

void PeerLink::serve(const std::stop_token& stop) {
  bool is_told = false;
  while (!stop.stop_requested()) {
    Result<Entry> entry = enter(setup_.entry, stop);
    if (entry) {
      {
        MutexLock lock(mutex_);
        is_connected_ = true;
        output_.clear();
      }
      setup_.on_word({.kind = PeerWord::Kind::came, .machine = setup_.machine});
      const bool is_dead = talk(*entry, stop);
      {
        MutexLock lock(mutex_);
        is_connected_ = false;
      }
      if (stop.stop_requested()) return;
      setup_.on_word({.kind = PeerWord::Kind::went, .machine = setup_.machine, .is_dead = is_dead});
    } else if (entry.error().code != Code::unavailable && !std::exchange(is_told, true) &&
               !stop.stop_requested()) {
      setup_.on_word({.kind = PeerWord::Kind::failed,
                      .machine = setup_.machine,
                      .why = entry.error().message});
    }
    setup_.entry.clock->wait_for(kTryEvery, stop);
  }
}

bool PeerLink::talk(Entry& entry, const std::stop_token& stop) {
  const int socket = entry.socket.get();
  Nanoseconds looked_at = setup_.entry.clock->now();
  Nanoseconds heard_at = looked_at;
  if (!take_words(entry.frames).has_value()) return false;
  while (true) {
    // The last words, too: a hub that ends says so.
    if (!flush(socket) || stop.stop_requested()) return true;
    bool has_output = false;
    {
      MutexLock lock(mutex_);
      has_output = !output_.empty();
    }
    const auto wants = static_cast<short>(POLLIN | (has_output ? POLLOUT : 0));
    std::array<pollfd, 2> sources{{{socket, wants, 0}, {wake_.get(), POLLIN, 0}}};
    poll(sources.data(), sources.size(), kLookMs);
    clear_wake(wake_);
    const Nanoseconds now = setup_.entry.clock->now();
    // One that was itself stopped for a while has heard nobody: it cannot judge.
    if (now - std::exchange(looked_at, now) > setup_.timeout / 2) heard_at = now;
    if ((sources[0].revents & ~POLLOUT) != 0) {
      std::array<char, kReadBytes> buffer;
      const ssize_t got = recv(socket, buffer.data(), buffer.size(), MSG_DONTWAIT);
      if (got == 0) return true;
      if (got < 0 && errno != EAGAIN && errno != EINTR) return errno == ECONNRESET;
      if (got > 0) {
        heard_at = now;
        entry.frames.add({buffer.data(), static_cast<size_t>(got)});
        if (!take_words(entry.frames).has_value()) return false;
      }
    }
    if (now - heard_at > setup_.timeout) return false;
  }
}

Status PeerLink::take_words(FrameReader& frames) {
  while (true) {
    ASSIGN_OR_RETURN(const std::optional<Bytes> frame, frames.next());
    if (!frame) return {};
    ASSIGN_OR_RETURN(PeerWord word, decode_peer_word(setup_.machine, *frame));
    setup_.on_word(std::move(word));
  }
}

// False if the connection is of no use any more.
bool PeerLink::flush(int socket) {
  MutexLock lock(mutex_);
  while (!output_.empty()) {
    const ssize_t sent =
        ::send(socket, output_.data(), output_.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent <= 0) break;  // full, or broken, which the next read tells
    output_.erase(0, static_cast<size_t>(sent));
  }
  return output_.size() <= kOutputBytesMax;
}

}  // namespace tern
