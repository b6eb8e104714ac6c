#include "core/hash.h"

#include <fmt/format.h>
#include <openssl/evp.h>

#include "core/result.h"

namespace tern {

namespace {

// Found once: looking for it takes as long as hashing a small picture.
const EVP_MD* algorithm() {
  static const EVP_MD* const found = EVP_MD_fetch(nullptr, "SHA256", nullptr);
  return found;
}

}  // namespace

struct Sha256::Context {
  EVP_MD_CTX* evp = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(evp); }
};

Sha256::Sha256() : context_(std::make_unique<Context>()) {
  TERN_CHECK(EVP_DigestInit_ex(context_->evp, algorithm(), nullptr) == 1);
}

Sha256::~Sha256() = default;

void Sha256::update(BytesView bytes) {
  TERN_CHECK(EVP_DigestUpdate(context_->evp, bytes.data(), bytes.size()) == 1);
}

void Sha256::update_field(BytesView field) {
  update_number(field.size());
  update(field);
}

void Sha256::update_number(uint64_t number) {
  char little_endian[8];
  for (int i = 0; i < 8; ++i) little_endian[i] = static_cast<char>(number >> (8 * i));
  update(BytesView(little_endian, sizeof little_endian));
}

Digest Sha256::finish() {
  Digest digest;
  TERN_CHECK(EVP_DigestFinal_ex(context_->evp, digest.data(), nullptr) == 1);
  return digest;
}

Digest sha256(BytesView bytes) {
  Sha256 hash;
  hash.update(bytes);
  return hash.finish();
}

std::string to_hex(const Digest& digest) {
  std::string hex;
  hex.reserve(64);
  for (uint8_t byte : digest) fmt::format_to(std::back_inserter(hex), "{:02x}", byte);
  return hex;
}

}  // namespace tern
