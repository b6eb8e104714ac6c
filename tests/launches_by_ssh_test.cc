// Launched runs on machines that are real sshds, from the first command to the last trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <iterator>
#include <nlohmann/json.hpp>
#include <thread>

#include "any_program_log.h"
#include "fleet/launched_run.h"
#include "fleet/machine_shell.h"
#include "fleet/marked_processes.h"
#include "process.h"
#include "ssh_host.h"
#include "tiny_data.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

// Two machines, a and b, and what cannot be reached under other names.
class Machines : public testing::Test {
 protected:
  Machines() {
    // A copy apart from its build folder: the bundle is then tern alone, without a trainer.
    fs::create_directories(place_ / "bin");
    EXPECT_EQ(run_to_end({.command = {"strip", "-o", (place_ / "bin/tern").string(), TERN_PROGRAM}})
                  .exit_code,
              0);
    make_user_key(place_ / "keys");
    make_user_key(place_ / "strange");
    a_ = std::make_unique<SshHost>(place_ / "a", place_ / "keys");
    b_ = std::make_unique<SshHost>(place_ / "b", place_ / "keys");
    fs::create_directories(place_ / "run");
    const std::string of_b = b_->known_host();
    write_text(place_ / "known", a_->known_host() + of_b);
    // b's key under a's name.
    write_text(place_ / "changed", a_->known_host().substr(0, a_->known_host().find(' ')) +
                                       of_b.substr(of_b.find(' ')));
    write_text(
        place_ / "config",
        host("a", a_->port()) + host("b", b_->port()) +
            host("unknown", a_->port(), "UserKnownHostsFile /dev/null") +
            host("changed", a_->port(), "UserKnownHostsFile " + (place_ / "changed").string()) +
            host("denied", b_->port(), "", "strange/id") + host("refused", unused_port()) +
            host("nameless", 22, "HostName tern.invalid"));
  }

  // What stands first counts.
  std::string host(const std::string& name, int port, const std::string& more = "",
                   const std::string& key = "keys/id") const {
    return "Host " + name + "\n  " + more + "\n  HostName 127.0.0.1\n  Port " +
           std::to_string(port) + "\n  IdentityFile " + (place_ / key).string() +
           "\n  IdentitiesOnly yes\n  UserKnownHostsFile " + (place_ / "known").string() +
           "\n  GlobalKnownHostsFile none\n";
  }
  // ssh's process ends a moment after it was told to.
  bool no_connection_is_open() const {
    return wait_until([this] { return fs::is_empty(place_ / "run/tern-ssh"); });
  }

  SshSetup ssh() const {
    return {.config = place_ / "config",
            .control_folder = make_control_folder(place_ / "run"),
            .connect_timeout_s = 5};
  }
  MachineShell shell(const std::string& name) {
    return MachineShell({.name = name, .address = name}, ssh(), clock_);
  }
  Error failure(const std::string& name) {
    const auto answer = shell(name).run({.script = "true"});
    EXPECT_FALSE(answer) << name;
    return answer ? Error() : answer.error();
  }

  Process::Start start(const std::vector<std::string>& words) const {
    Process::Start start{.command = {(place_ / "bin/tern").string()}};
    start.command.insert(start.command.end(), words.begin(), words.end());
    start.environment = {{"TERN_SSH_CONFIG", (place_ / "config").string()},
                         {"XDG_STATE_HOME", (place_ / "state").string()},
                         {"XDG_CACHE_HOME", (place_ / "cache").string()},
                         {"XDG_RUNTIME_DIR", (place_ / "run").string()}};
    start.folder = place_.path();
    return start;
  }
  Finished tern(const std::vector<std::string>& words) const { return run_to_end(start(words)); }
  nlohmann::json status(const std::string& name) const {
    const Finished said = tern({"status", name, "--json"});
    EXPECT_EQ(said.exit_code, 0) << said.err;
    return nlohmann::json::parse(said.out, nullptr, false);
  }

  // Everything of ours on the machine but the bundle that stays there.
  static std::vector<std::string> left_on(const SshHost& host) {
    std::vector<std::string> left;
    for (const auto& entry : fs::recursive_directory_iterator(host.folder())) {
      const std::string path = entry.path().lexically_relative(host.folder()).string();
      const bool is_bundle = path.starts_with("cache/") && path.find(".part.") == path.npos;
      const bool is_sshds = path.starts_with("host_key") || path == "sshd_config";
      if (entry.is_regular_file() && !is_bundle && !is_sshds) left.push_back(path);
    }
    return left;
  }

