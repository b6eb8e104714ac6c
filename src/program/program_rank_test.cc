// Ranks of any program under a real supervisor: this test program is also the rank.
#include "program/program_rank.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <future>
#include <sstream>

#include "core/system_files.h"
#include "ranks/supervisor.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using testing::SizeIs;

// A line of a program.
struct Began {
  int64_t attempt = 0;
  int64_t rank = 0;
  int64_t world = 0;
  int64_t port = 0;
  pid_t pid = 0;
  pid_t parent = 0;
};

// Every program says that it has begun, in one write.
constexpr char kBegin[] =
    "echo $TERN_ATTEMPT $RANK $WORLD_SIZE $MASTER_PORT $$ $PPID >> $FOLDER/began; ";

class ProgramRankTest : public testing::Test {
 protected:
  ProgramRankTest()
      : log_file_(open_memstream(&log_text_, &log_size_)), log_(clock_, Level::info, log_file_) {
    std::string folder = testing::TempDir() + "program_XXXXXX";
    EXPECT_NE(mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    options_ = {.count = 2,
                .min = 2,
                .heartbeat = Milliseconds(20),
                .timeout = Milliseconds(20'000),
                .restarts = 3};
  }
  ~ProgramRankTest() override {
    if (running_.valid()) {
      board_.post({.kind = NoticeKind::stop, .source = "the test's end"});
      running_.wait();
    }
    std::fclose(log_file_);
    std::free(log_text_);
    fs::remove_all(folder_);
  }

  void start(const std::string& script) {
    const RankCommand command{.arguments = {"program-rank", folder_.string(), kBegin + script},
                              .environment = {"PATH=/usr/bin:/bin", "FOLDER=" + folder_.string()}};
    running_ = std::async(std::launch::async, [this, command] {
      Supervisor supervisor(
          {.options = options_,
           .ends_orphans = true,
           .title = "tern program",
           .run = "test",
           .program = fs::read_symlink("/proc/self/exe"),
           .command = [command](bool) { return command; },
           .is_final = [](int code) { return code == 0 || code == 75 || code == kProgramNotKept; },
           .is_end = [](int code) { return code == 0 || code == kProgramNotKept; },
           .out = [this](std::string_view line) { out_ += line; },
           .err = [this](std::string_view line) { err_ += line; },
           .board = &board_,
           .clock = &clock_,
           .log = &log_});
      return supervisor.run();
    });
  }
  Result<int> end() { return running_.get(); }

  std::vector<Began> began(int64_t attempt) const {
    std::ifstream file(folder_ / "began");
    std::vector<Began> all;
    for (std::string line; std::getline(file, line);) {
      Began one;
      std::istringstream(line) >> one.attempt >> one.rank >> one.world >> one.port >> one.pid >>
          one.parent;
      if (one.parent > 0 && one.attempt == attempt) all.push_back(one);
    }
    std::ranges::sort(all, {}, &Began::rank);
    return all;
  }
  std::vector<Began> wait_for(int64_t attempt, size_t ranks) {
    const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
    while (began(attempt).size() < ranks && clock_.now() < deadline) {
      clock_.wait_for(Milliseconds(5), {});
    }
    EXPECT_THAT(began(attempt), SizeIs(ranks)) << err_;
    std::vector<Began> found = began(attempt);
    found.resize(ranks);
    return found;
  }
  // Another process has left the file.
  bool wait_for_file(const std::string& name) {
    const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
    while (!fs::exists(folder_ / name) && clock_.now() < deadline) {
      clock_.wait_for(Milliseconds(5), {});
    }
    return fs::exists(folder_ / name);
  }
  void wait_for_bytes(const std::string& name, uintmax_t bytes) {
    const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
    std::error_code error;
    const auto is_there = [&] {
      const uintmax_t size = fs::file_size(folder_ / name, error);
      return !error && size >= bytes;
    };
    while (!is_there() && clock_.now() < deadline) clock_.wait_for(Milliseconds(5), {});
    EXPECT_TRUE(is_there()) << name;
  }
  void touch(const std::string& name) const { std::ofstream(folder_ / name) << "\n"; }

  fs::path folder_;
  SystemClock clock_;
  char* log_text_ = nullptr;
  size_t log_size_ = 0;
  std::FILE* log_file_;
  Log log_;
  NoticeBoard board_;
  RanksOptions options_;
  std::string out_;
  std::string err_;
  std::future<Result<int>> running_;
};

// One that nobody has waited for yet is gone all the same.
bool is_alive(pid_t pid) {
  const std::string stat = read_system_file(fmt::format("/proc/{}/stat", pid));
  const size_t name_ends = stat.rfind(") ");
  return name_ends != std::string::npos && stat[name_ends + 2] != 'Z';
}

constexpr char kUntilTheSecond[] = "test $TERN_ATTEMPT -ge 2 && exit 0; exec sleep 1000";

TEST_F(ProgramRankTest, RunsAProgramOnAllRanksToItsEnd) {
  start("echo hello from $LOCAL_RANK of $LOCAL_WORLD_SIZE; exit 0");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
  const auto first = began(1);
  ASSERT_THAT(first, SizeIs(2));
  EXPECT_EQ(first[0].port, first[1].port);
  EXPECT_GT(first[0].port, 0);
  EXPECT_EQ(first[1].world, 2);
  EXPECT_THAT(out_ + err_,
              AllOf(HasSubstr("hello from 0 of 2\n"), HasSubstr("[rank 1] hello from 1 of 2\n")));
  EXPECT_THAT(began(2), SizeIs(0));
}

TEST_F(ProgramRankTest, AKilledProgramIsStartedAnewWithAllOthers) {
  start(kUntilTheSecond);
  const auto first = wait_for(1, 2);
  kill(first[1].pid, SIGKILL);
  const auto second = wait_for(2, 2);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
  EXPECT_NE(second[0].port, first[0].port);
  EXPECT_NE(second[0].pid, first[0].pid);
  EXPECT_EQ(second[1].world, 2);
  EXPECT_THAT(err_, HasSubstr("was killed by signal 9"));
  EXPECT_FALSE(is_alive(first[0].pid)) << "the program of the group before is still there";
}

TEST_F(ProgramRankTest, AKilledRankTakesItsProgramWithItAndIsStartedAnew) {
  start(kUntilTheSecond);
  const auto first = wait_for(1, 2);
  kill(first[0].parent, SIGKILL);
  wait_for(2, 2);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
  EXPECT_FALSE(is_alive(first[0].pid));
}

// Each program has a child in its group and one in a group of its own, and looks whether one of an
// attempt before is still there. A zombie has no command line.
constexpr char kLeavesChildren[] =
    "if test $TERN_ATTEMPT -ge 2; then for pid in $(cat $FOLDER/children); do"
    "  grep -q sleep /proc/$pid/cmdline && echo $pid >> $FOLDER/beside; done; exit 0; fi;"
    "sleep 1000 & echo $! >> $FOLDER/children; setsid sleep 1000 & echo $! >> $FOLDER/children;"
    "echo >> $FOLDER/ready; wait";

TEST_F(ProgramRankTest, NothingOfAKilledRanksProgramIsThereBesideTheNextAttempt) {
  touch("children");
  start(kLeavesChildren);
  const auto first = wait_for(1, 2);
  wait_for_bytes("ready", 2);
  kill(first[0].parent, SIGKILL);
  wait_for(2, 2);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_FALSE(fs::exists(folder_ / "beside")) << read_system_file(folder_ / "beside");
  EXPECT_EQ(*ended, 0);
}

TEST_F(ProgramRankTest, NothingOfAKilledProgramIsThereBesideTheNextAttempt) {
  touch("children");
  start(kLeavesChildren);
  const auto first = wait_for(1, 2);
  wait_for_bytes("ready", 2);
  kill(first[1].pid, SIGKILL);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_FALSE(fs::exists(folder_ / "beside")) << read_system_file(folder_ / "beside");
}

// As a shell's are that has become `tern program`.
TEST_F(ProgramRankTest, ChildrenThatWereThereBeforeAreLeftAlone) {
  const pid_t other = fork();
  if (other == 0) {
    execl("/bin/sleep", "sleep", "1000", nullptr);
    _exit(127);
  }
  start(kUntilTheSecond);
  kill(wait_for(1, 2)[0].parent, SIGKILL);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_TRUE(is_alive(other));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
}

TEST_F(ProgramRankTest, AHungRankIsKilledAndStartedAnew) {
  options_.timeout = Milliseconds(2'000);
  start(kUntilTheSecond);
  const auto first = wait_for(1, 2);
  kill(first[1].parent, SIGSTOP);
  wait_for(2, 2);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
}

TEST_F(ProgramRankTest, AProgramThatAlwaysFailsIsGivenUpWithItsExitCode) {
  options_ = {.count = 1, .min = 1, .heartbeat = Milliseconds(20), .restarts = 2};
  start("exit 7");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 7);
  EXPECT_THAT(began(3), SizeIs(1));
  EXPECT_THAT(began(4), SizeIs(0));
  EXPECT_THAT(err_, HasSubstr("ended with exit code 7"));
}

TEST_F(ProgramRankTest, ARankThatAlwaysFailsEndsTheOthersToo) {
  options_.restarts = 1;
  start("test $RANK = 1 && exit 7; exec sleep 1000");
  const auto ended = end();
  ASSERT_FALSE(ended);
  EXPECT_THAT(ended.error().message, HasSubstr("fewer than 2 ranks are left"));
  EXPECT_THAT(began(3), SizeIs(0));
}

TEST_F(ProgramRankTest, ARankThatIsDoneWaitsForTheOthers) {
  start("test $RANK = 0 && exit 0; while ! test -e $FOLDER/go; do sleep 0.05; done; exit 0");
  const auto first = wait_for(1, 2);
  // Rank 0 is done: its program is gone, and rank 1 is left in peace.
  const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
  while (is_alive(first[0].pid) && clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(5), {});
  }
  touch("go");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
  EXPECT_THAT(began(2), SizeIs(0));
}

TEST_F(ProgramRankTest, ARankThatIsDoneDoesItAgainIfAnotherFails) {
  start("test $RANK = 0 && exit 0; test $TERN_ATTEMPT -ge 2 && exit 0; sleep 0.05; exit 1");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
  EXPECT_THAT(began(2), SizeIs(2));
}

TEST_F(ProgramRankTest, TheOthersStayUntilRank0HasSavedAndDoItAgainIfItIsLost) {
  touch("slow");
  start("exit 0");
  const auto first = wait_for(1, 2);
  ASSERT_TRUE(wait_for_file("finishing"));
  // Both programs have ended; rank 1 could be gone in a moment.
  clock_.wait_for(Milliseconds(200), {});
  EXPECT_TRUE(is_alive(first[1].parent));
  kill(first[0].parent, SIGKILL);
  touch("saved");
  wait_for(2, 2);
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 0);
}

