// Supervisors of several machines, each a process of its own on loopback, with real ranks
// (fake_rank.cc) that are killed, stopped and told to leave.
#include "ranks/mesh.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <fstream>

#include "core/random.h"
#include "core/system_files.h"
#include "core/token.h"
#include "preempt/signal_watcher.h"
#include "ranks/supervisor.h"
#include "storage/proc_stat.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// A line of fake_rank's.
struct Did {
  int64_t generation = 0;
  int64_t rank = 0;
  int64_t world = 0;
  int64_t step = 0;
  pid_t pid = 0;
};

// At a port that nothing has now, of those that the kernel gives to nobody by itself.
std::string free_address() {
  for (uint64_t i = 0; i < 1'000; ++i) {
    const Bytes random = *random_bytes(2);
    const int64_t port =
        20'000 + (static_cast<uint8_t>(random[0]) * 256 + static_cast<uint8_t>(random[1])) % 10'000;
    if (listen_on("127.0.0.1", port)) return fmt::format("127.0.0.1:{}", port);
  }
  return "";
}

class MeshTest : public testing::Test {
 protected:
  MeshTest() {
    std::string folder = testing::TempDir() + "mesh_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_ = {.count = 1,
                .heartbeat = Milliseconds(50),
                .timeout = Milliseconds(20'000),
                .spare_after = Milliseconds(300)};
  }
  ~MeshTest() override {
    for (const auto& [machine, pid] : pids_) {
      if (pid <= 0) continue;
      kill(pid, SIGKILL);
      waitpid(pid, nullptr, 0);
    }
    fs::remove_all(folder_);
  }

  void begin(int64_t machines, int64_t working, const std::vector<std::string>& words = {}) {
    working_ = working;
    words_ = words;
    for (int64_t machine = 0; machine < machines; ++machine) {
      peers_.push_back(free_address());
      fs::create_directory(folder_of(machine));
    }
    for (int64_t machine = 0; machine < machines; ++machine) start(machine);
  }
  fs::path folder_of(int64_t machine) const { return folder_ / std::to_string(machine); }

