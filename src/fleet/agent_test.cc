// Agents as the real processes that they are: this program is also the `tern` that they run.
#include "fleet/agent.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "core/crypto.h"
#include "core/token.h"
#include "fleet/agent_verbs.h"
#include "fleet/json_fields.h"
#include "fleet/marked_processes.h"
#include "fleet/restart_rule.h"
#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Nanoseconds kLong = std::chrono::seconds(60);

class AgentTest : public testing::Test {
 protected:
  AgentTest() {
    request_.id = *random_token();
    place_ = {.executable = std::filesystem::read_symlink("/proc/self/exe"),
              .agents = folder_ / "agents",
              .home = folder_.path()};
  }
  ~AgentTest() override {
    EXPECT_TRUE(remove_agent(place_.agents, mark(), Nanoseconds(0), clock_));
    EXPECT_THAT(find_marked_processes(mark()), IsEmpty());
  }

  std::string mark() const { return request_.mark(); }
  Result<AgentRecord> start(const std::string& script) {
    request_.command = {"sh", "-c", script};
    return start_agent(request_, place_);
  }
  nlohmann::json status() const { return agent_status(place_.agents, mark()); }
  std::string state() const { return text_in(status(), "state"); }
  bool wait_for_end() { return wait_for_agent(place_.agents, mark(), kLong, clock_); }
  // Waits until the program has written the file.
  void wait_for_file(const std::string& name) {
    const Nanoseconds deadline = clock_.now() + kLong;
    while (!std::filesystem::exists(folder_ / name)) {
      ASSERT_LT(clock_.now(), deadline) << name;
      clock_.wait_for(Milliseconds(5), {});
    }
  }
  std::string log() const {
    return *decode_base64(text_in(*agent_log(place_.agents, mark(), 0, 1 << 20), "log"));
  }

  TestFolder folder_;
  SystemClock clock_;
  AgentRequest request_;
  AgentPlace place_;
};

TEST_F(AgentTest, RunsItsCommandToTheEndAndKeepsItsWords) {
  request_.environment = {{"COLOUR", "blue"}};
  const auto started = start("echo $COLOUR $PWD; echo oh >&2; exit 7");
  ASSERT_TRUE(started) << started.error().message;
  EXPECT_GT(started->command.pid, 0);
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(state(), "ended");
  EXPECT_EQ(number_in(status(), "exit_code", -1), 7);
  EXPECT_EQ(log(), "blue " + (folder_ / "").lexically_normal().parent_path().string() + "\noh\n");
  EXPECT_EQ(text_in(status(), "last_line"), "oh");
}

TEST_F(AgentTest, HasASessionOfItsOwnAndNoTerminal) {
  ASSERT_TRUE(start("echo > ready; read x || echo no input; sleep 1000"));
  wait_for_file("ready");
  const auto record = AgentFolder(place_.agents, mark()).record();
  ASSERT_TRUE(record);
  EXPECT_NE(getsid(static_cast<pid_t>(record->agent.pid)), getsid(0));
  EXPECT_EQ(state(), "running");
  std::vector<std::string> roles;
  const nlohmann::json now = status();
  for (const auto& process : now["processes"]) roles.push_back(text_in(process, "role"));
  EXPECT_THAT(roles, testing::UnorderedElementsAre("agent", "command", "part"));
}

TEST_F(AgentTest, PassesANoticeOnAsSignalAndFile) {
  ASSERT_TRUE(start("trap 'cat $TERN_NOTICE_FILE; exit 75' TERM; echo > ready; sleep 1000 & wait"));
  wait_for_file("ready");
  ASSERT_TRUE(notify_agent(place_.agents, mark(), "preempt"));
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(number_in(status(), "exit_code", -1), 75);
  EXPECT_EQ(text_in(status(), "notice"), "preempt");
  EXPECT_THAT(log(), AllOf(HasSubstr("\"kind\":\"preempt\""), HasSubstr("unix_ms")));
  EXPECT_EQ(notify_agent(place_.agents, mark(), "preempt").error().code, Code::failed_precondition);
}

TEST_F(AgentTest, StopsItsCommandWithTheSignalThatItWants) {
  request_.stop_signal = SIGUSR1;
  ASSERT_TRUE(start("trap 'exit 10' USR1; echo > ready; sleep 1000 & wait"));
  wait_for_file("ready");
  ASSERT_TRUE(notify_agent(place_.agents, mark(), "stop"));
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(number_in(status(), "exit_code", -1), 10);
  EXPECT_EQ(text_in(status(), "notice"), "stop");
}

