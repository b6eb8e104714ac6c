// Three machines on loopback train one run with the real programs, and the one that serves and
// leads is killed.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>
#include <memory>

#include "core/token.h"
#include "ranks/socket.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {
namespace {

using testing::HasSubstr;

constexpr int64_t kMachines = 3;

// At a port that nothing has now, of those that the kernel gives to nobody by itself.
std::string free_address() {
  while (true) {
    const Bytes random = *random_bytes(2);
    const int64_t port =
        20'000 + (static_cast<uint8_t>(random[0]) * 256 + static_cast<uint8_t>(random[1])) % 10'000;
    if (listen_on("127.0.0.1", port)) return fmt::format("127.0.0.1:{}", port);
  }
}

class MachinesSurvive : public testing::Test {
 protected:
  MachinesSurvive() {
    std::ofstream(place_ / "secret") << to_hex_digits(*random_bytes(32)) << "\n";
    for (int64_t machine = 0; machine < kMachines; ++machine) {
      peers_ += (machine == 0 ? "" : " ") + free_address();
    }
    machines_.resize(kMachines);
  }
  static std::string to_hex_digits(const Bytes& bytes) {
    std::string text;
    for (const char c : bytes) text += fmt::format("{:02x}", static_cast<uint8_t>(c));
    return text;
  }

  void start(int64_t machine, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"--set", "model.dropout=0", "--set", "train.epochs=100000"};
    words.insert(words.end(), more.begin(), more.end());
    Process::Start process = place_.start(WorkFolder::train("run", words));
    process.environment = {{"TERN_PEERS", peers_},
                           {"TERN_MACHINE", std::to_string(machine)},
                           {"TERN_MACHINES", std::to_string(kMachines)},
                           {"TERN_SECRET_FILE", (place_ / "secret").string()},
                           {"TERN_STATUS_FILE", status_file(machine).string()}};
    at(machine) = std::make_unique<Process>(process);
  }
  std::unique_ptr<Process>& at(int64_t machine) { return machines_[static_cast<size_t>(machine)]; }
  std::filesystem::path status_file(int64_t machine) const {
    return place_ / fmt::format("status{}", machine);
  }
  nlohmann::json status(int64_t machine) const {
    return nlohmann::json::parse(read_text(status_file(machine)), nullptr, false);
  }

  // The group as it is now, and has done so many steps more, or it fails.
  void wait_for_group(int64_t world, size_t after_groups, int64_t steps) {
    ASSERT_TRUE(wait_until([&] {
      const auto groups = place_.ledger("run", "ranks");
      return groups.size() > after_groups && groups.back()["world"] == world;
    })) << said();
    const int64_t now = place_.steps_recorded("run");
    ASSERT_TRUE(wait_until([&] { return place_.steps_recorded("run") >= now + steps; })) << said();
  }
  std::string said() const {
    std::string all;
    for (const auto& machine : machines_) {
      if (machine) all += machine->err_so_far() + "\n";
    }
    return all;
  }

  WorkFolder place_;
  std::string peers_;
  std::vector<std::unique_ptr<Process>> machines_;
};

TEST_F(MachinesSurvive, ARunGoesOnWithoutTheMachineThatServedAndLedAndTakesItBack) {
  for (int64_t machine = 0; machine < kMachines; ++machine) start(machine);
  ASSERT_NO_FATAL_FAILURE(wait_for_group(3, 0, 20));
  ASSERT_TRUE(wait_until([&] {
    auto told = status(0);
    return told.is_object() && told["hub"] == 0 && told["state"] == "working" &&
           told["ranks"][0]["role"] == "leader" && told["step"] > 0;
  })) << status(0);
  ASSERT_TRUE(wait_until([&] {
    auto told = status(1);
    return told.is_object() && told["ranks"][0]["role"] == "follower";
  })) << status(1);
  const int64_t follower = status(1)["ranks"][0]["pid"];

  at(0)->signal(SIGKILL);
  EXPECT_EQ(at(0)->wait().exit_code, -SIGKILL);
  ASSERT_NO_FATAL_FAILURE(wait_for_group(2, 1, 20));
  const size_t groups = place_.ledger("run", "ranks").size();

  start(0);
  ASSERT_NO_FATAL_FAILURE(wait_for_group(3, groups, 20));
  EXPECT_EQ(status(1)["ranks"][0]["pid"], follower) << "it went on in its process";
  // It is told once a second.
  EXPECT_TRUE(wait_until([&] { return status(1)["hub"] == 1; })) << status(1);
  at(2)->signal(SIGINT);
  for (int64_t machine = 0; machine < kMachines; ++machine) {
    const Finished stopped = at(machine)->wait();
    EXPECT_EQ(stopped.exit_code, kExitStopped) << stopped.err;
  }
  EXPECT_EQ(place_.report("run")["steps_lost"], 0);

  // The same command goes on with it to its end.
  const int64_t steps = place_.steps_recorded("run") + 30;
  for (int64_t machine = 0; machine < kMachines; ++machine) {
    start(machine, {"--steps", std::to_string(steps)});
  }
  for (int64_t machine = 0; machine < kMachines; ++machine) {
    const Finished done = at(machine)->wait();
    EXPECT_EQ(done.exit_code, kExitDone) << done.err;
  }
  expect_every_step_once(place_, "run", steps);
}

TEST_F(MachinesSurvive, AWrongVariableIsNamedBeforeAnythingIsStarted) {
  std::filesystem::remove(place_ / "secret");
  start(1);
  const Finished refused = at(1)->wait();
  EXPECT_EQ(refused.exit_code, kExitNotFound);
  EXPECT_THAT(refused.err, HasSubstr("TERN_SECRET_FILE"));
}

}  // namespace
}  // namespace tern