  void start(int64_t machine) {
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(getppid() == parent ? supervise(machine) : 1);
    }
    pids_[machine] = pid;
  }
  // In a process of its own.
  int supervise(int64_t machine) {
    if (!SignalWatcher::block_signals()) return 1;
    std::FILE* const log_file = std::fopen((folder_of(machine) / "log").c_str(), "a");
    std::setvbuf(log_file, nullptr, _IOLBF, 0);
    Log log(clock_, Level::info, log_file);
    NoticeBoard board;
    const auto signals = SignalWatcher::start(board, clock_, [] { _exit(130); });
    RankCommand command{.arguments = {folder_of(machine).string()},
                        .environment = {"PATH=/usr/bin"}};
    command.arguments.insert(command.arguments.end(), words_.begin(), words_.end());
    Supervisor supervisor(
        {.options = options_,
         .place = MeshPlace{.machine = machine,
                            .peers = peers_,
                            .working = working_,
                            .secret = Bytes(kSecretBytes, 's')},
         .status_file = folder_of(machine) / "status",
         .run = "runs/fake",
         .program = TERN_FAKE_RANK,
         .command = [&](bool) { return command; },
         .is_final = [](int code) { return code != 1; },
         .out = [](std::string_view) {},
         .err = [](std::string_view) {},
         .exit_code_of = [](NoticeKind kind) { return kind == NoticeKind::stop ? 10 : 75; },
         .board = &board,
         .clock = &clock_,
         .log = &log});
    const Result<int> code = supervisor.run();
    if (!code) log.error("test", code.error().message);
    return code.value_or(1);
  }

  // Its exit code, or minus the signal that ended it.
  int end(int64_t machine) {
    int status = 0;
    waitpid(std::exchange(pids_[machine], 0), &status, 0);
    return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  }
  void kill_supervisor(int64_t machine) {
    kill(pids_[machine], SIGKILL);
    EXPECT_EQ(end(machine), -SIGKILL);
  }

  std::vector<Did> did(int64_t machine) const {
    std::vector<Did> all;
    std::ifstream file(folder_of(machine) / "0");
    Did one;
    while (file >> one.generation >> one.rank >> one.world >> one.step >> one.pid) {
      all.push_back(one);
    }
    return all;
  }
  Did last(int64_t machine) const {
    const std::vector<Did> all = did(machine);
    return all.empty() ? Did() : all.back();
  }
  // These machines' ranks have done a step in one generation, later than this one, of all of them
  // and nobody else.
  bool are_together(const std::vector<int64_t>& machines, int64_t after_generation = 0) const {
    const int64_t generation = last(machines.front()).generation;
    for (const int64_t machine : machines) {
      const Did one = last(machine);
      if (one.generation != generation || one.world != static_cast<int64_t>(machines.size())) {
        return false;
      }
    }
    return generation > after_generation;
  }
  bool wait_until(const std::function<bool()>& condition) {
    for (int i = 0; i < 24'000; ++i) {
      if (condition()) return true;
      clock_.wait_for(Milliseconds(5), {});
    }
    return condition();
  }
  bool get_together(const std::vector<int64_t>& machines, int64_t after_generation = 0) {
    const bool done = wait_until([&] { return are_together(machines, after_generation); });
    if (!done) ADD_FAILURE() << logs();
    return done;
  }
  std::string logs() const {
    std::string all;
    for (const auto& [machine, pid] : pids_) {
      const Did one = last(machine);
      all += fmt::format("machine {}: generation {} rank {} of {}, step {}\n{}", machine,
                         one.generation, one.rank, one.world, one.step,
                         read_system_file((folder_of(machine) / "log").string()));
    }
    return all;
  }
  std::string log_of(int64_t machine) const {
    return read_system_file((folder_of(machine) / "log").string());
  }
  std::string status_of(int64_t machine) const {
    return read_system_file((folder_of(machine) / "status").string());
  }
  void stop_all() {
    for (const auto& [machine, pid] : pids_) {
      if (pid > 0) kill(pid, SIGINT);
    }
    for (auto& [machine, pid] : pids_) {
      if (pid == 0) continue;
      EXPECT_EQ(end(machine), 10) << machine << "\n" << logs();
    }
  }

  // In one process a step follows the one before it; one that others had finished when the
  // generation ended is taken over from them.
  void expect_no_step_lost(int64_t machine) const {
    const std::vector<Did> all = did(machine);
    for (size_t i = 1; i < all.size(); ++i) {
      if (all[i].pid != all[i - 1].pid) continue;
      const int64_t taken_over = all[i].generation != all[i - 1].generation ? 1 : 0;
      EXPECT_GT(all[i].step, all[i - 1].step) << "machine " << machine << ", line " << i;
      EXPECT_LE(all[i].step, all[i - 1].step + 1 + taken_over) << machine << ", line " << i;
    }
  }

  SystemClock clock_;
  fs::path folder_;
  RanksOptions options_;
  std::vector<std::string> peers_;
  std::vector<std::string> words_;
  int64_t working_ = 1;
  std::map<int64_t, pid_t> pids_;
};

TEST_F(MeshTest, MachinesTrainTogetherToTheEnd) {
  begin(3, 3, {"--steps", "30"});
  for (int64_t machine = 0; machine < 3; ++machine) {
    EXPECT_EQ(end(machine), 0) << logs();
    EXPECT_EQ(did(machine).size(), 30U);
    EXPECT_EQ(last(machine).step, 30);
    EXPECT_EQ(last(machine).world, 3);
    EXPECT_EQ(last(machine).rank, machine);
  }
  EXPECT_THAT(log_of(2), HasSubstr("the machine that is the hub machine=0 term=1"));
}

