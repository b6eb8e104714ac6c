// A first look through a folder or an archive: what kinds of files it has, and where.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/bytes.h"
#include "core/result.h"
#include "import/file_walk.h"

namespace tern {

struct Survey {
  int64_t files = 0;
  int64_t images = 0;
  int64_t cls_files = 0;                         // WebDataset's labels
  std::map<std::string, int64_t> image_folders;  // folder: how many images are right in it
  std::vector<std::string> archives;             // tars and zips, in the walk's order
  std::set<std::string> known;                   // files that data sets are told by, whole names
  std::map<std::string, Bytes> texts;            // those of them that are small texts

  // The shortest whole name in `known` that ends in the file or path `name`.
  std::optional<std::string> find(std::string_view name) const;
};

// Reads names and small texts only, but of a packed archive that means unpacking it once.
Result<Survey> survey_files(FileWalk& files);

// A text's lines without line ends and blanks around them; empty ones are left out.
std::vector<std::string> text_lines(BytesView text);

}  // namespace tern
