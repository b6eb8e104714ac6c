// Collectives between GPUs: NVIDIA's NCCL, which LibTorch's CUDA half brings along, by dlopen. The
// few functions that we call are declared here, so that no header of theirs is needed to build;
// names and numbers are NCCL's, which keeps them within version 2.
//
// Why not c10d's ProcessGroupNCCL: it is built on NCCL's headers, and its watchdog ends the process
// when a peer is lost, where a rank of ours is to go on with the others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "core/bytes.h"
#include "core/result.h"

namespace tern {

enum class NcclType { u8 = 1, i32 = 2, i64 = 4, f16 = 6, f32 = 7, f64 = 8, bf16 = 9 };
enum class NcclReduction { sum = 0, largest = 2 };

// NCCL's ncclUniqueId and ncclComm_t.
struct NcclId {
  char bytes[128];
};
using NcclComm = struct NcclCommTag*;

// The library's functions. Holds no state; safe from any thread. It stays loaded.
class Nccl {
 public:
  // `library` is libnccl.so.2, found as LibTorch finds it. not_found where there is none.
  static Result<std::shared_ptr<const Nccl>> open(const std::string& library = "libnccl.so.2");

  // What the ranks of one group know each other by: made by one, told to all.
  Result<Bytes> make_id() const;
  int version() const;  // 22706 is 2.27.6

 private:
  friend class NcclGroup;
  struct Functions {
    int (*get_version)(int* version);
    int (*get_id)(NcclId* id);
    int (*init)(NcclComm* comm, int world, NcclId id, int rank);
    int (*all_reduce)(const void* from, void* to, size_t count, int type, int reduction,
                      NcclComm comm, void* stream);
    int (*broadcast)(const void* from, void* to, size_t count, int type, int root, NcclComm comm,
                     void* stream);
    int (*get_async_error)(NcclComm comm, int* error);
    int (*abort)(NcclComm comm);
    int (*destroy)(NcclComm comm);
    const char* (*error_text)(int error);
  };
  explicit Nccl(const Functions& functions) : functions_(functions) {}
  Status status_of(int error, const char* doing) const;

  const Functions functions_;
};

// One rank's part of a group, on the GPU that was current when it was made. Collectives are put on
// a stream and return at once; every rank puts the same ones in the same order. Of one thread at a
// time.
class NcclGroup {
 public:
  // Blocks until all ranks have come, or NCCL gives up.
  static Result<std::unique_ptr<NcclGroup>> join(std::shared_ptr<const Nccl> nccl, const Bytes& id,
                                                 int rank, int world);
  // Waits for what is under way, unless it was given up.
  ~NcclGroup();
  NcclGroup(const NcclGroup&) = delete;
  NcclGroup& operator=(const NcclGroup&) = delete;

  // In place. `stream` is a cudaStream_t.
  Status all_reduce(void* data, size_t count, NcclType type, NcclReduction reduction, void* stream);
  Status broadcast(void* data, size_t count, NcclType type, int root, void* stream);

  // What went wrong since, as far as NCCL has seen it: a peer's connection that broke.
  Status problem() const;
  // Ends what is under way, whose results are then anything. Nothing may follow.
  void give_up();

 private:
  NcclGroup(std::shared_ptr<const Nccl> nccl, NcclComm comm)
      : nccl_(std::move(nccl)), comm_(comm) {}

  const std::shared_ptr<const Nccl> nccl_;
  NcclComm comm_;  // null: given up
};

}  // namespace tern
