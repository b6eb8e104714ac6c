#include "cloud/azure_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "cloud/azure_client.h"
#include "cloud/azure_errors.h"
#include "cloud/azure_list.h"
#include "cloud/azure_name.h"
#include "cloud/azure_reader.h"
#include "cloud/azure_writer.h"
#include "cloud/endless_listing.h"
#include "cloud/whole_list.h"

namespace tern {
namespace {

constexpr int64_t kPagesMax = 20'000;  // of 5000 each: a hundred million objects

// One container. Owns its credentials; the transport outlives it. Safe from any thread.
class AzureStore final : public Bucket, public WholeList {
 public:
  AzureStore(const StoreAddress& address, std::unique_ptr<AzureCredentials> credentials,
             CloudTransport& transport, const BucketOptions& options)
      : client_(address, std::move(credentials), transport),
        reader_(client_, options),
        writer_(client_, reader_, options) {}

  Result<Bytes> get(const std::string& name) override {
    return reader_.read(name, 0, std::numeric_limits<int64_t>::max());
  }
  Result<Bytes> get_range(const std::string& name, int64_t offset, int64_t length) override {
    return reader_.read(name, offset, length);
  }
  std::vector<Result<Bytes>> get_ranges(std::span<const ObjectRange> ranges) override {
    return reader_.read_all(ranges);
  }
  Status put(const std::string& name, BytesView bytes) override {
    return writer_.write(name, bytes, AzureWriter::Mode::replace);
  }
  Status create(const std::string& name, BytesView bytes) override {
    return writer_.write(name, bytes, AzureWriter::Mode::create);
  }
  Result<ObjectInfo> stat(const std::string& name) override { return reader_.stat(name); }
  Result<std::vector<ObjectInfo>> list(const std::string& prefix) override {
    return keep_our_names(list_whole(prefix, {}));
  }
  Result<std::vector<ObjectInfo>> list_whole(const std::string& prefix,
                                             const OnListed& on_listed) override;
  Status remove(const std::string& name) override { return remove_all({&name, 1}); }
  Status remove_all(std::span<const std::string> names) override;

  Status make_bucket() override;
  Result<std::string> credentials() override;

 private:
  Result<AzurePage> list_page(const std::string& prefix, const std::string& marker);

  AzureClient client_;
  AzureReader reader_;
  AzureWriter writer_;
};

Result<AzurePage> AzureStore::list_page(const std::string& prefix, const std::string& marker) {
  AzureRequest request{
      .doing = "list",
      .query = {{"restype", "container"}, {"comp", "list"}, {"maxresults", "5000"}}};
  if (!prefix.empty()) request.query.emplace_back("prefix", prefix);
  if (!marker.empty()) request.query.emplace_back("marker", marker);
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(request));
  if (answer.status != 200) return client_.error_of(request.doing, answer);
  return parse_azure_page(answer.body).at("list " + client_.credentials().endpoint());
}

Result<std::vector<ObjectInfo>> AzureStore::list_whole(const std::string& prefix,
                                                       const OnListed& on_listed) {
  std::vector<ObjectInfo> all;
  const bool may_begin_a_name = prefix.empty() ||
                                static_cast<unsigned char>(prefix.back()) >= 0x80 ||
                                check_object_name(prefix) || check_object_name(prefix + "x");
  if (!may_begin_a_name) return all;
  const std::string asked = to_azure_prefix(prefix);  // may find more
  std::string marker;
  for (int64_t pages = 0; pages < kPagesMax; ++pages) {
    ASSIGN_OR_RETURN(AzurePage page, list_page(asked, marker));
    for (ObjectInfo& info : page.objects) {
      if (info.name.starts_with(prefix)) all.push_back(std::move(info));
    }
    if (on_listed) on_listed(std::ssize(page.objects));
    if (page.next.empty()) {
      // Azure's order is not that of bytes.
      std::sort(all.begin(), all.end(),
                [](const ObjectInfo& a, const ObjectInfo& b) { return a.name < b.name; });
      return all;
    }
    if (page.next == marker) break;
    marker = page.next;
  }
  return endless_listing(prefix);
}

Status AzureStore::remove_all(std::span<const std::string> names) {
  Status first;
  std::vector<CloudRequest> requests;
  for (const std::string& name : names) {
    const Status checked = check_object_name(name);
    if (first && !checked) first = checked;
    if (!checked) continue;
    requests.push_back(client_.prepare([&name] {
      return AzureRequest{.doing = fmt::format("remove '{}'", name),
                          .method = "DELETE",
                          .name = name,
                          .headers = {{"x-ms-delete-snapshots", "include"}}};
    }));
  }
  const std::string doing = names.size() == 1 ? fmt::format("remove '{}'", names[0])
                                              : fmt::format("remove {} objects", names.size());
  for (const Result<HttpAnswer>& answer : client_.send_all(requests, doing)) {
    if (!first) break;
    if (!answer) {
      first = answer.error();
      continue;
    }
    const int status = answer->status;
    const bool is_absent = status == 404 && azure_error_code(*answer) != "ContainerNotFound";
    if (status != 202 && !is_absent) first = client_.error_of(doing, *answer);
  }
  return first;
}

Status AzureStore::make_bucket() {
  const AzureRequest request{
      .doing = "make the container", .method = "PUT", .query = {{"restype", "container"}}};
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(request));
  if (answer.status == 201) return {};
  if (azure_error_code(answer) == "ContainerAlreadyExists") return {};
  return client_.error_of(request.doing, answer);
}

Result<std::string> AzureStore::credentials() {
  HttpRequest probe{.url = client_.credentials().endpoint()};
  RETURN_IF_ERROR(client_.credentials().authorize(probe, /*refresh=*/false));
  return client_.credentials().shown();
}

}  // namespace

Result<std::unique_ptr<Bucket>> open_azure(const StoreAddress& address,
                                           const CloudSurroundings& surroundings,
                                           CloudTransport& transport,
                                           const BucketOptions& options) {
  ASSIGN_OR_RETURN(auto credentials,
                   AzureCredentials::find(address.account, surroundings, transport.clock()));
  return std::make_unique<AzureStore>(address, std::move(credentials), transport, options);
}

}  // namespace tern
