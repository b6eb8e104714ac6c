#include "cloud/s3_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "cloud/endless_listing.h"
#include "cloud/s3_client.h"
#include "cloud/s3_list.h"
#include "cloud/s3_read.h"
#include "cloud/s3_write.h"
#include "cloud/whole_list.h"
#include "core/crypto.h"

namespace tern {
namespace {

constexpr size_t kRemovalMax = 1000;  // names in one DeleteObjects

// A bucket's name becomes part of a host's name and of messages.
Status check_bucket_name(const std::string& bucket) {
  const bool plain = std::all_of(bucket.begin(), bucket.end(), [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  });
  if (plain && bucket.size() >= 3 && bucket.size() <= 63) return {};
  return fail(Code::invalid,
              "that cannot be the name of an S3 bucket: 3 to 63 lower-case letters, "
              "digits, '-' and '.'; use an address like s3://my-bucket/runs");
}

// Owned by whoever opened it. Its parts borrow the client, which comes first.
class S3Bucket final : public Bucket, public WholeList {
 public:
  S3Bucket(S3Place place, std::unique_ptr<AwsCredentials> credentials, CloudTransport& transport,
           const BucketOptions& options)
      : pages_max_(options.pages_max),
        client_(std::move(place), std::move(credentials), transport),
        reader_(client_, options),
        writer_(client_, reader_, options) {}

  Result<Bytes> get(const std::string& name) override { return get_range(name, 0, INT64_MAX); }

  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    RETURN_IF_ERROR(check_object_name(name));
    return reader_.get_range(name, offset, length);
  }

  Result<int64_t> get_range_to(const std::string& name, int64_t offset, int64_t length,
                               const RangeSink& sink) override {
    RETURN_IF_ERROR(check_object_name(name));
    return reader_.get_range_to(name, offset, length, sink);
  }

  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges) override {
    const auto is_legal = [](const ObjectRange& range) {
      return check_object_name(range.name).has_value();
    };
    // One by one where a name is bad, as each then needs its own answer.
    if (!std::all_of(ranges.begin(), ranges.end(), is_legal)) return Bucket::get_ranges(ranges);
    return reader_.get_ranges(ranges);
  }

  Status put(const std::string& name, BytesView bytes) override {
    RETURN_IF_ERROR(check_object_name(name));
    return writer_.write(name, bytes, S3WriteMode::replace);
  }

  Status create(const std::string& name, BytesView bytes) override {
    RETURN_IF_ERROR(check_object_name(name));
    return writer_.write(name, bytes, S3WriteMode::create_only);
  }

  Result<ObjectInfo> stat(const std::string& name) override {
    RETURN_IF_ERROR(check_object_name(name));
    return reader_.stat(name);
  }

  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return keep_our_names(list_whole(prefix, {}));
  }
  Result<std::vector<ObjectInfo>> list_whole(const std::string& prefix,
                                             const OnListed& on_listed) override;
  Status remove(const std::string& name) override;
  Status remove_all(std::span<const std::string> names) override;
  Status make_bucket() override;
  Result<std::vector<OpenUpload>> list_uploads(const std::string& prefix) override;
  Status abort_uploads(std::span<const OpenUpload> uploads) override;

  Result<std::string> credentials() override {
    ASSIGN_OR_RETURN(const std::string keys, client_.credentials().describe());
    const S3Place place = client_.place();
    return fmt::format("{}; region {}; endpoint {}", keys, place.region,
                       place.endpoint.empty() ? "AWS" : place.endpoint);
  }

 private:
  Result<HttpAnswer> ask(S3Request request, const S3Deed& deed);
  // A listing that cannot be read is some other server's.
  Error unreadable(const Error& problem);
  Status remove_some(std::span<const std::string> names);
  Status remove_one_by_one(std::span<const std::string> names);

  const int64_t pages_max_;
  S3Client client_;
  S3Reader reader_;
  S3Writer writer_;
};

