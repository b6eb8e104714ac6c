// A person's runs in buckets, with the real program and real servers: the same bits as in a folder
// through kills and notices, moved from cloud to cloud, looked at, and refused where they cannot
// be.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cloud_story.h"
#include "cloud_under_test.h"
#include "photos.h"
#include "storage/record_log.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::Contains;
using testing::HasSubstr;
using testing::Not;

// Long enough to be interrupted twice, also where this test waits for its turn. Each epoch ends
// with a checkpoint, which costs more than its steps here: epochs of 23.
constexpr char kEpochs[] = "train.epochs=60";
constexpr char kBatch[] = "train.batch=4";
constexpr int64_t kSteps = 60 * 23;
// Saves while we watch: each is a piece of the metrics, written just before.
constexpr size_t kSavesSeen = 3;
constexpr char kVeryLong[] = "train.epochs=100000";
constexpr char kMetrics[] = "metrics.jsonl";

class CloudStories : public CloudStory {
 protected:
  static std::vector<std::string> train(const std::string& run,
                                        const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = WorkFolder::train(run, {"--set", kEpochs, "--set", kBatch});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  size_t pieces(const std::string& run) const {
    return read(run, [](ObjectStore& store) {
      return store.list(std::string(kMetrics) + ".d/").value_or({}).size();
    });
  }
  std::map<int64_t, double> losses(const std::string& run) const {
    return read(run, [](ObjectStore& store) {
      std::map<int64_t, double> losses;
      for (const std::string& line : read_records(store, kMetrics).value_or({})) {
        const auto record = nlohmann::json::parse(line, nullptr, false);
        if (record.contains("loss")) losses[record["step"]] = record["loss"];
      }
      return losses;
    });
  }

  // Trains until some checkpoints are saved, and is then told by `number`.
  Finished interrupt(const std::string& run, int number,
                     const std::vector<std::string>& more = {}) const {
    const size_t before = pieces(run);
    Process process(start(train(run, more)));
    EXPECT_TRUE(wait_until([&] { return pieces(run) > before + kSavesSeen; }))
        << process.err_so_far();
    process.signal(number);
    return process.wait();
  }

  void expect_preempted_with_nothing_lost(const Finished& finished, const std::string& run) const {
    EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
    EXPECT_THAT(finished.out, HasSubstr("0 steps lost"));
    const auto report = json_of({"report", run, "--json"});
    EXPECT_EQ(report["status"], "preempted");
    EXPECT_EQ(report["steps_lost"], 0);
    EXPECT_LT(report["step"], kSteps);
  }

  // As "whole", which is trained if it is not there.
  void expect_same_as_in_a_folder(const std::string& run) const {
    if (!std::filesystem::exists(place_.run("whole"))) {
      const Finished whole = tern(train("whole"));
      ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
    }
    EXPECT_FALSE(losses(run).empty());
    EXPECT_EQ(losses(run), place_.losses("whole"));
    const auto model = read(run, [](ObjectStore& store) { return store.get("model.safetensors"); });
    ASSERT_TRUE(model) << model.error().to_string();
    EXPECT_TRUE(*model == read_text(place_.run("whole") / "model.safetensors"));
  }
};

class CloudStoriesOn : public CloudStories, public testing::WithParamInterface<ServerKind> {};

TEST_P(CloudStoriesOn, ARunInABucketGivesTheBitsOfARunInAFolderAlsoWhenKilledAndToldToLeave) {
  if (const std::string why = missing_one_of({GetParam()}); !why.empty()) GTEST_SKIP() << why;
  const std::string bucket = serve(GetParam()).address("bucket");
  const std::string plain = bucket + "/runs/plain";
  const Finished refused = tern(train(plain));
  EXPECT_EQ(refused.exit_code, kExitNotFound) << "made a bucket that nobody asked for";
  EXPECT_THAT(refused.err, HasSubstr("tern store mb"));
  const Finished finished = tern(train(plain, {"--create"}));
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr(fmt::format("{}: done at step {}", plain, kSteps)));
  EXPECT_FALSE(std::filesystem::exists(place_ / "runs"));
  expect_same_as_in_a_folder(plain);

