#include "core/trusted_certificates.h"

#include <fmt/format.h>
#include <openssl/err.h>

#include <utility>

#include "core/curl_errors.h"

namespace tern {
namespace {

Error unreadable(const std::string& what, const std::string& path) {
  ERR_clear_error();  // else the next handshake of this thread would find it
  return curl_failure(CURLE_SSL_CACERT_BADFILE, fmt::format("{} {}", what, path).c_str(), "");
}

}  // namespace

TrustedCertificates::TrustedCertificates(std::string file) : file_(std::move(file)) {
  if (!file_.empty()) return;
  const curl_version_info_data* const built = libcurl().version_info(CURLVERSION_NOW);
  if (built->cainfo != nullptr) file_ = built->cainfo;
  if (built->capath != nullptr) folder_ = built->capath;
}

Result<TrustedCertificates::Store> TrustedCertificates::read(unsigned long flags) const {
  Store store(X509_STORE_new());
  if (store == nullptr) return fail(Code::exhausted, "no memory for certificates; free some");
  if (!file_.empty() && X509_STORE_load_file(store.get(), file_.c_str()) != 1) {
    return unreadable("the file", file_);
  }
  if (!folder_.empty() && X509_STORE_load_path(store.get(), folder_.c_str()) != 1) {
    return unreadable("the folder", folder_);
  }
  X509_STORE_set_flags(store.get(), flags);
  return store;
}

Status TrustedCertificates::give_to(SSL_CTX* connection) {
  MutexLock lock(mutex_);
  if (store_ == nullptr) {
    // How strictly is libcurl's to say: as it has set up the store that is replaced.
    X509_STORE* const own = SSL_CTX_get_cert_store(connection);
    ASSIGN_OR_RETURN(store_, read(X509_VERIFY_PARAM_get_flags(X509_STORE_get0_param(own))));
  }
  SSL_CTX_set1_cert_store(connection, store_.get());
  return {};
}

}  // namespace tern
