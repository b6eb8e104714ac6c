// From samples in the source's order to the content of an index.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/result.h"
#include "dataset/index.h"
#include "dataset/shard.h"
#include "import/source.h"

namespace tern {

// Owned by the import, one thread. Takes some hundred bytes a sample.
class ImportIndex {
 public:
  // The number of the file; the same for the same path.
  uint32_t add_file(const std::string& path, int64_t size_bytes);
  // REQUIRES: the record lies within that file.
  void add(const ShardRecord& record, uint32_t file);

  int64_t good() const;
  int64_t bad() const { return static_cast<int64_t>(bad_.size()); }

  // Gives out labels and puts train before test, each in the order in which it was added. What
  // About says of the import itself is left to the caller. Afterwards this is empty. `not_found` if
  // there is no sample, `corrupt` if all are bad or classes do not fit what the source lists.
  Result<IndexContent> finish(const Source& source);

 private:
  struct Part {
    std::vector<IndexEntry> entries;  // label: the place in classes_, until finish()
    std::vector<std::string> names;
  };
  uint32_t class_number(const std::string& name);
  Status check_not_empty() const;

  Part train_, test_;
  std::vector<BadSample> bad_;
  std::vector<IndexFile> files_;
  std::unordered_map<std::string, uint32_t> file_numbers_;
  std::vector<std::string> classes_;  // as they came
  std::unordered_map<std::string, uint32_t> class_numbers_;
};

}  // namespace tern
