// Addresses where paths are taken: data sets, weights and runs in buckets, and what is left behind
// there.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include "cloud_story.h"
#include "fault_proxy.h"
#include "photos.h"
#include "storage/record_log.h"

namespace tern {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;

class CloudCommandsOn : public CloudStory, public testing::WithParamInterface<ServerKind> {
 protected:
  // The bucket, with photos packed as bucket/sets/photos and here as "set".
  std::string serve_photos() {
    const std::string bucket = serve(GetParam()).address("bucket");
    write_photos(place_ / "photos");
    done({"data", "import", "photos", "set", "--pack", "orig"});
    done({"store", "mb", bucket});
    done({"store", "cp", "set", bucket + "/sets/photos", "--recursive"});
    return bucket;
  }
};

TEST_P(CloudCommandsOn, ADataSetInABucketIsListedVerifiedShownAndMeasured) {
  if (const std::string why = missing_one_of({GetParam()}); !why.empty()) GTEST_SKIP() << why;
  const std::string bucket = serve_photos();
  const std::string set = bucket + "/sets/photos";
  EXPECT_EQ(json_of({"data", "ls", set, "--json"}), json_of({"data", "ls", "set", "--json"}));
  const Finished verified = done({"data", "verify", set, "--decode"});
  EXPECT_THAT(verified.out, HasSubstr(set + ": 64 samples, "));
  EXPECT_THAT(verified.out, HasSubstr("none damaged"));
  done({"data", "show", set, "3", "--out", "there.png"});
  done({"data", "show", "set", "3", "--out", "here.png"});
  EXPECT_FALSE(read_text(place_ / "here.png").empty());
  EXPECT_EQ(read_text(place_ / "there.png"), read_text(place_ / "here.png"));
  done({"data", "show", set, "--grid", "3x2", "--split", "test"});
  EXPECT_FALSE(read_text(place_ / "grid.png").empty());
  const auto bench = json_of({"data", "bench", set, "--samples", "16", "--passes", "1", "--batch",
                              "8", "--set", "image.size=32", "--json"});
  EXPECT_GT(bench["samples_per_s"], 0);
  EXPECT_GT(bench["stages_per_core"]["fetch"], 0);
  const auto plan = json_of({"plan", "run.toml", "--set", "data.path=" + set, "--set",
                             "data.classes=2", "--set", "image.size=24", "--json"});
  EXPECT_EQ(plan["data"]["train_samples"], 48);
  EXPECT_EQ(plan["data"]["bytes"], json_of({"data", "ls", "set", "--json"})["bytes"]);
}

TEST_P(CloudCommandsOn, DamageInABucketIsNamedAndWhatIsNotThereSaysWhatToType) {
  if (const std::string why = missing_one_of({GetParam()}); !why.empty()) GTEST_SKIP() << why;
  const std::string bucket = serve_photos();
  const std::string set = bucket + "/sets/photos";
  const std::string shard = read(set, [](ObjectStore& store) {
    const std::string name = store.list("shards/").value().front().name;
    Bytes bytes = store.get(name).value();
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    EXPECT_TRUE(store.put(name, bytes));
    return name;
  });
  const Finished damaged = tern({"data", "verify", set});
  EXPECT_EQ(damaged.exit_code, kExitCorrupt) << damaged.err;
  EXPECT_THAT(damaged.out,
              AllOf(HasSubstr("damaged: "), HasSubstr(" in " + shard), HasSubstr("1 damaged")));
  read(set, [&](ObjectStore& store) { EXPECT_TRUE(store.remove(shard)); });
  const Finished gone = tern({"data", "verify", set});
  EXPECT_EQ(gone.exit_code, kExitCorrupt) << gone.err;
  EXPECT_THAT(gone.out, HasSubstr("damaged: " + shard));
  for (const std::vector<std::string>& words :
       {std::vector<std::string>{"data", "ls", bucket + "/none"},
        {"data", "verify", bucket + "/none"},
        {"data", "show", bucket + "/none", "0"},
        {"data", "bench", bucket + "/none"}}) {
    const Finished refused = tern(words);
    EXPECT_EQ(refused.exit_code, kExitNotFound) << words[1] << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("tern store cp --recursive DIR " + bucket + "/none"));
  }
}

INSTANTIATE_TEST_SUITE_P(Real, CloudCommandsOn,
                         testing::Values(ServerKind::versitygw, ServerKind::azurite,
                                         ServerKind::strict_gcs),
                         [](const testing::TestParamInfo<ServerKind>& each) {
                           switch (each.param) {
                             case ServerKind::versitygw: return "S3";
                             case ServerKind::azurite: return "Azure";
                             default: return "Gcs";
                           }
                         });

