#include "cloud/azure_errors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <utility>

#include "cloud/xml.h"
#include "core/http_date.h"

namespace tern {
namespace {

constexpr int64_t kSkewMaxMs = 15 * 60'000;  // what Azure allows

struct Meaning {
  std::string_view azure;
  Code code;
  std::string_view cause;  // {0}: the credentials, {1}: the container's address
  std::string_view next;
};

// Without those that need a calculation. A cause follows "could not read 'a/b' in az://...: ".
constexpr std::array kMeanings = {
    Meaning{"AuthorizationPermissionMismatch", Code::permission_denied, "{0} may not do this",
            "give it the role Storage Blob Data Contributor on the "
            "container (a SAS token: the rights rcwdl)"},
    Meaning{"AuthorizationFailure", Code::permission_denied, "the store refuses {0}",
            "check the key or token itself, its rights (rcwdl) and the account's network rules"},
    Meaning{"AuthorizationResourceTypeMismatch", Code::permission_denied,
            "{0} is not for containers and objects",
            "make a token with the resource types "
            "container and object (srt=co)"},
    Meaning{"AuthorizationServiceMismatch", Code::permission_denied,
            "{0} is not for the blob service", "make a token with the service blob (ss=b)"},
    Meaning{"AuthorizationProtocolMismatch", Code::permission_denied, "{0} is for https only",
            "use an https:// endpoint"},
    Meaning{"AuthorizationSourceIPMismatch", Code::permission_denied,
            "{0} is not for this machine's address",
            "make a token without or with another range "
            "of addresses (sip=)"},
    Meaning{"InsufficientAccountPermissions", Code::permission_denied, "{0} may not do this",
            "give it the role Storage Blob Data Contributor on the container"},
    Meaning{"KeyBasedAuthenticationNotPermitted", Code::permission_denied,
            "the account allows no access by key",
            "use a managed identity, or allow key access "
            "in the account's configuration"},
    Meaning{"AccountIsDisabled", Code::permission_denied, "the account is disabled",
            "enable it in the portal, or use another"},
    Meaning{"NoAuthenticationInformation", Code::permission_denied,
            "the store saw no credentials with the request", "look for a proxy that removes them"},
    Meaning{"PublicAccessNotPermitted", Code::permission_denied,
            "the store saw no credentials with the request", "look for a proxy that removes them"},
    Meaning{"ContainerNotFound", Code::not_found, "there is no such container",
            "make it with `tern store mb {1}`, or correct the address"},
    Meaning{"ContainerBeingDeleted", Code::unavailable, "the container is being deleted",
            "wait a minute and try again, or use another name"},
    Meaning{"ContainerDisabled", Code::permission_denied, "the container is disabled",
            "ask who administers the account"},
    Meaning{"BlobNotFound", Code::not_found, "there is no such object",
            "see what there is with `tern store ls {1}`"},
    Meaning{"ResourceNotFound", Code::not_found, "there is no such object, container or account",
            "see what there is with `tern store ls {1}`"},
    Meaning{"BlobImmutableDueToPolicy", Code::permission_denied,
            "a policy keeps the object as it is", "use another container"},
    Meaning{"BlobArchived", Code::failed_precondition, "the object is archived",
            "rehydrate it to the hot or cool tier, which takes hours"},
    Meaning{"LeaseIdMissing", Code::failed_precondition, "another program holds a lease on it",
            "break that lease, or use another name"},
    Meaning{"InvalidBlobType", Code::failed_precondition,
            "the object there is a page or append blob", "remove it, or use another name"},
    Meaning{"InvalidBlobOrBlock", Code::failed_precondition,
            "another program left an unfinished upload of that name",
            "use another name, or wait the week after which Azure forgets it"},
    Meaning{"ServerBusy", Code::unavailable, "the store is busy",
            "try again later, or with fewer requests at once"},
    Meaning{"OperationTimedOut", Code::unavailable, "the store took too long", "try again later"},
    Meaning{"InternalError", Code::unavailable, "the store failed", "try again later"},
    Meaning{"Md5Mismatch", Code::corrupt, "the bytes arrived damaged at the store, again and again",
            "look for a proxy that changes them, and test the machine's memory"},
};

std::string duration_of(int64_t ms) {
  const int64_t minutes = ms / 60'000;
  if (minutes < 120) return fmt::format("{} minutes", minutes);
  if (minutes < 48 * 60) return fmt::format("{} hours", minutes / 60);
  return fmt::format("{} days", minutes / (24 * 60));
}

// Why what was right once is refused now: a clock that runs wrong, or a token at its end.
std::optional<Error> out_of_time(const AzureQuestion& question, const HttpAnswer& answer,
                                 const std::string& start) {
  const std::optional<int64_t> store_ms = parse_http_date(answer.header("Date"));
  const int64_t behind_ms = store_ms.value_or(question.unix_ms) - question.unix_ms;
  if (std::llabs(behind_ms) > kSkewMaxMs) {
    return fail(Code::failed_precondition,
                fmt::format("{}this machine's clock is {} {} the store's, which therefore refuses "
                            "the signature; set the clock (timedatectl set-ntp true)",
                            start, duration_of(std::llabs(behind_ms)),
                            behind_ms > 0 ? "behind" : "ahead of"));
  }
  const std::string now = format_utc(question.unix_ms + behind_ms);
  if (question.sas_end.empty() || question.sas_end > now) return std::nullopt;
  return fail(Code::permission_denied,
              fmt::format("{}{}: it has ended; make a new one", start, question.credentials));
}

Error not_authenticated(const AzureQuestion& question, const std::string& start) {
  std::string_view why =
      "is refused: it is wrong, or was regenerated; copy it again (az storage "
      "account keys list)";
  if (question.kind == AzureCredentials::Kind::sas) {
    why = "is refused (cut off, revoked, or for another account or container); make a new one";
  }
  if (question.kind == AzureCredentials::Kind::managed_identity) {
    why =
        "is refused; check that the account is of the same tenant, and wait some minutes if the "
        "role was only just assigned";
  }
  return fail(Code::permission_denied, fmt::format("{}{} {}", start, question.credentials, why));
}

Error not_azure(const AzureQuestion& question, const HttpAnswer& answer, const std::string& start) {
  return fail(Code::failed_precondition,
              fmt::format("{}{} answered with status {} and not as Azure Storage does: an endpoint "
                          "that is not an object store, or a proxy before it; correct the endpoint "
                          "(AZURE_STORAGE_BLOB_ENDPOINT, or BlobEndpoint in the connection string)",
                          start, question.endpoint, answer.status));
}

// A code becomes part of a message, so it must look like one.
bool may_be_code(std::string_view text) {
  return !text.empty() && text.size() <= 80 && std::all_of(text.begin(), text.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  });
}

}  // namespace

