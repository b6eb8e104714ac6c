// What every source does with a sample before it gives it away.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>

#include "core/result.h"
#include "import/file_walk.h"
#include "import/source.h"

namespace tern {

// Puts about `share` of all names into the test split, the same ones every time and everywhere: by
// the first eight bytes of the name's SHA-256.
Split split_by_name(std::string_view name, double share);

// Finds names that come twice. Keeps 64 bits of hash a name, not the names: a million take 50 MB.
// By chance two of a million would agree once in forty million imports.
class UniqueNames {
 public:
  // `corrupt` names both: this one by `where`, the first by the how-manieth sample it was.
  Status add(const SourceSample& sample, std::string_view where);

 private:
  int64_t added_ = 0;
  std::unordered_map<uint64_t, int64_t> first_;
};

// Sets the range or, where the bytes are packed, the bytes; or why there are none. `exhausted`:
// more than bytes_max.
Status fill_sample(WalkedFile& file, const std::string& where, int64_t bytes_max,
                   SourceSample& sample);

}  // namespace tern
