// A rank's side of its supervisor: who is in the group, the keys that the group's rendezvous stands
// on, and what the supervisor must know of the rank. Wire format: docs/format_ranks.md.
//
//   ASSIGN_OR_RETURN(const auto link, RankLink::open(setup));
//   while (...) {
//     ASSIGN_OR_RETURN(const RankGroup group, link->join({.step = step, ...}, stop));
//     ... build a process group on link's keys, step until link->generation_over() fires or all
//     agree at a step boundary that link->change_is_wanted() ...
//   }
//   link->leave("done");
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "core/bytes.h"
#include "core/clock.h"
#include "core/metadata_endpoint.h"
#include "core/mutex.h"
#include "core/result.h"
#include "preempt/notice.h"
#include "ranks/entry.h"
#include "ranks/messages.h"
#include "ranks/rank_group.h"
#include "ranks/socket.h"

namespace tern {

// What a supervisor puts into the environment of a rank. The secret itself is never there: the
// variable names a pipe that the rank inherits, with the secret in it, to be read once.
inline constexpr char kRankAddressVariable[] = "TERN_RANK_ADDRESS";      // "127.0.0.1:41234"
inline constexpr char kRankSecretVariable[] = "TERN_RANK_SECRET_FD";     // "3"
inline constexpr char kRankIdVariable[] = "TERN_RANK_ID";                // "1"
inline constexpr char kRankMachineVariable[] = "TERN_RANK_MACHINE";      // "0"
inline constexpr char kRankInterfaceVariable[] = "TERN_RANK_INTERFACE";  // "127.0.0.1"
inline constexpr char kRankHeartbeatVariable[] = "TERN_RANK_HEARTBEAT_MS";
inline constexpr char kRankReconnectsVariable[] = "TERN_RANK_RECONNECTS";  // "1", or not set

struct RankSetup {
  std::string address;
  Bytes secret;
  int64_t machine = 0;
  int64_t id = 0;
  std::string interface_address = "127.0.0.1";
  // Whoever answers at the address may change: a closed connection ends the generation only, and
  // the next join() is told to whoever answers then.
  bool reconnects = false;
  Milliseconds heartbeat{500};
  Milliseconds limit{10'000};    // for connecting and for answers that should come at once
  NoticeBoard* board = nullptr;  // the supervisor's notices are posted there; may be none
  Clock* clock = nullptr;        // outlives the link, as the board does
};

// Whether a supervisor started this process.
bool is_supervised(const VariableReader& variable);
// Reads the variables, and the secret from its pipe, which is closed: once in a process. `invalid`
// if something is missing. The caller adds board and clock.
Result<RankSetup> read_rank_setup(const VariableReader& variable);

EntrySetup entry_setup(const RankSetup& setup);

// Owned by the trainer. Safe from any thread. Has one thread of its own, for heartbeats and what
// the supervisor pushes. `unavailable` from everything once the supervisor is gone. With reconnects
// that is when nobody listens at its address any more; a connection that closes makes `aborted` of
// all that waits but join(), which goes on waiting.
class RankLink {
 public:
  // Blocks until the supervisor has let this rank in; not so with reconnects. `permission_denied`
  // if either side cannot prove that it has the run's secret.
  static Result<std::unique_ptr<RankLink>> open(const RankSetup& setup);
  ~RankLink();

  // Leaves the generation that this rank was in, if any, and blocks until a new one has formed.
  // `failed_precondition` naming the option if settings differ from the group's; `cancelled` if
  // stopped; `unavailable` if the supervisor is gone. Of one thread at a time.
  Result<RankGroup> join(const RankJoin& join, std::stop_token stop);

  // Fires as soon as the generation is over: a member was lost. Collectives in flight are to be
  // given up, and waits for keys are.
  std::stop_token generation_over() const;
  // A new rank waits to be let in: leave at the next step boundary (told to all through the step's
  // own all-reduce), by join().
  bool change_is_wanted() const { return change_is_wanted_.load(); }

  // Sent with the next heartbeat; at once for the first step of a generation.
  void tell(RankProgress progress);
  // On purpose: the others regroup without this rank. Nothing else can be asked after it.
  Status leave(std::string_view why);

  // Keys of the current rendezvous; what c10d::Store needs. They last for one generation: they are
  // gone when the next one forms. Waiting ends with `deadline_exceeded` after `timeout`, with
  // `aborted` when the generation is over and with `cancelled` if stopped; the others answer at
  // once. A timeout below 0: none.
  Status set(std::string_view key, const Bytes& value);
  // The same without waiting for the answer, which nobody reads.
  void set_soon(std::string_view key, const Bytes& value);
  // Waits until it is there.
  Result<Bytes> get(std::string_view key, Milliseconds timeout, std::stop_token stop = {});
  Result<int64_t> add(std::string_view key, int64_t amount);
  Result<Bytes> compare_set(std::string_view key, const Bytes& expected, const Bytes& desired);
  Result<bool> remove(std::string_view key);
  Result<bool> check(const std::vector<std::string>& keys);
  Status wait(const std::vector<std::string>& keys, Milliseconds timeout,
              std::stop_token stop = {});
  Result<int64_t> keys();

 private:
  RankLink(const RankSetup& setup, Descriptor wake, std::optional<Entry> entry);

  int64_t next_request() { return ++last_request_; }
  Result<Bytes> ask(int64_t request, Bytes frame, Milliseconds timeout, std::stop_token stop);
  Result<int64_t> ask_number(int64_t request, Bytes frame);
  Status send_frame(Bytes frame) REQUIRES(mutex_);
  void flush() REQUIRES(mutex_);

  void serve(const std::stop_token& stop);
  Status connect_again(const std::stop_token& stop);
  void take_entry(Entry entry);
  Status talk(const std::stop_token& stop);
  Status receive(int socket);
  Status obey_all();
  Status obey(BytesView frame);
  Status take_answer(BytesView frame);
  void beat();
  void lose(const Error& why);

  const RankSetup setup_;
  const Descriptor wake_;
  FrameReader frames_;  // of the thread
  std::atomic<int64_t> last_request_{0};
  std::atomic<bool> change_is_wanted_{false};

  mutable Mutex mutex_;
  ConditionVariable answered_;
  Descriptor socket_ GUARDED_BY(mutex_);  // written by the thread alone
  bool is_connected_ GUARDED_BY(mutex_) = false;
  bool is_lost_ GUARDED_BY(mutex_) = false;  // since the last join()
  Bytes output_ GUARDED_BY(mutex_);
  std::map<int64_t, std::optional<Result<Bytes>>> requests_ GUARDED_BY(mutex_);
  std::optional<Error> ended_ GUARDED_BY(mutex_);
  std::stop_source over_ GUARDED_BY(mutex_);
  int64_t join_request_ GUARDED_BY(mutex_) = 0;  // 0: none waits
  int64_t generation_ GUARDED_BY(mutex_) = -1;
  int64_t rank_ GUARDED_BY(mutex_) = -1;  // in it
  int64_t joined_at_step_ GUARDED_BY(mutex_) = -1;
  bool has_stepped_ GUARDED_BY(mutex_) = false;
  bool has_left_ GUARDED_BY(mutex_) = false;
  RankProgress progress_ GUARDED_BY(mutex_);

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