TEST_F(MeshTest, WhenTheHubsMachineDiesTheOthersGoOnAndItComesBack) {
  begin(3, 3);
  ASSERT_TRUE(get_together({0, 1, 2}));
  const Did before = last(0);
  const pid_t survivor = last(1).pid;
  kill_supervisor(0);
  ASSERT_TRUE(get_together({1, 2}, before.generation));
  EXPECT_EQ(last(1).pid, survivor);
  EXPECT_EQ(last(1).rank, 0);
  EXPECT_GE(last(1).step, before.step);
  const int64_t generation = last(1).generation;
  start(0);
  ASSERT_TRUE(get_together({0, 1, 2}, generation));
  EXPECT_EQ(last(1).pid, survivor);
  EXPECT_EQ(last(1).rank, 0);
  EXPECT_EQ(last(0).rank, 2);
  EXPECT_GT(last(0).step, before.step);
  EXPECT_THAT(log_of(2), HasSubstr("the machine that is the hub machine=1 term=2"));
  stop_all();
  for (int64_t machine = 1; machine < 3; ++machine) expect_no_step_lost(machine);
}

TEST_F(MeshTest, WhenAnotherMachineDiesTheRestGoesOnAndItComesBack) {
  begin(3, 3);
  ASSERT_TRUE(get_together({0, 1, 2}));
  const Did before = last(2);
  const pid_t survivor = last(0).pid;
  kill_supervisor(2);
  ASSERT_TRUE(get_together({0, 1}, before.generation));
  const int64_t generation = last(0).generation;
  start(2);
  ASSERT_TRUE(get_together({0, 1, 2}, generation));
  EXPECT_EQ(last(0).pid, survivor);
  stop_all();
  for (int64_t machine = 0; machine < 2; ++machine) expect_no_step_lost(machine);
}

