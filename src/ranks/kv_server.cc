#include "ranks/kv_server.h"

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>

#include "core/token.h"

namespace tern {
namespace {

// Hung ranks, late strangers: several looks within the shortest of these times cost nothing.
constexpr int kTickMs = 100;
constexpr size_t kReadBytes = 64 << 10;

// Not numbers of connections, which begin with 1 and do not come that far.
constexpr uint64_t kListenerMark = ~uint64_t{0};
constexpr uint64_t kWakeMark = kListenerMark - 1;

RankHub::Setup hub_setup(const KvServer::Setup& setup) {
  return {.secret = setup.secret,
          .rules = setup.rules,
          .limits = setup.limits,
          .nonce = [] { return random_bytes(kSecretBytes); },
          .on_event = setup.on_event,
          .machines = setup.machines,
          .on_peer = setup.on_peer};
}

}  // namespace

Result<std::unique_ptr<KvServer>> KvServer::start(Setup setup) {
  TERN_CHECK(setup.secret.size() == kSecretBytes && setup.clock != nullptr);
  ASSIGN_OR_RETURN(Listening listening, listen_on(setup.address, setup.port));
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  Descriptor poller(epoll_create1(EPOLL_CLOEXEC));
  if (!poller.is_open()) return fail(Code::exhausted, "no descriptor for epoll; see ulimit -n");
  return std::unique_ptr<KvServer>(
      new KvServer(std::move(setup), std::move(listening), std::move(poller), std::move(wake_up)));
}

KvServer::KvServer(Setup setup, Listening listening, Descriptor poller, Descriptor wake)
    : setup_(std::move(setup)),
      listener_(std::move(listening.socket)),
      address_(std::move(listening.address)),
      poller_(std::move(poller)),
      wake_(std::move(wake)),
      hub_(hub_setup(setup_)),
      thread_([this](const std::stop_token& stop) { serve(stop); }) {}

KvServer::~KvServer() {
  thread_.request_stop();
  wake(wake_);
  thread_.join();
}

void KvServer::order(Order order) {
  {
    MutexLock lock(mutex_);
    orders_.push_back(std::move(order));
  }
  wake(wake_);
}

void KvServer::post(Notice notice) {
  order([told = PeerNotice{.machine = -1, .notice = std::move(notice)}](RankHub& hub, Nanoseconds) {
    hub.post(told);
  });
}

void KvServer::serve(const std::stop_token& stop) {
  watch(listener_.get(), kListenerMark, false, EPOLL_CTL_ADD);
  watch(wake_.get(), kWakeMark, false, EPOLL_CTL_ADD);
  std::array<epoll_event, 64> events;
  Nanoseconds ticked = setup_.clock->now();
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
    const Nanoseconds now = setup_.clock->now();
    if (count <= 0 || now - ticked >= Milliseconds(kTickMs)) {
      ticked = now;
      hub_.tick(now);
    }
    close_condemned();
    write_all();
  }
  // The last words: a hub that ends says so.
  take_orders();
  write_all();
}

void KvServer::take_orders() {
  std::vector<Order> orders;
  {
    MutexLock lock(mutex_);
    orders = std::exchange(orders_, {});
  }
  for (const Order& order : orders) order(hub_, setup_.clock->now());
}

void KvServer::accept_all() {
  while (true) {
    Descriptor socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.is_open()) return;
    send_without_delay(socket.get());
    const uint64_t id = hub_.open(setup_.clock->now());
    watch(socket.get(), id, false, EPOLL_CTL_ADD);
    peers_[id].socket = std::move(socket);
  }
}

void KvServer::read_from(uint64_t id) {
  const auto found = peers_.find(id);
  if (found == peers_.end()) return;
  std::array<char, kReadBytes> buffer;
  const ssize_t got = recv(found->second.socket.get(), buffer.data(), buffer.size(), 0);
  if (got > 0) {
    hub_.receive(id, {buffer.data(), static_cast<size_t>(got)}, setup_.clock->now());
  } else if (got == 0 || (errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)) {
    const bool is_closed = got == 0 || errno == ECONNRESET;
    peers_.erase(found);
    hub_.close(id, setup_.clock->now(), is_closed ? RankHub::End::closed : RankHub::End::cut);
  }
}

void KvServer::write_all() {
  for (auto& [id, peer] : peers_) {
    Bytes* const output = hub_.output(id);
    if (output == nullptr) continue;
    while (!output->empty()) {
      const ssize_t sent =
          send(peer.socket.get(), output->data(), output->size(), MSG_NOSIGNAL | MSG_DONTWAIT);
      if (sent <= 0) break;  // full, or broken, which the next read tells
      output->erase(0, static_cast<size_t>(sent));
    }
    const bool waits = !output->empty();
    if (waits == peer.waits_for_output) continue;
    peer.waits_for_output = waits;
    watch(peer.socket.get(), id, waits, EPOLL_CTL_MOD);
  }
}

void KvServer::close_condemned() {
  for (const uint64_t id : hub_.take_condemned(setup_.clock->now())) peers_.erase(id);
}

void KvServer::watch(int socket, uint64_t connection, bool for_output, int operation) {
  epoll_event event{};
  event.events = EPOLLIN | EPOLLRDHUP;
  if (for_output) event.events |= EPOLLOUT;
  event.data.u64 = connection;
  epoll_ctl(poller_.get(), operation, socket, &event);
}

}  // namespace tern
