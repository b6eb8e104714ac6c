#include "cloud/gcs_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "cloud/endless_listing.h"
#include "cloud/gcs_connection.h"
#include "cloud/gcs_json.h"
#include "cloud/gcs_read.h"
#include "cloud/gcs_upload.h"
#include "cloud/safe_url.h"
#include "cloud/whole_list.h"
#include "core/web_request.h"

namespace tern {
namespace {

using Json = nlohmann::json;

// The beginning of `prefix` that can be asked for: all of it, unless it is no UTF-8 (it may end
// inside a character), of which Google takes nothing else.
std::string askable(const std::string& prefix) {
  const Json json = prefix;
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::ignore);
  if (Json::parse(text, nullptr, /*allow_exceptions=*/false) == json) return prefix;
  const auto odd = std::find_if(prefix.begin(), prefix.end(),
                                [](char c) { return static_cast<unsigned char>(c) >= 0x80; });
  return std::string(prefix.begin(), odd);
}

// One bucket. Owned by whoever opened it; safe from any thread; every call may block.
class GcsStore final : public Bucket, public WholeList {
 public:
  GcsStore(std::unique_ptr<GcsConnection> connection, std::string project,
           const BucketOptions& options)
      : connection_(std::move(connection)),
        project_(std::move(project)),
        pages_max_(options.pages_max),
        reader_(*connection_, options),
        uploader_(*connection_, reader_, options) {}

  Result<Bytes> get(const std::string& name) override {
    RETURN_IF_ERROR(check_object_name(name));
    return reader_.read(name, 0, INT64_MAX);
  }

  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    RETURN_IF_ERROR(check_object_name(name));
    return reader_.read(name, offset, length);
  }

  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges) override {
    const auto is_bad = [](const ObjectRange& range) { return !check_object_name(range.name); };
    if (std::any_of(ranges.begin(), ranges.end(), is_bad)) return ObjectStore::get_ranges(ranges);
    return reader_.read_all(ranges);
  }

  Status put(const std::string& name, BytesView bytes) override {
    RETURN_IF_ERROR(check_object_name(name));
    return uploader_.upload(name, bytes, GcsUploader::Rule::replace);
  }

  Status create(const std::string& name, BytesView bytes) override {
    RETURN_IF_ERROR(check_object_name(name));
    return uploader_.upload(name, bytes, GcsUploader::Rule::only_new);
  }

  Result<ObjectInfo> stat(const std::string& name) override {
    RETURN_IF_ERROR(check_object_name(name));
    ASSIGN_OR_RETURN(const GcsObject object, reader_.stat(name));
    return ObjectInfo{name, object.size_bytes};
  }

  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return keep_our_names(list_whole(prefix, {}));
  }

  Result<std::vector<ObjectInfo>> list_whole(const std::string& prefix,
                                             const OnListed& on_listed) override {
    const std::string path =
        connection_->bucket_path() +
        "/o?fields=kind,nextPageToken,items(name,size)&maxResults=1000&prefix=" +
        percent_encode(askable(prefix));
    std::vector<ObjectInfo> found;
    std::string token;
    for (int64_t pages = 0; pages < pages_max_; ++pages) {
      const std::string next = token.empty() ? "" : "&pageToken=" + percent_encode(token);
      ASSIGN_OR_RETURN(const HttpAnswer answer, connection_->send({.path = path + next}));
      if (answer.status != 200) return connection_->error_of(answer, kGcsList);
      const std::optional<GcsPage> page = parse_gcs_page(answer.body);
      if (!page) return connection_->not_a_store(answer);
      for (const GcsObject& object : page->objects) {
        if (object.name.starts_with(prefix)) found.push_back({object.name, object.size_bytes});
      }
      if (on_listed) on_listed(std::ssize(page->objects));
      if (page->next.empty()) {
        std::sort(found.begin(), found.end(),
                  [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
        return found;
      }
      if (page->next == token) break;
      token = page->next;
    }
    return endless_listing(prefix);
  }

  Status remove(const std::string& name) override {
    return remove_all(std::span<const std::string>(&name, 1));
  }

  Status remove_all(std::span<const std::string> names) override {
    Status first;
    std::vector<CloudRequest> requests;
    std::vector<std::string> sent;
    for (const std::string& name : names) {
      const Status legal = check_object_name(name);
      if (first && !legal) first = legal;
      if (!legal) continue;
      requests.push_back(
          connection_->request({.method = "DELETE", .path = connection_->object_path(name)}));
      sent.push_back(name);
    }
    const std::vector<Result<HttpAnswer>> answers = connection_->transport().send_all(requests);
    for (size_t i = 0; i < sent.size(); ++i) {
      const Status removed =
          answers[i] ? removed_by(*answers[i], sent[i]) : Status(answers[i].error());
      if (first && !removed) first = removed;
    }
    return first;
  }

  Status make_bucket() override {
    if (project_.empty()) {
      return fail(Code::invalid, fmt::format("a bucket belongs to a project, and none is known; "
                                             "set GOOGLE_CLOUD_PROJECT to make gs://{}",
                                             connection_->bucket()));
    }
    const std::string body =
        Json{{"name", connection_->bucket()},
             {"iamConfiguration", {{"uniformBucketLevelAccess", {{"enabled", true}}}}}}
            .dump();
    ASSIGN_OR_RETURN(const HttpAnswer made,
                     connection_->send({.method = "POST",
                                        .path = "/storage/v1/b?project=" + percent_encode(project_),
                                        .headers = {{"Content-Type", "application/json"}},
                                        .body = body}));
    if (made.status == 200 || made.status == 201) {
      const std::optional<Json> json = parse_small_json(made.body);
      if (!json || text_member(*json, "name").empty()) return connection_->not_a_store(made);
      return {};
    }
    if (made.status != 409) return connection_->error_of(made, kGcsMakeBucket);
    // Names of buckets are one for the whole world: it is there, but is it ours?
    ASSIGN_OR_RETURN(
        const HttpAnswer seen,
        connection_->send({.path = connection_->bucket_path() + "/o?maxResults=1&fields=kind"}));
    if (seen.status == 200) return {};
    return fail(Code::permission_denied,
                fmt::format("the name gs://{} is taken, and we may not list what is there ({}); "
                            "choose another name",
                            connection_->bucket(), seen.status));
  }

  Result<std::string> credentials() override { return connection_->credentials().description(); }

 private:
  Status removed_by(const HttpAnswer& answer, const std::string& name) {
    if (answer.status == 204 || answer.status == 200) return {};
    if (answer.status == 404 && !is_bucket_absent(answer) && !is_web_page(answer)) return {};
    return connection_->error_of(answer, kGcsRemove, name);
  }

  const std::unique_ptr<GcsConnection> connection_;
  const std::string project_;
  const int64_t pages_max_;
  GcsReader reader_;
  GcsUploader uploader_;
};

std::string endpoint_of(std::string emulator) {
  if (emulator.empty()) return "https://storage.googleapis.com";
  if (emulator.find("://") == std::string::npos) emulator = "http://" + emulator;
  while (emulator.ends_with('/')) emulator.pop_back();
  return emulator;
}

}  // namespace