  const std::string run = bucket + "/runs/interrupted";
  EXPECT_EQ(interrupt(run, SIGKILL).exit_code, -SIGKILL);
  EXPECT_EQ(json_of({"report", run, "--json"})["status"], "failed");
  const Finished told = interrupt(run, SIGTERM);
  EXPECT_EQ(told.exit_code, kExitPreempted) << told.err;
  EXPECT_THAT(told.err, HasSubstr("resuming"));
  const Finished last = tern(train(run));
  ASSERT_EQ(last.exit_code, kExitDone) << last.err;
  EXPECT_THAT(last.err, HasSubstr("resuming"));
  EXPECT_EQ(json_of({"report", run, "--json"})["interruptions"], 2);
  expect_same_as_in_a_folder(run);
}

TEST_P(CloudStoriesOn, ABadNetworkCostsTimeAndNoBits) {
  if (const std::string why = missing_one_of({GetParam()}); !why.empty()) GTEST_SKIP() << why;
  CloudUnderTest cloud(GetParam(), Way::through_faults);
  variables_ = cloud.server().variables();
  const std::string run = cloud.server().address("bucket") + "/demo";
  const std::vector<std::string> fewer = {"--set", "train.epochs=10"};
  const Finished whole = tern(train("whole", fewer));
  ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
  const Finished first =
      tern(train(run, {"--create", "--set", "train.epochs=10", "--steps", "100"}));
  ASSERT_EQ(first.exit_code, kExitDone) << first.err;
  const Finished second = tern(train(run, fewer));
  ASSERT_EQ(second.exit_code, kExitDone) << second.err;
  EXPECT_GE(cloud.proxy().faults().size(), 3U) << "kinds that were met";
  expect_same_as_in_a_folder(run);
}

INSTANTIATE_TEST_SUITE_P(Real, CloudStoriesOn,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::strict_gcs),
                         [](const testing::TestParamInfo<ServerKind>& each) {
                           switch (each.param) {
                             case ServerKind::versitygw: return "S3";
                             case ServerKind::azurite: return "Azure";
                             default: return "Gcs";
                           }
                         });

TEST_F(CloudStories, ARunMovesFromS3ToAzureToGoogleAndLosesNothing) {
  const std::vector<ServerKind> kinds = {ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::fake_gcs};
  if (const std::string why = missing_one_of(kinds); !why.empty()) GTEST_SKIP() << why;
  std::vector<std::string> runs;
  for (const ServerKind kind : kinds) runs.push_back(serve(kind).address("bucket") + "/demo");

  expect_preempted_with_nothing_lost(interrupt(runs[0], SIGTERM, {"--create"}), runs[0]);
  const Finished to_azure = tern({"run", "copy", runs[0], runs[1], "--create"});
  ASSERT_EQ(to_azure.exit_code, kExitDone) << to_azure.err;
  EXPECT_THAT(to_azure.out, HasSubstr("every one read again and equal"));

  expect_preempted_with_nothing_lost(interrupt(runs[1], SIGTERM), runs[1]);
  const Finished taken = tern({"run", "copy", runs[0], runs[1]});
  EXPECT_EQ(taken.exit_code, kExitPrecondition) << "copied over a run";
  const Finished to_google = tern({"run", "copy", runs[1], runs[2], "--create"});
  ASSERT_EQ(to_google.exit_code, kExitDone) << to_google.err;

  const Finished finished = tern(train(runs[2]));
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  const auto report = json_of({"report", runs[2], "--json"});
  EXPECT_EQ(report["status"], "done");
  EXPECT_EQ(report["interruptions"], 2);
  EXPECT_EQ(report["steps_lost"], 0);
  expect_same_as_in_a_folder(runs[2]);
}

// The commands of a run by two ranks on hosts of their own: each has a name, and processes that it
// sees alone and that die with it.
class CloudHosts : public CloudStories {
 protected:
  void SetUp() override {
    const Finished tried = run_to_end(on("cloud-a", {{"true"}, {}, {}}));
    if (tried.exit_code != 0) GTEST_SKIP() << "no host can be made here: " << tried.err;
  }

