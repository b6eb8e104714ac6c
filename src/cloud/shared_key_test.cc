#include "cloud/shared_key.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "core/crypto.h"

namespace tern {
namespace {

// Every emulator's; published.
constexpr char kAccount[] = "devstoreaccount1";
constexpr char kKey[] =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

std::string signature_of(HttpRequest request) {
  sign_with_shared_key({kAccount, decode_base64(kKey).value()}, request);
  EXPECT_EQ(request.headers.back().name, "Authorization");
  return request.headers.back().value;
}

// The examples of "Authorize with Shared Key" in Microsoft's documentation, which publishes what is
// signed but no key with it.
TEST(SharedKeyTest, TheTextOfAPublishedExampleIsMade) {
  EXPECT_EQ(
      shared_key_text("myaccount", {.method = "GET",
                                    .url = "https://myaccount.blob.core.windows.net/mycontainer"
                                           "?comp=metadata&restype=container&timeout=20",
                                    .headers = {{"x-ms-version", "2015-02-21"},
                                                {"x-ms-date", "Fri, 26 Jun 2015 23:39:12 GMT"}}}),
      "GET\n\n\n\n\n\n\n\n\n\n\n\n"
      "x-ms-date:Fri, 26 Jun 2015 23:39:12 GMT\nx-ms-version:2015-02-21\n"
      "/myaccount/mycontainer\ncomp:metadata\nrestype:container\ntimeout:20");
}

TEST(SharedKeyTest, SeveralValuesOfOneNameAreSortedAndJoined) {
  const std::string text = shared_key_text(
      "myaccount", {.url = "https://myaccount.blob.core.windows.net/mycontainer?restype=container"
                           "&comp=list&include=snapshots&include=metadata&"
                           "include=uncommittedblobs"});
  EXPECT_THAT(text, testing::EndsWith("\n/myaccount/mycontainer\ncomp:list\n"
                                      "include:metadata,snapshots,uncommittedblobs\n"
                                      "restype:container"));
}

TEST(SharedKeyTest, APathIsSignedAsItIsSentAndAQueryDecoded) {
  const std::string text =
      shared_key_text("a", {.url = "http://127.0.0.1:10000/a/c/x%20%2By?Prefix=b%2Fc%20d&marker="});
  EXPECT_THAT(text, testing::EndsWith("\n/a/a/c/x%20%2By\nmarker:\nprefix:b/c d"));
}

TEST(SharedKeyTest, AnAddressWithoutAPathIsItsRoot) {
  EXPECT_THAT(shared_key_text("a", {.url = "https://a.blob.core.windows.net?comp=list"}),
              testing::EndsWith("\n/a/\ncomp:list"));
}

TEST(SharedKeyTest, EveryHeaderHasItsPlace) {
  const Bytes body(11, 'x');
  EXPECT_EQ(shared_key_text("a", {.method = "PUT",
                                  .url = "https://a.blob.core.windows.net/c/b",
                                  .headers = {{"Range", "bytes=0-9"},
                                              {"if-none-match", "*"},
                                              {"If-Match", "\"e\""},
                                              {"X-Ms-B", " two "},
                                              {"x-ms-a", "one"},
                                              {"Content-Type", "t"},
                                              {"Content-MD5", "m"}},
                                  .body = body}),
            "PUT\n\n\n11\nm\nt\n\n\n\"e\"\n*\n\nbytes=0-9\nx-ms-a:one\nx-ms-b:two\n/a/c/b");
}

// Complete vectors, made with azure-storage-blob 12.31.1:
//   request = azure.core.pipeline.transport.HttpRequest(METHOD, URL, HEADERS)  # Content-Length too
//   context = azure.core.pipeline.PipelineContext(None)
//   signer = azure.storage.blob._shared.authentication.SharedKeyCredentialPolicy(ACCOUNT, KEY)
//   signer.on_request(azure.core.pipeline.PipelineRequest(request, context))
//   print(request.headers["Authorization"])
TEST(SharedKeyTest, SignaturesAreThoseOfThePythonClient) {
  EXPECT_EQ(signature_of({.url = "http://127.0.0.1:10000/devstoreaccount1/c?restype=container&"
                                 "comp=list&prefix=a%2Fb%20c",
                          .headers = {{"x-ms-date", "Mon, 16 Nov 2026 09:55:44 GMT"},
                                      {"x-ms-version", "2021-12-02"}}}),
            "SharedKey devstoreaccount1:GdUEgz9ubPYTOsjb80F8mYxRaOD775LXA+5LMGg39aE=");
  EXPECT_EQ(signature_of({.method = "PUT",
                          .url = "http://127.0.0.1:10000/devstoreaccount1/c/a%20b/%C3%A9%2B%25",
                          .headers = {{"Content-Type", "application/octet-stream"},
                                      {"Content-MD5", "XUFAKrxLKna5cZ2REBfFkg=="},
                                      {"x-ms-blob-type", "BlockBlob"},
                                      {"If-None-Match", "*"},
                                      {"x-ms-date", "Mon, 16 Nov 2026 09:55:44 GMT"},
                                      {"x-ms-version", "2021-12-02"}},
                          .body = "hello"}),
            "SharedKey devstoreaccount1:jnLQqhau1SlTOHfS8x+8WVpsuNdLkmFOCHu+XmMzz18=");
  EXPECT_EQ(signature_of({.method = "PUT",
                          .url = "http://127.0.0.1:10000/devstoreaccount1/c?restype=container",
                          .headers = {{"x-ms-date", "Mon, 16 Nov 2026 09:55:44 GMT"},
                                      {"x-ms-version", "2021-12-02"}}}),
            "SharedKey devstoreaccount1:Ri/4EBJaJX1AXDQppuAISvWPTOEAjIGK64X6UL1OB4g=");
}

TEST(SharedKeyTest, OnlyWholeEscapesAreDecoded) {
  EXPECT_EQ(percent_decode("a%2Fb%c3%A9"), "a/b\xC3\xA9");
  EXPECT_EQ(percent_decode("100%"), "100%");
  EXPECT_EQ(percent_decode("%2"), "%2");
  EXPECT_EQ(percent_decode("%zz+%41"), "%zz+A");
}

}  // namespace
}  // namespace tern
