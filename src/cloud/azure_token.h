// Tokens of a managed identity: who a machine of Azure's is, told by Azure itself.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cloud/open_store.h"
#include "core/clock.h"
#include "core/http_client.h"
#include "core/mutex.h"
#include "core/result.h"

namespace tern {

// Where tokens are asked for, and how.
struct TokenSource {
  std::string url;    // with its whole query
  HttpHeader header;  // the value may be a secret
  std::string shown;  // for people: "the instance metadata service at 169.254.169.254"
};

// IDENTITY_ENDPOINT and IDENTITY_HEADER (App Service, Container Apps), MSI_ENDPOINT and MSI_SECRET
// (Azure ML), else the metadata service that every virtual machine has, whose address
// AZURE_POD_IDENTITY_AUTHORITY_HOST may replace. AZURE_CLIENT_ID names a user-assigned identity.
TokenSource find_token_source(const CloudSurroundings& surroundings);

struct AccessToken {
  std::string text;  // a secret
  Milliseconds lifetime{0};
};

// From the answer of any of these sources. `corrupt` for what is not one.
Result<AccessToken> parse_token_answer(BytesView json, int64_t unix_ms);

// The identity's current token. Safe from any thread: one asks, the others wait for it. Tokens are
// renewed five minutes before they end; while that fails, the old one is used until its end.
class ManagedIdentity {
 public:
  // The clock outlives it.
  ManagedIdentity(TokenSource source, Clock& clock);

  // Blocks for a few seconds at most, mostly not at all. `refresh` asks for another one, but not
  // within 30 seconds of the last time (2, where there is none that holds and the service did not
  // answer). `failed_precondition`: there is no such service here;
  // `permission_denied`: it has no identity for us; `unavailable`; `corrupt`.
  Result<std::string> token(bool refresh);

  const TokenSource& source() const { return source_; }

 private:
  Result<AccessToken> ask() REQUIRES(mutex_);
  Result<HttpAnswer> ask_until_answered() REQUIRES(mutex_);

  const TokenSource source_;
  Clock& clock_;

  Mutex mutex_;
  std::unique_ptr<HttpClient> http_ GUARDED_BY(mutex_);  // of its own: no proxies, short limits
  std::string token_ GUARDED_BY(mutex_);
  Nanoseconds ends_at_ GUARDED_BY(mutex_){0};
  std::optional<Nanoseconds> asked_at_ GUARDED_BY(mutex_);
  std::optional<Error> problem_ GUARDED_BY(mutex_);  // of the last time
  bool has_answered_ GUARDED_BY(mutex_) = false;     // so that there is such a service here
};

}  // namespace tern
