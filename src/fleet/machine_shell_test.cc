// The commands go to this machine's shell; those by ssh are in tests/launches_by_ssh_test.cc. What
// ssh says when it fails is here in its own words.
#include "fleet/machine_shell.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "fleet/test_folder.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::HasSubstr;

const FleetMachine kMachine{.name = "a", .address = "10.0.0.4", .user = "me", .port = 2222};

TEST(MachineShell, RunsScriptsOnThisMachine) {
  SystemClock clock;
  const MachineShell shell({.name = "here"}, {}, clock);
  EXPECT_EQ(*shell.must_run({.script = "read word; echo \"$word\"", .input = "secret\n"}, "read"),
            "secret\n");
  EXPECT_EQ(shell.run({.script = "exit 255"})->exit_code, 255);
  const auto failed = shell.must_run({.script = "echo no luck >&2; exit 3"}, "try it");
  EXPECT_EQ(failed.error().message, "machine here: try it: exit code 3 (no luck)");
  EXPECT_EQ(shell.must_run({.script = "no-such-thing"}, "try it").error().code, Code::not_found);
  const auto late = shell.run({.script = "sleep 100", .limit = Milliseconds(20)});
  EXPECT_EQ(late.error().code, Code::deadline_exceeded);
  EXPECT_THAT(late.error().message, HasSubstr("machine here: no end after"));
  const auto cut = shell.must_run({.script = "echo 12345", .output_bytes_max = 2}, "count");
  EXPECT_EQ(cut.error().code, Code::corrupt);
}

TEST(MachineShell, SaysWhenThereIsNoSsh) {
  SystemClock clock;
  const MachineShell shell(kMachine, {.program = "no-ssh-here"}, clock);
  const auto answer = shell.run({.script = "true"});
  EXPECT_EQ(answer.error().code, Code::not_found);
  EXPECT_THAT(answer.error().message, HasSubstr("install the package openssh-client"));
  EXPECT_EQ(ask_ssh_for("a", {.program = "no-ssh-here"}, clock).error().code, Code::not_found);
}

TEST(MachineShell, NeverWeakensHostKeyChecks) {
  SystemClock clock;
  const TestFolder folder;
  folder.write("ssh", "#!/bin/sh\nprintf '%s\\n' \"$@\"\n");
  std::filesystem::permissions(folder / "ssh", std::filesystem::perms::owner_all);
  FleetMachine machine = kMachine;
  machine.ssh_options = {"BatchMode=no", "Compression=yes"};
  const MachineShell shell(machine, {.program = (folder / "ssh").string()}, clock);
  const Bytes words = *shell.must_run({.script = "echo 'it'"}, "show");
  EXPECT_THAT(words, testing::Not(HasSubstr("StrictHostKeyChecking")));
  EXPECT_THAT(words, testing::Not(HasSubstr("KnownHosts")));
  // ssh takes the first of two.
  EXPECT_LT(words.find("BatchMode=yes"), words.find("BatchMode=no"));
  EXPECT_THAT(words, AllOf(HasSubstr("-p\n2222\n"), HasSubstr("-l\nme\n"), HasSubstr("-T\n--\n"),
                           HasSubstr("10.0.0.4\nexec /bin/sh -c 'echo '\\''it'\\'''\n")));
}

struct Words {
  const char* said;
  Code code;
  const char* told;
};
constexpr Words kFailures[] = {
    {"No ED25519 host key is known for 10.0.0.4 and you have requested strict checking.\r\n"
     "Host key verification failed.\r\n",
     Code::failed_precondition,
     "its host key is not known here; log in once with `ssh -p 2222 me@"},
    {"@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @\r\nHost key verification failed.",
     Code::failed_precondition, "`ssh-keygen -R 10.0.0.4` forgets the old key"},
    {"me@10.0.0.4: Permission denied (publickey).\r\n", Code::permission_denied,
     "must work without a password"},
    {"ssh: Could not resolve hostname x: Name or service not known\r\n", Code::not_found,
     "nobody knows the name 10.0.0.4"},
    {"ssh: connect to host 10.0.0.4 port 2222: Connection refused\r\n", Code::unavailable,
     "it cannot be reached (Connection refused)"},
    {"ssh: connect to host 10.0.0.4 port 2222: Connection timed out\r\n", Code::unavailable,
     "it cannot be reached (timed out)"},
    {"ssh: connect to host 10.0.0.4 port 2222: No route to host\r\n", Code::unavailable,
     "it cannot be reached (No route to host)"},
    {"Connection closed by 10.0.0.4 port 2222\r\n", Code::unavailable, "the connection was lost"},
    {"Timeout, server 10.0.0.4 not responding.\r\n", Code::unavailable, "the connection was lost"},
    {"something else\n\n", Code::unavailable, "ssh failed (something else); try `ssh -p 2222"},
    {"Shared connection to 10.0.0.4 closed.\r\n", Code::unavailable,
     "the connection was lost (Sha"},
    {"", Code::unavailable, "machine a: the connection was lost; is the machine"},
};

TEST(MachineShell, ExplainsWhatSshSays) {
  for (const Words& words : kFailures) {
    const Error error = explain_ssh_failure(kMachine, words.said);
    EXPECT_EQ(error.code, words.code) << words.said;
    EXPECT_THAT(error.message, HasSubstr("machine a: ")) << words.said;
    EXPECT_THAT(error.message, HasSubstr(words.told)) << words.said;
  }
}

TEST(MachineShell, ExplainsWhatCommandsSay) {
  const auto explain = [](int exit_code, const char* err) {
    return explain_exit(kMachine, "send the bundle", {.exit_code = exit_code, .err = err});
  };
  const Error full = explain(2, "tar: x: Cannot write: No space left on device\n");
  EXPECT_EQ(full.code, Code::exhausted);
  EXPECT_THAT(full.message, AllOf(HasSubstr("machine a: send the bundle: its disk is full"),
                                  HasSubstr("free some space there")));
  const Error missing = explain(127, "sh: 1: tar: not found\n");
  EXPECT_EQ(missing.code, Code::not_found);
  EXPECT_THAT(missing.message, HasSubstr("a command is missing there (sh: 1: tar: not found)"));
  EXPECT_THAT(explain(-9, "").message, HasSubstr("ended by signal 9"));
}

TEST(MachineShell, QuotesAnyText) {
  SystemClock clock;
  const MachineShell shell({.name = "here"}, {}, clock);
  const std::string text = "a'b \"$(touch x)\" \\ `y` !\n*";
  EXPECT_EQ(*shell.must_run({.script = "printf %s " + quote_shell(text)}, "print"), text);
}

TEST(ControlFolder, IsThisUsersAlone) {
  const TestFolder folder;
  const auto made = make_control_folder(folder.path());
  struct stat found{};
  ASSERT_EQ(stat(made.c_str(), &found), 0);
  EXPECT_EQ(found.st_mode & 0777, 0700U);
  // Others may look into it: another is taken.
  chmod(made.c_str(), 0755);
  EXPECT_NE(make_control_folder(folder.path()), made);
  // A path that no socket can have.
  EXPECT_THAT(make_control_folder(folder / std::string(60, 'x')).string(), HasSubstr("/tmp/tern-"));
}

}  // namespace
}  // namespace tern
