// What all stores say of a listing whose pages repeat, or are more than can be.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/result.h"

namespace tern {

// Never a part of it instead: who takes that for the whole removes or writes the wrong things.
inline Error endless_listing(const std::string& prefix) {
  return fail(Code::corrupt,
              fmt::format("the listing of '{}' does not end; check that the endpoint "
                          "is an object store, or list below a longer prefix",
                          prefix));
}

}  // namespace tern
