#include "train/gpu_sample.h"

namespace tern {

std::vector<Scalar> gpu_sample(GpuDriver& driver, int index) {
  const GpuUse use = driver.use(index).value_or({});
  std::vector<Scalar> values;
  const auto add = [&](const char* name, const std::optional<double>& value) {
    if (value) values.push_back({name, *value});
  };
  add("gpu/activity_share", use.activity);
  add("gpu/memory_activity_share", use.memory_activity);
  add("gpu/power_watts", use.power_watts);
  add("gpu/power_limit_watts", use.power_limit_watts);
  add("gpu/sm_clock_mhz", use.sm_clock_mhz);
  add("gpu/memory_clock_mhz", use.memory_clock_mhz);
  add("gpu/memory_used_bytes", use.memory_used_bytes);
  add("gpu/temperature_c", use.temperature_c);
  return values;
}

}  // namespace tern
