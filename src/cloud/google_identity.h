// Who we are to Google: application default credentials, looked for in the documented order. Here
// nothing is sent; google_credentials.h turns an identity into access tokens.
#pragma once

#include <string>

#include "cloud/open_store.h"
#include "core/bytes.h"
#include "core/result.h"

namespace tern {

struct GoogleIdentity {
  enum class Kind { anonymous, service_account, authorized_user, metadata };

  Kind kind = Kind::anonymous;
  std::string source;  // where it was found, for people
  std::string token_url;
  std::string project;      // empty: not known
  std::string email;        // service_account
  std::string private_key;  // service_account: PEM
  std::string private_key_id;
  std::string client_id;  // authorized_user
  std::string client_secret;
  std::string refresh_token;
  std::string metadata_url;  // metadata: up to ".../service-accounts/default"
  std::string looked;        // metadata: where nothing was found before
};

// The file GOOGLE_APPLICATION_CREDENTIALS names; gcloud's application_default_credentials.json
// below CLOUDSDK_CONFIG or ~/.config/gcloud; the metadata server (GCE_METADATA_HOST), which may
// not be there. With STORAGE_EMULATOR_HOST only the file that is named, else anonymous: what a
// person is logged in with is not for an emulator.
// `failed_precondition` for a file that is not there or cannot be read, `corrupt` for one that is
// not such a file, `invalid` for a kind that is not supported.
Result<GoogleIdentity> find_google_identity(const CloudSurroundings& surroundings);

// The content of such a file. `path` is for messages, which never repeat the content.
Result<GoogleIdentity> parse_google_identity(BytesView json, const std::string& path);

}  // namespace tern
