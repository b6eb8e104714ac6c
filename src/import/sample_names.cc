#include "import/sample_names.h"

#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "core/hash.h"
#include "import/member_path.h"

namespace tern {
namespace {

uint64_t first_bytes(const Digest& digest) {
  uint64_t number = 0;
  for (size_t i = 0; i < 8; ++i) number = number << 8 | digest[i];
  return number;
}

}  // namespace

Split split_by_name(std::string_view name, double share) {
  if (!(share > 0)) return Split::train;
  const auto place = static_cast<double>(first_bytes(sha256(name)) >> 11);  // 53 bits: exact
  return std::ldexp(place, -53) < share ? Split::test : Split::train;
}

Status UniqueNames::add(const SourceSample& sample, std::string_view where) {
  ++added_;
  const std::string key = (sample.split == Split::train ? "train/" : "test/") + sample.name;
  const auto [first, is_new] = first_.emplace(first_bytes(sha256(key)), added_);
  if (is_new) return {};
  return fail(
      Code::corrupt,
      fmt::format("{} and sample {} of the same scan (this is sample {}) are both named {}; "
                  "remove one of them, or pack the archive again",
                  where, first->second, added_, printable_path(key)));
}

Status fill_sample(WalkedFile& file, const std::string& where, int64_t bytes_max,
                   SourceSample& sample) {
  if (file.size_bytes() > bytes_max) {
    return fail(Code::exhausted,
                fmt::format("{}/{} has {} bytes, and no sample may have more than {}; take it out "
                            "of the data",
                            where, printable_path(file.name()), file.size_bytes(), bytes_max));
  }
  sample.bad_cause = file.problem();
  if (!sample.bad_cause.empty()) return {};
  sample.range = file.range();
  if (sample.range || file.size_bytes() == 0) return {};
  ASSIGN_OR_RETURN(sample.bytes, file.read(bytes_max));
  return {};
}

}  // namespace tern
