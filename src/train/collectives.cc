#include "train/collectives.h"

#include <fmt/format.h>
// LibTorch's wheel has Gloo inside, but its headers expect Gloo's beside them (libgloo-dev). Only
// types behind pointers are used of those, and nothing of them is linked.
#define USE_C10D_GLOO
#include <torch/torch.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include <thread>

#include "core/mutex.h"
#include "train/collectives_torch.h"
#include "train/gpu_peers.h"
#include "train/rank_store.h"
#include "train/ring_bytes.h"

namespace tern {
namespace {

// To find and connect to each other, which takes milliseconds.
constexpr std::chrono::seconds kConnectTimeout{20};
// A collective may wait for as long as a leader that saves or restores takes: who is dead or hung
// is the supervisor's to see, and ends the generation. Where this is too short the group is made
// anew, and nothing is lost.
constexpr std::chrono::minutes kTimeout{10};
// For the end of a process: groups that broke are over in milliseconds, unless a link is cut.
constexpr std::chrono::seconds kLastWait{1};

}  // namespace

struct GlooPeers {
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group;
  PeerSockets sockets;
};

struct Graveyard::Threads {
  // Shared with the threads, which may outlive the graveyard.
  struct State {
    Mutex mutex;
    ConditionVariable ended;
    int64_t alive GUARDED_BY(mutex) = 0;
  };
  std::shared_ptr<State> state = std::make_shared<State>();

