#include "train/gpu_peers.h"

#include <arpa/inet.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <torch/torch.h>

#include <array>
#include <cstdlib>

#include "train/device.h"
#include "train/rank_store.h"

namespace tern {
namespace {

constexpr char kIdKey[] = "nccl";
// A sum over NVLink takes less than a sleep does.
constexpr int kLooksBeforeSleeping = 2'000;
constexpr std::chrono::microseconds kBetweenLooks{20};

torch::Device gpu() { return torch::Device(kCuda); }

Result<NcclType> type_of(const torch::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case torch::kUInt8: return NcclType::u8;
    case torch::kInt32: return NcclType::i32;
    case torch::kInt64: return NcclType::i64;
    case torch::kHalf: return NcclType::f16;
    case torch::kBFloat16: return NcclType::bf16;
    case torch::kFloat32: return NcclType::f32;
    case torch::kFloat64: return NcclType::f64;
    default:
      return fail(Code::internal, fmt::format("GPUs cannot add up numbers of type {}",
                                              c10::toString(tensor.scalar_type())));
  }
}

// NCCL wants the interface by its name.
std::string interface_of(const std::string& address) {
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return "";
  std::string name;
  for (const ifaddrs* entry = all; entry != nullptr && name.empty(); entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = entry->ifa_addr->sa_family;
    const void* number = nullptr;
    if (family == AF_INET) number = &reinterpret_cast<sockaddr_in*>(entry->ifa_addr)->sin_addr;
    if (family == AF_INET6) number = &reinterpret_cast<sockaddr_in6*>(entry->ifa_addr)->sin6_addr;
    if (number == nullptr) continue;
    if (inet_ntop(family, number, text.data(), text.size()) == nullptr) continue;
    if (address == text.data()) name = entry->ifa_name;
  }
  freeifaddrs(all);
  return name;
}

Result<Bytes> agree_on_id(const Nccl& nccl, const Collectives::Setup& setup) {
  if (setup.rank > 0) {
    const std::vector<uint8_t> id = setup.store->store->get(kIdKey);
    return Bytes(id.begin(), id.end());
  }
  ASSIGN_OR_RETURN(const Bytes id, nccl.make_id());
  if (setup.world > 1) setup.store->store->set(kIdKey, std::vector<uint8_t>(id.begin(), id.end()));
  return id;
}

}  // namespace

Result<std::shared_ptr<GpuPeers>> GpuPeers::open(const Collectives::Setup& setup) {
  ASSIGN_OR_RETURN(const std::shared_ptr<const Nccl> nccl, Nccl::open());
  // The interface that ranks may listen on, and no other ("=": this very name).
  const std::string interface = interface_of(setup.address);
  if (!interface.empty()) setenv("NCCL_SOCKET_IFNAME", ("=" + interface).c_str(), /*overwrite=*/0);
  ASSIGN_OR_RETURN(const Bytes id, agree_on_id(*nccl, setup));
  ASSIGN_OR_RETURN(
      std::unique_ptr<NcclGroup> group,
      NcclGroup::join(nccl, id, static_cast<int>(setup.rank), static_cast<int>(setup.world)));
  const c10::Stream stream =
      c10::impl::VirtualGuardImpl(gpu().type()).getStreamFromGlobalPool(gpu());
  return std::shared_ptr<GpuPeers>(new GpuPeers(std::move(group), stream, *setup.clock));
}

template <typename Put>
Result<std::shared_ptr<GpuCollective>> GpuPeers::start(const torch::Tensor& tensor, Put put) {
  ASSIGN_OR_RETURN(const NcclType type, type_of(tensor));
  const c10::impl::VirtualGuardImpl guard(gpu().type());
  c10::Event ready(gpu().type());
  ready.record(guard.getStream(gpu()));
  ready.block(stream_);
  RETURN_IF_ERROR(put(type));
  guard.recordDataPtrOnStream(tensor.storage().data_ptr(), stream_);
  auto started = std::make_shared<GpuCollective>(
      GpuCollective{.tensor = tensor, .done = c10::Event(gpu().type())});
  started->done.record(stream_);
  return started;
}

Result<std::shared_ptr<GpuCollective>> GpuPeers::start_reduction(const torch::Tensor& tensor,
                                                                 NcclReduction reduction) {
  return start(tensor, [&](NcclType type) {
    return group_->all_reduce(tensor.mutable_data_ptr(), static_cast<size_t>(tensor.numel()), type,
                              reduction, stream_.native_handle());
  });
}

Result<std::shared_ptr<GpuCollective>> GpuPeers::start_broadcast(const torch::Tensor& tensor,
                                                                 int64_t source) {
  return start(tensor, [&](NcclType type) {
    return group_->broadcast(tensor.mutable_data_ptr(), static_cast<size_t>(tensor.numel()), type,
                             static_cast<int>(source), stream_.native_handle());
  });
}

Status GpuPeers::wait(const GpuCollective& collective, const std::stop_token& over) {
  for (int looks = 0; !collective.done.query(); ++looks) {
    Status problem =
        over.stop_requested() ? fail(Code::unavailable, "the group is over") : Status();
    if (problem.has_value() && looks % kLooksBeforeSleeping == 0) problem = group_->problem();
    if (!problem.has_value()) {
      group_->give_up();
      return problem;
    }
    if (looks >= kLooksBeforeSleeping) clock_.wait_for(kBetweenLooks, over);
  }
  return {};
}

}  // namespace tern
