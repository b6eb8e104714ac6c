#include <fcntl.h>
#include <gmock/gmock.h>
#include <pty.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "cli/command.h"
#include "cli/test_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

// Somebody who lives as long as this test does.
Holder live_holder() {
  Holder holder = *this_process();
  holder.token = "another process, alive as this one is";
  return holder;
}

Holder holder_elsewhere() {
  Holder holder = *this_process();
  holder.token = "a process on another machine";
  holder.boot_id = "of another machine";
  return holder;
}

class Rm : public testing::Test {
 protected:
  // Nobody is there to ask, whoever started this test.
  Rm() : stdin_(dup(STDIN_FILENO)) { read_from(open("/dev/null", O_RDONLY)); }
  ~Rm() override { read_from(stdin_); }

  static void read_from(int fd) {
    dup2(fd, STDIN_FILENO);
    close(fd);
    std::clearerr(stdin);
  }
  // A run that is over: its holder is dead.
  void make_run(const std::string& name) {
    runs_.write_ledger(name, "done");
    runs_.publish(name, dead_holder(), {10, 20});
  }
  Error refused(const Arguments& arguments) {
    const Result<int> result = rm_command({}, arguments);
    EXPECT_FALSE(result.has_value());
    return result ? Error{} : result.error();
  }
  std::string removed(const Arguments& arguments) {
    return output_of([&] { return rm_command({}, arguments); });
  }
  std::string path(const std::string& name) { return runs_ / name; }
  size_t count() {
    return static_cast<size_t>(
        std::distance(fs::directory_iterator(runs_.path()), fs::directory_iterator()));
  }

  TestRuns runs_;

 private:
  int stdin_;
};

TEST_F(Rm, RemovesTheRunsNamedAndNoOther) {
  for (const char* name : {"a", "b", "c"}) make_run(name);
  const std::string out = removed({path("a"), path("c") + "/", path("a"), "--yes"});
  EXPECT_THAT(out, HasSubstr("removed " + path("a") + ", "));
  EXPECT_THAT(out, HasSubstr("removed " + path("c") + ", "));
  EXPECT_EQ(count(), 1u) << "b is left, and nothing that was set aside";
  EXPECT_TRUE(fs::exists(runs_ / "b/ledger.jsonl"));
}

TEST_F(Rm, LinksAreRemovedAndNotFollowed) {
  make_run("a");
  runs_.write("precious", "thesis.tex", "x");
  fs::create_directory_symlink(runs_ / "precious", runs_ / "a/checkpoints/blobs/link");
  fs::create_symlink(runs_ / "precious/thesis.tex", runs_ / "a/report.json");
  removed({path("a"), "--yes"});
  EXPECT_FALSE(fs::exists(runs_ / "a"));
  EXPECT_TRUE(fs::exists(runs_ / "precious/thesis.tex"));
  EXPECT_EQ(count(), 1u);
}

TEST_F(Rm, ALinkToARunIsRefusedAndToldWhereItLeads) {
  make_run("a");
  fs::create_directory_symlink(runs_ / "a", runs_ / "link");
  const Error error = refused({path("link"), "--yes"});
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr(path("a")));
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
}

TEST_F(Rm, AFolderThatHoldsMoreThanARunIsRefusedByName) {
  make_run("a");
  runs_.write("a", "thesis.tex", "x");
  make_run("a/kid");
  const Error error = refused({path("a"), "--yes"});
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr("kid, thesis.tex"));
  EXPECT_TRUE(fs::exists(runs_ / "a/thesis.tex"));
}

TEST_F(Rm, OnlyTernsOwnKindOfEntryIsTerns) {
  make_run("a");
  for (const char* name : {"log.txt", "run.toml", "report.json", "model.safetensors",
                           "metrics.jsonl", "ledger.jsonl.d/00000001", ".tmp/x"}) {
    runs_.write("a", name, "");
  }
  for (int i = 1; i <= 6; ++i) runs_.write("a", "note" + std::to_string(i), "x");
  EXPECT_THAT(refused({path("a"), "--yes"}).message,
              HasSubstr(": note1, note2, note3, note4, note5 and 1 more; "));
  for (int i = 1; i <= 6; ++i) fs::remove(runs_ / "a" / ("note" + std::to_string(i)));
  make_run("b");
  runs_.write("b", "report.json/thesis.tex", "x");
  EXPECT_THAT(refused({path("b"), "--yes"}).message, HasSubstr(": report.json; "));
  removed({path("a"), "--yes"});
  EXPECT_EQ(count(), 1u);
}

TEST_F(Rm, APathBackOutOfALinkIsNotTakenForAnotherFolder) {
  make_run("a");
  make_run("elsewhere/a");
  fs::create_directory_symlink("elsewhere/a", runs_ / "link");
  EXPECT_EQ(refused({path("link/../a"), "--yes"}).code, Code::failed_precondition);
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
  EXPECT_TRUE(fs::exists(runs_ / "elsewhere/a/ledger.jsonl"));
}