TEST_F(AgentTest, LeavesNothingOfACommandThatHasEnded) {
  ASSERT_TRUE(start("setsid sleep 1000 & env -i sleep 1000 & echo > ready; exit 0"));
  ASSERT_TRUE(wait_for_end());
  const Nanoseconds deadline = clock_.now() + kLong;
  while (!find_marked_processes(mark()).empty() && clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(10), {});
  }
  EXPECT_THAT(find_marked_processes(mark()), IsEmpty());
}

TEST_F(AgentTest, TakesItsCommandWithItWhenItIsKilled) {
  const auto started = start("echo > ready; exec sleep 1000");
  ASSERT_TRUE(started);
  wait_for_file("ready");
  ASSERT_TRUE(signal_process(started->agent.pid, started->agent.start, SIGKILL));
  const Nanoseconds deadline = clock_.now() + kLong;
  while (is_alive(started->command) && clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(5), {});
  }
  EXPECT_FALSE(is_alive(started->command));
  EXPECT_EQ(state(), "lost");
}

TEST_F(AgentTest, StartsACommandAgainThatSomebodyKilled) {
  const auto started = start("echo life >> lives; echo > ready; exec sleep 1000");
  ASSERT_TRUE(started);
  wait_for_file("ready");
  std::filesystem::remove(folder_ / "ready");
  ASSERT_TRUE(signal_process(started->command.pid, started->command.start, SIGKILL));
  wait_for_file("ready");
  EXPECT_EQ(folder_.read("lives"), "life\nlife\n");
  EXPECT_EQ(state(), "running");
  // The agent records it a moment after it has started it.
  const Nanoseconds deadline = clock_.now() + kLong;
  while (number_in(status(), "pid", 0) == started->command.pid && clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(5), {});
  }
  EXPECT_NE(number_in(status(), "pid", 0), started->command.pid);
  EXPECT_THAT(log(), HasSubstr("killed by signal 9; it is started again in 0.25 s"));
  // And not when it was told to leave.
  ASSERT_TRUE(notify_agent(place_.agents, mark(), "preempt"));
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(number_in(status(), "exit_code", 0), -SIGTERM);
  EXPECT_EQ(folder_.read("lives"), "life\nlife\n");
}

TEST_F(AgentTest, ThatIsToldToStopStartsNothingAgain) {
  ASSERT_TRUE(start("echo > ready; kill -9 $$"));
  wait_for_file("ready");
  ASSERT_TRUE(notify_agent(place_.agents, mark(), "stop"));
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(text_in(status(), "notice"), "stop");
}

TEST_F(AgentTest, ThatIsLostIsStartedAgainAsItWas) {
  request_.secret = "hush";
  request_.environment = {{"TERN_PEERS", "127.0.0.1:1 127.0.0.1:2"}};
  const auto started = start("echo $TERN_PEERS $(cat $TERN_SECRET_FILE) > ready; exec sleep 1000");
  ASSERT_TRUE(started);
  wait_for_file("ready");
  EXPECT_EQ(restart_agent(mark(), place_, clock_).error().code, Code::failed_precondition);
  std::filesystem::remove(folder_ / "ready");
  ASSERT_TRUE(signal_process(started->agent.pid, started->agent.start, SIGKILL));
  ASSERT_TRUE(wait_for_end());
  EXPECT_EQ(state(), "lost");
  const auto again = restart_agent(mark(), place_, clock_);
  ASSERT_TRUE(again) << again.error().message;
  wait_for_file("ready");
  EXPECT_EQ(state(), "running");
  EXPECT_NE(again->agent.pid, started->agent.pid);
  const Nanoseconds deadline = clock_.now() + kLong;
  while (folder_.read("ready").empty() && clock_.now() < deadline) {
    clock_.wait_for(Milliseconds(5), {});
  }
  EXPECT_EQ(folder_.read("ready"), "127.0.0.1:1 127.0.0.1:2 hush\n");
}

TEST_F(AgentTest, ThatHasEndedIsStartedAgainAndOneThatIsGoneIsNot) {
  EXPECT_EQ(restart_agent(mark(), place_, clock_).error().code, Code::not_found);
  ASSERT_TRUE(start("test -e ready && exec sleep 1000; echo > ready; exit 75"));
  ASSERT_TRUE(wait_for_end());
  ASSERT_TRUE(restart_agent(mark(), place_, clock_));
  EXPECT_EQ(state(), "running");
}