  ScratchFolder place_;
  SystemClock clock_;
  std::unique_ptr<SshHost> a_;
  std::unique_ptr<SshHost> b_;
};

TEST_F(Machines, RunCommandsWithInputOverOneConnection) {
  const MachineShell there = shell("a");
  EXPECT_EQ(*there.must_run({.script = "cat; echo \"it's $HOME\"", .input = "in "}, "try"),
            "in it's " + a_->folder().string() + "\n");
  EXPECT_EQ(there.run({.script = "echo out; echo err >&2; exit 7"})->exit_code, 7);
  // Both came through one sshd of the session.
  const Bytes first = *there.must_run({.script = "echo $PPID"}, "ask");
  EXPECT_EQ(*there.must_run({.script = "echo $PPID"}, "ask"), first);
  EXPECT_FALSE(fs::is_empty(place_ / "run/tern-ssh"));
  there.close_connection();
  EXPECT_TRUE(no_connection_is_open());
}

TEST_F(Machines, AnUnknownHostKeyIsNotTrusted) {
  const Error error = failure("unknown");
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("machine unknown: its host key is not known here"));
}

TEST_F(Machines, AChangedHostKeyIsNotTrusted) {
  const Error error = failure("changed");
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("ssh-keygen -R changed"));
}

TEST_F(Machines, AWrongKeyIsExplained) {
  const Error error = failure("denied");
  EXPECT_EQ(error.code, Code::permission_denied);
  EXPECT_THAT(error.message, HasSubstr("machine denied: it does not let us in"));
}

TEST_F(Machines, AMachineWithoutSshdIsExplained) {
  const Error error = failure("refused");
  EXPECT_EQ(error.code, Code::unavailable);
  EXPECT_THAT(error.message, HasSubstr("cannot be reached (Connection refused)"));
}

TEST_F(Machines, ANameThatNobodyKnowsIsExplained) {
  const Error error = failure("nameless");
  EXPECT_EQ(error.code, Code::not_found);
  EXPECT_THAT(error.message, HasSubstr("nobody knows the name"));
}

TEST_F(Machines, ALostConnectionIsExplained) {
  const auto answer = shell("a").run({.script = "kill -9 $PPID; sleep 100"});
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().code, Code::unavailable);
  EXPECT_THAT(answer.error().message, HasSubstr("machine a: the connection was lost"));
}

TEST_F(Machines, AMissingCommandAndAFullDiskAreExplained) {
  const auto missing = shell("a").must_run({.script = "no-such-command-of-ours"}, "try it");
  EXPECT_EQ(missing.error().code, Code::not_found);
  EXPECT_THAT(missing.error().message, HasSubstr("machine a: try it: a command is missing there"));
  const auto full =
      shell("a").must_run({.script = "head -c 9 /dev/zero | tee /dev/full"}, "try it");
  EXPECT_EQ(full.error().code, Code::exhausted);
  EXPECT_THAT(full.error().message, HasSubstr("machine a: try it: its disk is full"));
  shell("a").close_connection();
}

TEST_F(Machines, AStopEndsTheWait) {
  std::stop_source stop;
  std::jthread stopper([&] {
    while (!fs::exists(a_->folder() / "began")) clock_.wait_for(Milliseconds(5), {});
    stop.request_stop();
  });
  const auto answer = shell("a").run({.script = "cd; echo > began; sleep 100"}, stop.get_token());
  EXPECT_EQ(answer.error().code, Code::cancelled);
  shell("a").close_connection();
}

constexpr char kProgram[] =
    "trap 'cat $TERN_NOTICE_FILE; exit 75' TERM; echo machine $TERN_MACHINE of $TERN_MACHINES; "
    "setsid sleep 1000 & sleep 1000 & wait";

