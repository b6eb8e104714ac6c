#include "cloud/azure_client.h"

#include <fmt/format.h>

#include <algorithm>

#include "cloud/azure_errors.h"
#include "cloud/azure_name.h"
#include "core/http_date.h"

namespace tern {
namespace {

// The first in which a listing tells names that XML cannot hold.
constexpr char kVersion[] = "2021-12-02";

}  // namespace

AzureClient::AzureClient(const StoreAddress& address, std::unique_ptr<AzureCredentials> credentials,
                         CloudTransport& transport)
    : container_(fmt::format("az://{}/{}", address.account, address.bucket)),
      url_(credentials->endpoint() + "/" + percent_encode(address.bucket)),
      credentials_(std::move(credentials)),
      transport_(transport) {}

Result<HttpRequest> AzureClient::make(const AzureRequest& request, bool refresh) {
  HttpRequest made{.method = request.method,
                   .url = url_,
                   .headers = request.headers,
                   .body = request.body,
                   .answer_bytes_max = request.answer_bytes_max};
  if (!request.name.empty())
    made.url += "/" + percent_encode(to_azure_name(request.name), /*keep_slashes=*/true);
  char separator = '?';
  for (const auto& [name, value] : request.query) {
    made.url += fmt::format("{}{}={}", separator, name, percent_encode(value));
    separator = '&';
  }
  made.headers.push_back({"x-ms-version", kVersion});
  made.headers.push_back({"x-ms-date", format_http_date(transport_.clock().unix_ms())});
  RETURN_IF_ERROR(credentials_->authorize(made, refresh));
  return made;
}

CloudRequest AzureClient::prepare(Describe describe, Look look) {
  return {.make = [this, describe = std::move(describe)](
                      bool refresh) { return make(describe(), refresh); },
          .judge =
              [this, look = std::move(look)](HttpAnswer& answer) {
                const Verdict verdict = judge_azure(answer, credentials_->kind());
                if (look && verdict == Verdict::done) look(answer);
                return verdict;
              }};
}

Result<HttpAnswer> AzureClient::checked(Result<HttpAnswer> answer, const std::string& doing) {
  if (!answer) {
    const Error& error = answer.error();
    const std::string next =
        error.code == Code::unavailable
            ? fmt::format("; check that the account exists and that {} can be reached from here",
                          credentials_->endpoint())
            : "";
    return fail(error.code,
                fmt::format("could not {} in {}: {}{}", doing, container_, error.message, next));
  }
  if (!is_azure_answer(*answer)) return error_of(doing, *answer);
  return answer;
}

Result<HttpAnswer> AzureClient::send(const AzureRequest& request) {
  return checked(transport_.send(prepare([&] { return request; })), request.doing);
}

std::vector<Result<HttpAnswer>> AzureClient::send_all(std::span<const CloudRequest> requests,
                                                      const std::string& doing) {
  std::vector<Result<HttpAnswer>> answers = transport_.send_all(requests);
  for (Result<HttpAnswer>& answer : answers) answer = checked(std::move(answer), doing);
  return answers;
}

Status AzureClient::send_parts(std::span<const CloudRequest> requests, const std::string& doing,
                               size_t wave,
                               const std::function<Status(size_t, const HttpAnswer&)>& check) {
  for (size_t begin = 0; begin < requests.size(); begin += wave) {
    const size_t count = std::min(wave, requests.size() - begin);
    const auto answers = send_all(requests.subspan(begin, count), doing);
    for (size_t i = 0; i < answers.size(); ++i) {
      if (!answers[i]) return answers[i].error();
      RETURN_IF_ERROR(check(begin + i, *answers[i]));
    }
  }
  return {};
}

Error AzureClient::error_of(const std::string& doing, const HttpAnswer& answer) {
  return azure_error({.doing = doing,
                      .container = container_,
                      .endpoint = credentials_->endpoint(),
                      .credentials = credentials_->shown(),
                      .sas_end = credentials_->sas_end(),
                      .kind = credentials_->kind(),
                      .unix_ms = transport_.clock().unix_ms()},
                     answer);
}

}  // namespace tern
