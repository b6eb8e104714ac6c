#include "core/token.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <array>
#include <cerrno>
#include <system_error>

namespace tern {

Result<std::string> random_token() {
  std::array<unsigned char, 16> random;
  // Up to 256 bytes come whole or not at all (getrandom(2)).
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return fail(Code::internal, fmt::format("no random bytes: {}; check that the kernel and its "
                                            "sandbox allow getrandom",
                                            std::generic_category().message(errno)));
  }
  std::string token;
  for (const unsigned char byte : random) token += fmt::format("{:02x}", byte);
  return token;
}

}  // namespace tern
