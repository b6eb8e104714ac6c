#include "cli/data_summary.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/progress.h"
#include "report/screen.h"

namespace tern {
namespace {

namespace fs = std::filesystem;

// On a screen; more are in --json.
constexpr size_t kClassesShown = 12;
constexpr size_t kBadShown = 10;

// Rows of a Screen, or the same without its limits.
class Rows {
 public:
  explicit Rows(SummaryWidth width) : width_(width) {}

  void line(const std::string& text) {
    if (width_ == SummaryWidth::screen) return screen_.line(text);
    text_ += text;
    // Messages of others may hold newlines, and bytes that move a terminal's cursor.
    const auto is_control = [](char c) {
      return static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    };
    std::replace_if(text_.end() - std::ssize(text), text_.end(), is_control, ' ');
    text_ += "\n";
  }
  void row(std::string_view label, const std::string& value, size_t lines_max = 1) {
    if (width_ == SummaryWidth::screen) return screen_.row(label, value, lines_max);
    if (!value.empty()) line(fmt::format("{:<{}}{}", label, kLabelColumns, value));
  }
  // How many of `count` things are shown, if a screen has `most`.
  size_t shown(size_t count, size_t most) const {
    return width_ == SummaryWidth::screen ? std::min(count, most) : count;
  }
  std::string take() { return width_ == SummaryWidth::screen ? screen_.take() : std::move(text_); }

 private:
  const SummaryWidth width_;
  Screen screen_;
  std::string text_;
};

std::string layout_text(const DatasetIndex& index) {
  const About& about = index.about();
  if (!about.root.empty()) return "indexed in place, in " + about.root;
  return fmt::format("packed as {}, {} shard{}", about.representation, format_count(index.files()),
                     index.files() == 1 ? "" : "s");
}

std::string sizes_text(const DataSummary& summary) {
  const ImageSize& small = summary.smallest;
  const ImageSize& large = summary.largest;
  if (small == large) return fmt::format("{}x{} pixels, all of them", small.width, small.height);
  const std::string mean =
      summary.mean_pixels < 1e5
          ? format_count(static_cast<int64_t>(summary.mean_pixels + 0.5)) + " pixels"
          : fmt::format("{:.2f} million", summary.mean_pixels / 1e6);
  return fmt::format("{} to {} pixels wide, {} to {} high, {} in the mean", small.width,
                     large.width, small.height, large.height, mean);
}

std::string class_text(const DatasetIndex& index, const DataSummary& summary, size_t label) {
  const About& about = index.about();
  const bool has_title = label < about.class_titles.size() && !about.class_titles[label].empty();
  return fmt::format("{:>6}  {}{}: {} train, {} test", label, about.classes[label],
                     has_title ? fmt::format(" ({})", about.class_titles[label]) : "",
                     format_count(summary.count[label][0]), format_count(summary.count[label][1]));
}

std::string numbers(const std::vector<double>& values) {
  std::vector<std::string> texts;
  for (const double value : values) texts.push_back(fmt::format("{:.4f}", value));
  return fmt::format("{}", fmt::join(texts, ", "));
}

Result<ImportedData> open_in_folder(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(fs::path(folder) / kIndexFile, error)) {
    if (fs::exists(fs::path(folder) / "shards", error)) {
      return fail(Code::not_found, fmt::format("the import into {} is not finished; type the same "
                                               "`tern data import` again, and it goes on",
                                               folder));
    }
    return fail(Code::not_found,
                fmt::format("there is no data set in {}; `tern data import SRC {}` "
                            "makes one",
                            folder, folder));
  }
  return find_imported(folder);
}

Result<ImportedData> open_in_bucket(const StoreAddress& address, CloudDoor& door) {
  const std::string place = address.to_string();
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> store, door.open(address));
  Result<ImportedData> found = find_imported(std::move(store), place);
  if (found || found.error().code != Code::not_found) return found;
  return fail(Code::not_found,
              fmt::format("{}. `tern store ls {}` shows what is there; a data set is brought to a "
                          "bucket by `tern data import SRC DIR --pack orig` and `tern store cp "
                          "--recursive DIR {}`",
                          found.error().message, place, place));
}

}  // namespace

Result<ImportedData> open_data_set(const std::string& place, CloudDoor& door) {
  if (place.empty()) {
    return fail(Code::invalid,
                "of which data set? Name a folder that `tern data import SRC DST` made, or where "
                "it was copied to in a bucket");
  }
  ASSIGN_OR_RETURN(const StoreAddress address, parse_store_address(place));
  return address.is_folder() ? open_in_folder(address.prefix) : open_in_bucket(address, door);
}

