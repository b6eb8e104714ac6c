// `tern doctor URI`: which credentials a bucket is opened with, and what they may do.
#pragma once

#include <functional>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/clock.h"
#include "core/result.h"
#include "storage/object_store.h"

namespace tern {

// One thing that was tried.
struct StoreTrial {
  std::string what;            // "list", "write", "read", "create-only", "remove"
  std::optional<Error> error;  // nothing: it works
  double ms = 0;
  bool was_tried = true;  // false: what it needs did not work
};

struct StoreFindings {
  std::string address;
  std::string credentials;  // which, and where they were found; never a secret
  std::vector<StoreTrial> trials;
};

// Lists, writes, reads, creates and removes a few small objects, which are gone afterwards, also
// where one of these fails. Blocks for some requests, and `tell`s each as soon as it is known.
std::vector<StoreTrial> try_store(ObjectStore& store, Clock& clock,
                                  const std::function<void(const StoreTrial&)>& tell);

// Whether runs can be kept there, and whether data that is there can at least be read.
bool can_keep_runs(const StoreFindings& findings);
bool can_read_data(const StoreFindings& findings);

// For people: what is known before the trials, each trial, and what follows from them.
std::string describe_store(const StoreFindings& findings);
std::string describe_trial(const StoreTrial& trial);
std::string describe_store_verdict(const StoreFindings& findings);
nlohmann::json store_findings_json(const StoreFindings& findings);

}  // namespace tern
