#include "cloud/azure_writer.h"

#include <fmt/format.h>

#include <algorithm>

#include "cloud/azure_errors.h"
#include "core/crypto.h"
#include "core/token.h"

namespace tern {
namespace {

constexpr int64_t kBlocksMax = 50'000;
constexpr int kUploadAttempts = 3;
constexpr char kContentType[] = "application/octet-stream";

std::string writing(const std::string& name) { return fmt::format("write '{}'", name); }

Error taken(const std::string& name) {
  return fail(Code::already_exists,
              fmt::format("object '{}' exists already; read it instead", name));
}

bool says_taken(const HttpAnswer& answer) {
  const std::string code = azure_error_code(answer);
  return answer.status == 412 || code == "BlobAlreadyExists" || code == "UnauthorizedBlobOverwrite";
}

// By its place and its bytes: whoever writes the same name at the same time, a block is never
// another's under the same id. All ids of an object must be equally long.
std::string block_id(size_t place, const Bytes& digest) {
  return base64(fmt::format("{:08}", place) + digest);
}

}  // namespace

AzureWriter::AzureWriter(AzureClient& client, AzureReader& reader, const BucketOptions& options)
    : client_(client), reader_(reader), options_(options) {}

Status AzureWriter::write(const std::string& name, BytesView bytes, Mode mode) {
  RETURN_IF_ERROR(check_object_name(name));
  ASSIGN_OR_RETURN(std::string nonce, random_token());
  const Write write{name, bytes, mode, std::move(nonce)};
  const bool is_small = static_cast<int64_t>(bytes.size()) <= 2 * options_.part_bytes;
  return is_small ? write_whole(write) : write_blocks(write);
}

void AzureWriter::add_condition(AzureRequest& request, const Write& write) {
  if (write.mode != Mode::create) return;
  request.headers.push_back({"If-None-Match", "*"});
  request.headers.push_back({std::string("x-ms-meta-") + kNonceName, write.nonce});
}

Result<Writer> AzureWriter::writer_of_what_is_there(const Write& write) {
  return writer_by(reader_.nonce_of(write.name), write.nonce);
}

Status AzureWriter::refused(const Write& write, const HttpAnswer& answer) {
  if (write.mode == Mode::replace || !says_taken(answer)) {
    return client_.error_of(writing(write.name), answer);
  }
  ASSIGN_OR_RETURN(const Writer writer, writer_of_what_is_there(write));
  return writer == Writer::us ? Status() : taken(write.name);
}

Status AzureWriter::write_whole(const Write& write) {
  AzureRequest request{.doing = writing(write.name),
                       .method = "PUT",
                       .name = write.name,
                       .headers = {{"Content-Type", kContentType},
                                   {"Content-MD5", base64(md5(write.bytes))},
                                   {"x-ms-blob-type", "BlockBlob"}},
                       .body = write.bytes};
  add_condition(request, write);
  ASSIGN_OR_RETURN(const HttpAnswer answer, client_.send(request));
  return answer.status == 201 ? Status() : refused(write, answer);
}

Result<std::vector<std::string>> AzureWriter::stage(const std::string& name, BytesView bytes) {
  const size_t least = (bytes.size() + kBlocksMax - 1) / kBlocksMax;
  const size_t block = std::max(static_cast<size_t>(options_.part_bytes), least);
  std::vector<std::string> digests((bytes.size() + block - 1) / block);
  std::vector<CloudRequest> requests;
  for (size_t i = 0; i < digests.size(); ++i) {
    // The checksum is calculated when its turn comes, while other blocks are on their way.
    requests.push_back(
        client_.prepare([&name, &digest = digests[i], i, body = bytes.substr(i * block, block)] {
          if (digest.empty()) digest = md5(body);
          return AzureRequest{
              .doing = writing(name),
              .method = "PUT",
              .name = name,
              .query = {{"comp", "block"}, {"blockid", block_id(i, digest)}},
              .headers = {{"Content-Type", kContentType}, {"Content-MD5", base64(digest)}},
              .body = body};
        }));
  }
  std::vector<std::string> ids;
  RETURN_IF_ERROR(client_.send_parts(requests, writing(name), wave_of(options_),
                                     [&](size_t i, const HttpAnswer& answer) -> Status {
                                       if (answer.status != 201) {
                                         return client_.error_of(writing(name), answer);
                                       }
                                       ids.push_back(block_id(i, digests[i]));
                                       return {};
                                     }));
  return ids;
}

Result<HttpAnswer> AzureWriter::commit(const Write& write, const std::vector<std::string>& ids) {
  // Latest, not Uncommitted: asked again after a lost answer, the blocks are committed already.
  std::string list = "<?xml version=\"1.0\" encoding=\"utf-8\"?><BlockList>";
  for (const std::string& id : ids) list += "<Latest>" + id + "</Latest>";
  list += "</BlockList>";
  AzureRequest request{.doing = writing(write.name),
                       .method = "PUT",
                       .name = write.name,
                       .query = {{"comp", "blocklist"}},
                       .headers = {{"Content-Type", "application/xml"},
                                   {"Content-MD5", base64(md5(list))},
                                   {"x-ms-blob-content-type", kContentType}},
                       .body = list};
  add_condition(request, write);
  return client_.send(request);
}

Status AzureWriter::write_blocks(const Write& write) {
  for (int attempt = 0;; ++attempt) {
    if (write.mode == Mode::create) {  // one question, rather than an upload for nothing
      ASSIGN_OR_RETURN(const Writer writer, writer_of_what_is_there(write));
      if (writer == Writer::us) return {};  // by the commit before
      if (writer == Writer::others) return taken(write.name);
    }
    if (attempt == kUploadAttempts) break;
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, stage(write.name, write.bytes));
    ASSIGN_OR_RETURN(const HttpAnswer answer, commit(write, ids));
    if (answer.status == 201) return {};
    // Who finishes the name first sweeps away the blocks of all others.
    const bool swept = azure_error_code(answer) == "InvalidBlockList";
    if (!swept) return refused(write, answer);
  }
  return fail(Code::unavailable,
              fmt::format("could not write '{}': {} times another writer of the same name finished "
                          "first; let one program write it",
                          write.name, kUploadAttempts));
}

}  // namespace tern
