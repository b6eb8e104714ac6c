// What Google Cloud Storage, its token endpoint and its credentials' files may say.
#include "cloud/gcs_errors.h"
#include "cloud/gcs_json.h"
#include "cloud/gcs_read.h"
#include "cloud/gcs_upload.h"
#include "cloud/google_identity.h"
#include "cloud/google_token.h"
#include "fuzz/fuzz.h"

namespace tern {
namespace {

void try_token(const HttpAnswer& answer, GoogleIdentity::Kind kind) {
  const GoogleIdentity identity{.kind = kind, .source = "here", .token_url = "https://x/token"};
  const auto token = read_token_answer(answer, identity, 1'700'000'000'000);
  if (!token) {
    TERN_CHECK(!token.error().message.empty());
    return;
  }
  TERN_CHECK(token->life > Milliseconds(0));
  TERN_CHECK(token->text.find_first_of("\r\n ") == std::string::npos);
}

void try_piece(HttpAnswer answer, BytesView range) {
  answer.headers = {{"X-Goog-Generation", "7"},
                    {"Content-Range", std::string(range)},
                    {"X-Goog-Hash", std::string(range)},
                    {"Range", std::string(range)}};
  if (const auto stored = stored_bytes_of(answer)) TERN_CHECK(*stored >= 0);
  const auto piece = take_gcs_piece(answer, 3, 10);
  if (piece) TERN_CHECK(piece->bytes.size() <= 10 && piece->total >= 0);
}

void try_gcs(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  constexpr int kStatuses[] = {200, 206, 308, 400, 401, 403, 404, 409, 412, 416, 429, 500};
  const HttpAnswer answer{.status = kStatuses[choice % std::size(kStatuses)], .body = Bytes(bytes)};
  if (const auto object = parse_gcs_object(bytes)) {
    TERN_CHECK(!object->name.empty() && object->size_bytes >= 0);
  }
  if (const auto page = parse_gcs_page(bytes)) {
    for (const GcsObject& object : page->objects) TERN_CHECK(object.size_bytes >= 0);
  }
  const Error error = gcs_error(answer, kGcsRead, {"https://x", "bucket", "object", "none"});
  TERN_CHECK(!error.message.empty() && error.message.size() < 2000);
  judge_gcs(answer);
  is_checksum_complaint(answer);
  try_token(answer, choice % 2 == 0 ? GoogleIdentity::Kind::service_account
                                    : GoogleIdentity::Kind::metadata);
  try_piece(answer, bytes);
  if (const auto identity = parse_google_identity(bytes, "file")) {
    TERN_CHECK(identity->kind != GoogleIdentity::Kind::anonymous);
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_gcs)
