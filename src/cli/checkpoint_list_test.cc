#include "cli/checkpoint_list.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "cli/command.h"
#include "cli/test_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() { runs_.write("demo", "run.toml", "[checkpoint]\nkeep = 2\n"); }

  std::vector<ListedCheckpoint> list(Verify verify) {
    const auto store = DiskStore::open(runs_ / "demo", runs_.door());
    const auto list = list_run_checkpoints(**store, verify);
    EXPECT_TRUE(list.has_value()) << list.error().to_string();
    return list.value_or({});
  }
  std::filesystem::path blob_of(const std::string& text) {
    for (const auto& entry :
         std::filesystem::recursive_directory_iterator(runs_ / "demo/checkpoints/blobs")) {
      if (!entry.is_regular_file()) continue;
      std::ifstream file(entry.path());
      const std::string bytes{std::istreambuf_iterator<char>(file), {}};
      if (bytes == text) return entry.path();
    }
    ADD_FAILURE() << "no blob " << text;
    return {};
  }

  TestRuns runs_;
};

TEST_F(Checkpoints, AreListedWithWhatKeepsThem) {
  runs_.publish("demo", *this_process(), {10, 20, 30, 40}, /*best_step=*/20);
  const auto all = list(Verify::no);
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].number, 2);
  EXPECT_EQ(all[0].step, 10);
  EXPECT_THAT(all[0].kept_because, HasSubstr("next save"));
  EXPECT_EQ(all[1].kept_because, "the best");
  EXPECT_TRUE(all[1].best);
  EXPECT_EQ(all[3].kept_because, "among the newest 2");
  EXPECT_EQ(all[3].bytes, 10);
  EXPECT_EQ(format_checkpoints(all, "demo", Verify::no),
            "number  step  written (UTC)        size  kept as\n"
            "     2    10  2023-11-14 22:13:20  10 B  not needed: the next save drops it\n"
            "     3    20  2023-11-14 22:14:20  10 B  the best\n"
            "     4    30  2023-11-14 22:15:20  10 B  among the newest 2\n"
            "     5    40  2023-11-14 22:16:20  10 B  among the newest 2\n"
            "\nBranch from one: tern train FILE --from demo@40 --run NEW\n");
}

TEST_F(Checkpoints, OnlyTheNewestBestIsTheBest) {
  const auto sequence = runs_.publish("demo", *this_process(), {10}, 10);
  const CheckpointText text{.state = {.step = 20}, .steps_per_epoch = 6};
  ASSERT_TRUE(sequence->publish(*format_state(text, {}), {}, true).has_value());
  const auto all = list(Verify::no);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_FALSE(all[0].best);
  EXPECT_TRUE(all[1].best);
}

TEST_F(Checkpoints, ADamagedRecordIsNamedAmongTheOthers) {
  runs_.publish("demo", *this_process(), {10, 20});
  runs_.write("demo", "checkpoints/00000002.json", "torn");
  const auto all = list(Verify::no);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].number, 2);
  EXPECT_FALSE(all[0].step.has_value());
  EXPECT_NE(all[0].damage, "");
  EXPECT_TRUE(any_is_damaged(all));
  EXPECT_THAT(format_checkpoints(all, "demo", Verify::no), HasSubstr("     2     -  damaged: "));
  EXPECT_THAT(format_checkpoints(all, "demo", Verify::no), HasSubstr("--from demo@20 "));
}

TEST_F(Checkpoints, OnlyVerifyingSeesADamagedBlob) {
  runs_.publish("demo", *this_process(), {10, 20});
  std::ofstream(blob_of("20 weights")) << "20 weighTs";
  EXPECT_FALSE(any_is_damaged(list(Verify::no)));
  const auto all = list(Verify::yes);
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all[0].damage, "");
  EXPECT_THAT(all[1].damage, HasSubstr("its hash differs"));
  const std::string text = format_checkpoints(all, "demo", Verify::yes);
  EXPECT_THAT(text, HasSubstr("--from demo@10 ")) << "what is damaged is not recommended";
  EXPECT_THAT(text, Not(HasSubstr("All of them are whole")));

  const std::string demo = runs_ / "demo";
  output_of([&] { return checkpoints_command({}, {demo}); });
  output_of([&] { return checkpoints_command({}, {demo, "--verify"}); }, kExitCorrupt);
}

TEST_F(Checkpoints, WholeOnesVerify) {
  runs_.publish("demo", *this_process(), {10, 20});
  const std::string text =
      output_of([&] { return checkpoints_command({}, {runs_ / "demo", "--verify"}); });
  EXPECT_THAT(text, HasSubstr("All of them are whole.\n"));
}

TEST_F(Checkpoints, AStateThatIsNotOursIsToldAndNotUsed) {
  const auto sequence = runs_.publish("demo", *this_process(), {});
  ASSERT_TRUE(sequence->publish(R"({"steps":1})", {}, false).has_value());
  const auto all = list(Verify::no);
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].damage, HasSubstr("another version of tern"));
  EXPECT_THAT(format_checkpoints(all, "demo", Verify::no), HasSubstr("None of them can be used"));
}

TEST_F(Checkpoints, JsonHasNullForWhatCannotBeRead) {
  runs_.publish("demo", *this_process(), {10, 20}, 20);
  runs_.write("demo", "checkpoints/00000002.json", "torn");
  const auto json = nlohmann::json::parse(
      output_of([&] { return checkpoints_command({}, {runs_ / "demo", "--json"}); }));
  ASSERT_EQ(json.size(), 2u);
  EXPECT_EQ(json[0]["number"], 2);
  EXPECT_TRUE(json[0]["step"].is_null());
  EXPECT_TRUE(json[0]["ms"].is_null());
  EXPECT_TRUE(json[0]["damage"].is_string());
  EXPECT_EQ(json[1]["step"], 20);
  EXPECT_EQ(json[1]["ms"], 1'700'000'060'000);
  EXPECT_EQ(json[1]["bytes"], 10);
  EXPECT_EQ(json[1]["best"], true);
  EXPECT_EQ(json[1]["kept_because"], "the best, among the newest 2");
  EXPECT_TRUE(json[1]["damage"].is_null());
}

TEST_F(Checkpoints, NoneYetAndNoRunAreSaidPlainly) {
  runs_.publish("demo", *this_process(), {});
  EXPECT_THAT(output_of([&] { return checkpoints_command({}, {runs_ / "demo"}); }),
              HasSubstr("has no checkpoint yet"));
  runs_.write("other", "run.toml", "");
  const Result<int> none = checkpoints_command({}, {runs_ / "other"});
  ASSERT_FALSE(none.has_value());
  EXPECT_EQ(none.error().code, Code::not_found);
  EXPECT_FALSE(std::filesystem::exists(runs_ / "other/checkpoints")) << "looking leaves no trace";
}

}  // namespace
}  // namespace tern
