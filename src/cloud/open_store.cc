#include "cloud/open_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "cloud/azure_store.h"
#include "cloud/gcs_store.h"
#include "cloud/s3_store.h"
#include "core/mutex.h"
#include "storage/disk_store.h"
#include "storage/file_door.h"
#include "storage/prefix_store.h"

namespace tern {
namespace {

using Kind = StoreAddress::Kind;

constexpr std::string_view kFileScheme = "file://";
constexpr std::string_view kForms =
    "write s3://bucket/prefix, gs://bucket/prefix, az://account/container/prefix, "
    "file:///absolute/path or a plain path";
constexpr std::string_view kBucketForms =
    "write s3://bucket/prefix, gs://bucket/prefix or az://account/container/prefix";

struct Scheme {
  std::string_view text;
  Kind kind;
};
constexpr Scheme kSchemes[] = {{"s3://", Kind::s3}, {"gs://", Kind::gcs}, {"az://", Kind::azure}};

const Scheme* scheme_of(std::string_view text) {
  const auto found = std::ranges::find_if(
      kSchemes, [text](const Scheme& scheme) { return text.starts_with(scheme.text); });
  return found == std::end(kSchemes) ? nullptr : found;
}

std::string trim_slashes(std::string_view text) {
  while (text.starts_with('/')) text.remove_prefix(1);
  while (text.ends_with('/')) text.remove_suffix(1);
  return std::string(text);
}

// Takes what is before the first slash off `rest`.
std::string take_part(std::string_view& rest) {
  const size_t slash = std::min(rest.find('/'), rest.size());
  const std::string part(rest.substr(0, slash));
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

// What a name in an address may be made of. The clouds' own rules are finer; a name that they
// refuse is answered by them.
Status check_name(const std::string& text, std::string_view what, const std::string& name,
                  std::string_view more, size_t max) {
  const auto is_allowed = [more](char c) {
    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           more.find(c) != std::string_view::npos;
  };
  if (name.empty())
    return fail(Code::invalid, fmt::format("{} names no {}; {}", text, what, kForms));
  if (name.size() >= 3 && name.size() <= max && std::ranges::all_of(name, is_allowed)) return {};
  return fail(Code::invalid,
              fmt::format("'{}' in {} is no name of a {}, which has 3 to {} small letters, digits "
                          "and dashes; check its spelling",
                          name, text, what, max));
}

Status check_names(const std::string& text, const StoreAddress& address) {
  switch (address.kind) {
    case Kind::disk: return {};
    // Servers of others and old buckets of Amazon's have more letters.
    case Kind::s3:
      return check_name(text, "bucket", address.bucket, "._ABCDEFGHIJKLMNOPQRSTUVWXYZ", 255);
    case Kind::gcs: return check_name(text, "bucket", address.bucket, "._", 222);
    case Kind::azure:
      RETURN_IF_ERROR(check_name(text, "account", address.account, "", 24));
      return check_name(text, "container", address.bucket, "$", 63);
  }
  return {};
}

Result<StoreAddress> parse_path(const std::string& text) {
  if (text.starts_with(kFileScheme)) {
    std::string path = text.substr(kFileScheme.size());
    if (path.size() > 1 && path.front() == '/') return StoreAddress{.prefix = std::move(path)};
    return fail(
        Code::invalid,
        fmt::format("{} names no folder; write file:///absolute/path or a plain path", text));
  }
  if (text.find("://") != std::string::npos) {
    return fail(Code::invalid, fmt::format("{} is no address of a store; {}", text, kForms));
  }
  if (text.empty()) return fail(Code::invalid, fmt::format("the address is empty; {}", kForms));
  return StoreAddress{.prefix = text};
}

}  // namespace

std::string StoreAddress::to_string() const {
  const std::string below = prefix.empty() ? "" : "/" + prefix;
  switch (kind) {
    case Kind::disk: return prefix;
    case Kind::s3: return "s3://" + bucket + below;
    case Kind::gcs: return "gs://" + bucket + below;
    case Kind::azure: return "az://" + account + "/" + bucket + below;
  }
  return prefix;
}

bool is_cloud_address(std::string_view text) { return scheme_of(text) != nullptr; }

Result<StoreAddress> parse_store_address(const std::string& text) {
  const Scheme* scheme = scheme_of(text);
  if (scheme == nullptr) return parse_path(text);
  StoreAddress address{.kind = scheme->kind};
  std::string_view rest = std::string_view(text).substr(scheme->text.size());
  if (address.kind == Kind::azure) address.account = take_part(rest);
  address.bucket = take_part(rest);
  address.prefix = trim_slashes(rest);
  RETURN_IF_ERROR(check_names(text, address));
  if (!address.prefix.empty()) RETURN_IF_ERROR(check_object_name(address.prefix).at(text));
  return address;
}

struct CloudDoor::Inside {
  // Constant after construction.
  CloudSurroundings surroundings;
  Clock& clock;
  const HttpOptions http_options;
  const RetryPolicy retry;
  const BucketOptions options;