  static Process::Start on(const std::string& host, Process::Start what) {
    std::vector<std::string> words = {"unshare", "--uts",        "--pid",
                                      "--fork",  "--kill-child", "--mount-proc",
                                      "sh",      "-c",           R"(hostname "$0"; exec "$@")",
                                      host};
    words.insert(words.end(), what.command.begin(), what.command.end());
    what.command = std::move(words);
    return what;
  }
  // Without dropout, which is random by rank. Whoever comes from another host cannot know that the
  // holder is dead.
  static std::vector<std::string> train_two(const std::string& run,
                                            const std::vector<std::string>& more = {}) {
    std::vector<std::string> words =
        train(run, {"--ranks", "2", "--set", "model.dropout=0", "--set", "lease.term=2s"});
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }
  // `unshare` itself ends with SIGKILL and passes nothing on.
  static pid_t first_process(const Process& host) {
    const std::string pid = std::to_string(host.pid());
    return std::stoi(read_text("/proc/" + pid + "/task/" + pid + "/children"));
  }
  bool saves(const std::string& run) const {
    const size_t before = pieces(run);
    return wait_until([&] { return pieces(run) > before + kSavesSeen; });
  }
  // As those of two ranks that nobody disturbed, but for rounding: for a moment one may be alone.
  void expect_losses_of_two(const std::string& run) const {
    const Finished whole = tern(train_two("two"));
    ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
    const auto expected = place_.losses("two");
    const auto losses = this->losses(run);
    ASSERT_EQ(losses.size(), static_cast<size_t>(kSteps));
    for (const auto& [step, loss] : losses) {
      ASSERT_NEAR(loss, expected.at(step), 1e-3 * expected.at(step) + 1e-4) << "step " << step;
    }
  }
};

TEST_F(CloudHosts, ARunOfTwoRanksDiesOnOneHostGoesOnOnAnotherAndOnAnotherCloudAndIsOneRun) {
  const std::vector<ServerKind> kinds = {ServerKind::versitygw, ServerKind::strict_gcs};
  if (const std::string why = missing_one_of(kinds); !why.empty()) GTEST_SKIP() << why;
  const std::string s3 = serve(kinds[0]).address("bucket") + "/demo";
  const std::string google = serve(kinds[1]).address("bucket") + "/demo";
  {
    Process host(on("cloud-a", start(train_two(s3, {"--create"}))));
    ASSERT_TRUE(saves(s3)) << host.err_so_far();
    host.signal(SIGKILL);
    EXPECT_EQ(host.wait().exit_code, -SIGKILL);
  }
  {
    Process host(on("cloud-b", start(train_two(s3))));
    ASSERT_TRUE(saves(s3)) << host.err_so_far();
    kill(first_process(host), SIGTERM);
    const Finished told = host.wait();
    EXPECT_EQ(told.exit_code, kExitPreempted) << told.err;
    EXPECT_THAT(told.err, AllOf(HasSubstr("on machine cloud-a"), HasSubstr("resuming")));
    EXPECT_THAT(told.out, HasSubstr("0 steps lost"));
  }
  const Finished copied = tern({"run", "copy", s3, google, "--create"});
  ASSERT_EQ(copied.exit_code, kExitDone) << copied.err;
  const Finished finished = run_to_end(on("cloud-c", start(train_two(google))));
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;

  const auto report = json_of({"report", google, "--json"});
  EXPECT_EQ(report["status"], "done");
  EXPECT_EQ(report["step"], kSteps);
  EXPECT_EQ(report["interruptions"], 2);
  EXPECT_EQ(report["ranks"]["world"], 2);
  const auto& lives = report["processes"];
  ASSERT_EQ(lives.size(), 3U) << lives;
  EXPECT_EQ(lives[0]["host"], "cloud-a");
  EXPECT_EQ(lives[0]["ended"], "killed without a word");
  EXPECT_EQ(lives[1]["host"], "cloud-b");
  EXPECT_THAT(lives[1]["ended"].get<std::string>(), HasSubstr("preempted"));
  EXPECT_EQ(lives[2]["host"], "cloud-c");
  EXPECT_GT(lives[1]["first_step"], 0);
  EXPECT_EQ(lives[0]["last_step"].get<int64_t>() - lives[1]["first_step"].get<int64_t>(),
            report["steps_lost"]);
  EXPECT_EQ(lives[2]["first_step"], lives[1]["last_step"]);
  EXPECT_EQ(lives[2]["last_step"], kSteps);
  EXPECT_THAT(done({"report", google}).out, HasSubstr("on cloud-a, cloud-b, cloud-c"));
  expect_losses_of_two(google);
}

