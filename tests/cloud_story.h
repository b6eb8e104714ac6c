// What a person does with buckets, with the real program and real servers.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "store_servers.h"
#include "tern_run.h"
#include "train/exit_codes.h"

namespace tern {

// Why one of these servers cannot be started here; empty if all can.
inline std::string missing_one_of(const std::vector<ServerKind>& kinds) {
  for (const ServerKind kind : kinds) {
    if (std::string why = StoreServer::missing(kind); !why.empty()) return why;
  }
  return "";
}

// A work folder with servers, whose variables `tern` is started with.
class CloudStory : public testing::Test {
 protected:
  StoreServer& serve(const StoreServer::Start& start) {
    servers_.push_back(std::make_unique<StoreServer>(start));
    variables_.merge(servers_.back()->variables());
    return *servers_.back();
  }
  StoreServer& serve(ServerKind kind) { return serve(StoreServer::Start{.kind = kind}); }

  Process::Start start(const std::vector<std::string>& words) const {
    Process::Start start = place_.start(words);
    start.environment = variables_;
    return start;
  }
  Finished tern(const std::vector<std::string>& words) const { return run_to_end(start(words)); }
  // The same, and it must succeed.
  Finished done(const std::vector<std::string>& words) const {
    Finished finished = tern(words);
    EXPECT_EQ(finished.exit_code, kExitDone) << words[0] << ": " << finished.err;
    return finished;
  }
  nlohmann::json json_of(const std::vector<std::string>& words) const {
    return nlohmann::json::parse(done(words).out, nullptr, false);
  }

  // What is at an address as our own code reads it, apart from `tern`.
  template <typename Read>
  auto read(const std::string& address, Read read) const {
    SystemClock clock;
    CloudDoor door(surroundings_of(variables_, place_ / "home"), clock);
    auto store = door.open(parse_store_address(address).value());
    EXPECT_TRUE(store) << store.error().to_string();
    return read(**store);
  }

  WorkFolder place_;
  Variables variables_;
  std::vector<std::unique_ptr<StoreServer>> servers_;
};

}  // namespace tern