DataSummary summarise(const DatasetIndex& index) {
  DataSummary summary;
  summary.count.resize(static_cast<size_t>(index.classes()));
  summary.smallest = {static_cast<int32_t>(kImageSideMax), static_cast<int32_t>(kImageSideMax)};
  double pixels = 0;
  for (int64_t i = 0; i < index.samples(); ++i) {
    const IndexEntry& entry = index.entry(i);
    const ImageSize size = entry.info().size;
    summary.bytes += entry.length;
    ++summary.count[entry.label][i < index.count(Split::train) ? 0 : 1];
    ++summary.formats[entry.format];
    summary.smallest = {std::min(summary.smallest.width, size.width),
                        std::min(summary.smallest.height, size.height)};
    summary.largest = {std::max(summary.largest.width, size.width),
                       std::max(summary.largest.height, size.height)};
    pixels += static_cast<double>(size.pixels());
  }
  summary.mean_pixels = pixels / static_cast<double>(std::max<int64_t>(1, index.samples()));
  return summary;
}

std::string format_summary(const DatasetIndex& index, const DataSummary& summary,
                           const std::string& folder, SummaryWidth width) {
  const About& about = index.about();
  Rows screen(width);
  screen.line(fmt::format("data set {}", folder));
  screen.row("id", index.id());
  screen.row("source", about.source, 2);
  screen.row("stored", fmt::format("{}; {}", layout_text(index), format_bytes(summary.bytes)), 2);
  screen.row("samples", fmt::format("{} train, {} test", format_count(index.count(Split::train)),
                                    format_count(index.count(Split::test))));
  screen.row("images", sizes_text(summary));
  screen.row("formats",
             fmt::format("{} JPEG, {} PNG, {} raw", format_count(summary.formats[1]),
                         format_count(summary.formats[2]), format_count(summary.formats[0])));
  if (!about.mean.empty()) {
    screen.row("mean", fmt::format("[{}]; standard deviation [{}], of {} training samples",
                                   numbers(about.mean), numbers(about.stddev),
                                   format_count(about.pixels_from)));
  }
  screen.row("classes", format_count(index.classes()));
  const size_t classes = screen.shown(about.classes.size(), kClassesShown);
  for (size_t i = 0; i < classes; ++i) screen.row("", class_text(index, summary, i));
  if (classes < about.classes.size()) {
    screen.row("", fmt::format("and {} more, in --json", about.classes.size() - classes));
  }
  screen.row("bad", about.bad.empty() ? "none was found by the import"
                                      : fmt::format("{} left out:", about.bad.size()));
  const size_t bad = screen.shown(about.bad.size(), kBadShown);
  for (size_t i = 0; i < bad; ++i) {
    screen.row("", fmt::format("{}: {}", about.bad[i].name, about.bad[i].cause));
  }
  if (bad < about.bad.size()) {
    screen.row("", fmt::format("and {} more, in --json", about.bad.size() - bad));
  }
  return screen.take();
}

nlohmann::json summary_json(const DatasetIndex& index, const DataSummary& summary) {
  const About& about = index.about();
  nlohmann::json json = {
      {"id", index.id()},
      {"samples", {{"train", index.count(Split::train)}, {"test", index.count(Split::test)}}},
      {"classes", index.classes()},
      {"bytes", summary.bytes},
      {"bad", about.bad.size()},
      {"source", about.source},
      {"representation", about.representation},
      {"root", about.root.empty() ? nlohmann::json(nullptr) : nlohmann::json(about.root)},
      {"files", index.files()},
      {"mean", about.mean},
      {"stddev", about.stddev},
      {"formats",
       {{"raw", summary.formats[0]}, {"jpeg", summary.formats[1]}, {"png", summary.formats[2]}}},
      {"width", {summary.smallest.width, summary.largest.width}},
      {"height", {summary.smallest.height, summary.largest.height}},
      {"class_counts", nlohmann::json::array()},
      {"bad_samples", nlohmann::json::array()}};
  for (size_t i = 0; i < about.classes.size(); ++i) {
    nlohmann::json line = {{"label", i},
                           {"name", about.classes[i]},
                           {"train", summary.count[i][0]},
                           {"test", summary.count[i][1]}};
    if (i < about.class_titles.size()) line["title"] = about.class_titles[i];
    json["class_counts"].push_back(std::move(line));
  }
  for (const BadSample& bad : about.bad) {
    json["bad_samples"].push_back({{"name", bad.name}, {"cause", bad.cause}});
  }
  return json;
}

}  // namespace tern
