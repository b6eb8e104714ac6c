#include "report/use.h"

#include <algorithm>

#include "report/record_fields.h"
#include "storage/ledger.h"

namespace tern {
namespace {

using nlohmann::json;

// More names than this are no sample of ours.
constexpr size_t kNamesMax = 256;

struct Sum {
  double weighted = 0;
  double seconds = 0;
  double max = 0;
};

}  // namespace

std::optional<UseLine> summarise_use(const std::vector<std::string>& lines, int64_t& skipped) {
  std::map<std::string, Sum> sums;
  UseLine use;
  for (const std::string& line : lines) {
    const std::optional<json> record = parse_json_record(line);
    const json* values = record ? find_object(*record, "values") : nullptr;
    const std::optional<double> seconds = record ? find_amount(*record, "seconds") : std::nullopt;
    if (values == nullptr || !seconds || *seconds <= 0) {
      ++skipped;
      continue;
    }
    ++use.samples;
    for (const auto& item : values->items()) {
      const std::optional<double> value = find_amount(*values, item.key().c_str());
      if (!value || (sums.size() >= kNamesMax && !sums.contains(item.key()))) continue;
      Sum& sum = sums[item.key()];
      sum.weighted += *value * *seconds;
      sum.seconds += *seconds;
      sum.max = std::max(sum.max, *value);
    }
  }
  if (use.samples == 0) return std::nullopt;
  for (const auto& [name, sum] : sums) {
    use.values[name] = {.mean = sum.weighted / sum.seconds, .max = sum.max};
  }
  const auto power = use.values.find("gpu/power_watts");
  const auto limit = use.values.find("gpu/power_limit_watts");
  if (power != use.values.end() && limit != use.values.end() && limit->second.mean > 0) {
    use.power_share = power->second.mean / limit->second.mean;
  }
  return use;
}

}  // namespace tern