TEST_F(CloudStories, ARunUnderWayIsLookedAtAndNotTakenOrCopied) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve(ServerKind::versitygw).address("bucket");
  const std::string run = bucket + "/demo";
  EXPECT_THAT(tern({"store", "mb", bucket}).out, HasSubstr(bucket + " is there"));
  const std::vector<std::string> words = train(run, {"--set", kVeryLong});
  Process first(start(words));
  ASSERT_TRUE(wait_until([&] { return pieces(run) > kSavesSeen; })) << first.err_so_far();

  const Finished second = tern(words);
  EXPECT_EQ(second.exit_code, kExitPrecondition);
  EXPECT_THAT(second.err, HasSubstr("pid " + std::to_string(first.pid())));
  const Finished copied = tern({"run", "copy", run, "copy"});
  EXPECT_EQ(copied.exit_code, kExitPrecondition);
  EXPECT_THAT(copied.err, HasSubstr("is being trained by"));
  EXPECT_EQ(json_of({"report", run, "--json"})["status"], "running");
  const auto list = json_of({"ls", bucket, "--json"});
  ASSERT_EQ(list.size(), 1U) << list;
  EXPECT_EQ(list[0]["status"], "running");

  first.signal(SIGTERM);
  EXPECT_EQ(first.wait().exit_code, kExitPreempted);
  const Finished checkpoints = tern({"checkpoints", run, "--verify"});
  EXPECT_EQ(checkpoints.exit_code, kExitDone) << checkpoints.err;
  EXPECT_THAT(checkpoints.out, HasSubstr("the newest"));
  EXPECT_THAT(tern({"report", run}).out, HasSubstr("preempted"));
  EXPECT_THAT(tern({"ls", bucket}).out, AllOf(HasSubstr("demo"), HasSubstr("preempted")));
  const auto log = read(run, [](ObjectStore& store) { return read_records(store, "log.txt"); });
  EXPECT_THAT(log.value_or({}), Contains(HasSubstr("starting run=" + run)));

  const int64_t step = json_of({"report", run, "--json"})["step"];
  const Finished branched = tern(
      train("branch", {"--from", run, "--set", kVeryLong, "--steps", std::to_string(step + 2)}));
  EXPECT_EQ(branched.exit_code, kExitDone) << branched.err;
  EXPECT_EQ(place_.losses("branch").begin()->first, step + 1);
  EXPECT_EQ(json_of({"eval", run, "--json"})["samples"], 20);
  EXPECT_EQ(tern({"rm", run, "--yes"}).exit_code, kExitDone);
  EXPECT_EQ(json_of({"ls", bucket, "--json"}).size(), 0U);
  EXPECT_THAT(tern({"ls", bucket}).out, HasSubstr("--run " + bucket + "/NAME"));
}

TEST_F(CloudStories, AStoreThatIsAwayForAWhileIsWaitedForAndSaidToBe) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  FaultProxy proxy(scripted({}));
  servers_.push_back(std::make_unique<StoreServer>(
      StoreServer::Start{.kind = ServerKind::versitygw, .front_port = proxy.port()}));
  const StoreServer& server = *servers_.back();
  proxy.lead_to(server.port());
  variables_ = server.variables();
  const std::string run = server.address("bucket") + "/demo";
  Process process(start(train(run, {"--create", "--set", kVeryLong})));
  ASSERT_TRUE(wait_until([&] { return pieces(run) > kSavesSeen; })) << process.err_so_far();
  proxy.lead_to(free_port());
  const auto says = [&](const char* words) {
    return wait_until([&] { return process.err_so_far().find(words) != std::string::npos; });
  };
  EXPECT_TRUE(says("store: waiting for the store")) << process.err_so_far();
  proxy.lead_to(server.port());
  EXPECT_TRUE(says("the store answers again")) << process.err_so_far();
  process.signal(SIGTERM);
  const Finished finished = process.wait();
  EXPECT_EQ(finished.exit_code, kExitPreempted) << finished.err;
  EXPECT_THAT(finished.out, HasSubstr("0 steps lost"));
}

