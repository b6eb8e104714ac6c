// Which keys a request to AWS is signed with, found where AWS's own tools look, in their order.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cloud/aws_profile.h"
#include "cloud/open_store.h"
#include "cloud/sigv4.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/result.h"

namespace tern {

// Where keys come from: AWS_ACCESS_KEY_ID and its companions, the profile in the credentials file,
// then in the config file, the container's role, the instance's role. A profile that wants another
// way (a role to assume, SSO, a process) is refused by name, as the order says it comes first.
//
// Owned by a store; safe from any thread. Keys of a role are fetched at the first use, and again
// 5 minutes before they expire; others wait for the one who fetches. No secret is ever in a message
// or in describe().
class AwsCredentials {
 public:
  // Sends nothing. `failed_precondition`, with where it looked, if there are none to be had.
  static Result<std::unique_ptr<AwsCredentials>> find(const CloudSurroundings& surroundings,
                                                      Clock& clock);

  // Keys to sign with now. May block for a few seconds, where a role's are due. `refresh`: the
  // store says that the last ones have expired; files are read and services asked anew, but not
  // twice within 30 seconds, as many requests in flight learn of it together. Errors are
  // those of aws_metadata.h; `failed_precondition`, with where it looked, if nothing was found.
  // While a role's service does not answer, it is asked every 30 seconds as long as the old keys
  // hold, and every 2 seconds after that.
  Result<AwsKeys> keys(bool refresh);

  // "access key ending in MPLE of profile 'default' in /x/.aws/credentials". May block as keys().
  Result<std::string> describe();

 private:
  enum class Source { environment, credentials_file, config_file, container, instance };
  struct Found {
    AwsKeys keys;
    std::optional<int64_t> expires_unix_ms;
    std::string origin;
  };

  AwsCredentials(CloudSurroundings surroundings, Clock& clock, Source source, std::string looked);

  static Result<Source> find_source(const CloudSurroundings& surroundings,
                                    const AwsProfile& profile);
  Status make_current(bool refresh) REQUIRES(mutex_);
  Result<Found> load() REQUIRES(mutex_);
  Result<Found> load_from_profile();
  Result<Found> load_from_container();
  Result<Found> load_from_instance() REQUIRES(mutex_);

  const CloudSurroundings surroundings_;
  Clock& clock_;
  const Source source_;
  const std::string looked_;  // where else there was nothing, for a message

  Mutex mutex_;
  std::optional<Found> found_ GUARDED_BY(mutex_);
  Nanoseconds loaded_at_ GUARDED_BY(mutex_){0};
  // A service that is away is asked again after a while, not by each of many callers in turn.
  std::optional<Error> problem_ GUARDED_BY(mutex_);
  Nanoseconds failed_at_ GUARDED_BY(mutex_){0};
};

}  // namespace tern
