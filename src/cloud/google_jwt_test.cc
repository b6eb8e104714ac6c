#include "cloud/google_jwt.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "cloud/test_google_key.h"
#include "core/crypto.h"

namespace tern {
namespace {

// RFC 7515, appendix A.2.1.
constexpr const char* kPublished =
    "eyJhbGciOiJSUzI1NiJ9"
    ".eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlf"
    "Q"
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHIm4Bh-0Qc_lF5YKt_O8W2Fp5"
    "jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb"
    "1L07Qe7K0GarZRmB_eSN9383LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QO"
    "YEUipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw";

nlohmann::json part(const std::string& jwt, int index) {
  std::string text = jwt;
  for (int i = 0; i < index; ++i) text = text.substr(text.find('.') + 1);
  text = text.substr(0, text.find('.'));
  for (char& c : text) c = c == '-' ? '+' : c == '_' ? '/' : c;
  while (text.size() % 4 != 0) text += '=';
  return nlohmann::json::parse(decode_base64(text).value(), nullptr, false);
}

TEST(GoogleJwt, ThePublishedExampleIsMetToTheByte) {
  const auto jwt =
      sign_jwt(R"({"alg":"RS256"})",
               "{\"iss\":\"joe\",\r\n \"exp\":1300819380,\r\n \"http://example.com/is_root\":true}",
               kRfc7515Key);
  ASSERT_TRUE(jwt) << jwt.error().to_string();
  EXPECT_EQ(*jwt, kPublished);
}

TEST(GoogleJwt, AServiceAccountStatesWhatGoogleAsks) {
  const auto jwt = make_service_account_jwt({.email = "tern@p.iam.gserviceaccount.com",
                                             .private_key = kRfc7515Key,
                                             .private_key_id = "key1",
                                             .audience = "https://oauth2.googleapis.com/token",
                                             .scope = "s1",
                                             .issued_unix_s = 1'700'000'000});
  ASSERT_TRUE(jwt);
  EXPECT_EQ(part(*jwt, 0), (nlohmann::json{{"alg", "RS256"}, {"kid", "key1"}, {"typ", "JWT"}}));
  EXPECT_EQ(part(*jwt, 1), (nlohmann::json{{"iss", "tern@p.iam.gserviceaccount.com"},
                                           {"scope", "s1"},
                                           {"aud", "https://oauth2.googleapis.com/token"},
                                           {"iat", 1'700'000'000},
                                           {"exp", 1'700'003'600}}));
}

TEST(GoogleJwt, WhatIsNoKeyIsCorruptAndNotRepeated) {
  const auto jwt = sign_jwt("{}", "{}", "-----BEGIN PRIVATE KEY-----\nTOPSECRET\n");
  ASSERT_FALSE(jwt);
  EXPECT_EQ(jwt.error().code, Code::corrupt);
  EXPECT_EQ(jwt.error().message.find("TOPSECRET"), std::string::npos);
}

}  // namespace
}  // namespace tern