TEST_F(CloudStories, AStoreThatIgnoresCreateOnlyIsNoPlaceForARun) {
  if (const std::string why = missing_one_of({ServerKind::s3rver}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string run = serve(ServerKind::s3rver).address("bucket") + "/demo";
  const Finished refused = tern(train(run, {"--create"}));
  EXPECT_EQ(refused.exit_code, kExitPrecondition);
  EXPECT_THAT(refused.err, AllOf(HasSubstr("ignores create-only writes"), HasSubstr(run),
                                 HasSubstr("versitygw or a folder")));
  EXPECT_EQ(json_of({"ls", run.substr(0, run.rfind('/')), "--json"}).size(), 0U);
}

TEST_F(CloudStories, AWrongSecretIsNamedAndNotShown) {
  if (const std::string why = missing_one_of({ServerKind::versitygw, ServerKind::azurite});
      !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string s3 = serve(ServerKind::versitygw).address("bucket") + "/demo";
  const std::string azure = serve(ServerKind::azurite).address("bucket") + "/demo";
  constexpr const char* kWrong = "d3JvbmctYnV0LW5vdC1zaG93bg==";
  variables_["AWS_SECRET_ACCESS_KEY"] = kWrong;
  std::string& connection = variables_["AZURE_STORAGE_CONNECTION_STRING"];
  const size_t key = connection.find("AccountKey=") + sizeof "AccountKey=" - 1;
  connection.replace(key, connection.find(';', key) - key, kWrong);

  for (const std::string& run : {s3, azure}) {
    for (const std::vector<std::string>& words :
         {train(run, {"--create"}), {"report", run}, {"run", "copy", run, "copy"}}) {
      const Finished refused = tern(words);
      EXPECT_EQ(refused.exit_code, kExitUnavailable) << run << " " << words[0] << refused.err;
      EXPECT_THAT(refused.err, HasSubstr(run == s3 ? "AWS_SECRET_ACCESS_KEY" : "key"));
      EXPECT_THAT(refused.err + refused.out, Not(HasSubstr(kWrong)));
    }
  }
  EXPECT_FALSE(std::filesystem::exists(place_ / "runs"));
}

TEST_F(CloudStories, DataInABucketGivesTheBitsOfDataInAFolder) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve(ServerKind::versitygw).address("bucket");
  write_photos(place_ / "photos");
  const Finished imported = tern({"data", "import", "photos", "set", "--pack", "orig"});
  ASSERT_EQ(imported.exit_code, kExitDone) << imported.err;
  ASSERT_EQ(tern({"store", "mb", bucket}).exit_code, kExitDone);
  const Finished copied = tern({"store", "cp", "set", bucket + "/sets/photos", "--recursive"});
  ASSERT_EQ(copied.exit_code, kExitDone) << copied.err;

  EXPECT_EQ(json_of({"data", "ls", bucket + "/sets/photos", "--json"}),
            json_of({"data", "ls", "set", "--json"}));
  const Finished refused = tern({"data", "import", "photos", bucket + "/other", "--pack", "orig"});
  EXPECT_EQ(refused.exit_code, kExitUsage);
  EXPECT_THAT(refused.err, HasSubstr("tern store cp --recursive DIR " + bucket + "/other"));

  const auto set = [](const std::string& data) {
    return std::vector<std::string>{"--set", "data.path=" + data, "--set", "data.classes=2",
                                    "--set", "image.size=24",     "--set", "train.epochs=8",
                                    "--set", "train.batch=8"};
  };
  const Finished whole = tern(WorkFolder::train("whole", set("set")));
  ASSERT_EQ(whole.exit_code, kExitDone) << whole.err;
  // It must not be read by chance.
  std::filesystem::rename(place_ / "set", place_ / "elsewhere");
  const std::string run = bucket + "/run";
  const Finished finished = tern(WorkFolder::train(run, set(bucket + "/sets/photos")));
  ASSERT_EQ(finished.exit_code, kExitDone) << finished.err;
  expect_same_as_in_a_folder(run);
}

}  // namespace
}  // namespace tern
