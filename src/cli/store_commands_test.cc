// The commands on folders, which are stores too. tests/ has them on real servers.
#include "cli/store_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/doctor_store.h"
#include "cli/store_bench.h"
#include "cli/store_objects.h"
#include "cli/test_run.h"
#include "storage/faulty_store.h"
#include "storage/memory_store.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::Not;

class StoreCommands : public testing::Test {
 protected:
  StoreCommands() {
    place_.write("src", "a.txt", "hello");
    place_.write("src", "deep/b c.txt", "world!");
    place_.write("src", "deep/er/d", "");
  }
  std::string path(const std::string& name) { return (place_ / name).string(); }
  std::string read(const std::string& name) {
    std::ifstream file(place_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  static std::string copied(const Arguments& arguments) {
    return output_of([&] { return store_cp_command({}, arguments); });
  }
  static Error refused(const Arguments& arguments) {
    const Result<int> result = store_cp_command({}, arguments);
    EXPECT_FALSE(result.has_value());
    return result ? Error{} : result.error();
  }

  TestRuns place_;
};

TEST_F(StoreCommands, LsSumsUpFoldersOrListsAll) {
  const std::string out = output_of([&] { return store_ls_command({}, {path("src")}); });
  EXPECT_THAT(out, HasSubstr("a.txt\n"));
  EXPECT_THAT(out, HasSubstr("2 objects  deep/\n"));
  EXPECT_THAT(out, HasSubstr("11 B in 3 objects\n"));
  EXPECT_THAT(out, Not(HasSubstr("b c.txt")));
  const std::string all =
      output_of([&] { return store_ls_command({}, {path("src"), "--recursive"}); });
  EXPECT_THAT(all, HasSubstr("deep/b c.txt\n"));
  const auto json = nlohmann::json::parse(
      output_of([&] { return store_ls_command({}, {"file://" + path("src"), "--json"}); }));
  EXPECT_EQ(json.size(), 3U);
  EXPECT_EQ(json[1], (nlohmann::json{{"name", "deep/b c.txt"}, {"bytes", 6}}));
}

TEST_F(StoreCommands, CpTakesOneFileToANameOrIntoAFolder) {
  copied({path("src/a.txt"), path("new.txt")});
  EXPECT_EQ(read("new.txt"), "hello");
  copied({path("src/a.txt"), path("made") + "/"});
  EXPECT_EQ(read("made/a.txt"), "hello");
  copied({path("src/deep/b c.txt"), path("made"), "--verify"});
  EXPECT_EQ(read("made/b c.txt"), "world!");
}

TEST_F(StoreCommands, CpTakesAFolderOnlyWhenAsked) {
  EXPECT_EQ(refused({path("src"), path("dst")}).code, Code::invalid);
  EXPECT_THAT(copied({path("src"), path("dst"), "--recursive"}), HasSubstr("copied 3 objects"));
  EXPECT_EQ(read("dst/deep/b c.txt"), "world!");
  EXPECT_TRUE(fs::exists(place_ / "dst/deep/er/d"));
}

TEST_F(StoreCommands, CpReplacesNothingUnlessForcedAndThenAll) {
  place_.write("dst", "deep/b c.txt", "mine");
  const Error error = refused({path("src"), path("dst"), "--recursive"});
  EXPECT_EQ(error.code, Code::already_exists);
  EXPECT_THAT(error.message, HasSubstr("--force"));
  EXPECT_FALSE(fs::exists(place_ / "dst/a.txt")) << "refused before anything was copied";
  copied({path("src"), path("dst"), "--recursive", "--force"});
  EXPECT_EQ(read("dst/deep/b c.txt"), "world!");
}

TEST_F(StoreCommands, CpSaysWhatIsWrong) {
  EXPECT_EQ(refused({path("nothing"), path("x")}).code, Code::not_found);
  EXPECT_EQ(refused({path("src/a.txt")}).code, Code::invalid);
  EXPECT_EQ(refused({path("src/a.txt"), path("x"), "--part-size", "1K"}).code, Code::invalid);
  EXPECT_EQ(refused({path("src/a.txt"), "s4://bucket/x"}).code, Code::invalid);
}

TEST_F(StoreCommands, CatPrintsAnObject) {
  EXPECT_EQ(output_of([&] { return store_cat_command({}, {path("src/deep/b c.txt")}); }), "world!");
  EXPECT_EQ(store_cat_command({}, {path("src")}).error().code, Code::not_found);
}

TEST_F(StoreCommands, RmAndMbAreForBuckets) {
  EXPECT_EQ(store_rm_command({}, {path("src"), "--yes", "--recursive"}).error().code,
            Code::invalid);
  EXPECT_TRUE(fs::exists(place_ / "src/a.txt"));
  EXPECT_EQ(store_mb_command({}, {path("src")}).error().code, Code::invalid);
}

TEST_F(StoreCommands, BenchLeavesNothing) {
  fs::create_directories(place_ / "bench");
  const std::string out = output_of(
      [&] { return store_bench_command({}, {path("bench"), "--objects", "5", "--large", "1M"}); });
  EXPECT_THAT(out, HasSubstr("ranged get"));
  for (const auto& entry : fs::recursive_directory_iterator(place_ / "bench")) {
    EXPECT_FALSE(entry.is_regular_file()) << entry.path();
  }
}

TEST(StoreBench, TellsEachRowBeforeTheNextIsMeasured) {
  MemoryStore memory;
  FaultyStore store(memory);
  SystemClock clock;
  std::vector<std::string> told;
  std::vector<int64_t> requests;
  const auto rows = bench_store(store, clock, {.objects = 4, .large_bytes = 0, .in_flight = 1}, {},
                                [&](const StoreBenchRow& row) {
                                  told.push_back(row.what);
                                  requests.push_back(store.requests());
                                });
  ASSERT_TRUE(rows);
  EXPECT_THAT(told,
              testing::ElementsAre("put", "get", "get, one by one", "create", "list", "remove"));
  EXPECT_EQ(requests[0], 4);
  EXPECT_EQ(requests[1], 8);
  EXPECT_EQ(format_bench_row(rows->front()).size(), format_bench_columns().size());
}

TEST(StoreBench, RemovesItsObjectsAlsoWhenItFails) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  faulty.inject(8, Fault::fail_before);
  SystemClock clock;
  EXPECT_FALSE(bench_store(faulty, clock, {.objects = 10, .large_bytes = 0}));
  EXPECT_TRUE(memory.list("")->empty());
}

TEST(ParseSize, TakesUnitsAndRefusesTheRest) {
  EXPECT_EQ(parse_size("--x", "16M", 0, 1 << 30).value(), 16 << 20);
  EXPECT_EQ(parse_size("--x", "5", 0, 100).value(), 5);
  for (const char* text : {"", "M", "1T", "-1", "1.5M", "9999999999G", "101", "16 M"}) {
    EXPECT_EQ(parse_size("--x", text, 0, 100).error().code, Code::invalid) << text;
  }
}

TEST(DoctorOfAStore, SaysWhatWorks) {
  MemoryStore memory;
  SystemClock clock;
  StoreFindings findings{.address = "s3://bucket/x",
                         .credentials = "access key AKIA... from the environment"};
  std::vector<std::string> lines;
  findings.trials = try_store(memory, clock, [&](const StoreTrial& trial) {
    EXPECT_EQ(memory.list("")->size(), trial.what == "list" || trial.what == "remove" ? 0U : 1U)
        << "told before the next is tried";
    lines.push_back(describe_trial(trial));
  });
  EXPECT_TRUE(can_keep_runs(findings));
  EXPECT_TRUE(memory.list("")->empty()) << "what it wrote is gone";
  EXPECT_THAT(describe_store(findings),
              HasSubstr("credentials  access key AKIA... from the environment\n"));
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_THAT(lines[3], HasSubstr("create-only  works"));
  EXPECT_EQ(store_findings_json(findings)["trials"]["write"]["works"], true);
}

TEST(DoctorOfAStore, SaysWhatDoesNotAndWhatToDo) {
  MemoryStore memory;
  FaultyStore faulty(memory);
  faulty.inject(2, Fault::fail_before);  // the first write
  SystemClock clock;
  StoreFindings findings{.address = "s3://bucket/x",
                         .trials = try_store(faulty, clock, [](const StoreTrial&) {})};
  EXPECT_FALSE(can_keep_runs(findings));
  // What to do is the error's to say: a wrong key and a missing right have the same code.
  findings.trials[0].error = fail(Code::permission_denied, "a wrong key; check it");
  EXPECT_EQ(describe_trial(findings.trials[0]), "list         FAILS: a wrong key; check it\n");
  EXPECT_EQ(describe_trial(findings.trials[3]), "create-only  not tried\n");
  EXPECT_THAT(describe_store_verdict(findings), HasSubstr("until that is mended"));
  const auto json = store_findings_json(findings);
  EXPECT_EQ(json["can_keep_runs"], false);
  EXPECT_THAT(std::string(json["trials"]["list"]["problem"]), HasSubstr("permission_denied"));
}

// A data bucket, for a role that may list and get.
class ReadOnlyStore final : public ObjectStore {
 public:
  explicit ReadOnlyStore(ObjectStore& inner) : inner_(inner) {}
  Result<Bytes> get(const std::string& name) override { return inner_.get(name); }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return inner_.get_range(name, offset, length);
  }
  Status put(const std::string&, BytesView) override { return denied(); }
  Status create(const std::string&, BytesView) override { return denied(); }
  Result<ObjectInfo> stat(const std::string& name) override { return inner_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return inner_.list(prefix);
  }
  Status remove(const std::string&) override { return denied(); }
  std::optional<fs::path> local_path(const std::string&) const override { return std::nullopt; }