std::string azure_error_code(const HttpAnswer& answer) {
  if (answer.status < 300) return {};
  const std::string_view header = answer.header("x-ms-error-code");
  if (may_be_code(header)) return std::string(header);
  if (answer.body.empty() || answer.body.size() > 64'000) return {};
  const Result<XmlNode> body = parse_xml(answer.body);
  if (!body || body->name != "Error") return {};
  const std::string code = body->text_of("Code");
  return may_be_code(code) ? code : "";
}

bool is_azure_answer(const HttpAnswer& answer) {
  return !answer.header("x-ms-request-id").empty() || !answer.header("x-ms-version").empty() ||
         !azure_error_code(answer).empty();
}

Verdict judge_azure(const HttpAnswer& answer, AzureCredentials::Kind kind) {
  if (answer.status < 300) return Verdict::done;
  const std::string code = azure_error_code(answer);
  // The bytes were damaged on their way: the only bad request that may become a good one.
  if (code == "OperationTimedOut" || code == "InternalError" || code == "Md5Mismatch") {
    return Verdict::retry;
  }
  if (code == "ServerBusy") return Verdict::throttle;
  if (answer.status == 401 && kind == AzureCredentials::Kind::managed_identity) {
    return Verdict::new_tokens;
  }
  return judge_status(answer.status);
}

Error azure_error(const AzureQuestion& question, const HttpAnswer& answer) {
  const std::string start = fmt::format("could not {} in {}: ", question.doing, question.container);
  if (!is_azure_answer(answer)) {
    if (judge_status(answer.status) == Verdict::done) return not_azure(question, answer, start);
    return fail(Code::unavailable,
                fmt::format("{}{} answers with status {}; try again later, and if it stays so look "
                            "at what is between here and the store",
                            start, question.endpoint, answer.status));
  }
  const std::string code = azure_error_code(answer);
  const bool is_refused = code == "AuthenticationFailed" || code == "InvalidAuthenticationInfo";
  if (is_refused || code == "AuthorizationFailure") {
    if (const auto late = out_of_time(question, answer, start)) return *late;
  }
  if (is_refused) return not_authenticated(question, start);
  for (const Meaning& meaning : kMeanings) {
    if (code != meaning.azure) continue;
    const auto filled = [&](std::string_view text) {
      return fmt::format(fmt::runtime(text), question.credentials, question.container);
    };
    return fail(meaning.code, fmt::format("{}{} ({}); {}", start, filled(meaning.cause), code,
                                          filled(meaning.next)));
  }
  const std::string shown = code.empty() ? fmt::format("status {}", answer.status)
                                         : fmt::format("{}, status {}", code, answer.status);
  if (answer.status == 404) {
    return fail(Code::not_found, fmt::format("{}it is not there ({}); see what there is with `tern "
                                             "store ls {}`",
                                             start, shown, question.container));
  }
  if (answer.status == 401 || answer.status == 403) {
    return fail(Code::permission_denied,
                fmt::format("{}{} may not do this ({}); look at its rights and at the account's "
                            "network rules",
                            start, question.credentials, shown));
  }
  const bool may_pass = judge_status(answer.status) != Verdict::done;
  return fail(
      may_pass ? Code::unavailable : Code::failed_precondition,
      fmt::format("{}the store refuses it ({}); {}", start, shown,
                  may_pass ? "try again later"
                           : "look the code up in Azure's list of blob service error codes"));
}

}  // namespace tern
