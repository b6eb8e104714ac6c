// What this machine is, as far as a run's records want to know.
#pragma once

#include <cstdint>
#include <string>

namespace tern {

std::string cpu_model();  // from /proc/cpuinfo; "unknown" where that says nothing

}  // namespace tern
