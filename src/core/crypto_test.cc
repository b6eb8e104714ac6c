#include "core/crypto.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>

#include <cstring>

#include "core/random.h"

namespace tern {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string hex(BytesView bytes) {
  std::string text;
  for (const char c : bytes) {
    text += "0123456789abcdef"[static_cast<unsigned char>(c) >> 4];
    text += "0123456789abcdef"[static_cast<unsigned char>(c) & 15];
  }
  return text;
}

// RFC 4231, cases 1 to 4, 6 and 7.
TEST(Crypto, HmacIsThatOfRfc4231) {
  const auto hmac = [](const std::string& key, const std::string& text) {
    return to_hex(hmac_sha256(key, text));
  };
  std::string counted;
  for (char c = 1; c <= 25; ++c) counted += c;
  EXPECT_EQ(hmac(std::string(20, '\x0b'), "Hi There"),
            "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
  EXPECT_EQ(hmac("Jefe", "what do ya want for nothing?"),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(hmac(std::string(20, '\xaa'), std::string(50, '\xdd')),
            "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
  EXPECT_EQ(hmac(counted, std::string(50, '\xcd')),
            "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
  EXPECT_EQ(
      hmac(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First"),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
  EXPECT_EQ(hmac(std::string(131, '\xaa'),
                 "This is a test using a larger than block-size key and a larger than block-size "
                 "data. The key needs to be hashed before being used by the HMAC algorithm."),
            "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

TEST(Crypto, AnEmptyKeyAndTextHaveAnHmac) {
  EXPECT_EQ(to_hex(hmac_sha256("", "")),
            "b613679a0814d9ec772f95d778c35fc5ff1697c493715653c6c712144292c5ad");
  EXPECT_EQ(to_hex(hmac_sha256({}, {})), to_hex(hmac_sha256("", "")));
}

// RFC 4648, section 10.
TEST(Crypto, Base64IsThatOfRfc4648) {
  const std::pair<const char*, const char*> vectors[] = {{"", ""},
                                                         {"f", "Zg=="},
                                                         {"fo", "Zm8="},
                                                         {"foo", "Zm9v"},
                                                         {"foob", "Zm9vYg=="},
                                                         {"fooba", "Zm9vYmE="},
                                                         {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : vectors) {
    EXPECT_EQ(base64(bytes), text);
    EXPECT_EQ(decode_base64(text).value_or("none"), bytes);
  }
  EXPECT_EQ(base64("\xfb\xff\xfe"), "+//+");
  EXPECT_EQ(base64url("\xfb\xff\xfe\xff"), "-__-_w");
}

TEST(Crypto, Base64OfAnythingComesBack) {
  Random random(1, Stream::augment, 0);
  for (size_t size : {1U, 100U, 4096U, (3U << 20) - 1, (3U << 20) + 1, 7U << 20}) {
    Bytes bytes(size, '\0');
    for (char& c : bytes) c = static_cast<char>(random.next());
    EXPECT_TRUE(decode_base64(base64(bytes)).value_or("") == bytes) << size;
  }
}

TEST(Crypto, WhatIsNotBase64IsRefused) {
  for (const char* text : {"Z", "Zg", "Zg=", "Zg===", "=", "==", "====", "Z===", "Zm9v\n", " Zm9v",
                           "Zm9-", "Zm_v", "Zg==Zg==", "Zm=v", "Zh==", "Zm9=", "Zm9\xc3"}) {
    const Result<Bytes> decoded = decode_base64(text);
    EXPECT_TRUE(!decoded && decoded.error().code == Code::corrupt) << text;
  }
  EXPECT_FALSE(decode_base64(std::string_view("Zm\0v", 4)));
}

// RFC 1321, A.5.
TEST(Crypto, Md5IsThatOfRfc1321) {
  EXPECT_EQ(hex(md5("")), "d41d8cd98f00b204e9800998ecf8427e");
  EXPECT_EQ(hex(md5("a")), "0cc175b9c0f1b6a831c399e269772661");
  EXPECT_EQ(hex(md5("abc")), "900150983cd24fb0d6963f7d28e17f72");
  EXPECT_EQ(hex(md5("message digest")), "f96b697d7cb7938d525a2f31aaf161d0");
  EXPECT_EQ(hex(md5("abcdefghijklmnopqrstuvwxyz")), "c3fcd3d76192e4007dfb496cca67e13b");
  EXPECT_EQ(hex(md5("1234567890123456789012345678901234567890123456789012345678901234567890123456"
                    "7890")),
            "57edf4a22be3c955ac49da2e2107b67a");
}

struct Key {
  EVP_PKEY* evp = nullptr;
  ~Key() { EVP_PKEY_free(evp); }

  std::string pem(const char* password = nullptr, bool is_pkcs1 = false) const {
    BIO* bio = BIO_new(BIO_s_mem());
    const EVP_CIPHER* cipher = password != nullptr ? EVP_aes_128_cbc() : nullptr;
    const int size = password != nullptr ? static_cast<int>(strlen(password)) : 0;
    if (is_pkcs1) {
      PEM_write_bio_PrivateKey_traditional(bio, evp, nullptr, nullptr, 0, nullptr, nullptr);
    } else {
      PEM_write_bio_PKCS8PrivateKey(bio, evp, cipher, password, size, nullptr, nullptr);
    }
    char* text = nullptr;
    const long length = BIO_get_mem_data(bio, &text);
    std::string pem(text, static_cast<size_t>(length));
    BIO_free(bio);
    return pem;
  }
  bool verifies(BytesView signature, BytesView text) const {
    EVP_MD_CTX* context = EVP_MD_CTX_new();
    const bool fits =
        EVP_DigestVerifyInit(context, nullptr, EVP_sha256(), nullptr, evp) == 1 &&
        EVP_DigestVerify(context, reinterpret_cast<const unsigned char*>(signature.data()),
                         signature.size(), reinterpret_cast<const unsigned char*>(text.data()),
                         text.size()) == 1;
    EVP_MD_CTX_free(context);
    return fits;
  }
};

TEST(Crypto, ASignatureVerifiesWithThePublicKey) {
  const Key key{EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{2048})};
  ASSERT_NE(key.evp, nullptr);
  const std::string text = "header.claims";
  for (const bool is_pkcs1 : {false, true}) {
    const std::string pem = key.pem(nullptr, is_pkcs1);
    ASSERT_THAT(pem, HasSubstr(is_pkcs1 ? "BEGIN RSA PRIVATE KEY" : "BEGIN PRIVATE KEY"));
    const Result<Bytes> signature = sign_rsa_sha256(pem, text);
    ASSERT_TRUE(signature) << signature.error().message;
    EXPECT_EQ(signature->size(), 256U);
    EXPECT_TRUE(key.verifies(*signature, text));
    EXPECT_FALSE(key.verifies(*signature, "another"));
  }
}

TEST(Crypto, AKeyThatIsNoneIsRefusedWithoutShowingIt) {
  const Key key{EVP_PKEY_Q_keygen(nullptr, nullptr, "RSA", size_t{2048})};
  const Key other{EVP_PKEY_Q_keygen(nullptr, nullptr, "EC", "P-256")};
  const std::string pem = key.pem();
  std::string damaged = pem;
  damaged[pem.size() / 2] = damaged[pem.size() / 2] == 'A' ? 'B' : '!';
  for (const std::string& bad :
       {std::string(), std::string("secretsecret"), pem.substr(0, pem.size() / 2), damaged,
        key.pem("password"), other.pem(), pem.substr(pem.find('\n')), std::string(1 << 20, 'a')}) {
    const Result<Bytes> signature = sign_rsa_sha256(bad, "text");
    ASSERT_FALSE(signature) << bad.substr(0, 100);
    EXPECT_EQ(signature.error().code, Code::corrupt);
    if (bad.size() > 8) {
      EXPECT_THAT(signature.error().message, Not(HasSubstr(bad.substr(bad.size() / 2, 8))));
    }
  }
}

}  // namespace
}  // namespace tern
