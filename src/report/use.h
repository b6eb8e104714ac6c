// What a run used, by the samples that were taken while it trained. Part of read_report().
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "report/run_report.h"

namespace tern {

// Lines of samples.jsonl, read without trust: a damaged one is passed over and counted in
// `skipped`. Nothing if no line holds a sample.
std::optional<UseLine> summarise_use(const std::vector<std::string>& lines, int64_t& skipped);

}  // namespace tern
