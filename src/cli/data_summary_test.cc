#include "cli/data_summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

// More classes and bad samples than a screen has lines, and names wider than one.
IndexContent long_content() {
  IndexContent content;
  for (uint32_t i = 0; i < 40; ++i) {
    content.about.classes.push_back("class-" + std::to_string(i) + std::string(120, 'c') + "end");
    content.about.bad.push_back(
        {"bad-" + std::to_string(i) + std::string(120, 'b'), "it is\nempty"});
    content.entries.push_back(
        {.offset = i, .length = 1, .label = i, .width = 1, .height = 1, .channels = 1});
    content.names.push_back(std::to_string(i));
  }
  content.train_samples = 40;
  content.files.push_back({.path = "a", .size_bytes = 40});
  content.about.source = std::string(300, 's') + "end";
  content.about.representation = "raw";
  return content;
}

std::string summary_of(const IndexContent& content, SummaryWidth width) {
  const auto index = DatasetIndex::from_bytes(encode_index(content), "x");
  EXPECT_TRUE(index) << index.error().message;
  return format_summary(**index, summarise(**index), "dst", width);
}

TEST(DataSummary, WithoutATerminalNothingIsCutOff) {
  const IndexContent content = long_content();
  const std::string text = summary_of(content, SummaryWidth::all);
  EXPECT_THAT(text, HasSubstr(content.about.source + "\n"));
  for (const std::string& name : content.about.classes) EXPECT_THAT(text, HasSubstr(name + ": 1"));
  for (const BadSample& bad : content.about.bad) {
    EXPECT_THAT(text, HasSubstr(bad.name + ": it is empty\n"));
  }
  EXPECT_THAT(text, Not(HasSubstr("...")));
  EXPECT_THAT(text, Not(HasSubstr("more, in --json")));
}

TEST(DataSummary, TheMeanSizeIsNeverNothing) {
  IndexContent content = long_content();
  content.entries[0].format = static_cast<uint8_t>(ImageFormat::jpeg);  // of any length
  content.entries[0].channels = 3;
  content.entries[0].width = 41;
  EXPECT_THAT(summary_of(content, SummaryWidth::all), HasSubstr(" high, 2 pixels in the mean"));
  content.entries[0].width = content.entries[0].height = 4000;
  EXPECT_THAT(summary_of(content, SummaryWidth::all), HasSubstr(" high, 0.40 million in the mean"));
}

TEST(DataSummary, FitsAScreen) {
  const std::string text = summary_of(long_content(), SummaryWidth::screen);
  EXPECT_THAT(text, HasSubstr("and 28 more, in --json"));
  EXPECT_THAT(text, HasSubstr("and 30 more, in --json"));
  EXPECT_LT(std::ranges::count(text, '\n'), 40);
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = text.find('\n', begin);
    EXPECT_LE(end - begin, 100u);
    begin = end + 1;
  }
}

}  // namespace
}  // namespace tern
