// What the clouds' signatures are made of. OpenSSL's, as all of core's cryptography.
#pragma once

#include <string>

#include "core/bytes.h"
#include "core/hash.h"
#include "core/result.h"

namespace tern {

Digest hmac_sha256(BytesView key, BytesView text);

// With '+', '/' and '=', as RFC 4648 has it; `base64url` with '-' and '_' and no '='.
std::string base64(BytesView bytes);
std::string base64url(BytesView bytes);
// `corrupt` for what is not base64 (the first alphabet) to the last byte.
Result<Bytes> decode_base64(std::string_view text);

// MD5, only where a protocol asks for it as a checksum.
Bytes md5(BytesView bytes);

// RSASSA-PKCS1-v1_5 with SHA-256. `pem` is an unencrypted private key (PKCS#8 or PKCS#1); `corrupt`
// if it is none. No message repeats any of it.
Result<Bytes> sign_rsa_sha256(const std::string& pem, BytesView text);

}  // namespace tern
