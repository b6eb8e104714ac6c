// The certificates that a web client trusts, read once for all of its connections.
#pragma once

#include <openssl/ssl.h>

#include <memory>
#include <string>

#include "core/mutex.h"
#include "core/result.h"

namespace tern {

// Of an HttpClient, whose lanes share it; safe from any thread. By itself libcurl reads the
// system's certificates, some 140 of them, for each lane anew, which takes 30 ms of processor time.
class TrustedCertificates {
 public:
  // The certificates of that file; empty: the system's, where libcurl looks for them.
  explicit TrustedCertificates(std::string file);

  // Makes a connection trust these and no others. They are read when they are first needed:
  // `invalid` if that cannot be done, and then tried again the next time.
  Status give_to(SSL_CTX* connection);

 private:
  struct FreeStore {
    void operator()(X509_STORE* store) const { X509_STORE_free(store); }
  };
  using Store = std::unique_ptr<X509_STORE, FreeStore>;

  Result<Store> read(unsigned long flags) const;

  // Constant after construction; empty: none.
  std::string file_;
  std::string folder_;

  Mutex mutex_;
  Store store_ GUARDED_BY(mutex_);
};

}  // namespace tern