  RealFileDoor files;  // has no state

  Mutex mutex;
  std::unique_ptr<HttpClient> http GUARDED_BY(mutex);
  // One for each service that may ask us to slow down; after the client, which they use.
  std::map<std::string, std::unique_ptr<CloudTransport>> transports GUARDED_BY(mutex);

  Result<CloudTransport*> transport_to(const StoreAddress& address) EXCLUDES(mutex) {
    MutexLock lock(mutex);
    if (http == nullptr) {
      ASSIGN_OR_RETURN(http, HttpClient::create(http_options));
    }
    std::unique_ptr<CloudTransport>& found =
        transports[fmt::format("{} {}", static_cast<int>(address.kind), address.account)];
    if (found == nullptr) {
      found = std::make_unique<CloudTransport>(*http, clock, retry, options.in_flight_max,
                                               surroundings.tell, options.on_sent);
    }
    return found.get();
  }
};

CloudDoor::CloudDoor(CloudSurroundings surroundings, Clock& clock, const HttpOptions& http,
                     const RetryPolicy& retry, const BucketOptions& options) {
  HttpOptions client = http;
  if (client.certificates.empty()) client.certificates = surroundings.certificates;
  client.connections_max = std::max(client.connections_max, options.in_flight_max);
  if (!surroundings.variable) {
    surroundings.variable = [](const std::string&) { return std::optional<std::string>(); };
  }
  inside_.reset(new Inside{.surroundings = std::move(surroundings),
                           .clock = clock,
                           .http_options = client,
                           .retry = retry,
                           .options = options});
}

CloudDoor::~CloudDoor() = default;

Result<std::unique_ptr<Bucket>> CloudDoor::open_bucket(const StoreAddress& address) {
  if (address.is_folder()) {
    return fail(Code::invalid, fmt::format("{} is a path of this machine, not a bucket; {}",
                                           address.prefix, kBucketForms));
  }
  ASSIGN_OR_RETURN(CloudTransport * transport, inside_->transport_to(address));
  const CloudSurroundings& around = inside_->surroundings;
  switch (address.kind) {
    case Kind::disk: break;
    case Kind::s3: return open_s3(address, around, *transport, inside_->options);
    case Kind::gcs: return open_gcs(address, around, *transport, inside_->options);
    case Kind::azure: return open_azure(address, around, *transport, inside_->options);
  }
  return fail(Code::internal, "an address of no kind");
}

Result<std::unique_ptr<ObjectStore>> CloudDoor::open(const StoreAddress& address) {
  if (address.is_folder()) {
    ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> disk,
                     DiskStore::open(address.prefix, inside_->files));
    return disk;
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ObjectStore> bucket, open_bucket(address));
  if (address.prefix.empty()) return bucket;
  return std::make_unique<PrefixStore>(std::move(bucket), address.prefix);
}

}  // namespace tern
