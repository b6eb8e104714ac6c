// The rows of a report that only some runs have: given weights, divergence, a target, the worst
// classes, what was used, ranks.
#pragma once

#include <string>

#include "report/run_report.h"
#include "report/screen.h"

namespace tern {

// Each a line, or empty.
struct LearningRows {
  std::string weights;
  std::string diverged;
  std::string target;
  std::string worst_classes;
  std::string use;
  std::string ranks;
  std::string scaling;

  size_t count() const;
};

LearningRows learning_rows(const RunReport& report);

// "93.10 %"
std::string percent(double share);

}  // namespace tern