TEST_F(Machines, ALaunchOutlivesItsTerminalAndLeavesNothing) {
  // The launching process is killed as soon as the program runs everywhere.
  {
    Process launching(
        start({"launch", "--name", "night", "--hosts", "a,b", "--", "sh", "-c", kProgram}));
    ASSERT_TRUE(wait_until([&] {
      return launching.err_so_far().find("b: started, process") != std::string::npos;
    })) << launching.err_so_far();
    ASSERT_TRUE(wait_until(
        [&] { return tern({"logs", "night"}).out.find("1 of 2") != std::string::npos; }));
    launching.signal(SIGKILL);
    launching.wait();
  }
  const auto now = status("night");
  ASSERT_EQ(now["machines"].size(), 2U);
  for (const auto& machine : now["machines"]) {
    EXPECT_EQ(machine["state"], "running");
    EXPECT_GE(machine["processes"].size(), 3U) << machine;
  }
  EXPECT_THAT(tern({"status", "night"}).out,
              AllOf(HasSubstr("a        running"), HasSubstr("b        running")));
  EXPECT_THAT(tern({"status"}).out, HasSubstr("night"));
  EXPECT_THAT(tern({"logs", "night"}).out,
              AllOf(HasSubstr("[a] machine 0 of 2\n"), HasSubstr("[b] [rank 1] machine 1 of 2\n")));
  EXPECT_THAT(tern({"logs", "night", "--machine", "1"}).out,
              AllOf(HasSubstr("machine 1 of 2\n"), Not(HasSubstr("machine 0 of 2"))));
  EXPECT_EQ(tern({"connect", "night", "b", "--", "echo", "hello"}).out, "hello\n");
  const Finished again =
      tern({"launch", "--name", "night", "--hosts", "a", "--detach", "--", "true"});
  EXPECT_EQ(again.exit_code, 5);
  EXPECT_THAT(again.err, HasSubstr("a run called night is launched already"));

  // The fire drill: one machine, a signal and a file.
  EXPECT_EQ(tern({"preempt", "night", "--machine", "b"}).exit_code, 0);
  const Finished followed = tern({"logs", "night", "-f", "--machine", "b"});
  EXPECT_THAT(followed.out, HasSubstr("\"kind\":\"preempt\""));
  const auto drilled = status("night")["machines"];
  EXPECT_EQ(drilled[0]["state"], "running");
  EXPECT_EQ(drilled[1]["state"], "ended");
  EXPECT_EQ(drilled[1]["exit_code"], 75);
  // The other goes on without it.
  EXPECT_TRUE(wait_until([&] {
    const std::string said = tern({"logs", "night", "--machine", "a"}).out;
    return said.find("machine 0 of 2") != said.rfind("machine 0 of 2");
  })) << tern({"logs", "night"}).out;

  const Finished stopped = tern({"stop", "night"});
  EXPECT_EQ(stopped.exit_code, 0) << stopped.err;
  EXPECT_THAT(stopped.out, HasSubstr("a: ended with 75"));

  const std::string id = now["id"];
  const Finished down = tern({"down", "night"});
  EXPECT_EQ(down.exit_code, 0) << down.err;
  EXPECT_THAT(down.out, HasSubstr("nothing of it is left on 2 machines"));
  for (const char* number : {"-0", "-1"}) {
    EXPECT_THAT(find_marked_processes(id + number), IsEmpty());
  }
  EXPECT_THAT(left_on(*a_), IsEmpty());
  EXPECT_THAT(left_on(*b_), IsEmpty());
  EXPECT_TRUE(fs::is_empty(place_ / "state/tern/runs"));
  EXPECT_TRUE(no_connection_is_open());
  EXPECT_EQ(tern({"status", "night"}).exit_code, 3);
}

constexpr int64_t kSteps = 400;

// A program on both machines, with a rank on each.
class Programs : public Machines {
 protected:
  Programs() { fs::create_directory(log_); }

  Process::Start start_pair() const {
    std::vector<std::string> words = {"launch",  "--name", "pair",
                                      "--hosts", "a,b",    "--ranks-per-machine",
                                      "1",       "--run",  (place_ / "shared").string()};
    std::ranges::copy(any_program(kSteps, log_), std::back_inserter(words));
    return start(words);
  }
  void expect_nothing_left(const std::string& id) const {
    const Finished down = tern({"down", "pair"});
    EXPECT_EQ(down.exit_code, 0) << down.err;
    for (const char* number : {"-0", "-1"}) {
      EXPECT_THAT(find_marked_processes(id + number), IsEmpty());
    }
    EXPECT_THAT(left_on(*a_), IsEmpty());
    EXPECT_THAT(left_on(*b_), IsEmpty());
  }

