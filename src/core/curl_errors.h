// What libcurl's failures mean to us. Only for core's own files that use libcurl.
#pragma once

#include <fmt/format.h>

#include <string>

#include "core/libcurl.h"
#include "core/result.h"

namespace tern {

// `url` as shown_url() (web_request.h) has it, `detail` from CURLOPT_ERRORBUFFER.
inline Error curl_failure(CURLcode code, const char* detail, const std::string& url) {
  const std::string what = *detail != '\0' ? detail : libcurl().easy_strerror(code);
  switch (code) {
    case CURLE_URL_MALFORMAT:
      return fail(Code::invalid, fmt::format("{} is no web address ({}); check it", url, what));
    case CURLE_UNSUPPORTED_PROTOCOL:
      return fail(Code::failed_precondition,
                  fmt::format("{} leads to something else than http and https ({}); that is not "
                              "followed, check the address",
                              url, what));
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
    case CURLE_SSL_INVALIDCERTSTATUS:
      return fail(
          Code::permission_denied,
          fmt::format("the certificate of {} does not verify: {}; if you trust that server, "
                      "set SSL_CERT_FILE to a file with its certificate",
                      url, what));
    case CURLE_SSL_CACERT_BADFILE:
      return fail(
          Code::invalid,
          fmt::format("cannot read the certificates to trust: {}; set SSL_CERT_FILE to your "
                      "system's (Debian's package is ca-certificates)",
                      what));
    case CURLE_OUT_OF_MEMORY:
      return fail(Code::exhausted, fmt::format("no memory to fetch {}; free some", url));
    default:
      return fail(Code::unavailable,
                  fmt::format("{}: {}; check the network and try again", url, what));
  }
}

}  // namespace tern