// The answer, if it is a success.
Result<HttpAnswer> S3Bucket::ask(S3Request request, const S3Deed& deed) {
  const std::string name = request.name;
  ASSIGN_OR_RETURN(HttpAnswer got, client_.send(std::move(request)));
  if (got.status / 100 != 2) return client_.error(got, deed, name);
  return got;
}

Error S3Bucket::unreadable(const Error& problem) {
  return fail(problem.code, fmt::format("{}: {}; check that the endpoint is an object store",
                                        client_.place().shown_endpoint(), problem.message));
}

Result<std::vector<ObjectInfo>> S3Bucket::list_whole(const std::string& prefix,
                                                     const OnListed& on_listed) {
  std::vector<ObjectInfo> all;
  std::string token;
  bool is_whole = false;
  for (int64_t page_number = 0; page_number < pages_max_; ++page_number) {
    S3Query query = {{"list-type", "2"}, {"encoding-type", "url"}};
    if (!prefix.empty()) query.emplace_back("prefix", prefix);
    if (!token.empty()) query.emplace_back("continuation-token", token);
    ASSIGN_OR_RETURN(const HttpAnswer answer, ask({.query = std::move(query)}, kS3List));
    Result<S3ListPage> page = parse_s3_list(answer.body);
    if (!page) return unreadable(page.error());
    std::move(page->objects.begin(), page->objects.end(), std::back_inserter(all));
    if (on_listed) on_listed(std::ssize(page->objects));
    is_whole = page->next.empty();
    if (is_whole || page->next == token) break;
    token = page->next;
  }
  if (!is_whole) return endless_listing(prefix);
  // AWS's order is this one already, but for directory buckets and some other stores. Some ignore
  // a prefix that no name of theirs can have.
  std::erase_if(all, [&](const ObjectInfo& info) { return !info.name.starts_with(prefix); });
  const auto by_name = [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; };
  if (!std::is_sorted(all.begin(), all.end(), by_name)) std::sort(all.begin(), all.end(), by_name);
  const auto same_name = [](const ObjectInfo& a, const ObjectInfo& b) { return a.name == b.name; };
  all.erase(std::unique(all.begin(), all.end(), same_name), all.end());
  return all;
}

Status S3Bucket::remove(const std::string& name) {
  RETURN_IF_ERROR(check_object_name(name));
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send({.method = "DELETE", .name = name}));
  const bool is_gone =
      answer.status == 404 && (answer.body.empty() || read_s3_problem(answer).code == "NoSuchKey");
  if (is_gone || answer.status / 100 == 2) return {};
  return client_.error(answer, kS3Remove, name);
}

Status S3Bucket::remove_all(std::span<const std::string> names) {
  Status first;
  const auto keep_first = [&](Status status) {
    if (first && !status) first = std::move(status);
  };
  std::vector<std::string> legal;
  for (const std::string& name : names) {
    Status checked = check_object_name(name);
    if (checked) legal.push_back(name);
    keep_first(std::move(checked));
  }
  for (size_t at = 0; at < legal.size(); at += kRemovalMax) {
    keep_first(remove_some(std::span(legal).subspan(at, std::min(kRemovalMax, legal.size() - at))));
  }
  return first;
}

Status S3Bucket::remove_some(std::span<const std::string> names) {
  if (names.size() == 1) return remove(names.front());
  const std::string body = delete_objects_xml(names);
  S3Request request{
      .method = "POST",
      .query = {{"delete", ""}},
      .headers = {{"Content-MD5", base64(md5(body))}, {"Content-Type", "application/xml"}},
      .body = body};
  ASSIGN_OR_RETURN(const HttpAnswer got, client_.send(std::move(request)));
  // Some stores have no such request; AWS's own has.
  if (got.status == 501 || got.status == 405) return remove_one_by_one(names);
  if (got.status / 100 != 2) return client_.error(got, kS3Remove);
  const Result<std::vector<std::string>> failed = parse_s3_removal(got.body);
  if (!failed) return unreadable(failed.error());
  // Alone, each is tried again where that may help, and says why it fails.
  return remove_one_by_one(*failed);
}