  const fs::path log_ = place_ / "log";
};

TEST_F(Programs, AreOneGroupThatOutlivesARankAndASupervisor) {
  Process launched(start_pair());
  ASSERT_TRUE(wait_until([&] { return step_of_both(log_) >= 12; })) << launched.err_so_far();
  const auto now = status("pair");
  kill(steps_of(log_, 1).back().pid, SIGKILL);
  ASSERT_TRUE(wait_until([&] {
    return find_step(log_, 2, 0, 1).has_value() && find_step(log_, 2, 1, 1).has_value();
  })) << launched.err_so_far();
  // The supervisor of machine a, which serves and has rank 0.
  signal_process(now["machines"][0]["pid"], now["machines"][0]["pid_start"], SIGKILL);
  const Finished done = launched.wait();
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("a: ended with 0"), HasSubstr("b: ended with 0")));
  EXPECT_THAT(done.out, HasSubstr("[a] tern agent: the command was killed by signal 9"));
  // Both to the last step, together, and never from the beginning.
  for (const int64_t rank : {0, 1}) {
    const std::vector<ProgramStep> steps = steps_of(log_, rank);
    EXPECT_EQ(steps.back().step, kSteps);
    EXPECT_EQ(steps.back().attempt, steps_of(log_, 0).back().attempt);
    EXPECT_EQ(std::ranges::count(steps, 1, &ProgramStep::step), 1);
  }
  expect_nothing_left(now["id"]);
}

// Its ranks leave together when one is told to, as they must to save at the same step.
TEST_F(Programs, GoOnWithoutAMachineThatMustGo) {
  Process launched(start_pair());
  ASSERT_TRUE(wait_until([&] { return step_of_both(log_) >= 12; })) << launched.err_so_far();
  const std::string id = status("pair")["id"];
  EXPECT_EQ(tern({"preempt", "pair", "--machine", "b"}).exit_code, 0);
  const Finished done = launched.wait();
  EXPECT_EQ(done.exit_code, 0) << done.out << done.err;
  EXPECT_THAT(done.err, AllOf(HasSubstr("a: ended with 0"), HasSubstr("b: ended with 75")));
  // Nothing was lost.
  int64_t last = 0;
  for (const ProgramStep& step : steps_of(log_, 0)) {
    EXPECT_EQ(step.step, last + 1) << "attempt " << step.attempt;
    last = step.step;
  }
  EXPECT_EQ(last, kSteps);
  expect_nothing_left(id);
}

