// What a program's run keeps in its store: the checkpoint folder and the ledger.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/clock.h"
#include "core/log.h"
#include "core/mutex.h"
#include "core/result.h"
#include "program/checkpoint_folder.h"
#include "program/program_rank.h"
#include "storage/holder.h"
#include "storage/ledger.h"

namespace tern {

// Owned by a rank. While that leads, one thread copies what the program saves and writes the
// ledger, so that neither holds up an attempt. A store that fails is warned of, and tried again.
// Once another process has taken the run over it writes nothing more, until it leads again.
class RunKeeper final : public AttemptWatcher {
 public:
  struct Setup {
    ObjectStore* run = nullptr;  // outlives this, as all below
    ProgramFolders folders;
    std::filesystem::path work;
    std::vector<std::string> words;
    std::string version;     // of tern
    bool is_again = false;   // a rank of this supervisor has led, or followed, before this process
    bool has_peers = false;  // other machines may have gone on without this one
    RankLink* link = nullptr;
    Clock* clock = nullptr;
    Log* log = nullptr;
  };
  static Result<std::unique_ptr<RunKeeper>> create(Setup setup);
  ~RunKeeper() override;

  Result<int64_t> begin_leading(const PlaceInGroup& place,
                                const std::vector<std::string>& members) override;
  void begin_following() override;
  Status follow(int64_t checkpoint) override;
  void noticed(const Notice& notice) override;
  void broke_off() override;
  Status finish(int exit_code) override;
  void failed(const std::string& how, int exit_code) override;
  void interrupted() override;

 private:
  RunKeeper(Setup setup, Holder me);

  CheckpointFolder make_folder();
  void set_torn_aside(int64_t ended_unix_ms);
  void start_keeping(bool adopts);
  void stop_keeping();
  void keep(const std::stop_token& stop, bool adopts);
  Result<int64_t> take_over(const PlaceInGroup& place);
  Result<bool> save(CheckpointFolder::When when);
  Status save_the_rest();
  void tell(std::string kind, nlohmann::json fields);
  void tell_start(int64_t checkpoint);
  void tell_end(const std::string& status, const std::string& reason, int exit_code);
  void write_ledger();
  void warn(const std::string& sentence);

  const Setup setup_;
  const Holder me_;
  const Nanoseconds began_at_;
  const int64_t began_unix_ms_;
  std::vector<std::string> members_;  // of the last attempt
  std::optional<Nanoseconds> interrupted_at_;
  bool has_begun_ = false;  // an attempt
  std::string notice_;      // its source; empty: none
  std::atomic<int64_t> number_{0};
  std::atomic<bool> is_replaced_{false};  // another process saves for the run

  // Of the thread while there is one, else of the main thread.
  CheckpointFolder folder_;
  std::unique_ptr<Ledger> ledger_;
  std::string last_warning_;

  Mutex mutex_;
  ConditionVariable written_;
  std::vector<std::pair<std::string, nlohmann::json>> records_ GUARDED_BY(mutex_);
  bool is_writing_ GUARDED_BY(mutex_) = false;

  std::jthread thread_;  // last: it uses all of the above
};

}  // namespace tern