Status S3Bucket::remove_one_by_one(std::span<const std::string> names) {
  Status first;
  for (const std::string& name : names) {
    Status removed = remove(name);
    if (first && !removed) first = std::move(removed);
  }
  return first;
}

Status S3Bucket::make_bucket() {
  const std::string region = client_.place().region;
  std::string body;
  if (region != "us-east-1") {
    body = fmt::format(
        "<CreateBucketConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/"
        "\"><LocationConstraint>{}</LocationConstraint></CreateBucketConfiguration>",
        region);
  }
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send({.method = "PUT", .body = body}));
  if (answer.status / 100 == 2) return {};
  const std::string code = read_s3_problem(answer).code;
  if (code == "BucketAlreadyOwnedByYou") return {};
  if (code != "BucketAlreadyExists") return client_.error(answer, kS3MakeBucket);
  // Ours too, where a store does not tell the difference, if we may look inside.
  const S3Query query = {{"list-type", "2"}, {"max-keys", "1"}};
  if (ask({.query = query}, kS3List)) return {};
  return client_.error(answer, kS3MakeBucket);
}

Result<std::vector<OpenUpload>> S3Bucket::list_uploads(const std::string& prefix) {
  std::vector<OpenUpload> all;
  S3UploadPage page;
  bool is_whole = false;
  for (int64_t page_number = 0; page_number < pages_max_; ++page_number) {
    S3Query query = {{"uploads", ""}, {"encoding-type", "url"}};
    if (!prefix.empty()) query.emplace_back("prefix", prefix);
    if (!page.next_name.empty()) query.emplace_back("key-marker", page.next_name);
    if (!page.next_id.empty()) query.emplace_back("upload-id-marker", page.next_id);
    ASSIGN_OR_RETURN(const HttpAnswer answer, ask({.query = std::move(query)}, kS3Uploads));
    Result<S3UploadPage> next = parse_s3_uploads(answer.body);
    if (!next) return unreadable(next.error());
    const bool stands = next->next_name == page.next_name && next->next_id == page.next_id;
    page = std::move(next).value();
    std::move(page.uploads.begin(), page.uploads.end(), std::back_inserter(all));
    is_whole = page.next_name.empty();
    if (is_whole || stands) break;
  }
  if (!is_whole) return endless_listing(prefix);
  // As with list(): not every store obeys a prefix.
  std::erase_if(all, [&](const OpenUpload& each) { return !each.name.starts_with(prefix); });
  return all;
}

Status S3Bucket::abort_uploads(std::span<const OpenUpload> uploads) {
  std::vector<S3Request> requests;
  for (const OpenUpload& upload : uploads) {
    requests.push_back(
        {.method = "DELETE", .name = upload.name, .query = {{"uploadId", upload.id}}});
  }
  Status first;
  for (const Result<HttpAnswer>& got : client_.send_all(std::move(requests))) {
    const bool is_done =
        got && (got->status / 100 == 2 || read_s3_problem(*got).code == "NoSuchUpload");
    if (is_done || !first) continue;
    first = got ? client_.error(*got, kS3Uploads) : got.error();
  }
  return first;
}

}  // namespace

Result<std::unique_ptr<Bucket>> open_s3(const StoreAddress& address,
                                        const CloudSurroundings& surroundings,
                                        CloudTransport& transport, const BucketOptions& options) {
  RETURN_IF_ERROR(check_bucket_name(address.bucket));
  ASSIGN_OR_RETURN(const AwsProfile profile, read_aws_profile(surroundings));
  ASSIGN_OR_RETURN(S3Place place, find_s3_place(address.bucket, surroundings, profile));
  ASSIGN_OR_RETURN(std::unique_ptr<AwsCredentials> credentials,
                   AwsCredentials::find(surroundings, transport.clock()));
  return std::make_unique<S3Bucket>(std::move(place), std::move(credentials), transport, options);
}

}  // namespace tern