 private:
  static Status denied() { return fail(Code::permission_denied, "no right to write"); }
  ObjectStore& inner_;
};

TEST(DoctorOfAStore, SaysThatWhatCannotBeWrittenCanBeRead) {
  MemoryStore memory;
  ReadOnlyStore store(memory);
  SystemClock clock;
  StoreFindings findings{.address = "s3://bucket/x",
                         .trials = try_store(store, clock, [](const StoreTrial&) {})};
  EXPECT_FALSE(can_keep_runs(findings));
  EXPECT_THAT(describe_trial(findings.trials[2]), HasSubstr("read         works"));
  EXPECT_THAT(describe_store_verdict(findings),
              HasSubstr("Data can be read here; runs cannot be kept"));
  EXPECT_EQ(store_findings_json(findings)["can_read_data"], true);

  FaultyStore away(memory);
  away.inject(1, Fault::fail_before);
  findings.trials = try_store(away, clock, [](const StoreTrial&) {});
  EXPECT_EQ(describe_trial(findings.trials[2]), "read         not tried\n");
  EXPECT_THAT(describe_store_verdict(findings), Not(HasSubstr("can be read")));
  EXPECT_EQ(store_findings_json(findings)["can_read_data"], false);
}

TEST(DoctorOfAStore, IsACommand) {
  TestRuns place;
  const std::string out = output_of([&] { return doctor_command({}, {place.path().string()}); });
  EXPECT_THAT(out, HasSubstr("Runs and data can be kept here."));
  EXPECT_EQ(doctor_command({}, {"s4://x/y"}).error().code, Code::invalid);
}

}  // namespace
}  // namespace tern