TEST_F(Rm, CheckpointsThatAreALinkAreRefused) {
  make_run("a");
  fs::rename(runs_ / "a/checkpoints", runs_ / "elsewhere");
  fs::create_directory_symlink(runs_ / "elsewhere", runs_ / "a/checkpoints");
  EXPECT_THAT(refused({path("a"), "--yes"}).message, HasSubstr(path("elsewhere")));
}

TEST_F(Rm, APathMayBeSpeltInAnyWay) {
  make_run("a");
  make_run("b");
  fs::create_directory_symlink(runs_ / "b", runs_ / "link");
  removed({path("a") + "/../a/.", "--yes"});
  EXPECT_FALSE(fs::exists(runs_ / "a"));
  EXPECT_EQ(refused({path("link") + "/.", "--yes"}).code, Code::failed_precondition);
}

TEST_F(Rm, AFolderThatIsNoRunIsRefusedAndNothingElseIsRemovedEither) {
  make_run("a");
  runs_.write("project", "run.toml", "recipe = \"x\"");
  runs_.write("lightning", "checkpoints/epoch=1.ckpt", "x");
  for (const char* name : {"project", "lightning"}) {
    EXPECT_EQ(refused({path("a"), path(name), "--yes"}).code, Code::failed_precondition);
    EXPECT_TRUE(fs::exists(path(name))) << name;
  }
  EXPECT_EQ(refused({path("a"), path("nowhere"), "--yes"}).code, Code::not_found);
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
  EXPECT_FALSE(fs::exists(runs_ / "project/checkpoints"));
}

TEST_F(Rm, ARunThatIsBeingTrainedIsRefusedByWhom) {
  runs_.write_ledger("a", "done");
  const auto held = runs_.publish("a", live_holder(), {10});
  const Error error = refused({path("a"), "--yes"});
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_THAT(error.message, HasSubstr(live_holder().to_string()));
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
  ASSERT_TRUE(held->release());
  removed({path("a"), "--yes"});
  EXPECT_EQ(count(), 0u);
}

TEST_F(Rm, AHolderElsewhereIsGivenTheRunsOwnTerm) {
  runs_.write_ledger("a", "done");
  runs_.publish("a", holder_elsewhere(), {10});
  runs_.write("a", "run.toml", "[lease]\nterm = \"40ms\"\n");
  testing::internal::CaptureStderr();
  removed({path("a"), "--yes"});
  EXPECT_THAT(testing::internal::GetCapturedStderr(), HasSubstr("may be alive elsewhere"));
  EXPECT_EQ(count(), 0u);
}

TEST_F(Rm, WhereNobodyIsThereYesMustBeSaid) {
  make_run("a");
  const Error error = refused({path("a")});
  EXPECT_EQ(error.code, Code::invalid);
  EXPECT_THAT(error.message, HasSubstr("--yes"));
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
  EXPECT_EQ(refused({"--yes"}).code, Code::invalid) << "no name";
}

TEST_F(Rm, OnATerminalAPersonIsAsked) {
  for (const char* answer : {"n\n", "\n", "yeah\n", "y\n"}) {
    if (!fs::exists(runs_ / "a")) make_run("a");
    int terminal = -1;
    int ours = -1;
    if (openpty(&terminal, &ours, nullptr, nullptr, nullptr) != 0) {
      GTEST_SKIP() << "no pseudo-terminals here";
    }
    read_from(ours);
    ASSERT_GT(write(terminal, answer, strlen(answer)), 0);
    testing::internal::CaptureStderr();
    removed({path("a")});
    const std::string asked = testing::internal::GetCapturedStderr();
    close(terminal);
    EXPECT_THAT(asked, HasSubstr(path("a") + " (done, step 12, "));
    EXPECT_EQ(fs::exists(runs_ / "a"), std::string(answer) != "y\n") << answer;
  }
}

TEST_F(Rm, NobodyRemovesTheFolderTheyAreIn) {
  make_run("a");
  const fs::path before = fs::current_path();
  fs::current_path(runs_ / "a/checkpoints");
  const Error error = refused({path("a"), "--yes"});
  fs::current_path(before);
  EXPECT_EQ(error.code, Code::failed_precondition);
  EXPECT_TRUE(fs::exists(runs_ / "a/ledger.jsonl"));
}

TEST_F(Rm, WhatAKilledRemovalLeftCanBeRemoved) {
  make_run("a.removed.1");
  fs::remove_all(runs_ / "a.removed.1/checkpoints");
  make_run("b.removed.1");
  fs::remove(runs_ / "b.removed.1/ledger.jsonl");
  removed({path("a.removed.1"), path("b.removed.1"), "--yes"});
  EXPECT_EQ(count(), 0u);
}

}  // namespace
}  // namespace tern
