// What Azure Storage and the service that gives it tokens may say.
#include "cloud/azure_errors.h"
#include "cloud/azure_list.h"
#include "cloud/azure_token.h"
#include "cloud/whole_list.h"
#include "fuzz/fuzz.h"

namespace tern {
namespace {

void try_errors(const HttpAnswer& answer) {
  is_azure_answer(answer);
  for (const char c : azure_error_code(answer)) {
    TERN_CHECK((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9'));
  }
  using Kind = AzureCredentials::Kind;
  for (const Kind kind : {Kind::shared_key, Kind::sas, Kind::managed_identity}) {
    judge_azure(answer, kind);
    check_told(azure_error({.doing = "read 'x'",
                            .container = "az://account/container",
                            .endpoint = "https://x",
                            .credentials = "none",
                            .sas_end = kind == Kind::sas ? "2024-01-01" : "",
                            .kind = kind,
                            .unix_ms = 1'700'000'000'000},
                           answer));
  }
}

void try_azure(BytesView bytes) {
  const uint8_t choice = take_choice(bytes);
  constexpr int kStatuses[] = {200, 201, 206, 301, 400, 401, 403, 404, 409, 412, 416, 500, 503};
  HttpAnswer answer{.status = kStatuses[choice % std::size(kStatuses)], .body = Bytes(bytes)};
  if (choice >= 64) answer.headers = {{"x-ms-request-id", "1"}, {"Date", answer.body}};
  if (choice >= 128) answer.headers.push_back({"x-ms-error-code", answer.body});
  if (const auto page = parse_azure_page(bytes)) {
    for (const ObjectInfo& object : page->objects) TERN_CHECK(object.size_bytes >= 0);
    const auto ours = keep_our_names(page->objects);
    for (const ObjectInfo& object : *ours) TERN_CHECK(check_object_name(object.name).has_value());
  } else {
    check_told(page.error());
  }
  try_errors(answer);
  if (const auto token = parse_token_answer(bytes, 1'700'000'000'000)) {
    TERN_CHECK(token->lifetime >= Milliseconds(0));
    TERN_CHECK(token->text.find_first_of("\r\n ") == std::string::npos);
  } else {
    check_told(token.error());
  }
}

}  // namespace
}  // namespace tern

TERN_FUZZ(tern::try_azure)