TEST_F(MeshTest, ARankThatIsKilledOrHungIsStartedAgainOnItsMachine) {
  options_.timeout = Milliseconds(1'500);
  begin(2, 2);
  ASSERT_TRUE(get_together({0, 1}));
  const Did killed = last(1);
  kill(killed.pid, SIGKILL);
  ASSERT_TRUE(get_together({0, 1}, killed.generation));
  const Did hung = last(1);
  EXPECT_NE(hung.pid, killed.pid);
  kill(hung.pid, SIGSTOP);
  ASSERT_TRUE(get_together({0, 1}, hung.generation));
  EXPECT_NE(last(1).pid, hung.pid);
  EXPECT_FALSE(read_process_stat(std::to_string(hung.pid)));
  EXPECT_THAT(log_of(1), HasSubstr("a rank is hung and will be killed"));
  stop_all();
}

TEST_F(MeshTest, ASpareStepsInForAMachineThatIsGone) {
  begin(3, 2);
  ASSERT_TRUE(get_together({0, 1}));
  EXPECT_TRUE(did(2).empty());
  EXPECT_TRUE(wait_until([&] { return status_of(2).find("\"resting\"") != std::string::npos; }));
  const Did before = last(0);
  kill_supervisor(0);
  ASSERT_TRUE(get_together({1, 2}, before.generation));
  // Its place is taken: it rests.
  start(0);
  EXPECT_TRUE(wait_until([&] {
    return status_of(0).find("\"resting\"") != std::string::npos &&
           status_of(0).find("\"hub\":1") != std::string::npos;
  })) << logs();
  EXPECT_TRUE(are_together({1, 2}, before.generation));
  // And ends with the run.
  kill(pids_[2], SIGINT);
  EXPECT_EQ(end(1), 10);
  EXPECT_EQ(end(2), 10);
  EXPECT_EQ(end(0), 10) << logs();
}

TEST_F(MeshTest, ASpareThatWasNotNeededEndsWellWithTheRun) {
  begin(2, 1, {"--steps", "30"});
  EXPECT_EQ(end(0), 0) << logs();
  EXPECT_EQ(end(1), 0) << logs();
  EXPECT_EQ(last(0).step, 30);
}

TEST_F(MeshTest, AWishToStopReachesAllMachines) {
  begin(3, 3);
  ASSERT_TRUE(get_together({0, 1, 2}));
  kill(pids_[1], SIGINT);
  for (int64_t machine = 0; machine < 3; ++machine) EXPECT_EQ(end(machine), 10) << logs();
}

TEST_F(MeshTest, AMachineThatIsPreemptedTakesItsOwnRanksOutOnly) {
  begin(3, 3);
  ASSERT_TRUE(get_together({0, 1, 2}));
  const int64_t generation = last(0).generation;
  const pid_t survivor = last(1).pid;
  kill(pids_[0], SIGTERM);  // the hub's
  EXPECT_EQ(end(0), 75) << logs();
  ASSERT_TRUE(get_together({1, 2}, generation));
  EXPECT_EQ(last(1).pid, survivor);
  const int64_t later = last(1).generation;
  kill(pids_[2], SIGTERM);
  EXPECT_EQ(end(2), 75) << logs();
  ASSERT_TRUE(get_together({1}, later));
  stop_all();
}

TEST_F(MeshTest, WhatAStrangerSaysAtTheControlPortDisturbsNobody) {
  begin(2, 2);
  ASSERT_TRUE(get_together({0, 1}));
  const int64_t generation = last(0).generation;
  Hello liar{.role = Role::supervisor, .nonce = Bytes(kSecretBytes, 'n'), .who = {.machine = 1}};
  liar.proof = Bytes(kSecretBytes, 'p');
  for (const Bytes& said :
       {Bytes("GET / HTTP/1.1\r\n\r\n"), Bytes(4, '\xff'), encode(liar), encode(PeerState{})}) {
    for (const std::string& peer : peers_) {
      Result<Descriptor> socket = connect_to(peer, Milliseconds(60'000));
      ASSERT_TRUE(socket);
      send(socket->get(), said.data(), said.size(), MSG_NOSIGNAL);
    }
  }
  EXPECT_TRUE(wait_until([&] {
    return log_of(0).find("a connection was refused") != std::string::npos &&
           log_of(1).find("a connection was refused") != std::string::npos;
  }));
  const int64_t step = last(0).step;
  EXPECT_TRUE(wait_until([&] { return last(0).step > step + 3; }));
  EXPECT_EQ(last(0).generation, generation);
  stop_all();
}

TEST_F(MeshTest, KillsOfSupervisorsAndRanksLoseNoStep) {
  begin(4, 4);
  for (uint64_t i = 0; i < 12; ++i) {
    ASSERT_TRUE(get_together({0, 1, 2, 3})) << i;
    Random random(1, Stream::order, i);
    const int64_t machine = random.below(4);
    const Did victim = last(machine);
    if (random.below(2) == 0) {
      kill(victim.pid, SIGKILL);
    } else {
      kill_supervisor(machine);
      start(machine);
    }
    ASSERT_TRUE(get_together({0, 1, 2, 3}, victim.generation)) << "kill " << i;
    // The last step of the one that died may be one that nobody else had finished.
    ASSERT_GE(last(machine).step, victim.step);
  }
  stop_all();
  for (int64_t machine = 0; machine < 4; ++machine) expect_no_step_lost(machine);
}

TEST_F(MeshTest, AnotherSecretIsNotLetInAndToldOf) {
  peers_ = {free_address(), free_address()};
  std::string logged;
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const file = open_memstream(&text, &size);
  {
    Log log(clock_, Level::info, file);
    const auto mesh_of = [&](int64_t machine, char secret) {
      return std::move(*Mesh::start({.options = options_,
                                     .place = MeshPlace{.machine = machine,
                                                        .peers = peers_,
                                                        .working = 2,
                                                        .secret = Bytes(kSecretBytes, secret)},
                                     .on_news = [] {},
                                     .clock = &clock_,
                                     .log = &log}));
    };
    const auto first = mesh_of(0, 'a');
    const auto second = mesh_of(1, 'b');
    EXPECT_TRUE(wait_until([&] {
      first->turn(PeerState::Doing::resting, 0);
      second->turn(PeerState::Doing::resting, 0);
      std::fflush(file);
      return std::string(text, size).find("does not let this one in") != std::string::npos;
    }));
    EXPECT_EQ(first->hub(), -1);
  }
  std::fclose(file);
  std::free(text);
}

}  // namespace
}  // namespace tern
