#include "core/crypto.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/pem.h>

#include <algorithm>
#include <memory>

namespace tern {
namespace {

const unsigned char* bytes_of(BytesView bytes) {
  return reinterpret_cast<const unsigned char*>(bytes.data());
}
unsigned char* bytes_of(Bytes& bytes) { return reinterpret_cast<unsigned char*>(bytes.data()); }

struct FreeBio {
  void operator()(BIO* bio) const { BIO_free(bio); }
};
struct FreeKey {
  void operator()(EVP_PKEY* key) const { EVP_PKEY_free(key); }
};
struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};

// Else OpenSSL would ask the terminal for the password of an encrypted key.
int no_password(char*, int, int, void*) { return -1; }

}  // namespace

Digest hmac_sha256(BytesView key, BytesView text) {
  constexpr size_t kBlock = 64;
  if (key.size() > kBlock) {  // as RFC 2104 has it; OpenSSL's length is an int
    const Digest hashed = sha256(key);
    return hmac_sha256(BytesView(reinterpret_cast<const char*>(hashed.data()), hashed.size()),
                       text);
  }
  Digest digest;
  const char* const key_data = key.empty() ? "" : key.data();  // null means another thing
  TERN_CHECK(HMAC(EVP_sha256(), key_data, static_cast<int>(key.size()), bytes_of(text), text.size(),
                  digest.data(), nullptr) != nullptr);
  return digest;
}

std::string base64(BytesView bytes) {
  // EVP_EncodeBlock takes an int; whole groups of three can be put together.
  constexpr size_t kPiece = 3 << 20;
  std::string text((bytes.size() + 2) / 3 * 4, '\0');
  size_t written = 0;
  for (size_t at = 0; at < bytes.size(); at += kPiece) {
    const BytesView piece = bytes.substr(at, kPiece);
    // It writes a zero after the end, where std::string has one.
    written += static_cast<size_t>(
        EVP_EncodeBlock(bytes_of(text) + written, bytes_of(piece), static_cast<int>(piece.size())));
  }
  TERN_CHECK(written == text.size());
  return text;
}

std::string base64url(BytesView bytes) {
  std::string text = base64(bytes);
  std::ranges::replace(text, '+', '-');
  std::ranges::replace(text, '/', '_');
  while (text.ends_with('=')) text.pop_back();
  return text;
}

Result<Bytes> decode_base64(std::string_view text) {
  const auto value_of = [](char c) -> int {
    if (c >= 'A' && c <= 'Z') return c - 'A';
    if (c >= 'a' && c <= 'z') return c - 'a' + 26;
    if (c >= '0' && c <= '9') return c - '0' + 52;
    if (c == '+') return 62;
    return c == '/' ? 63 : -1;
  };
  const Error bad = fail(Code::corrupt, "this is not base64; check that it was copied whole");
  if (text.size() % 4 != 0) return bad;
  const size_t padding = text.ends_with("==") ? 2 : text.ends_with('=') ? 1 : 0;
  text.remove_suffix(padding);
  Bytes bytes;
  bytes.reserve(text.size() / 4 * 3 + 2);
  uint32_t bits = 0;
  unsigned bit_count = 0;
  for (const char c : text) {
    const int value = value_of(c);
    if (value < 0) return bad;
    bits = (bits << 6) | static_cast<uint32_t>(value);
    bit_count += 6;
    if (bit_count < 8) continue;
    bit_count -= 8;
    bytes += static_cast<char>(bits >> bit_count);
    bits &= (1U << bit_count) - 1;
  }
  if (bits != 0) return bad;  // what is left over must be zero: one text for one value
  return bytes;
}

Bytes md5(BytesView bytes) {
  Bytes digest(16, '\0');
  TERN_CHECK(
      EVP_Digest(bytes.data(), bytes.size(), bytes_of(digest), nullptr, EVP_md5(), nullptr) == 1);
  return digest;
}

Result<Bytes> sign_rsa_sha256(const std::string& pem, BytesView text) {
  constexpr size_t kPemBytesMax = 64 << 10;  // a key of 16384 bits has 13 KB
  const Error bad = fail(Code::corrupt,
                         "the private key is no RSA key in PEM without a password; download the "
                         "key file again");
  if (pem.size() > kPemBytesMax) return bad;
  const std::unique_ptr<BIO, FreeBio> bio(
      BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size())));
  TERN_CHECK(bio != nullptr);
  const std::unique_ptr<EVP_PKEY, FreeKey> key(
      PEM_read_bio_PrivateKey(bio.get(), nullptr, no_password, nullptr));
  if (key == nullptr || EVP_PKEY_get_base_id(key.get()) != EVP_PKEY_RSA) return bad;

  const std::unique_ptr<EVP_MD_CTX, FreeContext> context(EVP_MD_CTX_new());
  size_t size = static_cast<size_t>(EVP_PKEY_get_size(key.get()));
  Bytes signature(size, '\0');
  if (EVP_DigestSignInit(context.get(), nullptr, EVP_sha256(), nullptr, key.get()) != 1 ||
      EVP_DigestSign(context.get(), bytes_of(signature), &size, bytes_of(text), text.size()) != 1) {
    return bad;  // as with a key that is too small for the digest
  }
  signature.resize(size);
  return signature;
}

}  // namespace tern
