// Access tokens of Google, fetched when needed and before they expire.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cloud/google_identity.h"
#include "cloud/google_token.h"
#include "cloud/open_store.h"
#include "core/clock.h"
#include "core/mutex.h"
#include "core/result.h"

namespace tern {

// Owned by one bucket; safe from any thread. A call blocks while a token is fetched: mostly a
// moment, a minute where nothing answers; callers meanwhile wait for that one. Uses connections of
// its own, with short limits and, to the metadata server, without a proxy.
class GoogleCredentials {
 public:
  GoogleCredentials(GoogleIdentity identity, std::string certificates, Clock& clock);

  // For "Authorization: Bearer"; empty if we are anonymous. `rejected` is a token that the store
  // did not take: never that one again. A token is replaced five minutes before it expires; while
  // that fails, the old one is given as long as it lives.
  // Errors are those of read_token_answer(); `failed_precondition`, with where it was looked, if
  // there is no metadata server either.
  Result<std::string> token(const std::string& rejected = {});

  // Who we are and where that was found, for people. Asks the metadata server for the name.
  Result<std::string> description();
  const GoogleIdentity& identity() const { return identity_; }

 private:
  Result<GoogleToken> fetch() REQUIRES(mutex_);
  Result<HttpAnswer> exchange(const HttpRequest& request);

  const GoogleIdentity identity_;
  const std::string certificates_;
  Clock& clock_;

  Mutex mutex_;
  std::string token_ GUARDED_BY(mutex_);
  Nanoseconds refresh_at_ GUARDED_BY(mutex_){0};
  Nanoseconds expires_at_ GUARDED_BY(mutex_){0};
  // A failure is remembered for a moment, so that many callers do not each wait for it in turn.
  std::optional<Error> failure_ GUARDED_BY(mutex_);
  Nanoseconds failure_until_ GUARDED_BY(mutex_){0};
};

}  // namespace tern