class CloudCommands : public CloudStory {
 protected:
  // The ledger's only record of that kind.
  nlohmann::json ledger(const std::string& run, const std::string& kind) const {
    return read(run, [&](ObjectStore& store) {
      nlohmann::json found;
      for (const std::string& line : read_records(store, "ledger.jsonl").value_or({})) {
        const auto record = nlohmann::json::parse(line, nullptr, false);
        if (record.value("kind", "") == kind) found = record;
      }
      return found;
    });
  }
};

TEST_F(CloudCommands, ARunBeginsWithWeightsInABucketAsWithAFile) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve(ServerKind::versitygw).address("bucket");
  const std::string weights = bucket + "/weights/first.safetensors";
  done(WorkFolder::train("first", {"--steps", "20"}));
  done({"store", "mb", bucket});
  done({"store", "cp", "runs/first/model.safetensors", weights});

  done(WorkFolder::train("from-file", {"--steps", "4", "--init", "runs/first/model.safetensors"}));
  const std::string run = bucket + "/runs/from-bucket";
  done(WorkFolder::train(run, {"--steps", "4", "--init", weights}));
  const auto file = place_.ledger("from-file", "init");
  ASSERT_THAT(file, SizeIs(1));
  const auto object = ledger(run, "init");
  EXPECT_EQ(object["sha256"], file[0]["sha256"]);
  EXPECT_EQ(object["top1"], file[0]["top1"]);
  EXPECT_EQ(object["file"], weights);
  const auto model = read(run, [](ObjectStore& store) { return store.get("model.safetensors"); });
  EXPECT_TRUE(model.value_or("") == read_text(place_.run("from-file") / "model.safetensors"));
  // The run needs them no more.
  read(bucket, [](ObjectStore& store) { EXPECT_TRUE(store.remove("weights/first.safetensors")); });
  done(WorkFolder::train(run, {"--steps", "6", "--init", weights}));
}

TEST_F(CloudCommands, WeightsInABucketAreEvaluatedPredictedWithAndMissedBeforeAnythingIsWritten) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve(ServerKind::versitygw).address("bucket");
  const std::string run = bucket + "/demo";
  done(WorkFolder::train(run, {"--steps", "20", "--create"}));
  const std::string weights = run + "/model.safetensors";
  const auto by_run = json_of({"eval", run, "--json"});
  const auto by_file = json_of({"eval", "run.toml", "--init", weights, "--json"});
  EXPECT_EQ(by_file["top1"], by_run["top1"]);
  EXPECT_EQ(by_file["weights"], weights);
  write_photos(place_ / "photos");
  const std::vector<std::string> pictures = {"photos/val/ants", "--top", "2", "--json"};
  std::vector<std::string> words = {"predict", run};
  words.insert(words.end(), pictures.begin(), pictures.end());
  const auto seen = json_of(words);
  EXPECT_THAT(seen, SizeIs(8));
  words = {"predict", "run.toml", "--init", weights};
  words.insert(words.end(), pictures.begin(), pictures.end());
  EXPECT_EQ(json_of(words), seen);

  const std::string none = bucket + "/none.safetensors";
  for (const std::vector<std::string>& each : {WorkFolder::train("new", {"--init", none}),
                                               WorkFolder::train(bucket + "/new", {"--init", none}),
                                               {"eval", "run.toml", "--init", none}}) {
    const Finished refused = tern(each);
    EXPECT_EQ(refused.exit_code, kExitNotFound) << each[0] << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("tern store ls " + bucket));
  }
  EXPECT_FALSE(std::filesystem::exists(place_.run("new")));
  EXPECT_THAT(json_of({"store", "ls", bucket + "/new", "--json"}), IsEmpty());
  const auto warned = json_of({"plan", "run.toml", "--set", "model.init=" + none, "--json"});
  EXPECT_THAT(warned["warnings"].dump(), HasSubstr(none));
  const auto fine = json_of({"plan", "run.toml", "--set", "model.init=" + weights, "--json"});
  EXPECT_THAT(fine["warnings"].dump(), Not(HasSubstr("weights")));
}

TEST_F(CloudCommands, AFreshRunTakesAnEmptyPlaceAndElseNamesTheCommandsThatMakeOne) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string run = serve(ServerKind::versitygw).address("bucket") + "/demo";
  const std::vector<std::string> fresh = WorkFolder::train(run, {"--fresh", "--steps", "5"});
  std::vector<std::string> first = fresh;
  first.emplace_back("--create");
  done(first);
  const Finished refused = tern(fresh);
  EXPECT_EQ(refused.exit_code, kExitPrecondition) << refused.err;
  EXPECT_THAT(refused.err, AllOf(HasSubstr(fmt::format("`tern run copy {0} {0}.1`", run)),
                                 HasSubstr(fmt::format("`tern rm {}`", run))));
  EXPECT_EQ(json_of({"report", run, "--json"})["step"], 5) << "the old run is untouched";
  done({"run", "copy", run, run + ".1"});
  done({"rm", run, "--yes"});
  done(fresh);
  EXPECT_EQ(json_of({"report", run + ".1", "--json"})["step"], 5);
}

