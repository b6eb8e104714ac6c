// Where the time went, as bars of text.
#pragma once

#include "report/run_report.h"
#include "report/screen.h"

namespace tern {

// The wall time, and a row for each span that took some: at most kTimeRows rows.
inline constexpr size_t kTimeRows = 10;
void add_time_rows(Screen& screen, const RunReport& report);

// "1.2 s", "47 s", "2 min 05 s"
std::string brief_seconds(double seconds);

}  // namespace tern
