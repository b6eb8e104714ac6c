#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <fstream>

#include "cli/data_commands.h"
#include "cli/data_show.h"
#include "cli/data_summary.h"
#include "cli/parse_or_help.h"
#include "core/clock.h"
#include "core/stdio.h"
#include "image/png.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

constexpr std::string_view kHelp =
    R"(tern data show: look at samples.

  tern data show DST N              sample N (from 0) as sample-N.png, with its
                                    label, name and size
  tern data show DST --grid 8x8     a contact sheet, grid.png: on the left as
                                    evaluation sees the samples, on the right as
                                    training does, after augmentation
  --split train|test                of which half; not given: train
  --out FILE.png                    where to
  --set key=value                   an option of [image] or [augment], as a run
                                    file has them; for the sheet image.size is
                                    96 and augment.flip true unless set

With --grid, N is the first sample of the sheet. DST is a folder that `tern data
import` made, or a copy of one in a bucket: s3://bucket/prefix and the like.
)";

struct Request {
  std::string place;
  int64_t sample = -1;
  std::string grid;
  std::string split = "train";
  std::string out;
  std::vector<std::string> assignments;
};

Status write_picture(const std::string& file, const Pixels& pixels) {
  ASSIGN_OR_RETURN(const Bytes png, write_png(pixels));
  std::ofstream stream(file, std::ios::binary | std::ios::trunc);
  stream.write(png.data(), static_cast<std::streamsize>(png.size()));
  stream.close();
  if (stream.fail()) {
    return fail(Code::unavailable,
                fmt::format("cannot write {}; name another file with --out", file));
  }
  return {};
}

Result<int> show_grid(const Request& request, const Dataset& dataset) {
  GridOptions options{.first = std::max<int64_t>(0, request.sample)};
  options.image.size = 96;
  options.augment.flip = true;
  const size_t cross = request.grid.find('x');
  const auto number = [](const std::string& text) {
    return text.empty() || text.size() > 3 ||
                   text.find_first_not_of("0123456789") != std::string::npos
               ? 0
               : std::stoll(text);
  };
  if (cross != std::string::npos) {
    options.columns = number(request.grid.substr(0, cross));
    options.rows = number(request.grid.substr(cross + 1));
  }
  if (cross == std::string::npos || options.columns < 1 || options.rows < 1) {
    return fail(Code::invalid,
                fmt::format("--grid {} is no grid; write for example --grid 8x8", request.grid));
  }
  OptionSet set;
  set.section("image", "", options.image);
  set.section("augment", "", options.augment);
  for (const std::string& assignment : request.assignments) {
    if (const auto problem = set.set(assignment)) return fail(Code::invalid, problem->message);
  }
  if (options.image.size == 0) return fail(Code::invalid, "image.size must be at least 1 here");
  std::vector<std::string> problems;
  ASSIGN_OR_RETURN(const Pixels sheet, draw_grid(dataset, options, problems));
  const std::string file = request.out.empty() ? "grid.png" : request.out;
  RETURN_IF_ERROR(write_picture(file, sheet));
  for (const std::string& problem : problems) write_stderr("tern: " + problem + "\n");
  fmt::print("{}: {}x{} samples from {}, as evaluation and as training see them\n", file,
             options.columns, options.rows, options.first);
  return problems.empty() ? kExitDone : kExitCorrupt;
}

Result<int> show_sample(const Request& request, const Dataset& dataset, const DatasetIndex& index) {
  ASSIGN_OR_RETURN(const Pixels pixels,
                   draw_sample(dataset, request.sample).at(dataset.where(request.sample)));
  const std::string file =
      request.out.empty() ? fmt::format("sample-{}.png", request.sample) : request.out;
  RETURN_IF_ERROR(write_picture(file, pixels));
  const auto label = static_cast<size_t>(dataset.label(request.sample));
  const About& about = index.about();
  const bool has_title = label < about.class_titles.size() && !about.class_titles[label].empty();
  const ImageInfo info = dataset.info(request.sample);
  fmt::print("{}\nlabel    {} {}{}\nsample   {}\nsize     {}x{}{}\n", file, label,
             about.classes[label], has_title ? fmt::format(" ({})", about.class_titles[label]) : "",
             dataset.where(request.sample), info.size.width, info.size.height,
             info.orientation == 1 ? "" : ", turned upright as EXIF says");
  return kExitDone;
}

}  // namespace

Result<int> data_show_command(const Surroundings& surroundings, const Arguments& arguments) {
  Request request;
  CLI::App app;
  app.add_option("--grid", request.grid);
  app.add_option("--split", request.split)->check(CLI::IsMember({"train", "test"}));
  app.add_option("--out", request.out);
  app.add_option("--set", request.assignments)->allow_extra_args(false);
  app.add_option("DST", request.place);
  app.add_option("N", request.sample);
  ASSIGN_OR_RETURN(const bool is_help, parse_or_help(app, arguments, "tern data show", kHelp));
  if (is_help) return kExitDone;
  SystemClock clock;
  CloudDoor door(surroundings.cloud, clock, {}, kImpatient);
  ASSIGN_OR_RETURN(const ImportedData data, open_data_set(request.place, door));
  const Split split = request.split == "train" ? Split::train : Split::test;
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> dataset, open_split(data, split));
  if (request.grid.empty() && request.sample < 0) {
    return fail(Code::invalid, fmt::format("which sample? Name one from 0 to {}, or --grid 8x8",
                                           dataset->size() - 1));
  }
  if (request.sample >= dataset->size()) {
    return fail(Code::invalid, fmt::format("there is no sample {}; the last of the {} split is {}",
                                           request.sample, request.split, dataset->size() - 1));
  }
  return request.grid.empty() ? show_sample(request, *dataset, *data.index)
                              : show_grid(request, *dataset);
}

}  // namespace tern
