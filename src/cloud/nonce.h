// How a write knows its own object again.
//
// A store may say of a create-only write that the name is taken because this very write took it:
// the reply was lost and it was sent again, or a proxy sent it twice. So each carries a token of
// its own (core/token.h) in the object's metadata, and whoever is told "taken" looks whose it is.
// That costs a request then, and none where the write succeeds.
#pragma once

#include <string>

#include "core/result.h"

namespace tern {

// Small letters alone: Azure's names are C# identifiers, S3's come back in lower case, and web
// proxies drop headers with '_' in their names. S3 and Azure send it with a prefix of theirs.
inline constexpr char kNonceName[] = "ternnonce";

enum class Writer { nobody, us, others };

// Who wrote an object. `found` is the nonce in its metadata, empty if it has none, or why it could
// not be looked at: other reasons than `not_found` are returned.
Result<Writer> writer_by(const Result<std::string>& found, const std::string& our_nonce);

}  // namespace tern
