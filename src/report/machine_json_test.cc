#include "report/machine_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace tern {
namespace {

using nlohmann::json;

TEST(MachineJson, ComesBackAsItWasWritten) {
  const json object = {{"cpu", "AMD EPYC 9R14"},
                       {"cpu_features", {"avx2", "avx512f"}},
                       {"cores", 2},
                       {"cpu_limit", 1.5},
                       {"memory_bytes", 24'000'000'000},
                       {"memory_limit_bytes", 8'000'000'000},
                       {"kernel", "6.1.0-18-amd64"},
                       {"system", "Debian GNU/Linux 12 (bookworm)"},
                       {"container", "podman"},
                       {"container_image", "debian:12"},
                       {"cloud", "aws"},
                       {"instance_type", "g5.xlarge"}};
  EXPECT_EQ(machine_json(parse_machine(object)), object);
}

TEST(MachineJson, WhatCannotBeSeenIsLeftOut) {
  EXPECT_EQ(machine_json({}), json::object());
  EXPECT_EQ(machine_json(parse_machine(json::object())), json::object());
}

TEST(MachineJson, AFieldOfAnotherTypeIsAsIfItWereMissing) {
  const json wrong = {{"cpu", 7},
                      {"cpu_features", {"avx2", 5, nullptr}},
                      {"cores", -3},
                      {"cpu_limit", "two"},
                      {"memory_bytes", 1e300},
                      {"kernel", json::object()},
                      {"a field of a later version", 1}};
  EXPECT_EQ(machine_json(parse_machine(wrong)), json({{"cpu_features", {"avx2"}}}));
  EXPECT_EQ(machine_json(parse_machine(json::array({1, 2}))), json::object());
}

}  // namespace
}  // namespace tern