Result<std::unique_ptr<Bucket>> open_gcs(const StoreAddress& address,
                                         const CloudSurroundings& surroundings,
                                         CloudTransport& transport, const BucketOptions& options) {
  const auto variable = [&](const char* name) {
    return surroundings.variable ? surroundings.variable(name).value_or("") : std::string();
  };
  ASSIGN_OR_RETURN(GoogleIdentity identity, find_google_identity(surroundings));
  const std::string emulator = variable("STORAGE_EMULATOR_HOST");
  const std::string endpoint = endpoint_of(emulator);
  if (identity.kind != GoogleIdentity::Kind::anonymous && !is_safe_for_secrets(endpoint)) {
    return fail(Code::failed_precondition,
                fmt::format("a token of Google's is not sent to {} in the clear; use an https:// "
                            "address in STORAGE_EMULATOR_HOST, or unset "
                            "GOOGLE_APPLICATION_CREDENTIALS to go there without one",
                            shown_url(endpoint)));
  }
  std::string project = variable("GOOGLE_CLOUD_PROJECT");
  if (project.empty()) project = identity.project;
  if (project.empty() && !emulator.empty()) project = "emulator";
  auto credentials = std::make_unique<GoogleCredentials>(
      std::move(identity), surroundings.certificates, transport.clock());
  auto connection =
      std::make_unique<GcsConnection>(endpoint, address.bucket, std::move(credentials), transport);
  return std::make_unique<GcsStore>(std::move(connection), project, options);
}

}  // namespace tern