TEST_F(AgentTest, IsRemovedWithAllThatItsCommandStarted) {
  ASSERT_TRUE(
      start("trap '' TERM; setsid sh -c 'trap \"\" TERM; echo > ready; sleep 1000' & "
            "while :; do sleep 1; done"));
  wait_for_file("ready");
  EXPECT_THAT(find_marked_processes(mark()), SizeIs(testing::Ge(3U)));
  ASSERT_TRUE(remove_agent(place_.agents, mark(), Milliseconds(50), clock_));
  EXPECT_THAT(find_marked_processes(mark()), IsEmpty());
  EXPECT_EQ(state(), "absent");
  EXPECT_FALSE(std::filesystem::exists(place_.agents));
  // And again, which is fine.
  EXPECT_TRUE(remove_agent(place_.agents, mark(), Milliseconds(50), clock_));
}

TEST_F(AgentTest, KeepsTheSecretInAFileOfItsOwn) {
  request_.secret = "hush";
  ASSERT_TRUE(start("stat -c %a $TERN_SECRET_FILE; cat $TERN_SECRET_FILE; env"));
  ASSERT_TRUE(wait_for_end());
  EXPECT_THAT(log(), testing::StartsWith("600\nhush"));
  EXPECT_THAT(log().substr(8), testing::Not(HasSubstr("hush")));
  EXPECT_THAT(folder_.read("agents/" + mark() + "/request.json"), testing::Not(HasSubstr("hush")));
}

TEST_F(AgentTest, SaysWhyACommandCannotBeStarted) {
  request_.command = {"no-such-program"};
  const auto started = start_agent(request_, place_);
  EXPECT_THAT(started.error().message, HasSubstr("no-such-program cannot be started in"));
  EXPECT_EQ(state(), "absent");
  request_.folder = "/nowhere/at/all";
  EXPECT_THAT(start("true").error().message, HasSubstr("No such file or directory"));
}

TEST_F(AgentTest, IsOneForAMachineOfARun) {
  ASSERT_TRUE(start("sleep 1000"));
  EXPECT_EQ(start("sleep 1000").error().code, Code::already_exists);
  EXPECT_EQ(state(), "running");
}

TEST_F(AgentTest, GivesItsLogInParts) {
  ASSERT_TRUE(start("printf 0123456789"));
  ASSERT_TRUE(wait_for_end());
  const auto part = agent_log(place_.agents, mark(), 2, 3);
  EXPECT_EQ(*decode_base64(text_in(*part, "log")), "234");
  EXPECT_EQ(number_in(*part, "next", 0), 5);
  EXPECT_EQ(number_in(*agent_log(place_.agents, mark(), 50, 3), "next", 0), 50);
  EXPECT_EQ(agent_log(place_.agents, "nothing", 0, 3).error().code, Code::not_found);
}

TEST(AgentRequests, ThatAreNotOursAreRefused) {
  const std::string id(32, 'a');
  EXPECT_TRUE(parse_agent_request(R"({"id": ")" + id + R"(", "machine": 0})"));
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string(R"({"id": "../x", "machine": 0})"),
        R"({"id": ")" + id + R"(", "machine": -1})",
        R"({"id": ")" + id + R"(", "machine": 0, "run_file": "../../x"})",
        R"({"id": ")" + id + R"(", "machine": 0, "command": 7})",
        R"({"id": ")" + id + R"(", "machine": 0, "stop_signal": 900})"}) {
    EXPECT_EQ(parse_agent_request(text).error().code, Code::invalid) << text;
  }
}

TEST(RestartRule, WaitsLongerEachTimeAndGivesUp) {
  RestartRule rule;
  for (const int64_t pause_ms : {250, 500, 1000, 2000, 4000}) {
    EXPECT_EQ(rule.next_pause(Milliseconds(10)), Milliseconds(pause_ms));
  }
  EXPECT_EQ(rule.next_pause(std::chrono::seconds(59)), std::nullopt);
  // A minute of life, and the count begins anew.
  EXPECT_EQ(rule.next_pause(std::chrono::seconds(60)), Milliseconds(250));
}

TEST(LastStep, IsReadFromTheLogsEnd) {
  EXPECT_EQ(last_step_in("a step 3 loss 1\nb step=12 of=20\nlast steps\n"), 12);
  EXPECT_EQ(last_step_in("x step 1 left  step 233 loss"), 233);
  EXPECT_EQ(last_step_in("step 12\n"), 12);
  EXPECT_EQ(last_step_in("step"), -1);
  EXPECT_EQ(last_step_in("no steps here; step by step "), -1);
  EXPECT_EQ(last_step_in(""), -1);
}

}  // namespace
}  // namespace tern

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == "agent" && std::string(argv[2]) == "run") {
    tern::SystemClock clock;
    const std::filesystem::path folder = argv[3];
    const tern::AgentPlace place{.executable = argv[0],
                                 .agents = folder.parent_path(),
                                 .home = folder.parent_path().parent_path()};
    return tern::run_agent(tern::AgentFolder(folder), place, clock, 3) ? 0 : 1;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
