#include "cuda/nccl.h"

#include <dlfcn.h>

#include <cstring>

namespace tern {
namespace {

constexpr int kSuccess = 0;
constexpr int kSystemError = 2;
constexpr int kInvalidUsage = 5;
constexpr int kRemoteError = 6;
constexpr int kInProgress = 7;

}  // namespace

Result<std::shared_ptr<const Nccl>> Nccl::open(const std::string& library) {
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) {
    const char* message = dlerror();
    return fail(Code::not_found,
                std::string("NCCL could not be loaded: ") +
                    (message == nullptr ? "no reason given" : message) +
                    ". Ranks on GPUs need libnccl.so.2, which `pip install torch==2.11.0` brings "
                    "along: point TERN_LIBTORCH at one, or train with one rank.");
  }
  Functions functions{};
  const auto look_up = [handle](const char* name, auto& function) {
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(handle, name));
    return function != nullptr;
  };
  if (!look_up("ncclGetVersion", functions.get_version) ||
      !look_up("ncclGetUniqueId", functions.get_id) ||
      !look_up("ncclCommInitRank", functions.init) ||
      !look_up("ncclAllReduce", functions.all_reduce) ||
      !look_up("ncclBroadcast", functions.broadcast) ||
      !look_up("ncclCommGetAsyncError", functions.get_async_error) ||
      !look_up("ncclCommAbort", functions.abort) ||
      !look_up("ncclCommDestroy", functions.destroy) ||
      !look_up("ncclGetErrorString", functions.error_text)) {
    return fail(Code::failed_precondition, library +
                                               " lacks a function of NCCL 2; install the one "
                                               "that belongs to LibTorch 2.11.0");
  }
  return std::shared_ptr<const Nccl>(new Nccl(functions));
}

Result<Bytes> Nccl::make_id() const {
  NcclId id{};
  RETURN_IF_ERROR(status_of(functions_.get_id(&id), "begin a group of GPUs"));
  return Bytes(id.bytes, sizeof(id.bytes));
}

int Nccl::version() const {
  int version = 0;
  functions_.get_version(&version);
  return version;
}

Status Nccl::status_of(int error, const char* doing) const {
  if (error == kSuccess || error == kInProgress) return {};
  const std::string words = std::string(doing) + ": " + functions_.error_text(error) +
                            " (NCCL error " + std::to_string(error) + ")";
  switch (error) {
    case kSystemError:
    case kRemoteError: return fail(Code::unavailable, words);
    case kInvalidUsage:
      return fail(
          Code::failed_precondition,
          words + ". Each rank needs a GPU of its own: start no more ranks than there are.");
    default: return fail(Code::internal, words + ". NCCL_DEBUG=INFO makes NCCL say more.");
  }
}

Result<std::unique_ptr<NcclGroup>> NcclGroup::join(std::shared_ptr<const Nccl> nccl,
                                                   const Bytes& id, int rank, int world) {
  NcclId name{};
  if (id.size() != sizeof(name.bytes)) {
    return fail(Code::corrupt, "the name of a group of GPUs was cut off");
  }
  std::memcpy(name.bytes, id.data(), sizeof(name.bytes));
  NcclComm comm = nullptr;
  RETURN_IF_ERROR(
      nccl->status_of(nccl->functions_.init(&comm, world, name, rank), "join a group of GPUs"));
  return std::unique_ptr<NcclGroup>(new NcclGroup(std::move(nccl), comm));
}

NcclGroup::~NcclGroup() {
  if (comm_ != nullptr) nccl_->functions_.destroy(comm_);
}

Status NcclGroup::all_reduce(void* data, size_t count, NcclType type, NcclReduction reduction,
                             void* stream) {
  if (comm_ == nullptr) return fail(Code::unavailable, "the group of GPUs is over");
  return nccl_->status_of(nccl_->functions_.all_reduce(data, data, count, static_cast<int>(type),
                                                       static_cast<int>(reduction), comm_, stream),
                          "add up over GPUs");
}

Status NcclGroup::broadcast(void* data, size_t count, NcclType type, int root, void* stream) {
  if (comm_ == nullptr) return fail(Code::unavailable, "the group of GPUs is over");
  return nccl_->status_of(
      nccl_->functions_.broadcast(data, data, count, static_cast<int>(type), root, comm_, stream),
      "send to other GPUs");
}

Status NcclGroup::problem() const {
  if (comm_ == nullptr) return fail(Code::unavailable, "the group of GPUs is over");
  int error = kSuccess;
  RETURN_IF_ERROR(nccl_->status_of(nccl_->functions_.get_async_error(comm_, &error),
                                   "ask how the group of GPUs is"));
  return nccl_->status_of(error, "in the group of GPUs");
}

void NcclGroup::give_up() {
  if (comm_ == nullptr) return;
  nccl_->functions_.abort(comm_);
  comm_ = nullptr;
}

}  // namespace tern
