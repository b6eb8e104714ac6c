// The connection to the supervisor of another machine, from the side that makes it.
#pragma once

#include <functional>
#include <thread>

#include "core/mutex.h"
#include "ranks/entry.h"
#include "ranks/peer_messages.h"

namespace tern {

// Connects, and connects again when the connection is lost, for as long as it lives. Safe from any
// thread; has one of its own, on which on_word is called: that must not block.
class PeerLink {
 public:
  struct Setup {
    int64_t machine = 0;                             // the other one
    EntrySetup entry;                                // of this one
    Nanoseconds timeout = std::chrono::seconds(10);  // without a word: it is gone
    std::function<void(PeerWord)> on_word;
  };
  static Result<std::unique_ptr<PeerLink>> start(Setup setup);
  ~PeerLink();

  // Lost without a connection, as with one that is lost.
  void send(BytesView frame);

 private:
  PeerLink(Setup setup, Descriptor wake);
  void serve(const std::stop_token& stop);
  // Until the connection is lost; whether it was closed, and not only silent.
  bool talk(Entry& entry, const std::stop_token& stop);
  Status take_words(FrameReader& frames);
  bool flush(int socket);

  const Setup setup_;
  const Descriptor wake_;

  Mutex mutex_;
  bool is_connected_ GUARDED_BY(mutex_) = false;
  Bytes output_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
