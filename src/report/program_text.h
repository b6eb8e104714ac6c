// The report of any program's run, which has a ledger and nothing else.
#pragma once

#include <string>

#include "report/run_report.h"

namespace tern {

// Part of format_report(). REQUIRES: report.is_program.
std::string format_program_report(const RunReport& report);

}  // namespace tern
