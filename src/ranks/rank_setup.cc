// What a rank finds in its environment, and how it gets in.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/system_files.h"
#include "ranks/rank_link.h"

namespace tern {
namespace {

Result<std::string> text_of(const VariableReader& variable, const char* name) {
  const std::optional<std::string> value = variable(name);
  if (value && !value->empty()) return *value;
  return fail(Code::invalid, fmt::format("{} is not set, and a rank needs it; start ranks with "
                                         "`tern train --ranks N`",
                                         name));
}

Result<int64_t> number_of(const VariableReader& variable, const char* name) {
  ASSIGN_OR_RETURN(const std::string text, text_of(variable, name));
  const std::optional<int64_t> number = parse_whole_number(text);
  if (number && *number >= 0 && *number <= 1'000'000) return *number;
  return fail(Code::invalid, fmt::format("{} is '{}', which cannot be; start ranks with `tern "
                                         "train --ranks N`",
                                         name, text));
}

Result<Bytes> read_secret(int fd) {
  Bytes secret(kSecretBytes, '\0');
  size_t got = 0;
  while (got < secret.size()) {
    const ssize_t count = read(fd, secret.data() + got, secret.size() - got);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    got += static_cast<size_t>(count);
  }
  close(fd);
  if (got == secret.size()) return secret;
  return fail(Code::invalid,
              fmt::format("{} names no pipe with the run's secret in it; start ranks "
                          "with `tern train --ranks N`",
                          kRankSecretVariable));
}

}  // namespace

bool is_supervised(const VariableReader& variable) {
  return variable(kRankAddressVariable).has_value();
}

Result<RankSetup> read_rank_setup(const VariableReader& variable) {
  RankSetup setup;
  ASSIGN_OR_RETURN(setup.address, text_of(variable, kRankAddressVariable));
  ASSIGN_OR_RETURN(setup.id, number_of(variable, kRankIdVariable));
  ASSIGN_OR_RETURN(setup.machine, number_of(variable, kRankMachineVariable));
  ASSIGN_OR_RETURN(setup.interface_address, text_of(variable, kRankInterfaceVariable));
  ASSIGN_OR_RETURN(const int64_t heartbeat_ms, number_of(variable, kRankHeartbeatVariable));
  setup.reconnects = variable(kRankReconnectsVariable).value_or("") == "1";
  setup.heartbeat = Milliseconds(std::max<int64_t>(1, heartbeat_ms));
  ASSIGN_OR_RETURN(const int64_t fd, number_of(variable, kRankSecretVariable));
  ASSIGN_OR_RETURN(setup.secret, read_secret(static_cast<int>(fd)));
  return setup;
}

EntrySetup entry_setup(const RankSetup& setup) {
  return {.address = setup.address,
          .secret = setup.secret,
          .role = Role::rank,
          .who = {.machine = setup.machine, .id = setup.id, .pid = getpid()},
          .limit = setup.limit,
          .clock = setup.clock};
}

Result<std::unique_ptr<RankLink>> RankLink::open(const RankSetup& setup) {
  TERN_CHECK(setup.clock != nullptr);
  ASSIGN_OR_RETURN(Descriptor wake_up, make_wake());
  std::optional<Entry> first;
  if (!setup.reconnects) {
    Result<Entry> entry = enter(entry_setup(setup), {});
    if (!entry) {
      const bool is_closed = entry.error().code == Code::aborted;
      const bool is_silent = entry.error().code == Code::deadline_exceeded;
      return fail(is_closed   ? Code::permission_denied
                  : is_silent ? Code::unavailable
                              : entry.error().code,
                  entry.error().message);
    }
    first = std::move(*entry);
  }
  return std::unique_ptr<RankLink>(new RankLink(setup, std::move(wake_up), std::move(first)));
}

}  // namespace tern
