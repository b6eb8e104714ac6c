#include "core/result.h"

#include <cstdio>

namespace tern {

std::string_view code_name(Code code) {
  switch (code) {
    case Code::cancelled: return "cancelled";
    case Code::invalid: return "invalid";
    case Code::not_found: return "not_found";
    case Code::already_exists: return "already_exists";
    case Code::permission_denied: return "permission_denied";
    case Code::exhausted: return "exhausted";
    case Code::failed_precondition: return "failed_precondition";
    case Code::aborted: return "aborted";
    case Code::deadline_exceeded: return "deadline_exceeded";
    case Code::unavailable: return "unavailable";
    case Code::corrupt: return "corrupt";
    case Code::out_of_range: return "out_of_range";
    case Code::internal: return "internal";
  }
  return "unknown";
}

void check_failed(const char* condition, const char* file, int line) {
  std::fprintf(stderr, "tern: this is a bug in tern: CHECK(%s) failed at %s:%d\n", condition, file,
               line);
  std::abort();
}

}  // namespace tern