class CloudUploads : public CloudCommands {
 protected:
  // The bucket, on a server that parts of uploads never reach.
  std::string serve_without_parts() {
    StoreServer& server = serve({.kind = ServerKind::versitygw, .front_port = proxy_.port()});
    proxy_.lead_to(server.port());
    door_.emplace(server.surroundings(), clock_);
    return server.address("bucket");
  }

  // The names of all that were begun.
  std::vector<std::string> uploads(const std::string& bucket) {
    std::vector<std::string> names;
    const auto opened = door_->open_bucket(parse_store_address(bucket).value());
    EXPECT_TRUE(opened) << opened.error().to_string();
    if (!opened) return names;
    for (const OpenUpload& upload : (*opened)->list_uploads("").value_or({})) {
      names.push_back(upload.name);
    }
    return names;
  }

  // By a copy that is killed. REQUIRES: uri is in s3://bucket.
  void leave_upload(const std::string& uri) {
    const std::string bucket = uri.substr(0, uri.find('/', std::string("s3://").size()));
    const size_t before = uploads(bucket).size();
    write_text(place_ / "large", std::string(40 << 20, 'x'));
    Process copy(start({"store", "cp", "large", uri}));
    ASSERT_TRUE(wait_until([&] { return uploads(bucket).size() > before; })) << copy.err_so_far();
    copy.signal(SIGKILL);
    copy.wait();
  }

 private:
  FaultProxy proxy_{[](const WireRequest& request) {
    const bool is_part = request.target.find("partNumber=") != std::string::npos;
    return WireStep{.delay = Milliseconds(is_part ? 3'600'000 : 0)};
  }};
  SystemClock clock_;
  std::optional<CloudDoor> door_;
};

TEST_F(CloudUploads, AnUploadThatWasKilledIsNamedAndRemoved) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve_without_parts();
  done({"store", "mb", bucket});
  leave_upload(bucket + "/sets/large");
  EXPECT_THAT(done({"store", "rm", bucket, "--uploads"}).out, HasSubstr("no unfinished upload"))
      << "one of this minute may be under way";
  const std::vector<std::string> now = {"--uploads", "--older-than", "0s"};
  const auto rm = [&](const std::string& uri, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"store", "rm", uri};
    words.insert(words.end(), now.begin(), now.end());
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  EXPECT_THAT(done(rm(bucket + "/set", {"--yes"})).out, HasSubstr("no unfinished upload"));
  const Finished unasked = tern(rm(bucket, {}));
  EXPECT_EQ(unasked.exit_code, kExitUsage) << unasked.err;
  EXPECT_THAT(uploads(bucket), SizeIs(1));
  EXPECT_THAT(done(rm(bucket + "/sets", {"--yes"})).out,
              AllOf(HasSubstr("  sets/large\n"),
                    HasSubstr("removed 1 unfinished upload in " + bucket + "/sets")));
  EXPECT_THAT(uploads(bucket), IsEmpty());
  EXPECT_EQ(tern({"store", "rm", bucket, "--older-than", "1h"}).exit_code, kExitUsage);
  EXPECT_EQ(tern(rm(bucket, {"--recursive"})).exit_code, kExitUsage);
}

TEST_F(CloudUploads, ARunThatIsRemovedTakesItsUnfinishedUploadsAlong) {
  if (const std::string why = missing_one_of({ServerKind::versitygw}); !why.empty()) {
    GTEST_SKIP() << why;
  }
  const std::string bucket = serve_without_parts();
  done(WorkFolder::train(bucket + "/runs/a", {"--steps", "5", "--create"}));
  leave_upload(bucket + "/runs/a/checkpoints/blob");
  leave_upload(bucket + "/runs/ab/checkpoints/blob");
  done({"rm", bucket + "/runs/a", "--yes"});
  EXPECT_THAT(uploads(bucket), ElementsAre("runs/ab/checkpoints/blob"));
}

TEST_F(CloudCommands, GoogleAndAzureForgetUnfinishedUploadsByThemselves) {
  if (const std::string why = missing_one_of({ServerKind::strict_gcs, ServerKind::azurite});
      !why.empty()) {
    GTEST_SKIP() << why;
  }
  for (const ServerKind kind : {ServerKind::strict_gcs, ServerKind::azurite}) {
    const std::string bucket = serve(kind).address("bucket");
    done({"store", "mb", bucket});
    EXPECT_THAT(done({"store", "rm", bucket, "--uploads"}).out,
                HasSubstr("forgets them by itself after a week"));
  }
}

}  // namespace
}  // namespace tern