TEST_F(ProgramRankTest, AtANoticeTheOthersStayUntilRank0HasSaved) {
  touch("slow");
  start("trap 'exit 75' TERM; echo > $FOLDER/ready$RANK; while :; do sleep 0.02; done");
  const auto first = wait_for(1, 2);
  ASSERT_TRUE(wait_for_file("ready0") && wait_for_file("ready1"));
  board_.post({.kind = NoticeKind::preempt, .source = "a test", .unix_ms = 7});
  ASSERT_TRUE(wait_for_file("finishing"));
  clock_.wait_for(Milliseconds(200), {});
  EXPECT_TRUE(is_alive(first[1].parent));
  touch("saved");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 75);
}

TEST_F(ProgramRankTest, ALastSaveThatFailsIsNoGoodEnd) {
  touch("refused");
  start("exit 0");
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, kProgramNotKept);
  EXPECT_THAT(began(2), SizeIs(0));
  EXPECT_THAT(err_, HasSubstr("the keys have expired"));
}

TEST_F(ProgramRankTest, ANoticeIsASignalAndAFile) {
  start(
      "trap 'cat $TERN_NOTICE_FILE; exit 75' TERM; echo > $FOLDER/ready$RANK; "
      "while :; do sleep 0.02; done");
  const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
  while ((!fs::exists(folder_ / "ready0") || !fs::exists(folder_ / "ready1")) &&
         clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(5), {});
  }
  board_.post({.kind = NoticeKind::preempt, .source = "a test", .unix_ms = 7});
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, 75);
  const std::string notice = R"({"kind":"preempt","source":"a test","unix_ms":7})";
  EXPECT_THAT(out_, HasSubstr(notice));
  EXPECT_THAT(err_, HasSubstr("[rank 1] " + notice));
}