TEST_F(Machines, AProgramIsFollowedToItsEndAndItsExitCodeIsOurs) {
  const Finished done = tern(
      {"launch", "--name", "short", "--hosts", "a", "--", "sh", "-c", "echo step 12; exit 75"});
  EXPECT_EQ(done.exit_code, 75) << done.err;
  EXPECT_THAT(done.out, HasSubstr("step 12\n"));
  EXPECT_THAT(done.err, AllOf(HasSubstr("a: tern was sent"), HasSubstr("a: ended with 75")));
  EXPECT_EQ(status("short")["machines"][0]["step"], 12);
  EXPECT_EQ(tern({"down", "short"}).exit_code, 0);
  // The second time nothing is sent.
  const Finished again = tern({"launch", "--name", "short", "--hosts", "a", "--", "true"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.err, HasSubstr("a: tern is there already"));
  EXPECT_EQ(tern({"down", "short"}).exit_code, 0);
}

TEST_F(Machines, ALaunchThatFailsOnOneMachineLeavesNothingOnTheOthers) {
  const Finished launched = tern(
      {"launch", "--name", "x", "--hosts", "a,refused,denied", "--detach", "--", "sleep", "1000"});
  EXPECT_EQ(launched.exit_code, 6);
  EXPECT_THAT(launched.err, AllOf(HasSubstr("machine refused: it cannot be reached"),
                                  HasSubstr("machine denied: it does not let us in"),
                                  Not(HasSubstr("machine a"))));
  // A program that one machine does not have.
  write_text(a_->folder() / "only-here", "#!/bin/sh\nsleep 1000\n");
  fs::permissions(a_->folder() / "only-here", fs::perms::owner_all);
  const Finished half =
      tern({"launch", "--name", "x", "--hosts", "a,b", "--detach", "--", "./only-here"});
  EXPECT_THAT(half.err, HasSubstr("machine b: ./only-here cannot be started in"));
  EXPECT_EQ(half.exit_code, 5);
  EXPECT_EQ(tern({"status", "x"}).exit_code, 3);
  EXPECT_THAT(left_on(*a_), ElementsAre("only-here"));
  EXPECT_THAT(left_on(*b_), IsEmpty());
}

TEST_F(Machines, AMachineThatCannotBeReachedIsNamedAndKept) {
  ASSERT_EQ(tern({"launch", "--name", "x", "--hosts", "a,b", "--detach", "--", "sleep", "1000"})
                .exit_code,
            0);
  const std::string id = status("x")["id"];
  shell("b").close_connection();
  b_->end();
  const Finished seen = tern({"status", "x"});
  EXPECT_EQ(seen.exit_code, 6);
  EXPECT_THAT(seen.out, AllOf(HasSubstr("running"), HasSubstr("unreachable")));
  const Finished down = tern({"down", "x", "--grace", "0"});
  EXPECT_EQ(down.exit_code, 6);
  EXPECT_THAT(down.err, HasSubstr("machine b: "));
  EXPECT_THAT(find_marked_processes(id + "-0"), IsEmpty());
  EXPECT_THAT(tern({"status"}).out, HasSubstr("x")) << "what is left must be found again";
  for (const MarkedProcess& process : find_marked_processes(id + "-1")) {
    signal_process(process.pid, process.start, SIGKILL);
  }
}

TEST_F(Machines, AreToldWhereTheyFindEachOtherAndWhichOfThemRest) {
  write_text(place_ / "hosts.toml",
             "[[machine]]\naddress = 'b'\nspare = true\ninterface = 'localhost'\n"
             "[[machine]]\naddress = 'a'\nranks = 2\n");
  const Finished launched = tern(
      {"launch", "--name", "pair", "--hosts", "hosts.toml", "--detach", "--", "sleep", "1000"});
  ASSERT_EQ(launched.exit_code, 0) << launched.err;
  EXPECT_THAT(launched.out, HasSubstr("pair runs on 1 machine (spares: 1);"));
  const auto now = status("pair");
  const std::string id = now["id"];
  const auto folder_of = [&](const SshHost& host, const std::string& number) {
    return host.folder() / "state/tern/agents" / (id + "-" + number);
  };
  const auto asked_of = [&](const SshHost& host, const std::string& number) {
    return nlohmann::json::parse(read_text(folder_of(host, number) / "request.json"));
  };
  const auto of_a = asked_of(*a_, "0");
  const auto of_b = asked_of(*b_, "1");
  EXPECT_EQ(of_a["environment"]["TERN_MACHINE"], "0");
  EXPECT_EQ(of_b["environment"]["TERN_MACHINE"], "1");
  EXPECT_EQ(of_a["ranks"], 2);
  for (const auto& asked : {of_a, of_b}) {
    EXPECT_EQ(asked["environment"]["TERN_MACHINES"], "1") << "spares are not counted";
    EXPECT_THAT(asked["environment"]["TERN_PEERS"].get<std::string>(),
                testing::MatchesRegex("127.0.0.1:2[0-9]{4} (127.0.0.1|::1):2[0-9]{4}"));
  }
  EXPECT_EQ(of_a["environment"]["TERN_PEERS"], of_b["environment"]["TERN_PEERS"]);
  const std::string secret = read_text(folder_of(*a_, "0") / "secret");
  EXPECT_EQ(secret.size(), 64U);
  EXPECT_EQ(secret, read_text(folder_of(*b_, "1") / "secret"));
  EXPECT_EQ(now["machines"][1]["spare"], true);
  EXPECT_THAT(of_a["environment"]["TERN_PEERS"].get<std::string>(),
              testing::StartsWith(now["machines"][0]["peer"].get<std::string>() + " "));
  EXPECT_EQ(tern({"down", "pair", "--grace", "0"}).exit_code, 0);
  EXPECT_THAT(left_on(*a_), IsEmpty());
  EXPECT_THAT(left_on(*b_), IsEmpty());
}

TEST_F(Machines, AnAddressThatIsNotTheMachinesIsNamedAndNothingIsLeft) {
  write_text(place_ / "hosts.toml",
             "[[machine]]\naddress = 'a'\n[[machine]]\naddress = 'b'\ninterface = '192.0.2.1'\n");
  const Finished launched =
      tern({"launch", "--name", "x", "--hosts", "hosts.toml", "--detach", "--", "sleep", "1000"});
  EXPECT_EQ(launched.exit_code, 5);
  EXPECT_THAT(launched.err, HasSubstr("machine b: its interface 192.0.2.1 cannot be listened on"));
  EXPECT_EQ(tern({"status", "x"}).exit_code, 3);
  EXPECT_THAT(left_on(*a_), IsEmpty());
}

TEST_F(Machines, WhatIsLostIsStartedAgain) {
  ASSERT_EQ(tern({"launch", "--name", "x", "--hosts", "a,b", "--detach", "--", "sleep", "1000"})
                .exit_code,
            0);
  const auto before = status("x")["machines"];
  const auto kill_agent_of_b = [&] {
    const auto processes = status("x")["machines"][1]["processes"];
    for (const auto& process : processes) {
      if (process["role"] == "agent") signal_process(process["pid"], process["pid_start"], SIGKILL);
    }
    return wait_until([&] { return status("x")["machines"][1]["state"] == "lost"; });
  };
  ASSERT_TRUE(kill_agent_of_b());
  const Finished again = tern({"restart", "x"});
  EXPECT_EQ(again.exit_code, 0) << again.err;
  EXPECT_THAT(again.out, AllOf(HasSubstr("b: started again, process "), Not(HasSubstr("a: "))));
  const auto after = status("x")["machines"];
  EXPECT_EQ(after[0]["pid"], before[0]["pid"]);
  EXPECT_EQ(after[1]["state"], "running");
  EXPECT_NE(after[1]["pid"], before[1]["pid"]);
  EXPECT_THAT(tern({"restart", "x"}).out, HasSubstr("nothing of it is lost"));
  EXPECT_THAT(tern({"restart", "x", "--machine", "a"}).err, HasSubstr("its agent is running"));

  // One that cannot be reached is named, and keeps no other from stopping.
  shell("b").close_connection();
  b_->end();
  const Finished unreached = tern({"restart", "x"});
  EXPECT_EQ(unreached.exit_code, 6);
  EXPECT_THAT(unreached.err, HasSubstr("machine b: "));
  const Finished stopped = tern({"stop", "x"});
  EXPECT_EQ(stopped.exit_code, 6);
  EXPECT_THAT(stopped.out, HasSubstr("a: ended with"));
  EXPECT_THAT(stopped.err, HasSubstr("machine b: "));
  EXPECT_THAT(tern({"status", "x", "-f"}).out,
              AllOf(HasSubstr("ended with"), HasSubstr("unreachable")));
  const std::string id = nlohmann::json::parse(tern({"status", "x", "--json"}).out)["id"];
  for (const MarkedProcess& process : find_marked_processes(id + "-1")) {
    signal_process(process.pid, process.start, SIGKILL);
  }
}

TEST_F(Machines, ThatAreNotFitToTrainAreNamedBeforeAnythingStarts) {
  write_text(place_ / "bad.toml", "[launch]\nsetup = ['echo once >> ran', 'echo oh >&2; false']\n");
  const Finished bad = tern({"launch", "bad.toml", "--name", "x", "--hosts", "a"});
  EXPECT_EQ(bad.exit_code, 5);
  EXPECT_THAT(bad.err, HasSubstr("machine a: setup command 2 (`echo oh >&2; false`) ended with 1"));
  EXPECT_EQ(read_text(a_->folder() / "ran"), "once\n");
  write_text(place_ / "good.toml", "[launch]\nsetup = ['echo ready']\n");
  const Finished unfit = tern({"launch", "good.toml", "--name", "x", "--hosts", "a"});
  EXPECT_EQ(unfit.exit_code, 5);
  EXPECT_THAT(unfit.err,
              AllOf(HasSubstr("a: setup done"), HasSubstr("machine a: it cannot train: ")));
  EXPECT_EQ(tern({"status", "x"}).exit_code, 3);
}

}  // namespace
}  // namespace tern
