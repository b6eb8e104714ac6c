// The flags of `tern plan`, defined once for `tern`, which checks them, and `tern-train plan`,
// which is started with the same ones.
#pragma once

#include <string>
#include <vector>

#include "core/result.h"
#include "train/run_config.h"

namespace CLI {
class App;
}

namespace tern {

// What tern-train is started with to plan instead of train.
inline constexpr char kPlanMode[] = "--plan";

struct PlanRequest {
  TrainRequest run;    // its file and assignments
  bool probe = false;  // measure steps and predict time
  bool json = false;
  std::string price;  // --price; empty: train.price
};

// FILE and every flag; the values land in `request`, which must outlive `app`. FILE is not required
// here.
void add_plan_flags(CLI::App& app, PlanRequest& request);

// All of it: `arguments` is what followed `tern plan`. `invalid` without FILE, and for a --price
// that is none.
Result<PlanRequest> parse_plan_flags(const std::vector<std::string>& arguments);

}  // namespace tern
