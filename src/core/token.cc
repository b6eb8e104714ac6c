#include "core/token.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <cerrno>
#include <system_error>

namespace tern {

Result<Bytes> random_bytes(size_t count) {
  TERN_CHECK(count <= 256);
  Bytes random(count, '\0');
  // Up to 256 bytes come whole or not at all (getrandom(2)).
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size())) {
    return fail(Code::internal, fmt::format("no random bytes: {}; check that the kernel and its "
                                            "sandbox allow getrandom",
                                            std::generic_category().message(errno)));
  }
  return random;
}

Result<std::string> random_token() {
  ASSIGN_OR_RETURN(const Bytes random, random_bytes(16));
  std::string token;
  for (const char byte : random) token += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return token;
}

}  // namespace tern
