// Who we are to Azure Storage, and where the account is.
#pragma once

#include <memory>
#include <string>

#include "cloud/azure_token.h"
#include "cloud/open_store.h"
#include "cloud/shared_key.h"
#include "core/result.h"

namespace tern {

// https://learn.microsoft.com/azure/storage/common/storage-configure-connection-string
struct ConnectionString {
  std::string account;
  Bytes key;                   // decoded; a secret
  std::string sas;             // without '?'; a secret
  std::string blob_endpoint;   // without '/' at its end; empty: not said
  std::string usual_endpoint;  // of the account, EndpointSuffix and DefaultEndpointsProtocol
};

// `invalid`, with what is wrong and without the text, for what is not one.
Result<ConnectionString> parse_connection_string(const std::string& text);

// Found once, in this order: AZURE_STORAGE_CONNECTION_STRING, AZURE_STORAGE_KEY,
// AZURE_STORAGE_SAS_TOKEN, the machine's managed identity. What is for another account (by its own
// words, or AZURE_STORAGE_ACCOUNT's) is passed over. Owned by its store; safe from any thread.
class AzureCredentials {
 public:
  enum class Kind { shared_key, sas, managed_identity };

  // Sends nothing. `invalid` for a variable that is set to something unusable. The clock outlives.
  static Result<std::unique_ptr<AzureCredentials>> find(const std::string& account,
                                                        const CloudSurroundings& surroundings,
                                                        Clock& clock);

  Kind kind() const { return kind_; }
  // "https://account.blob.core.windows.net", or an emulator's with the account in its path.
  const std::string& endpoint() const { return endpoint_; }

  // Adds what proves who asks: a signature (last, as it is over the rest), a query or a token.
  // A managed identity may have to be asked for first: a few seconds. `refresh`: its token was
  // refused. Errors are ManagedIdentity's, with where else was looked.
  Status authorize(HttpRequest& request, bool refresh);

  // What they are and where they were found, for people and in messages.
  const std::string& shown() const { return shown_; }
  // When a SAS token ends ("2026-01-31T00:00:00Z"), as it says; empty: it does not, or is none.
  std::string sas_end() const;

 private:
  struct Search;

  AzureCredentials() = default;

  Kind kind_ = Kind::managed_identity;
  std::string endpoint_;
  std::string shown_;
  std::string looked_;  // where there was nothing
  SharedKey key_;
  std::string sas_;
  std::unique_ptr<ManagedIdentity> identity_;
};

}  // namespace tern