TEST_F(ProgramRankTest, AProgramThatKnowsNoNoticeIsEndedByItAndNotStartedAgain) {
  start("exec sleep 1000");
  wait_for(1, 2);
  board_.post({.kind = NoticeKind::stop, .source = "a person", .unix_ms = 7});
  const auto ended = end();
  ASSERT_TRUE(ended) << ended.error().message << err_;
  EXPECT_EQ(*ended, kProgramStopped);
  EXPECT_THAT(began(2), SizeIs(0));
}

TEST_F(ProgramRankTest, NothingThatAProgramStartedOutlivesIt) {
  start("sleep 1000 & echo $! >> $FOLDER/background; test $TERN_ATTEMPT -ge 2 && exit 0; wait");
  const auto first = wait_for(1, 2);
  kill(first[1].pid, SIGKILL);
  ASSERT_TRUE(end());
  std::ifstream file(folder_ / "background");
  std::vector<pid_t> left;
  for (pid_t pid = 0; file >> pid;) {
    const Nanoseconds deadline = clock_.now() + std::chrono::seconds(60);
    while (is_alive(pid) && clock_.now() < deadline) clock_.wait_for(Milliseconds(5), {});
    if (is_alive(pid)) left.push_back(pid);
  }
  EXPECT_THAT(left, SizeIs(0));
}