  // Runs `work` on a thread that nobody waits for, but for a moment at the end.
  template <typename Work>
  void run(Work work) {
    {
      const MutexLock lock(state->mutex);
      ++state->alive;
    }
    std::thread([state = state, work = std::move(work)]() mutable {
      work();
      const MutexLock lock(state->mutex);
      --state->alive;
      state->ended.notify_all();
    }).detach();
  }
};

Graveyard::Graveyard() : threads_(std::make_unique<Threads>()) {}

Graveyard::~Graveyard() {
  Threads::State& state = *threads_->state;
  MutexLock lock(state.mutex);
  state.ended.wait_for(lock, kLastWait, [&state] {
    state.mutex.assert_held();
    return state.alive == 0;
  });
}

namespace {

// A connection that is being made, by a thread that may be left to itself.
struct Connecting {
  std::mutex mutex;
  std::condition_variable_any changed;
  bool is_done = false;
  std::shared_ptr<GlooPeers> peers;
  std::shared_ptr<GpuPeers> gpus;
  std::string error;
};

std::shared_ptr<GlooPeers> connect_cpus(const Collectives::Setup& setup) {
  auto peers = std::make_shared<GlooPeers>();  // first: it tells the group's sockets from others
  auto options = c10d::ProcessGroupGloo::Options::create(kConnectTimeout);
  options->devices.push_back(
      c10d::ProcessGroupGloo::createDeviceForHostname(setup.address.c_str()));
  peers->group = c10::make_intrusive<c10d::ProcessGroupGloo>(
      setup.store->store, static_cast<int>(setup.rank), static_cast<int>(setup.world), options);
  peers->group->setTimeout(kTimeout);
  peers->sockets.find(static_cast<size_t>(setup.world - 1));
  return peers;
}

void connect(const Collectives::Setup& setup, const std::shared_ptr<Connecting>& result) {
  std::shared_ptr<GlooPeers> peers;
  std::shared_ptr<GpuPeers> gpus;
  std::string error;
  try {
    if (setup.world > 1) peers = connect_cpus(setup);
    if (setup.has_gpu) {
      Result<std::shared_ptr<GpuPeers>> opened = GpuPeers::open(setup);
      if (opened.has_value()) {
        gpus = std::move(*opened);
      } else {
        error = opened.error().to_string();
      }
    }
  } catch (const std::exception& thrown) {
    error = thrown.what();
    peers.reset();
  }
  const std::lock_guard lock(result->mutex);
  result->is_done = true;
  result->peers = std::move(peers);
  result->gpus = std::move(gpus);
  result->error = std::move(error);
  result->changed.notify_all();
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

Error rank_lost(const std::string& why) {
  return fail(Code::unavailable, "a rank was lost" + (why.empty() ? "" : ": " + first_line(why)));
}

}  // namespace

template <typename Start>
PendingCollective Collectives::Torch::begin(int64_t bytes, Start start) {
  if (peers == nullptr || is_broken) return {};
  use.bytes += bytes;
  try {
    PendingCollective pending{start()->getFuture()};
    pending.future->addCallback([ring = bell](c10::ivalue::Future&) {
      const std::lock_guard lock(ring->mutex);
      ring->rung.notify_all();
    });
    return pending;
  } catch (const std::exception& error) {
    is_broken = true;
    why_broken = error.what();
    return {};
  }
}

template <typename Start>
PendingCollective Collectives::Torch::begin_on_gpu(int64_t bytes, Start start) {
  if (gpus == nullptr || is_broken) return {};
  use.bytes += bytes;
  Result<std::shared_ptr<GpuCollective>> started = start();
  if (started.has_value()) return {.on_gpu = std::move(*started)};
  is_broken = true;
  why_broken = started.error().to_string();
  return {};
}

PendingCollective Collectives::Torch::start_reduction(const torch::Tensor& tensor,
                                                      Reduction reduction) {
  const int64_t bytes =
      ring_bytes(static_cast<int64_t>(tensor.nbytes()), static_cast<int64_t>(tensor.element_size()),
                 setup.world, setup.rank);
  if (tensor.is_cuda()) {
    return begin_on_gpu(bytes, [&] {
      return gpus->start_reduction(
          tensor, reduction == Reduction::largest ? NcclReduction::largest : NcclReduction::sum);
    });
  }
  return begin(bytes, [&] {
    std::vector<torch::Tensor> tensors = {tensor};
    c10d::AllreduceOptions options;
    if (reduction == Reduction::largest) options.reduceOp = c10d::ReduceOp::MAX;
    return peers->group->allreduce(tensors, options);
  });
}

PendingCollective Collectives::Torch::start_broadcast(const torch::Tensor& tensor, int64_t source) {
  if (tensor.is_cuda()) {
    return begin_on_gpu(setup.rank == source ? static_cast<int64_t>(tensor.nbytes()) : 0,
                        [&] { return gpus->start_broadcast(tensor, source); });
  }
  return begin(setup.rank == source ? static_cast<int64_t>(tensor.nbytes()) : 0, [&] {
    std::vector<torch::Tensor> tensors = {tensor};
    c10d::BroadcastOptions options;
    options.rootRank = source;
    return peers->group->broadcast(tensors, options);
  });
}

Status Collectives::Torch::wait_for_gpu(const GpuCollective& collective) {
  const Nanoseconds start = setup.clock->now();
  const Status done = gpus->wait(collective, setup.over);
  use.waited += setup.clock->now() - start;
  if (done.has_value()) return {};
  is_broken = true;
  why_broken = done.error().to_string();
  return rank_lost(why_broken);
}

Status Collectives::Torch::wait(const PendingCollective& pending) {
  if (pending.on_gpu != nullptr && !is_broken) return wait_for_gpu(*pending.on_gpu);
  if (!is_broken && pending.future != nullptr && !pending.future->completed()) {
    const Nanoseconds start = setup.clock->now();
    is_waiting = true;
    std::unique_lock lock(bell->mutex);
    bell->rung.wait(lock, setup.over, [&] { return pending.future->completed(); });
    lock.unlock();
    is_waiting = false;
    use.waited += setup.clock->now() - start;
  }
  if (is_broken) return rank_lost(why_broken);
  if (pending.future == nullptr) return {};
  if (!pending.future->completed()) {
    is_broken = true;
    why_broken = "the group is over";
  } else if (pending.future->hasError()) {
    is_broken = true;
    why_broken = pending.future->tryRetrieveErrorMessage();
  }
  return is_broken ? rank_lost(why_broken) : Status();
}

Collectives::Collectives(const Setup& setup, std::unique_ptr<Torch> torch)
    : setup_(setup), torch_(std::move(torch)) {}

Result<std::unique_ptr<Collectives>> Collectives::open(const Setup& setup) {
  auto torch = std::make_unique<Torch>(setup);
  if (setup.world > 1 || setup.has_gpu) {
    const auto connecting = std::make_shared<Connecting>();
    setup.graveyard->threads().run([setup, connecting] { connect(setup, connecting); });
    std::unique_lock lock(connecting->mutex);
    connecting->changed.wait(lock, setup.over, [&] { return connecting->is_done; });
    if (!connecting->is_done) return rank_lost("while the group was made");
    if (!connecting->error.empty()) return rank_lost(connecting->error);
    torch->gpus = std::move(connecting->gpus);
    torch->peers = std::move(connecting->peers);
  }
  return std::unique_ptr<Collectives>(new Collectives(setup, std::move(torch)));
}

// Its end is waited for by nobody: it takes some 20 ms, and in a group that is broken threads of
// Gloo may hang. It is ended all the same: as each rank does so its neighbours' connections close,
// and theirs can end.
Collectives::~Collectives() {
  if (torch_->peers == nullptr) return;
  setup_.graveyard->threads().run([peers = std::move(torch_->peers)]() mutable { peers.reset(); });
}

bool Collectives::is_broken() const { return torch_->is_broken || setup_.over.stop_requested(); }

bool Collectives::is_waiting() const { return torch_->is_waiting; }

CommunicationUse Collectives::use() const {
  CommunicationUse use = torch_->use;
  if (torch_->peers != nullptr && !is_broken()) use.measured = torch_->peers->sockets.bytes();
  return use;
}

namespace {

// LibTorch throws where Gloo's threads would not.
template <typename Work>
auto caught(Work work) -> decltype(work()) {
  try {
    return work();
  } catch (const std::exception& error) {
    return fail(Code::internal, fmt::format("talk to the other ranks: {}", error.what()));
  }
}

}  // namespace

Result<std::vector<double>> Collectives::sum(std::vector<double> numbers) {
  return caught([&]() -> Result<std::vector<double>> {
    // Memory of its own: a collective that is given up may still be writing to it.
    const torch::Tensor tensor =
        torch::from_blob(numbers.data(), {static_cast<int64_t>(numbers.size())}, torch::kFloat64)
            .clone();
    RETURN_IF_ERROR(torch_->wait(torch_->start_reduction(tensor, Torch::Reduction::sum)));
    const auto* sums = tensor.const_data_ptr<double>();
    numbers.assign(sums, sums + tensor.numel());
    return numbers;
  });
}

Result<Bytes> Collectives::broadcast(Bytes bytes, int64_t source) {
  return caught([&]() -> Result<Bytes> {
    const torch::Tensor size = torch::full({1}, static_cast<int64_t>(bytes.size()), torch::kInt64);
    RETURN_IF_ERROR(torch_->wait(torch_->start_broadcast(size, source)));
    const int64_t count = size.const_data_ptr<int64_t>()[0];
    torch::Tensor tensor = torch::empty({count}, torch::kUInt8);
    if (rank() == source) std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    RETURN_IF_ERROR(torch_->wait(torch_->start_broadcast(tensor, source)));
    if (rank() == source) return bytes;
    return Bytes(static_cast<const char*>(tensor.const_data_ptr()), static_cast<size_t>(count));
  });
}

}  // namespace tern
