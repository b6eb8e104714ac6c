// An import as a user asks for it: also of an address, which is fetched first.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "core/clock.h"
#include "core/log.h"
#include "core/result.h"
#include "import/import.h"
#include "import/representation.h"

namespace tern {

struct ImportRequest {
  std::string source;  // a path, or a web address
  std::filesystem::path destination;
  std::optional<Representation> pack;
  double test_share = 0;
  int64_t threads = 0;       // 0: all cores
  std::string sha256;        // of the source, which is then one file; empty: not checked
  std::string certificates;  // a file of certificates to trust when fetching; empty: the system's
  std::string tern_version;
};

// Blocks until the data set is there; see import_dataset(). What an address names is fetched to
// DST/.download, and removed when it is packed; indexed in place, it stays in DST/source. `stop`
// ends it with `cancelled`; the same request goes on, also in the middle of a file. What was
// fetched and cannot be read is removed, so that it is fetched anew; what came from another address
// too.
Result<ImportResult> import_as_requested(const ImportRequest& request, Log& log, Clock& clock,
                                         std::stop_token stop);

// `invalid` for an address that is not fetched (s3://, ftp://), with what to do; other texts pass.
Status refuse_other_addresses(const std::string& source);

// What a fetched file is called: the last part of the address, or "data" if that is no name.
std::string file_name_of(const std::string& address);

}  // namespace tern