// As a run whose store is as the files in the folder say.
class FakeStore final : public AttemptWatcher {
 public:
  FakeStore(fs::path folder, Clock& clock) : folder_(std::move(folder)), clock_(clock) {}

  Status finish(int /*exit_code*/) override {
    if (fs::exists(folder_ / "refused")) {
      return fail(Code::permission_denied, "the keys have expired");
    }
    if (!fs::exists(folder_ / "slow")) return {};
    std::ofstream(folder_ / "finishing") << "";
    while (!fs::exists(folder_ / "saved")) clock_.wait_for(Milliseconds(5), {});
    return {};
  }

 private:
  const fs::path folder_;
  Clock& clock_;
};

int be_rank(const std::string& folder, const std::string& script) {
  SystemClock clock;
  Log log(clock, Level::info);
  NoticeBoard board;
  const auto variable = [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    return value == nullptr ? std::nullopt : std::optional<std::string>(value);
  };
  auto setup = read_rank_setup(variable);
  if (!setup) return 2;
  setup->board = &board;
  setup->clock = &clock;
  auto link = RankLink::open(*setup);
  if (!link) return 2;
  std::vector<std::string> environment;
  for (char** entry = environ; *entry != nullptr; ++entry) environment.emplace_back(*entry);
  FakeStore watcher(folder, clock);
  ProgramRank rank(
      {.words = {"sh", "-c", script},
       .environment = environment,
       .folders = {.checkpoints = folder,
                   .notice_file = fs::path(folder) / fmt::format("notice{}", setup->id)},
       .machine = setup->machine,
       .link = link->get(),
       .watcher = &watcher,
       .board = &board,
       .clock = &clock,
       .log = &log});
  const auto ended = rank.run();
  if (!ended) log.error("program", ended.error().message);
  return ended ? *ended : 3;
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "program-rank") return tern::be_rank(argv[2], argv[3]);
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
