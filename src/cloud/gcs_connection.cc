#include "cloud/gcs_connection.h"

#include <utility>

namespace tern {

GcsConnection::GcsConnection(std::string endpoint, std::string bucket,
                             std::unique_ptr<GoogleCredentials> credentials,
                             CloudTransport& transport)
    : endpoint_(std::move(endpoint)),
      bucket_(std::move(bucket)),
      credentials_(std::move(credentials)),
      transport_(transport) {}

CloudRequest GcsConnection::request(GcsCall call) {
  CloudRequest made;
  // Which token was sent is remembered, so that of many refused requests one fetches another.
  made.make = [this, call = std::move(call),
               sent = std::make_shared<std::string>()](bool refresh) -> Result<HttpRequest> {
    ASSIGN_OR_RETURN(*sent, credentials_->token(refresh ? *sent : std::string()));
    HttpRequest request{.method = call.method,
                        .url = endpoint_ + call.path,
                        .headers = call.headers,
                        .body = call.body,
                        .answer_bytes_max = call.answer_bytes_max};
    if (!sent->empty()) request.headers.push_back({"Authorization", "Bearer " + *sent});
    return request;
  };
  made.judge = [](const HttpAnswer& answer) { return judge_gcs(answer); };
  return made;
}

std::string GcsConnection::bucket_path() const {
  return "/storage/v1/b/" + percent_encode(bucket_);
}

std::string GcsConnection::object_path(const std::string& name) const {
  return bucket_path() + "/o/" + percent_encode(name);
}

std::string GcsConnection::upload_path() const {
  return "/upload/storage/v1/b/" + percent_encode(bucket_) + "/o";
}

GcsPlace GcsConnection::place(const std::string& object) const {
  return {endpoint_, bucket_, object, credentials_->identity().source};
}

Error GcsConnection::error_of(const HttpAnswer& answer, const GcsAction& action,
                              const std::string& object) const {
  return gcs_error(answer, action, place(object));
}

Error GcsConnection::not_a_store(const HttpAnswer& answer, const std::string& object) const {
  return not_a_gcs(answer, place(object));
}

}  // namespace tern
