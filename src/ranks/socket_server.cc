#include "ranks/socket_server.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

namespace tern {
namespace {

// Hung ranks, late strangers: several looks within the shortest of these times cost nothing.
constexpr int kTickMs = 100;
constexpr size_t kReadBytes = 64 << 10;

// Not numbers of connections, which begin with 1 and do not come that far.
constexpr uint64_t kListenerMark = ~uint64_t{0};
constexpr uint64_t kWakeMark = kListenerMark - 1;

}  // namespace

Result<std::unique_ptr<SocketServer>> SocketServer::start(const Setup& setup) {
  TERN_CHECK(setup.handler != nullptr && setup.clock != nullptr);
  ASSIGN_OR_RETURN(Listening listening, listen_on(setup.address, setup.port));
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
  if (!poller.is_open()) return fail(Code::exhausted, "no descriptor for epoll; see ulimit -n");
  return std::unique_ptr<SocketServer>(
      new SocketServer(setup, std::move(listening), std::move(poller), std::move(wake_up)));
}

SocketServer::SocketServer(const Setup& setup, Listening listening, Descriptor poller,
                           Descriptor wake)
    : handler_(setup.handler),
      clock_(setup.clock),
      listener_(std::move(listening.socket)),
      address_(std::move(listening.address)),
      poller_(std::move(poller)),
      wake_(std::move(wake)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

SocketServer::~SocketServer() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

void SocketServer::order(Order order) {
  {
    MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
  }
  wake(wake_);
}

void SocketServer::serve(const std::stop_token& stop) {
  watch(listener_.get(), kListenerMark, false, EPOLL_CTL_ADD);
  watch(wake_.get(), kWakeMark, false, EPOLL_CTL_ADD);
  std::array<epoll_event, 64> events;
  Nanoseconds ticked = clock_->now();
  while (!stop.stop_requested()) {
    const int count =
        epoll_wait(poller_.get(), events.data(), static_cast<int>(events.size()), kTickMs);
    for (int i = 0; i < count; ++i) {
      const uint64_t mark = events[static_cast<size_t>(i)].data.u64;
      if (mark == kListenerMark) {
        accept_all();
      } else if (mark == kWakeMark) {
        clear_wake(wake_);
      } else {
        read_from(mark);
      }
    }
    take_orders();
    // After the reading: signs of life that have arrived count.
    const Nanoseconds now = clock_->now();
    if (count <= 0 || now - ticked >= Milliseconds(kTickMs)) {
      ticked = now;
      handler_->tick(now);
      if (std::exchange(is_full_, false)) {
        watch(listener_.get(), kListenerMark, false, EPOLL_CTL_ADD);
      }
    }
    close_condemned();
    write_all();
  }
  // The last words: a handler that ends says so.
  take_orders();
  write_all();
}

void SocketServer::take_orders() {
  std::vector<Order> orders;
  {
    MutexLock lock(mutex_);
    orders = std::exchange(orders_, {});
  }
  for (const Order& order : orders) order(clock_->now());
}

void SocketServer::accept_all() {
  while (true) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) {
      // It would be told of those that wait without a pause; at the next tick it looks again.
      is_full_ = errno == EMFILE || errno == ENFILE;
      if (is_full_) watch(listener_.get(), kListenerMark, false, EPOLL_CTL_DEL);
      return;
    }
    send_without_delay(socket.get());
    const uint64_t id = handler_->open(clock_->now());
    watch(socket.get(), id, false, EPOLL_CTL_ADD);
    peers_[id].socket = std::move(socket);
  }
}

void SocketServer::read_from(uint64_t id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(found->second.socket.get(), buffer.data(), buffer.size(), 0);
  if (got > 0) {
    handler_->receive(id, {buffer.data(), static_cast<size_t>(got)}, clock_->now());
  } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    const bool is_closed = got == 0 || errno == ECONNRESET;
    peers_.erase(found);
    handler_->close(id, clock_->now(),
                    is_closed ? ConnectionHandler::End::closed : ConnectionHandler::End::cut);
  }
}

void SocketServer::write_all() {
  for (auto& [id, peer] : peers_) {
    Bytes* const output = handler_->output(id);
    if (output == nullptr) continue;
    while (peer.sent < output->size()) {
      const ssize_t sent = send(peer.socket.get(), output->data() + peer.sent,
                                output->size() - peer.sent, MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) break;  // full, or broken, which the next read tells
      peer.sent += static_cast<size_t>(sent);
    }
    if (peer.sent > output->size() / 2) output->erase(0, std::exchange(peer.sent, 0));
    const bool waits = !output->empty();
    if (waits == peer.waits_for_output) continue;
    peer.waits_for_output = waits;
    watch(peer.socket.get(), id, waits, EPOLL_CTL_MOD);
  }
}

void SocketServer::close_condemned() {
  for (const uint64_t id : handler_->take_condemned(clock_->now())) peers_.erase(id);
}

void SocketServer::watch(int socket, uint64_t connection, bool for_output, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (for_output) event.events |= EPOLLOUT;
  event.data.u64 = connection;
  epoll_ctl(poller_.get(), operation, socket, &event);
}

}  // namespace tern
