// A recipe knows where its data comes from (data.source): `tern train` fetches and imports it when
// data.path is not there.
#pragma once

#include <functional>
#include <string>

#include "core/result.h"
#include "dataset/options.h"

namespace tern {

// Puts a question to a person; true for yes. Null: nobody is there to ask.
using Ask = std::function<bool(const std::string& question)>;

// Asks on stderr and reads from stdin if both are a terminal; else null.
Ask ask_on_terminal();

struct FetchSetup {
  DataOptions data;
  std::string certificates;  // a file of certificates to trust; empty: the system's
  std::string tern_version;
};

// False if there is nothing to fetch: data.path is there, or nothing is known of where it comes
// from (opening it will say what is wrong). Else says on stderr what will be fetched, how much and
// to where, and asks; where nobody is there to ask, that is a yes. A no is `cancelled`.
// `not_found`, with data.source_note, for data that only a person may fetch. May block for one
// small request.
Result<bool> agree_to_fetch(const FetchSetup& setup, const Ask& ask);

// Fetches and packs the data; blocks until it is there. Returns kExitDone, or the exit code of a
// signal that ended it; what has arrived is then kept, and the next call goes on with it.
// REQUIRES: signals are blocked (SignalWatcher::block_signals()).
Result<int> fetch_data(const FetchSetup& setup);

}  // namespace tern
